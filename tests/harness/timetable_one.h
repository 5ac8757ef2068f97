/*
 * tests/harness/timetable_one.h - a timetable of three pipelines, of which a test sets and compares all
 * members of one. The others must not change, nor those behind the last one.
 */
#ifndef TESTS_HARNESS_TIMETABLE_ONE_H
#define TESTS_HARNESS_TIMETABLE_ONE_H

#include "tests/harness/timetable_rig.h"

#define ROWS(table) (sizeof(table) / sizeof(*(table)))
#define NOW (10000 * S)
#define WALL (NOON * S)
#define DUE HR_START_DUE
#define RETRY HR_START_RETRY
#define PAUSED HR_START_PAUSED
#define REQUESTED HR_START_REQUESTED

/* Members of a row. */
#define EVERY(ns, how) \
	.when = { .kind = HR_WHEN_EVERY, .every_ns = (ns), .at_day = -1, .skip = how }
#define TEN (600 * S)
#define DAILY(minute, how) \
	.when = { .kind = HR_WHEN_AT, .at_minute = (minute), .at_day = -1, .skip = how }
#define OF(what, how) .when = { .kind = (what), .skip = how }

/* A start that became due when it was looked at, and is so many seconds late. */
#define CAME(late) .due_ns = NOW, .came_ns = NOW - (late), .late_ns = (late)

struct pipeline {
	struct hr_start s;
	struct hr_timed d;
};

/* Pipelines 0 and 2 start on request, number 3 is not in the configuration: it would start at once. */
static inline void set_up(const struct hr_config_when *when, const struct pipeline *p)
{
	config.pipelines = 3;
	for (uint32_t i = 0; i < 4; i++)
		config.pipeline[i].when = (struct hr_config_when){ .kind = HR_WHEN_REQUEST };
	config.pipeline[3].when.kind = HR_WHEN_EVERY;
	config.pipeline[3].when.every_ns = S;
	config.pipeline[1].when = *when;
	memset(&t, 0, sizeof t);
	t.config = &config;
	t.starts.start[1] = p->s;
	t.timed[1] = p->d;
	at = (struct hr_moment){ NOW, WALL };
}

static inline void expect(size_t row, const struct pipeline *want, bool changed)
{
	const struct hr_start *s = &t.starts.start[1];
	const struct hr_timed *d = &t.timed[1];
	static const struct pipeline none;

	cr_expect_eq(memcmp(s, &want->s, sizeof *s), 0,
		     "row %zu: flags %llu, planned %lld s, skipped %llu, outcome %llu", row,
		     (unsigned long long)s->flags, (long long)((s->planned_ns - WALL) / S),
		     (unsigned long long)s->skipped, (unsigned long long)s->outcome);
	cr_expect(d->running == want->d.running && d->over == want->d.over &&
			  d->drop == want->d.drop,
		  "row %zu: running %d, over %d, drop %d", row, d->running, d->over, d->drop);
	cr_expect_eq(
		memcmp(&d->next_ns, &want->d.next_ns,
		       sizeof *d - offsetof(struct hr_timed, next_ns)),
		0, "row %zu: next %llu, wall %lld, due %llu, late %llu, not before %llu, came %llu",
		row, (unsigned long long)d->next_ns, (long long)(d->next_wall_ns - WALL),
		(unsigned long long)d->due_ns, (unsigned long long)d->late_ns,
		(unsigned long long)d->not_before_ns, (unsigned long long)d->came_ns);
	for (uint32_t i = 0; i < 4; i++)
		if (i != 1) {
			cr_expect_eq(memcmp(&t.starts.start[i], &none.s, sizeof none.s), 0,
				     "row %zu: %u", row, i);
			cr_expect_eq(memcmp(&t.timed[i], &none.d, sizeof none.d), 0, "row %zu: %u",
				     row, i);
		}
	cr_expect_eq(t.changed, changed, "row %zu", row);
}

#endif
