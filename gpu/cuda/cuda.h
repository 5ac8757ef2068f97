/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu/cuda/cuda.h - the cuda backend: worker blocks on an NVIDIA GPU, through the driver API.
 *
 * absent.c replaces it in builds without nvcc and cuda.h, and in the fully static binary; it
 * returns an error that says so.
 */
#ifndef GPU_CUDA_CUDA_H
#define GPU_CUDA_CUDA_H

#include <stdbool.h>

#include "config/base/error.h"
#include "gpu/backend.h"

#define HR_CUDA_FIRST (-1) /* the first usable GPU */

/*
 * Open GPU `ordinal`, or HR_CUDA_FIRST, and load the worker image. compressible: memory from alloc
 * is to be compressed by the GPU; alloc logs whether it is. 0; -ENODEV: no driver, no such GPU;
 * -ENOTSUP: this build, the driver or the GPU lacks something; -ENOMEM, -EIO.
 *
 * close waits at most 10 s for worker blocks that still run, and at most 10 s for the driver. Then
 * it gives up, logs that, and leaves their memory allocated until the process ends.
 */
int hr_cuda_open(struct hr_backend *b, int ordinal, bool compressible, struct hr_error *e);

/*
 * 0; or -EAGAIN, with the reason in *e: GPU `ordinal` is not there yet, or the driver is not ready;
 * for HR_CUDA_FIRST only the latter. Initialises the driver in this process, for which its failure
 * may be final; so a process that ends soon makes the call.
 */
int hr_cuda_await(int ordinal, struct hr_error *e);

#endif
