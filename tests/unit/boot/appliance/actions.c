/*
 * Requests to a supervisor, of the control socket and by SIGHUP: what each does, the state of a start,
 * and the text of each refusal.
 */
#include "boot/appliance/requests.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "boot/appliance/supervisor/repeat.h"
#include "config/base/process.h"
#include "tests/fakes/log.h"
#include "tests/harness/error.h"

#define ROWS(table) (sizeof(table) / sizeof(*(table)))
#define NO_PROCESS 0x7fffffff /* a number that no process has */

static struct hr_supervisor *s;
static struct hr_start *start; /* of pipeline 1 */
static struct hr_actions act;

/* Two pipelines that start on request; an engine has read the starts. */
static void begin(void)
{
	s = calloc(1, sizeof *s);
	cr_assert_not_null(s);
	s->engine = calloc(1, sizeof *s->engine);
	cr_assert_not_null(s->engine);
	s->engine->config.file = "f";
	s->engine->config.pipelines = 2;
	strcpy(s->engine->config.pipeline[0].name, "first");
	strcpy(s->engine->config.pipeline[1].name, "second");
	for (uint32_t i = 0; i < 2; i++)
		s->engine->config.pipeline[i].when.kind = HR_WHEN_REQUEST;
	s->repeat.on = s->repeat.begun = true;
	s->repeat.timetable.config = &s->engine->config;
	start = &s->repeat.timetable.starts.start[1];
	s->child.process.clients = -1;
	hr_actions_init(&act, s);
}

static void end(void)
{
	hr_reload_close(&s->repeat);
	free(s->engine);
	free(s);
}

TestSuite(act, .init = begin, .fini = end, .timeout = 60);

static void expect_refusal(int err, int want, const char *text)
{
	cr_expect_eq(err, want, "%d", err);
	cr_expect_eq(test_error_kind(), HR_ERROR_FAILED);
	cr_expect_str_eq(test_error_text(), text, "%s", test_error_text());
}

/* ---- starts */

Test(act, a_start_has_the_next_number)
{
	uint64_t number = 0;

	start->starts = 6;
	cr_expect_eq(act.trigger(act.to, 1, &number, test_error()), 0);
	cr_expect_eq(number, 7);
	cr_expect(start->flags & HR_START_DUE);
	cr_expect_not(s->repeat.timetable.starts.start[0].flags & HR_START_DUE);
	cr_expect_str_empty(test_error_text());
}

