/* When pipelines start: each rule and its boundary, on times that the test chooses. */
#include "boot/appliance/timetable.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "config/clock.h"

#define S HR_NS_PER_S
#define MINUTE (60 * S)
#define HOUR (60 * MINUTE)
#define DAY (24 * HOUR)
#define NOON 1780315200 /* 2026-06-01 12:00 UTC, a Monday */

static struct hr_config config;
static struct hr_timetable t;
static struct hr_moment at;
static struct hr_starts saved;

static void begin_test(void)
{
	setenv("TZ", "UTC0", 1);
	tzset();
	memset(&config, 0, sizeof config);
	config.boot.backoff_ns = S;
	at = (struct hr_moment){ 100 * S, NOON * S };
}

TestSuite(timetable, .init = begin_test, .timeout = 60);

static struct hr_config_when *add(enum hr_when_kind kind)
{
	struct hr_config_pipeline *p = &config.pipeline[config.pipelines];

	snprintf(p->name, sizeof p->name, "p%u", config.pipelines++);
	p->when = (struct hr_config_when){ .kind = kind, .at_day = -1 };
	return &p->when;
}

static void every(uint64_t ns, bool skip)
{
	struct hr_config_when *when = add(HR_WHEN_EVERY);

	when->every_ns = ns;
	when->skip = skip;
}

static void daily(uint32_t minute, int day, bool skip)
{
	struct hr_config_when *when = add(HR_WHEN_AT);

	when->at_minute = minute;
	when->at_day = day;
	when->skip = skip;
}

static void begin(void)
{
	hr_timetable_begin(&t, &config, saved.sequence ? &saved : NULL, &at);
}

/* The power fails now and comes back after `off`; the machine has run `up` since then. */
static void cut(uint64_t off, uint64_t up)
{
	saved = t.starts;
	saved.sequence = 1;
	cr_expect_null(hr_starts_check(&saved), "%s", hr_starts_check(&saved));
	at.wall_ns += off;
	at.now_ns = up;
	begin();
}

static void pass(uint64_t ns)
{
	at.now_ns += ns;
	at.wall_ns += ns;
}

static hr_timetable_set due(void)
{
	return hr_timetable_due(&t, &at);
}

/*
 * Start all pipelines that are due, run for `ns`, end with err. Returns the set of started
 * pipelines.
 */
static hr_timetable_set run(uint64_t ns, int err)
{
	const hr_timetable_set set = due();

	hr_timetable_started(&t, set, &at);
	pass(ns);
	for (uint32_t i = 0; i < config.pipelines; i++)
		if (set >> i & 1)
			hr_timetable_ended(&t, i, err, &at);
	return set;
}

static uint64_t wait_s(uint32_t i)
{
	uint64_t in_ns;

	hr_timetable_look(&t, &at);
	hr_timetable_wait(&t, i, &at, &in_ns);
	return in_ns == UINT64_MAX ? UINT64_MAX : in_ns / S;
}

static enum hr_wait_for state(uint32_t i)
{
	uint64_t in_ns;

	hr_timetable_look(&t, &at);
	return hr_timetable_wait(&t, i, &at, &in_ns);
}

/* ---- every */

Test(timetable, every_starts_at_boot_and_once_in_each_interval)
{
	every(10 * MINUTE, false);
	begin();
	cr_expect_eq(run(S, 0), 1u);
	cr_expect_eq(due(), 0u);
	cr_expect_eq(wait_s(0), 599u);
	pass(599 * S - 1);
	cr_expect_eq(due(), 0u, "one nanosecond too early");
	pass(1);
	cr_expect_eq(run(0, 0), 1u);
	cr_expect_eq(wait_s(0), 600u, "the interval counts from start to start");
}

Test(timetable, a_run_longer_than_the_interval_makes_up_for_one_start_or_skips_it)
{
	every(10 * MINUTE, false);
	every(10 * MINUTE, true);
	begin();
	cr_expect_eq(run(26 * MINUTE, 0), 3u);
	cr_expect_eq(due(), 1u, "three were planned; one makes up for two, skip has none");
	cr_expect_eq(t.starts.start[1].skipped, 2u);
	run(0, 0);
	cr_expect_eq(wait_s(0), 240u, "the grid stays");
	cr_expect_eq(wait_s(1), 240u);
}

Test(timetable, an_overlap_shorter_than_the_grace_is_no_miss)
{
	every(10 * MINUTE, true);
	begin();
	run(11 * MINUTE, 0);
	cr_expect_eq(due(), 1u, "a minute late");
	run(18 * MINUTE, 0);
	cr_expect_eq(due(), 0u, "the start at 20 min is late; the one at 30 min is not due");
}

