/*
 * gpu/cuda/memory.h - GPU memory by virtual memory management: address ranges of our choice, into
 * which physical memory is mapped.
 *
 *   cuMemAddressReserve   one range, larger than what is needed now
 *   cuMemCreate, cuMemMap physical memory, in chunks, from the start of the range on
 *   cuMemSetAccess        for this GPU, and for those it is shared with
 *
 * Growing maps another chunk behind the last one: nothing is copied, no address changes.
 * Physical memory belongs to the process, not to a context, and outlives a context that has failed.
 */
#ifndef GPU_CUDA_MEMORY_H
#define GPU_CUDA_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

#include "config/limits.h"
#include "gpu/cuda/device.h"

#define HR_CUDA_CHUNKS_MAX 64u /* an arena grows at most that often */

struct hr_cuda_chunk {
	CUmemGenericAllocationHandle handle;
	size_t at, bytes; /* from the start of the arena */
	bool mapped, mapped_alias;
};

struct hr_cuda_arena {
	CUdeviceptr base;  /* 0: not open */
	CUdeviceptr alias; /* second address of the same memory; 0: none */
	size_t reserved;   /* bytes of address range, from base and from alias */
	size_t bytes;	   /* mapped, zeroed when they were; multiple of the GPU's granularity */
	struct hr_cuda_chunk chunk[HR_CUDA_CHUNKS_MAX];
	unsigned chunks;
	int sharer[HR_GPUS_MAX]; /* ordinals of other GPUs that may access it */
	unsigned sharers;
	bool want_compressible;
	bool compressible; /* all of it, as the driver says of what it gave */
	bool rdma;	   /* made so that other devices can reach it */
	bool exportable;   /* as a file descriptor */
};

/*
 * Reserve `reserve` bytes of addresses (at least `bytes`; rounded up) and map `bytes` of zeroed
 * memory. compressible asks for memory that the GPU compresses, which other devices then cannot
 * reach: what came of it is in arena->compressible. -EINVAL: bytes 0; -ENOMEM; -ENOTSUP:
 * compressible, but the GPU cannot.
 */
int hr_cuda_arena_open(struct hr_cuda_gpu *gpu, struct hr_cuda_arena *arena, size_t bytes,
		       size_t reserve, bool compressible);

/* Map at least `bytes` more, zeroed, behind the last. -ENOSPC: beyond what is reserved, or too many
 * times; -ENOMEM. After an error the arena is as before. No worker runs: zeroing needs room on the
 * GPU, which resident blocks may have taken. */
int hr_cuda_arena_grow(struct hr_cuda_gpu *gpu, struct hr_cuda_arena *arena, size_t bytes);

/*
 * Give the arena a second address, arena->alias. What is written through one address may be read
 * through the other only by a later operation (kernel or copy) than the one that wrote it, or in the
 * same kernel after fence.proxy.alias by the writer: "CUDA C++ Programming Guide: Virtual Aliasing
 * Support"; PTX ISA, "Memory Consistency Model: proxies". -EEXIST: it has one.
 */
int hr_cuda_arena_alias(struct hr_cuda_gpu *gpu, struct hr_cuda_arena *arena);

/* Let another GPU access it, too. -ENOTSUP: that GPU cannot reach this one's memory; -ENOSPC. */
int hr_cuda_arena_share(struct hr_cuda_gpu *gpu, struct hr_cuda_arena *arena, int ordinal);

/* A file descriptor of chunk i (the caller closes it), by which another process or library maps the
 * memory. -ENOTSUP: arena->exportable is false; -EINVAL: no such chunk. */
int hr_cuda_arena_export(struct hr_cuda_gpu *gpu, struct hr_cuda_arena *arena, unsigned i, int *fd);

/* True when the driver maps a DMA-BUF of this GPU's memory, over its BAR, into a process. */
bool hr_cuda_dmabuf_mappable(struct hr_cuda_gpu *gpu);

/* A DMA-BUF of mapped GPU memory [at, at + bytes) that goes over PCIe; the caller closes *fd.
 * -ENOTSUP, -EINVAL: the driver does not do that for this memory. */
int hr_cuda_dmabuf_export(struct hr_cuda_gpu *gpu, CUdeviceptr at, size_t bytes, int *fd);

/* Unmap and give back all. No worker uses it. Also of a GPU that has failed, and when open failed. */
void hr_cuda_arena_close(struct hr_cuda_gpu *gpu, struct hr_cuda_arena *arena);

#endif
