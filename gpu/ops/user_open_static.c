/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replaces user_open.c in a static binary, which cannot load files.
 */
#include <errno.h>
#include <stdio.h>

#include "config/base/log.h"
#include "gpu/ops/user.h"

int hr_op_user_open(int fd, void **handle, const struct hr_operator **op, struct hr_error *e)
{
	return hr_fail(e, HR_ERROR_MISSING, -ENOTSUP,
		       "cannot be loaded: this headrace is a static binary (make STATIC=1)");
}

void hr_op_user_close(void *handle)
{
}
