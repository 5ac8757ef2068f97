/*
 * nvme/queue.h - one submission/completion queue pair and its one owner.
 *
 * Spec: NVMe Base 2.0, 3.3.1 (queues: empty, full, wrap, phase).
 * The owner is a worker (a warp; a thread on the host backend): it fills up to one SQE per lane
 * with hr_qp_push(), makes any number of them visible with one doorbell in hr_qp_ring(), and
 * reaps one CQE per lane with hr_qp_reap(). Nothing here is an atomic read-modify-write. What was
 * reaped is released to the controller when the room that it still has in the CQ might not do for
 * all that is outstanding, so with long queues seldom: by hr_qp_ring(), behind the same fence.
 *
 * A completion finds its command by CID -> in-flight table, never by position, so completions may
 * come in any order. CID = generation << index bits | index; the generation changes each time an
 * index is used, so a late or repeated completion is never credited to a new command. Indices are
 * handed out first-in first-out, which makes the reuse of one as rare as can be. At most
 * entries - 1 commands are outstanding (an expired one included: its buffer is quarantined
 * because the controller may still write there), so neither ring can overflow.
 *
 * What the controller writes is untrusted: a CID whose index lies outside of the table, an SQHD
 * outside of what was submitted since the newest one, or a foreign SQID breaks the queue (-EPROTO);
 * a completion of an old generation, or of a command that is not in flight, is counted and dropped.
 *
 * The index that is all ones is never handed out (index_mask >= entries - 1, indices end at
 * entries - 2), so CID FFFFh, which the error log page reserves (NVMe Base 5.16.1.2), cannot occur.
 *
 * The struct lies in memory that all lanes of the worker see. Lanes read its scalars, meet in
 * hr_lanes_sync(), lane 0 writes them, and all meet again.
 */
#ifndef NVME_QUEUE_H
#define NVME_QUEUE_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/limits.h"
#include "nvme/worker.h"
#include "nvme/wire.h"

enum hr_inflight_state {
	HR_CMD_FREE,
	HR_CMD_PUSHED, /* in the ring, and the controller has not been told */
	HR_CMD_SENT,   /* waiting for its completion */
	HR_CMD_LOST,   /* deadline passed; CID and buffer stay taken until the queue is recreated */
};

struct hr_inflight {
	uint64_t deadline_ns;
	uint32_t token; /* the owner's; comes back with the completion */
	union {
		struct {
			uint16_t cid;	/* of the command, or of the last one with this index */
			uint16_t state; /* enum hr_inflight_state */
		};
		uint32_t cid_state; /* both, to be compared at once */
	};
};

/* Counters, written by the owner; exact for others once it is at rest. */
struct hr_qp_stats {
	uint64_t submitted; /* commands the controller was told of */
	uint64_t completed; /* handed to the owner, whatever the status */
	uint64_t failed;    /* of these, with a status other than 0 */
	uint64_t lost;	    /* deadline passed */
	uint64_t late;	    /* CQE of a lost command or of an index's earlier use: dropped */
	uint64_t stray;	    /* CQE of a command that is not in flight: dropped */
	uint64_t doorbells; /* register writes, SQ and CQ */
	uint64_t batches;   /* rings that told of something new: a fence each */
	uint64_t releases;  /* CQ doorbells that had a fence of their own */
};

struct hr_nvme_qp {
	struct hr_sqe *sq; /* [entries], page aligned; we write, the controller reads */
	struct hr_cqe *cq; /* [entries], page aligned; the controller writes, we read */
	uint32_t *sq_doorbell, *cq_doorbell; /* in BAR0 (SQyTDBL, CQyHDBL) */
	struct hr_inflight *inflight;	     /* [entries - 1] */
	uint16_t *free_ring;		     /* [index_mask + 1]: indices not in use, FIFO */
	uint32_t free_head, free_tail;	     /* of it; they run freely: & index_mask is the place */
	uint64_t timeout_ns;	   /* deadline of a command = time of its doorbell + this */
	uint16_t crdt[4];	   /* delays that CRD names, in units of 100 ms; [0] is none */
	uint64_t scan_ns;	   /* when hr_qp_expire() looks at the table next */
	uint16_t id;		   /* 0 is the admin queue pair */
	uint16_t entries;	   /* of both rings, not zero-based */
	uint32_t index_mask;	   /* index in a CID; the bits above are the generation */
	uint32_t sq_tail, sq_rung; /* next slot to fill; tail the controller was told */
	uint32_t pushed;	   /* commands between the two */
	uint32_t unfetched;	   /* commands between the newest SQHD and sq_rung */
	uint32_t cq_head;	   /* next CQE to look at */
	uint32_t cq_rung;	   /* the same, as the controller was told */
	uint32_t phase;		   /* P that makes it new; 2: nothing does */
	int32_t broken;		   /* 0 or the error that ended it, by hr_qp_break() */
	struct hr_cqe offence;	   /* the CQE that broke it */
	struct hr_qp_stats stats;
};

