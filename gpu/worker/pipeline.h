/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu/worker/pipeline.h - a pipeline for its workers: a ring of slots and three groups of blocks.
 *
 *   prefetch  -> keeps the ring full of reads        (each worker owns queue pairs)
 *   compute   -> runs the operator on filled slots   (a whole block per tile)
 *   writeback -> writes results, frees slots         (each worker owns a queue pair)
 *
 * A slot belongs to one worker or block of each role (slot mod number of them). So each state word
 * has exactly one writer at any time, and there are no locks. When a slot is free, prefetch takes
 * the next tile for it. So a slow or late queue gets fewer tiles, and the others do not wait for it
 * at the end. The tile numbers of one slot only increase:
 *
 *   FREE --prefetch--> FILLED --compute--> COMPUTED --writeback--> FREE      (with a sink object)
 *   FREE --prefetch--> FILLED --compute--> FREE                              (without)
 *   FREE --prefetch--> CLOSING --compute--> CLOSED                           (no more tiles)
 *
 * A tap (gpu/tap/role.h) takes the place of write-back, and sets a slot FREE as soon as it has taken
 * the tile over: prefetch reads the next one while consumers read the output. The word `held` of the
 * slot keeps compute from the output's memory until then, or until the tap has given the slot the
 * memory of another one.
 *
 * With a sink, CLOSED tells write-back that a slot is finished. End of data, a stop request and a
 * failure all use this path. Every wait ends: commands have deadlines, and a failing worker sets
 * `stop`, which keeps prefetch from starting new work. The host's stop flag lies in host memory,
 * which is slow for a GPU, so only prefetch worker 0 polls it, and passes it on.
 *
 * The descriptor, slots and queue pairs lie in HR_PLACE_WORKER and contain addresses for workers.
 * The host writes them before the launch, and reads them after its end. Words shared by host and
 * running workers lie in HR_PLACE_CONTROL: struct hr_pipe_control, status, written, checksums of
 * tiles. Each word has one writer, named below. Words of HR_PLACE_CONTROL are written and read at
 * system scope, except checksums, whose validity follows from other words.
 */
#ifndef GPU_WORKER_PIPELINE_H
#define GPU_WORKER_PIPELINE_H

#include <stdint.h>

#include "cache/object.h"
#include "config/base/limits.h"
#include "nvme/queue/worker.h"
#include "nvme/queue/queue.h"
#include "nvme/queue/status.h"

enum hr_slot_state {
	HR_SLOT_FREE,
	HR_SLOT_FILLED,
	HR_SLOT_COMPUTED,
	HR_SLOT_CLOSING,
	HR_SLOT_CLOSED
};

enum hr_role { HR_ROLE_PREFETCH, HR_ROLE_COMPUTE, HR_ROLE_WRITEBACK, HR_ROLES };

#define HR_OUT_BROKEN 0xffffffffu

/* Of the memory of a slot's output, with a tap. */
enum hr_out_state {
	HR_OUT_FREE,
	HR_OUT_COMPUTING, /* by compute, until the tile is taken over */
	HR_OUT_LENT,	  /* it has a tile that was not given back: compute waits */
	HR_OUT_ABANDONED, /* and the run stops: compute discards the slot's next tile */
};

#define HR_PARKED_MAX 8u /* the commands of a usual tile */

struct hr_slot {
	uint32_t state __attribute__((aligned(8))); /* enum hr_slot_state: acquire / release */
	/* by compute, with a tap, in one 8-byte store with COMPUTED: low bits of the time at which all
	 * processes could see the tile that it has computed */
	uint32_t computed_ns;
	uint64_t tile;	    /* by prefetch, before FILLED */
	uint64_t read_tile; /* used by prefetch only: the slot's tile before FILLED */
	uint32_t out_bytes; /* by compute; HR_OUT_BROKEN: must not be written */
	uint32_t has_tile;
	/* used by prefetch only, by writeback only: commands outstanding */
	uint32_t reads_in_flight, writes_in_flight;
	/* used by prefetch only: sources of read_tile whose reads are posted */
	uint32_t posted_sources;
	uint32_t read_tries, write_tries; /* repeated commands of the tile, by each role */
	/* Commands that wait to be sent again: of prefetch while the slot is FREE, later of
	 * write-back. With more than HR_PARKED_MAX all commands of the tile are sent again. */
	uint32_t deferred;			/* number of them */
	uint32_t deferred_token[HR_PARKED_MAX]; /* their tokens */
	uint64_t deferred_until_ns;		/* end of the pause, on the worker's clock */
	uint64_t first_failure_ns; /* time of the first failure of a command of the tile */
	/* used by writeback only: a tile was not written, so no later tile counts */
	uint32_t write_failed;
	uint64_t first_unwritten; /* the first such tile, when spoiled */
	struct hr_buffer in[HR_SOURCES_MAX];
	struct hr_buffer out; /* bytes 0 without a sink */
	uint32_t
		out_state; /* enum hr_out_state: compute and the tap's worker replace HR_OUT_FREE */
};

