/*
 * tests/fakes/log.h - keeps messages instead of printing them, for tests that cause many messages
 * or check one.
 *
 * Linked before libheadrace.a, so the tested code calls these definitions of hr_log() and
 * hr_log_set_level().
 */
#ifndef TESTS_FAKES_LOG_H
#define TESTS_FAKES_LOG_H

#include "config/log.h"

/* The newest message of any level, "" when there is none; and the number of messages. */
const char *fake_log_last(void);
unsigned fake_log_count(void);

/* The same for one level. */
const char *fake_log_last_of(enum hr_log_level level);
unsigned fake_log_count_of(enum hr_log_level level);

#endif
