/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shape of a pipeline with an access operator. On a GPU few blocks drive queues, because a warp
 * posts and reaps 32 commands at a time; all others run the operator. Frames default to what the
 * objects fill, as far as the memory allows.
 */
#include "boot/engine/shape/shape.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "boot/engine/objects/shards.h"
#include "boot/engine/concurrency.h"
#include "boot/engine/object_users.h"
#include "boot/engine/run.h"
#include "cache/page_policy.h"
#include "config/derived.h"
#include "gpu/ops/operators.h"

#define GPU_THREADS 512u
#define GPU_IO_BLOCKS 6u
#define COMMANDS 64u /* of one I/O worker: two per lane of a warp */
#define COMMANDS_MIN 8u
#define STAGING_BYTES (128u << 20)	   /* of all I/O workers; larger buffers gain nothing */
#define IO_WORKERS_MAX (2 * HR_BLOCKS_MAX) /* status records that the engine watches */
/* A hash spreads pages over sets, so some sets overflow when there are only as many frames as pages. */
#define SPARE_PERCENT 25u
#define SPARE_FRAMES (16 * HR_WAYS)
/* With fewer rows for each I/O worker, some have many more rows than others, and limit the rate. */
#define ROWS_OF_IO_WORKER 8u

_Static_assert((int)HR_CACHE_CLOCK == HR_POLICY_CLOCK && (int)HR_CACHE_LRU == HR_POLICY_LRU &&
		       (int)HR_CACHE_STREAM == HR_POLICY_STREAM &&
		       (int)HR_CACHE_COUNT == HR_POLICY_COUNT,
	       "policies of the configuration are those of the cache");
_Static_assert(HR_CACHE_FRAMES_MIN == HR_WAYS, "the smallest cache is one set");
_Static_assert(IO_WORKERS_MAX + HR_BLOCKS_MAX <= HR_GPU_STATUSES_MAX, "the watch sees all of them");

#define REFUSE(engine, run, kind, err, format, ...)                                \
	hr_error_add(&(engine)->error, kind, err, "%s:%u: pipeline '%s': " format, \
		     (engine)->config.file, (run)->config->line, (run)->config->name, __VA_ARGS__)

