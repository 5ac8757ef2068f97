/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tap role: each tile goes to one consumer, or to all of them; consumers come, go, and lie.
 */
#include "tests/harness/tap_rig.h"

#include "tests/harness/random.h"
#include "tests/harness/threads.h"

TestSuite(tap, .timeout = 280);

/* ---- the tests */

Test(tap, one_consumer_gets_each_tile_when_it_delivers_to_one)
{
	set_up(TILES_MAX, false, false, 4);
	start();
	for (uint32_t seat = 0; seat < 4; seat++)
		attach(seat, 2);
	consume_all(0, 4);
	finish();
	for (uint32_t t = 0; t < TILES_MAX; t++)
		cr_assert_eq(times_seen(t), 1, "tile %u: %u", t, times_seen(t));
	cr_expect_eq(status.tiles, TILES_MAX);
	cr_expect_eq(status.bytes, (uint64_t)TILES_MAX * TILE);
	cr_expect_eq(words.dropped, 0);
	cr_expect_eq(words.redelivered, 0);
}

Test(tap, all_consumers_get_all_tiles_when_it_delivers_to_each)
{
	set_up(1000, true, false, 3);
	start();
	for (uint32_t seat = 0; seat < 3; seat++)
		attach(seat, 1 + seat);
	consume_all(0, 3);
	finish();
	for (uint32_t t = 0; t < 1000; t++)
		for (uint32_t seat = 0; seat < 3; seat++)
			cr_assert_eq(seen[seat][t], 1, "tile %u, seat %u", t, seat);
	cr_expect_eq(status.tiles, 1000);
}

Test(tap, no_tile_is_lent_before_all_wanted_consumers_have_come)
{
	set_up(20, false, false, 2);
	start();
	attach(0, 4);
	wait_done(0);
	order(0, HR_TAP_HOLD); /* another round of the worker */
	wait_done(0);
	cr_expect_not(is_there(0, 0));
	attach(0, 4);
	attach(1, 4);
	consume_all(0, 2);
	finish();
	for (uint32_t t = 0; t < 20; t++)
		cr_expect_eq(times_seen(t), 1);
}

Test(tap, credits_limit_what_a_consumer_holds)
{
	set_up(20, false, false, 1);
	start();
	attach(0, 3);
	for (uint64_t n = 0; n < 3; n++)
		await_entry(0, n);
	/* two orders that change nothing: at least one whole round of the worker */
	for (int i = 0; i < 2; i++) {
		order(5, HR_TAP_HOLD);
		wait_done(5);
	}
	cr_expect_not(is_there(0, 3));
	cr_expect_eq(hr_acquire_sys_u64(&words.seat[0].lent), 3);
	give_back(0, entry_of(0, 1));
	await_entry(0, 3);
	cr_expect_eq(hr_acquire_sys_u64(&words.seat[0].returned), 1);
	give_back(0, entry_of(0, 0));
	for (uint64_t n = 2; n < 20; n++)
		give_back(0, await_entry(0, n));
	finish();
	cr_expect_eq(status.tiles, 20);
}

Test(tap, tiles_of_a_lost_consumer_go_to_another_one)
{
	uint32_t redelivered = 0;

	lose_a_consumer(50);
	for (uint64_t n = 0; n < 49; n++) {
		const struct hr_tap_entry *e = await_entry(1, n);

		cr_assert(holds(e->slot, e->tile));
		redelivered += e->flags == HR_TAP_REDELIVERED;
		seen[1][e->tile]++;
		give_back(1, e);
	}
	finish();
	cr_expect_eq(redelivered, 4);
	cr_expect_eq(words.redelivered, 4);
	cr_expect_eq(seen[1][2], 0);
	for (uint32_t t = 0; t < 50; t++)
		cr_expect_eq(seen[1][t], t == 2 ? 0 : 1, "tile %u", t);
	cr_expect_eq(status.tiles, 50);
}

Test(tap, a_tile_that_was_given_back_before_the_end_is_not_redelivered)
{
	expect_no_redelivery(50);
}

Test(tap, a_lost_consumer_of_each_keeps_no_tile)
{
	set_up(40, true, false, 2);
	start();
	attach(0, 2);
	attach(1, 2);
	await_entry(0, 1);
	for (uint64_t n = 0; n < 2; n++)
		give_back(1, await_entry(1, n));
	order(0, HR_TAP_CLOSE);
	for (uint64_t n = 2; n < 40; n++)
		give_back(1, await_entry(1, n));
	finish();
	cr_expect_eq(status.tiles, 40);
	cr_expect_eq(words.redelivered, 0);
}

