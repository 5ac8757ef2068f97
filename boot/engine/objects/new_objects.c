/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/engine/objects/new_objects.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "boot/engine/devices/ssd_store.h"
#include "boot/engine/objects/shards.h"
#include "config/base/process.h"
#include "config/base/log.h"
#include "config/base/text.h"
#include "config/base/tick.h"
#include "config/derived.h"

#define ZERO_BYTES (4u << 20)

int hr_run_creator_of(const struct hr_engine *engine, uint32_t i,
		      const struct hr_config_object *object)
{
	for (uint32_t j = 0; j < i; j++)
		if (engine->run[j].selected &&
		    hr_config_creates_name(engine->run[j].config, object->ssd, object->object))
			return (int)j;
	return -1;
}

#define CHECKSUM_TAG 0x6b63656863637263u

uint64_t hr_sink_tag(uint64_t fingerprint, bool checksum)
{
	/* 0 is the tag of objects that no run writes. */
	if (fingerprint == 0 || fingerprint == CHECKSUM_TAG)
		fingerprint = 1;
	return checksum ? fingerprint ^ CHECKSUM_TAG : fingerprint;
}

/* False for a pipeline with a result: a result covers all tiles, and states are not saved, so
 * the run starts again. Also false when sources must be verified, because that needs all tiles. */
bool hr_run_resumes(const struct hr_run *run)
{
	return run->config->verify != HR_VERIFY_ON && !run->config->op->report;
}

/* ---- creation */

static bool is_mine(const struct hr_run *run, uint32_t i, const struct hr_store_object *object)
{
	return object && object->tag == hr_sink_tag(run->fingerprint, false) &&
	       object->bytes == run->object[i].bytes;
}

/* True when the run makes objects, changes no other, and all of them are complete. */
static bool is_complete(const struct hr_run *run, struct hr_store *const store[HR_SSDS_MAX])
{
	const struct hr_config_pipeline *p = run->config;
	bool any = false;

	for (uint32_t i = 0; !run->create_again && i < p->objects; i++) {
		const struct hr_config_object *object = &p->object[i];

		if (!run->object[i].used || !object->writes)
			continue;
		if (!object->bytes || object->replace ||
		    !is_mine(run, i, hr_store_find(store[object->ssd], object->object)))
			return false;
		any = true;
	}
	return any;
}

int hr_new_object_refuse(struct hr_engine *engine, const struct hr_config_object *object,
			 bool pending, const char *why)
{
	const struct hr_config_ssd *ssd = &engine->config.ssd[object->ssd];
	char device[HR_QUOTE_BYTES], name[HR_QUOTE_BYTES];

	return hr_error_add(
		&engine->error, HR_ERROR_FAILED, -EEXIST,
		"%s:%u: object '%s' %s on ssd '%s', and is not of this run%s; remove it with "
		"'headrace store rm%s %s %s', or set replace = true",
		engine->config.file, object->line, object->object,
		pending ? "is incomplete" : "exists", ssd->name, why, pending ? " --pending" : "",
		hr_quote(ssd->device, device), hr_quote(object->object, name));
}

int hr_new_object_create(struct hr_engine *engine, const struct hr_config_object *object,
			 struct hr_store *store, uint64_t bytes, uint64_t tag, bool replace,
			 const struct hr_store_shard *shard, uint64_t *id)
{
	const struct hr_config_ssd *ssd = &engine->config.ssd[object->ssd];
	struct hr_store_object *made;
	struct hr_error e = { 0 };
	char name[96];
	const int err =
		hr_store_create_shard(store, object->object, bytes, tag, replace, shard, &made, &e);

	if (err) {
		hr_fail(&e, err == -EINVAL ? HR_ERROR_USAGE : HR_ERROR_FAILED, err, "%s",
			hr_store_error_name(err, name, sizeof name));
		hr_error_add(&engine->error, e.kind, err,
			     "%s:%u: object '%s' of %llu bytes cannot be created on ssd '%s': %s",
			     engine->config.file, object->line, object->object,
			     (unsigned long long)bytes, ssd->name, e.text);
		/* not `store`: in the store of a rehearsal objects of this run are incomplete */
		hr_incomplete_hint(&engine->ssd[object->ssd].store, ssd->device, err,
				   &engine->error);
		return err;
	}
	*id = made->id;
	return 0;
}

/* Create the object of an interrupted run of this pipeline again: it has no durable part. */
static int create_new_object(struct hr_engine *engine, struct hr_run *run, uint32_t i,
			     struct hr_store *store)
{
	const struct hr_config_object *object = &run->config->object[i];
	const struct hr_store_object *whole = hr_store_find(store, object->object);
	const struct hr_store_object *pending = hr_store_find_pending(store, object->object);
	int err;

