/*
 * A look at one pipeline of a timetable: each rule at its boundaries, with all members of the pipeline
 * afterwards.
 */
#include "tests/harness/timetable_one.h"

TestSuite(timetable_look, .init = begin_test, .timeout = 60);

Test(timetable_look, every)
{
	static const struct {
		struct hr_config_when when;
		struct pipeline is, want;
	} row[] = {
		{ EVERY(TEN, false),
		  { .d = { .next_ns = NOW + 1 } },
		  { .d = { .next_ns = NOW + 1 } } },
		{ EVERY(TEN, false),
		  { .d = { .next_ns = NOW } },
		  { { .flags = DUE, .planned_ns = WALL }, { CAME(0), .next_ns = NOW + TEN } } },
		{ EVERY(TEN, true),
		  { .d = { .next_ns = NOW } },
		  { { .flags = DUE, .planned_ns = WALL },
		    { CAME(0), .next_ns = NOW + TEN, .drop = true } } },
		{ EVERY(TEN, false), /* two were missed, and the third is late */
		  { .d = { .next_ns = NOW - 1270 * S } },
		  { { .flags = DUE, .planned_ns = WALL - 70 * S },
		    { CAME(70 * S), .next_ns = NOW + 530 * S } } },
		{ EVERY(TEN, true),
		  { .d = { .next_ns = NOW - 1260 * S } },
		  { { .flags = DUE, .planned_ns = WALL - 60 * S, .skipped = 2 },
		    { CAME(60 * S), .next_ns = NOW + 540 * S, .drop = true } } },
		{ EVERY(TEN, true),
		  { .d = { .next_ns = NOW - 1260 * S - 1 } },
		  { { .planned_ns = WALL - 60 * S - 1, .skipped = 3 },
		    { CAME(60 * S + 1), .next_ns = NOW + 540 * S - 1, .drop = true } } },
		{ EVERY(100 * S, true), /* half an interval is shorter than a minute */
		  { .d = { .next_ns = NOW - 50 * S } },
		  { { .flags = DUE, .planned_ns = WALL - 50 * S },
		    { CAME(50 * S), .next_ns = NOW + 50 * S, .drop = true } } },
		{ EVERY(100 * S, true),
		  { .d = { .next_ns = NOW - 50 * S - 1 } },
		  { { .planned_ns = WALL - 50 * S - 1, .skipped = 1 },
		    { CAME(50 * S + 1), .next_ns = NOW + 50 * S - 1, .drop = true } } },
		{ EVERY(TEN, false), /* due already: the earlier moment counts */
		  { { .flags = DUE, .planned_ns = 5 },
		    { .next_ns = NOW, .came_ns = 6, .due_ns = 7 } },
		  { { .flags = DUE, .planned_ns = WALL },
		    { .next_ns = NOW + TEN, .came_ns = 6, .due_ns = 7 } } },
		{ EVERY(TEN, true), /* one that may be dropped is replaced */
		  { { .flags = DUE }, { .next_ns = NOW, .came_ns = 6, .due_ns = 7, .drop = true } },
		  { { .flags = DUE, .planned_ns = WALL, .skipped = 1 },
		    { CAME(0), .next_ns = NOW + TEN, .drop = true } } },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		set_up(&row[i].when, &row[i].is);
		hr_timetable_look(&t, &at);
		expect(i, &row[i].want, false);
	}
}

/* The monotonic clock has not run for so long; the wall clock is not set. */
Test(timetable_look, every_soon_after_boot)
{
	static const struct hr_config_when when = { .kind = HR_WHEN_EVERY, .every_ns = TEN };
	static const struct pipeline is = { .d = { .next_ns = 0 } }, want = {
		{ .flags = DUE }, { .next_ns = TEN, .due_ns = 9, .late_ns = 9, .came_ns = 9 }
	};

	set_up(&when, &is);
	at = (struct hr_moment){ 9, 100 * S };
	hr_timetable_look(&t, &at);
	expect(0, &want, false);
}

#define MONDAYS(minute, how) \
	.when = { .kind = HR_WHEN_AT, .at_minute = (minute), .at_day = 1, .skip = how }
