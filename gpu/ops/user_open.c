#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "config/log.h"
#include "gpu/ops/user.h"

/* The path is known to the reader of the message. */
static int complain(const char *path, char *message)
{
	const char *text = dlerror();
	const size_t n = strlen(path);

	if (!text)
		text = "no reason given";
	if (strncmp(text, path, n) == 0 && strncmp(text + n, ": ", 2) == 0)
		text += n + 2;
	snprintf(message, HR_LOG_LINE_MAX, "cannot be loaded: %s", text);
	return -EINVAL;
}

int hr_op_user_open(const char *path, void **handle, const struct hr_operator **op, char *message)
{
	int err = 0;

	*handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!*handle)
		return complain(path, message);
	*op = dlsym(*handle, "hr_operator");
	if (!*op) {
		err = complain(path, message);
		hr_op_user_close(*handle);
	}
	return err;
}

void hr_op_user_close(void *handle)
{
	dlclose(handle);
}
