/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Workers without progress, and a gpu that fails during a pipeline: both end the run in limited
 * time, are named in the error, and keep all written data.
 */
#include "boot/engine/run.h"
#include "boot/engine/runner/stall.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/base/clock.h"
#include "boot/engine/runner/runner.h"
#include "tests/harness/child.h"
#include "tests/harness/engine.h"

TestSuite(watch, .timeout = 60);

/* ---- hr_stall_check() alone */

static struct hr_worker_status status[7];
static struct hr_pipe pipe_of = { .blocks = { 1, 3, 1 }, .workers = { 2, 8, 2 } };
static struct hr_run run_of = { .pipe = &pipe_of, .cpu.status = status };
static struct hr_stall watch;

static struct hr_engine *appliance(void)
{
	struct hr_engine *engine = calloc(1, sizeof *engine);

	cr_assert_not_null(engine);
	engine->config.ssds = 2;
	engine->config.ssd[0].timeout_ns = 1000;
	engine->config.ssd[1].timeout_ns = 4000;
	return engine;
}

static void all_move(uint32_t except)
{
	for (uint32_t i = 0; i < 7; i++)
		status[i].heartbeat += i != except;
}

Test(watch, each_worker_must_progress_or_have_ended)
{
	static const enum hr_role role[] = { HR_ROLE_PREFETCH, HR_ROLE_PREFETCH, HR_ROLE_COMPUTE,
					     HR_ROLE_COMPUTE,  HR_ROLE_COMPUTE,	 HR_ROLE_WRITEBACK,
					     HR_ROLE_WRITEBACK };
	static const uint32_t number[] = { 0, 1, 0, 1, 2, 0, 1 };
	struct hr_engine *engine = appliance();
	uint32_t index;

	engine->timeout_ns = 100;
	for (uint32_t i = 0; i < 7; i++) {
		const uint64_t limit = role[i] == HR_ROLE_COMPUTE ? 100 : 8100;

		memset(status, 0, sizeof status);
		hr_stall_begin(&watch, engine, &run_of, 50);
		for (uint64_t now = 50; now < 50 + limit; now += 25, all_move(i))
			cr_assert_eq(hr_stall_check(&watch, now, &index), HR_RUN_ROLES,
				     "%u at %llu", i, (unsigned long long)now);
		cr_expect_eq(hr_stall_check(&watch, 50 + limit, &index), role[i]);
		cr_expect_eq(index, number[i]);
		status[i].ended = 1;
		cr_expect_eq(hr_stall_check(&watch, 50 + limit, &index), HR_RUN_ROLES);
	}
	free(engine);
}

Test(watch, timeout_is_more_than_all_deadlines)
{
	struct hr_engine *engine = appliance();
	struct hr_config_pipeline config = { .operator_s = 0 };

	run_of.config = &config;
	hr_stall_begin(&watch, engine, &run_of, 0);
	cr_expect_eq(watch.timeout_ns[HR_ROLE_PREFETCH], 8000 + HR_STALL_TIMEOUT_NS);
	cr_expect_eq(watch.timeout_ns[HR_ROLE_COMPUTE], HR_OPERATOR_S * HR_NS_PER_S);
	config.operator_s = 7;
	hr_stall_begin(&watch, engine, &run_of, 0);
	cr_expect_eq(watch.timeout_ns[HR_ROLE_COMPUTE], 7 * HR_NS_PER_S);
	run_of.config = NULL;
	free(engine);
}

static struct hr_io_counters counters[2];
static struct hr_worker_status status_of_access[5]; /* 2 I/O workers, 3 compute blocks */
static struct hr_config_pipeline access_config = { .objects = 1 };
static struct hr_run access_run = {
	.config = &access_config,
	.gpu[0].cpu = { .io_blocks = 1,
			.compute_blocks = 3,
			.warps = 2,
			.counters = counters,
			.status = status_of_access },
};

