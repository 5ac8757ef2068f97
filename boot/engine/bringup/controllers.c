#include "boot/engine/bringup/stage.h"

#include <errno.h>

#include "boot/engine/bringup/disks.h"
#include "config/base/process.h"
#include "boot/engine/exclude.h"
#include "config/base/log.h"
#include "config/base/tick.h"
#include "nvme/queue/status.h"

int hr_stage_name_ssd(struct hr_appliance *app, uint32_t d, int err, const char *what)
{
	const struct hr_config_ssd *ssd = &app->config.ssd[d];
	char name[96];

	if (err && err != -EINTR)
		hr_fail(&app->error, HR_ERROR_DEVICE, err, "%s",
			hr_error_name(err, name, sizeof name));
	hr_error_context(&app->error, "%s:%u: ssd '%s' %s", app->config.file, ssd->line, ssd->name,
			 what);
	return err;
}

static int controller_up(struct hr_appliance *app, uint32_t d)
{
	const struct hr_config_ssd *ssd = &app->config.ssd[d];
	int err = hr_stage_name_ssd(app, d, hr_disk_up(app, d), "cannot be brought up");

	if (!err)
		hr_info("ssd '%s': %s %s, %llu blocks of %u bytes", ssd->name,
			app->ssd[d].ctrl->model, app->ssd[d].ctrl->serial,
			(unsigned long long)app->ssd[d].ns.blocks, 1u << app->ssd[d].ns.lba_shift);
	if (!err) {
		err = hr_disk_check(app, d);
		if (!err && !app->only_checks)
			err = hr_stage_name_ssd(app, d, hr_ssd_reserve(&app->ssd[d], &app->error),
						"cannot be reserved");
		if (err)
			hr_ssd_down(&app->ssd[d]);
	}
	hr_tick();
	return err;
}

/* Leave out an ssd, and the other ssds of its controller when that has failed. */
static void refuse_all(struct hr_appliance *app, uint32_t d, int err)
{
	struct hr_error cause;

	hr_error_log(&app->error, HR_LOG_ERROR);
	cause = app->error;
	for (uint32_t i = app->config.ssds; i-- > 0;) {
		if (i == d || !hr_health_failed(&app->ssd[d].health) ||
		    !hr_one_controller(app, i, d))
			continue;
		hr_refuse_ssd(app, i, err);
		hr_ssd_down(&app->ssd[i]);
		app->error = cause;
	}
	hr_refuse_ssd(app, d, err);
	if (hr_any_selected(app)) /* otherwise all stages go down cleanly */
		hr_ssd_down(&app->ssd[d]);
}

int hr_stage_ssds(struct hr_appliance *app, int (*up)(struct hr_appliance *app, uint32_t d))
{
	int err = 0;

	for (uint32_t d = 0; !err && d < app->config.ssds; d++) {
		if (app->left_out[d])
			continue;
		err = hr_signals_pending() ? -EINTR : up(app, d);
		if (!err || err == -EINTR || !app->keep_going)
			continue;
		refuse_all(app, d, err);
		err = hr_any_selected(app) ? 0 : err;
	}
	return err;
}

int hr_controllers_up(struct hr_appliance *app)
{
	int err = 0;

	for (uint32_t d = 0; !err && d < app->config.ssds; d++)
		err = hr_disk_check_device(app, d);
	return err ? err : hr_stage_ssds(app, controller_up);
}

void hr_controllers_down(struct hr_appliance *app)
{
	for (uint32_t i = app->config.ssds; i-- > 0;) {
		hr_ssd_down(&app->ssd[i]);
		hr_tick();
	}
}
