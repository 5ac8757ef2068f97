/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/harness/tap_rig.h - the tap role in a test: a thread runs it, another plays prefetch and
 * compute, and consumers are threads, or the test itself. Static, because each test program has
 * one.
 */
#ifndef TESTS_HARNESS_TAP_RIG_H
#define TESTS_HARNESS_TAP_RIG_H

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "config/base/clock.h"
#include "gpu/tap/role.h"

#define SLOTS 8u
#define RING 8u
#define TILE 256u
#define TILES_MAX 4000u
#define LIMIT_NS (120 * HR_NS_PER_S)

static struct hr_pipe pipe_;
static struct hr_slot slots[SLOTS];
static struct hr_worker_status status;
static struct hr_pipe_control control;
static struct hr_tap_role role;
static struct hr_tap_words words;
static struct hr_tap_lending lending[SLOTS];
static uint8_t tiles[SLOTS][TILE] __attribute__((aligned(64)));
static uint8_t entries[HR_TAP_SEATS][4096] __attribute__((aligned(64)));
static uint32_t pages[HR_TAP_SEATS][1024] __attribute__((aligned(64)));
static uint32_t seen[HR_TAP_SEATS][TILES_MAX];
static uint64_t taken[HR_TAP_SEATS]; /* entries */
static pthread_t worker, feeder;

/* ---- the pipeline around the role */

static inline void fill(uint32_t s, uint64_t tile)
{
	for (uint32_t i = 0; i < TILE; i++)
		tiles[s][i] = (uint8_t)(tile * 7 + i);
}

static inline bool holds(uint32_t s, uint64_t tile)
{
	bool same = true;

	for (uint32_t i = 0; i < TILE; i++)
		same &= tiles[s][i] == (uint8_t)(tile * 7 + i);
	return same;
}

/* Give free slots the next tiles; close them after the last one, or a stop. Memory that is not held is
 * overwritten at once, so a consumer that still reads it sees that. */
static inline void *feed(void *unused)
{
	uint64_t next = 0;
	uint32_t closed = 0;

	while (closed < SLOTS)
		for (uint32_t s = 0; s < SLOTS; s++) {
			if (hr_acquire_u32(&slots[s].state) != HR_SLOT_FREE) {
				hr_yield();
				continue;
			}
			if (next == pipe_.tiles || hr_acquire_u32(&pipe_.stop)) {
				hr_release_u32(&slots[s].state, HR_SLOT_CLOSED);
				closed++;
				continue;
			}
			if (hr_acquire_u32(&slots[s].out_state)) {
				hr_yield();
				continue;
			}
			memset(tiles[s], 0xee, TILE);
			fill(s, next);
			slots[s].tile = next++;
			slots[s].out_bytes = TILE;
			hr_release_u32(&slots[s].state, HR_SLOT_COMPUTED);
		}
	return NULL;
}

/* A test that runs the block in another way defines TAP_RIG_WORK. */
#ifdef TAP_RIG_WORK
#define tap_rig_work TAP_RIG_WORK
#else
static inline void *tap_rig_work(void *unused)
{
	hr_tap_block(&pipe_, 0);
	return NULL;
}
#endif

static inline void set_up(uint64_t count, bool each, bool drop, uint32_t consumers)
{
	memset(&pipe_, 0, sizeof pipe_);
	memset(slots, 0, sizeof slots);
	memset(&status, 0, sizeof status);
	memset(&control, 0, sizeof control);
	memset(&words, 0, sizeof words);
	for (uint32_t seat = 0; seat < HR_TAP_SEATS; seat++)
		words.seat[seat].set = seat;
	memset(lending, 0, sizeof lending);
	memset(entries, 0, sizeof entries);
	memset(pages, 0, sizeof pages);
	memset(seen, 0, sizeof seen);
	memset(taken, 0, sizeof taken);
	role = (struct hr_tap_role){ .each = each,
				     .drop = drop,
				     .consumers = consumers,
				     .tries = 3,
				     .ring = RING,
				     .entries = entries[0],
				     .pages = (uint8_t *)pages[0],
				     .words = &words,
				     .lending = lending };
	pipe_.tiles = count;
	pipe_.slots = SLOTS;
	pipe_.blocks[HR_ROLE_WRITEBACK] = pipe_.workers[HR_ROLE_WRITEBACK] = 1;
	pipe_.slot = slots;
	pipe_.status = &status;
	pipe_.control = &control;
	pipe_.tap = &role;
}

static inline void start(void)
{
	cr_assert_eq(pthread_create(&feeder, NULL, feed, NULL), 0);
	cr_assert_eq(pthread_create(&worker, NULL, tap_rig_work, NULL), 0);
}

static inline void finish(void)
{
	pthread_join(worker, NULL);
	pthread_join(feeder, NULL);
	cr_expect_eq(hr_acquire_sys_u32(&status.ended), 1);
}

/* ---- the host */

static inline void order(uint32_t seat, enum hr_tap_order what)
{
	struct hr_tap_seat *w = &words.seat[seat];

	hr_release_sys_u32(&w->order, (w->order / HR_TAP_ORDERS + 1) * HR_TAP_ORDERS + what);
}

static inline void wait_done(uint32_t seat)
{
	const uint64_t end = hr_now_ns() + LIMIT_NS;

	while (hr_acquire_sys_u32(&words.seat[seat].obeyed) != words.seat[seat].order) {
		cr_assert_lt(hr_now_ns(), end, "the worker does not obey");
		hr_yield();
	}
}

