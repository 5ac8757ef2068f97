/*
 * nvme/events.h - asynchronous events: what a controller tells without being asked.
 *
 * Spec: NVMe Base 2.0, 5.2 (Asynchronous Event Request), 5.27.1.8 (configuration), 5.16 (log pages).
 * Requests wait in the admin queue without a deadline. An event names the log page that tells more;
 * reading it also lets the controller report the next event of that kind. All of it is done without
 * waiting, by the thread that owns the controller, so a running pipeline can be watched with it.
 */
#ifndef NVME_EVENTS_H
#define NVME_EVENTS_H

#include "nvme/ctrl.h"

/*
 * Ask for events: health warnings, changes of namespaces and firmware, errors. ns is a namespace in
 * use, which the caller keeps until hr_ctrl_events_off() or the end of the controller; one call for
 * each, up to HR_CTRL_EVENT_NS. A controller that refuses is left alone, which is logged as
 * information. 0, or an error of the admin queue.
 */
int hr_ctrl_events_on(struct hr_ctrl *ctrl, const struct hr_ns *ns);

/* The namespace is not in use any more; events of the controller go on. */
void hr_ctrl_events_off(struct hr_ctrl *ctrl, const struct hr_ns *ns);

/*
 * Look for events and act on them, without waiting. Warnings are logged; 0. What ends the use of the
 * controller, or of namespace ns, is logged as an error: -EPROTO: a doorbell was written wrongly;
 * -EIO: persistent internal error; -ENXIO: ns has left, or has another size or block size now, also in
 * an earlier look. Each event is logged once, for whichever namespace this is called.
 */
int hr_ctrl_events(struct hr_ctrl *ctrl, const struct hr_ns *ns);

/* For nvme/admin.c: a completion of the admin queue that is not of the command it waits for. */
void hr_ctrl_note_event(struct hr_ctrl *ctrl, const struct hr_done *done);

/* Tokens of admin commands. */
enum hr_admin_token { HR_ADMIN_WAITED_FOR, HR_ADMIN_EVENT, HR_ADMIN_EVENT_LOG, HR_ADMIN_EVENT_NS };

#endif
