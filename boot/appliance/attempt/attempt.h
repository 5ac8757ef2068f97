/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boot/appliance/attempt/attempt.h - one attempt of the appliance, in the engine's process: self-test,
 * bring-up, the selected pipelines, and shutdown.
 */
#ifndef BOOT_APPLIANCE_ATTEMPT_ATTEMPT_H
#define BOOT_APPLIANCE_ATTEMPT_ATTEMPT_H

#include "boot/appliance/lend/service.h"
#include "boot/appliance/protocol/record.h"
#include "boot/appliance/store/service.h"
#include "boot/engine/bringup/stages.h"

struct hr_attempt {
	/* Initialised; pipelines and ssds are selected, no stage is up. */
	struct hr_engine *engine;
	struct hr_record_page *page; /* page in which the record is published */
	/* Each phase is sent here as one byte; the engine never waits for it. */
	int phases;
	int dispatch; /* dispatches of the supervisor (boot/appliance/attempt/dispatch.h); -1: none */
	int clients;			 /* clients that the supervisor passes on; -1: none */
	struct hr_store_service service; /* serves them; open while the stores are up */
	struct hr_tap_sockets *sockets;	 /* of taps; the supervisor's, inherited */
	struct hr_lend_service lend;	 /* serves them, and the feeds of this engine */
	struct hr_record record;	 /* all zero at the start */
};

/*
 * Publish the progress of the attempt. Neither waits nor allocates, so that hr_tick() can call it.
 */
void hr_attempt_publish(struct hr_attempt *attempt);

/*
 * Make the attempt, according to the group `boot` of the configuration. Reports go to stdout.
 * Returns 0, or the error of the first failure of the self-test, a stage or hr_run_all(), with
 * engine->error. The record also holds it, with the outcome of each pipeline.
 */
int hr_attempt_make(struct hr_attempt *attempt);

/* For boot/appliance/attempt/dispatch.c: send a phase, report the results of runs that have ended. */
void hr_attempt_tell(struct hr_attempt *attempt, enum hr_phase phase);
void hr_attempt_report(struct hr_attempt *attempt, bool all);

/* Once the stores are up: read the history from the disks. Add the run that has ended to it, and make
 * it durable; start: as of hr_remember_run(). An error is logged, when it is not that of before. */
void hr_attempt_load_history(struct hr_attempt *attempt);
void hr_attempt_remember(struct hr_attempt *attempt, uint32_t i, uint64_t start);

/* Serve clients of the stores, taps and feeds from now on, also while pipelines run; changed(to) is
 * called after a put, or NULL. An engine that cannot serve clients of the stores goes on, with a
 * warning; one that cannot serve taps or feeds has no use: -errno, in engine->error. */
int hr_attempt_open_services(struct hr_attempt *attempt, void (*changed)(void *to), void *to);
void hr_attempt_close_services(struct hr_attempt *attempt);

#endif
