/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stage `sinks`: create the objects that pipelines write, or find the ones that an earlier run has
 * left incomplete.
 *
 * The tag of a sink is a fingerprint of all that determines its contents. An incomplete object with
 * the same tag: the run resumes after its durable prefix. A complete object with the same tag:
 * there is nothing to do. Any other object of that name is an error, unless the sink has replace.
 *
 * All sinks are checked in a rehearsal, on copies of the object maps, before any is created;
 * `check` does the same. Sinks that were created for runs that never start are removed again.
 *
 * The tag also tells whether an incomplete object has the checksum of its durable prefix.
 */
#include "boot/engine/bringup/sinks.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "boot/engine/objects/shards.h"
#include "boot/engine/objects/checksums.h"
#include "boot/engine/exclude.h"
#include "boot/engine/remote/remote.h"
#include "boot/engine/objects/new_objects.h"
#include "config/base/bytes.h"
#include "config/base/text.h"
#include "config/derived.h"
#include "config/base/log.h"
#include "boot/engine/devices/ssd_store.h"
#include "gpu/ops/user.h"
#include "nvme/queue/status.h"

uint64_t hr_run_fingerprint(const struct hr_engine *engine, const struct hr_run *run)
{
	const struct hr_config_pipeline *p = run->config;
	const uint32_t code = hr_op_user_checksum(p->op);
	uint64_t hash = hr_hash(HR_HASH_BEGIN, p->name, strlen(p->name) + 1);

	hash = hr_hash(hash, p->op->name, strlen(p->op->name) + 1);
	hash = hr_hash(hash, &code, hr_op_built_in(p->op) ? 0 : sizeof code);
	hash = hr_hash(hash, p->op_args, p->op_args_bytes);
	hash = hr_hash(hash, p->feed.name, hr_config_has_feed(p) ? strlen(p->feed.name) + 1 : 0);
	for (uint32_t s = 0; s < p->sources; s++) {
		const struct hr_run_source *source = &run->source[s];

		hash = hr_hash(hash, engine->ssd[p->source[s].ssd].store.uuid,
			       hr_config_has_feed(p) ? 0 : 16);
		hash = hr_hash(hash, &source->id, sizeof source->id);
		hash = hr_hash(hash, &source->bytes, sizeof source->bytes);
		hash = hr_hash(hash, &source->tile_bytes, sizeof source->tile_bytes);
	}
	for (uint32_t i = 0; i < p->objects; i++) {
		const struct hr_run_object *object = &run->object[i];

		hash = hr_hash(hash, engine->ssd[p->object[i].ssd].store.uuid, 16);
		hash = hr_hash(hash, &object->bytes, sizeof object->bytes);
		hash = hr_hash(hash, &object->id, p->object[i].bytes ? 0 : sizeof object->id);
	}
	hash = hr_hash(hash, &run->sink_tile_bytes, sizeof run->sink_tile_bytes);
	if (hr_run_is_divided(run)) {
		const uint64_t part[] = { run->part, run->parts, hr_run_first_tile(run),
					  hr_run_end_tile(run), run->data_set };

		hash = hr_hash(hash, part, sizeof part);
	}
	return hash;
}

/* The identity of a source's data, which does not depend on the ssd or the part. */
static uint64_t set_of(const struct hr_engine *engine, const struct hr_run *run, uint32_t s)
{
	const struct hr_config_object *config = &run->config->source[s];
	const struct hr_run_source *source = &run->source[s];
	const struct hr_store_object *object =
		hr_store_find_id(&engine->ssd[config->ssd].store, source->id);

	if (source->writer >= 0 && engine->run[source->writer].selected)
		return engine->run[source->writer].data_set;
	if (source->is_shard)
		return source->shard.set;
	return object && object->flags & HR_OBJECT_HAS_CRC ? object->crc : 0;
}

