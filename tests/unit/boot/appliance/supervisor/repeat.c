/* SPDX-License-Identifier: Apache-2.0 */
/* The supervisor of pipelines that repeat, and requests for starts. */
#include "tests/harness/repeat_rig.h"

TestSuite(repeat, .timeout = 60);
TestSuite(ask, .timeout = 60);

#define EVERY "every = \"10s\";"
#define REQUEST "on = \"request\";"

Test(repeat, without_a_pipeline_that_repeats_it_is_off)
{
	begin(CONFIG(MEMORY, "", ""));
	cr_expect_not(r->on);
	cr_expect_eq(r->wake, -1);
	ready();
	cr_expect_eq(look(), 0u);
	end();
}

Test(repeat, nothing_is_ordered_before_the_engine_is_ready)
{
	begin(CONFIG(MEMORY, "every = \"10s\";", "forever = true;"));
	cr_expect_eq(look(), 0u);
	ready();
	cr_expect_eq(look(), BIT(A) | BIT(B));
	cr_expect_eq(dispatch.number, 1u);
	cr_expect_eq(dispatch.starts.start[A].outcome, HR_START_RUNNING,
		     "durable before it begins");
	cr_expect_eq(look(), 0u, "once");
	end();
}

Test(repeat, a_due_pipeline_is_ordered_while_another_one_runs)
{
	begin(CONFIG(MEMORY, "every = \"10s\";", "forever = true;"));
	ready();
	look();
	run(B);
	for (int i = 0; i < 3; i++) {
		over(A, HR_RUN_DONE, 0);
		cr_expect_eq(look(), 0u);
		cr_expect_eq(start_of(A)->done, (uint64_t)i + 1);
		cr_expect_eq(dispatch.kind, HR_DISPATCH_SAVE, "its end is durable at once");
		fake_clock_advance(10 * S + 3);
		cr_expect_eq(look(), BIT(A));
		cr_expect_eq(r->timetable.timed[A].planned_ns, BEGIN + (uint64_t)(i + 1) * 10 * S,
			     "3 ns late, and the next one from its own time");
	}
	cr_expect_eq(start_of(B)->starts, 1u);
	cr_expect_eq(r->running, BIT(A) | BIT(B));
	end();
}

Test(repeat, a_due_pipeline_that_runs_is_ordered_after_its_end)
{
	begin(CONFIG(MEMORY, "every = \"10s\";", "on = \"request\";"));
	ready();
	look();
	run(A);
	fake_clock_advance(12 * S);
	cr_expect_eq(look(), 0u);
	over(A, HR_RUN_DONE, 0);
	cr_expect_eq(look(), BIT(A), "2 s late");
	end();
}

Test(repeat, the_end_of_an_earlier_start_is_not_that_of_the_newest)
{
	begin(CONFIG(MEMORY, "every = \"10s\";", "on = \"request\";"));
	ready();
	look();
	over(A, HR_RUN_DONE, 0);
	look();
	fake_clock_advance(10 * S);
	cr_expect_eq(look(), BIT(A));
	cr_expect_eq(look(), 0u);
	cr_expect_eq(r->running, BIT(A), "the record shows the first start");
	cr_expect_eq(start_of(A)->done, 1u);
	end();
}

Test(repeat, a_failure_pauses_only_its_pipeline)
{
	begin(CONFIG(MEMORY, "forever = true;", "forever = true;"));
	ready();
	look();
	over(A, HR_RUN_FAILED, -ENXIO);
	over(B, HR_RUN_DONE, 0);
	cr_expect_eq(look(), BIT(B));
	fake_clock_advance(S);
	cr_expect_eq(look(), BIT(A), "after the pause");
	cr_expect_eq(dispatch.suspects, 0u, "the engine lives");
	over(A, HR_RUN_FAILED, -ENXIO);
	look();
	fake_clock_advance(S);
	cr_expect_eq(look(), 0u);
	fake_clock_advance(S);
	cr_expect_eq(look(), BIT(A), "after twice the pause");
	cr_expect_eq(r->timetable.timed[A].planned_ns, hr_now_ns(), "the end of the pause");
	end();
}

