/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boot/engine/runner/runner.h - run the pipelines of an appliance that is up and sealed.
 *
 * The host starts a pipeline, watches it, and makes its progress durable; the workers move the
 * data. Nothing here allocates.
 */
#ifndef BOOT_ENGINE_RUNNER_RUNNER_H
#define BOOT_ENGINE_RUNNER_RUNNER_H

#include <stdbool.h>

#include "boot/engine/concurrency.h"
#include "boot/engine/bringup/stages.h"

/*
 * Run every selected pipeline that waits, one after another, until one fails or a signal requests a
 * stop. With engine->keep_going a failure only affects the pipelines that depend on the failed device
 * or pipeline: their outcome stays HR_RUN_WAITING; and suspects run after the others. Sets outcome,
 * error, cause, failure and durable_tiles of each run; causes are logged. Returns 0; -EINTR:
 * stopped by a signal; > 0 or -errno of the first pipeline that failed, whose cause is copied to
 * *e; -EIO: with keep_going, no pipeline failed, but one is left that could not start.
 */
int hr_run_all(struct hr_engine *engine, bool progress, struct hr_error *e);

/* The same without suspects; hr_run_all() then runs them. Returns the same. */
int hr_run_trusted(struct hr_engine *engine, bool progress, struct hr_error *e);

/* Runs pipelines at the same time. The owner sets engine and progress, and starts pipelines one by
 * one; the rest is 0 before the first start. */
struct hr_runner {
	struct hr_engine *engine;
	bool suspects, progress;
	hr_pipeline_set running, started;
	bool ending; /* a failure or a signal: the others are not started any more */
	bool interrupted;
};

/* Launch pipeline i, whose queues are up. It may have ended on return: then `running` has no bit
 * of it. */
void hr_runner_start(struct hr_runner *runner, uint32_t i);

/* Look at each running pipeline once, and conclude those that have ended: outcome and error of
 * their runs are set, their bits are gone from `running`. Then pause, for at most half a
 * millisecond. */
void hr_runner_poll(struct hr_runner *runner);

#endif