/* hr_run.set of a divided run; 0 of others. Those of the runs before are set. */
static uint64_t set_of_run(const struct hr_engine *engine, const struct hr_run *run)
{
	const struct hr_config_pipeline *p = run->config;
	const uint32_t code = hr_op_built_in(p->op) ? 0 : hr_op_user_checksum(p->op);
	uint64_t hash = hr_hash(HR_HASH_BEGIN, p->name, strlen(p->name) + 1);

	if (!hr_run_is_divided(run))
		return 0;
	hash = hr_hash(hash, p->op->name, strlen(p->op->name) + 1);
	hash = hr_hash(hash, &code, sizeof code);
	hash = hr_hash(hash, p->op_args, p->op_args_bytes);
	for (uint32_t s = 0; s < p->sources; s++) {
		const uint64_t source[] = { set_of(engine, run, s), run->source[s].bytes,
					    run->source[s].tile_bytes };

		hash = hr_hash(hash, source, sizeof source);
	}
	for (uint32_t k = 0; k < p->objects; k++) {
		const uint64_t object[] = { hr_run_object_data_set(engine, run, k),
					    hr_run_object_all(&run->object[k]) };

		hash = hr_hash(hash, object, sizeof object);
	}
	return hash;
}

static bool is_mine(const struct hr_store_object *object, uint64_t fingerprint)
{
	return object && (object->tag == hr_sink_tag(fingerprint, false) ||
			  object->tag == hr_sink_tag(fingerprint, true));
}

/* The number of the first tile that is not durable in an incomplete sink. */
static uint64_t durable_tiles(const struct hr_run *run, const struct hr_store_object *object)
{
	const uint64_t end = hr_run_end_tile(run);
	uint64_t tiles = hr_run_first_tile(run);

	if (object->durable_bytes == object->bytes) /* the last tile may be shorter */
		return end;
	tiles += run->sink_tile_bytes ? object->durable_bytes / run->sink_tile_bytes : 0;
	return tiles < end ? tiles : end;
}

/* Resume an incomplete object of this run, and continue the checksum of its durable prefix. */
static int resume(struct hr_run *run, const struct hr_store_object *object)
{
	uint64_t bytes;

	run->sink_plan = HR_SINK_RESUME;
	run->sink_id = object->id;
	run->durable_tiles = run->first_tile = durable_tiles(run, object);
	bytes = hr_run_sink_prefix(run, run->first_tile);
	if (!run->config->sink.checksum || !bytes)
		return 0;
	run->sink_summed_tiles = run->first_tile;
	run->sink_crc = object->crc;
	run->sink_unsummed = object->tag != hr_sink_tag(run->fingerprint, true) ||
			     bytes != object->durable_bytes;
	return 0;
}

/*
 * Read an incomplete object without checksum again, because the sink needs a checksum, and later
 * damage must be detectable. Such objects come from versions or configurations without checksums.
 */
static int sum_prefix(struct hr_engine *engine, struct hr_run *run)
{
	const struct hr_config_object *sink = &run->config->sink;
	const struct hr_store_object *object =
		hr_store_find_id(&engine->ssd[sink->ssd].store, run->sink_id);
	const uint64_t bytes = hr_run_sink_prefix(run, run->first_tile);
	int err;

	if (!object || !run->sink_unsummed)
		return 0;
	hr_warn("pipeline '%s': the incomplete object '%s' on ssd '%s' has no checksum of its "
		"first %llu bytes: they are read again",
		run->config->name, sink->object, engine->config.ssd[sink->ssd].name,
		(unsigned long long)bytes);
	err = hr_checksum_read(engine, sink->ssd, object, bytes, &run->sink_crc, &engine->error);
	hr_error_context(&engine->error, "pipeline '%s': object '%s' on ssd '%s'",
			 run->config->name, sink->object, engine->config.ssd[sink->ssd].name);
	return err;
}

static int prepare_sink(struct hr_engine *engine, struct hr_run *run)
{
	if (run->config->objects)
		return hr_new_objects_zero(engine, run);
	return run->sink_plan == HR_SINK_RESUME ? sum_prefix(engine, run) : 0;
}

/* Read and write objects before the runs start. An error of a disk stops only the run of that
 * sink or object, when others may continue. */
static int prepare_all(struct hr_engine *engine)
{
	for (uint32_t i = 0; i < engine->config.pipelines; i++) {
		int err = engine->run[i].selected ? prepare_sink(engine, &engine->run[i]) : 0;

		if (err && (err == -EINTR || !engine->keep_going))
			return err;
		if (err)
			hr_exclude_run(engine, i, err);
	}
	return engine->keep_going && !hr_any_selected(engine) ? -EIO : 0;
}