static uint32_t min_u32(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

static uint32_t most(uint32_t a, uint32_t b)
{
	return a > b ? a : b;
}

/* ---- several gpus */

/* Two gpus of a run: workers of one access memory of the other. */
static int check_pair(struct hr_engine *engine, const struct hr_run *run, uint32_t g,
		      uint32_t other)
{
	struct hr_backend *a = &engine->backend[g], *b = &engine->backend[other];
	const char *name = engine->config.gpu[g].name, *its = engine->config.gpu[other].name;
	struct hr_error e = { 0 };
	int err;

	if (a->lanes != b->lanes || a->ops->share != b->ops->share)
		return REFUSE(engine, run, HR_ERROR_USAGE, -EINVAL,
			      "gpu '%s' is %s and gpu '%s' is %s, expected gpus of one kind", name,
			      a->name, its, b->name);
	if (a->facts && strcmp(a->facts->pci, b->facts->pci) == 0)
		return REFUSE(engine, run, HR_ERROR_USAGE, -EINVAL,
			      "gpus '%s' and '%s' are the same device, %s, expected different ones",
			      name, its, a->facts->pci);
	err = a->ops->share(a, NULL, b, &e);
	return err ? REFUSE(engine, run, e.kind, err,
			    "gpu '%s' cannot use the memory of gpu '%s': %s", its, name, e.text)
		   : 0;
}

static int check_gpus(struct hr_engine *engine, const struct hr_run *run)
{
	int err = 0;

	for (uint32_t p = 0; p < hr_run_gpus(run); p++)
		for (uint32_t q = 0; !err && q < hr_run_gpus(run); q++)
			if (p != q)
				err = check_pair(engine, run, hr_config_gpu(run->config, p),
						 hr_config_gpu(run->config, q));
	return err;
}

/* ---- blocks */

/* Queue pairs that this pipeline may have on each of its ssds, for each of its gpus. */
static uint32_t queue_share(const struct hr_engine *engine, const struct hr_run *run)
{
	uint32_t share = IO_WORKERS_MAX;

	for (uint32_t q = 0; q < run->ssds; q++) {
		uint32_t among = 0;

		for (uint32_t i = 0; i < engine->config.pipelines; i++)
			if (engine->run[i].selected &&
			    hr_config_uses_ssd(engine->run[i].config, run->ssd[q]))
				among += hr_run_gpus(&engine->run[i]);
		if (among)
			share = min_u32(share,
					hr_ssd_queues_left(&engine->ssd[run->ssd[q]]) / among);
	}
	return most(share, 1);
}

static void blocks_cpu(struct hr_run *run)
{
	const struct hr_config_pipeline *p = run->config;

	run->threads = 1;
	run->blocks[HR_ROLE_IO] = most(p->io_blocks, 1);
	run->blocks[HR_ROLE_ACCESS] = most(p->compute_blocks, 1);
	run->workers[HR_ROLE_IO] = run->workers[HR_ROLE_ACCESS] = 1;
}

/* All gpus of a run have the same blocks: the smallest gpu limits them. */
static uint32_t thread_limit(const struct hr_engine *engine, const struct hr_run *run)
{
	uint32_t limit = UINT32_MAX;

	for (uint32_t p = 0; p < hr_run_gpus(run); p++) {
		const struct hr_backend *b = &engine->backend[hr_config_gpu(run->config, p)];
		const uint32_t of_entry = run->gpu[p].entry_threads;

		limit = min_u32(limit, of_entry ? of_entry : b->max_threads);
	}
	return limit;
}

/* *resident: blocks that each gpu holds; *room: of those, how many this pipeline may have; *by: the gpu
 * that holds the fewest. */
static int ask_room(struct hr_engine *engine, const struct hr_run *run, uint32_t *resident,
		    uint32_t *room, uint32_t *by)
{
	*resident = *room = UINT32_MAX;
	for (uint32_t p = 0; p < hr_run_gpus(run); p++) {
		const uint32_t g = hr_config_gpu(run->config, p);
		struct hr_backend *b = &engine->backend[g];
		const uint32_t budget =
			hr_concurrency_budget(engine, g) / most(hr_concurrency_most(engine, g), 1);
		struct hr_error e = { 0 };
		uint32_t holds;
		const int err = b->ops->resident(b, run->gpu[p].entry, run->threads,
						 run->shared_bytes, &holds, &e);

		if (err)
			return REFUSE(engine, run, e.kind, err, "%s", e.text);
		if (holds < *resident)
			*by = g;
		*resident = min_u32(*resident, holds);
		*room = min_u32(*room, min_u32(holds, budget));
	}
	return 0;
}

static int choose_threads(struct hr_engine *engine, struct hr_run *run, uint32_t share)
{
	const struct hr_backend *b = &engine->backend[run->config->gpu];
	const uint32_t limit = thread_limit(engine, run);

	run->threads = run->config->threads;
	if (!run->threads)
		run->threads = min_u32(GPU_THREADS, limit / b->wave * b->wave);
	while (!run->config->threads && run->threads > b->wave && run->threads / b->lanes > share)
		run->threads = run->threads / 2 / b->wave * b->wave;
	if (run->threads % b->wave)
		return REFUSE(engine, run, HR_ERROR_USAGE, -EINVAL,
			      "threads is %u, but %s needs a multiple of %u", run->threads, b->name,
			      b->wave);
	return 0;
}

/* Blocks of both kinds have the same number of warps. */
static int blocks_gpu(struct hr_engine *engine, struct hr_run *run)
{
	const struct hr_config_pipeline *p = run->config;
	const uint32_t share = queue_share(engine, run);
	uint32_t resident, room, warps, by = p->gpu;
	int err = choose_threads(engine, run, share);

	if (!err)
		err = ask_room(engine, run, &resident, &room, &by);
	if (err)
		return err;
	warps = run->threads / engine->backend[p->gpu].lanes;
	run->blocks[HR_ROLE_IO] = p->io_blocks;
	if (!p->io_blocks)
		run->blocks[HR_ROLE_IO] =
			most(min_u32(min_u32(GPU_IO_BLOCKS, share / most(warps, 1)), room / 2), 1);
	run->blocks[HR_ROLE_ACCESS] = p->compute_blocks;
	/* threads of so few blocks can have twice the registers (gpu/cuda/README.md) */
	room = min_u32(room,
		       engine->backend[p->gpu].processors * most(GPU_THREADS / run->threads, 1));
	if (!p->compute_blocks)
		run->blocks[HR_ROLE_ACCESS] =
			room > run->blocks[HR_ROLE_IO]
				? min_u32(room - run->blocks[HR_ROLE_IO], HR_BLOCKS_MAX)
				: 1;
	run->workers[HR_ROLE_IO] = run->workers[HR_ROLE_ACCESS] = warps;
	if (run->blocks[HR_ROLE_IO] + run->blocks[HR_ROLE_ACCESS] <= resident)
		return 0;
	return REFUSE(engine, run, HR_ERROR_USAGE, -EINVAL,
		      "%u I/O + %u compute blocks of %u threads, but %s holds %u of them at once; "
		      "use fewer blocks, or threads",
		      run->blocks[HR_ROLE_IO], run->blocks[HR_ROLE_ACCESS], run->threads,
		      engine->backend[by].name, resident);
}

static int shape_blocks(struct hr_engine *engine, struct hr_run *run)
{
	int err = 0;

	memset(run->blocks, 0, sizeof run->blocks);
	memset(run->workers, 0, sizeof run->workers);
	run->shared_bytes = 0;
	if (engine->backend[run->config->gpu].lanes == 1) {
		blocks_cpu(run);
	} else {
		run->shared_bytes = HR_ACCESS_LAUNCH_MEMORY;
		err = blocks_gpu(engine, run);
	}
	if (!err && hr_run_workers(run, HR_ROLE_IO) > IO_WORKERS_MAX)
		err = REFUSE(engine, run, HR_ERROR_USAGE, -EINVAL,
			     "%u I/O blocks of %u warps are %u workers, expected at most %u",
			     run->blocks[HR_ROLE_IO], run->workers[HR_ROLE_IO],
			     hr_run_workers(run, HR_ROLE_IO), IO_WORKERS_MAX);
	return err;
}

/* ---- the page cache */

/* Number the pages of all objects: each begins at a group of its own. Returns the end. */
static uint64_t number_pages(const struct hr_run *run, struct hr_page_cache *cache)
{
	const uint32_t page = run->config->cache.page_bytes;
	const uint64_t group = (uint64_t)1 << HR_GROUP_SHIFT_MAX;
	uint64_t next = 0;

	cache->objects = run->config->objects;
	for (uint32_t i = 0; i < cache->objects; i++) {
		const uint64_t bytes = run->object[i].bytes;
		const uint64_t pages = bytes / page + (bytes % page != 0);

		if (!run->object[i].used) {
			cache->object[i].first_page = HR_NO_PAGE;
			continue;
		}
		cache->object[i] = (struct hr_object){ .bytes = run->object[i].bytes,
						       .first_page = (uint32_t)next,
						       .pages = (uint32_t)pages,
						       .index = i,
						       .writable = run->config->object[i].writes,
						       .divided = run->object[i].is_shard,
						       .at = hr_run_object_at(&run->object[i]) };
		cache->object[i].all_bytes =
			run->object[i].is_shard ? hr_run_object_all(&run->object[i]) : 0;
		if (__builtin_add_overflow(next, (pages + group - 1) / group * group, &next) ||
		    next > HR_PAGES_MAX)
			return UINT64_MAX;
	}
	return next;
}

/* Memory of a gpu that the frames of one pipeline may have, when the configuration gives none. */
static uint64_t gpu_room(const struct hr_engine *engine, uint32_t g)
{
	const struct hr_config *c = &engine->config;
	const struct hr_backend *b = &engine->backend[g];
	const bool host = b->lanes == 1 && !b->peer[0];
	uint64_t bytes = host ? c->memory_host : c->memory_gpu, among = 0;

	for (uint32_t i = 0; i < c->pipelines; i++)
		among += engine->run[i].selected && engine->run[i].config->objects &&
			 hr_config_uses_gpu(engine->run[i].config, g);
	if (bytes)
		bytes /= 2; /* the rest of the memory is for other parts */
	else if (b->peer[0])
		bytes = b->peer_bytes / 4 * 3;
	else if (b->facts)
		bytes = b->facts->memory_bytes / 4 * 3;
	else
		bytes = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE) / 4;
	return among ? bytes / among : bytes;
}

