/* The thread of a stream round by round: its pauses, events of the link, and the end of a run. */
#include "tests/harness/remote_calls_rig.h"

TestSuite(remote_thread, .timeout = 60);

static struct hr_remote *begin(uint32_t i)
{
	open_all();
	meets_after = 1;
	app->run[SEND].selected = i == SEND;
	app->run[TAKE].selected = i == TAKE;
	cr_assert_eq(hr_remote_start(app), 0);
	fake_clock_start(BEGAN, NULL, NULL);
	calls_take();
	return stream[i];
}

static void say(enum hr_link_event_kind kind, uint64_t tile, int code, const char *text)
{
	next[last].text = NULL;
	next[last++].event =
		(struct hr_link_event){ .kind = kind, .tile = tile, .code = code, .text = text };
}

static void say_failed(enum hr_error_kind kind, const char *text)
{
	say(HR_LINK_FAILED, 0, 0, NULL);
	next[last - 1].kind = kind;
	next[last - 1].text = text;
}

static void finish_at_32(unsigned wait)
{
	if (wait == 32)
		steps = true;
	if (wait < 33)
		return;
	app->run[SEND].outcome = HR_RUN_DONE;
	hr_remote_end(app, &app->run[SEND]);
	ended = true;
}

Test(remote_thread, pauses_grow_while_nothing_is_done, .fini = end)
{
	const uint64_t limit = 1280000;
	struct hr_remote *r = begin(SEND);
	char want[1024];
	size_t at = 0;

	hr_remote_begin(app, &app->run[SEND]);
	cr_expect_str_eq(calls_take(), "s.begin ");
	script = finish_at_32;
	thread_main(r);
	for (uint64_t i = 0, ns = 10000; i < 32; i++) {
		ns += ns / 4;
		at += (size_t)snprintf(want + at, sizeof want - at, "s.step %llu ",
				       (unsigned long long)(ns < limit ? ns : limit));
	}
	snprintf(want + at, sizeof want - at, "s.step s.step 12500 finish0() ");
	cr_expect_str_eq(calls_take(), want);
	cr_expect(r->over && r->told);
	cr_expect_eq(r->quiet_ns, BEGAN + 3 * HR_NS_PER_S);
	down();
}

static void pass_time(unsigned wait)
{
	if (wait == 1)
		hr_remote_end(app, &app->run[SEND]);
	fake_clock_advance(HR_NS_PER_S);
}

Test(remote_thread, a_thread_waits_three_seconds_for_the_other_side, .fini = end)
{
	static const struct {
		enum hr_outcome outcome;
		bool met;
		unsigned waits;
	} row[] = {
		{ HR_RUN_DONE, false, 4 },
		{ HR_RUN_FAILED, true, 4 },
		{ HR_RUN_FAILED, false, 1 },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		struct hr_remote *r = begin(SEND);

		app->run[SEND].outcome = row[i].outcome;
		r->met = row[i].met;
		script = pass_time;
		thread_main(r);
		cr_expect_eq(waits, row[i].waits, "%zu: %u", i, waits);
		down();
	}
}

static void end_now(unsigned wait)
{
	ended = true;
	hr_remote_end(app, stream[SEND] ? &app->run[SEND] : &app->run[TAKE]);
}

#define DOWN(n, side, addr, why) \
	"pipeline '" n "': remote '" side "' (" addr "): the connection is down: " why

