/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/appliance/attempt/attempt.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "boot/appliance/attempt/dispatch.h"
#include "boot/appliance/attempt/remember.h"
#include "boot/cmd/post/post.h"
#include "boot/cmd/report/reports.h"
#include "boot/engine/exclude.h"
#include "boot/engine/runner/runner.h"
#include "config/base/process.h"
#include "config/base/clock.h"
#include "config/file/file.h"
#include "config/base/tick.h"
#include "config/base/log.h"
#include "config/derived.h"

/* Time of the self-test for the data of all pairs of gpus and ssds: it delays the first run. */
#define PAIRS_NS (HR_NS_PER_S / 4)

static int test(struct hr_attempt *attempt)
{
	struct hr_engine *engine = attempt->engine;
	static struct hr_post post; /* one per process */

	if (engine->config.boot.post == HR_BOOT_POST_OFF)
		return 0;
	memset(&post, 0, sizeof post);
	post.engine = engine;
	post.out = stdout;
	post.pairs_ns = PAIRS_NS;
	hr_attempt_tell(attempt, HR_PHASE_POST);
	hr_post_machine(&post);
	if (engine->config.boot.post == HR_BOOT_POST_FULL && !post.failed)
		hr_post_ssds(&post);
	hr_info("self-test: %u passed, %u failed, %u skipped", post.passed, post.failed,
		post.skipped);
	if (!post.failed)
		return hr_signals_pending() ? -EINTR : 0;
	for (uint32_t d = 0; d < engine->config.ssds; d++) {
		if (!post.ssd_error[d])
			continue;
		engine->error = post.ssd_cause[d];
		hr_exclude_ssd(engine, d, post.ssd_error[d]);
	}
	if (!post.machine_failed && hr_any_selected(engine))
		return 0;
	engine->error = post.cause;
	return post.error;
}

static void note_start(const struct hr_engine *engine)
{
	for (uint32_t i = 0; i < engine->config.pipelines; i++)
		if (engine->run[i].first_submit_ns)
			hr_info("pipeline '%s': first tile submitted %.1f ms after the start",
				engine->run[i].config->name,
				(double)(engine->run[i].first_submit_ns - hr_exec_ns()) / 1e6);
}

static bool any_suspect(const struct hr_engine *engine)
{
	for (uint32_t i = 0; i < engine->config.pipelines; i++)
		if (engine->run[i].selected && engine->run[i].suspect)
			return true;
	return false;
}

/*
 * A pipeline that failed before may end the engine, so all finished results are reported before it
 * runs.
 */
static int run_all(struct hr_attempt *attempt)
{
	struct hr_engine *engine = attempt->engine;
	int first = 0, err;

	if (any_suspect(engine)) {
		first = hr_run_trusted(engine, false, &engine->error);
		hr_unseal();
		hr_attempt_report(attempt, false);
		hr_seal();
	}
	err = hr_run_all(engine, false, &engine->error);
	return hr_vanished_error(first ? first : err);
}

static int run_attempt(struct hr_attempt *attempt)
{
	struct hr_engine *engine = attempt->engine;
	uint64_t began;
	int err;

	hr_attempt_tell(attempt, HR_PHASE_BRING_UP);
	err = hr_engine_up(engine, HR_STAGE_QUEUES);
	if (err)
		return err;
	attempt->record.has_run = true;
	hr_attempt_load_history(attempt);
	hr_attempt_tell(attempt, HR_PHASE_RUNNING);
	began = hr_now_ns();
	err = hr_attempt_open_services(attempt, NULL, NULL);
	if (!err)
		err = run_all(attempt);
	hr_attempt_close_services(attempt);
	attempt->record.ran_ns = hr_now_ns() - began;
	hr_unseal();
	note_start(engine);
	hr_attempt_report(attempt, true);
	hr_attempt_tell(attempt, HR_PHASE_GOING_DOWN);
	hr_engine_down(engine);
	return err;
}

/* The supervisor has not loaded user operators. */
static int load_operators(struct hr_config *config, struct hr_error *e)
{
	const int err = hr_config_operators_load(config, e);

	hr_error_log(e, HR_LOG_ERROR);
	return err;
}

int hr_attempt_make(struct hr_attempt *attempt)
{
	struct hr_record *record = &attempt->record;
	int err = load_operators(&attempt->engine->config, &attempt->engine->error);

	if (!err)
		err = test(attempt);
	if (!err)
		err = hr_config_repeats(&attempt->engine->config) ? hr_dispatch_serve(attempt)
								  : run_attempt(attempt);
	hr_record_put_error(&record->error, err, &attempt->engine->error);
	record->refused = attempt->engine->refused;
	record->mute = fflush(stdout) != 0 || ferror(stdout);
	record->finished = true;
	hr_attempt_publish(attempt);
	return err;
}
