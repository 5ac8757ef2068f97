/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu/cuda/state.h - the state of a cuda backend, hr_backend.impl; for cuda.c and arenas.c.
 */
#ifndef GPU_CUDA_STATE_H
#define GPU_CUDA_STATE_H

#include "config/operator.h"
#include "gpu/backend.h"
#include "gpu/cuda/driver/host_memory.h"
#include "gpu/cuda/image/image.h"
#include "gpu/cuda/driver/memory.h"

#define HR_CUDA_ARENAS_MAX 32u

/* The images with the entry points of launches: gpu/cuda/image/image.cu, image_objects.cu,
 * image_objects_wide.cu and image_tools.cu. */
enum hr_cuda_images {
	HR_CUDA_STREAMS,
	HR_CUDA_OBJECTS,
	HR_CUDA_OBJECTS_WIDE,
	HR_CUDA_TOOLS,
	HR_CUDA_IMAGES
};

/* A linked user operator. */
struct hr_cuda_built {
	const struct hr_operator *op;
	struct hr_cuda_image image;
	struct hr_cuda_entry entry;
	/* of a stream operator: hr_entry_with_tap(), hr_entry_with_feed() */
	struct hr_cuda_entry tap, feed;
};

struct hr_cuda_running {
	struct hr_launch handle;
	struct hr_cuda_launch cu;
	uint32_t blocks; /* 0: the handle is free */
};

struct hr_cuda {
	struct hr_cuda_gpu gpu;
	struct hr_cuda_host host;
	struct hr_cuda_image image[HR_CUDA_IMAGES];
	struct hr_cuda_entry entry[HR_ENTRY_USER];
	struct hr_cuda_built linked[HR_OPERATORS_MAX];
	uint32_t linked_count;
	struct hr_cuda_running launch[HR_LAUNCHES_MAX];
	uint32_t launches; /* handles in use */
	/* Error of the first failed launch, after which no launch works; 0: none. */
	int failed;
	struct hr_error failure;
	struct hr_cuda_arena arena[HR_CUDA_ARENAS_MAX];
	struct hr_window_driver window;
	bool compressible;
	struct hr_cuda *next_kept;
};

/* ---- the functions of struct hr_backend_ops for GPU memory: each allocation is an
 * arena (gpu/cuda/driver/memory.h). For gpu/cuda/cuda.c. Their contracts are in gpu/backend.h.
 */

int hr_cuda_alloc(struct hr_backend *b, size_t bytes, struct hr_region *region, struct hr_error *e);
void hr_cuda_free(struct hr_backend *b, struct hr_region *region);
int hr_cuda_reserve_shared(struct hr_backend *b, size_t bytes, struct hr_region *region,
			   struct hr_error *e);
int hr_cuda_make_shared(struct hr_backend *b, const struct hr_region *region, size_t offset,
			size_t bytes, size_t *object, int *fd, struct hr_error *e);
int hr_cuda_export_shared(struct hr_backend *b, const struct hr_region *region, size_t offset,
			  int *fd, struct hr_error *e);
int hr_cuda_flush_shared(struct hr_backend *b);
int hr_cuda_share(struct hr_backend *b, const struct hr_region *region, struct hr_backend *other,
		  struct hr_error *e);

/* Copy the error of the GPU into *e, after the name of the backend, when err is not 0. Returns err. */
int hr_cuda_name_error(const struct hr_backend *b, int err, struct hr_error *e);

#endif
