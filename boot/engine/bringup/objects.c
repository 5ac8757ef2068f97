/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stage `objects`: find the objects that pipelines read, and derive the number of tiles and the
 * sizes of sinks. Every error is reported, with its line, before the stage fails.
 */
#include "boot/engine/bringup/stage.h"

#include <errno.h>
#include <string.h>

#include "boot/engine/objects/shards.h"
#include "boot/engine/objects/checksums.h"
#include "boot/engine/exclude.h"
#include "boot/engine/objects/new_objects.h"
#include "config/tile.h"
#include "config/base/text.h"
#include "config/derived.h"

#define NEAR_MAX 1024u

static uint32_t row_bytes(const struct hr_config_pipeline *p, uint32_t s)
{
	return hr_config_tile_bytes(p, s) / hr_config_tile_rows(p);
}

/* The last of the earlier pipelines of this configuration that write the object, or -1. */
static int find_writer(const struct hr_engine *engine, uint32_t run,
		       const struct hr_config_object *object)
{
	int writer = -1;

	for (uint32_t i = 0; i < run; i++) {
		const struct hr_config_pipeline *p = engine->run[i].config;
		const struct hr_config_object *written;

		for (uint32_t k = 0; (written = hr_config_writes(p, k)) != NULL; k++)
			if (engine->run[i].selected && written->ssd == object->ssd &&
			    strcmp(written->object, object->object) == 0)
				writer = (int)i;
	}
	return writer;
}

static int no_object(struct hr_engine *engine, const struct hr_config_object *object)
{
	const struct hr_store *store = &engine->ssd[object->ssd].store;
	const char *ssd = engine->config.ssd[object->ssd].name, *near;
	const char *known[NEAR_MAX];
	uint32_t count = store->count < NEAR_MAX ? store->count : NEAR_MAX;

	if (hr_store_find_pending(store, object->object))
		return hr_error_add(
			&engine->error, HR_ERROR_USAGE, -EINVAL,
			"%s:%u: object '%s' on ssd '%s' is incomplete: the run that writes it "
			"has not finished",
			engine->config.file, object->line, object->object, ssd);
	for (uint32_t i = 0; i < count; i++)
		known[i] = store->object[i].name;
	near = hr_nearest(object->object, known, count);
	return hr_error_add(&engine->error, HR_ERROR_USAGE, -EINVAL,
			    "%s:%u: there is no object '%s' on ssd '%s'%s%s%s", engine->config.file,
			    object->line, object->object, ssd, near ? "; did you mean '" : "",
			    near ? near : "", near ? "'?" : "");
}

static int no_store(struct hr_engine *engine, unsigned line, uint32_t d)
{
	const struct hr_transport *t = &engine->ssd[d].transport;

	return hr_error_add(&engine->error, HR_ERROR_USAGE, -EINVAL, "%s:%u: ssd '%s' (%s) %s",
			    engine->config.file, line, engine->config.ssd[d].name, t->name,
			    t->keeps_no_data ? "keeps no data, so it has no objects; only "
					       "'headrace bench' can use it"
					     : "has no object store; make one with 'headrace "
					       "store format'");
}

static int find_source(struct hr_engine *engine, uint32_t i, uint32_t s)
{
	struct hr_run *run = &engine->run[i];
	const struct hr_config_object *wanted = &run->config->source[s];
	const struct hr_ssd *ssd = &engine->ssd[wanted->ssd];
	struct hr_run_source *source = &run->source[s];
	const struct hr_store_object *object;
	const int maker = hr_run_creator_of(engine, i, wanted);

	if (!ssd->has_store)
		return no_store(engine, wanted->line, wanted->ssd);
	source->writer = find_writer(engine, i, wanted);
	if (maker >= 0) {
		hr_run_set_source_of(run, s, &engine->run[maker]);
		return hr_run_check_shard(engine, run, s) ? -EINVAL
							  : hr_checksums_want(engine, run, s, NULL);
	}
	object = hr_store_find(&ssd->store, wanted->object);
	if (!object)
		return no_object(engine, wanted);
	source->id = object->id;
	hr_run_set_source(run, s, object);
	return hr_run_check_shard(engine, run, s) ? -EINVAL
						  : hr_checksums_want(engine, run, s, object);
}

