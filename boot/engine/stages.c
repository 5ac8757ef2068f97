#include "boot/engine/stages.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "boot/engine/devices.h"
#include "config/clock.h"
#include "boot/engine/disks.h"
#include "config/log.h"
#include "boot/engine/signals.h"
#include "config/nearest.h"
#include "nvme/hostmem.h"

int hr_mistake_at(const struct hr_appliance *app, unsigned line, const char *format, ...)
{
	char text[HR_LOG_LINE_MAX - 128];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	hr_error("%s:%u: %s", app->config.file, line, text);
	return -EINVAL;
}

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
		app->gpu_used[run->config->gpu] |= run->selected;
	}
	if (found || !pipeline)
		return 0;
	near = hr_nearest(pipeline, names, app->config.pipelines);
	hr_error("%s: there is no pipeline '%s'%s%s%s", app->config.file, pipeline,
		 near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
	return -ENOENT;
}

/* Before any memory is taken: what one ssd needs, all memory has. */
static int choose_memory(const struct hr_config *config)
{
	enum hr_hostmem_kind kind = HR_HOSTMEM_OWN;

	for (uint32_t d = 0; d < config->ssds; d++)
		if (hr_transport_is_physical(config->ssd[d].device))
			kind = HR_HOSTMEM_PHYSICAL;
	return hr_hostmem_choose(kind);
}

int hr_appliance_init(struct hr_appliance *app, const char *pipeline)
{
	int err;

	memset((char *)app + sizeof app->config, 0, sizeof *app - sizeof app->config);
	err = choose_memory(&app->config);
	return err ? err : select_pipelines(app, pipeline);
}

static uint32_t at_least_one(uint32_t blocks)
{
	return blocks ? blocks : 1;
}

/* Of a backend that starts a thread for each; a GPU has as many as it holds. */
static uint32_t blocks_needed(const struct hr_appliance *app, uint32_t gpu)
{
	uint32_t most = app->min_blocks;

	for (uint32_t i = 0; i < app->config.pipelines; i++) {
		const struct hr_config_pipeline *p = app->run[i].config;
		uint32_t blocks =
			at_least_one(p->prefetch_blocks) + at_least_one(p->compute_blocks);

		if (p->has_sink)
			blocks += at_least_one(p->writeback_blocks);
		if (app->run[i].selected && p->gpu == gpu && blocks > most)
			most = blocks;
	}
	return most;
}

static int open_backend(struct hr_appliance *app, uint32_t g)
{
	const struct hr_config_gpu *gpu = &app->config.gpu[g];
	char message[HR_LOG_LINE_MAX] = "";
	int err = hr_backend_open(&app->backend[g], gpu->device, blocks_needed(app, g), message);

	if (err) {
		hr_error("%s:%u: gpu '%s': %s", app->config.file, gpu->line, gpu->name, message);
		return err;
	}
	app->gpu_up[g] = true;
	snprintf(app->gpu_note[g], sizeof app->gpu_note[g], "%s", message);
	if (message[0])
		hr_info("gpu '%s': %s", gpu->name, message);
	if (app->config.path == HR_PATH_DIRECT && app->backend[g].lanes == 1 &&
	    !app->backend[g].peer[0]) {
		hr_error("%s:%u: memory.path is \"direct\", but gpu '%s' is %s: worker blocks are "
			 "CPU "
			 "threads and there is no GPU memory for an ssd to write to; expected "
			 "\"auto\" or \"bounce\", or a device with bar=BDF",
			 app->config.file, gpu->line, gpu->name, app->backend[g].name);
		return -ENOTSUP;
	}
	return 0;
}

static int backends_up(struct hr_appliance *app)
{
	int err = 0;

	for (uint32_t g = 0; !err && g < app->config.gpus; g++)
		if (app->gpu_used[g])
			err = open_backend(app, g);
	return err ? err : hr_operators_link(app);
}

static void backends_down(struct hr_appliance *app)
{
	for (uint32_t g = app->config.gpus; g-- > 0;) {
		if (app->gpu_up[g])
			app->backend[g].ops->close(&app->backend[g]);
		app->gpu_up[g] = false;
	}
}

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

static int controllers_up(struct hr_appliance *app)
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

static void controllers_down(struct hr_appliance *app)
{
	for (uint32_t i = app->config.ssds; i-- > 0;) {
		hr_ssd_down(&app->ssd[i]);
		hr_tick();
	}
}

/* down also takes what a failing up has left half done. NULL: nothing to undo. */
static const struct {
	const char *name;
	int (*up)(struct hr_appliance *app);
	void (*down)(struct hr_appliance *app);
} stage[HR_STAGES] = {
	[HR_STAGE_NONE] = { "none", NULL, NULL },
	[HR_STAGE_BACKENDS] = { "backends", backends_up, backends_down },
	[HR_STAGE_CONTROLLERS] = { "controllers", controllers_up, controllers_down },
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

int hr_appliance_up(struct hr_appliance *app, enum hr_stage last)
{
	while (app->up < last) {
		enum hr_stage next = app->up + 1;
		uint64_t began = hr_now_ns();
		int err = hr_signals_pending() ? -EINTR : stage[next].up(app);

		if (err) {
			if (stage[next].down)
				stage[next].down(app);
			hr_appliance_down(app);
			return next > HR_STAGE_CONTROLLERS ? hr_gone(err) : err;
		}
		hr_info("stage %s up in %.1f ms", stage[next].name,
			(double)(hr_now_ns() - began) / 1e6);
		app->up = next;
		hr_tick();
	}
	return 0;
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
