#include "tests/fake/log.h"

#include <stdarg.h>
#include <stdio.h>

#define LEVELS (HR_LOG_DEBUG + 1)

static char last[LEVELS][HR_LOG_LINE_MAX];
static unsigned count[LEVELS];
static enum hr_log_level newest;

void hr_log_set_level(enum hr_log_level level)
{
	(void)level;
}

void hr_log(enum hr_log_level level, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(last[level], sizeof(last[level]), format, args);
	va_end(args);
	count[level]++;
	newest = level;
}

const char *fake_log_last(void)
{
	return last[newest];
}

unsigned fake_log_count(void)
{
	unsigned all = 0;

	for (unsigned level = 0; level < LEVELS; level++)
		all += count[level];
	return all;
}

const char *fake_log_last_of(enum hr_log_level level)
{
	return last[level];
}

unsigned fake_log_count_of(enum hr_log_level level)
{
	return count[level];
}
