/*
 * nvme/health.h - what registers say about a controller that was working; for nvme/ctrl.c too.
 *
 * Spec: NVMe Base 2.0, 3.1.3.6 (CSTS), 3.7.2 (controller level reset); PCIe Transport 1.0, 3.1.1.
 */
#ifndef NVME_HEALTH_H
#define NVME_HEALTH_H

#include "nvme/ctrl.h"

#define HR_REG_GONE UINT32_MAX /* what a read of a device that left the bus returns */

/* A register reads all ones: says so, and returns -ENOLINK. */
int hr_ctrl_gone(const struct hr_ctrl *ctrl, const char *reg);

/* 0, or -ENOLINK, logged, when nothing answers: CSTS is all ones, or it and VS are 0. */
int hr_ctrl_absent(const struct hr_ctrl *ctrl, uint32_t csts);

/* Logs CSTS.CFS; -EIO. */
int hr_ctrl_fatal(const struct hr_ctrl *ctrl, uint32_t csts);

/*
 * Once the controller is ready: remember how its registers are, for hr_ctrl_check(). All interrupts
 * are masked (none is used), which also leaves a mark: a reset clears INTMS (3.7.2), so a controller
 * that was reset and enabled again between two looks shows it.
 */
void hr_ctrl_mark(struct hr_ctrl *ctrl);

/*
 * 0 while the controller is alive and as hr_ctrl_open() has left it; -ENOLINK: gone; -EIO: CSTS.CFS;
 * -ECONNRESET: reset, or reset and enabled again, by another process or driver. All are logged.
 * Cheap: three reads of registers.
 */
int hr_ctrl_check(struct hr_ctrl *ctrl);

/*
 * A command was lost: log what the registers say about it, unless hr_ctrl_check() has said it.
 * Silent when they tell nothing, and when the device is gone, which hr_ctrl_disable() says.
 */
void hr_ctrl_explain(struct hr_ctrl *ctrl);

#endif
