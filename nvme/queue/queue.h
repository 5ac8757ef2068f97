/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nvme/queue/queue.h - one submission/completion queue pair and its one owner.
 *
 * Spec: NVMe Base 2.0, 3.3.1 (queues: empty, full, wrap, phase). The owner is a worker (a warp; a
 * thread on the host backend). It pushes up to one SQE per lane with hr_qp_push(), publishes any
 * number of SQEs with one doorbell in hr_qp_publish(), and reaps one CQE per lane with hr_qp_reap().
 * No function here uses an atomic read-modify-write. Reaped CQEs go back to the controller only
 * when the free part of the CQ may be too small for the outstanding commands, which is rare with
 * long queues. hr_qp_publish() does this behind the fence of the SQ doorbell.
 *
 * A completion finds its command by its CID in the in-flight table, never by position, so
 * completions may come in any order. CID = generation << index bits | index. The generation changes
 * each time an index is used, so a late or repeated completion is never credited to a new command.
 * Indices are handed out first-in first-out, so that each one is reused as late as possible. At
 * most entries - 1 commands are outstanding, so neither ring can overflow. An expired command
 * counts as outstanding: its buffer is quarantined, because the controller may still write there.
 *
 * Data from the controller is untrusted. A CID whose index lies outside of the table, an SQHD
 * outside of the ring, or the SQID of another queue breaks the queue (-EPROTO). A completion of an old
 * generation, or of a command that is not in flight, is counted and dropped. Nothing depends on where
 * in the ring SQHD is: controllers with several cores post one that is older than the newest. An SQHD
 * that the commands in flight do not explain is counted.
 *
 * The index that is all ones is never handed out (index_mask >= entries - 1, indices end at entries
 * - 2), so CID FFFFh, which the error log page reserves (NVMe Base 5.16.1.2), cannot occur.
 *
 * The struct lies in memory that all lanes of the worker can access. All lanes read its scalars and
 * call hr_lanes_sync(); then lane 0 writes the scalars, and all lanes call hr_lanes_sync() again.
 */
#ifndef NVME_QUEUE_QUEUE_H
#define NVME_QUEUE_QUEUE_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/base/limits.h"
#include "nvme/queue/worker.h"
#include "nvme/queue/wire.h"

enum hr_nvme_command_state {
	HR_CMD_FREE,
	HR_CMD_PUSHED,	  /* in the ring; the doorbell is not written yet */
	HR_CMD_SUBMITTED, /* waiting for its completion */
	HR_CMD_LOST, /* deadline passed; CID and buffer stay in use until the queue is recreated */
};

struct hr_nvme_command {
	uint64_t deadline_ns;
	uint32_t token; /* the owner's value; returned with the completion */
	union {
		struct {
			uint16_t cid;	/* of the command, or of the last one with this index */
			uint16_t state; /* enum hr_nvme_command_state */
		};
		uint32_t cid_state; /* both fields, for one comparison */
	};
};

/* Counters, written by the owner. Other threads read exact values after the owner has stopped. */
struct hr_qp_stats {
	uint64_t submitted; /* commands published to the controller */
	uint64_t completed; /* completions passed to the owner, with any status */
	uint64_t failed;    /* of these, with a status other than 0 */
	uint64_t lost;	    /* deadline passed */
	uint64_t late;	    /* CQE of a lost command or of an index's earlier use: dropped */
	uint64_t stray;	    /* CQE of a command that is not in flight: dropped */
	uint64_t doorbells; /* register writes, of SQ and CQ */
	uint64_t batches;   /* calls of hr_qp_publish() that published commands: one fence each */
	uint64_t releases;  /* CQ doorbells that needed a fence of their own */
	uint64_t odd;	    /* CQE with an SQHD outside of the commands since the newest SQHD */
};

