/*
 * config/file/access.h - the keys of a pipeline with an access operator; for files of config/ only.
 */
#ifndef CONFIG_FILE_ACCESS_H
#define CONFIG_FILE_ACCESS_H

#include "config/config.h"
#include "config/file/group.h"

/* Read `objects` and `cache` of a pipeline whose operator is known. False after a mistake. */
bool hr_config_access_read(const struct hr_config *config, const struct hr_group *group,
			   struct hr_config_pipeline *pipeline);

/* Check the objects against the operator, and the cache against the memory. */
void hr_config_access_check(const struct hr_config *config,
			    const struct hr_config_pipeline *pipeline,
			    const struct hr_group *group);

#endif
