/* SPDX-License-Identifier: Apache-2.0 */
/* tests/unit/nvme/queue/lanes.c with 64 lanes to a worker: masks of lanes have 64 bits. */
#define HR_LANES 64u
#include "tests/unit/nvme/queue/lanes.c"
