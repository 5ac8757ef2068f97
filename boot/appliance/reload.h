/*
 * boot/appliance/reload.h - reads the configuration again while the appliance runs, and takes over
 * the schedule of its pipelines.
 */
#ifndef BOOT_APPLIANCE_RELOAD_H
#define BOOT_APPLIANCE_RELOAD_H

#include "boot/appliance/repeat.h"

/* Begin to read. 0; -EALREADY: a process reads; -ENOTSUP: the file cannot be read again; -ENOMEM,
 * -EAGAIN. */
int hr_reload_begin(struct hr_repeat *r);

/* Take over the new schedule when the process has read the file. Does not wait. */
void hr_reload_look(struct hr_repeat *r, const struct hr_moment *at);

/* True when the reload of the newest hr_reload_begin() has ended. */
bool hr_reload_is_over(const struct hr_repeat *r);

/*
 * The settings that differ between two configurations, except the schedule: "ssds, pipelines" in
 * text, "" when none differs. Lines of the file do not count.
 */
const char *hr_reload_differences(const struct hr_config *old, const struct hr_config *fresh,
				  char *text, size_t bytes);

void hr_reload_close(struct hr_repeat *r);

#endif
