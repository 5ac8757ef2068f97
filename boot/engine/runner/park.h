/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boot/engine/runner/park.h - a run whose workers have left the gpu because no tile can be lent
 * (gpu/tap/role.h): whether it is time to launch again.
 */
#ifndef BOOT_ENGINE_RUNNER_PARK_H
#define BOOT_ENGINE_RUNNER_PARK_H

#include <stdbool.h>
#include <stdint.h>

#include "boot/engine/engine.h"

/* A launch takes a consumer's turn on the gpu, so it waits until half of the tiles that are lent
 * have come back, or a consumer has none; at most this long after the first one. */
#define HR_PARK_GATHER_NS (HR_NS_PER_MS / 2)
#define HR_PARK_POLL_NS 20000ull /* between two looks */

struct hr_park {
	bool parked;	   /* no worker runs, and the last launch has left everything in memory */
	uint64_t first_ns; /* when the first tile was seen to have come back; 0: none has */
};

/* True when the workers of the run, which have ended, have left in order to go on later. */
bool hr_park_has_left(const struct hr_run *run);

/* Begin to wait: reads what is lent from the memory of the workers. Errors of the backend. */
int hr_park_begin(struct hr_park *park, struct hr_engine *engine, const struct hr_run *run,
		  struct hr_error *e);

/* True when the workers have something to do. */
bool hr_park_must_launch(struct hr_park *park, const struct hr_run *run, uint64_t now_ns);

/* Number the next launch, so that workers tell it from the last one. Before every launch of a
 * run with a tap. */
void hr_park_launch(struct hr_park *park, const struct hr_run *run);

#endif
