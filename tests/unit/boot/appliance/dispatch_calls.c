/*
 * The loop of an engine whose pipelines repeat, function by function: what it calls, in which order,
 * and what it publishes.
 */
#include "tests/harness/dispatch_rig.h"

TestSuite(dispatch_calls, .init = set_up, .fini = tear_down, .timeout = 60);

/* ---- durable state */

Test(dispatch_calls, starts_are_saved_as_the_next_page)
{
	at->record.starts.sequence = 6;
	sent.starts.sequence = 99;
	sent.starts.start[2].starts = 5;
	give(HR_DISPATCH_SAVE, 3, 15);
	take_dispatches(engine);
	expect_calls("write(6) ");
	cr_expect(at->record.starts.sequence == 7 && at->record.starts.start[2].starts == 5);
	cr_expect(!engine->admit.waiting && !engine->closed);
	will.write = -ENOSPC;
	sent.starts.start[2].starts = 8;
	give(HR_DISPATCH_SAVE, 3, 0);
	give(HR_DISPATCH_SAVE, 3, 0);
	take_dispatches(engine);
	expect_calls("write(7) write(7) ");
	cr_expect_eq(at->record.starts.start[2].starts, 5u, "as last written");
	cr_expect_eq(fake_log_count_of(HR_LOG_WARN), 1u, "once");
	cr_expect_str_eq(fake_log_last_of(HR_LOG_WARN),
			 "the starts of pipelines are not durable: no room");
	will.write = -EIO;
	give(HR_DISPATCH_SAVE, 3, 0);
	take_dispatches(engine);
	cr_expect_eq(fake_log_count_of(HR_LOG_WARN), 2u);
	will.write = 0;
	give(HR_DISPATCH_SAVE, 3, 0);
	take_dispatches(engine);
	will.write = -EIO;
	give(HR_DISPATCH_SAVE, 3, 0);
	take_dispatches(engine);
	cr_expect_eq(fake_log_count_of(HR_LOG_WARN), 3u, "again");
}

Test(dispatch_calls, starts_that_cannot_be_read)
{
	static const struct {
		int err;
		unsigned warnings;
	} row[] = { { 0, 0 }, { -ENOENT, 0 }, { -EEXIST, 1 }, { 0x281, 2 } };

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		will.read = row[i].err;
		load(at);
		cr_expect_eq(fake_log_count_of(HR_LOG_WARN), row[i].warnings, "row %zu", i);
	}
}

/* ---- dispatches */

Test(dispatch_calls, a_dispatch)
{
	engine->admit.running = BIT(1);
	engine->admit.suspects = BIT(2) | BIT(3);
	engine->plan.planned = BIT(0) | BIT(1) | BIT(3);
	will.check[0] = -EAGAIN;
	will.check[3] = -EAGAIN;
	will.check[2] = -ENOENT; /* it fails without a plan */
	engine->admit.request[3] = 4;
	sent.suspects = BIT(0) | BIT(3);
	give(HR_DISPATCH_RUN, 9, BIT(0) | BIT(1) | BIT(2));
	take_dispatches(engine);
	cr_expect_eq(engine->admit.waiting, BIT(0) | BIT(2));
	cr_expect_eq(engine->admit.suspects, BIT(0) | BIT(3));
	cr_expect_eq(engine->admit.planned, BIT(1) | BIT(2) | BIT(3));
	for (uint32_t i = 0; i < 4; i++)
		cr_expect_eq(engine->admit.request[i], i < 3 ? 9u : 4u);
}

Test(dispatch_calls, the_end_of_dispatches)
{
	struct hr_dispatch *d = &sent;

	take_dispatches(engine);
	cr_expect_not(engine->closed);
	cr_assert_eq(send(pair[0], d, sizeof *d - 1, 0), (ssize_t)sizeof *d - 1);
	take_dispatches(engine);
	cr_expect(engine->closed);
	engine->closed = false;
	take_dispatches(engine);
	cr_expect_not(engine->closed);
	close(pair[0]);
	take_dispatches(engine);
	cr_expect(engine->closed);
	pair[0] = -1;
}

