/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cache/objects/pages.h - pages in place, quiescent states, flush and barrier of
 * cache/objects/objects.h. Worker code; include cache/objects/objects.h.
 */
#ifndef CACHE_OBJECTS_PAGES_H
#define CACHE_OBJECTS_PAGES_H

#include "cache/objects/element.h"
#include "cache/objects/find.h"
#include "cache/objects/wait.h"
#include "cache/peers.h"
#include "nvme/queue/worker.h"

HR_WORKER uint32_t hr_page_bytes(const struct hr_objects *objects)
{
	return (uint32_t)1 << objects->cache->shape.page_shift;
}

HR_WORKER uint64_t hr_frames(const struct hr_objects *objects)
{
	return hr_page_frames(&objects->cache->shape);
}

#define HR_PAGE_TRIES 16u

/*
 * Some lanes have not found their pages. A worker that keeps no page waits for the missing pages in a
 * quiescent state, and then looks up all pages again. If the worker kept the pages that it has found,
 * it would block itself in a full cache, because frames for the missing pages become free only after
 * this worker has passed an epoch. After several rounds without all pages at once, or when the worker
 * keeps pages of earlier calls, it keeps the pages that it has found; then either the owners find
 * frames, or they end the run.
 */
HR_WORKER_SLOW struct hr_found hr_page_miss(struct hr_objects *objects,
					    const struct hr_object *object, uint64_t page,
					    uint32_t number, struct hr_found found)
{
	const struct hr_found none = { 0, NULL, NULL, false };
	const bool mine = number != HR_NO_PAGE;
	const struct hr_page_position position =
		hr_page_position_of(&objects->cache->shape, mine ? number : 0);
	struct hr_lane_pages use = hr_use_none();
	bool pending = mine && !found.word, absent = found.absent;
	uint32_t tries;

	use.page = number;
	use.frame = found.frame;
	use.tag = found.tag;
	if (hr_element_refuse(objects, object, page, page != HR_NO_INDEX && !mine, false))
		return none;
	objects->misses += pending;
	for (tries = objects->held ? HR_PAGE_TRIES : 0; tries < HR_PAGE_TRIES; tries++) {
		if (hr_cache_await(objects, &use, pending, absent, HR_NO_TICKET))
			return none;
		absent = false;
		pending = mine && hr_use_page(objects->cache, &use, position) != HR_PAGE_READY;
		if (!hr_ballot(pending))
			break;
	}
	use.keeps = true;
	if (hr_cache_await(objects, &use, pending, absent, HR_NO_TICKET))
		return none;
	found.tag = use.tag;
	found.frame = use.frame;
	return found;
}

HR_WORKER const void *hr_page(struct hr_objects *objects, const struct hr_object *object,
			      uint64_t page)
{
	struct hr_found found = { 0, NULL, NULL, false };
	uint32_t number = HR_NO_PAGE;

	if (!objects->error && object && page < object->pages) {
		number = object->first_page + (uint32_t)page;
		found = hr_cache_find(objects->cache, number);
	}
	objects->accesses += page != HR_NO_INDEX;
	if (hr_ballot(!found.word && page != HR_NO_INDEX))
		found = hr_page_miss(objects, object, page, number, found);
	objects->held++;
	if (!found.frame)
		return NULL;
	(void)hr_acquire_u32(found.tag); /* so that plain loads see the page */
	return hr_guarded(&objects->guarded, found.frame, hr_page_bytes(objects));
}

HR_WORKER_SLOW const void *hr_page_try(struct hr_objects *objects, const struct hr_object *object,
				       uint64_t page)
{
	const bool mine = !objects->error && object && page < object->pages;
	const uint32_t number = mine ? object->first_page + (uint32_t)page : 0;
	const struct hr_page_cache *cache = objects->cache;
	struct hr_found found = { 0, NULL, NULL, false };
	const uint8_t *frame;
	const uint32_t *tag;
	bool of_peer = false;

	if (mine)
		found = hr_cache_find(cache, number);
	frame = found.frame;
	if (frame)
		(void)hr_acquire_u32(found.tag);
	if (cache->peers && mine && !frame) {
		frame = hr_peer_find(cache, hr_page_position_of(&cache->shape, number), &tag);
		of_peer = frame != NULL;
		if (frame)
			(void)hr_acquire_sys_u32(tag);
	}
	objects->held++;
	objects->accesses += frame != NULL;
	objects->misses += of_peer;
	if (hr_ballot(of_peer))
		hr_peer_request(objects, number, of_peer);
	return frame ? hr_guarded(&objects->guarded, frame, hr_page_bytes(objects)) : NULL;
}

