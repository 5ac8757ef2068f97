/*
 * gpu/cuda/measure/measure.h - measure gpu/baseline.h on one GPU.
 */
#ifndef GPU_CUDA_MEASURE_MEASURE_H
#define GPU_CUDA_MEASURE_MEASURE_H

#include "gpu/baseline.h"
#include "gpu/cuda/driver/device.h"

/*
 * Allocate pinned and GPU memory, measure each row `times` times, keep the medians, free the
 * memory. 0; -EINVAL: a row, times or the file's size is out of range; -ENOENT, -ENOTSUP: not
 * possible here; -EINTR: stopped; -EIO and others: a read has failed; -ETIMEDOUT: a read does not
 * return, and its thread keeps its resources until the process ends; -ENOMEM. gpu->cu.error has the
 * reason.
 */
int hr_cuda_baseline(struct hr_cuda_gpu *gpu, const struct hr_baseline_plan *plan);

#endif
