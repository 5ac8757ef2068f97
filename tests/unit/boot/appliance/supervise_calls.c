/* The supervisor: each call in its order, the pipelines and ssds of each attempt, and its end. */
#include "tests/harness/supervise_rig.h"

#include "config/tick.h"
#include "nvme/hostmem.h"

TestSuite(supervise_calls, .init = begin, .fini = end, .timeout = 60);

/* ---- opening, closing, the periodic function */

Test(supervise_calls, all_parts_are_opened_and_closed_in_order)
{
	memset(s, 0xee, sizeof *s);
	app->run[1].outcome = HR_RUN_COMPLETE;
	cr_assert_eq(hr_supervise_open(s, app, true, "DOG"), 0);
	expect_calls("sockets child notify repeat act control watch(45) dog(DOG) ");
	cr_expect(s->app == app && s->first && heard_to == s);
	cr_expect_eq(s->child.process.sockets, &s->sockets);
	cr_expect(s->status.app == app && s->status.told && !s->status.repeat);
	cr_expect_eq(s->status.phase, HR_PHASE_STARTING);
	cr_expect_eq(s->status.record.run[1].outcome, (uint64_t)HR_RUN_COMPLETE);
	cr_expect(s->budget.boot == &app->config.boot && s->budget.used == 0);
	cr_expect(!s->mute && !s->has_run && !s->pipeline[0].error && !s->absent_ns[0]);
	cr_expect_eq(fake_log_count(), 0u);
	hr_tick();
	cr_expect(strstr(calls_take(), "look "), "the periodic function is set");
	hr_supervise_close(s);
	expect_calls("'STOPPING=1' control-close notify-close dog-close child-close repeat-close "
		     "sockets-close ");
	fake_clock_advance(S);
	hr_tick();
	expect_calls("");
}

Test(supervise_calls, errors_of_opening)
{
	will.sockets = -EADDRINUSE;
	cr_expect_eq(hr_supervise_open(s, app, false, "DOG"), -EADDRINUSE);
	expect_calls("sockets ");
	cr_expect_str_eq(fake_log_last_of(HR_LOG_ERROR), "no socket");
	will.sockets = 0;
	will.child = -ENOMEM;
	cr_expect_eq(hr_supervise_open(s, app, false, "DOG"), -ENOMEM);
	expect_calls("sockets child sockets-close ");
	cr_expect_str_eq(fake_log_last_of(HR_LOG_ERROR),
			 "out of memory for the record of the engine");
	will.child = 0;
	will.repeats = true;
	will.repeat = -EMFILE;
	cr_expect_eq(hr_supervise_open(s, app, false, "DOG"), 0, "it is not needed");
	cr_expect_str_eq(fake_log_last_of(HR_LOG_WARN),
			 "no epoll descriptor: Too many open files; the supervisor wakes each 5 "
			 "ms");
	cr_expect_eq(s->status.repeat, &s->repeat);
	cr_expect_not(s->first);
	hr_supervise_close(s);
}

Test(supervise_calls, the_periodic_function)
{
	static const struct {
		bool first, moves;
		const char *want;
	} row[] = {
		{ false, true, "look ask signals due alive feed " },
		{ false, false, "look ask signals due " },
		{ true, true, "look ask signals due alive feed reap " },
		{ true, false, "look ask signals due reap " },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		cr_assert_eq(hr_supervise_open(s, app, row[i].first, "DOG"), 0);
		s->child.process.pid = 78;
		will.moves = row[i].moves;
		calls_take();
		fake_clock_advance(S);
		hr_tick();
		expect_calls(row[i].want);
		cr_expect_eq(s->status.engine, 78);
		hr_supervise_close(s);
	}
}

