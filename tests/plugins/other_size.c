/* SPDX-License-Identifier: Apache-2.0 */
/* A plugin of another version of headrace. */
#include <stdlib.h>

#include "boot/ranks/ranks.h"

static int join(struct hr_ranks *ranks)
{
	abort(); /* it must not be called */
}

extern const struct hr_ranks_plugin hr_ranks_plugin __attribute__((visibility("default")));
const struct hr_ranks_plugin hr_ranks_plugin = { HR_RANKS_ABI, sizeof(struct hr_ranks) + 8, join };
