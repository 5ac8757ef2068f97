/*
 * boot/engine/run.h - one pipeline between its configuration and worker code: what each stage of
 * bring-up and then the run itself find out about it.
 */
#ifndef BOOT_ENGINE_RUN_H
#define BOOT_ENGINE_RUN_H

#include <stdbool.h>
#include <stdint.h>

#include "config/config.h"
#include "gpu/backend.h"
#include "gpu/worker/pipeline.h"

/* What becomes of the comparison of a source with its checksum, and why it is not made. */
enum hr_source_check {
	HR_SOURCE_UNREAD, /* it is to be compared once all of it has been read */
	HR_SOURCE_VERIFIED,
	HR_SOURCE_WRONG,
	HR_SOURCE_VERIFY_OFF,
	HR_SOURCE_NO_CHECKSUM,
	HR_SOURCE_RESUMED, /* what an earlier run has read of it is not read again */
};

/* A source as it was found. */
struct hr_run_source {
	uint64_t id; /* of the object; 0 while it is the sink of an earlier pipeline not yet made */
	uint64_t bytes;
	int from;	/* index of the run whose sink it is, or -1 */
	uint32_t queue; /* index in hr_run.ssd: which queue pair of a worker reaches it */
	uint32_t tile_bytes;
	bool verifiable; /* it has a checksum, or will have, and the pipeline wants it compared */
	/* From `partition`: where the words of its tiles begin in the part `checksums`. */
	uint64_t words_at;
	/* From `sinks`, then from running it. */
	enum hr_source_check check;
	uint32_t crc_expected, crc_found; /* when it was compared */
};

enum hr_outcome {
	HR_RUN_WAITING,
	HR_RUN_DONE,
	HR_RUN_COMPLETE, /* the sink was there already, whole, from this very pipeline */
	HR_RUN_INTERRUPTED,
	HR_RUN_FAILED,
};

/* What bring-up does about the sink of a run. */
enum hr_sink_plan {
	HR_SINK_NONE, /* it has none */
	HR_SINK_CREATE,
	HR_SINK_REPLACE,  /* an object of the name is there; it goes when the run has finished */
	HR_SINK_RESUME,	  /* this very run was cut short */
	HR_SINK_COMPLETE, /* this very run has made it: nothing to do */
};

/* Part indices in the gpu's partition; -1: not needed. */
struct hr_run_parts {
	int pipe, slots, copy, args, states, records, result, control, status, written, checksums,
		read_qps, write_qps, read_tables, write_tables, chunks, prps, sink_rings,
		sink_tiles;
	int source_rings[HR_SOURCES_MAX]; /* per distinct ssd */
	int source_tiles[HR_SOURCES_MAX];
};

/* A pipeline between configuration and worker code. */
struct hr_run {
	const struct hr_config_pipeline *config;
	bool selected;
	bool suspect; /* it failed in an earlier attempt: others run before it */
	/* From `backends`. */
	enum hr_kernel kernel;	 /* what runs it: its gpu's worker code, or one linked for it */
	uint32_t kernel_threads; /* of a block, at most; 0: what the backend has */
	/* From `objects`. */
	struct hr_run_source source[HR_SOURCES_MAX];
	uint32_t ssd[HR_SOURCES_MAX]; /* distinct ssds of the sources */
	uint32_t ssds;
	uint64_t tiles;
	uint64_t sink_bytes;
	uint32_t sink_tile_bytes;
	/* From `partition`. */
	uint32_t slots;
	uint32_t blocks[HR_ROLES], workers[HR_ROLES]; /* of each role; workers (warps) per block */
	uint32_t threads;			      /* of every block */
	bool copies; /* compute blocks copy tiles to GPU memory before they work on them */
	bool stages; /* they make the output in GPU memory and copy it to host memory */
	uint32_t shared_bytes;	/* of each block at launch */
	uint64_t sink_words_at; /* where the words of the sink's tiles begin in `checksums` */
	struct hr_run_parts part;
	/* From `sinks`. */
	enum hr_sink_plan sink_plan;
	bool sink_made; /* by this bring-up, and nothing is written to it yet */
	uint64_t sink_id;
	uint64_t fingerprint; /* of what is written */
	uint64_t first_tile;
	uint64_t sink_summed_tiles; /* sink_crc is that of so many tiles from the first one on */
	uint32_t sink_crc;
	bool sink_unsummed; /* ... which has to be read for it first */
	/* From `queues`, as the CPU sees it: pipe and queue pairs as of the launch, then of the
	 * end; the others all the time. */
	struct hr_pipe *pipe;
	struct hr_nvme_qp *read_qp, *write_qp;
	struct hr_pipe_control *control;
	struct hr_worker_status *status;
	uint64_t *written;
	/* From running it. */
	enum hr_outcome outcome;
	int error;
	struct hr_failure failure; /* with HR_RUN_FAILED, when a worker reported it */
	uint64_t started_ns, ended_ns;
	/* At the end: hr_run_tiles_done(), hr_run_bytes_read(). */
	uint64_t through_tiles, read_bytes;
	bool settled; /* workers have ended: slots and descriptor are what they have left */
	uint64_t first_submit_ns; /* 0: no tile was submitted */
	uint64_t durable_tiles;	  /* of the sink */
};

/* Workers of a role, in all blocks. */
static inline uint32_t hr_run_workers(const struct hr_run *run, enum hr_role role)
{
	return run->blocks[role] * run->workers[role];
}

#endif
