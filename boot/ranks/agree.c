/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/ranks/agree.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "boot/engine/objects/shards.h"
#include "boot/engine/bringup/sinks.h"
#include "config/base/bytes.h"
#include "config/derived.h"
#include "gpu/ops/user.h"

/* The work of a rank, as it travels to rank 0. */
struct source_work {
	uint64_t bytes;
	uint32_t has_crc, crc;
	struct hr_shard_of shard;
};

/* An object of an access operator. */
struct object_work {
	struct source_work data;
	uint64_t writes;
	uint8_t store[16]; /* UUID */
};

struct pipeline_work {
	uint64_t selected, hash, tiles;
	uint8_t sink_store[16]; /* UUID */
	struct source_work source[HR_SOURCES_MAX];
	struct object_work object[HR_OBJECTS_MAX];
};

/* Of it the entries of pipelines that the configuration has. */
struct work {
	uint64_t pipelines;
	struct pipeline_work pipeline[HR_PIPELINES_MAX];
};

static size_t work_bytes(uint64_t pipelines)
{
	return offsetof(struct work, pipeline) + pipelines * sizeof(struct pipeline_work);
}

/* Rank 0: the work of each rank, `step` bytes apart. */
struct works {
	const uint8_t *data;
	size_t step;
	uint32_t ranks;
};

static const struct pipeline_work *work_of(const struct works *all, uint32_t rank, uint32_t i)
{
	const struct work *work = (const struct work *)(const void *)(all->data + rank * all->step);

	return &work->pipeline[i];
}

static const char *refusal(const struct hr_config_pipeline *p)
{
	if (p->objects && !p->op->several_ranks)
		return "its operator does not divide its work over ranks";
	if (hr_config_has_tap(p))
		return "a tap is not possible on several ranks";
	if (hr_config_has_feed(p))
		return "a feed is not possible on several ranks";
	if (p->shard == HR_SHARD_NONE && p->objects)
		return "with --mpi each pipeline needs shard; expected shard = \"objects\"";
	if (p->shard == HR_SHARD_NONE)
		return "with --mpi each pipeline needs shard = \"tiles\" or \"objects\"";
	return NULL;
}

int hr_ranks_check(const struct hr_engine *engine, struct hr_error *e)
{
	int err = 0;

	for (uint32_t i = 0; i < engine->config.pipelines; i++) {
		const struct hr_config_pipeline *p = &engine->config.pipeline[i];
		const char *why = engine->run[i].selected ? refusal(p) : NULL;

		if (why)
			err = hr_error_add(e, HR_ERROR_USAGE, -EINVAL, "%s:%u: pipeline '%s': %s",
					   engine->config.file, p->line, p->name, why);
	}
	return err;
}

void hr_ranks_divide(struct hr_engine *engine, const struct hr_ranks *ranks)
{
	char name[2 * HR_NAME_MAX];

	for (uint32_t i = 0; i < engine->config.pipelines; i++) {
		engine->run[i].part = ranks->rank;
		engine->run[i].parts = ranks->size;
	}
	snprintf(name, sizeof name, "%s.%u", engine->config.name, ranks->rank);
	if (strlen(name) < sizeof engine->config.name)
		memcpy(engine->config.name, name, strlen(name) + 1);
}

static uint32_t crc_of(const struct hr_store_object *object, uint32_t *has)
{
	*has = object && object->flags & HR_OBJECT_HAS_CRC;
	return *has ? object->crc : 0;
}

static uint64_t describe_object(const struct hr_engine *engine, const struct hr_run *run,
				uint32_t k, uint64_t hash, struct object_work *to)
{
	const struct hr_config_object *config = &run->config->object[k];
	const struct hr_run_object *object = &run->object[k];
	const struct hr_store *store = &engine->ssd[config->ssd].store;
	struct source_work *data = &to->data;

	hash = hr_hash(hash, &object->used, sizeof object->used);
	hash = hr_hash(hash, &config->bytes, sizeof config->bytes);
	if (!object->used)
		return hash;
	data->bytes = hr_run_object_all(object);
	data->crc = crc_of(hr_store_find_id(store, object->id), &data->has_crc);
	data->shard = (struct hr_shard_of){
		.is_shard = object->is_shard,
		.bytes = object->bytes,
		.tile_bytes = object->is_shard ? object->shard.row_bytes : 1,
		.shard = object->shard,
	};
	to->writes = config->writes;
	memcpy(to->store, store->uuid, sizeof to->store);
	return hash;
}

