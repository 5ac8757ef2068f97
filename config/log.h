/*
 * config/log.h - messages to the operator, on stderr, one line each.
 *
 * Log once, where the text is richest; callers pass the code up and do not log again. A message
 * names object, what, value and limit: "0000:41:00.0: CSTS.RDY still 0 after 7500 ms (CAP.TO 15)".
 * Never allocates: lines longer than HR_LOG_LINE_MAX bytes are cut. Safe from any thread.
 */
#ifndef CONFIG_LOG_H
#define CONFIG_LOG_H

#define HR_LOG_LINE_MAX 1024

enum hr_log_level { HR_LOG_ERROR, HR_LOG_WARN, HR_LOG_INFO, HR_LOG_DEBUG };

/* Show messages up to this level; HR_LOG_WARN until it is called. */
void hr_log_set_level(enum hr_log_level level);

/*
 * From now on lines begin with two times in seconds: since the kernel started, as its own messages
 * have it, and since start_ns on the clock of config/clock.h.
 */
void hr_log_set_stamp(unsigned long long start_ns);

/* printf-like; the newline is added. Errors and warnings carry "headrace: error: " in front. */
void hr_log(enum hr_log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

#define hr_error(...) hr_log(HR_LOG_ERROR, __VA_ARGS__)
#define hr_warn(...) hr_log(HR_LOG_WARN, __VA_ARGS__)
#define hr_info(...) hr_log(HR_LOG_INFO, __VA_ARGS__)
#define hr_debug(...) hr_log(HR_LOG_DEBUG, __VA_ARGS__)

#endif
