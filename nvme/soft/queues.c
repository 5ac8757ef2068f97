/*
 * Submission and completion queues (Base 3.3): fetch, post, doorbells, creation and deletion.
 * A doorbell is noticed by its value; a value outside of the queue is an event and is ignored.
 */
#include <string.h>

#include "boot/clock.h"
#include "nvme/soft/internal.h"

static uint32_t *doorbell(const struct soft *soft, uint16_t qid, bool cq)
{
	const uint32_t step = 4u << soft->options.dstrd;

	return (uint32_t *)(void *)(soft->bar + SOFT_DOORBELLS + (2u * qid + cq) * step);
}

/* Shadow doorbells lie at the same distances as the registers (Base 5.8). */
static uint32_t *shadow(const struct soft *soft, uint32_t *buffer, uint16_t qid, bool cq)
{
	const uint32_t step = (4u << soft->options.dstrd) / 4;

	return buffer + (2u * qid + cq) * step;
}

static uint32_t shadow_value(const struct soft *soft, uint16_t qid, bool cq)
{
	if (!soft->shadow || !qid)
		return 0;
	return __atomic_load_n(shadow(soft, soft->shadow, qid, cq), __ATOMIC_ACQUIRE);
}

/*
 * True when the host moved a doorbell. The register is looked at first, because the host writes it
 * last: once the shadow moves, it alone counts.
 */
static bool moved(const struct soft *soft, uint16_t qid, bool cq, struct soft_bell *bell,
		  uint32_t *value)
{
	const uint32_t reg = __atomic_load_n(doorbell(soft, qid, cq), __ATOMIC_ACQUIRE);
	const uint32_t mirror = shadow_value(soft, qid, cq);
	const bool by_reg = reg != bell->reg, by_shadow = mirror != bell->shadow;

	bell->reg = reg;
	bell->shadow = mirror;
	bell->shadowed |= by_shadow;
	*value = bell->shadowed ? mirror : reg;
	return by_shadow || (by_reg && !bell->shadowed);
}

void soft_adopt_shadow(struct soft *soft)
{
	for (uint16_t qid = 1; qid <= HR_SOFT_QUEUES; qid++) {
		soft->sq[qid].bell.shadow = shadow_value(soft, qid, false);
		soft->cq[qid].bell.shadow = shadow_value(soft, qid, true);
	}
}

static uint32_t distance(uint32_t from, uint32_t to, uint32_t entries)
{
	return to >= from ? to - from : to + entries - from;
}

/* We poll shadows as well, so the host never has to ring: EventIdx stays behind. */
static void tell_seen(const struct soft *soft, uint16_t qid, uint32_t tail)
{
	if (soft->event && qid)
		__atomic_store_n(shadow(soft, soft->event, qid, false), tail, __ATOMIC_RELEASE);
}

/* A tail outside of the queue is reported, once, and ignored. */
static void read_tail(struct soft *soft, uint16_t sqid)
{
	struct soft_sq *sq = &soft->sq[sqid];
	uint32_t value;

	if (!moved(soft, sqid, false, &sq->bell, &value))
		return;
	if (value < sq->entries)
		sq->tail = value;
	else
		soft_event(soft, EVENT_BAD_VALUE);
}

/* So is a head beyond what was posted: the host cannot have seen that. */
static void read_head(struct soft *soft, uint16_t cqid)
{
	struct soft_cq *cq = &soft->cq[cqid];
	uint32_t value;

	if (!moved(soft, cqid, true, &cq->bell, &value))
		return;
	if (value < cq->entries &&
	    distance(cq->head, value, cq->entries) <= distance(cq->head, cq->tail, cq->entries))
		cq->head = value;
	else
		soft_event(soft, EVENT_BAD_VALUE);
}

uint32_t soft_cq_room(struct soft *soft, uint16_t cqid)
{
	const struct soft_cq *cq = &soft->cq[cqid];

	read_head(soft, cqid);
	return cq->entries - 1 - distance(cq->head, cq->tail, cq->entries);
}

static bool cq_full(struct soft *soft, uint16_t cqid)
{
	return soft_cq_room(soft, cqid) == 0;
}

