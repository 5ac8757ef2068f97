/* SPDX-License-Identifier: Apache-2.0 */
/* Replaces plugin.c in a static binary, which cannot load files. */
#include "boot/ranks/plugin.h"

#include <errno.h>
#include <string.h>

int hr_ranks_load_file(const char *path, struct hr_ranks *ranks, struct hr_error *e)
{
	memset(ranks, 0, sizeof *ranks);
	return hr_fail(e, HR_ERROR_MISSING, -ENOTSUP,
		       "--mpi: %s cannot be loaded: this headrace is a static binary (make "
		       "STATIC=1)",
		       path);
}

int hr_ranks_load(struct hr_ranks *ranks, struct hr_error *e)
{
	return hr_ranks_load_file(HR_RANKS_PLUGIN_FILE, ranks, e);
}
