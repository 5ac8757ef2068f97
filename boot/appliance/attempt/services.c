/* SPDX-License-Identifier: Apache-2.0 */
/* What an attempt and its dispatches need while pipelines run: the record, the history, and the
 * services for clients. */
#include "boot/appliance/attempt/attempt.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "boot/appliance/attempt/remember.h"
#include "boot/cmd/report/reports.h"
#include "config/base/log.h"
#include "config/base/tick.h"
#include "config/derived.h"

void hr_attempt_publish(struct hr_attempt *attempt)
{
	hr_record_update(&attempt->record, attempt->engine);
	hr_store_service_snapshot(&attempt->service, &attempt->record.store);
	hr_lend_service_snapshot(&attempt->lend, attempt->record.consumer,
				 attempt->record.producer);
	hr_record_publish(attempt->page, &attempt->record);
}

/*
 * The supervisor reads the pipe all the time. A full pipe, or a pipe without a reader, does not
 * stop the engine.
 */
void hr_attempt_tell(struct hr_attempt *attempt, enum hr_phase phase)
{
	const unsigned char byte = (unsigned char)phase;

	hr_attempt_publish(attempt);
	if (write(attempt->phases, &byte, 1) != 1)
		hr_debug("phase '%s' cannot be sent to the supervisor", hr_phase_name(phase));
}

static void note_history(struct hr_error *e, int err)
{
	static int last;

	if (err && err != last) {
		hr_error_context(e, "the history of runs is not durable");
		hr_error_log(e, HR_LOG_WARN);
	}
	last = err;
}

void hr_attempt_load_history(struct hr_attempt *attempt)
{
	struct hr_error e = { 0 };

	note_history(&e, hr_history_load(attempt->engine, &attempt->page->history, &e));
}

void hr_attempt_remember(struct hr_attempt *attempt, uint32_t i, uint64_t start)
{
	struct hr_history *history = &attempt->page->history;
	struct hr_error e = { 0 };

	hr_remember_run(history, attempt->engine, i, start);
	note_history(&e, hr_history_save(attempt->engine, history, &e));
}

/*
 * Report the results of all pipelines, or only of those that need not run again, unless reported
 * before. An appliance of months starts pipelines that repeat a million times: their results are
 * printed only when the configuration says so.
 */
void hr_attempt_report(struct hr_attempt *attempt, bool all)
{
	const struct hr_engine *engine = attempt->engine;
	uint32_t which = 0;

	for (uint32_t i = 0; i < engine->config.pipelines; i++) {
		struct hr_record_run *run = &attempt->record.run[i];

		if (run->reported || (!all && engine->run[i].outcome == HR_RUN_WAITING))
			continue;
		which |= 1u << i;
		run->reported = true;
		if (attempt->dispatch < 0 && engine->run[i].selected &&
		    engine->run[i].outcome != HR_RUN_WAITING)
			hr_attempt_remember(attempt, i, 0);
	}
	if (which && (engine->config.boot.results || !hr_config_repeats(&engine->config)))
		hr_report_runs(engine, which, stdout);
	fflush(stdout);
	hr_tick_at_once();
}

static void step_services(void *to)
{
	struct hr_attempt *attempt = to;

	hr_store_service_step(&attempt->service);
	hr_lend_service_step(&attempt->lend);
}

/* The dispatch socket and consumers end the wait of the service's owner, too. */
static void open_store(struct hr_attempt *attempt, void (*changed)(void *to), void *to)
{
	struct hr_error e = { 0 };

	if (hr_store_service_open(&attempt->service, attempt->engine, attempt->clients, &e) != 0) {
		hr_error_log(&e, HR_LOG_WARN);
		return;
	}
	hr_store_service_wake_by(&attempt->service, attempt->dispatch);
	hr_store_service_wake_by(&attempt->service, attempt->lend.taps.wake);
	attempt->service.changed = changed;
	attempt->service.to = to;
}

int hr_attempt_open_services(struct hr_attempt *attempt, void (*changed)(void *to), void *to)
{
	struct hr_engine *engine = attempt->engine;
	const int err = hr_lend_service_open(&attempt->lend, engine, attempt->sockets, true,
					     &engine->error);

	if (err) {
		hr_error_log(&engine->error, HR_LOG_ERROR);
		return err;
	}
	open_store(attempt, changed, to);
	engine->serve = step_services;
	engine->serve_to = attempt;
	return 0;
}

void hr_attempt_close_services(struct hr_attempt *attempt)
{
	hr_store_service_close(&attempt->service);
	hr_lend_service_close(&attempt->lend);
}
