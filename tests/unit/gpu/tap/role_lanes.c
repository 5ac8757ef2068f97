/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tap role as on a GPU: a block of two workers, the one that lends and the one that watches,
 * of several lanes each.
 */
#define HR_LANES 8u
#include "tests/fakes/lanes.h"

#include <criterion/criterion.h>

#include "config/base/seam.h"

/* The library's copy is not linked. */
#include "gpu/tap/role.c"

#define TAP_RIG_WORK run_block
static void *run_block(void *unused);

#include "tests/harness/tap_rig.h"

static void lane_body(void)
{
	hr_tap_block(&pipe_, 0);
}

static void *run_block(void *unused)
{
	cr_assert(fake_blocks_run(lane_body, 1, 2));
	return NULL;
}

TestSuite(tap_lanes, .timeout = 280);

Test(tap_lanes, each_tile_goes_to_the_only_consumer_once)
{
	set_up(300, false, false, 1);
	start();
	attach(0, 3);
	consume_all(0, 1);
	finish();
	for (uint32_t t = 0; t < 300; t++)
		cr_assert_eq(seen[0][t], 1, "tile %u: %u", t, seen[0][t]);
	cr_expect_eq(status.tiles, 300);
	cr_expect_eq(status.bytes, 300 * TILE);
	cr_expect_eq(words.seat[0].returned, 300);
	cr_expect_eq(words.front, 300);
}

Test(tap_lanes, each_tile_goes_to_one_of_several_consumers)
{
	set_up(300, false, false, 3);
	start();
	for (uint32_t seat = 0; seat < 3; seat++)
		attach(seat, 1 + seat);
	consume_all(0, 3);
	finish();
	for (uint32_t t = 0; t < 300; t++)
		cr_assert_eq(times_seen(t), 1, "tile %u: %u", t, times_seen(t));
	cr_expect_eq(status.tiles, 300);
	cr_expect_eq(words.redelivered, 0);
}

Test(tap_lanes, all_consumers_get_all_tiles_when_it_delivers_to_each)
{
	set_up(60, true, false, 2);
	start();
	attach(0, 2);
	attach(1, 3);
	consume_all(0, 2);
	finish();
	for (uint32_t t = 0; t < 60; t++)
		cr_assert(seen[0][t] == 1 && seen[1][t] == 1, "tile %u", t);
}

/* A tile that is given back lets the next one be lent before it is counted. */
Test(tap_lanes, credits_limit_what_a_consumer_holds)
{
	set_up(40, false, false, 1);
	start();
	attach(0, 2);
	for (uint64_t n = 0; n < 38; n++) {
		await_entry(0, n + 1);
		/* two orders that change nothing: at least one whole round of the worker */
		for (int i = 0; i < 2; i++) {
			order(5, HR_TAP_HOLD);
			wait_done(5);
		}
		cr_assert_not(is_there(0, n + 2), "entry %llu", (unsigned long long)n);
		cr_expect_eq(hr_acquire_sys_u64(&words.seat[0].returned), n);
		give_back(0, entry_of(0, n));
	}
	give_back(0, await_entry(0, 38));
	give_back(0, await_entry(0, 39));
	finish();
	cr_expect_eq(status.tiles, 40);
}

/* A tile that comes back as failed gives no credit in advance: it is the next one. */
Test(tap_lanes, a_failed_tile_comes_again_and_is_dropped_after_its_tries)
{
	uint64_t n = 0;

	set_up(12, false, false, 1);
	start();
	attach(0, 1);
	for (uint64_t came = 0; came < 11; n++) {
		const struct hr_tap_entry *e = await_entry(0, n);

		seen[0][e->tile]++;
		if (e->tile == 5) {
			give_up(0, e);
			continue;
		}
		came++;
		give_back(0, e);
	}
	finish();
	cr_expect_eq(seen[0][5], 3);
	cr_expect_eq(words.failed, 1);
	cr_expect_eq(words.redelivered, 2);
	cr_expect_eq(status.tiles, 12);
}

Test(tap_lanes, tiles_of_a_lost_consumer_go_to_another_one)
{
	lose_a_consumer(60);
	consume_all(1, 1);
	finish();
	cr_expect_eq(words.redelivered, 4);
	for (uint32_t t = 0; t < 60; t++)
		cr_expect_eq(seen[1][t], t == 2 ? 0 : 1, "tile %u", t);
	cr_expect_eq(status.tiles, 60);
}

Test(tap_lanes, a_tile_that_was_given_back_before_the_end_is_not_redelivered)
{
	expect_no_redelivery(20);
}

Test(tap_lanes, a_stop_ends_the_worker_while_tiles_are_lent)
{
	set_up(100, false, false, 1);
	start();
	attach(0, 3);
	give_back(0, await_entry(0, 0));
	await_entry(0, 3);
	hr_release_u32(&pipe_.stop, 1);
	finish();
	cr_expect_lt(status.tiles, 100);
	cr_expect_geq(status.tiles, 1);
}

Test(tap_lanes, a_stop_of_the_host_ends_the_worker_while_the_last_tiles_are_lent)
{
	expect_end_with_the_last_tiles_lent();
}

static uint32_t wavers; /* while not 0 */

/* Gives back what seat 0 holds, and stores something else at once, all the time. */
static void *waver(void *unused)
{
	uint32_t gen[SLOTS] = { 0 };
	uint64_t next = 0;

	for (uint32_t s = 0; hr_acquire_sys_u32(&wavers); s = (s + 1) % SLOTS) {
		for (; is_there(0, next); next++)
			gen[entry_of(0, next)->slot] = entry_of(0, next)->gen;
		hr_release_sys_u32(word_of(0, s), gen[s]);
		hr_yield();
		hr_release_sys_u32(word_of(0, s), 0);
	}
	return NULL;
}

/* A tile for which it had another one is given back, whatever it stores then. */
Test(tap_lanes, a_consumer_that_wavers_gets_no_more_tiles_than_credits)
{
	pthread_t thread;

	set_up(TILES_MAX, false, false, 1);
	wavers = 1;
	start();
	attach(0, 2);
	cr_assert_eq(pthread_create(&thread, NULL, waver, NULL), 0);
	while (hr_acquire_sys_u64(&words.seat[0].lent) < 100)
		hr_yield();
	order(0, HR_TAP_HOLD);
	wait_done(0);
	hr_release_sys_u32(&wavers, 0);
	pthread_join(thread, NULL);
	/* two orders that change nothing: at least one whole round of the worker */
	for (int i = 0; i < 2; i++) {
		order(5, HR_TAP_HOLD);
		wait_done(5);
	}
	cr_expect_leq(hr_acquire_sys_u64(&words.seat[0].lent) -
			      hr_acquire_sys_u64(&words.seat[0].returned),
		      2);
	hr_release_u32(&pipe_.stop, 1);
	finish();
}
