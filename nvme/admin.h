/*
 * nvme/admin.h - synchronous admin commands (Base 2.0, 5), one at a time.
 */
#ifndef NVME_ADMIN_H
#define NVME_ADMIN_H

#include "nvme/ctrl.h"

/* Tokens of admin commands. */
enum hr_admin_token { HR_ADMIN_WAITED_FOR, HR_ADMIN_EVENT, HR_ADMIN_EVENT_LOG, HR_ADMIN_EVENT_NS };

/*
 * Send one admin command and wait for its completion. The CID of *sqe is ignored. The PRPs are the
 * caller's; ctrl->admin_data is a page for data. dw0 may be NULL; it is set only on success.
 * Returns 0, the NVMe status, or -errno. A status does not fill e, because only the caller knows
 * whether it is an error: hr_admin_fail(). A timeout and an error that ends the queue are faults
 * (nvme/health.h). A command that a controller refuses because it is not ready
 * (hr_status_is_not_ready()) is sent again with pauses, until the deadline of its first attempt has
 * passed.
 */
int hr_admin(struct hr_ctrl *ctrl, struct hr_sqe *sqe, uint32_t *dw0, struct hr_error *e);

/*
 * For nvme/events.c: commands that nothing waits for. reap notes their completions in *ctrl, for
 * hr_ctrl_events(), and finds that the queue has ended: a bad completion, or a command whose deadline
 * has passed, which is named. That is a fault, and is logged at once. False: the queue has ended, now
 * or before.
 *
 * push sends a command with a token other than HR_ADMIN_WAITED_FOR; an HR_ADMIN_EVENT has no deadline,
 * because it completes when an event occurs. 0, or the error of the queue, which was logged.
 */
bool hr_admin_reap(struct hr_ctrl *ctrl);
int hr_admin_push(struct hr_ctrl *ctrl, const struct hr_sqe *sqe, uint32_t token,
		  struct hr_error *e);

/* Returns err. A status fills e: "NAME: admin WHAT NUMBER: STATUS (sct/sc)". */
int hr_admin_fail(const struct hr_ctrl *ctrl, const char *what, uint32_t number, int err,
		  struct hr_error *e);

/*
 * Typed admin commands. They report as hr_admin() does. ctrl->admin_data is zeroed first and then
 * receives the data.
 * get_log reads a log page of the whole controller; -EINVAL: bytes is 0, not a multiple of 4, or
 * above HR_PAGE.
 */
int hr_admin_identify(struct hr_ctrl *ctrl, uint8_t cns, uint32_t nsid, struct hr_error *e);
int hr_admin_get_log(struct hr_ctrl *ctrl, uint8_t lid, uint32_t bytes, struct hr_error *e);
int hr_admin_set_feature(struct hr_ctrl *ctrl, uint8_t fid, uint32_t cdw11, uint32_t *dw0,
			 struct hr_error *e);
int hr_admin_get_feature(struct hr_ctrl *ctrl, uint8_t fid, uint32_t *dw0, struct hr_error *e);
int hr_admin_abort(struct hr_ctrl *ctrl, uint16_t sqid, uint16_t cid, bool *aborted,
		   struct hr_error *e);

#endif
