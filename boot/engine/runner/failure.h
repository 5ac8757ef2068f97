/*
 * boot/engine/runner/failure.h - failures that workers report: select the relevant one, and
 * describe it.
 */
#ifndef BOOT_ENGINE_RUNNER_FAILURE_H
#define BOOT_ENGINE_RUNNER_FAILURE_H

#include "boot/engine/bringup/stages.h"

/* The failure of the lowest tile, because failures of later tiles may follow from it; NULL: no
 * worker has failed. */
const struct hr_failure *hr_failure_first(const struct hr_run *run);

/* Store that failure and its gpu in the run. False: no worker has failed. */
bool hr_failure_take(struct hr_run *run);

/* The object of a failure. */
const struct hr_config_object *hr_failure_object(const struct hr_run *run,
						 const struct hr_failure *failure);

/* Add the loss of ssd d with the error err, which *e describes, to the cause of the run; it is logged
 * when the cause has been. */
void hr_failure_add_loss(const struct hr_appliance *app, struct hr_run *run, uint32_t d, int err,
			 struct hr_error *e);

/* Add run->failure to *e: object, tile, LBA, ssd, queue, command and status. Returns its error. */
int hr_failure_explain(const struct hr_appliance *app, const struct hr_run *run,
		       struct hr_error *e);

#endif
