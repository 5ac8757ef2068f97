/*
 * Pipelines and ssds that the appliance goes on without, where it is to keep going.
 */

#include "boot/engine/refuse.h"

#include <string.h>

#include "config/log.h"
#include "nvme/status.h"

bool hr_run_uses_ssd(const struct hr_run *run, uint32_t d)
{
	for (uint32_t s = 0; s < run->config->sources; s++)
		if (run->config->source[s].ssd == d)
			return true;
	return run->config->has_sink && run->config->sink.ssd == d;
}

bool hr_run_reads_sink(const struct hr_run *reader, const struct hr_run *writer)
{
	const struct hr_config_pipeline *p = reader->config;
	const struct hr_config_object *sink = &writer->config->sink;

	for (uint32_t s = 0; writer->config->has_sink && s < p->sources; s++)
		if (p->source[s].ssd == sink->ssd && strcmp(p->source[s].object, sink->object) == 0)
			return true;
	return false;
}

bool hr_any_selected(const struct hr_appliance *app)
{
	for (uint32_t i = 0; i < app->config.pipelines; i++)
		if (app->run[i].selected)
			return true;
	return false;
}

/* Those that read what this one was to write have nothing to read; they come later in the list. */
void hr_refuse_run(struct hr_appliance *app, uint32_t i, int err)
{
	struct hr_run *run = &app->run[i];

	if (!run->selected)
		return;
	run->selected = false;
	run->outcome = HR_RUN_FAILED;
	run->error = err;
	for (uint32_t j = i + 1; j < app->config.pipelines; j++) {
		if (!app->run[j].selected || !hr_run_reads_sink(&app->run[j], run))
			continue;
		hr_warn("pipeline '%s' does not run: it reads what pipeline '%s' writes",
			app->run[j].config->name, run->config->name);
		hr_refuse_run(app, j, err);
	}
}

static void leave_out_run(struct hr_appliance *app, uint32_t i)
{
	app->run[i].selected = false;
	for (uint32_t j = i + 1; j < app->config.pipelines; j++)
		if (app->run[j].selected && hr_run_reads_sink(&app->run[j], &app->run[i]))
			leave_out_run(app, j);
}

void hr_leave_out_ssd(struct hr_appliance *app, uint32_t d)
{
	app->left_out[d] = true;
	for (uint32_t i = 0; i < app->config.pipelines; i++)
		if (app->run[i].selected && hr_run_uses_ssd(&app->run[i], d))
			leave_out_run(app, i);
}

void hr_refuse_ssd(struct hr_appliance *app, uint32_t d, int err)
{
	char text[96];

	app->left_out[d] = true;
	for (uint32_t i = 0; i < app->config.pipelines; i++) {
		if (!app->run[i].selected || !hr_run_uses_ssd(&app->run[i], d))
			continue;
		hr_warn("pipeline '%s' does not run: ssd '%s': %s", app->run[i].config->name,
			app->config.ssd[d].name, hr_error_name(err, text, sizeof text));
		hr_refuse_run(app, i, err);
	}
}
