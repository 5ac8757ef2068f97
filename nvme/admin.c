#include "nvme/admin.h"

#include <string.h>

#include "config/clock.h"
#include "config/log.h"
#include "nvme/ctrl.h"
#include "nvme/events.h"
#include "nvme/health.h"
#include "nvme/status.h"

/* Ends the admin queue: nothing is sent on it any more. */
static int give_up(struct hr_ctrl *ctrl, int err)
{
	hr_qp_break(&ctrl->admin, err);
	return err;
}

static int lost(struct hr_ctrl *ctrl, uint8_t opcode, uint16_t cid)
{
	hr_error("%s: admin %s (cid %04x): no completion after %llu ms", ctrl->transport->name,
		 hr_opcode_name(opcode, true), cid, ctrl->admin.timeout_ns / HR_NS_PER_MS);
	return give_up(ctrl, -ETIMEDOUT);
}

/* Bounded: late and stray completions do not count as progress, so the deadline comes. */
static int wait_done(struct hr_ctrl *ctrl, uint8_t opcode, struct hr_done *done)
{
	struct hr_nvme_qp *qp = &ctrl->admin;
	uint32_t spins = 0;
	char text[80];
	int err;

	for (;;) {
		if (hr_qp_reap(qp, done)) {
			if (done->token == HR_ADMIN_WAITED_FOR)
				return done->status;
			hr_ctrl_note_event(ctrl, done);
			continue;
		}
		if (qp->broken) {
			hr_error("%s: admin queue: %s", ctrl->transport->name,
				 hr_qp_offence(qp, text, sizeof(text)));
			return qp->broken;
		}
		err = hr_ctrl_check(ctrl);
		if (err)
			return give_up(ctrl, err);
		if (hr_qp_expire(qp, hr_now_ns(), done))
			return lost(ctrl, opcode, done->cid);
		hr_idle(&spins);
	}
}

int hr_admin(struct hr_ctrl *ctrl, struct hr_sqe *sqe, uint32_t *dw0)
{
	struct hr_done done = { 0 };
	int err = hr_qp_push(&ctrl->admin, true, sqe, HR_ADMIN_WAITED_FOR);

	if (err < 0)
		return err;
	hr_qp_ring(&ctrl->admin);
	err = wait_done(ctrl, sqe->opcode, &done);
	if (err == 0 && dw0)
		*dw0 = done.dw0;
	return err;
}

int hr_admin_identify(struct hr_ctrl *ctrl, uint8_t cns, uint32_t nsid)
{
	struct hr_sqe sqe = {
		.opcode = nvme_admin_identify,
		.nsid = nsid,
		.prp1 = ctrl->admin_data_bus.addr,
		.cdw10 = cns,
	};

	memset(ctrl->admin_data, 0, HR_PAGE);
	return hr_admin(ctrl, &sqe, NULL);
}

int hr_admin_get_log(struct hr_ctrl *ctrl, uint8_t lid, uint32_t bytes)
{
	const uint32_t numd = bytes / 4 - 1; /* zero-based dwords; fits NUMDL */
	struct hr_sqe sqe = {
		.opcode = nvme_admin_get_log_page,
		.nsid = NVME_NSID_ALL,
		.prp1 = ctrl->admin_data_bus.addr,
		.cdw10 = numd << 16 | lid,
	};

	if (bytes == 0 || bytes % 4 || bytes > HR_PAGE)
		return -EINVAL;
	memset(ctrl->admin_data, 0, HR_PAGE);
	return hr_admin(ctrl, &sqe, NULL);
}

int hr_admin_set_feature(struct hr_ctrl *ctrl, uint8_t fid, uint32_t cdw11, uint32_t *dw0)
{
	struct hr_sqe sqe = {
		.opcode = nvme_admin_set_features,
		.cdw10 = fid,
		.cdw11 = cdw11,
	};

	return hr_admin(ctrl, &sqe, dw0);
}

int hr_admin_get_feature(struct hr_ctrl *ctrl, uint8_t fid, uint32_t *dw0)
{
	struct hr_sqe sqe = { .opcode = nvme_admin_get_features, .cdw10 = fid };

	return hr_admin(ctrl, &sqe, dw0);
}

int hr_admin_abort(struct hr_ctrl *ctrl, uint16_t sqid, uint16_t cid, bool *aborted)
{
	struct hr_sqe sqe = {
		.opcode = nvme_admin_abort_cmd,
		.cdw10 = (uint32_t)cid << 16 | sqid,
	};
	uint32_t dw0 = 1;
	int err = hr_admin(ctrl, &sqe, &dw0);

	if (!err)
		*aborted = !(dw0 & 1); /* bit 0 set: not aborted (5.1) */
	return err;
}
