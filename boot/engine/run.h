/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boot/engine/run.h - the state of one pipeline between its configuration and worker code, set by
 * the stages of bring-up and by the run.
 */
#ifndef BOOT_ENGINE_RUN_H
#define BOOT_ENGINE_RUN_H

#include <stdbool.h>
#include <stdint.h>

#include "boot/engine/layout/access.h"
#include "boot/engine/layout/stream.h"
#include "cache/store/store.h"
#include "config/config.h"
#include "config/base/error.h"
#include "gpu/backend.h"
#include "gpu/worker/io/access.h"
#include "gpu/worker/pipeline.h"

#define HR_RUN_ROLES (HR_ROLE_ACCESS + 1) /* of both shapes */

/* Maximum time without progress of a worker that drives queues, in addition to the deadlines of its
 * commands. Of a compute block, which does not update its status while it processes a tile, the
 * pipeline's operator_s is the maximum. */
#define HR_STALL_TIMEOUT_NS (10 * HR_NS_PER_S)

/* Status words of a pipeline on one gpu: one per queue worker, one per compute block; and of all its
 * gpus. */
#define HR_GPU_STATUSES_MAX (HR_ROLES * HR_BLOCKS_MAX)
#define HR_STATUSES_MAX (HR_GPUS_MAX * HR_GPU_STATUSES_MAX)

/* Result of comparing a source, or an object of an access operator, with its checksum; or the reason
 * why it is not compared. */
enum hr_source_check {
	HR_SOURCE_UNREAD, /* to be compared after, or before, all of it has been read */
	HR_SOURCE_VERIFIED,
	HR_SOURCE_WRONG,
	HR_SOURCE_VERIFY_OFF,
	HR_SOURCE_NO_CHECKSUM,
	HR_SOURCE_RESUMED, /* the resumed run does not read the tiles of an earlier run again */
	HR_SOURCE_LARGE,   /* of an access operator: longer than HR_VERIFY_AUTO_BYTES */
};

/* The comparison of the data of an object with its checksum. */
struct hr_run_verify {
	/* it has or will have a checksum, and the pipeline wants the comparison */
	bool wanted;
	/* Set by `sinks`, then by the run. */
	enum hr_source_check check;
	bool known; /* `stored` is the checksum that the object had at bring-up */
	uint32_t stored;
	uint32_t expected, found;  /* set when it was compared */
	uint64_t offset, capacity; /* extent of the object at bring-up; capacity 0: not known */
};

/* A source of a run. */
struct hr_run_source {
	/* id of the object; 0 while it is the sink of an earlier pipeline, not yet created */
	uint64_t id;
	uint64_t bytes;
	int writer;	/* index of the run that writes this object, or -1 */
	uint32_t queue; /* index in hr_run.ssd: selects the queue pair of a worker */
	uint32_t tile_bytes;
	/* With is_shard, the object has the `held` bytes from byte `at` of a data set, whose length is
	 * `bytes`; else it has all bytes. */
	bool is_shard;
	uint64_t at, held;
	struct hr_store_shard shard;
	struct hr_run_verify verify;
};

/* Action of bring-up for the sink of a run, or for a new object of an access operator. */
enum hr_sink_plan {
	HR_SINK_NONE, /* the run has no sink */
	HR_SINK_CREATE,
	HR_SINK_REPLACE, /* an object of that name exists; it is removed when the run has finished */
	HR_SINK_RESUME,	 /* an earlier run of this pipeline was interrupted */
	HR_SINK_COMPLETE, /* an earlier run of this pipeline has completed it */
};

/* An object of an access operator, in the order of the description. */
struct hr_run_object {
	bool used;   /* false: the configuration leaves out an optional object */
	uint64_t id; /* 0 while it is not created */
	uint64_t bytes;
	int writer; /* index of the run that writes it before this run, or -1 */
	/* With is_shard the object has `bytes` of a data set, from row shard.first_row on. shard.set of
	 * a new object is that of its run. */
	bool is_shard;
	struct hr_store_shard shard;
	uint32_t queue; /* index in hr_run.ssd */
	bool created;	/* created by this bring-up, and not yet finished */
	enum hr_sink_plan plan;
	struct hr_run_verify verify; /* of an object that exists */
	/* Of an object that the run writes: `crc` is the CRC-32C of its data after the run. */
	bool summed;
	uint32_t crc;
};