	run->object[i].shard.set = run->data_set;
	if (!object->replace && whole && !is_mine(run, i, whole))
		return hr_new_object_refuse(engine, object, false, "");
	if (!object->replace && pending && !is_mine(run, i, pending))
		return hr_new_object_refuse(engine, object, true, "");
	run->object[i].plan = whole || pending ? HR_SINK_REPLACE : HR_SINK_CREATE;
	err = hr_new_object_create(engine, object, store, run->object[i].bytes,
				   hr_sink_tag(run->fingerprint, false), whole || pending,
				   run->object[i].is_shard ? &run->object[i].shard : NULL,
				   &run->object[i].id);
	run->object[i].created |= !err;
	return err;
}

/* The object map of the ssd of object i cannot be changed. */
static int explain_map(const struct hr_engine *engine, const struct hr_run *run, uint32_t i,
		       const char *what, int err, struct hr_error *why, struct hr_error *e)
{
	const struct hr_config_object *object = &run->config->object[i];
	char name[96];

	hr_fail(why, HR_ERROR_DEVICE, err, "%s", hr_store_error_name(err, name, sizeof name));
	return hr_fail(e, why->kind, err, "pipeline '%s': %s '%s' on ssd '%s' cannot be %s: %s",
		       run->config->name, object->bytes ? "object" : "the checksum of object",
		       object->object, engine->config.ssd[object->ssd].name, what, why->text);
}

/* The run changes the data that the checksum covers. */
static int drop_checksum(struct hr_engine *engine, const struct hr_run *run, uint32_t i,
			 struct hr_error *e)
{
	struct hr_error why = { 0 };
	const int err = hr_store_set_crc(&engine->ssd[run->config->object[i].ssd].store,
					 run->object[i].id, false, 0, &why);

	return err ? explain_map(engine, run, i, "removed", err, &why, e) : 0;
}

int hr_new_objects_create(struct hr_engine *engine, struct hr_run *run,
			  struct hr_store *const store[HR_SSDS_MAX])
{
	const struct hr_config_pipeline *p = run->config;
	int err = 0;

	if (is_complete(run, store)) {
		run->outcome = HR_RUN_COMPLETE;
		for (uint32_t i = 0; i < p->objects; i++)
			if (p->object[i].bytes) {
				run->object[i].id =
					hr_store_find(store[p->object[i].ssd], p->object[i].object)
						->id;
				run->object[i].plan = HR_SINK_COMPLETE;
			}
		return 0;
	}
	for (uint32_t i = 0; !err && i < p->objects; i++) {
		const struct hr_config_object *object = &p->object[i];

		if (!run->object[i].used || !object->writes)
			continue;
		if (object->bytes)
			err = create_new_object(engine, run, i, store[object->ssd]);
	}
	return err;
}

int hr_written_begin(struct hr_engine *engine, struct hr_run *run, struct hr_error *e)
{
	int err = 0;

	for (uint32_t i = 0; !err && i < run->config->objects; i++)
		if (run->object[i].used && run->config->object[i].writes &&
		    !run->config->object[i].bytes)
			err = drop_checksum(engine, run, i, e);
	return err;
}

/* ---- zeros */

static int write_zeros(struct hr_blk *blk, const struct hr_store_object *object,
		       const uint8_t *zeros, struct hr_error *e)
{
	int err = 0;

	for (uint64_t at = 0; !err && at < object->capacity; at += ZERO_BYTES) {
		const uint64_t left = object->capacity - at;

		err = hr_signals_pending()
			      ? -EINTR
			      : blk->ops->write(blk, object->offset + at, zeros,
						left < ZERO_BYTES ? (size_t)left : ZERO_BYTES,
						false, e);
		hr_tick();
	}
	return err;
}

static int zero_new_object(struct hr_engine *engine, const struct hr_run *run, uint32_t i,
			   const uint8_t *zeros)
{
	const struct hr_config_object *config = &run->config->object[i];
	struct hr_ssd *ssd = &engine->ssd[config->ssd];
	const struct hr_store_object *object = hr_store_find_id(&ssd->store, run->object[i].id);
	struct hr_error e = { 0 };
	char name[96];
	int err;

	if (!object)
		return 0;
	err = write_zeros(ssd->blk, object, zeros, &e);
	if (!err || err == -EINTR)
		return err;
	hr_fail(&e, HR_ERROR_DEVICE, err, "%s", hr_store_error_name(err, name, sizeof name));
	return hr_error_add(&engine->error, e.kind, err,
			    "%s:%u: object '%s' of %llu bytes on ssd '%s' cannot be filled with "
			    "zeros: %s",
			    engine->config.file, config->line, config->object,
			    (unsigned long long)object->bytes, engine->config.ssd[config->ssd].name,
			    e.text);
}

