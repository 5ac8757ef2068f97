/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/fakes/log.h - keeps messages instead of printing them, for tests that cause many messages
 * or check one.
 *
 * hr_write_message() of config/base/seam.h is that of this fake. It keeps the lines of all
 * levels in each test of a file that includes this header, and prints those of the others.
 */
#ifndef TESTS_FAKES_LOG_H
#define TESTS_FAKES_LOG_H

#include "config/base/log.h"
#include "tests/harness/before.h"

/* From now on lines of all levels are kept, and not printed. */
void fake_log_keep(void);

/* The newest message of any level, "" when there is none; and the number of messages. */
const char *fake_log_last(void);
unsigned fake_log_count(void);

/* The same for one level. */
const char *fake_log_last_of(enum hr_log_level level);
unsigned fake_log_count_of(enum hr_log_level level);

BEFORE_EACH_TEST(fake_log_keep);

#endif