#define ONE_PM (WALL + HOUR)

/* It is Monday, 12:00. */
Test(timetable_look, at)
{
	static const struct {
		struct hr_config_when when;
		struct pipeline is, want;
	} row[] = {
		{ DAILY(780, false), { .d = { .drop = 0 } }, { .d = { .next_wall_ns = ONE_PM } } },
		{ DAILY(780, false), /* from the newest start on */
		  { .s = { .planned_ns = ONE_PM - DAY } },
		  { { .planned_ns = ONE_PM - DAY }, { .next_wall_ns = ONE_PM } } },
		{ DAILY(780, false),
		  { .s = { .planned_ns = ONE_PM - 2 * DAY } },
		  { { .planned_ns = ONE_PM - DAY, .flags = DUE },
		    { .next_wall_ns = ONE_PM,
		      .due_ns = NOW,
		      .came_ns = NOW,
		      .late_ns = 23 * HOUR } } },
		{ DAILY(720, false),
		  { .d = { .next_wall_ns = WALL } },
		  { { .planned_ns = WALL, .flags = DUE },
		    { CAME(0), .next_wall_ns = WALL + DAY } } },
		{ DAILY(720, false),
		  { .d = { .next_wall_ns = WALL + 1 } },
		  { .d = { .next_wall_ns = WALL + 1 } } },
		{ DAILY(719, true),
		  { .d = { .next_wall_ns = WALL - MINUTE } },
		  { { .planned_ns = WALL - MINUTE, .flags = DUE },
		    { CAME(MINUTE), .next_wall_ns = WALL - MINUTE + DAY, .drop = true } } },
		{ DAILY(718, true),
		  { .d = { .next_wall_ns = WALL - 2 * MINUTE } },
		  { { .planned_ns = WALL - 2 * MINUTE, .skipped = 1 },
		    { CAME(2 * MINUTE), .next_wall_ns = WALL - 2 * MINUTE + DAY, .drop = true } } },
		{ DAILY(720, true), /* three days were missed */
		  { .d = { .next_wall_ns = WALL - 3 * DAY } },
		  { { .planned_ns = WALL, .flags = DUE, .skipped = 3 },
		    { CAME(0), .next_wall_ns = WALL + DAY, .drop = true } } },
		{ DAILY(720, true), /* many days, of which only the last are computed */
		  { .d = { .next_wall_ns = WALL - 100 * DAY } },
		  { { .planned_ns = WALL, .flags = DUE, .skipped = 100 },
		    { CAME(0), .next_wall_ns = WALL + DAY, .drop = true } } },
		{ MONDAYS(720, true),
		  { .d = { .next_wall_ns = WALL - 14 * DAY } },
		  { { .planned_ns = WALL, .flags = DUE, .skipped = 2 },
		    { CAME(0), .next_wall_ns = WALL + 7 * DAY, .drop = true } } },
		{ DAILY(780, false), /* the clock was put back: by the hours of a day, or by more */
		  { .d = { .next_wall_ns = WALL + 2 * DAY } },
		  { .d = { .next_wall_ns = WALL + 2 * DAY } } },
		{ DAILY(780, false),
		  { .d = { .next_wall_ns = WALL + 2 * DAY + 1 } },
		  { .d = { .next_wall_ns = ONE_PM } } },
		{ MONDAYS(780, false),
		  { .d = { .next_wall_ns = WALL + 8 * DAY } },
		  { .d = { .next_wall_ns = WALL + 8 * DAY } } },
		{ MONDAYS(780, false),
		  { .d = { .next_wall_ns = WALL + 8 * DAY + 1 } },
		  { .d = { .next_wall_ns = ONE_PM } } },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		set_up(&row[i].when, &row[i].is);
		hr_timetable_look(&t, &at);
		expect(i, &row[i].want, false);
	}
	set_up(&row[3].when, &row[3].is);
	at.wall_ns = HR_WALL_SET_NS - 1; /* a clock that is not set */
	hr_timetable_look(&t, &at);
	expect(0, &row[3].is, false);
}