struct hr_nvme_qp {
	struct hr_sqe *sq; /* [entries], page aligned; the owner writes, the controller reads */
	struct hr_cqe *cq; /* [entries], page aligned; the controller writes, the owner reads */
	uint32_t *sq_doorbell, *cq_doorbell; /* in BAR0 (SQyTDBL, CQyHDBL) */
	struct hr_nvme_command *inflight;    /* [entries - 1] */
	/* [index_mask + 1]: the last CID of each index that is not in use, FIFO */
	uint16_t *free_ring;
	uint32_t free_head, free_tail; /* of free_ring; & index_mask is the position */
	uint64_t timeout_ns;	       /* deadline of a command = time of its doorbell + this */
	uint16_t retry_delay[4];       /* delays that CRD names, in units of 100 ms; [0] is none */
	uint64_t next_scan_ns; /* time of the next scan of the table in hr_qp_find_expired() */
	uint16_t id;	       /* 0 is the admin queue pair */
	uint16_t entries;      /* of both rings, not zero-based */
	uint32_t index_mask;   /* bits of the index in a CID; the bits above are the generation */
	uint32_t sq_tail, sq_published; /* next entry to fill; tail of the last doorbell */
	uint32_t unpublished;		/* commands between sq_published and sq_tail */
	uint32_t unfetched;		/* commands between the newest SQHD and sq_published */
	uint32_t cq_head;		/* next CQE to read */
	uint32_t cq_published;		/* head of the last doorbell */
	uint32_t phase;			/* P of a new CQE; 2 on a broken queue: no CQE is new */
	int32_t error;			/* 0, or the error that ended the queue: hr_qp_fail() */
	struct hr_cqe bad_cqe;		/* the CQE that broke the queue */
	uint32_t empty_polls;		/* of hr_io_reap() */
	struct hr_qp_stats stats;
};

/* One completion, as hr_qp_reap() returns it to a lane. */
struct hr_completion {
	uint32_t token;
	uint32_t dw0; /* 0 for workers with several lanes, whose commands return no value in DW0 */
	uint16_t cid;
	uint16_t status; /* SCT << 8 | SC */
	bool dnr;
	uint8_t crd; /* delay for hr_qp_retry_pause() (nvme/queue/deadline.h), when status is not 0 */
};

/*
 * How long hr_qp_reap_or() waits for a completion: so many polls, at least 1. They end early when the
 * bits `mask` of *word, which is polled at the same time, are `value`. word: may be NULL.
 */
struct hr_qp_wait {
	uint32_t polls;
	const uint64_t *word;
	uint64_t mask, value;
};

/* Memory of a queue pair. The caller owns it; it outlives the queue. */
struct hr_qp_memory {
	void *sq, *cq; /* hr_qp_sq_bytes(), hr_qp_cq_bytes(); page aligned, in a mapped region */
	void *table;   /* hr_qp_table_bytes(); 8-byte aligned, accessed by the owner only */
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
	return entries * (sizeof(struct hr_nvme_command) + 2 * sizeof(uint16_t) + 4);
}

/*
 * Set up an empty queue pair over the caller's memory, which is zeroed. Host side, before the
 * queues are created (hr_ctrl_create_qp() sets the doorbell pointers).
 * Returns 0; -EINVAL: entries outside HR_QUEUE_ENTRIES_MIN..MAX, ring not page aligned, table not
 * 8-byte aligned, timeout 0 or above INT64_MAX.
 */
int hr_qp_init(struct hr_nvme_qp *qp, uint16_t id, uint32_t entries,
	       const struct hr_qp_memory *memory, uint64_t timeout_ns);

/*
 * Convert the pointers of a queue pair for a worker that accesses its memory at other addresses:
 * rings and table at *worker, doorbells in the BAR at worker_bar, which this process maps at `bar`.
 * Host side, after hr_ctrl_create_qp(). Afterwards the CPU may read scalars only. The caller copies
 * *qp and the table to the worker's memory.
 */
