/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/appliance/schedule/timetable.h"

static bool is_due(const struct hr_start *start)
{
	return start->flags & HR_START_DUE;
}

const char *hr_wait_text(enum hr_wait_for what)
{
	static const char *const text[] = {
		[HR_WAIT_NOTHING] = "nothing",
		[HR_WAIT_TIME] = "time",
		[HR_WAIT_CLOCK] = "clock",
		[HR_WAIT_EVENT] = "event",
		[HR_WAIT_OBJECT] = "object",
		[HR_WAIT_PAUSE] = "pause after a failure",
		[HR_WAIT_SUSPENSION] = "the end of its suspension",
		[HR_WAIT_RESUME] = "resume",
		[HR_WAIT_END] = "its own end",
		[HR_WAIT_NEVER] = "never",
	};

	return text[what];
}

static enum hr_wait_for wait_for_time(const struct hr_config_when *when,
				      const struct hr_timetable_entry *timed,
				      const struct hr_moment *at, uint64_t *in_ns)
{
	uint64_t next;

	switch (when->kind) {
	case HR_WHEN_EVERY:
		*in_ns = timed->next_ns > at->now_ns ? timed->next_ns - at->now_ns : 0;
		return HR_WAIT_TIME;
	case HR_WHEN_AT:
		if (!hr_wall_is_set(at))
			return HR_WAIT_CLOCK;
		next = timed->next_wall_ns ? timed->next_wall_ns
					   : hr_when_next_ns(when, at->wall_ns);
		*in_ns = next > at->wall_ns ? next - at->wall_ns : 0;
		return HR_WAIT_TIME;
	case HR_WHEN_OBJECT:
		return timed->version ? HR_WAIT_EVENT : HR_WAIT_OBJECT;
	case HR_WHEN_AFTER:
	case HR_WHEN_REQUEST:
		return HR_WAIT_EVENT;
	case HR_WHEN_ONCE:
	case HR_WHEN_FOREVER:
		break;
	}
	return HR_WAIT_NEVER;
}

static enum hr_wait_for wait_suspended(const struct hr_timetable *t, uint32_t i,
				       const struct hr_moment *at, uint64_t *in_ns)
{
	const uint64_t left_ns = hr_timetable_suspended_ns(t, i, at);

	*in_ns = 0;
	if (!is_due(&t->starts.start[i])) {
		*in_ns = UINT64_MAX;
		wait_for_time(&t->config->pipeline[i].when, &t->timed[i], at, in_ns);
	}
	*in_ns = *in_ns > left_ns ? *in_ns : left_ns;
	return HR_WAIT_SUSPENSION;
}

enum hr_wait_for hr_timetable_wait(const struct hr_timetable *t, uint32_t i,
				   const struct hr_moment *at, uint64_t *in_ns)
{
	const struct hr_start *start = &t->starts.start[i];
	const struct hr_timetable_entry *timed = &t->timed[i];

	*in_ns = UINT64_MAX;
	if (timed->over)
		return HR_WAIT_NEVER;
	if (start->flags & HR_START_PAUSED)
		return HR_WAIT_RESUME;
	if (timed->running && is_due(start))
		return HR_WAIT_END;
	if (hr_timetable_suspended_ns(t, i, at) && !timed->running)
		return wait_suspended(t, i, at, in_ns);
	if (is_due(start)) {
		*in_ns = timed->not_before_ns > at->now_ns ? timed->not_before_ns - at->now_ns : 0;
		return *in_ns ? HR_WAIT_PAUSE : HR_WAIT_NOTHING;
	}
	return wait_for_time(&t->config->pipeline[i].when, timed, at, in_ns);
}

uint64_t hr_timetable_next_ns(struct hr_timetable *t, const struct hr_moment *at)
{
	uint64_t first = HR_LATE_NS, in_ns;

	hr_timetable_advance(t, at);
	for (uint32_t i = 0; i < t->config->pipelines; i++) {
		hr_timetable_wait(t, i, at, &in_ns);
		if (in_ns) /* a start that is due already is no future event */
			first = in_ns < first ? in_ns : first;
	}
	return at->now_ns + first;
}
