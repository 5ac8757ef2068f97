/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shape of a pipeline: slots, blocks of each role, threads of a block, workers that drive
 * queues. Values that the configuration leaves open are derived from the gpu.
 *
 * On the CPU a block is a thread, and one block per role is enough for two cores. On a GPU prefetch
 * and write-back use few processors, because a warp posts and reaps 32 commands at a time; all
 * other processors compute. The number of slots follows from the data in flight between ssd and
 * operator: rate times latency.
 */
#include "boot/engine/shape/shape.h"

#include <assert.h>
#include <string.h>

#include "boot/engine/objects/checksums.h"
#include "boot/engine/layout/sizes.h"
#include "boot/engine/concurrency.h"
#include "config/derived.h"

#define GPU_THREADS 256u /* threads of a block; 8 to 16 such blocks fill a PCIe link */
/* bytes of the tiles of all slots: 1 ms of a x16 Gen5 link */
#define GPU_SLOT_BYTES (64ull << 20)
/* percent of the processors for prefetch and write-back together */
#define GPU_IO_PERCENT 5u
#define GPU_TAP_PART 4u		   /* a pipeline with a tap uses 1 / 4 of the processors */
#define GPU_IO_SLOTS_PER_WORKER 2u /* with fewer slots most workers would be idle */

/*
 * Maximum queue pairs of each role. More do not increase the rate. Small tiles use more workers,
 * because a fence takes tens of microseconds while the link is full, and several workers then wait
 * in parallel.
 */
#define GPU_SMALL_TILE (256u << 10)
#define GPU_IO_WORKERS_MAX 16u
#define GPU_IO_WORKERS_SMALL 48u

static uint32_t min_u32(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

static uint32_t most(uint32_t a, uint32_t b)
{
	return a > b ? a : b;
}

static uint64_t slot_bytes(const struct hr_run *run)
{
	uint64_t bytes =
		hr_config_has_output(run->config) ? hr_layout_tile_bytes(run->sink_tile_bytes) : 0;

	for (uint32_t s = 0; s < run->config->sources; s++)
		bytes += hr_layout_tile_bytes(run->source[s].tile_bytes);
	return bytes;
}

/* True when the tiles of a source lie in host memory. */
static bool bounces(const struct hr_engine *engine, const struct hr_run *run)
{
	const struct hr_config_pipeline *p = run->config;
	bool any = false;

	for (uint32_t s = 0; s < hr_config_source_objects(p); s++)
		any |= !engine->path[p->gpu][p->source[s].ssd].direct;
	return any;
}

uint64_t hr_run_copy_bytes(const struct hr_run *run)
{
	uint64_t bytes = run->stages ? hr_layout_tile_bytes(run->sink_tile_bytes) : 0;

	for (uint32_t s = 0; run->copies && s < run->config->sources; s++)
		bytes += hr_layout_tile_bytes(run->source[s].tile_bytes);
	return bytes;
}

const char *hr_run_bounce(const struct hr_engine *engine, const struct hr_run *run)
{
	if (engine->backend[run->config->gpu].lanes == 1 || !bounces(engine, run))
		return NULL;
	return run->copies ? "copied to the GPU" : "in place";
}

static uint32_t gpu_slots(const struct hr_engine *engine, const struct hr_run *run)
{
	const uint64_t half = engine->config.memory_host / 2; /* leave half for other parts */
	const uint64_t slot = slot_bytes(run);
	uint64_t bytes = GPU_SLOT_BYTES, slots;

	if (half && half < bytes)
		bytes = half;
	assert(slot > 0); /* there is at least one source, and tiles are not empty */
	slots = bytes / slot;
	if (slots > hr_run_end_tile(run) - hr_run_first_tile(run))
		slots = hr_run_end_tile(run) - hr_run_first_tile(run);
	return min_u32(most((uint32_t)slots, HR_SLOTS_DEFAULT), HR_SLOTS_MAX);
}

/* Number of pipelines that may own queue pairs of an ssd at the same time, counted once per
 * role. */
static uint32_t sharers(const struct hr_engine *engine, uint32_t d)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < engine->config.pipelines; i++) {
		const struct hr_run *run = &engine->run[i];
		bool reads = false;

		for (uint32_t s = 0; run->selected && s < hr_config_source_objects(run->config);
		     s++)
			reads |= hr_one_controller(engine, run->config->source[s].ssd, d);
		count += reads;
		count += run->selected && run->config->has_sink &&
			 hr_one_controller(engine, run->config->sink.ssd, d);
	}
	return count;
}

