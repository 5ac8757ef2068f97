/*
 * config/control.h - the group `control`: which users may send requests to a running appliance.
 * For config/config.c only.
 */
#ifndef CONFIG_CONTROL_H
#define CONFIG_CONTROL_H

#include "config/config.h"
#include "config/group.h"

void hr_config_control_default(struct hr_config_control *control);
void hr_config_control_read(struct hr_config_control *control, const struct hr_group *group);

/* Set *number to that of the member `group`, a name in /etc/group or a number; otherwise it is a
 * mistake. For config/tap.c as well. */
void hr_config_control_group(uint32_t *number, const struct hr_group *group, const char *name);

#endif
