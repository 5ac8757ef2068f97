/*
 * cache/objects_find.h - look-up of a page in the cache, and the request and the wait of a compute
 * worker for a missing page. Only for cache/objects*.h; operators use cache/objects.h. Worker code.
 *
 * A hit is inline. It loads the set (32 bytes) and the data by loads that the L1 cache of a GPU does
 * not serve, because L1 caches do not see the writes of other SMs. The data's load comes after the
 * word's load returned, because the address of the frame depends on the word. For elements, hints make
 * the L2 cache keep sets, which are used again sooner than elements: elements that are read once would
 * push them out.
 *
 * A miss is in functions that are not inline. Lanes that want different pages wait together: each
 * uses its page as soon as that page is there, so the pages of a call need not be in the cache at the
 * same time. A wait is a quiescent state, so that owners can use frames again. Only hr_page() needs
 * all pages at the same time: cache/objects_hold.h.
 */
#ifndef CACHE_OBJECTS_FIND_H
#define CACHE_OBJECTS_FIND_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>

#include "cache/page_cache.h"
#include "cache/page_policy.h"
#include "nvme/worker.h"

#define HR_NO_INDEX UINT64_MAX
#define HR_NO_TICKET UINT64_MAX
#define HR_UNPUBLISHED_MAX 16u /* accesses between two quiescent states */
#define HR_READ_AHEAD_MAX 32u  /* pages of one read that are requested together */
/* Steps of a wait between two looks at shared words, and the same for the first steps on a GPU, which
 * last as long as the read of a page and have short pauses. A page that comes meanwhile is found later
 * when the worker looks at these words. Longer waits look more often, because an epoch ends only after
 * each worker has seen it. */
#define HR_PAUSE_STEPS (HR_LANES == 1 ? 1u : 4u)
#define HR_SHORT_PAUSE_STEPS (HR_LANES == 1 ? 1u : 16u)
#define HR_SHORT_STEPS 64u
#define HR_SHORT_SPINS 6u

/* The argument of run(): the objects, and the state of the calling worker. Each lane has a copy, whose
 * first group is the same in all lanes. */
struct hr_objects {
	const struct hr_page_cache *cache;
	uint32_t worker, workers; /* this compute worker, of all on all gpus of this rank */
	uint32_t rank, ranks;	  /* this rank, of all; alone: 0 of 1 (cache/objects_ranks.h) */
	uint8_t *scratch;	  /* memory of the run, zeroed, shared by all workers; or NULL */
	uint64_t scratch_bytes;
	int32_t error;	       /* the first error, negative; 0: none */
	uint32_t error_object; /* -ERANGE, -EINVAL: in struct hr_page_cache; HR_NO_PAGE: none */
	uint64_t error_index;  /* -ERANGE: the element, or the page */
	/* The rest is for the calls. */
	uint32_t seat; /* index of this worker on its gpu */
	const struct hr_worker_calls *calls;
	void *guarded;	      /* hr_guarded() */
	uint32_t held;	      /* hr_page() calls since the last hr_quiescent() */
	uint32_t unpublished; /* accesses since the last quiescent state */
	/* Counts of this lane: pages looked up; pages not found at once; of these, pages read in the
	 * memory of another gpu; time in waits. */
	uint64_t accesses, misses, peer_reads, waits_ns;
};

/* The action of a lane on its page once the page is cached, for the functions that are not inline. A
 * hit has none, so its values stay in registers, and the compiler omits unused actions. */
struct hr_use {
	uint32_t page;	  /* HR_NO_PAGE: none */
	uint32_t in_page; /* offset of the element */
	uint32_t bytes;	  /* of the element: 4 or 8; 0: the caller uses the frame */
	bool writes;
	bool whole;	/* writes all of the page; the caller ends that by hr_cache_filled() */
	bool keeps;	/* a frame that was found is used after the wait for other lanes */
	uint64_t value; /* of the element, read or to be written */
	uint8_t *frame; /* found */
	uint32_t *tag;	/* found: the word of its way */
	bool claimed;	/* found OFFERED: the frame has no data, and no other worker uses it */
};

HR_WORKER struct hr_use hr_use_none(void)
{
	struct hr_use use = { HR_NO_PAGE, 0, 0, false, false, false, 0, NULL, NULL, false };

	return use;
}

/* Where a page was found. */
struct hr_found {
	uint32_t word; /* of its way; 0: no way holds the page */
	uint32_t *tag; /* address of that word */
	uint8_t *frame;
};

