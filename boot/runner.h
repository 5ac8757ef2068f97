/*
 * boot/runner.h - running the pipelines of an appliance that is up and sealed.
 *
 * The host starts a pipeline, watches it, and makes its progress durable; the data path is the
 * workers' own. Nothing here allocates.
 */
#ifndef BOOT_RUNNER_H
#define BOOT_RUNNER_H

#include <stdbool.h>

#include "boot/stages.h"

/*
 * Run every selected pipeline that waits, one after another, until one fails or a signal asks to
 * stop. Each run's outcome, error, failure and durable_tiles are set; what went wrong is logged.
 * Returns 0; -EINTR: stopped by a signal; > 0 or -errno of the pipeline that failed.
 */
int hr_run_all(struct hr_appliance *app, bool progress);

/* Tiles of a launched pipeline that are through, counted by its last role. At any time until the
 * queues go down. */
uint64_t hr_run_tiles_done(const struct hr_run *run);

/* The object that a failure was about. */
const struct hr_config_object *hr_failure_object(const struct hr_run *run,
						 const struct hr_failure *failure);

#endif