static int complete_sink(struct hr_run *run, const struct hr_store_object *object)
{
	run->sink_plan = HR_SINK_COMPLETE;
	run->sink_id = object->id;
	/* a producer may have ended its feed early */
	if (hr_config_has_feed(run->config) && run->sink_tile_bytes)
		run->tiles = (object->bytes + run->sink_tile_bytes - 1) / run->sink_tile_bytes;
	run->durable_tiles = run->first_tile = hr_run_end_tile(run);
	run->outcome = HR_RUN_COMPLETE;
	return 0;
}

/* Describe why an object with the name of the sink is not of this run, as far as its record
 * shows. */
static void explain_difference(const struct hr_engine *engine, const struct hr_run *run,
			       const struct hr_store_object *object, char *why, size_t bytes)
{
	const struct hr_config_pipeline *p = run->config;

	if (object->tag == 0) {
		snprintf(why, bytes, "'headrace store put' or a configuration stored it");
		return;
	}
	if (object->bytes != hr_run_sink_held(run)) {
		snprintf(why, bytes, "it has %llu bytes, and this run makes %llu",
			 (unsigned long long)object->bytes,
			 (unsigned long long)hr_run_sink_held(run));
		return;
	}
	for (uint32_t s = 0; s < hr_config_source_objects(p); s++) {
		const struct hr_store *store = &engine->ssd[p->source[s].ssd].store;
		const struct hr_store_object *source = hr_store_find_id(store, run->source[s].id);

		if (run->source[s].writer >= 0)
			snprintf(why, bytes, "its source '%s' is made again", p->source[s].object);
		else if (source && source->id > object->id &&
			 store == &engine->ssd[p->sink.ssd].store)
			snprintf(why, bytes, "its source '%s' was stored after it",
				 p->source[s].object);
		else
			continue;
		return;
	}
	snprintf(why, bytes,
		 "it was made with another pipeline name, operator, arguments, sources or tile "
		 "size");
}

static int refuse_sink(struct hr_engine *engine, const struct hr_run *run,
		       const struct hr_store_object *object)
{
	char why[160] = ": ";

	explain_difference(engine, run, object, why + 2, sizeof why - 2);
	return hr_new_object_refuse(engine, &run->config->sink, object->flags & HR_OBJECT_PENDING,
				    why);
}

static int create_sink(struct hr_engine *engine, struct hr_run *run, struct hr_store *store,
		       bool replace)
{
	const struct hr_config_object *sink = &run->config->sink;
	struct hr_store_shard shard;
	int err;

	if (hr_run_is_divided(run))
		hr_run_sink_shard(run, &shard);
	err = hr_new_object_create(engine, sink, store, hr_run_sink_held(run),
				   hr_sink_tag(run->fingerprint, sink->checksum), replace,
				   hr_run_is_divided(run) ? &shard : NULL, &run->sink_id);
	run->sink_created |= !err;
	return err;
}

/* Older versions of the sink need their names. */
static int check_versions(struct hr_engine *engine, const struct hr_run *run,
			  const struct hr_store *store)
{
	const struct hr_config_object *sink = &run->config->sink;
	const struct hr_store_object *object =
		hr_store_foreign_version(store, sink->object, sink->keep);

	if (!object)
		return 0;
	return hr_error_add(
		&engine->error, HR_ERROR_FAILED, -EEXIST,
		"%s:%u: object '%s' on ssd '%s' has the name of an older version of the "
		"sink (keep = %u), and no run has made it: rename or remove it",
		engine->config.file, sink->line, object->name, engine->config.ssd[sink->ssd].name,
		sink->keep);
}

