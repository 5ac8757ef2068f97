/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cache/page_policy.h - which page of a set leaves its frame next.
 *
 * A policy is five pure functions over the set's recency word: init, touch (a worker used a way),
 * enter (the owner put a new page into a way), spare (ways that may leave ahead of need), victim (the
 * way that leaves; it also writes the word). Workers write the word only when touch() changed
 * it, without atomic operations, so a hit on a page that was used last writes nothing. Two workers
 * that write at the same time may lose one of the two updates: the order is then less exact, never
 * wrong.
 *
 *   clock    a bit per way in bits 6:0, and the hand in bits 10:8. touch and enter set the bit.
 *            victim moves the hand over the candidates: it clears a bit that is set and goes on,
 *            and takes the first way whose bit is not set.
 *   lru      the ways in the order of their use, 3 bits each in bits 20:0; bits 2:0 are the most
 *            recent. Exact while one worker at a time uses the set.
 *   stream   a page that was used leaves first: touch sets the way's bit in bits 6:0, enter clears
 *            it. victim prefers ways whose bit is set; among equal ways, the first that entered (the
 *            order of entering, newest first, is in bits 28:8, 3 bits each). A page that was not
 *            used leaves only when its set has no other frame. For data that are read once and
 *            requested ahead.
 *
 *   count    the uses of each way since it entered, up to HR_POLICY_USES, 3 bits each in bits 20:0, and
 *            the hand in bits 23:21. enter sets the count to 0. victim takes the candidate for which
 *            the hand makes the fewest rounds (a used one: its count less 1; one that was never used:
 *            1), the first from the hand on; each round takes 1 from the counts that it passes.
 *
 * Every word is valid: any value that a worker wrote gives a way below HR_WAYS.
 */
#ifndef CACHE_PAGE_POLICY_H
#define CACHE_PAGE_POLICY_H

#include <stdint.h>

#include "cache/page_table.h"
#include "nvme/queue/worker.h"

enum hr_page_policy {
	HR_POLICY_CLOCK,
	HR_POLICY_LRU,
	HR_POLICY_STREAM,
	HR_POLICY_COUNT,
	HR_POLICIES
};

#define HR_POLICY_ORDER 0x1ac688u /* ways 0, 1, .. 6, 3 bits each; way 0 in bits 2:0 */
#define HR_POLICY_BITS 0x7fu	  /* a bit per way */
#define HR_POLICY_SHIFT 8u	  /* of the clock's hand, and of the order of `stream` */
#define HR_POLICY_USES 4u	  /* largest count */
#define HR_POLICY_HAND 21u	  /* shift of the hand of `count` */

/* The way at a position of an order. */
HR_BOTH uint32_t hr_policy_at(uint32_t order, uint32_t position)
{
	return order >> 3 * position & 7;
}

/* The order after the way has moved to its front. */
HR_BOTH uint32_t hr_policy_to_front(uint32_t order, uint32_t way)
{
	uint32_t position = 0, below;

	while (position < HR_WAYS - 1 && hr_policy_at(order, position) != way)
		position++;
	below = ((uint32_t)1 << 3 * position) - 1;
	return (order & ~(below << 3 | 7)) | (order & below) << 3 | way;
}

/* The candidate that is last in the order. */
HR_BOTH uint32_t hr_policy_last(uint32_t order, uint32_t candidates)
{
	uint32_t position = HR_WAYS - 1;

	while (position > 0 && !(candidates >> hr_policy_at(order, position) & 1))
		position--;
	return hr_policy_at(order, position);
}

/* The clock's choice, within two rounds: the first round clears the bits of all candidates. */
HR_BOTH uint32_t hr_policy_clock_victim(uint32_t *recency, uint32_t candidates)
{
	uint32_t word = *recency, way = word >> HR_POLICY_SHIFT & 7, next, i;

	for (i = 0; i < 2 * HR_WAYS; i++, way = next) {
		const uint32_t bit = (uint32_t)1 << way;

		next = way + 1 < HR_WAYS ? way + 1 : 0;
		if (!(candidates & bit))
			continue;
		if (!(word & bit))
			break;
		word &= ~bit;
	}
	*recency = (word & HR_POLICY_BITS) | next << HR_POLICY_SHIFT;
	return way;
}

