/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boot/engine/layout/access.h - the memory of one pipeline with an access operator on one gpu: its
 * parts, and all data that the CPU writes into them before a launch (descriptor, page table, queue
 * pairs).
 *
 * The owner sets the numbers, calls plan, allocates the memory of the partition, sets the values
 * that are known only then, and calls wire; with several gpus join is last. Owners are stage
 * `partition`, stage `queues` and tests.
 */
#ifndef BOOT_ENGINE_LAYOUT_ACCESS_H
#define BOOT_ENGINE_LAYOUT_ACCESS_H

#include <stdbool.h>
#include <stdint.h>

#include "boot/engine/layout/layout.h"
#include "boot/engine/layout/stream.h"
#include "boot/engine/devices/ssd.h"
#include "gpu/worker/io/access.h"

struct hr_access_layout {
	/*
	 * For plan: shape and policy of the cache, objects, blocks, warps, ssds, merge_pages,
	 * commands, state_bytes, scratch_bytes, and computers and io_workers of the cache. For wire:
	 * all fields but pointers and bus addresses. Wire adds them, with addresses for the CPU.
	 */
	struct hr_access *access;
	/* Of the run: number of gpus, and the index of this one; below 2: one gpu. */
	uint32_t gpus, self;
	const void *args; /* arguments of the operator */
	uint32_t args_bytes;
	enum hr_place frames_in; /* place of the frames */
	bool stages;		 /* controllers use staging buffers in host memory, not frames */
	struct hr_pipe_queues queue[HR_SSDS_MAX]; /* index: hr_access.queue_of[] */
	/* Set by plan. */
	struct hr_layout parts;
	int descriptor, frames, staging, prp_lists, tables;
	int states, sets, flushed, peers;
};

/* Add all parts to *partition. 0, or -ENOSPC as hr_layout_add(). */
int hr_access_layout_plan(struct hr_access_layout *layout, struct hr_partition *partition,
			  const char *owner);

/*
 * Fill in the parts, which are zeroed, and create the queue pairs. *descriptor is the CPU address of
 * the descriptor for workers. 0; -ENOTSUP: frames are not contiguous on the bus; or as
 * hr_ssd_create_qp().
 */
int hr_access_layout_wire(struct hr_access_layout *layout, struct hr_access **descriptor,
			  struct hr_error *e);

/* After wire of the layouts of all gpus of a run, in their order: workers of each gpu get the addresses
 * of the memory of the others (cache/peers.h). */
void hr_access_layout_join(struct hr_access_layout *const layout[HR_GPUS_MAX]);

/* Check the parts in host memory that controllers use, before a queue pair is created: 0, or
 * -ENOTSUP: one is not contiguous on the bus. After bind. */
int hr_access_layout_check(const struct hr_access_layout *layout, struct hr_error *e);

/* Bytes of the staging buffers of all I/O workers. */
uint64_t hr_access_staging_bytes(const struct hr_access *access);

#endif
