/* The supervisor of pipelines that repeat: its sleep, each dispatch whole, and each end. */
#include <poll.h>

#include "tests/harness/repeat_rig.h"

TestSuite(repeat_steps, .timeout = 60);

#define EVERY "every = \"10s\";"
#define REQUEST "on = \"request\";"

static bool noting;
static uint64_t slept_ns;

struct timespec;
int ppoll(struct pollfd *fds, nfds_t count, const struct timespec *limit, const sigset_t *mask)
{
	if (noting)
		slept_ns = (uint64_t)limit->tv_sec * S + (uint64_t)limit->tv_nsec;
	return poll(fds, count, 0);
}

static uint64_t sleep_of(void)
{
	slept_ns = UINT64_MAX;
	noting = true;
	child.rest(child.rest_to);
	noting = false;
	return slept_ns;
}

/* Until the next start, and at most a second. */
Test(repeat_steps, the_sleep)
{
	begin(CONFIG(MEMORY, EVERY, REQUEST));
	cr_expect(child.rest_to == r && child.wake == r->wake && r->wake >= 0);
	cr_expect_eq(sleep_of(), S, "no engine is ready");
	ready();
	look();
	over(A, HR_RUN_DONE, 0);
	look();
	cr_expect_eq(sleep_of(), S);
	fake_clock_advance(9 * S);
	cr_expect_eq(sleep_of(), S);
	fake_clock_advance(1);
	cr_expect_eq(sleep_of(), S - 1);
	fake_clock_advance(S / 2);
	cr_expect_eq(sleep_of(), S / 2 - 1);
	r->greeted = false;
	cr_expect_eq(sleep_of(), S);
	r->greeted = true;
	r->begun = false;
	cr_expect_eq(sleep_of(), S);
	end();
}

Test(repeat_steps, descriptors_that_wake)
{
	struct pollfd wake = { .events = POLLIN };
	int pipes[2], own;

	begin(CONFIG(MEMORY, EVERY, REQUEST));
	wake.fd = own = r->wake;
	cr_assert_eq(pipe(pipes), 0);
	hr_repeat_watch(r, -1);
	hr_repeat_watch(r, pipes[0]);
	cr_expect_eq(poll(&wake, 1, 0), 0);
	cr_assert_eq(write(pipes[1], "x", 1), 1);
	cr_expect_eq(poll(&wake, 1, 0), 1);
	hr_repeat_close(r);
	cr_expect_eq(r->wake, -1);
	cr_expect_not(r->on);
	wake.fd = own;
	cr_expect(poll(&wake, 1, 0) == 1 && wake.revents == POLLNVAL, "closed");
	hr_repeat_watch(r, pipes[0]);
	close(pipes[0]);
	close(pipes[1]);
	end();
}

Test(repeat_steps, the_first_descriptor_may_wake)
{
	const int kept = dup(0);
	int err, wake;

	begin(CONFIG(MEMORY, EVERY, REQUEST));
	hr_repeat_close(r);
	close(0);
	err = hr_repeat_open(r, &child, app);
	wake = r->wake;
	hr_repeat_close(r);
	dup2(kept, 0);
	close(kept);
	cr_expect_eq(err, 0);
	cr_expect_eq(wake, 0);
	end();
}

/* ---- dispatches */

Test(repeat_steps, a_dispatch_is_whole)
{
	begin(CONFIG(MEMORY, EVERY, REQUEST));
	ready();
	memset(&dispatch, 0xee, sizeof dispatch);
	cr_expect_eq(look(), BIT(A));
	cr_expect(dispatch.kind == HR_DISPATCH_RUN && dispatch.number == 1 &&
		  dispatch.pipelines == BIT(A) && dispatch.suspects == 0);
	cr_expect_eq(memcmp(&dispatch.starts, &r->timetable.starts, sizeof dispatch.starts), 0);
	cr_expect(r->dispatches == 1 && r->number[A] == 1 && r->number[B] == 0);
	cr_expect_eq(r->running, BIT(A));
	cr_expect_not(r->timetable.changed);
	over(A, HR_RUN_DONE, 0);
	cr_expect_eq(look(), 0u);
	cr_expect(dispatch.kind == HR_DISPATCH_SAVE && dispatch.pipelines == 0 &&
		  dispatch.number == 2);
	cr_expect(r->dispatches == 1 && !r->timetable.changed && !r->running);
	memset(&dispatch, 0xee, sizeof dispatch);
	cr_expect_eq(look(), 0u);
	cr_expect_eq(dispatch.kind, 0xeeeeeeeeeeeeeeeeull, "nothing has changed");
	hr_timetable_pause(&r->timetable, B);
	look();
	cr_expect(dispatch.kind == HR_DISPATCH_SAVE && r->dispatches == 1);
	end();
}

