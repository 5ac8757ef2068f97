/*
 * config/file/control.h - the group `control`: which users may send requests to a running appliance.
 * For config/file/file.c only.
 */
#ifndef CONFIG_FILE_CONTROL_H
#define CONFIG_FILE_CONTROL_H

#include "config/config.h"
#include "config/file/group.h"

void hr_config_control_default(struct hr_config_control *control);
void hr_config_control_read(struct hr_config_control *control, const struct hr_group *group);

/* Set *number to that of the member `group`, a name in /etc/group or a number; otherwise it is a
 * mistake. For config/file/tap.c as well. */
void hr_config_control_group(uint32_t *number, const struct hr_group *group, const char *name);

#endif