/* Queue pairs that a role of this pipeline may have on each of its ssds. */
static uint32_t queue_share(const struct hr_engine *engine, const struct hr_run *run,
			    enum hr_role role)
{
	const struct hr_config_pipeline *p = run->config;
	uint32_t share =
		slot_bytes(run) < GPU_SMALL_TILE ? GPU_IO_WORKERS_SMALL : GPU_IO_WORKERS_MAX;

	for (uint32_t q = 0; q < (role == HR_ROLE_PREFETCH ? run->ssds : 1); q++) {
		const uint32_t d = role == HR_ROLE_PREFETCH ? run->ssd[q] : p->sink.ssd;
		const uint32_t have = hr_ssd_queues_left(&engine->ssd[d]);

		const uint32_t among = sharers(engine, d);

		assert(among > 0); /* at least this pipeline */
		share = min_u32(share, have / among);
	}
	return most(share, 1);
}

/* Blocks and workers of prefetch or write-back: the smallest number of blocks for the workers,
 * at most a quarter of the blocks of the pipeline. */
static void gpu_io(const struct hr_engine *engine, struct hr_run *run, enum hr_role role,
		   uint32_t wanted, uint32_t share)
{
	const struct hr_backend *b = &engine->backend[run->config->gpu];
	const uint32_t warps = run->threads / b->lanes, roles = run->config->has_sink ? 2 : 1;
	const uint32_t room =
		most(min_u32(b->processors * GPU_IO_PERCENT / 100 / roles, share / 4), 1);
	const uint32_t busy = most(run->slots / GPU_IO_SLOTS_PER_WORKER, 1);
	const uint32_t workers = min_u32(queue_share(engine, run, role), busy);

	assert(warps > 0);
	run->blocks[role] = wanted ? wanted : min_u32((workers + warps - 1) / warps, room);
	assert(run->blocks[role] > 0);
	run->workers[role] = min_u32(most(workers / run->blocks[role], 1), warps);
}

static void gpu_compute(const struct hr_backend *b, struct hr_run *run, uint32_t resident,
			uint32_t share)
{
	const uint32_t io = run->blocks[HR_ROLE_PREFETCH] + run->blocks[HR_ROLE_WRITEBACK];
	const uint32_t room = min_u32(min_u32(b->processors, resident), share);

	run->blocks[HR_ROLE_COMPUTE] = run->config->compute_blocks;
	if (!run->config->compute_blocks)
		run->blocks[HR_ROLE_COMPUTE] = min_u32(run->slots, room > io ? room - io : 1);
	run->workers[HR_ROLE_COMPUTE] = run->threads / b->lanes;
}

/* A user operator may need so many registers that only smaller blocks are possible. */
static uint32_t max_threads(const struct hr_backend *b, const struct hr_run *run)
{
	return run->gpu[0].entry_threads ? run->gpu[0].entry_threads : b->max_threads;
}

/* A producer can write to a tile while the operator reads it. Built-in operators allow that; a user
 * operator gets a copy. The other appliance of a remote source has proved that it has the key. */
static bool copies_feed(const struct hr_config_pipeline *p)
{
	return p->bounce == HR_BOUNCE_COPY ||
	       (p->bounce == HR_BOUNCE_AUTO && !hr_op_built_in(p->op) && !hr_config_receives(p));
}

/* Tiles with a checksum are copied to GPU memory before it is computed, so that they cross the
 * link only once. */
static void shape_copies(const struct hr_engine *engine, struct hr_run *run)
{
	const struct hr_config_pipeline *p = run->config;

	run->copies =
		bounces(engine, run) && (p->bounce == HR_BOUNCE_COPY || hr_run_verifies(run) ||
					 (p->bounce == HR_BOUNCE_AUTO && !p->op->reads_once));
	if (hr_config_has_feed(p))
		run->copies = copies_feed(p);
	run->stages = p->has_sink && p->sink.checksum && !engine->path[p->gpu][p->sink.ssd].direct;
	run->shared_bytes = hr_run_checksums(run) ? HR_CHECKSUM_MEMORY : 0;
}

