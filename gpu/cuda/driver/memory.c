/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/cuda/driver/memory.h"

#include <errno.h>
#include <string.h>

#include "config/base/log.h"

/* Newer than the headers of CUDA 13.0. */
#define ATTRIBUTE_DMA_BUF_MMAP ((CUdevice_attribute)152)

static size_t round_up(const struct hr_cuda_gpu *gpu, size_t bytes)
{
	const size_t mask = (size_t)gpu->facts.granularity - 1;

	return bytes > SIZE_MAX - mask ? 0 : (bytes + mask) & ~mask;
}

static CUmemAllocationProp properties(const struct hr_cuda_gpu *gpu,
				      const struct hr_cuda_arena *arena)
{
	CUmemAllocationProp prop = { .type = CU_MEM_ALLOCATION_TYPE_PINNED };

	prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	prop.location.id = gpu->device;
	if (arena->exportable)
		prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	prop.allocFlags.gpuDirectRDMACapable = arena->rdma;
	if (arena->want_compressible)
		prop.allocFlags.compressionType = CU_MEM_ALLOCATION_COMP_GENERIC;
	return prop;
}

/* The driver may allocate memory that is not compressible; the properties of the handle show it. */
static int check_compressible(struct hr_cuda_gpu *gpu, struct hr_cuda_arena *arena,
			      const struct hr_cuda_chunk *chunk)
{
	CUmemAllocationProp got = { 0 };
	int err = HR_CU(&gpu->cu, MemGetAllocationPropertiesFromHandle, &got, chunk->handle);

	if (!err && got.allocFlags.compressionType != CU_MEM_ALLOCATION_COMP_GENERIC)
		arena->compressible = false;
	return err;
}

static int allow(struct hr_cuda_gpu *gpu, const struct hr_cuda_arena *arena, CUdeviceptr at,
		 size_t bytes)
{
	CUmemAccessDesc access[1 + HR_GPUS_MAX] = { 0 };

	for (unsigned i = 0; i <= arena->sharers; i++) {
		access[i].location.type = CU_MEM_LOCATION_TYPE_DEVICE;
		access[i].location.id = i ? arena->sharer[i - 1] : gpu->device;
		access[i].flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
	}
	return HR_CU(&gpu->cu, MemSetAccess, at, bytes, access, 1 + arena->sharers);
}

static int map_chunk(struct hr_cuda_gpu *gpu, const struct hr_cuda_arena *arena, CUdeviceptr base,
		     const struct hr_cuda_chunk *chunk, bool *mapped)
{
	int err = HR_CU(&gpu->cu, MemMap, base + chunk->at, chunk->bytes, 0, chunk->handle, 0);

	*mapped = !err;
	return err ? err : allow(gpu, arena, base + chunk->at, chunk->bytes);
}

static int zero_device_memory(struct hr_cuda_gpu *gpu, CUdeviceptr at, size_t bytes)
{
	int err = HR_CU(&gpu->cu, MemsetD8Async, at, 0, bytes, gpu->stream);

	if (!err)
		err = HR_CU(&gpu->cu, EventRecord, gpu->done, gpu->stream);
	return err ? err : hr_cuda_gpu_wait(gpu, gpu->done);
}

/* An error during release cannot be returned; the first error, if any, has been reported. */
static void drop_chunk(struct hr_cuda_gpu *gpu, const struct hr_cuda_arena *arena,
		       const struct hr_cuda_chunk *chunk)
{
	if (chunk->mapped)
		gpu->cu.MemUnmap(arena->base + chunk->at, chunk->bytes);
	gpu->cu.MemRelease(chunk->handle);
}

