/*
 * Starts, ends and requests of one pipeline of a timetable, with all members of the pipeline
 * afterwards; and its next start.
 */
#include <errno.h>

#include "tests/harness/timetable_one.h"

TestSuite(timetable_steps, .init = begin_test, .timeout = 60);

Test(timetable_steps, what_may_start)
{
	static const struct {
		uint64_t flags;
		struct hr_timed d;
		hr_timetable_set want;
	} row[] = {
		{ DUE, { .drop = 0 }, 2 },
		{ DUE | REQUESTED | RETRY, { .not_before_ns = NOW }, 2 },
		{ DUE, { .not_before_ns = NOW + 1 }, 0 },
		{ DUE | PAUSED, { .drop = 0 }, 0 },
		{ DUE, { .running = true }, 0 },
		{ DUE, { .over = true }, 0 },
		{ RETRY | REQUESTED, { .drop = 0 }, 0 },
	};
	static const struct hr_config_when when = { .kind = HR_WHEN_REQUEST };

	for (size_t i = 0; i < ROWS(row); i++) {
		const struct pipeline is = { { .flags = row[i].flags }, row[i].d };

		set_up(&when, &is);
		cr_expect_eq(hr_timetable_due(&t, &at), row[i].want, "row %zu", i);
		expect(i, &is, false);
	}
}

Test(timetable_steps, a_start)
{
	static const struct hr_config_when when = { .kind = HR_WHEN_REQUEST };
	static const struct {
		uint64_t wall, came, not_before, started, planned;
	} row[] = {
		{ WALL, 5, 4, WALL, 5 },
		{ WALL, 5, 6, WALL, 6 },
		{ HR_WALL_SET_NS, 0, 0, HR_WALL_SET_NS, 0 },
		{ HR_WALL_SET_NS - 1, 0, 0, 0, 0 },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		const struct pipeline is = { { .flags = DUE | RETRY | REQUESTED,
					       .outcome = HR_START_FAILED,
					       .error = 7,
					       .started_ns = 1,
					       .ended_ns = 2,
					       .starts = 8,
					       .version = 3,
					       .done = 4,
					       .failures = 5,
					       .skipped = 6,
					       .failures_in_row = 7,
					       .planned_ns = 9 },
					     { .came_ns = row[i].came,
					       .not_before_ns = row[i].not_before,
					       .version = 11,
					       .drop = true } };
		struct pipeline want = is;

		want.s.flags = REQUESTED;
		want.s.outcome = HR_START_RUNNING;
		want.s.error = 0;
		want.s.started_ns = row[i].started;
		want.s.ended_ns = 0;
		want.s.starts = 9;
		want.s.version = 11;
		want.d.running = true;
		want.d.planned_ns = row[i].planned;
		set_up(&when, &is);
		at.wall_ns = row[i].wall;
		hr_timetable_started(&t, 2 | 8, &at); /* there is no pipeline 3 */
		expect(i, &want, true);
		set_up(&when, &is);
		hr_timetable_started(&t, 0, &at);
		expect(i, &is, false);
	}
}

#define FINAL -EINVAL
#define BACKOFF (3 * S)

