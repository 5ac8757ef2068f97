/* SPDX-License-Identifier: Apache-2.0 */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/fakes/cuda.h"

/* ---- virtual memory management: it belongs to the process and needs no context */

size_t fake_cuda_used(void)
{
	size_t sum = 0;

	for (int i = 0; i < FAKE_CUDA_THINGS; i++)
		sum += fake_cuda_thing[i].kind == HANDLE ? fake_cuda_thing[i].bytes : 0;
	return sum;
}

CUresult fake_MemGetAllocationGranularity(size_t *bytes, const CUmemAllocationProp *prop,
					  CUmemAllocationGranularity_flags option)
{
	ENTER("cuMemGetAllocationGranularity");
	*bytes = FAKE_CUDA_GRANULARITY;
	return CUDA_SUCCESS;
}

CUresult fake_MemCreate(CUmemGenericAllocationHandle *handle, size_t bytes,
			const CUmemAllocationProp *prop, unsigned long long flags)
{
	struct fake_cuda_thing *r;

	ENTER("cuMemCreate");
	if (bytes == 0 || bytes % FAKE_CUDA_GRANULARITY ||
	    prop->type != CU_MEM_ALLOCATION_TYPE_PINNED)
		return CUDA_ERROR_INVALID_VALUE;
	if (bytes > fake_cuda.memory - fake_cuda_used())
		return CUDA_ERROR_OUT_OF_MEMORY;
	r = fake_cuda_take(HANDLE, fake_cuda_new_id(), bytes);
	r->fd = memfd_create("fake", MFD_CLOEXEC);
	/* Like real drivers: memory is either accessible to other devices or compressible. */
	r->compressible = prop->allocFlags.compressionType &&
			  !prop->allocFlags.gpuDirectRDMACapable && !fake_cuda.not_compressible;
	r->rdma = prop->allocFlags.gpuDirectRDMACapable;
	if (r->fd < 0 || ftruncate(r->fd, (off_t)bytes) != 0)
		abort();
	*handle = r->at;
	return CUDA_SUCCESS;
}

CUresult fake_MemRelease(CUmemGenericAllocationHandle handle)
{
	struct fake_cuda_thing *r = fake_cuda_find(HANDLE, handle);

	ENTER("cuMemRelease");
	if (!r)
		return CUDA_ERROR_INVALID_VALUE;
	close(r->fd);
	r->kind = NONE;
	return CUDA_SUCCESS;
}

CUresult fake_MemAddressReserve(CUdeviceptr *at, size_t bytes, size_t alignment, CUdeviceptr wish,
				unsigned long long flags)
{
	void *memory;

	ENTER("cuMemAddressReserve");
	if (bytes == 0 || bytes % FAKE_CUDA_GRANULARITY)
		return CUDA_ERROR_INVALID_VALUE;
	memory = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (memory == MAP_FAILED)
		return CUDA_ERROR_OUT_OF_MEMORY;
	fake_cuda_take(RESERVED, (uintptr_t)memory, bytes);
	*at = (uintptr_t)memory;
	return CUDA_SUCCESS;
}

CUresult fake_MemAddressFree(CUdeviceptr at, size_t bytes)
{
	struct fake_cuda_thing *r = fake_cuda_find(RESERVED, at);

	ENTER("cuMemAddressFree");
	if (!r || r->bytes != bytes)
		return CUDA_ERROR_INVALID_VALUE;
	munmap((void *)at, bytes);
	r->kind = NONE;
	return CUDA_SUCCESS;
}

static bool is_reserved(CUdeviceptr at, size_t bytes)
{
	for (int i = 0; i < FAKE_CUDA_THINGS; i++)
		if (fake_cuda_thing[i].kind == RESERVED && at >= fake_cuda_thing[i].at &&
		    at + bytes <= fake_cuda_thing[i].at + fake_cuda_thing[i].bytes)
			return true;
	return false;
}