/* One completion, as hr_qp_reap() hands it to a lane. */
struct hr_done {
	uint32_t token;
	uint32_t dw0; /* 0 where a worker has several lanes: its commands return nothing there */
	uint16_t cid;
	uint16_t status; /* SCT << 8 | SC */
	bool dnr;
	uint8_t crd; /* with a status: hr_qp_retry_pause(), nvme/retry.h */
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
	return entries * (sizeof(struct hr_inflight) + 2 * sizeof(uint16_t) + 4);
}

/*
 * Set an empty queue pair over the memory of the caller, zeroing it. Host side, before the
 * controller is told of the queues (doorbell pointers are set by hr_ctrl_create_qp()).
 * Returns 0; -EINVAL: entries outside HR_QUEUE_ENTRIES_MIN..MAX, ring not page aligned, table not
 * 8-byte aligned, timeout 0 or above INT64_MAX.
 */
int hr_qp_init(struct hr_nvme_qp *qp, uint16_t id, uint32_t entries,
	       const struct hr_qp_memory *memory, uint64_t timeout_ns);

/*
 * From now on the queue pair belongs to a worker that sees its memory at other addresses: rings and
 * table where *worker says, doorbells in the BAR at worker_bar, which is `bar` here. Host side, after
 * hr_ctrl_create_qp(); the CPU reads scalars only from then on. The bytes of *qp and of the table are
 * to be copied to where the worker sees them.
 */
void hr_qp_hand_over(struct hr_nvme_qp *qp, const struct hr_qp_memory *worker,
		     const volatile void *bar, void *worker_bar);

/*
 * What broke a queue, for messages: "CQE 17: SQHD 99 is outside of 3..8". Host side. Returns
 * buffer; "not broken" when it is not; "given up" when not a CQE but its owner ended it.
 */
const char *hr_qp_offence(const struct hr_nvme_qp *qp, char *buffer, unsigned bytes);

/* Commands that can still be pushed now; 0 on a broken queue. */
HR_BOTH uint32_t hr_qp_room(const struct hr_nvme_qp *qp)
{
	return qp->broken ? 0 : qp->free_tail - qp->free_head;
}

/* Commands sent or pushed and not completed, lost ones included. */
HR_BOTH uint32_t hr_qp_outstanding(const struct hr_nvme_qp *qp)
{
	return qp->entries - 1u - (qp->free_tail - qp->free_head);
}

/* For the compiler: c is false nearly always, so keep what follows off the straight path. */
#define HR_RARE(c) __builtin_expect(!!(c), 0)

/* Index i + n on a ring; i below its number of entries, n at most that. */
HR_BOTH uint32_t hr_ring_add(uint32_t i, uint32_t n, uint32_t entries)
{
	uint32_t sum = i + n;

	if (HR_RARE(sum >= entries))
		sum -= entries;
	return sum;
}

/* The same for a rank among the lanes, which is 0 where a worker has one. */
HR_BOTH uint32_t hr_ring_rank(uint32_t i, uint32_t rank, uint32_t entries)
{
	return HR_LANES == 1 ? i : hr_ring_add(i, rank, entries);
}

/* Steps forward from one index of a ring to another. */
HR_BOTH uint32_t hr_ring_distance(uint32_t from, uint32_t to, uint32_t entries)
{
	uint32_t steps = to - from;

	if (HR_RARE(to < from))
		steps += entries;
	return steps;
}