Test(tap, a_tile_without_a_credit_is_dropped_when_lag_is_drop)
{
	set_up(100, false, true, 1);
	start();
	attach(0, 2);
	for (uint64_t n = 0; n < 2; n++)
		await_entry(0, n);
	/* all others are dropped while the consumer holds two */
	while (hr_acquire_sys_u64(&words.dropped) < 98)
		hr_yield();
	give_back(0, entry_of(0, 0));
	give_back(0, entry_of(0, 1));
	finish();
	cr_expect_eq(words.dropped, 98);
	cr_expect_eq(status.tiles, 100);
	cr_expect_eq(hr_acquire_sys_u64(&words.seat[0].lent), 2);
}

Test(tap, the_last_tiles_are_announced_and_the_news_are_taken_back)
{
	set_up(3, false, false, 1);
	start();
	attach(0, 8);
	await_entry(0, 2);
	while (!last_of(0))
		hr_yield();
	attach(1, 8);
	wait_done(1);
	cr_expect_eq(last_of(1), 1);
	order(0, HR_TAP_CLOSE);
	for (uint64_t n = 0; n < 3; n++)
		await_entry(1, n);
	while (!last_of(1))
		hr_yield();
	for (uint64_t n = 0; n < 3; n++)
		give_back(1, entry_of(1, n));
	finish();
	cr_expect_eq(status.tiles, 3);
}

/* Random words, and the right generations of slots that another consumer has. */
static void *attack(void *unused)
{
	struct fake_random random = { 1 };

	while (!hr_acquire_sys_u32(&status.ended))
		for (uint32_t s = 0; s < SLOTS; s++)
			hr_release_sys_u32(word_of(0, s),
					   fake_random_below(&random, 2)
						   ? (uint32_t)fake_random_u64(&random)
						   : hr_acquire_sys_u32(word_of(1, s)) + 1);
	return NULL;
}

Test(tap, a_page_of_random_words_returns_only_tiles_of_its_consumer)
{
	const uint32_t total = 2000 / THREAD_STEP(4u);
	pthread_t attacker;

	set_up(total, false, false, 2);
	start();
	attach(0, 3);
	attach(1, 3);
	cr_assert_eq(pthread_create(&attacker, NULL, attack, NULL), 0);
	consume_all(1, 1); /* its checks fail when a tile is taken from it */
	order(0, HR_TAP_CLOSE);
	while (!hr_acquire_sys_u32(&status.ended))
		consume_all(1, 1);
	finish();
	pthread_join(attacker, NULL);
	cr_expect_eq(status.tiles, total);
	for (uint32_t t = 0; t < total; t++)
		cr_assert_leq(seen[1][t], 2);
}

Test(tap, a_stop_ends_the_worker_while_tiles_are_lent)
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

Test(tap, a_stop_of_the_host_ends_the_worker_while_the_last_tiles_are_lent)
{
	expect_end_with_the_last_tiles_lent();
}

Test(tap, a_tile_that_compute_has_broken_is_not_lent)
{
	set_up(1, false, false, 1);
	slots[0].out_bytes = HR_OUT_BROKEN;
	slots[0].state = HR_SLOT_COMPUTED;
	for (uint32_t s = 1; s < SLOTS; s++)
		slots[s].state = HR_SLOT_CLOSED;
	cr_assert_eq(pthread_create(&worker, NULL, tap_rig_work, NULL), 0);
	attach(0, 3);
	wait_done(0);
	hr_release_u32(&pipe_.stop, 1);
	while (hr_acquire_u32(&slots[0].state) != HR_SLOT_FREE)
		hr_yield();
	hr_release_u32(&slots[0].state, HR_SLOT_CLOSED);
	pthread_join(worker, NULL);
	cr_expect_not(is_there(0, 0));
	cr_expect_eq(status.tiles, 0);
}

Test(tap, generations_skip_zero)
{
	set_up(30, false, false, 1);
	for (uint32_t s = 0; s < SLOTS; s++)
		lending[s].gen = HR_TAP_FAILED - 2;
	start();
	attach(0, 1);
	for (uint64_t n = 0; n < 30; n++) {
		const struct hr_tap_entry *e = await_entry(0, n);

		cr_assert(e->gen && e->gen < HR_TAP_FAILED);
		give_back(0, e);
	}
	finish();
	cr_expect_eq(status.tiles, 30);
}

