/*
 * gpu/cuda/baseline.h - measures gpu/baseline.h with one GPU.
 */
#ifndef GPU_CUDA_BASELINE_H
#define GPU_CUDA_BASELINE_H

#include "gpu/baseline.h"
#include "gpu/cuda/device.h"

/*
 * Take pinned and GPU memory, measure each row `times` times, keep the medians, give the memory back.
 * 0; -EINVAL: a row, times or the file's size is out of range; -ENOENT, -ENOTSUP: that way cannot be
 * gone here; -EINTR: stopped; -EIO and others: a read has failed; -ETIMEDOUT: one does not come back,
 * and its thread keeps what it has until the process ends; -ENOMEM. gpu->cu.error says what.
 */
int hr_cuda_baseline(struct hr_cuda_gpu *gpu, const struct hr_baseline_plan *plan);

#endif
