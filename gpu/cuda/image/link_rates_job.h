/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu/cuda/image/link_rates_job.h - the job of hr_entry_limit; lies in host memory shared by CPU and
 * GPU.
 */
#ifndef GPU_CUDA_IMAGE_LINK_RATES_JOB_H
#define GPU_CUDA_IMAGE_LINK_RATES_JOB_H

#include <stdint.h>

enum hr_limit_kind {
	HR_LIMIT_READ,	     /* load all of host[0..bytes) */
	HR_LIMIT_WRITE,	     /* store all of host[0..bytes) */
	HR_LIMIT_READ_WRITE, /* odd blocks load the lower half, even blocks store the upper half */
	HR_LIMIT_PAGES,	     /* each warp copies `each` random pages of host to its part of gpu */
	HR_LIMIT_BULK,	     /* the same by the bulk copy engine, through shared memory */
	HR_LIMIT_ECHO,	     /* one thread writes ping and waits for pong, `each` times */
};

#define HR_LIMIT_STAGES 8u /* pages in flight per warp with the bulk copy engine */

struct hr_limit_job {
	uint32_t kind; /* enum hr_limit_kind */
	uint32_t each;
	uint64_t bytes; /* a power of two */
	uint8_t *host, *gpu;
	/* in GPU memory: the result of the loads, so that the compiler keeps them */
	uint32_t *fold;
	uint32_t *unsound; /* 1: the GPU does not support it, or a wait timed out */
	uint32_t ping __attribute__((aligned(64)));
	uint32_t pong __attribute__((aligned(64)));
};

#endif
