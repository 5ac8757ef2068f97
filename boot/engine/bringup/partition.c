/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stage `partition`: plan the memory of each pipeline on its gpu, part by part, before any
 * allocation.
 */
#include "boot/engine/bringup/stage.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "boot/engine/shape/shape.h"
#include "boot/engine/objects/checksums.h"
#include "boot/engine/shape/paths.h"
#include "boot/engine/concurrency.h"
#include "config/tile.h"
#include "boot/engine/shape/gpu_sharing.h"
#include "config/base/log.h"
#include "config/derived.h"
#include "nvme/queue/status.h"

/* The numbers of an object; stage `queues` sets the rest for workers. */
static struct hr_pipe_tiles tiles_of(const struct hr_engine *engine, const struct hr_run *run,
				     const struct hr_config_object *object, bool summed)
{
	return (struct hr_pipe_tiles){ .object = object->object,
				       .place =
					       hr_tile_place(engine, run->config->gpu, object->ssd),
				       .summed = summed };
}

static struct hr_pipe_queues queues_of(struct hr_engine *engine, const struct hr_run *run,
				       uint32_t d)
{
	return (struct hr_pipe_queues){ .ssd = &engine->ssd[d],
					.name = engine->config.ssd[d].name,
					.place = hr_ring_place(engine, run->config->gpu, d) };
}

static void describe_tap(const struct hr_engine *engine, struct hr_run *run)
{
	const struct hr_config_tap *c = &run->config->tap;
	struct hr_tap_role *role = &run->tap.role;
	const char *why;

	memset(role, 0, sizeof *role);
	role->each = c->deliver == HR_TAP_EACH;
	role->drop = c->lag == HR_TAP_DROP;
	role->consumers = c->consumers;
	role->tries = c->tries;
	role->park = hr_run_gpu_sharing(engine, run, &why) == HR_SHARE_PARK;
	for (role->ring = 1; role->ring < run->slots;)
		role->ring *= 2;
	run->layout.tap = role;
}

static void describe_feed(struct hr_run *run)
{
	const struct hr_config_pipeline *c = run->config;
	struct hr_feed_role *role = &run->feed.role;

	memset(role, 0, sizeof *role);
	role->row_bytes = hr_config_tile_bytes(c, 0) / hr_config_tile_rows(c);
	role->out_num = c->op->out_num;
	role->out_den = c->op->out_den ? c->op->out_den : 1;
	for (role->ring = 1; role->ring < run->slots;)
		role->ring *= 2;
	run->cpu.source[0].tile_bytes = run->source[0].tile_bytes;
	run->layout.source[0] =
		(struct hr_pipe_tiles){ .object = c->feed.name, .place = HR_PLACE_TAP };
	run->layout.feed = role;
}

static void describe_objects(struct hr_engine *engine, struct hr_run *run)
{
	const struct hr_config_pipeline *c = run->config;
	struct hr_pipe_layout *layout = &run->layout;
	const uint32_t align = engine->backend[c->gpu].shared_align;
	const bool gpu = engine->backend[c->gpu].lanes > 1;
	struct hr_pipe *pipe = &run->cpu;

	layout->tap_align = align > HR_PAGE ? align : HR_PAGE;
	/* a peer is one client, for the whole run */
	layout->tap_sets = gpu && !hr_config_sends(c) ? HR_TAP_SETS_MAX : 0;
	layout->feed_sets = gpu && !hr_config_receives(c) ? HR_TAP_SETS_MAX : 0;
	pipe->sources = c->sources;
	for (uint32_t s = 0; s < hr_config_source_objects(c); s++) {
		pipe->source[s].tile_bytes = run->source[s].tile_bytes;
		pipe->source[s].queue = run->source[s].queue;
		pipe->source[s].extent.chunk_bytes = engine->ssd[c->source[s].ssd].chunk_bytes;
		layout->source[s] = tiles_of(engine, run, &c->source[s], hr_run_sums(run, s));
	}
	pipe->read_queues = run->ssds;
	for (uint32_t q = 0; q < run->ssds; q++)
		layout->read[q] = queues_of(engine, run, run->ssd[q]);
	pipe->has_sink = hr_config_has_output(c);
	pipe->sink_tile_bytes = pipe->has_sink ? run->sink_tile_bytes : 0;
	if (hr_config_has_feed(c))
		describe_feed(run);
	if (hr_config_has_tap(c))
		describe_tap(engine, run);
	if (!c->has_sink)
		return;
	pipe->sink.chunk_bytes = engine->ssd[c->sink.ssd].chunk_bytes;
	layout->sink = tiles_of(engine, run, &c->sink, c->sink.checksum);
	layout->write = queues_of(engine, run, c->sink.ssd);
}