/* ---- starts and ends */

Test(dispatch_calls, a_start)
{
	engine->admit.request[0] = 6;
	engine->admit.waiting = BIT(0);
	engine->admit.planned = BIT(0);
	at->record.run[0].over = at->record.run[0].reported = 1;
	start_waiting(engine);
	expect_calls("plan(0) tap(0) feed(0) run(0) tell(running) ");
	cr_expect(engine->admit.running == BIT(0) && !engine->admit.waiting);
	cr_expect(at->record.run[0].number == 6 && !at->record.run[0].over &&
		  !at->record.run[0].reported);
	will.ends = BIT(0);
	will.outcome[0] = HR_RUN_DONE;
	look_at_running(engine);
	expect_calls("look tap-end(0) feed-end(0) unseal report publish end(0) tell(idle) ");
	cr_expect(!engine->admit.running && !engine->runner.running);
	cr_expect(at->record.run[0].over && at->record.run[0].outcome == HR_RUN_DONE &&
		  at->record.run[0].number == 6);
}

/* The memory of others that run is sealed again. */
Test(dispatch_calls, an_end_beside_others)
{
	engine->admit.running = engine->runner.running = BIT(0) | BIT(3);
	will.ends = BIT(3);
	will.outcome[3] = HR_RUN_FAILED;
	engine->admit.request[3] = 8;
	look_at_running(engine);
	expect_calls("look tap-end(3) feed-end(3) unseal report publish end(3) seal "
		     "tell(running) ");
	cr_expect_eq(engine->admit.running, BIT(0));
	cr_expect(at->record.run[3].over && !at->record.run[0].over);
	cr_expect_eq(at->record.run[3].number, 8u);
	cr_expect_eq(engine->failed, 0);
}

/* A start that ends at once: it has failed, or was refused. */
Test(dispatch_calls, starts_that_end_at_once)
{
	static const struct {
		int tap, feed, start;
		enum hr_outcome outcome, before;
		const char *want;
	} row[] = {
		{ 0, 0, 0, HR_RUN_FAILED, HR_RUN_WAITING,
		  "plan(3) tap(3) feed(3) run(3) tell(idle) " },
		{ -EIO, 0, 0, 0, HR_RUN_WAITING, "plan(3) tap(3) refuse(3,-5) " },
		{ 0, -ENXIO, 0, 0, HR_RUN_WAITING, "plan(3) tap(3) feed(3) refuse(3,-6) " },
		{ 0, 0, -ENOENT, 0, HR_RUN_WAITING, "plan(3) " },
		{ 0, 0, 0, 0, HR_RUN_COMPLETE, "plan(3) " },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		char want[256];

		engine->admit.waiting = engine->admit.planned = BIT(3);
		app->run[3].outcome = row[i].before;
		will.tap = row[i].tap;
		will.feed = row[i].feed;
		will.start[3] = row[i].start;
		will.outcome[3] = row[i].outcome;
		at->record.run[3].over = 0;
		start_waiting(engine);
		snprintf(want, sizeof want,
			 "%stap-end(3) feed-end(3) unseal report publish end(3) tell(idle) ",
			 row[i].want);
		expect_calls(want);
		cr_expect(!engine->admit.waiting && !engine->admit.running);
		cr_expect_eq(at->record.run[3].over, 1u);
	}
}

