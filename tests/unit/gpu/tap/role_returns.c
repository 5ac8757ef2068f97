/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tap role: tiles that are given back as failed, and what the host reads and changes.
 */
#include "tests/harness/tap_rig.h"

TestSuite(tap_returns, .timeout = 280);

/* ---- tiles that are given back as failed */

Test(tap_returns, a_failed_tile_goes_to_another_consumer)
{
	set_up(20, false, false, 2);
	start();
	attach(0, 1);
	attach(1, 1);
	for (uint64_t n = 0; n < 2; n++) {
		const struct hr_tap_entry *e = await_entry(0, n);

		seen[0][e->tile]++;
		give_up(0, e);
	}
	order(0, HR_TAP_HOLD); /* with the next order: what it holds is lent again below */
	wait_done(0);
	order(0, HR_TAP_CLOSE);
	for (uint64_t n = 0; n < 20; n++) {
		const struct hr_tap_entry *e = await_entry(1, n);

		if (seen[0][e->tile])
			cr_expect_eq(e->flags, HR_TAP_REDELIVERED);
		seen[1][e->tile]++;
		give_back(1, e);
	}
	finish();
	for (uint32_t t = 0; t < 20; t++)
		cr_expect_eq(seen[1][t], 1, "tile %u", t);
	cr_expect_geq(words.redelivered, 2);
	cr_expect_eq(words.seat[0].failed, 2);
	cr_expect_eq(words.failed, 0);
	cr_expect_eq(status.tiles, 20);
}

/* Two consumers have a tile each; that of seat 0 gives its tile up, the other one keeps its tile.
 * Returns the number of the failed tile. */
static uint64_t fail_first(void)
{
	uint64_t failed;

	set_up(20, false, false, 2);
	start();
	attach(0, 1);
	attach(1, 1);
	await_entry(1, 0);
	failed = await_entry(0, 0)->tile;
	give_up(0, entry_of(0, 0));
	return failed;
}

/* While the consumer that may have the failed tile has no credit, the other one gets the next
 * tiles. */
Test(tap_returns, a_failed_tile_does_not_hold_up_the_next_ones)
{
	const uint64_t failed = fail_first();

	for (uint64_t n = 1; n < 4; n++) {
		cr_assert_neq(await_entry(0, n)->tile, failed);
		give_back(0, entry_of(0, n));
	}
	give_back(1, entry_of(1, 0));
	cr_expect_eq(await_entry(1, 1)->tile, failed);
	cr_expect_eq(hr_acquire_sys_u64(&words.seat[1].redelivered), 1);
	hr_release_u32(&pipe_.stop, 1);
	finish();
}

Test(tap_returns, a_single_consumer_gets_its_failed_tile_again_and_then_it_is_dropped)
{
	uint64_t n = 0;

	set_up(6, false, false, 1);
	start();
	attach(0, 1);
	for (uint64_t came = 0; came < 5; n++) {
		const struct hr_tap_entry *e = await_entry(0, n);

		seen[0][e->tile]++;
		if (e->tile == 2) {
			give_up(0, e);
			continue;
		}
		came++;
		give_back(0, e);
	}
	finish();
	cr_expect_eq(seen[0][2], 3);
	cr_expect_eq(words.failed, 1);
	cr_expect_eq(words.failed_tile, 2);
	cr_expect_eq(words.seat[0].failed, 3);
	cr_expect_eq(words.redelivered, 2);
	cr_expect_eq(status.tiles, 6);
}

Test(tap_returns, a_tile_that_has_failed_for_one_of_all_is_done)
{
	set_up(10, true, false, 2);
	start();
	attach(0, 2);
	attach(1, 2);
	for (uint64_t n = 0; n < 10; n++) {
		give_up(0, await_entry(0, n));
		give_back(1, await_entry(1, n));
	}
	finish();
	cr_expect_eq(status.tiles, 10);
	cr_expect_eq(words.seat[0].failed, 10);
	cr_expect_eq(words.seat[0].returned, 10);
	cr_expect_eq(words.seat[1].failed, 0);
	cr_expect_eq(words.failed, 0);
	cr_expect_eq(words.redelivered, 0);
}

/* The tries of a tile end with it: the next tile in its memory has as many. */
Test(tap_returns, each_tile_has_all_its_tries)
{
	const uint64_t count = 3 * SLOTS;

	set_up(count, false, false, 1);
	start();
	attach(0, 1);
	for (uint64_t n = 0; n < 3 * count; n++) {
		const struct hr_tap_entry *e = await_entry(0, n);

		cr_assert_eq(e->flags, seen[0][e->tile] ? HR_TAP_REDELIVERED : 0u, "entry %llu",
			     (unsigned long long)n);
		if (++seen[0][e->tile] < 3)
			give_up(0, e);
		else
			give_back(0, e);
	}
	finish();
	cr_expect_eq(words.failed, 0);
	cr_expect_eq(words.redelivered, 2 * count);
	cr_expect_eq(status.tiles, count);
}

