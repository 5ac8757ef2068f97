/*
 * boot/appliance/process.h - the engine as a process of its own.
 *
 * The engine is forked, not executed anew: the supervisor starts no thread, loads no GPU driver and
 * opens no device, so a copy of it is as clean as a new program. The copy needs no /proc, and no
 * second reading of a configuration that may have changed or came through a pipe. Each attempt is
 * made by a new engine, so nothing that an engine did to its GPU context or its memory lasts.
 *
 * The engine has a process group of its own (Ctrl-C is for the supervisor, which passes it on), is
 * killed when the supervisor dies, and ends by itself after one attempt.
 *
 * Supervisor and engine share a page (boot/appliance/record.h) and a pipe, the line. The line carries
 * the phases. Its writing end is also held by the custodian of the engine (pci/custodian.h), so the
 * line hangs up when the engine has ended and the custodian has turned off bus mastering.
 */
#ifndef BOOT_APPLIANCE_PROCESS_H
#define BOOT_APPLIANCE_PROCESS_H

#include <stdbool.h>
#include <sys/types.h>

#include "boot/appliance/record.h"

struct hr_process {
	struct hr_record_page *page; /* NULL: hr_process_open() has not been called */
	pid_t pid;		     /* 0: no engine, or its end has been collected */
	int line;		     /* reading end; -1: none */
};

/* The page. 0 or -ENOMEM. */
int hr_process_open(struct hr_process *p);

/*
 * Start an engine that makes one attempt of `app`. It closes `count` descriptors that are the
 * supervisor's alone; a negative one is none. The engine before has ended and its line is closed.
 * 0; -EAGAIN, -ENOMEM: no room for a process; -EMFILE.
 */
int hr_process_start(struct hr_process *p, struct hr_appliance *app, const int *fds,
		     unsigned count);

/* True, once: the engine has ended, with this status (wait(2)). */
bool hr_process_ended(struct hr_process *p, int *status);

/* The next phase that the engine told. 0; -EAGAIN: none now; -EPROTO: a byte that is no phase; -EPIPE:
 * the line has hung up, or there is none. */
int hr_process_hear(struct hr_process *p, enum hr_phase *phase);

/* Send a signal to the engine, if there is one. */
void hr_process_signal(const struct hr_process *p, int signal_number);

/* Let go of the line: nothing more is heard from this engine. */
void hr_process_hang_up(struct hr_process *p);

/* Free the page. No engine runs. */
void hr_process_close(struct hr_process *p);

#endif
