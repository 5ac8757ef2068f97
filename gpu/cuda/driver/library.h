/*
 * gpu/cuda/driver/library.h - load the driver library libcuda.so.1 at run time, so that the
 * program starts on machines without a driver and can report that it is missing.
 *
 * This is a seam: tests link a driver of their own in its place (tests/fakes/cuda.h).
 */
#ifndef GPU_CUDA_DRIVER_LIBRARY_H
#define GPU_CUDA_DRIVER_LIBRARY_H

#include <cuda.h>
#include <cudaTypedefs.h>

#include "config/base/error.h"

/*
 * *find is cuGetProcAddress_v2 of the library; it finds all other functions. The library stays open
 * until the process ends: it starts threads and does not support unloading. 0; -ENODEV: no such
 * library; -ENOTSUP: it is older than CUDA 12.0.
 */
int hr_cuda_library(PFN_cuGetProcAddress_v12000 *find, struct hr_error *e);

#endif
