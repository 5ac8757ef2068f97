/*
 * In place of user_open.c in a static binary, which cannot load anything.
 */
#include <errno.h>
#include <stdio.h>

#include "config/log.h"
#include "gpu/ops/user.h"

int hr_op_user_open(const char *path, void **handle, const struct hr_operator **op, char *message)
{
	snprintf(message, HR_LOG_LINE_MAX,
		 "cannot be loaded: this headrace is a static binary (make STATIC=1)");
	return -ENOTSUP;
}

void hr_op_user_close(void *handle)
{
}