/* The manager knows once that the service is ready. */
Test(supervise_calls, phases_are_told)
{
	cr_assert_eq(hr_supervise_open(s, app, false, "DOG"), 0);
	calls_take();
	for (int p = 0; p < HR_PHASES; p++) {
		const enum hr_phase phase = (enum hr_phase)p;
		const bool ready = phase == HR_PHASE_RUNNING || phase == HR_PHASE_IDLE;
		char want[128];

		heard(heard_to, phase);
		cr_expect_eq(s->status.phase, phase);
		snprintf(want, sizeof want, "'STATUS=%s' %s%s%s", hr_phase_name(phase),
			 ready ? "'READY=1+STATUS=" : "", ready ? hr_phase_name(phase) : "",
			 ready ? "' " : "");
		expect_calls(want);
	}
	hr_supervise_close(s);
}

/* ---- attempts */

static int supervise(const struct script *steps, unsigned count)
{
	int code;

	script = steps;
	scripts = count;
	attempts = 0;
	cr_assert_eq(hr_supervise_open(s, app, false, "DOG"), 0);
	hr_tick_set(NULL, NULL);
	calls_take();
	code = hr_supervise(s);
	cr_expect_eq(attempts, count);
	return code;
}

#define SUPERVISE(...)                                                        \
	supervise((const struct script[]){ __VA_ARGS__ },                     \
		  (unsigned)(sizeof((const struct script[]){ __VA_ARGS__ }) / \
			     sizeof(struct script)))
#define ALL(o)                                     \
	{                                          \
		HR_RUN_##o, HR_RUN_##o, HR_RUN_##o \
	}
#define BACKOFF "'STATUS=backoff' look ask signals due "

Test(supervise_calls, one_attempt)
{
	add_ssd(0);
	add_ssd(1);
	s->mute = true;
	cr_expect_eq(SUPERVISE({ ALL(DONE), .up = true, .mute = true, .ran_ns = 5 }), HR_EXIT_DONE);
	expect_calls("[012] ");
	cr_expect(s->has_run && s->mute && s->ran_ns == 5);
	cr_expect(s->status.engine == 0 && s->status.restarts == 0 && s->status.restarts_left == 2);
	for (uint32_t i = 0; i < 3; i++)
		cr_expect(s->pipeline[i].done && !s->pipeline[i].error && !s->pipeline[i].suspect);
	cr_expect_eq(fake_log_count(), 0u);
}

/* Its failed pipeline is suspect, and the others are done. */
Test(supervise_calls, a_restart)
{
	add_ssd(0);
	add_ssd(1);
	cr_expect_eq(SUPERVISE({ { HR_RUN_DONE, HR_RUN_FAILED, HR_RUN_COMPLETE },
				 { 0, -EIO, 0 },
				 .up = true,
				 .mute = true,
				 .result = -EIO },
			       { ALL(DONE), .up = true }),
		     HR_EXIT_DONE);
	expect_calls("[012] " BACKOFF "[1?] ");
	cr_expect_eq(hr_now_ns(), START + S);
	cr_expect(s->mute, "of any attempt");
	cr_expect(s->status.restarts == 1 && s->status.restarts_left == 1);
	cr_expect_str_eq(fake_log_last_of(HR_LOG_WARN), "restart 1 of 2 in 1.0 s");
	cr_expect_eq(app->run[0].outcome, HR_RUN_COMPLETE);
	cr_expect_not(app->run[0].selected);
}

Test(supervise_calls, no_restart_is_left)
{
	const struct script fails = { ALL(FAILED), { -EIO, -EIO, -EIO }, -EIO, .up = true };

	add_ssd(0);
	add_ssd(1);
	cr_expect_eq(SUPERVISE(fails, fails, fails), HR_EXIT_DEVICE);
	expect_calls("[012] " BACKOFF "[0?1?2?] " BACKOFF "[0?1?2?] ");
	cr_expect_eq(hr_now_ns(), START + 3 * S);
	cr_expect_str_eq(fake_log_last_of(HR_LOG_ERROR), "given up after 2 restarts");
	cr_expect(s->status.restarts == 2 && s->status.restarts_left == 0);
}