/* The tap of a run; a copy of the numbers of its role. */
struct hr_run_tap {
	struct hr_tap_role role;
	/* Consumers that are attached; that were attached; that were dropped because they broke the
	 * protocol; clients that were refused; how often a tile was held longer than the lease. */
	uint64_t present, attached, revoked, refused, late;
};

/* The feed of a run; a copy of the numbers of its role. */
struct hr_run_feed {
	struct hr_feed_role role;
	/* Producers that are attached; that were attached; that were dropped because they broke the
	 * protocol; clients that were refused; how often one held tiles longer than the lease. */
	uint64_t present, attached, revoked, refused, late;
};

enum hr_outcome {
	HR_RUN_WAITING,
	HR_RUN_DONE,
	HR_RUN_COMPLETE, /* a complete sink of this pipeline existed before */
	HR_RUN_INTERRUPTED,
	HR_RUN_FAILED,
};

/* What a run has on one of its gpus. A run of a stream operator has one gpu. */
struct hr_run_gpu {
	/* From `backends`: worker code of the gpu's backend, or linked for the operator. */
	enum hr_entry entry;
	uint32_t entry_threads; /* maximum threads of a block; 0: that of the backend */
	/* Of an access operator, as layout, cpu and pipe below. */
	struct hr_access_layout layout;
	struct hr_access cpu;
	struct hr_access *access; /* NULL: queues are down */
};

/* The state of a pipeline. */
struct hr_run {
	const struct hr_config_pipeline *config;
	bool selected;
	/* `headrace check`: an object that does not exist yet, so the run is not selected; or
	 * NULL */
	const struct hr_config_object *awaits;
	bool suspect; /* failed in an earlier attempt: run it after the others */
	/* index: of the gpu among those of the pipeline, hr_config_gpu() */
	struct hr_run_gpu gpu[HR_GPUS_MAX];
	/* From `objects`. */
	struct hr_run_source source[HR_SOURCES_MAX];
	uint32_t ssd[HR_SSDS_MAX]; /* distinct ssds of the sources, or of the objects */
	uint32_t ssds;
	uint64_t tiles;
	/* With `headrace run --mpi`: this process runs part number `part` of the tiles, of `parts`
	 * of about equal size; parts 0: all tiles. Set before `objects`. With of_shards its tiles
	 * are those of its shards, from shard_begin on up to shard_end. */
	uint32_t part, parts;
	bool of_shards;
	uint64_t shard_begin, shard_end;
	struct hr_run_object object[HR_OBJECTS_MAX];
	uint64_t sink_bytes;
	uint32_t sink_tile_bytes;
	/* From `partition`. */
	uint32_t slots;
	/* of each role, on each gpu; workers (warps) per block */
	uint32_t blocks[HR_RUN_ROLES], workers[HR_RUN_ROLES];
	uint32_t threads; /* threads of every block */
	bool copies;	  /* compute blocks copy tiles to GPU memory before they process them */
	/* compute blocks write the output in GPU memory and copy it to host memory */
	bool stages;
	uint32_t shared_bytes; /* dynamic shared memory of each block */
	struct hr_pipe_layout layout;
	struct hr_run_tap tap;
	struct hr_run_feed feed;
	/* From `sinks`. */
	enum hr_sink_plan sink_plan;
	bool sink_created; /* created by this bring-up, and not yet written */
	uint64_t sink_id;
	/* A divided run: the same in all parts, and another one in other data sets. */
	uint64_t data_set;
	/* Create the sink again although it is complete: the sink of another part is not, and the
	 * result is that of all parts. */
	bool create_again;
	uint64_t fingerprint; /* hash of all that determines the contents of the sink */
	uint64_t first_tile;
	uint64_t sink_summed_tiles; /* number of first tiles that sink_crc covers */
	uint32_t sink_crc;
	/* After the merge of a divided run, on rank 0: sink_crc covers the sinks of all parts. */
	bool sink_merged;
	bool sink_unsummed; /* true: sink_crc must first be computed by reading the sink */
	/* Numbers from `partition`, pointers from `queues`, with addresses for the CPU. Workers
	 * write status, written and control. For all other parts the CPU sees the contents at
	 * the launch, and after the end of the launch the final contents. The same holds for the
	 * descriptor itself: */
	struct hr_pipe cpu;
	struct hr_pipe *pipe; /* NULL: queues are down */
	/* Set by the run. */
	enum hr_outcome outcome;
	int error;		   /* 0; -EINTR: interrupted; > 0 or -errno: failed */
	bool lost_gpu;		   /* failed with a gpu, maybe by the code of its operator */
	struct hr_error cause;	   /* text and kind of the failure; printed once */
	struct hr_failure failure; /* with HR_RUN_FAILED, when a worker has reported it */
	uint32_t failure_gpu;	   /* of that worker */
	uint64_t started_ns, ended_ns;
	/* Set at the end: hr_run_tiles_done(), hr_run_bytes_read(). */
	uint64_t done_tiles, read_bytes;
	/* workers have ended: slots and descriptor have their final contents */
	bool workers_ended;
	uint64_t first_submit_ns; /* 0: no tile was submitted */
	uint64_t durable_tiles;	  /* durable tiles of the sink */
};

