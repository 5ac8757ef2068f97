/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/harness/access_rig.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "boot/engine/layout/sizes.h"
#include "cache/page_policy.h"
#include "cache/peers.h"
#include "config/base/clock.h"
#include "gpu/ops/operators.h"
#include "gpu/ops/user.h"
#include "tests/harness/error.h"
#include "tests/harness/random.h"

#define NO_FRAME_NS (60 * HR_NS_PER_S)

uint64_t access_memory = 8u << 20;

void access_up(struct access_rig *r, uint32_t ssds, const char *options, const char *script,
	       uint32_t entries, uint64_t timeout_ns)
{
	memset(r, 0, sizeof *r);
	r->seed = fake_random_seed("access");
	r->block = hr_access_block;
	rig_place_bytes[HR_PLACE_HOST] = rig_place_bytes[HR_PLACE_WORKER] = access_memory;
	if (script)
		rig_up_faulty(&r->rig, ssds, options, script, entries, timeout_ns);
	else
		rig_up(&r->rig, ssds, options, entries, timeout_ns);
}

void access_down(struct access_rig *r)
{
	for (uint32_t i = 0; i < HR_OBJECTS_MAX; i++)
		free(r->model[i]);
	rig_down(&r->rig);
}

static uint64_t object_at(const struct access_rig *r, uint32_t object)
{
	return (uint64_t)(object / r->rig.ssds) * ACCESS_OBJECT;
}

static struct hr_blk *disk_of(struct access_rig *r, uint32_t object)
{
	return &r->rig.ssd[object % r->rig.ssds].disk.blk;
}

static uint64_t whole_blocks(const struct access_rig *r, uint64_t bytes)
{
	const uint64_t mask = ((uint64_t)1 << r->rig.lba_shift) - 1;

	return (bytes + mask) & ~mask;
}

/* Take memory of a place, zeroed. Returns its offset. */
static uint64_t take(struct access_rig *r, enum hr_place place, uint64_t bytes, uint64_t align)
{
	const struct hr_region *region = &r->rig.memory.region[place];
	const uint64_t at = (r->used[place] + align - 1) & ~(align - 1);

	r->used[place] = at + bytes;
	cr_assert_leq(r->used[place], region->bytes, "the rig has too little memory");
	memset((uint8_t *)region->cpu + at, 0, bytes);
	return at;
}

static void *worker_memory(struct access_rig *r, uint64_t bytes)
{
	uint8_t *cpu = r->rig.memory.region[HR_PLACE_WORKER].cpu;

	return cpu + take(r, HR_PLACE_WORKER, bytes, HR_CACHE_LINE);
}

static void *dma_memory(struct access_rig *r, uint64_t bytes, uint64_t *bus)
{
	const struct hr_region *region = &r->rig.memory.region[HR_PLACE_HOST];
	const uint64_t at = take(r, HR_PLACE_HOST, bytes, HR_PAGE);

	cr_assert(hr_region_contiguous(region, at, bytes));
	*bus = hr_region_bus(region, at).addr;
	return (uint8_t *)region->cpu + at;
}

static void fill_object(struct access_rig *r, uint32_t i, uint64_t bytes)
{
	struct fake_random random = { r->seed + i };
	struct hr_blk *blk = disk_of(r, i);
	const uint64_t all = whole_blocks(r, bytes) + RIG_BEHIND;

	cr_assert_leq(all, ACCESS_OBJECT);
	free(r->model[i]);
	cr_assert_not_null(r->model[i] = malloc(all));
	r->model_bytes[i] = all;
	fake_random_fill(&random, r->model[i], all);
	cr_assert_eq(blk->ops->write(blk, object_at(r, i), r->model[i], all, false, NULL), 0);
}

