/*
 * tests/harness/objects_steps_rig.h - a compute worker of cache/objects.h over plain memory, whose
 * waits call a function of the test in each step.
 */
#ifndef TESTS_HARNESS_OBJECTS_STEPS_RIG_H
#define TESTS_HARNESS_OBJECTS_STEPS_RIG_H

#include <criterion/criterion.h>
#include <string.h>

#include "cache/objects.h"
#include "cache/objects_peer.h"
#include "cache/peers.h"

#define SETS 4u
#define FRAMES (SETS * HR_WAYS)
#define PAGES 64u
#define PAGE_BYTES 4096u
#define EPOCH 40u

static struct {
	struct hr_page_cache cache;
	struct hr_peers peers;
	struct hr_peer_words peer_words[3];
	struct hr_page_set set[3][SETS];
	uint8_t frame[3][FRAMES][PAGE_BYTES] __attribute__((aligned(64)));
	struct hr_request_ring ring[2];
	struct hr_cache_worker worker[5];
	uint64_t flushed[2];
	struct hr_cache_words words;
	struct hr_objects objects;
	uint32_t page, other; /* of one set, SET */
	struct hr_page_position at;
	uint64_t now;
	uint32_t idles;
	void (*step)(uint32_t idle); /* what others do in a step of waiting */
} t;

/* A wait of a test that does not end. */
static inline void idle(uint32_t *spins)
{
	++*spins;
	t.now += 10;
	t.idles++;
	if (t.step)
		t.step(t.idles);
	cr_assert_lt(t.idles, 1000, "the wait does not end");
}

static inline uint64_t clock_ns(void)
{
	return t.now;
}

static const struct hr_worker_calls calls = { idle, clock_ns };

static inline void up(uint32_t gpus)
{
	struct hr_page_cache *cache = &t.cache;

	memset(&t, 0, sizeof t);
	cr_assert_eq(hr_page_shape(&cache->shape, FRAMES, 12, PAGES), 0);
	cr_assert_eq(hr_page_sets(&cache->shape), SETS);
	cache->policy = HR_POLICY_CLOCK;
	cache->objects = 1;
	cache->object[0] =
		(struct hr_object){ .bytes = PAGES * PAGE_BYTES, .pages = PAGES, .writable = 1 };
	cache->computers = 3;
	hr_cache_set_io_workers(cache, 2);
	cache->set = t.set[0];
	cache->frame = t.frame[0][0];
	cache->ring = t.ring;
	cache->worker = t.worker;
	cache->flushed = t.flushed;
	cache->words = &t.words;
	t.words.epoch = EPOCH;
	t.objects.cache = cache;
	t.objects.worker = 2;
	t.objects.seat = 1;
	t.objects.workers = 3;
	t.objects.calls = &calls;
	t.objects.seen = EPOCH;
	t.page = 9;
	t.at = hr_page_position_of(&cache->shape, t.page);
	for (t.other = 10; hr_page_position_of(&cache->shape, t.other).set != t.at.set;)
		t.other++;
	for (uint32_t g = 0; g < gpus; g++)
		t.peers.gpu[g] = (struct hr_peer){ .frame = t.frame[g][0],
						   .set = t.set[g],
						   .words = &t.peer_words[g] };
	t.peers.gpus = gpus;
	if (gpus)
		cache->peers = &t.peers;
}

static inline uint32_t *tag_of(uint32_t way)
{
	return &t.set[0][t.at.set].tag[way];
}

static inline void put(uint32_t way, uint32_t state)
{
	*tag_of(way) = HR_PAGE_WORD(t.at.tag, state);
}

/* A page of another tag in the set. */
static inline void put_other(uint32_t way, uint32_t state)
{
	*tag_of(way) = HR_PAGE_WORD(t.at.tag + 1, state);
}

static inline const uint32_t *words_of_set(void)
{
	return t.set[0][t.at.set].tag;
}

#endif
