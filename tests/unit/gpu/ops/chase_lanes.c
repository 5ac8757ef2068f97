/* tests/unit/gpu/ops/chase.c with 8 lanes per worker. */
#include "tests/fakes/lanes.h"

#include "tests/unit/gpu/ops/chase.c"
