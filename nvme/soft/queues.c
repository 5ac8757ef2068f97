/* SPDX-License-Identifier: Apache-2.0 */
/* Submission and completion queues (Base 3.3): fetch, execute, post, and apply faults. */
#include <string.h>

#include "config/base/clock.h"
#include "nvme/soft/internal.h"

static void post_cqe(struct soft_sq *sq, uint16_t sqhd, uint16_t cid, uint32_t dw0, uint16_t field)
{
	struct soft_cq *cq = sq->cq;
	struct hr_cqe *cqe = &cq->ring[cq->tail];
	const struct hr_cqe last = {
		.sqhd = sqhd,
		.sqid = sq->id,
		.cid = cid,
		.status = (uint16_t)((uint32_t)field << 1 | cq->phase),
	};

	cqe->dw0 = dw0;
	cqe->dw1 = 0;
	__atomic_store_n(&cqe->dw23, last.dw23, __ATOMIC_RELEASE);
	if (++cq->tail == cq->entries) {
		cq->tail = 0;
		cq->phase ^= 1;
	}
}

void soft_post(struct soft_sq *sq, uint16_t cid, uint32_t dw0, uint16_t field)
{
	post_cqe(sq, (uint16_t)sq->head, cid, dw0, field);
}

static struct hr_sqe fetch(struct soft_sq *sq)
{
	const struct hr_sqe sqe = soft_fetch(&sq->ring[sq->head]);

	sq->head = sq->head + 1 == sq->entries ? 0 : sq->head + 1;
	return sqe;
}

/* Commands published by one doorbell value: the host sent the last before the first completed. */
struct sent {
	uint32_t left; /* not yet fetched */
	uint32_t count;
	uint16_t cid[SOFT_BATCH]; /* CIDs of the fetched commands */
};

/* ---- completions that faults delay */

static void hold(struct soft_poller *p, const struct soft_completion *completion)
{
	for (uint32_t i = 0; i < SOFT_HELD; i++) {
		if (p->held[i].used)
			continue;
		p->held[i] = *completion;
		p->held[i].used = true;
		p->held_count++;
		return;
	}
}

static bool release_held_completion(struct soft_poller *p, struct soft_completion *held)
{
	struct soft *soft = p->soft;

	if (!soft->sq[held->sqid].ring) { /* its queue was deleted */
		held->used = false;
		p->held_count--;
		return true;
	}
	if (soft_cq_room(soft, soft->sq[held->sqid].cq) == 0)
		return false;
	soft_post(&soft->sq[held->sqid], held->cid, held->dw0, held->field);
	held->used = false;
	p->held_count--;
	return true;
}

/* Post delayed completions whose time has come. */
static bool release_due(struct soft_poller *p)
{
	bool any = false;
	uint64_t now;

	if (!p->held_count)
		return false;
	now = hr_now_ns();
	for (uint32_t i = 0; i < SOFT_HELD; i++)
		if (p->held[i].used && !p->held[i].reorder && p->held[i].due_ns <= now)
			any |= release_held_completion(p, &p->held[i]);
	return any;
}

/* Post reordered completions after the next completion of their queue. */
static void release_reordered(struct soft_poller *p, uint16_t sqid)
{
	for (uint32_t i = 0; p->held_count && i < SOFT_HELD; i++)
		if (p->held[i].used && p->held[i].reorder && p->held[i].sqid == sqid)
			p->held[i].reorder = !release_held_completion(p, &p->held[i]);
}

bool soft_end_held(struct soft_poller *p, uint16_t sqid, int cid, uint16_t field)
{
	bool any = false;

	for (uint32_t i = 0; p->held_count && i < SOFT_HELD; i++) {
		struct soft_completion *held = &p->held[i];

		if (!held->used || held->sqid != sqid || (cid >= 0 && held->cid != cid))
			continue;
		held->field = field;
		any |= release_held_completion(p, held);
	}
	return any;
}

/* ---- execution */

/* Apply faults that replace the execution. True: do not execute the command. */
static bool fault_before(struct soft_poller *p, const struct soft_fault *fault)
{
	struct soft *soft = p->soft;

	switch (fault->kind) {
	case FAULT_CFS:
		soft_fail(soft);
		return true;
	case FAULT_WARN:
		soft_warn(soft, fault->value);
		return false;
	case FAULT_PROTECT:
		soft_protect(soft);
		return false;
	case FAULT_DEAF:
		__atomic_store_n(&soft->deaf, 1, __ATOMIC_RELEASE);
		__atomic_store_n(&soft->dead, 1, __ATOMIC_RELEASE);
		return true;
	case FAULT_REMOVE:
		__atomic_store_n(&soft->dead, 1, __ATOMIC_RELEASE);
		return true;
	case FAULT_CUT:
		__atomic_store_n(&soft->dead, 1, __ATOMIC_RELEASE);
		soft_cache_cut(&soft->cache, fault->policy, fault->seed);
		return true;
	default:
		return false;
	}
}

