/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nvme/admin.h - synchronous admin commands (Base 2.0, 5), one at a time; I/O queue pairs.
 */
#ifndef NVME_ADMIN_H
#define NVME_ADMIN_H

#include "nvme/ctrl.h"

/* ---- synchronous admin commands (Base 2.0, 5), one at a time. */

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
 * hr_ctrl_aer_poll(), and finds that the queue has ended: a bad completion, or a command whose deadline
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

/* ---- creating and deleting I/O queue pairs */

/*
 * Request `want` I/O queue pairs. Call before the first is created. *got is the number that the
 * controller grants: at most `want`, and only queue pairs whose doorbells lie in BAR0. -EINVAL:
 * want is 0 or above 65535. A controller that refuses the number is asked for its own one; when it does
 * not report that either, all that were wanted count as granted. One warning says so.
 */
int hr_ctrl_set_queues(struct hr_ctrl *ctrl, uint32_t want, uint32_t *got, struct hr_error *e);

/*
 * Create I/O queue pair qp->id (1..io_queues) over the rings of qp, the CQ first. Sets the doorbell
 * pointers for this process (hr_qp_relocate() for other owners). sq and cq are the bus addresses
 * of the rings, which are contiguous. When the SQ fails, the CQ is deleted again. Also -EINVAL: id
 * or entries out of range.
 */
int hr_ctrl_create_qp(struct hr_ctrl *ctrl, struct hr_nvme_qp *qp, struct hr_bus sq,
		      struct hr_bus cq, struct hr_error *e);

/*
 * True when err, of hr_ctrl_create_qp(), says that the controller has no room for one more queue pair:
 * Invalid Queue Identifier, Completion Queue Invalid, Invalid Queue Size, Internal Error, or Invalid
 * Field. Those that exist work.
 */
bool hr_ctrl_has_no_more(int err);

/*
 * Delete the SQ, then the CQ. The controller aborts commands that are still in flight. When the SQ
 * cannot be deleted, the CQ remains too.
 */
int hr_ctrl_delete_qp(struct hr_ctrl *ctrl, uint16_t id, struct hr_error *e);

#endif
