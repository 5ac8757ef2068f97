/*
 * gpu/cuda/link_rates_job.h - what hr_kernel_limit does; lies in host memory that CPU and GPU share.
 */
#ifndef GPU_CUDA_LINK_RATES_JOB_H
#define GPU_CUDA_LINK_RATES_JOB_H

#include <stdint.h>

enum hr_limit_kind {
	HR_LIMIT_LOAD,	     /* all of host[0..bytes) */
	HR_LIMIT_STORE,	     /* the same */
	HR_LIMIT_LOAD_STORE, /* odd blocks load the lower half, even ones store the upper */
	HR_LIMIT_PAGES,	     /* each warp copies `each` random pages of host to its place of gpu */
	HR_LIMIT_BULK,	     /* the same by the bulk copy engine, through shared memory */
	HR_LIMIT_ECHO,	     /* one thread: `each` times writes ping and waits for pong */
};

#define HR_LIMIT_STAGES 8u /* pages in flight per warp by the bulk copy engine */

struct hr_limit_job {
	uint32_t kind; /* enum hr_limit_kind */
	uint32_t each;
	uint64_t bytes; /* a power of two */
	uint8_t *host, *gpu;
	uint32_t *fold;	   /* of GPU memory: where what was loaded goes, so that it is loaded */
	uint32_t *unsound; /* 1: the GPU could not do it, or waited in vain */
	uint32_t ping __attribute__((aligned(64)));
	uint32_t pong __attribute__((aligned(64)));
};

#endif
