/*
 * tests/fakes/inline.h - an engine without a process: its attempt runs inside hr_process_start(),
 * on the fake clock, in steps with the supervisor.
 *
 * Linked before libheadrace.a in place of boot/appliance/process.c. An engine that dies
 * (tests/fakes/attempts.h) ends the call in its middle.
 */
#ifndef TESTS_FAKES_INLINE_H
#define TESTS_FAKES_INLINE_H

#include <stdbool.h>

/*
 * The engine's periodic function, called in each step of the fake clock: it publishes the record
 * once per second of that clock. Does nothing when no engine runs.
 */
void fake_inline_publish(void);

/* True while an engine runs: hr_process_start() has been called and has not returned. */
bool fake_inline_runs(void);

#endif
