/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The feed role: producers that go, come again, or break the protocol.
 */
#include "gpu/tap/feed.h"

#include <criterion/criterion.h>

#include "config/base/clock.h"
#include "tests/harness/feed_rig.h"
#include "tests/harness/random.h"

TestSuite(feed_producers, .timeout = 280);

Test(feed_producers, a_producer_that_goes_leaves_its_tiles_to_the_next_one)
{
	struct hr_tap_entry held[5];

	feed_rig_set_up(30 * TILE);
	feed_rig_start();
	feed_rig_attach(5);
	for (uint32_t i = 0; i < 5; i++)
		held[i] = feed_rig_next_entry();
	memset(feed_rig.tiles[held[0].slot], 0x55, TILE / 2); /* half a tile */
	feed_rig_commit(&held[2], TILE);
	feed_rig_commit(&held[4], TILE);
	feed_rig_detach();
	cr_expect_eq(feed_rig.words.committed, 2);
	cr_expect_geq(feed_rig.words.discarded, 3);
	cr_expect_eq(feed_rig_next_tile(), 0);
	feed_rig_attach(SLOTS);
	feed_rig_commit_next(0);
	feed_rig_commit_next(1);
	feed_rig_commit_next(3);
	for (uint64_t t = 5; t < 30; t++)
		feed_rig_commit_next(t);
	feed_rig_finish();
	feed_rig_expect_seen(30);
}

Test(feed_producers, producers_come_and_go_while_tiles_flow)
{
	struct fake_random random = { 3 };
	uint64_t done = 0;

	feed_rig_set_up(600 * TILE);
	feed_rig_start();
	while (done < 600) {
		uint64_t count = fake_random_below(&random, 12);

		feed_rig_attach(1 + (uint32_t)fake_random_below(&random, SLOTS));
		for (; count && done < 600; count--)
			feed_rig_commit_next(done++);
		if (done == 600)
			break;
		feed_rig_detach();
		cr_assert_eq(feed_rig_next_tile(), done);
	}
	feed_rig_finish();
	feed_rig_expect_seen(600);
}

Test(feed_producers, the_memory_of_a_producer_is_kept_while_its_tiles_are_computed)
{
	feed_rig_set_up(20 * TILE);
	feed_rig.holds = 1;
	feed_rig_start();
	feed_rig_attach(SLOTS);
	for (uint64_t t = 0; t < 3; t++)
		feed_rig_commit_next(t);
	feed_rig_order(HR_FEED_CLOSE);
	feed_rig_let_it_run();
	cr_expect_not(feed_rig_is_done());
	hr_release_u32(&feed_rig.holds, 0);
	feed_rig_wait_done();
	feed_rig_attach(SLOTS);
	for (uint64_t t = 3; t < 20; t++)
		feed_rig_commit_next(t);
	feed_rig_finish();
	feed_rig_expect_seen(20);
}

Test(feed_producers, a_short_tile_of_a_producer_that_has_gone_is_kept)
{
	feed_rig_set_up(20 * TILE);
	feed_rig.holds = 1;
	feed_rig_start();
	feed_rig_attach(SLOTS);
	feed_rig_commit_next(0);
	feed_rig_commit_next(1);
	{
		const struct hr_tap_entry e = feed_rig_next_entry();

		feed_rig_commit(&e, ROW);
	}
	feed_rig_order(HR_FEED_CLOSE);
	feed_rig_let_it_run();
	cr_expect_not(feed_rig_is_done());
	hr_release_u32(&feed_rig.holds, 0);
	feed_rig_finish();
	feed_rig_expect_seen(3);
	cr_expect_eq(feed_rig.words.total_bytes, 2 * TILE + ROW);
	cr_expect_eq(feed_rig.seen_bytes[2], ROW);
}

