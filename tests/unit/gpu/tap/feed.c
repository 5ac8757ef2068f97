/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The feed role: tiles from the offer to the end of the feed.
 */
#include "gpu/tap/feed.h"

#include <criterion/criterion.h>

#include "config/base/clock.h"
#include "gpu/tap/role.h"
#include "tests/harness/feed_rig.h"
#include "tests/harness/random.h"

TestSuite(feed, .timeout = 280);

Test(feed, tiles_reach_compute_in_the_order_of_their_numbers)
{
	feed_rig_set_up(TILES_MAX * TILE - 3 * ROW);
	feed_rig_start();
	feed_rig_attach(SLOTS);
	for (uint32_t t = 0; t < TILES_MAX; t++) {
		const struct hr_tap_entry e = feed_rig_next_entry();

		cr_assert_eq(e.tile, t);
		cr_assert_eq(e.bytes, t + 1 < TILES_MAX ? TILE : TILE - 3 * ROW);
		feed_rig_commit(&e, e.bytes);
	}
	feed_rig_finish();
	feed_rig_expect_seen(TILES_MAX);
	cr_expect_eq(feed_rig.words.total, TILES_MAX);
	cr_expect_eq(feed_rig.words.total_bytes, TILES_MAX * TILE - 3 * ROW);
	cr_expect_eq(feed_rig_next_tile(), TILES_MAX);
	cr_expect_eq(feed_rig.status.tiles, TILES_MAX);
	cr_expect_eq(feed_rig.status.bytes, TILES_MAX * TILE - 3 * ROW);
	cr_expect_eq(feed_rig.seen_bytes[TILES_MAX - 1], TILE - 3 * ROW);
	cr_expect_eq(feed_rig.words.discarded, 0);
}

Test(feed, tiles_can_be_committed_in_any_order)
{
	struct fake_random random = { 7 };
	struct hr_tap_entry held[SLOTS];
	uint32_t count = 0;

	feed_rig_set_up(1000 * TILE);
	feed_rig_start();
	feed_rig_attach(SLOTS);
	for (uint32_t left = 1000; left;) {
		if (count < SLOTS && feed_rig.taken < 1000 && feed_rig_is_there(feed_rig.taken)) {
			held[count++] = feed_rig_next_entry();
			continue;
		}
		if (count) {
			const uint32_t i = (uint32_t)fake_random_below(&random, count);

			feed_rig_commit(&held[i], TILE);
			held[i] = held[--count];
			left--;
		}
		hr_yield();
	}
	feed_rig_finish();
	feed_rig_expect_seen(1000);
}

Test(feed, a_short_tile_ends_the_feed_after_all_before_it)
{
	struct hr_tap_entry held[4];

	feed_rig_set_up(100 * TILE);
	feed_rig_start();
	feed_rig_attach(SLOTS);
	for (uint32_t i = 0; i < 4; i++)
		held[i] = feed_rig_next_entry();
	feed_rig_commit(&held[3], 8 * ROW);
	feed_rig_let_it_run();
	cr_expect_eq(hr_acquire_sys_u64(&feed_rig.words.total), HR_NO_TILE,
		     "tiles before it are missing");
	feed_rig_commit(&held[1], TILE);
	feed_rig_commit(&held[0], TILE);
	feed_rig_commit(&held[2], TILE);
	feed_rig_finish();
	feed_rig_expect_seen(4);
	cr_expect_eq(feed_rig.words.total, 4);
	cr_expect_eq(feed_rig.words.total_bytes, 3 * TILE + 8 * ROW);
	cr_expect_eq(feed_rig.pipe.source[0].extent.bytes, 3 * TILE + 8 * ROW);
	cr_expect_eq(feed_rig.pipe.sink.bytes, 3 * TILE / 2 + 4 * ROW);
	cr_expect_eq(feed_rig.seen_bytes[3], 8 * ROW);
	cr_expect_eq(feed_rig.status.bytes, 3 * TILE + 8 * ROW);
}

Test(feed, the_producer_ends_the_feed_at_a_whole_tile)
{
	feed_rig_set_up(100 * TILE);
	feed_rig_start();
	feed_rig_attach(SLOTS);
	feed_rig_commit_next(0);
	feed_rig_detach();
	feed_rig_attach(SLOTS);
	for (uint64_t t = 1; t < 20; t++)
		feed_rig_commit_next(t);
	feed_rig_end();
	feed_rig_finish();
	feed_rig_expect_seen(20);
	cr_expect_eq(feed_rig.words.total, 20);
	cr_expect_eq(feed_rig.words.total_bytes, 20 * TILE);
	cr_expect_eq(feed_rig.pipe.source[0].extent.bytes, 20 * TILE);
	cr_expect_eq(feed_rig.pipe.sink.bytes, 10 * TILE);
	cr_expect_eq(feed_rig_last(), 1);
}

