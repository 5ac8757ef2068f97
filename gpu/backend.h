/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu/backend.h - a backend runs worker blocks: `host` (threads of this CPU) or `cuda`.
 *
 * All resources are taken in open, reserve and alloc, during boot; a launch takes none.
 */
#ifndef GPU_BACKEND_H
#define GPU_BACKEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/base/error.h"
#include "gpu/partition.h"
#include "gpu/facts.h"
#include "gpu/window.h"
#include "nvme/dma/region.h"

struct hr_backend;
struct hr_gpu_measuring;

/* Worker code of a launch. */
enum hr_entry {
	HR_ENTRY_PIPE,	 /* hr_pipe_block(argument, block) */
	HR_ENTRY_BENCH,	 /* hr_bench_block(argument, block), gpu/worker/bench.h */
	HR_ENTRY_PROBE,	 /* hr_probe_block(argument, block), gpu/worker/probe.h */
	HR_ENTRY_ACCESS, /* hr_access_block(argument, block), gpu/worker/io/access.h */
	HR_ENTRY_TAP,	 /* hr_tap_pipe_block(argument, block), gpu/tap/role.h */
	HR_ENTRY_FEED,	 /* hr_feed_pipe_block(argument, block), gpu/tap/feed.h */
	/* as HR_ENTRY_ACCESS, with more registers; chosen by backends, not by callers */
	HR_ENTRY_ACCESS_WIDE,
	/* and above: as HR_ENTRY_PIPE or HR_ENTRY_ACCESS, with a user operator; returned by link */
	HR_ENTRY_USER,
	/* and above: as HR_ENTRY_TAP, with a user operator */
	HR_ENTRY_USER_TAP = HR_ENTRY_USER + HR_OPERATORS_MAX,
	/* and above: as HR_ENTRY_FEED, with a user operator */
	HR_ENTRY_USER_FEED = HR_ENTRY_USER_TAP + HR_OPERATORS_MAX,
};

/* The worker code of a pipeline with a tap, for the same operator as `entry`, which is
 * HR_ENTRY_PIPE or of link. */
static inline enum hr_entry hr_entry_with_tap(enum hr_entry entry)
{
	return entry < HR_ENTRY_USER ? HR_ENTRY_TAP
				     : (enum hr_entry)((unsigned)entry + HR_OPERATORS_MAX);
}

/* The same for a pipeline with a feed, which may have a tap, too. */
static inline enum hr_entry hr_entry_with_feed(enum hr_entry entry)
{
	return entry < HR_ENTRY_USER ? HR_ENTRY_FEED
				     : (enum hr_entry)((unsigned)entry + 2 * HR_OPERATORS_MAX);
}

/* Parameters of a launch. */
struct hr_launch_args {
	enum hr_entry entry;
	void *argument; /* worker address */
	uint32_t blocks;
	/* threads of a block: a multiple of lanes; exactly lanes when a block is one worker */
	uint32_t threads;
	uint32_t shared_bytes; /* shared memory of a block */
	uint32_t
		/* CPU address of the stop word that blocks poll, for hr_launch_stop() */
		*stop;
};

/* A handle, valid from launch to launch_free. Owned by the backend. */
struct hr_launch {
	struct hr_backend *backend;
	uint32_t *stop;
};

/* Maximum launches of one backend at the same time. */
#define HR_LAUNCHES_MAX HR_PIPELINES_MAX

struct hr_operator;

