/* SPDX-License-Identifier: Apache-2.0 */
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
	return hr_pipeline_reads_from(reader->config, writer->config);
}

bool hr_any_selected(const struct hr_engine *engine)
{
	for (uint32_t i = 0; i < engine->config.pipelines; i++)
		if (engine->run[i].selected)
			return true;
	return false;
}

void hr_stage_error_log(struct hr_engine *engine)
{
	hr_error_log(&engine->error, HR_LOG_ERROR);
	hr_error_clear(&engine->error);
}

static void log_cause(struct hr_engine *engine, int err)
{
	char text[96];

	hr_fail(&engine->error, HR_ERROR_FAILED, err, "%s", hr_error_name(err, text, sizeof text));
	hr_error_log(&engine->error, HR_LOG_ERROR);
}

/* For engine->error. Also leave out the pipelines that read the sink of this one; they come later in
 * the list. */
static void exclude_with_readers(struct hr_engine *engine, uint32_t i, int err)
{
	struct hr_run *run = &engine->run[i];

	if (!run->selected)
		return;
	run->selected = false;
	run->outcome = HR_RUN_FAILED;
	run->error = err;
	run->cause = engine->error;
	for (uint32_t j = i + 1; j < engine->config.pipelines; j++) {
		if (!engine->run[j].selected || !hr_run_reads_sink(&engine->run[j], run))
			continue;
		hr_warn("pipeline '%s' does not run: it reads the sink of pipeline '%s'",
			engine->run[j].config->name, run->config->name);
		exclude_with_readers(engine, j, err);
	}
}

/* When no pipeline is left, the stage fails, and its error is that of the first pipeline. */
static void end_refusal(struct hr_engine *engine)
{
	hr_error_clear(&engine->error);
	for (uint32_t i = 0; !hr_any_selected(engine) && i < engine->config.pipelines; i++) {
		if (!engine->run[i].cause.kind)
			continue;
		engine->error = engine->run[i].cause;
		return;
	}
}

void hr_exclude_run(struct hr_engine *engine, uint32_t i, int err)
{
	log_cause(engine, err);
	exclude_with_readers(engine, i, err);
	end_refusal(engine);
}

void hr_leave_out_run(struct hr_engine *engine, uint32_t i)
{
	engine->run[i].selected = false;
	for (uint32_t j = i + 1; j < engine->config.pipelines; j++)
		if (engine->run[j].selected && hr_run_reads_sink(&engine->run[j], &engine->run[i]))
			hr_leave_out_run(engine, j);
}

void hr_skip_ssd(struct hr_engine *engine, uint32_t d)
{
	engine->left_out[d] = true;
	for (uint32_t i = 0; i < engine->config.pipelines; i++)
		if (engine->run[i].selected && hr_run_uses_ssd(&engine->run[i], d))
			hr_leave_out_run(engine, i);
}

void hr_leave_out_gpu(struct hr_engine *engine, uint32_t g)
{
	engine->gpu_left_out[g] = true;
	engine->gpu_used[g] = false;
	for (uint32_t i = 0; i < engine->config.pipelines; i++)
		if (engine->run[i].selected && hr_config_uses_gpu(engine->run[i].config, g))
			hr_leave_out_run(engine, i);
}

void hr_exclude_ssd(struct hr_engine *engine, uint32_t d, int err)
{
	char text[96];

	log_cause(engine, err);
	engine->left_out[d] = true;
	for (uint32_t i = 0; i < engine->config.pipelines; i++) {
		if (!engine->run[i].selected || !hr_run_uses_ssd(&engine->run[i], d))
			continue;
		hr_warn("pipeline '%s' does not run: ssd '%s': %s", engine->run[i].config->name,
			engine->config.ssd[d].name, hr_error_name(err, text, sizeof text));
		exclude_with_readers(engine, i, err);
	}
	end_refusal(engine);
}

int hr_refuse_blocked(const struct hr_engine *engine, struct hr_error *e)
{
	int err = 0;

	for (uint32_t i = 0; i < engine->config.pipelines; i++) {
		const struct hr_run *run = &engine->run[i];

		if (!run->selected || run->outcome != HR_RUN_WAITING)
			continue;
		hr_warn("pipeline '%s' does not run: an ssd, gpu or pipeline that it needs has failed",
			run->config->name);
		err = hr_fail(e, HR_ERROR_DEVICE, -EIO, "a device that pipelines need has failed");
	}
	return err;
}
