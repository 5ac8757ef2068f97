/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tap role: as many consumers as there are seats take many tiny tiles. TAP_TILES sets the
 * number of tiles; the default is one that a test has time for.
 */
#include "tests/harness/tap_rig.h"

#include <stdatomic.h>

TestSuite(tap_many, .timeout = 280);

#define TILES_DEFAULT 20000u

static _Atomic uint8_t *times; /* [tiles]: how often each came */

static uint64_t tiles_wanted(void)
{
	const char *text = getenv("TAP_TILES");

	return text ? strtoull(text, NULL, 10) : TILES_DEFAULT;
}

/* Take tiles until no further one comes; each is whole before and after a pause, in which the
 * feeder would overwrite it if its slot were free. */
static void *take_tiles(void *number)
{
	const uint32_t seat = (uint32_t)(uintptr_t)number;

	for (uint64_t n = 0;;) {
		const bool last = last_of(seat);
		struct hr_tap_entry e;

		if (!is_there(seat, n)) {
			if (last)
				return NULL;
			hr_yield();
			continue;
		}
		e = *entry_of(seat, n++);
		cr_assert(holds(e.slot, e.tile), "tile %llu at first", (unsigned long long)e.tile);
		hr_yield();
		cr_assert(holds(e.slot, e.tile), "tile %llu later", (unsigned long long)e.tile);
		atomic_fetch_add(&times[e.tile], 1);
		give_back(seat, &e);
	}
}

static void run_all(uint64_t tiles_, bool each)
{
	pthread_t thread[HR_TAP_SEATS];

	times = calloc(tiles_, 1);
	cr_assert_not_null(times);
	set_up(tiles_, each, false, HR_TAP_SEATS);
	start();
	for (uint32_t seat = 0; seat < HR_TAP_SEATS; seat++)
		attach(seat, 2);
	for (uint32_t i = 0; i < HR_TAP_SEATS; i++)
		cr_assert_eq(pthread_create(&thread[i], NULL, take_tiles, (void *)(uintptr_t)i), 0);
	for (uint32_t i = 0; i < HR_TAP_SEATS; i++)
		pthread_join(thread[i], NULL);
	finish();
	for (uint64_t t = 0; t < tiles_; t++)
		cr_assert_eq(times[t], each ? HR_TAP_SEATS : 1, "tile %llu: %u",
			     (unsigned long long)t, times[t]);
	cr_expect_eq(status.tiles, tiles_);
	free((void *)(uintptr_t)times);
}

Test(tap_many, each_tile_goes_to_one_of_sixteen_consumers)
{
	run_all(tiles_wanted(), false);
}

Test(tap_many, each_tile_goes_to_sixteen_consumers)
{
	run_all(tiles_wanted() / 10, true);
}