Test(repeat, a_pipeline_that_has_not_begun_pauses_as_after_a_failure)
{
	begin(CONFIG(MEMORY, "every = \"10s\";", "forever = true;"));
	ready();
	look();
	over(B, HR_RUN_WAITING, 0);
	cr_expect_eq(look(), 0u);
	cr_expect_eq(start_of(B)->error, -EAGAIN);
	fake_clock_advance(S);
	cr_expect_eq(look(), BIT(B));
	end();
}

Test(repeat, after_the_death_of_an_engine_its_pipelines_start_again)
{
	begin(CONFIG(MEMORY, "forever = true;", "forever = true;"));
	ready();
	look();
	over(A, HR_RUN_FAILED, -EOWNERDEAD); /* as after the death of an engine */
	record.run[A].blame = HR_BLAME_CERTAIN;
	hr_repeat_engine_ended(r);
	cr_expect_eq(start_of(A)->failures, 1u);
	cr_expect_eq(r->timetable.starts.suspension[A].deaths, 1u);
	cr_expect_eq(r->blamed, BIT(A));
	cr_expect_eq(start_of(B)->outcome, HR_START_INTERRUPTED, "it had not begun");
	cr_expect_eq(start_of(B)->failures, 0u);
	ready();
	cr_expect_eq(look(), BIT(B));
	fake_clock_advance(S);
	cr_expect_eq(look(), BIT(A));
	cr_expect_eq(dispatch.suspects, BIT(A));
	end();
}

Test(repeat, an_order_that_cannot_be_sent_is_sent_later)
{
	struct hr_dispatch junk = { .kind = HR_DISPATCH_SAVE };

	begin(CONFIG(MEMORY, "every = \"10s\";", "on = \"request\";"));
	ready();
	while (send(child.process.dispatch, &junk, sizeof junk, 0) > 0)
		;
	hr_repeat_poll(r);
	cr_expect_eq(r->running, 0u);
	cr_expect_eq(start_of(A)->starts, 0u);
	while (recv(engine_end, &junk, sizeof junk, 0) > 0)
		;
	cr_expect_eq(look(), BIT(A));
	cr_expect_eq(start_of(A)->starts, 1u);
	end();
}

Test(repeat, a_warning_holds_the_starts_until_it_is_gone)
{
	const unsigned before = fake_log_count_of(HR_LOG_WARN);

	begin(CONFIG(MEMORY, "every = \"10s\";", "on = \"request\";"));
	ready();
	record.ssd[0].smart.known = 1;
	record.ssd[0].smart.critical_warning = 0xff;
	for (int i = 0; i < 3; i++)
		cr_expect_eq(look(), 0u);
	cr_expect_eq(fake_log_count_of(HR_LOG_WARN), before + 2, "said once for each");
	record.ssd[0].smart.critical_warning = 0;
	cr_expect_eq(look(), BIT(A));
	end();
}

/* Its ssd was not there when the engine came up, and is there now. */
Test(repeat, another_engine_is_asked_for_when_nothing_runs)
{
	begin(CONFIG(MEMORY, "every = \"10s\";", "forever = true;"));
	ready();
	record.usable = BIT(B);
	cr_expect_eq(look(), 0u);
	cr_expect(r->renew);
	cr_expect_neq(child.asked_ns, 0u, "nothing runs");
	r->renew = false;
	child.asked_ns = 0;
	hr_repeat_engine_ended(r);
	ready();
	cr_expect_eq(look(), BIT(A) | BIT(B));
	over(A, HR_RUN_DONE, 0);
	run(B);
	look();
	record.usable = BIT(B);
	fake_clock_advance(10 * S);
	look();
	cr_expect(r->renew);
	cr_expect_eq(child.asked_ns, 0u, "b runs");
	over(B, HR_RUN_DONE, 0);
	cr_expect_eq(look(), 0u, "no other start in this engine");
	cr_expect_neq(child.asked_ns, 0u);
	end();
}

Test(repeat, a_new_version_of_an_object_starts_its_pipeline)
{
	begin(CONFIG(MEMORY, "on = \"object x\";", "forever = true;"));
	ready();
	cr_expect_eq(look(), BIT(B), "there is no object");
	run(B);
	record.version[A] = 7;
	cr_expect_eq(look(), BIT(A));
	run(A);
	record.version[A] = 8;
	cr_expect_eq(look(), 0u, "it runs");
	over(A, HR_RUN_DONE, 0);
	cr_expect_eq(look(), BIT(A));
	over(A, HR_RUN_DONE, 0);
	cr_expect_eq(look(), 0u);
	end();
}