/* True when the queues are up: the functions below may be called. */
bool hr_run_wired(const struct hr_run *run);

/* The tiles of this process are hr_run_first_tile() .. hr_run_end_tile() - 1: all tiles, or
 * those of its part. An interrupted run continues at first_tile, not at hr_run_first_tile(). */
uint64_t hr_run_first_tile(const struct hr_run *run);
uint64_t hr_run_end_tile(const struct hr_run *run);

/* Number of gpus. */
uint32_t hr_run_gpus(const struct hr_run *run);

/*
 * Status record i, at the address for the CPU. Records of a role are adjacent; within a role those
 * of each gpu are. hr_run_status_gpu() gives the gpu of a record, and its number within role and
 * gpu.
 */
const struct hr_worker_status *hr_run_status(const struct hr_run *run, uint32_t i);
uint32_t hr_run_status_gpu(const struct hr_run *run, uint32_t i, uint32_t *number);

/* Status records of a role (below HR_RUN_ROLES), index of the first, and total. */
uint32_t hr_run_role_statuses(const struct hr_run *run, uint32_t role);
uint32_t hr_run_first_status(const struct hr_run *run, uint32_t role);
uint32_t hr_run_statuses(const struct hr_run *run);

/* Of gpu number `member` of the run: the control words at the address for the CPU, the parts of its
 * memory, and the index of the descriptor among them. */
struct hr_pipe_control *hr_run_control(const struct hr_run *run, uint32_t member);
const struct hr_layout *hr_run_layout(const struct hr_run *run, uint32_t member);
int hr_run_descriptor(const struct hr_run *run, uint32_t member);

/* Blocks of all roles on each gpu. */
uint32_t hr_run_blocks(const struct hr_run *run);

/* An object that the run creates or changes: among those of an access operator, or NULL for a sink; and
 * whether the run gives it a checksum. */
const struct hr_run_object *hr_run_made_object(const struct hr_run *run,
					       const struct hr_config_object *object);
bool hr_run_made_checksum(const struct hr_run *run, const struct hr_config_object *object);

/* Index of the run that writes source i, or object i of an access operator; -1: none of this
 * configuration. */
int hr_run_writer_of(const struct hr_run *run, uint32_t i);

/* Tiles that one consumer of the tap may hold: the configured number, at most slots - 2, because
 * two slots keep the pipeline moving. */
uint32_t hr_run_tap_credits(const struct hr_run *run);

/* Tiles that a producer of the feed may hold: the configured number, or all slots. */
uint32_t hr_run_feed_credits(const struct hr_run *run);

/* The words that the host shares with the worker of the feed, of a run that is wired. */
struct hr_feed_words *hr_run_feed_words(const struct hr_run *run);

/* Set the numbers of tiles and bytes of source and sink to those of the feed, when its end is
 * known. Does nothing for a run without a feed. */
void hr_run_set_feed_end(struct hr_run *run);

/* Pages that the I/O workers of an access operator have read; 0: queues are down. */
uint64_t hr_run_pages_read(const struct hr_run *run);

/* Number of workers of a role on each gpu, in all its blocks. */
static inline uint32_t hr_run_workers(const struct hr_run *run, uint32_t role)
{
	return run->blocks[role] * run->workers[role];
}

/* ---- how far a run has come: tiles and bytes, counted by its workers */

/* Completed tiles of a launched pipeline, counted by its last role. Until the queues go down. */
uint64_t hr_run_tiles_done(const struct hr_run *run);

/* Bytes of all sources in the first `tiles` tiles. */
uint64_t hr_run_bytes(const struct hr_run *run, uint64_t tiles);

/* Bytes of all sources that prefetch has read since the launch, counted by whole tiles. Also
 * valid after the queues of a run have gone down; 0 for a run that was not launched. */
uint64_t hr_run_bytes_read(const struct hr_run *run);

#endif
