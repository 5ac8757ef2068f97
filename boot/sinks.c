/*
 * Stage `sinks`: the objects that pipelines write, created, or found where an earlier run left off.
 *
 * A sink carries a fingerprint of all that determines its contents as its tag. The same one on an
 * incomplete object: the run goes on after what is durable. The same one on a whole object: there
 * is nothing left to do. Anything else in the place: an error, unless the sink says replace.
 */
#include "boot/stages.h"

#include <errno.h>
#include <string.h>

#include "boot/log.h"
#include "gpu/op_user.h"
#include "nvme/status.h"

/* FNV-1a, 64 bits. */
static uint64_t mix(uint64_t hash, const void *data, size_t bytes)
{
	const uint8_t *byte = data;

	for (size_t i = 0; i < bytes; i++)
		hash = (hash ^ byte[i]) * 0x100000001b3u;
	return hash;
}

uint64_t hr_run_fingerprint(const struct hr_appliance *app, const struct hr_run *run)
{
	const struct hr_config_pipeline *p = run->config;
	uint64_t hash = mix(0xcbf29ce484222325u, p->name, strlen(p->name) + 1);

	hash = mix(hash, p->op->name, strlen(p->op->name) + 1);
	hash = mix(hash, &p->op->checksum, p->op->user ? sizeof p->op->checksum : 0);
	hash = mix(hash, p->op_args, p->op_args_bytes);
	for (uint32_t s = 0; s < p->sources; s++) {
		const struct hr_run_source *source = &run->source[s];

		hash = mix(hash, app->ssd[p->source[s].ssd].store.uuid, 16);
		hash = mix(hash, &source->id, sizeof source->id);
		hash = mix(hash, &source->bytes, sizeof source->bytes);
		hash = mix(hash, &source->tile_bytes, sizeof source->tile_bytes);
	}
	hash = mix(hash, &run->sink_tile_bytes, sizeof run->sink_tile_bytes);
	/* 0 is the tag of objects that no run writes. */
	return hash ? hash : 1;
}

/* A result is one over all tiles, and states are not saved: then what is there is made again. */
bool hr_run_resumes(const struct hr_run *run)
{
	return !run->config->op->user || !run->config->op->user->report;
}

/* Go on with a pending object of this very run. */
static int resume(struct hr_run *run, const struct hr_object *object)
{
	run->sink_id = object->id;
	run->first_tile = run->sink_tile_bytes ? object->durable_bytes / run->sink_tile_bytes : 0;
	if (run->first_tile > run->tiles)
		run->first_tile = run->tiles;
	run->durable_tiles = run->first_tile;
	if (!hr_run_resumes(run))
		run->first_tile = 0;
	return 0;
}

static int refuse(const struct hr_appliance *app, const struct hr_run *run, bool pending)
{
	const struct hr_config_object *sink = &run->config->sink;
	const char *ssd = app->config.ssd[sink->ssd].name;

	if (pending)
		hr_error("%s:%u: object '%s' on ssd '%s' is incomplete, and another run than this "
			 "began it; remove it with 'headrace store rm', or set replace = true",
			 app->config.file, sink->line, sink->object, ssd);
	else
		hr_error("%s:%u: object '%s' exists on ssd '%s'; remove it with 'headrace store "
			 "rm', "
			 "or set replace = true",
			 app->config.file, sink->line, sink->object, ssd);
	return -EEXIST;
}

static int create(struct hr_appliance *app, struct hr_run *run)
{
	const struct hr_config_object *sink = &run->config->sink;
	struct hr_object *object;
	char name[96];
	int err = hr_store_create(&app->ssd[sink->ssd].store, sink->object, run->sink_bytes,
				  run->fingerprint, sink->replace, &object);

	if (err) {
		hr_error("%s:%u: object '%s' of %llu bytes cannot be created on ssd '%s': %s",
			 app->config.file, sink->line, sink->object,
			 (unsigned long long)run->sink_bytes, app->config.ssd[sink->ssd].name,
			 hr_error_name(err, name, sizeof name));
		return err;
	}
	run->sink_id = object->id;
	return 0;
}

static int make_sink(struct hr_appliance *app, struct hr_run *run)
{
	const struct hr_config_object *sink = &run->config->sink;
	struct hr_store *store = &app->ssd[sink->ssd].store;
	struct hr_object *pending = hr_store_find_pending(store, sink->object);
	struct hr_object *whole = hr_store_find(store, sink->object);

	if (pending && pending->tag == run->fingerprint && pending->bytes == run->sink_bytes)
		return resume(run, pending);
	if (whole && whole->tag == run->fingerprint && !sink->replace) {
		run->sink_id = whole->id;
		run->durable_tiles = run->first_tile = run->tiles;
		run->outcome = HR_RUN_COMPLETE;
		return 0;
	}
	if ((pending || whole) && !sink->replace)
		return refuse(app, run, pending != NULL);
	return create(app, run);
}

static bool is_chained(const struct hr_run *run)
{
	for (uint32_t s = 0; s < run->config->sources; s++)
		if (run->source[s].from >= 0)
			return true;
	return false;
}

const char *hr_sink_prospect(const struct hr_appliance *app, const struct hr_run *run)
{
	const struct hr_config_object *sink = &run->config->sink;
	const struct hr_store *store = &app->ssd[sink->ssd].store;
	const struct hr_object *pending = hr_store_find_pending(store, sink->object);
	const struct hr_object *whole = hr_store_find(store, sink->object);
	const uint64_t mine = is_chained(run) ? 0 : hr_run_fingerprint(app, run);

	if (!pending && !whole)
		return "";
	if (pending && pending->tag == mine && pending->bytes == run->sink_bytes)
		return hr_run_resumes(run) ? "; goes on where an earlier run was cut short" : "";
	if (sink->replace)
		return "; takes the place of the one that is there";
	if (!mine) /* what an earlier pipeline is going to make decides */
		return "; one is there already";
	if (whole && whole->tag == mine)
		return "; is there already, whole: nothing to do";
	return "; 'run' will refuse: one is there that this pipeline did not make from these "
	       "sources ('headrace store rm', or replace = true)";
}

int hr_sinks_up(struct hr_appliance *app)
{
	for (uint32_t i = 0; i < app->config.pipelines; i++) {
		struct hr_run *run = &app->run[i];
		int err;

		if (!run->selected)
			continue;
		for (uint32_t s = 0; s < run->config->sources; s++)
			if (run->source[s].from >= 0)
				run->source[s].id = app->run[run->source[s].from].sink_id;
		run->fingerprint = hr_run_fingerprint(app, run);
		err = run->config->has_sink ? make_sink(app, run) : 0;
		if (err)
			return err;
	}
	return 0;
}