Test(act, each_refusal_of_a_start_has_its_text)
{
	uint64_t number = 77;

	start->flags = HR_START_PAUSED;
	expect_refusal(act.trigger(act.to, 1, &number, test_error()), -EAGAIN,
		       "pipeline 'second' is paused; 'headrace resume' permits its starts");
	s->repeat.begun = false;
	expect_refusal(act.trigger(act.to, 1, &number, test_error()), -EBUSY,
		       "busy: no engine has read the earlier starts from the ssds yet");
	s->repeat.on = false;
	expect_refusal(act.trigger(act.to, 1, &number, test_error()), -ENOTSUP,
		       "no pipeline of f repeats (every, at, after, on, forever): each runs once");
	s->repeat.on = s->repeat.begun = true;
	start->flags = 0;
	hr_info("no message of a request");
	cr_expect_eq(act.stop(act.to, test_error()), 0);
	cr_expect_str_eq(fake_log_last_of(HR_LOG_INFO), "a request stops the appliance");
	cr_expect_eq(hr_signals_which(), SIGTERM);
	expect_refusal(act.trigger(act.to, 1, &number, test_error()), -ESHUTDOWN,
		       "the appliance stops");
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
		enum hr_trigger_state state;
		bool over;
		int want;
		const char *text;
	} row[] = {
		{ 19, HR_START_DUE, 0, 0, 5, HR_TRIGGER_QUEUED, false, 0, "" },
		{ 19, 0, 0, 0, 5, HR_TRIGGER_DROPPED, true, -ECANCELED, CANCELLED },
		{ 19, HR_START_PAUSED, true, 0, 5, HR_TRIGGER_DROPPED, true, -ECANCELED,
		  CANCELLED },
		{ 20, 0, true, 0, 5, HR_TRIGGER_RUNNING, false, 0, "" },
		{ 20, 0, false, 0, 0, HR_TRIGGER_DONE, true, 0, "" },
		{ 21, 0, true, 0, 0, HR_TRIGGER_DONE, true, 0, "" },
		{ 27, 0, false, 0, 0, HR_TRIGGER_DONE, true, 0, "" },
		{ 28, 0, false, 0, 0, HR_TRIGGER_DROPPED, true, -ECANCELED, CANCELLED },
		{ 20, 0, false, true, 0, HR_TRIGGER_DROPPED, true, -ECANCELED, CANCELLED },
		{ 20, 0, false, 0, -EIO, HR_TRIGGER_FAILED, true, -EIO,
		  "pipeline 'second', start 20: Input/output error" },
		{ 20, 0, false, 0, -ENOENT, HR_TRIGGER_FAILED, true, -ENOENT,
		  "pipeline 'second', start 20: the text of the record" },
	};

	s->status.record.run[1].error =
		(struct hr_record_error){ .kind = HR_ERROR_USAGE, .code = -ENOENT };
	strcpy(s->status.record.run[1].error.text, "the text of the record");
	for (size_t i = 0; i < ROWS(row); i++) {
		int err = 99, result = 99;

		start->starts = row[i].starts;
		start->flags = row[i].flags;
		s->repeat.begun = !row[i].unknown;
		s->repeat.timetable.timed[1].running = row[i].running;
		for (unsigned k = 0; k < HR_REPEAT_RESULTS; k++)
			s->repeat.result[1][k] = k == 20 % HR_REPEAT_RESULTS ? row[i].result : 1;
		cr_expect_eq(hr_supervisor_trigger_state(s, 1, 20, &err), row[i].state, "row %zu",
			     i);
		cr_expect_eq(err, row[i].state == HR_TRIGGER_FAILED ? row[i].result : 0, "row %zu",
			     i);
		cr_expect_eq(act.ended(act.to, 1, 20, &result, test_error()), row[i].over);
		cr_expect_eq(result, row[i].want, "row %zu: %d", i, result);
		cr_expect_str_eq(test_error_text(), row[i].text, "row %zu: %s", i,
				 test_error_text());
	}
	cr_expect_eq(test_error_kind(), HR_ERROR_USAGE, "as in the record");
}

/* Without its text the kind follows from the number. */
Test(act, a_failure_without_a_record_is_of_a_device_or_not)
{
	int result = 0;

	start->starts = 1;
	s->repeat.result[1][1] = 0x281;
	s->status.record.run[1].error.code = 0x281; /* and no kind */
	cr_expect(act.ended(act.to, 1, 1, &result, test_error()));
	cr_expect_eq(result, 0x281);
	cr_expect_eq(test_error_kind(), HR_ERROR_DEVICE);
	cr_expect(strstr(test_error_text(), "pipeline 'second', start 1: Unrecovered"), "%s",
		  test_error_text());
	s->repeat.result[1][1] = -EINTR;
	cr_expect(act.ended(act.to, 1, 1, &result, test_error()));
	cr_expect_eq(result, -EINTR);
	cr_expect_eq(test_error_kind(), HR_ERROR_FAILED);
}

/* ---- pause, reload */

Test(act, a_pause_lasts_until_resumed)
{
	cr_expect_eq(act.pause(act.to, 1, test_error()), 0);
	cr_expect(start->flags & HR_START_PAUSED);
	cr_expect_eq(act.pause(act.to, 1, test_error()), 0);
	cr_expect_eq(act.resume(act.to, 1, test_error()), 0);
	cr_expect_not(start->flags & HR_START_PAUSED);
	cr_expect_not(s->repeat.timetable.starts.start[0].flags & HR_START_PAUSED);
	s->repeat.begun = false;
	cr_expect_eq(act.pause(act.to, 1, test_error()), -EBUSY);
	cr_expect_not(start->flags & HR_START_PAUSED);
	start->flags = HR_START_PAUSED;
	cr_expect_eq(act.resume(act.to, 1, test_error()), -EBUSY);
	cr_expect(start->flags & HR_START_PAUSED);
}

static int read_nothing(struct hr_config *config, void *to, struct hr_error *e)
{
	return 0;
}