int hr_cuda_arena_renew(struct hr_cuda_gpu *gpu, struct hr_cuda_arena *arena, unsigned i)
{
	const CUmemAllocationProp prop = properties(gpu, arena);
	struct hr_cuda_chunk *chunk = &arena->chunk[i];
	CUmemGenericAllocationHandle handle = 0;
	int err = hr_cuda_gpu_enter(gpu);

	if (!err)
		err = HR_CU(&gpu->cu, MemCreate, &handle, chunk->bytes, &prop, 0);
	if (err)
		return err;
	drop_chunk(gpu, arena, chunk);
	chunk->handle = handle;
	chunk->mapped = false;
	err = map_chunk(gpu, arena, arena->base, chunk, &chunk->mapped);
	return err ? err : zero_device_memory(gpu, arena->base + chunk->at, chunk->bytes);
}

static int add_chunk(struct hr_cuda_gpu *gpu, struct hr_cuda_arena *arena, size_t bytes)
{
	const CUmemAllocationProp prop = properties(gpu, arena);
	struct hr_cuda_chunk *chunk = &arena->chunk[arena->chunks];
	const bool compressible = arena->compressible;
	int err;

	memset(chunk, 0, sizeof *chunk);
	chunk->at = arena->bytes;
	chunk->bytes = bytes;
	err = HR_CU(&gpu->cu, MemCreate, &chunk->handle, bytes, &prop, 0);
	if (err)
		return err;
	err = check_compressible(gpu, arena, chunk);
	if (!err)
		err = map_chunk(gpu, arena, arena->base, chunk, &chunk->mapped);
	if (!err)
		err = zero_device_memory(gpu, arena->base + chunk->at, bytes);
	if (err) {
		drop_chunk(gpu, arena, chunk);
		arena->compressible = compressible;
		return err;
	}
	arena->chunks++;
	arena->bytes += bytes;
	return 0;
}

int hr_cuda_arena_open(struct hr_cuda_gpu *gpu, struct hr_cuda_arena *arena, size_t bytes,
		       size_t reserve, bool compressible)
{
	const struct hr_gpu_facts *f = &gpu->facts;
	const size_t all = round_up(gpu, bytes);
	int err;

	memset(arena, 0, sizeof *arena);
	if (bytes == 0)
		return hr_cuda_fail(&gpu->cu, -EINVAL, "no GPU memory requested");
	if (all == 0 || round_up(gpu, reserve) < reserve)
		return hr_cuda_fail(&gpu->cu, -ENOMEM, "%zu bytes of GPU memory are too many",
				    bytes > reserve ? bytes : reserve);
	if (compressible && !f->compressible)
		return hr_cuda_fail(&gpu->cu, -ENOTSUP, "%s %s: no compressible memory", f->pci,
				    f->model);
	arena->reserved = round_up(gpu, reserve > all ? reserve : all);
	arena->want_compressible = arena->compressible = compressible;
	/* Drivers support only one of the two: with both requested, the memory is not
	 * compressible. */
	arena->rdma = f->rdma && f->rdma_virtual_memory && !compressible;
	arena->exportable = f->fd_handles;
	err = hr_cuda_gpu_enter(gpu);
	if (!err)
		err = HR_CU(&gpu->cu, MemAddressReserve, &arena->base, arena->reserved, 0, 0, 0);
	if (!err)
		err = add_chunk(gpu, arena, all);
	if (err)
		hr_cuda_arena_close(gpu, arena);
	return err;
}

int hr_cuda_arena_reserve(struct hr_cuda_gpu *gpu, struct hr_cuda_arena *arena, size_t reserve)
{
	int err;

	memset(arena, 0, sizeof *arena);
	if (!gpu->facts.fd_handles)
		return hr_cuda_fail(&gpu->cu, -ENOTSUP,
				    "%s %s: cannot export memory as file descriptors",
				    gpu->facts.pci, gpu->facts.model);
	arena->reserved = round_up(gpu, reserve);
	arena->exportable = true;
	arena->rdma = gpu->facts.rdma && gpu->facts.rdma_virtual_memory;
	if (arena->reserved == 0)
		return hr_cuda_fail(&gpu->cu, -EINVAL, "no GPU memory requested");
	err = hr_cuda_gpu_enter(gpu);
	return err ? err
		   : HR_CU(&gpu->cu, MemAddressReserve, &arena->base, arena->reserved, 0, 0, 0);
}

