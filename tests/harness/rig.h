/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/harness/rig.h - a pipeline over real parts: software controllers, driver, queue pairs, host
 * backend; only the object store and the configuration are missing. Objects are RIG_OBJECT bytes
 * apart, source s is on ssd s mod ssds, the sink on ssd 0. Before a run the sink's place is filled
 * with RIG_POISON, and the bytes between the end of a source and the end of its block are random.
 *
 * The backend is the host's, or the one in the environment: RIG_DEVICE ("cuda:0"), and on a GPU
 * RIG_THREADS (threads of a block, 32) and RIG_COPY (tiles are copied to the GPU before they are
 * computed).
 *
 * A failed set-up ends the test.
 */
#ifndef TESTS_HARNESS_RIG_H
#define TESTS_HARNESS_RIG_H

#include <stdbool.h>
#include <stdint.h>

#include "boot/engine/layout/stream.h"
#include "boot/engine/devices/ssd.h"
#include "gpu/backend.h"
#include "gpu/ops/operators.h"
#include "gpu/worker/bench.h"
#include "gpu/worker/pipeline.h"
#include "gpu/places.h"

#define RIG_SSDS 2u
#define RIG_OBJECT (1u << 20)
/* Bytes behind an object or sink that a test also fills and compares: no worker may change them. */
#define RIG_BEHIND 65536u
#define RIG_SINK_AT (HR_SOURCES_MAX * (uint64_t)RIG_OBJECT)
#define RIG_DISK_BYTES (10u << 20)
#define RIG_POISON 0xa5
#define RIG_BLOCKS_MAX 12u
#define RIG_OBJECT_ID(source) (100u + (source)) /* object ID of a source */
#define RIG_SINK_ID 99u

/* The pipeline of a test. */
struct rig_work {
	enum hr_op_id op;
	const void *args;
	uint32_t args_bytes;
	uint32_t sources;
	const void *in[HR_SOURCES_MAX];
	uint64_t bytes[HR_SOURCES_MAX];
	uint32_t tile_bytes[HR_SOURCES_MAX]; /* whole blocks */
	uint64_t first_tile;
	uint32_t slots;
	uint32_t blocks[HR_ROLES]; /* write-back blocks are ignored without a sink */
	uint32_t workers;	   /* workers of a block; 0: one */
	bool copies;		   /* compute blocks copy tiles, and make the output in a copy */
	uint32_t direct;	   /* a bit per source: not copied, whatever `copies` is */
	bool checksums;		   /* for the tiles of all sources and of the sink */
	bool keep_sink;		   /* do not fill the sink: continue after an earlier run */
};

struct rig {
	struct hr_ssd ssd[RIG_SSDS];
	uint32_t ssds, lba_shift;
	struct hr_backend backend;
	struct hr_launch *launch; /* of the current run, from rig_start() to rig_wait() */
	struct hr_places memory;
	struct hr_partition partition;
	struct hr_pipe_layout layout;
	void *bar[RIG_SSDS]; /* addresses for workers */
	void *statics;	     /* the program's own variables, when attached */
	uint32_t threads;    /* threads of a block */
	uint32_t warps;	     /* workers of a block */
	bool copy;
	/*
	 * The current run, by CPU addresses. Data of workers have their values before the launch,
	 * or, after rig_wait(), at the end.
	 */
	struct hr_pipe *pipe;
	struct hr_pipe view;
	struct hr_pipe *published; /* address of pipe for workers */
	uint64_t sink_bytes;
	/* Bytes at the place of the sink that hold RIG_POISON before the run: the sink's blocks, and
	 * RIG_BEHIND. */
	uint64_t sink_room;
};

/* Bytes of each place that rig_up() takes, for each worker of a block: 1 MiB, or what the test sets. */
extern uint64_t rig_place_bytes[HR_PLACES];

/*
 * Start `ssds` controllers "soft:memory" with these further options ("lba=512,mdts=1"), queue pairs
 * of `entries`, and this deadline of commands.
 */
void rig_up(struct rig *rig, uint32_t ssds, const char *options, uint32_t entries,
	    uint64_t timeout_ns);
void rig_down(struct rig *rig);

/* The same with a fault script (nvme/soft/FAULTS.md) for all controllers. */
void rig_up_faulty(struct rig *rig, uint32_t ssds, const char *options, const char *script,
		   uint32_t entries, uint64_t timeout_ns);

/* Write the data, wire the pipeline, create its queues, and launch it. */
void rig_start(struct rig *rig, const struct rig_work *work);

/*
 * Run hr_bench_block() on `blocks` blocks of one worker each, and wait. On a GPU the program's own
 * variables have the same addresses as on the CPU, so *bench and its pointers may be such
 * variables.
 */
void rig_bench(struct rig *rig, struct hr_bench *bench, uint32_t blocks);

/*
 * Make the program's own variables accessible to workers, at the CPU's addresses, until rig_down().
 * A launch may then use them. Does nothing on the host.
 */
void rig_share_variables(struct rig *rig);

/* Wait for the end of the run, at most a minute, then the test fails. Deletes the queue pairs. */
void rig_wait(struct rig *rig);

/* The first failure that a block reported, or NULL. */
const struct hr_failure *rig_failure(const struct rig *rig);

/* Tiles that the blocks of a role have processed. */
uint64_t rig_tiles(const struct rig *rig, enum hr_role role);

/* Commands that the controllers have completed with an error so far. */
uint64_t rig_errors(const struct rig *rig);

/* The first `bytes` bytes of the sink's place on the disk, in memory that the caller frees. */
uint8_t *rig_read_sink(struct rig *rig, uint64_t bytes);

#endif