#define HR_NO_TILE UINT64_MAX

/* The first failure of a block. */
struct hr_failure {
	int32_t error; /* 0: none; > 0 NVMe status; -ETIMEDOUT, -EPROTO, ... */
	uint32_t role, source;
	uint64_t tile, lba; /* HR_NO_TILE and 0 when a queue broke: no command is the cause */
	uint64_t object;    /* id of the object */
	uint16_t qid, cid;
	uint8_t opcode;
	/* Of compute, with -ERANGE: actual and expected size of the operator's output for the
	 * tile. */
	uint32_t out_bytes, out_promised;
	uint32_t
		peer; /* 1 + index of the gpu that did not answer, or broke the protocol; 0: none */
};

/* Cycles of a worker's processor (0 on the CPU); busy: in rounds with work. */
struct hr_worker_cost {
	uint64_t cycles, busy_cycles;
	uint64_t rounds, busy_rounds;
};

/*
 * One per worker of prefetch and write-back, and per compute block. Only that worker writes it; the
 * host may read it at any time. Aligned so that no two writers share a cache line.
 */
struct hr_worker_status {
	uint32_t ended;	    /* 1 after its end (release) */
	uint32_t failed;    /* 1: failure is valid (release) */
	uint64_t heartbeat; /* changes in each iteration of the worker's loop */
	/* completed; bytes of all sources, or written by writeback */
	uint64_t tiles, bytes;
	uint64_t tile; /* by compute: the current tile, or the last one */
	struct hr_failure failure;
	struct hr_worker_cost cost; /* valid after done */
} __attribute__((aligned(64)));

/* Requests of the host to all workers of a pipeline. */
enum hr_pipe_stop {
	HR_STOP_NONE,
	HR_STOP_NEW,	 /* start no new work */
	HR_STOP_ABANDON, /* and wait for no command: a controller is gone, so none completes */
};

/* Words shared by the host and all workers of a pipeline. */
struct hr_pipe_control {
	uint32_t stop; /* enum hr_pipe_stop, by the host; never decreases */
	/* With a tap, by the host before each launch: 1, 2, ... Launches after the first one go on with
	 * the state that the last one has left (hr_pipe.parked). */
	uint32_t launch_number;
	/* by prefetch worker 0: its clock at its first submission */
	uint64_t first_submit_ns;
};

struct hr_pipe_source {
	struct hr_extent extent;
	uint32_t tile_bytes; /* bytes of this source in a full tile; whole blocks */
	uint32_t queue;	     /* index of the prefetch worker's queue pair for it */
	uint32_t copied;     /* tiles are copied to the block's memory before use */
	/* [tiles]: by compute, CRC-32C of each tile as read; NULL: not requested */
	uint32_t *crc;
};

struct hr_tap_role;
struct hr_feed_role;

struct hr_pipe {
	/* The work. */
	uint64_t tiles;	     /* number of tiles; of a part: its last tile + 1 */
	uint64_t first_tile; /* first tile: > 0 when resuming, or in a part */
	/* 1: these tiles are a part of the work of several processes, so the operator's finish() is
	 * not called here: it needs the states and records of all parts */
	uint32_t part;
	uint32_t slots; /* 1..HR_SLOTS_MAX */
	uint32_t sources;
	struct hr_pipe_source source[HR_SOURCES_MAX];
	uint32_t has_sink;
	struct hr_extent sink;
	uint32_t sink_tile_bytes; /* output of a full tile; whole blocks */
	uint32_t op;		  /* id of the operator, for hr_op_tile() (gpu/worker/role.h) */
	uint32_t state_bytes;	  /* state bytes of one compute worker */
	uint32_t record_bytes;	  /* record bytes of one tile; 0: none */
	uint32_t flush_at_end;	  /* the sink's disk has a volatile cache */
	/* Blocks, workers and queue pairs. */
	uint32_t blocks[HR_ROLES];  /* blocks of each role, at least 1 (writeback 0 without sink) */
	uint32_t workers[HR_ROLES]; /* workers per block: HR_LANES-wide; 1 on host */
	uint32_t read_queues;	    /* queue pairs per prefetch worker: one per distinct ssd */
	struct hr_nvme_qp *read_qp; /* [prefetch workers][read_queues] */
	struct hr_nvme_qp *write_qp; /* [writeback workers] */
	/* Memory. */
	struct hr_slot *slot; /* [slots] */
	uint8_t *copy;	      /* [compute blocks][copy_bytes]; NULL: tiles are used in place */
	uint64_t copy_bytes;
	/* bytes for the output at its start; 0: output goes to the slot */
	uint32_t out_copy_bytes;
	/* blocks need checksum tables: the launch has HR_CHECKSUM_MEMORY for them */
	uint32_t checksums;
	uint8_t *op_args;    /* read-only */
	uint8_t *op_states;  /* [compute workers][state_bytes] */
	uint8_t *op_records; /* [tiles][record_bytes] */
	uint8_t *op_result;  /* HR_OP_RESULT_MAX */
	/* State while it runs. */
	uint64_t next_tile; /* by prefetch: the first tile that no slot has taken */
	/* by a failing worker, or by prefetch worker 0 at the host's request */
	uint32_t stop;
	struct hr_pipe_control *control;
	struct hr_worker_status *status; /* [hr_pipe_statuses()], in role order */
	/* [slots], by writeback: all tiles of the slot below this are written */
	uint64_t *written;
	/* [tiles], by compute: CRC-32C of the output of each tile; valid when `written` covers
	 * the tile. NULL: not requested. */
	uint32_t *sink_crc;
	/* A tap takes the results in place of write-back, and has_sink is 1: gpu/tap/role.h. NULL:
	 * none. */
	struct hr_tap_role *tap;
	/* A feed fills the tiles of the only source in place of prefetch: gpu/tap/feed.h. NULL:
	 * none. */
	struct hr_feed_role *feed;
	/* by the feed: the number of tiles, at most `tiles`; HR_NO_TILE before its end is known. It is
	 * written before the last tile is FILLED. NULL without a feed. */
	uint64_t *fed_tiles;
	/* With a tap, by its worker: number of the launch that all workers leave, because none of them
	 * has anything to do before a consumer gives a tile back. */
	uint32_t leave_launch;
	/* [compute blocks][HR_BLOCK_MEMORY]: of the operator, between two launches; NULL: no worker
	 * leaves a launch. */
	uint8_t *op_blocks;
};