/* Without room in the plan: a new one, when nothing runs. */
Test(dispatch_calls, new_plans)
{
	static const struct {
		hr_pipelines running;
		int make, check;
		const char *want;
		int result;
	} row[] = {
		{ BIT(1), 0, 0, "plan(0) ", -EAGAIN },
		{ 0, 0, 0, "plan(0) tell(bring-up) make(1)! tell(idle) plan(0) ", -EAGAIN },
		{ 0, -ENOMEM, 0, "plan(0) tell(bring-up) make(1)! tell(idle) refuse(0,-12) ",
		  -ENOMEM },
		{ 0, 0, -EAGAIN, "plan(0) tell(bring-up) make(1)! tell(idle) refuse(0,-28) ",
		  -ENOSPC },
		{ 0, 0, -ENOENT, "plan(0) tell(bring-up) make(1)! tell(idle) plan(0) ", -EAGAIN },
	};

	will.start[0] = -EAGAIN;
	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		engine->admit.running = row[i].running;
		will.make = row[i].make;
		will.check[0] = row[i].check;
		cr_expect_eq(prepare(engine, 0), row[i].result, "row %zu", i);
		expect_calls(row[i].want);
	}
	engine->admit.running = 0;
	will.start[3] = -EAGAIN;
	cr_expect_eq(prepare(engine, 3), -EAGAIN);
	expect_calls("plan(3) tell(bring-up) make(8)! tell(idle) plan(3) ");
	engine->admit.running = BIT(1);
	engine->admit.waiting = BIT(0) | BIT(2);
	engine->plan.planned = BIT(1);
	will.check[0] = will.check[2] = -EAGAIN;
	engine->admit.planned = 15;
	start_one(engine, 0);
	expect_calls("plan(0) ");
	cr_expect_eq(engine->admit.planned, BIT(1), "it waits for a new plan");
	cr_expect_eq(engine->admit.waiting, BIT(0) | BIT(2));
	cr_expect_eq(at->record.run[0].number, 0u);
}

/* What a failed pipeline would have made is not there. */
Test(dispatch_calls, readers_of_a_failed_pipeline)
{
	engine->admit.running = engine->runner.running = BIT(0);
	engine->admit.waiting = BIT(1) | BIT(2) | BIT(3);
	for (uint32_t i = 0; i < 4; i++)
		engine->admit.request[i] = 20 + i;
	app->run[1].outcome = HR_RUN_DONE; /* of an earlier start */
	will.ends = BIT(0);
	will.outcome[0] = HR_RUN_FAILED;
	look_at_running(engine);
	cr_expect_eq(engine->admit.waiting, BIT(3));
	cr_expect_eq(app->run[1].outcome, HR_RUN_WAITING);
	for (uint32_t i = 0; i < 4; i++)
		cr_expect_eq(at->record.run[i].over, (uint64_t)(i < 3), "%u", i);
	cr_expect_eq(at->record.run[2].number, 22u);
	cr_expect_eq(fake_log_count_of(HR_LOG_WARN), 2u);
	cr_expect_str_eq(fake_log_last_of(HR_LOG_WARN),
			 "pipeline 'p2' does not run: it reads the sink of pipeline 'p0'");
	calls_take();
}

static void raise_term(void)
{
	raise(SIGTERM);
}

/* Nothing starts after the failure of a device, the last dispatch, or a signal. */
Test(dispatch_calls, when_nothing_starts)
{
	engine->admit.waiting = engine->admit.planned = BIT(0);
	engine->failed = -EIO;
	start_waiting(engine);
	engine->failed = 0;
	engine->closed = true;
	start_waiting(engine);
	engine->closed = false;
	raise(SIGTERM);
	start_waiting(engine);
	expect_calls("");
	for (uint32_t i = 0; i < 4; i++)
		engine->admit.request[i] = 30 + i;
	engine->admit.waiting = BIT(0) | BIT(3);
	interrupt(engine);
	expect_calls("tell(idle) ");
	for (uint32_t i = 0; i < 4; i++) {
		const bool waited = i == 0 || i == 3;

		cr_expect_eq(app->run[i].outcome, waited ? HR_RUN_INTERRUPTED : HR_RUN_WAITING);
		cr_expect_eq(at->record.run[i].over, (uint64_t)waited);
		cr_expect_eq(at->record.run[i].number, waited ? 30u + i : 0u);
	}
	cr_expect_eq(engine->admit.waiting, 0u);
	interrupt(engine);
	expect_calls("");
}

/* ---- devices */

static void expect_failed(int failed, const char *text)
{
	find_failed(engine);
	cr_expect_eq(engine->failed, failed);
	cr_expect_str_eq(engine->cause.text, text);
	engine->failed = 0;
	hr_error_clear(&engine->cause);
}

