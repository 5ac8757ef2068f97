/*
 * Stage `objects`: find what pipelines read, and with it how many tiles there are and what they
 * write. Every mistake is reported, with its line, before the stage fails.
 */
#include "boot/engine/stage_objects.h"

#include <errno.h>
#include <string.h>

#include "boot/engine/checksums.h"
#include "boot/engine/mistake.h"
#include "boot/engine/refuse.h"
#include "config/nearest.h"

#define NEAR_MAX 1024u

static uint32_t row_bytes(const struct hr_config_pipeline *p, uint32_t s)
{
	return hr_config_tile_bytes(p, s) / hr_config_tile_rows(p);
}

/* The earlier pipeline of this run that writes the object, or -1. */
static int find_writer(const struct hr_appliance *app, uint32_t run,
		       const struct hr_config_object *object)
{
	for (uint32_t i = 0; i < run; i++) {
		const struct hr_config_pipeline *p = app->run[i].config;

		if (app->run[i].selected && p->has_sink && p->sink.ssd == object->ssd &&
		    strcmp(p->sink.object, object->object) == 0)
			return (int)i;
	}
	return -1;
}

static int no_object(const struct hr_appliance *app, const struct hr_config_object *object)
{
	const struct hr_store *store = &app->ssd[object->ssd].store;
	const char *ssd = app->config.ssd[object->ssd].name, *near;
	const char *known[NEAR_MAX];
	uint32_t count = store->count < NEAR_MAX ? store->count : NEAR_MAX;

	if (hr_store_find_pending(store, object->object))
		return hr_mistake_at(
			app, object->line,
			"object '%s' on ssd '%s' is incomplete: the run that writes it "
			"has not finished",
			object->object, ssd);
	for (uint32_t i = 0; i < count; i++)
		known[i] = store->object[i].name;
	near = hr_nearest(object->object, known, count);
	return hr_mistake_at(app, object->line, "there is no object '%s' on ssd '%s'%s%s%s",
			     object->object, ssd, near ? "; did you mean '" : "", near ? near : "",
			     near ? "'?" : "");
}

static int no_store(const struct hr_appliance *app, unsigned line, uint32_t d)
{
	const struct hr_transport *t = &app->ssd[d].transport;

	return hr_mistake_at(app, line, "ssd '%s' (%s) %s", app->config.ssd[d].name, t->name,
			     t->keeps_no_data ? "keeps no data, so it has no objects; only "
						"'headrace bench' can use it"
					      : "has no object store; make one with 'headrace "
						"store format'");
}

static int find_source(struct hr_appliance *app, uint32_t i, uint32_t s)
{
	struct hr_run *run = &app->run[i];
	const struct hr_config_object *wanted = &run->config->source[s];
	const struct hr_ssd *ssd = &app->ssd[wanted->ssd];
	struct hr_run_source *source = &run->source[s];
	const struct hr_object *object;

	if (!ssd->has_store)
		return no_store(app, wanted->line, wanted->ssd);
	source->from = find_writer(app, i, wanted);
	if (source->from >= 0) {
		source->bytes = app->run[source->from].sink_bytes;
		return hr_checksums_want(app, run, s, NULL);
	}
	object = hr_store_find(&ssd->store, wanted->object);
	if (!object)
		return no_object(app, wanted);
	source->id = object->id;
	source->bytes = object->bytes;
	return hr_checksums_want(app, run, s, object);
}

/* Whole blocks on the disks they are on; queues wide enough for one tile. */
static int check_tile(const struct hr_appliance *app, const struct hr_run *run)
{
	const struct hr_config_pipeline *p = run->config;
	uint32_t commands[HR_SSDS_MAX] = { 0 };

	for (uint32_t s = 0; s < p->sources; s++) {
		const struct hr_ssd *ssd = &app->ssd[p->source[s].ssd];

		if (run->source[s].tile_bytes & ((1u << ssd->ns.lba_shift) - 1))
			return hr_mistake_at(app, p->tile_line,
					     "pipeline '%s': a tile of source '%s' is %u bytes, "
					     "expected whole blocks of %u bytes",
					     p->name, p->source[s].object,
					     run->source[s].tile_bytes, 1u << ssd->ns.lba_shift);
		commands[p->source[s].ssd] +=
			hr_chunk_count(run->source[s].tile_bytes, ssd->chunk_bytes);
	}
	if (p->has_sink) {
		const struct hr_ssd *ssd = &app->ssd[p->sink.ssd];
		uint32_t written = hr_chunk_count(run->sink_tile_bytes, ssd->chunk_bytes);

		if (run->sink_tile_bytes & ((1u << ssd->ns.lba_shift) - 1))
			return hr_mistake_at(app, p->tile_line,
					     "pipeline '%s': the output of a tile is %u bytes, "
					     "expected whole blocks of %u bytes",
					     p->name, run->sink_tile_bytes,
					     1u << ssd->ns.lba_shift);
		if (written > commands[p->sink.ssd])
			commands[p->sink.ssd] = written;
	}
	for (uint32_t d = 0; d < app->config.ssds; d++)
		if (commands[d] > app->ssd[d].queue_entries - 1)
			return hr_mistake_at(app, p->tile_line,
					     "pipeline '%s': one tile takes %u commands of at most "
					     "%u bytes, but queues of ssd '%s' have room for %u",
					     p->name, commands[d], app->ssd[d].chunk_bytes,
					     app->config.ssd[d].name,
					     app->ssd[d].queue_entries - 1);
	return 0;
}

