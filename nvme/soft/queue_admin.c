/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Create and delete I/O queues (Base 5.4, 5.5, 5.6, 5.7). Poller 0 calls these functions; the
 * pollers that serve the queues are stopped meanwhile.
 */
#include "nvme/soft/internal.h"

#define FLAG_PC 1u			/* CDW11: physically contiguous */
#define FLAG_IEN 2u			/* CDW11 of a CQ: interrupts enabled */
#define QPRIO(cdw11) ((cdw11) >> 1 & 3) /* CDW11 of an SQ */
#define QPRIO_MEDIUM 2u
#define FEW_QUEUES 8u /* I/O queue pairs with the quirk `few-queues` */

static uint16_t qid_of(const struct hr_sqe *sqe)
{
	return (uint16_t)sqe->cdw10;
}

static uint32_t entries_of(const struct hr_sqe *sqe)
{
	return (sqe->cdw10 >> 16) + 1;
}

/* Checks common to Create I/O SQ and Create I/O CQ. */
static uint16_t check_create(const struct soft *soft, const struct hr_sqe *sqe, const void *ring,
			     uint32_t entry_bytes, void **memory)
{
	const struct soft_window *hint = soft->window;

	if (qid_of(sqe) == 0 || qid_of(sqe) > soft->granted || ring)
		return NVME_SC_QID_INVALID | NVME_SCT_CMD_SPECIFIC << 8 | SOFT_DNR;
	if (soft_has_quirk(soft, HR_SOFT_FEW_QUEUES) && qid_of(sqe) > FEW_QUEUES)
		return NVME_SC_QID_INVALID | NVME_SCT_CMD_SPECIFIC << 8 | SOFT_DNR;
	if (entries_of(sqe) < 2 || entries_of(sqe) > HR_SOFT_ENTRIES)
		return NVME_SC_QUEUE_SIZE | NVME_SCT_CMD_SPECIFIC << 8 | SOFT_DNR;
	if (!(sqe->cdw11 & FLAG_PC)) /* CAP.CQR */
		return NVME_SC_INVALID_FIELD | SOFT_DNR;
	if (sqe->prp1 & (HR_PAGE - 1))
		return NVME_SC_PRP_INVALID_OFFSET | SOFT_DNR;
	*memory = soft_dma(soft, &hint, sqe->prp1, (uint64_t)entries_of(sqe) * entry_bytes);
	return *memory ? 0 : NVME_SC_DATA_XFER_ERROR | SOFT_DNR;
}

/* The poller with the fewest CQs. In case of a tie not poller 0, which also serves the
 * registers. */
static uint32_t least_loaded(const struct soft *soft)
{
	uint32_t best = soft->threads - 1;

	for (uint32_t i = best; i-- > 0;)
		if (soft->poller[i].cqs < soft->poller[best].cqs)
			best = i;
	return best;
}

uint16_t soft_create_cq(struct soft *soft, const struct hr_sqe *sqe)
{
	void *memory;
	uint16_t status;

	if (qid_of(sqe) > HR_SOFT_QUEUES)
		return NVME_SC_QID_INVALID | NVME_SCT_CMD_SPECIFIC << 8 | SOFT_DNR;
	status = check_create(soft, sqe, soft->cq[qid_of(sqe)].ring, HR_CQE_BYTES, &memory);
	if (status)
		return status;
	if (sqe->cdw11 & FLAG_IEN || sqe->cdw11 >> 16) /* no interrupt vectors */
		return NVME_SC_INVALID_VECTOR | NVME_SCT_CMD_SPECIFIC << 8 | SOFT_DNR;
	soft_init_cq_doorbell(soft, qid_of(sqe), memory, entries_of(sqe));
	soft->cq[qid_of(sqe)].poller = least_loaded(soft);
	soft->poller[soft->cq[qid_of(sqe)].poller].cqs++;
	return 0;
}

