/*
 * Stage `sinks`: the objects that pipelines write, created, or found where an earlier run left off.
 *
 * A sink carries a fingerprint of all that determines its contents as its tag. The same one on an
 * incomplete object: the run goes on after what is durable. The same one on a whole object: there
 * is nothing left to do. Anything else in the place: an error, unless the sink says replace.
 *
 * All sinks are judged in a rehearsal, on copies of the object maps, before any is created; `check`
 * does the same. What was created for runs that never start is removed again.
 *
 * The tag also says whether an incomplete object has the checksum of its durable prefix.
 */
#include "boot/engine/stage_sinks.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "boot/engine/checksums.h"
#include "boot/engine/refuse.h"
#include "config/log.h"
#include "boot/engine/pending.h"
#include "gpu/ops/user.h"
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
	const uint32_t code = hr_op_user_checksum(p->op);
	uint64_t hash = mix(0xcbf29ce484222325u, p->name, strlen(p->name) + 1);

	hash = mix(hash, p->op->name, strlen(p->op->name) + 1);
	hash = mix(hash, &code, hr_op_built_in(p->op) ? 0 : sizeof code);
	hash = mix(hash, p->op_args, p->op_args_bytes);
	for (uint32_t s = 0; s < p->sources; s++) {
		const struct hr_run_source *source = &run->source[s];

		hash = mix(hash, app->ssd[p->source[s].ssd].store.uuid, 16);
		hash = mix(hash, &source->id, sizeof source->id);
		hash = mix(hash, &source->bytes, sizeof source->bytes);
		hash = mix(hash, &source->tile_bytes, sizeof source->tile_bytes);
	}
	hash = mix(hash, &run->sink_tile_bytes, sizeof run->sink_tile_bytes);
	return hash;
}

#define CHECKSUM_TAG 0x6b63656863637263u

uint64_t hr_sink_tag(uint64_t fingerprint, bool checksum)
{
	/* 0 is the tag of objects that no run writes. */
	if (fingerprint == 0 || fingerprint == CHECKSUM_TAG)
		fingerprint = 1;
	return checksum ? fingerprint ^ CHECKSUM_TAG : fingerprint;
}

static bool is_mine(const struct hr_object *object, uint64_t fingerprint)
{
	return object && (object->tag == hr_sink_tag(fingerprint, false) ||
			  object->tag == hr_sink_tag(fingerprint, true));
}

/* A result is one over all tiles, and states are not saved: then what is there is made again. So it is
 * where sources must be verified, because that takes all of them. */
bool hr_run_resumes(const struct hr_run *run)
{
	return run->config->verify != HR_VERIFY_ON && !run->config->op->report;
}

/* Tiles that are durable of an incomplete sink. */
static uint64_t durable_tiles(const struct hr_run *run, const struct hr_object *object)
{
	uint64_t tiles = run->sink_tile_bytes ? object->durable_bytes / run->sink_tile_bytes : 0;

	if (object->durable_bytes == object->bytes) /* the last tile may be short */
		tiles = run->tiles;
	return tiles < run->tiles ? tiles : run->tiles;
}

/* Go on with a pending object of this very run, and join the checksum of what is durable. */
static int resume(struct hr_run *run, const struct hr_object *object)
{
	uint64_t bytes;

	run->sink_plan = HR_SINK_RESUME;
	run->sink_id = object->id;
	run->durable_tiles = run->first_tile = durable_tiles(run, object);
	bytes = run->first_tile * run->sink_tile_bytes;
	bytes = bytes < object->bytes ? bytes : object->bytes;
	if (!run->config->sink.checksum || !bytes)
		return 0;
	run->sink_summed_tiles = run->first_tile;
	run->sink_crc = object->crc;
	run->sink_unsummed = object->tag != hr_sink_tag(run->fingerprint, true) ||
			     bytes != object->durable_bytes;
	return 0;
}

/*
 * An incomplete object without checksum, of a version or configuration that keeps none, is read again:
 * the sink is to have one, and rot that comes later is to be seen.
 */
static int sum_prefix(struct hr_appliance *app, struct hr_run *run)
{
	const struct hr_config_object *sink = &run->config->sink;
	const struct hr_object *object = hr_store_find_id(&app->ssd[sink->ssd].store, run->sink_id);
	uint64_t bytes = run->first_tile * run->sink_tile_bytes;

	if (!object || !run->sink_unsummed)
		return 0;
	bytes = bytes < object->bytes ? bytes : object->bytes;
	hr_warn("pipeline '%s': the incomplete object '%s' on ssd '%s' has no checksum of its "
		"first %llu bytes: they are read again",
		run->config->name, sink->object, app->config.ssd[sink->ssd].name,
		(unsigned long long)bytes);
	return hr_checksum_read(app, sink->ssd, object, bytes, &run->sink_crc);
}