static void describe_pipeline(const struct hr_engine *engine, uint32_t i, struct pipeline_work *to)
{
	const struct hr_run *run = &engine->run[i];
	const struct hr_config_pipeline *p = run->config;
	const uint32_t code = hr_op_built_in(p->op) ? 0 : hr_op_user_checksum(p->op);
	uint64_t hash = hr_hash(HR_HASH_BEGIN, p->name, strlen(p->name) + 1);

	hash = hr_hash(hash, p->op->name, strlen(p->op->name) + 1);
	hash = hr_hash(hash, &code, sizeof code);
	hash = hr_hash(hash, p->op_args, p->op_args_bytes);
	hash = hr_hash(hash, &p->sources, sizeof p->sources);
	hash = hr_hash(hash, &p->verify, sizeof p->verify);
	hash = hr_hash(hash, &p->shard, sizeof p->shard);
	for (uint32_t s = 0; s < p->sources; s++) {
		const struct hr_store_object *object =
			hr_store_find_id(&engine->ssd[p->source[s].ssd].store, run->source[s].id);

		hash = hr_hash(hash, &run->source[s].tile_bytes, sizeof run->source[s].tile_bytes);
		to->source[s].bytes = run->source[s].bytes;
		to->source[s].crc = crc_of(object, &to->source[s].has_crc);
		to->source[s].shard = (struct hr_shard_of){
			.is_shard = run->source[s].is_shard,
			.bytes = run->source[s].held,
			.tile_bytes = run->source[s].tile_bytes,
			.shard = run->source[s].shard,
		};
	}
	for (uint32_t k = 0; k < p->objects; k++)
		hash = describe_object(engine, run, k, hash, &to->object[k]);
	if (p->has_sink)
		memcpy(to->sink_store, engine->ssd[p->sink.ssd].store.uuid, sizeof to->sink_store);
	to->selected = 1;
	to->hash = hash;
	to->tiles = run->tiles;
}

static void describe_work(const struct hr_engine *engine, struct work *to)
{
	memset(to, 0, sizeof *to);
	to->pipelines = engine->config.pipelines;
	for (uint32_t i = 0; i < engine->config.pipelines; i++)
		if (engine->run[i].selected)
			describe_pipeline(engine, i, &to->pipeline[i]);
}

#define CRC_TEXT 24u /* "CRC-32C 00000000" has 17 bytes */

static const char *crc_text(const struct source_work *source, char text[CRC_TEXT])
{
	snprintf(text, CRC_TEXT, source->has_crc ? "CRC-32C %08x" : "no CRC-32C", source->crc);
	return text;
}

/* One whole object of two ranks. */
static int compare_data(const struct hr_engine *engine, const struct hr_config_pipeline *p,
			const struct hr_config_object *object, const struct source_work *a,
			const struct source_work *b, uint32_t rank, struct hr_error *e)
{
	const char *ssd = engine->config.ssd[object->ssd].name;
	char left[CRC_TEXT], right[CRC_TEXT];

	if (a->bytes != b->bytes)
		return hr_error_add(e, HR_ERROR_USAGE, -EINVAL,
				    "pipeline '%s': object '%s' on ssd '%s' has %llu bytes on rank "
				    "%u, but %llu on rank 0",
				    p->name, object->object, ssd, (unsigned long long)b->bytes,
				    rank, (unsigned long long)a->bytes);
	if (a->has_crc != b->has_crc || a->crc != b->crc)
		return hr_error_add(e, HR_ERROR_USAGE, -EINVAL,
				    "pipeline '%s': object '%s' on ssd '%s' has %s on rank %u, but "
				    "%s on rank 0",
				    p->name, object->object, ssd, crc_text(b, right), rank,
				    crc_text(a, left));
	return 0;
}

/* The sources of a pipeline with shard = "tiles", and the whole objects of an access operator. */
static int compare_whole(const struct hr_engine *engine, const struct hr_config_pipeline *p,
			 const struct pipeline_work *first, const struct pipeline_work *other,
			 uint32_t rank, struct hr_error *e)
{
	int err = 0, failed;

	for (uint32_t s = 0; p->shard == HR_SHARD_TILES && s < p->sources; s++) {
		failed = compare_data(engine, p, &p->source[s], &first->source[s],
				      &other->source[s], rank, e);
		err = err ? err : failed;
	}
	for (uint32_t k = 0; k < p->objects; k++) {
		const struct source_work *a = &first->object[k].data, *b = &other->object[k].data;

		if (a->shard.is_shard || b->shard.is_shard)
			continue;
		failed = compare_data(engine, p, &p->object[k], a, b, rank, e);
		err = err ? err : failed;
	}
	return err;
}

static int compare_work(const struct hr_engine *engine, const struct works *all, uint32_t rank,
			struct hr_error *e)
{
	int err = 0;

