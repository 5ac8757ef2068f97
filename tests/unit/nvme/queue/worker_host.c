/* SPDX-License-Identifier: Apache-2.0 */
/* Pauses of threads on the host: none at first, then longer and longer ones, up to a limit. */
#include "nvme/queue/worker.h"

#include <criterion/criterion.h>
#include <string.h>

#include "config/base/clock.h"
#include "nvme/queue/wait.h"
#include "tests/fakes/clock.h"

TestSuite(worker_host, .timeout = 60);

static uint64_t pause_of(uint32_t *spins)
{
	const uint64_t before = hr_now_ns();

	hr_idle(spins);
	return hr_now_ns() - before;
}

/* The pauses after the first ones: a step of a wait sleeps longer and longer, up to a limit. */
static void expect_sleeps(uint64_t (*step)(uint32_t *), uint32_t *steps)
{
	static const uint64_t sleep_us[] = { 5, 10, 20, 40, 80, 160, 320, 640, 1280, 1280 };

	for (size_t k = 0; k < sizeof sleep_us / sizeof *sleep_us; k++)
		for (uint32_t i = 0; i < 4; i++)
			cr_assert_eq(step(steps), sleep_us[k] * 1000, "%zu, round %u", k, i);
	*steps = UINT32_MAX - 1;
	cr_expect_eq(step(steps), 1280000u);
}

/* A worker that sleeps too soon delays each command; one that never sleeps takes a core. */
Test(worker_host, idle_workers_yield_first_and_then_sleep_longer)
{
	uint32_t spins = 0;

	fake_clock_start(1, NULL, NULL);
	for (uint32_t n = 1; n < HR_IDLE_YIELDS; n++)
		cr_assert_eq(pause_of(&spins), 0, "round %u", n);
	expect_sleeps(pause_of, &spins);
	spins = 0; /* after progress */
	cr_expect_eq(pause_of(&spins), 0);
	cr_expect_eq(spins, 1u);
	fake_clock_stop();
}

static uint64_t step_of(uint32_t *steps)
{
	const uint64_t before = hr_now_ns();

	hr_wait_step(steps);
	return hr_now_ns() - before;
}

Test(worker_host, threads_that_wait_for_a_controller_spin_first_and_then_sleep_longer)
{
	uint32_t steps = 0;

	fake_clock_start(1, NULL, NULL);
	for (uint32_t n = 1; n < HR_WAIT_SPINS; n++)
		cr_assert_eq(step_of(&steps), 0, "round %u", n);
	expect_sleeps(step_of, &steps);
	fake_clock_stop();
}

Test(worker_host, checksums_and_calls_for_operators)
{
	const struct hr_worker_calls *calls = hr_worker_calls();
	uint32_t crc = ~0u, spins = 3;
	static const char text[] = "123456789"; /* its CRC-32C is e3069283 */
	uint64_t eight;

	for (const char *c = text; *c; c++)
		crc = hr_crc32c_u8(crc, (uint8_t)*c);
	cr_expect_eq(~crc, 0xe3069283u);
	memcpy(&eight, text, sizeof eight);
	cr_expect_eq(~hr_crc32c_u8(hr_crc32c_u64(~0u, eight), '9'), 0xe3069283u);
	fake_clock_start(1000, NULL, NULL);
	cr_expect_eq(hr_clock_ns(), 1000u);
	cr_expect_eq(hr_clock_by(calls), 1000u);
	hr_idle_by(calls, &spins);
	cr_expect_eq(spins, 4u);
	fake_clock_stop();
}

/* A guarded copy is the data itself but in builds with the address sanitizer; whole sectors. */
Test(worker_host, a_guarded_copy_has_the_same_bytes)
{
	static uint8_t data[192];
	const uint8_t *one, *two;
	void *list = NULL;

	for (uint32_t i = 0; i < sizeof data; i++)
		data[i] = (uint8_t)(i + 1);
	one = hr_guarded(&list, data, 64);
	two = hr_guarded(&list, data + 64, 128);
	cr_expect_eq(memcmp(one, data, 64), 0);
	cr_expect_eq(memcmp(two, data + 64, 128), 0);
	hr_guarded_end(&list);
	cr_expect_null(list);
}