/* Starts that an earlier engine has made durable. */
Test(repeat_steps, the_starts_of_earlier_engines)
{
	for (uint64_t sequence = 0; sequence < 2; sequence++) {
		begin(CONFIG(MEMORY, EVERY, REQUEST));
		ready();
		record.starts.sequence = sequence;
		strcpy(record.starts.start[0].name, "b");
		record.starts.start[0].starts = 7;
		cr_expect_not(r->begun);
		look();
		cr_expect(r->begun && r->greeted);
		cr_expect_eq(start_of(B)->starts, sequence ? 7u : 0u);
		hr_repeat_end(r);
		cr_expect_not(r->greeted);
		ready();
		look();
		cr_expect(r->greeted, "each engine");
		cr_expect_eq(start_of(B)->starts, sequence ? 7u : 0u, "but the timetable stays");
		end();
	}
}

Test(repeat_steps, when_nothing_is_dispatched)
{
	begin(CONFIG(MEMORY, EVERY, EVERY));
	ready();
	record.ready = 0;
	cr_expect_eq(look(), 0u);
	record.ready = 1;
	{
		const pid_t pid = child.process.pid;

		child.process.pid = 0;
		cr_expect_eq(look(), 0u);
		child.process.pid = pid;
	}
	r->on = false;
	cr_expect_eq(look(), 0u);
	cr_expect_not(r->begun);
	r->on = true;
	r->renew = true;
	run(A);
	r->running = BIT(A);
	cr_expect_eq(look(), 0u);
	cr_expect_eq(child.asked_ns, 0u, "a runs");
	r->running = 0;
	cr_expect_eq(look(), 0u);
	cr_expect_eq(child.asked_ns, hr_now_ns());
	r->renew = false;
	cr_expect_eq(look(), BIT(A) | BIT(B));
	end();
}

/* ---- ends */

Test(repeat_steps, errors_of_ends)
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
		cr_assert_eq(hr_ask_start(s, B, &ticket), 0);
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
Test(repeat_steps, suspects)
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
		hr_ask_start(s, B, &ticket);
		look();
		over(B, row[i].outcome, row[i].error);
		record.run[B].blame = row[i].blame;
		look();
		cr_expect_eq(hr_ask_start(s, B, &ticket), row[i].suspect ? -EOWNERDEAD : 0);
		look();
		cr_expect_eq(hr_repeat_can_run(r), true);
		hr_ask_start(s, A, &ticket);
		cr_expect_eq(look(), BIT(A));
		cr_expect_eq(dispatch.suspects, row[i].suspect ? BIT(B) : 0, "row %zu", i);
		end();
	}
}

/* Of those that run: as their record says; one that has not begun is interrupted. */
Test(repeat_steps, the_end_of_an_engine)
{
	begin(CONFIG(MEMORY, EVERY, REQUEST));
	hr_repeat_end(r);
	cr_expect_eq(start_of(A)->starts, 0u, "before the first engine");
	ready();
	look();
	record.run[A].number = 0;
	record.run[A].outcome = HR_RUN_DONE;
	r->refused = BIT(B);
	hr_repeat_end(r);
	cr_expect(!r->greeted && !r->refused && !r->running && r->begun);
	cr_expect_eq(start_of(A)->outcome, HR_START_INTERRUPTED);
	cr_expect_eq(start_of(B)->outcome, HR_START_NONE, "it did not run");
	ready();
	cr_expect_eq(look(), BIT(A));
	over(A, HR_RUN_DONE, 0);
	record.run[A].over = 0;
	hr_repeat_end(r);
	cr_expect_eq(start_of(A)->outcome, HR_START_DONE);
	ready();
	fake_clock_advance(10 * S);
	cr_expect_eq(look(), BIT(A));
	run(A);
	hr_repeat_end(r);
	cr_expect_eq(start_of(A)->outcome, HR_START_INTERRUPTED, "the engine has not ended it");
	end();
}