static void complete_with_fault(struct soft_poller *p, struct soft_sq *sq,
				const struct soft_fault *fault, const struct soft_completion *c)
{
	struct soft *soft = p->soft;
	uint16_t sqhd = (uint16_t)sq->head;
	struct soft_completion later = *c;

	if (soft_has_quirk(soft, HR_SOFT_SQHD_BACK) && sq->cq->tail % 2) /* before the last one */
		sqhd = (uint16_t)((sq->head + sq->entries - 2) % sq->entries);

	/* no completion is posted any more */
	if (__atomic_load_n(&soft->dead, __ATOMIC_ACQUIRE))
		return;
	switch (fault ? fault->kind : FAULT_NONE) {
	case FAULT_DROP:
		return;
	case FAULT_DELAY:
		later.due_ns = hr_now_ns() + fault->delay_ns;
		hold(p, &later);
		return;
	case FAULT_REORDER:
		later.reorder = true;
		hold(p, &later);
		return;
	case FAULT_CID:
		later.cid = fault->value;
		break;
	case FAULT_SQHD:
		sqhd = fault->value;
		break;
	default:
		break;
	}
	post_cqe(sq, sqhd, later.cid, c->dw0, c->field);
	if (fault && fault->kind == FAULT_DUPLICATE && soft_cq_room(soft, sq->cq))
		post_cqe(sq, sqhd, c->cid, c->dw0, c->field);
	release_reordered(p, c->sqid);
}

/*
 * No two commands in flight have the same CID (Base 3.3.3.1). Commands are executed completely when
 * they are fetched. So the commands in flight are those whose completion a fault delays, event
 * requests, and, for the host, the other commands of the same doorbell value: `sent`.
 */
static bool in_flight(const struct soft_poller *p, const struct soft_sq *sq,
		      const struct sent *sent, uint16_t cid)
{
	const struct soft *soft = p->soft;

	for (uint32_t i = 0; i < sent->count; i++)
		if (sent->cid[i] == cid)
			return true;
	for (uint32_t i = 0; p->held_count && i < SOFT_HELD; i++)
		if (p->held[i].used && p->held[i].sqid == sq->id && p->held[i].cid == cid)
			return true;
	for (uint32_t i = 0; sq->id == 0 && i < soft->aers; i++)
		if (soft->aer[i] == cid)
			return true;
	return false;
}

static void execute(struct soft_poller *p, struct soft_sq *sq, const struct sent *sent,
		    const struct hr_sqe *sqe)
{
	struct soft *soft = p->soft;
	const struct soft_fault *fault =
		soft->faults ? soft_fault_for(soft, sqe, sq->id == 0) : NULL;
	struct soft_completion c = { .sqid = sq->id, .cid = sqe->cid };

	if (fault && fault_before(p, fault))
		return;
	if (in_flight(p, sq, sent, sqe->cid))
		c.field = NVME_SC_CMDID_CONFLICT | SOFT_DNR;
	else if (fault && fault->kind == FAULT_STATUS)
		c.field = (uint16_t)(fault->status | (fault->dnr ? SOFT_DNR : 0) |
				     (soft->retry_delays ? (uint32_t)fault->crd << SOFT_CRD_SHIFT
							 : 0));
	else
		c.field = sq->id ? soft_io(p, sq, sqe) : soft_admin(soft, sqe, &c.dw0);
	if (c.field == SOFT_NO_REPLY)
		return;
	soft_add(&p->stats.commands, 1);
	if (c.field) {
		soft_add(&p->stats.errors, 1);
		soft_log_error(soft, sq->id, sqe, c.field);
	}
	complete_with_fault(p, sq, fault, &c);
}

static bool poll_queue(struct soft_poller *p, struct soft_sq *sq)
{
	struct soft *soft = p->soft;
	struct sent sent;
	unsigned n = 0, ready;

	sent.left = sent.count = 0;
	/* delayed and duplicate completions change the room */
	while (n < SOFT_BATCH && soft->running && p->held_count < SOFT_HELD &&
	       (ready = soft_ready(soft, sq)) > 0) {
		const struct hr_sqe sqe = fetch(sq);

		if (sent.left == 0) {
			sent.left = ready;
			sent.count = 0;
		}
		execute(p, sq, &sent, &sqe);
		sent.cid[sent.count++] = sqe.cid;
		sent.left--;
		n++;
		if (__atomic_load_n(&soft->dead, __ATOMIC_ACQUIRE))
			break;
	}
	return n != 0;
}

bool soft_queues_poll(struct soft_poller *p)
{
	const bool fast = !p->soft->faults &&
			  !(p->soft->options.quirks & (SOFT_PEER_QUIRKS | HR_SOFT_SQHD_BACK));
	bool (*const serve)(struct soft_poller *, struct soft_sq *) =
		fast ? soft_serve_fast : poll_queue;
	bool any = release_due(p);

	soft_peer_deliver(p);

	for (uint32_t i = 0; i < p->queues; i++)
		any |= serve(p, p->sq[i]);
	return any;
}

bool soft_admin_poll(struct soft_poller *p)
{
	return p->soft->sq[0].ring && poll_queue(p, &p->soft->sq[0]);
}

void soft_queues_clear(struct soft *soft)
{
	for (uint32_t i = 0; i < soft->threads; i++) {
		soft->poller[i].queues = soft->poller[i].cqs = 0;
		soft->poller[i].held_count = 0;
		memset(soft->poller[i].held, 0, sizeof(soft->poller[i].held));
	}
	memset(soft->sq, 0, sizeof(soft->sq));
	memset(soft->cq, 0, sizeof(soft->cq));
	soft_clear_doorbells(soft);
}