Test(dispatch_calls, devices_that_have_failed)
{
	expect_failed(0, "");
	app->gpu_failed[1] = true;
	expect_failed(-EIO, "gpu 'g1' has failed: it needs a new engine");
	app->ssd[2].health.state = HR_HEALTH_LOST;
	app->left_out[2] = true;
	expect_failed(-EIO, "gpu 'g1' has failed: it needs a new engine");
	app->left_out[2] = false;
	find_failed(engine);
	cr_expect_eq(engine->cause.kind, HR_ERROR_DEVICE);
	expect_failed(-EIO, "ssd 's2' has failed: it needs a new engine");
}

/* Those that no running pipeline uses. */
Test(dispatch_calls, looks_at_ssds)
{
	engine->runner.running = BIT(3); /* it uses ssd 1, and 0 */
	app->config.pipeline[3].source[0].ssd = 1;
	engine->looked_ns = 0;
	look_at_ssds(engine);
	cr_expect_eq(engine->looked_ns, START);
	cr_expect(strstr(calls_text(), "check2 events2 ") && !strstr(calls_text(), "check1"));
	calls_take();
	engine->runner.running = 0;
	look_at_ssds(engine);
	expect_calls("check0 events0 check1 events1 check2 events2 ");
	app->left_out[0] = true;
	app->ssd[1].ctrl = NULL;
	app->ssd[2].health.state = HR_HEALTH_FAILED;
	look_at_ssds(engine);
	expect_calls("");
}

Test(dispatch_calls, an_ssd_that_is_lost)
{
	will.look[0] = -ENODEV;
	will.events[1] = -ENXIO;
	look_at_ssds(engine);
	expect_calls("check0 check1 events1 check2 events2 ");
	cr_expect_str_eq(fake_log_last_of(HR_LOG_ERROR), "ssd 's1' is lost: event");
	cr_expect(app->ssd[0].health.state != HR_HEALTH_UP &&
		  app->ssd[1].health.state != HR_HEALTH_UP &&
		  app->ssd[2].health.state == HR_HEALTH_UP);
	cr_expect_eq(app->ssd[0].health.count[HR_FAULT_NAMESPACE], 0u);
	cr_expect_eq(app->ssd[1].health.count[HR_FAULT_NAMESPACE], 1u);
}

Test(dispatch_calls, health_before_the_first_start)
{
	app->left_out[0] = true;
	hr_mend_read_health(app);
	expect_calls("smart1 smart2 ");
	app->left_out[0] = false;
	app->ssd[1].ctrl = NULL;
	app->ssd[2].health.state = HR_HEALTH_LOST;
	hr_mend_read_health(app);
	expect_calls("smart0 ");
}

/* ---- sleep */

Test(dispatch_calls, the_sleep)
{
	static const struct {
		uint64_t pause_ns;
		int wake;
		const char *want;
	} row[] = {
		{ 0, 77, "store taps " },
		{ 20000, 77, "store taps wake1 wake2 wait(service,20000) wake1 wake2 " },
		{ S - 1, 77, "store taps wake1 wake2 wait(service,999999999) wake1 wake2 " },
		{ S, 77, "store taps rest1 rest2 wait(service,1000000000) wake1 wake2 " },
		{ 9 * S, 0, "store taps rest1 rest2 wait(service,1000000000) wake1 wake2 " },
		{ 9 * S, -1, "store taps rest1 rest2 wait(dispatch,1000000000) wake1 wake2 " },
	};

	app->left_out[0] = true;
	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		will.pause_ns = row[i].pause_ns;
		at->service.wake = row[i].wake;
		serve_clients(engine);
		expect_calls(row[i].want);
	}
}

/* ---- the end of the engine */

