#include "tests/fake/log.h"

#include <stdarg.h>
#include <stdio.h>

static char last[HR_LOG_LINE_MAX];
static unsigned count;

void hr_log_set_level(enum hr_log_level level)
{
	(void)level;
}

void hr_log(enum hr_log_level level, const char *format, ...)
{
	va_list args;

	(void)level;
	va_start(args, format);
	vsnprintf(last, sizeof(last), format, args);
	va_end(args);
	count++;
}

const char *fake_log_last(void)
{
	return last;
}

unsigned fake_log_count(void)
{
	return count;
}
