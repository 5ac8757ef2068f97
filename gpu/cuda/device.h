/*
 * gpu/cuda/device.h - one GPU: chosen, known, and with a context of this process on it.
 *
 * All functions of gpu/cuda/ that take a struct hr_cuda_gpu are called by one thread at a time; they
 * make its context the thread's current one where they need it. What they return is 0 or -errno,
 * with the reason in gpu->cu.error.
 */
#ifndef GPU_CUDA_DEVICE_H
#define GPU_CUDA_DEVICE_H

#include "gpu/cuda/driver.h"
#include "gpu/facts.h"

#define HR_CUDA_ANY (-1) /* the first GPU that can be used */

struct hr_cuda_gpu {
	struct hr_cuda_driver cu;
	int ordinal; /* the N of "cuda:N" */
	CUdevice device;
	CUcontext context; /* the device's primary one */
	CUstream
		stream; /* for copies and for filling memory; does not wait for the default stream */
	CUevent done;	/* in that stream */
	struct hr_gpu_facts facts;
};

/*
 * Open a GPU by its number, or HR_CUDA_ANY. -ENODEV: no driver, no such GPU, none that can be used;
 * -ENOTSUP: it, or the driver, lacks something that is needed; -EIO, -ENOMEM.
 */
int hr_cuda_gpu_open(struct hr_cuda_gpu *gpu, int ordinal);

/* Release the context. Call only when all else that was made on the GPU is gone or given up. */
void hr_cuda_gpu_close(struct hr_cuda_gpu *gpu);

/* Make its context current. */
int hr_cuda_gpu_enter(struct hr_cuda_gpu *gpu);

/*
 * Wait until an event has come to pass, at most HR_CUDA_WAIT_NS. 0; -ETIMEDOUT; -EIO: the GPU has
 * failed. Does not hinder other streams.
 */
int hr_cuda_gpu_wait(struct hr_cuda_gpu *gpu, CUevent event);

#define HR_CUDA_WAIT_NS (20ull * 1000 * 1000 * 1000) /* filling a GPU's memory takes 0.1 s */

#endif
