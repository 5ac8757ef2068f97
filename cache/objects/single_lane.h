/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cache/objects/single_lane.h - the miss of a single lane that reads an element: the way with
 * the fewest instructions. Only for headers of cache/objects; operators use cache/objects/objects.h.
 * Worker code.
 *
 * A GPU executes each instruction of a miss once, in 5 to 8 cycles, and a pointer chase waits for all
 * of them. So what the look-up has computed is passed on, the request comes before everything that the
 * owner does not wait for, and each lane looks at one word of the set. A wait that takes longer than
 * most reads, or does not end with the page, goes on as any other: hr_cache_await().
 */
#ifndef CACHE_OBJECTS_SINGLE_LANE_H
#define CACHE_OBJECTS_SINGLE_LANE_H

#include <stdbool.h>
#include <stdint.h>

#include "cache/objects/find.h"
#include "cache/objects/wait.h"
#include "cache/page_policy.h"
#include "nvme/queue/worker.h"

/* There is a lane for each word of a set. */
#define HR_ONE_LANES (HR_LANES > HR_WAYS)
/* Looks at the set before the wait goes on as any other: 10 to 15 us on a GPU. */
#define HR_ONE_LOOKS 64u

/* The page that the lane `lane` misses; position, page and in_page (of the element) are of the calling
 * lane, the rest is the same in all lanes. */
struct hr_single_miss {
	struct hr_page_position position;
	uint32_t page, in_page, bytes;
	uint32_t lane;
};

/* Look at the set until a way has the page, at most HR_ONE_LOOKS times. *word: of each lane its word of
 * the set. Collective. Returns the mask of these ways, 0: none. */
HR_WORKER uint32_t hr_single_miss_poll(const struct hr_page_set *set, uint32_t tag, uint32_t *word)
{
	const uint32_t i = hr_lane() <= HR_WAYS ? hr_lane() : HR_WAYS;
	const uint32_t *at = i < HR_WAYS ? &set->tag[i] : &set->recency;
	const uint32_t want = HR_PAGE_WORD(tag, HR_PAGE_READY);
	uint32_t looks = HR_ONE_LOOKS, ways;

	do {
		*word = hr_fresh_u32(at);
		ways = (uint32_t)hr_ballot(i < HR_WAYS && (*word & ~(HR_PAGE_SHARED | 3u)) == want);
	} while (!ways && --looks);
	return ways;
}

/* The wait was too long, or the run ends. */
HR_WORKER_SLOW uint64_t hr_single_miss_await(struct hr_objects *objects, struct hr_single_miss one,
					     uint64_t value, uint64_t ticket)
{
	const bool mine = hr_lane() == one.lane;
	struct hr_lane_pages use = hr_use_none();

	use.page = mine ? one.page : HR_NO_PAGE;
	use.in_page = one.in_page;
	use.bytes = one.bytes;
	use.value = value;
	return hr_cache_await(objects, &use, mine, false, ticket) && mine ? 0 : use.value;
}

/* One lane has found just now that no way is for its page, and the others miss nothing: the lane's
 * element; in other lanes `value`. With one gpu. Collective. */
HR_WORKER_SLOW uint64_t hr_element_single_lane(struct hr_objects *objects,
					       struct hr_single_miss one, uint64_t value)
{
	const struct hr_page_cache *cache = objects->cache;
	const bool mine = hr_lane() == one.lane;
	const uint64_t ticket =
		hr_cache_request_one(objects, hr_cache_request_ring_of(cache, one.position),
				     mine ? one.page : HR_NO_PAGE, 0, objects->held != 0);
	const uint64_t start = hr_wait_ticks(objects);
	const uint32_t number = hr_shfl_u32(one.position.set, one.lane);
	const uint32_t tag = hr_shfl_u32(one.position.tag, one.lane);
	struct hr_page_set *set = &cache->set[number];
	/* loaded now, because the loads below would come between the page and its element */
	const uint32_t shift = cache->shape.page_shift;
	uint8_t *element = hr_cache_frame(cache, number, 0) + one.in_page;
	uint32_t word = 0, way, ways = 0, touched;

	objects->misses += mine;
	if (!hr_cache_poll_page(objects, !objects->held))
		ways = hr_single_miss_poll(set, tag, &word);
	if (!ways)
		return hr_single_miss_await(objects, one, value, ticket);
	way = hr_lowest_bit(ways);
	if (mine) {
		hr_polled(&set->tag[way]);
		value = hr_element_at(element + ((uint64_t)way << shift), one.bytes, false, 0);
	}
	/* this, and what follows in the caller, overlaps the load of the element */
	if (hr_lane() == HR_WAYS) {
		touched = hr_policy_touch((enum hr_page_policy)cache->policy, word, way);
		if (touched != word)
			hr_relaxed_u32(&set->recency, touched);
	}
	if (hr_lane() == 0)
		objects->waits += hr_wait_ticks(objects) - start;
	return value;
}

#endif
