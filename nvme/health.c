#include "nvme/health.h"

#include "config/log.h"

#define ALL_INTERRUPTS UINT32_MAX
#define FOREIGN "another process or driver uses it, or the function was reset"
/* A function that is being reset does not decode addresses, and reads as one that was pulled. */
#define GONE "the device is gone, or its function is being reset"

int hr_ctrl_gone(const struct hr_ctrl *ctrl, const char *reg)
{
	if (!ctrl->told)
		hr_error("%s: %s reads all ones: " GONE, ctrl->transport->name, reg);
	return -ENOLINK;
}

/* Buses, and emulators, differ in what a read returns that nobody answers. VS is never 0. */
int hr_ctrl_absent(const struct hr_ctrl *ctrl, uint32_t csts)
{
	if (csts == HR_REG_GONE)
		return hr_ctrl_gone(ctrl, "CSTS");
	if (csts != 0 || hr_reg_read32(ctrl->transport, NVME_REG_VS) != 0)
		return 0;
	hr_error("%s: CSTS and VS read 0: " GONE, ctrl->transport->name);
	return -ENOLINK;
}

int hr_ctrl_fatal(const struct hr_ctrl *ctrl, uint32_t csts)
{
	hr_error("%s: controller fatal status (CSTS %08x)", ctrl->transport->name, csts);
	return -EIO;
}

void hr_ctrl_mark(struct hr_ctrl *ctrl)
{
	struct hr_transport *t = ctrl->transport;

	ctrl->cc = hr_reg_read32(t, NVME_REG_CC);
	hr_reg_write32(t, NVME_REG_INTMS, ALL_INTERRUPTS);
	ctrl->intms = hr_reg_read32(t, NVME_REG_INTMS);
	ctrl->asq = hr_reg_read64(t, NVME_REG_ASQ);
	ctrl->told = false;
}

/* It runs, and has been reset since it was marked. */
static bool lost_mark(const struct hr_ctrl *ctrl)
{
	const struct hr_transport *t = ctrl->transport;

	if (ctrl->intms)
		return hr_reg_read32(t, NVME_REG_INTMS) != ctrl->intms;
	/* It has no INTMS: only another admin queue tells, which a reset leaves as it is. */
	return hr_reg_read64(t, NVME_REG_ASQ) != ctrl->asq;
}

/* The controller lives, and is not as this process has set it up. */
static int foreign(const struct hr_ctrl *ctrl, uint32_t csts)
{
	const struct hr_transport *t = ctrl->transport;
	const uint32_t cc = hr_reg_read32(t, NVME_REG_CC);

	if (cc == HR_REG_GONE)
		return hr_ctrl_gone(ctrl, "CC");
	if (!NVME_CC_EN(cc)) {
		hr_error("%s: CC.EN is 0: the controller was reset: " FOREIGN, t->name);
		return -ECONNRESET;
	}
	if (cc != ctrl->cc) {
		hr_error("%s: CC is %08x, expected %08x: " FOREIGN, t->name, cc, ctrl->cc);
		return -ECONNRESET;
	}
	if (NVME_CSTS_RDY(csts) && !lost_mark(ctrl))
		return 0;
	hr_error(
		"%s: the controller was reset and enabled again, and its queues are gone: " FOREIGN,
		t->name);
	return -ECONNRESET;
}

static int judge(const struct hr_ctrl *ctrl)
{
	const uint32_t csts = hr_reg_read32(ctrl->transport, NVME_REG_CSTS);
	const int err = hr_ctrl_absent(ctrl, csts);

	if (err)
		return err;
	if (NVME_CSTS_CFS(csts))
		return hr_ctrl_fatal(ctrl, csts);
	return foreign(ctrl, csts);
}

int hr_ctrl_check(struct hr_ctrl *ctrl)
{
	const int err = judge(ctrl);

	ctrl->told |= err != 0;
	return err;
}

void hr_ctrl_explain(struct hr_ctrl *ctrl)
{
	const uint32_t cc = hr_reg_read32(ctrl->transport, NVME_REG_CC);
	const uint32_t csts = hr_reg_read32(ctrl->transport, NVME_REG_CSTS);

	if (ctrl->told || cc == HR_REG_GONE || csts == HR_REG_GONE ||
	    hr_reg_read32(ctrl->transport, NVME_REG_VS) == 0)
		return;
	hr_ctrl_check(ctrl);
}
