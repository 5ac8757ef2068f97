/* SPDX-License-Identifier: Apache-2.0 */
/* Starts after failures, interruptions and pauses; a reload; the state that survives a restart. */
#include "tests/harness/timetable_rig.h"

#include <errno.h>

TestSuite(timetable_state, .init = begin_test, .timeout = 60);

/* ---- failures, interruptions, pauses */

Test(timetable_state, failures_in_a_row_double_the_pause_up_to_an_hour)
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

Test(timetable_state, a_start_begins_without_the_end_of_the_last_one)
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
Test(timetable_state, the_wait_for_a_time_that_has_passed_is_0)
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

/* An engine died in its run: durable, without a clock as well, and ended by resume or a good run. */
Test(timetable_state, a_suspension_is_durable_and_doubles_up_to_an_hour)
{
	config.boot.heal_ns = 10 * MINUTE;
	every(S, false);
	begin();
	run(0, -EOWNERDEAD);
	hr_timetable_died(&t, 0, 0, &at);
	cr_expect_eq(hr_timetable_suspended_ns(&t, 0, &at), S);
	pass(S);
	cr_expect_eq(run(0, -EOWNERDEAD), 1u);
	hr_timetable_died(&t, 0, 0, &at);
	cr_expect_eq(hr_timetable_suspended_ns(&t, 0, &at), 2 * S);
	cr_expect_eq(t.starts.suspension[0].deaths, 2u);
	cut(S, 50 * S);
	cr_expect_eq(hr_timetable_suspended_ns(&t, 0, &at), S, "the rest");
	cr_expect_eq(due(), 0u);
	at.wall_ns = 5;
	cut(0, 50 * S);
	cr_expect_eq(hr_timetable_suspended_ns(&t, 0, &at), 2 * S, "all of it, without a clock");
	at.wall_ns = NOON * S;
	hr_timetable_resume(&t, 0, &at);
	cr_expect_eq(hr_timetable_suspended_ns(&t, 0, &at), 0u);
	cr_expect_eq(t.starts.suspension[0].deaths, 0u);
	pass(S);
	cr_expect_eq(run(0, -EOWNERDEAD), 1u);
	hr_timetable_died(&t, 0, 0, &at);
	pass(S);
	cr_expect_eq(run(S, 0), 1u);
	cr_expect_eq(t.starts.suspension[0].deaths, 0u, "a run without a failure");
	t.starts.start[0].failures_in_row = t.starts.suspension[0].deaths = 40;
	hr_timetable_died(&t, 0, 0, &at);
	cr_expect_eq(hr_timetable_suspended_ns(&t, 0, &at), HOUR);
	hr_timetable_died(&t, 0, 10 * MINUTE, &at);
	cr_expect_eq(hr_timetable_suspended_ns(&t, 0, &at), S, "after a run of heal");
}

Test(timetable_state, a_final_failure_waits_for_the_next_time)
{
	every(HOUR, false);
	begin();
	run(S, -EINVAL);
	pass(HOUR - 2 * S);
	cr_expect_eq(due(), 0u);
	pass(S);
	cr_expect_eq(due(), 1u);
}

Test(timetable_state, an_interrupted_start_is_made_again)
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

/* New keys drop a start that the former keys have made due, but no other attempt. */
Test(timetable_state, another_attempt_outlives_new_keys)
{
	every(HOUR, true);
	every(HOUR, true);
	begin();
	for (uint32_t i = 0; i < 2; i++)
		hr_timetable_request(&t, i, &at);
	run(S, 0);
	pass(HOUR);
	cr_expect_eq(due(), 3u);
	hr_timetable_started(&t, 1, &at);
	hr_timetable_ended(&t, 0, -EIO, &at);
	pass(S);
	cr_expect_eq(due(), 3u);
	for (uint32_t i = 0; i < 2; i++)
		config.pipeline[i].when.every_ns = 2 * HOUR;
	hr_timetable_reload(&t, &config, &at);
	cr_expect_eq(due(), 1u);
}

Test(timetable_state, a_paused_pipeline_starts_nothing_also_after_a_restart)
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

Test(timetable_state, a_reload_changes_the_keys_and_keeps_the_rest)
{
	static struct hr_config other;

	every(HOUR, false);
	every(HOUR, false);
	add(HR_WHEN_REQUEST);
	add(HR_WHEN_REQUEST);
	begin();
	run(S, 0);
	hr_timetable_request(&t, 2, &at);
	other = config;
	other.pipeline[3].when.kind = HR_WHEN_FOREVER;
	other.pipeline[0].when.every_ns = 10 * MINUTE;
	other.pipeline[2].when =
		(struct hr_config_when){ .kind = HR_WHEN_AT, .at_day = -1, .at_minute = 13 * 60 };
	hr_timetable_reload(&t, &other, &at);
	cr_expect_eq(due(), 12u, "the request stays, and what is for ever starts");
	cr_expect_eq(wait_s(0), 599u);
	cr_expect_eq(wait_s(1), 3599u);
	run(S, 0);
	cr_expect_eq(wait_s(2), 3598u);
}

Test(timetable_state, a_reload_finds_pipelines_by_their_names)
{
	static struct hr_config other;

	every(HOUR, false);
	add(HR_WHEN_REQUEST);
	begin();
	run(S, 0);
	hr_timetable_request(&t, 1, &at);
	other = config;
	other.pipelines = 3;
	other.pipeline[0] = config.pipeline[1];
	other.pipeline[1] = config.pipeline[0];
	strcpy(other.pipeline[1].name, "new");
	other.pipeline[2] = config.pipeline[0];
	hr_timetable_reload(&t, &other, &at);
	cr_expect_eq(due(), 3u, "the request stays, and the new one begins as at boot");
	cr_expect_eq(t.starts.start[0].starts, 0u);
	cr_expect_eq(t.starts.start[1].starts, 0u);
	cr_expect_eq(t.starts.start[2].starts, 1u);
	cr_expect_eq(wait_s(2), 3599u);
	other.pipelines = 1;
	hr_timetable_reload(&t, &other, &at);
	cr_expect_str_empty(t.starts.start[2].name, "it is removed");
}

Test(timetable_state, other_keys_after_a_restart_forget_what_was_planned)
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

Test(timetable_state, pipelines_are_found_by_name_and_unknown_ones_are_dropped)
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
