/*
 * boot/engine/stuck.h - the message about workers that make no progress (boot/engine/watch.h).
 */
#ifndef BOOT_ENGINE_STUCK_H
#define BOOT_ENGINE_STUCK_H

#include "boot/engine/appliance.h"
#include "boot/engine/watch.h"

/*
 * Log which worker of the watched run has exceeded its limit: role and index of hr_watch_look(). Also
 * note it for the supervisor (boot/engine/crash.h).
 */
void hr_stuck_log(const struct hr_appliance *app, const struct hr_watch *watch, uint32_t role,
		  uint32_t index);

#endif