struct hr_backend_ops {
	/*
	 * Make [cpu, cpu + bytes), page aligned, accessible for workers: host memory of this
	 * process, or, with io, a mapping of a BAR whose doorbells workers write. *worker is its
	 * address for workers. 0; -ENOTSUP: the backend cannot access such memory; -ENOMEM; -EIO.
	 */
	int (*attach)(struct hr_backend *b, void *cpu, size_t bytes, bool io, void **worker,
		      struct hr_error *e);
	/* Undo attach, before the memory is freed. No worker runs. */
	void (*detach)(struct hr_backend *b, void *cpu);
	/* Allocate worker memory, zeroed; region->cpu is NULL when the CPU cannot access it; no
	 * name. -ENOMEM; -EINVAL: bytes 0. */
	int (*alloc)(struct hr_backend *b, size_t bytes, struct hr_region *region,
		     struct hr_error *e);
	/*
	 * The same for GPU memory that controllers access, when it differs from the memory of
	 * alloc; with a name and bus addresses. NULL: there is only alloc.
	 */
	int (*alloc_peer)(struct hr_backend *b, size_t bytes, struct hr_region *region,
			  struct hr_error *e);
	void (*free)(struct hr_backend *b, struct hr_region *region);
	/*
	 * Reserve addresses for memory that other processes map; no memory yet; region->cpu is
	 * NULL. Freed by free. NULL: the memory of workers is host memory, gpu/tap/memory.h.
	 * -ENOTSUP: the driver cannot export memory; -ENOMEM.
	 */
	int (*reserve_shared)(struct hr_backend *b, size_t bytes, struct hr_region *region,
			      struct hr_error *e);
	/*
	 * Allocate zeroed memory at `offset` of such a region, a multiple of shared_align, behind
	 * all memory that was allocated in it before, or in place of such memory. It is an object
	 * of its own, of at least `bytes`: *object is its size. *fd: a descriptor with which
	 * another process maps it; the caller closes it. The memory stays until all processes
	 * have unmapped it. No worker runs. -EINVAL: the offset is another one; -ENOMEM, -ENOSPC.
	 */
	int (*make_shared)(struct hr_backend *b, const struct hr_region *region, size_t offset,
			   size_t bytes, size_t *object, int *fd, struct hr_error *e);
	/*
	 * *fd: a dma-buf of the whole memory object at `offset` of such a region, with which a
	 * network device accesses it; the caller closes it. NULL, as with reserve_shared. -EINVAL:
	 * no object is there; -ENOTSUP: no other device can access it, or nothing makes its writes
	 * visible to running workers.
	 */
	int (*export_shared)(struct hr_backend *b, const struct hr_region *region, size_t offset,
			     int *fd, struct hr_error *e);
	/*
	 * Make what network devices have written to such memory visible to running workers. The
	 * writes are complete. Called by any thread, also beside the other functions. NULL, as with
	 * reserve_shared. 0; -EIO: the GPU has failed.
	 */
	int (*flush_shared)(struct hr_backend *b);
	/*
	 * Let workers of `other`, a backend with the same function here, access the region, of
	 * alloc or alloc_peer of b, at the same address for workers; until it is freed; once for
	 * each `other`. With region NULL: only find out whether that is possible. -ENOTSUP: the two
	 * GPUs have no path.
	 */
	int (*share)(struct hr_backend *b, const struct hr_region *region, struct hr_backend *other,
		     struct hr_error *e);
	/* Copy into memory of alloc or make_shared, complete on return; before a launch. Does nothing
	 * when both addresses are equal. -EIO: the GPU has failed. */
	int (*upload)(struct hr_backend *b, void *worker, const void *cpu, size_t bytes,
		      struct hr_error *e);
	/* The opposite direction, after the end of a launch. */
	int (*download)(struct hr_backend *b, void *cpu, const void *worker, size_t bytes,
			struct hr_error *e);
	/*
	 * Link the pipeline's worker code with a user operator; once per operator, before launches.
	 * *entry is the value for resident and launch, *max_threads its maximum number of threads
	 * per block. The output of the driver's linker is logged line by line. -EINVAL: it cannot
	 * be linked, or exceeds the resources of the GPU; -ENOTSUP: it has no code for this backend
	 * or GPU; -ENOSPC: more than HR_OPERATORS_MAX; -ENOMEM; -EIO.
	 */
	int (*link)(struct hr_backend *b, const struct hr_operator *op, enum hr_entry *entry,
		    uint32_t *max_threads, struct hr_error *e);
	/* *blocks: maximum number of blocks of this shape that are resident at once, and so the
	 * maximum of a launch; 0 when the shape is not possible. -EINVAL, -EIO. */
	int (*resident)(struct hr_backend *b, enum hr_entry entry, uint32_t threads,
			uint32_t shared_bytes, uint32_t *blocks, struct hr_error *e);
	/* Reserve resources for this number of launches at the same time, up to HR_LAUNCHES_MAX;
	 * before the first launch. NULL: nothing to reserve. Without this call one launch at a
	 * time is possible. -ENOMEM, -EIO. */
	int (*reserve)(struct hr_backend *b, uint32_t launches, struct hr_error *e);
	/*
	 * Start all blocks; returns at once, with a handle. All blocks are resident at once,
	 * together with those of other launches. -EBUSY: too many launches, or not enough free
	 * blocks beside the running launches (side_by_side); -EINVAL: no blocks, or more than are
	 * resident at once.
	 */
	int (*launch)(struct hr_backend *b, const struct hr_launch_args *args,
		      struct hr_launch **launch, struct hr_error *e);
	/* 0: still running; 1: all blocks have ended; -errno: the backend has failed, and no
	 * block of any launch runs. */
	int (*poll)(struct hr_launch *launch, struct hr_error *e);
	/* Free the handle: its blocks have ended, or the backend has failed. */
	void (*launch_free)(struct hr_launch *launch);
	void (*close)(struct hr_backend *b);
};

