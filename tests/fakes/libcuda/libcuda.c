/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A libcuda.so.1 without a GPU: its memory objects are memfds, and its streams run nothing; the test
 * sees what they were given.
 */
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/fakes/libcuda/control.h"

#define FAILED 999

struct fake_libcuda fake_libcuda;

struct access {
	struct {
		int type, id;
	} location;
	int flags;
};

#define MUST(condition)                       \
	do {                                  \
		if (!(condition))             \
			fake_libcuda.wrong++; \
	} while (0)
#define ENTER()                                                    \
	do {                                                       \
		if (fake_libcuda.fail && --fake_libcuda.fail == 0) \
			return FAILED;                             \
	} while (0)

int cuInit(unsigned flags)
{
	ENTER();
	return fake_libcuda.devices ? 0 : 100 /* CUDA_ERROR_NO_DEVICE */;
}

int cuGetErrorName(int error, const char **name)
{
	*name = error == FAILED ? "CUDA_ERROR_UNKNOWN" : NULL;
	return *name ? 0 : 1;
}

int cuDeviceGetCount(int *count)
{
	ENTER();
	*count = fake_libcuda.devices;
	return 0;
}

int cuDeviceGet(int *d, int ordinal)
{
	ENTER();
	*d = 70 + ordinal;
	return 0;
}

int cuDeviceGetUuid_v2(uint8_t *uuid, int d)
{
	ENTER();
	memcpy(uuid, fake_libcuda.uuid[d - 70], 16);
	return 0;
}

int cuDeviceCanAccessPeer(int *can, int d, int peer)
{
	ENTER();
	MUST(d != peer);
	*can = !fake_libcuda.no_peers;
	return 0;
}

int cuDevicePrimaryCtxRetain(void **context, int d)
{
	ENTER();
	fake_libcuda.context_of = d;
	*context = &fake_libcuda;
	fake_libcuda.contexts++;
	return 0;
}

int cuDevicePrimaryCtxRelease_v2(int d)
{
	fake_libcuda.contexts--;
	return 0;
}

int cuCtxPushCurrent_v2(void *context)
{
	ENTER();
	fake_libcuda.current++;
	return 0;
}

int cuCtxPopCurrent_v2(void **context)
{
	fake_libcuda.current--;
	return 0;
}

int cuCtxSynchronize(void)
{
	fake_libcuda.synchronized++;
	return 0;
}

int cuMemImportFromShareableHandle(uint64_t *handle, void *os_handle, int type)
{
	ENTER();
	MUST(type == 1);
	*handle = (uint64_t)dup((int)(intptr_t)os_handle);
	fake_libcuda.handles++;
	return 0;
}

int cuMemAddressReserve(uint64_t *at, size_t bytes, size_t align, uint64_t wish,
			unsigned long long flags)
{
	ENTER();
	*at = (uintptr_t)mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	fake_libcuda.reserved++;
	return 0;
}

int cuMemAddressFree(uint64_t at, size_t bytes)
{
	munmap((void *)(uintptr_t)at, bytes);
	fake_libcuda.reserved--;
	return 0;
}

int cuMemMap(uint64_t at, size_t bytes, size_t offset, uint64_t handle, unsigned long long flags)
{
	ENTER();
	MUST(bytes == fake_libcuda.bytes);
	if (mmap((void *)(uintptr_t)at, bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, (int)handle, 0) ==
	    MAP_FAILED)
		return FAILED;
	fake_libcuda.mapped++;
	return 0;
}

int cuMemUnmap(uint64_t at, size_t bytes)
{
	MUST(fake_libcuda.synchronized); /* kernels may still read the tiles */
	fake_libcuda.mapped--;
	return 0;
}

int cuMemRelease(uint64_t handle)
{
	close((int)handle);
	fake_libcuda.handles--;
	return 0;
}

int cuMemSetAccess(uint64_t at, size_t bytes, const struct access *access, size_t count)
{
	ENTER();
	MUST(access->location.type == 1);
	if (fake_libcuda.only_both && access->flags != (PROT_READ | PROT_WRITE))
		return FAILED;
	fake_libcuda.flags = access->flags;
	fake_libcuda.user = access->location.id;
	return mprotect((void *)(uintptr_t)at, bytes, access->flags);
}

int cuMemHostRegister_v2(void *memory, size_t bytes, unsigned flags)
{
	ENTER();
	if (fake_libcuda.no_stream_writes)
		return FAILED;
	fake_libcuda.registered++;
	return 0;
}

int cuMemHostUnregister(void *memory)
{
	fake_libcuda.registered--;
	return 0;
}

int cuMemHostGetDevicePointer_v2(uint64_t *at, void *memory, unsigned flags)
{
	ENTER();
	*at = (uintptr_t)memory | FAKE_LIBCUDA_HOST;
	return 0;
}

int cuStreamSynchronize(void *stream)
{
	ENTER();
	fake_libcuda.stream = stream;
	return 0;
}

int cuStreamWriteValue32_v2(void *stream, uint64_t at, uint32_t value, unsigned flags)
{
	ENTER();
	MUST(fake_libcuda.current == 1); /* the context */
	fake_libcuda.stream = stream;
	fake_libcuda.at = at;
	fake_libcuda.value = value;
	return 0;
}

int cuStreamWriteValue64_v2(void *stream, uint64_t at, uint64_t value, unsigned flags)
{
	if (fake_libcuda.no_64_bits)
		return FAILED;
	ENTER();
	MUST(fake_libcuda.current == 1); /* the context */
	fake_libcuda.stream = stream;
	fake_libcuda.at = at;
	fake_libcuda.value = value;
	return 0;
}