static uint32_t wire_object(struct access_rig *r, struct hr_access *access, uint32_t i,
			    const struct access_work *work, uint32_t first_page)
{
	struct hr_page_cache *cache = &access->cache;
	const struct hr_ssd *ssd = &r->rig.ssd[i % r->rig.ssds];
	const uint32_t shift = work->page_shift ? work->page_shift : 12;
	const uint64_t bytes = work->bytes[i];

	cache->extent[i] = (struct hr_extent){
		.id = ACCESS_OBJECT_ID(i),
		.lba = object_at(r, i) >> r->rig.lba_shift,
		.bytes = bytes,
		.capacity = whole_blocks(r, bytes),
		.nsid = ssd->ns.nsid,
		.lba_shift = r->rig.lba_shift,
		.ssd = i % r->rig.ssds,
		.chunk_bytes = ssd->chunk_bytes,
	};
	cache->object[i] = (struct hr_object){
		.bytes = bytes,
		.first_page = first_page,
		.pages = (uint32_t)((bytes + (1u << shift) - 1) >> shift),
		.index = i,
		.writable = work->writable >> i & 1,
	};
	access->queue_of[i] = i % r->rig.ssds;
	return (first_page + cache->object[i].pages + 31) & ~31u;
}

static void wire_cache(struct access_rig *r, struct hr_access *access,
		       const struct access_work *work)
{
	struct hr_page_cache *cache = &access->cache;
	uint32_t pages = 0, workers;
	uint64_t sets;

	cache->objects = work->objects;
	for (uint32_t i = 0; i < work->objects; i++)
		pages = wire_object(r, access, i, work, pages);
	cr_assert_eq(hr_page_shape(&cache->shape, work->frames ? work->frames : 56,
				   work->page_shift ? work->page_shift : 12, pages),
		     0);
	cache->policy = work->policy;
	cache->computers = access->compute_blocks * access->warps;
	hr_cache_set_io_workers(cache, access->io_blocks * access->warps);
	cache->timeout_ns = work->timeout_ns ? work->timeout_ns : NO_FRAME_NS;
	workers = cache->computers + cache->io_workers;
	sets = hr_page_sets(&cache->shape);
	cache->set = worker_memory(r, sets * sizeof *cache->set);
	for (uint64_t i = 0; i < sets; i++)
		cache->set[i].recency = hr_policy_init((enum hr_page_policy)work->policy);
	cache->ring = worker_memory(r, cache->io_workers * sizeof *cache->ring);
	cache->worker = worker_memory(r, workers * sizeof *cache->worker);
	for (uint32_t i = 0; i < workers; i++)
		cache->worker[i].seen = HR_EPOCH_FIRST;
	cache->flushed = worker_memory(r, cache->io_workers * sizeof *cache->flushed);
	cache->words = worker_memory(r, sizeof *cache->words);
	cache->words->epoch = cache->words->settled = HR_EPOCH_FIRST;
}

static uint32_t merge_of(const struct access_rig *r, const struct hr_access *access,
			 const struct access_work *work)
{
	const struct hr_page_shape *shape = &access->cache.shape;
	uint32_t merge = 1u << shape->group_shift;

	for (uint32_t d = 0; d < r->rig.ssds; d++)
		while (merge > 1 && (merge << shape->page_shift) > r->rig.ssd[d].chunk_bytes)
			merge /= 2;
	return work->merge_pages && work->merge_pages < merge ? work->merge_pages : merge;
}

/* Frames and staging memory hold a pattern, so that bytes that no read filled are detected. */
static void wire_buffers(struct access_rig *r, struct hr_access *access,
			 const struct access_work *work)
{
	struct hr_page_cache *cache = &access->cache;
	const uint32_t shift = cache->shape.page_shift;
	const uint64_t frames = hr_page_frames(&cache->shape) << shift;
	const uint64_t commands = (uint64_t)cache->io_workers * access->commands;
	const uint64_t staging = commands * access->merge_pages << shift;

	if (work->staging) {
		cache->frame = worker_memory(r, frames + HR_PAGE);
		cache->frame = (uint8_t *)(((uintptr_t)cache->frame + HR_PAGE - 1) &
					   ~((uintptr_t)HR_PAGE - 1));
		access->staging = dma_memory(r, staging, &access->staging_bus);
		memset(access->staging, RIG_POISON, staging);
	} else {
		cache->frame = dma_memory(r, frames, &access->frame_bus);
	}
	memset(cache->frame, RIG_POISON, frames);
	access->prp_list =
		dma_memory(r, staging / HR_PAGE * sizeof(uint64_t), &access->prp_list_bus);
}