/* The first ssd whose queues have no room for the commands of one tile, or -1; their number. */
static int find_crowded(const struct hr_engine *engine, const struct hr_config_pipeline *p,
			uint32_t *number)
{
	uint32_t commands[HR_SSDS_MAX] = { 0 };

	for (uint32_t s = 0; s < hr_config_source_objects(p); s++)
		commands[p->source[s].ssd] += hr_chunk_count(
			hr_config_tile_bytes(p, s), engine->ssd[p->source[s].ssd].chunk_bytes);
	if (p->has_sink) {
		const uint32_t written = hr_chunk_count(hr_config_sink_tile_bytes(p),
							engine->ssd[p->sink.ssd].chunk_bytes);

		if (written > commands[p->sink.ssd])
			commands[p->sink.ssd] = written;
	}
	for (uint32_t d = 0; d < engine->config.ssds; d++) {
		*number = commands[d];
		if (commands[d] > engine->ssd[d].queue_entries - 1)
			return (int)d;
	}
	return -1;
}

/* Tiles must be whole blocks of their disks, and a queue must have room for the commands of one
 * tile. */
static int check_tile(struct hr_engine *engine, const struct hr_run *run)
{
	const struct hr_config_pipeline *p = run->config;
	uint32_t commands;
	int d;

	for (uint32_t s = 0; s < hr_config_source_objects(p); s++) {
		const struct hr_ssd *ssd = &engine->ssd[p->source[s].ssd];

		if (run->source[s].tile_bytes & ((1u << ssd->ns.lba_shift) - 1))
			return hr_error_add(
				&engine->error, HR_ERROR_USAGE, -EINVAL,
				"%s:%u: pipeline '%s': a tile of source '%s' is %u bytes, "
				"expected whole blocks of %u bytes",
				engine->config.file, p->tile_line, p->name, p->source[s].object,
				run->source[s].tile_bytes, 1u << ssd->ns.lba_shift);
	}
	if (p->has_sink &&
	    run->sink_tile_bytes & ((1u << engine->ssd[p->sink.ssd].ns.lba_shift) - 1))
		return hr_error_add(&engine->error, HR_ERROR_USAGE, -EINVAL,
				    "%s:%u: pipeline '%s': the output of a tile is %u bytes, "
				    "expected whole blocks of %u bytes",
				    engine->config.file, p->tile_line, p->name,
				    run->sink_tile_bytes,
				    1u << engine->ssd[p->sink.ssd].ns.lba_shift);
	d = find_crowded(engine, p, &commands);
	if (d >= 0)
		return hr_error_add(&engine->error, HR_ERROR_USAGE, -EINVAL,
				    "%s:%u: pipeline '%s': one tile takes %u commands of at most "
				    "%u bytes, but queues of ssd '%s' have room for %u",
				    engine->config.file, p->tile_line, p->name, commands,
				    engine->ssd[d].chunk_bytes, engine->config.ssd[d].name,
				    engine->ssd[d].queue_entries - 1);
	return 0;
}

/* Halve a tile size that the configuration leaves open, which is a multiple of the step, until it fits
 * the queues. */
static void shrink_tile(const struct hr_engine *engine, struct hr_config_pipeline *p)
{
	const uint64_t step = hr_config_tile_step(p);
	uint32_t commands;

	while (p->tile_chosen && p->tile_bytes > step && find_crowded(engine, p, &commands) >= 0)
		p->tile_bytes = (uint32_t)(p->tile_bytes / 2 / step * step);
}

