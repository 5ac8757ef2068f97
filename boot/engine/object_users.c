/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/engine/object_users.h"

#include <string.h>

#include "config/derived.h"

static bool runs(const struct hr_run *run)
{
	return run->started_ns && !run->ended_ns && hr_run_wired(run);
}

/* It runs, or will run with the objects that it has found. */
static bool is_open(const struct hr_engine *engine, const struct hr_run *run)
{
	if (engine->resolves_late)
		return runs(run);
	return run->selected && run->outcome == HR_RUN_WAITING && !run->ended_ns;
}

bool hr_any_running(const struct hr_engine *engine)
{
	for (uint32_t i = 0; i < engine->config.pipelines; i++)
		if (runs(&engine->run[i]))
			return true;
	return false;
}

static bool reads(const struct hr_run *run, uint32_t d, uint64_t id)
{
	const struct hr_config_pipeline *p = run->config;

	for (uint32_t s = 0; s < hr_config_source_objects(p); s++)
		if (p->source[s].ssd == d && run->source[s].id == id)
			return true;
	for (uint32_t i = 0; i < p->objects; i++)
		if (run->object[i].used && p->object[i].ssd == d && run->object[i].id == id)
			return true;
	return false;
}

const struct hr_run *hr_run_reading(const struct hr_engine *engine, uint32_t d, uint64_t id)
{
	for (uint32_t i = 0; i < engine->config.pipelines; i++)
		if (is_open(engine, &engine->run[i]) && reads(&engine->run[i], d, id))
			return &engine->run[i];
	return NULL;
}

static bool changes(const struct hr_run *run, uint32_t d, uint64_t id)
{
	const struct hr_config_pipeline *p = run->config;

	for (uint32_t i = 0; i < p->objects; i++)
		if (run->object[i].used && p->object[i].writes && !run->object[i].created &&
		    p->object[i].ssd == d && run->object[i].id == id)
			return true;
	return false;
}

const struct hr_run *hr_run_changing(const struct hr_engine *engine, uint32_t d, uint64_t id,
				     bool running)
{
	for (uint32_t i = 0; i < engine->config.pipelines; i++) {
		const struct hr_run *run = &engine->run[i];

		if ((running ? runs(run) : is_open(engine, run)) && changes(run, d, id))
			return run;
	}
	return NULL;
}

static bool makes(const struct hr_run *run, uint32_t d, const char *name)
{
	const struct hr_config_pipeline *p = run->config;

	if (p->has_sink && run->sink_id && p->sink.ssd == d && strcmp(p->sink.object, name) == 0)
		return true;
	for (uint32_t i = 0; i < p->objects; i++)
		if (run->object[i].created && p->object[i].ssd == d &&
		    strcmp(p->object[i].object, name) == 0)
			return true;
	return false;
}

const struct hr_run *hr_run_making(const struct hr_engine *engine, uint32_t d, const char *name)
{
	for (uint32_t i = 0; i < engine->config.pipelines; i++)
		if (is_open(engine, &engine->run[i]) && makes(&engine->run[i], d, name))
			return &engine->run[i];
	return NULL;
}

void hr_run_extent(const struct hr_engine *engine, uint32_t d, uint64_t id,
		   struct hr_extent *extent)
{
	const struct hr_ssd *ssd = &engine->ssd[d];
	const struct hr_store_object *object = hr_store_find_id(&ssd->store, id);

	extent->id = id;
	extent->lba = object->offset >> ssd->ns.lba_shift;
	extent->bytes = object->bytes;
	extent->capacity = object->capacity;
	extent->nsid = ssd->ns.nsid;
	extent->lba_shift = ssd->ns.lba_shift;
	extent->ssd = d;
	extent->chunk_bytes = ssd->chunk_bytes;
}
