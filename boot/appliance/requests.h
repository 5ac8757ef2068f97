/*
 * boot/appliance/requests.h - requests of the control socket and of signals to a supervisor whose
 * pipelines repeat (boot/appliance/supervisor/repeat.h): a start, a pause, a reload of the schedule.
 *
 * The functions are called from the supervisor's periodic function and do not wait. The supervisor
 * acts in the next round of its loop, which begins at once when nothing runs.
 */
#ifndef BOOT_APPLIANCE_REQUESTS_H
#define BOOT_APPLIANCE_REQUESTS_H

#include "boot/appliance/supervise.h"

enum hr_trigger_state {
	HR_TRIGGER_QUEUED, /* for its start, or for an engine */
	HR_TRIGGER_RUNNING,
	HR_TRIGGER_DONE,
	HR_TRIGGER_FAILED,
	HR_TRIGGER_DROPPED, /* the start was dropped and will not begin */
};

/*
 * Request a start of a pipeline (index), whatever its own rule is. A running pipeline starts once
 * more after its end. Several requests before a start count as one. 0 and *ticket; -ENOTSUP: no
 * pipeline of this configuration repeats, so each runs once; -EAGAIN: the pipeline is paused;
 * -EOWNERDEAD: it is suspended;
 * -EBUSY: no engine has read the starts from the ssds yet; -ESHUTDOWN: the appliance stops.
 */
int hr_supervisor_trigger(struct hr_supervisor *s, uint32_t pipeline, uint64_t *ticket);

/*
 * State of the start that serves a request. *err: 0, or of FAILED the error: an NVMe status or a
 * negative errno; -EINTR: interrupted, the start is repeated. The last 8 starts of a pipeline are
 * remembered; an older one is GONE.
 */
enum hr_trigger_state hr_supervisor_trigger_state(const struct hr_supervisor *s, uint32_t pipeline,
						  uint64_t ticket, int *err);

/*
 * A paused pipeline does not start until it is resumed, also after a restart; a run goes on to its
 * end. To resume it also lifts a suspension. 0, also when nothing changes; -ENOTSUP, -EBUSY as
 * above.
 */
int hr_supervisor_pause(struct hr_supervisor *s, uint32_t pipeline);
int hr_supervisor_resume(struct hr_supervisor *s, uint32_t pipeline);

/*
 * Begin to read the file of the configuration again. Its schedule takes effect at once, other
 * differences with the next engine, when no pipeline runs
 * (boot/appliance/supervisor/repeat.h); a message names the settings that keep their values
 * until headrace is started again. 0; -EALREADY: a process reads the file; -ENOTSUP: as above,
 * or the configuration does not come from a file that can be read again; -EBUSY as above;
 * -ENOMEM, -EAGAIN.
 */
int hr_supervisor_reload(struct hr_supervisor *s);

/*
 * The result of the newest hr_supervisor_reload(). False: a process still reads the file, or
 * with `wait` its configuration is not in force yet. True with *result 0, and *reply; -EINVAL:
 * the file has mistakes, which are logged and in *e, and nothing has changed; -ECANCELED: no
 * engine came up with it; or as hr_config_read_in_child().
 */
bool hr_supervisor_reload_result(const struct hr_supervisor *s, bool wait, int *result,
				 struct hr_error *e, struct hr_reload_reply *reply);

/* ---- carries out requests of the control socket, and SIGHUP, by calls of a
 * supervisor (boot/appliance/requests.h), with a text for each refusal.
 */

/* Fill in the table for a supervisor. */
void hr_actions_init(struct hr_actions *actions, struct hr_supervisor *s);

/* Begin a reload when SIGHUP has come. A refusal is logged. */
void hr_actions_on_signals(struct hr_supervisor *s);

#endif
