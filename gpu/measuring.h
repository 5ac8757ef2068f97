/*
 * gpu/measuring.h - measurements of a GPU for reports: `bench` and `check` use them, no pipeline does.
 */
#ifndef GPU_MEASURING_H
#define GPU_MEASURING_H

#include <stdint.h>

#include "gpu/baseline.h"
#include "gpu/link_rates.h"

struct hr_backend;
struct hr_error;

struct hr_gpu_measuring {
	/* Set the registers of each role as an entry point of its own in facts->role. 0; -ENOTSUP: the
	 * driver has no code of the roles for this GPU; -ENOMEM; -EIO. */
	int (*roles)(struct hr_backend *b, struct hr_error *e);
	/* Measure the link between host and GPU: medians of `times` (odd, at most 15) measurements.
	 * 0; -EBUSY: a launch runs; -ENOMEM; -EIO. */
	int (*limits)(struct hr_backend *b, uint32_t times, struct hr_link_rates *limits,
		      struct hr_error *e);
	/* Measure reads of the memory of `other`, a GPU of the same kind, by workers of b: medians of
	 * `times` measurements (as above). warps: a multiple of HR_LIMIT_BLOCK_WARPS. 0; -ENOTSUP: the
	 * two GPUs have no path; and as above. */
	int (*peer)(struct hr_backend *b, struct hr_backend *other, uint32_t warps, uint32_t times,
		    struct hr_peer_rates *rates, struct hr_error *e);
	/*
	 * Measure the rates of a program without headrace. 0; -ENOENT, -ENOTSUP: not possible on
	 * this machine; -EINVAL: out of range; -EINTR: plan->stopped returned true; -ETIMEDOUT,
	 * -EIO, -ENOMEM and others: a read has failed. Later rows keep 0.
	 */
	int (*baseline)(struct hr_backend *b, const struct hr_baseline_plan *plan,
			struct hr_error *e);
};

#endif
