/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests to a supervisor, of the control socket and by SIGHUP: what each does, the state of a start,
 * and the text of each refusal.
 */
#include "boot/appliance/control/control.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "boot/appliance/supervisor/repeat.h"
#include "config/base/process.h"
#include "tests/fakes/log.h"
#include "tests/harness/ask.h"

#define ROWS(table) (sizeof(table) / sizeof(*(table)))
#define NO_PROCESS 0x7fffffff /* a number that no process has */

static struct hr_engine *engine;
static struct hr_repeat *r;
static struct hr_start *start; /* of pipeline 1 */

/* Two pipelines that start on request; an engine has read the starts. */
static void begin(void)
{
	engine = calloc(1, sizeof *engine);
	r = calloc(1, sizeof *r);
	cr_assert(engine && r);
	engine->config.file = "f";
	engine->config.pipelines = 2;
	strcpy(engine->config.pipeline[0].name, "first");
	strcpy(engine->config.pipeline[1].name, "second");
	for (uint32_t i = 0; i < 2; i++)
		engine->config.pipeline[i].when.kind = HR_WHEN_REQUEST;
	r->engine = engine;
	r->on = r->begun = true;
	r->timetable.config = &engine->config;
	start = &r->timetable.starts.start[1];
	ask_open(engine, r);
}

static void end(void)
{
	hr_reload_close(r);
	free(engine);
	free(r);
}

TestSuite(act, .init = begin, .fini = end, .timeout = 60);

static void expect_refusal(const char *text, const char *want)
{
	cr_expect_str_eq(text, want, "%s", text);
	cr_expect(ask_over);
	cr_expect_eq(ask_control.e.kind, HR_ERROR_FAILED);
}

/* ---- starts */

Test(act, a_start_has_the_next_number)
{
	uint64_t number = 0;

	start->starts = 6;
	cr_expect_str_empty(ask_start("second", &number));
	cr_expect_eq(number, 7);
	cr_expect(start->flags & HR_START_DUE);
	cr_expect_not(r->timetable.starts.start[0].flags & HR_START_DUE);
	cr_expect(ask_over && strstr(ask_reply(), "\"start\": 7, \"result\": \"accepted\""));
}

Test(act, each_refusal_of_a_start_has_its_text)
{
	uint64_t number = 77;

	start->flags = HR_START_PAUSED;
	expect_refusal(ask_start("second", &number), ASK_PAUSED("second"));
	r->begun = false;
	expect_refusal(ask_start("second", &number), ASK_TOO_EARLY);
	r->on = false;
	expect_refusal(ask_start("second", &number), ASK_EACH_RUNS_ONCE);
	r->on = r->begun = true;
	start->flags = 0;
	hr_info("no message of a request");
	cr_expect_str_empty(ask_request(HR_REQUEST_STOP, "", false));
	cr_expect_str_eq(fake_log_last_of(HR_LOG_INFO), "a request stops the appliance");
	cr_expect_eq(hr_signals_which(), SIGTERM);
	expect_refusal(ask_start("second", &number), ASK_STOPS);
	cr_expect_eq(number, 77);
	cr_expect_not(start->flags & HR_START_DUE);
}

#define CANCELLED \
	"pipeline 'second', start 20: cancelled before it began, by a pause, a reload or a stop"

