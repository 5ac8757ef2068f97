/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boot/appliance/supervisor/child.h - the supervisor's side of an engine: starts it, observes
 * it, forwards the request to stop, kills it when it hangs, reports its end, and checks that
 * its controllers are stopped before the next engine starts.
 *
 * This code touches no device. No behaviour of an engine ends the caller, or delays it longer than
 * the limits below.
 */
#ifndef BOOT_APPLIANCE_SUPERVISOR_CHILD_H
#define BOOT_APPLIANCE_SUPERVISOR_CHILD_H

#include <stdbool.h>
#include <stdint.h>

#include "boot/appliance/supervisor/process.h"
#include "boot/appliance/protocol/record.h"
#include "config/base/clock.h"

/*
 * Longest time in which an engine may publish nothing in self-test, bring-up and shutdown, where a
 * call of a driver, or pinning much memory, takes long. While pipelines run, or wait for their starts,
 * boot.progress_s is the limit: its control path then publishes every few milliseconds, and it ends by
 * itself when a worker makes no progress (boot/engine/runner/stall.h).
 */
#define HR_CHILD_TIMEOUT_NS (120 * HR_NS_PER_S)
/*
 * Time from the request to stop to the engine's end; less than TimeoutStopSec of headrace.service.
 */
#define HR_CHILD_STOP_NS (100 * HR_NS_PER_S)
/* Times from SIGKILL to the engine's end, and from there to the end of its undo helper. */
#define HR_CHILD_KILL_NS (30 * HR_NS_PER_S)
#define HR_CHILD_UNDO_NS (10 * HR_NS_PER_S)

struct hr_child {
	struct hr_process process;
	struct hr_record *record; /* the caller's: the newest valid record */
	void (*heard)(void *to, enum hr_phase phase);
	void *to;
	uint64_t timeout_ns, stop_ns, undo_ns; /* the limits above; tests set others */
	uint64_t progress_ns;		       /* boot.progress_s; 0: timeout_ns in each phase */
	/* Called with rest_to in place of a pause of 5 ms while the engine runs; NULL: none. */
	void (*rest)(void *rest_to);
	void *rest_to;
	int wake; /* epoll descriptor that gets the pipe of each engine; -1: none */
	/*
	 * A controller may still write to memory, or the engine does not end: no other engine may
	 * start.
	 */
	bool unsafe;
	/* The members below describe the engine that runs, or that ran last. */
	pid_t pid;		/* also after its end */
	struct hr_record fresh; /* copy that is not yet checked */
	uint64_t sequence;	/* of the page, at the last look */
	uint64_t still_ns;	/* time without a change of the sequence */
	enum hr_phase phase;	/* as the engine told last; HR_PHASE_STARTING: none yet */
	uint64_t looked_ns;	/* time of the last look */
	uint64_t running_ns;	/* time when pipelines started; 0: they do not run */
	uint64_t asked_ns;	/* time of the request to stop; 0: none */
	uint64_t killed_ns;	/* time of the kill; 0: none */
	uint64_t kills;		/* out-of-memory kills of the kernel before the engine started */
	uint32_t masters;	/* a bit per ssd that mastered the bus before the engine started */
	const char *wrong;	/* name of a record member that is out of range, or NULL */
	struct hr_error death;	/* reason why the engine ended without a result */
	bool hung_up;
};

/* heard(to, phase) is called for each phase that an engine sends, in order. 0 or -ENOMEM. */
int hr_child_open(struct hr_child *c, struct hr_record *record,
		  void (*heard)(void *to, enum hr_phase phase), void *to);

/*
 * Read what the engine has sent and published. Called every few milliseconds from the caller's
 * periodic function (hr_tick_set()).
 */
void hr_child_poll(struct hr_child *c, const struct hr_config *config, uint64_t now_ns);

/* Ask the engine to end cleanly, unless it has been asked. */
void hr_child_stop(struct hr_child *c, uint64_t now_ns);

/* True when no engine runs, or the engine has published within the limit of its phase. */
bool hr_child_is_alive(const struct hr_child *c);

/*
 * Start an engine that makes an attempt of engine, and wait for its end; a signal is forwarded as
 * SIGTERM. fds: as for hr_process_start(). Sets pipelines, ssds, refused and stuck of engine as the
 * engine left them; a pipeline that ran when the engine died has failed. An abnormal end is logged
 * in one line.
 *
 * Returns the result of hr_attempt_make() in the engine, with its error in *e. Without such a
 * result: -ETIMEDOUT: the engine hung and was killed; -EIO: it exited with HR_EXIT_DEVICE;
 * -EOWNERDEAD: it ended in another way; or the error of hr_process_start(). *e has been printed.
 */
int hr_child_run(struct hr_child *c, struct hr_engine *engine, const int *fds, unsigned count,
		 struct hr_error *e);

/* Time in which pipelines ran in that attempt, up to now. */
uint64_t hr_child_ran_ns(const struct hr_child *c);

void hr_child_close(struct hr_child *c);

#endif