/* Sources are columns of one table: they have whole rows, and the same number of rows. */
static int count_tiles(struct hr_engine *engine, struct hr_run *run)
{
	const struct hr_config_pipeline *p = run->config;
	uint64_t tile_rows = hr_config_tile_rows(p);
	uint64_t rows = run->source[0].bytes / row_bytes(p, 0);

	for (uint32_t s = 0; s < p->sources; s++) {
		uint64_t bytes = run->source[s].bytes;
		uint32_t row = row_bytes(p, s);

		if (bytes % row)
			return hr_error_add(
				&engine->error, HR_ERROR_USAGE, -EINVAL,
				"%s:%u: object '%s' has %llu bytes, expected whole rows of %u "
				"bytes for operator %s",
				engine->config.file, p->source[s].line, p->source[s].object,
				(unsigned long long)bytes, row, p->op->name);
		if (bytes / row != rows)
			return hr_error_add(
				&engine->error, HR_ERROR_USAGE, -EINVAL,
				"%s:%u: object '%s' has %llu rows, but '%s' has %llu; expected "
				"the same number in all sources",
				engine->config.file, p->source[s].line, p->source[s].object,
				(unsigned long long)(bytes / row), p->source[0].object,
				(unsigned long long)rows);
		run->source[s].tile_bytes = (uint32_t)tile_rows * row;
	}
	run->tiles = (rows + tile_rows - 1) / tile_rows;
	run->sink_tile_bytes = hr_config_sink_tile_bytes(p);
	if (hr_config_has_output(p))
		run->sink_bytes = (uint64_t)((unsigned __int128)run->source[0].bytes *
					     p->op->out_num / p->op->out_den);
	hr_run_set_tiles(run);
	return check_tile(engine, run);
}

/* Index of an ssd in run->ssd, which gets it if it has not. */
static uint32_t list_ssd(struct hr_run *run, uint32_t ssd)
{
	uint32_t q = 0;

	while (q < run->ssds && run->ssd[q] != ssd)
		q++;
	if (q == run->ssds)
		run->ssd[run->ssds++] = ssd;
	return q;
}

static void list_ssds(struct hr_run *run)
{
	run->ssds = 0;
	for (uint32_t s = 0; s < hr_config_source_objects(run->config); s++)
		run->source[s].queue = list_ssd(run, run->config->source[s].ssd);
}

/* ---- objects of access operators */

static int find_object(struct hr_engine *engine, uint32_t i, uint32_t k)
{
	const struct hr_config_object *wanted = &engine->run[i].config->object[k];
	struct hr_run_object *to = &engine->run[i].object[k];
	const struct hr_ssd *ssd = &engine->ssd[wanted->ssd];
	const int maker = hr_run_creator_of(engine, i, wanted);
	const struct hr_store_object *object;

	*to = (struct hr_run_object){ .writer = -1 };
	if (!wanted->object[0])
		return 0;
	to->used = true;
	if (!ssd->has_store)
		return no_store(engine, wanted->line, wanted->ssd);
	to->bytes = wanted->bytes;
	if (wanted->bytes)
		return 0;
	to->writer = find_writer(engine, i, wanted);
	if (maker >= 0) {
		hr_run_object_set_of(to, &engine->run[maker], wanted);
		return hr_checksums_want_object(engine, &engine->run[i], k, NULL);
	}
	object = hr_store_find(&ssd->store, wanted->object);
	if (!object)
		return no_object(engine, wanted);
	to->id = object->id;
	hr_run_object_set(to, object);
	return hr_checksums_want_object(engine, &engine->run[i], k, object);
}

/* Context of the report of a mistake in the length of an object. */
struct complaint {
	struct hr_engine *engine;
	const struct hr_run *run;
	bool made;
};

static void note_object_complaint(void *to, unsigned object, const char *text)
{
	struct complaint *c = to;
	const struct hr_config_pipeline *p = c->run->config;
	const struct hr_config_object *o = &p->object[object < p->objects ? object : 0];

	c->made = true;
	hr_error_add(&c->engine->error, HR_ERROR_USAGE, -EINVAL,
		     "%s:%u: object '%s' on ssd '%s', %llu bytes, as '%s' of operator %s: %s",
		     c->engine->config.file, o->line, o->object, c->engine->config.ssd[o->ssd].name,
		     (unsigned long long)hr_run_object_all(&c->run->object[o - p->object]),
		     p->op->object[o - p->object].name, p->op->name, text);
}

/* The operator knows which lengths its objects can have. */
static int check_lengths(struct hr_engine *engine, const struct hr_run *run)
{
	const struct hr_config_pipeline *p = run->config;
	struct complaint to = { engine, run, false };
	uint64_t bytes[HR_OBJECTS_MAX] = { 0 };
	int err;

	for (uint32_t k = 0; k < p->objects; k++)
		bytes[k] = hr_run_object_all(&run->object[k]);
	err = p->op->check ? p->op->check(p->op_args, bytes, note_object_complaint, &to) : 0;
	if (err && !to.made)
		note_object_complaint(&to, 0, "the operator does not accept its length");
	return err || to.made ? -EINVAL : 0;
}

