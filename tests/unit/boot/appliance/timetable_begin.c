/*
 * One pipeline of a timetable at the begin, with the start that is known of it, and after a reload: all
 * of its members afterwards.
 */
#include "tests/harness/timetable_one.h"

TestSuite(timetable_begin, .init = begin_test, .timeout = 60);

#define BACKOFF (3 * S)

/* The rule of pipeline 1, as a begin without known starts writes it. */
static uint64_t rule_of_one(void)
{
	hr_timetable_begin(&t, &config, NULL, &at);
	return t.starts.start[1].rule;
}

static void expect_one(size_t row, const struct pipeline *want, uint64_t rule)
{
	struct pipeline all = *want, got = { t.starts.start[1], t.timed[1] };

	strcpy(all.s.name, "p1");
	all.s.rule = rule;
	cr_expect_eq(memcmp(&got.s, &all.s, sizeof got.s), 0,
		     "row %zu: flags %llu, planned %lld s, outcome %llu", row,
		     (unsigned long long)got.s.flags, (long long)((got.s.planned_ns - WALL) / S),
		     (unsigned long long)got.s.outcome);
	cr_expect(got.d.running == all.d.running && got.d.over == all.d.over &&
			  got.d.drop == all.d.drop,
		  "row %zu: running %d, over %d, drop %d", row, got.d.running, got.d.over,
		  got.d.drop);
	cr_expect_eq(memcmp(&got.d.next_ns, &all.d.next_ns,
			    sizeof got.d - offsetof(struct hr_timed, next_ns)),
		     0, "row %zu: next %llu, due %llu, not before %llu, came %llu", row,
		     (unsigned long long)got.d.next_ns, (unsigned long long)got.d.due_ns,
		     (unsigned long long)got.d.not_before_ns, (unsigned long long)got.d.came_ns);
}

static void name_pipelines(void)
{
	for (uint32_t i = 0; i < 4; i++)
		snprintf(config.pipeline[i].name, sizeof config.pipeline[i].name, "p%u", i);
}

/* The known start was of other keys; or of these. */
enum { OTHER, SAME };

