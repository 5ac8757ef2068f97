/*
 * boot/appliance/supervise.h - the appliance as it runs unattended: self-test, bring-up,
 * pipelines, and anew after a failure, with everybody told who wants to know (service manager,
 * hardware watchdog, `headrace status`).
 */
#ifndef BOOT_APPLIANCE_SUPERVISE_H
#define BOOT_APPLIANCE_SUPERVISE_H

#include "boot/appliance/notify.h"
#include "boot/stages.h"
#include "boot/appliance/status.h"

struct hr_supervisor {
	struct hr_appliance *app; /* configuration read, nothing up */
	bool first;		  /* the first process: it collects zombies */
	struct hr_notify notify;
	struct hr_status status;
	int watchdog; /* descriptor of /dev/watchdog; -1: not used */
	uint64_t feed_ns, next_feed_ns;
	bool done[HR_PIPELINES_MAX]; /* pipelines that need not run again */
};

/* Open what is told to whom; what cannot be is logged. app->tick becomes the supervisor's. */
void hr_supervise_open(struct hr_supervisor *s, struct hr_appliance *app, bool first);

/*
 * Self-test, bring-up, all pipelines; after a failure everything down, a pause (`backoff`), and
 * again with the pipelines that are not done, `restarts` times. Mistakes in the configuration are
 * not tried again. Reports go to stdout. Returns an enum hr_exit; HR_EXIT_FAILED when a signal
 * stopped it.
 */
int hr_supervise(struct hr_supervisor *s);

/* Answer those who ask until a signal comes. */
void hr_supervise_stay(struct hr_supervisor *s);

void hr_supervise_close(struct hr_supervisor *s);

#endif
