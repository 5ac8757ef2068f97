/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/sim/client.h - producers of feeds and consumers of taps: processes of a world that use the
 * client library, run after run, until they are killed.
 */
#ifndef TESTS_SIM_CLIENT_H
#define TESTS_SIM_CLIENT_H

#include <sys/types.h>

#include "tests/sim/objects.h"

/* Feed the source of a pipeline. */
pid_t sim_producer_start(struct sim_objects *objects, unsigned pipeline);

/* Take the tiles of a pipeline, compare them with the source, and note them. */
pid_t sim_consumer_start(struct sim_objects *objects, unsigned pipeline);

#endif
