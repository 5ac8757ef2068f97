/* SPDX-License-Identifier: Apache-2.0 */
#include "nvme/admin.h"

#include <string.h>

#include "config/base/clock.h"
#include "config/base/log.h"
#include "config/base/tick.h"
#include "nvme/ctrl.h"
#include "nvme/queue/deadline.h"
#include "nvme/queue/status.h"
#include "nvme/queue/wait.h"
#include "nvme/quirks.h"

/* End the admin queue: no command can be sent on it after this. */
static int fail_admin_queue(struct hr_ctrl *ctrl, int err)
{
	hr_qp_fail(&ctrl->admin, err);
	return err;
}

/* The opcode of a command that was lost: that of an asynchronous one, or the one waited for. */
static uint8_t opcode_of(uint32_t token, uint8_t waited_for)
{
	switch (token) {
	case HR_ADMIN_EVENT:
		return nvme_admin_async_event;
	case HR_ADMIN_EVENT_LOG:
		return nvme_admin_get_log_page;
	case HR_ADMIN_EVENT_NS:
		return nvme_admin_identify;
	default:
		return waited_for;
	}
}

static int lost(struct hr_ctrl *ctrl, uint8_t opcode, uint16_t cid, struct hr_error *e)
{
	hr_health_fault(&ctrl->health, HR_FAULT_ADMIN_QUEUE, e, -ETIMEDOUT,
			"admin %s (cid %04x): no completion after %llu ms",
			hr_opcode_name(opcode, true), cid, ctrl->admin.timeout_ns / HR_NS_PER_MS);
	return fail_admin_queue(ctrl, -ETIMEDOUT);
}

static int report_admin_failure(struct hr_ctrl *ctrl, struct hr_error *e)
{
	char text[80];

	return hr_health_fault(&ctrl->health, HR_FAULT_ADMIN_QUEUE, e, ctrl->admin.error,
			       "admin queue: %s",
			       hr_qp_error_text(&ctrl->admin, text, sizeof(text)));
}

/* The controller is not ready to give the data: ask again after a pause. False: no time is left. */
static bool ask_later(struct hr_ctrl *ctrl, const struct hr_completion *done)
{
	const uint64_t now_ns = hr_now_ns();
	const uint64_t again_ns =
		now_ns + hr_qp_retry_pause(&ctrl->admin, done->crd, ctrl->event_tries);

	if (done->dnr || !hr_status_is_not_ready(done->status))
		return false;
	ctrl->event_first_ns = ctrl->event_tries++ ? ctrl->event_first_ns : now_ns;
	if (again_ns - ctrl->event_first_ns > ctrl->admin.timeout_ns)
		return false;
	ctrl->event_again_ns = again_ns;
	return true;
}

static void note_event(struct hr_ctrl *ctrl, const struct hr_completion *done)
{
	switch (done->token) {
	case HR_ADMIN_EVENT:
		ctrl->requests--;
		if (done->status) /* the controller accepts no further requests */
			ctrl->requests_wanted = ctrl->requests;
		else if (ctrl->events < HR_CTRL_EVENTS + 1)
			ctrl->event[ctrl->events++] = done->dw0;
		break;
	case HR_ADMIN_EVENT_LOG:
	case HR_ADMIN_EVENT_NS:
		ctrl->event_busy = false;
		if (ask_later(ctrl, done))
			break;
		ctrl->event_read = done->token;
		ctrl->event_status = done->status;
		break;
	default:
		break;
	}
}

bool hr_admin_reap(struct hr_ctrl *ctrl)
{
	struct hr_nvme_qp *qp = &ctrl->admin;
	struct hr_completion done;

	if (qp->error) /* its end was reported */
		return false;
	while (hr_qp_reap(qp, &done))
		note_event(ctrl, &done);
	if (qp->error)
		report_admin_failure(ctrl, NULL);
	else if (hr_qp_find_expired(qp, hr_now_ns(), &done))
		lost(ctrl, opcode_of(done.token, 0), done.cid, NULL);
	return !qp->error;
}