/* ---- the slot while its tile is lent */

/* One slot with tile 0, computed; the others are closed, `spares` of them with outputs that are free,
 * and no thread plays prefetch. */
static void start_one(uint64_t count, uint32_t spares)
{
	set_up(count, false, false, 1);
	for (uint32_t s = 0; s < SLOTS; s++) {
		slots[s].state = HR_SLOT_CLOSED;
		slots[s].out = (struct hr_buffer){ .data = tiles[s], .bytes = TILE };
		slots[s].out_state = s + spares < SLOTS ? HR_OUT_COMPUTING : HR_OUT_FREE;
	}
	slots[0].out_bytes = TILE;
	slots[0].state = HR_SLOT_COMPUTED;
	cr_assert_eq(pthread_create(&worker, NULL, tap_rig_work, NULL), 0);
}

static void await_u32(const uint32_t *word, uint32_t value)
{
	const uint64_t end = hr_now_ns() + LIMIT_NS;

	while (hr_acquire_u32(word) != value) {
		cr_assert_lt(hr_now_ns(), end, "%u does not come", value);
		hr_yield();
	}
}

/* Prefetch gives the slot tile 1. */
static void read_ahead(void)
{
	await_u32(&slots[0].state, HR_SLOT_FREE);
	cr_assert_eq(hr_acquire_u32(&slots[0].out_state), (uint32_t)HR_OUT_LENT);
	slots[0].tile = 1;
	hr_release_u32(&slots[0].state, HR_SLOT_FILLED);
}

static void compute(uint32_t bytes)
{
	slots[0].out_bytes = bytes;
	hr_release_u32(&slots[0].state, HR_SLOT_COMPUTED);
}

static void join_one(void)
{
	hr_release_u32(&slots[0].state, HR_SLOT_CLOSED);
	pthread_join(worker, NULL);
	cr_expect_eq(hr_acquire_sys_u32(&status.ended), 1);
}

Test(tap, a_slot_reads_ahead_while_its_tile_is_lent)
{
	start_one(2, 0);
	attach(0, 2);
	await_entry(0, 0);
	read_ahead();
	cr_expect_eq(entry_of(0, 0)->tile, 0);
	cr_expect_eq(status.tiles, 0);
	give_back(0, entry_of(0, 0));
	await_u32(&slots[0].out_state, HR_OUT_FREE);
	cr_expect_eq(hr_acquire_u32(&slots[0].state), (uint32_t)HR_SLOT_FILLED);
	compute(TILE - 1);
	cr_expect_eq(await_entry(0, 1)->tile, 1);
	cr_expect_eq(entry_of(0, 1)->bytes, TILE - 1);
	await_u32(&slots[0].out_state, HR_OUT_LENT);
	give_back(0, entry_of(0, 1));
	join_one();
	cr_expect_eq(status.tiles, 2);
	cr_expect_eq(status.bytes, 2 * TILE - 1);
}

Test(tap, a_tile_is_redelivered_after_its_slot_has_read_the_next_one)
{
	start_one(1, 0);
	attach(0, 1);
	await_entry(0, 0);
	read_ahead();
	slots[0].out_bytes = 1;
	order(0, HR_TAP_CLOSE);
	wait_done(0);
	attach(1, 1);
	cr_expect_eq(await_entry(1, 0)->tile, 0);
	cr_expect_eq(entry_of(1, 0)->bytes, TILE);
	cr_expect_eq(entry_of(1, 0)->flags, HR_TAP_REDELIVERED);
	cr_expect_eq(hr_acquire_u32(&slots[0].out_state), (uint32_t)HR_OUT_LENT);
	give_back(1, entry_of(1, 0));
	join_one();
	cr_expect_eq(status.tiles, 1);
}

Test(tap, a_closed_slot_keeps_the_worker_until_its_tile_is_given_back)
{
	start_one(1, 0);
	attach(0, 1);
	await_entry(0, 0);
	await_u32(&slots[0].state, HR_SLOT_FREE);
	hr_release_u32(&slots[0].state, HR_SLOT_CLOSED);
	/* rounds after that */
	for (int i = 0; i < 2; i++) {
		order(5, HR_TAP_HOLD);
		wait_done(5);
	}
	cr_expect_eq(hr_acquire_sys_u32(&status.ended), 0);
	give_back(0, entry_of(0, 0));
	join_one();
	cr_expect_eq(status.tiles, 1);
}

