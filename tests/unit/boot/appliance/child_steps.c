/* What the supervisor hears of an engine, and when it ends the engine. */
#include "tests/harness/child_rig.h"

TestSuite(child_steps, .init = set_up, .fini = tear_down, .timeout = 60);

/* ---- opening */

Test(child_steps, opening)
{
	memset(child, 0xee, sizeof *child);
	cr_expect_eq(hr_child_open(child, &record, note_phase, heard), 0);
	cr_expect(child->record == &record && child->to == heard && child->wake == -1);
	cr_expect(child->timeout_ns == 120 * S && child->stop_ns == 100 * S &&
		  child->undo_ns == 10 * S);
	cr_expect(!child->rest && !child->unsafe && !child->still_ns && !child->wrong);
	will.open = -ENOMEM;
	cr_expect_eq(hr_child_open(child, &record, note_phase, heard), -ENOMEM);
	hr_child_close(child);
	cr_expect_str_eq(calls_take(), "close ");
}

/* ---- looks */

Test(child_steps, phases)
{
	static const int all[] = { HR_PHASE_POST, HR_PHASES_OF_ENGINE, HR_PHASE_BRING_UP,
				   255,		  HR_PHASE_GOING_DOWN, -1 };
	int many[70];

	child->process.phases = 7;
	started_ns = START;
	will.hangs_up_ns = NEVER;
	will.phases = all;
	hr_child_look(child, &app->config, START + 1);
	cr_expect_str_eq(heard, "0 1 4 ");
	cr_expect(child->running_ns == 0 && !child->hung_up && child->looked_ns == START + 1);
	for (int i = 0; i < 70; i++)
		many[i] = i == 69 ? -1 : HR_PHASE_POST;
	will.phases = many;
	hr_child_look(child, &app->config, START + 2);
	cr_expect_eq(will.phases - many, 64, "in one look");
	hr_child_look(child, &app->config, START + 2);
	cr_expect_eq(will.phases - many, 69);
	will.hangs_up_ns = 0;
	hr_child_look(child, &app->config, START + 2);
	cr_expect(child->hung_up);
	child->process.phases = -1;
	child->hung_up = false;
	hr_child_look(child, &app->config, START + 9);
	cr_expect(!child->hung_up && child->looked_ns == START + 9);
}

/* From the first phase in which pipelines run, to the last look. */
Test(child_steps, the_time_in_which_pipelines_run)
{
	static const int running[] = { HR_PHASE_RUNNING, -1, HR_PHASE_IDLE, -1 };

	for (int i = 0; i < 2; i++) {
		child->running_ns = 0;
		child->process.phases = 7;
		will.hangs_up_ns = NEVER;
		will.phases = NULL;
		hr_child_look(child, &app->config, START);
		cr_expect_eq(hr_child_ran_ns(child), 0u);
		will.phases = running + 2 * i;
		hr_child_look(child, &app->config, START + 5);
		cr_expect_eq(child->running_ns, START + 5);
		will.phases = running;
		hr_child_look(child, &app->config, START + 12);
		cr_expect_eq(child->running_ns, START + 5, "the first");
		cr_expect_eq(hr_child_ran_ns(child), 7u);
	}
	record.ran_ns = 99;
	cr_expect_eq(hr_child_ran_ns(child), 7u);
	record.finished = 1;
	cr_expect_eq(hr_child_ran_ns(child), 99u, "as the engine says");
}

/* Silence counts at most a second for each look. */
Test(child_steps, silence)
{
	child->process.pid = 500;
	child->process.phases = 7;
	will.hangs_up_ns = NEVER;
	hr_record_publish(&page, &published);
	hr_child_look(child, &app->config, START);
	cr_expect_eq(child->still_ns, 0u);
	hr_child_look(child, &app->config, START + 7);
	hr_child_look(child, &app->config, START + 7 + S);
	hr_child_look(child, &app->config, START + 7 + 3 * S);
	cr_expect_eq(child->still_ns, 7 + 2 * S);
	child->timeout_ns = 8 + 2 * S;
	cr_expect(hr_child_moves(child));
	hr_child_look(child, &app->config, START + 8 + 3 * S);
	cr_expect_not(hr_child_moves(child));
	child->process.pid = 0;
	cr_expect(hr_child_moves(child), "no engine");
	child->process.pid = 500;
	hr_record_publish(&page, &published);
	hr_child_look(child, &app->config, START + 8 + 3 * S);
	cr_expect_eq(child->still_ns, 0u);
	cr_expect(hr_child_moves(child));
}

/* The phases in which calls of drivers may take long have the longer limit. */
Test(child_steps, limits_of_phases)
{
	static const struct {
		enum hr_phase phase;
		uint64_t progress_ns, limit_ns;
	} row[] = {
		{ HR_PHASE_RUNNING, 2 * S, 2 * S },    { HR_PHASE_IDLE, 2 * S, 2 * S },
		{ HR_PHASE_BRING_UP, 2 * S, 9 * S },   { HR_PHASE_POST, 2 * S, 9 * S },
		{ HR_PHASE_GOING_DOWN, 2 * S, 9 * S }, { HR_PHASE_STARTING, 2 * S, 9 * S },
		{ HR_PHASE_RUNNING, 12 * S, 12 * S },  { HR_PHASE_BRING_UP, 12 * S, 12 * S },
		{ HR_PHASE_RUNNING, 0, 9 * S },
	};

	child->process.pid = 500;
	child->timeout_ns = 9 * S;
	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		child->phase = row[i].phase;
		child->progress_ns = row[i].progress_ns;
		child->still_ns = row[i].limit_ns - 1;
		cr_expect(hr_child_moves(child), "row %zu", i);
		child->still_ns++;
		cr_expect_not(hr_child_moves(child), "row %zu", i);
	}
}

