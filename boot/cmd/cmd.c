#include "boot/cmd/cmd.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

int hr_exit_code(int error)
{
	if (error > 0)
		return HR_EXIT_DEVICE;
	switch (error) {
	case 0:
		return HR_EXIT_DONE;
	case -EINVAL:
		return HR_EXIT_USAGE;
	case -ENODEV:
	case -ENXIO:
	case -ENOENT:
	case -EACCES:
	case -EPERM:
	case -EROFS:
	case -EBUSY:
	case -ENOTSUP:
	case -ENOMEM:
		return HR_EXIT_MISSING;
	case -EIO:
	case -EBADMSG: /* data that are not what was stored */
	case -EPROTO:
	case -ENOLINK:
	case -ECONNRESET:
	case -ETIMEDOUT:
		return HR_EXIT_DEVICE;
	default:
		return HR_EXIT_FAILED;
	}
}

int hr_exit_code_up(int error)
{
	return error == -ENODEV || error == -ENXIO ? HR_EXIT_DEVICE : hr_exit_code(error);
}

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
