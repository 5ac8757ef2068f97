/*
 * tests/fakes/log.h - messages kept instead of printed, for tests that cause many or read one.
 *
 * Linked before libheadrace.a, so these definitions of hr_log() and hr_log_set_level() are the ones
 * that the code under test calls.
 */
#ifndef TESTS_FAKES_LOG_H
#define TESTS_FAKES_LOG_H

#include "config/log.h"

/* The newest message of any level, "" when there was none; and how many there were. */
const char *fake_log_last(void);
unsigned fake_log_count(void);

/* The same of one level alone. */
const char *fake_log_last_of(enum hr_log_level level);
unsigned fake_log_count_of(enum hr_log_level level);

#endif
