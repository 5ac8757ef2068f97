/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/fakes/watchdog.h - a watchdog of Linux, on a fifo: its driver rounds timeouts. ioctl() of libc
 * sets the timeout.
 */
#ifndef TESTS_FAKES_WATCHDOG_H
#define TESTS_FAKES_WATCHDOG_H

#include <stdint.h>

extern struct fake_watchdog {
	int seconds;	     /* as requested */
	int error;	     /* errno of the request */
	unsigned bytes;	     /* that were written */
	char last;	     /* of them */
	uint64_t longest_ns; /* between two of them, of hr_now_ns() */
} fake_watchdog;

/* Make it. Its timeout is driver_seconds; 0: as requested. */
void fake_watchdog_open(const char *path, int driver_seconds);

/* Read what was written. The caller does so after each step of the clock. */
void fake_watchdog_look(void);

#endif