int hr_new_objects_zero(struct hr_engine *engine, struct hr_run *run)
{
	uint8_t *zeros = aligned_alloc(HR_PAGE, ZERO_BYTES);
	int err = 0;

	if (!zeros)
		return hr_fail(&engine->error, HR_ERROR_MISSING, -ENOMEM,
			       "out of memory for a buffer of %u bytes", ZERO_BYTES);
	memset(zeros, 0, ZERO_BYTES);
	for (uint32_t i = 0; !err && i < run->config->objects; i++)
		if (run->object[i].created)
			err = zero_new_object(engine, run, i, zeros);
	free(zeros);
	return err;
}

/* ---- the end of a run */

static int finish_new_object(struct hr_engine *engine, struct hr_run *run, uint32_t i,
			     struct hr_error *e)
{
	struct hr_run_object *object = &run->object[i];
	struct hr_store *store = &engine->ssd[run->config->object[i].ssd].store;
	struct hr_error why = { 0 };
	int err = 0;

	if (object->created)
		err = hr_store_finish(store, object->id, object->summed, object->crc, &why);
	else if (object->summed)
		err = hr_store_set_crc(store, object->id, true, object->crc, &why);
	if (err == -ENOENT && !object->created) /* an object of that name has replaced it */
		err = 0;
	if (err)
		return explain_map(engine, run, i, object->created ? "completed" : "stored", err,
				   &why, e);
	object->created = false;
	return 0;
}

int hr_new_objects_commit(struct hr_engine *engine, struct hr_run *run, struct hr_error *e)
{
	int err = 0;

	for (uint32_t i = 0; !err && i < run->config->objects; i++)
		if (run->object[i].created || run->object[i].summed)
			err = finish_new_object(engine, run, i, e);
	return err;
}

void hr_new_objects_remove(struct hr_engine *engine, struct hr_run *run)
{
	for (uint32_t i = run->config->objects; i-- > 0;) {
		const struct hr_config_object *object = &run->config->object[i];
		struct hr_ssd *ssd = &engine->ssd[object->ssd];
		struct hr_error e = { 0 };
		char device[HR_QUOTE_BYTES];

		if (!run->object[i].created)
			continue;
		run->object[i].created = false;
		if (hr_health_failed(&ssd->health) ||
		    hr_store_remove(&ssd->store, run->object[i].id, &e) != 0)
			hr_warn("object '%s' stays on ssd '%s', incomplete%s%s: 'headrace store rm "
				"--pending %s' removes it",
				object->object, engine->config.ssd[object->ssd].name,
				e.text[0] ? ": " : "", e.text,
				hr_quote(engine->config.ssd[object->ssd].device, device));
		else
			run->object[i].id = 0;
	}
}

/* ---- incomplete objects */

/* State while objects of one ssd are checked. */
struct collection {
	const struct hr_engine *engine;
	uint32_t ssd;
};

/* True for an object that a pipeline makes. The name decides, because the sources are compared only
 * later, in stage `sinks`. */
static bool is_sink(void *arg, const struct hr_store_object *object)
{
	const struct collection *c = arg;

	for (uint32_t i = 0; i < c->engine->config.pipelines; i++)
		if (hr_config_creates_name(&c->engine->config.pipeline[i], c->ssd, object->name))
			return true;
	return false;
}

int hr_incomplete_collect(struct hr_engine *engine)
{
	int err = 0;

	for (uint32_t d = 0; engine->collect_ns && !err && d < engine->config.ssds; d++) {
		struct collection c = { engine, d };
		struct hr_ssd *ssd = &engine->ssd[d];
		uint32_t count = 0;
		uint64_t bytes = 0;

		if (!ssd->has_store || ssd->blk->read_only)
			continue;
		err = hr_incomplete_remove(&ssd->store, engine->collect_ns, is_sink, &c, &count,
					   &bytes, &engine->error);
		if (!err && count)
			hr_warn("ssd '%s': %u incomplete object%s of %llu bytes older than "
				"boot.collect removed",
				engine->config.ssd[d].name, count, count == 1 ? "" : "s",
				(unsigned long long)bytes);
	}
	return err;
}
