/* SPDX-License-Identifier: Apache-2.0 */
#include "nvme/ctrl.h"

#include <stdio.h>
#include <string.h>

#include "config/base/clock.h"
#include "config/base/log.h"
#include "nvme/admin.h"
#include "nvme/identify.h"
#include "nvme/quirks.h"
#include "nvme/queue/status.h"

#define CC_EN_BIT (1u << NVME_CC_EN_SHIFT)
#define CC_SHN_BITS ((uint32_t)NVME_CC_SHN_MASK << NVME_CC_SHN_SHIFT)
#define TIMEOUT_UNIT_NS (500 * HR_NS_PER_MS) /* of CAP.TO and CRTO.CRWMT */
#define POLL_FIRST_NS 10000ull
#define POLL_MAX_NS HR_NS_PER_MS

/* CSTS.CFS during a wait. */
enum csts_fatal {
	FATAL_CLEARS, /* a reset clears it, so wait on */
	FATAL_ENDS,   /* the wait is over; a reset follows */
	FATAL_FAILS,  /* an error */
};

/* One field of CSTS that a bring-up or shutdown step waits for. */
struct csts_wait {
	const char *field;
	const char *limit; /* where timeout_ns comes from, for the message */
	uint32_t shift, mask, want;
	uint64_t timeout_ns;
	enum csts_fatal fatal;
	bool optional; /* late is no error */
	bool blind;    /* registers that do not answer may answer again within timeout_ns */
};

static uint32_t field_of(uint32_t csts, const struct csts_wait *wait)
{
	return csts >> wait->shift & wait->mask;
}

static int late(struct hr_ctrl *ctrl, const struct csts_wait *wait, uint32_t csts,
		struct hr_error *e)
{
	if (NVME_CSTS_CFS(csts))
		return hr_ctrl_fault_cfs(ctrl, csts, e);
	if (wait->optional) {
		hr_info("%s: %s still %u after %llu ms (%s): not waited for any longer",
			ctrl->transport->name, wait->field, field_of(csts, wait),
			wait->timeout_ns / HR_NS_PER_MS, wait->limit);
		return 0;
	}
	/* a line of its own, because it may follow from another error: the end of a bring-up */
	return hr_error_add(e, HR_ERROR_DEVICE, -ETIMEDOUT, "%s: %s still %u after %llu ms (%s)",
			    ctrl->transport->name, wait->field, field_of(csts, wait),
			    wait->timeout_ns / HR_NS_PER_MS, wait->limit);
}

static int wait_csts(struct hr_ctrl *ctrl, const struct csts_wait *wait, struct hr_error *e)
{
	const uint64_t start = hr_now_ns();
	uint64_t step = POLL_FIRST_NS;

	for (;;) {
		const bool last = hr_now_ns() - start >= wait->timeout_ns;
		const uint32_t csts = hr_reg_read32(ctrl->transport, NVME_REG_CSTS);
		const bool absent = hr_ctrl_reads_absent(ctrl, csts);

		if (absent && (last || !wait->blind))
			return hr_ctrl_check_present(ctrl, csts, e);
		if (!absent && NVME_CSTS_CFS(csts) && wait->fatal == FATAL_FAILS)
			return hr_ctrl_fault_cfs(ctrl, csts, e);
		if (!absent && (field_of(csts, wait) == wait->want ||
				(NVME_CSTS_CFS(csts) && wait->fatal == FATAL_ENDS)))
			return 0;
		if (last)
			return late(ctrl, wait, csts, e);
		hr_wait_ns(step);
		step = step * 2 < POLL_MAX_NS ? step * 2 : POLL_MAX_NS;
	}
}

static bool has_crto(uint64_t cap)
{
	return NVME_CAP_CRMS(cap) & NVME_CAP_CRWMS;
}

