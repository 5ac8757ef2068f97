/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu/cuda/image/image.h - worker code on the GPU: load and link it, and launch it with all its
 * blocks resident.
 */
#ifndef GPU_CUDA_IMAGE_IMAGE_H
#define GPU_CUDA_IMAGE_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gpu/cuda/driver/device.h"

/* ---- worker code on the GPU: load it, and launch it with all its blocks resident. */

struct hr_cuda_image {
	CUmodule module;
};

struct hr_cuda_entry {
	CUfunction function;
	struct hr_entry_facts facts;
};

/* maximum output of the driver's compiler and linker */
#define HR_CUDA_LOG_BYTES (256u << 10)

/* Log their output, one message per line. The text is modified. */
void hr_cuda_show_log(enum hr_log_level level, const char *what, char *log);

/* One launch at a time. */
struct hr_cuda_launch {
	CUstream stream;
	CUevent ended;
	bool running;
	int failed; /* error found by poll; permanent */
};

/*
 * Load a fatbin, cubin or (NUL-terminated) PTX; `what` names it in messages. On an error, the whole
 * log of the driver's linker or compiler is logged as errors. -ENOTSUP: it has no code for this
 * GPU.
 */
int hr_cuda_image_load(struct hr_cuda_gpu *gpu, struct hr_cuda_image *image, const void *data,
		       const char *what);
void hr_cuda_image_unload(struct hr_cuda_gpu *gpu, struct hr_cuda_image *image);

/* Find an entry point. -ENOENT: the image has no such entry point. */
int hr_cuda_entry_find(struct hr_cuda_gpu *gpu, const struct hr_cuda_image *image,
		       struct hr_cuda_entry *entry, const char *name);

/*
 * *blocks: maximum resident blocks of that shape on the GPU. -EINVAL: threads is 0, not a multiple
 * of a warp, or above the maximum of the entry point; shared_bytes (dynamic) above the maximum of
 * the GPU.
 */
int hr_cuda_entry_resident(struct hr_cuda_gpu *gpu, const struct hr_cuda_entry *entry,
			   uint32_t threads, uint32_t shared_bytes, uint32_t *blocks);

/* -EINVAL: the local memory of all threads of such an entry, when the GPU is full of blocks, is more
 * than its free memory, where it is allocated. */
int hr_cuda_entry_check_local(struct hr_cuda_gpu *gpu, const struct hr_entry_facts *entry);

int hr_cuda_launch_open(struct hr_cuda_gpu *gpu, struct hr_cuda_launch *launch);
void hr_cuda_launch_close(struct hr_cuda_gpu *gpu, struct hr_cuda_launch *launch);

/*
 * Start all blocks at once and return. The entry point takes one pointer. -EBUSY: a launch has not
 * ended; -EINVAL: blocks is 0 or more than are resident at once, or the entry point cannot have
 * this shape; or the error of an earlier launch.
 */
int hr_cuda_launch_start(struct hr_cuda_gpu *gpu, struct hr_cuda_launch *launch,
			 const struct hr_cuda_entry *entry, void *argument, uint32_t blocks,
			 uint32_t threads, uint32_t shared_bytes);

/* 0: still running; 1: nothing runs; -EIO and others: the launch has failed, and every later
 * call fails. */
int hr_cuda_launch_poll(struct hr_cuda_gpu *gpu, struct hr_cuda_launch *launch);

/* ---- link relocatable GPU code with the driver's linker, which compiles
 * PTX for GPUs without machine code. CUDA Driver API: "Module Management", cuLink*.
 */

/* A relocatable fatbin; name is for the linker's messages. */
struct hr_cuda_input {
	const void *data;
	size_t bytes;
	const char *name;
};

/*
 * Link the inputs and load the result; `what` names it in messages. On an error, the whole log of
 * the linker is logged as errors. -EINVAL: the linker refuses the inputs; -ENOTSUP: an input has no
 * code for this GPU, or the driver has no linker; -ENOMEM; -EIO: the GPU has failed.
 */
int hr_cuda_image_build(struct hr_cuda_gpu *gpu, struct hr_cuda_image *image,
			const struct hr_cuda_input *input, unsigned inputs, const char *what);

#endif
