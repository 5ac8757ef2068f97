/*
 * gpu/backend.h - what runs worker blocks: `host` (threads of this CPU) or `cuda`.
 *
 * All resources are taken in open and alloc, during boot; launch, poll and stop take none.
 */
#ifndef GPU_BACKEND_H
#define GPU_BACKEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gpu/arena.h"
#include "gpu/pipeline.h"
#include "nvme/region.h"

struct hr_backend;

/* Which worker code a launch runs. */
enum hr_kernel {
	HR_KERNEL_PIPE,	 /* hr_pipe_block(argument, block) */
	HR_KERNEL_BENCH, /* hr_bench_block(argument, block), gpu/bench.h */
};

struct hr_backend_ops {
	/* Memory of one place, zeroed, as a region with bus addresses. -ENOMEM. */
	int (*alloc)(struct hr_backend *b, enum hr_place place, size_t bytes,
		     struct hr_region *region);
	void (*free)(struct hr_backend *b, struct hr_region *region);
	/* Start `blocks` blocks; returns at once. argument is a worker address. -EBUSY: one runs. */
	int (*launch)(struct hr_backend *b, enum hr_kernel kernel, void *argument, uint32_t blocks);
	/* 0: still running; 1: all blocks have ended; -errno: the backend failed. */
	int (*poll)(struct hr_backend *b);
	void (*close)(struct hr_backend *b);
};

struct hr_backend {
	const struct hr_backend_ops *ops;
	char name[HR_NAME_MAX]; /* "host:4", "cuda:0 NVIDIA H200" */
	uint32_t lanes;		/* HR_LANES of its worker code */
	uint32_t max_blocks;	/* resident at once */
	void *impl;
};

/*
 * Open what a gpu device string names: "host:CPUS", "cuda:N", "auto". max_blocks is the most blocks
 * of one launch: `host` starts that many threads, parked, which share CPUS of the CPUs that this
 * process may use (all of them with "auto" without a GPU, and when CPUS is more than there are).
 * message (HR_LOG_LINE_MAX bytes) says what is wrong, or what was chosen otherwise than asked for,
 * or nothing. -EINVAL: malformed; -ENODEV, -ENOTSUP: no such GPU, or no cuda in this build; -ENOMEM,
 * -EAGAIN: no threads.
 */
int hr_backend_open(struct hr_backend *b, const char *device, uint32_t max_blocks, char *message);

/* The string only has to be well formed. 0 or -EINVAL, with message. */
int hr_backend_check(const char *device, char *message);

#endif
