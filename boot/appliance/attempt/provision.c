/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/appliance/attempt/provision.h"

#include <errno.h>
#include <string.h>

#include "boot/engine/exclude.h"
#include "boot/engine/shared_memory.h"
#include "config/base/process.h"
#include "boot/engine/bringup/stage.h"
#include "boot/engine/bringup/sinks.h"
#include "boot/engine/bringup/stages.h"
#include "config/base/log.h"
#include "config/derived.h"
#include "nvme/queue/status.h"

/* ---- the runs that the stages process */

static hr_pipeline_set selected(const struct hr_engine *engine)
{
	hr_pipeline_set set = 0;

	for (uint32_t i = 0; i < engine->config.pipelines; i++)
		set |= (uint32_t)engine->run[i].selected << i;
	return set;
}

static void select_runs(struct hr_engine *engine, hr_pipeline_set set)
{
	for (uint32_t i = 0; i < engine->config.pipelines; i++)
		engine->run[i].selected = set >> i & 1;
}

/* Reset a run, except the members that stage `backends` has set. */
static void reset_run(struct hr_engine *engine, uint32_t i)
{
	struct hr_run *run = &engine->run[i];
	enum hr_entry entry[HR_GPUS_MAX];
	uint32_t threads[HR_GPUS_MAX];

	for (uint32_t p = 0; p < HR_GPUS_MAX; p++) {
		entry[p] = run->gpu[p].entry;
		threads[p] = run->gpu[p].entry_threads;
	}
	memset(run, 0, sizeof *run);
	run->config = &engine->config.pipeline[i];
	for (uint32_t p = 0; p < HR_GPUS_MAX; p++) {
		run->gpu[p].entry = entry[p];
		run->gpu[p].entry_threads = threads[p];
	}
}

/* Find the objects of one pipeline, as they are now: sinks that other pipelines make do not
 * count. */
static int find_objects(struct hr_engine *engine, uint32_t i)
{
	const hr_pipeline_set before = selected(engine);
	const bool keep_going = engine->keep_going;
	int err;

	hr_error_clear(&engine->error);
	reset_run(engine, i);
	select_runs(engine, 1u << i);
	engine->keep_going = false;
	err = hr_objects_up(engine);
	engine->keep_going = keep_going;
	select_runs(engine, before);
	return err;
}

/* ---- a plan */

/* The pipelines whose objects exist. Of the others only those that are wanted are an error. */
static int find_all(struct hr_provision *plan, hr_pipeline_set wanted, hr_pipeline_set *found)
{
	struct hr_engine *engine = plan->engine;

	*found = 0;
	for (uint32_t i = 0; i < engine->config.pipelines; i++) {
		const int err = plan->usable >> i & 1 ? find_objects(engine, i) : -ENODEV;

		if (!err)
			*found |= 1u << i;
		else if (wanted >> i & 1)
			return err;
	}
	hr_error_clear(&engine->error);
	return 0;
}

static hr_pipeline_set last_of(hr_pipeline_set set)
{
	return set ? 1u << (31 - __builtin_clz(set)) : 0;
}

/* Leave out one pipeline after the other, until the rest has room. */
static hr_pipeline_set choose_fitting(struct hr_engine *engine, hr_pipeline_set found,
				      hr_pipeline_set wanted)
{
	hr_pipeline_set set = found;
	int err;

	do {
		select_runs(engine, set);
		err = set ? hr_partition_up(engine) : 0;
		if (!err || set == wanted)
			break;
		hr_error_clear(&engine->error);
		set &= ~last_of(set & ~wanted);
	} while (set);
	return set;
}

/* Memory for these pipelines, whose objects were found one by one. */
static int allocate_selected(struct hr_provision *plan, hr_pipeline_set set)
{
	struct hr_engine *engine = plan->engine;
	int err;

	hr_error_clear(&engine->error);
	select_runs(engine, set);
	engine->up = HR_STAGE_OBJECTS;
	err = hr_engine_up_keeping(engine, HR_STAGE_MEMORY);
	if (err)
		hr_engine_down_to(engine, HR_STAGE_STORES);
	for (uint32_t i = 0; i < engine->config.pipelines; i++)
		if (!err && set >> i & 1)
			plan->run[i] = engine->run[i];
	plan->planned = err ? 0 : set;
	return err;
}

static void make_room(struct hr_engine *engine, hr_pipeline_set found)
{
	for (uint32_t i = 0; i < engine->config.pipelines; i++)
		if (found >> i & 1)
			engine->run[i].tiles += engine->run[i].tiles / 2 + 16;
}

/* The status does not show the tiles of the plan. */
static void reset_found(struct hr_engine *engine, hr_pipeline_set found)
{
	for (uint32_t i = 0; i < engine->config.pipelines; i++)
		if (found >> i & 1)
			reset_run(engine, i);
	select_runs(engine, 0);
}

int hr_provision_make(struct hr_provision *plan, hr_pipeline_set wanted)
{
	struct hr_engine *engine = plan->engine;
	hr_pipeline_set found, set;
	int err;

	err = find_all(plan, wanted, &found);
	if (err) {
		hr_error_log(&engine->error, HR_LOG_ERROR);
		return err;
	}
	plan->planned = 0;
	hr_engine_down_to(engine, HR_STAGE_STORES);
	make_room(engine, found);
	set = choose_fitting(engine, found, wanted);
	err = set ? allocate_selected(plan, set) : 0;
	if (err && err != -EINTR &&
	    set != wanted) /* the machine has less memory than the limits say */
		err = wanted ? allocate_selected(plan, wanted) : 0;
	reset_found(engine, found);
	return err;
}

