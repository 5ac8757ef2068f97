/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/engine/objects/shards.h"

#include <errno.h>

#include "boot/engine/objects/new_objects.h"
#include "config/tile.h"
#include "config/derived.h"

static uint64_t min_u64(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* ---- sinks */

static uint64_t sink_end(const struct hr_run *run, uint64_t tiles)
{
	return tiles == run->tiles ? run->sink_bytes
				   : min_u64(tiles * run->sink_tile_bytes, run->sink_bytes);
}

uint64_t hr_run_sink_at(const struct hr_run *run)
{
	return sink_end(run, hr_run_first_tile(run));
}

uint64_t hr_run_sink_held(const struct hr_run *run)
{
	return sink_end(run, hr_run_end_tile(run)) - hr_run_sink_at(run);
}

uint64_t hr_run_sink_prefix(const struct hr_run *run, uint64_t tiles)
{
	const uint64_t end = sink_end(run, tiles), at = hr_run_sink_at(run);

	return end > at ? end - at : 0;
}

/* A row of the output, when each row of the first source makes whole bytes; else one byte. */
static uint32_t sink_row_bytes(const struct hr_config_pipeline *p)
{
	const uint64_t row = hr_config_tile_bytes(p, 0) / hr_config_tile_rows(p);
	const uint64_t bytes = row * p->op->out_num;

	return bytes % p->op->out_den ? 1 : (uint32_t)(bytes / p->op->out_den);
}

void hr_run_sink_shard(const struct hr_run *run, struct hr_store_shard *shard)
{
	const uint32_t row = sink_row_bytes(run->config);

	*shard = (struct hr_store_shard){ .first_row = hr_run_sink_at(run) / row,
					  .rows = run->sink_bytes / row,
					  .set = run->data_set,
					  .row_bytes = row,
					  .index = (uint16_t)run->part,
					  .last = (uint16_t)(run->parts - 1) };
}

/* ---- sources */

static void set_source_shard(struct hr_run_source *source, const struct hr_store_shard *shard,
			     uint64_t bytes)
{
	source->is_shard = shard != NULL;
	source->at = 0;
	source->held = source->bytes = bytes;
	if (!shard)
		return;
	source->shard = *shard;
	source->at = shard->first_row * shard->row_bytes;
	source->bytes = shard->rows * shard->row_bytes;
}

void hr_run_set_source(struct hr_run *run, uint32_t s, const struct hr_store_object *object)
{
	set_source_shard(&run->source[s], object->flags & HR_OBJECT_SHARD ? &object->shard : NULL,
			 object->bytes);
}

void hr_run_set_source_of(struct hr_run *run, uint32_t s, const struct hr_run *maker)
{
	const struct hr_config_object *wanted = &run->config->source[s];
	struct hr_store_shard shard;
	const bool divided = hr_new_object_shard(maker, wanted, &shard);

	set_source_shard(&run->source[s], divided ? &shard : NULL,
			 hr_new_object_bytes(maker, wanted));
}

int hr_shard_refuse(struct hr_engine *engine, const struct hr_config_object *object,
		    const struct hr_store_shard *shard, uint64_t bytes)
{
	return hr_error_add(
		&engine->error, HR_ERROR_USAGE, -EINVAL,
		"%s:%u: object '%s' on ssd '%s' is shard %u of %u of a data set, %llu of %llu "
		"rows from row %llu; expected shard = \"objects\" and 'mpirun -n %u headrace run "
		"--mpi'",
		engine->config.file, object->line, object->object,
		engine->config.ssd[object->ssd].name, shard->index, shard->last + 1u,
		(unsigned long long)(bytes / shard->row_bytes), (unsigned long long)shard->rows,
		(unsigned long long)shard->first_row, shard->last + 1u);
}

int hr_run_check_shard(struct hr_engine *engine, const struct hr_run *run, uint32_t s)
{
	const struct hr_run_source *source = &run->source[s];

	if (!source->is_shard || hr_run_is_divided(run))
		return 0;
	return hr_shard_refuse(engine, &run->config->source[s], &source->shard, source->held);
}

void hr_run_set_tiles(struct hr_run *run)
{
	const struct hr_run_source *source = &run->source[0];
	const uint64_t tile = source->tile_bytes, end = source->at + source->held;

	run->of_shards = run->config->shard == HR_SHARD_OBJECTS && hr_run_is_divided(run);
	run->shard_begin = min_u64(source->at / tile + (source->at % tile != 0), run->tiles);
	run->shard_end = min_u64(end / tile + (end % tile != 0), run->tiles);
}

uint64_t hr_new_object_bytes(const struct hr_run *run, const struct hr_config_object *object)
{
	if (run->config->objects)
		return hr_run_made_object(run, object)->bytes;
	return hr_run_is_divided(run) ? hr_run_sink_held(run) : run->sink_bytes;
}

uint64_t hr_new_object_id(const struct hr_run *run, const struct hr_config_object *object)
{
	return run->config->objects ? hr_run_made_object(run, object)->id : run->sink_id;
}

bool hr_new_object_shard(const struct hr_run *run, const struct hr_config_object *object,
			 struct hr_store_shard *shard)
{
	if (!hr_run_is_divided(run))
		return false;
	if (run->config->objects)
		*shard = hr_run_made_object(run, object)->shard;
	else
		hr_run_sink_shard(run, shard);
	return true;
}