Test(tap, a_stop_holds_the_memory_of_lent_tiles_for_good)
{
	start_one(2, 0);
	attach(0, 1);
	await_entry(0, 0);
	read_ahead();
	hr_release_u32(&pipe_.stop, 1);
	await_u32(&slots[0].out_state, HR_OUT_ABANDONED);
	give_back(0, entry_of(0, 0));
	join_one();
	cr_expect_eq(slots[0].out_state, (uint32_t)HR_OUT_ABANDONED);
	cr_expect_eq(status.tiles, 0);
}

/* The launch ends while a consumer holds the tile, and the next one takes it back. */
Test(tap, a_worker_with_nothing_to_do_parks_until_the_next_launch)
{
	set_up(1, false, false, 1);
	role.park = 1;
	control.launch_number = 3;
	pipe_.slots = 1;
	slots[0].out_bytes = TILE;
	slots[0].state = HR_SLOT_COMPUTED;
	attach(0, 2);
	cr_assert_eq(pthread_create(&worker, NULL, tap_rig_work, NULL), 0);
	pthread_join(worker, NULL);
	cr_expect(is_there(0, 0));
	cr_expect(words.leave_launch == 3 && pipe_.leave_launch == 3 && status.ended == 0);
	control.launch_number = 4;
	give_back(0, entry_of(0, 0));
	cr_assert_eq(pthread_create(&worker, NULL, tap_rig_work, NULL), 0);
	await_u32(&slots[0].out_state, HR_OUT_FREE);
	join_one();
	cr_expect(words.leave_launch == 3 && status.tiles == 1);
}

/* A consumer may hold its tile until it has all others. */
Test(tap, a_tile_that_waits_for_a_consumer_gets_another_output)
{
	start_one(2, 1);
	attach(0, 2);
	await_entry(0, 0);
	read_ahead();
	await_u32(&slots[0].out_state, HR_OUT_FREE);
	cr_expect_eq(slots[0].out.data, tiles[SLOTS - 1]);
	cr_expect_eq(slots[SLOTS - 1].out.data, tiles[0]);
	cr_expect_eq(hr_acquire_u32(&slots[SLOTS - 1].out_state), (uint32_t)HR_OUT_LENT);
	compute(TILE);
	cr_expect_eq(await_entry(0, 1)->tile, 1);
	cr_expect_eq(entry_of(0, 1)->slot, SLOTS - 1);
	while (!last_of(0))
		hr_yield();
	await_u32(&slots[0].state, HR_SLOT_FREE);
	give_back(0, entry_of(0, 0));
	await_u32(&slots[SLOTS - 1].out_state, HR_OUT_FREE);
	cr_expect_eq(hr_acquire_u32(&slots[0].out_state), (uint32_t)HR_OUT_LENT);
	give_back(0, entry_of(0, 1));
	join_one();
	cr_expect_eq(slots[0].out_state, (uint32_t)HR_OUT_FREE);
	cr_expect_eq(status.tiles, 2);
}

/* Outputs move on; each tile comes from the memory in which it was computed. */
Test(tap, outputs_change_hands_many_times)
{
	const uint64_t count = 40;

	start_one(count, 3);
	attach(0, 4);
	for (uint64_t n = 0; n < count; n++) {
		const struct hr_tap_entry *e = await_entry(0, n);

		cr_expect_eq(e->tile, n);
		if (n >= 2)
			give_back(0, entry_of(0, n - 2));
		await_u32(&slots[0].state, HR_SLOT_FREE);
		if (n + 1 == count)
			break;
		slots[0].tile = n + 1;
		hr_release_u32(&slots[0].state, HR_SLOT_FILLED);
		await_u32(&slots[0].out_state, HR_OUT_FREE);
		cr_assert(hr_replace_u32(&slots[0].out_state, HR_OUT_FREE, HR_OUT_COMPUTING));
		memset(slots[0].out.data, (int)n + 1, TILE);
		compute(TILE);
		e = await_entry(0, n + 1);
		cr_assert_eq(tiles[e->slot][0], (uint8_t)(n + 1), "tile %llu, slot %u",
			     (unsigned long long)n + 1, e->slot);
	}
	give_back(0, entry_of(0, count - 2));
	give_back(0, entry_of(0, count - 1));
	join_one();
	cr_expect_eq(status.tiles, count);
}
