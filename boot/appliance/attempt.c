#include "boot/appliance/attempt.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "boot/cmd/post/post.h"
#include "boot/cmd/report/report.h"
#include "boot/engine/refuse.h"
#include "boot/engine/runner.h"
#include "boot/engine/seal.h"
#include "boot/engine/signals.h"
#include "boot/engine/start.h"
#include "config/clock.h"
#include "config/tick.h"
#include "config/log.h"

void hr_attempt_publish(struct hr_attempt *attempt)
{
	hr_record_take(&attempt->record, attempt->app);
	hr_record_publish(attempt->page, &attempt->record);
}

/* The supervisor reads the line all the time; a line that is full, or without a reader, is no reason
 * to stop. */
static void tell(struct hr_attempt *attempt, enum hr_phase phase)
{
	const unsigned char byte = (unsigned char)phase;

	hr_attempt_publish(attempt);
	if (write(attempt->line, &byte, 1) != 1)
		hr_debug("phase '%s' is not told", hr_phase_name(phase));
}

static int test(struct hr_attempt *attempt)
{
	struct hr_appliance *app = attempt->app;
	struct hr_post post = { .app = app, .out = stdout };

	if (app->config.boot.post == HR_BOOT_POST_OFF)
		return 0;
	tell(attempt, HR_PHASE_POST);
	hr_post_machine(&post);
	if (app->config.boot.post == HR_BOOT_POST_FULL && !post.failed)
		hr_post_ssds(&post);
	hr_info("self-test: %u passed, %u failed, %u skipped", post.passed, post.failed,
		post.skipped);
	if (!post.failed)
		return hr_signals_pending() ? -EINTR : 0;
	for (uint32_t d = 0; d < app->config.ssds; d++)
		if (post.ssd_error[d])
			hr_refuse_ssd(app, d, post.ssd_error[d]);
	return post.machine_failed || !hr_any_selected(app) ? post.error : 0;
}

static void note_start(const struct hr_appliance *app)
{
	for (uint32_t i = 0; i < app->config.pipelines; i++)
		if (app->run[i].first_submit_ns)
			hr_info("pipeline '%s': first tile submitted %.1f ms after the start",
				app->run[i].config->name,
				(double)(app->run[i].first_submit_ns - hr_start_ns()) / 1e6);
}

/* What has not been reported yet, of all pipelines or of those that need not run any more. */
static void report(struct hr_attempt *attempt, bool all)
{
	const struct hr_appliance *app = attempt->app;
	uint32_t which = 0;

	for (uint32_t i = 0; i < app->config.pipelines; i++) {
		struct hr_record_run *run = &attempt->record.run[i];

		if (run->reported || (!all && app->run[i].outcome == HR_RUN_WAITING))
			continue;
		which |= 1u << i;
		run->reported = true;
	}
	if (which)
		hr_report_runs(app, which, stdout);
	fflush(stdout);
	hr_tick_at_once();
}

static bool any_suspect(const struct hr_appliance *app)
{
	for (uint32_t i = 0; i < app->config.pipelines; i++)
		if (app->run[i].selected && app->run[i].suspect)
			return true;
	return false;
}

/* What a suspect may take with it is reported before it runs. */
static int run_all(struct hr_attempt *attempt)
{
	struct hr_appliance *app = attempt->app;
	int first = 0, err;

	if (any_suspect(app)) {
		first = hr_run_trusted(app, false);
		hr_unseal();
		report(attempt, false);
		hr_seal();
	}
	err = hr_run_all(app, false);
	return hr_gone(first ? first : err);
}

static int run(struct hr_attempt *attempt)
{
	struct hr_appliance *app = attempt->app;
	uint64_t began;
	int err;

	tell(attempt, HR_PHASE_BRING_UP);
	err = hr_appliance_up(app, HR_STAGE_QUEUES);
	if (err)
		return err;
	attempt->record.has_run = true;
	tell(attempt, HR_PHASE_RUNNING);
	began = hr_now_ns();
	err = run_all(attempt);
	attempt->record.ran_ns = hr_now_ns() - began;
	hr_unseal();
	note_start(app);
	report(attempt, true);
	tell(attempt, HR_PHASE_GOING_DOWN);
	hr_appliance_down(app);
	return err;
}

int hr_attempt_make(struct hr_attempt *attempt)
{
	struct hr_record *record = &attempt->record;
	int err = test(attempt);

	if (!err)
		err = run(attempt);
	record->error = err;
	record->refused = attempt->app->refused;
	record->stuck = attempt->app->stuck;
	record->mute = fflush(stdout) != 0 || ferror(stdout);
	record->finished = true;
	hr_attempt_publish(attempt);
	return err;
}
