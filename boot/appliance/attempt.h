/*
 * boot/appliance/attempt.h - one attempt of the appliance, in the engine's process: self-test,
 * bring-up, the pipelines that are selected, and the way down.
 */
#ifndef BOOT_APPLIANCE_ATTEMPT_H
#define BOOT_APPLIANCE_ATTEMPT_H

#include "boot/appliance/record.h"
#include "boot/engine/stages.h"

struct hr_attempt {
	struct hr_appliance *app;    /* initialised, pipelines and ssds chosen, nothing up */
	struct hr_record_page *page; /* where the record is published */
	int line;		     /* where each phase is told, a byte each; never waited for */
	struct hr_record record;     /* all zero at the start */
};

/* Publish how far the attempt is. Neither waits nor allocates: a duty for hr_tick_set(). */
void hr_attempt_publish(struct hr_attempt *attempt);

/*
 * Make the attempt, as the group `boot` of the configuration says. Reports go to stdout. Returns 0, or
 * the error of the first thing that failed, as the stages, the self-test and hr_run_all() have it; it
 * is in the record as well, with the outcome of each pipeline.
 */
int hr_attempt_make(struct hr_attempt *attempt);

#endif