/* Create the sink in the store of its ssd, or in a rehearsal of it. */
static int make_sink(struct hr_engine *engine, struct hr_run *run, struct hr_store *store)
{
	const struct hr_config_object *sink = &run->config->sink;
	struct hr_store_object *pending = hr_store_find_pending(store, sink->object);
	struct hr_store_object *whole = hr_store_find(store, sink->object);
	const bool stale =
		pending && engine->collect_ns && hr_incomplete_is_old(pending, engine->collect_ns);

	run->durable_tiles = run->first_tile = run->sink_summed_tiles = hr_run_first_tile(run);
	run->sink_crc = 0;
	run->sink_unsummed = false;
	run->sink_plan = HR_SINK_CREATE;
	/* A run that starts again has a new object without a durable prefix. */
	if (is_mine(pending, run->fingerprint) && pending->bytes == hr_run_sink_held(run))
		return hr_run_resumes(run) ? resume(run, pending)
					   : create_sink(engine, run, store, true);
	if (is_mine(whole, run->fingerprint) && !sink->replace && !run->create_again)
		return complete_sink(run, whole);
	if (is_mine(whole, run->fingerprint) && !sink->replace) {
		run->sink_plan = HR_SINK_REPLACE;
		return create_sink(engine, run, store, true);
	}
	if (!sink->replace && whole)
		return refuse_sink(engine, run, whole);
	if (!sink->replace && pending && !stale)
		return refuse_sink(engine, run, pending);
	if (check_versions(engine, run, store) != 0)
		return -EEXIST;
	run->sink_plan = pending || whole ? HR_SINK_REPLACE : HR_SINK_CREATE;
	return create_sink(engine, run, store, sink->replace || stale);
}

const char *hr_sink_plan_text(enum hr_sink_plan plan)
{
	switch (plan) {
	case HR_SINK_REPLACE:
		return "; replaces the existing object";
	case HR_SINK_RESUME:
		return "; resumes an interrupted run";
	case HR_SINK_COMPLETE:
		return "; already complete: nothing to do";
	default:
		return "";
	}
}

/* The ids of objects that earlier pipelines make. */
static void set_object_ids(struct hr_engine *engine, uint32_t i)
{
	struct hr_run *run = &engine->run[i];
	const struct hr_config_pipeline *p = run->config;
	int maker;

	for (uint32_t s = 0; s < hr_config_source_objects(p); s++) {
		maker = hr_run_creator_of(engine, i, &p->source[s]);
		if (maker >= 0)
			run->source[s].id = hr_new_object_id(&engine->run[maker], &p->source[s]);
	}
	for (uint32_t k = 0; k < p->objects; k++) {
		maker = p->object[k].bytes ? -1 : hr_run_creator_of(engine, i, &p->object[k]);
		if (maker >= 0)
			run->object[k].id = hr_new_object_id(&engine->run[maker], &p->object[k]);
	}
}

/* Make all sinks, in the order of the runs, because a source may be the sink of an earlier run.
 * With `all` the others are also made after an error; the first error is returned. */
static int make_sinks(struct hr_engine *engine, struct hr_store *const store[HR_SSDS_MAX], bool all)
{
	int err = 0;

	for (uint32_t i = 0; (all || engine->keep_going || !err) && i < engine->config.pipelines;
	     i++) {
		struct hr_run *run = &engine->run[i];
		int failed;

		if (!run->selected)
			continue;
		set_object_ids(engine, i);
		run->data_set = set_of_run(engine, run);
		run->fingerprint = hr_run_fingerprint(engine, run);
		failed = run->config->objects ? hr_new_objects_create(engine, run, store) : 0;
		run->first_tile = hr_run_first_tile(run);
		if (run->config->has_sink)
			failed = make_sink(engine, run, store[run->config->sink.ssd]);
		if (!failed)
			failed = hr_checksums_decide(engine, run, store);
		if (failed && engine->keep_going)
			hr_exclude_run(engine, i, failed);
		err = err ? err : failed;
	}
	return engine->keep_going && hr_any_selected(engine) ? 0 : err;
}

/* ---- rehearsal: the same steps on copies of the object maps */

static void forget_sinks(struct hr_engine *engine)
{
	for (uint32_t i = 0; i < engine->config.pipelines; i++) {
		struct hr_run *run = &engine->run[i];

		if (!run->selected)
			continue;
		run->sink_id = run->first_tile = run->durable_tiles = 0;
		run->sink_created = false;
		for (uint32_t k = 0; k < run->config->objects; k++)
			run->object[k].created = false;
		if (run->outcome == HR_RUN_COMPLETE)
			run->outcome = HR_RUN_WAITING;
	}
}

