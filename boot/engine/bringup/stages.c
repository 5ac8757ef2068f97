/* SPDX-License-Identifier: Apache-2.0 */
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

static int select_pipelines(struct hr_engine *engine, const char *pipeline)
{
	const char *names[HR_PIPELINES_MAX] = { NULL }, *near;
	bool found = false;

	for (uint32_t i = 0; i < engine->config.pipelines; i++) {
		struct hr_run *run = &engine->run[i];

		run->config = &engine->config.pipeline[i];
		names[i] = run->config->name;
		run->selected = !pipeline || strcmp(run->config->name, pipeline) == 0;
		found |= run->selected;
		for (uint32_t p = 0; p < hr_run_gpus(run); p++)
			engine->gpu_used[hr_config_gpu(run->config, p)] |= run->selected;
	}
	if (found || !pipeline)
		return 0;
	near = hr_nearest(pipeline, names, engine->config.pipelines);
	return hr_fail(&engine->error, HR_ERROR_USAGE, -ENOENT,
		       "%s: there is no pipeline '%s'%s%s%s", engine->config.file, pipeline,
		       near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
}

/* A named pipeline runs without the ssds that it does not use. */
static void leave_out_ssds(struct hr_engine *engine)
{
	for (uint32_t d = 0; d < engine->config.ssds; d++) {
		bool used = false;

		for (uint32_t i = 0; i < engine->config.pipelines; i++)
			used |= engine->run[i].selected && hr_run_uses_ssd(&engine->run[i], d);
		engine->left_out[d] = !used;
	}
}

/* One ssd that needs physical addresses makes all host memory physical, so choose before the
 * first allocation. */
static int choose_memory(struct hr_engine *engine)
{
	const struct hr_config *config = &engine->config;
	enum hr_hostmem_kind kind = HR_HOSTMEM_OWN;

	for (uint32_t d = 0; d < config->ssds; d++)
		if (!engine->left_out[d] && hr_transport_is_physical(config->ssd[d].device))
			kind = HR_HOSTMEM_PHYSICAL;
	return hr_hostmem_set_kind(kind, &engine->error);
}

int hr_engine_init(struct hr_engine *engine, const char *pipeline)
{
	int err;

	memset((char *)engine + sizeof engine->config, 0, sizeof *engine - sizeof engine->config);
	err = select_pipelines(engine, pipeline);
	if (!err && pipeline)
		leave_out_ssds(engine);
	if (!err)
		err = choose_memory(engine);
	hr_error_log(&engine->error, HR_LOG_ERROR);
	return err;
}

/* down also undoes a partial up after an error. NULL: nothing to undo. */
static const struct {
	const char *name;
	int (*up)(struct hr_engine *engine);
	void (*down)(struct hr_engine *engine);
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
static int plan_again(struct hr_engine *engine)
{
	int err;

	hr_engine_down_to(engine, HR_STAGE_OBJECTS);
	err = hr_any_controller_stuck(engine) ? -EIO : hr_partition_plan(engine);
	hr_error_log(&engine->error, HR_LOG_ERROR);
	if (!err)
		engine->up = HR_STAGE_PARTITION;
	return err;
}

int hr_engine_up_keeping(struct hr_engine *engine, enum hr_stage last)
{
	const enum hr_stage before = engine->up;

	while (engine->up < last) {
		enum hr_stage next = engine->up + 1;
		uint64_t began = hr_now_ns();
		int err = hr_signals_pending() ? -EINTR : stage[next].up(engine);

		if (err) {
			hr_error_log(&engine->error, HR_LOG_ERROR);
			if (stage[next].down)
				stage[next].down(engine);
			if (next == HR_STAGE_QUEUES && err == -EAGAIN)
				err = plan_again(engine);
			if (!err)
				continue;
			hr_engine_down_to(engine, before);
			return next > HR_STAGE_CONTROLLERS ? hr_vanished_error(err) : err;
		}
		hr_info("stage %s up in %.1f ms", stage[next].name,
			(double)(hr_now_ns() - began) / 1e6);
		engine->up = next;
		hr_tick();
	}
	return 0;
}

int hr_engine_up(struct hr_engine *engine, enum hr_stage last)
{
	const int err = hr_engine_up_keeping(engine, last);

	if (err)
		hr_engine_down(engine);
	return err;
}

void hr_engine_down_to(struct hr_engine *engine, enum hr_stage last)
{
	hr_unseal();
	for (; engine->up > last; engine->up--)
		if (stage[engine->up].down) {
			stage[engine->up].down(engine);
			hr_tick();
		}
}

void hr_engine_down(struct hr_engine *engine)
{
	hr_engine_down_to(engine, HR_STAGE_NONE);
}
