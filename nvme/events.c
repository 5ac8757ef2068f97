#include "nvme/events.h"

#include <string.h>

#include "config/clock.h"
#include "config/log.h"
#include "nvme/admin.h"
#include "nvme/identify.h"
#include "nvme/status.h"

#define HEALTH_WARNINGS 0x1fu /* of the event configuration: all that Base 2.0 knows of disks */
#define TYPE(dw0) ((dw0)&7)
#define INFORMATION(dw0) ((dw0) >> 8 & 0xff)
#define LOG(dw0) ((dw0) >> 16 & 0xff)

/* It goes out with the next hr_qp_ring(). 0, or an error of the queue. */
static int push(struct hr_ctrl *ctrl, const struct hr_sqe *sqe, enum hr_admin_token token)
{
	const int cid = hr_qp_push(&ctrl->admin, true, sqe, token);

	hr_qp_ring(&ctrl->admin);
	if (cid < 0)
		return cid;
	if (token == HR_ADMIN_EVENT) /* it waits as long as nothing happens */
		ctrl->admin.inflight[(uint32_t)cid & ctrl->admin.index_mask].deadline_ns =
			UINT64_MAX;
	return 0;
}

static int request(struct hr_ctrl *ctrl)
{
	const struct hr_sqe sqe = { .opcode = nvme_admin_async_event };
	int err = 0;

	while (!err && ctrl->requests < ctrl->requests_wanted) {
		err = push(ctrl, &sqe, HR_ADMIN_EVENT);
		if (!err)
			ctrl->requests++;
	}
	return err;
}

static int add(struct hr_ctrl *ctrl, const struct hr_ns *ns)
{
	for (uint32_t i = 0; i < HR_CTRL_EVENT_NS; i++) {
		if (ctrl->event_ns[i].ns)
			continue;
		ctrl->event_ns[i].ns = ns;
		ctrl->event_ns[i].changed = ctrl->event_ns[i].lost = false;
		return 0;
	}
	return -ENOSPC;
}

int hr_ctrl_events_on(struct hr_ctrl *ctrl, const struct hr_ns *ns)
{
	const uint32_t notices = ctrl->oaes & (NVME_CTRL_OAES_NA | NVME_CTRL_OAES_FA);
	char text[80];
	int err;

	if (ctrl->events_on || ctrl->events_refused)
		return ctrl->events_on ? add(ctrl, ns) : 0;
	err = hr_admin_set_feature(ctrl, NVME_FEAT_FID_ASYNC_EVENT, HEALTH_WARNINGS | notices,
				   NULL);
	if (err > 0)
		hr_info("%s: does not configure asynchronous events: %s (%03x)",
			ctrl->transport->name, hr_error_name(err, text, sizeof(text)),
			(unsigned)err);
	ctrl->events_refused = err > 0;
	if (err)
		return err < 0 ? err : 0;
	ctrl->events_on = true;
	ctrl->requests_wanted = ctrl->aerl + 1u < HR_CTRL_EVENTS ? ctrl->aerl + 1u : HR_CTRL_EVENTS;
	err = add(ctrl, ns);
	return err ? err : request(ctrl);
}

void hr_ctrl_events_off(struct hr_ctrl *ctrl, const struct hr_ns *ns)
{
	for (uint32_t i = 0; i < HR_CTRL_EVENT_NS; i++)
		if (ctrl->event_ns[i].ns == ns)
			ctrl->event_ns[i].ns = NULL;
}

/* ---- what events mean, once their log page is there */

static int act_on_error(const struct hr_ctrl *ctrl, uint32_t information)
{
	const struct nvme_error_log_page *log = ctrl->event_data;
	const char *name = ctrl->transport->name;

	switch (information) {
	case NVME_AER_ERROR_INVALID_DB_REG:
	case NVME_AER_ERROR_INVALID_DB_VAL:
		hr_error(
			"%s: the controller reports that a doorbell was written wrongly (%s; queue "
			"%u): another process writes to it, or this one is at fault",
			name,
			information == NVME_AER_ERROR_INVALID_DB_REG ? "no such queue"
								     : "impossible value",
			log->sqid);
		return -EPROTO;
	case NVME_AER_ERROR_PERSISTENT_INTERNAL_ERROR:
		hr_error("%s: the controller reports a persistent internal error", name);
		return -EIO;
	default:
		hr_warn("%s: the controller reports an error (event information %02xh)", name,
			information);
		return 0;
	}
}