Test(remote_thread, each_event_of_the_link_is_taken, .fini = end)
{
	static const struct {
		enum hr_link_event_kind kind;
		int code;
		const char *text;
		enum hr_error_kind fails; /* with HR_LINK_FAILED */
		bool up, peer_done, dead;
		int err;
		enum hr_error_kind error;
		const char *says, *warns;
	} row[] = {
		{ HR_LINK_UP, 0, NULL, 0, true, false, false, 0, 0, "", "" },
		{ HR_LINK_DOWN, 0, "cut", 0, false, false, false, 0, 0, "",
		  DOWN("p1", "t", "B", "cut") },
		{ HR_LINK_DOWN, 0, NULL, 0, false, false, false, 0, 0, "",
		  DOWN("p1", "t", "B", "no reason given") },
		{ HR_LINK_REFUSED_ONE, 0, "no key", 0, false, false, false, 0, 0, "",
		  "pipeline 'p1': remote 't' (B): no key" },
		{ HR_LINK_PEER_DONE, 0, NULL, 0, false, true, false, 0, 0, "", "" },
		{ HR_LINK_PEER_DONE, HR_ERROR_DEVICE, "bad disk", 0, false, true, false,
		  -ECONNABORTED, HR_ERROR_DEVICE,
		  "remote 't' (B): the run of the sender has ended: bad disk", "" },
		{ HR_LINK_PEER_DONE, HR_ERROR_DEVICE + 1, NULL, 0, false, true, false,
		  -ECONNABORTED, HR_ERROR_FAILED,
		  "remote 't' (B): the run of the sender has ended: no reason given", "" },
		{ HR_LINK_PEER_DONE, -1, "x", 0, false, true, false, -ECONNABORTED, HR_ERROR_FAILED,
		  "remote 't' (B): the run of the sender has ended: x", "" },
		{ HR_LINK_FAILED, 0, "no route", HR_ERROR_MISSING, false, false, true, -ECONNRESET,
		  HR_ERROR_MISSING, "remote 't' (B): no route", "" },
		{ HR_LINK_FAILED, 0, "wrong key", HR_ERROR_USAGE, false, false, true, -EINVAL,
		  HR_ERROR_USAGE, "remote 't' (B): wrong key", "" },
		{ HR_LINK_FAILED, 0, NULL, 0, false, false, true, -ECONNRESET, HR_ERROR_FAILED,
		  "remote 't' (B): ", "" },
		{ HR_LINK_TILE, 0, NULL, 0, false, false, false, 0, 0, "", "" },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		struct hr_remote *r = begin(TAKE);
		char want[64];

		hr_warn("none");
		if (row[i].fails)
			say_failed(row[i].fails, row[i].text);
		else
			say(row[i].kind, 3, row[i].code, row[i].text);
		script = end_now;
		thread_main(r);
		snprintf(want, sizeof want, "t.event%d 12500 ", row[i].kind);
		cr_expect_eq(strncmp(calls_take(), want, strlen(want)), 0, "%zu", i);
		cr_expect_eq(r->up, row[i].up, "%zu", i);
		cr_expect_eq(r->met, row[i].up, "%zu", i);
		cr_expect_eq(r->have, row[i].up ? 3u : 0u, "%zu", i);
		cr_expect_eq(r->peer_done, row[i].peer_done, "%zu", i);
		cr_expect_eq(r->dead, row[i].dead, "%zu", i);
		cr_expect_eq(r->failed, row[i].err != 0, "%zu", i);
		cr_expect_eq(r->err, row[i].err, "%zu", i);
		cr_expect_str_eq(r->error.text, row[i].says, "%zu", i);
		cr_expect_eq(r->error.kind, row[i].error, "%zu", i);
		cr_expect_str_eq(fake_log_last_of(HR_LOG_WARN),
				 *row[i].warns ? row[i].warns : "none");
		down();
	}
}

Test(remote_thread, the_first_of_several_events_counts, .fini = end)
{
	struct hr_remote *r = begin(SEND);

	r->met = false;
	say(HR_LINK_UP, 3, 0, NULL);
	say(HR_LINK_DOWN, 0, 0, "cut");
	say(HR_LINK_UP, 8, 0, NULL);
	say(HR_LINK_PEER_DONE, 0, HR_ERROR_FAILED, "first");
	say_failed(HR_ERROR_USAGE, "after the end");
	script = end_now;
	thread_main(r);
	cr_expect(r->met && r->up);
	cr_expect_eq(r->have, 3u, "at the first hello");
	cr_expect_str_eq(r->error.text, "remote 's' (A): the run of the receiver has ended: first");
	cr_expect_str_eq(fake_log_last_of(HR_LOG_WARN), DOWN("p0", "s", "A", "cut"));
	down();
	r = begin(SEND);
	say_failed(HR_ERROR_USAGE, "one");
	say_failed(HR_ERROR_DEVICE, "two"); /* the text of the first is gone */
	hr_remote_begin(app, &app->run[SEND]);
	steps = true;
	script = end_now;
	thread_main(r);
	cr_expect_str_eq(r->error.text, "remote 's' (A): one");
	cr_expect_eq(strncmp(calls_take(), "s.begin s.step s.event9 s.event9 12500 ", 39), 0);
	down();
	r = begin(SEND);
	say(HR_LINK_PEER_DONE, 0, 0, NULL);
	say(HR_LINK_DOWN, 0, 0, "it has closed");
	hr_warn("none");
	script = end_now;
	thread_main(r);
	cr_expect_str_eq(fake_log_last_of(HR_LOG_WARN), "none", "the other side has ended");
	down();
}

static void durable_grows(unsigned wait)
{
	struct hr_run *run = &app->run[TAKE];
	struct hr_error e = { 0 };

	run->durable_tiles = 6 + wait / 2;
	if (wait < 4) {
		cr_expect_eq(hr_remote_look(app, run, &e), 0);
		return;
	}
	run->outcome = HR_RUN_INTERRUPTED;
	hr_remote_end(app, run);
	hr_remote_end(app, run); /* what was said first counts */
}

