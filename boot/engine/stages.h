/*
 * boot/engine/stages.h - bring-up, stage by stage, and down in reverse.
 *
 *   backends -> controllers -> stores -> objects -> partition -> memory -> sinks -> queues
 *
 * Nothing is written to a disk before the partition is known to fit. (On a memory-backed ssd, which
 * is blank each time, `stores` makes a store and the objects that the configuration names.) After
 * the last stage the appliance is sealed: nothing is allocated until it is unsealed for the way
 * down; a test build traps malloc.
 */
#ifndef BOOT_ENGINE_STAGES_H
#define BOOT_ENGINE_STAGES_H

#include "boot/engine/appliance.h"

/*
 * An appliance for a configuration that has been read into app->config: all else zeroed, all
 * pipelines selected, or the one of that name; and the kind of host memory that its ssds need, from
 * now on for the whole process. -ENOENT, with a message, when there is no such pipeline; -EBUSY:
 * memory of another kind is in use.
 */
int hr_appliance_init(struct hr_appliance *app, const char *pipeline);

/*
 * Up to and including stage `last`. On error everything is down again, the reason is logged, and
 * the value says what kind it is: -EINTR: a signal asked to stop (not logged); -EINVAL: a mistake in
 * the configuration that only devices could show (file and line logged); -ENOTSUP: a device or
 * backend cannot do what is asked; -EIO: also a device that was up and is gone; others as the parts
 * return them.
 */
int hr_appliance_up(struct hr_appliance *app, enum hr_stage last);

/* Everything that is up, down, in reverse order. Unseals. */
void hr_appliance_down(struct hr_appliance *app);

/* The stages above `last` only: those up to it stay as they are, and more can come up again, for
 * runs whose outcome is set back to HR_RUN_WAITING before. */
void hr_appliance_down_to(struct hr_appliance *app, enum hr_stage last);

/* "queues" and the like. */
const char *hr_stage_name(enum hr_stage stage);

#endif