/* The CQE, its phase last. The caller has made sure that there is room. */
static void post(struct soft *soft, uint16_t sqid, uint16_t sqhd, uint16_t cid, uint32_t dw0,
		 uint16_t field)
{
	struct soft_cq *cq = &soft->cq[soft->sq[sqid].cqid];
	struct hr_cqe *cqe = &cq->ring[cq->tail];
	const uint32_t dw3 = ((uint32_t)field << 1 | cq->phase) << 16 | cid;

	cqe->dw0 = dw0;
	cqe->dw1 = 0;
	cqe->sqhd = sqhd;
	cqe->sqid = sqid;
	__atomic_store_n(&cqe->dw3, dw3, __ATOMIC_RELEASE);
	if (++cq->tail == cq->entries) {
		cq->tail = 0;
		cq->phase ^= 1;
	}
}

void soft_post(struct soft *soft, uint16_t sqid, uint16_t cid, uint32_t dw0, uint16_t field)
{
	post(soft, sqid, (uint16_t)soft->sq[sqid].head, cid, dw0, field);
}

/* Copied once: what is checked is what is executed. False: empty, or no room for its completion. */
static bool fetch(struct soft *soft, uint16_t sqid, struct hr_sqe *sqe)
{
	struct soft_sq *sq = &soft->sq[sqid];

	if (sq->head == sq->tail || cq_full(soft, sq->cqid))
		return false;
	*sqe = sq->ring[sq->head];
	sq->head = sq->head + 1 == sq->entries ? 0 : sq->head + 1;
	return true;
}

/* ---- completions that faults keep back */

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

static bool release(struct soft_poller *p, struct soft_completion *held)
{
	struct soft *soft = p->soft;

	if (!soft->sq[held->sqid].ring) { /* its queue was deleted */
		held->used = false;
		p->held_count--;
		return true;
	}
	if (cq_full(soft, soft->sq[held->sqid].cqid))
		return false;
	soft_post(soft, held->sqid, held->cid, held->dw0, held->field);
	held->used = false;
	p->held_count--;
	return true;
}

/* Delayed ones whose time has come. */
static bool release_due(struct soft_poller *p)
{
	bool any = false;
	uint64_t now;

	if (!p->held_count)
		return false;
	now = hr_now_ns();
	for (uint32_t i = 0; i < SOFT_HELD; i++)
		if (p->held[i].used && !p->held[i].reorder && p->held[i].due_ns <= now)
			any |= release(p, &p->held[i]);
	return any;
}

/* Reordered ones go out behind the next completion of their queue. */
static void release_reordered(struct soft_poller *p, uint16_t sqid)
{
	for (uint32_t i = 0; p->held_count && i < SOFT_HELD; i++)
		if (p->held[i].used && p->held[i].reorder && p->held[i].sqid == sqid)
			p->held[i].reorder = !release(p, &p->held[i]);
}

bool soft_end_held(struct soft_poller *p, uint16_t sqid, int cid, uint16_t field)
{
	bool any = false;

	for (uint32_t i = 0; p->held_count && i < SOFT_HELD; i++) {
		struct soft_completion *held = &p->held[i];

		if (!held->used || held->sqid != sqid || (cid >= 0 && held->cid != cid))
			continue;
		held->field = field;
		any |= release(p, held);
	}
	return any;
}

/* ---- execution */

