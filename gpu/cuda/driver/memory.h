/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu/cuda/driver/memory.h - GPU memory by virtual memory management: reserved address ranges,
 * into which physical memory is mapped.
 *
 *   cuMemAddressReserve   one range, larger than the first need
 *   cuMemCreate, cuMemMap physical memory, in chunks, from the start of the range on
 *   cuMemSetAccess        for this GPU, and for GPUs that share the memory
 *
 * An arena grows by one more chunk behind the last one: no data is copied, no address changes.
 * Physical memory belongs to the process, not to a context, and outlives a context that has failed.
 */
#ifndef GPU_CUDA_DRIVER_MEMORY_H
#define GPU_CUDA_DRIVER_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

#include "config/base/limits.h"
#include "gpu/cuda/driver/device.h"

#define HR_CUDA_CHUNKS_MAX 64u /* maximum number of chunks of an arena */

struct hr_cuda_chunk {
	CUmemGenericAllocationHandle handle;
	size_t at, bytes; /* at: from the start of the arena */
	bool mapped;
};

struct hr_cuda_arena {
	CUdeviceptr base; /* 0: not open */
	size_t reserved;  /* size of the address range, from base */
	/* mapped bytes, zeroed when mapped; multiple of the GPU's granularity */
	size_t bytes;
	struct hr_cuda_chunk chunk[HR_CUDA_CHUNKS_MAX];
	unsigned chunks;
	int sharer[HR_GPUS_MAX]; /* ordinals of other GPUs with access */
	unsigned sharers;
	bool want_compressible;
	bool compressible; /* all memory is compressible, as the driver reports */
	bool rdma;	   /* other devices can access the memory */
	bool exportable;   /* as a file descriptor */
};

/*
 * Reserve `reserve` bytes of addresses (at least `bytes`; rounded up) and map `bytes` of zeroed
 * memory. compressible requests memory that the GPU compresses, which other devices then cannot
 * access; arena->compressible is the result. -EINVAL: bytes 0; -ENOMEM; -ENOTSUP: compressible, but
 * the GPU does not support it.
 */
int hr_cuda_arena_open(struct hr_cuda_gpu *gpu, struct hr_cuda_arena *arena, size_t bytes,
		       size_t reserve, bool compressible);

/*
 * Reserve `reserve` bytes of addresses (rounded up) for memory that other processes map, without
 * memory: hr_cuda_arena_grow() makes chunks, each an object of its own for hr_cuda_arena_export().
 * Not compressible; other devices can access it where the GPU supports that. -ENOTSUP: the driver
 * exports no memory; -EINVAL: reserve 0; -ENOMEM.
 */
int hr_cuda_arena_reserve(struct hr_cuda_gpu *gpu, struct hr_cuda_arena *arena, size_t reserve);

/*
 * Put other, zeroed memory in place of chunk i. Processes that have mapped the former memory keep it.
 * No worker runs. After an error of cuMemCreate the arena is unchanged; after another one no worker
 * may use the chunk.
 */
int hr_cuda_arena_renew(struct hr_cuda_gpu *gpu, struct hr_cuda_arena *arena, unsigned i);

/* Log size, address and properties of an arena, after the name of its backend. */
void hr_cuda_arena_report(const struct hr_cuda_arena *arena, const char *name);

/* The open arena that begins at an address; base 0: one that is not open. NULL: there is none. */
struct hr_cuda_arena *hr_cuda_arena_find(struct hr_cuda_arena *arena, unsigned count,
					 CUdeviceptr base);

/* Map at least `bytes` more, zeroed, behind the last chunk. -ENOSPC: beyond the reserved range,
 * or too many chunks; -ENOMEM. After an error the arena is unchanged. No worker may run: zeroing
 * needs free SMs, and resident blocks may occupy all. */
int hr_cuda_arena_grow(struct hr_cuda_gpu *gpu, struct hr_cuda_arena *arena, size_t bytes);

/* 0 when another GPU can access memory of this one, or -ENOTSUP. */
int hr_cuda_can_share(struct hr_cuda_gpu *gpu, int ordinal);

/* Let another GPU access the arena, too. -ENOTSUP: that GPU cannot access this GPU's memory;
 * -ENOSPC. */
int hr_cuda_arena_share(struct hr_cuda_gpu *gpu, struct hr_cuda_arena *arena, int ordinal);

/* *fd: a file descriptor of chunk i (the caller closes it), with which another process or
 * library maps the memory. -ENOTSUP: arena->exportable is false; -EINVAL: no such chunk. */
int hr_cuda_arena_export(struct hr_cuda_gpu *gpu, struct hr_cuda_arena *arena, unsigned i, int *fd);

/* True when the driver can map a DMA-BUF of this GPU's memory, over its BAR, into a process. */
bool hr_cuda_dmabuf_mappable(struct hr_cuda_gpu *gpu);

/* *fd: a DMA-BUF of mapped GPU memory [at, at + bytes), for an ssd or a network device; the caller
 * closes it. It is accessed over PCIe when the driver lets that be chosen, and as the driver decides
 * otherwise. -ENOTSUP, -EINVAL: the driver does not support that for this memory. */
int hr_cuda_dmabuf_export(struct hr_cuda_gpu *gpu, CUdeviceptr at, size_t bytes, int *fd);

/*
 * *fd: hr_cuda_dmabuf_export() of chunk i, for a network device. -EINVAL: no such chunk; -ENOTSUP:
 * other devices cannot access it, or hr_cuda_flush_writes() is needed and not supported.
 */
int hr_cuda_arena_export_dmabuf(struct hr_cuda_gpu *gpu, struct hr_cuda_arena *arena, unsigned i,
				int *fd);

/* Make complete writes of other devices to GPU memory visible to running workers. Sets no error of
 * the GPU, so any thread calls it. -EIO: the GPU has failed. */
int hr_cuda_flush_writes(struct hr_cuda_gpu *gpu);

/* Unmap and free all memory. No worker uses it. Allowed after the GPU has failed, and after open
 * has failed. */
void hr_cuda_arena_close(struct hr_cuda_gpu *gpu, struct hr_cuda_arena *arena);

#endif
