/*
 * gpu/cuda/image/link.h - link relocatable GPU code with the driver's linker, which compiles
 * PTX for GPUs without machine code. CUDA Driver API: "Module Management", cuLink*.
 */
#ifndef GPU_CUDA_IMAGE_LINK_H
#define GPU_CUDA_IMAGE_LINK_H

#include <stddef.h>

#include "gpu/cuda/image/image.h"

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
int hr_cuda_image_link(struct hr_cuda_gpu *gpu, struct hr_cuda_image *image,
		       const struct hr_cuda_input *input, unsigned inputs, const char *what);

#endif