/* Rounds of the hand of `count` until it takes a way. */
HR_BOTH uint32_t hr_policy_rounds(uint32_t recency, uint32_t way)
{
	const uint32_t uses = hr_policy_at(recency, way);

	return uses ? uses - 1 : 1;
}

/* The choice of `count`: the first candidate with the fewest rounds; those before it are passed once
 * more. */
HR_BOTH uint32_t hr_policy_count_victim(uint32_t *recency, uint32_t candidates)
{
	const uint32_t hand = *recency >> HR_POLICY_HAND & 7;
	uint32_t word = *recency, least = UINT32_MAX, passed = 1, victim = 0, way, i;

	for (way = 0; way < HR_WAYS; way++) {
		const uint32_t rounds = hr_policy_rounds(word, way);

		least = candidates >> way & 1 && rounds < least ? rounds : least;
	}
	for (i = 0, way = hand % HR_WAYS; i < HR_WAYS; i++, way = way + 1 < HR_WAYS ? way + 1 : 0) {
		const uint32_t rounds = hr_policy_rounds(word, way);

		if (!(candidates >> way & 1))
			continue;
		if (passed && rounds == least) {
			passed = 0;
			victim = way;
		}
		if (least + passed)
			word = (word & ~(7u << 3 * way)) | (rounds - least - passed + 1) << 3 * way;
	}
	way = victim + 1 < HR_WAYS ? victim + 1 : 0;
	*recency = (word & ~(7u << HR_POLICY_HAND)) | way << HR_POLICY_HAND;
	return victim;
}

/* The word of a set without pages. */
HR_BOTH uint32_t hr_policy_init(enum hr_page_policy policy)
{
	if (policy == HR_POLICY_LRU)
		return HR_POLICY_ORDER;
	return policy == HR_POLICY_STREAM ? HR_POLICY_ORDER << HR_POLICY_SHIFT : 0;
}

/* The word after a use of the way; equal to `recency` when nothing changes. */
HR_BOTH uint32_t hr_policy_touch(enum hr_page_policy policy, uint32_t recency, uint32_t way)
{
	if (policy == HR_POLICY_LRU)
		return hr_policy_to_front(recency, way);
	if (policy == HR_POLICY_COUNT)
		return hr_policy_at(recency, way) < HR_POLICY_USES
			       ? recency + ((uint32_t)1 << 3 * way)
			       : recency;
	return recency | (uint32_t)1 << way;
}

/* The word after a page has entered the way. */
HR_BOTH uint32_t hr_policy_enter(enum hr_page_policy policy, uint32_t recency, uint32_t way)
{
	if (policy == HR_POLICY_COUNT)
		return recency & ~(7u << 3 * way);
	if (policy != HR_POLICY_STREAM)
		return hr_policy_touch(policy, recency, way);
	return (recency & HR_POLICY_BITS & ~((uint32_t)1 << way)) |
	       hr_policy_to_front(recency >> HR_POLICY_SHIFT, way) << HR_POLICY_SHIFT;
}

/* The ways of the mask `candidates` that leave so that a set has more than one frame for later pages.
 * With `stream`, a page that was not used yet leaves only when the set has no other frame, because it
 * would be read again. */
HR_BOTH uint32_t hr_policy_spare(enum hr_page_policy policy, uint32_t recency, uint32_t candidates)
{
	return policy == HR_POLICY_STREAM ? recency & candidates : candidates;
}

/* The way to leave next, of the ways in the mask `candidates` (bits 6:0, not 0); *recency is the
 * word after the choice. */
HR_BOTH uint32_t hr_policy_victim(enum hr_page_policy policy, uint32_t *recency,
				  uint32_t candidates)
{
	const uint32_t used = *recency & candidates;

	if (policy == HR_POLICY_LRU)
		return hr_policy_last(*recency, candidates);
	if (policy == HR_POLICY_STREAM)
		return hr_policy_last(*recency >> HR_POLICY_SHIFT, used ? used : candidates);
	if (policy == HR_POLICY_COUNT)
		return hr_policy_count_victim(recency, candidates);
	return hr_policy_clock_victim(recency, candidates);
}

#endif
