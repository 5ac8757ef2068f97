/*
 * nvme/ioqueues.h - creating and deleting I/O queue pairs.
 */
#ifndef NVME_IOQUEUES_H
#define NVME_IOQUEUES_H

#include "nvme/ctrl.h"

/*
 * Request `want` I/O queue pairs. Call before the first is created. *got is the number that the
 * controller grants: at most `want`, and only queue pairs whose doorbells lie in BAR0. -EINVAL:
 * want is 0 or above 65535. A controller that refuses the number is asked for its own one; when it does
 * not report that either, all that were wanted count as granted. One warning says so.
 */
int hr_ctrl_set_queues(struct hr_ctrl *ctrl, uint32_t want, uint32_t *got, struct hr_error *e);

/*
 * Create I/O queue pair qp->id (1..io_queues) over the rings of qp, the CQ first. Sets the doorbell
 * pointers for this process (hr_qp_hand_over() for other owners). sq and cq are the bus addresses
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
