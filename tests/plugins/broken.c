/* SPDX-License-Identifier: Apache-2.0 */
/* A plugin whose library fails as the environment says: HR_TEST_PLUGIN=fail, alone, or the rank that it
 * reports among two ranks. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "boot/ranks/ranks.h"

static const struct hr_ranks_ops ops;

static int join(struct hr_ranks *ranks)
{
	const char *how = getenv("HR_TEST_PLUGIN");

	if (!how || strcmp(how, "fail") == 0) {
		memset(ranks->why, 'x', sizeof ranks->why);
		return -EIO;
	}
	if (strcmp(how, "alone") == 0) {
		snprintf(ranks->why, sizeof ranks->why, "no launcher has started it");
		return -ENOTCONN;
	}
	ranks->ops = &ops;
	ranks->rank = (uint32_t)atoi(how);
	ranks->size = 2;
	return 0;
}

extern const struct hr_ranks_plugin hr_ranks_plugin __attribute__((visibility("default")));
const struct hr_ranks_plugin hr_ranks_plugin = { HR_RANKS_ABI, sizeof(struct hr_ranks), join };