/* One lane, after hr_release_sys(): tell the controller the SQ tail, or the CQ head. */
HR_WORKER void hr_qp_doorbell(struct hr_nvme_qp *qp, bool cq, uint32_t to)
{
	hr_mmio_write32(cq ? qp->cq_doorbell : qp->sq_doorbell, to);
	qp->stats.doorbells++;
}

/*
 * Whether the CQ might run full: what was reaped and not given back, and what is outstanding,
 * together have no room there. Reaping alone changes nothing about that, but for CQEs of nothing.
 */
HR_BOTH bool hr_qp_cq_may_fill(const struct hr_nvme_qp *qp)
{
	return hr_ring_distance(qp->cq_rung, qp->cq_head, qp->entries) + hr_qp_outstanding(qp) >
	       qp->entries - 1u;
}

/* One lane, after hr_release_sys(): give the controller back what was reaped. */
HR_WORKER void hr_qp_ring_cq(struct hr_nvme_qp *qp)
{
	const uint32_t head = qp->cq_head;

	qp->cq_rung = head;
	hr_qp_doorbell(qp, true, head);
}

/* One lane: end the queue. Nothing is pushed, rung or reaped any more; commands still expire. */
HR_WORKER void hr_qp_break(struct hr_nvme_qp *qp, int error)
{
	qp->broken = error;
	qp->phase = 2;
	qp->pushed = 0;
	qp->cq_rung = qp->cq_head;
}

/* One lane: break the queue because of a CQE, of which DW2 and DW3 are what was judged. */
HR_WORKER void hr_qp_break_at_cqe(struct hr_nvme_qp *qp, const struct hr_cqe *cqe, uint64_t dw23)
{
	qp->offence.dw0 = cqe->dw0;
	qp->offence.dw23 = dw23;
	hr_qp_break(qp, -EPROTO);
}

/* The lane of the rank-th set bit of a mask, which has more than rank of them. */
HR_WORKER uint32_t hr_lane_of_rank(uint32_t mask, uint32_t rank)
{
	if (!(mask & (mask + 1))) /* lanes from 0 on, as nearly always */
		return rank;
	for (; rank; rank--)
		mask &= mask - 1;
	return hr_lowest_bit(mask);
}

/*
 * Collective, a step of hr_qp_push(): the `count` lanes of `fit` put their SQEs into the ring from
 * `tail` on. Each store of a GPU is a write on the bus, which takes many small ones no faster than
 * as many large ones: lanes exchange pieces of 16 bytes, so that one store of all of them covers
 * bytes that lie side by side.
 */
HR_WORKER void hr_qp_write_sqes(struct hr_nvme_qp *qp, uint32_t tail, uint32_t fit, uint32_t count,
				const struct hr_sqe *sqe, uint16_t cid)
{
	uint64_t word[8] = { 0 };
	uint32_t k, part;

	if (fit >> hr_lane() & 1)
		hr_sqe_words(sqe, cid, word);
	for (k = 0; k < 4; k++) {
		const uint32_t piece = k * HR_LANES + hr_lane(), rank = piece / 4;
		const uint32_t lane = rank < count ? hr_lane_of_rank(fit, rank) : 0;
		uint64_t low = 0, high = 0;

		for (part = 0; part < 4; part++) {
			const uint64_t l = hr_shfl_u64(word[2 * part], lane);
			const uint64_t h = hr_shfl_u64(word[2 * part + 1], lane);

			low = part == piece % 4 ? l : low;
			high = part == piece % 4 ? h : high;
		}
		if (rank < count)
			hr_write_u64x2((uint64_t *)&qp->sq[hr_ring_rank(tail, rank, qp->entries)] +
					       piece % 4 * 2,
				       low, high);
	}
}

/*
 * Collective. Each lane that wants puts a copy of *sqe (its cid is ours to fill) into the ring;
 * the controller sees nothing before hr_qp_ring(). Returns per lane the CID, or -EAGAIN: no room
 * (lanes with a lower number are served first), or qp->broken, or -EINVAL where want is false.
 */
