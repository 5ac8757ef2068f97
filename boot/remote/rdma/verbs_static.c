/* SPDX-License-Identifier: Apache-2.0 */
/* Replaces boot/remote/rdma/verbs.c in a static build, whose C library cannot load libraries. */
#include "boot/remote/rdma/verbs.h"

#include <errno.h>
#include <string.h>

int hr_verbs_load(struct hr_verbs *verbs, struct hr_error *e)
{
	memset(verbs, 0, sizeof(*verbs));
	return hr_fail(e, HR_ERROR_MISSING, -ENOTSUP,
		       "libibverbs.so.1: a static build loads no libraries, and has no RDMA");
}

void hr_verbs_unload(struct hr_verbs *verbs)
{
	memset(verbs, 0, sizeof(*verbs));
}
