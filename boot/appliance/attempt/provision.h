/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boot/appliance/attempt/provision.h - starts of single pipelines in an engine that stays up
 * between them.
 *
 * The *plan* has memory, blocks and queue pairs for a set of pipelines, all of which may run at
 * the same time as far as appliance.parallel and their objects permit. It is made once, from the
 * objects that exist then, with room for sources that grow by half. A start of a planned pipeline
 * finds its objects anew, makes its sink, and creates its queue pairs in the memory of the plan;
 * other pipelines run meanwhile.
 *
 * A start does not fit the plan when the pipeline is not in it (an object was missing, or the
 * memory had no room for it beside the others), or when its objects have grown beyond their room.
 * It needs a new plan, which replaces the memory of all pipelines: none may run.
 */
#ifndef BOOT_APPLIANCE_ATTEMPT_PROVISION_H
#define BOOT_APPLIANCE_ATTEMPT_PROVISION_H

#include "boot/engine/concurrency.h"

struct hr_provision {
	struct hr_engine *engine;
	hr_pipeline_set usable;	 /* those whose devices are up: set by the owner */
	hr_pipeline_set planned; /* 0: no plan, stage `stores` is the last one that is up */
	/* Of planned pipelines: the shape and the layout, in which tiles is the largest number. */
	struct hr_run run[HR_PIPELINES_MAX];
	struct hr_run fresh; /* of the start that is being made */
};

/*
 * Make a new plan, in place of the old one: of as many usable pipelines as the memory has room
 * for, but at least of the pipelines in `wanted`. No pipeline runs. 0, also when no pipeline can
 * be planned; or the error of `wanted`, in engine->error, which is logged; -EINTR: a signal requests
 * a stop.
 */
int hr_provision_make(struct hr_provision *plan, hr_pipeline_set wanted);

/*
 * Whether a start of pipeline i, which does not run, fits the plan: 0; -EAGAIN: it needs a new
 * plan, and is not in this one any more; other errors: the start would fail, because its objects
 * do not exist.
 */
int hr_provision_check(struct hr_provision *plan, uint32_t i);

/*
 * Prepare a start of pipeline i, which does not run. 0: it can be launched (hr_runner_start()), or
 * its outcome is HR_RUN_COMPLETE. -EAGAIN: as hr_provision_check(); when a controller has created fewer
 * queue pairs than it has granted, no pipeline is in the plan any more. Other errors:
 * outcome, error and cause of its run are set, and the cause is logged.
 */
int hr_provision_start(struct hr_provision *plan, uint32_t i);

/* Give up a start of pipeline i for err, in engine->error: outcome, error and cause of its run are
 * set. */
void hr_provision_refuse(struct hr_provision *plan, uint32_t i, int err);

/* Delete the queue pairs of a run that has ended, or was not launched, and objects that it has
 * left. */
void hr_provision_end(struct hr_provision *plan, uint32_t i);

#endif