static int wait_ready(struct hr_ctrl *ctrl, uint32_t want, enum csts_fatal fatal,
		      struct hr_error *e)
{
	const uint64_t units = ctrl->ready_timeout_ns / TIMEOUT_UNIT_NS - 1;
	char limit[32];
	const struct csts_wait wait = {
		.field = "CSTS.RDY",
		.limit = limit,
		.shift = NVME_CSTS_RDY_SHIFT,
		.mask = NVME_CSTS_RDY_MASK,
		.want = want,
		.timeout_ns = ctrl->ready_timeout_ns,
		.fatal = fatal,
		.blind = !want, /* some controllers answer nothing for a while after CC.EN = 0 */
	};

	snprintf(limit, sizeof(limit), "%s %u", has_crto(ctrl->cap) ? "CRTO.CRWMT" : "CAP.TO",
		 (unsigned)units);
	return wait_csts(ctrl, &wait, e);
}

/* CAP.TO saturates at 127.5 s, and may be less than CRTO where CAP.CRMS reports CRTO. */
static uint64_t ready_timeout(const struct hr_transport *t, uint64_t cap)
{
	uint64_t units = NVME_CAP_TO(cap);

	if (has_crto(cap)) {
		const uint64_t crwmt = NVME_CRTO_CRWMT(hr_reg_read32(t, NVME_REG_CRTO));

		units = crwmt > units && crwmt != NVME_CRTO_CRWMT(HR_REG_GONE) ? crwmt : units;
	}
	return (units + 1) * TIMEOUT_UNIT_NS;
}

static int read_capabilities(struct hr_ctrl *ctrl, struct hr_error *e)
{
	struct hr_transport *t = ctrl->transport;
	const uint64_t cap = hr_reg_read64(t, NVME_REG_CAP);

	ctrl->vs = hr_reg_read32(t, NVME_REG_VS);
	if (cap == UINT64_MAX || ctrl->vs == HR_REG_GONE)
		return hr_ctrl_fault_gone(ctrl, cap == UINT64_MAX ? "CAP" : "VS", e);
	if (ctrl->vs == 0)
		return hr_health_fault(&ctrl->health, HR_FAULT_GONE, e, -ENOLINK,
				       "VS reads 0: the device is gone");
	ctrl->cap = cap;
	ctrl->ready_timeout_ns = ready_timeout(t, cap);
	ctrl->shutdown_timeout_ns = HR_SHUTDOWN_TIMEOUT_MIN_NS;
	ctrl->doorbell_step = 4u << NVME_CAP_DSTRD(cap);
	ctrl->max_entries = NVME_CAP_MQES(cap) + 1u;
	if (ctrl->max_entries > HR_QUEUE_ENTRIES_MAX)
		ctrl->max_entries = HR_QUEUE_ENTRIES_MAX;

	if (!(NVME_CAP_CSS(cap) & NVME_CAP_CSS_NVM))
		return hr_fail(e, HR_ERROR_MISSING, -ENOTSUP,
			       "%s: CAP.CSS %02x: no NVM command set", t->name,
			       (unsigned)NVME_CAP_CSS(cap));
	if (NVME_CAP_MPSMIN(cap) != 0)
		return hr_fail(
			e, HR_ERROR_MISSING, -ENOTSUP,
			"%s: CAP.MPSMIN %u: the controller does not support memory pages of 4 KiB",
			t->name, (unsigned)NVME_CAP_MPSMIN(cap));
	if (ctrl->max_entries < HR_QUEUE_ENTRIES_MIN)
		return hr_fail(e, HR_ERROR_MISSING, -ENOTSUP,
			       "%s: CAP.MQES 0: a queue needs at least 2 entries", t->name);
	if (t->bar_bytes < HR_DOORBELLS + 2ull * ctrl->doorbell_step)
		return hr_fail(
			e, HR_ERROR_MISSING, -ENOTSUP,
			"%s: BAR0 of %zu bytes ends before the admin doorbells (CAP.DSTRD %u)",
			t->name, t->bar_bytes, (unsigned)NVME_CAP_DSTRD(cap));
	return 0;
}

/* In short steps, because each calls the periodic function. */
static void wait_blindly(uint64_t ns)
{
	for (const uint64_t start = hr_now_ns(); hr_now_ns() - start < ns;)
		hr_wait_ns(POLL_MAX_NS);
}

