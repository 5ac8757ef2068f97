/*
 * boot/engine/signals.h - Ctrl-C and SIGTERM as a wish to stop, which long work reads and obeys.
 */
#ifndef BOOT_ENGINE_SIGNALS_H
#define BOOT_ENGINE_SIGNALS_H

#include <stdbool.h>

/* From now on SIGINT, SIGTERM and SIGHUP are remembered instead of ending the process; a second one
 * ends it. SIGPIPE is ignored: a closed pipe shows as a failed write. */
void hr_signals_catch(void);

/* The same for a process with a supervisor: SIGINT and SIGTERM are a wish to stop however often they
 * come, from the supervisor and from a service manager; the supervisor ends what does not stop. */
void hr_signals_hold(void);

/* The one that has come, or 0. */
int hr_signals_which(void);

/* One of them has come. */
bool hr_signals_pending(void);

#endif
