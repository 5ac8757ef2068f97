/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The feed role as on a GPU: one worker of several lanes, each a thread.
 */
#define HR_LANES 4u
#include "tests/fakes/lanes.h"

#include <criterion/criterion.h>

#include "config/base/seam.h"

/* The library's copy is not linked. */
#include "gpu/tap/feed.c"

#include "tests/harness/feed_rig.h"
#include "tests/harness/random.h"

static void lane_body(void)
{
	hr_feed_block(&feed_rig.pipe, 0);
}

static void run_role(void)
{
	cr_assert(fake_lanes_run(lane_body));
}

static void use_lanes(void)
{
	feed_rig_role = run_role;
}

TestSuite(feed_lanes, .timeout = 280, .init = use_lanes);

Test(feed_lanes, tiles_are_offered_in_the_order_of_their_numbers)
{
	feed_rig_set_up(60 * TILE - 3 * ROW);
	feed_rig_start();
	feed_rig_attach(SLOTS);
	for (uint64_t t = 0; t < 60; t++)
		feed_rig_commit_next(t);
	feed_rig_finish();
	feed_rig_expect_seen(60);
	cr_expect_eq(feed_rig.words.total, 60);
	cr_expect_eq(feed_rig.words.total_bytes, 60 * TILE - 3 * ROW);
	cr_expect_eq(feed_rig.status.tiles, 60);
}

Test(feed_lanes, a_short_tile_ends_the_feed_after_all_before_it_in_any_order)
{
	struct fake_random random = { 11 };
	struct hr_tap_entry held[SLOTS];

	feed_rig_set_up(100 * TILE);
	feed_rig_start();
	feed_rig_attach(SLOTS);
	for (uint64_t t = 0; t < 20; t++)
		feed_rig_commit_next(t);
	for (uint32_t i = 0; i < SLOTS; i++)
		held[i] = feed_rig_next_entry();
	for (uint32_t count = SLOTS; count; count--) {
		const uint32_t i = (uint32_t)fake_random_below(&random, count);

		feed_rig_commit(&held[i], held[i].tile == 27 ? 8 * ROW : TILE);
		held[i] = held[count - 1];
	}
	feed_rig_finish();
	feed_rig_expect_seen(28);
	cr_expect_eq(feed_rig.words.total, 28);
	cr_expect_eq(feed_rig.words.total_bytes, 27 * TILE + 8 * ROW);
	cr_expect_eq(feed_rig.seen_bytes[27], 8 * ROW);
}

Test(feed_lanes, tiles_without_a_commit_go_to_the_next_producer)
{
	struct hr_tap_entry held[5];

	feed_rig_set_up(30 * TILE);
	feed_rig_start();
	feed_rig_attach(5);
	for (uint32_t i = 0; i < 5; i++)
		held[i] = feed_rig_next_entry();
	feed_rig_commit(&held[1], TILE);
	feed_rig_commit(&held[4], TILE);
	feed_rig_detach();
	cr_expect_eq(feed_rig.words.discarded, 3 + feed_rig.words.offered - 5);
	cr_expect_eq(feed_rig_next_tile(), 0);
	feed_rig_attach(SLOTS);
	feed_rig_commit_next(0);
	feed_rig_commit_next(2);
	feed_rig_commit_next(3);
	for (uint64_t t = 5; t < 30; t++)
		feed_rig_commit_next(t);
	feed_rig_finish();
	feed_rig_expect_seen(30);
}

Test(feed_lanes, the_producer_ends_the_feed_and_words_of_no_offer_do_nothing)
{
	feed_rig_set_up(100 * TILE);
	feed_rig_start();
	feed_rig_attach(2);
	for (uint32_t s = 0; s < SLOTS; s++)
		hr_release_sys_u64(&feed_rig_the_page()->commit[s],
				   HR_FEED_COMMIT(0x7fffffff, TILE));
	for (uint64_t t = 0; t < 10; t++)
		feed_rig_commit_next(t);
	feed_rig_end();
	feed_rig_finish();
	feed_rig_expect_seen(10);
	cr_expect_eq(feed_rig.words.total, 10);
}

Test(feed_lanes, a_wrong_length_is_a_fault_and_a_stop_closes_all_slots)
{
	feed_rig_set_up(100 * TILE);
	feed_rig_start();
	feed_rig_attach(SLOTS);
	for (uint64_t t = 0; t < 3; t++)
		feed_rig_commit_next(t);
	const struct hr_tap_entry e = feed_rig_next_entry();

	feed_rig_commit(&e, TILE + ROW);
	while (hr_acquire_sys_u32(&feed_rig.words.fault) == HR_FEED_SOUND)
		hr_yield();
	cr_expect_eq(feed_rig.words.fault, HR_FEED_LENGTH);
	cr_expect_eq(feed_rig.words.fault_tile, 3);
	hr_release_sys_u32(&feed_rig.control.stop, HR_STOP_NEW);
	feed_rig_finish();
	feed_rig_expect_seen(3);
	cr_expect_eq(feed_rig.words.total, HR_NO_TILE);
}