/* Clear CC.EN (a controller reset) and wait until no command is in flight. */
static int reset_controller(struct hr_ctrl *ctrl, struct hr_error *e)
{
	const uint32_t cc = hr_reg_read32(ctrl->transport, NVME_REG_CC);

	if (cc == HR_REG_GONE)
		return hr_ctrl_fault_gone(ctrl, "CC", e);
	hr_reg_write32(ctrl->transport, NVME_REG_CC, cc & ~(CC_EN_BIT | CC_SHN_BITS));
	if (ctrl->quirks & HR_QUIRK_DELAY_READY && NVME_CC_EN(cc))
		wait_blindly(HR_QUIRK_DELAY_NS);
	return wait_ready(ctrl, 0, FATAL_CLEARS, e);
}

static int disable_controller(struct hr_ctrl *ctrl, struct hr_error *e)
{
	const uint32_t cc = hr_reg_read32(ctrl->transport, NVME_REG_CC);
	const uint32_t csts = hr_reg_read32(ctrl->transport, NVME_REG_CSTS);
	int err = cc == HR_REG_GONE ? hr_ctrl_fault_gone(ctrl, "CC", e)
				    : hr_ctrl_check_present(ctrl, csts, e);

	if (err)
		return err;
	/* 3.1.3.5: clearing CC.EN before CSTS.RDY has become 1 is undefined. A controller that
	 * has failed is the exception: it needs the reset. */
	if (NVME_CC_EN(cc) && !NVME_CSTS_RDY(csts) && !NVME_CSTS_CFS(csts)) {
		err = wait_ready(ctrl, 1, FATAL_ENDS, e);
		if (err)
			return err;
	}
	return reset_controller(ctrl, e);
}

/*
 * Bus mastering goes off before any memory is freed. Registers that read all ones do not tell a
 * function that is gone from one that is being reset or whose memory decoding is off: that one has
 * not been disabled, so its memory is kept.
 */
static int note_end(struct hr_ctrl *ctrl, int err)
{
	const bool gone = ctrl->transport->ops->silence(ctrl->transport, err != 0) == -ENODEV;

	if (err == -ENOLINK && !gone)
		hr_warn("%s: its registers do not answer, but its configuration space does: the "
			"function is not gone, and it was not disabled",
			ctrl->transport->name);
	hr_health_set(&ctrl->health, err && !gone ? HR_STEP_STUCK : HR_STEP_STOPPED);
	return err;
}

int hr_ctrl_disable(struct hr_ctrl *ctrl, struct hr_error *e)
{
	return note_end(ctrl, disable_controller(ctrl, e));
}

/* Lay out [SQ page][CQ page][data page][event page] and give the controller the first two. */
static int set_admin_queue(struct hr_ctrl *ctrl)
{
	const struct hr_region *region = ctrl->admin_region;
	const size_t offset = ctrl->admin_offset;
	struct hr_transport *t = ctrl->transport;
	uint8_t *cpu = (uint8_t *)region->cpu + offset;
	const struct hr_qp_memory memory = {
		.sq = cpu,
		.cq = cpu + HR_PAGE,
		.table = ctrl->admin_table,
	};
	int err = hr_qp_init(&ctrl->admin, 0, HR_ADMIN_ENTRIES, &memory, ctrl->admin_timeout_ns);

	if (err)
		return err;
	ctrl->admin.sq_doorbell = (uint32_t *)((uintptr_t)t->bar + HR_DOORBELLS);
	ctrl->admin.cq_doorbell =
		(uint32_t *)((uintptr_t)t->bar + HR_DOORBELLS + ctrl->doorbell_step);
	ctrl->admin_data = cpu + 2 * (size_t)HR_PAGE;
	ctrl->admin_data_bus = hr_region_bus(region, offset + 2 * (size_t)HR_PAGE);
	ctrl->event_data = cpu + 3 * (size_t)HR_PAGE;
	ctrl->event_data_bus = hr_region_bus(region, offset + 3 * (size_t)HR_PAGE);

	hr_reg_write32(t, NVME_REG_AQA,
		       NVME_SET(HR_ADMIN_ENTRIES - 1, AQA_ASQS) |
			       NVME_SET(HR_ADMIN_ENTRIES - 1, AQA_ACQS));
	hr_reg_write64(t, NVME_REG_ASQ, hr_region_bus(region, offset).addr);
	hr_reg_write64(t, NVME_REG_ACQ, hr_region_bus(region, offset + HR_PAGE).addr);
	return 0;
}

