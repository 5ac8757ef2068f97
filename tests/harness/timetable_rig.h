/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/harness/timetable_rig.h - a timetable over pipelines that a test adds, and the moment that
 * the test moves. Each test that includes this has one of its own.
 */
#ifndef TESTS_HARNESS_TIMETABLE_RIG_H
#define TESTS_HARNESS_TIMETABLE_RIG_H

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "boot/appliance/schedule/timetable.h"
#include "config/base/clock.h"

#define S HR_NS_PER_S
#define MINUTE (60 * S)
#define HOUR (60 * MINUTE)
#define DAY (24 * HOUR)
#define NOON 1780315200 /* 2026-06-01 12:00 UTC, a Monday */

static struct hr_config config;
static struct hr_timetable t;
static struct hr_moment at;
static struct hr_starts saved;

static inline void begin_test(void)
{
	setenv("TZ", "UTC0", 1);
	tzset();
	memset(&config, 0, sizeof config);
	config.boot.backoff_ns = S;
	at = (struct hr_moment){ 100 * S, NOON * S };
}

static inline struct hr_config_when *add(enum hr_when_kind kind)
{
	struct hr_config_pipeline *p = &config.pipeline[config.pipelines];

	snprintf(p->name, sizeof p->name, "p%u", config.pipelines++);
	p->when = (struct hr_config_when){ .kind = kind, .at_day = -1 };
	return &p->when;
}

static inline void every(uint64_t ns, bool skip)
{
	struct hr_config_when *when = add(HR_WHEN_EVERY);

	when->every_ns = ns;
	when->skip = skip;
}

static inline void daily(uint32_t minute, int day, bool skip)
{
	struct hr_config_when *when = add(HR_WHEN_AT);

	when->at_minute = minute;
	when->at_day = day;
	when->skip = skip;
}

static inline void begin(void)
{
	hr_timetable_begin(&t, &config, saved.sequence ? &saved : NULL, &at);
}

/* The power fails now and comes back after `off`; the machine has run `up` since then. */
static inline void cut(uint64_t off, uint64_t up)
{
	saved = t.starts;
	saved.sequence = 1;
	cr_expect_null(hr_starts_check(&saved), "%s", hr_starts_check(&saved));
	at.wall_ns += off;
	at.now_ns = up;
	begin();
}

static inline void pass(uint64_t ns)
{
	at.now_ns += ns;
	at.wall_ns += ns;
}

static inline hr_pipeline_set due(void)
{
	return hr_timetable_due(&t, &at);
}

/*
 * Start all pipelines that are due, run for `ns`, end with err. Returns the set of started
 * pipelines.
 */
static inline hr_pipeline_set run(uint64_t ns, int err)
{
	const hr_pipeline_set set = due();

	hr_timetable_started(&t, set, &at);
	pass(ns);
	for (uint32_t i = 0; i < config.pipelines; i++)
		if (set >> i & 1)
			hr_timetable_ended(&t, i, err, &at);
	return set;
}

static inline uint64_t wait_s(uint32_t i)
{
	uint64_t in_ns;

	hr_timetable_advance(&t, &at);
	hr_timetable_wait(&t, i, &at, &in_ns);
	return in_ns == UINT64_MAX ? UINT64_MAX : in_ns / S;
}

static inline enum hr_wait_for state(uint32_t i)
{
	uint64_t in_ns;

	hr_timetable_advance(&t, &at);
	return hr_timetable_wait(&t, i, &at, &in_ns);
}

#endif
