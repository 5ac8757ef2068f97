#include "boot/cmd/report/usage.h"

#include <stdarg.h>
#include <stdio.h>

#include "config/base/exit.h"
#include "config/base/log.h"

int hr_usage_error(const char *command, const char *format, ...)
{
	char text[512];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	hr_error("%s: %s", command, text);
	fprintf(stderr, "Try 'headrace %s --help'.\n", command);
	return HR_EXIT_USAGE;
}