/* Number of tiles of the run; HR_NO_TILE: a feed has not ended. */
HR_BOTH uint64_t hr_pipe_total(const struct hr_pipe *pipe)
{
	return pipe->fed_tiles ? hr_acquire_sys_u64(pipe->fed_tiles) : pipe->tiles;
}

/* Status records of a role, index of the first, and total. */
HR_BOTH uint32_t hr_pipe_role_statuses(const struct hr_pipe *pipe, uint32_t role)
{
	return pipe->blocks[role] * (role == HR_ROLE_COMPUTE ? 1 : pipe->workers[role]);
}

HR_BOTH uint32_t hr_pipe_first_status(const struct hr_pipe *pipe, uint32_t role)
{
	uint32_t first = 0, r;

	for (r = 0; r < role; r++)
		first += hr_pipe_role_statuses(pipe, r);
	return first;
}

HR_BOTH uint32_t hr_pipe_statuses(const struct hr_pipe *pipe)
{
	return hr_pipe_first_status(pipe, HR_ROLES);
}

/* Bytes of a source, or of the sink, in tile t: a full tile, or the rest in the last tile. */
HR_BOTH uint32_t hr_tile_bytes(const struct hr_extent *extent, uint32_t tile_bytes, uint64_t tile)
{
	uint64_t at = tile * tile_bytes;
	uint64_t left = extent->bytes > at ? extent->bytes - at : 0;

	return left < tile_bytes ? (uint32_t)left : tile_bytes;
}

/*
 * Run block `block` of the launch until the pipeline has ended: prefetch blocks come first, then
 * compute, then writeback. At the end compute block 0 calls the operator's finish(), after all
 * compute blocks have ended without failure or stop, unless the tiles are a part.
 */
HR_DEVICE void hr_pipe_block(struct hr_pipe *pipe, uint32_t block);

/*
 * The number n such that tiles 0 .. n - 1 are written to the sink's disk (not yet flushed): the
 * durable watermark after a later flush. Some tiles above n may be written too, at most one per
 * slot, or more behind a slot that is late. Any thread, while the pipeline runs; `written` is
 * pipe->written at the caller's address.
 */
HR_BOTH uint64_t hr_pipe_written_prefix(const struct hr_pipe *pipe, const uint64_t *written)
{
	uint64_t least = pipe->tiles;
	uint32_t i;

	for (i = 0; i < pipe->slots; i++) {
		const uint64_t next = hr_acquire_sys_u64(&written[i]);

		if (next < least)
			least = next;
	}
	return least;
}

/*
 * The exact number, for a pipeline whose workers have all ended: the first tile that was not
 * written. Arguments are at the host's addresses, read after the end.
 */
HR_BOTH uint64_t hr_pipe_final_prefix(const struct hr_pipe *pipe, const struct hr_slot *slot)
{
	uint64_t least = pipe->next_tile < pipe->tiles ? pipe->next_tile : pipe->tiles;
	uint32_t i;

	for (i = 0; i < pipe->slots; i++) {
		if (slot[i].has_tile && slot[i].read_tile < least)
			least = slot[i].read_tile;
		if (slot[i].write_failed && slot[i].first_unwritten < least)
			least = slot[i].first_unwritten;
	}
	return least;
}

#endif