HR_WORKER int hr_qp_push(struct hr_nvme_qp *qp, bool want, const struct hr_sqe *sqe, uint32_t token)
{
	const uint32_t entries = qp->entries, mask = qp->index_mask, room = hr_qp_room(qp);
	const uint32_t head = qp->free_head, tail = qp->sq_tail;
	const uint32_t wants = hr_ballot(want);
	const uint32_t rank = hr_count_bits(wants & ((1u << hr_lane()) - 1));
	const bool fits = want && rank < room;
	const uint32_t fit = hr_ballot(fits), count = hr_count_bits(fit);
	int cid = -EINVAL;

	if (fits) {
		struct hr_inflight *command = &qp->inflight[qp->free_ring[(head + rank) & mask]];

		/* The next generation; it wraps within the 16 bits. */
		cid = (uint16_t)(command->cid + mask + 1);
		command->token = token;
		command->cid_state = (uint32_t)cid | (uint32_t)HR_CMD_PUSHED << 16;
		if (HR_LANES == 1) {
			qp->sq[tail] = *sqe;
			qp->sq[tail].cid = (uint16_t)cid;
		}
	} else if (want) {
		cid = qp->broken ? qp->broken : -EAGAIN;
	}
	if (HR_LANES > 1)
		hr_qp_write_sqes(qp, tail, fit, count, sqe, (uint16_t)cid);
	hr_lanes_sync();
	if (hr_lane() == 0) {
		qp->free_head = head + count;
		qp->sq_tail = hr_ring_add(tail, count, entries);
		qp->pushed += count;
	}
	hr_lanes_sync();
	return cid;
}

/* Collective, a step of hr_qp_ring() and hr_qp_reap() when they have nothing else to do. */
HR_WORKER void hr_qp_release(struct hr_nvme_qp *qp)
{
	const bool full = hr_qp_cq_may_fill(qp);

	if (!full)
		return;
	hr_lanes_sync();
	if (hr_lane() == 0) {
		qp->stats.releases++;
		hr_release_sys();
		hr_qp_ring_cq(qp);
	}
	hr_lanes_sync();
}

/*
 * Collective. Publish what was pushed since the last call: stamps the deadlines from one look at
 * the clock, one doorbell.
 * What was reaped goes back to the controller behind the same fence, if it might need the room.
 * Does nothing if nothing is new, as on a broken queue.
 */
HR_WORKER void hr_qp_ring(struct hr_nvme_qp *qp)
{
	const uint32_t count = qp->pushed, mask = qp->index_mask;
	/* Their indices are the last that left free_ring and still lie there: what is pushed and
	 * what is free together are fewer than its places. */
	const uint32_t first = qp->free_head - count;
	uint64_t deadline;
	uint32_t i;

	if (!count) {
		hr_qp_release(qp);
		return;
	}
	deadline = hr_clock_ns() + qp->timeout_ns;
	for (i = hr_lane(); i < count; i += HR_LANES) {
		struct hr_inflight *command = &qp->inflight[qp->free_ring[(first + i) & mask]];

		command->deadline_ns = deadline;
		command->state = HR_CMD_SENT;
	}
	hr_lanes_sync();
	if (hr_lane() == 0) {
		const uint32_t tail = qp->sq_tail;

		qp->sq_rung = tail;
		qp->pushed = 0;
		qp->unfetched += count;
		qp->stats.submitted += count;
		qp->stats.batches++;
		hr_release_sys();
		hr_qp_doorbell(qp, false, tail);
		if (hr_qp_cq_may_fill(qp))
			hr_qp_ring_cq(qp);
	}
	hr_lanes_sync();
}

/*
 * True when SQID, SQHD and CID of a CQE are possible on this queue; *unfetched is then how many of
 * the commands it was told of the controller had not fetched.
 */
HR_BOTH bool hr_qp_plausible(const struct hr_nvme_qp *qp, uint64_t dw23, uint32_t *unfetched)
{
	const uint32_t rung = qp->sq_rung, sqhd = hr_cqe_sqhd(dw23), cid = hr_cqe_cid(dw23);

	*unfetched = 0;
	if (sqhd != rung) {
		*unfetched = hr_ring_distance(sqhd, rung, qp->entries);
		if (sqhd >= qp->entries || *unfetched > qp->unfetched)
			return false;
	}
	return hr_cqe_sqid(dw23) == qp->id && (cid & qp->index_mask) < qp->entries - 1u;
}

