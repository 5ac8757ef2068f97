#include "boot/ranks/same.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/bytes.h"
#include "config/check.h"
#include "config/uses.h"
#include "gpu/ops/user.h"

/* The work of a rank, as it travels to rank 0. */
struct source_work {
	uint64_t bytes;
	uint32_t has_crc, crc;
};

struct pipeline_work {
	uint64_t selected, hash, tiles;
	struct source_work source[HR_SOURCES_MAX];
};

struct work {
	uint64_t pipelines;
	struct pipeline_work pipeline[HR_PIPELINES_MAX];
};

static const char *refusal(const struct hr_config_pipeline *p)
{
	if (p->objects)
		return "operators that access objects do not run on several ranks yet";
	if (hr_config_has_output(p))
		return "a sink is not possible on several ranks yet";
	if (hr_config_has_feed(p))
		return "a feed is not possible on several ranks";
	if (p->shard != HR_SHARD_TILES)
		return "with --mpi each pipeline needs shard = \"tiles\"";
	return NULL;
}

int hr_ranks_check(const struct hr_appliance *app, struct hr_error *e)
{
	int err = 0;

	for (uint32_t i = 0; i < app->config.pipelines; i++) {
		const struct hr_config_pipeline *p = &app->config.pipeline[i];
		const char *why = app->run[i].selected ? refusal(p) : NULL;

		if (why)
			err = hr_error_add(e, HR_ERROR_USAGE, -EINVAL, "%s:%u: pipeline '%s': %s",
					   app->config.file, p->line, p->name, why);
	}
	return err;
}

void hr_ranks_divide(struct hr_appliance *app, const struct hr_ranks *ranks)
{
	char name[2 * HR_NAME_MAX];

	for (uint32_t i = 0; i < app->config.pipelines; i++) {
		app->run[i].part = ranks->rank;
		app->run[i].parts = ranks->size;
	}
	snprintf(name, sizeof name, "%s.%u", app->config.name, ranks->rank);
	if (strlen(name) < sizeof app->config.name)
		memcpy(app->config.name, name, strlen(name) + 1);
}

static void describe_pipeline(const struct hr_appliance *app, uint32_t i, struct pipeline_work *to)
{
	const struct hr_run *run = &app->run[i];
	const struct hr_config_pipeline *p = run->config;
	const uint32_t code = hr_op_built_in(p->op) ? 0 : hr_op_user_checksum(p->op);
	uint64_t hash = hr_hash(HR_HASH_BEGIN, p->name, strlen(p->name) + 1);

	hash = hr_hash(hash, p->op->name, strlen(p->op->name) + 1);
	hash = hr_hash(hash, &code, sizeof code);
	hash = hr_hash(hash, p->op_args, p->op_args_bytes);
	hash = hr_hash(hash, &p->sources, sizeof p->sources);
	hash = hr_hash(hash, &p->verify, sizeof p->verify);
	for (uint32_t s = 0; s < p->sources; s++) {
		const struct hr_store_object *object =
			hr_store_find_id(&app->ssd[p->source[s].ssd].store, run->source[s].id);

		hash = hr_hash(hash, &run->source[s].tile_bytes, sizeof run->source[s].tile_bytes);
		to->source[s].bytes = run->source[s].bytes;
		to->source[s].has_crc = object && object->flags & HR_OBJECT_HAS_CRC;
		to->source[s].crc = to->source[s].has_crc ? object->crc : 0;
	}
	to->selected = 1;
	to->hash = hash;
	to->tiles = run->tiles;
}

static void describe(const struct hr_appliance *app, struct work *to)
{
	memset(to, 0, sizeof *to);
	to->pipelines = app->config.pipelines;
	for (uint32_t i = 0; i < app->config.pipelines; i++)
		if (app->run[i].selected)
			describe_pipeline(app, i, &to->pipeline[i]);
}

static const char *crc_text(const struct source_work *source, char text[16])
{
	snprintf(text, 16, source->has_crc ? "CRC-32C %08x" : "no CRC-32C", source->crc);
	return text;
}

static int compare_sources(const struct hr_appliance *app, const struct hr_config_pipeline *p,
			   const struct pipeline_work *first, const struct pipeline_work *other,
			   uint32_t rank, struct hr_error *e)
{
	int err = 0;

	for (uint32_t s = 0; s < p->sources; s++) {
		const struct source_work *a = &first->source[s], *b = &other->source[s];
		const char *object = p->source[s].object;
		const char *ssd = app->config.ssd[p->source[s].ssd].name;
		char left[16], right[16];

		if (a->bytes != b->bytes)
			err = hr_error_add(e, HR_ERROR_USAGE, -EINVAL,
					   "pipeline '%s': object '%s' on ssd '%s' has %llu bytes "
					   "on rank %u, but %llu on rank 0",
					   p->name, object, ssd, (unsigned long long)b->bytes, rank,
					   (unsigned long long)a->bytes);
		else if (a->has_crc != b->has_crc || a->crc != b->crc)
			err = hr_error_add(e, HR_ERROR_USAGE, -EINVAL,
					   "pipeline '%s': object '%s' on ssd '%s' has %s on rank "
					   "%u, but %s on rank 0",
					   p->name, object, ssd, crc_text(b, right), rank,
					   crc_text(a, left));
	}
	return err;
}

static int compare(const struct hr_appliance *app, const struct work *first,
		   const struct work *other, uint32_t rank, struct hr_error *e)
{
	int err = 0;

	if (first->pipelines != other->pipelines)
		return hr_error_add(e, HR_ERROR_USAGE, -EINVAL,
				    "%s: rank %u has %llu pipelines, but rank 0 has %llu",
				    app->config.file, rank, (unsigned long long)other->pipelines,
				    (unsigned long long)first->pipelines);
	for (uint32_t i = 0; i < app->config.pipelines; i++) {
		const struct hr_config_pipeline *p = &app->config.pipeline[i];
		const struct pipeline_work *a = &first->pipeline[i], *b = &other->pipeline[i];

		if (a->selected != b->selected)
			err = hr_error_add(e, HR_ERROR_USAGE, -EINVAL,
					   "pipeline '%s' is selected on rank %u only", p->name,
					   b->selected ? rank : 0);
		else if (a->hash != b->hash)
			err = hr_error_add(e, HR_ERROR_USAGE, -EINVAL,
					   "%s:%u: pipeline '%s' of rank %u differs from that of "
					   "rank 0 in name, operator, arguments, tile or verify",
					   app->config.file, p->line, p->name, rank);
		else if (compare_sources(app, p, a, b, rank, e) != 0)
			err = -EINVAL;
	}
	return err;
}

/* Rank 0: each rank has sent one struct work. */
static int compare_all(const struct hr_job *job, const struct hr_appliance *app,
		       const struct hr_collected *all, struct hr_error *e)
{
	const struct work *work = (const struct work *)(const void *)all->data;
	int err = 0;

	for (uint32_t r = 1; r < job->ranks.size; r++) {
		const int failed = compare(app, &work[0], &work[r], r, e);
		err = err ? err : failed;
	}
	return err;
}

int hr_ranks_same(struct hr_job *job, const struct hr_appliance *app, struct hr_error *e)
{
	struct hr_collected all;
	struct work mine;
	int err;

	describe(app, &mine);
	err = hr_job_collect_same(job, &mine, sizeof mine, &all, e);
	if (!err && job->ranks.rank == 0)
		err = compare_all(job, app, &all, e);
	hr_collected_free(&all);
	return hr_job_agree(job, err, e);
}
