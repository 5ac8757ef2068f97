/*
 * gpu/cuda/link.h - relocatable GPU code joined by the driver's linker, which compiles PTX where it
 * finds no machine code for the GPU. CUDA Driver API: "Module Management", cuLink*.
 */
#ifndef GPU_CUDA_LINK_H
#define GPU_CUDA_LINK_H

#include <stddef.h>

#include "gpu/cuda/image.h"

/* A relocatable fatbin; the linker names it so. */
struct hr_cuda_part {
	const void *data;
	size_t bytes;
	const char *name;
};

/*
 * Link the parts and load what comes out; `what` names it in messages. When that fails, the linker's
 * whole log goes to stderr as errors. -EINVAL: the linker refuses them; -ENOTSUP: a part has no code
 * that runs on this GPU, or the driver has no linker; -ENOMEM; -EIO: the GPU has failed.
 */
int hr_cuda_image_link(struct hr_cuda_gpu *gpu, struct hr_cuda_image *image,
		       const struct hr_cuda_part *part, unsigned parts, const char *what);

#endif
