/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/sim/pair.h - two appliances in one world: a pipeline of the one sends the tiles of an object to
 * a pipeline of the other one by RDMA, over the libibverbs of tests/fakes/ibverbs.
 */
#ifndef TESTS_SIM_PAIR_H
#define TESTS_SIM_PAIR_H

#include "tests/sim/life.h"

/* The whole life of both, when the plan is of a pair. */
void sim_live_as_pair(struct sim_life *l);

#endif
