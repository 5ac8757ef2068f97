/* Admin commands that create and delete I/O queue pairs. */
#include "nvme/ioqueues.h"

#include <string.h>

#include "config/base/log.h"
#include "nvme/admin.h"
#include "nvme/ctrl.h"
#include "nvme/quirks.h"
#include "nvme/queue/status.h"

#define QUEUES_MAX 65535u	 /* maximum of Number of Queues */
#define QUEUE_CONTIGUOUS 1u	 /* CDW11.PC of Create I/O SQ and CQ; no interrupts, no priority */
#define QUEUE_MEDIUM_PRIORITY 4u /* CDW11.QPRIO of Create I/O SQ */

/* Number of queue pairs 1..n whose doorbells both lie within BAR0, after those of queue pair 0. */
static uint32_t pairs_within_bar(const struct hr_ctrl *ctrl)
{
	const size_t bytes = ctrl->transport->bar_bytes - HR_DOORBELLS;
	const size_t pairs = bytes / (2 * (size_t)ctrl->doorbell_step);

	return pairs <= QUEUES_MAX ? (uint32_t)pairs - 1 : QUEUES_MAX;
}

/* *dw0: Number of Queues, of a controller that may not let it be set: some refuse the feature, and have
 * a fixed number. Without that number all that were wanted are tried. 0, or an error of the queue. */
static int get_queues(struct hr_ctrl *ctrl, uint32_t want, uint32_t *dw0, struct hr_error *e)
{
	const char *name = ctrl->transport->name;
	char text[80];
	int refused, err;

	refused = hr_admin_set_feature(ctrl, NVME_FEAT_FID_NUM_QUEUES,
				       (want - 1) << 16 | (want - 1), dw0, e);
	if (refused <= 0)
		return refused;
	err = hr_admin_get_feature(ctrl, NVME_FEAT_FID_NUM_QUEUES, dw0, e);
	if (err < 0)
		return err;
	if (err)
		*dw0 = (want - 1) << 16 | (want - 1);
	hr_warn("%s: does not let the number of queues be set: %s (%03x); %s", name,
		hr_error_name(refused, text, sizeof(text)), (unsigned)refused,
		err ? "nor does it report the number" : "it reports the number");
	return 0;
}

int hr_ctrl_set_queues(struct hr_ctrl *ctrl, uint32_t want, uint32_t *got, struct hr_error *e)
{
	uint32_t dw0 = 0, nsqa, ncqa;
	int err;

	if (want == 0 || want > QUEUES_MAX)
		return -EINVAL;
	err = get_queues(ctrl, want, &dw0, e);
	if (err)
		return err;
	nsqa = (dw0 & 0xffff) + 1; /* zero-based; may be more than asked for (5.27.1.5) */
	ncqa = (dw0 >> 16) + 1;
	ctrl->io_queues = nsqa < ncqa ? nsqa : ncqa;
	if (ctrl->io_queues > want)
		ctrl->io_queues = want;
	if (ctrl->io_queues > pairs_within_bar(ctrl))
		ctrl->io_queues = pairs_within_bar(ctrl);
	*got = ctrl->io_queues;
	return 0;
}

static int create_cq(struct hr_ctrl *ctrl, const struct hr_nvme_qp *qp, struct hr_bus bus,
		     struct hr_error *e)
{
	struct hr_sqe sqe = {
		.opcode = nvme_admin_create_cq,
		.prp1 = bus.addr,
		.cdw10 = (qp->entries - 1u) << 16 | qp->id,
		.cdw11 = QUEUE_CONTIGUOUS,
	};

	return hr_admin_fail(ctrl, "create I/O CQ", qp->id, hr_admin(ctrl, &sqe, NULL, e), e);
}

static int create_sq(struct hr_ctrl *ctrl, const struct hr_nvme_qp *qp, struct hr_bus bus,
		     struct hr_error *e)
{
	struct hr_sqe sqe = {
		.opcode = nvme_admin_create_sq,
		.prp1 = bus.addr,
		.cdw10 = (qp->entries - 1u) << 16 | qp->id,
		.cdw11 = (uint32_t)qp->id << 16 | QUEUE_CONTIGUOUS,
	};

	/* Without weighted arbitration the specification ignores the priority. */
	if (ctrl->quirks & HR_QUIRK_MEDIUM_PRIORITY)
		sqe.cdw11 |= QUEUE_MEDIUM_PRIORITY;
	return hr_admin_fail(ctrl, "create I/O SQ", qp->id, hr_admin(ctrl, &sqe, NULL, e), e);
}

static int delete_queue(struct hr_ctrl *ctrl, uint8_t opcode, uint16_t id, struct hr_error *e)
{
	struct hr_sqe sqe = { .opcode = opcode, .cdw10 = id };

	return hr_admin_fail(ctrl, hr_opcode_name(opcode, true), id, hr_admin(ctrl, &sqe, NULL, e),
			     e);
}

/* Doorbells lie in this order: SQ 0, CQ 0, SQ 1, CQ 1, ... (PCIe Transport 3.1.2). */
static void set_doorbells(const struct hr_ctrl *ctrl, struct hr_nvme_qp *qp)
{
	const size_t sq = 2 * (size_t)qp->id * ctrl->doorbell_step, cq = sq + ctrl->doorbell_step;
	const uintptr_t bar = (uintptr_t)ctrl->transport->bar + HR_DOORBELLS;

	qp->sq_doorbell = (uint32_t *)(bar + sq);
	qp->cq_doorbell = (uint32_t *)(bar + cq);
}

int hr_ctrl_create_qp(struct hr_ctrl *ctrl, struct hr_nvme_qp *qp, struct hr_bus sq,
		      struct hr_bus cq, struct hr_error *e)
{
	int err;

	if (qp->id == 0 || qp->id > ctrl->io_queues || qp->entries > ctrl->max_entries)
		return hr_fail(
			e, HR_ERROR_FAILED, -EINVAL,
			"%s: queue pair %u with %u entries: 1..%u with up to %u are possible",
			ctrl->transport->name, qp->id, qp->entries, ctrl->io_queues,
			ctrl->max_entries);
	set_doorbells(ctrl, qp);
	memcpy(qp->crdt, ctrl->crdt, sizeof(qp->crdt));
	err = create_cq(ctrl, qp, cq, e);
	if (err)
		return err;
	err = create_sq(ctrl, qp, sq, e);
	if (err)
		delete_queue(ctrl, nvme_admin_delete_cq, qp->id, e);
	return err;
}

bool hr_ctrl_has_no_more(int err)
{
	switch (err) {
	case NVME_SC_INVALID_FIELD:
	case NVME_SC_INTERNAL:
	case HR_STATUS_OF(NVME_SCT_CMD_SPECIFIC, NVME_SC_CQ_INVALID):
	case HR_STATUS_OF(NVME_SCT_CMD_SPECIFIC, NVME_SC_QID_INVALID):
	case HR_STATUS_OF(NVME_SCT_CMD_SPECIFIC, NVME_SC_QUEUE_SIZE):
		return true;
	default:
		return false;
	}
}

int hr_ctrl_delete_qp(struct hr_ctrl *ctrl, uint16_t id, struct hr_error *e)
{
	const int err = delete_queue(ctrl, nvme_admin_delete_sq, id, e);

	return err ? err : delete_queue(ctrl, nvme_admin_delete_cq, id, e);
}
