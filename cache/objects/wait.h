/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cache/objects/wait.h - quiescent states of a compute worker, and its request and wait for a missing
 * page. Only for headers of cache/objects; operators use cache/objects/objects.h. Worker code.
 *
 * A miss is in functions that are not inline. Lanes that want different pages wait together: each
 * uses its page as soon as that page is there, so the pages of a call need not be in the cache at the
 * same time. A wait is a quiescent state, so that owners can use frames again. Only hr_page() needs
 * all pages at the same time: cache/objects/pages.h.
 */
#ifndef CACHE_OBJECTS_WAIT_H
#define CACHE_OBJECTS_WAIT_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>

#include "cache/objects/find.h"
#include "nvme/queue/worker.h"

#define HR_UNPUBLISHED_MAX 16u /* accesses between two quiescent states */
/* Steps of a wait between two looks at shared words, and the same for the first steps on a GPU, which
 * last as long as the read of a page and have no pauses. A page that comes meanwhile is found later
 * when the worker looks at these words. Longer waits look more often, because an epoch ends only after
 * each worker has seen it. */
#define HR_PAUSE_STEPS (HR_LANES == 1 ? 1u : 4u)
#define HR_SHORT_PAUSE_STEPS (HR_LANES == 1 ? 1u : 32u)
#define HR_SHORT_STEPS 64u
/* Of the first steps so many, when one lane waits, are a short loop: a GPU executes the instructions of
 * a whole step once, which takes longer than the load of the set. It divides HR_SHORT_PAUSE_STEPS. */
#define HR_SHORT_LOOKS (HR_LANES == 1 ? 1u : 8u)

/* Time of waits: nanoseconds where a worker has one lane, cycles on a GPU, where a load of the
 * nanosecond clock takes longer than that of a page's set. */
HR_WORKER uint64_t hr_wait_ticks(const struct hr_objects *objects)
{
	return HR_LANES == 1 ? hr_clock_by(objects->calls) : hr_cycles();
}

/* Store the epoch as seen, unless the worker has done so. epoch: a load of the shared word. The worker
 * uses no page, and its lanes have called hr_lanes_sync(). One lane. */
HR_WORKER void hr_cache_quiescent(struct hr_objects *objects, uint32_t epoch)
{
	const struct hr_page_cache *cache = objects->cache;

	if (epoch == objects->seen)
		return;
	objects->seen = hr_acquire_u32(&cache->words->epoch);
	hr_release_u32(&cache->worker[objects->seat].seen, objects->seen);
}

/* Look at the shared words; the loads overlap. publishes: the worker uses no page, and publishes that.
 * Collective. Returns the value of `stop`, the same in all lanes. */
HR_WORKER uint32_t hr_cache_poll_page(struct hr_objects *objects, bool publishes)
{
	const struct hr_cache_words *words = objects->cache->words;
	uint32_t stop = 0;

	hr_lanes_sync();
	if (hr_lane() == 0) {
		const uint32_t epoch = hr_fresh_u32(&words->epoch);

		stop = hr_fresh_u32(&words->stop);
		if (publishes)
			hr_cache_quiescent(objects, epoch);
	}
	hr_lanes_sync();
	if (publishes)
		objects->unpublished = 0;
	return hr_shfl_u32(stop, 0);
}

/* Call after each access. Every few accesses, check whether the run has ended, because an operator
 * whose pages are all cached never waits. Collective. */
HR_WORKER void hr_cache_used(struct hr_objects *objects)
{
	if (++objects->unpublished < HR_UNPUBLISHED_MAX)
		return;
	objects->unpublished = 0;
	if (hr_cache_poll_page(objects, !objects->held))
		(void)hr_objects_fail(objects, -ECANCELED, HR_NO_PAGE, 0);
}

/* The end of a step of waiting, which counts as `steps`. The first step, and then every few, publishes
 * and reads `stop`. Collective. Returns the value of `stop`, the same in all lanes. */
