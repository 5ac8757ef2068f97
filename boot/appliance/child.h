/*
 * boot/appliance/child.h - the supervisor's side of an engine: start it, look at it all the time, pass
 * on the wish to stop, end it when it hangs, say what became of it, and see that the controllers it
 * drove are stopped before the next one starts.
 *
 * Nothing here touches a device. Nothing that an engine does ends the caller or keeps it waiting for
 * longer than the limits below.
 */
#ifndef BOOT_APPLIANCE_CHILD_H
#define BOOT_APPLIANCE_CHILD_H

#include <stdbool.h>
#include <stdint.h>

#include "boot/appliance/process.h"
#include "boot/appliance/record.h"
#include "config/clock.h"

/* How long an engine may publish nothing. It publishes every few milliseconds, and ends by itself when
 * a worker does not move (boot/engine/watch.h). */
#define HR_CHILD_PATIENCE_NS (120 * HR_NS_PER_S)
/* From the wish to stop to its end; less than TimeoutStopSec of headrace.service. */
#define HR_CHILD_STOP_NS (100 * HR_NS_PER_S)
/* From SIGKILL to its end; and from there to the end of its custodian. */
#define HR_CHILD_KILL_NS (30 * HR_NS_PER_S)
#define HR_CHILD_CUSTODY_NS (10 * HR_NS_PER_S)

struct hr_child {
	struct hr_process process;
	struct hr_record *record; /* the caller's: the newest one that is sound */
	void (*heard)(void *to, enum hr_phase phase);
	void *to;
	uint64_t patience_ns, stop_ns, custody_ns; /* the above, unless a test sets others */
	bool unsafe; /* a controller may still write to memory, or the engine does not end: no other
		      * engine may start */
	/* Of the engine that runs, or ran last. */
	struct hr_record fresh; /* a copy that is not checked yet */
	uint64_t sequence;	/* of the page, when it was last looked at */
	uint64_t still_ns;	/* for how long that has not changed */
	uint64_t looked_ns;	/* when it was looked at */
	uint64_t running_ns;	/* since when pipelines run; 0: they do not */
	uint64_t asked_ns;	/* when it was asked to stop; 0: it was not */
	uint64_t killed_ns;	/* when it was killed; 0: it was not */
	uint64_t kills;		/* of the kernel for want of memory, before it started */
	uint32_t masters;	/* a bit per ssd that mastered the bus before it started */
	const char *wrong;	/* word of its record that is out of range, or NULL */
	bool hung_up;
};

/* heard(to, phase) is called for each phase that an engine tells, in order. 0 or -ENOMEM. */
int hr_child_open(struct hr_child *c, struct hr_record *record,
		  void (*heard)(void *to, enum hr_phase phase), void *to);

/* Read what the engine has told and published: to be called every few milliseconds, as a part of the
 * caller's duty (hr_tick_set()). */
void hr_child_look(struct hr_child *c, const struct hr_config *config, uint64_t now_ns);

/* No engine runs, or it has published something within the patience. Then the machine is well. */
bool hr_child_moves(const struct hr_child *c);

/*
 * Have an engine make an attempt of app, and wait for its end; a signal is passed on as SIGTERM. fds as
 * for hr_process_start(). Pipelines, ssds, refused and stuck of app are set as the engine has left
 * them; a pipeline that ran when the engine died has failed. An end that is not in order is logged,
 * in one line.
 *
 * Returns what hr_attempt_make() returned in the engine, or, when it did not come to that: -ETIMEDOUT:
 * the engine hung and was killed; -EIO: it exited with HR_EXIT_DEVICE; -EOWNERDEAD: it ended in
 * another way; or there is no process for it: error of hr_process_start().
 */
int hr_child_attempt(struct hr_child *c, struct hr_appliance *app, const int *fds, unsigned count);

/* How long pipelines ran in that attempt, at most until now. */
uint64_t hr_child_ran_ns(const struct hr_child *c);

void hr_child_close(struct hr_child *c);

#endif