Test(timetable, every_goes_on_from_its_last_start_after_a_power_cut)
{
	every(10 * MINUTE, false);
	every(10 * MINUTE, true);
	begin();
	run(S, 0);
	pass(3 * MINUTE - S);
	cut(4 * MINUTE, 5 * S);
	cr_expect_eq(due(), 0u);
	cr_expect_eq(wait_s(0), 180u, "7 of 10 minutes have passed");
	cr_expect_eq(wait_s(1), 180u);
	cut(25 * MINUTE, 5 * S);
	cr_expect_eq(due(), 1u, "missed at 10, 20 and 30 minutes; skip leaves the next at 40");
	cr_expect_eq(t.starts.start[1].skipped, 3u);
	cr_expect_eq(wait_s(1), 8 * 60u);
}

Test(timetable, every_counts_from_boot_until_the_clock_is_set)
{
	every(10 * MINUTE, false);
	every(10 * MINUTE, true);
	begin();
	run(S, 0);
	saved = t.starts;
	saved.sequence = 1;
	at = (struct hr_moment){ 5 * S, 100 * S };
	begin();
	cr_expect_eq(run(0, 0), 1u, "how long the power was off is unknown");
	cr_expect_eq(t.starts.start[0].started_ns, 0u, "a time of 1970 is not written");
	cr_expect_eq(wait_s(1), 600u);
	at.wall_ns = (NOON + 86400) * S;
	cr_expect_eq(due(), 0u, "setting the clock moves no interval");
	cr_expect_eq(wait_s(1), 600u);
}

Test(timetable, jumps_of_the_clock_do_not_move_intervals)
{
	every(HOUR, false);
	begin();
	run(S, 0);
	at.wall_ns += 400 * DAY;
	cr_expect_eq(due(), 0u);
	at.wall_ns -= 800 * DAY;
	cr_expect_eq(due(), 0u);
	cr_expect_eq(wait_s(0), 3599u);
	pass(3599 * S);
	cr_expect_eq(due(), 1u);
}

Test(timetable, a_clock_that_went_back_while_the_power_was_off_does_not_stop_starts)
{
	every(HOUR, false);
	every(HOUR, true);
	begin();
	run(S, 0);
	at.wall_ns -= 100 * DAY;
	cut(0, S);
	cr_expect_eq(due(), 1u);
	cr_expect_eq(wait_s(1), 3600u);
}

Test(timetable, waiting_for_other_pipelines_is_no_miss)
{
	every(HOUR, true);
	every(HOUR, true);
	begin();
	run(S, 0);
	pass(HOUR - S);
	hr_timetable_started(&t, due() & 1, &at);
	for (int i = 0; i < 30; i++) {
		pass(MINUTE);
		hr_timetable_look(&t, &at);
	}
	cr_expect_eq(due(), 2u, "it was due all the time, and only the other one ran");
	hr_timetable_pause(&t, 1);
	pass(MINUTE + 1);
	cr_expect_eq(due(), 0u);
	hr_timetable_resume(&t, 1, &at);
	cr_expect_eq(due(), 0u, "a pause of its own counts");
	cr_expect_eq(t.starts.start[1].skipped, 1u);
}

/* ---- at */

Test(timetable, at_starts_at_its_time_and_not_at_boot)
{
	daily(13 * 60, -1, false);
	begin();
	cr_expect_eq(due(), 0u);
	cr_expect_eq(wait_s(0), 3600u);
	pass(HOUR - 1);
	cr_expect_eq(due(), 0u);
	pass(1);
	cr_expect_eq(run(S, 0), 1u);
	cr_expect_eq(wait_s(0), 86399u);
}

Test(timetable, a_missed_time_of_the_day_is_made_up_for_or_skipped)
{
	daily(13 * 60, -1, false);
	daily(13 * 60, -1, true);
	begin();
	due(); /* the plan of the first day is made */
	pass(HOUR);
	run(S, 0);
	cut(3 * DAY + HOUR, S);
	cr_expect_eq(due(), 1u);
	cr_expect_eq(t.starts.start[1].skipped, 3u);
	run(S, 0);
	cr_expect_eq(due(), 0u, "one start makes up for three");
	cr_expect_eq(wait_s(0) / 60, 23 * 60 - 1u);
}