/* The same on all gpus of the pipeline: that of the smallest. Gpus of the host share its memory. */
static uint64_t frame_room(const struct hr_engine *engine, const struct hr_run *run)
{
	uint64_t room = UINT64_MAX, host = 0;

	for (uint32_t p = 0; p < hr_run_gpus(run); p++) {
		const uint32_t g = hr_config_gpu(run->config, p);
		const struct hr_backend *b = &engine->backend[g];
		const uint64_t one = gpu_room(engine, g);

		host += b->lanes == 1 && !b->peer[0] && !engine->config.memory_host;
		room = one < room ? one : room;
	}
	return host ? room / host : room;
}

static uint64_t frames_wanted(const struct hr_engine *engine, const struct hr_run *run,
			      uint64_t pages)
{
	const struct hr_config_cache *cache = &run->config->cache;
	uint64_t frames = pages + pages / 100 * SPARE_PERCENT + SPARE_FRAMES, room;

	if (cache->frames)
		return cache->frames;
	if (cache->frame_bytes)
		return cache->frame_bytes / cache->page_bytes;
	room = frame_room(engine, run) / cache->page_bytes;
	if (room < HR_WAYS)
		room = HR_WAYS;
	return frames < room ? frames : room;
}

/* Pages are whole blocks of each ssd, and fit into one command. *merge: bytes of the largest
 * command. */
