/*
 * config/clock.h - the one clock, the one way to wait, and the duty of a thread that waits or works
 * for long.
 *
 * A seam: tests that need to steer time link their own definitions of hr_now_ns(), hr_wait_ns() and
 * hr_wait_precisely().
 */
#ifndef CONFIG_CLOCK_H
#define CONFIG_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

#define HR_NS_PER_MS 1000000ull
#define HR_NS_PER_S 1000000000ull

/* Monotonic nanoseconds (CLOCK_MONOTONIC; counts from the machine's boot, so boot logs use it). */
uint64_t hr_now_ns(void);

/* Sleep at least ns nanoseconds; returns early only when a signal arrives. Calls hr_tick() on the
 * way. */
void hr_wait_ns(uint64_t ns);

/* Let the calling thread's waits end within 1 us of their time instead of the usual 50 us. */
void hr_wait_precisely(void);

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

#endif
