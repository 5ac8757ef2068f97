/*
 * nvme/queue.h - one submission/completion queue pair and its one owner.
 *
 * Spec: NVMe Base 2.0, 3.3.1 (queues: empty, full, wrap, phase), 5.8 (doorbell buffer config).
 * The owner is a worker (a warp; a thread on the host backend): it fills up to one SQE per lane
 * with hr_qp_push(), makes any number of them visible with one doorbell in hr_qp_ring(), and
 * reaps one CQE per lane with hr_qp_reap(). Nothing here is an atomic read-modify-write.
 *
 * A completion finds its command by CID -> in-flight table, never by position, so completions may
 * come in any order. CID = generation << index bits | index; the generation changes each time an
 * index is used, so a late or repeated completion is never credited to a new command. Indices are
 * handed out first-in first-out, which makes the reuse of one as rare as can be. At most
 * entries - 1 commands are outstanding (an expired one included: its buffer is quarantined
 * because the controller may still write there), so neither ring can overflow.
 *
 * What the controller writes is untrusted: a CID whose index was never handed out, an SQHD outside
 * of what was submitted, or a foreign SQID breaks the queue (-EPROTO); a completion of an old
 * generation, or of a command that is not in flight, is counted and dropped.
 */
#ifndef NVME_QUEUE_H
#define NVME_QUEUE_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/limits.h"
#include "gpu/worker.h"
#include "nvme/wire.h"

enum hr_inflight_state {
	HR_CMD_FREE,
	HR_CMD_SENT, /* waiting for its completion */
	HR_CMD_LOST, /* deadline passed; CID and buffer stay taken until the queue is recreated */
};

struct hr_inflight {
	uint64_t deadline_ns;
	uint32_t token; /* the owner's; comes back with the completion */
	uint16_t generation;
	uint16_t state; /* enum hr_inflight_state */
};

/* Counters; written by the owner, read by anyone for statistics. */
struct hr_qp_stats {
	uint64_t submitted, completed, failed, lost, late, stray, doorbells;
};

struct hr_qp {
	struct hr_sqe *sq; /* [entries], page aligned; we write, the controller reads */
	struct hr_cqe *cq; /* [entries], page aligned; the controller writes, we read */
	uint32_t *sq_doorbell, *cq_doorbell; /* in BAR0 (SQyTDBL, CQyHDBL) */
	uint32_t *sq_shadow, *cq_shadow;     /* shadow doorbells, or NULL (DBBUF not in use) */
	uint32_t *sq_event, *cq_event;	     /* EventIdx written by the controller */
	struct hr_inflight *inflight;	     /* [entries - 1] */
	uint16_t *free_ring;		     /* [entries]: indices not in use, oldest first */
	uint64_t timeout_ns;		/* deadline of a command = time of its doorbell + this */
	uint64_t scan_ns;		/* when hr_qp_expire() looks at the table next */
	uint16_t id;			/* 0 is the admin queue pair */
	uint16_t entries;		/* of both rings, not zero-based */
	uint16_t index_bits;		/* of a CID; the rest is generation */
	uint16_t sq_tail, sq_rung;	/* next slot to fill; tail the controller was told */
	uint16_t sq_head;		/* newest SQHD reported */
	uint16_t cq_head, phase;	/* next CQE to look at; P that makes it new */
	uint16_t free_head, free_count; /* of free_ring */
	int32_t broken;			/* 0 or the error that ended this queue */
	struct hr_qp_stats stats;
};

/* One completion, as hr_qp_reap() hands it to a lane. */
struct hr_done {
	uint32_t token;
	uint32_t dw0;
	uint16_t cid;
	uint16_t status; /* SCT << 8 | SC */
	bool dnr;
};

/* Memory behind a queue pair; all of it belongs to the caller and outlives the queue. */
struct hr_qp_memory {
	void *sq, *cq; /* hr_qp_sq_bytes(), hr_qp_cq_bytes(); page aligned, in a mapped region */
	void *table;   /* hr_qp_table_bytes(); 8-byte aligned, only the owner touches it */
};

HR_BOTH size_t hr_qp_sq_bytes(uint32_t entries)
{
	return (entries * (size_t)HR_SQE_BYTES + HR_PAGE - 1) & ~((size_t)HR_PAGE - 1);
}

HR_BOTH size_t hr_qp_cq_bytes(uint32_t entries)
{
	return (entries * (size_t)HR_CQE_BYTES + HR_PAGE - 1) & ~((size_t)HR_PAGE - 1);
}

HR_BOTH size_t hr_qp_table_bytes(uint32_t entries)
{
	return entries * (sizeof(struct hr_inflight) + sizeof(uint16_t) + 6);
}

/*
 * Set an empty queue pair over the caller's memory, which is zeroed. Host side, before the
 * controller is told of the queues (doorbell pointers are set by hr_ctrl_create_qp()).
 * Returns 0; -EINVAL: entries outside HR_QUEUE_ENTRIES_MIN..MAX, ring not page aligned, timeout 0.
 */
int hr_qp_init(struct hr_qp *qp, uint16_t id, uint32_t entries, const struct hr_qp_memory *memory,
	       uint64_t timeout_ns);

/* Commands that can still be pushed now; 0 on a broken queue. */
HR_BOTH uint32_t hr_qp_room(const struct hr_qp *qp)
{
	return qp->broken ? 0 : qp->free_count;
}

/* Commands sent or pushed and not completed, lost ones included. */
HR_BOTH uint32_t hr_qp_outstanding(const struct hr_qp *qp)
{
	return (uint32_t)qp->entries - 1 - qp->free_count;
}

#include "nvme/queue_inline.h"

/*
 * In nvme/queue_inline.h, for workers (collective: all lanes call together):
 *
 * int hr_qp_push(struct hr_qp *qp, bool want, const struct hr_sqe *sqe, uint32_t token);
 *	Each lane that wants puts a copy of *sqe (its cid is ours to fill) into the ring; the
 *	controller sees nothing before hr_qp_ring(). Returns per lane the CID, or -EAGAIN: no room
 *	(lanes with a lower number are served first), or qp->broken, or -EINVAL where want is
 *	false.
 *
 * void hr_qp_ring(struct hr_qp *qp);
 *	Publish what was pushed since the last call: stamps the deadlines, one doorbell (or shadow
 *	doorbell, and the register only when EventIdx asks for it). Does nothing if nothing is new.
 *
 * uint32_t hr_qp_reap(struct hr_qp *qp, struct hr_done *done);
 *	Look at up to HR_LANES new CQEs, release them with one CQ doorbell. Returns the mask of
 *	lanes whose *done was filled; 0: nothing new (or all of it late or stray), see qp->broken.
 *
 * bool hr_qp_expire(struct hr_qp *qp, uint64_t now_ns, struct hr_done *lost);
 *	Call when nothing was reaped. True when a command's deadline has passed: it is now
 *	HR_CMD_LOST, and *lost has its token and cid (the same in all lanes). Looks at the table
 *	only each timeout / 8, or again at once after it returned true.
 */

#endif