static int check_pages(struct hr_engine *engine, const struct hr_run *run, uint32_t *merge)
{
	const uint32_t page = run->config->cache.page_bytes;

	*merge = HR_CHUNK_MAX;
	for (uint32_t i = 0; i < run->config->objects; i++) {
		const struct hr_config_object *object = &run->config->object[i];
		const struct hr_ssd *ssd = &engine->ssd[object->ssd];

		if (!run->object[i].used)
			continue;
		if (page & ((1u << ssd->ns.lba_shift) - 1))
			return REFUSE(engine, run, HR_ERROR_USAGE, -EINVAL,
				      "object '%s': pages have %u bytes, expected whole blocks of "
				      "%u bytes of ssd '%s'",
				      object->object, page, 1u << ssd->ns.lba_shift,
				      engine->config.ssd[object->ssd].name);
		if (page > ssd->chunk_bytes)
			return REFUSE(engine, run, HR_ERROR_USAGE, -EINVAL,
				      "object '%s': pages have %u bytes, but commands of ssd '%s' "
				      "transfer at most %u (MDTS); use smaller pages",
				      object->object, page, engine->config.ssd[object->ssd].name,
				      ssd->chunk_bytes);
		*merge = min_u32(*merge, ssd->chunk_bytes);
	}
	return 0;
}

static int shape_cache(struct hr_engine *engine, struct hr_run *run, struct hr_page_cache *cache)
{
	const uint32_t page = run->config->cache.page_bytes;
	const uint64_t pages = number_pages(run, cache);
	const uint64_t frames = frames_wanted(engine, run, pages);
	const int err = pages == UINT64_MAX
				? -EFBIG
				: hr_page_shape(&cache->shape, frames,
						(uint32_t)__builtin_ctz(page), pages ? pages : 1);

	cache->policy = run->config->cache.policy;
	if (!err)
		hr_page_shape_divide(&cache->shape, pages ? pages : 1,
				     (uint64_t)ROWS_OF_IO_WORKER * run->blocks[HR_ROLE_IO] *
					     run->workers[HR_ROLE_IO]);
	if (err == -EFBIG)
		return REFUSE(engine, run, HR_ERROR_USAGE, -EINVAL,
			      "its objects have too many pages of %u bytes for %llu frames; use "
			      "larger pages, or more frames",
			      page, (unsigned long long)frames);
	if (err)
		return REFUSE(engine, run, HR_ERROR_USAGE, -EINVAL,
			      "the memory has room for %llu frames of %u bytes, expected at least "
			      "%u",
			      (unsigned long long)frames, page, HR_WAYS);
	return 0;
}

