/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu/cuda/driver/device.h - one GPU: selection, properties, and a context of this process.
 *
 * One thread at a time calls the functions of gpu/cuda/ that take a struct hr_cuda_gpu. They make
 * its context current for the calling thread when they need it. They return 0 or -errno, with the
 * reason in gpu->cu.error.
 */
#ifndef GPU_CUDA_DRIVER_DEVICE_H
#define GPU_CUDA_DRIVER_DEVICE_H

#include <stdbool.h>

#include "gpu/cuda/driver/driver.h"
#include "gpu/facts.h"

#define HR_CUDA_ANY (-1)  /* the first usable GPU */
#define HR_CUDA_LANES 32u /* HR_LANES of nvme/queue/worker_cuda.h */

struct hr_cuda_gpu {
	struct hr_cuda_driver cu;
	int ordinal; /* the N of "cuda:N" */
	CUdevice device;
	CUcontext context; /* the primary context of the device */
	CUstream
		/* for copies and memory fills; independent of the default stream */
		stream;
	CUevent done; /* recorded in that stream */
	struct hr_gpu_facts facts;
};

/*
 * Whether a GPU that cannot be opened may come: 0: it is there, or waiting changes nothing; -EAGAIN,
 * with the reason in cu->error: the driver is not ready, or finds no such GPU. With HR_CUDA_ANY a
 * driver without a GPU is not waited for. Initialises the driver.
 */
int hr_cuda_gpu_await(struct hr_cuda_driver *cu, int ordinal);

/*
 * Open a GPU by its number, or HR_CUDA_ANY. -ENODEV: no driver, no such GPU, or no usable GPU;
 * -ENOTSUP: the GPU or the driver lacks a required feature; -EIO, -ENOMEM.
 */
int hr_cuda_gpu_open(struct hr_cuda_gpu *gpu, int ordinal);

/* Release the context. First release everything else that was made on the GPU. */
void hr_cuda_gpu_close(struct hr_cuda_gpu *gpu);

/* Make its context current. */
int hr_cuda_gpu_enter(struct hr_cuda_gpu *gpu);

/*
 * Wait until an event has occurred, at most HR_CUDA_WAIT_NS. 0; -ETIMEDOUT; -EIO: the GPU has
 * failed. Does not delay other streams.
 */
int hr_cuda_gpu_wait(struct hr_cuda_gpu *gpu, CUevent event);

/* filling the memory of a GPU takes 0.1 s */
#define HR_CUDA_WAIT_NS (20ull * 1000 * 1000 * 1000)

/* ---- whether this process is a client of an MPS server ("CUDA
 * Multi-Process Service"), which lets several processes use a GPU at the same time.
 *
 * The driver API does not tell. The driver makes a process a client when it is initialised while a
 * control daemon runs for its folder: CUDA_MPS_PIPE_DIRECTORY, or /tmp/nvidia-mps. The daemon keeps its
 * process number there.
 */

/* True when a control daemon of MPS runs for this process's folder. */
bool hr_cuda_mps_runs(void);

#endif
