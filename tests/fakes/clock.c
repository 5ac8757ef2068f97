/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fakes/clock.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <time.h>

#include "config/base/clock.h"
#include "config/base/tick.h"

static struct {
	atomic_bool steered;
	_Atomic uint64_t now_ns, skipped_ns, waits, rest_ns;
	void (*step)(void *context);
	void *context;
} fake;

void fake_clock_start(uint64_t now_ns, void (*step)(void *context), void *context)
{
	fake.step = step;
	fake.context = context;
	fake.now_ns = now_ns;
	fake.steered = true;
}

void fake_clock_advance(uint64_t ns)
{
	fake.now_ns += ns;
}

void fake_clock_skip(uint64_t ns)
{
	fake.skipped_ns += ns;
}

void fake_clock_rest(uint64_t ns)
{
	fake.rest_ns = ns;
}

uint64_t fake_clock_waits(void)
{
	return fake.waits;
}

void fake_clock_stop(void)
{
	fake.steered = false;
}

uint64_t hr_now_ns(void)
{
	struct timespec ts;

	if (fake.steered)
		return fake.now_ns;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * HR_NS_PER_S + (uint64_t)ts.tv_nsec + fake.skipped_ns;
}

void hr_wait_ns(uint64_t ns)
{
	const struct timespec ts = { .tv_sec = (time_t)(ns / HR_NS_PER_S),
				     .tv_nsec = (long)(ns % HR_NS_PER_S) };

	fake.waits++;
	if (!fake.steered) {
		nanosleep(&ts, NULL);
		hr_tick();
		return;
	}
	fake_clock_advance(ns);
	if (fake.step)
		fake.step(fake.context);
	hr_tick();
}

void hr_yield(void)
{
	const struct timespec rest = { .tv_nsec = (long)fake.rest_ns };

	if (rest.tv_nsec)
		nanosleep(&rest, NULL);
	else if (!fake.steered || !fake.step)
		sched_yield();
}

void hr_wait_precisely(void)
{
}
