/*
 * tests/fakes/clock.h - the clock of every test: the real one, until a test steers it.
 *
 * Linked before libheadrace.a, so these definitions of hr_now_ns() and hr_wait_ns() are the ones
 * the code under test calls.
 */
#ifndef TESTS_FAKES_CLOCK_H
#define TESTS_FAKES_CLOCK_H

#include <stdint.h>

/*
 * From now on time stands at now_ns and moves only by hr_wait_ns(), which does not sleep, and
 * fake_clock_advance(). step, if not NULL, is called after each hr_wait_ns(): the place where a
 * fake device does its work.
 */
void fake_clock_start(uint64_t now_ns, void (*step)(void *context), void *context);
void fake_clock_advance(uint64_t ns);

/*
 * The real clock jumps ahead by ns: pauses and deadlines that end within are over. For tests whose
 * threads wait for each other, which a clock that stands still would stop.
 */
void fake_clock_skip(uint64_t ns);

/* Calls of hr_wait_ns() so far, by all threads. */
uint64_t fake_clock_waits(void);

/* Back to the real clock. */
void fake_clock_stop(void);

#endif
