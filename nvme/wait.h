/*
 * nvme/wait.h - how a thread of the host waits for a controller.
 */
#ifndef NVME_WAIT_H
#define NVME_WAIT_H

#include <stdint.h>

#include "config/clock.h"

#define HR_WAIT_SPINS 256u /* some 20 us */
#define HR_WAIT_FIRST_NS 5000ull
#define HR_WAIT_STEP 4u	     /* sleeps before each doubling */
#define HR_WAIT_DOUBLINGS 8u /* up to 1.28 ms, after 5 ms */

/*
 * One step of a wait; *steps is 0 at its begin. Spins first, then sleeps. It never yields, as workers
 * do (hr_idle()): on a busy CPU a thread that yields may wait for the next tick of the kernel's timer,
 * 4 ms at 250 Hz, and a command then takes that long. A thread that wakes from a sleep runs soon.
 */
static inline void hr_wait_step(uint32_t *steps)
{
	const uint32_t n = ++*steps, doublings = (n - HR_WAIT_SPINS) / HR_WAIT_STEP;

	if (n < HR_WAIT_SPINS)
		__builtin_ia32_pause();
	else
		hr_wait_ns(HR_WAIT_FIRST_NS
			   << (doublings < HR_WAIT_DOUBLINGS ? doublings : HR_WAIT_DOUBLINGS));
}

#endif