/* ---- commands */

static uint64_t staging_limit(const struct hr_engine *engine)
{
	const uint64_t quarter = engine->config.memory_host / 4;

	return quarter && quarter < STAGING_BYTES ? quarter : STAGING_BYTES;
}

/* Commands use the frames when every controller reaches them. */
static void choose_places(const struct hr_engine *engine, struct hr_run *run, uint32_t member)
{
	const uint32_t g = hr_config_gpu(run->config, member);
	const struct hr_backend *b = &engine->backend[g];
	struct hr_access_layout *l = &run->gpu[member].layout;
	bool direct = true;

	for (uint32_t q = 0; q < run->ssds; q++)
		direct &= engine->path[g][run->ssd[q]].direct;
	/* CPU threads use host memory as fast as any other: all controllers reach it */
	l->frames_in = b->lanes == 1 && !b->peer[0] ? HR_PLACE_HOST : HR_PLACE_GPU;
	l->stages = l->frames_in == HR_PLACE_GPU && !direct;
}

static bool stages(const struct hr_run *run)
{
	bool any = false;

	for (uint32_t p = 0; p < hr_run_gpus(run); p++)
		any |= run->gpu[p].layout.stages;
	return any;
}

/* The same on all gpus, so one that stages limits all. */
static void shape_commands(const struct hr_engine *engine, struct hr_run *run, struct hr_access *a,
			   uint32_t merge)
{
	const struct hr_page_shape *shape = &a->cache.shape;
	const uint64_t limit = staging_limit(engine);

	a->merge_pages = min_u32(1u << shape->group_shift, merge >> shape->page_shift);
	a->commands = COMMANDS;
	for (uint32_t q = 0; q < run->ssds; q++) {
		const uint32_t entries = engine->ssd[run->ssd[q]].queue_entries;

		a->commands = min_u32(a->commands, most(entries - 1, 1));
	}
	if (!stages(run))
		return;
	while (a->merge_pages > 1 && hr_access_staging_bytes(a) > limit)
		a->merge_pages /= 2;
	while (a->commands > COMMANDS_MIN && hr_access_staging_bytes(a) > limit)
		a->commands /= 2;
}

/* ---- the whole shape */

static void describe_access(const struct hr_run *run, struct hr_access *a)
{
	a->io_blocks = run->blocks[HR_ROLE_IO];
	a->compute_blocks = run->blocks[HR_ROLE_ACCESS];
	a->warps = run->workers[HR_ROLE_IO];
	a->cache.computers = hr_access_computers(a);
	hr_cache_set_io_workers(&a->cache, hr_access_io_workers(a));
	a->cache.rank = run->part;
	a->cache.ranks = run->parts;
	a->ssds = run->ssds;
	for (uint32_t i = 0; i < run->config->objects; i++)
		a->queue_of[i] = run->object[i].queue;
}

static int describe_operator(struct hr_engine *engine, const struct hr_run *run,
			     struct hr_access *a)
{
	const struct hr_config_pipeline *p = run->config;
	uint64_t bytes[HR_OBJECTS_MAX] = { 0 };