static void create_queues(struct access_rig *r, struct hr_access *access)
{
	struct rig *rig = &r->rig;
	const uint32_t pairs = access->cache.io_workers * access->ssds;

	access->qp = worker_memory(r, pairs * sizeof *access->qp);
	for (uint32_t i = 0; i < pairs; i++) {
		struct hr_ssd *ssd = &rig->ssd[i % access->ssds];
		const uint32_t ring = hr_layout_ring_bytes(ssd->queue_entries);
		const struct hr_ssd_qp_memory memory = {
			.rings = &rig->memory.region[HR_PLACE_HOST],
			.ring_at = take(r, HR_PLACE_HOST, ring, ring),
			.tables = &rig->memory.region[HR_PLACE_WORKER],
			.table_at = take(r, HR_PLACE_WORKER,
					 hr_layout_table_bytes(ssd->queue_entries), HR_CACHE_LINE),
			.bar = rig->bar[i % access->ssds],
		};

		cr_assert_eq(hr_ssd_create_qp(ssd, &access->qp[i], &memory, test_error()), 0, "%s",
			     test_error_text());
	}
}

static void wire_access(struct access_rig *r, struct hr_access *access,
			const struct access_work *work)
{
	const uint32_t gpus = r->gpus;
	const struct hr_operator *op;

	access->io_blocks = work->io ? work->io : 1;
	access->compute_blocks = work->compute ? work->compute : 1;
	access->warps = work->warps ? work->warps : 1;
	wire_cache(r, access, work);
	access->ssds = work->objects < r->rig.ssds ? work->objects : r->rig.ssds;
	for (uint32_t d = 0; d < access->ssds; d++)
		access->flush[d] = r->rig.ssd[d].ctrl->volatile_cache;
	access->commands = work->commands ? work->commands : 32;
	access->merge_pages = merge_of(r, access, work);
	access->command = worker_memory(r, (uint64_t)access->cache.io_workers * access->commands *
						   sizeof *access->command);
	access->counters = worker_memory(r, access->cache.io_workers * sizeof *access->counters);
	access->control = worker_memory(r, sizeof *access->control);
	access->status = worker_memory(r, hr_access_statuses(access) * sizeof *access->status);
	cr_assert_eq(hr_op_user_load(TEST_OPS "/callback.op", &op, test_error()), 0, "%s",
		     test_error_text());
	access->op = hr_op_id_of(op);
	access->op_args = (uint8_t *)(void *)&r->op;
	access->op_result = worker_memory(r, HR_OP_RESULT_MAX);
	access->state_bytes = work->state_bytes;
	access->op_states = worker_memory(
		r, (uint64_t)hr_access_computers(access) * gpus * work->state_bytes + 1);
	wire_buffers(r, access, work);
	create_queues(r, access);
}

static void wire_peers(struct access_rig *r, const struct access_work *work)
{
	const struct hr_page_cache *cache = &r->access->cache;
	const uint64_t bytes = hr_peers_bytes(&cache->shape, cache->io_workers, r->gpus);
	struct hr_peer_memory memory[ACCESS_GPUS_MAX];

	for (uint32_t g = 0; g < r->gpus; g++)
		memory[g] = (struct hr_peer_memory){
			.peers = worker_memory(r, bytes),
			.frame = r->gpu[g]->cache.frame,
			.set = r->gpu[g]->cache.set,
			.flushed = r->gpu[g]->cache.flushed,
			.states = r->gpu[g]->op_states,
		};
	for (uint32_t g = 0; g < r->gpus; g++) {
		r->gpu[g]->cache.peers = worker_memory(r, sizeof(struct hr_peers));
		hr_peers_wire(r->gpu[g]->cache.peers, &cache->shape, cache->io_workers, g, r->gpus,
			      memory, work->peer_timeout_ns ? work->peer_timeout_ns : NO_FRAME_NS);
	}
}