/* The worker sees the last commit and the end in one look, or in two. */
Test(feed, a_feed_of_all_its_bytes_ends_with_a_short_tile)
{
	struct hr_tap_entry last;

	for (int i = 0; i < 50; i++) {
		feed_rig_set_up(3 * TILE + 8 * ROW);
		feed_rig_start();
		feed_rig_attach(SLOTS);
		for (uint64_t t = 0; t < 3; t++)
			feed_rig_commit_next(t);
		last = feed_rig_next_entry();
		feed_rig_commit(&last, 8 * ROW);
		feed_rig_end();
		feed_rig_finish();
		cr_assert_eq(feed_rig.words.total, 4);
		cr_assert_eq(feed_rig.words.total_bytes, 3 * TILE + 8 * ROW, "round %d", i);
	}
}

/* Compute and write-back read the lengths of source and sink. */
Test(feed, lengths_stay_while_tiles_are_computed)
{
	feed_rig_set_up(100 * TILE);
	feed_rig.holds = 1;
	feed_rig_start();
	feed_rig_attach(SLOTS);
	feed_rig_commit_next(0);
	feed_rig_commit_next(1);
	feed_rig_end();
	feed_rig_let_it_run();
	cr_expect_eq(feed_rig_next_tile(), 2);
	cr_expect_eq(feed_rig_last(), 1);
	cr_expect_eq(hr_acquire_sys_u64(&feed_rig.words.total), HR_NO_TILE);
	hr_release_u32(&feed_rig.holds, 0);
	feed_rig_finish();
	feed_rig_expect_seen(2);
	cr_expect_eq(feed_rig.words.total, 2);
	cr_expect_eq(feed_rig.pipe.source[0].extent.bytes, 2 * TILE);
}

/* Write-back reads them of tiles that are computed, a tap does not. */
Test(feed, lengths_stay_while_tiles_are_written)
{
	static struct hr_tap_role tap;

	for (uint32_t taps = 0; taps < 2; taps++) {
		const uint64_t end = hr_now_ns() + LIMIT_NS;
		struct hr_tap_entry e;

		feed_rig_set_up(100 * TILE);
		feed_rig.pipe.tap = taps ? &tap : NULL;
		feed_rig.holds = 2;
		feed_rig_start();
		feed_rig_attach(SLOTS);
		e = feed_rig_next_entry();
		feed_rig_commit(&e, TILE);
		while (hr_acquire_u32(&feed_rig.slot[e.slot].state) != HR_SLOT_COMPUTED) {
			cr_assert_lt(hr_now_ns(), end);
			hr_yield();
		}
		feed_rig_end();
		feed_rig_let_it_run();
		cr_expect_eq(feed_rig_last(), 1);
		cr_expect_eq(hr_acquire_sys_u64(&feed_rig.words.total), taps ? 1 : HR_NO_TILE);
		hr_release_u32(&feed_rig.holds, 0);
		feed_rig_finish();
		feed_rig_expect_seen(1);
		cr_expect_eq(feed_rig.words.total, 1);
		cr_expect_eq(feed_rig.pipe.sink.bytes, TILE / 2);
	}
}

Test(feed, a_feed_may_have_no_tile)
{
	feed_rig_set_up(100 * TILE);
	feed_rig_start();
	feed_rig_attach(SLOTS);
	feed_rig_end();
	feed_rig_finish();
	feed_rig_expect_seen(0);
	cr_expect_eq(feed_rig.words.total, 0);
	cr_expect_eq(feed_rig.words.total_bytes, 0);
}

Test(feed, a_resumed_feed_that_is_whole_ends_without_a_producer)
{
	feed_rig_set_up(10 * TILE);
	feed_rig.pipe.first_tile = feed_rig.pipe.next_tile = 10;
	feed_rig_start();
	feed_rig_finish();
	cr_expect_eq(feed_rig.words.total, 10);
	feed_rig_expect_seen(0);
}

