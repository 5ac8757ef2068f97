/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Doorbells (Base 3.3). The controller detects a write by a changed value. A value outside of the
 * queue raises an event and is ignored.
 */
#include "nvme/soft/internal.h"

static uint32_t *doorbell(const struct soft *soft, uint16_t qid, bool cq)
{
	const uint32_t step = 4u << soft->options.dstrd;

	return (uint32_t *)(void *)(soft->bar + SOFT_DOORBELLS + (2u * qid + cq) * step);
}

void soft_clear_doorbell(const struct soft *soft, uint16_t qid, bool cq)
{
	__atomic_store_n(doorbell(soft, qid, cq), 0, __ATOMIC_RELAXED);
}

void soft_init_cq_doorbell(struct soft *soft, uint16_t id, struct hr_cqe *ring, uint32_t entries)
{
	soft_clear_doorbell(soft, id, true);
	soft->cq[id] = (struct soft_cq){ .ring = ring, .entries = entries, .phase = 1, .id = id };
	soft->cq[id].bell.reg = doorbell(soft, id, true);
}

void soft_init_sq_doorbell(struct soft *soft, uint16_t id, uint16_t cqid, const struct hr_sqe *ring,
			   uint32_t entries)
{
	soft_clear_doorbell(soft, id, false);
	soft->sq[id] = (struct soft_sq){ .ring = ring,
					 .cq = &soft->cq[cqid],
					 .hint = soft->window,
					 .entries = entries,
					 .id = id,
					 .cqid = cqid };
	soft->sq[id].bell.reg = doorbell(soft, id, false);
	soft->cq[cqid].users++;
}

/* True when the host has moved a doorbell. */
static bool moved(struct soft_doorbell *bell, uint32_t *value)
{
	*value = __atomic_load_n(bell->reg, __ATOMIC_ACQUIRE);
	if (*value == bell->seen)
		return false;
	bell->seen = *value;
	return true;
}

static uint32_t distance(uint32_t from, uint32_t to, uint32_t entries)
{
	return to >= from ? to - from : to + entries - from;
}

/* A head beyond the posted completions is reported once and ignored: no correct host writes it. */
uint32_t soft_cq_room(struct soft *soft, struct soft_cq *cq)
{
	uint32_t posted = distance(cq->head, cq->tail, cq->entries), value;

	if (moved(&cq->bell, &value)) {
		const uint32_t seen = distance(cq->head, value, cq->entries);

		if (value < cq->entries && seen <= posted) {
			cq->head = value;
			posted -= seen;
		} else {
			soft_bad_doorbell(soft, cq->id, true, value, cq->entries);
		}
	}
	return cq->entries - 1 - posted;
}

/* A tail outside of the queue is also reported once and ignored. */
uint32_t soft_ready(struct soft *soft, struct soft_sq *sq)
{
	uint32_t room, sent, value;

	if (moved(&sq->bell, &value)) {
		if (value < sq->entries)
			sq->tail = value;
		else
			soft_bad_doorbell(soft, sq->id, false, value, sq->entries);
	}
	room = soft_cq_room(soft, sq->cq);
	sent = distance(sq->head, sq->tail, sq->entries);
	return sent < room ? sent : room;
}

/* Return the doorbell's value and set it to 0. */
static uint32_t fetch_doorbell(uint32_t *doorbell)
{
	const uint32_t value = __atomic_load_n(doorbell, __ATOMIC_RELAXED);

	if (value)
		__atomic_store_n(doorbell, 0, __ATOMIC_RELAXED);
	return value;
}

void soft_scan_doorbells(struct soft *soft)
{
	for (uint16_t qid = 0; qid <= HR_SOFT_QUEUES; qid++) {
		uint32_t *sq = doorbell(soft, qid, false), *cq = doorbell(soft, qid, true);
		const uint32_t tail = soft->sq[qid].ring ? 0 : fetch_doorbell(sq);
		const uint32_t head = soft->cq[qid].ring ? 0 : fetch_doorbell(cq);

		if (tail)
			soft_bad_doorbell(soft, qid, false, tail, 0);
		if (head)
			soft_bad_doorbell(soft, qid, true, head, 0);
	}
}

void soft_clear_doorbells(struct soft *soft)
{
	for (uint16_t qid = 0; qid <= HR_SOFT_QUEUES; qid++) {
		soft_clear_doorbell(soft, qid, false);
		soft_clear_doorbell(soft, qid, true);
	}
}
