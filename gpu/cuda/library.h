/*
 * gpu/cuda/library.h - where the driver's functions come from: libcuda.so.1, opened when the program
 * runs, so that it starts, and can say what is missing, on machines without a driver.
 *
 * A seam: tests link a driver of their own in place of this (tests/fakes/cuda.h).
 */
#ifndef GPU_CUDA_LIBRARY_H
#define GPU_CUDA_LIBRARY_H

#include <cuda.h>
#include <cudaTypedefs.h>

/*
 * *find is the library's cuGetProcAddress_v2, through which all else is found. The library stays
 * open until the process ends: it starts threads and does not support being unloaded.
 * 0; -ENODEV: there is no such library; -ENOTSUP: it is older than CUDA 12.0; with message
 * (HR_LOG_LINE_MAX bytes).
 */
int hr_cuda_library(PFN_cuGetProcAddress_v12000 *find, char *message);

#endif
