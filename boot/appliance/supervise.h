/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boot/appliance/supervise.h - the unattended appliance: self-test, bring-up, pipelines, and
 * restarts after failures. It serves the service manager, the hardware watchdog and readers of the
 * status all the time.
 *
 * The supervisor touches no device and no GPU. An engine, a process of its own
 * (boot/appliance/supervisor/process.h), makes each attempt, and every kind of end of that
 * process is the outcome of an attempt. Both watchdogs, the machine's and the service
 * manager's, are fed while the engine makes progress; an engine without progress is killed.
 *
 * A pipeline that fails does not stop the others. A pipeline that failed permanently
 * (boot/appliance/schedule/retry.h) is reported and not run again. The other pipelines that
 * are not done run again after a pause, while restarts are left. Absent ssds are awaited.
 *
 * When an engine dies, or loses a gpu, while pipelines run, these are to blame: the one whose code
 * has crashed or hangs, when that is known, else all. A pipeline to blame is suspended: it runs
 * again after a pause that doubles with each death, alone. The others go on at once, in the next
 * engine, and that is not one of the restarts. The appliance gives up when more than boot.restarts
 * engines in a row have died in the runs of each pipeline that is left.
 *
 * When a pipeline of the configuration repeats, an engine stays and takes dispatches
 * (boot/appliance/supervisor/repeat.h); a new engine replaces it after a failure of an ssd, a
 * gpu or the engine itself, as above.
 */
#ifndef BOOT_APPLIANCE_SUPERVISE_H
#define BOOT_APPLIANCE_SUPERVISE_H

#include "boot/appliance/supervisor/child.h"
#include "boot/appliance/control/control.h"
#include "boot/appliance/gpus.h"
#include "boot/appliance/machine/machine.h"
#include "boot/appliance/schedule/retry.h"
#include "boot/appliance/supervisor/repeat.h"
#include "boot/appliance/control/status.h"
#include "boot/engine/bringup/stages.h"

/* State of a pipeline over all attempts. */
struct hr_supervised {
	bool done;	       /* it need not run again */
	bool suspect;	       /* it failed in an attempt, so the others run before it */
	int error;	       /* != 0: it failed permanently */
	struct hr_error cause; /* of such a failure; printed */
};

struct hr_supervisor {
	struct hr_engine *engine; /* the configuration is read, no stage is up */
	bool first;		  /* the first process: it collects zombies */
	struct hr_notify notify;
	struct hr_status status;
	struct hr_control control;
	struct hr_watchdog watchdog;
	struct hr_child child;
	struct hr_tap_sockets sockets; /* of taps; engines accept their connections */
	struct hr_restarts budget;
	struct hr_supervised pipeline[HR_PIPELINES_MAX];
	uint64_t absent_ns[HR_SSDS_MAX]; /* time since which an ssd is absent; 0: it is present */
	struct hr_gpus gpus;
	bool has_run;	       /* the newest attempt: bring-up succeeded, pipelines ran */
	uint64_t ran_ns;       /* time in which pipelines ran */
	struct hr_error cause; /* of the newest attempt's failure; printed */
	bool mute;	       /* an engine could not write its reports to stdout */
	bool blamed; /* a pipeline is to blame for the end of the newest engine, and is suspended */
	struct hr_repeat repeat; /* when pipelines repeat */
};

/*
 * Open the control socket and the service manager's socket, and arm the watchdog at that path;
 * errors of these are logged. Sets the periodic function of the calling thread (hr_tick_set()); the
 * process has no other thread. 0; -ENOMEM, or an error of hr_tap_sockets_open(), which is logged:
 * nothing is open.
 */
int hr_supervise_open(struct hr_supervisor *s, struct hr_engine *engine, bool first,
		      const char *watchdog);

/*
 * Make attempts until all pipelines are done, as the group `boot` of the configuration says.
 * Reports go to stdout. Returns an enum hr_exit: HR_EXIT_DONE also after a clean stop by a
 * signal; the code of the first failure when pipelines cannot be done.
 */
int hr_supervise(struct hr_supervisor *s);

/* Answer clients of the control socket until a signal comes. */
void hr_supervise_stay(struct hr_supervisor *s);

void hr_supervise_close(struct hr_supervisor *s);

#endif
