/*
 * gpu/cuda/arenas.h - the functions of struct hr_backend_ops for GPU memory: each allocation is an
 * arena (gpu/cuda/driver/memory.h). For gpu/cuda/cuda.c. Their contracts are in gpu/backend.h.
 */
#ifndef GPU_CUDA_ARENAS_H
#define GPU_CUDA_ARENAS_H

#include "gpu/backend.h"

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
