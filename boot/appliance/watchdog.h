/*
 * boot/appliance/watchdog.h - the hardware watchdog of the machine, which resets it unless it is fed
 * (Linux Documentation/watchdog/watchdog-api.rst).
 */
#ifndef BOOT_APPLIANCE_WATCHDOG_H
#define BOOT_APPLIANCE_WATCHDOG_H

#include <stdint.h>

#define HR_WATCHDOG_PATH "/dev/watchdog"

struct hr_watchdog {
	const char *path;
	int fd;		  /* -1: not used */
	uint64_t feed_ns; /* how often it is fed: a third of its timeout */
	uint64_t next_ns; /* when it is due next */
	int error;	  /* errno of the last time it could not be fed; 0: it could */
};

/*
 * Arm the watchdog at `path` (the caller's) with this timeout, in whole seconds; the driver may round
 * it. 0 ns: it is not used. An error is logged, and the watchdog is not used.
 */
void hr_watchdog_open(struct hr_watchdog *w, const char *path, uint64_t timeout_ns);

/* Feed it when that is due. An error is logged once, until it can be fed again. */
void hr_watchdog_feed(struct hr_watchdog *w, uint64_t now_ns);

/* Disarm it: the magic close. */
void hr_watchdog_close(struct hr_watchdog *w);

#endif
