/*
 * gpu/cuda/image.h - worker code on the GPU: loaded, and launched with all its blocks resident.
 */
#ifndef GPU_CUDA_IMAGE_H
#define GPU_CUDA_IMAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "gpu/cuda/device.h"

struct hr_cuda_image {
	CUmodule module;
};

struct hr_cuda_kernel {
	CUfunction function;
	struct hr_kernel_facts facts;
};

#define HR_CUDA_LOG_BYTES (256u << 10) /* what the driver's compiler and linker may say */

/* A log of theirs, which is cut up, as messages: one for each of its lines. */
void hr_cuda_show_log(enum hr_log_level level, const char *what, char *log);

/* One launch at a time. */
struct hr_cuda_launch {
	CUstream stream;
	CUevent ended;
	bool running;
	int failed; /* what poll has found; stays */
};

/*
 * Load a fatbin, cubin or (NUL-terminated) PTX; `what` names it in messages. The driver's linker or
 * compiler may complain: its whole log goes to stderr as errors. -ENOTSUP: nothing in it runs on this
 * GPU.
 */
int hr_cuda_image_load(struct hr_cuda_gpu *gpu, struct hr_cuda_image *image, const void *data,
		       const char *what);
void hr_cuda_image_unload(struct hr_cuda_gpu *gpu, struct hr_cuda_image *image);

/* -ENOENT: the image has no such kernel. */
int hr_cuda_kernel_find(struct hr_cuda_gpu *gpu, const struct hr_cuda_image *image,
			struct hr_cuda_kernel *kernel, const char *name);

/*
 * *blocks: how many blocks of that shape the GPU holds at once. -EINVAL: threads 0, no multiple of a
 * warp or more than the kernel can have; shared_bytes (dynamic) beyond what the GPU has.
 */
int hr_cuda_kernel_resident(struct hr_cuda_gpu *gpu, const struct hr_cuda_kernel *kernel,
			    uint32_t threads, uint32_t shared_bytes, uint32_t *blocks);

int hr_cuda_launch_open(struct hr_cuda_gpu *gpu, struct hr_cuda_launch *launch);
void hr_cuda_launch_close(struct hr_cuda_gpu *gpu, struct hr_cuda_launch *launch);

/*
 * Start all blocks at once and return. The kernel takes one pointer. -EBUSY: a launch has not ended;
 * -EINVAL: blocks 0, more than are resident at once, or a shape the kernel cannot have; or what an
 * earlier launch failed with.
 */
int hr_cuda_launch_start(struct hr_cuda_gpu *gpu, struct hr_cuda_launch *launch,
			 const struct hr_cuda_kernel *kernel, void *argument, uint32_t blocks,
			 uint32_t threads, uint32_t shared_bytes);

/* 0: still running; 1: nothing runs; -EIO and others: it failed, and every later call does. */
int hr_cuda_launch_poll(struct hr_cuda_gpu *gpu, struct hr_cuda_launch *launch);

#endif
