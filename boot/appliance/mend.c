#include "boot/appliance/mend.h"

#include <errno.h>

#include "boot/engine/refuse.h"
#include "boot/engine/ssd.h"
#include "config/log.h"
#include "config/uses.h"
#include "nvme/ctrl_check.h"
#include "nvme/events.h"

static bool is_used(const struct hr_appliance *app, hr_pipelines running, uint32_t d)
{
	bool used = false;

	for (uint32_t i = 0; i < app->config.pipelines; i++)
		used |= running >> i & 1 && hr_run_uses_ssd(&app->run[i], d);
	return used;
}

void hr_mend_read_health(struct hr_appliance *app)
{
	for (uint32_t d = 0; d < app->config.ssds; d++)
		if (!app->left_out[d] && app->ssd[d].ctrl &&
		    hr_health_commands(&app->ssd[d].health))
			hr_ctrl_read_smart(app->ssd[d].ctrl, NULL);
}

void hr_mend_look(struct hr_appliance *app, hr_pipelines running)
{
	for (uint32_t d = 0; d < app->config.ssds; d++) {
		struct hr_ssd *ssd = &app->ssd[d];
		struct hr_error e = { 0 };
		int err;

		if (app->left_out[d] || !ssd->ctrl || !hr_health_commands(&ssd->health) ||
		    is_used(app, running, d))
			continue;
		err = hr_ctrl_check(ssd->ctrl, &e);
		if (!err)
			err = hr_ctrl_events(ssd->ctrl, &ssd->ns, &e);
		if (!err)
			continue;
		hr_error_context(&e, "ssd '%s' is lost", app->config.ssd[d].name);
		hr_error_log(&e, HR_LOG_ERROR);
		if (err == -ENXIO)
			hr_health_fault(&ssd->health, HR_FAULT_NAMESPACE, NULL, err, NULL);
		hr_health_set(&ssd->health, HR_STEP_GIVE_UP);
	}
}

bool hr_mend_is_due(const struct hr_appliance *app, uint32_t i)
{
	for (uint32_t d = 0; d < app->config.ssds; d++)
		if (hr_ssd_wants_reset(&app->ssd[d]) &&
		    hr_config_uses_ssd(&app->config.pipeline[i], d))
			return true;
	return false;
}

/* A running pipeline uses ssd d, or another ssd of its controller. */
static bool is_controller_used(const struct hr_appliance *app, hr_pipelines running, uint32_t d)
{
	bool used = false;

	for (uint32_t other = 0; other < app->config.ssds; other++)
		if (other == d || hr_ssd_share(&app->ssd[other], &app->ssd[d]))
			used |= is_used(app, running, other);
	return used;
}

hr_pipelines hr_mend_ssds(struct hr_appliance *app, hr_pipelines running, hr_pipelines planned)
{
	hr_pipelines held = 0;
	bool any = false;

	for (uint32_t d = 0; d < app->config.ssds; d++) {
		struct hr_error e = { 0 };

		if (app->left_out[d] || !hr_ssd_wants_reset(&app->ssd[d]))
			continue;
		if (!is_controller_used(app, running, d))
			hr_ssd_reset(&app->ssd[d], &e);
		hr_error_log(&e, HR_LOG_ERROR);
		any |= hr_ssd_wants_reset(&app->ssd[d]);
	}
	for (uint32_t i = 0; any && i < app->config.pipelines; i++)
		if (!(planned >> i & 1) || hr_mend_is_due(app, i))
			held |= 1u << i;
	return held;
}

void hr_mend_disable(struct hr_appliance *app)
{
	for (uint32_t d = 0; d < app->config.ssds; d++)
		if (hr_ssd_wants_reset(&app->ssd[d]))
			hr_ssd_disable(&app->ssd[d]);
}