/* ---- a start */

static bool fits(const struct hr_run *planned, const struct hr_run *run)
{
	bool same =
		run->sink_tile_bytes == planned->sink_tile_bytes && run->tiles <= planned->tiles;

	for (uint32_t s = 0; s < run->config->sources; s++)
		same &= run->source[s].tile_bytes == planned->source[s].tile_bytes &&
			run->source[s].verify.wanted == planned->source[s].verify.wanted;
	for (uint32_t k = 0; k < run->config->objects; k++)
		same &= run->object[k].used == planned->object[k].used &&
			run->object[k].bytes == planned->object[k].bytes;
	return same;
}

/* The objects of this start, and the memory of the plan, zeroed. */
static int lay_out(struct hr_provision *plan, uint32_t i)
{
	struct hr_engine *engine = plan->engine;
	struct hr_run *run = &engine->run[i];
	const bool selected_before = run->selected;
	int err = 0;

	plan->fresh = *run;
	*run = plan->run[i];
	run->selected = selected_before;
	memcpy(run->source, plan->fresh.source, sizeof run->source);
	memcpy(run->object, plan->fresh.object, sizeof run->object);
	run->tiles = run->cpu.tiles = plan->fresh.tiles;
	run->sink_bytes = plan->fresh.sink_bytes;
	for (uint32_t p = 0; !err && p < hr_run_gpus(run); p++)
		err = hr_layout_clear(hr_run_layout(run, p),
				      &engine->memory[hr_config_gpu(run->config, p)],
				      &engine->error);
	err = err ? err : hr_run_words_renew(engine, i);
	return err ? err : hr_tap_memory_renew(engine, i);
}

/* The stages `sinks` and `queues` for one run. */
static int raise_one(struct hr_engine *engine, uint32_t i)
{
	const hr_pipeline_set before = selected(engine);
	const bool keep_going = engine->keep_going;
	int err;

	select_runs(engine, 1u << i);
	engine->keep_going = false;
	err = hr_sinks_up(engine);
	if (!err && engine->run[i].outcome == HR_RUN_WAITING)
		err = hr_queues_up(engine);
	engine->keep_going = keep_going;
	engine->refused = false;
	select_runs(engine, before);
	return err;
}

int hr_provision_check(struct hr_provision *plan, uint32_t i)
{
	int err = find_objects(plan->engine, i);

	hr_error_clear(&plan->engine->error);
	if (!err && (!(plan->planned >> i & 1) || !fits(&plan->run[i], &plan->engine->run[i]))) {
		plan->planned &= ~(1u << i);
		err = -EAGAIN;
	}
	return err;
}

int hr_provision_start(struct hr_provision *plan, uint32_t i)
{
	struct hr_engine *engine = plan->engine;
	struct hr_run *run = &engine->run[i];
	int err;

	hr_unseal();
	err = find_objects(engine, i);
	if (!err && (!(plan->planned >> i & 1) || !fits(&plan->run[i], run))) {
		plan->planned &= ~(1u << i);
		return -EAGAIN;
	}
	if (!err)
		err = lay_out(plan, i);
	if (!err)
		err = hr_signals_pending() ? -EINTR : raise_one(engine, i);
	if (err == -EAGAIN) { /* the plan has more queue pairs than a controller creates */
		hr_provision_end(plan, i);
		plan->planned = 0;
		return err;
	}
	run->selected = true;
	if (err) {
		hr_provision_end(plan, i);
		hr_provision_refuse(plan, i, err);
	}
	return err;
}

void hr_provision_end(struct hr_provision *plan, uint32_t i)
{
	struct hr_engine *engine = plan->engine;
	struct hr_run *run = &engine->run[i];

	for (uint32_t p = 0; p < hr_run_gpus(run); p++)
		for (uint32_t d = 0; d < engine->config.ssds; d++)
			if (hr_run_wired(run) && hr_run_uses_ssd(run, d))
				hr_ssd_delete_qps_of(&engine->ssd[d], hr_run_layout(run, p));
	run->pipe = NULL;
	for (uint32_t p = 0; p < HR_GPUS_MAX; p++)
		run->gpu[p].access = NULL;
	hr_sinks_down(engine);
}

void hr_provision_refuse(struct hr_provision *plan, uint32_t i, int err)
{
	struct hr_engine *engine = plan->engine;
	struct hr_run *run = &engine->run[i];
	char text[96];

	if (err != -EINTR) {
		hr_fail(&engine->error, HR_ERROR_FAILED, err, "pipeline '%s': %s",
			run->config->name, hr_error_name(err, text, sizeof text));
		hr_error_log(&engine->error, HR_LOG_ERROR);
	}
	run->selected = true;
	run->outcome = err == -EINTR ? HR_RUN_INTERRUPTED : HR_RUN_FAILED;
	run->error = err;
	run->cause = engine->error;
	hr_error_clear(&engine->error);
}