/* The page in its set, whose words were loaded just now. */
HR_WORKER struct hr_found hr_cache_found(const struct hr_page_cache *cache,
					 struct hr_page_position position,
					 const uint32_t word[HR_WAYS + 1])
{
	const uint32_t want = HR_PAGE_WORD(position.tag, HR_PAGE_READY);
	struct hr_page_set *set = &cache->set[position.set];
	struct hr_found found = { 0, NULL, NULL };
	uint32_t way, way_found = 0, touched;

	for (way = 0; way < HR_WAYS; way++) {
		const bool is = (word[way] & ~(HR_PAGE_SHARED | 3u)) == want;

		way_found = is ? way : way_found;
		found.word = is ? word[way] : found.word;
	}
	if (!found.word)
		return found;
	found.tag = &set->tag[way_found];
	found.frame = hr_cache_frame(cache, position.set, way_found);
	hr_polled(found.tag);
	touched = hr_policy_touch((enum hr_page_policy)cache->policy, word[HR_WAYS], way_found);
	if (touched != word[HR_WAYS])
		hr_relaxed_u32(&set->recency, touched);
	return found;
}

HR_WORKER struct hr_found hr_cache_find(const struct hr_page_cache *cache, uint32_t page)
{
	const struct hr_page_position position = hr_page_position_of(&cache->shape, page);
	uint32_t word[HR_WAYS + 1];

	hr_poll_u32x8((const uint32_t *)(const void *)&cache->set[position.set], word);
	return hr_cache_found(cache, position, word);
}

/* The same for an element of the page. */
HR_WORKER struct hr_found hr_cache_find_element(const struct hr_page_cache *cache, uint32_t page)
{
	const struct hr_page_position position = hr_page_position_of(&cache->shape, page);
	uint32_t word[HR_WAYS + 1];

	hr_poll_keep_u32x8((const uint32_t *)(const void *)&cache->set[position.set], word);
	return hr_cache_found(cache, position, word);
}

/* Before a write to a page whose word was found: READY -> DIRTY, WRITING -> REDIRTY. False: the page
 * was removed, or its removal has begun, or other gpus may have copies (SHARED). */
HR_WORKER bool hr_cache_dirty(uint32_t *tag, uint32_t word)
{
	const uint32_t of_tag = HR_PAGE_TAG(word);

	while (HR_PAGE_TAG(word) == of_tag && HR_PAGE_STATE(word) >= HR_PAGE_READY) {
		if (word & HR_PAGE_SHARED)
			return false;
		if (word & 1) /* DIRTY, REDIRTY */
			return true;
		if (hr_replace_u32(tag, word, word + 1))
			return true;
		word = hr_acquire_u32(tag);
	}
	return false;
}

/* Read or write an element of 4 or 8 bytes; returns its value. bytes 0: none. */
HR_WORKER uint64_t hr_element_at(uint8_t *at, uint32_t bytes, bool writes, uint64_t value)
{
	void *element = at;

	if (bytes == 4 && writes)
		hr_relaxed_u32((uint32_t *)element, (uint32_t)value);
	else if (bytes == 4)
		value = hr_fresh_once_u32((const uint32_t *)element);
	else if (bytes == 8 && writes)
		hr_relaxed_u64((uint64_t *)element, value);
	else if (bytes == 8)
		value = hr_fresh_once_u64((const uint64_t *)element);
	return value;
}

/* The word of the way with that tag, in a set whose words were loaded: HR_PAGE_FREE when there is
 * none. */
HR_WORKER uint32_t hr_cache_word_in(const uint32_t word[HR_WAYS], uint32_t tag)
{
	uint32_t way, found = HR_PAGE_FREE;

	for (way = 0; way < HR_WAYS; way++)
		if (HR_PAGE_TAG(word[way]) == tag && HR_PAGE_STATE(word[way]) >= HR_PAGE_READING)
			found = word[way];
	return found;
}

/* The word of a page's way: HR_PAGE_FREE when it has none. For each lane by itself. */
HR_WORKER uint32_t hr_cache_word(const struct hr_page_cache *cache, uint32_t page)
{
	const struct hr_page_position position = hr_page_position_of(&cache->shape, page);
	uint32_t word[HR_WAYS + 1];

	hr_poll_u32x8((const uint32_t *)(const void *)&cache->set[position.set], word);
	return hr_cache_word_in(word, position.tag);
}

/* Claim the frame of an OFFERED page, to fill all of it. False: another worker, or the owner, has
 * changed the page. For each lane by itself. */