Test(feed_producers, a_short_tile_after_a_missing_one_goes_with_its_producer)
{
	struct hr_tap_entry held[2];

	feed_rig_set_up(20 * TILE);
	feed_rig_start();
	feed_rig_attach(SLOTS);
	held[0] = feed_rig_next_entry();
	held[1] = feed_rig_next_entry();
	feed_rig_commit(&held[1], ROW);
	feed_rig_detach();
	cr_expect_eq(feed_rig.words.total, HR_NO_TILE);
	feed_rig_attach(SLOTS);
	for (uint64_t t = 0; t < 20; t++)
		feed_rig_commit_next(t);
	feed_rig_finish();
	feed_rig_expect_seen(20);
}

Test(feed_producers, a_wrong_length_is_a_fault)
{
	static const uint32_t wrong[] = { 0, TILE + ROW, UINT32_MAX, ROW + 1, TILE - 1 };

	for (uint32_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		struct hr_tap_entry e;

		feed_rig_set_up(5 * TILE);
		feed_rig_start();
		feed_rig_attach(SLOTS);
		feed_rig_commit_next(0);
		e = feed_rig_next_entry();
		feed_rig_commit(&e, wrong[i]);
		while (!hr_acquire_sys_u32(&feed_rig.words.fault))
			hr_yield();
		cr_expect_eq(feed_rig.words.fault, HR_FEED_LENGTH);
		cr_expect_eq(feed_rig.words.fault_tile, 1);
		feed_rig_commit(&e, TILE); /* it is not heard any more */
		feed_rig_let_it_run();
		cr_expect_eq(feed_rig_next_tile(), 1);
		feed_rig_detach();
		feed_rig_attach(SLOTS);
		cr_expect_eq(feed_rig_next_tile(), 1);
		for (uint64_t t = 1; t < 5; t++)
			feed_rig_commit_next(t);
		feed_rig_finish();
		feed_rig_expect_seen(5);
	}
}

Test(feed_producers, an_end_before_a_committed_tile_is_a_fault)
{
	for (uint32_t is_short = 0; is_short < 2; is_short++) {
		struct hr_tap_entry held[2];

		feed_rig_set_up(5 * TILE);
		feed_rig_start();
		feed_rig_attach(SLOTS);
		held[0] = feed_rig_next_entry();
		held[1] = feed_rig_next_entry();
		feed_rig_commit(&held[1], TILE);
		while (hr_acquire_sys_u64(&feed_rig.words.committed) < 1)
			hr_yield();
		if (is_short)
			feed_rig_commit(&held[0], ROW);
		else
			feed_rig_end();
		while (!hr_acquire_sys_u32(&feed_rig.words.fault))
			hr_yield();
		cr_expect_eq(feed_rig.words.fault, HR_FEED_GAP);
		cr_expect_eq(feed_rig.words.fault_tile, 0);
		feed_rig_detach();
		feed_rig_attach(SLOTS);
		cr_expect_eq(hr_acquire_sys_u64(&feed_rig.words.total), HR_NO_TILE);
		feed_rig_commit_next(0);
		for (uint64_t t = 2; t < 5; t++)
			feed_rig_commit_next(t);
		feed_rig_finish();
		feed_rig_expect_seen(5);
	}
}

/* Random words over the whole page, and words that are almost right. */
Test(feed_producers, a_page_of_random_words_commits_nothing)
{
	struct fake_random random = { 11 };

	feed_rig_set_up(50 * TILE);
	feed_rig_start();
	feed_rig_attach(SLOTS);
	for (uint32_t i = 0; i < 20000; i++) {
		const uint32_t s = (uint32_t)fake_random_below(&random, SLOTS);
		const uint64_t word = fake_random_u64(&random);

		hr_release_sys_u64(&feed_rig_the_page()->commit[s],
				   i % 4 ? word : HR_FEED_COMMIT(1000u, TILE));
		hr_release_sys_u64(&feed_rig_the_page()->end, word);
	}
	feed_rig_let_it_run();
	feed_rig_detach();
	feed_rig_attach(SLOTS);
	for (uint64_t t = feed_rig_next_tile(); t < 50; t++) {
		const struct hr_tap_entry e = feed_rig_next_entry();

		feed_rig_commit(&e, TILE);
	}
	feed_rig_finish();
	feed_rig_expect_seen(50);
}