/* Start 20 of the pipeline; eight results are known. */
Test(act, the_state_of_a_start)
{
	static const struct {
		uint64_t starts;
		uint32_t flags;
		bool running, unknown;
		int result;
		const char *text; /* NULL: it has not ended */
	} row[] = {
		{ 19, HR_START_DUE, 0, 0, 5, NULL },
		{ 19, 0, 0, 0, 5, CANCELLED },
		{ 19, HR_START_PAUSED, true, 0, 5, CANCELLED },
		{ 20, 0, true, 0, 5, NULL },
		{ 20, 0, false, 0, 0, "" },
		{ 21, 0, true, 0, 0, "" },
		{ 27, 0, false, 0, 0, "" },
		{ 28, 0, false, 0, 0, CANCELLED },
		{ 20, 0, false, true, 0, CANCELLED },
		{ 20, 0, false, 0, -EIO, "pipeline 'second', start 20: Input/output error" },
		{ 20, 0, false, 0, -ENOENT, "pipeline 'second', start 20: the text of the record" },
	};

	ask_status.record.run[1].error =
		(struct hr_record_error){ .kind = HR_ERROR_USAGE, .code = -ENOENT };
	strcpy(ask_status.record.run[1].error.text, "the text of the record");
	for (size_t i = 0; i < ROWS(row); i++) {
		const char *text;

		start->starts = row[i].starts;
		start->flags = row[i].flags;
		r->begun = !row[i].unknown;
		r->timetable.timed[1].running = row[i].running;
		for (unsigned k = 0; k < HR_REPEAT_RESULTS; k++)
			r->result[1][k] = k == 20 % HR_REPEAT_RESULTS ? row[i].result : 1;
		text = ask_end(HR_REQUEST_TRIGGER, true, "second", 20);
		cr_assert_eq(!text, !row[i].text, "row %zu", i);
		if (text)
			cr_expect_str_eq(text, row[i].text, "row %zu: %s", i, text);
		cr_expect(!text || strstr(ask_reply(), *text ? "\"failed\"" : "\"done\""));
	}
	cr_expect_eq(ask_control.e.kind, HR_ERROR_USAGE, "as in the record");
}

/* Without its text the kind follows from the number. */
Test(act, a_failure_without_a_record_is_of_a_device_or_not)
{
	const char *text;

	start->starts = 1;
	r->result[1][1] = 0x281;
	ask_status.record.run[1].error.code = 0x281; /* and no kind */
	text = ask_end(HR_REQUEST_TRIGGER, true, "second", 1);
	cr_assert(text && strstr(text, "pipeline 'second', start 1: Unrecovered"), "%s", text);
	cr_expect_eq(ask_control.e.kind, HR_ERROR_DEVICE);
	r->result[1][1] = -EINTR;
	text = ask_end(HR_REQUEST_TRIGGER, true, "second", 1);
	cr_expect(text && *text);
	cr_expect_eq(ask_control.e.kind, HR_ERROR_FAILED);
}

/* ---- pause, reload */

Test(act, a_pause_lasts_until_resumed)
{
	cr_expect_str_empty(ask_request(HR_REQUEST_PAUSE, "second", false));
	cr_expect(start->flags & HR_START_PAUSED);
	cr_expect_str_empty(ask_request(HR_REQUEST_PAUSE, "second", false));
	cr_expect_str_empty(ask_request(HR_REQUEST_RESUME, "second", false));
	cr_expect_not(start->flags & HR_START_PAUSED);
	cr_expect_not(r->timetable.starts.start[0].flags & HR_START_PAUSED);
	r->begun = false;
	expect_refusal(ask_request(HR_REQUEST_PAUSE, "second", false), ASK_TOO_EARLY);
	cr_expect_not(start->flags & HR_START_PAUSED);
	start->flags = HR_START_PAUSED;
	expect_refusal(ask_request(HR_REQUEST_RESUME, "second", false), ASK_TOO_EARLY);
	cr_expect(start->flags & HR_START_PAUSED);
}

static int read_nothing(struct hr_config *config, void *to, struct hr_error *e)
{
	return 0;
}

Test(act, a_reload_is_refused_with_its_reason)
{
	r->reader.pid = NO_PROCESS;
	expect_refusal(ask_request(HR_REQUEST_RELOAD, "", false),
		       "busy: the configuration is being read already");
	r->reader.pid = 0;
	r->on = false;
	expect_refusal(ask_request(HR_REQUEST_RELOAD, "", false), ASK_EACH_RUNS_ONCE);
	r->on = true;
	r->read = read_nothing;
	cr_expect_str_empty(ask_request(HR_REQUEST_RELOAD, "", false));
	cr_expect_not(ask_over, "all wait until the file has been read");
	cr_expect_gt(r->reader.pid, 0);
}

#define CHANGES "\"changes\": [\"ssds\", \"gpus\"], \"waits_for\": "

