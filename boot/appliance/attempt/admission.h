/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boot/appliance/attempt/admission.h - the order in which requested starts of pipelines begin,
 * in an engine whose pipelines repeat.
 *
 * Starts begin in the order of their requests; those of one request in the order of the
 * configuration. A start waits
 *   - while a pipeline runs, or waits before it, that writes an object which it reads or writes, or
 *     that reads an object which it writes; later starts without such an object may pass it;
 *   - while appliance.parallel pipelines run;
 *   - until nothing runs, when it needs a new plan (boot/appliance/attempt/provision.h), or
 * when the engine died
 *     during the last start of the pipeline (a suspect): it might end this engine as well, so it
 *     runs alone. Such a start is *alone*.
 *
 * Later starts, except those that depend on its objects, pass a start alone as long as a pipeline
 * runs that was requested before it: they do not delay the start, when they end before that one.
 * When the last of these has ended, no start begins until the start alone has begun. Pipelines that
 * run are never stopped for it. Therefore no start starves:
 *   - a start alone waits for the starts that were requested before it, and then for one run of each
 *     pipeline that has passed it and still runs; these run side by side;
 *   - a start that is held by a start alone waits for the end of these runs, and of the start alone
 *     when that is a suspect; it does not wait for the pipelines that were requested before the
 *     start alone, which may run for hours.
 * Each request gets a new number, so a pipeline that starts again at once is a later start.
 *
 * Pure: no I/O, no clock.
 */
#ifndef BOOT_APPLIANCE_ATTEMPT_ADMISSION_H
#define BOOT_APPLIANCE_ATTEMPT_ADMISSION_H

#include "boot/engine/concurrency.h"

struct hr_admission {
	const struct hr_config *config;
	hr_pipeline_set waiting; /* requested, not begun */
	hr_pipeline_set running;
	hr_pipeline_set suspects; /* of both */
	hr_pipeline_set planned;  /* those that need no new plan */
	hr_pipeline_set held;	  /* those that cannot begin now; later starts may pass them */
	uint64_t request
		[HR_PIPELINES_MAX]; /* of a pipeline that waits or runs: number of the request */
};

/* The pipeline that begins next, now; HR_PIPELINES_MAX: none. When it is not in `planned`,
 * nothing runs. */
uint32_t hr_admission_next(const struct hr_admission *admit);

/*
 * The waiting pipelines that read an output of pipeline i, directly or through other waiting
 * pipelines: they do not begin when pipeline i fails.
 */
hr_pipeline_set hr_admission_readers(const struct hr_admission *admit, uint32_t i);

#endif
