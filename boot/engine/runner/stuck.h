/*
 * boot/engine/runner/stuck.h - the message about workers that make no progress
 * (boot/engine/runner/stall.h).
 */
#ifndef BOOT_ENGINE_RUNNER_STUCK_H
#define BOOT_ENGINE_RUNNER_STUCK_H

#include "boot/engine/engine.h"
#include "boot/engine/runner/stall.h"

/*
 * Log which worker of the watched run has exceeded its limit: role and index of hr_watch_look(). Also
 * note it for the supervisor (boot/engine/crash.h).
 */
void hr_stuck_log(const struct hr_appliance *app, const struct hr_watch *watch, uint32_t role,
		  uint32_t index);

#endif