struct hr_backend {
	const struct hr_backend_ops *ops;
	char name[HR_NAME_MAX]; /* "host:4", "cuda:0 NVIDIA H200" */
	uint32_t lanes;		/* HR_LANES of the worker code */
	/* threads that the processor executes together: blocks have whole waves; 1 on `host` */
	uint32_t wave;
	uint32_t max_blocks; /* maximum resident blocks of one worker each */
	/* Maximum resident blocks of several launches together, independent of their resources. */
	uint32_t side_by_side;
	uint32_t processors;		  /* SMs; on `host` the CPUs that its blocks share */
	uint32_t max_threads;		  /* maximum threads of a block */
	uint32_t shared_align;		  /* of make_shared: bytes; 0: there is none */
	const struct hr_gpu_facts *facts; /* of the GPU; NULL on `host` */
	/* Reports about the GPU, gpu/measuring.h; NULL: no GPU. */
	const struct hr_gpu_measuring *measuring;
	/* For hr_window_open() on memory of alloc; NULL: no other device can access that memory. */
	const struct hr_window_driver *window;
	/* PCI address of the function whose BAR is the memory of alloc_peer, and the size of
	 * that BAR; "": none. */
	char peer[16];
	uint64_t peer_bytes;
	/* difference from the device string, for the user; or "" */
	char note[HR_LOG_LINE_MAX];
	void *impl;
};

/* ---- a running launch as a handle: poll it, request its end, wait for it, free it */

/* 0: still running; 1: all blocks have ended; -errno: as poll of struct hr_backend_ops. */
int hr_launch_poll(struct hr_launch *launch, struct hr_error *e);

/* Write `how` (enum hr_pipe_stop, or 1 for a bench) to the stop word of the launch, which its
 * blocks poll. They end later. The launch must have a stop word. */
void hr_launch_stop(struct hr_launch *launch, uint32_t how);

/* Poll until the launch has ended, at most until `until_ns` on the clock of hr_now_ns(), with
 * pauses of pause_ns. As hr_launch_poll(); 0: it still runs at that time. */
int hr_launch_wait(struct hr_launch *launch, uint64_t until_ns, uint64_t pause_ns,
		   struct hr_error *e);

/* Free the handle of a launch that has ended according to poll; does nothing for NULL. */
void hr_launch_free(struct hr_launch *launch);

#endif
