/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boot/appliance/supervisor/differences.h - the differences between the configuration of a
 * running appliance and the same file after a change.
 */
#ifndef BOOT_APPLIANCE_SUPERVISOR_DIFFERENCES_H
#define BOOT_APPLIANCE_SUPERVISOR_DIFFERENCES_H

#include "config/config.h"

/* Lists of settings, a line each: "ssds", "pipeline 'p' is new". Lines of the file, and the schedule
 * of a pipeline that is in both configurations, do not count. */
struct hr_differences {
	char restart
		[128]; /* the supervisor has used them: only another start of headrace takes them */
	char engine[4096]; /* the next engine takes them */
};

/* 0, or -ENOMEM. When *engine is empty, the pipelines are the same ones in the same order. */
int hr_differences(const struct hr_config *old, const struct hr_config *fresh,
		   struct hr_differences *differences);

/* Give *fresh the settings of `restart` that *old has. */
void hr_differences_keep(const struct hr_config *old, struct hr_config *fresh);

/* Index of the pipeline of that name; HR_PIPELINES_MAX: there is none. */
uint32_t hr_pipeline_index(const struct hr_config *config, const char *name);

#endif