HR_WORKER uint32_t hr_cache_pause_after(struct hr_objects *objects, bool keeps, uint32_t steps,
					uint32_t *spins)
{
	const uint32_t step = *spins;

	if (step % (step < HR_SHORT_STEPS ? HR_SHORT_PAUSE_STEPS : HR_PAUSE_STEPS) == 0 &&
	    hr_cache_poll_page(objects, !keeps))
		return hr_shfl_u32(hr_acquire_u32(&objects->cache->words->stop), 0);
	if (HR_LANES == 1 || step >= HR_SHORT_STEPS)
		hr_idle_by(objects->calls, spins);
	else
		*spins = step + steps;
	return 0;
}

HR_WORKER uint32_t hr_cache_pause(struct hr_objects *objects, bool keeps, uint32_t *spins)
{
	return hr_cache_pause_after(objects, keeps, 1, spins);
}

/* The ring for requests of a page with that position. */
HR_WORKER struct hr_request_ring *hr_cache_request_ring_of(const struct hr_page_cache *cache,
							   struct hr_page_position position)
{
	return &cache->ring[hr_cache_owner(cache, position.set)];
}

/* Flags of a request. writes: to a page that other gpus may hold; whole: to all of the page. With
 * several gpus a page that is written as a whole is read as any other. */
HR_WORKER uint64_t hr_request_flags(const struct hr_page_cache *cache, bool writes, bool whole)
{
	if (cache->peers)
		return writes ? HR_REQUEST_WRITE : 0;
	return whole ? HR_REQUEST_WHOLE : 0;
}

/* Put a request into a ring, which has room: the owner has read the former entry before it stored
 * `taken`, and this store depends on that value. The entry itself is all that the owner needs. */
HR_WORKER void hr_cache_put(struct hr_request_ring *ring, uint64_t ticket, uint64_t entry)
{
	hr_polled(&ring->taken);
	hr_relaxed_u64(&ring->entry[ticket % HR_REQUESTS], entry);
}

/*
 * Put the requests of lanes with a ticket into their rings, each as soon as there is room. flags: of
 * the lane's page. Collective.
 */
HR_WORKER_SLOW void hr_cache_enter(struct hr_objects *objects, struct hr_request_ring *ring,
				   uint32_t page, uint64_t ticket, uint64_t flags, bool keeps)
{
	const uint64_t entry = hr_request_entry(ticket, page) | flags;
	bool waits = ticket != HR_NO_TICKET;
	uint32_t spins = 0;

	while (hr_ballot(waits) && !hr_cache_pause(objects, keeps, &spins))
		if (waits && ticket - hr_poll_u64(&ring->taken) < HR_REQUESTS) {
			hr_cache_put(ring, ticket, entry);
			waits = false;
		}
}

/* hr_cache_request() of one lane, which waits for room. Other lanes pass HR_NO_PAGE. Collective. */
HR_WORKER uint64_t hr_cache_request_one(struct hr_objects *objects, struct hr_request_ring *ring,
					uint32_t page, uint64_t flags, bool keeps)
{
	uint64_t ticket = HR_NO_TICKET;
	bool waits = false;

	if (page != HR_NO_PAGE) {
		/* this load and the addition overlap */
		const uint64_t taken = hr_fresh_u64(&ring->taken);

		ticket = hr_fetch_add_u64(&ring->tail, 1);
		waits = ticket - taken >= HR_REQUESTS;
		if (!waits)
			hr_cache_put(ring, ticket, hr_request_entry(ticket, page) | flags);
	}
	if (hr_ballot(waits))
		hr_cache_enter(objects, ring, page, waits ? ticket : HR_NO_TICKET, flags, keeps);
	return ticket;
}

/*
 * Request the pages of all lanes (HR_NO_PAGE: none), each page once, with one addition to each ring.
 * ring: of the lane's page, hr_cache_request_ring_of(). patient: wait for room in the rings;
 * otherwise do not use rings that are half full. flags: of the lane's page,
 * hr_request_flags(). keeps: this worker uses frames. Collective. Returns the ticket of the
 * page; HR_NO_TICKET: it is not requested.
 */
