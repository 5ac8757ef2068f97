/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cache/objects/find.h - look-up of a page in the cache by a compute worker; cache/objects/wait.h has
 * what follows when the page is missing. Only for headers of cache/objects; operators use
 * cache/objects/objects.h. Worker code.
 *
 * A hit is inline. It loads the set (32 bytes) and the data by loads that the L1 cache of a GPU does
 * not serve, because L1 caches do not see the writes of other SMs. The data's load comes after the
 * word's load returned, because the address of the frame depends on the word. Hints make the L2 cache
 * keep sets, which are used again sooner than the data of most pages: data that are read once would
 * push them out.
 */
#ifndef CACHE_OBJECTS_FIND_H
#define CACHE_OBJECTS_FIND_H

#include <stdbool.h>
#include <stdint.h>

#include "cache/page_cache.h"
#include "cache/page_policy.h"
#include "nvme/queue/worker.h"

#define HR_NO_INDEX UINT64_MAX
#define HR_NO_TICKET UINT64_MAX
#define HR_READ_AHEAD_MAX 32u /* pages of one read that are requested together */

/* The argument of run(): the objects, and the state of the calling worker. Each lane has a copy, whose
 * first group is the same in all lanes. */
struct hr_objects {
	const struct hr_page_cache *cache;
	uint32_t worker, workers; /* this compute worker, of all on all gpus of this rank */
	uint32_t rank, ranks;	  /* this rank, of all; alone: 0 of 1 (cache/objects/ranks.h) */
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
	uint32_t seen;	      /* by lane 0: the epoch in the worker's word */
	/* Counts of this lane: pages looked up; pages not found at once; of these, pages read in the
	 * memory of another gpu; hr_wait_ticks() in waits. */
	uint64_t accesses, misses, peer_reads, waits;
	uint64_t began, began_ns; /* hr_wait_ticks() and nanoseconds at the start of run() */
};

/* The action of a lane on its page once the page is cached, for the functions that are not inline. A
 * hit has none, so its values stay in registers, and the compiler omits unused actions. */
struct hr_lane_pages {
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

HR_WORKER struct hr_lane_pages hr_use_none(void)
{
	struct hr_lane_pages use = { HR_NO_PAGE, 0, 0, false, false, false, 0, NULL, NULL, false };

	return use;
}

/* Where a page was found. */
struct hr_found {
	uint32_t word; /* of its way; 0: no way holds the page */
	uint32_t *tag; /* address of that word */
	uint8_t *frame;
	bool absent; /* hr_cache_is_absent() */
};

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

/* True when no way is for the page with that tag, in any state. With several gpus it may be false
 * without such a way, because a way that a page has left may look like one; then a wait finds that. */
HR_WORKER bool hr_cache_is_absent(const uint32_t word[HR_WAYS], uint32_t tag)
{
	const uint32_t least = HR_PAGE_WORD(tag, HR_PAGE_READING);
	bool absent = true;
	uint32_t way;

	for (way = 0; way < HR_WAYS; way++)
		absent &= word[way] - least >= ((uint32_t)1 << HR_TAG_SHIFT) - HR_PAGE_READING;
	return absent;
}

/* The page in its set, whose words were loaded just now. */
HR_WORKER struct hr_found hr_cache_found(const struct hr_page_cache *cache,
					 struct hr_page_position position,
					 const uint32_t word[HR_WAYS + 1])
{
	const uint32_t want = HR_PAGE_WORD(position.tag, HR_PAGE_READY);
	struct hr_page_set *set = &cache->set[position.set];
	struct hr_found found = { 0, NULL, NULL, false };
	uint32_t way, way_found = 0, touched;

	for (way = 0; way < HR_WAYS; way++) {
		const bool is = (word[way] & ~(HR_PAGE_SHARED | 3u)) == want;

		way_found = is ? way : way_found;
		found.word = is ? word[way] : found.word;
	}
	if (!found.word) {
		found.absent = hr_cache_is_absent(word, position.tag);
		return found;
	}
	found.tag = &set->tag[way_found];
	found.frame = hr_cache_frame(cache, position.set, way_found);
	hr_polled(found.tag);
	touched = hr_policy_touch((enum hr_page_policy)cache->policy, word[HR_WAYS], way_found);
	if (touched != word[HR_WAYS])
		hr_relaxed_u32(&set->recency, touched);
	return found;
}

/* Look up the page with that position. */
HR_WORKER struct hr_found hr_cache_find_at(const struct hr_page_cache *cache,
					   struct hr_page_position position)
{
	uint32_t word[HR_WAYS + 1];

	hr_poll_keep_u32x8((const uint32_t *)(const void *)&cache->set[position.set], word);
	return hr_cache_found(cache, position, word);
}

HR_WORKER struct hr_found hr_cache_find(const struct hr_page_cache *cache, uint32_t page)
{
	return hr_cache_find_at(cache, hr_page_position_of(&cache->shape, page));
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
			      const uint32_t word[HR_WAYS], struct hr_lane_pages *use)
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
 * Use the page if it is cached. position: the page's; word: its set, loaded just now. For each lane by
 * itself. Returns
 *   HR_PAGE_READY     it was used
 *   HR_PAGE_ERROR
 *   HR_PAGE_FREE      it has no way, or is SHARED, which does not help a writer, or OFFERED
 *   HR_PAGE_READING   any other state
 */
HR_WORKER enum hr_page_state hr_use_page_in(const struct hr_page_cache *cache,
					    struct hr_lane_pages *use,
					    struct hr_page_position position,
					    const uint32_t word[HR_WAYS + 1])
{
	const struct hr_found found = hr_cache_found(cache, position, word);
	uint32_t held;

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

/* The same with one load of the set. */
HR_WORKER enum hr_page_state hr_use_page(const struct hr_page_cache *cache,
					 struct hr_lane_pages *use,
					 struct hr_page_position position)
{
	uint32_t word[HR_WAYS + 1];

	hr_poll_u32x8((const uint32_t *)(const void *)&cache->set[position.set], word);
	return hr_use_page_in(cache, use, position, word);
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

#endif