static void describe_pipe(struct hr_engine *engine, struct hr_run *run)
{
	const struct hr_config_pipeline *c = run->config;
	struct hr_pipe *pipe = &run->cpu;

	memset(pipe, 0, sizeof *pipe);
	memset(&run->layout, 0, sizeof run->layout);
	run->layout.pipe = pipe;
	run->layout.args = c->op_args;
	run->layout.args_bytes = c->op_args_bytes;
	pipe->tiles = hr_run_end_tile(run);
	pipe->part = run->parts > 0;
	pipe->slots = run->slots;
	pipe->state_bytes = hr_op_state_bytes(c->op, c->op_args);
	pipe->record_bytes = c->op->tile_record_bytes;
	pipe->copy_bytes = hr_run_copy_bytes(run);
	memcpy(pipe->blocks, run->blocks, sizeof pipe->blocks);
	memcpy(pipe->workers, run->workers, sizeof pipe->workers);
	describe_objects(engine, run);
}

/* One part of the run of an access operator on each of its gpus, or a stream operator. */
static int plan_parts(struct hr_engine *engine, struct hr_run *run)
{
	char owner[HR_NAME_MAX];
	int err = 0;

	snprintf(owner, sizeof owner, "pipeline %.50s", run->config->name);
	for (uint32_t p = 0; !err && p < hr_run_gpus(run); p++) {
		struct hr_partition *on = &engine->partition[hr_config_gpu(run->config, p)];

		err = run->config->objects ? hr_access_layout_plan(&run->gpu[p].layout, on, owner)
					   : hr_pipe_layout_plan(&run->layout, on, owner);
	}
	return err;
}

static int plan_run(struct hr_engine *engine, struct hr_run *run)
{
	const bool accesses = run->config->objects > 0;
	int err = accesses ? hr_access_shape(engine, run) : hr_shape_run(engine, run);

	if (err)
		return err;
	if (!accesses)
		describe_pipe(engine, run);
	err = plan_parts(engine, run);
	if (err)
		return hr_error_add(&engine->error, HR_ERROR_USAGE, -EINVAL,
				    "%s:%u: pipeline '%s' needs more memory, or more parts, than a "
				    "partition can have (%u)",
				    engine->config.file, run->config->line, run->config->name,
				    HR_PARTS_MAX);
	return 0;
}

/* The other ssds of the controller of ssd d, which is the first, as " and ssd 'b' (line 3)". */
static const char *name_others(const struct hr_engine *engine, uint32_t d, char *text, size_t bytes)
{
	size_t at = 0;

	text[0] = '\0';
	for (uint32_t i = d + 1; i < engine->config.ssds && at < bytes; i++)
		if (hr_one_controller(engine, i, d))
			at += (size_t)snprintf(text + at, bytes - at, " and ssd '%s' (line %u)",
					       engine->config.ssd[i].name,
					       engine->config.ssd[i].line);
	return text;
}

/* Compare the I/O queue pairs of all pipelines with those that the controllers have granted. */
static int check_queues(struct hr_engine *engine)
{
	/* indexed by the first ssd of each controller */
	uint32_t need[HR_SSDS_MAX] = { 0 };

	for (uint32_t i = 0; i < engine->config.pipelines; i++) {
		const struct hr_run *run = &engine->run[i];

		if (!run->selected)
			continue;
		for (uint32_t q = 0; q < run->ssds; q++)
			need[hr_first_of_controller(engine, run->ssd[q])] +=
				hr_run_gpus(run) * hr_run_workers(run, run->config->objects
									       ? HR_ROLE_IO
									       : HR_ROLE_PREFETCH);
		if (run->config->has_sink)
			need[hr_first_of_controller(engine, run->config->sink.ssd)] +=
				hr_run_workers(run, HR_ROLE_WRITEBACK);
	}
	for (uint32_t d = 0; d < engine->config.ssds; d++) {
		const uint32_t have = hr_ssd_queues_left(&engine->ssd[d]);
		char others[HR_LOG_LINE_MAX / 2];

		if (need[d] > have)
			return hr_fail(
				&engine->error, HR_ERROR_MISSING, -ENOTSUP,
				"%s:%u: ssd '%s'%s (%s): the pipelines need %u I/O queue pairs, "
				"but the controller has %u left; use fewer blocks",
				engine->config.file, engine->config.ssd[d].line,
				engine->config.ssd[d].name,
				name_others(engine, d, others, sizeof others),
				engine->ssd[d].transport.name, need[d], have);
	}
	return 0;
}