Test(remote_thread, a_receiver_says_what_is_durable_when_it_changes, .fini = end)
{
	struct hr_remote_report report;
	struct hr_remote *r;

	up();
	app->run[TAKE].durable_tiles = 6;
	r = begin(TAKE);
	script = durable_grows;
	thread_main(r);
	cr_expect_str_eq(calls_take(), "12500 durable6 15625 durable7 19531 24413 durable8 "
				       "finish1(pipeline 'p1' was interrupted) ");
	app->run[TAKE].copies = true;
	hr_remote_take(app, &app->run[TAKE], &report);
	cr_expect(report.open && !report.up);
	cr_expect_str_eq(report.described, "device, port");
	cr_expect_eq(report.link.tiles, 17u);
	cr_expect_eq(report.link.flushes, 18u);
	cr_expect_eq(report.copies, 17u);
	app->backend[1].lanes = 32;
	hr_remote_take(app, &app->run[TAKE], &report);
	cr_expect_eq(report.copies, 0u);
	hr_remote_take(app, &app->run[OTHER], &report);
	cr_expect_not(report.open);
	r->over = false;
	r->report.described[0] = 'x';
	described = NULL;
	script = NULL;
	ended = true;
	thread_main(r);
	cr_expect_str_eq(r->report.described, "");
	down();
}

Test(remote_thread, the_end_of_a_run_is_a_code_and_a_line, .fini = end)
{
	static const struct {
		enum hr_outcome outcome;
		enum hr_error_kind kind;
		const char *cause;
		int code;
		const char *why;
	} row[] = {
		{ HR_RUN_DONE, 0, "", 0, "" },
		{ HR_RUN_DONE, HR_ERROR_DEVICE, "a warning", 0, "" },
		{ HR_RUN_FAILED, HR_ERROR_DEVICE, "one\ntwo", HR_ERROR_DEVICE, "one" },
		{ HR_RUN_INTERRUPTED, 0, "", HR_ERROR_FAILED, "pipeline 'p0' was interrupted" },
		{ HR_RUN_FAILED, HR_ERROR_MISSING, "\ntwo", HR_ERROR_MISSING,
		  "pipeline 'p0' was interrupted" },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		struct hr_remote *r = begin(SEND);
		struct hr_run *run = &app->run[SEND];

		run->outcome = row[i].outcome;
		run->cause.kind = row[i].kind;
		strcpy(run->cause.text, row[i].cause);
		run->durable_tiles = 9;
		hr_remote_end(app, run);
		cr_expect(r->ended);
		cr_expect_eq(r->code, row[i].code, "%zu", i);
		cr_expect_str_eq(r->why, row[i].why, "%zu", i);
		cr_expect_eq(r->durable, 9u);
		down();
	}
}

static struct hr_error e;

Test(remote_thread, the_owner_sees_the_error_of_a_stream, .fini = end)
{
	struct hr_remote *r = begin(SEND);

	hr_error_clear(&e);
	cr_expect_eq(hr_remote_look(app, &app->run[SEND], &e), 0);
	cr_expect_str_eq(e.text, "");
	hr_remote_fail(r, HR_ERROR_DEVICE, -EPROTO, "tile %d", 5);
	hr_remote_fail(r, HR_ERROR_USAGE, -EINVAL, "later");
	cr_expect_eq(hr_remote_look(app, &app->run[SEND], &e), -EPROTO);
	cr_expect_str_eq(e.text, "pipeline 'p0': remote 's' (A): tile 5");
	cr_expect_eq(e.kind, HR_ERROR_DEVICE);
	hr_error_clear(&e);
	cr_expect_eq(hr_remote_look(app, &app->run[OTHER], &e), 0);
	hr_remote_begin(app, &app->run[OTHER]);
	hr_remote_end(app, &app->run[OTHER]);
	cr_expect_eq(e.kind, HR_ERROR_NONE);
	down();
	cr_expect_eq(hr_remote_look(app, &app->run[SEND], &e), 0, "it is closed");
	hr_remote_begin(app, &app->run[SEND]);
	hr_remote_end(app, &app->run[SEND]);
	cr_expect_str_eq(calls_take(), "");
}

static void run_thread(void *context)
{
	struct hr_remote *r = stream[SEND];

	if (!r->over)
		thread_main(r);
}

Test(remote_thread, the_way_down_ends_the_thread_and_then_the_link, .fini = end)
{
	begin(SEND)->met = false;
	fake_clock_start(BEGAN, run_thread, NULL);
	hr_remote_down(app);
	cr_expect_str_eq(calls_take(), "finish1(pipeline 'p0' has not run) join close s.forget "
				       "close t.forget ");
	cr_expect_eq(hr_now_ns(), BEGAN + HR_NS_PER_MS, "one wait for the thread");
}

Test(remote_thread, only_streams_of_configured_pipelines_are_closed, .fini = end)
{
	open_all();
	app->config.pipelines = 1;
	hr_remote_down(app);
	cr_expect_str_eq(calls_take(), "close s.forget ");
	app->config.pipelines = RUNS;
	hr_remote_down(app);
	cr_expect_str_eq(calls_take(), "close t.forget ");
}