/* ---- ends, and ssds that are not up */

Test(repeat, errors_of_ends)
{
	static const struct {
		enum hr_outcome outcome;
		int error, want;
		uint64_t start;
	} row[] = {
		{ HR_RUN_DONE, 0, 0, HR_START_DONE },
		{ HR_RUN_COMPLETE, 0, 0, HR_START_DONE },
		{ HR_RUN_INTERRUPTED, -EINTR, -EINTR, HR_START_RUNNING },
		{ HR_RUN_FAILED, 0x281, 0x281, HR_START_FAILED },
		{ HR_RUN_FAILED, 0, -EIO, HR_START_FAILED },
		{ HR_RUN_WAITING, 0, -EAGAIN, HR_START_FAILED },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		uint64_t ticket;

		begin(CONFIG(MEMORY, REQUEST, REQUEST));
		ready();
		look();
		cr_assert_str_empty(ask_start("b", &ticket));
		cr_assert_eq(look(), BIT(B));
		cr_expect_eq(ticket, 1u);
		record.run[B].number--; /* it has not begun */
		record.run[B].over = 1;
		look();
		cr_expect_eq(r->running, BIT(B));
		over(B, row[i].outcome, row[i].error);
		record.run[B].over = 0;
		look();
		cr_expect_eq(r->running, BIT(B));
		record.run[B].over = 1;
		look();
		/* one that was interrupted is made again */
		cr_expect_eq(r->running, row[i].start == HR_START_RUNNING ? BIT(B) : 0);
		cr_expect_eq(start_of(B)->outcome, row[i].start, "row %zu", i);
		cr_expect_eq(r->result[B][ticket % HR_REPEAT_RESULTS], row[i].want, "row %zu", i);
		cr_expect_eq(r->result[A][ticket % HR_REPEAT_RESULTS], 0);
		cr_expect_eq(start_of(A)->starts, 0u);
		end();
	}
}

/* An engine died during their last starts, or lost a gpu. The next request comes after the pause. */
Test(repeat, suspects)
{
	static const struct {
		enum hr_outcome outcome;
		int error;
		enum hr_blame blame;
		bool suspect;
	} row[] = {
		{ HR_RUN_FAILED, -EOWNERDEAD, HR_BLAME_CERTAIN, true },
		{ HR_RUN_FAILED, -ETIMEDOUT, HR_BLAME_SUSPECT, true },
		{ HR_RUN_FAILED, -EIO, HR_BLAME_SUSPECT, true },
		{ HR_RUN_FAILED, -EIO, HR_BLAME_NONE, false },
		{ HR_RUN_INTERRUPTED, -EINTR, HR_BLAME_NONE, false },
		{ HR_RUN_DONE, 0, HR_BLAME_NONE, false },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		uint64_t ticket;

		begin(CONFIG(MEMORY, REQUEST, REQUEST));
		ready();
		look();
		ask_start("b", &ticket);
		look();
		over(B, row[i].outcome, row[i].error);
		record.run[B].blame = row[i].blame;
		look();
		cr_expect_str_eq(ask_start("b", &ticket), row[i].suspect ? ASK_SUSPENDED("b") : "");
		look();
		cr_expect_eq(hr_repeat_can_run(r), true);
		ask_start("a", &ticket);
		cr_expect_eq(look(), BIT(A));
		cr_expect_eq(dispatch.suspects, row[i].suspect ? BIT(B) : 0, "row %zu", i);
		r->timetable.starts.suspension[A].deaths = engine->config.boot.restarts + 1;
		r->timetable.starts.suspension[B].deaths = engine->config.boot.restarts;
		cr_expect(hr_repeat_can_run(r), "the last restart of one pipeline is left");
		r->timetable.starts.suspension[B].deaths++;
		cr_expect_not(hr_repeat_can_run(r));
		end();
	}
}