HR_WORKER bool hr_cache_claim(const struct hr_page_cache *cache, struct hr_page_position position,
			      const uint32_t word[HR_WAYS], struct hr_use *use)
{
	const uint32_t offered = HR_PAGE_WORD(position.tag, HR_PAGE_OFFERED);
	uint32_t way, found = HR_WAYS;

	for (way = 0; way < HR_WAYS; way++)
		if (word[way] == offered)
			found = way;
	if (found == HR_WAYS || !hr_replace_u32(&cache->set[position.set].tag[found], offered,
						HR_PAGE_WORD(position.tag, HR_PAGE_READING)))
		return false;
	use->tag = &cache->set[position.set].tag[found];
	use->frame = hr_cache_frame(cache, position.set, found);
	use->claimed = true;
	return true;
}

/* The claimed frame is filled: workers may use the page, and it is written back. One lane, after the
 * stores of all lanes. */
HR_WORKER void hr_cache_filled(uint32_t *tag)
{
	hr_release_u32(tag, HR_PAGE_WORD(HR_PAGE_TAG(hr_fresh_u32(tag)), HR_PAGE_DIRTY));
}

/*
 * Use the page if it is cached, with one load of its set. For each lane by itself. Returns
 *   HR_PAGE_READY     it was used
 *   HR_PAGE_ERROR
 *   HR_PAGE_FREE      it has no way, or is SHARED, which does not help a writer, or OFFERED
 *   HR_PAGE_READING   any other state
 */
HR_WORKER enum hr_page_state hr_use_page(const struct hr_page_cache *cache, struct hr_use *use)
{
	const struct hr_page_position position = hr_page_position_of(&cache->shape, use->page);
	uint32_t word[HR_WAYS + 1], held;
	struct hr_found found;

	hr_poll_u32x8((const uint32_t *)(const void *)&cache->set[position.set], word);
	found = hr_cache_found(cache, position, word);
	if (found.word && (!use->writes || hr_cache_dirty(found.tag, found.word))) {
		use->value = hr_element_at(found.frame + use->in_page, use->bytes, use->writes,
					   use->value);
		use->frame = found.frame;
		use->tag = found.tag;
		return HR_PAGE_READY;
	}
	held = hr_cache_word_in(word, position.tag);
	if (HR_PAGE_STATE(held) == HR_PAGE_ERROR)
		return HR_PAGE_ERROR;
	if (use->whole && hr_cache_claim(cache, position, word, use))
		return HR_PAGE_READY;
	return held == HR_PAGE_FREE || HR_PAGE_KIND(held) == HR_PAGE_OFFERED ||
			       (use->writes && (held & HR_PAGE_SHARED))
		       ? HR_PAGE_FREE
		       : HR_PAGE_READING;
}

/* Store the first error with its cause. Collective, same arguments. */
HR_WORKER int hr_objects_fail(struct hr_objects *objects, int error, uint32_t object,
			      uint64_t index)
{
	if (objects->error == 0) {
		objects->error = error;
		objects->error_object = object;
		objects->error_index = index;
	}
	return objects->error;
}

/* The worker uses no page: publish that. Collective. */
HR_WORKER void hr_cache_publish(struct hr_objects *objects)
{
	hr_cache_quiescent(objects->cache, objects->seat);
	objects->unpublished = 0;
}

/* Call after each access. Every few accesses, check whether the run has ended, because an operator
 * whose pages are all cached never waits. Collective. */
HR_WORKER void hr_cache_used(struct hr_objects *objects)
{
	if (++objects->unpublished < HR_UNPUBLISHED_MAX)
		return;
	objects->unpublished = 0;
	if (!objects->held)
		hr_cache_publish(objects);
	if (hr_shfl_u32(hr_fresh_u32(&objects->cache->words->stop), 0))
		(void)hr_objects_fail(objects, -ECANCELED, HR_NO_PAGE, 0);
}

/*
 * One step of waiting. The first step, and then every few, publishes and reads `stop`; on a GPU these
 * follow one another in memory, and what the worker waits for comes meanwhile. Collective. Returns the
 * value of `stop`, the same in all lanes.
 */
HR_WORKER uint32_t hr_cache_pause(struct hr_objects *objects, bool keeps, uint32_t *spins)
{
	const uint32_t *word = &objects->cache->words->stop;
	uint32_t stop = 0, step = *spins;

	if (step % (step < HR_SHORT_STEPS ? HR_SHORT_PAUSE_STEPS : HR_PAUSE_STEPS) == 0) {
		if (!keeps)
			hr_cache_publish(objects);
		stop = hr_shfl_u32(hr_fresh_u32(word), 0);
		if (stop)
			stop = hr_shfl_u32(hr_acquire_u32(word), 0);
	}
	if (stop)
		return stop;
	if (HR_LANES == 1 || step < HR_SHORT_SPINS || step >= HR_SHORT_STEPS) {
		hr_idle_by(objects->calls, spins);
		return 0;
	}
	*spins = HR_SHORT_SPINS;
	hr_idle_by(objects->calls, spins);
	*spins = step + 1;
	return 0;
}