static const struct known {
	struct hr_config_when when;
	int rule;
	struct hr_start known;
	struct pipeline want;
} known_row[] = {
	{ EVERY(TEN, false),
	  SAME,
	  { .starts = 0 },
	  { { .flags = DUE, .planned_ns = WALL }, { CAME(0), .next_ns = NOW + TEN } } },
	{ EVERY(TEN, true),
	  SAME,
	  { .starts = 0 },
	  { { .flags = DUE, .planned_ns = WALL }, { CAME(0), .next_ns = NOW + TEN } } },
	{ EVERY(TEN, true),
	  SAME,
	  { .starts = 3 },
	  { { .starts = 3 }, { .due_ns = NOW, .next_ns = NOW + TEN } } },
	{ EVERY(TEN, false),
	  SAME,
	  { .starts = 3 },
	  { { .starts = 3, .flags = DUE, .planned_ns = WALL },
	    { CAME(0), .next_ns = NOW + TEN } } },
	{ EVERY(TEN, false),
	  SAME,
	  { .starts = 3, .planned_ns = WALL - 100 * S },
	  { { .starts = 3, .planned_ns = WALL - 100 * S },
	    { .due_ns = NOW, .next_ns = NOW + 500 * S } } },
	{ EVERY(TEN, false),
	  SAME,
	  { .starts = 3, .planned_ns = WALL },
	  { { .starts = 3, .planned_ns = WALL }, { .due_ns = NOW, .next_ns = NOW + TEN } } },
	{ EVERY(TEN, false),
	  SAME,
	  { .starts = 3, .planned_ns = WALL - TEN + 1 },
	  { { .starts = 3, .planned_ns = WALL - TEN + 1 },
	    { .due_ns = NOW, .next_ns = NOW + 1 } } },
	{ EVERY(TEN, true),
	  SAME,
	  { .starts = 3, .planned_ns = WALL - TEN },
	  { { .starts = 3, .planned_ns = WALL, .flags = DUE },
	    { CAME(0), .next_ns = NOW + TEN, .drop = true } } },
	{ EVERY(TEN, true),
	  SAME,
	  { .starts = 3, .planned_ns = WALL - 3 * TEN - 7 * S },
	  { { .starts = 3, .planned_ns = WALL - 7 * S, .flags = DUE, .skipped = 2 },
	    { CAME(7 * S), .next_ns = NOW + TEN - 7 * S, .drop = true } } },
	/* a clock that was put back while the power was off */
	{ EVERY(TEN, false),
	  SAME,
	  { .starts = 3, .planned_ns = WALL + 1 },
	  { { .starts = 3, .planned_ns = WALL, .flags = DUE },
	    { CAME(0), .next_ns = NOW + TEN } } },
	{ EVERY(TEN, true),
	  SAME,
	  { .starts = 3, .planned_ns = WALL + 1 },
	  { { .starts = 3, .planned_ns = WALL + 1 }, { .due_ns = NOW, .next_ns = NOW + TEN } } },
	/* other keys: what they have planned is dropped */
	{ EVERY(TEN, true),
	  OTHER,
	  { .starts = 3, .planned_ns = WALL - TEN, .flags = DUE },
	  { { .starts = 3 }, { .due_ns = NOW, .next_ns = NOW + TEN } } },
	{ OF(HR_WHEN_REQUEST, false),
	  SAME,
	  { .flags = DUE, .planned_ns = 5 },
	  { { .flags = DUE, .planned_ns = 5 }, { .due_ns = NOW } } },
	{ OF(HR_WHEN_REQUEST, false),
	  OTHER,
	  { .flags = DUE | PAUSED, .planned_ns = 5 },
	  { { .flags = PAUSED }, { .due_ns = NOW } } },
	{ OF(HR_WHEN_REQUEST, false),
	  OTHER,
	  { .flags = DUE | REQUESTED },
	  { { .flags = DUE | REQUESTED }, { .due_ns = NOW } } },
	{ OF(HR_WHEN_REQUEST, false),
	  OTHER,
	  { .flags = DUE | RETRY },
	  { { .flags = DUE | RETRY }, { .due_ns = NOW } } },
	/* the power failed, or the supervisor was killed */
	{ OF(HR_WHEN_REQUEST, false),
	  SAME,
	  { .outcome = HR_START_RUNNING, .failures_in_row = 1 },
	  { { .outcome = HR_START_INTERRUPTED, .failures_in_row = 2, .flags = DUE | RETRY },
	    { CAME(0), .not_before_ns = NOW + 2 * BACKOFF } } },
	{ OF(HR_WHEN_REQUEST, false),
	  SAME,
	  { .outcome = HR_START_INTERRUPTED, .failures_in_row = 1 },
	  { { .outcome = HR_START_INTERRUPTED, .failures_in_row = 1, .flags = DUE | RETRY },
	    { CAME(0) } } },
	{ OF(HR_WHEN_REQUEST, false),
	  SAME,
	  { .outcome = HR_START_FAILED },
	  { { .outcome = HR_START_FAILED }, { .due_ns = NOW } } },
	{ OF(HR_WHEN_ONCE, false),
	  SAME,
	  { .outcome = HR_START_DONE },
	  { { .outcome = HR_START_DONE, .flags = DUE }, { CAME(0) } } },
	{ OF(HR_WHEN_FOREVER, false),
	  SAME,
	  { .outcome = HR_START_DONE },
	  { { .outcome = HR_START_DONE, .flags = DUE }, { CAME(0) } } },
	{ DAILY(780, false),
	  SAME,
	  { .planned_ns = 5 },
	  { { .planned_ns = 5 }, { .due_ns = NOW } } },
};

