#include "boot/cmd/report/json.h"
#include "boot/cmd/report/report.h"
#include "boot/engine/paths.h"

/* The distinct ssds of a run, one after another; false at the end. `at` starts as 0. */
static bool next_ssd(const struct hr_appliance *app, const struct hr_run *run, uint32_t *at,
		     uint32_t *d)
{
	const struct hr_config_pipeline *p = run->config;

	for (; *at < app->config.ssds; ++*at) {
		bool uses = p->has_sink && p->sink.ssd == *at;

		for (uint32_t s = 0; s < p->sources; s++)
			uses |= p->source[s].ssd == *at;
		if (uses) {
			*d = (*at)++;
			return true;
		}
	}
	return false;
}

void hr_report_paths(const struct hr_appliance *app, const struct hr_run *run, const char *indent,
		     FILE *out)
{
	const uint32_t g = run->config->gpu;

	for (uint32_t at = 0, d; next_ssd(app, run, &at, &d);) {
		const struct hr_path *path = &app->path[g][d];

		if (path->pair)
			fprintf(out, "%s%s (%s) to %s (%s): %s, %s by rule %s: %s\n", indent,
				app->config.ssd[d].name, app->ssd[d].transport.name,
				app->config.gpu[g].name, hr_gpu_address(&app->backend[g]),
				path->direct ? "direct" : "bounce", path->verdict, path->rule,
				path->why);
	}
}

void hr_report_paths_json(const struct hr_appliance *app, const struct hr_run *run,
			  struct json_object *out)
{
	struct json_object *list = hr_json_array(out, "paths");
	const uint32_t g = run->config->gpu;

	for (uint32_t at = 0, d; next_ssd(app, run, &at, &d);) {
		const struct hr_path *path = &app->path[g][d];
		struct json_object *one = hr_json_append(list);

		hr_json_string(one, "ssd", app->config.ssd[d].name);
		hr_json_bool(one, "direct", path->direct);
		hr_json_string(one, "why", path->why);
		if (!path->pair)
			continue;
		hr_json_string(one, "ssd_address", app->ssd[d].transport.name);
		hr_json_string(one, "gpu_address", hr_gpu_address(&app->backend[g]));
		hr_json_string(one, "verdict", path->verdict);
		hr_json_string(one, "rule", path->rule);
	}
}