Test(timetable_look, events_and_late_starts)
{
	static const struct {
		struct hr_config_when when;
		struct pipeline is, want;
	} row[] = {
		{ OF(HR_WHEN_OBJECT, false), { .d = { .drop = 0 } }, { .d = { .drop = 0 } } },
		{ OF(HR_WHEN_OBJECT, false),
		  { { .version = 4 }, { .version = 4 } },
		  { { .version = 4 }, { .version = 4 } } },
		{ OF(HR_WHEN_OBJECT, false),
		  { { .version = 4 }, { .version = 5 } },
		  { { .version = 4, .flags = DUE }, { CAME(0), .version = 5 } } },
		{ OF(HR_WHEN_OBJECT, false),
		  { { .version = 4 }, { .version = 5, .running = true } },
		  { { .version = 4 }, { .version = 5, .running = true } } },
		{ OF(HR_WHEN_OBJECT, true), /* an event is not dropped */
		  { { .flags = DUE }, { .version = 5, .drop = true, .due_ns = 1, .late_ns = 2 } },
		  { { .flags = DUE }, { .version = 5, .due_ns = 1, .late_ns = 2 } } },
		{ OF(HR_WHEN_REQUEST, false),
		  { { .version = 4 }, { .version = 5 } },
		  { { .version = 4 }, { .version = 5 } } },
		/* only the pipeline's own run, pause and failure make a start late */
		{ OF(HR_WHEN_AFTER, true),
		  { { .flags = DUE }, { .drop = true, .due_ns = NOW - 99 * S, .late_ns = 60 * S } },
		  { { .flags = DUE }, { .drop = true, .due_ns = NOW, .late_ns = 60 * S } } },
		{ OF(HR_WHEN_AFTER, true),
		  { { .flags = DUE },
		    { .drop = true, .due_ns = NOW - 99 * S, .late_ns = 60 * S + 1 } },
		  { { .skipped = 1 }, { .drop = true, .due_ns = NOW, .late_ns = 60 * S + 1 } } },
		{ OF(HR_WHEN_AFTER, true),
		  { { .flags = DUE },
		    { .drop = true, .running = true, .due_ns = NOW - 10 * S, .late_ns = 50 * S } },
		  { { .flags = DUE },
		    { .drop = true, .running = true, .due_ns = NOW, .late_ns = 60 * S } } },
		{ OF(HR_WHEN_AFTER, true),
		  { { .flags = DUE | PAUSED },
		    { .drop = true, .due_ns = NOW - 10 * S, .late_ns = 51 * S } },
		  { { .flags = PAUSED, .skipped = 1 },
		    { .drop = true, .due_ns = NOW, .late_ns = 61 * S } } },
		{ OF(HR_WHEN_AFTER, true),
		  { { .flags = DUE | RETRY },
		    { .drop = true,
		      .due_ns = NOW - 10 * S,
		      .late_ns = 51 * S,
		      .not_before_ns = NOW + 1 } },
		  { { .flags = RETRY, .skipped = 1 },
		    { .drop = true,
		      .due_ns = NOW,
		      .late_ns = 61 * S,
		      .not_before_ns = NOW + 1 } } },
		{ OF(HR_WHEN_AFTER, true),
		  { { .flags = DUE },
		    { .drop = true,
		      .due_ns = NOW - 10 * S,
		      .late_ns = 51 * S,
		      .not_before_ns = NOW } },
		  { { .flags = DUE },
		    { .drop = true, .due_ns = NOW, .late_ns = 51 * S, .not_before_ns = NOW } } },
		{ OF(HR_WHEN_AFTER, false), /* this one may not be dropped */
		  { { .flags = DUE }, { .running = true, .due_ns = 1, .late_ns = 99 * S } },
		  { { .flags = DUE }, { .running = true, .due_ns = 1, .late_ns = 99 * S } } },
		{ OF(HR_WHEN_AFTER, true), /* it is not due */
		  { .d = { .drop = true, .due_ns = 1, .late_ns = 99 * S } },
		  { .d = { .drop = true, .due_ns = 1, .late_ns = 99 * S } } },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		set_up(&row[i].when, &row[i].is);
		hr_timetable_look(&t, &at);
		expect(i, &row[i].want, false);
	}
}