Test(timetable, a_minute_late_is_in_time_for_skip)
{
	daily(13 * 60, -1, true);
	begin();
	due();
	pass(HOUR + MINUTE);
	cr_expect_eq(due(), 1u);
	begin();
	due();
	pass(DAY + 1);
	cr_expect_eq(due(), 0u, "a nanosecond over a minute");
	cr_expect_eq(t.starts.start[0].skipped, 1u);
}

Test(timetable, a_clock_that_is_put_back_repeats_no_start)
{
	daily(13 * 60, -1, false);
	begin();
	due();
	pass(HOUR);
	cr_expect_eq(run(S, 0), 1u);
	at.wall_ns -= 10 * MINUTE;
	for (int i = 0; i < 1000; i++) {
		cr_assert_eq(due(), 0u);
		pass(MINUTE);
	}
	at.wall_ns -= S; /* a leap second */
	cr_expect_eq(due(), 0u);
	pass(DAY);
	cr_expect_eq(due(), 1u);
}

Test(timetable, a_clock_that_was_days_ahead_is_forgotten)
{
	daily(13 * 60, -1, false);
	begin();
	due();
	at.wall_ns += 700 * DAY;
	cr_expect_eq(run(S, 0), 1u, "the jump has passed 700 times");
	cr_expect_eq(due(), 0u);
	at.wall_ns -= 700 * DAY;
	cr_expect_eq(due(), 0u);
	cr_expect_eq(wait_s(0), 3599u, "today at 13:00, not in two years");
}

Test(timetable, without_a_clock_a_time_of_the_day_waits)
{
	daily(13 * 60, -1, false);
	at.wall_ns = 50 * S;
	begin();
	pass(3 * DAY);
	cr_expect_eq(due(), 0u);
	cr_expect_eq(state(0), HR_WAIT_CLOCK);
	cr_expect_eq(wait_s(0), UINT64_MAX);
	at.wall_ns = HR_WALL_SET_NS - 1;
	cr_expect_eq(state(0), HR_WAIT_CLOCK);
	at.wall_ns = NOON * S;
	cr_expect_eq(state(0), HR_WAIT_TIME);
	cr_expect_eq(wait_s(0), 3600u);
}

Test(timetable, at_with_a_day_is_once_a_week)
{
	daily(13 * 60, 2, false); /* Tuesday; NOON is on a Monday */
	begin();
	cr_expect_eq(wait_s(0), 25 * 3600u);
	pass(25 * HOUR);
	cr_expect_eq(run(S, 0), 1u);
	cr_expect_eq(wait_s(0), 7 * 86400u - 1);
}

/* ---- events */

Test(timetable, after_follows_each_end_without_a_failure)
{
	struct hr_config_when *when;

	every(HOUR, false);
	when = add(HR_WHEN_AFTER);
	when->after = 0;
	begin();
	cr_expect_eq(state(1), HR_WAIT_EVENT);
	cr_expect_eq(run(S, -EIO), 1u);
	cr_expect_eq(due(), 0u, "a failure starts nothing");
	pass(S);
	cr_expect_eq(run(S, 0), 1u, "the second attempt");
	cr_expect_eq(due(), 2u);
	cut(DAY, S);
	cr_expect_eq(due(), 3u, "a power cut does not lose it");
	run(S, 0);
	cr_expect_eq(due(), 2u, "the other one has ended again");
}

Test(timetable, a_version_of_an_object_starts_it_once)
{
	add(HR_WHEN_OBJECT);
	begin();
	cr_expect_eq(state(0), HR_WAIT_OBJECT);
	hr_timetable_object(&t, 0, 7, &at);
	cr_expect_eq(run(S, 0), 1u);
	hr_timetable_object(&t, 0, 7, &at);
	cr_expect_eq(due(), 0u);
	cr_expect_eq(state(0), HR_WAIT_EVENT);
	cut(DAY, S);
	hr_timetable_object(&t, 0, 7, &at);
	cr_expect_eq(due(), 0u, "also not after a restart");
	hr_timetable_object(&t, 0, 9, &at);
	hr_timetable_started(&t, due(), &at);
	hr_timetable_object(&t, 0, 11, &at);
	cr_expect_eq(due(), 0u, "it runs");
	hr_timetable_ended(&t, 0, 0, &at);
	cr_expect_eq(due(), 1u, "the version that came while it ran");
	run(S, -EINVAL);
	cr_expect_eq(due(), 0u, "a version that cannot be used is not tried again");
	hr_timetable_object(&t, 0, 0, &at);
	cr_expect_eq(due(), 0u);
}

