/* SPDX-License-Identifier: Apache-2.0 */
/* How the worker of a tap waits for the end of the watcher's looks. */
#include "tests/fakes/lanes.h"

#include <criterion/criterion.h>
#include <string.h>

#include "gpu/tap/mirror.h"

TestSuite(tap_mirror_lanes, .timeout = 60);

static uint32_t waits, returned, early;

/* In another lane of the worker, which runs only while the worker waits: so the worker has loaded the
 * count of rounds before. */
static void end_rounds(void)
{
	while (!hr_acquire_u32(&waits))
		fake_pause(0);
	for (uint32_t round = 1; round <= 2; round++) {
		fake_pause(0);
		early |= hr_acquire_u32(&returned);
		hr_release_u32(&tap_mirror()->rounds, round);
	}
}

static void await(void)
{
	if (hr_warp() != 0)
		return;
	if (hr_lane() == 1 && hr_warps() > 1)
		end_rounds();
	if (hr_lane() != 0)
		return;
	hr_release_u32(&waits, 1);
	tap_mirror_await();
	hr_release_u32(&returned, 1);
}

/* The first round may have begun before the worker waits. */
Test(tap_mirror_lanes, the_worker_waits_for_two_rounds_of_the_watcher)
{
	cr_assert(fake_blocks_run(await, 1, 2));
	cr_expect(returned && !early);
}

Test(tap_mirror_lanes, a_worker_without_a_watcher_does_not_wait)
{
	cr_assert(fake_blocks_run(await, 1, 1));
	cr_expect(returned);
}