static int act_on_health(const struct hr_ctrl *ctrl)
{
	static const char *const what[] = { "spare is below its threshold",
					    "temperature is beyond a threshold",
					    "reliability is degraded by media or internal errors",
					    "media are read-only",
					    "the backup of volatile memory has failed" };
	const struct nvme_smart_log *log = ctrl->event_data;
	const unsigned kelvin = log->temperature[0] | (unsigned)log->temperature[1] << 8;

	for (unsigned i = 0; i < sizeof(what) / sizeof(what[0]); i++)
		if (log->critical_warning >> i & 1)
			hr_warn("%s: health: %s (critical warning %02xh, %u K, spare %u %%)",
				ctrl->transport->name, what[i], log->critical_warning, kelvin,
				log->avail_spare);
	return 0;
}

/* The list ends with 0; ffffffffh, alone, is "more than fit". */
static bool lists(const uint32_t *list, uint32_t nsid)
{
	for (unsigned i = 0; i < HR_PAGE / 4 && list[i]; i++)
		if (list[i] == nsid || list[i] == NVME_NSID_ALL)
			return true;
	return false;
}

/* Read the data structure of the next namespace in use that has changed. */
static int ask_for_namespace(struct hr_ctrl *ctrl)
{
	struct hr_sqe sqe = {
		.opcode = nvme_admin_identify,
		.prp1 = ctrl->event_data_bus.addr,
		.cdw10 = NVME_IDENTIFY_CNS_NS,
	};
	uint32_t i = 0;
	int err;

	while (i < HR_CTRL_EVENT_NS && !(ctrl->event_ns[i].ns && ctrl->event_ns[i].changed))
		i++;
	if (i == HR_CTRL_EVENT_NS)
		return 0;
	sqe.nsid = ctrl->event_ns[i].ns->nsid;
	ctrl->event_ns[i].changed = false;
	ctrl->event_asked = i;
	memset(ctrl->event_data, 0, HR_PAGE);
	err = push(ctrl, &sqe, HR_ADMIN_EVENT_NS);
	ctrl->event_busy = !err;
	return err;
}

/* True: the namespace is not to be used any more. */
static bool is_other(const struct hr_ctrl *ctrl, const struct hr_ns *was)
{
	const char *name = ctrl->transport->name;
	struct hr_ns now = { 0 };
	const int err = hr_identify_ns(&now, was->nsid, ctrl->event_data, name);

	if (err) {
		hr_error("%s: namespace %u has changed: it is not to be used any more%s", name,
			 was->nsid, err == -ENOENT ? " (detached or deleted)" : "");
		return true;
	}
	if (now.blocks < was->blocks || now.lba_shift != was->lba_shift) {
		hr_error("%s: namespace %u has changed: it has %llu blocks of %u bytes now, it had "
			 "%llu of %u",
			 name, was->nsid, (unsigned long long)now.blocks, 1u << now.lba_shift,
			 (unsigned long long)was->blocks, 1u << was->lba_shift);
		return true;
	}
	if (now.read_only != was->read_only)
		hr_warn("%s: namespace %u is %s now", name, was->nsid,
			now.read_only ? "write protected" : "not write protected any more");
	return false;
}

static int act_on_namespace(struct hr_ctrl *ctrl)
{
	const struct hr_ns *was = ctrl->event_ns[ctrl->event_asked].ns;

	if (was && is_other(ctrl, was)) /* else it is not in use any more */
		ctrl->event_ns[ctrl->event_asked].lost = true;
	return ask_for_namespace(ctrl);
}

static int note_changed(struct hr_ctrl *ctrl)
{
	for (uint32_t i = 0; i < HR_CTRL_EVENT_NS; i++)
		if (ctrl->event_ns[i].ns && lists(ctrl->event_data, ctrl->event_ns[i].ns->nsid))
			ctrl->event_ns[i].changed = true;
	return ask_for_namespace(ctrl);
}

static int act_on_notice(struct hr_ctrl *ctrl, uint32_t information)
{
	const char *name = ctrl->transport->name;

	switch (information) {
	case NVME_AER_NOTICE_NS_CHANGED:
		return note_changed(ctrl);
	case NVME_AER_NOTICE_FW_ACT_STARTING:
		hr_warn("%s: a firmware is being activated; commands may wait for it", name);
		return 0;
	default:
		hr_info("%s: notice %02xh", name, information);
		return 0;
	}
}

