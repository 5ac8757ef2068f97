/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boot/cmd/topo_watch.h - --watch: evaluates again when the bus changes, and prints the changes.
 */
#ifndef BOOT_CMD_TOPO_WATCH_H
#define BOOT_CMD_TOPO_WATCH_H

#include "boot/cmd/topo/topo.h"

#define HR_WATCH_SECONDS 30u /* interval of readings without messages */
#define HR_WATCH_SECONDS_MAX 86400u

/*
 * Times of the next reading. Messages come in bursts, so a reading waits until 200 ms have passed
 * without a message, at most 1 s after the first one. It begins at least 1 s after the end of the
 * last reading.
 */
struct hr_watch_times {
	uint64_t period_ns;
	uint64_t first_ns, last_ns; /* messages since the last reading */
	uint64_t read_ns;	    /* end of the last reading */
	bool told;		    /* a message has arrived since then */
};

void hr_watch_message(struct hr_watch_times *w, uint64_t now_ns);
void hr_watch_read(struct hr_watch_times *w, uint64_t now_ns);
/* Nanoseconds until the next reading is due; 0: now. */
uint64_t hr_watch_left(const struct hr_watch_times *w, uint64_t now_ns);

/*
 * Print the verdicts of *t, which was read and evaluated, then changes, until SIGINT, SIGTERM or
 * SIGHUP. `from` is the capture to read again (NULL: the machine), `html` a page to write again
 * with each change, or NULL. Returns the exit code of the last verdicts, or HR_TOPO_NO_ACCESS when
 * standard output or the page is not writable.
 */
struct hr_topo_watch {
	const char *from, *html;
	bool force, json;
	unsigned seconds;
};
int hr_topo_watch(struct hr_topo *t, const struct hr_topo_watch *watch);

#endif
