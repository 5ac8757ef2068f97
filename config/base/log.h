/* SPDX-License-Identifier: Apache-2.0 */
/*
 * config/base/log.h - messages to the operator, on stderr, one line each.
 *
 * Log an error once, where its details are known; callers return the error code and do not log it
 * again. A message names object, cause, value and limit: "0000:41:00.0: CSTS.RDY still 0 after 7500
 * ms (CAP.TO 15)". Never allocates: a line longer than HR_LOG_LINE_MAX bytes ends in "...". Safe
 * from any thread.
 */
#ifndef CONFIG_BASE_LOG_H
#define CONFIG_BASE_LOG_H

#include <stddef.h>

#define HR_LOG_LINE_MAX 1024

enum hr_log_level { HR_LOG_ERROR, HR_LOG_WARN, HR_LOG_INFO, HR_LOG_DEBUG };

/* Show messages up to this level. The level is HR_LOG_WARN before the first call. */
void hr_log_set_level(enum hr_log_level level);

/*
 * From now on lines begin with two times in seconds: since the kernel started (the time of kernel
 * messages), and since start_ns of hr_now_ns().
 */
void hr_log_set_stamp(unsigned long long start_ns);

/*
 * From now on the two times come after that of the wall clock in UTC, "2026-11-29T10:00:04.123456Z",
 * while that clock is set (HR_WALL_SET_NS): for logs whose reader does not add it.
 */
void hr_log_set_wall(void);

/*
 * From now on each message is one JSON object in one line: `time`, the wall clock in UTC, null while
 * it is not set; `kernel_us`, since the kernel started; `level`, as the configuration spells it;
 * `rank` when set; `pipeline`, `ssd`, `gpu`, the first name of each that the message has; `device`
 * when the message begins with one; and `message`. Call while the process has one thread.
 */
void hr_log_set_json(void);

/*
 * From now on the text of each message begins with "rank N: ", so that the messages of several
 * processes on one terminal can be told apart. Call while the process has one thread.
 */
void hr_log_set_rank(unsigned rank);

/*
 * From now on the text of each error is also kept in `text`, which is empty and stays in use: one line
 * each, without "headrace: error: ". Errors for which there is no room are left out. Call while the
 * process has one thread.
 */
void hr_log_keep_errors(char *text, size_t bytes);

/*
 * Log a printf-like message; a newline is added. Errors begin with "headrace: error: ", warnings
 * with "headrace: warning: ".
 */
void hr_log(enum hr_log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

#define hr_error(...) hr_log(HR_LOG_ERROR, __VA_ARGS__)
#define hr_warn(...) hr_log(HR_LOG_WARN, __VA_ARGS__)
#define hr_info(...) hr_log(HR_LOG_INFO, __VA_ARGS__)
#define hr_debug(...) hr_log(HR_LOG_DEBUG, __VA_ARGS__)

#endif
