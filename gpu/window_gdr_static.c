/* SPDX-License-Identifier: Apache-2.0 */
/* Replaces gpu/window_gdr.c in a static build, whose C library cannot load libraries. */
#include "gpu/window.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "config/base/log.h"

int hr_gdr_load(struct hr_gdr *gdr, struct hr_error *e)
{
	memset(gdr, 0, sizeof(*gdr));
	return hr_fail(e, HR_ERROR_MISSING, -ENOTSUP,
		       "libgdrapi.so.2: a static build loads no libraries");
}

void hr_gdr_unload(struct hr_gdr *gdr)
{
	memset(gdr, 0, sizeof(*gdr));
}
