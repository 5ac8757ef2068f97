/* SPDX-License-Identifier: Apache-2.0 */
/* tests/fakes/lanes_fibers.h: in which order lanes run, and what the thread sanitizer sees of them. */
#include "tests/fakes/lanes.h"

#include <criterion/criterion.h>

#define MEETINGS 200u

TestSuite(fake_lanes, .timeout = 60);

static uint32_t runs,
	after[HR_LANES][HR_LANES]; /* how often lane B was the next one after lane A */
static uint32_t last;

static void note_order(void)
{
	for (uint32_t n = 0; n < MEETINGS; n++) {
		hr_lanes_sync();
		after[__atomic_exchange_n(&last, hr_lane(), __ATOMIC_ACQ_REL)][hr_lane()]++;
		__atomic_fetch_add(&runs, 1, __ATOMIC_RELAXED);
	}
}

Test(fake_lanes, run_in_another_order_after_each_meeting)
{
	uint32_t kinds = 0;

	cr_assert(fake_lanes_run(note_order));
	cr_expect_eq(runs, MEETINGS * HR_LANES);
	for (uint32_t a = 0; a < HR_LANES; a++)
		for (uint32_t b = 0; b < HR_LANES; b++)
			kinds += after[a][b] != 0;
	/* half of all pairs by odd steps; one order has HR_LANES pairs */
	cr_expect_geq(kinds, HR_LANES * HR_LANES / 2);
}

#ifdef __SANITIZE_THREAD__
static uint32_t shared;
static bool meets;

static void write_and_read(void)
{
	if (hr_lane() == 3)
		shared = 7;
	if (meets)
		hr_lanes_sync();
	if (hr_lane() == 5 && shared > 7)
		abort();
	hr_lanes_sync();
}

Test(fake_lanes, an_access_after_a_meeting_is_no_race)
{
	meets = true;
	cr_assert(fake_lanes_run(write_and_read));
}

/* The exit code of the sanitizer. */
Test(fake_lanes, an_access_without_a_meeting_is_a_race, .exit_code = 66)
{
	cr_assert(fake_lanes_run(write_and_read));
}
#endif
