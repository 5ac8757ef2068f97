/*
 * Stage `partition`: what each pipeline needs of its gpu's memory, part by part, before anything is
 * allocated.
 */
#include "boot/engine/stage_partition.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "boot/engine/checksums.h"
#include "boot/engine/mistake.h"
#include "boot/engine/paths.h"
#include "boot/engine/shape.h"
#include "config/log.h"
#include "boot/engine/rings.h"
#include "nvme/status.h"

/* Adds parts for one owner; remembers the first that did not go in. */
struct planner {
	struct hr_partition *partition;
	char owner[HR_NAME_MAX];
	int err;
};

static int add(struct planner *planner, enum hr_place place, uint64_t bytes, uint32_t align,
	       const char *purpose)
{
	int part;

	if (bytes == 0 || planner->err)
		return -1;
	part = hr_partition_add(planner->partition, place, bytes, align, planner->owner, purpose);
	if (part < 0)
		planner->err = part;
	return part;
}

static void plan_queues(struct planner *planner, const struct hr_appliance *app, struct hr_run *run)
{
	const struct hr_config_pipeline *p = run->config;
	uint64_t readers = hr_run_workers(run, HR_ROLE_PREFETCH), tables = 0;
	uint64_t writers = hr_run_workers(run, HR_ROLE_WRITEBACK);
	char purpose[HR_NAME_MAX];
	uint32_t entries;

	for (uint32_t q = 0; q < run->ssds; q++) {
		entries = app->ssd[run->ssd[q]].queue_entries;
		snprintf(purpose, sizeof purpose, "%llu read queue pairs to %.20s, %u entries",
			 (unsigned long long)readers, app->config.ssd[run->ssd[q]].name, entries);
		run->part.source_rings[q] = add(planner, hr_ring_place(app, p->gpu, run->ssd[q]),
						readers * hr_plan_ring_bytes(entries),
						hr_plan_ring_bytes(entries), purpose);
		tables += hr_plan_table_bytes(entries);
	}
	run->part.read_tables = add(planner, HR_PLACE_WORKER, readers * tables, HR_CACHE_LINE,
				    "commands in flight, read");
	run->part.read_qps =
		add(planner, HR_PLACE_WORKER, readers * run->ssds * sizeof(struct hr_nvme_qp),
		    HR_CACHE_LINE, "queue pairs, read");
	if (!p->has_sink)
		return;
	entries = app->ssd[p->sink.ssd].queue_entries;
	snprintf(purpose, sizeof purpose, "%llu write queue pairs to %.20s, %u entries",
		 (unsigned long long)writers, app->config.ssd[p->sink.ssd].name, entries);
	run->part.sink_rings =
		add(planner, hr_ring_place(app, p->gpu, p->sink.ssd),
		    writers * hr_plan_ring_bytes(entries), hr_plan_ring_bytes(entries), purpose);
	run->part.write_tables =
		add(planner, HR_PLACE_WORKER, writers * hr_plan_table_bytes(entries), HR_CACHE_LINE,
		    "commands in flight, write");
	run->part.write_qps = add(planner, HR_PLACE_WORKER, writers * sizeof(struct hr_nvme_qp),
				  HR_CACHE_LINE, "queue pairs, write");
}

static void plan_tiles(struct planner *planner, const struct hr_appliance *app, struct hr_run *run)
{
	const struct hr_config_pipeline *p = run->config;
	uint64_t slots = run->slots, chunks = 0, prps = 0;
	char purpose[HR_NAME_MAX];

	for (uint32_t s = 0; s < p->sources; s++) {
		uint32_t bytes = hr_plan_tile_bytes(run->source[s].tile_bytes);
		uint32_t chunk = app->ssd[p->source[s].ssd].chunk_bytes;

		snprintf(purpose, sizeof purpose, "%llu tiles of %.40s", (unsigned long long)slots,
			 p->source[s].object);
		run->part.source_tiles[s] =
			add(planner, hr_tile_place(app, p->gpu, p->source[s].ssd), slots * bytes,
			    HR_PAGE, purpose);
		chunks += hr_chunk_count(bytes, chunk);
		prps += hr_buffer_prp_bytes(bytes, chunk);
	}
	if (p->has_sink) {
		uint32_t bytes = hr_plan_tile_bytes(run->sink_tile_bytes);
		uint32_t chunk = app->ssd[p->sink.ssd].chunk_bytes;

		snprintf(purpose, sizeof purpose, "%llu tiles for %.40s", (unsigned long long)slots,
			 p->sink.object);
		run->part.sink_tiles = add(planner, hr_tile_place(app, p->gpu, p->sink.ssd),
					   slots * bytes, HR_PAGE, purpose);
		chunks += hr_chunk_count(bytes, chunk);
		prps += hr_buffer_prp_bytes(bytes, chunk);
	}
	run->part.prps = add(planner, HR_PLACE_HOST, slots * prps, HR_PAGE, "PRP lists");
	run->part.chunks = add(planner, HR_PLACE_WORKER, slots * chunks * sizeof(struct hr_prp),
			       HR_CACHE_LINE, "PRP entries of commands");
}

