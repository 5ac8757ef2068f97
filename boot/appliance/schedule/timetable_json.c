/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/appliance/schedule/timetable.h"

#include "boot/appliance/schedule/local_time.h"
#include "config/base/clock.h"
#include "config/derived.h"

const char *hr_start_outcome_name(const struct hr_start *start)
{
	static const char *const name[HR_START_OUTCOMES] = {
		[HR_START_NONE] = "none",
		[HR_START_RUNNING] = "running",
		[HR_START_DONE] = "done",
		[HR_START_FAILED] = "failed",
		[HR_START_INTERRUPTED] = "interrupted",
	};

	return start->outcome < HR_START_OUTCOMES ? name[start->outcome] : "?";
}

static void put_time(struct hr_json *j, const char *name, uint64_t wall_ns)
{
	char text[32];

	if (wall_ns)
		hr_json_string(j, name, hr_utc_text(wall_ns, text, sizeof text));
}

void hr_timetable_json(struct hr_json *j, const struct hr_timetable *t, uint32_t i,
		       const struct hr_moment *at)
{
	const struct hr_start *start = &t->starts.start[i];
	char when[HR_NAME_MAX + 16];
	uint64_t in_ns;
	const enum hr_wait_for what = hr_timetable_wait(t, i, at, &in_ns);

	hr_json_string(j, "when", hr_when_text(&t->config->pipeline[i].when, when, sizeof when));
	hr_json_string(j, "waits_for", hr_wait_text(what));
	put_time(j, "last_start_utc", start->started_ns);
	put_time(j, "last_end_utc", start->ended_ns);
	hr_json_string(j, "last_outcome", hr_start_outcome_name(start));
	if (in_ns != UINT64_MAX) {
		hr_json_u64(j, "next_start_in_ms", in_ns / HR_NS_PER_MS);
		put_time(j, "next_start_utc", hr_wall_is_set(at) ? at->wall_ns + in_ns : 0);
	}
	hr_json_u64(j, "starts_count", start->starts);
	hr_json_u64(j, "done_count", start->done);
	hr_json_u64(j, "failures_count", start->failures);
	hr_json_u64(j, "skipped_count", start->skipped);
	hr_json_bool(j, "paused", start->flags & HR_START_PAUSED);
}
