/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GPU memory whose dma-buf cannot be mapped, as with real drivers: the fake device accesses it by
 * copies of the CUDA driver, which the process under test has loaded. The address of the region
 * for work requests is that for workers.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>
#include <string.h>

#include "tests/fakes/ibverbs/fake.h"

enum { SUCCESS = 0, STREAM_NON_BLOCKING = 1, ORDINAL_OF_POINTER = 9 };

/* Of cuda.h, which the machine that builds this may lack. */
static struct {
	int (*pointer_attribute)(void *value, int attribute, uint64_t at);
	int (*retain)(void **context, int device);
	int (*set_current)(void *context);
	int (*stream_create)(void **stream, unsigned flags);
	int (*host_alloc)(void **at, size_t bytes, unsigned flags);
	int (*copy)(uint64_t to, uint64_t from, size_t bytes, void *stream);
	int (*synchronize)(void *stream);
	void *context, *stream, *staging;
} cuda;

static bool find(void)
{
	static const struct {
		const char *name;
		size_t at;
	} row[] = {
		{ "cuPointerGetAttribute", offsetof(__typeof__(cuda), pointer_attribute) },
		{ "cuDevicePrimaryCtxRetain", offsetof(__typeof__(cuda), retain) },
		{ "cuCtxSetCurrent", offsetof(__typeof__(cuda), set_current) },
		{ "cuStreamCreate", offsetof(__typeof__(cuda), stream_create) },
		{ "cuMemHostAlloc", offsetof(__typeof__(cuda), host_alloc) },
		{ "cuMemcpyAsync", offsetof(__typeof__(cuda), copy) },
		{ "cuStreamSynchronize", offsetof(__typeof__(cuda), synchronize) },
	};
	void *library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);

	for (size_t i = 0; library && i < sizeof row / sizeof *row; i++) {
		void *symbol = dlsym(library, row[i].name);

		if (!symbol)
			return false;
		memcpy((char *)&cuda + row[i].at, &symbol, sizeof symbol);
	}
	return library;
}

/* Before a launch: allocations of the driver may wait for its end. */
static bool prepare(uint64_t at)
{
	int device = 0;

	if (cuda.staging)
		return cuda.set_current(cuda.context) == SUCCESS;
	return find() && cuda.retain(&cuda.context, 0) == SUCCESS &&
	       cuda.set_current(cuda.context) == SUCCESS &&
	       cuda.pointer_attribute(&device, ORDINAL_OF_POINTER, at) == SUCCESS &&
	       cuda.retain(&cuda.context, device) == SUCCESS &&
	       cuda.set_current(cuda.context) == SUCCESS &&
	       cuda.stream_create(&cuda.stream, STREAM_NON_BLOCKING) == SUCCESS &&
	       cuda.host_alloc(&cuda.staging, FAKE_SEGMENT, 0) == SUCCESS;
}

bool fake_gpu_has(uint64_t at)
{
	uint8_t byte;

	return prepare(at) && fake_gpu_load(at, &byte, 1);
}

bool fake_gpu_load(uint64_t at, void *to, uint32_t bytes)
{
	if (!prepare(at) ||
	    cuda.copy((uint64_t)(uintptr_t)cuda.staging, at, bytes, cuda.stream) != SUCCESS ||
	    cuda.synchronize(cuda.stream) != SUCCESS)
		return false;
	memcpy(to, cuda.staging, bytes);
	return true;
}

bool fake_gpu_store(uint64_t at, const void *from, uint32_t bytes)
{
	if (!prepare(at))
		return false;
	memcpy(cuda.staging, from, bytes);
	return cuda.copy(at, (uint64_t)(uintptr_t)cuda.staging, bytes, cuda.stream) == SUCCESS &&
	       cuda.synchronize(cuda.stream) == SUCCESS;
}
