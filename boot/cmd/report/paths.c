/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/cmd/report/parts.h"
#include "boot/engine/shape/paths.h"
#include "config/derived.h"

/* Iterate over the distinct ssds of a run; false at the end. `at` starts as 0. */
static bool next_ssd(const struct hr_engine *engine, const struct hr_run *run, uint32_t *at,
		     uint32_t *d)
{
	for (; *at < engine->config.ssds; ++*at) {
		if (hr_config_uses_ssd(run->config, *at)) {
			*d = (*at)++;
			return true;
		}
	}
	return false;
}

static void print_paths(const struct hr_engine *engine, const struct hr_run *run, uint32_t g,
			const char *indent, FILE *out)
{
	for (uint32_t at = 0, d; next_ssd(engine, run, &at, &d);) {
		const struct hr_path *path = &engine->path[g][d];

		if (path->pair)
			fprintf(out, "%s%s (%s) to %s (%s): %s, %s by rule %s: %s\n", indent,
				engine->config.ssd[d].name, engine->ssd[d].transport.name,
				engine->config.gpu[g].name, hr_gpu_address(&engine->backend[g]),
				path->direct ? "direct" : "bounce", path->verdict, path->rule,
				path->why);
	}
}

void hr_report_paths(const struct hr_engine *engine, const struct hr_run *run, const char *indent,
		     FILE *out)
{
	for (uint32_t p = 0; p < hr_run_gpus(run); p++)
		print_paths(engine, run, hr_config_gpu(run->config, p), indent, out);
}

static void path_json(const struct hr_engine *engine, uint32_t g, uint32_t d, struct hr_json *out)
{
	const struct hr_path *path = &engine->path[g][d];

	hr_json_object(out, NULL);
	hr_json_string(out, "ssd", engine->config.ssd[d].name);
	hr_json_string(out, "gpu", engine->config.gpu[g].name);
	hr_json_bool(out, "direct", path->direct);
	hr_json_string(out, "why", path->why);
	if (path->pair) {
		hr_json_string(out, "ssd_address", engine->ssd[d].transport.name);
		hr_json_string(out, "gpu_address", hr_gpu_address(&engine->backend[g]));
		hr_json_string(out, "verdict", path->verdict);
		hr_json_string(out, "rule", path->rule);
	}
	hr_json_close(out);
}

void hr_report_head_json(const struct hr_engine *engine, const struct hr_run *run,
			 struct hr_json *out)
{
	hr_json_string(out, "name", run->config->name);
	hr_json_string(out, "operator", run->config->op->name);
	hr_config_gpus_json(&engine->config, run->config, out);
	hr_json_string(out, "path", hr_run_path(engine, run));
	hr_json_array(out, "paths");
	for (uint32_t p = 0; p < hr_run_gpus(run); p++)
		for (uint32_t at = 0, d; next_ssd(engine, run, &at, &d);)
			path_json(engine, hr_config_gpu(run->config, p), d, out);
	hr_json_close(out);
}