/* Faults that replace the command's execution. True: it is not executed. */
static bool fault_before(struct soft_poller *p, const struct soft_fault *fault)
{
	struct soft *soft = p->soft;

	switch (fault->kind) {
	case FAULT_CFS:
		soft_fail(soft);
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

static void complete(struct soft_poller *p, const struct soft_fault *fault,
		     const struct soft_completion *c)
{
	struct soft *soft = p->soft;
	uint16_t sqhd = (uint16_t)soft->sq[c->sqid].head;
	struct soft_completion later = *c;

	if (__atomic_load_n(&soft->dead, __ATOMIC_ACQUIRE)) /* nothing leaves it any more */
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
	post(soft, c->sqid, sqhd, later.cid, c->dw0, c->field);
	if (fault && fault->kind == FAULT_DUPLICATE && !cq_full(soft, soft->sq[c->sqid].cqid))
		post(soft, c->sqid, sqhd, c->cid, c->dw0, c->field);
	release_reordered(p, c->sqid);
}

static void execute(struct soft_poller *p, uint16_t sqid, const struct hr_sqe *sqe)
{
	struct soft *soft = p->soft;
	const struct soft_fault *fault = soft->faults ? soft_fault_for(soft, sqe, sqid == 0) : NULL;
	struct soft_completion c = { .sqid = sqid, .cid = sqe->cid };

	if (fault && fault_before(p, fault))
		return;
	if (fault && fault->kind == FAULT_STATUS)
		c.field = (uint16_t)(fault->status | (fault->dnr ? SOFT_DNR : 0));
	else
		c.field = sqid ? soft_io(p, sqe) : soft_admin(soft, sqe, &c.dw0);
	if (c.field == SOFT_NO_REPLY)
		return;
	__atomic_store_n(&p->stats.commands, p->stats.commands + 1, __ATOMIC_RELAXED);
	if (c.field) {
		__atomic_store_n(&p->stats.errors, p->stats.errors + 1, __ATOMIC_RELAXED);
		soft_log_error(soft, sqid, sqe, c.field);
	}
	complete(p, fault, &c);
}

static bool poll_queue(struct soft_poller *p, uint16_t sqid)
{
	struct soft *soft = p->soft;
	struct soft_sq *sq = &soft->sq[sqid];
	struct hr_sqe sqe;
	unsigned n = 0;

	read_tail(soft, sqid);
	read_head(soft, sq->cqid);
	while (n < SOFT_BATCH && soft->running && p->held_count < SOFT_HELD &&
	       fetch(soft, sqid, &sqe)) {
		execute(p, sqid, &sqe);
		n++;
		if (__atomic_load_n(&soft->dead, __ATOMIC_ACQUIRE))
			break;
	}
	if (n)
		tell_seen(soft, sqid, sq->head);
	return n != 0;
}

bool soft_queues_poll(struct soft_poller *p)
{
	bool any = release_due(p);

	for (uint32_t i = 0; i < p->queues; i++)
		any |= poll_queue(p, p->sq[i]);
	return any;
}

bool soft_admin_poll(struct soft_poller *p)
{
	return p->soft->sq[0].ring && poll_queue(p, 0);
}

/* Doorbells of queues that do not exist stay 0; anything else is an event (Base 5.2, 00h). */
void soft_scan_doorbells(struct soft *soft)
{
	for (uint16_t qid = 0; qid <= HR_SOFT_QUEUES; qid++) {
		uint32_t *sq = doorbell(soft, qid, false), *cq = doorbell(soft, qid, true);
		const bool bad_sq = !soft->sq[qid].ring && __atomic_load_n(sq, __ATOMIC_RELAXED);
		const bool bad_cq = !soft->cq[qid].ring && __atomic_load_n(cq, __ATOMIC_RELAXED);

		if (bad_sq)
			__atomic_store_n(sq, 0, __ATOMIC_RELAXED);
		if (bad_cq)
			__atomic_store_n(cq, 0, __ATOMIC_RELAXED);
		if (bad_sq || bad_cq)
			soft_event(soft, EVENT_BAD_REGISTER);
	}
}

/* A queue starts empty, whatever its predecessor's doorbell says. */
void soft_clear_doorbell(struct soft *soft, uint16_t qid, bool cq)
{
	__atomic_store_n(doorbell(soft, qid, cq), 0, __ATOMIC_RELAXED);
	if (soft->shadow && qid)
		__atomic_store_n(shadow(soft, soft->shadow, qid, cq), 0, __ATOMIC_RELAXED);
	if (soft->event && qid)
		__atomic_store_n(shadow(soft, soft->event, qid, cq), 0, __ATOMIC_RELAXED);
}

void soft_queues_clear(struct soft *soft)
{
	for (uint32_t i = 0; i < soft->threads; i++) {
		soft->poller[i].queues = 0;
		soft->poller[i].held_count = 0;
		memset(soft->poller[i].held, 0, sizeof(soft->poller[i].held));
	}
	memset(soft->sq, 0, sizeof(soft->sq));
	memset(soft->cq, 0, sizeof(soft->cq));
	soft->shadow = soft->event = NULL;
	for (uint16_t qid = 0; qid <= HR_SOFT_QUEUES; qid++) {
		soft_clear_doorbell(soft, qid, false);
		soft_clear_doorbell(soft, qid, true);
	}
}