void hr_qp_relocate(struct hr_nvme_qp *qp, const struct hr_qp_memory *worker,
		    const volatile void *bar, void *worker_bar);

/*
 * Reason why a queue is broken, for messages: "CQE 17: SQHD 99 is outside of 3..8". Host side.
 * Returns buffer; "not broken" for a working queue; "given up" when the owner ended the queue
 * without a bad CQE.
 */
const char *hr_qp_error_text(const struct hr_nvme_qp *qp, char *buffer, unsigned bytes);

/* Commands that can be pushed now; 0 on a broken queue. */
HR_BOTH uint32_t hr_qp_free_commands(const struct hr_nvme_qp *qp)
{
	return qp->error ? 0 : qp->free_tail - qp->free_head;
}

/* Commands sent or pushed and not completed, lost ones included. */
HR_BOTH uint32_t hr_qp_outstanding(const struct hr_nvme_qp *qp)
{
	return qp->entries - 1u - (qp->free_tail - qp->free_head);
}

/* The step of hr_idle() between two polls of a word without a command in flight: less than 0.2 us on a
 * GPU. */
#define HR_QP_SPINS 4u

/* Hint for the compiler: c is nearly always false, so keep its branch off the straight path. */
#define hr_unlikely(c) __builtin_expect(!!(c), 0)

/* Index i + n on a ring of `entries`; i < entries, n <= entries. */
HR_BOTH uint32_t hr_index_add(uint32_t i, uint32_t n, uint32_t entries)
{
	uint32_t sum = i + n;

	if (hr_unlikely(sum >= entries))
		sum -= entries;
	return sum;
}

/* The same for the index of a lane among others, which is 0 when a worker has one lane. */
HR_BOTH uint32_t hr_index_add_lane(uint32_t i, uint32_t nth, uint32_t entries)
{
	return HR_LANES == 1 ? i : hr_index_add(i, nth, entries);
}

/* Steps from one index of a ring forward to another. */
HR_BOTH uint32_t hr_index_distance(uint32_t from, uint32_t to, uint32_t entries)
{
	uint32_t steps = to - from;

	if (hr_unlikely(to < from))
		steps += entries;
	return steps;
}

/* One lane, after hr_release_sys(): write the SQ tail, or the CQ head, to its doorbell. */
HR_WORKER void hr_qp_write_doorbell(struct hr_nvme_qp *qp, bool cq, uint32_t to)
{
	hr_mmio_write32(cq ? qp->cq_doorbell : qp->sq_doorbell, to);
	qp->stats.doorbells++;
}

/*
 * True when the CQ may run full: it has no room for the CQEs reaped but not released together with
 * the outstanding commands. Reaping does not change this sum, except for late and stray CQEs.
 */
HR_BOTH bool hr_qp_cq_may_fill(const struct hr_nvme_qp *qp)
{
	return hr_index_distance(qp->cq_published, qp->cq_head, qp->entries) +
		       hr_qp_outstanding(qp) >
	       qp->entries - 1u;
}

/* One lane, after hr_release_sys(): release the reaped CQEs to the controller. */
HR_WORKER void hr_qp_publish_cq_head(struct hr_nvme_qp *qp)
{
	const uint32_t head = qp->cq_head;

	qp->cq_published = head;
	hr_qp_write_doorbell(qp, true, head);
}

/* One lane: end the queue. No command is pushed, published or reaped after this; commands still
 * expire. */
HR_WORKER void hr_qp_fail(struct hr_nvme_qp *qp, int error)
{
	qp->error = error;
	qp->phase = 2;
	qp->unpublished = 0;
	qp->cq_published = qp->cq_head;
}

/* One lane: break the queue because of a bad CQE. dw23 holds its DW2 and DW3 as they were
 * checked. */
HR_WORKER void hr_qp_fail_at_cqe(struct hr_nvme_qp *qp, const struct hr_cqe *cqe, uint64_t dw23)
{
	qp->bad_cqe.dw0 = cqe->dw0;
	qp->bad_cqe.dw23 = dw23;
	hr_qp_fail(qp, -EPROTO);
}

