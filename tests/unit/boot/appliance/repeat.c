/* The supervisor of pipelines that repeat, and requests for starts. */
#include "tests/harness/repeat_rig.h"

TestSuite(repeat, .timeout = 60);
TestSuite(ask, .timeout = 60);

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
	hr_repeat_end(r);
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
	hr_repeat_look(r);
	cr_expect_eq(r->running, 0u);
	cr_expect_eq(start_of(A)->starts, 0u);
	while (recv(engine, &junk, sizeof junk, 0) > 0)
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
	hr_repeat_end(r);
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

/* ---- requests (boot/appliance/ask.h) */

static enum hr_ask_state state(uint32_t i, uint64_t ticket, int *err)
{
	return hr_ask_look(s, i, ticket, err);
}

Test(ask, a_configuration_without_a_schedule_takes_no_request)
{
	uint64_t ticket;

	begin(CONFIG(MEMORY, "", ""));
	cr_expect_eq(hr_ask_start(s, A, &ticket), -ENOTSUP);
	cr_expect_eq(hr_ask_pause(s, A), -ENOTSUP);
	cr_expect_eq(hr_ask_resume(s, A), -ENOTSUP);
	cr_expect_eq(hr_ask_reload(s), -ENOTSUP);
	end();
}

Test(ask, requests_before_the_first_engine_are_refused)
{
	uint64_t ticket;
	int err;

	begin(CONFIG(MEMORY, "on = \"request\";", ""));
	cr_expect_eq(hr_ask_start(s, A, &ticket), -EBUSY);
	cr_expect_eq(hr_ask_pause(s, A), -EBUSY);
	cr_expect_eq(hr_ask_resume(s, A), -EBUSY);
	cr_expect_eq(hr_ask_reload(s), -EBUSY);
	cr_expect_eq(state(A, 1, &err), HR_ASK_GONE);
	end();
}

Test(ask, a_ticket_shows_its_start_from_the_request_to_the_end)
{
	uint64_t ticket, next;
	int err;

	begin(CONFIG(MEMORY, "on = \"request\";", "on = \"request\";"));
	ready();
	cr_expect_eq(look(), 0u);
	cr_expect_eq(hr_ask_start(s, A, &ticket), 0);
	cr_expect_eq(state(A, ticket, &err), HR_ASK_WAITING);
	cr_expect_eq(hr_ask_start(s, A, &next), 0);
	cr_expect_eq(next, ticket, "requests before the start are one");
	cr_expect_eq(look(), BIT(A));
	cr_expect_eq(state(A, ticket, &err), HR_ASK_RUNNING);
	cr_expect_eq(hr_ask_start(s, A, &next), 0, "once more afterwards");
	cr_expect_eq(next, ticket + 1);
	over(A, HR_RUN_DONE, 0);
	cr_expect_eq(look(), BIT(A));
	cr_expect_eq(state(A, ticket, &err), HR_ASK_DONE);
	over(A, HR_RUN_FAILED, 0x281);
	look();
	cr_expect_eq(state(A, next, &err), HR_ASK_FAILED);
	cr_expect_eq(err, 0x281);
	cr_expect_eq(state(A, ticket, &err), HR_ASK_DONE, "the result of the first stays");
	cr_expect_eq(err, 0);
	end();
}

Test(ask, an_old_ticket_is_gone)
{
	uint64_t first, ticket;
	int err;

	begin(CONFIG(MEMORY, "on = \"request\";", "on = \"request\";"));
	ready();
	look();
	for (uint32_t i = 0; i <= HR_REPEAT_RESULTS; i++) {
		cr_assert_eq(hr_ask_start(s, A, i ? &ticket : &first), 0);
		cr_assert_eq(look(), BIT(A));
		over(A, HR_RUN_DONE, 0);
		look();
	}
	cr_expect_eq(state(A, first, &err), HR_ASK_GONE);
	cr_expect_eq(state(A, first + 1, &err), HR_ASK_DONE);
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
	cr_expect_eq(hr_ask_start(s, A, &ticket), 0);
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
	cr_expect_eq(hr_ask_pause(s, A), 0);
	cr_expect_eq(hr_ask_pause(s, A), 0, "again");
	cr_expect_eq(hr_ask_start(s, A, &ticket), -EAGAIN);
	fake_clock_advance(11 * S);
	cr_expect_eq(look(), 0u);
	cr_expect(dispatch.starts.start[A].flags & HR_START_PAUSED, "durable");
	cr_expect_eq(hr_ask_resume(s, A), 0);
	cr_expect_eq(hr_ask_resume(s, A), 0, "again");
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
	cr_expect_eq(hr_ask_start(s, B, &ticket), -ESHUTDOWN);
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
	cr_expect_eq(hr_ask_reload(s), -ENOTSUP);
	end();
}