/* Look every 25 ns until `end`. The I/O workers make progress; the epoch does when `moves` is true.
 * Returns the result of the last look. */
static uint32_t look_until(uint64_t end, bool moves, uint32_t *index)
{
	static uint64_t now;
	uint32_t role = HR_RUN_ROLES;

	for (; now <= end && role == HR_RUN_ROLES; now += 25) {
		status_of_access[0].heartbeat++;
		status_of_access[1].heartbeat++;
		counters[0].epochs += moves;
		role = hr_stall_check(&watch, now, index);
	}
	return role;
}

Test(watch, a_worker_of_an_access_operator_must_make_calls)
{
	struct hr_engine *engine = appliance();
	uint32_t index;

	access_run.gpu[0].access = &access_run.gpu[0].cpu;
	engine->timeout_ns = 100;
	hr_stall_begin(&watch, engine, &access_run, 0);
	counters[0].behind = 5; /* of block 2 */
	cr_expect_eq(look_until(1000, true, &index), HR_RUN_ROLES);
	cr_expect_eq(look_until(1075, false, &index), HR_RUN_ROLES);
	cr_expect_eq(look_until(1100, false, &index), HR_ROLE_ACCESS);
	cr_expect_eq(index, 2);
	counters[0].behind = 6; /* an I/O worker itself, which has a heartbeat */
	cr_expect_eq(look_until(2000, false, &index), HR_RUN_ROLES);
	counters[0].behind = 0;
	cr_expect_eq(look_until(2025, false, &index), HR_ROLE_ACCESS);
	cr_expect_eq(index, 0);
	counters[0].behind = 7; /* I/O worker 1, which waits for its share: block 1 */
	counters[1].behind = 3;
	cr_expect_eq(look_until(2050, false, &index), HR_ROLE_ACCESS);
	cr_expect_eq(index, 1);
	counters[1].behind = 7;
	cr_expect_eq(look_until(2500, false, &index), HR_RUN_ROLES);
	counters[0].behind = UINT64_MAX; /* damaged: no worker */
	cr_expect_eq(look_until(2525, false, &index), HR_RUN_ROLES);
	status_of_access[0].ended = 1;
	cr_expect_eq(look_until(3000, false, &index), HR_RUN_ROLES);
	free(engine);
}

/* ---- a whole appliance with a faulty backend */

static struct hr_backend_ops ops;
static const struct hr_backend_ops *real;
static struct hr_engine *engine;
static unsigned polls;

static int launch_nothing(struct hr_backend *b, const struct hr_launch_args *args,
			  struct hr_launch **launch, struct hr_error *e)
{
	static struct hr_launch handle;

	handle = (struct hr_launch){ b, args->stop };
	*launch = &handle;
	return 0;
}

static void free_nothing(struct hr_launch *launch)
{
}

static int never_ends(struct hr_launch *launch, struct hr_error *e)
{
	return 0;
}

static int fails_soon(struct hr_launch *launch, struct hr_error *e)
{
	return ++polls < 3 ? 0 : hr_fail(e, HR_ERROR_DEVICE, -EIO, "the fake GPU has failed");
}

static void up_with(const char *pipeline)
{
	engine = calloc(1, sizeof *engine);
	cr_assert_not_null(engine);
	engine_print(
		engine,
		"ssds = ( { name = \"a\"; device = \"soft:memory,size=64M\"; timeout_ms = 20000;\n"
		"  objects = ( { name = \"in\"; bytes = \"1M\"; } ); } );\n"
		"gpus = ( { name = \"g\"; device = \"host:1\"; } );\n"
		"pipelines = ( { name = \"p\"; source = { object = \"in\"; }; tile = \"64K\"; "
		"slots = 4;\n%s } );\n",
		pipeline);
	cr_assert_eq(hr_engine_up(engine, HR_STAGE_QUEUES), 0);
	real = engine->backend[0].ops;
	ops = *real;
	engine->backend[0].ops = &ops;
}

