/* SPDX-License-Identifier: Apache-2.0 */
#include "nvme/events.h"

#include <string.h>

#include "config/base/clock.h"
#include "config/base/log.h"
#include "nvme/admin.h"
#include "nvme/identify.h"
#include "nvme/queue/deadline.h"
#include "nvme/queue/status.h"

#define HEALTH_WARNINGS 0x1fu /* event configuration: all that Base 2.0 defines for disks */
#define TYPE(dw0) ((dw0)&7)
#define INFORMATION(dw0) ((dw0) >> 8 & 0xff)
#define LOG(dw0) ((dw0) >> 16 & 0xff)
/* In place of an event: the health log is read because it is due. No event has this information. */
#define SMART_DUE (NVME_AER_SMART | 0xffu << 8 | (uint32_t)NVME_LOG_LID_SMART << 16)
#define RAE \
	(1u << 15) /* CDW10 of Get Log Page: retain the event, whose completion may be underway */

/* Send the command that reads data for the oldest event, also again. */
static int send_asked(struct hr_ctrl *ctrl, struct hr_error *e)
{
	const int err = hr_admin_push(ctrl, &ctrl->event_sqe, ctrl->event_token, e);

	ctrl->event_again_ns = 0;
	ctrl->event_busy = !err;
	return err;
}

static int send_event_command(struct hr_ctrl *ctrl, const struct hr_sqe *sqe,
			      enum hr_admin_token token, struct hr_error *e)
{
	ctrl->event_sqe = *sqe;
	ctrl->event_token = token;
	ctrl->event_tries = 0;
	return send_asked(ctrl, e);
}

static int request(struct hr_ctrl *ctrl, struct hr_error *e)
{
	const struct hr_sqe sqe = { .opcode = nvme_admin_async_event };
	int err = 0;

	while (!err && ctrl->requests < ctrl->requests_wanted) {
		err = hr_admin_push(ctrl, &sqe, HR_ADMIN_EVENT, e);
		if (!err)
			ctrl->requests++;
	}
	return err;
}

static int add_event_namespace(struct hr_ctrl *ctrl, const struct hr_ns *ns, struct hr_error *e)
{
	for (uint32_t i = 0; i < HR_CTRL_EVENT_NS; i++) {
		if (ctrl->event_ns[i].ns)
			continue;
		ctrl->event_ns[i].ns = ns;
		ctrl->event_ns[i].changed = ctrl->event_ns[i].lost = false;
		return 0;
	}
	return hr_fail(e, HR_ERROR_FAILED, -ENOSPC,
		       "%s: namespace %u: over %u namespaces of one controller are in use",
		       ctrl->transport->name, ns->nsid, HR_CTRL_EVENT_NS);
}

static int configure(struct hr_ctrl *ctrl, struct hr_error *e)
{
	const uint32_t notices = ctrl->oaes & (NVME_CTRL_OAES_NA | NVME_CTRL_OAES_FA);
	char text[80];
	int err;

	err = hr_admin_set_feature(ctrl, NVME_FEAT_FID_ASYNC_EVENT, HEALTH_WARNINGS | notices, NULL,
				   e);
	if (err > 0)
		hr_info("%s: does not configure asynchronous events: %s (%03x)",
			ctrl->transport->name, hr_error_name(err, text, sizeof(text)),
			(unsigned)err);
	ctrl->events_refused = err > 0;
	ctrl->events_on = err == 0;
	ctrl->requests_wanted = ctrl->aerl + 1u < HR_CTRL_EVENTS ? ctrl->aerl + 1u : HR_CTRL_EVENTS;
	return err < 0 ? err : 0;
}

int hr_ctrl_aer_enable(struct hr_ctrl *ctrl, const struct hr_ns *ns, struct hr_error *e)
{
	const bool first = !ctrl->events_on && !ctrl->events_refused;
	int err = first ? configure(ctrl, e) : 0;

	if (!err && ctrl->events_on)
		err = add_event_namespace(ctrl, ns, e);
	return !err && first && ctrl->events_on ? request(ctrl, e) : err;
}

int hr_ctrl_events_renew(struct hr_ctrl *ctrl, struct hr_error *e)
{
	int err;

	ctrl->requests = ctrl->events = ctrl->event_read = 0;
	ctrl->event_busy = false;
	ctrl->event_again_ns = 0;
	if (!ctrl->events_on)
		return 0;
	err = configure(ctrl, e);
	return !err && ctrl->events_on ? request(ctrl, e) : err;
}

void hr_ctrl_aer_disable(struct hr_ctrl *ctrl, const struct hr_ns *ns)
{
	for (uint32_t i = 0; i < HR_CTRL_EVENT_NS; i++)
		if (ctrl->event_ns[i].ns == ns)
			ctrl->event_ns[i].ns = NULL;
}

/* ---- effects of events, after their log page has been read */

