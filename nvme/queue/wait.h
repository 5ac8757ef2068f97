/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nvme/queue/wait.h - how a thread of the host waits for a controller, and how long waiting
 * threads sleep.
 */
#ifndef NVME_QUEUE_WAIT_H
#define NVME_QUEUE_WAIT_H

#include <stdint.h>

#include "config/base/clock.h"

#define HR_WAIT_SPINS 256u /* some 20 us */
#define HR_WAIT_FIRST_NS 5000ull
#define HR_WAIT_STEP 4u /* sleeps before each doubling */
#define HR_WAIT_DOUBLINGS 8u
#define HR_WAIT_MAX_NS (HR_WAIT_FIRST_NS << HR_WAIT_DOUBLINGS) /* 1.28 ms, after 5 ms */

/*
 * Sleep number n of a wait, from 0: 5 us (such threads have a timer slack of 1 us), doubled every
 * HR_WAIT_STEP sleeps, up to HR_WAIT_MAX_NS. So a sleep is about a fifth of the time waited before it:
 * a wait ends at most about that late, and a long wait costs few wake-ups. A wake-up takes 20 us to
 * 50 us of CPU time in a virtual machine.
 */
static inline void hr_wait_sleep(uint32_t n)
{
	const uint32_t doublings = n / HR_WAIT_STEP;

	hr_wait_ns(doublings < HR_WAIT_DOUBLINGS ? HR_WAIT_FIRST_NS << doublings : HR_WAIT_MAX_NS);
}

/*
 * One step of a wait; *steps is 0 at its begin. Spins first, then sleeps. It never yields, as workers
 * do (hr_idle()): on a busy CPU a thread that yields may wait for the next tick of the kernel's timer,
 * 4 ms at 250 Hz, and a command then takes that long. A thread that wakes from a sleep runs soon.
 */
static inline void hr_wait_step(uint32_t *steps)
{
	const uint32_t n = ++*steps;

	if (n < HR_WAIT_SPINS)
		__builtin_ia32_pause();
	else
		hr_wait_sleep(n - HR_WAIT_SPINS);
}

#endif
