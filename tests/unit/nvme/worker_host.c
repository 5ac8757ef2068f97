/* Pauses of workers on the host: none at first, then longer and longer ones, up to a limit. */
#include "nvme/worker.h"

#include <criterion/criterion.h>

#include "config/clock.h"
#include "tests/fakes/clock.h"

TestSuite(worker_host, .timeout = 60);

static uint64_t pause_of(uint32_t *spins)
{
	const uint64_t before = hr_now_ns();

	hr_idle(spins);
	return hr_now_ns() - before;
}

/* A worker that sleeps too soon delays each command; one that never sleeps takes a core. */
Test(worker_host, idle_workers_yield_first_and_then_sleep_longer)
{
	uint32_t spins = 0;
	uint64_t want = HR_IDLE_FIRST_NS;

	fake_clock_start(1, NULL, NULL);
	for (uint32_t n = 1; n < HR_IDLE_YIELDS; n++)
		cr_assert_eq(pause_of(&spins), 0, "round %u", n);
	for (uint32_t doublings = 0; doublings < 8; doublings++) {
		for (uint32_t i = 0; i < HR_IDLE_STEP; i++)
			cr_assert_eq(pause_of(&spins), want, "%u, round %u", doublings, i);
		want = doublings < 5 ? 2 * want : HR_IDLE_MAX_NS;
	}
	spins = 0; /* after progress */
	cr_expect_eq(pause_of(&spins), 0);
	cr_expect_eq(spins, 1u);
	spins = UINT32_MAX - 1;
	cr_expect_eq(pause_of(&spins), HR_IDLE_MAX_NS);
	fake_clock_stop();
}
