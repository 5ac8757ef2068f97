/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/engine/bringup/stage.h"

#include <errno.h>

#include "boot/engine/bringup/disks.h"
#include "config/base/process.h"
#include "boot/engine/exclude.h"
#include "config/base/log.h"
#include "config/base/tick.h"
#include "nvme/queue/status.h"

int hr_stage_name_ssd(struct hr_engine *engine, uint32_t d, int err, const char *what)
{
	const struct hr_config_ssd *ssd = &engine->config.ssd[d];
	char name[96];

	if (err && err != -EINTR)
		hr_fail(&engine->error, HR_ERROR_DEVICE, err, "%s",
			hr_error_name(err, name, sizeof name));
	hr_error_context(&engine->error, "%s:%u: ssd '%s' %s", engine->config.file, ssd->line,
			 ssd->name, what);
	return err;
}

static int controller_up(struct hr_engine *engine, uint32_t d)
{
	const struct hr_config_ssd *ssd = &engine->config.ssd[d];
	int err = hr_stage_name_ssd(engine, d, hr_disk_up(engine, d), "cannot be brought up");

	if (!err)
		hr_info("ssd '%s': %s %s, %llu blocks of %u bytes", ssd->name,
			engine->ssd[d].ctrl->model, engine->ssd[d].ctrl->serial,
			(unsigned long long)engine->ssd[d].ns.blocks,
			1u << engine->ssd[d].ns.lba_shift);
	if (!err) {
		err = hr_disk_check(engine, d);
		if (!err && !engine->only_checks)
			err = hr_stage_name_ssd(engine, d,
						hr_ssd_reserve(&engine->ssd[d], &engine->error),
						"cannot be reserved");
		if (err)
			hr_ssd_down(&engine->ssd[d]);
	}
	hr_tick();
	return err;
}

/* Leave out an ssd, and the other ssds of its controller when that has failed. */
static void refuse_all(struct hr_engine *engine, uint32_t d, int err)
{
	struct hr_error cause;

	hr_error_log(&engine->error, HR_LOG_ERROR);
	cause = engine->error;
	for (uint32_t i = engine->config.ssds; i-- > 0;) {
		if (i == d || !hr_health_failed(&engine->ssd[d].health) ||
		    !hr_one_controller(engine, i, d))
			continue;
		hr_exclude_ssd(engine, i, err);
		hr_ssd_down(&engine->ssd[i]);
		engine->error = cause;
	}
	hr_exclude_ssd(engine, d, err);
	if (hr_any_selected(engine)) /* otherwise all stages go down cleanly */
		hr_ssd_down(&engine->ssd[d]);
}

int hr_stage_ssds(struct hr_engine *engine, int (*up)(struct hr_engine *engine, uint32_t d))
{
	int err = 0;

	for (uint32_t d = 0; !err && d < engine->config.ssds; d++) {
		if (engine->left_out[d])
			continue;
		err = hr_signals_pending() ? -EINTR : up(engine, d);
		if (!err || err == -EINTR || !engine->keep_going)
			continue;
		refuse_all(engine, d, err);
		err = hr_any_selected(engine) ? 0 : err;
	}
	return err;
}

int hr_controllers_up(struct hr_engine *engine)
{
	int err = 0;

	for (uint32_t d = 0; !err && d < engine->config.ssds; d++)
		err = hr_disk_check_device(engine, d);
	return err ? err : hr_stage_ssds(engine, controller_up);
}

void hr_controllers_down(struct hr_engine *engine)
{
	for (uint32_t i = engine->config.ssds; i-- > 0;) {
		hr_ssd_down(&engine->ssd[i]);
		hr_tick();
	}
}
