/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boot/engine/runner/conclude.h - the end of a pipeline: its failure, the durable part of its
 * sink, its outcome. Allocates nothing.
 */
#ifndef BOOT_ENGINE_RUNNER_CONCLUDE_H
#define BOOT_ENGINE_RUNNER_CONCLUDE_H

#include <stdbool.h>

#include "boot/engine/engine.h"
#include "boot/engine/bringup/stages.h"

/* ---- the end of a pipeline: the durable part of its sink, and its outcome.
 * Allocates nothing.
 */

/* State of the host's watch over the workers. */
struct hr_run_ending {
	int error;    /* error of a checkpoint, or of a controller; run->cause describes it */
	bool aborted; /* workers stopped waiting for commands: some may be in flight */
	/* a signal, or the error, has requested that workers start no new work */
	bool stopping;
	bool unstarted;	     /* the workers were not launched, for the error or the signal */
	uint64_t ended_ns;   /* when the workers had ended; 0: now */
	uint32_t failed_gpu; /* whose backend has failed */
};

/* True when the workers, whose results the CPU sees, have done all work of the run. */
bool hr_run_is_whole(const struct hr_run *run, const struct hr_run_ending *end);

/* Make the written tiles of the sink durable. The run has a sink, and is launched or has ended.
 * 0, or the error of the store. */
int hr_run_checkpoint(struct hr_engine *engine, struct hr_run *run, struct hr_error *e);

/* Log how much of the sink is durable, after "pipeline 'NAME' WHAT". */
void hr_run_log_durable(const struct hr_run *run, const char *what);

/*
 * Call when the workers have ended and the CPU sees their results, or when the backend has failed
 * with err and *failed. Sets outcome, error, cause, failure and durable_tiles, the health of ssds,
 * and gpu_failed; logs the cause. Returns run->error: 0; -EINTR: interrupted; > 0 or -errno.
 */
int hr_run_conclude(struct hr_engine *engine, struct hr_run *run, const struct hr_run_ending *end,
		    int err, struct hr_error *failed);

/*
 * A part of a divided run has ended with its sink durable and still incomplete, because sources without
 * shards are verified over the tiles of all parts. Finish the sink, or the new objects: 0, or the error
 * of the store, logged, with which the run has failed. Or remove the sink, when a source differs from
 * the stored data: the run has failed with err, which is returned.
 */
int hr_run_finish_part(struct hr_engine *engine, struct hr_run *run);
int hr_run_drop_part(struct hr_engine *engine, struct hr_run *run, int err);

/* ---- failures that workers report: select the relevant one, and describe it */

/* The failure of the lowest tile, because failures of later tiles may follow from it; NULL: no
 * worker has failed. */
const struct hr_failure *hr_failure_first(const struct hr_run *run);

/* Store that failure and its gpu in the run. False: no worker has failed. */
bool hr_failure_keep(struct hr_run *run);

/* The object of a failure. */
const struct hr_config_object *hr_failure_object(const struct hr_run *run,
						 const struct hr_failure *failure);

/* Add the loss of ssd d with the error err, which *e describes, to the cause of the run; it is logged
 * when the cause has been. */
void hr_failure_add_loss(const struct hr_engine *engine, struct hr_run *run, uint32_t d, int err,
			 struct hr_error *e);

/* Add run->failure to *e: object, tile, LBA, ssd, queue, command and status. Returns its error. */
int hr_failure_explain(const struct hr_engine *engine, const struct hr_run *run,
		       struct hr_error *e);

#endif