int hr_admin_push(struct hr_ctrl *ctrl, const struct hr_sqe *sqe, uint32_t token,
		  struct hr_error *e)
{
	struct hr_nvme_qp *qp = &ctrl->admin;
	const int cid = hr_qp_push(qp, true, sqe, token);
	char text[80];

	hr_qp_publish(qp);
	if (cid >= 0 && token == HR_ADMIN_EVENT)
		qp->inflight[(uint32_t)cid & qp->index_mask].deadline_ns = UINT64_MAX;
	if (cid >= 0)
		return 0;
	if (!qp->error) {
		hr_health_fault(&ctrl->health, HR_FAULT_ADMIN_QUEUE, NULL, cid,
				"admin queue: it has no room for %s",
				hr_opcode_name(sqe->opcode, true));
		fail_admin_queue(ctrl, cid);
	}
	return hr_fail_known(e, HR_ERROR_DEVICE, cid, "%s: the admin queue accepts no commands: %s",
			     ctrl->health.name, hr_qp_error_text(qp, text, sizeof text));
}

/* The wait is bounded: late and stray completions do not extend the deadline. */
static int wait_done(struct hr_ctrl *ctrl, uint8_t opcode, struct hr_completion *done,
		     struct hr_error *e)
{
	struct hr_nvme_qp *qp = &ctrl->admin;
	uint32_t spins = 0;
	int err;

	for (;;) {
		if (hr_qp_reap(qp, done)) {
			if (done->token == HR_ADMIN_WAITED_FOR)
				return done->status;
			note_event(ctrl, done);
			continue;
		}
		if (qp->error)
			return report_admin_failure(ctrl, e);
		err = hr_ctrl_check(ctrl, e);
		if (err)
			return fail_admin_queue(ctrl, err);
		if (hr_qp_find_expired(qp, hr_now_ns(), done))
			return lost(ctrl, opcode_of(done->token, opcode), done->cid, e);
		hr_wait_step(&spins);
		hr_tick();
	}
}

static int send_once(struct hr_ctrl *ctrl, const struct hr_sqe *sqe, struct hr_completion *done,
		     struct hr_error *e)
{
	const int err = hr_qp_push(&ctrl->admin, true, sqe, HR_ADMIN_WAITED_FOR);
	char text[80];

	if (err < 0) /* its end was reported */
		return hr_fail_known(e, HR_ERROR_DEVICE, err,
				     "%s: admin %s: the admin queue accepts no commands: %s",
				     ctrl->health.name, hr_opcode_name(sqe->opcode, true),
				     hr_qp_error_text(&ctrl->admin, text, sizeof(text)));
	hr_qp_publish(&ctrl->admin);
	return wait_done(ctrl, sqe->opcode, done, e);
}

/* Wait before the next attempt. 0, or the error of a controller that fails meanwhile. */
static int wait_until(struct hr_ctrl *ctrl, uint64_t until_ns, struct hr_error *e)
{
	uint32_t sleeps = 0;
	int err = 0;

	while (!err && hr_now_ns() < until_ns) {
		hr_wait_sleep(sleeps++);
		hr_tick();
		err = hr_ctrl_check(ctrl, e);
	}
	return err ? fail_admin_queue(ctrl, err) : 0;
}

static void warn_admin_retry(const struct hr_ctrl *ctrl, uint8_t opcode, int status, uint32_t tries)
{
	char text[80];

	if (tries == HR_RETRY_TOLD)
		hr_warn("%s: admin %s: %s (%03x); it is sent again for at most %llu ms",
			ctrl->health.name, hr_opcode_name(opcode, true),
			hr_error_name(status, text, sizeof(text)), (unsigned)status,
			ctrl->admin.timeout_ns / HR_NS_PER_MS);
}

