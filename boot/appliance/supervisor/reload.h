/*
 * boot/appliance/supervisor/reload.h - reads the configuration again while the appliance runs,
 * and puts it in force.
 *
 * A configuration with mistakes changes nothing. When only the schedule differs, it is in force at
 * once. For other differences (boot/appliance/supervisor/differences.h) no further start is
 * dispatched; when nothing runs, the engine is asked to end, and the next one has the new
 * configuration. Pipelines that both configurations have keep their starts. When no engine
 * comes up with the new configuration, the earlier one is in force again.
 */
#ifndef BOOT_APPLIANCE_SUPERVISOR_RELOAD_H
#define BOOT_APPLIANCE_SUPERVISOR_RELOAD_H

#include "boot/appliance/supervisor/repeat.h"

/* Begin to read. 0; -EALREADY: a process reads; -ENOTSUP: the file cannot be read again; -ENOMEM,
 * -EAGAIN. */
int hr_reload_begin(struct hr_repeat *r);

/* Take over the new schedule, or plan the next engine, when the process has read the file. Does not
 * wait. */
void hr_reload_look(struct hr_repeat *r, const struct hr_moment *at);

/* True when the configuration of the newest hr_reload_begin() has been checked; in_force: and an
 * engine has come up with it, or could not. The result is r->reload_result, with r->reload_error. */
bool hr_reload_is_over(const struct hr_repeat *r, bool in_force);

/* Between two engines: put the next configuration in force. False: there is none, or no memory for
 * the change, which is logged. */
bool hr_reload_switch(struct hr_repeat *r, const struct hr_moment *at);

/* An engine has come up with the configuration that is in force. */
void hr_reload_settle(struct hr_repeat *r);

/* An attempt has ended with *cause. When no engine has come up with the configuration, put the
 * earlier one in force, and log it. False: nothing has changed. */
bool hr_reload_revert(struct hr_repeat *r, const struct hr_error *cause,
		      const struct hr_moment *at);

void hr_reload_close(struct hr_repeat *r);

#endif
