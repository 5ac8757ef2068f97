/*
 * nvme/ctrl_check.h - the state of a running controller, from its registers. Also used by
 * nvme/ctrl.c. Each fault passes through the controller's health, hr_health_fault(), with e.
 *
 * Spec: NVMe Base 2.0, 3.1.3.6 (CSTS), 3.7.2 (controller level reset); PCIe Transport 1.0, 3.1.1.
 */
#ifndef NVME_CTRL_CHECK_H
#define NVME_CTRL_CHECK_H

#include "nvme/ctrl.h"

#define HR_REG_GONE UINT32_MAX /* value of a read when the device has left the bus */

/* A register reads all ones: HR_FAULT_GONE; returns -ENOLINK. */
int hr_ctrl_gone(struct hr_ctrl *ctrl, const char *reg, struct hr_error *e);

/* True when no device answers: CSTS is all ones, or CSTS and VS are 0. */
bool hr_ctrl_reads_absent(const struct hr_ctrl *ctrl, uint32_t csts);

/* 0, or HR_FAULT_GONE and -ENOLINK when no device answers. */
int hr_ctrl_absent(struct hr_ctrl *ctrl, uint32_t csts, struct hr_error *e);

/* CSTS.CFS is set: HR_FAULT_FATAL; returns -EIO. */
int hr_ctrl_fatal(struct hr_ctrl *ctrl, uint32_t csts, struct hr_error *e);

/*
 * Call when the controller is ready: its health is up, and its registers are recorded for
 * hr_ctrl_check(). All interrupts are masked (none is used). The mask also marks the controller: a
 * reset clears INTMS (3.7.2), so hr_ctrl_check() detects a controller that was reset and enabled
 * again since the last call.
 */
void hr_ctrl_mark(struct hr_ctrl *ctrl);

/*
 * 0 while the controller works and has the state that hr_ctrl_open() has set; -ENOLINK: gone; -EIO:
 * CSTS.CFS; -ECONNRESET: reset, or reset and enabled again, by another process or driver. Cost:
 * three register reads.
 */
int hr_ctrl_check(struct hr_ctrl *ctrl, struct hr_error *e);

/*
 * A command was lost: report the state of the registers, unless hr_ctrl_check() has reported it.
 * Reports nothing when the registers show no failure, and nothing when the device is gone, because
 * hr_ctrl_disable() reports that.
 */
void hr_ctrl_explain(struct hr_ctrl *ctrl, struct hr_error *e);

#endif