Test(feed, credits_limit_what_a_producer_holds)
{
	feed_rig_set_up(20 * TILE);
	feed_rig_start();
	feed_rig_attach(3);
	for (uint64_t n = 0; n < 3; n++)
		feed_rig_next_entry();
	feed_rig_let_it_run();
	cr_expect_not(feed_rig_is_there(3));
	cr_expect_eq(hr_acquire_sys_u64(&feed_rig.words.offered), 3);
	feed_rig.taken = 0;
	for (uint64_t t = 0; t < 20; t++)
		feed_rig_commit_next(t);
	feed_rig_finish();
	feed_rig_expect_seen(20);
}

Test(feed, the_last_offers_are_announced)
{
	feed_rig_set_up(4 * TILE);
	feed_rig_start();
	for (int producers = 0; producers < 2; producers++) {
		feed_rig_attach(SLOTS);
		for (uint64_t n = 0; n < 4; n++)
			feed_rig_next_entry();
		feed_rig_let_it_run();
		cr_expect_eq(feed_rig_last(), 1);
		feed_rig_detach();
	}
	feed_rig_attach(2);
	feed_rig_next_entry();
	feed_rig_next_entry();
	feed_rig_let_it_run();
	cr_expect_eq(feed_rig_last(), 0);
	feed_rig.taken = 0;
	for (uint64_t t = 0; t < 4; t++)
		feed_rig_commit_next(t);
	feed_rig_finish();
	feed_rig_expect_seen(4);
}

Test(feed, a_stop_ends_the_worker_while_tiles_are_offered)
{
	feed_rig_set_up(100 * TILE);
	feed_rig_start();
	feed_rig_attach(SLOTS);
	feed_rig_commit_next(0);
	feed_rig_commit_next(1);
	hr_release_sys_u32(&feed_rig.control.stop, HR_STOP_NEW);
	feed_rig_finish();
	cr_expect_eq(feed_rig.words.total, HR_NO_TILE);
	cr_expect_eq(hr_pipe_final_prefix(&feed_rig.pipe, feed_rig.slot), feed_rig_next_tile());
	cr_expect_leq(feed_rig_next_tile(), 2);
	feed_rig_expect_seen(feed_rig_next_tile());
}

Test(feed, the_watermark_does_not_wait_for_slots_that_are_offered)
{
	const uint64_t end = hr_now_ns() + LIMIT_NS;

	feed_rig_set_up(100 * TILE);
	feed_rig_start();
	feed_rig_attach(3); /* five slot get no tile */
	for (uint64_t t = 0; t < 20; t++)
		feed_rig_commit_next(t);
	while (hr_pipe_written_prefix(&feed_rig.pipe, feed_rig.written) < 20) {
		cr_assert_lt(hr_now_ns(), end, "%llu",
			     (unsigned long long)hr_pipe_written_prefix(&feed_rig.pipe,
									feed_rig.written));
		hr_yield();
	}
	cr_expect_eq(hr_pipe_written_prefix(&feed_rig.pipe, feed_rig.written), 20);
	feed_rig_end();
	feed_rig_finish();
	cr_expect_eq(hr_pipe_written_prefix(&feed_rig.pipe, feed_rig.written), 20);
}

/* Write-back has lost a tile of the slot: the watermark does not pass it. */
Test(feed, the_watermark_waits_for_a_slot_that_lost_a_tile)
{
	feed_rig_set_up(100 * TILE);
	feed_rig.slot[2].write_failed = 1;
	feed_rig_start();
	feed_rig_attach(SLOTS);
	for (uint64_t t = 0; t < 20; t++)
		feed_rig_commit_next(t);
	feed_rig_let_it_run();
	cr_expect_eq(hr_acquire_sys_u64(&feed_rig.written[2]), 0);
	feed_rig_end();
	feed_rig_finish();
	cr_expect_eq(feed_rig.written[2], 0);
	cr_expect_eq(hr_pipe_written_prefix(&feed_rig.pipe, feed_rig.written), 0);
}

Test(feed, generations_skip_zero)
{
	feed_rig_set_up(30 * TILE);
	for (uint32_t s = 0; s < SLOTS; s++)
		feed_rig.offer[s].gen = UINT32_MAX - 1;
	feed_rig_start();
	feed_rig_attach(1);
	for (uint64_t t = 0; t < 30; t++) {
		const struct hr_tap_entry e = feed_rig_next_entry();

		cr_assert_neq(e.gen, 0);
		feed_rig_commit(&e, TILE);
	}
	feed_rig_finish();
	feed_rig_expect_seen(30);
}
