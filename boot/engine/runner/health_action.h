/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boot/engine/runner/health_action.h - what the critical warnings of an ssd (nvme/smart.h) do,
 * as the group `health` of the configuration says.
 */
#ifndef BOOT_ENGINE_RUNNER_HEALTH_ACTION_H
#define BOOT_ENGINE_RUNNER_HEALTH_ACTION_H

#include "boot/engine/engine.h"
#include "config/config.h"
#include "nvme/smart.h"

/* The strictest action of the warnings that are set; *which: number of the first warning that has
 * it. HR_WARNING_LOG also when the health log has not been read. */
enum hr_warning_action hr_warning_action(const struct hr_config_health *config,
					 const struct hr_smart *smart, uint32_t *which);

/* 0, or -EPERM with the reason in *e: a warning of ssd d stops a run of the pipeline that uses it. */
int hr_warning_stop(const struct hr_engine *engine, const struct hr_config_pipeline *pipeline,
		    uint32_t d, struct hr_error *e);

#endif