/* A long run without a failure gives all restarts back. */
Test(supervise_calls, a_run_that_heals)
{
	const struct script fails = { ALL(FAILED), { -EIO, -EIO, -EIO }, -EIO, .up = true };
	struct script heals = fails;

	add_ssd(0);
	add_ssd(1);
	heals.ran_ns = 600 * S;
	cr_expect_eq(SUPERVISE(fails, fails, heals, fails, fails), HR_EXIT_DEVICE);
	cr_expect(s->status.restarts == 4 && s->status.restarts_left == 0);
}

Test(supervise_calls, a_controller_that_is_not_safe_ends_all)
{
	add_ssd(0);
	add_ssd(1);
	cr_expect_eq(
		SUPERVISE({ ALL(FAILED), { -EIO, -EIO, -EIO }, -EIO, .unsafe = true, .up = true }),
		HR_EXIT_DEVICE);
	expect_calls("[012] ");
	cr_expect_eq(s->status.restarts, 0u);
}

/* Without a start of any pipeline: a permanent error, or one of another attempt. */
Test(supervise_calls, a_bring_up_that_fails)
{
	const struct script again = { ALL(WAITING), .result = -ENXIO };
	const struct script final = { ALL(WAITING), .result = -ENOMEDIUM };
	const struct script refused = { ALL(WAITING), .result = -ENXIO, .refused = true };
	const struct script ran = { ALL(WAITING), .result = -ENOMEDIUM, .up = true };

	add_ssd(0);
	add_ssd(1);
	cr_expect_eq(SUPERVISE(final), HR_EXIT_DEVICE);
	cr_expect_eq(SUPERVISE(refused), HR_EXIT_DEVICE);
	cr_expect_eq(SUPERVISE(again, final), HR_EXIT_DEVICE);
	cr_expect_eq(SUPERVISE(again, again, again), HR_EXIT_DEVICE);
	cr_expect_eq(SUPERVISE(ran, final), HR_EXIT_DEVICE);
	cr_expect_eq(SUPERVISE(again, { ALL(DONE), .up = true }), HR_EXIT_DONE);
}

/* ---- pipelines that are given up */

Test(supervise_calls, a_pipeline_that_is_given_up)
{
	char text[256];

	add_ssd(0);
	add_ssd(1);
	cr_expect_eq(SUPERVISE({ { HR_RUN_DONE, HR_RUN_FAILED, HR_RUN_FAILED },
				 { 0, MEDIA, -EIO },
				 -EIO,
				 .up = true },
			       { ALL(DONE), .up = true }),
		     HR_EXIT_DEVICE);
	expect_calls("[012] " BACKOFF "[2?] ");
	snprintf(text, sizeof text, "%s", fake_log_last_of(HR_LOG_ERROR));
	cr_expect(s->pipeline[1].error == MEDIA && s->pipeline[1].suspect && !s->pipeline[1].done);
	cr_expect_str_eq(s->pipeline[1].cause.text, "cause 1");
	cr_expect(s->pipeline[2].done && !s->pipeline[2].error);
	cr_expect_eq(app->run[1].outcome, HR_RUN_FAILED, "in the status");
	cr_expect_eq(app->run[1].error, MEDIA);
	cr_expect_str_eq(app->run[1].cause.text, "cause 1");
	cr_expect(strstr(text, "pipeline 'p1' is given up: ") &&
			  strstr(text, "Unrecovered Read Error") &&
			  strstr(text, ", which a restart does not change"),
		  "%s", text);
}

