/*
 * gpu/cuda/cuda.h - the cuda backend: worker blocks on an NVIDIA GPU, through the driver API.
 *
 * Without nvcc and cuda.h, and in the fully static binary, gpu/nocuda/ stands in for it: it says so.
 */
#ifndef GPU_CUDA_CUDA_H
#define GPU_CUDA_CUDA_H

#include <stdbool.h>

#include "gpu/backend.h"

#define HR_CUDA_FIRST (-1) /* the first GPU that can be used */

/*
 * Open GPU `ordinal`, or HR_CUDA_FIRST, and load the worker image. compressible: memory from alloc
 * is to be compressed by the GPU; alloc says what came of it. 0; -ENODEV: no driver, no such GPU;
 * -ENOTSUP: this build, the driver or the GPU lacks something; -ENOMEM, -EIO; with message
 * (HR_LOG_LINE_MAX bytes), which is not touched on success.
 *
 * What the backend does in time: close waits at most 10 s for worker blocks that still run and as
 * long for the driver, then gives up, says so, and leaves their memory to the end of the process.
 */
int hr_cuda_open(struct hr_backend *b, int ordinal, bool compressible, char *message);

#endif
