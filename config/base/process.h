/* SPDX-License-Identifier: Apache-2.0 */
/*
 * config/base/process.h - this process: its start time, seals against changes of its memory,
 * core dumps, signals.
 */
#ifndef CONFIG_BASE_PROCESS_H
#define CONFIG_BASE_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- start time (exec) of this process, on the clock of config/base/clock.h. */

/* Call first in main. */
void hr_exec_mark(void);

/* hr_now_ns() at exec: the time of hr_exec_mark() minus the processor time used until then, by
 * exec and the loader. */
uint64_t hr_exec_ns(void);

/* ---- the phase without allocations */

/*
 * Between hr_seal() and hr_unseal() this process allocates no memory. hr_sealed() is for the test
 * that traps malloc.
 */
void hr_seal(void);
void hr_unseal(void);
bool hr_sealed(void);

/* ---- Ctrl-C and SIGTERM as a request to stop, which long operations check */

/* From now on SIGINT, SIGTERM and SIGHUP are recorded and do not end the process; a second
 * signal ends it. SIGPIPE is ignored: writing to a closed pipe fails. */
void hr_signals_catch(void);

/* From now on the first hr_signals_pending() after SIGINT warns that a second one ends the process at
 * once: for commands that can take long to end cleanly. */
void hr_signals_announce(void);

/* As hr_signals_catch() for a process with a supervisor: every SIGINT and SIGTERM, from the
 * supervisor or a service manager, is a request to stop. The supervisor kills a process that does
 * not stop. */
void hr_signals_hold(void);

/* From now on SIGHUP is not a request to stop, but to read the configuration again. */
void hr_signals_reload_on_hangup(void);

/* True once for one or more SIGHUP since the last call. */
bool hr_signals_consume_reload(void);

/* Record SIGTERM, as if it had come. */
void hr_signals_stop(void);

/* The recorded signal, or 0. */
int hr_signals_which(void);

/* True when a signal is recorded. Any thread may call it. */
bool hr_signals_pending(void);

/* ---- memory that a core dump leaves out: keys, and data of objects */

/*
 * Leave all pages that have a part of these bytes out of core dumps (madvise(2), MADV_DONTDUMP),
 * until they are unmapped. NULL: no effect. Without CONFIG_ADVISE_SYSCALLS the kernel dumps them;
 * nothing is reported. Returns `at`.
 */
void *hr_not_dumped(void *at, size_t bytes);

#endif