/* A pipeline that reads what it would have made is given up with it, and the next one with that. */
Test(supervise_calls, readers_of_a_pipeline_that_is_given_up)
{
	add_ssd(0);
	add_ssd(1);
	strcpy(app->config.pipeline[1].source[0].object, "out0");
	strcpy(app->config.pipeline[2].source[0].object, "out0"); /* of the other ssd */
	cr_expect_eq(SUPERVISE({ { HR_RUN_FAILED, HR_RUN_WAITING, HR_RUN_DONE },
				 { MEDIA, 0, 0 },
				 MEDIA,
				 .up = true }),
		     HR_EXIT_DEVICE);
	expect_calls("[012] ");
	cr_expect(s->pipeline[1].error == MEDIA && !s->pipeline[1].done && !s->pipeline[1].suspect);
	cr_expect_str_eq(s->pipeline[1].cause.text, "cause 0");
	cr_expect(s->pipeline[2].done && !s->pipeline[2].error);
}

/* One that waits for another reason is left. */
Test(supervise_calls, a_pipeline_that_waits_is_left)
{
	add_ssd(0);
	add_ssd(1);
	cr_expect_eq(SUPERVISE({ { HR_RUN_FAILED, HR_RUN_WAITING, HR_RUN_DONE },
				 { MEDIA, 0, 0 },
				 MEDIA,
				 .up = true },
			       { ALL(DONE), .up = true }),
		     HR_EXIT_DEVICE);
	expect_calls("[012] " BACKOFF "[1] ");
}

/* Contents in memory are made again by those that were done, but not by those that failed. */
Test(supervise_calls, ssds_in_memory)
{
	add_ssd(0);
	add_ssd(1);
	app->config.ssd[1].in_memory = true;
	cr_expect_eq(SUPERVISE({ { HR_RUN_DONE, HR_RUN_FAILED, HR_RUN_FAILED },
				 { 0, MEDIA, -EIO },
				 -EIO,
				 .up = true },
			       { { HR_RUN_COMPLETE, HR_RUN_WAITING, HR_RUN_DONE }, .up = true }),
		     HR_EXIT_DEVICE);
	expect_calls("[012] " BACKOFF "[02?] ");
	cr_expect(s->pipeline[0].done);
}

/* ---- ssds that are absent */

static void comes(void)
{
	add_ssd(1);
}

/* The pipelines of the others run, then all wait. */
Test(supervise_calls, an_awaited_ssd)
{
	add_ssd(0);
	cr_expect_eq(
		SUPERVISE({ ALL(DONE), .up = true, .during = comes }, { ALL(DONE), .up = true }),
		HR_EXIT_DONE);
	expect_calls("[01 left-out] [2] ");
	cr_expect_eq(hr_now_ns(), START, "no restart");
	cr_expect_eq(s->absent_ns[1], 0u);
	{
		char want[128];

		snprintf(want, sizeof want,
			 "ssd 's1': soft:%s/1 is absent; waiting for it for 60 s", folder);
		cr_expect_str_eq(fake_log_last_of(HR_LOG_WARN), want);
		cr_expect_eq(fake_log_count_of(HR_LOG_WARN), 1u, "once");
	}
}

Test(supervise_calls, an_ssd_that_does_not_come)
{
	cr_expect_eq(SUPERVISE({ ALL(FAILED),
				 { -ENOMEDIUM, -ENOMEDIUM, -ENOMEDIUM },
				 -ENODEV,
				 .up = true }),
		     HR_EXIT_DEVICE);
	expect_calls("'STATUS=waiting' look ask signals due [012] ");
	cr_expect_eq(hr_now_ns(), START + 60 * S);
	cr_expect_eq(s->absent_ns[0], START);
}

Test(supervise_calls, without_a_wait_an_absent_ssd_is_an_error)
{
	app->config.boot.wait_s = 0;
	cr_expect_eq(SUPERVISE({ ALL(WAITING), .result = -ENOMEDIUM }), HR_EXIT_DEVICE);
	expect_calls("[012] ");
	cr_expect_eq(fake_log_count_of(HR_LOG_WARN), 0u);
}

/* ---- stops */

