/*
 * config/base/signals.h - Ctrl-C and SIGTERM as a request to stop, which long operations check.
 */
#ifndef CONFIG_BASE_SIGNALS_H
#define CONFIG_BASE_SIGNALS_H

#include <stdbool.h>

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
bool hr_signals_take_reload(void);

/* Record SIGTERM, as if it had come. */
void hr_signals_stop(void);

/* The recorded signal, or 0. */
int hr_signals_which(void);

/* True when a signal is recorded. Any thread may call it. */
bool hr_signals_pending(void);

#endif
