/*
 * boot/appliance/supervise.h - the appliance as it runs unattended: self-test, bring-up, pipelines,
 * and anew after a failure; with service manager, hardware watchdog and readers of the status served
 * all the time.
 *
 * The supervisor touches no device and no GPU. Each attempt is made by an engine, a process of its own
 * (boot/appliance/process.h), and whatever becomes of that process is the outcome of an attempt. The
 * watchdog and the service manager's are fed while the engine makes progress; an engine that does
 * not is killed.
 *
 * A pipeline that fails does not stop the others. One that failed for good (boot/appliance/retry.h) is
 * reported and not run again; the others that are not done are tried again after a pause, as long as
 * there are restarts. An ssd that is absent is waited for.
 */
#ifndef BOOT_APPLIANCE_SUPERVISE_H
#define BOOT_APPLIANCE_SUPERVISE_H

#include "boot/appliance/child.h"
#include "boot/appliance/notify.h"
#include "boot/appliance/retry.h"
#include "boot/appliance/status.h"
#include "boot/appliance/watchdog.h"
#include "boot/engine/stages.h"

/* What is known of a pipeline over all attempts. */
struct hr_supervised {
	bool done;    /* need not run again */
	bool suspect; /* it failed in an attempt: the others run before it */
	int error;    /* != 0: it failed for good */
};

struct hr_supervisor {
	struct hr_appliance *app; /* configuration read, nothing up */
	bool first;		  /* the first process: it collects zombies */
	struct hr_notify notify;
	struct hr_status status;
	struct hr_watchdog watchdog;
	struct hr_child child;
	struct hr_budget budget;
	struct hr_supervised pipeline[HR_PIPELINES_MAX];
	uint64_t absent_ns[HR_SSDS_MAX]; /* since when an ssd is absent; 0: it is there */
	bool has_run;			 /* the newest attempt: bring-up succeeded, pipelines ran */
	uint64_t ran_ns;		 /* how long */
	bool mute;			 /* an engine could not write its reports to stdout */
};

/*
 * Open the status socket and the service manager's, and arm the watchdog at that path; what does not
 * work of these is logged. The duty of the calling thread (hr_tick_set()) becomes the supervisor's; the
 * process has no other thread. 0 or -ENOMEM, which is logged: nothing is open.
 */
int hr_supervise_open(struct hr_supervisor *s, struct hr_appliance *app, bool first,
		      const char *watchdog);

/*
 * Self-test, bring-up, all pipelines; and again with those that are not done, as the group `boot` of
 * the configuration says. Reports go to stdout. Returns an enum hr_exit: HR_EXIT_DONE also when a
 * signal stopped it in order; that of the first failure when pipelines are left that cannot be done.
 */
int hr_supervise(struct hr_supervisor *s);

/* Answer readers of the status until a signal comes. */
void hr_supervise_stay(struct hr_supervisor *s);

void hr_supervise_close(struct hr_supervisor *s);

#endif
