/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/fakes/clock.h - the clock of every test: the real one, until a test controls it.
 *
 * Linked before libheadrace.a, so the tested code calls these definitions of hr_now_ns(),
 * hr_wait_ns() and hr_yield().
 */
#ifndef TESTS_FAKES_CLOCK_H
#define TESTS_FAKES_CLOCK_H

#include <stdint.h>

/*
 * From now on time stays at now_ns. Only hr_wait_ns(), which does not sleep, and
 * fake_clock_advance() move it. step, if not NULL, is called after each hr_wait_ns(); a fake device
 * does its work there. Then hr_yield() does nothing: there is no other thread to wait for, and on a
 * busy machine each call lets other processes run for milliseconds.
 */
void fake_clock_start(uint64_t now_ns, void (*step)(void *context), void *context);
void fake_clock_advance(uint64_t ns);

/*
 * Move the real clock ahead by ns: pauses and deadlines within that time end. For tests whose
 * threads wait for each other, which a stopped clock would block.
 */
void fake_clock_skip(uint64_t ns);

/* From now on hr_yield() sleeps that long; 0: it does not. For threads that wait long for each
 * other. */
void fake_clock_rest(uint64_t ns);

/* Calls of hr_wait_ns() so far, by all threads. */
uint64_t fake_clock_waits(void);

/* Back to the real clock. */
void fake_clock_stop(void);

#endif