/* The lane of the n-th set bit of a mask, from 0. The mask has more than n set bits. */
HR_WORKER uint32_t hr_nth_lane(hr_mask mask, uint32_t nth)
{
	if (!(mask & (mask + 1))) /* consecutive lanes from 0, the usual case */
		return nth;
	for (; nth; nth--)
		mask &= mask - 1;
	return hr_lowest_bit(mask);
}

/*
 * Collective, a step of hr_qp_push(): the `count` lanes of `fit` write their SQEs to the ring from
 * `tail` on. Each store of a GPU is a write on the bus, and the bus transfers a small write no
 * faster than a large one. So lanes exchange pieces of 16 bytes: then one store of all lanes covers
 * adjacent bytes.
 */
HR_WORKER void hr_qp_write_sqes(struct hr_nvme_qp *qp, uint32_t tail, hr_mask fit, uint32_t count,
				const struct hr_sqe *sqe, uint16_t cid)
{
	uint64_t word[8] = { 0 };
	uint32_t k, part;

	if (hr_in_mask(fit))
		hr_sqe_words(sqe, cid, word);
	for (k = 0; k < 4 && k * HR_LANES < 4 * count; k++) {
		const uint32_t piece = k * HR_LANES + hr_lane(), nth = piece / 4;
		const uint32_t lane = nth < count ? hr_nth_lane(fit, nth) : 0;
		uint64_t low = 0, high = 0;

		for (part = 0; part < 4; part++) {
			const uint64_t l = hr_shfl_u64(word[2 * part], lane);
			const uint64_t h = hr_shfl_u64(word[2 * part + 1], lane);

			low = part == piece % 4 ? l : low;
			high = part == piece % 4 ? h : high;
		}
		if (nth < count)
			hr_write_u64x2(
				(uint64_t *)&qp->sq[hr_index_add_lane(tail, nth, qp->entries)] +
					piece % 4 * 2,
				low, high);
	}
}

/*
 * Collective. Each lane with `want` set puts a copy of *sqe into the ring; hr_qp_push() sets its
 * CID. The controller sees the command after hr_qp_publish(). Returns per lane the CID; -EAGAIN: no
 * room (lower lanes come first); qp->error; or -EINVAL when want is false.
 */
HR_WORKER int hr_qp_push(struct hr_nvme_qp *qp, bool want, const struct hr_sqe *sqe, uint32_t token)
{
	const uint32_t entries = qp->entries, mask = qp->index_mask, room = hr_qp_free_commands(qp);
	const uint32_t head = qp->free_head, tail = qp->sq_tail;
	const uint32_t nth = hr_lanes_before(hr_ballot(want));
	const bool fits = want && nth < room;
	const hr_mask fit = hr_ballot(fits);
	const uint32_t count = hr_count_bits(fit);
	int cid = -EINVAL;

	if (fits) {
		const uint32_t last = qp->free_ring[(head + nth) & mask];
		struct hr_nvme_command *command = &qp->inflight[last & mask];

		/* The next generation; it wraps within 16 bits. */
		cid = (uint16_t)(last + mask + 1);
		command->token = token;
		command->cid_state = (uint32_t)cid | (uint32_t)HR_CMD_PUSHED << 16;
		if (HR_LANES == 1) {
			qp->sq[tail] = *sqe;
			qp->sq[tail].cid = (uint16_t)cid;
		}
	} else if (want) {
		cid = qp->error ? qp->error : -EAGAIN;
	}
	if (HR_LANES > 1)
		hr_qp_write_sqes(qp, tail, fit, count, sqe, (uint16_t)cid);
	hr_lanes_sync();
	if (hr_lane() == 0) {
		qp->free_head = head + count;
		qp->sq_tail = hr_index_add(tail, count, entries);
		qp->unpublished += count;
	}
	hr_lanes_sync();
	return cid;
}

