#include "boot/cmd/report/usage.h"

#include <stdarg.h>
#include <stdio.h>

#include "boot/engine/exit.h"

int hr_usage_error(const char *command, const char *format, ...)
{
	char text[512];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	fprintf(stderr, "headrace: error: %s: %s\nTry 'headrace %s --help'.\n", command, text,
		command);
	return HR_EXIT_USAGE;
}