/* Blocks that fit beside the other processes of a tap or feed, which need processors of their own. Few
 * blocks fill a link, so such a pipeline leaves most of the GPU to them unless the configuration
 * gives a number. */
static uint32_t budget(const struct hr_engine *engine, const struct hr_config_pipeline *p)
{
	const uint32_t blocks = hr_concurrency_budget(engine, p->gpu);
	const bool shares = (hr_config_has_tap(p) && !hr_config_sends(p)) ||
			    (hr_config_has_feed(p) && !hr_config_receives(p));

	if (!shares || engine->config.gpu[p->gpu].blocks)
		return blocks;
	return most(min_u32(blocks, engine->backend[p->gpu].processors) / GPU_TAP_PART, 1);
}

static int shape_gpu(struct hr_engine *engine, struct hr_run *run)
{
	const struct hr_config_pipeline *p = run->config;
	struct hr_backend *b = &engine->backend[p->gpu];
	/* equal shares of the blocks for the pipelines that may run at the same time */
	const uint32_t share = budget(engine, p) / most(hr_concurrency_most(engine, p->gpu), 1);
	uint32_t resident, blocks = 0;
	int err;

	run->threads = p->threads ? p->threads : min_u32(GPU_THREADS, max_threads(b, run));
	if (run->threads % b->wave)
		return hr_error_add(
			&engine->error, HR_ERROR_USAGE, -EINVAL,
			"%s:%u: pipeline '%s': blocks.threads is %u, but %s needs a multiple "
			"of %u",
			engine->config.file, p->line, p->name, run->threads, b->name, b->wave);
	run->slots = p->slots ? p->slots : gpu_slots(engine, run);
	shape_copies(engine, run);
	err = b->ops->resident(b, run->gpu[0].entry, run->threads, run->shared_bytes, &resident,
			       &engine->error);
	if (err)
		return err;
	memset(run->blocks, 0, sizeof run->blocks);
	memset(run->workers, 0, sizeof run->workers);
	if (hr_config_has_feed(p))
		run->blocks[HR_ROLE_PREFETCH] = run->workers[HR_ROLE_PREFETCH] = 1;
	else
		gpu_io(engine, run, HR_ROLE_PREFETCH, p->prefetch_blocks, share);
	if (p->has_sink)
		gpu_io(engine, run, HR_ROLE_WRITEBACK, p->writeback_blocks, share);
	else if (hr_config_has_tap(p))
		run->blocks[HR_ROLE_WRITEBACK] = run->workers[HR_ROLE_WRITEBACK] = 1;
	gpu_compute(b, run, resident, share);
	for (int role = 0; role < HR_ROLES; role++)
		blocks += run->blocks[role];
	if (blocks <= resident)
		return 0;
	return hr_error_add(
		&engine->error, HR_ERROR_USAGE, -EINVAL,
		"%s:%u: pipeline '%s': %u + %u + %u blocks of %u threads, but %s holds %u of "
		"them at once; use fewer blocks, or threads",
		engine->config.file, p->line, p->name, run->blocks[HR_ROLE_PREFETCH],
		run->blocks[HR_ROLE_COMPUTE], run->blocks[HR_ROLE_WRITEBACK], run->threads, b->name,
		resident);
}

static int shape_cpu(struct hr_run *run)
{
	const struct hr_config_pipeline *p = run->config;

	run->threads = 1;
	run->slots = p->slots ? p->slots : HR_SLOTS_DEFAULT;
	run->copies = hr_config_has_feed(p) && copies_feed(p);
	run->stages = false;
	run->shared_bytes = 0;
	run->blocks[HR_ROLE_PREFETCH] = most(p->prefetch_blocks, 1);
	run->blocks[HR_ROLE_COMPUTE] = most(p->compute_blocks, 1);
	run->blocks[HR_ROLE_WRITEBACK] = hr_config_has_output(p) ? most(p->writeback_blocks, 1) : 0;
	for (int role = 0; role < HR_ROLES; role++)
		run->workers[role] = 1;
	return 0;
}

int hr_shape_run(struct hr_engine *engine, struct hr_run *run)
{
	return engine->backend[run->config->gpu].lanes == 1 ? shape_cpu(run)
							    : shape_gpu(engine, run);
}
