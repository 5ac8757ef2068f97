/*
 * boot/appliance/obey.h - the requests of the control socket, and SIGHUP, as calls of a supervisor
 * (boot/appliance/ask.h), with a text for each refusal.
 */
#ifndef BOOT_APPLIANCE_OBEY_H
#define BOOT_APPLIANCE_OBEY_H

#include "boot/appliance/supervise.h"

/* Fill in the table for a supervisor. */
void hr_obey_open(struct hr_life *life, struct hr_supervisor *s);

/* Begin a reload when SIGHUP has come. A refusal is logged. */
void hr_obey_signals(struct hr_supervisor *s);

#endif
