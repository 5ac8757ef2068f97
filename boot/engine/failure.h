/*
 * boot/engine/failure.h - what a worker reported as the end of its pipeline: which failure counts,
 * and the message about it.
 */
#ifndef BOOT_ENGINE_FAILURE_H
#define BOOT_ENGINE_FAILURE_H

#include "boot/engine/stages.h"

/* The failure of the lowest tile, because later ones follow from it; NULL: no worker has failed. */
const struct hr_failure *hr_failure_first(const struct hr_run *run);

/* The object that a failure was about. */
const struct hr_config_object *hr_failure_object(const struct hr_run *run,
						 const struct hr_failure *failure);

/* Log run->failure: object, tile, LBA, ssd, queue, command and status. */
void hr_failure_log(const struct hr_appliance *app, const struct hr_run *run);

#endif