HR_WORKER_SLOW uint64_t hr_cache_request(struct hr_objects *objects, struct hr_request_ring *ring,
					 uint32_t page, bool patient, uint64_t flags, bool keeps)
{
	const struct hr_page_cache *cache = objects->cache;
	const uint32_t first = hr_lowest_bit(hr_match_u32(page));
	const bool leads = page != HR_NO_PAGE && first == hr_lane();
	const hr_mask group = hr_match_u32(leads ? (uint32_t)(ring - cache->ring) : HR_NO_PAGE);
	const uint32_t adder = hr_lowest_bit(group);
	/* this load and the addition for the ticket overlap */
	const uint64_t taken = leads ? hr_fresh_u64(&ring->taken) : 0;
	uint64_t ticket = HR_NO_TICKET;
	bool waits;

	if (leads && adder == hr_lane() &&
	    (patient || hr_fresh_u64(&ring->tail) - taken <= HR_REQUESTS / 2))
		ticket = hr_fetch_add_u64(&ring->tail, hr_count_bits(group));
	ticket = hr_shfl_u64(ticket, adder);
	waits = leads && ticket != HR_NO_TICKET;
	if (waits)
		ticket += hr_lanes_before(group);
	if (waits && ticket - taken < HR_REQUESTS) {
		hr_cache_put(ring, ticket, hr_request_entry(ticket, page) | flags);
		waits = false;
	}
	if (hr_ballot(waits))
		hr_cache_enter(objects, ring, page, waits ? ticket : HR_NO_TICKET, flags, keeps);
	return hr_shfl_u64(ticket, first);
}

/* A page that a lane waits for: values that do not change during the wait. */
struct hr_awaited {
	struct hr_page_position position;
	struct hr_request_ring *ring;
};

HR_WORKER struct hr_awaited hr_cache_awaited(const struct hr_page_cache *cache, uint32_t page)
{
	struct hr_awaited awaited;

	awaited.position = hr_page_position_of(&cache->shape, page == HR_NO_PAGE ? 0 : page);
	awaited.ring = hr_cache_request_ring_of(cache, awaited.position);
	return awaited;
}

/* True when the owner has looked at the request with that ticket, or there is none. */
HR_WORKER bool hr_cache_taken(const struct hr_request_ring *ring, uint64_t ticket)
{
	return ticket == HR_NO_TICKET ||
	       (hr_fresh_u64(&ring->taken) > ticket && hr_acquire_u64(&ring->taken) > ticket);
}

/*
 * Use the page of a lane that waits, or return its state. *again: the lane has to request the page
 * (again), because its request was taken and the page has no way or is SHARED. The second look-up
 * comes after that check, so it sees the effect of the request. For each lane by itself.
 */
HR_WORKER enum hr_page_state hr_cache_wait_step(const struct hr_page_cache *cache,
						struct hr_lane_pages *use,
						struct hr_awaited awaited,
						const uint32_t word[HR_WAYS + 1], uint64_t ticket,
						bool *again)
{
	enum hr_page_state state = hr_use_page_in(cache, use, awaited.position, word);

	if (state != HR_PAGE_FREE || !hr_cache_taken(awaited.ring, ticket))
		return state;
	if (ticket != HR_NO_TICKET)
		state = hr_use_page(cache, use, awaited.position);
	*again = state == HR_PAGE_FREE;
	return state;
}

/* Load the sets of pending lanes, at most `looks` times, until a lane has more to do than to wait.
 * word: of each lane its set. Collective. */
