/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nvme/events.h - asynchronous events of a controller.
 *
 * Spec: NVMe Base 2.0, 5.2 (Asynchronous Event Request), 5.27.1.8 (configuration), 5.16 (log
 * pages). Requests wait in the admin queue without a deadline. An event names the log page with the
 * details; reading that page also lets the controller report the next event of the same kind. The
 * health log (nvme/smart.h) is also read once a minute, because its counters cause no event. The
 * thread that owns the controller does all of this without waiting, so it can watch a running
 * pipeline.
 */
#ifndef NVME_EVENTS_H
#define NVME_EVENTS_H

#include "nvme/ctrl.h"

/*
 * Request events: health warnings, changes of namespaces and firmware, errors. ns is a namespace in
 * use; the caller keeps it until hr_ctrl_aer_disable() or the end of the controller. Call once for
 * each namespace, up to HR_CTRL_EVENT_NS. When the controller refuses, this is logged as
 * information and 0 is returned. 0, or an error of the admin queue.
 */
int hr_ctrl_aer_enable(struct hr_ctrl *ctrl, const struct hr_ns *ns, struct hr_error *e);

/* After a reset of the controller: request the events again. Events before it are forgotten. 0, or an
 * error of the admin queue. */
int hr_ctrl_events_renew(struct hr_ctrl *ctrl, struct hr_error *e);

/* The namespace is no longer in use. Events of the controller continue. */
void hr_ctrl_aer_disable(struct hr_ctrl *ctrl, const struct hr_ns *ns);

/*
 * Handle the events that have arrived, without waiting, and read the health log into ctrl->smart when
 * that is due; its changes are logged. Data that the controller is not ready to give is requested
 * again with pauses, until the deadline of admin commands. A fault that ends the admin queue is logged
 * at once, and is no error here, because I/O goes on: the health says HR_HEALTH_NO_ADMIN.
 *
 * Warnings are logged, and 0 is returned. An event that ends the use of the controller is a fault:
 * -EPROTO: a doorbell was written wrongly; -EIO: persistent internal error. -ENXIO: ns is gone, or has
 * another size or block size now, also when an earlier call has found this. Such a change is logged
 * once as an error, when it is found, for any namespace of the call; e gets a text that is not printed
 * again.
 */
int hr_ctrl_aer_poll(struct hr_ctrl *ctrl, const struct hr_ns *ns, struct hr_error *e);

/*
 * Read the health log now, and wait for it. 0, also when the controller does not give it; or an error
 * of the admin queue.
 */
int hr_ctrl_read_smart(struct hr_ctrl *ctrl, struct hr_error *e);

#endif
