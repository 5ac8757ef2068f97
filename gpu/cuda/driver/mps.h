/*
 * gpu/cuda/driver/mps.h - whether this process is a client of an MPS server ("CUDA
 * Multi-Process Service"), which lets several processes use a GPU at the same time.
 *
 * The driver API does not tell. The driver makes a process a client when it is initialised while a
 * control daemon runs for its folder: CUDA_MPS_PIPE_DIRECTORY, or /tmp/nvidia-mps. The daemon keeps its
 * process number there.
 */
#ifndef GPU_CUDA_DRIVER_MPS_H
#define GPU_CUDA_DRIVER_MPS_H

#include <stdbool.h>

/* True when a control daemon of MPS runs for this process's folder. */
bool hr_cuda_mps_runs(void);

#endif
