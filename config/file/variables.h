/*
 * config/file/variables.h - ${rank} and ${local_rank} in a device string; for files of config/ only.
 */
#ifndef CONFIG_FILE_VARIABLES_H
#define CONFIG_FILE_VARIABLES_H

#include <stdbool.h>

#include "config/config.h"
#include "config/file/group.h"

/*
 * Replace each ${NAME} in the value of the key `device` of a group by its number. device has
 * HR_DEVICE_MAX bytes. A '$' without '{' stays as it is. False: a mistake was reported (an unknown
 * name, a name without a value here, no '}', a result that is too long), and device is "".
 */
bool hr_config_variables(const struct hr_config *config, const struct hr_group *group,
			 char *device);

#endif
