/* SPDX-License-Identifier: Apache-2.0 */
/* The history of runs in memory: places of pages, and pages that no writer has made. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "boot/engine/engine.h"
#include "boot/engine/history.h"
#include "cache/crc32c.h"

TestSuite(history, .timeout = 60);

static struct hr_history history;
static struct hr_config config;
static struct hr_past_run run;

static void name(const char *pipeline)
{
	snprintf(config.pipeline[config.pipelines++].name, HR_NAME_MAX, "%s", pipeline);
}

static void add(const char *pipeline, uint64_t start)
{
	run = (struct hr_past_run){ .start = start, .outcome = HR_RUN_DONE };
	strcpy(run.pipeline, pipeline);
	strcpy(run.op, "copy");
	strcpy(run.result, "{\"n\": 1}");
	hr_history_add(&history, &config, &run);
}

static unsigned count(const char *pipeline)
{
	unsigned n = 0;

	for (run.sequence = UINT64_MAX; hr_history_newest(&history, pipeline, run.sequence, &run);)
		n++;
	return n;
}

Test(history, the_newest_runs_of_each_pipeline_are_kept)
{
	name("a");
	name("b");
	add("b", 1);
	for (uint64_t start = 1; start <= 1000; start++)
		add("a", start);
	cr_expect_eq(count("a"), HR_HISTORY_RUNS);
	cr_expect_eq(count("b"), 1u);
	cr_expect_eq(count("c"), 0u);
	cr_expect(hr_history_newest(&history, "a", UINT64_MAX, &run));
	cr_expect_eq(run.start, 1000u);
	cr_expect(hr_history_find(&history, "a", 1000 - HR_HISTORY_RUNS + 1, &run));
	cr_expect_not(hr_history_find(&history, "a", 1000 - HR_HISTORY_RUNS, &run));
	cr_expect_not(hr_history_find(&history, "b", 2, &run));
}

/* The pages of pipelines that are gone make room when no page is free. */
Test(history, pipelines_that_are_gone_make_room)
{
	char text[8];

	for (unsigned p = 0; p < HR_PIPELINES_MAX; p++)
		for (uint64_t start = 1; start <= HR_HISTORY_RUNS; start++) {
			snprintf(text, sizeof text, "p%u", p);
			add(text, start);
		}
	for (unsigned p = 1; p < HR_PIPELINES_MAX; p++) {
		snprintf(text, sizeof text, "p%u", p);
		name(text);
	}
	name("new");
	for (uint64_t start = 1; start <= 20; start++)
		add("new", start);
	cr_expect_eq(count("new"), HR_HISTORY_RUNS);
	cr_expect_eq(count("p0"), 0u);
	cr_expect_eq(count("p1"), HR_HISTORY_RUNS);
}

static void long_name(struct hr_past_run *r)
{
	memset(r->pipeline, 'a', sizeof r->pipeline);
}
static void escape(struct hr_past_run *r)
{
	strcpy(r->message, "\033[2J");
}
static void endless_message(struct hr_past_run *r)
{
	memset(r->message, 'a', sizeof r->message);
}
static void no_json(struct hr_past_run *r)
{
	strcpy(r->result, "{}, \"code\": 0");
}
static void endless_result(struct hr_past_run *r)
{
	memset(r->result, '{', sizeof r->result);
}
static void outcome(struct hr_past_run *r)
{
	r->outcome = HR_RUN_FAILED + 1;
}
static void waiting(struct hr_past_run *r)
{
	r->outcome = HR_RUN_WAITING;
}
static void sequence(struct hr_past_run *r)
{
	r->sequence = UINT64_MAX;
}
static void error(struct hr_past_run *r)
{
	r->error = INT64_MIN;
}
static void times(struct hr_past_run *r)
{
	r->ended_ns = UINT64_MAX;
}
static void version(struct hr_past_run *r)
{
	r->version = 2;
}
static void none(struct hr_past_run *r)
{
}

/* With a valid CRC: another program has written them to the disk. */
Test(history, values_that_no_writer_puts_there)
{
	static void (*const change[])(struct hr_past_run * r) = {
		long_name, escape,   endless_message, no_json, endless_result, outcome,
		waiting,   sequence, error,	      times,   version,	       none,
	};

	name("a");
	for (size_t i = 0; i < sizeof change / sizeof *change; i++) {
		memset(&history, 0, sizeof history);
		add("a", 1);
		change[i](&history.run[0]);
		history.run[0].crc =
			hr_crc32c(0, &history.run[0], HR_PAGE - sizeof history.run[0].crc);
		cr_expect_eq(hr_history_get(&history, 0, &run), change[i] == none, "row %zu", i);
		cr_expect_eq(hr_history_newest(&history, "a", UINT64_MAX, &run), change[i] == none,
			     "row %zu", i);
	}
	history.run[0].start++;
	cr_expect_not(hr_history_get(&history, 0, &run), "the CRC");
}
