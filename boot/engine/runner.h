/*
 * boot/engine/runner.h - running the pipelines of an appliance that is up and sealed.
 *
 * The host starts a pipeline, watches it, and makes its progress durable; the data path is the
 * workers' own. Nothing here allocates.
 */
#ifndef BOOT_ENGINE_RUNNER_H
#define BOOT_ENGINE_RUNNER_H

#include <stdbool.h>

#include "boot/engine/stages.h"

/*
 * Run every selected pipeline that waits, one after another, until one fails or a signal asks to
 * stop. With app->keep_going a failure stops only the pipelines that need what has failed: their
 * outcome stays HR_RUN_WAITING; and suspects run after the others. Each run's outcome, error, failure
 * and durable_tiles are set; what went wrong is logged.
 * Returns 0; -EINTR: stopped by a signal; > 0 or -errno of the first pipeline that failed.
 */
int hr_run_all(struct hr_appliance *app, bool progress);

/* Only those that are no suspects; hr_run_all() goes on with the others. Returns the same. */
int hr_run_trusted(struct hr_appliance *app, bool progress);

/* Tiles of a launched pipeline that are through, counted by its last role. At any time until the
 * queues go down. */
uint64_t hr_run_tiles_done(const struct hr_run *run);

/* Bytes of all sources in the first `tiles` tiles. */
uint64_t hr_run_bytes(const struct hr_run *run, uint64_t tiles);

/* Bytes of all sources that prefetch has read since the launch, counted as tiles are filled. Of
 * a run that goes on, or has ended, also after its queues went down; 0 of one not launched. */
uint64_t hr_run_bytes_read(const struct hr_run *run);

#endif
