/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boot/appliance/schedule/timetable.h - computes when pipelines start.
 *
 * Pure: no I/O, no clock, no memory of its own; the caller passes the time. Local time is that of
 * the C library (TZ, /etc/localtime).
 *
 * A start is *due* when its time or event has come, and *missed* when it is kept from beginning
 * for more than a minute (half an interval of `every`, if that is shorter): the appliance was off,
 * the pipeline itself still ran, was paused or in a pause after a failure, or the clock jumped over
 * the time. Waiting for the end of other pipelines does not count. One rule for all of these: with
 * missed = "run" one start, as soon as possible, makes up for all missed ones; with "skip" they are
 * dropped and counted, and the next start comes at its next time.
 * The same rule holds for a start that is due while the pipeline runs: it begins after the end,
 * unless it is missed by then.
 *
 *   every     the first start comes at boot; from then on one in each interval. Intervals are
 *             counted by the monotonic clock, so a jump of the wall clock does not move them. After
 *             a restart they continue from the last start, when the wall clock is set; otherwise
 *             they begin anew: at once ("run"), or after one interval ("skip")
 *   at        by the wall clock, in local time. A time that does not exist (the clock is put
 *             forward) starts at the moment of the change; of a time that exists twice the first
 *             one counts. A clock that is put back by less than a day repeats no start. While the
 *             wall clock is not set, nothing starts
 *   after     each time when the other pipeline has ended without a failure
 *   on        a version of the object that the last start did not use; or a request
 *   forever   at boot, and as soon as it has ended
 *   once      at boot
 *
 * A start that a stop, a crash or a power cut has interrupted is made again as soon as possible, by
 * whatever rule it came. After a failure no start comes before a pause, which doubles with each
 * failure in a row (from boot.backoff to an hour). A failure that another attempt may overcome
 * (hr_error_is_final()) is tried again after the pause, unless the start was a request; `forever`
 * and `once` try again as well, but a final failure of `once` gives it up. The pause of one
 * pipeline delays no other pipeline. The same pause suspends a pipeline in whose run an engine died;
 * it is durable, and no request shortens it.
 */
#ifndef BOOT_APPLIANCE_SCHEDULE_TIMETABLE_H
#define BOOT_APPLIANCE_SCHEDULE_TIMETABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "boot/appliance/schedule/retry.h"
#include "boot/appliance/schedule/starts.h"
#include "config/config.h"
#include "config/base/seam.h"
#include "config/base/json.h"

/* Pipelines as a bit each, by index. */
typedef uint32_t hr_pipeline_set;

struct hr_moment {
	uint64_t now_ns;  /* hr_now_ns() */
	uint64_t wall_ns; /* hr_wall_ns() */
};

#define HR_LATE_NS (60ull * 1000000000)

/* Now, from the clocks of the seam. */
struct hr_moment hr_moment_now(void);
bool hr_wall_is_set(const struct hr_moment *at);

/* Why a pipeline does not start now. */
enum hr_wait_for {
	HR_WAIT_NOTHING, /* it is due */
	HR_WAIT_TIME,
	HR_WAIT_CLOCK,	    /* the wall clock is not set */
	HR_WAIT_EVENT,	    /* the end of another pipeline, a request, a version of an object */
	HR_WAIT_OBJECT,	    /* the object of `on` does not exist */
	HR_WAIT_PAUSE,	    /* after a failure */
	HR_WAIT_SUSPENSION, /* an engine has died in its run */
	HR_WAIT_RESUME,	    /* it is paused */
	HR_WAIT_END,	    /* it runs */
	HR_WAIT_NEVER,	    /* it is done, or given up */
};

/* "time", "clock" and so on. */
const char *hr_wait_text(enum hr_wait_for what);

/* A pipeline. The durable part is in struct hr_start (boot/appliance/schedule/starts.h). */
struct hr_timetable_entry {
	bool running, over;	/* over: of `once`, done or given up */
	bool drop;		/* the due start may be dropped when it is late */
	uint64_t next_ns;	/* every: time of the next start, monotonic */
	uint64_t next_wall_ns;	/* at: the same by the wall clock; 0: not computed */
	uint64_t due_ns;	/* of a due start: time of the last look */
	uint64_t late_ns;	/* how late the start was then */
	uint64_t not_before_ns; /* end of the pause after a failure */
	uint64_t came_ns;	/* moment from which the start is due */
	uint64_t planned_ns;	/* the same, of the newest start that was dispatched */
	uint64_t version;	/* present version of the object of `on`; 0: none */
};