	for (uint32_t i = 0; i < engine->config.pipelines; i++) {
		const struct hr_config_pipeline *p = &engine->config.pipeline[i];
		const struct pipeline_work *a = work_of(all, 0, i), *b = work_of(all, rank, i);

		if (a->selected != b->selected)
			err = hr_error_add(e, HR_ERROR_USAGE, -EINVAL,
					   "pipeline '%s' is selected on rank %u only", p->name,
					   b->selected ? rank : 0);
		else if (a->hash != b->hash)
			err = hr_error_add(e, HR_ERROR_USAGE, -EINVAL,
					   "%s:%u: pipeline '%s' of rank %u differs from that of "
					   "rank 0 in name, operator, arguments, tile, shard or "
					   "verify",
					   engine->config.file, p->line, p->name, rank);
		else if (a->selected && compare_whole(engine, p, a, b, rank, e) != 0)
			err = -EINVAL;
	}
	return err;
}

static int check_shards(const struct hr_engine *engine, uint32_t i, const struct works *all,
			struct hr_error *e)
{
	const struct hr_config_pipeline *p = &engine->config.pipeline[i];
	const char *names[HR_SOURCES_MAX];
	char what[2 * HR_NAME_MAX + 64];
	int err = 0;

	for (uint32_t s = 0; !err && s < p->sources; s++) {
		names[s] = p->source[s].object;
		snprintf(what, sizeof what, "pipeline '%s': object '%s'", p->name, names[s]);
		err = hr_shards_cover(&work_of(all, 0, i)->source[s].shard, all->step, all->ranks,
				      what, e);
	}
	snprintf(what, sizeof what, "pipeline '%s'", p->name);
	for (uint32_t r = 0; !err && r < all->ranks; r++) {
		const struct hr_shard_of *of[HR_SOURCES_MAX];

		for (uint32_t s = 0; s < p->sources; s++)
			of[s] = &work_of(all, r, i)->source[s].shard;
		err = hr_shards_agree(of, names, p->sources, r, what, e);
	}
	return err;
}

/* The store of the sink of a rank. */
struct sink_store {
	uint8_t uuid[16];
	uint32_t rank;
};

static int by_uuid(const void *a, const void *b)
{
	return memcmp(a, b, sizeof((const struct sink_store *)a)->uuid);
}

/* With shard = "tiles" all ranks have whole objects. */
static int check_whole(const struct hr_engine *engine, uint32_t i, const struct works *all,
		       struct hr_error *e)
{
	const struct hr_config_pipeline *p = &engine->config.pipeline[i];

	for (uint32_t r = 0; r < all->ranks; r++)
		for (uint32_t s = 0; s < p->sources; s++) {
			const struct hr_shard_of *of = &work_of(all, r, i)->source[s].shard;

			if (of->is_shard)
				return hr_error_add(e, HR_ERROR_USAGE, -EINVAL,
						    "%s:%u: pipeline '%s': object '%s' of rank %u "
						    "is shard %u of %u of a data set; expected "
						    "shard = \"objects\"",
						    engine->config.file, p->line, p->name,
						    p->source[s].object, r, of->shard.index,
						    of->shard.last + 1u);
		}
	return 0;
}

/* Ranks that write to one store would overwrite each other's object map. uuid: of the store of rank 0,
 * in its struct work. */
static int check_stores(const struct hr_engine *engine, const struct hr_config_pipeline *p,
			const struct hr_config_object *object, const struct works *all,
			const uint8_t *uuid, struct hr_error *e)
{
	const uint32_t ranks = all->ranks;
	struct sink_store *store = calloc(ranks + 1, sizeof *store); /* never of 0 bytes */
	int err = 0;

	if (!store)
		return hr_fail(e, HR_ERROR_MISSING, -ENOMEM,
			       "out of memory for the sinks of %u ranks", ranks);
	for (uint32_t r = 0; r < ranks; r++) {
		memcpy(store[r].uuid, uuid + r * all->step, sizeof store[r].uuid);
		store[r].rank = r;
	}
	qsort(store, ranks, sizeof *store, by_uuid);
	for (uint32_t r = 1; !err && r < ranks; r++)
		if (by_uuid(&store[r - 1], &store[r]) == 0)
			err = hr_error_add(e, HR_ERROR_USAGE, -EINVAL,
					   "%s:%u: pipeline '%s': %s on ssd '%s' of ranks "
					   "%u and %u is in the same store; expected an ssd for "
					   "each rank, as with ${rank} in its device",
					   engine->config.file, object->line, p->name,
					   p->objects ? object->object : "the sink",
					   engine->config.ssd[object->ssd].name, store[r - 1].rank,
					   store[r].rank);
	free(store);
	return err;
}