static int act_on_error(struct hr_ctrl *ctrl, uint32_t information, struct hr_error *e)
{
	const struct nvme_error_log_page *log = ctrl->event_data;

	switch (information) {
	case NVME_AER_ERROR_INVALID_DB_REG:
	case NVME_AER_ERROR_INVALID_DB_VAL:
		return hr_health_fault(
			&ctrl->health, HR_FAULT_DOORBELL, e, -EPROTO,
			"the controller reports that a doorbell was written wrongly (%s; queue "
			"%u): another process writes to it, or this one is at fault",
			information == NVME_AER_ERROR_INVALID_DB_REG ? "no such queue"
								     : "impossible value",
			log->sqid);
	case NVME_AER_ERROR_PERSISTENT_INTERNAL_ERROR:
		return hr_health_fault(&ctrl->health, HR_FAULT_FATAL, e, -EIO,
				       "the controller reports a persistent internal error");
	default:
		hr_warn("%s: the controller reports an error (event information %02xh)",
			ctrl->transport->name, information);
		return 0;
	}
}

/* page NULL: the controller has refused to give it, with that status. */
static void note_smart(struct hr_ctrl *ctrl, const void *page, uint16_t status)
{
	const struct hr_smart was = ctrl->smart;

	if (!page && hr_status_is_transient(status))
		return; /* the next reading may succeed */
	if (!page) {
		if (!ctrl->smart_refused)
			hr_info("%s: does not give its health log page", ctrl->transport->name);
		ctrl->smart_refused = true;
		return;
	}
	hr_smart_parse(&ctrl->smart, page);
	hr_smart_log(ctrl->transport->name, &was, &ctrl->smart);
}

int hr_ctrl_read_smart(struct hr_ctrl *ctrl, struct hr_error *e)
{
	const int err = hr_admin_get_log(ctrl, NVME_LOG_LID_SMART, HR_SMART_BYTES, e);

	if (err < 0)
		return err;
	note_smart(ctrl, err ? NULL : ctrl->admin_data, (uint16_t)err);
	ctrl->smart_next_ns = hr_now_ns() + HR_CTRL_SMART_NS;
	return 0;
}

/* The list ends with 0. A single entry ffffffffh means "more than the list can hold". */
static bool lists(const uint32_t *list, uint32_t nsid)
{
	for (unsigned i = 0; i < HR_PAGE / 4 && list[i]; i++)
		if (list[i] == nsid || list[i] == NVME_NSID_ALL)
			return true;
	return false;
}

/* Read the data structure of the next namespace in use that has changed. */
static int ask_for_namespace(struct hr_ctrl *ctrl, struct hr_error *e)
{
	struct hr_sqe sqe = {
		.opcode = nvme_admin_identify,
		.prp1 = ctrl->event_data_bus.addr,
		.cdw10 = NVME_IDENTIFY_CNS_NS,
	};
	uint32_t i = 0;

	while (i < HR_CTRL_EVENT_NS && !(ctrl->event_ns[i].ns && ctrl->event_ns[i].changed))
		i++;
	if (i == HR_CTRL_EVENT_NS)
		return 0;
	sqe.nsid = ctrl->event_ns[i].ns->nsid;
	ctrl->event_ns[i].changed = false;
	ctrl->event_asked = i;
	memset(ctrl->event_data, 0, HR_PAGE);
	return send_event_command(ctrl, &sqe, HR_ADMIN_EVENT_NS, e);
}

/* True: the namespace must not be used any more. An event is logged where it is found, because the
 * caller may ask for another namespace. */
static bool is_other(const struct hr_ctrl *ctrl, const struct hr_ns *was)
{
	const char *name = ctrl->transport->name;
	struct hr_ns now = { 0 };
	struct hr_error e = { 0 };
	const int err = hr_identify_ns(&now, was->nsid, ctrl->event_data, name, &e);

	if (err) {
		hr_error("%s: namespace %u has changed and cannot be used any more: %s", name,
			 was->nsid, err == -ENOENT ? "it is detached or deleted" : e.text);
		return true;
	}
	if (now.blocks < was->blocks || now.lba_shift != was->lba_shift) {
		hr_error("%s: namespace %u has changed: it now has %llu blocks of %u bytes, before "
			 "%llu of %u",
			 name, was->nsid, (unsigned long long)now.blocks, 1u << now.lba_shift,
			 (unsigned long long)was->blocks, 1u << was->lba_shift);
		return true;
	}
	if (now.read_only != was->read_only)
		hr_warn("%s: namespace %u is %s", name, was->nsid,
			now.read_only ? "write protected now" : "not write protected any more");
	return false;
}

static int act_on_namespace(struct hr_ctrl *ctrl, struct hr_error *e)
{
	const struct hr_ns *was = ctrl->event_ns[ctrl->event_asked].ns;
	char text[80];

	if (was && hr_status_is_transient(ctrl->event_status))
		hr_warn("%s: namespace %u has changed and cannot be identified: %s (%03x)",
			ctrl->transport->name, was->nsid,
			hr_error_name(ctrl->event_status, text, sizeof(text)), ctrl->event_status);
	else if (was && is_other(ctrl, was)) /* NULL: no longer in use */
		ctrl->event_ns[ctrl->event_asked].lost = true;
	return ask_for_namespace(ctrl, e);
}