void hr_cuda_arena_report(const struct hr_cuda_arena *arena, const char *name)
{
	if (arena->want_compressible && !arena->compressible)
		hr_warn("%s: the driver gave %zu bytes of memory that is not compressible", name,
			arena->bytes);
	hr_info("%s: %zu bytes of GPU memory at 0x%llx%s%s%s, room to grow to %zu", name,
		arena->bytes, (unsigned long long)arena->base,
		arena->compressible ? ", compressible" : "",
		arena->rdma ? ", reachable by other devices" : "",
		arena->exportable ? ", exportable" : "", arena->reserved);
}

struct hr_cuda_arena *hr_cuda_arena_find(struct hr_cuda_arena *arena, unsigned count,
					 CUdeviceptr base)
{
	for (unsigned i = 0; i < count; i++)
		if (arena[i].base == base)
			return &arena[i];
	return NULL;
}

int hr_cuda_arena_grow(struct hr_cuda_gpu *gpu, struct hr_cuda_arena *arena, size_t bytes)
{
	const size_t all = round_up(gpu, bytes);
	int err;

	if (bytes == 0)
		return hr_cuda_fail(&gpu->cu, -EINVAL, "no GPU memory requested");
	if (arena->chunks == HR_CUDA_CHUNKS_MAX)
		return hr_cuda_fail(&gpu->cu, -ENOSPC, "GPU memory can grow at most %u times",
				    HR_CUDA_CHUNKS_MAX - 1);
	if (all == 0 || all > arena->reserved - arena->bytes)
		return hr_cuda_fail(&gpu->cu, -ENOSPC,
				    "GPU memory cannot grow by %zu bytes: %zu of %zu reserved ones "
				    "are in use",
				    bytes, arena->bytes, arena->reserved);
	err = hr_cuda_gpu_enter(gpu);
	return err ? err : add_chunk(gpu, arena, all);
}

static int allow_all(struct hr_cuda_gpu *gpu, const struct hr_cuda_arena *arena)
{
	int err = 0;

	for (unsigned i = 0; !err && i < arena->chunks; i++)
		err = allow(gpu, arena, arena->base + arena->chunk[i].at, arena->chunk[i].bytes);
	return err;
}

static int find_peer(struct hr_cuda_gpu *gpu, int ordinal, CUdevice *peer)
{
	int can = 0, err = HR_CU(&gpu->cu, DeviceGet, peer, ordinal);

	if (!err)
		err = HR_CU(&gpu->cu, DeviceCanAccessPeer, &can, *peer, gpu->device);
	if (!err && !can)
		err = hr_cuda_fail(&gpu->cu, -ENOTSUP, "cuda:%d cannot reach memory of cuda:%d",
				   ordinal, gpu->ordinal);
	return err;
}

int hr_cuda_can_share(struct hr_cuda_gpu *gpu, int ordinal)
{
	CUdevice peer = 0;

	return find_peer(gpu, ordinal, &peer);
}

int hr_cuda_arena_share(struct hr_cuda_gpu *gpu, struct hr_cuda_arena *arena, int ordinal)
{
	CUdevice peer = 0;
	int err = find_peer(gpu, ordinal, &peer);

	if (err)
		return err;
	if (arena->sharers == HR_GPUS_MAX)
		return hr_cuda_fail(&gpu->cu, -ENOSPC, "GPU memory is already shared with %u GPUs",
				    HR_GPUS_MAX);
	err = hr_cuda_gpu_enter(gpu);
	if (err)
		return err;
	arena->sharer[arena->sharers++] = peer;
	err = allow_all(gpu, arena);
	arena->sharers -= err != 0;
	return err;
}