HR_WORKER void hr_quiescent(struct hr_objects *objects)
{
	uint32_t stop;

	objects->held = 0;
	hr_guarded_end(&objects->guarded);
	stop = hr_cache_poll_page(objects, true);
	if (stop)
		(void)hr_cache_stopped(objects, stop);
}

/* One poll of a word that has reached a value. sys: another gpu may have written it. */
HR_WORKER bool hr_cache_reads(const uint64_t *word, uint64_t value, bool sys)
{
	if ((sys ? hr_poll_sys_u64(word) : hr_poll_u64(word)) < value)
		return false;
	if (sys)
		hr_polled_sys(word);
	else
		hr_polled(word);
	return true;
}

/* Wait until the 64-bit words of this lane's share of `count` have reached a value. Collective. */
HR_WORKER_SLOW int hr_cache_reached(struct hr_objects *objects, const uint64_t *word,
				    uint32_t count, uint64_t value, bool sys)
{
	const uint64_t start = hr_wait_ticks(objects);
	uint32_t i = hr_lane(), spins = 0, stop = 0;

	while (!stop) {
		while (i < count && hr_cache_reads(&word[i], value, sys))
			i += HR_LANES;
		if (!hr_ballot(i < count))
			break;
		stop = hr_cache_pause(objects, false, &spins);
	}
	hr_lanes_sync();
	if (hr_lane() == 0)
		objects->waits += hr_wait_ticks(objects) - start;
	return stop ? hr_cache_stopped(objects, stop) : 0;
}

HR_WORKER_SLOW int hr_flush(struct hr_objects *objects)
{
	const struct hr_page_cache *cache = objects->cache;
	uint64_t number = 0;

	if (!objects->error)
		hr_quiescent(objects);
	if (objects->error)
		return objects->error;
	if (hr_lane() == 0)
		number = hr_arrive_u64(&cache->words->flush_wanted, 1) + 1;
	return hr_cache_reached(objects, cache->flushed, cache->io_workers, hr_shfl_u64(number, 0),
				false);
}

HR_WORKER uint64_t *hr_barrier_word(const struct hr_page_cache *cache)
{
	return cache->peers ? &cache->peers->gpu[0].words->barrier : &cache->words->barrier;
}

/* Add to the word of the barrier; returns the former value. One lane. */
HR_WORKER uint64_t hr_barrier_add(const struct hr_page_cache *cache, uint64_t n)
{
	uint64_t *word = hr_barrier_word(cache);

	return cache->peers ? hr_arrive_sys_u64(word, n) : hr_arrive_u64(word, n);
}

/* One load of the barrier, the same in all lanes. It orders nothing: on a GPU each acquire empties the
 * cache of the SM, and the other workers there read from that. Collective. */
HR_WORKER uint64_t hr_barrier_poll(const struct hr_page_cache *cache)
{
	const uint64_t *word = hr_barrier_word(cache);

	return hr_shfl_u64(cache->peers ? hr_fresh_sys_u64(word) : hr_fresh_u64(word), 0);
}

/* The barrier's round cannot end, because a worker has ended without an error before it arrived. */
HR_WORKER int hr_workers_missing(struct hr_objects *objects)
{
	const uint32_t stop = hr_shfl_u32(hr_acquire_u32(&objects->cache->words->stop), 0);

	return stop ? hr_cache_stopped(objects, stop)
		    : hr_objects_fail(objects, -EDEADLK, HR_NO_PAGE, 0);
}

HR_WORKER_SLOW int hr_workers_sync(struct hr_objects *objects)
{
	const struct hr_page_cache *cache = objects->cache;
	const uint64_t arrived = ((uint64_t)1 << HR_BARRIER_BITS) - 1;
	const uint64_t start = hr_wait_ticks(objects);
	uint64_t last = 0, now; /* the arrival that ends this round */
	uint32_t spins = 0, stop = 0;
	int error = objects->error;

	if (error)
		return error;
	hr_quiescent(objects);
	if (hr_lane() == 0) {
		last = hr_barrier_add(cache, 1) & arrived;
		last += objects->workers - last % objects->workers;
	}
	last = hr_shfl_u64(last, 0);
	while (((now = hr_barrier_poll(cache)) & arrived) < last && !error) {
		if (stop)
			error = hr_cache_stopped(objects, stop);
		else if (now >> HR_BARRIER_BITS)
			error = hr_workers_missing(objects);
		else
			stop = hr_cache_pause(objects, false, &spins);
	}
	if (cache->peers)
		(void)hr_acquire_sys_u64(hr_barrier_word(cache));
	else
		(void)hr_acquire_u64(hr_barrier_word(cache));
	hr_lanes_sync();
	if (hr_lane() == 0)
		objects->waits += hr_wait_ticks(objects) - start;
	return error;
}

#endif