Test(timetable_begin, from_a_known_start)
{
	const struct known *row = known_row;
	static const struct pipeline none;

	config.boot.backoff_ns = BACKOFF;
	name_pipelines();
	for (size_t i = 0; i < ROWS(known_row); i++) {
		struct hr_start *known = &saved.start[HR_PIPELINES_MAX - 1];
		uint64_t rule;

		set_up(&row[i].when, &none);
		rule = rule_of_one();
		memset(&saved, 0, sizeof saved);
		saved.sequence = 8;
		*known = row[i].known;
		strcpy(known->name, "p1");
		known->rule = rule ^ (row[i].rule == OTHER);
		memset(&t, 0xee, sizeof t);
		hr_timetable_begin(&t, &config, &saved, &at);
		expect_one(i, &row[i].want, rule);
		cr_expect_eq(t.starts.sequence, 8);
		cr_expect_not(t.changed);
		cr_expect_str_eq(t.starts.start[2].name, "p2");
		cr_expect_str_eq(t.starts.start[3].name, "");
		cr_expect_eq(t.timed[2].due_ns, NOW);
		cr_expect_eq(t.timed[3].due_ns, 0);
	}
	hr_timetable_begin(&t, &config, NULL, &at);
	cr_expect_eq(t.starts.sequence, 0);
}

Test(timetable_begin, new_keys_by_a_reload)
{
	static const struct {
		struct hr_config_when when;
		int rule;
		struct pipeline is, want;
	} row[] = {
		{ EVERY(TEN, false),
		  SAME,
		  { { .planned_ns = 5, .flags = DUE },
		    { .drop = true, .next_ns = 6, .version = 7 } },
		  { { .planned_ns = 5, .flags = DUE }, { .next_ns = 6, .version = 7 } } },
		{ EVERY(TEN, true),
		  SAME,
		  { { .planned_ns = 5, .flags = DUE }, { .drop = true, .next_ns = 6 } },
		  { { .planned_ns = 5, .flags = DUE }, { .drop = true, .next_ns = 6 } } },
		{ EVERY(TEN, true), SAME, { .d = { .over = true } }, { .d = { .over = true } } },
		{ EVERY(TEN, true),
		  OTHER,
		  { { .starts = 1, .planned_ns = WALL - 100 * S, .flags = DUE },
		    { .next_wall_ns = 5, .version = 6, .over = true } },
		  { { .starts = 1, .planned_ns = WALL - 100 * S }, { .next_ns = NOW + 500 * S } } },
		{ DAILY(780, false),
		  OTHER,
		  { { .planned_ns = 5, .flags = DUE | REQUESTED }, { .next_wall_ns = 5 } },
		  { { .planned_ns = WALL, .flags = DUE | REQUESTED }, { .next_ns = 0 } } },
		{ OF(HR_WHEN_ONCE, false),
		  OTHER,
		  { .s = { .planned_ns = 5 } },
		  { { .planned_ns = 5 }, { .over = true } } },
		{ OF(HR_WHEN_FOREVER, false),
		  OTHER,
		  { .d = { .over = true } },
		  { { .flags = DUE }, { CAME(0) } } },
		{ OF(HR_WHEN_FOREVER, false),
		  OTHER,
		  { .d = { .running = true } },
		  { .d = { .running = true } } },
		{ OF(HR_WHEN_REQUEST, false),
		  OTHER,
		  { .s = { .flags = DUE } },
		  { .d = { .drop = 0 } } },
	};

	static struct hr_config other;

	name_pipelines();
	for (size_t i = 0; i < ROWS(row); i++) {
		uint64_t rule;

		set_up(&row[i].when, &row[i].is);
		rule = rule_of_one();
		other = config;
		t.config = &other;
		t.starts.start[1] = row[i].is.s;
		strcpy(t.starts.start[1].name, "p1");
		t.starts.start[1].rule = rule ^ (row[i].rule == OTHER);
		t.timed[1] = row[i].is.d;
		t.changed = false;
		hr_timetable_reload(&t, &config, &at);
		expect_one(i, &row[i].want, rule);
		cr_expect_eq(t.config, &config);
		cr_expect(t.changed);
		cr_expect_eq(t.starts.start[3].rule, 0, "row %zu", i);
	}
}