/* A disk that fails stops only the run whose sink it is about, where others are to go on. */
static int sum_prefixes(struct hr_appliance *app)
{
	for (uint32_t i = 0; i < app->config.pipelines; i++) {
		struct hr_run *run = &app->run[i];
		int err = run->selected && run->sink_plan == HR_SINK_RESUME ? sum_prefix(app, run)
									    : 0;

		if (err && (err == -EINTR || !app->keep_going))
			return err;
		if (err)
			hr_refuse_run(app, i, err);
	}
	return app->keep_going && !hr_any_selected(app) ? -EIO : 0;
}

static int complete(struct hr_run *run, const struct hr_object *object)
{
	run->sink_plan = HR_SINK_COMPLETE;
	run->sink_id = object->id;
	run->durable_tiles = run->first_tile = run->tiles;
	run->outcome = HR_RUN_COMPLETE;
	return 0;
}

/* Why an object with the name of the sink is not this run's, as far as its record tells. */
static void tell_difference(const struct hr_appliance *app, const struct hr_run *run,
			    const struct hr_object *object, char *why, size_t bytes)
{
	const struct hr_config_pipeline *p = run->config;

	if (object->tag == 0) {
		snprintf(why, bytes, "'headrace store put' or a configuration stored it");
		return;
	}
	if (object->bytes != run->sink_bytes) {
		snprintf(why, bytes, "it has %llu bytes, and this run makes %llu",
			 (unsigned long long)object->bytes, (unsigned long long)run->sink_bytes);
		return;
	}
	for (uint32_t s = 0; s < p->sources; s++) {
		const struct hr_store *store = &app->ssd[p->source[s].ssd].store;
		const struct hr_object *source = hr_store_find_id(store, run->source[s].id);

		if (run->source[s].from >= 0)
			snprintf(why, bytes, "its source '%s' is made anew", p->source[s].object);
		else if (source && source->id > object->id && store == &app->ssd[p->sink.ssd].store)
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

static int refuse(const struct hr_appliance *app, const struct hr_run *run,
		  const struct hr_object *object)
{
	const struct hr_config_object *sink = &run->config->sink;
	const struct hr_config_ssd *ssd = &app->config.ssd[sink->ssd];
	const bool pending = object->flags & HR_OBJECT_PENDING;
	char why[160];

	tell_difference(app, run, object, why, sizeof why);
	hr_error("%s:%u: object '%s' %s on ssd '%s', and is not of this run: %s; remove it with "
		 "'headrace store rm%s %s %s', or set replace = true",
		 app->config.file, sink->line, sink->object, pending ? "is incomplete" : "exists",
		 ssd->name, why, pending ? " --pending" : "", ssd->device, sink->object);
	return -EEXIST;
}

static int create(struct hr_appliance *app, struct hr_run *run, struct hr_store *store,
		  bool replace)
{
	const struct hr_config_object *sink = &run->config->sink;
	const struct hr_config_ssd *ssd = &app->config.ssd[sink->ssd];
	struct hr_object *object;
	char name[96];
	int err = hr_store_create(store, sink->object, run->sink_bytes,
				  hr_sink_tag(run->fingerprint, sink->checksum), replace, &object);

	if (err) {
		hr_error("%s:%u: object '%s' of %llu bytes cannot be created on ssd '%s': %s",
			 app->config.file, sink->line, sink->object,
			 (unsigned long long)run->sink_bytes, ssd->name,
			 hr_store_error_name(err, name, sizeof name));
		hr_pending_hint(store, ssd->device, err);
		return err;
	}
	run->sink_id = object->id;
	run->sink_made = true;
	return 0;
}

/* In the store of the sink's ssd, or in a rehearsal of it. */
static int make_sink(struct hr_appliance *app, struct hr_run *run, struct hr_store *store)
{
	const struct hr_config_object *sink = &run->config->sink;
	struct hr_object *pending = hr_store_find_pending(store, sink->object);
	struct hr_object *whole = hr_store_find(store, sink->object);
	const bool stale =
		pending && app->collect_ns && hr_pending_is_old(pending, app->collect_ns);

	run->first_tile = run->sink_summed_tiles = 0;
	run->sink_crc = 0;
	run->sink_unsummed = false;
	run->sink_plan = HR_SINK_CREATE;
	/* A run that starts over has a new object: nothing is said to be durable of it. */
	if (is_mine(pending, run->fingerprint) && pending->bytes == run->sink_bytes)
		return hr_run_resumes(run) ? resume(run, pending) : create(app, run, store, true);
	if (is_mine(whole, run->fingerprint) && !sink->replace)
		return complete(run, whole);
	if (!sink->replace && whole)
		return refuse(app, run, whole);
	if (!sink->replace && pending && !stale)
		return refuse(app, run, pending);
	run->sink_plan = pending || whole ? HR_SINK_REPLACE : HR_SINK_CREATE;
	return create(app, run, store, sink->replace || stale);
}

const char *hr_sink_prospect(const struct hr_run *run)
{
	switch (run->sink_plan) {
	case HR_SINK_REPLACE:
		return "; takes the place of the one that is there";
	case HR_SINK_RESUME:
		return "; goes on where an earlier run was cut short";
	case HR_SINK_COMPLETE:
		return "; is there already, whole: nothing to do";
	default:
		return "";
	}
}

/* All sinks, in the order of the runs: a source may be the sink of an earlier one. With `all` the
 * others are still looked at after an error; the first is returned. */
static int make_sinks(struct hr_appliance *app, struct hr_store *const store[HR_SSDS_MAX], bool all)
{
	int err = 0;

	for (uint32_t i = 0; (all || app->keep_going || !err) && i < app->config.pipelines; i++) {
		struct hr_run *run = &app->run[i];
		int failed;

		if (!run->selected)
			continue;
		for (uint32_t s = 0; s < run->config->sources; s++)
			if (run->source[s].from >= 0)
				run->source[s].id = app->run[run->source[s].from].sink_id;
		run->fingerprint = hr_run_fingerprint(app, run);
		failed = run->config->has_sink ? make_sink(app, run, store[run->config->sink.ssd])
					       : 0;
		if (!failed)
			failed = hr_checksums_decide(app, run, store);
		if (failed && app->keep_going)
			hr_refuse_run(app, i, failed);
		err = err ? err : failed;
	}
	return app->keep_going && hr_any_selected(app) ? 0 : err;
}

/* ---- rehearsal: the same steps on copies of the object maps */

static void forget(struct hr_appliance *app)
{
	for (uint32_t i = 0; i < app->config.pipelines; i++) {
		struct hr_run *run = &app->run[i];

		run->sink_id = run->first_tile = run->durable_tiles = 0;
		run->sink_made = false;
		if (run->selected && run->outcome == HR_RUN_COMPLETE)
			run->outcome = HR_RUN_WAITING;
	}
}

struct rehearsal {
	struct hr_store copy[HR_SSDS_MAX];
	struct hr_store *store[HR_SSDS_MAX];
	void *memory[HR_SSDS_MAX];
};

static int rehearse(struct rehearsal *r, const struct hr_appliance *app, uint32_t d)
{
	const struct hr_store *store = &app->ssd[d].store;
	const size_t objects = ((store->capacity * sizeof(struct hr_object)) + HR_PAGE - 1) &
			       ~((size_t)HR_PAGE - 1);

	if (!app->ssd[d].has_store)
		return 0;
	r->memory[d] = aligned_alloc(HR_PAGE, objects + hr_store_io_bytes(store->capacity));
	if (!r->memory[d]) {
		hr_error("ssd '%s': out of memory for a copy of its object map",
			 app->config.ssd[d].name);
		return -ENOMEM;
	}
	hr_store_rehearse(&r->copy[d], store, r->memory[d], (uint8_t *)r->memory[d] + objects);
	r->store[d] = &r->copy[d];
	return 0;
}

/* Errors of the configuration and of the store; a device that fails may be well the next time. */
static bool stays(int err)
{
	return err == -EEXIST || err == -EBUSY || err == -ENOSPC || err == -ENFILE ||
	       err == -EROFS || err == -EINVAL || err == -EOVERFLOW;
}

int hr_sinks_judge(struct hr_appliance *app)
{
	struct rehearsal *r = calloc(1, sizeof *r);
	int err = r ? 0 : -ENOMEM;

	for (uint32_t d = 0; !err && d < app->config.ssds; d++)
		err = rehearse(r, app, d);
	if (!err) {
		err = make_sinks(app, r->store, true);
		app->refused = stays(err);
		forget(app);
	}
	for (uint32_t d = 0; r && d < app->config.ssds; d++)
		free(r->memory[d]);
	free(r);
	return err;
}

/* ---- the stage */

int hr_sinks_up(struct hr_appliance *app)
{
	struct hr_store *store[HR_SSDS_MAX];
	int err = hr_pending_collect(app);

	for (uint32_t d = 0; d < HR_SSDS_MAX; d++)
		store[d] = &app->ssd[d].store;
	if (!err)
		err = hr_sinks_judge(app);
	if (!err)
		err = make_sinks(app, store, false);
	return err ? err : sum_prefixes(app);
}

void hr_sinks_down(struct hr_appliance *app)
{
	for (uint32_t i = app->config.pipelines; i-- > 0;) {
		struct hr_run *run = &app->run[i];
		const struct hr_object *object;
		struct hr_ssd *ssd;

		if (!run->sink_made || run->outcome != HR_RUN_WAITING)
			continue;
		run->sink_made = false;
		ssd = &app->ssd[run->config->sink.ssd];
		object = hr_store_find_id(&ssd->store, run->sink_id);
		if (!object || object->durable_bytes)
			continue;
		if (ssd->disk.dead || hr_store_remove(&ssd->store, run->sink_id) != 0)
			hr_warn("object '%s' stays on ssd '%s', incomplete: 'headrace store rm "
				"--pending %s' removes it",
				run->config->sink.object,
				app->config.ssd[run->config->sink.ssd].name,
				app->config.ssd[run->config->sink.ssd].device);
	}
}
