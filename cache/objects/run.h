/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cache/objects/run.h - start and end of struct hr_objects, for the code that calls an operator's
 * run(). Operators do not include it. Worker code.
 */
#ifndef CACHE_OBJECTS_RUN_H
#define CACHE_OBJECTS_RUN_H

#include "cache/objects/objects.h"
#include "cache/peers.h"
#include "nvme/queue/worker.h"

/* Before run(), for compute worker `worker` of the cache, of this gpu. Each lane has its own struct.
 * The worker has seen HR_EPOCH_FIRST, which the host stored in its `seen`. */
HR_WORKER void hr_objects_begin(struct hr_objects *objects, const struct hr_page_cache *cache,
				uint32_t worker, uint8_t *scratch, uint64_t scratch_bytes)
{
	hr_zero_bytes(objects, sizeof(*objects));
	objects->cache = cache;
	objects->seat = worker;
	objects->worker = worker + (cache->peers ? cache->peers->self * cache->computers : 0);
	objects->workers = cache->computers * (cache->peers ? cache->peers->gpus : 1);
	objects->rank = cache->rank;
	objects->ranks = cache->ranks ? cache->ranks : 1;
	objects->scratch = scratch;
	objects->scratch_bytes = scratch_bytes;
	objects->error_object = HR_NO_PAGE;
	objects->calls = hr_worker_calls();
	objects->seen = hr_fresh_u32(&cache->worker[worker].seen);
	objects->began = hr_wait_ticks(objects);
	objects->began_ns = hr_clock_by(objects->calls);
}

/* Nanoseconds of all waits of the calling lane. */
HR_WORKER uint64_t hr_objects_waits_ns(const struct hr_objects *objects)
{
	const uint64_t ticks = hr_wait_ticks(objects) - objects->began;
	const uint64_t ns = hr_clock_by(objects->calls) - objects->began_ns;

	if (HR_LANES == 1 || !ticks)
		return objects->waits;
	return (uint64_t)((double)objects->waits / (double)ticks * (double)ns);
}

/*
 * After run(): store the counters, and HR_EPOCH_ENDED in `seen`, after which the I/O workers do not
 * wait for this worker. Collective. Returns objects->error, the same in all lanes. When it is
 * negative, the caller records the failure (-ERANGE, -EINVAL, -EBADMSG with error_object and
 * error_index; -EDEADLK when no stop was set before; the others follow from a failure that is
 * recorded already, or from the host's stop flag) and sets words->stop before, because other workers
 * may wait for this one in hr_workers_sync().
 */
HR_WORKER int hr_objects_end(struct hr_objects *objects)
{
	struct hr_cache_worker *worker = &objects->cache->worker[objects->seat];
	const uint64_t accesses = hr_lanes_sum_u64(objects->accesses);
	const uint64_t misses = hr_lanes_sum_u64(objects->misses);
	const uint64_t peer_reads = hr_lanes_sum_u64(objects->peer_reads);
	const uint64_t waits_ns = hr_lanes_sum_u64(hr_objects_waits_ns(objects));

	hr_guarded_end(&objects->guarded);
	hr_lanes_sync();
	if (hr_lane() == 0) {
		worker->accesses = accesses;
		worker->misses = misses;
		worker->peer_reads = peer_reads;
		worker->waits_ns = waits_ns;
		if (!objects->error) /* an error stops the run, and so each wait */
			(void)hr_barrier_add(objects->cache, (uint64_t)1 << HR_BARRIER_BITS);
		hr_release_u32(&worker->seen, HR_EPOCH_ENDED);
	}
	hr_lanes_sync();
	return objects->error;
}

#endif
