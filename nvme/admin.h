/*
 * nvme/admin.h - admin commands (Base 2.0, 5), one at a time, and waiting for them.
 */
#ifndef NVME_ADMIN_H
#define NVME_ADMIN_H

#include "nvme/ctrl.h"

/*
 * One admin command, synchronous: sends *sqe (cid ours), waits, returns 0, status or -errno.
 * dw0 may be NULL. Data, if any, lies where the sqe's PRPs say; admin_data is there for that.
 * A status is not logged: the caller knows what it means. A timeout, and what ends the queue, is.
 */
int hr_admin(struct hr_ctrl *ctrl, struct hr_sqe *sqe, uint32_t *dw0);

/*
 * Typed admin commands; they log as hr_admin() does. Data lands in ctrl->admin_data, zeroed before.
 * get_log: of the whole controller; -EINVAL: bytes 0, not a multiple of 4, or above HR_PAGE.
 */
int hr_admin_identify(struct hr_ctrl *ctrl, uint8_t cns, uint32_t nsid);
int hr_admin_get_log(struct hr_ctrl *ctrl, uint8_t lid, uint32_t bytes);
int hr_admin_set_feature(struct hr_ctrl *ctrl, uint8_t fid, uint32_t cdw11, uint32_t *dw0);
int hr_admin_get_feature(struct hr_ctrl *ctrl, uint8_t fid, uint32_t *dw0);
int hr_admin_abort(struct hr_ctrl *ctrl, uint16_t sqid, uint16_t cid, bool *aborted);

#endif
