/*
 * boot/appliance/machine/watchdog.h - the hardware watchdog, which resets the machine unless it is fed
 * (Linux Documentation/watchdog/watchdog-api.rst).
 */
#ifndef BOOT_APPLIANCE_MACHINE_WATCHDOG_H
#define BOOT_APPLIANCE_MACHINE_WATCHDOG_H

#include <stdint.h>

#define HR_WATCHDOG_DEVICE "/dev/watchdog"

struct hr_watchdog {
	const char *path;
	int fd;		  /* -1: not used */
	uint64_t feed_ns; /* interval of feeding: a third of the timeout */
	uint64_t next_ns; /* time of the next feeding */
	int error;	  /* errno of the last failed feeding; 0: it succeeded */
};

/*
 * Arm the watchdog at `path` (the caller's) with this timeout, in whole seconds; the driver may
 * round it. 0 ns: the watchdog is not used. An error is logged, and the watchdog is not used.
 */
void hr_watchdog_open(struct hr_watchdog *w, const char *path, uint64_t timeout_ns);

/* Feed the watchdog when that is due. An error is logged once, until feeding succeeds again. */
void hr_watchdog_feed(struct hr_watchdog *w, uint64_t now_ns);

/* Disarm the watchdog with the magic close. */
void hr_watchdog_close(struct hr_watchdog *w);

#endif