struct rehearsal {
	struct hr_store copy[HR_SSDS_MAX];
	struct hr_store *store[HR_SSDS_MAX];
	void *memory[HR_SSDS_MAX];
};

static int rehearse(struct rehearsal *r, struct hr_engine *engine, uint32_t d)
{
	const struct hr_store *store = &engine->ssd[d].store;
	const size_t objects = ((store->capacity * sizeof(struct hr_store_object)) + HR_PAGE - 1) &
			       ~((size_t)HR_PAGE - 1);

	if (!engine->ssd[d].has_store)
		return 0;
	r->memory[d] = aligned_alloc(HR_PAGE, objects + hr_store_io_bytes(store->capacity));
	if (!r->memory[d])
		return hr_fail(&engine->error, HR_ERROR_MISSING, -ENOMEM,
			       "ssd '%s': out of memory for a copy of its object map",
			       engine->config.ssd[d].name);
	hr_store_rehearse(&r->copy[d], store, r->memory[d], (uint8_t *)r->memory[d] + objects);
	r->store[d] = &r->copy[d];
	return 0;
}

/* True for errors of the configuration and of the store, which remain; a failed device may work
 * the next time. */
static bool stays(int err)
{
	return err == -EEXIST || err == -EBUSY || err == -ENOSPC || err == -ENFILE ||
	       err == -EROFS || err == -EINVAL || err == -EOVERFLOW;
}

int hr_sinks_check(struct hr_engine *engine)
{
	struct rehearsal *r = calloc(1, sizeof *r);
	int err = r ? 0
		    : hr_fail(&engine->error, HR_ERROR_MISSING, -ENOMEM,
			      "out of memory for copies of object maps");

	for (uint32_t d = 0; !err && d < engine->config.ssds; d++)
		err = rehearse(r, engine, d);
	if (!err) {
		err = make_sinks(engine, r->store, true);
		engine->refused = stays(err);
		forget_sinks(engine);
	}
	for (uint32_t d = 0; r && d < engine->config.ssds; d++)
		free(r->memory[d]);
	free(r);
	return err;
}

/* ---- the stage */

int hr_sinks_up(struct hr_engine *engine)
{
	struct hr_store *store[HR_SSDS_MAX];
	int err = hr_incomplete_collect(engine);

	for (uint32_t d = 0; d < HR_SSDS_MAX; d++)
		store[d] = &engine->ssd[d].store;
	if (!err)
		err = hr_sinks_check(engine);
	if (!err)
		err = hr_remote_open(engine);
	if (!err)
		err = make_sinks(engine, store, false);
	if (!err)
		err = prepare_all(engine);
	return err ? err : hr_remote_start(engine);
}

void hr_sinks_down(struct hr_engine *engine)
{
	hr_remote_down(engine);
	for (uint32_t i = engine->config.pipelines; i-- > 0;) {
		struct hr_run *run = &engine->run[i];
		const struct hr_store_object *object;
		struct hr_error e = { 0 };
		char word[HR_QUOTE_BYTES];
		struct hr_ssd *ssd;

		if (hr_run_wired(run)) /* it runs, and another pipeline was not started */
			continue;
		/*
		 * also for a refused run; a run that has ended has no object with `made` any more
		 */
		hr_new_objects_remove(engine, run);
		if (!run->sink_created || run->outcome != HR_RUN_WAITING)
			continue;
		run->sink_created = false;
		ssd = &engine->ssd[run->config->sink.ssd];
		object = hr_store_find_id(&ssd->store, run->sink_id);
		if (!object || object->durable_bytes)
			continue;
		if (hr_health_failed(&ssd->health) ||
		    hr_store_remove(&ssd->store, run->sink_id, &e) != 0)
			hr_warn("object '%s' stays on ssd '%s', incomplete%s%s; 'headrace store rm "
				"--pending %s' removes it",
				run->config->sink.object,
				engine->config.ssd[run->config->sink.ssd].name, e.kind ? ": " : "",
				e.text,
				hr_quote(engine->config.ssd[run->config->sink.ssd].device, word));
	}
}