Test(timetable, a_request_starts_any_pipeline_once)
{
	add(HR_WHEN_REQUEST);
	daily(0, -1, true);
	begin();
	pass(DAY / 4);
	cr_expect_eq(due(), 0u);
	cr_expect_eq(hr_timetable_request(&t, 0, &at), 1u);
	cr_expect_eq(hr_timetable_request(&t, 0, &at), 1u, "two requests, one start");
	hr_timetable_request(&t, 1, &at);
	pass(10 * MINUTE);
	cr_expect_eq(due(), 3u, "a request is never missed");
	hr_timetable_started(&t, 3, &at);
	cr_expect_eq(hr_timetable_request(&t, 0, &at), 2u, "while it runs: the next start");
	hr_timetable_ended(&t, 0, 0, &at);
	hr_timetable_ended(&t, 1, -EIO, &at);
	cr_expect_eq(due(), 1u, "a request that failed is not tried again");
	hr_timetable_request(&t, 1, &at);
	cr_expect_eq(due(), 3u, "a new one does not wait for the pause");
}

Test(timetable, forever_starts_as_soon_as_it_has_ended)
{
	add(HR_WHEN_FOREVER);
	begin();
	for (int i = 0; i < 10000; i++)
		cr_assert_eq(run(S, 0), 1u);
	cr_expect_eq(t.starts.start[0].done, 10000u);
	run(S, -EINVAL);
	cr_expect_eq(due(), 0u, "after a failure there is a pause");
	pass(S);
	cr_expect_eq(due(), 1u);
}

Test(timetable, once_is_once_a_boot)
{
	add(HR_WHEN_ONCE);
	add(HR_WHEN_ONCE);
	begin();
	hr_timetable_started(&t, due(), &at);
	hr_timetable_ended(&t, 0, 0, &at);
	hr_timetable_ended(&t, 1, -EINVAL, &at);
	pass(DAY);
	cr_expect_eq(due(), 0u);
	cr_expect_eq(state(0), HR_WAIT_NEVER);
	cr_expect_eq(hr_timetable_next_ns(&t, &at), at.now_ns + HR_LATE_NS);
	cut(S, S);
	cr_expect_eq(due(), 3u);
}

/* ---- failures, interruptions, pauses */

Test(timetable, failures_in_a_row_double_the_pause_up_to_an_hour)
{
	static const unsigned want[] = { 1,   2,   4,	8,    16,   32,	  64,
					 128, 256, 512, 1024, 2048, 3600, 3600 };

	every(10 * S, false);
	every(DAY, false);
	begin();
	run(0, 0);
	for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
		hr_timetable_request(&t, 0, &at);
		t.starts.start[0].flags &= ~(uint64_t)HR_START_REQUESTED;
		cr_expect_eq(run(0, -EIO), 1u);
		cr_expect_eq(wait_s(0), want[i], "failure %zu", i);
		pass(want[i] * S - 1);
		cr_expect_eq(due() & 1, 0u);
		pass(1);
		cr_expect_eq(due() & 1, 1u);
	}
	run(0, 0);
	cr_expect_eq(t.starts.start[0].failures_in_row, 0u);
	cr_expect_leq(wait_s(0), 10u);
}

Test(timetable, a_start_begins_without_the_end_of_the_last_one)
{
	const struct hr_start *start = &t.starts.start[0];

	every(HOUR, false);
	begin();
	run(S, -EIO);
	cr_expect_eq(start->error, -EIO);
	cr_expect_eq(start->ended_ns, at.wall_ns);
	pass(HOUR);
	cr_expect_eq(due(), 1u);
	hr_timetable_started(&t, 1, &at);
	cr_expect_eq(start->error, 0);
	cr_expect_eq(start->ended_ns, 0u);
	cr_expect_eq(start->started_ns, at.wall_ns);
	cr_expect_eq(start->outcome, HR_START_RUNNING);
	cr_expect_eq(start->starts, 2u);
	cr_expect_eq(start->flags & (HR_START_DUE | HR_START_RETRY), 0u);
}

