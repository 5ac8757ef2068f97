/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/gpu/gpu.h - setup of the tests on a GPU: the GPU, the loaded test image, and memory that
 * CPU and GPU share. Every function ends the test when something fails.
 */
#ifndef TESTS_GPU_GPU_H
#define TESTS_GPU_GPU_H

#include <stddef.h>
#include <stdint.h>

#include "gpu/cuda/driver/host_memory.h"
#include "gpu/cuda/image/image.h"
#include "gpu/cuda/driver/memory.h"

/* The test image, by gpu/cuda/image/embed.S. */
extern const uint8_t gpu_test_image[];

struct gpu_rig {
	struct hr_cuda_gpu gpu;
	struct hr_cuda_host host;
	struct hr_cuda_image image;
	struct hr_cuda_launch launch;
};

void gpu_up(struct gpu_rig *rig);
void gpu_down(struct gpu_rig *rig);

/* Zeroed host memory that the GPU sees at the same address. */
void *gpu_shared(struct gpu_rig *rig, size_t bytes);
void gpu_unshare(struct gpu_rig *rig, void *memory, size_t bytes);

/* Find an entry point by name; launch it; wait for it, at most 20 s; launch and wait. */
void gpu_find(struct gpu_rig *rig, struct hr_cuda_entry *entry, const char *name);
void gpu_start(struct gpu_rig *rig, const char *name, void *argument, uint32_t blocks,
	       uint32_t threads, uint32_t shared_bytes);
void gpu_wait(struct gpu_rig *rig);
void gpu_run(struct gpu_rig *rig, const char *name, void *argument, uint32_t blocks,
	     uint32_t threads);

/* Run `fill` and `sum` over GPU memory; gpu_count_wrong() returns the number of wrong words. */
void gpu_fill(struct gpu_rig *rig, CUdeviceptr at, size_t bytes, uint64_t factor, uint64_t add);
uint64_t gpu_count_wrong(struct gpu_rig *rig, CUdeviceptr at, size_t bytes, uint64_t factor,
			 uint64_t add);

/* Free memory of the GPU, in bytes. */
size_t gpu_free_bytes(struct gpu_rig *rig);

/* Number of open descriptors of this process; its resident memory in KiB. */
unsigned gpu_open_files(void);
unsigned long gpu_resident_kib(void);

/* Random bytes that differ from run to run; the seed is printed. */
void gpu_random(void *data, size_t bytes);

#endif
