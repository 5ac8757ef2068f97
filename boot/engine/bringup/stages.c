#include "boot/engine/bringup/stages.h"

#include <errno.h>
#include <string.h>

#include "boot/engine/devices/devices.h"
#include "boot/engine/exclude.h"
#include "config/base/process.h"
#include "boot/engine/bringup/stage.h"
#include "boot/engine/bringup/sinks.h"
#include "config/base/clock.h"
#include "boot/engine/bringup/disks.h"
#include "config/base/log.h"
#include "config/base/text.h"
#include "config/derived.h"
#include "config/base/tick.h"
#include "nvme/dma/hostmem.h"

static int select_pipelines(struct hr_appliance *app, const char *pipeline)
{
	const char *names[HR_PIPELINES_MAX] = { NULL }, *near;
	bool found = false;

	for (uint32_t i = 0; i < app->config.pipelines; i++) {
		struct hr_run *run = &app->run[i];

		run->config = &app->config.pipeline[i];
		names[i] = run->config->name;
		run->selected = !pipeline || strcmp(run->config->name, pipeline) == 0;
		found |= run->selected;
		for (uint32_t p = 0; p < hr_run_gpus(run); p++)
			app->gpu_used[hr_config_gpu(run->config, p)] |= run->selected;
	}
	if (found || !pipeline)
		return 0;
	near = hr_nearest(pipeline, names, app->config.pipelines);
	return hr_fail(&app->error, HR_ERROR_USAGE, -ENOENT, "%s: there is no pipeline '%s'%s%s%s",
		       app->config.file, pipeline, near ? "; did you mean '" : "", near ? near : "",
		       near ? "'?" : "");
}

/* A named pipeline runs without the ssds that it does not use. */
static void leave_out_ssds(struct hr_appliance *app)
{
	for (uint32_t d = 0; d < app->config.ssds; d++) {
		bool used = false;

		for (uint32_t i = 0; i < app->config.pipelines; i++)
			used |= app->run[i].selected && hr_run_uses_ssd(&app->run[i], d);
		app->left_out[d] = !used;
	}
}

/* One ssd that needs physical addresses makes all host memory physical, so choose before the
 * first allocation. */
static int choose_memory(struct hr_appliance *app)
{
	const struct hr_config *config = &app->config;
	enum hr_hostmem_kind kind = HR_HOSTMEM_OWN;

	for (uint32_t d = 0; d < config->ssds; d++)
		if (!app->left_out[d] && hr_transport_is_physical(config->ssd[d].device))
			kind = HR_HOSTMEM_PHYSICAL;
	return hr_hostmem_choose(kind, &app->error);
}

int hr_appliance_init(struct hr_appliance *app, const char *pipeline)
{
	int err;

	memset((char *)app + sizeof app->config, 0, sizeof *app - sizeof app->config);
	err = select_pipelines(app, pipeline);
	if (!err && pipeline)
		leave_out_ssds(app);
	if (!err)
		err = choose_memory(app);
	hr_error_log(&app->error, HR_LOG_ERROR);
	return err;
}

/* down also undoes a partial up after an error. NULL: nothing to undo. */
static const struct {
	const char *name;
	int (*up)(struct hr_appliance *app);
	void (*down)(struct hr_appliance *app);
} stage[HR_STAGES] = {
	[HR_STAGE_NONE] = { "none", NULL, NULL },
	[HR_STAGE_BACKENDS] = { "backends", hr_backends_up, hr_backends_down },
	[HR_STAGE_CONTROLLERS] = { "controllers", hr_controllers_up, hr_controllers_down },
	[HR_STAGE_STORES] = { "stores", hr_stores_up, NULL },
	[HR_STAGE_OBJECTS] = { "objects", hr_objects_up, NULL },
	[HR_STAGE_PARTITION] = { "partition", hr_partition_up, NULL },
	[HR_STAGE_MEMORY] = { "memory", hr_memory_up, hr_memory_down },
	[HR_STAGE_SINKS] = { "sinks", hr_sinks_up, hr_sinks_down },
	[HR_STAGE_QUEUES] = { "queues", hr_queues_up, hr_queues_down },
};

const char *hr_stage_name(enum hr_stage s)
{
	return s < HR_STAGES ? stage[s].name : "?";
}

/* A controller creates fewer queue pairs than it has granted: lay out the runs for those. */
static int plan_again(struct hr_appliance *app)
{
	int err;

	hr_appliance_down_to(app, HR_STAGE_OBJECTS);
	err = hr_any_stuck(app) ? -EIO : hr_partition_plan(app);
	hr_error_log(&app->error, HR_LOG_ERROR);
	if (!err)
		app->up = HR_STAGE_PARTITION;
	return err;
}

int hr_appliance_raise(struct hr_appliance *app, enum hr_stage last)
{
	const enum hr_stage before = app->up;

	while (app->up < last) {
		enum hr_stage next = app->up + 1;
		uint64_t began = hr_now_ns();
		int err = hr_signals_pending() ? -EINTR : stage[next].up(app);

		if (err) {
			hr_error_log(&app->error, HR_LOG_ERROR);
			if (stage[next].down)
				stage[next].down(app);
			if (next == HR_STAGE_QUEUES && err == -EAGAIN)
				err = plan_again(app);
			if (!err)
				continue;
			hr_appliance_down_to(app, before);
			return next > HR_STAGE_CONTROLLERS ? hr_gone(err) : err;
		}
		hr_info("stage %s up in %.1f ms", stage[next].name,
			(double)(hr_now_ns() - began) / 1e6);
		app->up = next;
		hr_tick();
	}
	return 0;
}

int hr_appliance_up(struct hr_appliance *app, enum hr_stage last)
{
	const int err = hr_appliance_raise(app, last);

	if (err)
		hr_appliance_down(app);
	return err;
}

void hr_appliance_down_to(struct hr_appliance *app, enum hr_stage last)
{
	hr_unseal();
	for (; app->up > last; app->up--)
		if (stage[app->up].down) {
			stage[app->up].down(app);
			hr_tick();
		}
}

void hr_appliance_down(struct hr_appliance *app)
{
	hr_appliance_down_to(app, HR_STAGE_NONE);
}
