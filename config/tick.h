/*
 * config/tick.h - the duty of a thread that waits or works for long.
 */
#ifndef CONFIG_TICK_H
#define CONFIG_TICK_H

#include <stdbool.h>
#include <stdint.h>

#include "config/clock.h"

/* hr_tick() calls the function of its thread at most this often. */
#define HR_TICK_NS (5 * HR_NS_PER_MS)

/*
 * The duty of the calling thread: `tick` is to be called every few milliseconds, whatever the thread
 * does (it feeds watchdogs and answers readers of the status). It must neither wait nor allocate.
 * NULL: none, as for each new thread.
 */
void hr_tick_set(void (*tick)(void *to, uint64_t now_ns), void *to);
bool hr_tick_is_set(void);

/*
 * Does the duty of the calling thread when it is due. Called by hr_wait_ns(), and by each loop that
 * can take longer than 100 ms without waiting. Costs a look at the clock, and nothing in a thread
 * without a duty.
 */
void hr_tick(void);

/* The same, also when it is not due: something has happened that others are to know before the next
 * thing happens. */
void hr_tick_at_once(void);

#endif