static void plan_work(struct planner *planner, struct hr_run *run)
{
	const struct hr_config_pipeline *p = run->config;
	uint64_t statuses = hr_run_workers(run, HR_ROLE_PREFETCH) + run->blocks[HR_ROLE_COMPUTE] +
			    hr_run_workers(run, HR_ROLE_WRITEBACK);
	const uint64_t words = hr_checksums_words(run);
	uint64_t records;

	if (words > (uint64_t)INT64_MAX / 8 ||
	    __builtin_mul_overflow(run->tiles, p->op->tile_record_bytes, &records) ||
	    records > (uint64_t)INT64_MAX / 2) {
		planner->err = -ENOSPC;
		return;
	}
	run->part.pipe = add(planner, HR_PLACE_WORKER, sizeof(struct hr_pipe), HR_CACHE_LINE,
			     "pipeline descriptor");
	run->part.slots = add(planner, HR_PLACE_WORKER, run->slots * sizeof(struct hr_slot),
			      HR_CACHE_LINE, "slots");
	run->part.control = add(planner, HR_PLACE_CONTROL, sizeof(struct hr_pipe_control),
				HR_CACHE_LINE, "stop flag");
	run->part.status =
		add(planner, HR_PLACE_CONTROL, statuses * sizeof(struct hr_worker_status),
		    HR_CACHE_LINE, "status of workers");
	if (p->has_sink)
		run->part.written = add(planner, HR_PLACE_CONTROL, run->slots * sizeof(uint64_t),
					HR_CACHE_LINE, "watermarks of slots");
	run->part.checksums = add(planner, HR_PLACE_CONTROL, words * sizeof(uint32_t),
				  HR_CACHE_LINE, "checksums, one a tile and object");
	run->part.args = add(planner, HR_PLACE_WORKER, p->op_args_bytes, HR_CACHE_LINE,
			     "operator arguments");
	run->part.result =
		add(planner, HR_PLACE_WORKER, HR_OP_RESULT_MAX, HR_CACHE_LINE, "operator result");
	run->part.records = add(planner, HR_PLACE_WORKER, records, HR_CACHE_LINE,
				"operator records, one a tile");
	run->part.states = add(planner, HR_PLACE_GPU,
			       (uint64_t)hr_run_workers(run, HR_ROLE_COMPUTE) *
				       hr_op_state_bytes(p->op, p->op_args),
			       HR_CACHE_LINE, "operator states");
	if (run->copies || run->stages)
		run->part.copy = add(planner, HR_PLACE_GPU,
				     run->blocks[HR_ROLE_COMPUTE] * hr_run_copy_bytes(run), HR_PAGE,
				     "copies of tiles, one a block");
}

static int plan_run(struct hr_appliance *app, struct hr_run *run)
{
	struct planner planner = { .partition = &app->partition[run->config->gpu] };
	const int err = hr_shape_run(app, run);

	if (err)
		return err;
	snprintf(planner.owner, sizeof planner.owner, "pipeline %.50s", run->config->name);
	memset(&run->part, 0xff, sizeof run->part);
	plan_work(&planner, run);
	plan_queues(&planner, app, run);
	plan_tiles(&planner, app, run);
	if (planner.err)
		return hr_mistake_at(app, run->config->line,
				     "pipeline '%s' needs more memory, or more parts, than a "
				     "partition can have (%u)",
				     run->config->name, HR_PARTS_MAX);
	return 0;
}

/* " and ssd 'b' (line 3)": the other ssds of the controller of ssd d, which is the first. */
static const char *name_others(const struct hr_appliance *app, uint32_t d, char *text, size_t bytes)
{
	size_t at = 0;

	text[0] = '\0';
	for (uint32_t i = d + 1; i < app->config.ssds && at < bytes; i++)
		if (hr_one_controller(app, i, d))
			at += (size_t)snprintf(text + at, bytes - at, " and ssd '%s' (line %u)",
					       app->config.ssd[i].name, app->config.ssd[i].line);
	return text;
}