uint16_t soft_create_sq(struct soft *soft, const struct hr_sqe *sqe)
{
	const uint16_t cqid = (uint16_t)(sqe->cdw11 >> 16);
	struct soft_poller *p;
	void *memory;
	uint16_t status;

	if (qid_of(sqe) > HR_SOFT_QUEUES)
		return NVME_SC_QID_INVALID | NVME_SCT_CMD_SPECIFIC << 8 | SOFT_DNR;
	status = check_create(soft, sqe, soft->sq[qid_of(sqe)].ring, HR_SQE_BYTES, &memory);
	if (status)
		return status;
	if (cqid == 0 || cqid > soft->granted) /* 5.5: out of range, or the admin queue */
		return NVME_SC_QID_INVALID | NVME_SCT_CMD_SPECIFIC << 8 | SOFT_DNR;
	if (!soft->cq[cqid].ring)
		return NVME_SC_CQ_INVALID | NVME_SCT_CMD_SPECIFIC << 8 | SOFT_DNR;
	if (soft_has_quirk(soft, HR_SOFT_MEDIUM_PRIORITY) && QPRIO(sqe->cdw11) != QPRIO_MEDIUM)
		return NVME_SC_INVALID_FIELD | SOFT_DNR;
	/* SQs that share a CQ are served by one poller, the CQ's owner. */
	p = &soft->poller[soft->cq[cqid].poller];
	soft_quiesce(soft, 1);
	soft_init_sq_doorbell(soft, qid_of(sqe), cqid, memory, entries_of(sqe));
	p->sq[p->queues++] = &soft->sq[qid_of(sqe)];
	soft_resume(soft, 1);
	return 0;
}

static void remove_cq(struct soft *soft, uint16_t qid)
{
	soft->poller[soft->cq[qid].poller].cqs--;
	soft->cq[qid] = (struct soft_cq){ 0 };
	soft_clear_doorbell(soft, qid, true);
}

uint16_t soft_delete_cq(struct soft *soft, const struct hr_sqe *sqe)
{
	const uint16_t qid = qid_of(sqe);

	if (qid == 0 || qid > HR_SOFT_QUEUES || !soft->cq[qid].ring)
		return NVME_SC_QID_INVALID | NVME_SCT_CMD_SPECIFIC << 8 | SOFT_DNR;
	if (soft->cq[qid].users)
		return NVME_SC_INVALID_QUEUE | NVME_SCT_CMD_SPECIFIC << 8 | SOFT_DNR;
	remove_cq(soft, qid);
	return 0;
}

static void forget_poller_sq(struct soft_poller *p, const struct soft_sq *sq)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < p->queues; i++)
		if (p->sq[i] != sq)
			p->sq[kept++] = p->sq[i];
	p->queues = kept;
}

static void remove_sq(struct soft *soft, uint16_t qid)
{
	struct soft_cq *cq = soft->sq[qid].cq;

	forget_poller_sq(&soft->poller[cq->poller], &soft->sq[qid]);
	soft->sq[qid] = (struct soft_sq){ 0 };
	soft_clear_doorbell(soft, qid, false);
	cq->users--;
}

/*
 * Commands not yet fetched end without completion; the completion of this command tells the host.
 * Commands whose completion a fault delays complete as aborted.
 */
uint16_t soft_delete_sq(struct soft *soft, const struct hr_sqe *sqe)
{
	const uint16_t qid = qid_of(sqe);

	if (qid == 0 || qid > HR_SOFT_QUEUES || !soft->sq[qid].ring)
		return NVME_SC_QID_INVALID | NVME_SCT_CMD_SPECIFIC << 8 | SOFT_DNR;
	soft_quiesce(soft, 1);
	soft_end_held(&soft->poller[soft->sq[qid].cq->poller], qid, -1, NVME_SC_ABORT_QUEUE);
	remove_sq(soft, qid);
	soft_resume(soft, 1);
	return 0;
}

static bool lies_in(const struct soft_window *w, const void *ring)
{
	const uint8_t *p = ring;

	return p && p >= w->cpu && p < w->cpu + w->bytes;
}

/* A controller fails without its admin queue. I/O queues stop. */
void soft_drop_queues(struct soft *soft, const struct soft_window *w)
{
	if (lies_in(w, soft->sq[0].ring) || lies_in(w, soft->cq[0].ring)) {
		soft->running = false;
		soft_fail(soft);
	}
	for (uint16_t q = 1; q <= HR_SOFT_QUEUES; q++)
		if (lies_in(w, soft->sq[q].ring) ||
		    (soft->sq[q].ring && lies_in(w, soft->sq[q].cq->ring)))
			remove_sq(soft, q);
	for (uint16_t q = 1; q <= HR_SOFT_QUEUES; q++)
		if (lies_in(w, soft->cq[q].ring))
			remove_cq(soft, q);
}
