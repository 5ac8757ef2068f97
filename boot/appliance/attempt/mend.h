/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boot/appliance/attempt/mend.h - the ssds of an engine whose pipelines repeat, while runs
 * begin and end: their health logs and events, and the reset of a controller whose admin queue
 * has ended.
 */
#ifndef BOOT_APPLIANCE_ATTEMPT_MEND_H
#define BOOT_APPLIANCE_ATTEMPT_MEND_H

#include "boot/engine/engine.h"
#include "boot/engine/concurrency.h"

/*
 * Read the health logs before the first start, because a warning may hold that start. A fault is
 * logged, and changes the health of the ssd.
 */
void hr_mend_read_health(struct hr_engine *engine);

/* Health logs and events of the ssds that none of the `running` pipelines uses; the runs watch the
 * others (boot/engine/runner/runner.c). */
void hr_mend_look(struct hr_engine *engine, hr_pipeline_set running);

/* True when an ssd of pipeline i needs a reset: no queue pair can be created on it. */
bool hr_mend_is_due(const struct hr_engine *engine, uint32_t i);

/*
 * Reset the controllers whose admin queue has ended, unless a running pipeline or a transfer of a
 * client uses them. A reset that fails is logged; the ssd has failed then. The first reset is made
 * at once; each one within boot.heal of the last one waits as a pipeline does after a failure
 * (hr_pause_ns()), a minute at most. Returns the pipelines that cannot start now: those that use
 * such a controller, and those that are not `planned`, because a new plan frees memory that may
 * still belong to queue pairs.
 */
hr_pipeline_set hr_mend_ssds(struct hr_engine *engine, hr_pipeline_set running,
			     hr_pipeline_set planned);

/* Before the memory of the plan is freed: disable the controllers that still need a reset, because
 * queue pairs could not be deleted. */
void hr_mend_disable(struct hr_engine *engine);

#endif