static void up(void)
{
	up_with("operator = \"copy\"; sink = { object = \"out\"; };");
}

static void down(void)
{
	engine->backend[0].ops = real;
	hr_engine_down(engine);
	free(engine);
}

/* Results that workers may have published before: five tiles are written. */
static void pretend_progress(void)
{
	engine->run[0].cpu.written[0] = 8;
	engine->run[0].cpu.written[1] = 5;
	engine->run[0].cpu.written[2] = 6;
	engine->run[0].cpu.written[3] = 7;
}

static int launch_and_start(struct hr_backend *b, const struct hr_launch_args *args,
			    struct hr_launch **launch, struct hr_error *e)
{
	for (uint32_t i = 0; i < hr_pipe_statuses(engine->run[0].pipe); i++)
		engine->run[0].cpu.status[i].heartbeat = 1;
	return launch_nothing(b, args, launch, e);
}

Test(watch, a_failed_gpu_ends_the_run_and_keeps_the_written_data)
{
	up();
	ops.launch = launch_nothing;
	ops.launch_free = free_nothing;
	ops.poll = fails_soon;
	pretend_progress();
	cr_expect_eq(hr_run_all(engine, false, NULL), -EIO);
	cr_expect_eq(engine->run[0].outcome, HR_RUN_FAILED);
	cr_expect_eq(engine->run[0].error, -EIO);
	cr_expect_eq(engine->run[0].durable_tiles, 5);
	cr_expect(hr_health_failed(&engine->ssd[0].health), "its queues are not to be trusted");
	down();
}

static char text[4096];

static void (*prepare)(void);

static void prepare_and_run(void)
{
	prepare();
	hr_run_all(engine, false, NULL);
}

/* A child process calls body(), runs the pipelines, and exits with 4. */
static void expect_end(void (*body)(void))
{
	prepare = body;
	cr_expect_eq(child_run(prepare_and_run, text, sizeof text), 4, "%s", text);
}

static void nothing_runs(void)
{
	up();
	engine->timeout_ns = 50 * HR_NS_PER_MS;
	ops.launch = launch_nothing;
	ops.launch_free = free_nothing;
	ops.poll = never_ends;
	pretend_progress();
}

static void hangs(void)
{
	nothing_runs();
	ops.launch = launch_and_start;
}

/* Such a worker cannot be ended, so the process ends; here in a child process. */
Test(watch, a_worker_that_hangs_ends_the_process_in_time)
{
	expect_end(hangs);
	/* Prefetch and write-back have two more deadlines of 20 s. */
	cr_expect(strstr(text, "pipeline 'p': compute block 0 of host:1, which began tile 0, has "
			       "not moved for 50 ms"),
		  "%s", text);
	cr_expect(strstr(text, "5 of 16 tiles of object 'out' are durable"), "%s", text);
}

/* The last block is that of compute: there is no sink. Its thread stays parked. */
static int launch_one_less(struct hr_backend *b, const struct hr_launch_args *args,
			   struct hr_launch **launch, struct hr_error *e)
{
	struct hr_launch_args less = *args;

	less.blocks--;
	return real->launch(b, &less, launch, e);
}

static void one_does_not_start(void)
{
	up_with("operator = \"crc32c\";");
	engine->timeout_ns = 3 * HR_NS_PER_S; /* enough time for the other block to start */
	ops.launch = launch_one_less;
}

Test(watch, a_block_that_does_not_start_ends_the_process_in_time)
{
	expect_end(nothing_runs);
	cr_expect(strstr(text, "pipeline 'p': 3 of 3 workers have not started after 50 ms: host:1 "
			       "does not hold all blocks at once"),
		  "%s", text);
	expect_end(one_does_not_start);
	cr_expect(strstr(text,
			 "pipeline 'p': 1 of 2 workers have not started after 3000 ms: host:1 "
			 "does not hold all blocks at once"),
		  "%s", text);
}