static int enable(struct hr_ctrl *ctrl, struct hr_error *e)
{
	struct hr_transport *t = ctrl->transport;
	/* 3.1.3.5: with 110b the controller enables all its command sets, and each namespace
	 * reports its own. hr_ctrl_identify_ns() refuses all but the NVM command set. */
	const uint32_t css =
		NVME_CAP_CSS(ctrl->cap) & NVME_CAP_CSS_CSI ? NVME_CC_CSS_CSI : NVME_CC_CSS_NVM;
	const uint32_t cc = NVME_SET(css, CC_CSS) | NVME_SET(0, CC_MPS) |
			    NVME_SET(NVME_CC_AMS_RR, CC_AMS) | NVME_SET(HR_SQE_SHIFT, CC_IOSQES) |
			    NVME_SET(HR_CQE_SHIFT, CC_IOCQES);

	/* A controller that had failed may keep CSTS.CFS set until the reset has ended, so
	 * CSTS.CFS does not mean that this bring-up failed. */
	const bool failed_before = NVME_CSTS_CFS(hr_reg_read32(t, NVME_REG_CSTS));

	hr_reg_write32(t, NVME_REG_CC, cc);		/* steps 4 and 5 */
	hr_reg_write32(t, NVME_REG_CC, cc | CC_EN_BIT); /* step 6 */
	return wait_ready(ctrl, 1, failed_before ? FATAL_CLEARS : FATAL_FAILS, e); /* step 7 */
}

static int identify(struct hr_ctrl *ctrl, struct hr_error *e)
{
	const char *name = ctrl->transport->name;
	char text[80];
	int err = hr_admin_identify(ctrl, NVME_IDENTIFY_CNS_CTRL, 0, e);

	if (err > 0)
		hr_fail(e, HR_ERROR_DEVICE, err, "%s: admin identify controller: %s (%03x)", name,
			hr_error_name(err, text, sizeof(text)), (unsigned)err);
	if (err)
		return err;
	err = hr_identify_ctrl(ctrl, ctrl->admin_data, name, e);
	if (!err)
		hr_info("%s: %s, serial %s, firmware %s, NVMe %u.%u", name, ctrl->model,
			ctrl->serial, ctrl->firmware, (unsigned)NVME_VS_MJR(ctrl->vs),
			(unsigned)NVME_VS_MNR(ctrl->vs));
	return err;
}

/*
 * Host Behavior Support, Advanced Command Retry Enable (5.27.1.18): the controller may ask for
 * delays only after this. A controller that reports delays but refuses the feature asks for none.
 */
static int accept_delays(struct hr_ctrl *ctrl, struct hr_error *e)
{
	struct nvme_feat_host_behavior *behavior = ctrl->admin_data;
	struct hr_sqe sqe = {
		.opcode = nvme_admin_set_features,
		.prp1 = ctrl->admin_data_bus.addr,
		.cdw10 = NVME_FEAT_FID_HOST_BEHAVIOR,
	};
	int err;

	if (!ctrl->crdt[1] && !ctrl->crdt[2] && !ctrl->crdt[3])
		return 0;
	memset(ctrl->admin_data, 0, HR_PAGE);
	behavior->acre = 1;
	err = hr_admin(ctrl, &sqe, NULL, e);
	if (err)
		memset(ctrl->crdt, 0, sizeof(ctrl->crdt));
	memcpy(ctrl->admin.retry_delay, ctrl->crdt, sizeof(ctrl->crdt));
	return err < 0 ? err : 0;
}

static void find_quirks(struct hr_ctrl *ctrl)
{
	const struct hr_transport *t = ctrl->transport;
	const struct hr_quirks *found = hr_quirks_find(t->vendor, t->device);

	if (!found)
		return;
	ctrl->quirks = found->quirks;
	hr_info("%s: %04x:%04x, %s: %s", t->name, t->vendor, t->device, found->model,
		found->reason);
}

