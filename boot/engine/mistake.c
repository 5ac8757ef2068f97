#include "boot/engine/mistake.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "config/log.h"

int hr_mistake_at(const struct hr_appliance *app, unsigned line, const char *format, ...)
{
	char text[HR_LOG_LINE_MAX - 128];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	hr_error("%s:%u: %s", app->config.file, line, text);
	return -EINVAL;
}