/* Collective, the last step of hr_qp_publish() and hr_qp_reap() when no command was published or
 * reaped. */
HR_WORKER void hr_qp_release_cqes(struct hr_nvme_qp *qp)
{
	const bool full = hr_qp_cq_may_fill(qp);

	if (!full)
		return;
	hr_lanes_sync();
	if (hr_lane() == 0) {
		qp->stats.releases++;
		hr_release_sys();
		hr_qp_publish_cq_head(qp);
	}
	hr_lanes_sync();
}

/*
 * Collective. Publish the commands pushed since the last call, with one doorbell. All get the same
 * deadline, from one clock read. Reaped CQEs are released behind the same fence, when the CQ may
 * run full. Does nothing when no command was pushed, nor on a broken queue.
 */
HR_WORKER void hr_qp_publish(struct hr_nvme_qp *qp)
{
	const uint32_t count = qp->unpublished, mask = qp->index_mask;
	/* What names the indices of the pushed commands left free_ring last, and is still stored
	 * there: the number of pushed and free indices together is below the size of free_ring. */
	const uint32_t first = qp->free_head - count;
	uint64_t deadline;
	uint32_t i;

	if (!count) {
		hr_qp_release_cqes(qp);
		return;
	}
	/* The controller gets the commands before the table has their deadlines, which only the
	 * owner reads. */
	hr_lanes_sync();
	if (hr_lane() == 0) {
		const uint32_t tail = qp->sq_tail;

		hr_release_sys();
		hr_qp_write_doorbell(qp, false, tail);
		qp->sq_published = tail;
		qp->unpublished = 0;
		qp->unfetched += count;
		qp->stats.submitted += count;
		qp->stats.batches++;
		if (hr_qp_cq_may_fill(qp))
			hr_qp_publish_cq_head(qp);
	}
	deadline = hr_clock_ns() + qp->timeout_ns;
	for (i = hr_lane(); i < count; i += HR_LANES) {
		const uint32_t last = qp->free_ring[(first + i) & mask];
		struct hr_nvme_command *command = &qp->inflight[last & mask];

		command->deadline_ns = deadline;
		command->state = HR_CMD_SUBMITTED;
	}
	hr_lanes_sync();
}

/*
 * True when SQID, SQHD and CID of a CQE are those of a queue in order. *unfetched is the number of
 * published commands that the controller had not fetched then.
 */
HR_BOTH bool hr_qp_plausible(const struct hr_nvme_qp *qp, uint64_t dw23, uint32_t *unfetched)
{
	const uint32_t rung = qp->sq_published, sqhd = hr_cqe_sqhd(dw23), cid = hr_cqe_cid(dw23);

	*unfetched = 0;
	if (sqhd != rung) {
		*unfetched = hr_index_distance(sqhd, rung, qp->entries);
		if (sqhd >= qp->entries || *unfetched > qp->unfetched)
			return false;
	}
	return hr_cqe_sqid(dw23) == qp->id && (cid & qp->index_mask) < qp->entries - 1u;
}

/* True when SQID, SQHD and CID of a CQE are possible on this queue. */
HR_BOTH bool hr_qp_possible(const struct hr_nvme_qp *qp, uint64_t dw23)
{
	return hr_cqe_sqid(dw23) == qp->id && hr_cqe_sqhd(dw23) < qp->entries &&
	       (hr_cqe_cid(dw23) & qp->index_mask) < qp->entries - 1u;
}

/*
 * Collective, a step of hr_qp_poll_cqes(): a lane has found its new CQE implausible. DW2 and DW3
 * were loaded as one word. A machine that splits this load may return a DW2 from the previous lap,
 * so they are loaded again. Breaks the queue at the first CQE that is not possible, and returns the
 * mask of the lanes before it. Of these, counts those that stay implausible.
 */
