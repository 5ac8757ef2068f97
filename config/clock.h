/*
 * config/clock.h - the one clock, and the one way to wait.
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

#endif
