/*
 * gpu/worker/pipeline.h - a pipeline as its workers see it: a ring of slots and three groups of blocks.
 *
 *   prefetch  -> keeps the ring full of reads        (each worker owns queue pairs)
 *   compute   -> runs the operator on filled slots   (a whole block per tile)
 *   writeback -> writes results, frees slots         (each worker owns a queue pair)
 *
 * A slot belongs to one worker or block of each role (slot mod number of them), so a state word has
 * exactly one writer at any time and nothing is ever locked. What a slot holds is the next tile that
 * nobody has taken: prefetch takes it when the slot is free. So a queue that is slower than others,
 * or comes late, gets less to do, and the others do not wait for it at the end. Tiles of one slot
 * only ever grow:
 *
 *   FREE --prefetch--> FILLED --compute--> COMPUTED --writeback--> FREE      (with a sink object)
 *   FREE --prefetch--> FILLED --compute--> FREE                              (without)
 *   FREE --prefetch--> CLOSING --compute--> CLOSED                           (no tile will come)
 *
 * With a sink, CLOSED is how write-back learns that a slot is finished. End of data, a stop request
 * and a failure take the same way out. Every wait ends: commands have deadlines, and a failing
 * worker sets `stop`, which keeps prefetch from starting anything new. The host's stop flag lies in
 * host memory, far from a GPU: prefetch worker 0 looks at it for all.
 *
 * The descriptor, slots and queue pairs lie in HR_PLACE_WORKER and hold addresses as workers see
 * them: written by the host before the launch, read by it after the end. What host and running
 * workers share lies in HR_PLACE_CONTROL: struct hr_pipe_control, status, written, checksums of
 * tiles. Each word has one writer, named below; words of HR_PLACE_CONTROL are written and read at
 * system scope, but for checksums, which other words say are there.
 */
#ifndef GPU_WORKER_PIPELINE_H
#define GPU_WORKER_PIPELINE_H

#include <stdint.h>

#include "cache/object.h"
#include "config/limits.h"
#include "nvme/worker.h"
#include "nvme/queue.h"
#include "nvme/status.h"

enum hr_slot_state {
	HR_SLOT_FREE,
	HR_SLOT_FILLED,
	HR_SLOT_COMPUTED,
	HR_SLOT_CLOSING,
	HR_SLOT_CLOSED
};

enum hr_role { HR_ROLE_PREFETCH, HR_ROLE_COMPUTE, HR_ROLE_WRITEBACK, HR_ROLES };

#define HR_OUT_BROKEN 0xffffffffu

struct hr_slot {
	uint32_t state;	    /* enum hr_slot_state: acquire / release */
	uint32_t out_bytes; /* by compute; HR_OUT_BROKEN: nothing that may be written */
	uint64_t tile;	    /* by prefetch, before FILLED */
	uint64_t next_read; /* prefetch's own: tile taken and not yet FILLED, when it holds one */
	uint32_t holds;
	uint32_t reading, writing; /* prefetch's, writeback's own: commands outstanding */
	uint32_t posted;	   /* prefetch's own: sources of next_read whose reads are posted */
	uint32_t read_tries, write_tries; /* commands of the tile sent again, by either */
	/* Commands that wait to be sent again: prefetch's while the slot is FREE, then write-back's. */
	uint32_t parked;		   /* how many */
	uint32_t parked_token[HR_RETRIES]; /* which */
	uint64_t parked_until_ns;	   /* when, by the worker's clock */
	uint64_t failed_first_ns;	   /* when the first command of the tile failed */
	uint32_t spoiled; /* writeback's own: a tile was not written, and no later */
	uint64_t lost;	  /* the first such, when spoiled */
	struct hr_buffer in[HR_SOURCES_MAX];
	struct hr_buffer out; /* bytes 0 without a sink */
};

/* The first thing that went wrong in a block. */
struct hr_failure {
	int32_t error; /* 0: nothing; > 0 NVMe status; -ETIMEDOUT, -EPROTO, ... */
	uint32_t role, source;
	uint64_t tile, lba;
	uint64_t object; /* id */
	uint16_t qid, cid;
	uint8_t opcode;
	/* Of compute, with -ERANGE: what the operator made of a tile, and what it promised. */
	uint32_t out_bytes, out_promised;
};

/* What a worker spent, in cycles of its processor (0 on the CPU); busy: in rounds that found work. */
struct hr_worker_cost {
	uint64_t cycles, busy_cycles;
	uint64_t rounds, busy_rounds;
};

/*
 * Per worker of prefetch and write-back, and per compute block; written by that one only, read by
 * the host at any time. Aligned so that no two writers share a cache line.
 */
struct hr_worker_status {
	uint32_t done;	       /* 1 when it has ended (release) */
	uint32_t failed;       /* 1: failure is valid (release) */
	uint64_t heartbeat;    /* changes as long as it goes round its loop */
	uint64_t tiles, bytes; /* through with; bytes of all sources, or written by writeback */
	uint64_t tile;	       /* by compute: the one it works on, or has worked on */
	struct hr_failure failure;
	struct hr_worker_cost cost; /* once done */
} __attribute__((aligned(64)));

/* What the host asks of all workers of a pipeline. */
enum hr_pipe_stop {
	HR_STOP_NOT,
	HR_STOP_NEW,	 /* start nothing new */
	HR_STOP_WAITING, /* and wait for no command: a controller is gone, none will complete */
};

