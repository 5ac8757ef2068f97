/* SPDX-License-Identifier: Apache-2.0 */
/* tests/unit/cache/objects/objects_lanes.c with 64 lanes in a worker. */
#define HR_LANES 64u
#define ROUNDS 4u
#include "tests/unit/cache/objects/objects_lanes.c"
