#include "boot/engine/stage_controllers.h"

#include <errno.h>

#include "boot/engine/disks.h"
#include "boot/engine/signals.h"
#include "boot/engine/refuse.h"
#include "config/log.h"
#include "config/tick.h"

static int reserve(struct hr_appliance *app, uint32_t d)
{
	const struct hr_config_ssd *ssd = &app->config.ssd[d];
	const int err = hr_ssd_reserve(&app->ssd[d]);

	if (err)
		hr_error("%s:%u: ssd '%s' cannot be reserved", app->config.file, ssd->line,
			 ssd->name);
	return err;
}

static int controller_up(struct hr_appliance *app, uint32_t d)
{
	const struct hr_config_ssd *ssd = &app->config.ssd[d];
	int err = hr_disk_up(app, d);

	if (!err)
		hr_info("ssd '%s': %s %s, %llu blocks of %u bytes", ssd->name,
			app->ssd[d].ctrl->model, app->ssd[d].ctrl->serial,
			(unsigned long long)app->ssd[d].ns.blocks, 1u << app->ssd[d].ns.lba_shift);
	else if (err != -EINTR)
		hr_error("%s:%u: ssd '%s' cannot be brought up", app->config.file, ssd->line,
			 ssd->name);
	if (!err) {
		err = hr_disk_check(app, d);
		if (!err && !app->only_checks)
			err = reserve(app, d);
		if (err)
			hr_ssd_down(&app->ssd[d]);
	}
	hr_tick();
	return err;
}

/* An ssd, and those that its loss takes with it: they are on a controller that has failed. */
static void refuse_all(struct hr_appliance *app, uint32_t d, int err)
{
	for (uint32_t i = app->config.ssds; i-- > 0;) {
		if (i == d || !app->ssd[d].failed || !hr_one_controller(app, i, d))
			continue;
		hr_refuse_ssd(app, i, err);
		hr_ssd_down(&app->ssd[i]);
	}
	hr_refuse_ssd(app, d, err);
	if (hr_any_selected(app)) /* else all goes down, in order */
		hr_ssd_down(&app->ssd[d]);
}

/* An ssd that does not work ends the stage, unless pipelines are left that do without it. */
int hr_stage_without(struct hr_appliance *app, uint32_t d, int err)
{
	if (!err || err == -EINTR || !app->keep_going)
		return err;
	refuse_all(app, d, err);
	return hr_any_selected(app) ? 0 : err;
}

int hr_controllers_up(struct hr_appliance *app)
{
	int err = 0;

	for (uint32_t d = 0; !err && d < app->config.ssds; d++)
		err = hr_disk_check_device(app, d);
	for (uint32_t d = 0; !err && d < app->config.ssds; d++) {
		if (app->left_out[d])
			continue;
		err = hr_signals_pending() ? -EINTR : controller_up(app, d);
		err = hr_stage_without(app, d, err);
	}
	return err;
}

void hr_controllers_down(struct hr_appliance *app)
{
	for (uint32_t i = app->config.ssds; i-- > 0;) {
		hr_ssd_down(&app->ssd[i]);
		hr_tick();
	}
}
