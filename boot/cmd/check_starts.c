#include "boot/cmd/check_starts.h"

#include <errno.h>

#include "boot/appliance/schedule/local_time.h"
#include "boot/appliance/schedule/timetable_json.h"
#include "config/base/text.h"
#include "boot/appliance/schedule/starts.h"
#include "config/base/clock.h"
#include "config/derived.h"

/* The timetable at a boot now. */
static void begin(struct hr_appliance *app, struct hr_timetable *t, const struct hr_moment *at)
{
	struct hr_starts starts;
	struct hr_error e = { 0 };
	const int err = hr_starts_read(app, &starts, &e);

	if (err && err != -ENOENT)
		hr_error_log(&e, HR_LOG_WARN);
	hr_timetable_begin(t, &app->config, starts.sequence ? &starts : NULL, at);
	for (uint32_t i = 0; i < app->config.pipelines; i++) {
		const struct hr_config_when *when = &app->config.pipeline[i].when;
		const struct hr_ssd *ssd = &app->ssd[when->object_ssd];
		const struct hr_store_object *object =
			when->kind == HR_WHEN_OBJECT && ssd->has_store
				? hr_store_find(&ssd->store, when->text)
				: NULL;

		hr_timetable_object(t, i, object ? object->id : 0, at);
	}
	hr_timetable_look(t, at);
}

static const char *next(const struct hr_timetable *t, uint32_t i, const struct hr_moment *at,
			char *text, size_t bytes)
{
	char in[48], when[64] = "";
	uint64_t in_ns;
	const enum hr_wait_for what = hr_timetable_wait(t, i, at, &in_ns);

	if (what == HR_WAIT_NOTHING) {
		snprintf(text, bytes, "at boot");
	} else if (in_ns == UINT64_MAX) {
		snprintf(text, bytes, "waits for: %s", hr_wait_text(what));
	} else {
		if (hr_wall_is_set(at))
			hr_local_text(at->wall_ns + in_ns, when, sizeof when);
		snprintf(text, bytes, "%s%sin %s", when, when[0] ? ", " : "",
			 hr_span_format(in, sizeof in, in_ns));
	}
	return text;
}

/* Without its objects, the size of a pipeline's memory and sink is not known. */
static void note_awaited(const struct hr_appliance *app, FILE *out)
{
	for (uint32_t i = 0; i < app->config.pipelines; i++) {
		const struct hr_config_object *object = app->run[i].awaits;

		if (object)
			fprintf(out,
				"note: pipeline '%s' waits for object '%s' on ssd '%s', which does "
				"not exist yet; its memory and sink are not checked\n",
				app->config.pipeline[i].name, object->object,
				app->config.ssd[object->ssd].name);
	}
}

void hr_report_starts(struct hr_appliance *app, FILE *out)
{
	const struct hr_moment at = hr_moment_now();
	char when[HR_NAME_MAX + 16], last[64], text[160];
	struct hr_timetable t;

	if (!hr_config_repeats(&app->config))
		return;
	begin(app, &t, &at);
	fprintf(out, "\n%-16s %-20s %-26s %-12s next start, if boot began now\n", "pipeline",
		"starts", "last start", "outcome");
	for (uint32_t i = 0; i < app->config.pipelines; i++) {
		const struct hr_start *start = &t.starts.start[i];

		fprintf(out, "%-16s %-20s %-26s %-12s %s\n", start->name,
			hr_when_text(&app->config.pipeline[i].when, when, sizeof when),
			start->started_ns ? hr_local_text(start->started_ns, last, sizeof last)
					  : "-",
			hr_start_outcome_name(start), next(&t, i, &at, text, sizeof text));
	}
	note_awaited(app, out);
}

void hr_report_starts_json(struct hr_appliance *app, struct hr_json *report)
{
	const struct hr_moment at = hr_moment_now();
	struct hr_timetable t;

	if (!hr_config_repeats(&app->config))
		return;
	begin(app, &t, &at);
	hr_json_array(report, "starts");
	for (uint32_t i = 0; i < app->config.pipelines; i++) {
		hr_json_object(report, NULL);
		hr_json_string(report, "name", app->config.pipeline[i].name);
		hr_timetable_json(report, &t, i, &at);
		if (app->run[i].awaits)
			hr_json_string(report, "awaits_object", app->run[i].awaits->object);
		hr_json_close(report);
	}
	hr_json_close(report);
}