struct hr_timetable {
	const struct hr_config *config;
	struct hr_starts starts; /* the durable part of all pipelines */
	struct hr_timetable_entry timed[HR_PIPELINES_MAX];
	bool changed; /* `starts` has changed since the caller cleared this */
};

/*
 * Begin at boot, or when an engine has read the durable part. starts: NULL: no start is known.
 * Pipelines are found by name; those of other names are dropped. Values from a disk have passed
 * hr_starts_check().
 */
void hr_timetable_begin(struct hr_timetable *t, const struct hr_config *config,
			const struct hr_starts *starts, const struct hr_moment *at);

/*
 * A new configuration: the keys of all pipelines are read anew. Pipelines are found by name: starts of
 * theirs that are due, running or paused stay so; one of another name begins as at boot. t->config
 * may be `config`, with other contents.
 */
void hr_timetable_reload(struct hr_timetable *t, const struct hr_config *config,
			 const struct hr_moment *at);

/* Note all times that have come. hr_timetable_due() and _next_ns() call it. */
void hr_timetable_advance(struct hr_timetable *t, const struct hr_moment *at);

/* The pipelines that start now, when the caller can start them; missed ones are dropped. */
hr_pipeline_set hr_timetable_due(struct hr_timetable *t, const struct hr_moment *at);

/* Time of the next event (hr_now_ns()) that has not come yet, at most a minute ahead, because the
 * wall clock may jump. */
uint64_t hr_timetable_next_ns(struct hr_timetable *t, const struct hr_moment *at);

/* Pipelines have started, or one has ended with err: 0; -EINTR: interrupted by a clean stop, it is due
 * again; or the error of its failure. */
void hr_timetable_started(struct hr_timetable *t, hr_pipeline_set set, const struct hr_moment *at);
void hr_timetable_ended(struct hr_timetable *t, uint32_t i, int err, const struct hr_moment *at);

/*
 * After hr_timetable_ended(): an engine has died in that run, or has lost a gpu, ran_ns after its
 * start. The pipeline is suspended: it starts no earlier than after the pause of its failures in a
 * row. A run of boot.heal counts as a success before. A run without a failure ends the count.
 */
void hr_timetable_died(struct hr_timetable *t, uint32_t i, uint64_t ran_ns,
		       const struct hr_moment *at);

/* Time until the end of the suspension; 0: it is not suspended. */
uint64_t hr_timetable_suspended_ns(const struct hr_timetable *t, uint32_t i,
				   const struct hr_moment *at);

/* Version (id) of the object of `on`; 0: there is none. */
void hr_timetable_object(struct hr_timetable *t, uint32_t i, uint64_t version,
			 const struct hr_moment *at);

/* Request a start. Returns its number: hr_start.starts of the start that serves the request. */
uint64_t hr_timetable_request(struct hr_timetable *t, uint32_t i, const struct hr_moment *at);

/* The second one also lifts a suspension. */
void hr_timetable_pause(struct hr_timetable *t, uint32_t i);
void hr_timetable_resume(struct hr_timetable *t, uint32_t i, const struct hr_moment *at);

/*
 * The next start of a pipeline, as far as it is known. *in_ns: time until then; UINT64_MAX:
 * unknown, because it waits for an event.
 */
enum hr_wait_for hr_timetable_wait(const struct hr_timetable *t, uint32_t i,
				   const struct hr_moment *at, uint64_t *in_ns);

/* The first moment after wall_ns at which a pipeline with `at` starts. */
uint64_t hr_when_next_ns(const struct hr_config_when *when, uint64_t wall_ns);

/* ---- the starts of a pipeline in JSON, for `status` and `check` */

/* "none", "running", "done", "failed", "interrupted". */
const char *hr_start_outcome_name(const struct hr_start *start);

/* Add the members of pipeline i to an open object; times that are unknown are left out. */
void hr_timetable_json(struct hr_json *j, const struct hr_timetable *t, uint32_t i,
		       const struct hr_moment *at);

#endif
