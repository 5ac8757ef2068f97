/* SPDX-License-Identifier: Apache-2.0 */
#include "config/base/clock.h"

#include <sched.h>
#include <sys/prctl.h>
#include <time.h>

#include "config/base/tick.h"

uint64_t hr_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * HR_NS_PER_S + (uint64_t)ts.tv_nsec;
}

static int sleep_ns(uint64_t ns)
{
	struct timespec ts = { .tv_sec = (time_t)(ns / HR_NS_PER_S),
			       .tv_nsec = (long)(ns % HR_NS_PER_S) };

	return nanosleep(&ts, NULL);
}

void hr_wait_ns(uint64_t ns)
{
	int interrupted = 0;

	while (hr_tick_is_set() && !interrupted && ns > HR_TICK_NS) {
		interrupted = sleep_ns(HR_TICK_NS);
		ns -= HR_TICK_NS;
		hr_tick();
	}
	if (!interrupted)
		sleep_ns(ns);
	hr_tick();
}

void hr_yield(void)
{
	sched_yield();
}

void hr_wait_precisely(void)
{
	prctl(PR_SET_TIMERSLACK, 1000ul, 0ul, 0ul, 0ul);
}
