/* SPDX-License-Identifier: Apache-2.0 */
#include "nvme/ctrl.h"

#define ALL_INTERRUPTS UINT32_MAX
#define FOREIGN "another process or driver uses it, or the function was reset"
/* A function does not decode addresses during its reset. Its registers then read like those of a
 * removed device. */
#define GONE "the device is gone, or its function is being reset"

int hr_ctrl_fault_gone(struct hr_ctrl *ctrl, const char *reg, struct hr_error *e)
{
	return hr_health_fault(&ctrl->health, HR_FAULT_GONE, e, -ENOLINK,
			       "%s reads all ones: " GONE, reg);
}

/* Buses and emulators return all ones or 0 for a read that no device answers. VS is never 0. */
bool hr_ctrl_reads_absent(const struct hr_ctrl *ctrl, uint32_t csts)
{
	return csts == HR_REG_GONE ||
	       (csts == 0 && hr_reg_read32(ctrl->transport, NVME_REG_VS) == 0);
}

int hr_ctrl_check_present(struct hr_ctrl *ctrl, uint32_t csts, struct hr_error *e)
{
	if (!hr_ctrl_reads_absent(ctrl, csts))
		return 0;
	if (csts == HR_REG_GONE)
		return hr_ctrl_fault_gone(ctrl, "CSTS", e);
	return hr_health_fault(&ctrl->health, HR_FAULT_GONE, e, -ENOLINK,
			       "CSTS and VS read 0: " GONE);
}

int hr_ctrl_fault_cfs(struct hr_ctrl *ctrl, uint32_t csts, struct hr_error *e)
{
	return hr_health_fault(&ctrl->health, HR_FAULT_FATAL, e, -EIO,
			       "controller fatal status (CSTS %08x)", csts);
}

void hr_ctrl_remember_state(struct hr_ctrl *ctrl)
{
	struct hr_transport *t = ctrl->transport;

	ctrl->cc = hr_reg_read32(t, NVME_REG_CC);
	hr_reg_write32(t, NVME_REG_INTMS, ALL_INTERRUPTS);
	ctrl->intms = hr_reg_read32(t, NVME_REG_INTMS);
	ctrl->asq = hr_reg_read64(t, NVME_REG_ASQ);
	hr_health_set(&ctrl->health, HR_STEP_START);
}

/* True: the controller runs, but was reset since hr_ctrl_remember_state(). */
static bool lost_mark(const struct hr_ctrl *ctrl)
{
	const struct hr_transport *t = ctrl->transport;

	if (ctrl->intms)
		return hr_reg_read32(t, NVME_REG_INTMS) != ctrl->intms;
	/* No INTMS: only a different ASQ shows that the controller was set up again. A reset
	 * keeps ASQ. */
	return hr_reg_read64(t, NVME_REG_ASQ) != ctrl->asq;
}

/* The controller answers, but its state is not the one that this process has set. */
static int foreign(struct hr_ctrl *ctrl, uint32_t csts, struct hr_error *e)
{
	const uint32_t cc = hr_reg_read32(ctrl->transport, NVME_REG_CC);

	if (cc == HR_REG_GONE)
		return hr_ctrl_fault_gone(ctrl, "CC", e);
	if (!NVME_CC_EN(cc))
		return hr_health_fault(&ctrl->health, HR_FAULT_RESET, e, -ECONNRESET,
				       "CC.EN is 0: the controller was reset: " FOREIGN);
	if (cc != ctrl->cc)
		return hr_health_fault(&ctrl->health, HR_FAULT_RESET, e, -ECONNRESET,
				       "CC is %08x, expected %08x: " FOREIGN, cc, ctrl->cc);
	if (NVME_CSTS_RDY(csts) && !lost_mark(ctrl))
		return 0;
	return hr_health_fault(&ctrl->health, HR_FAULT_RESET, e, -ECONNRESET,
			       "the controller was reset and enabled again, and its queues are "
			       "gone: " FOREIGN);
}

int hr_ctrl_check(struct hr_ctrl *ctrl, struct hr_error *e)
{
	const uint32_t csts = hr_reg_read32(ctrl->transport, NVME_REG_CSTS);
	const int err = hr_ctrl_check_present(ctrl, csts, e);

	if (err)
		return err;
	if (NVME_CSTS_CFS(csts))
		return hr_ctrl_fault_cfs(ctrl, csts, e);
	return foreign(ctrl, csts, e);
}

void hr_ctrl_explain(struct hr_ctrl *ctrl, struct hr_error *e)
{
	const uint32_t cc = hr_reg_read32(ctrl->transport, NVME_REG_CC);
	const uint32_t csts = hr_reg_read32(ctrl->transport, NVME_REG_CSTS);

	if (cc != HR_REG_GONE && csts != HR_REG_GONE &&
	    hr_reg_read32(ctrl->transport, NVME_REG_VS) != 0)
		hr_ctrl_check(ctrl, e);
}