CUresult fake_MemMap(CUdeviceptr at, size_t bytes, size_t offset,
		     CUmemGenericAllocationHandle handle, unsigned long long flags)
{
	const struct fake_cuda_thing *r = fake_cuda_find(HANDLE, handle);

	ENTER("cuMemMap");
	if (!r || offset || bytes != r->bytes || !is_reserved(at, bytes) ||
	    fake_cuda_find(MAPPED, at))
		return CUDA_ERROR_INVALID_VALUE;
	if (mmap((void *)at, bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, r->fd, 0) == MAP_FAILED)
		abort();
	fake_cuda_take(MAPPED, at, bytes)->handle = handle;
	return CUDA_SUCCESS;
}

CUresult fake_MemUnmap(CUdeviceptr at, size_t bytes)
{
	struct fake_cuda_thing *r = fake_cuda_find(MAPPED, at);

	ENTER("cuMemUnmap");
	if (!r || r->bytes != bytes)
		return CUDA_ERROR_INVALID_VALUE;
	if (mmap((void *)at, bytes, PROT_NONE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED)
		abort();
	r->kind = NONE;
	return CUDA_SUCCESS;
}

CUresult fake_MemSetAccess(CUdeviceptr at, size_t bytes, const CUmemAccessDesc *access,
			   size_t count)
{
	ENTER("cuMemSetAccess");
	for (size_t i = 0; i < count; i++)
		if (access[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
		    access[i].location.id >= fake_cuda.devices ||
		    access[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
			return CUDA_ERROR_INVALID_VALUE;
	if (!fake_cuda_find(MAPPED, at) || mprotect((void *)at, bytes, PROT_READ | PROT_WRITE) != 0)
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

CUresult fake_MemGetAllocationPropertiesFromHandle(CUmemAllocationProp *prop,
						   CUmemGenericAllocationHandle handle)
{
	const struct fake_cuda_thing *r = fake_cuda_find(HANDLE, handle);

	ENTER("cuMemGetAllocationPropertiesFromHandle");
	if (!r)
		return CUDA_ERROR_INVALID_VALUE;
	memset(prop, 0, sizeof *prop);
	prop->allocFlags.compressionType = r->compressible ? CU_MEM_ALLOCATION_COMP_GENERIC : 0;
	return CUDA_SUCCESS;
}

CUresult fake_MemExportToShareableHandle(void *shareable, CUmemGenericAllocationHandle handle,
					 CUmemAllocationHandleType type, unsigned long long flags)
{
	const struct fake_cuda_thing *r = fake_cuda_find(HANDLE, handle);

	ENTER("cuMemExportToShareableHandle");
	if (!r || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		return CUDA_ERROR_INVALID_VALUE;
	*(int *)shareable = dup(r->fd);
	return CUDA_SUCCESS;
}

/* A DMA-BUF is the memory itself, of one whole mapping. */
CUresult fake_MemGetHandleForAddressRange(void *handle, CUdeviceptr at, size_t bytes,
					  CUmemRangeHandleType type, unsigned long long flags)
{
	const struct fake_cuda_thing *mapping = fake_cuda_find(MAPPED, at);
	const struct fake_cuda_thing *r = mapping ? fake_cuda_find(HANDLE, mapping->handle) : NULL;

	ENTER_CONTEXT("cuMemGetHandleForAddressRange");
	if (type != CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD ||
	    (flags && flags != CU_MEM_RANGE_FLAG_DMA_BUF_MAPPING_TYPE_PCIE) || !r ||
	    bytes > mapping->bytes)
		return CUDA_ERROR_INVALID_VALUE;
	if (!r->rdma || (flags && fake_cuda.no_pcie_choice))
		return CUDA_ERROR_NOT_SUPPORTED;
	*(int *)handle = dup(r->fd);
	return CUDA_SUCCESS;
}

CUresult fake_FlushGPUDirectRDMAWrites(CUflushGPUDirectRDMAWritesTarget target,
				       CUflushGPUDirectRDMAWritesScope scope)
{
	ENTER_CONTEXT("cuFlushGPUDirectRDMAWrites");
	if (target != CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX ||
	    scope != CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER)
		return CUDA_ERROR_INVALID_VALUE;
	fake_cuda.flushes++;
	return CUDA_SUCCESS;
}

/* ---- memory */

CUresult fake_MemGetInfo(size_t *left, size_t *all)
{
	ENTER_CONTEXT("cuMemGetInfo");
	*all = fake_cuda.memory;
	*left = fake_cuda.memory - fake_cuda_used();
	return CUDA_SUCCESS;
}

CUresult fake_MemAlloc(CUdeviceptr *memory, size_t bytes)
{
	ENTER_CONTEXT("cuMemAlloc");
	if (bytes == 0)
		return CUDA_ERROR_INVALID_VALUE;
	*memory = (uintptr_t)malloc(bytes);
	fake_cuda_take(MEMORY, *memory, bytes);
	return CUDA_SUCCESS;
}

CUresult fake_MemFree(CUdeviceptr memory)
{
	struct fake_cuda_thing *r = fake_cuda_find(MEMORY, memory);

	ENTER_CONTEXT("cuMemFree");
	if (!r)
		return CUDA_ERROR_INVALID_VALUE;
	free((void *)memory);
	r->kind = NONE;
	return CUDA_SUCCESS;
}

CUresult fake_MemHostAlloc(void **memory, size_t bytes, unsigned flags)
{
	ENTER_CONTEXT("cuMemHostAlloc");
	*memory = malloc(bytes);
	fake_cuda_take(HOST, (uintptr_t)*memory, bytes);
	return CUDA_SUCCESS;
}

CUresult fake_MemFreeHost(void *memory)
{
	struct fake_cuda_thing *r = fake_cuda_find(HOST, (uintptr_t)memory);

	ENTER_CONTEXT("cuMemFreeHost");
	if (!r)
		return CUDA_ERROR_INVALID_VALUE;
	free(memory);
	r->kind = NONE;
	return CUDA_SUCCESS;
}

CUresult fake_MemHostRegister(void *memory, size_t bytes, unsigned flags)
{
	ENTER_CONTEXT("cuMemHostRegister");
	if (fake_cuda_find(REGISTERED, (uintptr_t)memory))
		return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
	fake_cuda.registered_flags = flags;
	fake_cuda_take(REGISTERED, (uintptr_t)memory, bytes);
	return CUDA_SUCCESS;
}

CUresult fake_MemHostUnregister(void *memory)
{
	struct fake_cuda_thing *r = fake_cuda_find(REGISTERED, (uintptr_t)memory);

	ENTER_CONTEXT("cuMemHostUnregister");
	if (!r)
		return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
	r->kind = NONE;
	return CUDA_SUCCESS;
}

CUresult fake_MemHostGetDevicePointer(CUdeviceptr *at, void *memory, unsigned flags)
{
	ENTER_CONTEXT("cuMemHostGetDevicePointer");
	if (!fake_cuda_find(REGISTERED, (uintptr_t)memory))
		return CUDA_ERROR_INVALID_VALUE;
	*at = (uintptr_t)memory | FAKE_CUDA_HOST;
	return CUDA_SUCCESS;
}

CUresult fake_MemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
	ENTER_CONTEXT("cuMemcpyAsync");
	if (!fake_cuda_find(STREAM, (uintptr_t)stream))
		return CUDA_ERROR_INVALID_HANDLE;
	memcpy((void *)(to & ~FAKE_CUDA_HOST), (const void *)(from & ~FAKE_CUDA_HOST), bytes);
	return CUDA_SUCCESS;
}

CUresult fake_MemsetD8Async(CUdeviceptr at, unsigned char value, size_t bytes, CUstream stream)
{
	ENTER_CONTEXT("cuMemsetD8Async");
	if (!fake_cuda_find(STREAM, (uintptr_t)stream))
		return CUDA_ERROR_INVALID_HANDLE;
	memset((void *)at, value, bytes);
	return CUDA_SUCCESS;
}

/* ---- streams, events */

CUresult fake_StreamCreate(CUstream *stream, unsigned flags)
{
	ENTER_CONTEXT("cuStreamCreate");
	if (flags != CU_STREAM_NON_BLOCKING)
		return CUDA_ERROR_INVALID_VALUE;
	*stream = (CUstream)fake_cuda_take(STREAM, fake_cuda_new_id(), 0)->at;
	return CUDA_SUCCESS;
}

static CUresult drop(const char *name, enum fake_cuda_kind kind, uintptr_t at)
{
	struct fake_cuda_thing *r = fake_cuda_find(kind, at);

	ENTER_CONTEXT(name);
	if (!r)
		return CUDA_ERROR_INVALID_HANDLE;
	r->kind = NONE;
	return CUDA_SUCCESS;
}

CUresult fake_StreamDestroy(CUstream stream)
{
	return drop("cuStreamDestroy", STREAM, (uintptr_t)stream);
}

CUresult fake_EventCreate(CUevent *event, unsigned flags)
{
	ENTER_CONTEXT("cuEventCreate");
	*event = (CUevent)fake_cuda_take(EVENT, fake_cuda_new_id(), 0)->at;
	return CUDA_SUCCESS;
}

CUresult fake_EventDestroy(CUevent event)
{
	return drop("cuEventDestroy", EVENT, (uintptr_t)event);
}

CUresult fake_EventRecord(CUevent event, CUstream stream)
{
	struct fake_cuda_thing *r = fake_cuda_find(EVENT, (uintptr_t)event);

	ENTER_CONTEXT("cuEventRecord");
	if (!r || !fake_cuda_find(STREAM, (uintptr_t)stream))
		return CUDA_ERROR_INVALID_HANDLE;
	r->pending = atomic_exchange(&fake_cuda_stream_polls, 0);
	return CUDA_SUCCESS;
}

CUresult fake_EventQuery(CUevent event)
{
	struct fake_cuda_thing *r = fake_cuda_find(EVENT, (uintptr_t)event);

	ENTER_CONTEXT("cuEventQuery");
	if (!r)
		return CUDA_ERROR_INVALID_HANDLE;
	if (fake_cuda.busy)
		return CUDA_ERROR_NOT_READY;
	if (r->pending == 0)
		return CUDA_SUCCESS;
	if (r->pending != UINT32_MAX)
		r->pending--;
	return CUDA_ERROR_NOT_READY;
}

/* ---- linking, modules, execution. The handle of an entry point is its name. */

static void **link_values;

static void link_says(void)
{
	if (fake_cuda.jit_log)
		memcpy(link_values[0], fake_cuda.jit_log, strlen(fake_cuda.jit_log) + 1);
	if (fake_cuda.jit_info)
		memcpy(link_values[2], fake_cuda.jit_info, strlen(fake_cuda.jit_info) + 1);
}

CUresult fake_LinkCreate(unsigned options, CUjit_option *option, void **value, CUlinkState *state)
{
	ENTER_CONTEXT("cuLinkCreate");
	if (options < 1 || option[0] != CU_JIT_ERROR_LOG_BUFFER)
		return CUDA_ERROR_INVALID_VALUE;
	link_values = value;
	fake_cuda.parts = 0;
	*state = (CUlinkState)fake_cuda_take(LINK, fake_cuda_new_id(), 0)->at;
	return CUDA_SUCCESS;
}

CUresult fake_LinkAddData(CUlinkState state, CUjitInputType type, void *data, size_t bytes,
			  const char *name, unsigned options, CUjit_option *option, void **value)
{
	link_says();
	ENTER_CONTEXT("cuLinkAddData");
	if (!fake_cuda_find(LINK, (uintptr_t)state) || type != CU_JIT_INPUT_FATBINARY || !data ||
	    !bytes || !name || options)
		return CUDA_ERROR_INVALID_VALUE;
	fake_cuda.parts++;
	fake_cuda.part_bytes = bytes;
	return CUDA_SUCCESS;
}

CUresult fake_LinkComplete(CUlinkState state, void **image, size_t *bytes)
{
	static char linked[] = "linked";

	link_says();
	ENTER_CONTEXT("cuLinkComplete");
	if (!fake_cuda_find(LINK, (uintptr_t)state))
		return CUDA_ERROR_INVALID_VALUE;
	*image = linked;
	*bytes = sizeof linked;
	return CUDA_SUCCESS;
}

CUresult fake_LinkDestroy(CUlinkState state)
{
	return drop("cuLinkDestroy", LINK, (uintptr_t)state);
}

static char pipe_entry[] = "hr_entry_pipe", bench_entry[] = "hr_entry_bench",
	    probe_entry[] = "hr_entry_probe", access_entry[] = "hr_entry_access",
	    tap_entry[] = "hr_entry_tap", feed_entry[] = "hr_entry_feed",
	    wide_entry[] = "hr_entry_access_wide", prefetch_role[] = "hr_role_prefetch",
	    compute_role[] = "hr_role_compute", writeback_role[] = "hr_role_writeback";
static char *const known_entry[] = { pipe_entry,   bench_entry,	  probe_entry, access_entry,
				     tap_entry,	   feed_entry,	  wide_entry,  prefetch_role,
				     compute_role, writeback_role };

/* An entry point with twice the registers has half of the threads. */
static int part_of(CUfunction fn)
{
	return fn == (CUfunction)wide_entry ? 2 : 1;
}

CUresult fake_ModuleLoadDataEx(CUmodule *module, const void *image, unsigned options,
			       CUjit_option *option, void **value)
{
	for (unsigned i = 0; fake_cuda.jit_log && i < options; i++)
		if (option[i] == CU_JIT_ERROR_LOG_BUFFER)
			memcpy(value[i], fake_cuda.jit_log, strlen(fake_cuda.jit_log) + 1);
	ENTER_CONTEXT("cuModuleLoadDataEx");
	*module = (CUmodule)fake_cuda_take(MODULE, fake_cuda_new_id(), 0)->at;
	return CUDA_SUCCESS;
}

CUresult fake_ModuleUnload(CUmodule module)
{
	return drop("cuModuleUnload", MODULE, (uintptr_t)module);
}

CUresult fake_ModuleGetFunction(CUfunction *function, CUmodule module, const char *name)
{
	ENTER_CONTEXT("cuModuleGetFunction");
	if (!fake_cuda_find(MODULE, (uintptr_t)module))
		return CUDA_ERROR_INVALID_HANDLE;
	for (size_t i = 0; i < sizeof known_entry / sizeof *known_entry; i++) {
		if (strcmp(known_entry[i], name) == 0) {
			*function = (CUfunction)known_entry[i];
			return CUDA_SUCCESS;
		}
	}
	return CUDA_ERROR_NOT_FOUND;
}

CUresult fake_FuncGetAttribute(int *value, CUfunction_attribute attribute, CUfunction fn)
{
	ENTER_CONTEXT("cuFuncGetAttribute");
	*value = attribute == CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK
			 ? fake_cuda.entry_threads / part_of(fn)
		 : attribute == CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES  ? fake_cuda.local_bytes
		 : attribute == CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES ? 1024
		 : attribute == CU_FUNC_ATTRIBUTE_BINARY_VERSION    ? 90
								    : 40;
	return CUDA_SUCCESS;
}

CUresult fake_FuncSetAttribute(CUfunction fn, CUfunction_attribute attribute, int value)
{
	ENTER_CONTEXT("cuFuncSetAttribute");
	if (attribute == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES)
		fake_cuda.dynamic_shared = value;
	return CUDA_SUCCESS;
}

CUresult fake_OccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction fn, int threads,
							size_t shared_bytes)
{
	ENTER_CONTEXT("cuOccupancyMaxActiveBlocksPerMultiprocessor");
	*blocks = fake_cuda.blocks_per_processor * 32 / part_of(fn) / threads;
	return CUDA_SUCCESS;
}

CUresult fake_LaunchCooperativeKernel(CUfunction fn, unsigned x, unsigned y, unsigned z,
				      unsigned tx, unsigned ty, unsigned tz, unsigned shared,
				      CUstream stream, void **parameters)
{
	ENTER_CONTEXT("cuLaunchCooperativeKernel");
	if (shared + 1024 > 48u << 10 && (int)shared > fake_cuda.dynamic_shared)
		return CUDA_ERROR_INVALID_VALUE; /* the entry point itself uses 1 KiB */
	if (!fake_cuda_find(STREAM, (uintptr_t)stream) || y != 1 || z != 1 || ty != 1 || tz != 1)
		return CUDA_ERROR_INVALID_VALUE;
	fake_cuda.last = (struct fake_cuda_launch){ (const char *)fn, *(void **)parameters[0], x,
						    tx, shared };
	fake_cuda.launches++;
	fake_cuda_stream_polls = fake_cuda.polls;
	if (fake_cuda.run)
		fake_cuda.run(&fake_cuda.last);
	return CUDA_SUCCESS;
}