/*
 * Collective, a step of hr_qp_poll_cqes(): among lanes that hold new CQEs one has found its own
 * implausible. DW2 and DW3 were loaded as one; where a machine makes two accesses of that, DW2 may
 * be what lay there a lap ago, so they are loaded again. Breaks the queue at the first that stays
 * implausible, and returns the mask of those before it.
 */
HR_WORKER uint32_t hr_qp_recheck_cqes(struct hr_nvme_qp *qp, uint32_t held, uint32_t at,
				      uint64_t *dw23, uint32_t *unfetched)
{
	const bool mine = held >> hr_lane() & 1;
	uint32_t bad;

	if (mine)
		*dw23 = hr_acquire_sys_u64(&qp->cq[at].dw23);
	bad = hr_ballot(mine && !hr_qp_plausible(qp, *dw23, unfetched));
	bad &= ~bad + 1; /* the first of them */
	hr_lanes_sync();
	if (bad >> hr_lane() & 1)
		hr_qp_break_at_cqe(qp, &qp->cq[at], *dw23);
	hr_lanes_sync();
	return bad ? held & (bad - 1) : held;
}

/*
 * Collective, a step of hr_qp_reap(). Looks at the CQE that is this lane's turn, `at`, once, so that
 * what was checked is what is used. Returns the mask of lanes that hold a new, plausible one: the
 * lanes from 0 on. Breaks the queue at the first implausible one.
 */
HR_WORKER uint32_t hr_qp_poll_cqes(struct hr_nvme_qp *qp, uint32_t at, uint64_t *dw23,
				   uint32_t *unfetched)
{
	const uint32_t lane = hr_lane();
	const uint32_t phase = qp->phase ^ (at < qp->cq_head ? 1u : 0u); /* 2, 3 when broken */
	const bool expects = HR_LANES == 1 || lane < hr_qp_outstanding(qp);
	uint32_t fresh;

	/* The acquire of the word with P orders what is read behind it. Lanes do not look where
	 * nothing is expected: that memory may be far away. */
	*dw23 = expects ? hr_acquire_sys_u64(&qp->cq[at].dw23) : 0;
	fresh = hr_ballot(expects && hr_cqe_phase(hr_cqe_field(*dw23)) == phase);
	fresh &= ~(fresh + 1); /* up to the first that is not new */
	if (HR_RARE(hr_ballot((fresh >> lane & 1) && !hr_qp_plausible(qp, *dw23, unfetched))))
		fresh = hr_qp_recheck_cqes(qp, fresh, at, dw23, unfetched);
	return fresh;
}

/* Collective, a step of hr_qp_reap(). Count the CQEs in `dropped` lanes that nobody may have. */
HR_WORKER void hr_qp_count_unmatched(struct hr_nvme_qp *qp, uint32_t dropped, uint32_t cid)
{
	const struct hr_inflight *command = &qp->inflight[cid & qp->index_mask];
	const bool mine = dropped >> hr_lane() & 1;
	const uint32_t late =
		hr_ballot(mine && (command->cid != cid || command->state == HR_CMD_LOST));

	if (hr_lane() == 0) {
		qp->stats.late += hr_count_bits(late);
		qp->stats.stray += hr_count_bits(dropped & ~late);
	}
}

/*
 * Collective, a step of hr_qp_reap(). The mask of those among `fresh` lanes that may credit the
 * command with their CID; of several lanes that hold the same one, the lowest.
 */
HR_WORKER uint32_t hr_qp_match_cids(struct hr_nvme_qp *qp, uint32_t fresh, uint32_t cid)
{
	const bool mine = fresh >> hr_lane() & 1;
	const struct hr_inflight *command = &qp->inflight[mine ? cid & qp->index_mask : 0];
	const bool match = mine && command->cid_state == (cid | (uint32_t)HR_CMD_SENT << 16);
	/* CIDs have 16 bits: lanes without one are told apart by those above. */
	const uint32_t same = hr_match_u32(match ? cid : (hr_lane() + 1) << 16);
	const uint32_t credited = hr_ballot(match && hr_lowest_bit(same) == hr_lane());

	if (HR_RARE(credited != fresh))
		hr_qp_count_unmatched(qp, fresh & ~credited, mine ? cid : 0);
	return credited;
}

