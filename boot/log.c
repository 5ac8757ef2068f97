#include "boot/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

static enum hr_log_level shown = HR_LOG_WARN;

void hr_log_set_level(enum hr_log_level level)
{
	__atomic_store_n(&shown, level, __ATOMIC_RELAXED);
}

void hr_log(enum hr_log_level level, const char *format, ...)
{
	static const char *const prefix[] = { "headrace: error: ", "headrace: warning: ",
					      "headrace: ", "headrace: debug: " };
	char line[HR_LOG_LINE_MAX];
	va_list args;
	int head, body;

	if (level > __atomic_load_n(&shown, __ATOMIC_RELAXED))
		return;
	head = snprintf(line, sizeof line, "%s", prefix[level]);
	va_start(args, format);
	body = vsnprintf(line + head, sizeof line - (size_t)head - 1, format, args);
	va_end(args);
	if (body < 0)
		return;
	if (body > (int)sizeof line - head - 2)
		body = (int)sizeof line - head - 2;
	line[head + body] = '\n';
	/* One write, so that lines of threads never mix. A full pipe is not our business. */
	if (write(STDERR_FILENO, line, (size_t)(head + body) + 1) < 0)
		return;
}
