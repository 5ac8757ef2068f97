/* SPDX-License-Identifier: Apache-2.0 */
#include "config/base/tick.h"

#include <stdbool.h>
#include <stddef.h>

static __thread struct {
	void (*tick)(void *to, uint64_t now_ns);
	void *to;
	uint64_t next_ns;
	bool ticking; /* the function itself may wait, or call code that ticks */
} duty;

void hr_tick_set(void (*tick)(void *to, uint64_t now_ns), void *to)
{
	duty.tick = tick;
	duty.to = to;
	duty.next_ns = 0;
}

bool hr_tick_is_set(void)
{
	return duty.tick != NULL;
}

void hr_tick_at_once(void)
{
	duty.next_ns = 0;
	hr_tick();
}

void hr_tick(void)
{
	uint64_t now_ns;

	if (!duty.tick || duty.ticking)
		return;
	now_ns = hr_now_ns();
	if (now_ns < duty.next_ns)
		return;
	duty.next_ns = now_ns + HR_TICK_NS;
	duty.ticking = true;
	duty.tick(duty.to, now_ns);
	duty.ticking = false;
}