/* I/O queue pairs of all pipelines against what the controllers have granted. */
static int check_queues(const struct hr_appliance *app)
{
	uint32_t need[HR_SSDS_MAX] = { 0 }; /* of the first ssd of each controller */

	for (uint32_t i = 0; i < app->config.pipelines; i++) {
		const struct hr_run *run = &app->run[i];

		if (!run->selected)
			continue;
		for (uint32_t q = 0; q < run->ssds; q++)
			need[hr_first_of_controller(app, run->ssd[q])] +=
				hr_run_workers(run, HR_ROLE_PREFETCH);
		if (run->config->has_sink)
			need[hr_first_of_controller(app, run->config->sink.ssd)] +=
				hr_run_workers(run, HR_ROLE_WRITEBACK);
	}
	for (uint32_t d = 0; d < app->config.ssds; d++) {
		const uint32_t have = hr_ssd_queues_left(&app->ssd[d]);
		char others[HR_LOG_LINE_MAX / 2];

		if (need[d] > have) {
			hr_error("%s:%u: ssd '%s'%s (%s): the pipelines need %u I/O queue pairs, "
				 "but the controller has %u left; use fewer blocks",
				 app->config.file, app->config.ssd[d].line, app->config.ssd[d].name,
				 name_others(app, d, others, sizeof others),
				 app->ssd[d].transport.name, need[d], have);
			return -ENOTSUP;
		}
	}
	return 0;
}

/* Places [first, end) lie in the same memory, of which memory.`what` allows so much. */
static int check_shared(const struct hr_appliance *app, uint32_t g, int first, int end,
			uint64_t limit, const char *what)
{
	const struct hr_partition *p = &app->partition[g];
	char parts[HR_LOG_LINE_MAX / 2] = "";
	uint64_t sum = 0;
	size_t at = 0;

	for (int place = first; place < end; place++) {
		sum += p->used[place];
		at += (size_t)snprintf(
			parts + at, sizeof parts - at, "%s%s %llu", place > first ? " + " : "",
			hr_place_name((enum hr_place)place), (unsigned long long)p->used[place]);
	}
	if (!limit || sum <= limit)
		return 0;
	hr_error("%s: gpu '%s': the partition does not fit: %s = %llu bytes, but memory.%s allows "
		 "%llu; raise it, or use smaller tiles or fewer slots",
		 app->config.file, app->config.gpu[g].name, parts, (unsigned long long)sum, what,
		 (unsigned long long)limit);
	return -EINVAL;
}

/* A host backend whose GPU memory is a BAR: all but that is host memory. */
static int check_bar(const struct hr_appliance *app, uint32_t g)
{
	const struct hr_backend *b = &app->backend[g];
	const uint64_t used = app->partition[g].used[HR_PLACE_GPU];

	if (used > b->peer_bytes) {
		hr_error("%s:%u: gpu '%s': the partition does not fit: gpu %llu bytes, but the BAR "
			 "of %s has %llu; use smaller tiles or fewer slots",
			 app->config.file, app->config.gpu[g].line, app->config.gpu[g].name,
			 (unsigned long long)used, b->peer, (unsigned long long)b->peer_bytes);
		return -ENOTSUP;
	}
	return check_shared(app, g, 0, HR_PLACE_GPU, app->config.memory_host, "host");
}

static int check_sum(const struct hr_appliance *app, uint32_t g)
{
	const struct hr_partition *p = &app->partition[g];
	const char *gpu = app->config.gpu[g].name;
	char message[HR_LOG_LINE_MAX];

	if (hr_partition_check(p, message) != 0) {
		hr_error("%s: gpu '%s': the partition does not fit: %s; "
			 "raise it, or use smaller tiles or fewer slots",
			 app->config.file, gpu, message);
		return -EINVAL;
	}
	if (app->backend[g].peer[0])
		return check_bar(app, g);
	/* On the host backend all places are host memory, so they share its limit; on a GPU the
	 * workers' place and the GPU's are one memory. */
	if (app->backend[g].lanes == 1)
		return check_shared(app, g, 0, HR_PLACES, app->config.memory_host, "host");
	return check_shared(app, g, HR_PLACE_WORKER, HR_PLACES, app->config.memory_gpu, "gpu");
}

int hr_partition_plan(struct hr_appliance *app)
{
	uint64_t limit[HR_PLACES] = { 0 };
	int err = 0;

	limit[HR_PLACE_HOST] = app->config.memory_host;
	limit[HR_PLACE_GPU] = app->config.memory_gpu;
	for (uint32_t g = 0; g < app->config.gpus; g++)
		hr_partition_init(&app->partition[g], limit);
	for (uint32_t i = 0; !err && i < app->config.pipelines; i++)
		if (app->run[i].selected)
			err = plan_run(app, &app->run[i]);
	for (uint32_t g = 0; !err && g < app->config.gpus; g++)
		err = check_sum(app, g);
	return err ? err : check_queues(app);
}

int hr_partition_up(struct hr_appliance *app)
{
	const int err = hr_paths_up(app);

	return err ? err : hr_partition_plan(app);
}