Test(child_steps, a_record_that_is_out_of_range)
{
	static const struct {
		uint64_t has_run, refused;
		unsigned warnings;
		const char *wrong;
	} row[] = {
		{ 1, 0, 0, NULL },	{ 2, 0, 1, "has_run" }, { 3, 0, 1, "has_run" },
		{ 1, 2, 1, "refused" }, { 0, 0, 1, NULL },	{ 0, 2, 2, "refused" },
	};
	struct hr_record before;

	child->process.pid = 500;
	child->process.phases = 7;
	will.hangs_up_ns = NEVER;
	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		before = record;
		published.has_run = row[i].has_run;
		published.refused = row[i].refused;
		hr_record_publish(&page, &published);
		hr_child_look(child, &app->config, START);
		cr_expect_eq(fake_log_count_of(HR_LOG_WARN), row[i].warnings, "row %zu", i);
		cr_expect_eq(memcmp(&record, row[i].wrong ? &before : &published, sizeof record), 0,
			     "row %zu", i);
		cr_expect_eq(!child->wrong, !row[i].wrong);
		if (row[i].wrong && row[i].warnings == 2)
			cr_expect_str_eq(fake_log_last_of(HR_LOG_WARN),
					 "engine 500: its record is ignored: 'refused' is out of "
					 "range");
	}
	page.sequence++; /* it dies in the middle of a write */
	before = record;
	hr_child_look(child, &app->config, START);
	cr_expect_eq(memcmp(&record, &before, sizeof record), 0);
}

/* ---- engines that hang */

Test(child_steps, an_engine_that_makes_no_progress)
{
	silent = true;
	running(0, 8, 0, 2);
	child->timeout_ns = 50 * MS;
	will.ends_ns = will.hangs_up_ns = NEVER;
	will.dies_of_kill = true;
	will.hangs_up_ns = 0;
	cr_expect_eq(attempt(), -ETIMEDOUT);
	cr_expect_str_eq(calls_take(), "KILL@50 hang-up@55 ");
	cr_expect_str_eq(test_error_text(), "engine 500: no progress for 50 ms; it is killed; it "
					    "ran: no pipeline, stage 'none'");
	cr_expect_eq(test_error_kind(), HR_ERROR_DEVICE);
	cr_expect_str_eq(fake_log_last_of(HR_LOG_ERROR), test_error_text());
	cr_expect_str_eq(fake_log_last_of(HR_LOG_INFO), "engine 500: ended");
}

static void stop_at_10(void)
{
	if (hr_now_ns() == started_ns + 10 * MS)
		raise(SIGTERM);
}

/* It is asked once, and killed when it does not end in time. */
Test(child_steps, an_engine_that_does_not_stop)
{
	running(2, 8, 0, 2);
	child->stop_ns = 50 * MS;
	will.ends_ns = NEVER;
	will.dies_of_kill = true;
	will.at_step = stop_at_10;
	cr_expect_eq(attempt(), -ETIMEDOUT);
	cr_expect_str_eq(calls_take(), "TERM@10 KILL@60 hang-up@65 ");
	cr_expect_str_eq(test_error_text(), "engine 500: not stopped 50 ms after the signal; it is "
					    "killed; it ran: pipeline 'p2', 2 of 8 tiles done");
	cr_expect_eq(test_error_kind(), HR_ERROR_DEVICE);
}

Test(child_steps, an_engine_that_stops_in_time)
{
	published.finished = 1;
	child->stop_ns = 50 * MS;
	will.ends_ns = 55 * MS;
	will.at_step = stop_at_10;
	cr_expect_eq(attempt(), 0);
	cr_expect_str_eq(calls_take(), "TERM@10 hang-up@55 ");
}

Test(child_steps, an_engine_that_a_kill_does_not_end)
{
	silent = true;
	child->timeout_ns = 10 * MS;
	will.ends_ns = NEVER;
	cr_expect_eq(attempt(), -ETIMEDOUT);
	cr_expect_str_eq(calls_take(), "KILL@10 ");
	cr_expect_eq(hr_now_ns(), START + 10 * MS + HR_CHILD_KILL_NS);
	cr_expect_str_eq(test_error_text(), "engine 500: SIGKILL has not ended it within 30000 ms: "
					    "it hangs in the kernel");
	cr_expect_eq(test_error_kind(), HR_ERROR_DEVICE);
	cr_expect(child->unsafe);
	cr_expect_str_eq(fake_log_last_of(HR_LOG_ERROR), test_error_text());
}

Test(child_steps, an_engine_that_cannot_start)
{
	will.start = -EAGAIN;
	cr_expect_eq(attempt(), -EAGAIN);
	cr_expect_str_eq(test_error_text(), "the engine cannot be started: Resource temporarily "
					    "unavailable");
	cr_expect_eq(test_error_kind(), HR_ERROR_FAILED);
	cr_expect_str_eq(fake_log_last_of(HR_LOG_ERROR), test_error_text());
	cr_expect_str_eq(calls_take(), "");
}

static void rest(void *to)
{
	cr_expect_eq(to, &will);
	calls_note("rest ");
	fake_clock_advance(MS);
}

/* In place of the pause. */
Test(child_steps, the_rest_of_the_caller)
{
	child->rest = rest;
	child->rest_to = &will;
	will.ends_ns = 3 * MS;
	will.status = EXITS(1);
	attempt();
	cr_expect_str_eq(calls_take(), "rest rest rest hang-up@3 ");
}