HR_WORKER void hr_cache_watch(const struct hr_page_cache *cache, struct hr_awaited awaited,
			      bool pending, uint32_t looks, uint32_t word[HR_WAYS + 1])
{
	const void *set = &cache->set[awaited.position.set];
	uint32_t held;
	bool ends;

	do {
		held = HR_PAGE_FREE;
		if (pending) {
			hr_poll_u32x8((const uint32_t *)set, word);
			held = hr_cache_word_in(word, awaited.position.tag);
		}
		ends = HR_PAGE_STATE(held) > HR_PAGE_READING ||
		       HR_PAGE_KIND(held) == HR_PAGE_OFFERED;
	} while (--looks && !hr_ballot(ends));
}

/* Request the page of each lane with `wants`. Collective. Returns the ticket of the lane's page. */
HR_WORKER uint64_t hr_cache_request_again(struct hr_objects *objects,
					  const struct hr_lane_pages *use,
					  struct hr_awaited awaited, bool wants, bool keeps)
{
	const uint64_t flags =
		hr_request_flags(objects->cache, hr_ballot(wants && use->writes) != 0, use->whole);
	const uint32_t page = wants ? use->page : HR_NO_PAGE;
	const hr_mask all = hr_ballot(wants);

	if (!(all & (all - 1)))
		return hr_cache_request_one(objects, awaited.ring, page, flags, keeps);
	return hr_cache_request(objects, awaited.ring, page, true, flags, keeps);
}

/* The error of a wait that has ended by `stop`, or (0) by a page with an error. */
HR_WORKER int hr_cache_stopped(struct hr_objects *objects, uint32_t stop)
{
	int error = -EIO;

	if (stop)
		error = stop == HR_CACHE_DEADLOCK ? -EDEADLK : -ECANCELED;
	return hr_objects_fail(objects, error, HR_NO_PAGE, 0);
}

/*
 * Wait until each pending lane has used its page. absent: the lane has found just now that no way is
 * for its page, so it requests the page at once. ticket: of a request that was made, or HR_NO_TICKET.
 * Collective. 0 or an error, the same in all lanes.
 */
HR_WORKER_SLOW int hr_cache_await(struct hr_objects *objects, struct hr_lane_pages *use,
				  bool pending, bool absent, uint64_t ticket)
{
	const struct hr_page_cache *cache = objects->cache;
	const struct hr_awaited awaited = hr_cache_awaited(cache, use->page);
	const bool mine = use->page != HR_NO_PAGE;
	const uint64_t start = hr_wait_ticks(objects);
	const hr_mask asks = hr_ballot(pending && absent);
	const bool single = asks && !(asks & (asks - 1)) && hr_ballot(pending) == asks;
	uint32_t spins = 0, stop = 0, word[HR_WAYS + 1] = { 0 };
	bool keeps = objects->held || hr_ballot(use->keeps && mine && !pending);
	int error = 0;

	if (asks)
		ticket = hr_cache_request_again(objects, use, awaited, pending && absent, keeps);
	for (;;) {
		enum hr_page_state state = HR_PAGE_READY;
		const uint32_t looks = single && spins < HR_SHORT_STEPS ? HR_SHORT_LOOKS : 1;
		bool again = false;

		hr_cache_watch(cache, awaited, pending, looks, word);
		if (pending)
			state = hr_cache_wait_step(cache, use, awaited, word, ticket, &again);
		pending = state != HR_PAGE_READY;
		keeps = objects->held || hr_ballot(use->keeps && mine && !pending);
		if (hr_ballot(state == HR_PAGE_ERROR)) {
			error = hr_cache_stopped(objects, 0);
			break;
		}
		if (!hr_ballot(pending))
			break;
		if (stop) {
			error = hr_cache_stopped(objects, stop);
			break;
		}
		if (hr_ballot(again)) {
			const uint64_t got =
				hr_cache_request_again(objects, use, awaited, again, keeps);

			ticket = again ? got : ticket;
		}
		stop = hr_cache_pause_after(objects, keeps, looks, &spins);
	}
	if (hr_lane() == 0)
		objects->waits += hr_wait_ticks(objects) - start;
	return error;
}

#endif