/* The tile waits for seat 1, which has no credit, until seat 0 has another consumer. */
Test(tap_returns, a_failed_tile_goes_to_a_new_consumer_of_its_seat)
{
	const uint64_t failed = fail_first();

	await_entry(0, 1);
	order(0, HR_TAP_CLOSE);
	wait_done(0);
	memset(entries[0], 0, sizeof entries[0]);
	memset(pages[0], 0, sizeof pages[0]);
	attach(0, 1);
	cr_expect_eq(await_entry(0, 0)->tile, failed);
	hr_release_u32(&pipe_.stop, 1);
	finish();
}

/* ---- what the host reads and changes */

#define OTHER_SET 7u

/* A consumer goes with tiles that it holds. The next one at its seat has other memory, all credits, and
 * counters of its own. */
Test(tap_returns, a_seat_serves_one_consumer_after_the_other)
{
	const struct hr_tap_seat *w = &words.seat[0];

	set_up(60, false, false, 1);
	start();
	attach(0, 3);
	for (uint64_t n = 0; n < 3; n++)
		await_entry(0, n);
	give_up(0, entry_of(0, 0));
	give_back(0, entry_of(0, 1));
	await_entry(0, 4);
	order(0, HR_TAP_CLOSE);
	wait_done(0);
	memset(entries[0], 0xff, sizeof entries[0]);
	memset(pages[0], 0xff, sizeof pages[0]);
	words.seat[0].set = OTHER_SET;
	attach(0, 3);
	for (uint64_t n = 0; n < 3; n++)
		await_entry(OTHER_SET, n);
	for (int i = 0; i < 2; i++) {
		order(5, HR_TAP_HOLD);
		wait_done(5);
	}
	cr_expect_not(is_there(OTHER_SET, 3));
	cr_expect(w->lent == 3 && w->returned == 0 && w->failed == 0 && w->hold_ns == 0);
	consume_all(OTHER_SET, 1);
	finish();
	cr_expect_eq(w->returned, 59);
	cr_expect_eq(w->lent, 59);
	for (uint32_t t = 0; t < 60; t++)
		cr_expect_eq(seen[OTHER_SET][t], t == 1 ? 0 : 1, "tile %u", t);
	cr_expect_eq(status.tiles, 60);
	for (uint32_t i = 0; i < sizeof entries[0]; i++)
		cr_assert_eq(entries[0][i], 0xff);
}

Test(tap_returns, credits_can_change_while_tiles_are_lent)
{
	set_up(20, false, false, 1);
	start();
	attach(0, 4);
	for (uint64_t n = 0; n < 4; n++)
		await_entry(0, n);
	hr_release_sys_u32(&words.seat[0].credits, 1);
	order(5,
	      HR_TAP_HOLD); /* the next order is carried out after the worker has read the credits */
	wait_done(5);
	for (uint64_t n = 0; n < 3; n++)
		give_back(0, entry_of(0, n));
	while (hr_acquire_sys_u64(&words.seat[0].returned) < 3)
		hr_yield();
	for (int i = 0; i < 2; i++) {
		order(5, HR_TAP_HOLD);
		wait_done(5);
	}
	cr_expect_eq(hr_acquire_sys_u64(&words.seat[0].lent), 4);
	hr_release_sys_u32(&words.seat[0].credits, 3);
	await_entry(0, 5);
	for (uint64_t n = 3; n < 20; n++)
		give_back(0, await_entry(0, n));
	finish();
	cr_expect_eq(status.tiles, 20);
}

Test(tap_returns, hold_times_and_the_oldest_tile_are_told)
{
	struct hr_tap_seat *w = &words.seat[0];
	uint64_t began, held_ns;

	set_up(8, false, false, 1);
	began = hr_now_ns();
	start();
	attach(0, 3);
	await_entry(0, 2);
	while (hr_acquire_sys_u64(&w->oldest_ns) < HR_NS_PER_MS)
		hr_yield();
	cr_expect_eq(hr_acquire_sys_u64(&w->oldest_tile), 0);
	cr_expect_leq(hr_acquire_sys_u64(&w->oldest_ns), hr_now_ns() - began);
	give_back(0, entry_of(0, 0));
	while (!hr_acquire_sys_u64(&w->hold_max_ns))
		hr_yield();
	held_ns = hr_acquire_sys_u64(&w->hold_ns);
	cr_expect_geq(held_ns, HR_NS_PER_MS);
	cr_expect_leq(held_ns, hr_now_ns() - began);
	cr_expect_eq(hr_acquire_sys_u64(&w->hold_max_ns), held_ns);
	while (hr_acquire_sys_u64(&w->oldest_tile) != 1)
		hr_yield();
	for (uint64_t n = 1; n < 8; n++)
		give_back(0, await_entry(0, n));
	finish();
	cr_expect_geq(w->hold_ns, held_ns);
	cr_expect_leq(w->hold_max_ns, w->hold_ns);
	cr_expect_eq(words.front, 8);
}