/* Of those that run: as their record says; one that has not begun is interrupted. */
Test(repeat, the_end_of_an_engine)
{
	begin(CONFIG(MEMORY, EVERY, REQUEST));
	hr_repeat_engine_ended(r);
	cr_expect_eq(start_of(A)->starts, 0u, "before the first engine");
	ready();
	look();
	record.run[A].number = 0;
	record.run[A].outcome = HR_RUN_DONE;
	r->refused = BIT(B);
	hr_repeat_engine_ended(r);
	cr_expect(!r->greeted && !r->refused && !r->running && r->begun);
	cr_expect_eq(start_of(A)->outcome, HR_START_INTERRUPTED);
	cr_expect_eq(start_of(B)->outcome, HR_START_NONE, "it did not run");
	ready();
	cr_expect_eq(look(), BIT(A));
	over(A, HR_RUN_DONE, 0);
	record.run[A].over = 0;
	hr_repeat_engine_ended(r);
	cr_expect_eq(start_of(A)->outcome, HR_START_DONE);
	ready();
	fake_clock_advance(10 * S);
	cr_expect_eq(look(), BIT(A));
	run(A);
	hr_repeat_engine_ended(r);
	cr_expect_eq(start_of(A)->outcome, HR_START_INTERRUPTED, "the engine has not ended it");
	end();
}

/* With the error of bring-up, once for each engine. Then the ssd needs a new engine. */
Test(repeat, a_pipeline_whose_ssd_failed_at_bring_up)
{
	begin(CONFIG(MEMORY, EVERY, REQUEST));
	ready();
	record.usable = BIT(B);
	record.run[A].outcome = HR_RUN_FAILED;
	record.run[A].error.code = -ENODEV;
	cr_expect_eq(look(), 0u);
	cr_expect_eq(r->refused, BIT(A));
	cr_expect(start_of(A)->outcome == HR_START_FAILED && start_of(A)->error == -ENODEV &&
		  start_of(A)->failures == 1);
	cr_expect_eq(r->result[A][1], -ENODEV);
	cr_expect_not(r->renew);
	cr_expect_eq(look(), 0u, "it pauses");
	cr_expect_not(r->renew);
	fake_clock_advance(S);
	cr_expect_eq(look(), 0u);
	cr_expect(r->renew);
	cr_expect_eq(start_of(A)->failures, 1u);
	cr_expect_str_eq(
		fake_log_last_of(HR_LOG_INFO),
		"pipeline 'a' is due, and its ssd or gpu is not up: a new engine brings it "
		"up");
	end();
}

/* ---- requests (boot/appliance/control/control.h) */

/* NULL: the start has not ended; else "", or the text of the failure. */
static const char *end_of(uint64_t ticket)
{
	return ask_end(HR_REQUEST_TRIGGER, true, "a", ticket);
}

static const char *refusal(enum hr_request_kind kind)
{
	return ask_request(kind, kind == HR_REQUEST_RELOAD ? "" : "a", false);
}

#define CANCELLED "cancelled before it began"

Test(ask, a_configuration_without_a_schedule_takes_no_request)
{
	uint64_t ticket;

	begin(CONFIG(MEMORY, "", ""));
	cr_expect_str_eq(ask_start("a", &ticket), ASK_EACH_RUNS_ONCE);
	cr_expect_str_eq(refusal(HR_REQUEST_PAUSE), ASK_EACH_RUNS_ONCE);
	cr_expect_str_eq(refusal(HR_REQUEST_RESUME), ASK_EACH_RUNS_ONCE);
	cr_expect_str_eq(refusal(HR_REQUEST_RELOAD), ASK_EACH_RUNS_ONCE);
	end();
}

Test(ask, requests_before_the_first_engine_are_refused)
{
	uint64_t ticket;

	begin(CONFIG(MEMORY, "on = \"request\";", ""));
	cr_expect_str_eq(ask_start("a", &ticket), ASK_TOO_EARLY);
	cr_expect_str_eq(refusal(HR_REQUEST_PAUSE), ASK_TOO_EARLY);
	cr_expect_str_eq(refusal(HR_REQUEST_RESUME), ASK_TOO_EARLY);
	cr_expect_str_eq(refusal(HR_REQUEST_RELOAD), ASK_TOO_EARLY);
	cr_expect(strstr(end_of(1), CANCELLED));
	end();
}

