/* SPDX-License-Identifier: Apache-2.0 */
#include "nvme/queue/queue.h"

#include <stdio.h>
#include <string.h>

static bool aligned(const void *p, size_t to)
{
	return p && ((uintptr_t)p & (to - 1)) == 0;
}

int hr_qp_init(struct hr_nvme_qp *qp, uint16_t id, uint32_t entries,
	       const struct hr_qp_memory *memory, uint64_t timeout_ns)
{
	if (entries < HR_QUEUE_ENTRIES_MIN || entries > HR_QUEUE_ENTRIES_MAX)
		return -EINVAL;
	if (!aligned(memory->sq, HR_PAGE) || !aligned(memory->cq, HR_PAGE) ||
	    !aligned(memory->table, 8))
		return -EINVAL;
	if (timeout_ns == 0 || timeout_ns > INT64_MAX)
		return -EINVAL;

	memset(qp, 0, sizeof(*qp));
	memset(memory->sq, 0, hr_qp_sq_bytes(entries));
	memset(memory->cq, 0, hr_qp_cq_bytes(entries));
	memset(memory->table, 0, hr_qp_table_bytes(entries));
	qp->sq = memory->sq;
	qp->cq = memory->cq;
	qp->inflight = memory->table;
	qp->free_ring = (uint16_t *)(void *)(qp->inflight + entries - 1);
	qp->timeout_ns = timeout_ns;
	qp->id = id;
	qp->entries = (uint16_t)entries;
	qp->index_mask = 1;
	while (qp->index_mask < entries - 1)
		qp->index_mask = qp->index_mask << 1 | 1;
	qp->phase = 1;
	qp->free_tail = entries - 1;
	for (uint32_t i = 0; i < entries - 1; i++) {
		qp->inflight[i].cid = (uint16_t)i;
		qp->free_ring[i] = (uint16_t)i;
	}
	return 0;
}

void hr_qp_relocate(struct hr_nvme_qp *qp, const struct hr_qp_memory *worker,
		    const volatile void *bar, void *worker_bar)
{
	const uintptr_t sq = (uintptr_t)qp->sq_doorbell - (uintptr_t)bar;
	const uintptr_t cq = (uintptr_t)qp->cq_doorbell - (uintptr_t)bar;

	qp->sq = worker->sq;
	qp->cq = worker->cq;
	qp->inflight = worker->table;
	qp->free_ring = (uint16_t *)(void *)(qp->inflight + qp->entries - 1);
	qp->sq_doorbell = (uint32_t *)(void *)((uint8_t *)worker_bar + sq);
	qp->cq_doorbell = (uint32_t *)(void *)((uint8_t *)worker_bar + cq);
}

const char *hr_qp_error_text(const struct hr_nvme_qp *qp, char *buffer, unsigned bytes)
{
	const struct hr_cqe *cqe = &qp->bad_cqe;

	if (qp->error != -EPROTO)
		snprintf(buffer, bytes, "%s", qp->error ? "given up" : "not broken");
	else if (cqe->sqid != qp->id)
		snprintf(buffer, bytes, "CQE %u: SQID %u is not %u", qp->cq_head, cqe->sqid,
			 qp->id);
	else if ((cqe->cid & qp->index_mask) >= qp->entries - 1u)
		snprintf(buffer, bytes, "CQE %u: CID %04x was never sent", qp->cq_head, cqe->cid);
	else
		snprintf(buffer, bytes, "CQE %u: SQHD %u is outside of the ring of %u entries",
			 qp->cq_head, cqe->sqhd, qp->entries);
	return buffer;
}