/* Before the next look finds that it is due. */
Test(timetable, the_wait_for_a_time_that_has_passed_is_0)
{
	uint64_t in_ns = 1;

	daily(13 * 60, -1, false);
	every(HOUR, false);
	begin();
	run(0, 0);
	cr_expect_eq(hr_timetable_wait(&t, 0, &at, &in_ns), HR_WAIT_TIME);
	cr_expect_eq(in_ns, HOUR);
	pass(HOUR);
	for (uint32_t i = 0; i < 2; i++) {
		cr_expect_eq(hr_timetable_wait(&t, i, &at, &in_ns), HR_WAIT_TIME, "%u", i);
		cr_expect_eq(in_ns, 0u, "%u", i);
	}
	pass(1);
	for (uint32_t i = 0; i < 2; i++) {
		cr_expect_eq(hr_timetable_wait(&t, i, &at, &in_ns), HR_WAIT_TIME, "%u", i);
		cr_expect_eq(in_ns, 0u, "%u", i);
	}
}

Test(timetable, a_final_failure_waits_for_the_next_time)
{
	every(HOUR, false);
	begin();
	run(S, -EINVAL);
	pass(HOUR - 2 * S);
	cr_expect_eq(due(), 0u);
	pass(S);
	cr_expect_eq(due(), 1u);
}

Test(timetable, an_interrupted_start_is_made_again)
{
	daily(13 * 60, -1, true);
	add(HR_WHEN_REQUEST);
	begin();
	hr_timetable_request(&t, 1, &at);
	due();
	pass(HOUR);
	hr_timetable_started(&t, due(), &at);
	cut(5 * HOUR, 2 * S);
	cr_expect_eq(due(), 0u, "what the power cut has interrupted may have caused it");
	cr_expect_eq(state(0), HR_WAIT_PAUSE);
	pass(S);
	cr_expect_eq(due(), 3u, "missed = skip is about starts that have not begun");
	hr_timetable_started(&t, 3, &at);
	hr_timetable_ended(&t, 0, -EINTR, &at);
	hr_timetable_ended(&t, 1, -EINTR, &at);
	cut(S, 2 * S);
	cr_expect_eq(due(), 3u, "a clean stop is no failure: without a pause");
}

Test(timetable, a_paused_pipeline_starts_nothing_also_after_a_restart)
{
	every(HOUR, false);
	every(HOUR, true);
	begin();
	run(S, 0);
	hr_timetable_pause(&t, 0);
	hr_timetable_pause(&t, 1);
	pass(2 * HOUR + 30 * MINUTE);
	cr_expect_eq(due(), 0u);
	cr_expect_eq(state(0), HR_WAIT_RESUME);
	cut(S, S);
	cr_expect_eq(due(), 0u);
	hr_timetable_resume(&t, 0, &at);
	hr_timetable_resume(&t, 1, &at);
	cr_expect_eq(due(), 1u, "what was missed meanwhile: one start, or none");
}

/* ---- reload, durable state */

Test(timetable, a_reload_changes_the_keys_and_keeps_the_rest)
{
	static struct hr_config other;

	every(HOUR, false);
	every(HOUR, false);
	add(HR_WHEN_REQUEST);
	begin();
	run(S, 0);
	hr_timetable_request(&t, 2, &at);
	other = config;
	other.pipeline[0].when.every_ns = 10 * MINUTE;
	other.pipeline[2].when =
		(struct hr_config_when){ .kind = HR_WHEN_AT, .at_day = -1, .at_minute = 13 * 60 };
	hr_timetable_reload(&t, &other, &at);
	cr_expect_eq(due(), 4u, "the request stays");
	cr_expect_eq(wait_s(0), 599u);
	cr_expect_eq(wait_s(1), 3599u);
	run(S, 0);
	cr_expect_eq(wait_s(2), 3598u);
}

Test(timetable, other_keys_after_a_restart_forget_what_was_planned)
{
	every(HOUR, false);
	begin();
	run(S, 0);
	pass(HOUR);
	cr_expect_eq(due(), 1u);
	config.pipeline[0].when =
		(struct hr_config_when){ .kind = HR_WHEN_AT, .at_day = -1, .at_minute = 13 * 60 };
	cut(3 * DAY, S);
	cr_expect_eq(due(), 0u, "no time of the new keys was missed");
	cr_expect_eq(wait_s(0), 24 * 3600u - 1);
	cr_expect_eq(t.starts.start[0].starts, 1u);
}

Test(timetable, pipelines_are_found_by_name_and_unknown_ones_are_dropped)
{
	every(HOUR, false);
	every(HOUR, false);
	begin();
	run(S, 0);
	saved = t.starts;
	saved.sequence = 1;
	strcpy(config.pipeline[0].name, "new");
	begin();
	cr_expect_eq(due(), 1u);
	cr_expect_eq(t.starts.start[1].starts, 1u);
	cr_expect_eq(t.starts.start[0].starts, 0u);
}