static void wire(struct access_rig *r, const struct access_work *work)
{
	memset(r->used, 0, sizeof r->used);
	r->gpus = work->gpus ? work->gpus : 1;
	cr_assert_leq(r->gpus, ACCESS_GPUS_MAX);
	for (uint32_t g = 0; g < r->gpus; g++) {
		r->gpu[g] = worker_memory(r, sizeof *r->gpu[g]);
		wire_access(r, r->gpu[g], work);
	}
	r->access = r->gpu[0];
	if (r->gpus > 1)
		wire_peers(r, work);
}

struct block_start {
	struct access_rig *r;
	uint32_t gpu, block;
};

static void *block_main(void *argument)
{
	const struct block_start *start = argument;

	hr_wait_precisely();
	start->r->block(start->r->gpu[start->gpu], start->block);
	return NULL;
}

void access_start(struct access_rig *r, const struct access_work *work)
{
	static struct block_start start[ACCESS_BLOCKS_MAX];
	uint32_t blocks;

	for (uint32_t i = 0; i < work->objects && !work->keep; i++)
		fill_object(r, i, work->bytes[i]);
	wire(r, work);
	if (r->wired)
		r->wired(r);
	blocks = r->access->io_blocks + r->access->compute_blocks;
	r->scripted = work->scripted;
	r->threads = work->scripted ? blocks : blocks * r->gpus;
	cr_assert_leq(r->threads, ACCESS_BLOCKS_MAX);
	for (uint32_t i = 0; i < r->threads; i++) {
		start[i] = (struct block_start){ r, i / blocks, i % blocks };
		cr_assert_eq(pthread_create(&r->thread[i], NULL, block_main, &start[i]), 0);
	}
}

void access_wait(struct access_rig *r)
{
	for (uint32_t i = 0; i < r->threads; i++)
		pthread_join(r->thread[i], NULL);
	for (uint32_t g = 0; g < r->gpus; g++) {
		const struct hr_access *access = r->gpu[g];

		for (uint32_t i = 0; i < hr_access_statuses(access) && (!g || !r->scripted); i++)
			cr_assert_eq(access->status[i].ended, 1);
		for (uint32_t i = 0; i < access->cache.io_workers * access->ssds; i++)
			hr_health_take_qp(&r->rig.ssd[i % access->ssds].health, &access->qp[i]);
	}
	for (uint32_t d = 0; d < r->rig.ssds; d++)
		cr_assert_eq(hr_ssd_delete_qps(&r->rig.ssd[d]), 0);
}

const struct hr_failure *access_failure(const struct access_rig *r)
{
	for (uint32_t g = 0; g < r->gpus; g++)
		for (uint32_t i = 0; i < hr_access_statuses(r->gpu[g]); i++)
			if (r->gpu[g]->status[i].failed)
				return &r->gpu[g]->status[i].failure;
	return NULL;
}

struct hr_io_counters access_counters(const struct access_rig *r)
{
	const uint32_t workers = r->access->cache.io_workers;
	struct hr_io_counters sum = { 0 };

	for (uint32_t i = 0; i < workers * r->gpus; i++) {
		const struct hr_io_counters *c = &r->gpu[i / workers]->counters[i % workers];

		for (uint32_t k = 0; k < sizeof sum / sizeof(uint64_t); k++)
			((uint64_t *)(void *)&sum)[k] += ((const uint64_t *)(const void *)c)[k];
	}
	return sum;
}

void access_check_disk(struct access_rig *r, uint32_t object)
{
	struct hr_blk *blk = disk_of(r, object);
	const uint64_t all = r->model_bytes[object];
	const uint8_t *model = r->model[object];
	uint8_t *data = malloc(all);
	uint64_t at = 0;

	cr_assert_not_null(data);
	cr_assert_eq(blk->ops->read(blk, object_at(r, object), data, all, NULL), 0);
	if (memcmp(data, model, all) != 0) {
		while (data[at] == model[at])
			at++;
		cr_assert_fail("object %u, byte %llu", object, (unsigned long long)at);
	}
	free(data);
}
