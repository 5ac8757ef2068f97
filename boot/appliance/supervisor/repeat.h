/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boot/appliance/supervisor/repeat.h - the supervisor of pipelines that repeat: it keeps the timetable,
 * dispatches starts to the engine (boot/appliance/attempt/dispatch.h), and sleeps until the
 * next start or event.
 *
 * A start is dispatched as soon as it is due, also while other pipelines run. The engine begins it
 * at once or lets it wait (boot/appliance/attempt/admission.h).
 *
 * A pipeline whose ssd was absent or failed when the engine came up fails, or waits for the ssd. It
 * needs a new engine: when its next start is due, or the absent ssd is there, no other start is
 * dispatched; the engine is asked to end when nothing runs, and the next one brings all ssds up.
 */
#ifndef BOOT_APPLIANCE_SUPERVISOR_REPEAT_H
#define BOOT_APPLIANCE_SUPERVISOR_REPEAT_H

#include <stdbool.h>
#include <stdint.h>

#include "boot/appliance/supervisor/child.h"
#include "boot/appliance/supervisor/differences.h"
#include "boot/appliance/supervisor/reader.h"
#include "boot/appliance/schedule/timetable.h"

#define HR_REPEAT_RESULTS 8u /* ends of starts that are remembered for each pipeline */

struct hr_repeat {
	uint32_t absent_gpus; /* a bit for each gpu that is awaited; the supervisor's */
	bool on;	      /* a pipeline of the configuration repeats; all else is 0 otherwise */
	int wake;	      /* epoll descriptor whose events end the sleep; -1: none */
	struct hr_child *child;
	struct hr_engine *engine;
	bool begun; /* the timetable is valid: an engine has read the starts */
	struct hr_timetable timetable;
	/* Error of the start with number n of a pipeline, at n modulo HR_REPEAT_RESULTS. */
	int result[HR_PIPELINES_MAX][HR_REPEAT_RESULTS];
	uint64_t dispatches;		   /* number of the newest dispatch */
	uint64_t number[HR_PIPELINES_MAX]; /* of the newest dispatch of each pipeline */
	/* Sequence of the newest run in the history when a pipeline was dispatched; 0: none. */
	uint64_t before[HR_PIPELINES_MAX];
	/* Of the engine that runs. */
	bool greeted;		 /* its `ready` has been seen */
	bool renew;		 /* the engine is asked to end, so that a new one begins */
	hr_pipeline_set running; /* pipelines that were dispatched, and have not ended */
	hr_pipeline_set refused; /* pipelines that have failed because of its bring-up */
	hr_pipeline_set held;	 /* pipelines whose starts a warning of an ssd holds */
	hr_pipeline_set blamed;	 /* pipelines whose runs have ended it, or lost it a gpu */
	/* Another reading of the configuration. */
	hr_read_config *read; /* NULL: the file cannot be read again */
	void *read_to;
	struct hr_config_reader reader;
	struct hr_config *fresh; /* the result; allocated for a reading */
	int reload_result;
	struct hr_error reload_error;
	struct hr_differences differences;
	struct hr_config *next; /* in force with the next engine; NULL: the present one stays */
	/* In force before the present one, with which no engine has come up; NULL: one has. */
	struct hr_config *former;
};

/*
 * Sets child->rest and child->wake. 0, or -errno: without a descriptor the sleep ends every 5 ms.
 */
int hr_repeat_open(struct hr_repeat *r, struct hr_child *child, struct hr_engine *engine);

/* Wake also when fd can be read; a negative one is skipped. */
void hr_repeat_wake_by(const struct hr_repeat *r, int fd);

/* Begin with an engine that takes dispatches, and with the starts that it has read: before requests are
 * served, which the timetable answers. hr_repeat_poll() does it, too. */
void hr_repeat_meet(struct hr_repeat *r);

/*
 * Read the published state of the engine, note the times that have come, and dispatch the pipelines
 * that are due. For the supervisor's periodic function; does not wait.
 */
void hr_repeat_poll(struct hr_repeat *r);

/* The engine has ended, and its record has been applied to the appliance. */
void hr_repeat_engine_ended(struct hr_repeat *r);

/* False: every pipeline is over, or more than boot.restarts engines in a row have died in its
 * runs. */
bool hr_repeat_can_run(const struct hr_repeat *r);

void hr_repeat_close(struct hr_repeat *r);

/* ---- reads the configuration again while the appliance runs,
 * and puts it in force.
 *
 * A configuration with mistakes changes nothing. When only the schedule differs, it is in force at
 * once. For other differences (boot/appliance/supervisor/differences.h) no further start is
 * dispatched; when nothing runs, the engine is asked to end, and the next one has the new
 * configuration. Pipelines that both configurations have keep their starts. When no engine
 * comes up with the new configuration, the earlier one is in force again.
 */

/* Begin to read. 0; -EALREADY: a process reads; -ENOTSUP: the file cannot be read again; -ENOMEM,
 * -EAGAIN. */
int hr_reload_begin(struct hr_repeat *r);

/* Take over the new schedule, or plan the next engine, when the process has read the file. Does not
 * wait. */
void hr_reload_poll(struct hr_repeat *r, const struct hr_moment *at);

/* True when the configuration of the newest hr_reload_begin() has been checked; in_force: and an
 * engine has come up with it, or could not. The result is r->reload_result, with r->reload_error. */
bool hr_reload_is_over(const struct hr_repeat *r, bool in_force);

/* Between two engines: put the next configuration in force. False: there is none, or no memory for
 * the change, which is logged. */
bool hr_reload_switch(struct hr_repeat *r, const struct hr_moment *at);

/* An engine has come up with the configuration that is in force. */
void hr_reload_settle(struct hr_repeat *r);

/* An attempt has ended with *cause. When no engine has come up with the configuration, put the
 * earlier one in force, and log it. False: nothing has changed. */
bool hr_reload_revert(struct hr_repeat *r, const struct hr_error *cause,
		      const struct hr_moment *at);

void hr_reload_close(struct hr_repeat *r);

#endif
