/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu/cuda/driver/host_memory.h - host memory for workers, and copies between host and GPU memory.
 */
#ifndef GPU_CUDA_DRIVER_HOST_MEMORY_H
#define GPU_CUDA_DRIVER_HOST_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

#include "gpu/cuda/driver/device.h"

#define HR_CUDA_ATTACHED_MAX 64u	  /* per GPU: places, controllers' BARs, bench buffers */
#define HR_CUDA_STAGING ((size_t)4 << 20) /* bytes of each half */

struct hr_cuda_attached {
	void *cpu;
	size_t bytes;
	bool io;
};

struct hr_cuda_host {
	struct hr_cuda_attached attached[HR_CUDA_ATTACHED_MAX];
	unsigned count;
	void *staging[2];
	CUevent copied[2]; /* end of the copy out of, or into, that half */
};

/* Allocate pinned memory for copies. -ENOMEM. */
int hr_cuda_host_open(struct hr_cuda_gpu *gpu, struct hr_cuda_host *host);

/* Detach all attached memory, free the staging memory. Allowed after open has failed, or the GPU
 * has. */
void hr_cuda_host_close(struct hr_cuda_gpu *gpu, struct hr_cuda_host *host);

/*
 * Pin [cpu, cpu + bytes), whole pages of this process, and map it into the GPU; *worker is its
 * address there. Several GPUs can attach the same range. io: the range maps a PCI BAR, not memory.
 * -EINVAL: not whole pages; -EEXIST: part of it is already attached to this GPU, or another GPU has
 * a range that overlaps it; -ENOSPC: HR_CUDA_ATTACHED_MAX; -ENOTSUP, -EPERM: the driver cannot do
 * that with a BAR; -ENOMEM.
 */
int hr_cuda_attach(struct hr_cuda_gpu *gpu, struct hr_cuda_host *host, void *cpu, size_t bytes,
		   bool io, void **worker);

/* Detach the range that starts at cpu; no worker uses it any more. -ENOENT: no range starts
 * there. */
int hr_cuda_detach(struct hr_cuda_gpu *gpu, struct hr_cuda_host *host, void *cpu);

/*
 * Copy through pinned memory, on a separate stream, complete on return. The worker's side is GPU
 * memory or attached memory. -EIO: the GPU has failed, maybe earlier; -ETIMEDOUT.
 */
int hr_cuda_upload(struct hr_cuda_gpu *gpu, struct hr_cuda_host *host, void *worker,
		   const void *cpu, size_t bytes);
int hr_cuda_download(struct hr_cuda_gpu *gpu, struct hr_cuda_host *host, void *cpu,
		     const void *worker, size_t bytes);

#endif