HR_WORKER hr_mask hr_qp_reload_cqes(struct hr_nvme_qp *qp, hr_mask held, uint32_t at,
				    uint64_t *dw23, uint32_t *unfetched)
{
	const bool mine = hr_in_mask(held);
	hr_mask bad, odd;

	if (mine)
		*dw23 = hr_acquire_sys_u64(&qp->cq[at].dw23);
	odd = hr_ballot(mine && !hr_qp_plausible(qp, *dw23, unfetched));
	bad = hr_ballot(mine && !hr_qp_possible(qp, *dw23));
	bad &= ~bad + 1; /* the first bad lane */
	held = bad ? held & (bad - 1) : held;
	hr_lanes_sync();
	if (hr_in_mask(bad))
		hr_qp_fail_at_cqe(qp, &qp->cq[at], *dw23);
	if (hr_lane() == 0)
		qp->stats.odd += hr_count_bits(odd & held);
	hr_lanes_sync();
	return held;
}

/*
 * Collective, a step of hr_qp_reap(). Each lane reads CQE `at` once, so that the checked value is
 * the used value. Returns the mask of the lanes with a new, possible CQE: consecutive lanes from
 * 0. Breaks the queue at the first CQE that is not possible.
 */
HR_WORKER hr_mask hr_qp_poll_cqes(struct hr_nvme_qp *qp, uint32_t at, const struct hr_qp_wait *wait,
				  uint64_t *dw23, uint32_t *unfetched)
{
	const uint32_t lane = hr_lane(), outstanding = hr_qp_outstanding(qp);
	const uint32_t phase = qp->phase ^ (at < qp->cq_head ? 1u : 0u); /* 2, 3: broken queue */
	const bool expects = HR_LANES == 1 || lane < outstanding;
	uint32_t polls = wait->polls;
	bool mine, ends;
	hr_mask fresh;

	/* A short loop, because a GPU executes code that it has just executed several times faster. */
	for (;; polls--) {
		const uint64_t word = wait->word ? hr_fresh_u64(wait->word) : 0;
		uint32_t spins = HR_QP_SPINS;

		/* Lanes that expect no CQE do not read, because the memory may be remote. */
		*dw23 = expects ? hr_poll_sys_u64(&qp->cq[at].dw23) : 0;
		mine = expects && hr_cqe_phase(hr_cqe_field(*dw23)) == phase;
		ends = mine || (wait->word && (word & wait->mask) == wait->value);
		if (polls <= 1 || hr_ballot(ends))
			break;
		if (!outstanding)
			hr_idle(&spins);
	}
	fresh = hr_ballot(mine);
	fresh &= ~(fresh + 1); /* lanes before the first CQE that is not new */
	/* P orders the reads that follow. */
	if (hr_in_mask(fresh))
		hr_polled_sys(&qp->cq[at].dw23);
	if (hr_unlikely(hr_ballot(hr_in_mask(fresh) && !hr_qp_plausible(qp, *dw23, unfetched))))
		fresh = hr_qp_reload_cqes(qp, fresh, at, dw23, unfetched);
	return fresh;
}

/* Collective, a step of hr_qp_reap(). Count the CQEs of the `dropped` lanes, which match no
 * command. */
HR_WORKER void hr_qp_count_unmatched(struct hr_nvme_qp *qp, hr_mask dropped, uint32_t cid)
{
	const struct hr_nvme_command *command = &qp->inflight[cid & qp->index_mask];
	const bool mine = hr_in_mask(dropped);
	const hr_mask late =
		hr_ballot(mine && (command->cid != cid || command->state == HR_CMD_LOST));

	if (hr_lane() == 0) {
		qp->stats.late += hr_count_bits(late);
		qp->stats.stray += hr_count_bits(dropped & ~late);
	}
}

/*
 * Collective, a step of hr_qp_reap(). The mask of those `fresh` lanes whose CID matches a command
 * in flight. When several lanes hold the same CID, only the lowest counts.
 */