static int note_changed(struct hr_ctrl *ctrl, struct hr_error *e)
{
	for (uint32_t i = 0; i < HR_CTRL_EVENT_NS; i++)
		if (ctrl->event_ns[i].ns && lists(ctrl->event_data, ctrl->event_ns[i].ns->nsid))
			ctrl->event_ns[i].changed = true;
	return ask_for_namespace(ctrl, e);
}

static int act_on_notice(struct hr_ctrl *ctrl, uint32_t information, struct hr_error *e)
{
	const char *name = ctrl->transport->name;

	switch (information) {
	case NVME_AER_NOTICE_NS_CHANGED:
		return note_changed(ctrl, e);
	case NVME_AER_NOTICE_FW_ACT_STARTING:
		hr_warn("%s: a firmware is being activated; commands may wait for it", name);
		return 0;
	default:
		hr_info("%s: notice %02xh", name, information);
		return 0;
	}
}

static int act(struct hr_ctrl *ctrl, uint32_t dw0, struct hr_error *e)
{
	switch (TYPE(dw0)) {
	case NVME_AER_ERROR:
		return act_on_error(ctrl, INFORMATION(dw0), e);
	case NVME_AER_SMART:
		note_smart(ctrl, ctrl->event_status ? NULL : ctrl->event_data, ctrl->event_status);
		return 0;
	case NVME_AER_NOTICE:
		return act_on_notice(ctrl, INFORMATION(dw0), e);
	default:
		hr_info("%s: event %08x", ctrl->transport->name, dw0);
		return 0;
	}
}

/* ---- from a request to its log page */

/* Bytes to read of a log page; 0: an unknown page, so the event is logged without it. */
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
static int read_log(struct hr_ctrl *ctrl, struct hr_error *e)
{
	const uint32_t lid = LOG(ctrl->event[0]), bytes = log_bytes(lid);
	const struct hr_sqe sqe = {
		.opcode = nvme_admin_get_log_page,
		.nsid = NVME_NSID_ALL,
		.prp1 = ctrl->event_data_bus.addr,
		.cdw10 = (bytes / 4 - 1) << 16 | (ctrl->event[0] == SMART_DUE ? RAE : 0) | lid,
	};

	memset(ctrl->event_data, 0, HR_PAGE);
	return bytes ? send_event_command(ctrl, &sqe, HR_ADMIN_EVENT_LOG, e) : 0;
}

/* The log page, or the namespace, of the oldest event has been read. */
static int settle_event(struct hr_ctrl *ctrl, struct hr_error *e)
{
	const uint32_t read = ctrl->event_read, dw0 = ctrl->event[0];
	const int err = read == HR_ADMIN_EVENT_NS ? act_on_namespace(ctrl, e) : act(ctrl, dw0, e);

	ctrl->event_read = HR_ADMIN_WAITED_FOR;
	if (ctrl->event_busy) /* the event also needs the data of a namespace */
		return 0;
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

/* Without asynchronous events a change is found by these readings only. */
static void read_smart_when_due(struct hr_ctrl *ctrl)
{
	const uint64_t now_ns = hr_now_ns();

	if (ctrl->smart_refused || ctrl->events || now_ns < ctrl->smart_next_ns)
		return;
	ctrl->smart_next_ns = now_ns + HR_CTRL_SMART_NS;
	ctrl->event[ctrl->events++] = SMART_DUE;
}

/* The next step of the oldest event. */
static int go_on(struct hr_ctrl *ctrl, struct hr_error *e)
{
	int err;

	if (ctrl->event_again_ns)
		return send_asked(ctrl, e);
	if (ctrl->event_read != HR_ADMIN_WAITED_FOR)
		return settle_event(ctrl, e);
	err = read_log(ctrl, e);
	if (!err && !ctrl->event_busy)
		ctrl->event_read = HR_ADMIN_EVENT_LOG;
	return err;
}

static bool pauses(const struct hr_ctrl *ctrl)
{
	return ctrl->event_again_ns && hr_now_ns() < ctrl->event_again_ns;
}

int hr_ctrl_aer_poll(struct hr_ctrl *ctrl, const struct hr_ns *ns, struct hr_error *e)
{
	int err = 0;

	if ((ctrl->events_on || ctrl->events_refused) && hr_admin_reap(ctrl)) {
		read_smart_when_due(ctrl);
		while (!err && ctrl->events && !ctrl->event_busy && !pauses(ctrl))
			err = go_on(ctrl, e);
		if (!err)
			err = request(ctrl, e);
		/* that is no error of the ssd, whose I/O goes on */
		err = ctrl->admin.error ? 0 : err;
	}
	if (err || !is_lost(ctrl, ns))
		return err;
	return hr_fail_known(e, HR_ERROR_DEVICE, -ENXIO,
			     "%s: namespace %u has changed and cannot be used any more",
			     ctrl->transport->name, ns->nsid);
}