/* The distinct ssds of all objects. */
static void list_object_ssds(struct hr_run *run)
{
	run->ssds = 0;
	for (uint32_t k = 0; k < run->config->objects; k++)
		if (run->object[k].used)
			run->object[k].queue = list_ssd(run, run->config->object[k].ssd);
}

static int find_access(struct hr_engine *engine, uint32_t i)
{
	struct hr_run *run = &engine->run[i];
	int err = 0;

	for (uint32_t k = 0; k < run->config->objects; k++) {
		const int failed = find_object(engine, i, k);

		err = err ? err : failed;
	}
	if (!err)
		err = hr_access_divide(engine, run);
	if (err)
		return err;
	list_object_ssds(run);
	return check_lengths(engine, run);
}

/* The source of a run with a feed, whose configuration has checked its length. */
static void set_feed(struct hr_run *run)
{
	run->source[0] = (struct hr_run_source){ .bytes = run->config->feed.bytes,
						 .writer = -1,
						 .verify.check = HR_SOURCE_NO_CHECKSUM };
}

static int find_objects(struct hr_engine *engine, uint32_t i)
{
	struct hr_run *run = &engine->run[i];
	const struct hr_config_pipeline *p = run->config;
	int err = 0;

	if (p->objects)
		return find_access(engine, i);
	if (hr_config_has_feed(p))
		set_feed(run);
	for (uint32_t s = 0; s < hr_config_source_objects(p); s++) {
		int failed = find_source(engine, i, s);

		err = err ? err : failed;
	}
	if (p->has_sink && !engine->ssd[p->sink.ssd].has_store) {
		int failed = no_store(engine, p->sink.line, p->sink.ssd);

		err = err ? err : failed;
	}
	if (err)
		return err;
	list_ssds(run);
	shrink_tile(engine, &engine->config.pipeline[i]);
	return count_tiles(engine, run);
}

/* The pipeline starts when the object comes, or another pipeline of the configuration makes it. */
static bool may_come(const struct hr_engine *engine, uint32_t i,
		     const struct hr_config_object *object)
{
	const struct hr_config_when *when = &engine->config.pipeline[i].when;
	bool may = when->kind == HR_WHEN_OBJECT && when->object_ssd == object->ssd &&
		   strcmp(when->text, object->object) == 0;

	for (uint32_t j = 0; j < engine->config.pipelines; j++)
		may |= j != i && hr_config_creates_name(&engine->config.pipeline[j], object->ssd,
							object->object);
	return may;
}

/* An object that the pipeline reads, and that exists only later; NULL: there is none. */
static const struct hr_config_object *awaited(const struct hr_engine *engine, uint32_t i)
{
	const struct hr_config_pipeline *p = &engine->config.pipeline[i];
	const struct hr_config_object *object;

	for (uint32_t k = 0; (object = hr_config_reads(p, k)) != NULL; k++) {
		const struct hr_ssd *ssd = &engine->ssd[object->ssd];

		if (ssd->has_store && !hr_store_find(&ssd->store, object->object) &&
		    hr_run_creator_of(engine, i, object) < 0 &&
		    !hr_config_creates_name(p, object->ssd, object->object) &&
		    may_come(engine, i, object))
			return object;
	}
	return NULL;
}

int hr_objects_up(struct hr_engine *engine)
{
	const bool later = engine->only_checks && hr_config_repeats(&engine->config);
	int err = 0;

	for (uint32_t i = 0; later && i < engine->config.pipelines; i++) {
		engine->run[i].awaits = engine->run[i].selected ? awaited(engine, i) : NULL;
		engine->run[i].selected &= !engine->run[i].awaits;
	}

	for (uint32_t i = 0; i < engine->config.pipelines; i++) {
		int failed = engine->run[i].selected ? find_objects(engine, i) : 0;

		if (failed && engine->keep_going)
			hr_exclude_run(engine, i, failed);
		err = err ? err : failed;
	}
	return engine->keep_going && hr_any_selected(engine) ? 0 : err;
}