HR_WORKER hr_mask hr_qp_match_cids(struct hr_nvme_qp *qp, hr_mask fresh, uint32_t cid)
{
	const bool mine = fresh >> hr_lane() & 1;
	const struct hr_nvme_command *command = &qp->inflight[mine ? cid & qp->index_mask : 0];
	const bool match = mine && command->cid_state == (cid | (uint32_t)HR_CMD_SUBMITTED << 16);
	/* CIDs have 16 bits, so lanes without a CID use distinct values above them. */
	const hr_mask same = hr_match_u32(match ? cid : (hr_lane() + 1) << 16);
	const hr_mask credited = hr_ballot(match && hr_lowest_bit(same) == hr_lane());

	if (hr_unlikely(credited != fresh))
		hr_qp_count_unmatched(qp, fresh & ~credited, mine ? cid : 0);
	return credited;
}

/*
 * Collective. Read up to HR_LANES new CQEs, and wait for the first. Returns the mask of the lanes whose
 * *done was filled; 0: no new CQE (or only late and stray ones), or a broken queue: see qp->error.
 * CQEs behind a bad one are not read.
 */
HR_WORKER hr_mask hr_qp_reap_or(struct hr_nvme_qp *qp, const struct hr_qp_wait *wait,
				struct hr_completion *done)
{
	const uint32_t lane = hr_lane(), head = qp->cq_head, free_tail = qp->free_tail;
	const uint32_t at = hr_index_add_lane(head, lane < qp->entries ? lane : 0, qp->entries);
	uint32_t unfetched = 0;
	hr_mask credited, failed;
	uint64_t dw23;
	const hr_mask fresh = hr_qp_poll_cqes(qp, at, wait, &dw23, &unfetched);
	const uint32_t count = hr_count_bits(fresh);

	if (!fresh) {
		hr_qp_release_cqes(qp);
		return 0;
	}
	credited = hr_qp_match_cids(qp, fresh, hr_cqe_cid(dw23));
	if (hr_in_mask(credited)) {
		const uint32_t index = hr_cqe_cid(dw23) & qp->index_mask;
		const uint32_t nth = hr_lanes_before(credited);

		done->token = qp->inflight[index].token;
		done->dw0 = HR_LANES == 1 ? qp->cq[at].dw0 : 0;
		done->cid = hr_cqe_cid(dw23);
		done->status = hr_cqe_status(hr_cqe_field(dw23));
		done->dnr = hr_cqe_dnr(hr_cqe_field(dw23));
		done->crd = hr_cqe_crd(hr_cqe_field(dw23));
		qp->inflight[index].state = HR_CMD_FREE;
		qp->free_ring[(free_tail + nth) & qp->index_mask] = hr_cqe_cid(dw23);
	}
	failed = hr_ballot(hr_in_mask(credited) && done->status);
	unfetched = hr_shfl_u32(unfetched, count - 1); /* from the newest CQE */
	hr_lanes_sync();
	if (lane == 0) {
		uint32_t next = head + count;

		if (hr_unlikely(next >= qp->entries)) {
			next -= qp->entries;
			qp->phase ^= 1;
		}
		qp->cq_head = next;
		qp->unfetched = unfetched;
		qp->free_tail = free_tail + hr_count_bits(credited);
		qp->stats.completed += hr_count_bits(credited);
		if (hr_unlikely(failed))
			qp->stats.failed += hr_count_bits(failed);
	}
	hr_lanes_sync();
	return credited;
}

/* The same without waiting. */
HR_WORKER hr_mask hr_qp_reap(struct hr_nvme_qp *qp, struct hr_completion *done)
{
	const struct hr_qp_wait wait = { 1, NULL, 0, 0 };

	return hr_qp_reap_or(qp, &wait, done);
}

#include "nvme/queue/deadline.h"

#endif
