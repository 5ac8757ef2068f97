/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tiles that were given back, and slots that are offered, are overwritten in builds with the address
 * sanitizer, and stay as they are in others.
 */
#include "gpu/tap/poison.h"

#include "tests/harness/tap_rig.h"

TestSuite(tap_poison, .timeout = 280);

#ifdef __SANITIZE_ADDRESS__
static const bool poisons = true;
#else
static const bool poisons = false;
#endif

/* The bytes of a tile are the pattern, or those of tile 0. */
static void expect_poisoned(uint32_t s)
{
	for (uint32_t i = 0; i < TILE; i++)
		cr_assert_eq(tiles[s][i], poisons ? HR_TAP_POISON : (uint8_t)i, "byte %u", i);
}

/* One slot with tile 0; the others are closed. */
static void set_up_one(bool each)
{
	set_up(1, each, false, 1);
	for (uint32_t s = 0; s < SLOTS; s++)
		slots[s].state = HR_SLOT_CLOSED;
	fill(3, 0);
	slots[3].out = (struct hr_buffer){ .data = tiles[3], .bytes = TILE };
	slots[3].out_bytes = TILE;
	slots[3].state = HR_SLOT_COMPUTED;
	cr_assert_eq(pthread_create(&worker, NULL, tap_rig_work, NULL), 0);
	attach(0, 1);
	await_entry(0, 0);
	cr_expect(holds(3, 0), "a tile that is lent is whole");
}

static void finish_one(void)
{
	while (hr_acquire_u32(&slots[3].state) != HR_SLOT_FREE ||
	       hr_acquire_u32(&slots[3].out_state) != HR_OUT_FREE)
		hr_yield();
	expect_poisoned(3);
	hr_release_u32(&slots[3].state, HR_SLOT_CLOSED);
	pthread_join(worker, NULL);
	cr_expect_eq(status.ended, 1);
}

Test(tap_poison, a_tile_that_is_given_back_is_overwritten)
{
	set_up_one(false);
	give_back(0, entry_of(0, 0));
	finish_one();
}

Test(tap_poison, a_tile_that_the_last_of_all_consumers_leaves_is_overwritten)
{
	set_up_one(true);
	order(0, HR_TAP_CLOSE);
	finish_one();
}

/* The next consumer gets it. */
Test(tap_poison, a_tile_of_a_consumer_that_has_gone_is_kept)
{
	set_up_one(false);
	order(0, HR_TAP_CLOSE);
	wait_done(0);
	attach(1, 1);
	await_entry(1, 0);
	cr_expect(holds(3, 0));
	give_back(1, entry_of(1, 0));
	finish_one();
}

Test(tap_poison, tiles_stay_readable_when_the_run_stops)
{
	set_up_one(false);
	hr_release_u32(&pipe_.stop, 1);
	while (hr_acquire_u32(&slots[3].out_state) != HR_OUT_ABANDONED)
		hr_yield();
	cr_expect(holds(3, 0));
	hr_release_u32(&slots[3].state, HR_SLOT_CLOSED);
	pthread_join(worker, NULL);
}
