/*
 * gpu/cuda/limits.h - measures gpu/limits.h on one GPU.
 */
#ifndef GPU_CUDA_LIMITS_H
#define GPU_CUDA_LIMITS_H

#include "gpu/backend.h"
#include "gpu/cuda/image.h"
#include "gpu/limits.h"

/*
 * Take host and GPU memory through b (1 GiB each), measure each limit `times` times (odd, at most
 * HR_LIMIT_TIMES_MAX), keep the medians, give the memory back. No other launch runs. 0; -ENOMEM and
 * others of b; -EIO, -ETIMEDOUT: gpu->cu.error says what.
 */
#define HR_LIMIT_TIMES_MAX 15u
int hr_cuda_limits(struct hr_backend *b, struct hr_cuda_gpu *gpu, struct hr_cuda_image *image,
		   struct hr_cuda_launch *launch, uint32_t times, struct hr_limits *limits);

#endif