	for (uint32_t i = 0; i < p->objects; i++)
		bytes[i] = hr_run_object_all(&run->object[i]);
	a->state_bytes = hr_op_state_bytes(p->op, p->op_args);
	a->scratch_bytes = p->op->scratch_bytes ? p->op->scratch_bytes(p->op_args, bytes) : 0;
	if (a->scratch_bytes && hr_run_gpus(run) > 1)
		return REFUSE(engine, run, HR_ERROR_USAGE, -EINVAL,
			      "operator %s with these arguments shares %llu bytes of memory among "
			      "its workers, so it runs on one gpu; expected gpu = \"%s\"",
			      p->op->name, (unsigned long long)a->scratch_bytes,
			      engine->config.gpu[p->gpu].name);
	return 0;
}

/* One gpu: the numbers that all gpus have in common, and its own. */
static void describe_gpu(struct hr_engine *engine, struct hr_run *run, uint32_t member,
			 const struct hr_access *common)
{
	struct hr_access_layout *l = &run->gpu[member].layout;

	run->gpu[member].cpu = *common;
	l->access = &run->gpu[member].cpu;
	l->gpus = hr_run_gpus(run);
	l->self = member;
	l->args = run->config->op_args;
	l->args_bytes = run->config->op_args_bytes;
	for (uint32_t q = 0; q < run->ssds; q++)
		l->queue[q] = (struct hr_pipe_queues){
			.ssd = &engine->ssd[run->ssd[q]],
			.name = engine->config.ssd[run->ssd[q]].name,
			.place = hr_ring_place(engine, hr_config_gpu(run->config, member),
					       run->ssd[q]),
		};
}

int hr_access_shape(struct hr_engine *engine, struct hr_run *run)
{
	struct hr_access common = { 0 };
	uint32_t merge;
	int err = check_gpus(engine, run);

	if (!err)
		err = shape_blocks(engine, run);
	if (!err)
		err = check_pages(engine, run, &merge);
	if (!err)
		err = shape_cache(engine, run, &common.cache);
	if (!err)
		err = describe_operator(engine, run, &common);
	if (err)
		return err;
	for (uint32_t p = 0; p < hr_run_gpus(run); p++) {
		memset(&run->gpu[p].layout, 0, sizeof run->gpu[p].layout);
		choose_places(engine, run, p);
	}
	describe_access(run, &common);
	shape_commands(engine, run, &common, merge);
	if (common.commands < 2 && hr_run_gpus(run) > 1)
		return REFUSE(engine, run, HR_ERROR_USAGE, -EINVAL,
			      "an I/O worker has %u command at a time, expected 2 or more with "
			      "several gpus; use queue_entries of 3 or more",
			      common.commands);
	for (uint32_t p = 0; p < hr_run_gpus(run); p++)
		describe_gpu(engine, run, p, &common);
	return 0;
}

static uint64_t longest_timeout(const struct hr_engine *engine, const struct hr_run *run)
{
	uint64_t longest = 0;

	for (uint32_t q = 0; q < run->ssds; q++)
		if (engine->ssd[run->ssd[q]].timeout_ns > longest)
			longest = engine->ssd[run->ssd[q]].timeout_ns;
	return longest;
}

static void complete_gpu(const struct hr_engine *engine, struct hr_run *run, uint32_t member)
{
	const struct hr_config_pipeline *p = run->config;
	const uint32_t g = hr_config_gpu(p, member);
	struct hr_access_layout *l = &run->gpu[member].layout;
	struct hr_access *a = &run->gpu[member].cpu;

	a->op = hr_op_id_of(p->op);
	/* A page gets a frame at the latest when the commands of other pages have ended. */
	a->cache.timeout_ns = longest_timeout(engine, run) + HR_STALL_TIMEOUT_NS;
	for (uint32_t q = 0; q < run->ssds; q++) {
		a->flush[q] = engine->ssd[run->ssd[q]].ctrl->volatile_cache;
		l->queue[q].bar = engine->bar[g][run->ssd[q]];
	}
	for (uint32_t i = 0; i < p->objects; i++)
		if (run->object[i].used)
			hr_run_extent(engine, p->object[i].ssd, run->object[i].id,
				      &a->cache.extent[i]);
}

void hr_access_complete(const struct hr_engine *engine, struct hr_run *run)
{
	for (uint32_t p = 0; p < hr_run_gpus(run); p++)
		complete_gpu(engine, run, p);
}