Test(timetable_steps, an_end)
{
	static const struct {
		enum hr_when_kind kind;
		int err;
		uint64_t flags, in_row; /* before */
		enum hr_start_outcome outcome;
		uint64_t flags_then, in_row_then, pause;
		bool over, came; /* it is due since now */
	} row[] = {
		{ HR_WHEN_REQUEST, 0, REQUESTED, 3, HR_START_DONE, 0, 0, 0, false, false },
		{ HR_WHEN_REQUEST, 0, REQUESTED | DUE, 3, HR_START_DONE, REQUESTED | DUE, 0, 0,
		  false, false },
		{ HR_WHEN_ONCE, 0, 0, 0, HR_START_DONE, 0, 0, 0, true, false },
		{ HR_WHEN_FOREVER, 0, REQUESTED, 0, HR_START_DONE, DUE, 0, 0, false, true },
		{ HR_WHEN_REQUEST, -EINTR, REQUESTED, 2, HR_START_INTERRUPTED,
		  REQUESTED | RETRY | DUE, 2, 77, false, true },
		{ HR_WHEN_EVERY, -EIO, 0, 0, HR_START_FAILED, RETRY | DUE, 1, BACKOFF, false,
		  true },
		{ HR_WHEN_EVERY, -EIO, 0, 1, HR_START_FAILED, RETRY | DUE, 2, 2 * BACKOFF, false,
		  true },
		{ HR_WHEN_EVERY, -EIO, 0, 3, HR_START_FAILED, RETRY | DUE, 4, 8 * BACKOFF, false,
		  true },
		{ HR_WHEN_EVERY, -EIO, 0, 99, HR_START_FAILED, RETRY | DUE, 100, HOUR, false,
		  true },
		{ HR_WHEN_EVERY, -EIO, REQUESTED, 0, HR_START_FAILED, 0, 1, BACKOFF, false, false },
		{ HR_WHEN_EVERY, FINAL, 0, 0, HR_START_FAILED, 0, 1, BACKOFF, false, false },
		{ HR_WHEN_ONCE, FINAL, 0, 0, HR_START_FAILED, 0, 1, BACKOFF, true, false },
		{ HR_WHEN_ONCE, -EIO, 0, 0, HR_START_FAILED, RETRY | DUE, 1, BACKOFF, false, true },
		{ HR_WHEN_FOREVER, FINAL, 0, 0, HR_START_FAILED, DUE, 1, BACKOFF, false, true },
	};

	config.boot.backoff_ns = BACKOFF;
	for (size_t i = 0; i < ROWS(row); i++) {
		const struct hr_config_when when = { .kind = row[i].kind, .every_ns = S };
		const struct pipeline is = { { .flags = row[i].flags,
					       .outcome = HR_START_RUNNING,
					       .done = 5,
					       .failures = 6,
					       .starts = 20,
					       .failures_in_row = row[i].in_row,
					       .started_ns = 8 },
					     { .running = true,
					       .not_before_ns = 77,
					       .late_ns = 5,
					       .next_ns = UINT64_MAX } };
		struct pipeline want = is;

		want.d.running = false;
		want.d.over = row[i].over;
		want.d.not_before_ns =
			row[i].outcome == HR_START_FAILED ? NOW + row[i].pause : row[i].pause;
		if (row[i].came) {
			want.d.due_ns = want.d.came_ns = NOW;
			want.d.late_ns = 0;
		}
		want.s.flags = row[i].flags_then;
		want.s.outcome = row[i].outcome;
		want.s.ended_ns = WALL;
		want.s.done += row[i].outcome == HR_START_DONE;
		want.s.failures += row[i].outcome == HR_START_FAILED;
		want.s.error = row[i].outcome == HR_START_FAILED ? row[i].err : 0;
		want.s.failures_in_row = row[i].in_row_then;
		set_up(&when, &is);
		hr_timetable_ended(&t, 1, row[i].err, &at);
		expect(i, &want, true);
	}
}

/* A backoff that is too short is 10 ms. */
Test(timetable_steps, pauses_after_failures)
{
	static const struct {
		uint64_t backoff, in_row, pause;
	} row[] = {
		{ 0, 0, 10000000 },    { 9999999, 0, 10000000 },  { 10000001, 0, 10000001 },
		{ 0, 2, 40000000 },    { HOUR - 1, 0, HOUR - 1 }, { HOUR - 1, 1, HOUR },
		{ HOUR + 1, 0, HOUR }, { HOUR / 2, 1, HOUR },	  { HOUR / 4, 1, HOUR / 2 },
	};
	static const struct hr_config_when when = { .kind = HR_WHEN_REQUEST };

	for (size_t i = 0; i < ROWS(row); i++) {
		const struct pipeline is = { .s = { .failures_in_row = row[i].in_row } };

		config.boot.backoff_ns = row[i].backoff;
		set_up(&when, &is);
		hr_timetable_ended(&t, 1, -EIO, &at);
		cr_expect_eq(t.timed[1].not_before_ns - NOW, row[i].pause, "row %zu", i);
	}
}