HR_WORKER struct hr_request_ring *hr_cache_ring(const struct hr_page_cache *cache, uint32_t page)
{
	return &cache->ring[hr_cache_owner(cache, hr_page_position_of(&cache->shape, page).set)];
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
HR_WORKER_SLOW void hr_cache_enter(struct hr_objects *objects, uint32_t page, uint64_t ticket,
				   uint64_t flags, bool keeps)
{
	struct hr_request_ring *ring =
		hr_cache_ring(objects->cache, ticket == HR_NO_TICKET ? 0 : page);
	const uint64_t entry = hr_request_entry(ticket, page) | flags;
	bool waits = ticket != HR_NO_TICKET;
	uint32_t spins = 0;

	while (hr_ballot(waits) && !hr_cache_pause(objects, keeps, &spins))
		if (waits && ticket - hr_poll_u64(&ring->taken) < HR_REQUESTS) {
			hr_cache_put(ring, ticket, entry);
			waits = false;
		}
}

/*
 * Request the pages of all lanes (HR_NO_PAGE: none), each page once, with one addition to each ring.
 * patient: wait for room in the rings; otherwise do not use rings that are half full. flags: of the
 * lane's page, hr_request_flags(). keeps: this worker uses frames. Collective. Returns the ticket
 * of the page; HR_NO_TICKET: it is not requested.
 */
HR_WORKER_SLOW uint64_t hr_cache_request(struct hr_objects *objects, uint32_t page, bool patient,
					 uint64_t flags, bool keeps)
{
	const struct hr_page_cache *cache = objects->cache;
	const uint32_t first = hr_lowest_bit(hr_match_u32(page));
	const bool leads = page != HR_NO_PAGE && first == hr_lane();
	struct hr_request_ring *ring = hr_cache_ring(cache, leads ? page : 0);
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
		hr_cache_enter(objects, page, waits ? ticket : HR_NO_TICKET, flags, keeps);
	return hr_shfl_u64(ticket, first);
}

/* True when the owner has looked at the request with that ticket, or there is none. */
HR_WORKER bool hr_cache_taken(const struct hr_page_cache *cache, uint32_t page, uint64_t ticket)
{
	const uint64_t *taken;

	if (ticket == HR_NO_TICKET)
		return true;
	taken = &hr_cache_ring(cache, page)->taken;
	if (hr_poll_u64(taken) <= ticket)
		return false;
	hr_polled(taken);
	return true;
}

/*
 * Use the page of a lane that waits, or return its state. *again: the lane has to request the page
 * (again), because its request was taken and the page has no way or is SHARED. The second look-up
 * comes after that check, so it sees the effect of the request. For each lane by itself.
 */
HR_WORKER enum hr_page_state hr_cache_wait_step(const struct hr_page_cache *cache,
						struct hr_use *use, uint64_t ticket, bool *again)
{
	enum hr_page_state state = hr_use_page(cache, use);

	if (state != HR_PAGE_FREE || !hr_cache_taken(cache, use->page, ticket))
		return state;
	if (ticket != HR_NO_TICKET)
		state = hr_use_page(cache, use);
	*again = state == HR_PAGE_FREE;
	return state;
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
 * Wait until each pending lane has used its page. ticket: of a request that was made, or
 * HR_NO_TICKET. Collective. 0 or an error, the same in all lanes.
 */
HR_WORKER_SLOW int hr_cache_await(struct hr_objects *objects, struct hr_use *use, bool pending,
				  uint64_t ticket)
{
	const struct hr_page_cache *cache = objects->cache;
	const bool mine = use->page != HR_NO_PAGE;
	const uint64_t start = hr_clock_by(objects->calls);
	uint32_t spins = 0, stop = 0;
	bool keeps = objects->held;
	int error = 0;

	for (;;) {
		enum hr_page_state state = HR_PAGE_READY;
		bool again = false;

		if (pending)
			state = hr_cache_wait_step(cache, use, ticket, &again);
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
			const uint64_t flags = hr_request_flags(
				cache, hr_ballot(again && use->writes) != 0, use->whole);
			const uint64_t got = hr_cache_request(
				objects, again ? use->page : HR_NO_PAGE, true, flags, keeps);

			ticket = again ? got : ticket;
		}
		stop = hr_cache_pause(objects, keeps, &spins);
	}
	if (hr_lane() == 0)
		objects->waits_ns += hr_clock_by(objects->calls) - start;
	return error;
}

#endif
