/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fakes/peer.h"

#include <stdlib.h>
#include <string.h>

#include "tests/harness/qprun.h"

void peer_init(struct peer *peer, struct hr_nvme_qp *qp, uint32_t entries, uint64_t timeout_ns)
{
	const size_t sq = hr_qp_sq_bytes(entries), cq = hr_qp_cq_bytes(entries);
	const size_t table = (hr_qp_table_bytes(entries) + HR_PAGE - 1) / HR_PAGE * HR_PAGE;
	struct hr_qp_memory memory;

	memset(peer, 0, sizeof(*peer));
	peer->memory = qprun->take(sq + cq + table);
	memory.sq = peer->memory;
	memory.cq = (uint8_t *)peer->memory + sq;
	memory.table = (uint8_t *)peer->memory + sq + cq;
	if (hr_qp_init(qp, 3, entries, &memory, timeout_ns))
		abort();
	qp->sq_doorbell = &peer->sq_doorbell;
	qp->cq_doorbell = &peer->cq_doorbell;
	peer->qp = qp;
	peer->phase = 1;
}

void peer_fini(struct peer *peer)
{
	qprun->give(peer->memory);
}

uint32_t peer_fetch(struct peer *peer)
{
	const uint32_t until = __atomic_load_n(&peer->sq_doorbell, __ATOMIC_ACQUIRE);

	while (peer->sq_head != until) {
		peer->pending[peer->fetched++] = peer->qp->sq[peer->sq_head];
		peer->sq_head = hr_index_add(peer->sq_head, 1, peer->qp->entries);
	}
	return peer->fetched;
}

void peer_post(struct peer *peer, struct hr_cqe cqe)
{
	struct hr_cqe *cqe_at = &peer->qp->cq[peer->cq_tail];

	cqe.status = (uint16_t)((cqe.status & 0xfffe) | peer->phase);
	cqe_at->dw0 = cqe.dw0;
	cqe_at->dw1 = cqe.dw1;
	__atomic_store_n(&cqe_at->dw23, cqe.dw23, __ATOMIC_RELEASE);
	peer->cq_tail = hr_index_add(peer->cq_tail, 1, peer->qp->entries);
	if (peer->cq_tail == 0)
		peer->phase ^= 1;
}

bool peer_can_post(const struct peer *peer)
{
	return hr_index_add(peer->cq_tail, 1, peer->qp->entries) !=
	       __atomic_load_n(&peer->cq_doorbell, __ATOMIC_ACQUIRE);
}

void peer_complete(struct peer *peer, uint32_t i, uint16_t status)
{
	const struct hr_cqe cqe = {
		.dw0 = ~peer->pending[i].cdw10,
		.sqhd = (uint16_t)peer->sq_head,
		.sqid = peer->qp->id,
		.cid = peer->pending[i].cid,
		.status = (uint16_t)(status << 1),
	};

	peer->pending[i] = peer->pending[--peer->fetched];
	peer_post(peer, cqe);
}