int hr_cuda_arena_export(struct hr_cuda_gpu *gpu, struct hr_cuda_arena *arena, unsigned i, int *fd)
{
	if (i >= arena->chunks)
		return hr_cuda_fail(&gpu->cu, -EINVAL, "GPU memory has %u chunks, no number %u",
				    arena->chunks, i);
	if (!arena->exportable)
		return hr_cuda_fail(&gpu->cu, -ENOTSUP,
				    "%s %s: cannot export memory as file descriptors",
				    gpu->facts.pci, gpu->facts.model);
	return HR_CU(&gpu->cu, MemExportToShareableHandle, fd, arena->chunk[i].handle,
		     CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
}

bool hr_cuda_dmabuf_mappable(struct hr_cuda_gpu *gpu)
{
	int value = 0;

	/* A driver that does not know the attribute returns an error. */
	return gpu->cu.DeviceGetAttribute(&value, ATTRIBUTE_DMA_BUF_MMAP, gpu->device) ==
		       CUDA_SUCCESS &&
	       value != 0;
}

static int export_dmabuf(struct hr_cuda_gpu *gpu, CUdeviceptr at, size_t bytes,
			 unsigned long long flags, int *fd)
{
	const int err = hr_cuda_gpu_enter(gpu);

	return err ? err
		   : HR_CU(&gpu->cu, MemGetHandleForAddressRange, fd, at, bytes,
			   CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, flags);
}

int hr_cuda_dmabuf_export(struct hr_cuda_gpu *gpu, CUdeviceptr at, size_t bytes, int *fd)
{
	int err = export_dmabuf(gpu, at, bytes, CU_MEM_RANGE_FLAG_DMA_BUF_MAPPING_TYPE_PCIE, fd);

	/* Refused by drivers without that choice, and for GPUs that have PCIe only. */
	if (err == -ENOTSUP || err == -EINVAL)
		err = export_dmabuf(gpu, at, bytes, 0, fd);
	return err;
}

static int check_reach(struct hr_cuda_gpu *gpu, const struct hr_cuda_arena *arena, unsigned i)
{
	const struct hr_gpu_facts *f = &gpu->facts;

	if (i >= arena->chunks)
		return hr_cuda_fail(&gpu->cu, -EINVAL, "GPU memory has %u chunks, no number %u",
				    arena->chunks, i);
	if (!arena->rdma)
		return hr_cuda_fail(
			&gpu->cu, -ENOTSUP,
			"%s %s: other devices cannot access its memory (GPUDirect RDMA)", f->pci,
			f->model);
	if (!f->ordered_for_owner && !f->flush_from_host)
		return hr_cuda_fail(
			&gpu->cu, -ENOTSUP,
			"%s %s: nothing makes writes of other devices visible to its workers",
			f->pci, f->model);
	return 0;
}

int hr_cuda_arena_export_dmabuf(struct hr_cuda_gpu *gpu, struct hr_cuda_arena *arena, unsigned i,
				int *fd)
{
	const struct hr_cuda_chunk *chunk;
	int err = check_reach(gpu, arena, i);

	if (err)
		return err;
	chunk = &arena->chunk[i];
	return hr_cuda_dmabuf_export(gpu, arena->base + chunk->at, chunk->bytes, fd);
}

int hr_cuda_flush_writes(struct hr_cuda_gpu *gpu)
{
	if (gpu->cu.CtxSetCurrent(gpu->context) == CUDA_SUCCESS &&
	    gpu->cu.FlushGPUDirectRDMAWrites(CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX,
					     CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER) ==
		    CUDA_SUCCESS)
		return 0;
	return -EIO;
}

void hr_cuda_arena_close(struct hr_cuda_gpu *gpu, struct hr_cuda_arena *arena)
{
	gpu->cu.CtxSetCurrent(gpu->context);
	while (arena->chunks)
		drop_chunk(gpu, arena, &arena->chunk[--arena->chunks]);
	if (arena->base)
		gpu->cu.MemAddressFree(arena->base, arena->reserved);
	memset(arena, 0, sizeof *arena);
}
