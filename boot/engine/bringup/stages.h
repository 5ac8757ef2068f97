/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boot/engine/bringup/stages.h - bring-up, stage by stage, and down in reverse.
 *
 *   backends -> controllers -> stores -> objects -> partition -> memory -> sinks -> queues
 *
 * Nothing is written to a disk before the partition is known to fit. (On an ssd in memory, which is
 * initially blank, `stores` creates a store and the objects of the configuration.) After the last
 * stage the appliance is sealed: nothing is allocated until it is unsealed for the way down; a test
 * build traps malloc.
 */
#ifndef BOOT_ENGINE_BRINGUP_STAGES_H
#define BOOT_ENGINE_BRINGUP_STAGES_H

#include "boot/engine/engine.h"

/*
 * Initialise an appliance for a configuration that has been read into engine->config: all else is
 * zeroed, all pipelines are selected, or only the named one, without the ssds that it does not use;
 * and choose the kind of host memory for the whole process, as these ssds need it. -ENOENT: no such
 * pipeline; -EBUSY: memory of another kind is in use. An error fills engine->error and is logged.
 */
int hr_engine_init(struct hr_engine *engine, const char *pipeline);

/*
 * Bring up all stages up to `last`. On error everything is down again and the reason is logged. The
 * value tells the kind of error: -EINTR: a signal requests a stop (not logged); -EINVAL: an error
 * in the configuration that only devices reveal (file and line logged); -ENOTSUP: a device or
 * backend lacks a feature; -EIO: also a device that was up and is gone; others as the parts return
 * them.
 */
int hr_engine_up(struct hr_engine *engine, enum hr_stage last);

/* The same, but on error the stages that were up before are still up; only those up to `objects` when a
 * controller has created fewer queue pairs than it has granted, and the runs were planned again. */
int hr_engine_up_keeping(struct hr_engine *engine, enum hr_stage last);

/* Take down all stages that are up, in reverse order. Unseals. */
void hr_engine_down(struct hr_engine *engine);

/* Take down only the stages above `last`. They can come up again later, for runs whose outcome
 * is first set back to HR_RUN_WAITING. */
void hr_engine_down_to(struct hr_engine *engine, enum hr_stage last);

/* Name of a stage, such as "queues". */
const char *hr_stage_name(enum hr_stage stage);

#endif
