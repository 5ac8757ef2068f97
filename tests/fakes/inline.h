/*
 * tests/fakes/inline.h - an engine that is no process: its attempt is made within hr_process_start(),
 * on the fake clock, step by step with the supervisor.
 *
 * Linked before libheadrace.a in place of boot/appliance/process.c. An engine that dies
 * (tests/fakes/attempts.h) ends the call in its middle.
 */
#ifndef TESTS_FAKES_INLINE_H
#define TESTS_FAKES_INLINE_H

#include <stdbool.h>

/* The engine's duty, to be called in each step of the fake clock: it publishes its record, once a
 * second of that clock. Does nothing when no engine runs. */
void fake_inline_publish(void);

/* An engine runs: hr_process_start() has been called, and has not returned. */
bool fake_inline_runs(void);

#endif
