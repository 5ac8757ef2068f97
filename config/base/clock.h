/* SPDX-License-Identifier: Apache-2.0 */
/*
 * config/base/clock.h - the only clock of the program, and the only functions that sleep or yield.
 *
 * Part of the seam (config/base/seam.h): tests that control time link their own definitions of these
 * functions.
 */
#ifndef CONFIG_BASE_CLOCK_H
#define CONFIG_BASE_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

#define HR_NS_PER_MS 1000000ull
#define HR_NS_PER_S 1000000000ull

/*
 * Monotonic nanoseconds since the machine booted (CLOCK_MONOTONIC); boot logs use the same clock.
 */
uint64_t hr_now_ns(void);

/*
 * Sleep at least ns nanoseconds; a signal can end the sleep early. Calls hr_tick() while it sleeps.
 */
void hr_wait_ns(uint64_t ns);

/* Let other threads run. Each loop that waits for another thread calls this or hr_wait_ns(). */
void hr_yield(void);

/* The calling thread's waits end at most 1 us late, instead of the usual 50 us. */
void hr_wait_precisely(void);

#endif
