/* SPDX-License-Identifier: Apache-2.0 */
/* When pipelines start: each rule and its boundary, on times that the test chooses. */
#include "tests/harness/timetable_rig.h"

#include <errno.h>

TestSuite(timetable, .init = begin_test, .timeout = 60);

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
		hr_timetable_advance(&t, &at);
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

Test(timetable, missed_weeks_are_counted)
{
	daily(13 * 60, 2, true);
	begin();
	pass(25 * HOUR);
	run(S, 0);
	pass(42 * DAY);
	cr_expect_eq(due(), 1u, "a second late");
	cr_expect_eq(t.starts.start[0].skipped, 5u);
}

/* The next time replaces a start that may be dropped; one that is made up for stays. */
Test(timetable, a_start_that_has_not_begun_at_the_next_time)
{
	every(600 * S, true);
	every(600 * S, false);
	begin();
	run(0, 0);
	for (uint64_t n = 0; n < 3; n++) {
		pass(600 * S);
		cr_expect_eq(due(), 3u);
		cr_expect_eq(t.starts.start[0].skipped, n);
		cr_expect_eq(t.starts.start[1].skipped, 0u);
	}
}

Test(timetable, a_pipeline_that_is_due_and_runs_waits_for_its_end)
{
	every(600 * S, false);
	begin();
	cr_expect_eq(state(0), HR_WAIT_NOTHING);
	hr_timetable_started(&t, due(), &at);
	hr_timetable_request(&t, 0, &at);
	cr_expect_eq(state(0), HR_WAIT_END);
	cr_expect_eq(wait_s(0), UINT64_MAX);
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

Test(timetable, once_starts_again_when_it_was_requested_while_it_ran)
{
	add(HR_WHEN_ONCE);
	add(HR_WHEN_ONCE);
	begin();
	hr_timetable_started(&t, due(), &at);
	cr_expect_eq(hr_timetable_request(&t, 0, &at), 2u);
	cr_expect_eq(hr_timetable_request(&t, 1, &at), 2u);
	hr_timetable_ended(&t, 0, 0, &at);
	hr_timetable_ended(&t, 1, -EINVAL, &at);
	pass(DAY);
	cr_expect_eq(due(), 3u, "the client waits for the second start");
	hr_timetable_started(&t, due(), &at);
	hr_timetable_ended(&t, 0, 0, &at);
	hr_timetable_ended(&t, 1, 0, &at);
	pass(DAY);
	cr_expect_eq(due(), 0u);
}
