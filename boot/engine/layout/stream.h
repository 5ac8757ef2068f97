/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boot/engine/layout/stream.h - the memory of one pipeline: its parts, and all data that the CPU
 * writes into them before a launch (descriptor, slots, buffers, queue pairs).
 *
 * The owner sets the numbers, calls plan, allocates the memory of the partition, sets the values
 * that are known only then, and calls wire. Owners are stage `partition`, stage `queues` and the
 * tests' rig.
 */
#ifndef BOOT_ENGINE_LAYOUT_STREAM_H
#define BOOT_ENGINE_LAYOUT_STREAM_H

#include <stdbool.h>
#include <stdint.h>

#include "boot/engine/layout/layout.h"
#include "boot/engine/devices/ssd.h"
#include "gpu/tap/feed.h"
#include "gpu/tap/role.h"
#include "gpu/worker/pipeline.h"

/* Queue pairs of one role to one ssd. */
struct hr_pipe_queues {
	struct hr_ssd *ssd;
	const char *name; /* name of the ssd */
	enum hr_place place;
	void *bar; /* BAR of the ssd, address for workers; for wire */
	int rings; /* index of the part with the rings */
};

/* Add the rings of `pairs` queue pairs to the parts; what: "read ", "write " or "", for the partition
 * map. Sets q->rings. As hr_layout_add(). */
int hr_pipe_queues_plan(struct hr_layout *parts, struct hr_pipe_queues *q, const char *what,
			uint32_t pairs);

/* Buffers for the tiles of one object, one per slot. */
struct hr_pipe_tiles {
	const char *object; /* name of the object */
	enum hr_place place;
	/* compute blocks store the checksum of each tile. Plan reserves memory; wire passes it
	 * to the blocks, unless this was cleared meanwhile */
	bool summed;
	uint64_t words; /* index of the first checksum in the part `checksums` */
	int part;
};

struct hr_pipe_layout {
	/*
	 * For plan: blocks, workers, slots, tiles, sources, read_queues, tile sizes and chunk sizes
	 * of sources and sink, sizes of states, records and copies. For wire: all fields but
	 * pointers. Wire adds the pointers, with addresses for the CPU.
	 */
	struct hr_pipe *pipe;
	const void *args; /* arguments of the operator */
	uint32_t args_bytes;
	struct hr_pipe_queues read[HR_SOURCES_MAX]; /* index: hr_pipe_source.queue */
	struct hr_pipe_queues write;
	struct hr_pipe_tiles source[HR_SOURCES_MAX], sink;
	/* A tap takes the results (pipe->has_sink is set): its numbers, without pointers, in place of
	 * `write`; the sink's tiles lie in HR_PLACE_TAP. NULL: an object takes them. */
	const struct hr_tap_role *tap;
	/* A feed fills the tiles of the only source, which lie in HR_PLACE_TAP: its numbers, without
	 * pointers, in place of `read`. NULL: prefetch reads the sources. */
	const struct hr_feed_role *feed;
	uint32_t tap_align; /* of the memory of the tiles of a tap or feed */
	/* Of entries and pages; 0 becomes one for each seat of a tap, or for the producer of a feed. */
	uint32_t tap_sets, feed_sets;
	/* Set by plan. */
	struct hr_layout parts;
	int descriptor, checksums, read_tables, write_tables, chunks, prps;
	int tap_words, tap_lending, tap_entries, tap_pages;
	int feed_words, feed_offers, feed_entries, feed_pages;
};

/* Add all parts of the pipeline to *partition. 0, or -ENOSPC as hr_layout_add(). */
int hr_pipe_layout_plan(struct hr_pipe_layout *layout, struct hr_partition *partition,
			const char *owner);

/*
 * Fill in the parts, which are zeroed, and create the queue pairs. *descriptor is the CPU address
 * of the descriptor for workers: the numbers of layout->pipe, and pointers with addresses for
 * workers. 0, or as hr_ssd_create_qp().
 */
int hr_pipe_layout_wire(struct hr_pipe_layout *layout, struct hr_pipe **descriptor,
			struct hr_error *e);

/* Check the rings of each queue pair, before any is created: 0, or -ENOTSUP of
 * hr_ssd_check_rings(). After bind. */
int hr_pipe_layout_check_rings(const struct hr_pipe_layout *layout, struct hr_error *e);

/* Number of workers of a role, in all blocks. */
static inline uint32_t hr_pipe_workers(const struct hr_pipe *pipe, enum hr_role role)
{
	return pipe->blocks[role] * pipe->workers[role];
}

#endif
