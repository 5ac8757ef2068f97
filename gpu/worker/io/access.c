/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/worker/io/access.h"

#include "cache/objects/run.h"
#include "cache/peers.h"
#include "gpu/worker/io/io.h"
#include "gpu/worker/role.h"

HR_STATIC_ASSERT(sizeof(struct hr_page_cache) % sizeof(uint64_t) == 0, "moved by words");

/* Record an error of run() that no I/O worker has recorded. One lane. */
HR_WORKER_SLOW void access_record(const struct hr_access *access, struct hr_worker_status *status,
				  const struct hr_objects *objects)
{
	const struct hr_page_cache *cache = &access->cache;
	const uint32_t object = objects->error_object;
	struct hr_failure *failure = &status->failure;

	failure->error = objects->error;
	failure->role = HR_ROLE_ACCESS;
	failure->source = object < cache->objects ? object : 0;
	failure->tile = object < cache->objects ? objects->error_index : HR_NO_TILE;
	failure->object = object < cache->objects ? cache->extent[object].id : 0;
	hr_release_sys_u32(&status->failed, 1);
}

/*
 * The descriptor of the cache for the workers of a block: a copy in the memory of the launch. On a GPU
 * each acquire of a worker empties the cache of its SM, and then each access to a descriptor in GPU
 * memory takes as long as a look at a set. Nothing of it changes during the run. All threads of a
 * block.
 */
HR_WORKER const struct hr_page_cache *access_cache(const struct hr_access *access)
{
	const uint64_t *from = (const uint64_t *)(const void *)&access->cache;
	uint64_t *to = HR_LANES > 1 ? (uint64_t *)hr_launch_memory() : NULL;
	uint32_t i;

	if (!to)
		return (const struct hr_page_cache *)(const void *)from;
	for (i = hr_thread(); i < sizeof(struct hr_page_cache) / sizeof(*to); i += hr_threads())
		to[i] = from[i];
	hr_block_sync();
	return (const struct hr_page_cache *)(const void *)to;
}

/*
 * Call the operator. All threads of a block. A worker with an error stops the run at once, because
 * other workers may wait for it in hr_workers_sync(). Of the workers of a block with an error of
 * their own the first one records it.
 */
HR_WORKER void access_run(struct hr_access *access, const struct hr_role_worker *w)
{
	const struct hr_page_cache *cache = access_cache(access);
	const uint32_t worker = w->index * access->warps + hr_warp();
	struct hr_objects objects;
	bool own, first = false;
	uint32_t failed;

	hr_objects_begin(&objects, cache, worker, access->scratch, access->scratch_bytes);
	hr_op_run(access->op, access->op_args,
		  access->op_states + (uint64_t)worker * access->state_bytes, &objects);
	hr_lanes_sync();
	if (objects.error && hr_lane() == 0)
		first = hr_replace_u32(&cache->words->stop, HR_CACHE_RUNS, HR_CACHE_FAILED);
	own = objects.error == -ERANGE || objects.error == -EINVAL || objects.error == -EBADMSG ||
	      (objects.error == -EDEADLK && first);
	(void)hr_objects_end(&objects);
	failed = hr_block_xor_u32(own && hr_lane() == 0 ? 1u << hr_warp() : 0);
	if (own && hr_lane() == 0 && !(failed & ((1u << hr_warp()) - 1)))
		access_record(access, w->status, &objects);
}

/* True when all data of the gpus are durable. */
HR_WORKER bool access_durable(const struct hr_page_cache *cache)
{
	const struct hr_peers *peers = cache->peers;
	uint32_t g;

	if (!peers)
		return hr_cache_reads(&cache->flushed[0], UINT64_MAX, false);
	for (g = 0; g < peers->gpus; g++)
		if (!hr_cache_reads(&peers->gpu[g].flushed[0], UINT64_MAX, true))
			return false;
	return true;
}

/* Wait until all data are durable. False: the run has failed or was stopped. One thread. */
HR_WORKER bool access_wait_for_all(const struct hr_access *access, struct hr_role_worker *w)
{
	while (!access_durable(&access->cache)) {
		if (hr_poll_u32(&access->cache.words->stop))
			return false;
		hr_role_end_round(w, false);
	}
	return true;
}

/* Copy the states of the workers of other gpus behind those of gpu 0. All threads of a block. */
HR_WORKER void access_take_states(const struct hr_access *access)
{
	const struct hr_peers *peers = access->cache.peers;
	const uint64_t bytes = (uint64_t)access->cache.computers * access->state_bytes;
	uint32_t g;
	uint64_t i;

	for (g = 1; peers && g < peers->gpus; g++)
		for (i = hr_thread(); i < bytes; i += hr_threads())
			access->op_states[g * bytes + i] = peers->gpu[g].states[i];
	hr_block_sync();
}

HR_WORKER_SLOW void access_finish(const struct hr_access *access, struct hr_role_worker *w)
{
	const struct hr_page_cache *cache = &access->cache;
	struct hr_op_all all;
	uint32_t i;

	if (cache->peers && cache->peers->self != 0)
		return;
	if (!hr_block_xor_u32(hr_thread() == 0 && access_wait_for_all(access, w) ? 1 : 0))
		return;
	hr_block_sync();
	access_take_states(access);
	if (cache->ranks)
		return;
	hr_zero_bytes(&all, sizeof(all));
	all.args = access->op_args;
	all.bytes = cache->object[0].bytes;
	all.workers = cache->computers * (cache->peers ? cache->peers->gpus : 1);
	all.state_bytes = access->state_bytes;
	all.states = access->op_states;
	all.result = access->op_result;
	all.scratch = access->scratch;
	for (i = 0; i < cache->objects; i++)
		all.object_bytes[i] = cache->object[i].bytes;
	hr_op_finish(access->op, &all);
}

HR_DEVICE void hr_access_block(struct hr_access *access, uint32_t block)
{
	struct hr_role_worker w;

	if (block < access->io_blocks) {
		access = hr_io_block_access(access);
		if (hr_warp() < access->warps)
			hr_io_run(access, block * access->warps + hr_warp());
		return;
	}
	block -= access->io_blocks;
	hr_role_init(&w, &access->status[hr_access_io_workers(access) + block], HR_ROLE_ACCESS,
		     block, access->compute_blocks);
	access_run(access, &w);
	hr_block_sync();
	if (block == 0)
		access_finish(access, &w);
	hr_block_sync();
	if (hr_thread() == 0)
		hr_role_end(&w);
}