Test(repeat_steps, versions_of_both_pipelines)
{
	begin(CONFIG(MEMORY, "on = \"object x\";", "on = \"object y\";"));
	ready();
	look();
	record.version[B] = 9;
	cr_expect_eq(look(), BIT(B));
	cr_expect(r->timetable.timed[A].version == 0 && r->timetable.timed[B].version == 9);
	end();
}

/* ---- ssds that are not up */

/* With the error of bring-up, once for each engine. Then the ssd needs a new engine. */
Test(repeat_steps, a_pipeline_whose_ssd_failed_at_bring_up)
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

/* Its starts wait until the ssd is there. */
Test(repeat_steps, a_pipeline_whose_ssd_is_absent)
{
	begin(CONFIG("soft:/tmp/hr-no-such-image", EVERY, REQUEST));
	ready();
	record.usable = BIT(B);
	for (int i = 0; i < 3; i++) {
		cr_expect_eq(look(), 0u);
		cr_expect(!r->renew && !r->refused && start_of(A)->failures == 0);
		fake_clock_advance(10 * S);
	}
	cr_expect_eq(child.asked_ns, 0u);
	end();
}

/* ---- warnings */

Test(repeat_steps, a_warning_that_holds_starts)
{
	static const struct {
		uint64_t known, warnings;
		enum hr_warning_action action;
		const char *text; /* NULL: it holds nothing */
	} row[] = {
		{ 1, 1 << 3, HR_WARNING_PAUSE, "pause" }, { 1, 1 << 3, HR_WARNING_STOP, "stop" },
		{ 1, 1 << 3, HR_WARNING_LOG, NULL },	  { 0, 1 << 3, HR_WARNING_STOP, NULL },
		{ 1, 1 << 2, HR_WARNING_STOP, NULL },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		unsigned warnings, told;
		char want[256];

		begin(CONFIG(MEMORY, EVERY, EVERY));
		app->config.health.action[3] = row[i].action;
		ready();
		record.ssd[0].smart.known = row[i].known;
		record.ssd[0].smart.critical_warning = row[i].warnings;
		warnings = fake_log_count_of(HR_LOG_WARN);
		told = fake_log_count_of(HR_LOG_INFO);
		cr_expect_eq(look(), row[i].text ? 0 : BIT(A) | BIT(B), "row %zu", i);
		cr_expect_eq(look(), 0u);
		cr_expect_eq(r->held, row[i].text ? BIT(A) | BIT(B) : 0);
		cr_expect_eq(fake_log_count_of(HR_LOG_WARN) - warnings, row[i].text ? 2u : 0u);
		cr_expect_eq(fake_log_count_of(HR_LOG_INFO), told);
		if (row[i].text) {
			snprintf(want, sizeof want,
				 "pipeline 'b' does not start: ssd 's' has a critical warning, and "
				 "health.read_only is \"%s\"",
				 row[i].text);
			cr_expect_str_eq(fake_log_last_of(HR_LOG_WARN), want);
			record.ssd[0].smart.critical_warning = 0;
			cr_expect_eq(look(), BIT(A) | BIT(B));
			cr_expect_eq(look(), 0u);
			cr_expect_eq(r->held, 0u);
			cr_expect_eq(fake_log_count_of(HR_LOG_INFO) - told, 2u);
			cr_expect_str_eq(fake_log_last_of(HR_LOG_INFO),
					 "pipeline 'b' may start again: its ssds have no such "
					 "warning");
		}
		end();
	}
}

/* Of an ssd that the pipeline uses. */
Test(repeat_steps, a_warning_of_another_ssd)
{
	begin(CONFIG(MEMORY, EVERY, EVERY));
	app->config.ssds = 2;
	app->config.ssd[1] = app->config.ssd[0];
	strcpy(app->config.ssd[1].name, "t");
	app->config.pipeline[B].source[0].ssd = 1;
	ready();
	record.ssd[1].smart.known = 1;
	record.ssd[1].smart.critical_warning = 1 << 3;
	cr_expect_eq(look(), BIT(A));
	cr_expect_eq(r->held, BIT(B));
	cr_expect(strstr(fake_log_last_of(HR_LOG_WARN), "ssd 't' has"));
	end();
}