/* An object of an access operator that is a shard on any rank is one on all. */
static int check_object(const struct hr_engine *engine, uint32_t i, uint32_t k,
			const struct works *all, struct hr_error *e)
{
	const struct hr_config_pipeline *p = &engine->config.pipeline[i];
	const struct object_work *first = &work_of(all, 0, i)->object[k];
	char what[2 * HR_NAME_MAX + 64];
	bool divided = false;
	int err = 0;

	for (uint32_t r = 0; r < all->ranks; r++)
		divided |= work_of(all, r, i)->object[k].data.shard.is_shard;
	snprintf(what, sizeof what, "pipeline '%s': object '%s'", p->name, p->object[k].object);
	if (divided)
		err = hr_shards_cover(&first->data.shard, all->step, all->ranks, what, e);
	return err || !first->writes ? err
				     : check_stores(engine, p, &p->object[k], all, first->store, e);
}

static int check_pipeline(const struct hr_engine *engine, uint32_t i, const struct works *all,
			  struct hr_error *e)
{
	const struct hr_config_pipeline *p = &engine->config.pipeline[i];
	int err = 0;

	if (p->shard == HR_SHARD_OBJECTS && p->sources)
		err = check_shards(engine, i, all, e);
	for (uint32_t k = 0; !err && k < p->objects; k++)
		if (p->object[k].object[0])
			err = check_object(engine, i, k, all, e);
	return err || !p->has_sink
		       ? err
		       : check_stores(engine, p, &p->sink, all, work_of(all, 0, i)->sink_store, e);
}

/* Each rank has as many pipelines, and so the same length, as rank 0. */
static int check_lengths(const struct hr_engine *engine, const struct hr_collected *all,
			 uint32_t ranks, struct hr_error *e)
{
	size_t at = 0;
	int err = 0;

	for (uint32_t r = 0; !err && r < ranks; r++) {
		const struct work *work = (const struct work *)(const void *)(all->data + at);

		if (all->lengths[r] < work_bytes(0) || work->pipelines > HR_PIPELINES_MAX ||
		    all->lengths[r] != work_bytes(work->pipelines))
			err = hr_fail(e, HR_ERROR_USAGE, -EPROTO,
				      "rank %u runs another version of headrace than rank 0", r);
		else if (work->pipelines != engine->config.pipelines)
			err = hr_error_add(e, HR_ERROR_USAGE, -EINVAL,
					   "%s: rank %u has %llu pipelines, but rank 0 has %u",
					   engine->config.file, r,
					   (unsigned long long)work->pipelines,
					   engine->config.pipelines);
		at += all->lengths[r];
	}
	return err;
}

/* Rank 0: each rank has sent its work. */
static int compare_all(const struct hr_job *job, const struct hr_engine *engine,
		       const struct hr_collected *collected, struct hr_error *e)
{
	const struct works all = { collected->data, work_bytes(engine->config.pipelines),
				   job->ranks.size };
	int err = check_lengths(engine, collected, all.ranks, e);

	if (err)
		return err;
	for (uint32_t i = 0; !err && i < engine->config.pipelines; i++)
		if (work_of(&all, 0, i)->selected &&
		    engine->config.pipeline[i].shard == HR_SHARD_TILES)
			err = check_whole(engine, i, &all, e);
	for (uint32_t r = 1; !err && r < all.ranks; r++)
		err = compare_work(engine, &all, r, e);
	for (uint32_t i = 0; !err && i < engine->config.pipelines; i++)
		if (work_of(&all, 0, i)->selected && all.ranks > 1)
			err = check_pipeline(engine, i, &all, e);
	return err;
}

int hr_ranks_same(struct hr_job *job, const struct hr_engine *engine, struct hr_error *e)
{
	struct hr_collected all;
	struct work mine;
	int err;

	describe_work(engine, &mine);
	err = hr_job_collect(job, &mine, work_bytes(mine.pipelines), &all, e);
	if (!err && job->ranks.rank == 0)
		err = compare_all(job, engine, &all, e);
	hr_collected_free(&all);
	return hr_job_agree(job, err, e);
}

/* A result of all parts, of which some are complete and some are not. */
static int agree_on_run(struct hr_job *job, struct hr_run *run, struct hr_error *e)
{
	const struct hr_config_pipeline *p = run->config;
	bool complete = run->sink_plan == HR_SINK_COMPLETE, some;
	int err;

	if (!run->selected || !hr_config_creates(p, 0) || !p->op->report)
		return 0;
	for (uint32_t k = 0; k < p->objects; k++)
		complete |= run->object[k].plan == HR_SINK_COMPLETE;
	err = hr_job_any(job, !complete, &some, e);
	run->create_again = !err && some;
	return err;
}

int hr_ranks_sinks(struct hr_job *job, struct hr_engine *engine, struct hr_error *e)
{
	int err = hr_job_agree(job, hr_sinks_check(engine), e);

	for (uint32_t i = 0; !err && i < engine->config.pipelines; i++)
		err = agree_on_run(job, &engine->run[i], e);
	return err;
}
