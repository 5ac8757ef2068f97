/*
 * gpu/cuda/link_rates.h - measures gpu/link_rates.h on one GPU.
 */
#ifndef GPU_CUDA_LINK_RATES_H
#define GPU_CUDA_LINK_RATES_H

#include "gpu/backend.h"
#include "gpu/cuda/image.h"
#include "gpu/link_rates.h"

/*
 * Take host and GPU memory through b (1 GiB each), measure each limit `times` times (odd, at most
 * HR_LIMIT_TIMES_MAX), keep the medians, give the memory back. No other launch runs. 0; -ENOMEM and
 * others of b; -EIO, -ETIMEDOUT: gpu->cu.error says what.
 */
#define HR_LIMIT_TIMES_MAX 15u
int hr_cuda_link_rates(struct hr_backend *b, struct hr_cuda_gpu *gpu, struct hr_cuda_image *image,
		       struct hr_cuda_launch *launch, uint32_t times, struct hr_link_rates *limits);

#endif
