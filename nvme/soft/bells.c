/*
 * Doorbells: registers and their shadows (Base 3.3, 5.8). One is noticed by its value; a value
 * outside of the queue is an event and is ignored.
 */
#include "nvme/soft/internal.h"

static uint32_t *doorbell(const struct soft *soft, uint16_t qid, bool cq)
{
	const uint32_t step = 4u << soft->options.dstrd;

	return (uint32_t *)(void *)(soft->bar + SOFT_DOORBELLS + (2u * qid + cq) * step);
}

/* Shadow doorbells lie at the same distances as the registers; the admin queue has none. */
static uint32_t *shadow(const struct soft *soft, uint32_t *buffer, uint16_t qid, bool cq)
{
	const uint32_t step = (4u << soft->options.dstrd) / 4;

	return buffer && qid ? buffer + (2u * qid + cq) * step : NULL;
}

void soft_clear_bell(const struct soft *soft, uint16_t qid, bool cq)
{
	uint32_t *const at[] = { doorbell(soft, qid, cq), shadow(soft, soft->shadow, qid, cq),
				 shadow(soft, soft->event, qid, cq) };

	for (unsigned i = 0; i < sizeof(at) / sizeof(at[0]); i++)
		if (at[i])
			__atomic_store_n(at[i], 0, __ATOMIC_RELAXED);
}

void soft_start_cq(struct soft *soft, uint16_t id, struct hr_cqe *ring, uint32_t entries)
{
	soft_clear_bell(soft, id, true);
	soft->cq[id] = (struct soft_cq){ .ring = ring, .entries = entries, .phase = 1, .id = id };
	soft->cq[id].bell.reg = doorbell(soft, id, true);
	soft->cq[id].bell.mirror = shadow(soft, soft->shadow, id, true);
}

void soft_start_sq(struct soft *soft, uint16_t id, uint16_t cqid, const struct hr_sqe *ring,
		   uint32_t entries)
{
	soft_clear_bell(soft, id, false);
	soft->sq[id] = (struct soft_sq){ .ring = ring,
					 .cq = &soft->cq[cqid],
					 .near = soft->window,
					 .entries = entries,
					 .id = id,
					 .cqid = cqid };
	soft->sq[id].event = shadow(soft, soft->event, id, false);
	soft->sq[id].bell.reg = doorbell(soft, id, false);
	soft->sq[id].bell.mirror = shadow(soft, soft->shadow, id, false);
	soft->cq[cqid].users++;
}

static void aim(struct soft_bell *bell, const uint32_t *mirror)
{
	bell->mirror = mirror;
	bell->mirror_seen = mirror ? __atomic_load_n(mirror, __ATOMIC_ACQUIRE) : 0;
	bell->shadowed = false;
}

void soft_aim_shadow(struct soft *soft)
{
	for (uint16_t id = 1; id <= HR_SOFT_QUEUES; id++) {
		if (soft->sq[id].ring)
			aim(&soft->sq[id].bell, shadow(soft, soft->shadow, id, false));
		if (soft->cq[id].ring)
			aim(&soft->cq[id].bell, shadow(soft, soft->shadow, id, true));
		soft->sq[id].event = shadow(soft, soft->event, id, false);
	}
}

/*
 * True when the host moved a doorbell. The register is looked at first, because the host writes it
 * last: once the shadow moves, it alone counts.
 */
static bool moved(struct soft_bell *bell, uint32_t *value)
{
	const uint32_t reg = __atomic_load_n(bell->reg, __ATOMIC_ACQUIRE);
	const bool by_reg = reg != bell->reg_seen;
	bool by_mirror = false;
	uint32_t mirror = 0;

	bell->reg_seen = reg;
	if (bell->mirror) {
		mirror = __atomic_load_n(bell->mirror, __ATOMIC_ACQUIRE);
		by_mirror = mirror != bell->mirror_seen;
		bell->mirror_seen = mirror;
		bell->shadowed |= by_mirror;
	}
	*value = bell->shadowed ? mirror : reg;
	return by_mirror || (by_reg && !bell->shadowed);
}

static uint32_t distance(uint32_t from, uint32_t to, uint32_t entries)
{
	return to >= from ? to - from : to + entries - from;
}

/* A head beyond what was posted is reported, once, and ignored: the host cannot have seen that. */
uint32_t soft_cq_room(struct soft *soft, struct soft_cq *cq)
{
	uint32_t posted = distance(cq->head, cq->tail, cq->entries), value;

	if (moved(&cq->bell, &value)) {
		const uint32_t seen = distance(cq->head, value, cq->entries);

		if (value < cq->entries && seen <= posted) {
			cq->head = value;
			posted -= seen;
		} else {
			soft_bad_bell(soft, cq->id, true, value, cq->entries);
		}
	}
	return cq->entries - 1 - posted;
}

/* So is a tail outside of the queue. */
uint32_t soft_ready(struct soft *soft, struct soft_sq *sq)
{
	uint32_t room, sent, value;

	if (moved(&sq->bell, &value)) {
		if (value < sq->entries)
			sq->tail = value;
		else
			soft_bad_bell(soft, sq->id, false, value, sq->entries);
	}
	room = soft_cq_room(soft, sq->cq);
	sent = distance(sq->head, sq->tail, sq->entries);
	return sent < room ? sent : room;
}

/* What is there, and nothing from then on. */
static uint32_t take(uint32_t *doorbell)
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
		const uint32_t tail = soft->sq[qid].ring ? 0 : take(sq);
		const uint32_t head = soft->cq[qid].ring ? 0 : take(cq);

		if (tail)
			soft_bad_bell(soft, qid, false, tail, 0);
		if (head)
			soft_bad_bell(soft, qid, true, head, 0);
	}
}

void soft_clear_doorbells(struct soft *soft)
{
	for (uint16_t qid = 0; qid <= HR_SOFT_QUEUES; qid++) {
		soft_clear_bell(soft, qid, false);
		soft_clear_bell(soft, qid, true);
	}
}