/* What the host and all workers of a pipeline share. */
struct hr_pipe_control {
	uint32_t stop;		  /* enum hr_pipe_stop, by the host; it only grows */
	uint64_t first_submit_ns; /* by prefetch worker 0: its clock when it first submitted */
};

struct hr_pipe_source {
	struct hr_extent extent;
	uint32_t tile_bytes; /* bytes of this source in a full tile; whole blocks */
	uint32_t queue;	     /* which of a prefetch worker's queue pairs reaches it */
	uint32_t copied;     /* its tiles are copied to the block's memory before they are used */
	uint32_t *crc; /* [tiles]: by compute, CRC-32C of each as it was read; NULL: not wanted */
};

struct hr_pipe {
	/* What to do. */
	uint64_t tiles;	     /* in all */
	uint64_t first_tile; /* where to start: > 0 when resuming */
	uint32_t slots;	     /* 1..HR_SLOTS_MAX */
	uint32_t sources;
	struct hr_pipe_source source[HR_SOURCES_MAX];
	uint32_t has_sink;
	struct hr_extent sink;
	uint32_t sink_tile_bytes; /* output of a full tile; whole blocks */
	uint32_t op;		  /* its id, for hr_op_tile() (gpu/worker/role.h) */
	uint32_t state_bytes;	  /* of one compute worker */
	uint32_t record_bytes;	  /* of one tile; 0: none */
	uint32_t flush_at_end;	  /* sink disk has a volatile cache */
	/* Who does it. */
	uint32_t blocks[HR_ROLES];  /* blocks of each role, at least 1 (writeback 0 without sink) */
	uint32_t workers[HR_ROLES]; /* workers per block: HR_LANES-wide; 1 on host */
	uint32_t read_queues;	    /* queue pairs per prefetch worker: one per distinct ssd */
	struct hr_nvme_qp *read_qp; /* [prefetch workers][read_queues] */
	struct hr_nvme_qp *write_qp; /* [writeback workers] */
	/* With what. */
	struct hr_slot *slot; /* [slots] */
	uint8_t *copy; /* [compute blocks][copy_bytes]; NULL: tiles are used where they are */
	uint64_t copy_bytes;
	uint32_t out_copy_bytes; /* at its start: the output is made there; 0: in the slot */
	uint32_t checksums;  /* blocks need tables: the launch has HR_CHECKSUM_MEMORY for them */
	uint8_t *op_args;    /* read only */
	uint8_t *op_states;  /* [compute workers][state_bytes] */
	uint8_t *op_records; /* [tiles][record_bytes] */
	uint8_t *op_result;  /* HR_OP_RESULT_MAX */
	/* What goes on. */
	uint64_t next_tile; /* by prefetch: the first that no slot has taken */
	uint32_t stop; /* by a failing worker, or prefetch worker 0 when the host asks for it */
	struct hr_pipe_control *control;
	struct hr_worker_status *status; /* [hr_pipe_statuses()], in role order */
	uint64_t *written; /* [slots], by writeback: below it, what the slot had is written */
	/* [tiles], by compute: CRC-32C of the output of each; there before `written` says that the
	 * tile is. NULL: not wanted. */
	uint32_t *sink_crc;
};

/* Blocks of all roles. */
HR_BOTH uint32_t hr_pipe_blocks(const struct hr_pipe *pipe)
{
	return pipe->blocks[HR_ROLE_PREFETCH] + pipe->blocks[HR_ROLE_COMPUTE] +
	       pipe->blocks[HR_ROLE_WRITEBACK];
}

/* Status records of a role, where they begin, and of all roles. */
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

/* Bytes of a source, or of the sink, in tile t: a full tile, or what is left in the last one. */
HR_BOTH uint32_t hr_tile_bytes(const struct hr_extent *extent, uint32_t tile_bytes, uint64_t tile)
{
	uint64_t at = tile * tile_bytes;
	uint64_t left = extent->bytes > at ? extent->bytes - at : 0;

	return left < tile_bytes ? (uint32_t)left : tile_bytes;
}

/*
 * What block `block` of the launch does, until the pipeline has ended: prefetch blocks first, then
 * compute, then writeback. The last thing compute block 0 does is the operator's finish(), after
 * all compute blocks have ended without failure or stop.
 */
HR_DEVICE void hr_pipe_block(struct hr_pipe *pipe, uint32_t block);

/*
 * Tiles 0 .. n - 1 all written to the sink's disk (not yet flushed): the durable watermark after a
 * flush that starts later. Some behind them are, too: as many as slots are about to write, and some
 * that slots hold back which come late. Any thread, while the pipeline runs; `written` is
 * pipe->written as the caller sees it.
 */
HR_BOTH uint64_t hr_pipe_written(const struct hr_pipe *pipe, const uint64_t *written)
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
 * The same of a pipeline whose workers have all ended, and to the tile: the first that was not
 * written. The slots, and what pipe says was taken, as the host sees them after the end.
 */
HR_BOTH uint64_t hr_pipe_settled(const struct hr_pipe *pipe, const struct hr_slot *slot)
{
	uint64_t least = pipe->next_tile < pipe->tiles ? pipe->next_tile : pipe->tiles;
	uint32_t i;

	for (i = 0; i < pipe->slots; i++) {
		if (slot[i].holds && slot[i].next_read < least)
			least = slot[i].next_read;
		if (slot[i].spoiled && slot[i].lost < least)
			least = slot[i].lost;
	}
	return least;
}

#endif
