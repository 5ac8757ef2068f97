/*
 * tests/harness/rig.h - a pipeline with everything under it that is real: software controllers, driver,
 * queue pairs, host backend; only the object store and the configuration are left out. Objects lie
 * RIG_OBJECT apart, source s on ssd s mod ssds, the sink on ssd 0. Before a run the sink's place is
 * poisoned, and what lies between the end of a source and the end of its block is noise.
 *
 * The backend is the host's, or what the environment says: RIG_DEVICE ("cuda:0"), and on a GPU
 * RIG_THREADS (of a block, 32) and RIG_COPY (tiles are copied to the GPU before they are computed).
 *
 * Whatever cannot be set up stops the test.
 */
#ifndef TESTS_HARNESS_RIG_H
#define TESTS_HARNESS_RIG_H

#include <stdbool.h>
#include <stdint.h>

#include "boot/engine/ssd.h"
#include "gpu/backend.h"
#include "gpu/ops/operators.h"
#include "gpu/worker/bench.h"
#include "gpu/worker/pipeline.h"
#include "gpu/places.h"

#define RIG_SSDS 2u
#define RIG_OBJECT (1u << 20)
#define RIG_SINK_AT (HR_SOURCES_MAX * (uint64_t)RIG_OBJECT)
#define RIG_DISK_BYTES (10u << 20)
#define RIG_POISON 0xa5
#define RIG_BLOCKS_MAX 12u
#define RIG_OBJECT_ID(source) (100u + (source)) /* of sources; the sink is RIG_SINK_ID */
#define RIG_SINK_ID 99u

/* What a test wants run. */
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
	uint32_t blocks[HR_ROLES]; /* write-back's is ignored without a sink */
	uint32_t workers;	   /* of a block; 0: one */
	bool copies;		   /* compute blocks copy tiles, and make the output in a copy */
	uint32_t direct;	   /* a bit per source: it is not copied, whatever `copies` says */
	bool checksums;		   /* of the tiles of all sources and of the sink */
	bool keep_sink;		   /* do not poison: go on with what an earlier run has written */
};

struct rig {
	struct hr_ssd ssd[RIG_SSDS];
	uint32_t ssds, lba_shift;
	struct hr_backend backend;
	struct hr_places memory;
	size_t used[HR_PLACES];
	void *bar[RIG_SSDS]; /* as workers see them */
	void *statics;	     /* the program's own variables, when they are attached */
	uint32_t threads;    /* of a block */
	uint32_t warps;	     /* workers of a block */
	bool copy;
	/* Of the current run, with addresses as the CPU sees them: what workers own is what it was
	 * before the launch, or, after rig_wait(), at the end. */
	struct hr_pipe *pipe;
	struct hr_pipe view;
	const struct hr_pipe *published; /* as workers have it */
	uint64_t sink_bytes;
};

/* `ssds` controllers "soft:memory" with these further options ("lba=512,mdts=1"); queue pairs of
 * `entries`, commands with this deadline. */
void rig_up(struct rig *rig, uint32_t ssds, const char *options, uint32_t entries,
	    uint64_t timeout_ns);
void rig_down(struct rig *rig);

/* The same with a fault script (nvme/soft/FAULTS.md), which all of the controllers obey. */
void rig_up_faulty(struct rig *rig, uint32_t ssds, const char *options, const char *script,
		   uint32_t entries, uint64_t timeout_ns);

/* Put the data in place, wire the pipeline, create its queues, and launch it. */
void rig_start(struct rig *rig, const struct rig_work *work);

/*
 * Run hr_bench_block() on `blocks` blocks of one worker and wait. On a GPU the program's own
 * variables are where the CPU sees them, so *bench and all it points to may be any of them.
 */
void rig_bench(struct rig *rig, struct hr_bench *bench, uint32_t blocks);

/*
 * Let workers see the program's own variables, where the CPU sees them, until rig_down(): they may
 * then be given to a launch. Nothing to do on the host.
 */
void rig_share_variables(struct rig *rig);

/* Until it has ended; at most a minute, then the test fails. Queue pairs are deleted. */
void rig_wait(struct rig *rig);

/* The first failure that a block reports, or NULL. */
const struct hr_failure *rig_failure(const struct rig *rig);

/* Tiles that blocks of a role are through with. */
uint64_t rig_tiles(const struct rig *rig, enum hr_role role);

/* Commands that the controllers have completed with an error so far. */
uint64_t rig_errors(const struct rig *rig);

/* bytes of the sink's place on the disk from its start, malloc()ed. */
uint8_t *rig_read_sink(struct rig *rig, uint64_t bytes);

#endif