/* Start a disabled controller. On error it is disabled again. */
static int start_controller(struct hr_ctrl *ctrl, struct hr_error *e)
{
	int err = set_admin_queue(ctrl); /* step 3 */

	if (err)
		return err;
	err = enable(ctrl, e); /* steps 4 to 7 */
	if (!err) {
		hr_ctrl_remember_state(ctrl);
		err = identify(ctrl, e); /* step 8 */
	}
	if (!err)
		err = accept_delays(ctrl, e);
	/* The memory goes back to the caller, so the controller must stop using it. Not
	 * hr_ctrl_disable(): CSTS.RDY need not be waited for again. */
	if (err)
		note_end(ctrl, err == -ENOLINK ? err : reset_controller(ctrl, e));
	return err;
}

/* The steps of NVMe Base 3.5.1. The number of queues is set later, when the caller knows it
 * (step 10). */
int hr_ctrl_open(struct hr_ctrl *ctrl, struct hr_transport *transport,
		 const struct hr_region *region, size_t offset, uint64_t admin_timeout_ns,
		 struct hr_error *e)
{
	int err;

	if (!region->cpu || offset % HR_PAGE || offset + HR_CTRL_ADMIN_BYTES > region->bytes)
		return -EINVAL;
	memset(ctrl, 0, sizeof(*ctrl));
	ctrl->transport = transport;
	ctrl->health.name = transport->name;
	find_quirks(ctrl);
	ctrl->admin_region = region;
	ctrl->admin_offset = offset;
	ctrl->admin_timeout_ns = admin_timeout_ns;
	err = read_capabilities(ctrl, e);
	if (!err)
		err = disable_controller(ctrl, e); /* step 2 */
	return err ? err : start_controller(ctrl, e);
}

int hr_ctrl_reset(struct hr_ctrl *ctrl, struct hr_error *e)
{
	char serial[sizeof(ctrl->serial)];
	int err = hr_ctrl_disable(ctrl, e);

	memcpy(serial, ctrl->serial, sizeof(serial));
	ctrl->has_host_id = false;
	if (!err)
		err = start_controller(ctrl, e);
	if (err || strcmp(serial, ctrl->serial) == 0)
		return err;
	hr_ctrl_disable(ctrl, e);
	return hr_error_add(e, HR_ERROR_DEVICE, -ESTALE,
			    "%s: after its reset it reports serial number '%s', before '%s'",
			    ctrl->transport->name, ctrl->serial, serial);
}

/*
 * 3.6.1: orderly shutdown. Virtual controllers are known that never complete it. Nothing is lost
 * then, and the next step disables the controller, so the caller gets no error.
 */
static int shut_down(struct hr_ctrl *ctrl, struct hr_error *e)
{
	struct hr_transport *t = ctrl->transport;
	const struct csts_wait wait = {
		.field = "CSTS.SHST",
		.limit = "RTD3E",
		.shift = NVME_CSTS_SHST_SHIFT,
		.mask = NVME_CSTS_SHST_MASK,
		.want = NVME_CSTS_SHST_CMPLT,
		.timeout_ns = ctrl->shutdown_timeout_ns,
		.fatal = FATAL_FAILS,
		.optional = true,
	};
	uint32_t cc = hr_reg_read32(t, NVME_REG_CC);

	if (cc == HR_REG_GONE)
		return hr_ctrl_fault_gone(ctrl, "CC", e);
	cc &= ~CC_SHN_BITS;
	hr_reg_write32(t, NVME_REG_CC, cc | NVME_SET(NVME_CC_SHN_NORMAL, CC_SHN));
	if (ctrl->quirks & HR_QUIRK_NO_SHUTDOWN)
		return 0;
	return wait_csts(ctrl, &wait, e);
}

int hr_ctrl_close(struct hr_ctrl *ctrl, struct hr_error *e)
{
	const int err = shut_down(ctrl, e);
	int disabled;

	if (err == -ENOLINK)
		return note_end(ctrl, err);
	disabled = hr_ctrl_disable(ctrl, e);
	return err ? err : disabled;
}
