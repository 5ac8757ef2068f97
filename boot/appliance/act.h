/*
 * boot/appliance/act.h - carries out requests of the control socket, and SIGHUP, by calls of a
 * supervisor (boot/appliance/requests.h), with a text for each refusal.
 */
#ifndef BOOT_APPLIANCE_ACT_H
#define BOOT_APPLIANCE_ACT_H

#include "boot/appliance/supervise.h"

/* Fill in the table for a supervisor. */
void hr_act_open(struct hr_actions *actions, struct hr_supervisor *s);

/* Begin a reload when SIGHUP has come. A refusal is logged. */
void hr_act_signals(struct hr_supervisor *s);

#endif
