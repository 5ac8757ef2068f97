/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu/cuda/measure/measure.h - measurements of gpu/measuring.h on one GPU.
 */
#ifndef GPU_CUDA_MEASURE_MEASURE_H
#define GPU_CUDA_MEASURE_MEASURE_H

#include "gpu/measuring.h"
#include "gpu/cuda/driver/device.h"
#include "gpu/backend.h"
#include "gpu/cuda/image/image.h"

/* ---- measure gpu/measuring.h on one GPU. */

/*
 * Allocate pinned and GPU memory, measure each row `times` times, keep the medians, free the
 * memory. 0; -EINVAL: a row, times or the file's size is out of range; -ENOENT, -ENOTSUP: not
 * possible here; -EINTR: stopped; -EIO and others: a read has failed; -ETIMEDOUT: a read does not
 * return, and its thread keeps its resources until the process ends; -ENOMEM. gpu->cu.error has the
 * reason.
 */
int hr_cuda_baseline(struct hr_cuda_gpu *gpu, const struct hr_baseline_plan *plan);

/* ---- measure the rates of gpu/measuring.h */

/*
 * Allocate host and GPU memory through b (1 GiB each), measure each rate `times` times (odd, at
 * most HR_LIMIT_TIMES_MAX), keep the medians, free the memory. No other launch runs. 0; -ENOMEM and
 * other errors of b, in *e; -EIO, -ETIMEDOUT: gpu->cu.error has the reason, and *e stays empty.
 */
#define HR_LIMIT_TIMES_MAX 15u
int hr_cuda_link_rates(struct hr_backend *b, struct hr_cuda_gpu *gpu, struct hr_cuda_image *image,
		       struct hr_cuda_launch *launch, uint32_t times,
		       struct hr_gpu_link_rates *limits, struct hr_error *e);

/* A GPU of the two that read each other's memory. */
struct hr_cuda_side {
	struct hr_backend *b;
	struct hr_cuda_gpu *gpu;
	struct hr_cuda_image *image;
	struct hr_cuda_launch *launch;
};

/* The same for gpu/measuring.h: peer. side[0] reads alone, then both read. *failed: index of the side
 * whose error is returned. */
int hr_cuda_peer_rates(const struct hr_cuda_side side[2], uint32_t warps, uint32_t times,
		       struct hr_peer_rates *rates, uint32_t *failed, struct hr_error *e);

#endif