static void expect_stop(struct script now, int want)
{
	add_ssd(0);
	add_ssd(1);
	now.stop = true;
	cr_expect_eq(supervise(&now, 1), want);
	expect_calls("[012] ");
}

Test(supervise_calls, a_stop_of_pipelines)
{
	expect_stop((struct script){ ALL(INTERRUPTED), .result = -EINTR }, HR_EXIT_DONE);
}

Test(supervise_calls, a_stop_after_failures)
{
	expect_stop((struct script){ ALL(FAILED), .error = { -EIO, -EIO, -EIO } }, HR_EXIT_DONE);
}

Test(supervise_calls, a_stop_of_an_attempt_that_failed)
{
	expect_stop((struct script){ ALL(FAILED), .result = -EIO }, HR_EXIT_DEVICE);
}

Test(supervise_calls, a_stop_with_a_controller_that_is_not_safe)
{
	expect_stop((struct script){ ALL(INTERRUPTED), .result = -EINTR, .unsafe = true },
		    HR_EXIT_DEVICE);
}

static void stop_now(void *to)
{
	if (hr_now_ns() >= START + S / 2 && !hr_signals_pending())
		raise(SIGTERM);
}

Test(supervise_calls, a_stop_in_a_pause_and_in_a_wait)
{
	add_ssd(0);
	fake_clock_start(START, stop_now, NULL);
	app->config.boot.backoff_ns = 100 * S;
	cr_expect_eq(SUPERVISE({ ALL(FAILED), { -EIO, -EIO, -EIO }, -EIO, .up = true }),
		     HR_EXIT_DONE);
	expect_calls("[01 left-out] " BACKOFF);
	cr_expect_eq(hr_now_ns(), START + S / 2);
}

Test(supervise_calls, a_stop_in_the_wait_for_an_ssd)
{
	fake_clock_start(START, stop_now, NULL);
	cr_expect_eq(supervise(NULL, 0), HR_EXIT_DONE);
	expect_calls("'STATUS=waiting' look ask signals due ");
	cr_expect_eq(hr_now_ns(), START + S / 2);
}

/* ---- pipelines that repeat */

static void another_engine(void)
{
	s->repeat.renew = true;
}

Test(supervise_calls, another_engine_of_pipelines_that_repeat)
{
	add_ssd(0);
	add_ssd(1);
	will.repeats = true;
	cr_expect_eq(SUPERVISE({ ALL(DONE), .up = true, .during = another_engine },
			       { ALL(FAILED), { -EIO, -EIO, -EIO }, -EIO, .up = true },
			       { ALL(DONE), .stop = true }),
		     HR_EXIT_DONE);
	expect_calls("[012] repeat-end [012] repeat-end " BACKOFF "[012] repeat-end ");
	cr_expect_not(s->repeat.renew);
	cr_expect(!s->pipeline[0].done && !s->pipeline[0].suspect, "the timetable decides");
}

Test(supervise_calls, staying_until_a_signal)
{
	fake_clock_start(START, stop_now, NULL);
	cr_assert_eq(hr_supervise_open(s, app, false, "DOG"), 0);
	hr_tick_set(NULL, NULL);
	calls_take();
	hr_supervise_stay(s);
	expect_calls("sockets-close 'STATUS=staying' look ask signals due ");
	cr_expect_eq(hr_now_ns(), START + S / 2);
}

/* Addresses in use belong to the other kind of host memory. */
Test(supervise_calls, an_appliance_that_cannot_begin)
{
	struct hr_region memory;

	add_ssd(0);
	add_ssd(1);
	cr_assert_eq(hr_hostmem_alloc(&memory, "m", HR_PAGE, NULL), 0);
	strcpy(app->config.ssd[0].device, "pci:0000:01:00.0");
	cr_expect_eq(supervise(NULL, 0), HR_EXIT_USAGE);
	expect_calls("");
	hr_hostmem_free(&memory);
}
