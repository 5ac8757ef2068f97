/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/engine/runner/health_action.h"

#include <errno.h>

_Static_assert(HR_WARNINGS == HR_SMART_WARNINGS, "an action for each warning");

enum hr_warning_action hr_warning_action(const struct hr_config_health *config,
					 const struct hr_smart *smart, uint32_t *which)
{
	enum hr_warning_action strictest = HR_WARNING_LOG;

	*which = 0;
	for (uint32_t i = 0; smart->known && i < HR_WARNINGS; i++) {
		if (!(smart->critical_warning >> i & 1) || config->action[i] <= strictest)
			continue;
		strictest = config->action[i];
		*which = i;
	}
	return strictest;
}

int hr_warning_stop(const struct hr_engine *engine, const struct hr_config_pipeline *pipeline,
		    uint32_t d, struct hr_error *e)
{
	const struct hr_config *config = &engine->config;
	uint32_t which;

	if (hr_warning_action(&config->health, &engine->ssd[d].ctrl->smart, &which) !=
	    HR_WARNING_STOP)
		return 0;
	return hr_fail(e, HR_ERROR_DEVICE, -EPERM,
		       "pipeline '%s' is stopped: ssd '%s' has a critical warning, and health.%s "
		       "is \"stop\"",
		       pipeline->name, config->ssd[d].name, hr_smart_warning(which));
}
