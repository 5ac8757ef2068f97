/*
 * boot/cmd/topo/watch.h - --watch: judge again when the bus changes, and print what changed.
 */
#ifndef BOOT_CMD_TOPO_WATCH_H
#define BOOT_CMD_TOPO_WATCH_H

#include "boot/cmd/topo/topo.h"

#define HR_WATCH_SECONDS 30u /* from one reading to the next when no message comes */
#define HR_WATCH_SECONDS_MAX 86400u

/*
 * When to read the bus again. Messages come in swarms: the reading waits until none has come for
 * 200 ms, at most 1 s behind the first one, and never begins within 1 s of the end of the last one.
 */
struct hr_watch_times {
	uint64_t period_ns;
	uint64_t first_ns, last_ns; /* messages since the last reading */
	uint64_t read_ns;	    /* end of the last reading */
	bool told;		    /* a message has come since */
};

void hr_watch_message(struct hr_watch_times *w, uint64_t now_ns);
void hr_watch_read(struct hr_watch_times *w, uint64_t now_ns);
/* Nanoseconds until the next reading is due; 0: now. */
uint64_t hr_watch_left(const struct hr_watch_times *w, uint64_t now_ns);

/*
 * Print the verdicts of *t, which was read and judged, then what changes, until SIGINT, SIGTERM or
 * SIGHUP. `from` is the capture to read again (NULL: the machine), `html` a page to write anew with
 * each change or NULL. Returns the exit code of the last verdicts, or HR_TOPO_NO_ACCESS when
 * standard output or the page cannot be written.
 */
struct hr_watch {
	const char *from, *html;
	bool force, json;
	unsigned seconds;
};
int hr_topo_watch(struct hr_topo *t, const struct hr_watch *watch);

#endif