Test(act, the_result_of_a_reload)
{
	static const struct {
		int result;
		const char *why, *want;
	} row[] = {
		{ 0, "", "" },
		{ -EINVAL, "f:2: a\nf:3: b",
		  "f: nothing has changed: it has mistakes\nf:2: a\nf:3: b" },
		{ -ENOENT, "f: no such file",
		  "f: nothing has changed: it cannot be read\nf: no such file" },
		{ -ECANCELED, "f: no engine comes up", "f: no engine comes up" },
	};
	struct hr_config next;
	const char *text;

	r->reader.pid = NO_PROCESS;
	cr_expect_null(ask_end(HR_REQUEST_RELOAD, false, "", 0));
	r->reader.pid = 0;
	strcpy(r->differences.engine, "ssds\ngpus");
	strcpy(r->differences.restart, "boot");
	for (size_t i = 0; i < ROWS(row); i++) {
		r->reload_result = row[i].result;
		r->reload_error.kind = row[i].result ? HR_ERROR_USAGE : HR_ERROR_NONE;
		strcpy(r->reload_error.text, row[i].why);
		text = ask_end(HR_REQUEST_RELOAD, true, "", 0);
		cr_assert_not_null(text);
		cr_expect_str_eq(text, row[i].want, "%s", text);
		cr_expect_eq(ask_control.e.kind, row[i].result ? HR_ERROR_USAGE : HR_ERROR_NONE);
		cr_expect_eq(strstr(ask_reply(), CHANGES "[], \"needs_restart\": [\"boot\"]") !=
				     NULL,
			     row[i].result == 0, "%s", ask_reply());
	}
	r->next = &next;
	r->running = 1;
	r->reload_result = 0;
	cr_expect_null(ask_end(HR_REQUEST_RELOAD, true, "", 0));
	cr_expect_not_null(ask_end(HR_REQUEST_RELOAD, false, "", 0));
	cr_expect(strstr(ask_reply(), "\"accepted\", \"code\": 0, " CHANGES "[\"first\"]"), "%s",
		  ask_reply());
	r->next = NULL;
}

Test(act, sighup_reads_the_configuration_again)
{
	hr_signals_reload_on_hangup();
	hr_control_take_hangup(&ask_control);
	cr_expect_eq(fake_log_count(), 0, "no signal has come");
	r->on = false;
	raise(SIGHUP);
	hr_control_take_hangup(&ask_control);
	cr_expect_str_eq(fake_log_last_of(HR_LOG_WARN),
			 "SIGHUP: no pipeline of f repeats (every, at, after, on, forever): each "
			 "runs once");
	hr_control_take_hangup(&ask_control);
	cr_expect_eq(fake_log_count(), 1, "once for each signal");
	r->on = true;
	r->read = read_nothing;
	raise(SIGHUP);
	hr_control_take_hangup(&ask_control);
	cr_expect_gt(r->reader.pid, 0);
	cr_expect_eq(fake_log_count_of(HR_LOG_WARN), 1);
}

/* ---- suspensions of pipelines that run once, or before an engine has read the starts */

Test(act, a_suspension_is_lifted_before_an_engine_has_read_the_starts)
{
	r->begun = false;
	ask_status.deaths[1] = 3;
	ask_status.suspended_until_ns[1] = UINT64_MAX;
	cr_expect_str_empty(ask_request(HR_REQUEST_RESUME, "second", false));
	cr_expect_eq(ask_status.deaths[1], 0u);
	cr_expect_eq(ask_status.suspended_until_ns[1], 0u);
	cr_expect_str_eq(fake_log_last_of(HR_LOG_INFO),
			 "pipeline 'second' is not suspended any more, on request");
	expect_refusal(ask_request(HR_REQUEST_RESUME, "second", false), ASK_TOO_EARLY);
}

/* ---- clients for the engine */

static int pass_to_test(void *to, const struct hr_request *request, int fd, struct hr_error *e)
{
	const int err = *(int *)to;

	cr_expect_eq(request->kind, HR_REQUEST_STORE_MAP);
	cr_expect_eq(fd, 77);
	return err ? hr_fail(e, HR_ERROR_FAILED, err, "refused by the test") : 0;
}

Test(act, a_client_is_passed_on_or_refused)
{
	int err = 0;

	ask_control.pass = pass_to_test;
	ask_control.pass_to = &err;
	ask_client->fd = 77;
	cr_expect_str_empty(ask_request(HR_REQUEST_STORE_MAP, "", false));
	cr_expect_not(ask_over);
	err = -EPIPE;
	expect_refusal(ask_request(HR_REQUEST_STORE_MAP, "", false), "refused by the test");
}