Test(ask, a_ticket_shows_its_start_from_the_request_to_the_end)
{
	uint64_t ticket, next;

	begin(CONFIG(MEMORY, "on = \"request\";", "on = \"request\";"));
	ready();
	cr_expect_eq(look(), 0u);
	cr_expect_str_empty(ask_start("a", &ticket));
	cr_expect_null(end_of(ticket));
	cr_expect_str_empty(ask_start("a", &next));
	cr_expect_eq(next, ticket, "requests before the start are one");
	cr_expect_eq(look(), BIT(A));
	cr_expect_null(end_of(ticket));
	cr_expect_str_empty(ask_start("a", &next), "once more afterwards");
	cr_expect_eq(next, ticket + 1);
	over(A, HR_RUN_DONE, 0);
	cr_expect_eq(look(), BIT(A));
	cr_expect_str_empty(end_of(ticket));
	over(A, HR_RUN_FAILED, 0x281);
	look();
	cr_expect(strstr(end_of(next), "pipeline 'a', start 2: Unrecovered"), "%s", end_of(next));
	cr_expect_str_empty(end_of(ticket), "the result of the first stays");
	end();
}

Test(ask, an_old_ticket_is_gone)
{
	uint64_t first, ticket;

	begin(CONFIG(MEMORY, "on = \"request\";", "on = \"request\";"));
	ready();
	look();
	for (uint32_t i = 0; i <= HR_REPEAT_RESULTS; i++) {
		cr_assert_str_empty(ask_start("a", i ? &ticket : &first));
		cr_assert_eq(look(), BIT(A));
		over(A, HR_RUN_DONE, 0);
		look();
	}
	cr_expect(strstr(end_of(first), CANCELLED));
	cr_expect_str_empty(end_of(first + 1));
	end();
}

Test(ask, a_request_goes_before_the_pause_after_a_failure)
{
	uint64_t ticket;

	begin(CONFIG(MEMORY, "every = \"1h\";", "on = \"request\";"));
	ready();
	look();
	over(A, HR_RUN_FAILED, -ENXIO);
	cr_expect_eq(look(), 0u);
	cr_expect_str_empty(ask_start("a", &ticket));
	cr_expect_eq(look(), BIT(A));
	end();
}

Test(ask, a_paused_pipeline_starts_after_its_resumption)
{
	uint64_t ticket;

	begin(CONFIG(MEMORY, "every = \"10s\";", "on = \"request\";"));
	ready();
	look();
	over(A, HR_RUN_DONE, 0);
	look();
	cr_expect_str_empty(refusal(HR_REQUEST_PAUSE));
	cr_expect_str_empty(refusal(HR_REQUEST_PAUSE), "again");
	cr_expect_str_eq(ask_start("a", &ticket), ASK_PAUSED("a"));
	fake_clock_advance(11 * S);
	cr_expect_eq(look(), 0u);
	cr_expect(dispatch.starts.start[A].flags & HR_START_PAUSED, "durable");
	cr_expect_str_empty(refusal(HR_REQUEST_RESUME));
	cr_expect_str_empty(refusal(HR_REQUEST_RESUME), "again");
	cr_expect_null(strstr(fake_log_last_of(HR_LOG_INFO), "suspended"), "it was only paused");
	cr_expect_eq(look(), BIT(A));
	end();
}

Test(ask, no_start_is_accepted_after_a_signal)
{
	uint64_t ticket;

	begin(CONFIG(MEMORY, "every = \"10s\";", "on = \"request\";"));
	hr_signals_catch();
	ready();
	look();
	raise(SIGTERM);
	cr_expect_str_eq(ask_start("b", &ticket), ASK_STOPS);
	over(A, HR_RUN_INTERRUPTED, -EINTR);
	cr_expect_eq(look(), 0u, "it is due, and the next appliance starts it");
	cr_expect(start_of(A)->flags & HR_START_DUE);
	end();
}

Test(ask, a_file_that_cannot_be_read_again_is_not_reloaded)
{
	begin(CONFIG(MEMORY, "every = \"10s\";", "on = \"request\";"));
	ready();
	look();
	cr_expect_str_eq(refusal(HR_REQUEST_RELOAD), ASK_EACH_RUNS_ONCE);
	end();
}
