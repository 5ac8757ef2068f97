/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nvme/queue/single.h - a queue pair with one command at a time, for the latency of a single read.
 * Worker code; include nvme/queue/queue.h.
 *
 * hr_qp_push(), hr_qp_publish() and hr_qp_reap() handle a command per lane. A GPU executes each
 * instruction of a single command once, which takes longer than when it repeats it, so here is a way
 * with few of them: the values of a command are prepared before there is one, its entry is written
 * without exchanges between lanes, the table is filled after the doorbell, and a completion is compared
 * with the one expected word. Another completion (a status, a late one) stays for hr_qp_reap().
 *
 * All functions are collective, and their arguments are the same in all lanes.
 */
#ifndef NVME_QUEUE_SINGLE_H
#define NVME_QUEUE_SINGLE_H

#include "nvme/queue/queue.h"

/* A command on a queue pair without others, before it is sent. */
struct hr_single {
	uint32_t index; /* in the in-flight table */
	uint32_t cid;
	uint32_t tail; /* behind it in the ring */
	uint64_t good; /* DW2 and DW3 of its completion with status 0, without P */
	/* Its entry and its doorbell, so that nothing is loaded between release and doorbell. */
	struct hr_sqe *entry;
	uint32_t *doorbell;
};

/* True when the queue pair works, and has no command: none pushed, outstanding or lost. */
HR_BOTH bool hr_qp_is_unused(const struct hr_nvme_qp *qp)
{
	return !qp->error && !hr_qp_outstanding(qp);
}

/*
 * The next command of a queue pair that is unused, or has no command but one that was sent by
 * hr_single_submit() and has room for another. Nothing changes before hr_single_submit(); a
 * written entry that is not sent is written again by the next command.
 */
HR_WORKER struct hr_single hr_single_next(const struct hr_nvme_qp *qp)
{
	const uint32_t mask = qp->index_mask;
	const uint32_t last = qp->free_ring[qp->free_head & mask];
	struct hr_single one;

	one.index = last & mask;
	one.cid = (uint16_t)(last + mask + 1);
	one.tail = hr_index_add(qp->sq_tail, 1, qp->entries);
	one.good = one.tail | (uint64_t)qp->id << 16 | (uint64_t)one.cid << 32;
	one.entry = &qp->sq[qp->sq_tail];
	one.doorbell = qp->sq_doorbell;
	return one;
}

/* Write the entry of the next command at the tail of the ring, from where the controller reads it after
 * hr_single_submit(). */
HR_WORKER void hr_single_write_sqe(const struct hr_single *one, const struct hr_sqe *sqe)
{
	struct hr_sqe *at = one->entry;
	uint64_t word[8];
	uint32_t k;

	if (HR_LANES == 1) {
		*at = *sqe;
		at->cid = (uint16_t)one->cid;
		return;
	}
	hr_sqe_words(sqe, (uint16_t)one->cid, word);
	/* one store of four lanes */
	for (k = hr_lane(); k < 4; k += HR_LANES) {
		const uint64_t low = k & 1 ? word[2] : word[0], high = k & 1 ? word[3] : word[1];

		hr_write_u64x2((uint64_t *)at + 2 * k, k & 2 ? (k & 1 ? word[6] : word[4]) : low,
			       k & 2 ? (k & 1 ? word[7] : word[5]) : high);
	}
}

/* Make the written entry visible to the controller. A GPU waits here for the bus; loads that were begun
 * before go on meanwhile. */
HR_WORKER void hr_single_release_cqe(void)
{
	hr_lanes_sync();
	if (hr_lane() == 0)
		hr_release_sys();
}

/* Publish the written and released command on an unused queue pair, as hr_qp_push() and hr_qp_publish()
 * do. Call hr_single_track() before any function of nvme/queue/queue.h. */
HR_WORKER void hr_single_submit(struct hr_nvme_qp *qp, const struct hr_single *one)
{
	if (hr_lane() == 0) {
		hr_mmio_write32(one->doorbell, one->tail);
		qp->stats.doorbells++;
		qp->sq_tail = qp->sq_published = one->tail;
		qp->free_head++;
		qp->unfetched++;
		qp->stats.submitted++;
		qp->stats.batches++;
		if (hr_qp_cq_may_fill(qp))
			hr_qp_publish_cq_head(qp);
	}
	hr_lanes_sync();
}

/* Fill in the table for the sent command, so that hr_qp_reap() finds it, and give it a deadline. A
 * command that ends by hr_single_end() does not need this. */
HR_WORKER void hr_single_track(struct hr_nvme_qp *qp, const struct hr_single *one, uint32_t token)
{
	struct hr_nvme_command *command = &qp->inflight[one->index];

	if (hr_lane() == 0) {
		command->token = token;
		command->cid_state = one->cid | (uint32_t)HR_CMD_SUBMITTED << 16;
		command->deadline_ns = hr_clock_ns() + qp->timeout_ns;
	}
	hr_lanes_sync();
}

/*
 * Wait for the completion of the sent command, the only one of the queue pair. It has completed with
 * status 0: returns the number of polls; call hr_single_end(). 0: the wait has ended without that, also
 * by another completion, and nothing has changed.
 */
HR_WORKER uint32_t hr_single_wait(const struct hr_nvme_qp *qp, const struct hr_single *one,
				  const struct hr_qp_wait *wait)
{
	const struct hr_cqe *cqe = &qp->cq[qp->cq_head];
	const uint32_t phase = qp->phase;
	const uint64_t good = one->good | (uint64_t)phase << 48;
	uint32_t polls = wait->polls;

	for (;; polls--) {
		bool ends = false, done = false;

		/* one lane, because the memory may be remote */
		if (hr_lane() == 0) {
			const uint64_t word = wait->word ? hr_fresh_u64(wait->word) : 0;
			const uint64_t dw23 = hr_poll_sys_u64(&cqe->dw23);

			done = dw23 == good;
			ends = hr_cqe_phase(hr_cqe_field(dw23)) == phase ||
			       (wait->word && (word & wait->mask) == wait->value);
		}
		if (hr_ballot(done)) /* first, because a page waits for it */
			break;
		if (hr_ballot(ends) || polls <= 1)
			return 0;
	}
	hr_polled_sys(&cqe->dw23);
	hr_lanes_sync();
	return wait->polls - polls + 1;
}

/* The completed command's entries in ring and table are free again. */
HR_WORKER void hr_single_end(struct hr_nvme_qp *qp, const struct hr_single *one)
{
	hr_lanes_sync();
	if (hr_lane() == 0) {
		uint32_t next = qp->cq_head + 1;

		qp->inflight[one->index].cid_state = one->cid | (uint32_t)HR_CMD_FREE << 16;
		qp->free_ring[qp->free_tail & qp->index_mask] = (uint16_t)one->cid;
		qp->free_tail++;
		if (hr_unlikely(next >= qp->entries)) {
			next = 0;
			qp->phase ^= 1;
		}
		qp->cq_head = next;
		qp->unfetched = 0;
		qp->stats.completed++;
	}
	hr_lanes_sync();
}

#endif
