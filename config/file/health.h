/*
 * config/file/health.h - the group `health`: what a critical warning of an ssd does. For
 * config/file/file.c only.
 */
#ifndef CONFIG_FILE_HEALTH_H
#define CONFIG_FILE_HEALTH_H

#include "config/config.h"
#include "config/file/group.h"

void hr_config_health_read(struct hr_config_health *health, const struct hr_group *group);

#endif
