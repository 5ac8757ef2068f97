/*
 * boot/appliance/control/actions.h - the functions by which requests on the control socket act on the
 * pipelines of a running appliance. The owner of an appliance fills in the table; the socket
 * (boot/appliance/control/control.h) calls its functions.
 *
 * All functions are called from the periodic function of the owner's thread (hr_tick_set()). They
 * neither wait nor allocate. A function that is NULL belongs to a request that this owner does not
 * support, and the socket refuses the request.
 *
 * Errors: 0, or a negative errno with the text in *e. The kind of *e is the exit code of the
 * command that asked.
 */
#ifndef BOOT_APPLIANCE_CONTROL_ACTIONS_H
#define BOOT_APPLIANCE_CONTROL_ACTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "boot/appliance/protocol/message.h"
#include "config/base/error.h"

/* What a reload changes. Lists have a line for each entry. */
struct hr_reload_reply {
	bool waits;	    /* `changes` are in force when the pipelines of `running` have ended */
	char restart[128];  /* settings that differ, and need a restart */
	char changes[4096]; /* settings that the next engine takes */
	char running[HR_PIPELINES_MAX * HR_NAME_MAX]; /* names of pipelines */
};

struct hr_actions {
	void *to; /* first argument of each function */

	/*
	 * Ask for a start of pipeline i. *start is the number of that start, which counts from 1
	 * for each pipeline. While an asked start has not begun, further requests get the same
	 * number; a request during a run gets the number of the next start. -EAGAIN: the pipeline
	 * is paused.
	 */
	int (*trigger)(void *to, uint32_t i, uint64_t *start, struct hr_error *e);

	/*
	 * True when that start has ended, or never begins (a stop, or a pause before the start).
	 * *result: 0, an NVMe status or a negative errno, with its text in *e.
	 */
	bool (*ended)(void *to, uint32_t i, uint64_t start, int *result, struct hr_error *e);

	/*
	 * Begin no further start of pipeline i, or permit starts again. A run that goes on ends
	 * normally. 0 also when nothing changes.
	 */
	int (*pause)(void *to, uint32_t i, struct hr_error *e);
	int (*resume)(void *to, uint32_t i, struct hr_error *e);

	/* Stop the appliance cleanly, as SIGTERM does. */
	int (*stop)(void *to, struct hr_error *e);

	/*
	 * Begin to read the configuration again, as SIGHUP does. -EBUSY: a reload is under way.
	 * reloaded() is true when it has been checked, or with `wait` when it is in force: *result
	 * as above. With result 0, *reply has what it changes. With -EINVAL, the lines of *e after
	 * the first one are the mistakes.
	 */
	int (*reload)(void *to, struct hr_error *e);
	bool (*reloaded)(void *to, bool wait, int *result, struct hr_error *e,
			 struct hr_reload_reply *reply);

	/*
	 * Pass a client whose request concerns an ssd on to the engine, which replies. When this
	 * returns 0, the engine has a copy of the descriptor.
	 */
	int (*pass)(void *to, const struct hr_request *request, int fd, struct hr_error *e);
};

#endif