/* One tile fits the queues of all its ssds, as check_tile() will count. */
static bool tile_fits(const struct hr_appliance *app, const struct hr_config_pipeline *p)
{
	uint32_t commands[HR_SSDS_MAX] = { 0 }, written = 0;

	for (uint32_t s = 0; s < p->sources; s++)
		commands[p->source[s].ssd] += hr_chunk_count(
			hr_config_tile_bytes(p, s), app->ssd[p->source[s].ssd].chunk_bytes);
	if (p->has_sink)
		written = hr_chunk_count(hr_config_sink_tile_bytes(p),
					 app->ssd[p->sink.ssd].chunk_bytes);
	if (p->has_sink && written > commands[p->sink.ssd])
		commands[p->sink.ssd] = written;
	for (uint32_t d = 0; d < app->config.ssds; d++)
		if (commands[d] && commands[d] > app->ssd[d].queue_entries - 1)
			return false;
	return true;
}

/* A tile that the configuration leaves open is halved until the queues take it. */
static void shrink_tile(const struct hr_appliance *app, struct hr_config_pipeline *p)
{
	const uint64_t step = hr_config_tile_step(p);

	while (p->tile_chosen && p->tile_bytes > step && !tile_fits(app, p)) {
		const uint64_t half = p->tile_bytes / 2 / step * step;

		p->tile_bytes = (uint32_t)(half ? half : step);
	}
}

/* Sources are columns of one table: whole rows, and the same number of them in each. */
static int count_tiles(const struct hr_appliance *app, struct hr_run *run)
{
	const struct hr_config_pipeline *p = run->config;
	uint64_t tile_rows = hr_config_tile_rows(p);
	uint64_t rows = run->source[0].bytes / row_bytes(p, 0);

	for (uint32_t s = 0; s < p->sources; s++) {
		uint64_t bytes = run->source[s].bytes;
		uint32_t row = row_bytes(p, s);

		if (bytes % row)
			return hr_mistake_at(
				app, p->source[s].line,
				"object '%s' has %llu bytes, expected whole rows of %u "
				"bytes for operator %s",
				p->source[s].object, (unsigned long long)bytes, row, p->op->name);
		if (bytes / row != rows)
			return hr_mistake_at(
				app, p->source[s].line,
				"object '%s' has %llu rows, but '%s' has %llu; expected "
				"the same number in all sources",
				p->source[s].object, (unsigned long long)(bytes / row),
				p->source[0].object, (unsigned long long)rows);
		run->source[s].tile_bytes = (uint32_t)tile_rows * row;
	}
	run->tiles = (rows + tile_rows - 1) / tile_rows;
	run->sink_tile_bytes = hr_config_sink_tile_bytes(p);
	if (p->has_sink)
		run->sink_bytes = (uint64_t)((unsigned __int128)run->source[0].bytes *
					     p->op->out_num / p->op->out_den);
	return check_tile(app, run);
}

static void list_ssds(struct hr_run *run)
{
	run->ssds = 0;
	for (uint32_t s = 0; s < run->config->sources; s++) {
		uint32_t q = 0;

		while (q < run->ssds && run->ssd[q] != run->config->source[s].ssd)
			q++;
		if (q == run->ssds)
			run->ssd[run->ssds++] = run->config->source[s].ssd;
		run->source[s].queue = q;
	}
}

static int find_objects(struct hr_appliance *app, uint32_t i)
{
	struct hr_run *run = &app->run[i];
	const struct hr_config_pipeline *p = run->config;
	int err = 0;

	for (uint32_t s = 0; s < p->sources; s++) {
		int failed = find_source(app, i, s);

		err = err ? err : failed;
	}
	if (p->has_sink && !app->ssd[p->sink.ssd].has_store) {
		int failed = no_store(app, p->sink.line, p->sink.ssd);

		err = err ? err : failed;
	}
	if (err)
		return err;
	list_ssds(run);
	shrink_tile(app, &app->config.pipeline[i]);
	return count_tiles(app, run);
}

int hr_objects_up(struct hr_appliance *app)
{
	int err = 0;

	for (uint32_t i = 0; i < app->config.pipelines; i++) {
		int failed = app->run[i].selected ? find_objects(app, i) : 0;

		if (failed && app->keep_going)
			hr_refuse_run(app, i, failed);
		err = err ? err : failed;
	}
	return app->keep_going && hr_any_selected(app) ? 0 : err;
}