/* An end is durable with the dispatch after it. */
Test(dispatch_calls, the_last_dispatch)
{
	cr_expect_not(awaits_dispatch(engine));
	cr_expect_eq(engine->last_ns, START + 10 * S);
	engine->dispatch.starts.start[3].outcome = HR_START_RUNNING;
	cr_expect(awaits_dispatch(engine));
	expect_calls("wait(dispatch,10000000) tick ");
	engine->admit.waiting = BIT(3);
	cr_expect_not(awaits_dispatch(engine));
	engine->admit.waiting = 0;
	engine->admit.running = BIT(3);
	cr_expect_not(awaits_dispatch(engine));
	engine->admit.running = BIT(2);
	engine->closed = true;
	cr_expect_not(awaits_dispatch(engine));
	engine->closed = false;
	fake_clock_start(START + 10 * S - 1, NULL, NULL);
	cr_expect(awaits_dispatch(engine));
	fake_clock_start(START + 10 * S, NULL, NULL);
	cr_expect_not(awaits_dispatch(engine));
	cr_expect_eq(engine->last_ns, START + 10 * S);
}

/* ---- the whole */

static void hang_up(void)
{
	close(pair[0]);
	pair[0] = -1;
}

Test(dispatch_calls, from_bring_up_to_the_end)
{
	app->run[1].selected = false;
	engine->plan.planned = BIT(2);
	will.pause_ns = S;
	will.at_wait = hang_up;
	cr_expect_eq(hr_dispatch_serve(at), 0);
	expect_calls("tell(bring-up) up smart0 smart1 smart2 read make(0) tell(idle) open "
		     "store taps rest0 rest1 rest2 wait(service,1000000000) wake0 wake1 wake2 tick "
		     "check0 events0 check1 events1 check2 events2 close tell(going down) down ");
	cr_expect(at->record.has_run && at->record.ready);
	cr_expect_eq(at->record.usable, (uint64_t)(BIT(0) | BIT(2) | BIT(3)));
	cr_expect_eq(engine->plan.usable, BIT(0) | BIT(2) | BIT(3));
	cr_expect_eq(engine->admit.planned, BIT(2));
	cr_expect_eq(at->record.ran_ns, S);
	cr_expect(app->resolves_late);
	cr_expect_eq(level, HR_LOG_INFO);
}

Test(dispatch_calls, errors_of_bring_up)
{
	will.up = -ENXIO;
	cr_expect_eq(hr_dispatch_serve(at), -ENXIO);
	expect_calls("tell(bring-up) up ");
	cr_expect(!at->record.has_run && !at->record.ready);
	will.up = 0;
	will.services = -EMFILE;
	cr_expect_eq(hr_dispatch_serve(at), -EMFILE);
	expect_calls("tell(bring-up) up smart0 smart1 smart2 read make(0) tell(idle) open close "
		     "tell(going down) down ");
}

/* A put of a client wakes the supervisor. */
Test(dispatch_calls, a_put)
{
	will.services = -EMFILE;
	hr_dispatch_serve(at);
	calls_take();
	cr_expect_eq(changed_to, engine);
	engine->admit.waiting = BIT(0) | BIT(2);
	engine->plan.planned = 0;
	will.check[0] = -EAGAIN;
	changed(changed_to);
	expect_calls("tell(idle) ");
	cr_expect_eq(engine->admit.planned, BIT(2));
}

static void fail_gpu(void)
{
	app->gpu_failed[0] = true;
}

Test(dispatch_calls, the_loop_ends)
{
	will.pause_ns = S;
	will.at_wait = fail_gpu;
	engine->looked_ns = START;
	hr_fail(&app->error, HR_ERROR_FAILED, -EINVAL, "of another run");
	cr_expect_eq(serve(engine), -EIO);
	cr_expect_str_eq(app->error.text, "gpu 'g0' has failed: it needs a new engine");
	cr_expect_eq(app->error.kind, HR_ERROR_DEVICE);
	expect_calls("store taps rest0 rest1 rest2 wait(service,1000000000) wake0 wake1 wake2 tick "
		     "check0 events0 check1 events1 check2 events2 ");
	app->gpu_failed[0] = false;
	engine->failed = 0;
	will.pause_ns = S - 1; /* the next look at the ssds is not due */
	will.at_wait = raise_term;
	engine->looked_ns = hr_now_ns();
	cr_expect_eq(serve(engine), 0);
	expect_calls(
		"store taps wake0 wake1 wake2 wait(service,999999999) wake0 wake1 wake2 tick ");
}
