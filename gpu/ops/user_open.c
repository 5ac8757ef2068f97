/* SPDX-License-Identifier: Apache-2.0 */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "config/base/log.h"
#include "config/base/files.h"
#include "gpu/ops/user.h"

/* Remove the name of the copy from the loader's text, because the caller's text has the path. */
static int complain(const char *path, struct hr_error *e)
{
	const int err = hr_error_is_shortage(-errno) ? -errno : -EINVAL;
	const char *text = dlerror();
	const size_t n = strlen(path);

	if (!text)
		text = "no reason given";
	if (strncmp(text, path, n) == 0 && strncmp(text + n, ": ", 2) == 0)
		text += n + 2;
	return hr_fail(e, HR_ERROR_USAGE, err, "cannot be loaded: %s", text);
}

int hr_op_user_open(int fd, void **handle, const struct hr_operator **op, struct hr_error *e)
{
	char path[HR_TRUST_NAME];
	int err = 0;

	hr_trust_name(fd, path);
	errno = 0;
	*handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!*handle)
		return complain(path, e);
	*op = dlsym(*handle, "hr_operator");
	if (!*op) {
		err = complain(path, e);
		hr_op_user_close(*handle);
	}
	return err;
}

void hr_op_user_close(void *handle)
{
	dlclose(handle);
}