/* The end of a start that may be dropped and is late by then. */
Test(timetable_steps, a_late_start_is_dropped_at_the_end_of_the_run)
{
	static const struct hr_config_when when = { .kind = HR_WHEN_AFTER, .skip = true };
	static const struct pipeline
		is = { { .flags = DUE | REQUESTED },
		       { .running = true, .drop = true, .due_ns = NOW - 61 * S } },
		want = { { .skipped = 1, .outcome = HR_START_DONE, .done = 1, .ended_ns = WALL },
			 { .drop = true, .due_ns = NOW, .late_ns = 61 * S } };

	set_up(&when, &is);
	hr_timetable_ended(&t, 1, 0, &at);
	expect(0, &want, true);
}

/* Pipelines 1 and 3 follow 2, pipeline 0 follows 1. */
Test(timetable_steps, an_end_starts_those_after_it)
{
	static const struct {
		uint32_t ended;
		int err;
		hr_timetable_set due;
	} row[] = { { 2, 0, 0x2 }, { 2, -EIO, 0x4 }, { 1, 0, 0x1 }, { 0, 0, 0 } };
	static const struct pipeline none;
	static const struct hr_config_when after_two = { .kind = HR_WHEN_AFTER, .after = 2 };

	for (size_t i = 0; i < ROWS(row); i++) {
		set_up(&after_two, &none);
		config.pipeline[0].when =
			(struct hr_config_when){ .kind = HR_WHEN_AFTER, .after = 1 };
		config.pipeline[3].when = after_two;
		hr_timetable_ended(&t, row[i].ended, row[i].err, &at);
		for (uint32_t k = 0; k < 4; k++) {
			const bool is_due = row[i].due >> k & 1;

			cr_expect_eq(t.starts.start[k].flags & DUE, is_due, "row %zu: %u", i, k);
			cr_expect_eq(t.timed[k].came_ns, is_due ? NOW : 0, "row %zu: %u", i, k);
		}
	}
}

Test(timetable_steps, requests)
{
	static const struct hr_config_when when = { .kind = HR_WHEN_ONCE };
	const struct pipeline is = {
		{ .starts = 6 }, { .over = true, .not_before_ns = 9, .drop = true, .late_ns = 3 }
	};
	struct pipeline want = is;

	set_up(&when, &is);
	cr_expect_eq(hr_timetable_request(&t, 1, &at), 7);
	want.s.flags = DUE | REQUESTED;
	want.d = (struct hr_timed){ CAME(0) };
	expect(0, &want, true);
	t.changed = false;
	at.now_ns += S; /* it is due since the first one */
	cr_expect_eq(hr_timetable_request(&t, 1, &at), 7);
	expect(1, &want, true);
	t.changed = false;
	hr_timetable_pause(&t, 1);
	want.s.flags |= PAUSED;
	expect(2, &want, true);
	t.changed = false;
	hr_timetable_pause(&t, 1);
	expect(3, &want, false);
	hr_timetable_resume(&t, 1, &at);
	want.s.flags &= ~(uint64_t)PAUSED;
	expect(4, &want, true);
	t.changed = false;
	hr_timetable_resume(&t, 1, &at);
	expect(5, &want, false);
}

Test(timetable_steps, versions_of_objects)
{
	static const struct {
		enum hr_when_kind kind;
		uint64_t version;
		bool due;
	} row[] = { { HR_WHEN_OBJECT, 5, true },
		    { HR_WHEN_OBJECT, 4, false },
		    { HR_WHEN_OBJECT, 0, false },
		    { HR_WHEN_REQUEST, 5, false } };

	for (size_t i = 0; i < ROWS(row); i++) {
		const struct hr_config_when when = { .kind = row[i].kind };
		const struct pipeline is = { { .version = 4 }, { .version = 3 } };
		struct pipeline want = is;

		want.d.version = row[i].version;
		if (row[i].due) {
			want.s.flags = DUE;
			want.d.due_ns = want.d.came_ns = NOW;
		}
		set_up(&when, &is);
		hr_timetable_object(&t, 1, row[i].version, &at);
		expect(i, &want, false);
	}
}

#define NEVER UINT64_MAX