static int act(struct hr_ctrl *ctrl, uint32_t dw0)
{
	switch (TYPE(dw0)) {
	case NVME_AER_ERROR:
		return act_on_error(ctrl, INFORMATION(dw0));
	case NVME_AER_SMART:
		return act_on_health(ctrl);
	case NVME_AER_NOTICE:
		return act_on_notice(ctrl, INFORMATION(dw0));
	default:
		hr_info("%s: event %08x", ctrl->transport->name, dw0);
		return 0;
	}
}

/* ---- from a request to its log page */

/* Bytes of a log page that is read; 0: it is not known here, and the event is told without it. */
static uint32_t log_bytes(uint32_t lid)
{
	switch (lid) {
	case NVME_LOG_LID_ERROR:
		return sizeof(struct nvme_error_log_page);
	case NVME_LOG_LID_SMART:
	case NVME_LOG_LID_FW_SLOT:
		return 512;
	case NVME_LOG_LID_CHANGED_NS:
		return HR_PAGE;
	default:
		return 0;
	}
}

/* Begin with the oldest event. */
static int read_log(struct hr_ctrl *ctrl)
{
	const uint32_t lid = LOG(ctrl->event[0]), bytes = log_bytes(lid);
	const struct hr_sqe sqe = {
		.opcode = nvme_admin_get_log_page,
		.nsid = NVME_NSID_ALL,
		.prp1 = ctrl->event_data_bus.addr,
		.cdw10 = (bytes / 4 - 1) << 16 | lid,
	};
	int err;

	memset(ctrl->event_data, 0, HR_PAGE);
	if (!bytes)
		return 0;
	err = push(ctrl, &sqe, HR_ADMIN_EVENT_LOG);
	ctrl->event_busy = !err;
	return err;
}

void hr_ctrl_note_event(struct hr_ctrl *ctrl, const struct hr_done *done)
{
	switch (done->token) {
	case HR_ADMIN_EVENT:
		ctrl->requests--;
		if (done->status) /* it takes no more of them */
			ctrl->requests_wanted = ctrl->requests;
		else if (ctrl->events < HR_CTRL_EVENTS)
			ctrl->event[ctrl->events++] = done->dw0;
		break;
	case HR_ADMIN_EVENT_LOG:
	case HR_ADMIN_EVENT_NS:
		ctrl->event_busy = false;
		ctrl->event_read = done->token;
		break;
	default:
		break;
	}
}

/* The log page, or the namespace, of the oldest event is there. */
static int settle(struct hr_ctrl *ctrl)
{
	const uint32_t read = ctrl->event_read, dw0 = ctrl->event[0];
	const int err = read == HR_ADMIN_EVENT_NS ? act_on_namespace(ctrl) : act(ctrl, dw0);

	ctrl->event_read = HR_ADMIN_WAITED_FOR;
	if (ctrl->event_busy) /* it needs the namespace, too */
		return err;
	memmove(ctrl->event, ctrl->event + 1, --ctrl->events * sizeof(ctrl->event[0]));
	return err;
}

static bool is_lost(const struct hr_ctrl *ctrl, const struct hr_ns *ns)
{
	for (uint32_t i = 0; i < HR_CTRL_EVENT_NS; i++)
		if (ctrl->event_ns[i].ns == ns)
			return ctrl->event_ns[i].lost;
	return false;
}

int hr_ctrl_events(struct hr_ctrl *ctrl, const struct hr_ns *ns)
{
	struct hr_done done;
	int err = 0;

	if (!ctrl->events_on)
		return 0;
	while (hr_qp_reap(&ctrl->admin, &done))
		hr_ctrl_note_event(ctrl, &done);
	while (!err && !ctrl->admin.broken && ctrl->events && !ctrl->event_busy) {
		if (ctrl->event_read == HR_ADMIN_WAITED_FOR) {
			err = read_log(ctrl);
			if (!err && !ctrl->event_busy)
				ctrl->event_read = HR_ADMIN_EVENT_LOG;
		} else {
			err = settle(ctrl);
		}
	}
	if (!err && !ctrl->admin.broken)
		err = request(ctrl);
	return !err && is_lost(ctrl, ns) ? -ENXIO : err;
}