/* Check places from `first` to before `end`, but not `skip`, which lie in the same memory, against
 * memory.`what`. */
static int check_shared(struct hr_engine *engine, uint32_t g, int first, int end, int skip,
			uint64_t limit, const char *what)
{
	const struct hr_partition *p = &engine->partition[g];
	char parts[HR_LOG_LINE_MAX / 2] = "";
	uint64_t sum = 0;
	size_t at = 0;

	for (int place = first; place < end; place++) {
		if (place == skip || (place >= HR_PLACE_TAP && !p->used[place]))
			continue;
		sum += p->used[place];
		at += (size_t)snprintf(
			parts + at, sizeof parts - at, "%s%s %llu", place > first ? " + " : "",
			hr_place_name((enum hr_place)place), (unsigned long long)p->used[place]);
	}
	if (!limit || sum <= limit)
		return 0;
	return hr_fail(
		&engine->error, HR_ERROR_USAGE, -EINVAL,
		"%s: gpu '%s': the partition does not fit: %s = %llu bytes, but memory.%s allows "
		"%llu; raise it, or use smaller tiles, fewer slots, or fewer frames",
		engine->config.file, engine->config.gpu[g].name, parts, (unsigned long long)sum,
		what, (unsigned long long)limit);
}

/* For a host backend whose GPU memory is a BAR: all other places are host memory. */
static int check_bar(struct hr_engine *engine, uint32_t g)
{
	const struct hr_backend *b = &engine->backend[g];
	const uint64_t used = engine->partition[g].used[HR_PLACE_GPU];

	if (used > b->peer_bytes)
		return hr_fail(
			&engine->error, HR_ERROR_MISSING, -ENOTSUP,
			"%s:%u: gpu '%s': the partition does not fit: gpu %llu bytes, but the BAR "
			"of %s has %llu; use smaller tiles, fewer slots, or fewer frames",
			engine->config.file, engine->config.gpu[g].line, engine->config.gpu[g].name,
			(unsigned long long)used, b->peer, (unsigned long long)b->peer_bytes);
	return check_shared(engine, g, 0, HR_PLACES, HR_PLACE_GPU, engine->config.memory_host,
			    "host");
}

static int check_sum(struct hr_engine *engine, uint32_t g)
{
	const struct hr_partition *p = &engine->partition[g];
	const char *gpu = engine->config.gpu[g].name;
	struct hr_error e = { 0 };

	if (hr_partition_check(p, &e) != 0)
		return hr_fail(&engine->error, HR_ERROR_USAGE, -EINVAL,
			       "%s: gpu '%s': the partition does not fit: %s; "
			       "raise it, or use smaller tiles, fewer slots, or fewer frames",
			       engine->config.file, gpu, e.text);
	if (engine->backend[g].peer[0])
		return check_bar(engine, g);
	/* On the host backend all places are host memory, so they share its limit. On a GPU the
	 * places WORKER, GPU and TAP share the memory of the GPU. */
	if (engine->backend[g].lanes == 1)
		return check_shared(engine, g, 0, HR_PLACES, HR_PLACES, engine->config.memory_host,
				    "host");
	return check_shared(engine, g, HR_PLACE_WORKER, HR_PLACE_TAP_WORDS, HR_PLACES,
			    engine->config.memory_gpu, "gpu");
}

int hr_partition_plan(struct hr_engine *engine)
{
	uint64_t limit[HR_PLACES] = { 0 };
	int err = 0;

	limit[HR_PLACE_HOST] = engine->config.memory_host;
	limit[HR_PLACE_GPU] = engine->config.memory_gpu;
	for (uint32_t g = 0; g < engine->config.gpus; g++)
		hr_partition_init(&engine->partition[g], limit);
	for (uint32_t i = 0; !err && i < engine->config.pipelines; i++)
		if (engine->run[i].selected)
			err = plan_run(engine, &engine->run[i]);
	if (!err)
		err = hr_concurrency_check(engine);
	for (uint32_t g = 0; !err && g < engine->config.gpus; g++)
		err = check_sum(engine, g);
	return err ? err : check_queues(engine);
}

int hr_partition_up(struct hr_engine *engine)
{
	const int err = hr_paths_up(engine);

	return err ? err : hr_partition_plan(engine);
}
