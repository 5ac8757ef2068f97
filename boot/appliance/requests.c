#include "boot/appliance/requests.h"

#include <errno.h>
#include <stdio.h>

#include "boot/appliance/supervisor/repeat.h"
#include "config/base/process.h"
#include "config/base/log.h"

static int check(const struct hr_supervisor *s)
{
	if (!s->repeat.on)
		return -ENOTSUP;
	return s->repeat.begun ? 0 : -EBUSY;
}

int hr_supervisor_trigger(struct hr_supervisor *s, uint32_t pipeline, uint64_t *ticket)
{
	const struct hr_moment at = hr_moment_now();
	const int err = check(s);

	if (err)
		return err;
	if (hr_signals_pending())
		return -ESHUTDOWN;
	if (s->repeat.timetable.starts.start[pipeline].flags & HR_START_PAUSED)
		return -EAGAIN;
	if (hr_timetable_suspended_ns(&s->repeat.timetable, pipeline, &at))
		return -EOWNERDEAD;
	*ticket = hr_timetable_request(&s->repeat.timetable, pipeline, &at);
	return 0;
}

enum hr_trigger_state hr_supervisor_trigger_state(const struct hr_supervisor *s, uint32_t pipeline,
						  uint64_t ticket, int *err)
{
	const struct hr_start *start = &s->repeat.timetable.starts.start[pipeline];

	*err = 0;
	if (!s->repeat.begun)
		return HR_TRIGGER_DROPPED;
	if (start->starts < ticket)
		return start->flags & HR_START_DUE ? HR_TRIGGER_QUEUED : HR_TRIGGER_DROPPED;
	if (start->starts == ticket && s->repeat.timetable.timed[pipeline].running)
		return HR_TRIGGER_RUNNING;
	if (start->starts - ticket >= HR_REPEAT_RESULTS)
		return HR_TRIGGER_DROPPED;
	*err = s->repeat.result[pipeline][ticket % HR_REPEAT_RESULTS];
	return *err ? HR_TRIGGER_FAILED : HR_TRIGGER_DONE;
}

int hr_supervisor_pause(struct hr_supervisor *s, uint32_t pipeline)
{
	const int err = check(s);

	if (!err)
		hr_timetable_pause(&s->repeat.timetable, pipeline);
	return err;
}

int hr_supervisor_resume(struct hr_supervisor *s, uint32_t pipeline)
{
	const struct hr_moment at = hr_moment_now();
	struct hr_supervised *known = &s->pipeline[pipeline];
	const bool lifts = known->suspended_until_ns > at.now_ns;
	const int err = check(s);

	if (!err)
		hr_timetable_resume(&s->repeat.timetable, pipeline, &at);
	else if (lifts)
		known->deaths = known->suspended_until_ns = 0;
	if (lifts)
		hr_info("pipeline '%s' is not suspended any more, on request",
			s->engine->config.pipeline[pipeline].name);
	return lifts ? 0 : err;
}

int hr_supervisor_reload(struct hr_supervisor *s)
{
	const int err = check(s);

	return err ? err : hr_reload_begin(&s->repeat);
}

static void list_running(const struct hr_supervisor *s, char *text, size_t bytes)
{
	size_t at = 0;

	text[0] = '\0';
	for (uint32_t i = 0; i < s->engine->config.pipelines && at < bytes; i++)
		if (s->repeat.running >> i & 1)
			at += (size_t)snprintf(text + at, bytes - at, "%s%s", at ? "\n" : "",
					       s->engine->config.pipeline[i].name);
}

bool hr_supervisor_reload_result(const struct hr_supervisor *s, bool wait, int *result,
				 struct hr_error *e, struct hr_reload_reply *reply)
{
	const struct hr_repeat *r = &s->repeat;

	if (!hr_reload_is_over(r, wait))
		return false;
	*result = r->reload_result;
	*e = r->reload_error;
	reply->waits = r->next || r->former;
	snprintf(reply->restart, sizeof reply->restart, "%s", r->differences.restart);
	snprintf(reply->changes, sizeof reply->changes, "%s", r->differences.engine);
	list_running(s, reply->running, reply->waits ? sizeof reply->running : 1);
	return true;
}