/* End of the pause before repetition `tries` of a command that has failed; 0: it is not sent again. */
static uint64_t again_ns(const struct hr_ctrl *ctrl, const struct hr_completion *done,
			 uint32_t tries, uint64_t *first_ns)
{
	const uint64_t now_ns = hr_now_ns();
	const uint64_t until_ns = now_ns + hr_qp_retry_pause(&ctrl->admin, done->crd, tries);

	if (done->dnr || !hr_status_is_not_ready(done->status))
		return 0;
	*first_ns = tries ? *first_ns : now_ns;
	return until_ns - *first_ns <= ctrl->admin.timeout_ns ? until_ns : 0;
}

int hr_admin(struct hr_ctrl *ctrl, struct hr_sqe *sqe, uint32_t *dw0, struct hr_error *e)
{
	struct hr_completion done = { 0 };
	uint64_t first_ns = 0, until_ns;
	int err = send_once(ctrl, sqe, &done, e);

	for (uint32_t n = 0; err > 0 && (until_ns = again_ns(ctrl, &done, n, &first_ns)); n++) {
		warn_admin_retry(ctrl, sqe->opcode, err, n);
		err = wait_until(ctrl, until_ns, e);
		err = err ? err : send_once(ctrl, sqe, &done, e);
	}
	if (err == 0 && dw0)
		*dw0 = done.dw0;
	return err;
}

int hr_admin_fail(const struct hr_ctrl *ctrl, const char *what, uint32_t number, int err,
		  struct hr_error *e)
{
	char text[80];

	if (err > 0)
		hr_fail(e, HR_ERROR_DEVICE, err, "%s: admin %s %u: %s (%03x)",
			ctrl->transport->name, what, number, hr_error_name(err, text, sizeof(text)),
			(unsigned)err);
	return err;
}

int hr_admin_identify(struct hr_ctrl *ctrl, uint8_t cns, uint32_t nsid, struct hr_error *e)
{
	struct hr_sqe sqe = {
		.opcode = nvme_admin_identify,
		.nsid = nsid,
		.prp1 = ctrl->admin_data_bus.addr,
		.cdw10 = cns,
	};

	memset(ctrl->admin_data, 0, HR_PAGE);
	return hr_admin(ctrl, &sqe, NULL, e);
}

int hr_admin_get_log(struct hr_ctrl *ctrl, uint8_t lid, uint32_t bytes, struct hr_error *e)
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
	return hr_admin(ctrl, &sqe, NULL, e);
}

int hr_admin_set_feature(struct hr_ctrl *ctrl, uint8_t fid, uint32_t cdw11, uint32_t *dw0,
			 struct hr_error *e)
{
	struct hr_sqe sqe = {
		.opcode = nvme_admin_set_features,
		.cdw10 = fid,
		.cdw11 = cdw11,
	};

	return hr_admin(ctrl, &sqe, dw0, e);
}

int hr_admin_get_feature(struct hr_ctrl *ctrl, uint8_t fid, uint32_t *dw0, struct hr_error *e)
{
	struct hr_sqe sqe = { .opcode = nvme_admin_get_features, .cdw10 = fid };

	return hr_admin(ctrl, &sqe, dw0, e);
}

int hr_admin_abort(struct hr_ctrl *ctrl, uint16_t sqid, uint16_t cid, bool *aborted,
		   struct hr_error *e)
{
	struct hr_sqe sqe = {
		.opcode = nvme_admin_abort_cmd,
		.cdw10 = (uint32_t)cid << 16 | sqid,
	};
	uint32_t dw0 = 1;
	int err = hr_admin(ctrl, &sqe, &dw0, e);

	if (!err)
		*aborted = !(dw0 & 1); /* bit 0 set: not aborted (5.1) */
	return err;
}

/* Admin commands that create and delete I/O queue pairs. */

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
	memcpy(qp->retry_delay, ctrl->crdt, sizeof(qp->retry_delay));
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
