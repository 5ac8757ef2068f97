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
#include "gpu/baseline.h"
#include "gpu/facts.h"
#include "gpu/link_rates.h"
#include "gpu/window.h"
#include "nvme/region.h"

struct hr_backend;

/* Which worker code a launch runs. */
enum hr_kernel {
	HR_KERNEL_PIPE,	 /* hr_pipe_block(argument, block) */
	HR_KERNEL_BENCH, /* hr_bench_block(argument, block), gpu/worker/bench.h */
	HR_KERNEL_PROBE, /* hr_probe_block(argument, block), gpu/worker/probe.h */
	HR_KERNEL_USER,	 /* and up: as HR_KERNEL_PIPE, with a user operator; from link */
};

struct hr_operator;

struct hr_backend_ops {
	/*
	 * Make [cpu, cpu + bytes), page aligned, reachable for workers: host memory of this process,
	 * or, with io, a mapping of a BAR, whose doorbells they write. *worker is where they see it.
	 * 0; -ENOTSUP: the backend cannot reach such memory; -ENOMEM; -EIO.
	 */
	int (*attach)(struct hr_backend *b, void *cpu, size_t bytes, bool io, void **worker);
	/* Undo attach, before the memory goes. No worker runs. */
	void (*detach)(struct hr_backend *b, void *cpu);
	/* Memory of the workers' own, zeroed; region->cpu is NULL where the CPU cannot touch it; no
	 * name. -ENOMEM; -EINVAL: bytes 0. */
	int (*alloc)(struct hr_backend *b, size_t bytes, struct hr_region *region);
	/*
	 * The same for the GPU's memory as controllers see it, where that is another memory than
	 * alloc's, with a name and bus addresses. NULL: alloc is all there is.
	 */
	int (*alloc_peer)(struct hr_backend *b, size_t bytes, struct hr_region *region);
	void (*free)(struct hr_backend *b, struct hr_region *region);
	/* Copy into memory from alloc, complete when it returns; before a launch. Nothing to do when
	 * both addresses are the same. -EIO: the GPU has failed. */
	int (*upload)(struct hr_backend *b, void *worker, const void *cpu, size_t bytes);
	/* The other way round, after the end of a launch. */
	int (*download)(struct hr_backend *b, void *cpu, const void *worker, size_t bytes);
	/*
	 * Make the pipeline's worker code with a user operator in it; once for each operator, before
	 * launches. *kernel is what resident and launch are to be called with, *max_threads the most
	 * threads of a block that it can have. With message (HR_LOG_LINE_MAX bytes), and what the
	 * driver's linker says as errors of their own: -EINVAL: it cannot be linked, or needs more
	 * than the GPU has; -ENOTSUP: it has no code for this backend or GPU; -ENOSPC: more than
	 * HR_OPERATORS_MAX; -ENOMEM; -EIO.
	 */
	int (*link)(struct hr_backend *b, const struct hr_operator *op, enum hr_kernel *kernel,
		    uint32_t *max_threads, char *message);
	/* Most blocks of this shape that are resident at once: what a launch can have. */
	uint32_t (*resident)(struct hr_backend *b, enum hr_kernel kernel, uint32_t threads,
			     uint32_t shared_bytes);
	/*
	 * Start `blocks` blocks of `threads` (a multiple of lanes; lanes itself where a block is one
	 * worker) with shared_bytes of memory that a block shares; returns at once. argument is a
	 * worker address. -EBUSY: one runs; -EINVAL: more blocks than are resident at once, or none.
	 */
	int (*launch)(struct hr_backend *b, enum hr_kernel kernel, void *argument, uint32_t blocks,
		      uint32_t threads, uint32_t shared_bytes);
	/* 0: still running; 1: all blocks have ended; -errno: the backend failed, and no block runs
	 * any more. */
	int (*poll)(struct hr_backend *b);
	/* Find out what each role takes by itself, in facts->role. NULL: there are no registers to be
	 * shared. -ENOTSUP: the driver has no code of them for this GPU; -ENOMEM; -EIO. */
	int (*roles)(struct hr_backend *b);
	/* Measure the link between host and GPU, the median of `times` (odd, at most 15). NULL where
	 * there is none. -EBUSY: a launch runs; -ENOMEM; -EIO. */
	int (*limits)(struct hr_backend *b, uint32_t times, struct hr_link_rates *limits);
	/*
	 * Measure what a program would do in place of headrace, with message (HR_LOG_LINE_MAX bytes)
	 * when it fails. NULL where there is no GPU memory. -ENOENT, -ENOTSUP: this machine has no
	 * such way; -EINVAL: out of range; -EINTR: plan->stopped said so; -ETIMEDOUT, -EIO, -ENOMEM
	 * and others: a read has failed. Rows that were not reached are not measured.
	 */
	int (*baseline)(struct hr_backend *b, const struct hr_baseline_plan *plan, char *message);
	void (*close)(struct hr_backend *b);
};

struct hr_backend {
	const struct hr_backend_ops *ops;
	char name[HR_NAME_MAX];		  /* "host:4", "cuda:0 NVIDIA H200" */
	uint32_t lanes;			  /* HR_LANES of its worker code */
	uint32_t max_blocks;		  /* resident at once, of one worker each */
	uint32_t processors;		  /* SMs; CPUs that the host backend's blocks share */
	uint32_t max_threads;		  /* of a block */
	const struct hr_gpu_facts *facts; /* of the GPU; NULL on `host` */
	/* For hr_window_open() on memory from alloc; NULL: no other device can reach that memory. */
	const struct hr_window_driver *window;
	/* PCI address of the function whose BAR alloc_peer's memory is, and bytes of that BAR; "". */
	char peer[16];
	uint64_t peer_bytes;
	void *impl;
};

#endif
