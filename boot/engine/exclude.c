/*
 * Pipelines and ssds that the appliance leaves out, when it may continue without them.
 */

#include "boot/engine/exclude.h"

#include "boot/engine/concurrency.h"
#include "config/base/log.h"
#include "config/derived.h"
#include "nvme/queue/status.h"

bool hr_run_uses_ssd(const struct hr_run *run, uint32_t d)
{
	return hr_config_uses_ssd(run->config, d);
}

bool hr_run_reads_sink(const struct hr_run *reader, const struct hr_run *writer)
{
	return hr_schedule_reads(reader->config, writer->config);
}

bool hr_any_selected(const struct hr_appliance *app)
{
	for (uint32_t i = 0; i < app->config.pipelines; i++)
		if (app->run[i].selected)
			return true;
	return false;
}

void hr_stage_error_log(struct hr_appliance *app)
{
	hr_error_log(&app->error, HR_LOG_ERROR);
	hr_error_clear(&app->error);
}

static void log_cause(struct hr_appliance *app, int err)
{
	char text[96];

	hr_fail(&app->error, HR_ERROR_FAILED, err, "%s", hr_error_name(err, text, sizeof text));
	hr_error_log(&app->error, HR_LOG_ERROR);
}

/* For app->error. Also leave out the pipelines that read the sink of this one; they come later in
 * the list. */
static void refuse(struct hr_appliance *app, uint32_t i, int err)
{
	struct hr_run *run = &app->run[i];

	if (!run->selected)
		return;
	run->selected = false;
	run->outcome = HR_RUN_FAILED;
	run->error = err;
	run->cause = app->error;
	for (uint32_t j = i + 1; j < app->config.pipelines; j++) {
		if (!app->run[j].selected || !hr_run_reads_sink(&app->run[j], run))
			continue;
		hr_warn("pipeline '%s' does not run: it reads the sink of pipeline '%s'",
			app->run[j].config->name, run->config->name);
		refuse(app, j, err);
	}
}

/* When no pipeline is left, the stage fails, and its error is that of the first pipeline. */
static void end_refusal(struct hr_appliance *app)
{
	hr_error_clear(&app->error);
	for (uint32_t i = 0; !hr_any_selected(app) && i < app->config.pipelines; i++) {
		if (!app->run[i].cause.kind)
			continue;
		app->error = app->run[i].cause;
		return;
	}
}

void hr_refuse_run(struct hr_appliance *app, uint32_t i, int err)
{
	log_cause(app, err);
	refuse(app, i, err);
	end_refusal(app);
}

void hr_leave_out_run(struct hr_appliance *app, uint32_t i)
{
	app->run[i].selected = false;
	for (uint32_t j = i + 1; j < app->config.pipelines; j++)
		if (app->run[j].selected && hr_run_reads_sink(&app->run[j], &app->run[i]))
			hr_leave_out_run(app, j);
}

void hr_leave_out_ssd(struct hr_appliance *app, uint32_t d)
{
	app->left_out[d] = true;
	for (uint32_t i = 0; i < app->config.pipelines; i++)
		if (app->run[i].selected && hr_run_uses_ssd(&app->run[i], d))
			hr_leave_out_run(app, i);
}

void hr_leave_out_gpu(struct hr_appliance *app, uint32_t g)
{
	app->gpu_left_out[g] = true;
	app->gpu_used[g] = false;
	for (uint32_t i = 0; i < app->config.pipelines; i++)
		if (app->run[i].selected && hr_config_uses_gpu(app->run[i].config, g))
			hr_leave_out_run(app, i);
}

void hr_refuse_ssd(struct hr_appliance *app, uint32_t d, int err)
{
	char text[96];

	log_cause(app, err);
	app->left_out[d] = true;
	for (uint32_t i = 0; i < app->config.pipelines; i++) {
		if (!app->run[i].selected || !hr_run_uses_ssd(&app->run[i], d))
			continue;
		hr_warn("pipeline '%s' does not run: ssd '%s': %s", app->run[i].config->name,
			app->config.ssd[d].name, hr_error_name(err, text, sizeof text));
		refuse(app, i, err);
	}
	end_refusal(app);
}

int hr_refuse_blocked(const struct hr_appliance *app, struct hr_error *e)
{
	int err = 0;

	for (uint32_t i = 0; i < app->config.pipelines; i++) {
		const struct hr_run *run = &app->run[i];

		if (!run->selected || run->outcome != HR_RUN_WAITING)
			continue;
		hr_warn("pipeline '%s' does not run: an ssd, gpu or pipeline that it needs has failed",
			run->config->name);
		err = hr_fail(e, HR_ERROR_DEVICE, -EIO, "a device that pipelines need has failed");
	}
	return err;
}