static const struct wait {
	struct hr_config_when when;
	uint64_t flags;
	struct hr_timed d;
	enum hr_wait_for want;
	uint64_t in_ns;
	const char *text;
	uint64_t next_ns; /* the next event, from now */
} wait_row[] = {
	{ OF(HR_WHEN_ONCE, 0), DUE, { .over = true }, HR_WAIT_NEVER, NEVER, "never", MINUTE },
	{ OF(HR_WHEN_ONCE, 0), 0, { .drop = 0 }, HR_WAIT_NEVER, NEVER, "never", MINUTE },
	{ OF(HR_WHEN_FOREVER, 0), 0, { .drop = 0 }, HR_WAIT_NEVER, NEVER, "never", MINUTE },
	{ OF(HR_WHEN_ONCE, 0),
	  DUE | PAUSED,
	  { .drop = 0 },
	  HR_WAIT_RESUME,
	  NEVER,
	  "resume",
	  MINUTE },
	{ OF(HR_WHEN_ONCE, 0),
	  DUE,
	  { .running = true },
	  HR_WAIT_END,
	  NEVER,
	  "its own end",
	  MINUTE },
	{ OF(HR_WHEN_ONCE, 0),
	  DUE,
	  { .not_before_ns = NOW },
	  HR_WAIT_NOTHING,
	  0,
	  "nothing",
	  MINUTE },
	{ OF(HR_WHEN_ONCE, 0),
	  DUE,
	  { .not_before_ns = NOW + 8 },
	  HR_WAIT_PAUSE,
	  8,
	  "pause after a failure",
	  8 },
	{ EVERY(TEN, 0), 0, { .next_ns = NOW + 7 }, HR_WAIT_TIME, 7, "time", 7 },
	{ EVERY(TEN, 0), 0, { .next_ns = NOW + 7, .running = true }, HR_WAIT_TIME, 7, "time", 7 },
	{ EVERY(TEN, 0), 0, { .next_ns = NOW + TEN }, HR_WAIT_TIME, TEN, "time", MINUTE },
	{ EVERY(TEN, 0), 0, { .next_ns = NOW - 1 }, HR_WAIT_TIME, 0, "time", MINUTE },
	{ DAILY(780, 0), 0, { .next_wall_ns = WALL + 6 }, HR_WAIT_TIME, 6, "time", 6 },
	{ DAILY(780, 0), 0, { .next_wall_ns = WALL - 6 }, HR_WAIT_TIME, 0, "time", MINUTE },
	{ DAILY(780, 0), 0, { .drop = 0 }, HR_WAIT_TIME, HOUR, "time", MINUTE },
	{ OF(HR_WHEN_OBJECT, 0), 0, { .drop = 0 }, HR_WAIT_OBJECT, NEVER, "object", MINUTE },
	{ OF(HR_WHEN_OBJECT, 0),
	  0,
	  { .version = 1, .running = true },
	  HR_WAIT_EVENT,
	  NEVER,
	  "event",
	  MINUTE },
	{ OF(HR_WHEN_AFTER, 0), 0, { .drop = 0 }, HR_WAIT_EVENT, NEVER, "event", MINUTE },
	{ OF(HR_WHEN_REQUEST, 0), 0, { .drop = 0 }, HR_WAIT_EVENT, NEVER, "event", MINUTE },
};

Test(timetable_steps, what_a_pipeline_waits_for)
{
	const struct wait *row = wait_row;

	for (size_t i = 0; i < ROWS(wait_row); i++) {
		const struct pipeline is = { { .flags = row[i].flags }, row[i].d };
		uint64_t in_ns = 1;

		set_up(&row[i].when, &is);
		cr_expect_eq(hr_timetable_wait(&t, 1, &at, &in_ns), row[i].want, "row %zu", i);
		cr_expect_eq(in_ns, row[i].in_ns, "row %zu", i);
		cr_expect_str_eq(hr_wait_text(row[i].want), row[i].text);
		cr_expect_eq(hr_timetable_next_ns(&t, &at) - NOW, row[i].next_ns, "row %zu", i);
	}
	set_up(&row[11].when, &(struct pipeline){ .d = row[11].d });
	at.wall_ns = HR_WALL_SET_NS - 1;
	cr_expect_eq(hr_timetable_wait(&t, 1, &at, &(uint64_t){ 0 }), HR_WAIT_CLOCK);
	cr_expect_str_eq(hr_wait_text(HR_WAIT_CLOCK), "clock");
}
