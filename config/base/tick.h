/* SPDX-License-Identifier: Apache-2.0 */
/*
 * config/base/tick.h - a function that a thread calls periodically while it waits or works for long.
 */
#ifndef CONFIG_BASE_TICK_H
#define CONFIG_BASE_TICK_H

#include <stdbool.h>
#include <stdint.h>

#include "config/base/clock.h"

/* hr_tick() calls the function of its thread at most this often. */
#define HR_TICK_NS (5 * HR_NS_PER_MS)

/*
 * Set the periodic function of the calling thread. hr_tick() calls it every few milliseconds,
 * during waits and long work; it feeds watchdogs and answers readers of the status. It must neither
 * wait nor allocate. NULL: none, the state of each new thread.
 */
void hr_tick_set(void (*tick)(void *to, uint64_t now_ns), void *to);
bool hr_tick_is_set(void);

/*
 * Call the periodic function of the calling thread when it is due. hr_wait_ns() calls this, and so
 * does each loop that can take longer than 100 ms without waiting. Costs one read of the clock; in
 * a thread without a function it costs nothing.
 */
void hr_tick(void);

/* Call the function even when it is not due, so that an event is published before work goes on. */
void hr_tick_at_once(void);

#endif