Test(act, a_reload_is_refused_with_its_reason)
{
	s->repeat.reader.pid = NO_PROCESS;
	expect_refusal(act.reload(act.to, test_error()), -EALREADY,
		       "busy: the configuration is being read already");
	s->repeat.reader.pid = 0;
	s->repeat.on = false;
	cr_expect_eq(act.reload(act.to, test_error()), -ENOTSUP);
	s->repeat.on = true;
	s->repeat.read = read_nothing;
	cr_expect_eq(act.reload(act.to, test_error()), 0);
	cr_expect_gt(s->repeat.reader.pid, 0);
}

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
	static struct hr_reload_reply reply;
	struct hr_config next;
	int result = 5;

	s->repeat.reader.pid = NO_PROCESS;
	cr_expect_not(act.reloaded(act.to, false, &result, test_error(), &reply));
	cr_expect_eq(result, 5);
	s->repeat.reader.pid = 0;
	strcpy(s->repeat.differences.engine, "ssds");
	strcpy(s->repeat.differences.restart, "boot");
	for (size_t i = 0; i < ROWS(row); i++) {
		s->repeat.reload_result = row[i].result;
		s->repeat.reload_error.kind = row[i].result ? HR_ERROR_USAGE : HR_ERROR_NONE;
		strcpy(s->repeat.reload_error.text, row[i].why);
		cr_expect(act.reloaded(act.to, true, &result, test_error(), &reply));
		cr_expect_eq(result, row[i].result);
		cr_expect_str_eq(reply.changes, "ssds");
		cr_expect_str_eq(reply.restart, "boot");
		cr_expect_str_eq(test_error_text(), row[i].want, "%s", test_error_text());
		cr_expect_eq(test_error_kind(), row[i].result ? HR_ERROR_USAGE : HR_ERROR_NONE);
	}
	s->repeat.next = &next;
	s->repeat.running = 1;
	s->repeat.reload_result = 0;
	cr_expect_not(act.reloaded(act.to, true, &result, test_error(), &reply));
	cr_expect(act.reloaded(act.to, false, &result, test_error(), &reply));
	cr_expect(reply.waits);
	cr_expect_str_eq(reply.running, s->engine->config.pipeline[0].name);
	s->repeat.next = NULL;
}

Test(act, sighup_reads_the_configuration_again)
{
	hr_signals_reload_on_hangup();
	hr_actions_on_signals(s);
	cr_expect_eq(fake_log_count(), 0, "no signal has come");
	s->repeat.on = false;
	raise(SIGHUP);
	hr_actions_on_signals(s);
	cr_expect_str_eq(fake_log_last_of(HR_LOG_WARN),
			 "SIGHUP: no pipeline of f repeats (every, at, after, on, forever): each "
			 "runs once");
	hr_actions_on_signals(s);
	cr_expect_eq(fake_log_count(), 1, "once for each signal");
	s->repeat.on = true;
	s->repeat.read = read_nothing;
	raise(SIGHUP);
	hr_actions_on_signals(s);
	cr_expect_gt(s->repeat.reader.pid, 0);
	cr_expect_eq(fake_log_count_of(HR_LOG_WARN), 1);
}

/* ---- clients for the engine */

Test(act, a_client_is_passed_on_or_refused)
{
	const struct hr_request request = { .kind = HR_REQUEST_STORE_MAP };
	int pair[2], count = 0, err;

	s->status.phase = HR_PHASE_POST;
	expect_refusal(act.pass(act.to, &request, 0, test_error()), -ENOTCONN,
		       "busy: no engine drives the ssds now (post)");
	cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, pair), 0);
	s->child.process.clients = pair[0];
	s->child.process.pid = NO_PROCESS;
	cr_expect_eq(act.pass(act.to, &request, pair[1], test_error()), 0);
	do
		err = act.pass(act.to, &request, pair[1], test_error());
	while (!err && count++ < 100000);
	expect_refusal(err, -EAGAIN,
		       "busy: the engine has not taken the earlier requests yet "
		       "(post)");
	expect_refusal(act.pass(act.to, &request, -1, test_error()), -EBADF,
		       "the engine cannot be reached: Bad file descriptor");
	close(pair[0]);
	close(pair[1]);
	cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, pair), 0);
	s->child.process.clients = pair[0];
	close(pair[1]);
	expect_refusal(act.pass(act.to, &request, pair[0], test_error()), -EPIPE,
		       "busy: no engine drives the ssds now (post)");
	close(pair[0]);
}