/*
 * Collective. Look at up to HR_LANES new CQEs. Returns the mask of lanes whose *done was filled; 0:
 * nothing new (or all of it late or stray), see qp->broken. What lies behind a CQE that breaks the
 * queue is not looked at.
 */
HR_WORKER uint32_t hr_qp_reap(struct hr_nvme_qp *qp, struct hr_done *done)
{
	const uint32_t lane = hr_lane(), head = qp->cq_head, free_tail = qp->free_tail;
	const uint32_t at = hr_ring_rank(head, lane < qp->entries ? lane : 0, qp->entries);
	uint32_t unfetched = 0, credited, failed;
	uint64_t dw23;
	const uint32_t fresh = hr_qp_poll_cqes(qp, at, &dw23, &unfetched),
		       count = hr_count_bits(fresh);

	if (!fresh) {
		hr_qp_release(qp);
		return 0;
	}
	credited = hr_qp_match_cids(qp, fresh, hr_cqe_cid(dw23));
	if (credited >> lane & 1) {
		const uint32_t index = hr_cqe_cid(dw23) & qp->index_mask;
		const uint32_t rank = hr_count_bits(credited & ((1u << lane) - 1));

		done->token = qp->inflight[index].token;
		done->dw0 = HR_LANES == 1 ? qp->cq[at].dw0 : 0;
		done->cid = hr_cqe_cid(dw23);
		done->status = hr_cqe_status(hr_cqe_field(dw23));
		done->dnr = hr_cqe_dnr(hr_cqe_field(dw23));
		done->crd = hr_cqe_crd(hr_cqe_field(dw23));
		qp->inflight[index].state = HR_CMD_FREE;
		qp->free_ring[(free_tail + rank) & qp->index_mask] = (uint16_t)index;
	}
	failed = hr_ballot((credited >> lane & 1) && done->status);
	unfetched = hr_shfl_u32(unfetched, count - 1); /* as the newest says */
	hr_lanes_sync();
	if (lane == 0) {
		uint32_t next = head + count;

		if (HR_RARE(next >= qp->entries)) {
			next -= qp->entries;
			qp->phase ^= 1;
		}
		qp->cq_head = next;
		qp->unfetched = unfetched;
		qp->free_tail = free_tail + hr_count_bits(credited);
		qp->stats.completed += hr_count_bits(credited);
		if (HR_RARE(failed))
			qp->stats.failed += hr_count_bits(failed);
	}
	hr_lanes_sync();
	return credited;
}

/*
 * Collective. Call when nothing was reaped, broken queue or not. True when a command's deadline has
 * passed: it is now HR_CMD_LOST, and *lost has its token and cid (the same in all lanes). Looks at
 * the table only each timeout / 8, or again at once after it returned true.
 */
HR_WORKER bool hr_qp_expire(struct hr_nvme_qp *qp, uint64_t now_ns, struct hr_done *lost)
{
	const uint32_t commands = qp->entries - 1u, lane = hr_lane();
	const uint64_t now = hr_shfl_u64(now_ns, 0);
	uint32_t base;

	if (now < qp->scan_ns)
		return false;
	for (base = 0; base < commands; base += HR_LANES) {
		const uint32_t index = base + lane < commands ? base + lane : 0;
		struct hr_inflight *command = &qp->inflight[index];
		const uint32_t expired =
			hr_ballot(base + lane < commands && command->state == HR_CMD_SENT &&
				  command->deadline_ns <= now);

		if (expired) {
			const uint32_t first = hr_lowest_bit(expired);

			lost->token = hr_shfl_u32(command->token, first);
			lost->cid = (uint16_t)hr_shfl_u32(command->cid, first);
			lost->dw0 = 0;
			lost->status = 0;
			lost->dnr = false;
			lost->crd = 0;
			hr_lanes_sync();
			if (lane == first)
				command->state = HR_CMD_LOST;
			if (lane == 0)
				qp->stats.lost++;
			hr_lanes_sync();
			return true;
		}
	}
	hr_lanes_sync();
	if (lane == 0)
		qp->scan_ns = now + qp->timeout_ns / 8;
	hr_lanes_sync();
	return false;
}

#endif
