/*
 * nvme/ioqueues.h - creating and deleting I/O queue pairs.
 */
#ifndef NVME_IOQUEUES_H
#define NVME_IOQUEUES_H

#include "nvme/ctrl.h"

/*
 * Ask for `want` I/O queue pairs, before the first is created; *got is what the controller gave, at
 * most `want`, and none whose doorbells lie outside of BAR0. -EINVAL: want is 0 or above 65535.
 */
int hr_ctrl_set_queues(struct hr_ctrl *ctrl, uint32_t want, uint32_t *got);

/*
 * Create I/O queue pair qp->id (1..io_queues) over qp's rings, CQ first; sets the doorbell
 * pointers as this process sees them (hr_qp_hand_over() for other owners). sq and cq are the bus
 * addresses of the rings, contiguous. If the SQ fails the CQ is deleted again. Also -EINVAL: id or
 * entries out of range.
 */
int hr_ctrl_create_qp(struct hr_ctrl *ctrl, struct hr_nvme_qp *qp, struct hr_bus sq,
		      struct hr_bus cq);

/*
 * Delete SQ, then CQ. Commands still in flight are aborted by the controller. When the SQ cannot be
 * deleted the CQ stays too.
 */
int hr_ctrl_delete_qp(struct hr_ctrl *ctrl, uint16_t id);

#endif
