/* SPDX-License-Identifier: Apache-2.0 */
/* Admin commands (Base 5). */
#include "nvme/soft/internal.h"

static uint16_t request_event(struct soft *soft, const struct hr_sqe *sqe)
{
	if (soft->aers == SOFT_AERL + 1)
		return NVME_SC_ASYNC_LIMIT | NVME_SCT_CMD_SPECIFIC << 8 | SOFT_DNR;
	soft->aer[soft->aers++] = sqe->cid;
	return SOFT_NO_REPLY;
}

/*
 * A command is executed completely when it is fetched. So only commands that wait can be aborted:
 * event requests, and commands whose completion a fault delays. Bit 0 of DW0: not aborted.
 */
static uint16_t abort_command(struct soft *soft, const struct hr_sqe *sqe, uint32_t *dw0)
{
	const uint16_t sqid = (uint16_t)sqe->cdw10, cid = (uint16_t)(sqe->cdw10 >> 16);

	*dw0 = 1;
	if (sqid > HR_SOFT_QUEUES || !soft->sq[sqid].ring)
		return NVME_SC_INVALID_FIELD | SOFT_DNR;
	for (uint32_t i = 0; sqid == 0 && i < soft->aers; i++) {
		if (soft->aer[i] != cid)
			continue;
		/* room for the aborted command's completion and this one's */
		if (soft_cq_room(soft, &soft->cq[0]) < 2)
			return 0;
		soft->aer[i] = soft->aer[--soft->aers];
		soft_post(&soft->sq[0], cid, 0, NVME_SC_ABORT_REQ);
		*dw0 = 0;
		return 0;
	}
	soft_quiesce(soft, 1);
	if (soft_cq_room(soft, soft->sq[sqid].cq) >= 2 &&
	    soft_end_held(&soft->poller[soft->sq[sqid].cq->poller], sqid, cid, NVME_SC_ABORT_REQ))
		*dw0 = 0;
	soft_resume(soft, 1);
	return 0;
}

/* Base 3.3.3.1, figure 87: NSID is 0 in a command that uses no namespace. */
static bool names_none(uint8_t opcode)
{
	switch (opcode) {
	case nvme_admin_delete_sq:
	case nvme_admin_create_sq:
	case nvme_admin_delete_cq:
	case nvme_admin_create_cq:
	case nvme_admin_abort_cmd:
	case nvme_admin_async_event:
		return true;
	default:
		return false;
	}
}

uint16_t soft_admin(struct soft *soft, const struct hr_sqe *sqe, uint32_t *dw0)
{
	if (sqe->nsid && names_none(sqe->opcode))
		return NVME_SC_INVALID_FIELD | SOFT_DNR;
	/* no SGLs for admin commands; no fused operations */
	if (sqe->flags & (HR_SQE_PSDT_MASK | 3))
		return NVME_SC_INVALID_FIELD | SOFT_DNR;
	switch (sqe->opcode) {
	case nvme_admin_delete_sq:
		return soft_delete_sq(soft, sqe);
	case nvme_admin_create_sq:
		return soft_create_sq(soft, sqe);
	case nvme_admin_delete_cq:
		return soft_delete_cq(soft, sqe);
	case nvme_admin_create_cq:
		return soft_create_cq(soft, sqe);
	case nvme_admin_get_log_page:
		return soft_get_log(soft, sqe);
	case nvme_admin_identify:
		return soft_identify(soft, sqe);
	case nvme_admin_abort_cmd:
		return abort_command(soft, sqe, dw0);
	case nvme_admin_set_features:
		return soft_set_feature(soft, sqe, dw0);
	case nvme_admin_get_features:
		return soft_get_feature(soft, sqe, dw0);
	case nvme_admin_async_event:
		return request_event(soft, sqe);
	default:
		return NVME_SC_INVALID_OPCODE | SOFT_DNR;
	}
}
