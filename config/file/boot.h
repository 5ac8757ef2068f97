/*
 * config/file/boot.h - reads the group `boot`; for files of config/ only.
 */
#ifndef CONFIG_FILE_BOOT_H
#define CONFIG_FILE_BOOT_H

#include "config/config.h"
#include "config/file/group.h"

/* Set the defaults, which apply without the group or without a key of it. */
void hr_config_boot_default(struct hr_config_boot *boot);

/* Read the group. */
void hr_config_boot_read(struct hr_config_boot *boot, const struct hr_group *group);

#endif