static inline void attach(uint32_t seat, uint32_t credits)
{
	hr_release_sys_u32(&words.seat[seat].credits, credits);
	order(seat, HR_TAP_LEND);
}

/* ---- a consumer */

static inline struct hr_tap_entry *entry_of(uint32_t seat, uint64_t n)
{
	struct hr_tap_entry *first = (void *)(entries[seat] + sizeof(struct hr_tap_head));

	return &first[n % RING];
}

static inline bool is_there(uint32_t seat, uint64_t n)
{
	const struct hr_tap_entry *e = entry_of(seat, n);

	if (hr_acquire_sys_u64(&e->sequence) != n + 1)
		return false;
	cr_assert_eq(e->check, hr_tap_entry_check(e, n + 1), "entry %llu has another check",
		     (unsigned long long)n);
	return true;
}

static inline const struct hr_tap_entry *await_entry(uint32_t seat, uint64_t n)
{
	const uint64_t end = hr_now_ns() + LIMIT_NS;

	while (!is_there(seat, n)) {
		cr_assert_lt(hr_now_ns(), end, "seat %u: entry %llu does not come", seat,
			     (unsigned long long)n);
		hr_yield();
	}
	return entry_of(seat, n);
}

/* The word of a slot in the page of a seat. */
static inline uint32_t *word_of(uint32_t seat, uint32_t s)
{
	return pages[seat] + sizeof(struct hr_tap_returns) / sizeof(uint32_t) + s;
}

static inline void give_back(uint32_t seat, const struct hr_tap_entry *e)
{
	hr_release_sys_u32(word_of(seat, e->slot), e->gen);
}

static inline void give_up(uint32_t seat, const struct hr_tap_entry *e)
{
	hr_release_sys_u32(word_of(seat, e->slot), e->gen | HR_TAP_FAILED);
}

static inline uint32_t last_of(uint32_t seat)
{
	return hr_acquire_sys_u32(&((struct hr_tap_head *)(void *)entries[seat])->last);
}

/* Take tiles until no further one comes; check each before and after a pause. */
static inline void *consume(void *number)
{
	const uint32_t seat = (uint32_t)(uintptr_t)number;

	for (;;) {
		const bool last = last_of(seat);
		struct hr_tap_entry e;

		if (!is_there(seat, taken[seat])) {
			if (last)
				return NULL;
			hr_yield();
			continue;
		}
		e = *entry_of(seat, taken[seat]++);
		cr_assert_eq(e.bytes, TILE);
		cr_assert(holds(e.slot, e.tile), "tile %llu at first", (unsigned long long)e.tile);
		hr_yield();
		cr_assert(holds(e.slot, e.tile), "tile %llu later", (unsigned long long)e.tile);
		seen[seat][e.tile]++;
		give_back(seat, &e);
	}
}

static inline void consume_all(uint32_t first, uint32_t count)
{
	pthread_t thread[HR_TAP_SEATS];

	for (uint32_t i = first; i < first + count; i++)
		cr_assert_eq(pthread_create(&thread[i], NULL, consume, (void *)(uintptr_t)i), 0);
	for (uint32_t i = first; i < first + count; i++)
		pthread_join(thread[i], NULL);
}

/* `count` tiles for consumers 0 and 1: consumer 0 has 4 tiles, gives back tile 2, gets another one, and
 * is lost. Consumer 1 has come. */
static inline void lose_a_consumer(uint32_t count)
{
	set_up(count, false, false, 1);
	start();
	attach(0, 4);
	for (uint64_t n = 0; n < 4; n++)
		await_entry(0, n);
	give_back(0, entry_of(0, 2));
	await_entry(0, 4);
	order(0, HR_TAP_HOLD);
	wait_done(0);
	attach(1, 4);
	order(0, HR_TAP_CLOSE);
	wait_done(0);
	memset(entries[0], 0xff, sizeof entries[0]); /* its memory is not accessed any more */
	memset(pages[0], 0xff, sizeof pages[0]);
}

/* A consumer gives back all it has, and leaves: so many times. */
static inline void expect_no_redelivery(uint32_t rounds)
{
	while (rounds--) {
		set_up(4, false, false, 1);
		start();
		attach(0, 4);
		for (uint64_t n = 0; n < 4; n++)
			await_entry(0, n);
		for (uint64_t n = 0; n < 4; n++)
			give_back(0, entry_of(0, n));
		order(0, HR_TAP_CLOSE);
		finish();
		cr_assert_eq(status.tiles, 4);
		cr_assert_eq(words.redelivered, 0);
	}
}

/* The host stops the run after prefetch, which passes a stop on, has ended. */
static inline void expect_end_with_the_last_tiles_lent(void)
{
	set_up(2, false, false, 1);
	start();
	attach(0, 3);
	await_entry(0, 1);
	pthread_join(feeder, NULL);
	hr_release_sys_u32(&control.stop, HR_STOP_NEW);
	pthread_join(worker, NULL);
	cr_expect_eq(hr_acquire_sys_u32(&status.ended), 1);
	cr_expect_eq(status.tiles, 0);
}

static inline uint32_t times_seen(uint64_t tile)
{
	uint32_t sum = 0;

	for (uint32_t seat = 0; seat < HR_TAP_SEATS; seat++)
		sum += seen[seat][tile];
	return sum;
}

#endif
