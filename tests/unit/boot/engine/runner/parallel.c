/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pipelines that run at the same time: the permitted sets, the blocks of a gpu for them, and the
 * end of the others when one fails. The backend launches nothing: each test decides when and how a
 * pipeline ends.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "boot/engine/runner/runner.h"
#include "boot/engine/concurrency.h"
#include "config/base/process.h"
#include "tests/fakes/log.h"
#include "tests/harness/engine.h"

TestSuite(parallel, .timeout = 60);

/* a, b: independent. c reads the sink of a; d replaces the source of b; e: independent. */
#define PIPE(name, op, in, sink)                                                            \
	"{ name = \"" name "\"; operator = \"" op "\"; tile = \"64K\"; verify = \"off\";\n" \
	"  source = { object = \"" in "\"; }; " sink " }"
#define CRC(name, in) PIPE(name, "crc32c", in, "")
#define COPY(name, in, out) PIPE(name, "copy", in, "sink = { object = \"" out "\"; };")
#define OVER(name, in, out) \
	PIPE(name, "copy", in, "sink = { object = \"" out "\"; replace = true; };")
#define HEAD(parallel, blocks)                                                                \
	"appliance = { checkpoint = 0; parallel = " parallel "; };\n"                         \
	"ssds = ( { name = \"s\"; device = \"soft:memory,size=64M\"; objects = (\n"           \
	"  { name = \"in\"; bytes = \"1M\"; }, { name = \"old\"; bytes = \"1M\"; } ); } );\n" \
	"gpus = ( { name = \"g\"; device = \"host:1\"; " blocks " } );\n"
/* clang-format off */
#define FIVE                                                                                    \
	"pipelines = (\n" COPY("a", "in", "x") ",\n" CRC("b", "old") ",\n"                   \
	CRC("c", "x") ",\n" OVER("d", "in", "old") ",\n" CRC("e", "in") ");\n"
#define THREE                                                                                   \
	"pipelines = (\n" COPY("x", "in", "1") ",\n" COPY("y", "1", "2") ",\n" CRC("z", "2") ");\n"
/* clang-format on */

enum { A, B, C, D, E, RUNS };

static struct hr_engine *engine;
static struct hr_backend_ops ops;
static const struct hr_backend_ops *real;
static struct hr_launch handle[RUNS];
static char order[64];	 /* "+a": launched, "-a": ended */
static int end_of[RUNS]; /* result of poll(); 0: the launch runs */
static hr_pipeline_set live;
static void (*when_polled)(void);

static void note(char what, uint32_t i)
{
	const size_t at = strlen(order);

	snprintf(order + at, sizeof order - at, "%c%c", what, 'a' + (int)i);
}

static int launch(struct hr_backend *b, const struct hr_launch_args *args,
		  struct hr_launch **launched, struct hr_error *e)
{
	uint32_t i = 0;

	while (&engine->run[i].cpu.control->stop != args->stop)
		i++;
	handle[i] = (struct hr_launch){ b, args->stop };
	*launched = &handle[i];
	live |= 1u << i;
	note('+', i);
	return 0;
}

/* The last role has counted all tiles. */
static void finish(struct hr_run *run)
{
	const uint32_t role = run->pipe->has_sink ? HR_ROLE_WRITEBACK : HR_ROLE_COMPUTE;

	run->cpu.status[hr_pipe_first_status(run->pipe, role)].tiles = run->tiles;
	run->pipe->next_tile = run->tiles;
}

static int poll(struct hr_launch *launched, struct hr_error *e)
{
	const uint32_t i = (uint32_t)(launched - handle);

	if (when_polled)
		when_polled();
	if (end_of[i] > 0)
		finish(&engine->run[i]);
	return end_of[i] < 0 ? 1 : end_of[i];
}

static void launch_free(struct hr_launch *launched)
{
	const uint32_t i = (uint32_t)(launched - handle);

	live &= ~(1u << i);
	note('-', i);
}

static int try_up(const char *text, enum hr_stage last)
{
	engine = engine_new(text);
	return hr_engine_up(engine, last);
}

static void up(const char *text)
{
	cr_assert_eq(try_up(text, HR_STAGE_QUEUES), 0);
	hr_unseal(); /* assertions may allocate */
	real = engine->backend[0].ops;
	ops = *real;
	ops.launch = launch;
	ops.poll = poll;
	ops.launch_free = launch_free;
	engine->backend[0].ops = &ops;
	order[0] = '\0';
	live = 0;
	for (uint32_t i = 0; i < RUNS; i++)
		end_of[i] = 1;
}

static void down(void)
{
	engine->backend[0].ops = real;
	hr_engine_down(engine);
	free(engine);
}

/* Workers of that pipeline report a failure. */
static void fail(uint32_t i, int error)
{
	engine->run[i].cpu.status[0].failure.error = error;
	engine->run[i].cpu.status[0].failed = 1;
}

Test(parallel, a_pipeline_waits_for_pipelines_that_share_its_objects)
{
	up(HEAD("4", "") FIVE);
	cr_expect_eq(hr_concurrency_before(engine, A), 0);
	cr_expect_eq(hr_concurrency_before(engine, B), 0);
	cr_expect_eq(hr_concurrency_before(engine, C), 1u << A);
	cr_expect_eq(hr_concurrency_before(engine, D), 1u << B);
	cr_expect_eq(hr_concurrency_before(engine, E), 0);
	cr_expect_eq(hr_concurrency_most(engine, 0), 3, "a or c, b or d, e");
	engine->run[A].selected = false;
	cr_expect_eq(hr_concurrency_before(engine, C), 0, "it is not to run");
	down();
}

/* A pipeline waits not only for its direct source: z reads y, and y reads x. */
Test(parallel, a_pipeline_waits_for_indirect_dependencies)
{
	up(HEAD("4", "") THREE);
	cr_expect_eq(hr_concurrency_before(engine, 2), 3);
	cr_expect_eq(hr_concurrency_most(engine, 0), 1, "never two");
	cr_expect_eq(hr_run_all(engine, false, NULL), 0);
	cr_expect_str_eq(order, "+a-a+b-b+c-c");
	down();
}

Test(parallel, without_the_key_pipelines_run_one_after_another)
{
	up(HEAD("1", "") FIVE);
	cr_expect_eq(hr_run_all(engine, false, NULL), 0);
	cr_expect_str_eq(order, "+a-a+b-b+c-c+d-d+e-e");
	down();
}

static unsigned polls;

/* The first three end in this order: b, e, a. */
static void end_one_by_one(void)
{
	polls++;
	end_of[B] = polls > 5;
	end_of[E] = polls > 10;
	end_of[A] = polls > 20;
}

Test(parallel, independent_pipelines_start_at_once_and_others_after_their_dependencies)
{
	up(HEAD("3", "") FIVE);
	polls = 0;
	when_polled = end_one_by_one;
	cr_expect_eq(hr_run_all(engine, false, NULL), 0);
	cr_expect_str_eq(order, "+a+b+e-b+d-d-e-a+c-c");
	for (uint32_t i = 0; i < RUNS; i++)
		cr_expect_eq(engine->run[i].outcome, HR_RUN_DONE);
	down();
}

/*
 * The running pipelines go on to their ends, and no other one is started; the error is that of the
 * first failed pipeline in the file.
 */
Test(parallel, a_failure_ends_no_other_pipeline)
{
	up(HEAD("2", "") FIVE);
	polls = 0;
	when_polled = end_one_by_one;
	fail(A, 0x281);
	fail(B, 0x282);
	cr_expect_eq(hr_run_all(engine, false, NULL), 0x281, "b ended first");
	cr_expect_str_eq(order, "+a+b-b-a");
	cr_expect_eq(engine->run[A].outcome, HR_RUN_FAILED);
	cr_expect_eq(engine->run[B].outcome, HR_RUN_FAILED);
	cr_expect_eq(engine->run[E].outcome, HR_RUN_WAITING);
	down();
}

Test(parallel, independent_pipelines_run_after_a_failure_with_keep_going)
{
	up(HEAD("2", "") FIVE);
	engine->keep_going = true;
	fail(A, 0x281);
	cr_expect_eq(hr_run_all(engine, false, NULL), 0x281);
	cr_expect_str_eq(order, "+a+b-a-b+d+e-d-e");
	cr_expect_eq(engine->run[C].outcome, HR_RUN_WAITING);
	down();
}

/* b runs until the others have ended. */
static void end_b_last(void)
{
	end_of[B] = ++polls > 20;
}

/* Whatever else runs, c does not start after the end of a, which was to make its source. */
Test(parallel, a_pipeline_without_its_source_does_not_start_beside_others)
{
	up(HEAD("3", "") FIVE);
	engine->keep_going = true;
	polls = 0;
	when_polled = end_b_last;
	fail(A, 0x281);
	cr_expect_eq(hr_run_all(engine, false, NULL), 0x281);
	cr_expect_str_eq(order, "+a+b+e-a-e-b+d-d", "%s", order);
	cr_expect_eq(engine->run[C].outcome, HR_RUN_WAITING);
	cr_expect_eq(engine->run[D].outcome, HR_RUN_DONE);
	down();
}

Test(parallel, a_pipeline_that_failed_before_runs_alone)
{
	up(HEAD("3", "") FIVE);
	engine->keep_going = true;
	engine->run[B].suspect = engine->run[E].suspect = true;
	cr_expect_eq(hr_run_all(engine, false, NULL), 0);
	cr_expect_str_eq(order, "+a+d-a-d+c-c+b-b+e-e");
	down();
}

/* b waits until it is alone, and d, which replaces the source of b, waits for b. */
Test(parallel, a_pipeline_that_waits_to_be_alone_is_waited_for)
{
	up(HEAD("3", "") FIVE);
	engine->run[B].suspect = true;
	cr_expect_eq(hr_run_all(engine, false, NULL), 0);
	cr_expect_str_eq(order, "+a+e-a-e+b-b+c+d-c-d", "%s", order);
	down();
}

/* A signal comes; workers end on request. */
static void interrupt(void)
{
	if (++polls == 4)
		raise(SIGINT);
	for (uint32_t i = 0; i < RUNS; i++)
		end_of[i] = live >> i & 1 && *handle[i].stop == HR_STOP_NEW ? -1 : 0;
}

Test(parallel, a_signal_stops_all_running_pipelines)
{
	hr_signals_catch();
	up(HEAD("2", "") FIVE);
	polls = 0;
	when_polled = interrupt;
	cr_expect_eq(hr_run_all(engine, false, NULL), -EINTR);
	cr_expect_str_eq(order, "+a+b-b-a", "the signal came while b was looked at");
	cr_expect_eq(engine->run[A].outcome, HR_RUN_INTERRUPTED);
	cr_expect_eq(engine->run[B].outcome, HR_RUN_INTERRUPTED);
	down();
}

/* Memory of all pipelines is apart, and each has a range of its own in the place of workers. */
Test(parallel, uploaded_parts_of_pipelines_are_separate)
{
	const struct hr_partition *p;
	uint64_t end = 0;

	up(HEAD("3", "") FIVE);
	p = &engine->partition[0];
	for (uint32_t i = 0; i < RUNS; i++) {
		const struct hr_layout *layout = &engine->run[i].layout.parts;

		for (uint32_t part = layout->first; part < layout->end; part++) {
			if (p->part[part].place != HR_PLACE_WORKER)
				continue;
			cr_expect_geq(p->part[part].offset, end);
			end = p->part[part].offset + p->part[part].bytes;
		}
	}
	down();
}

Test(parallel, blocks_of_a_gpu_are_a_limit_to_the_block)
{
	/* a and d have three blocks, the others two: a, d and one more, because d waits for b. */
	static const struct {
		const char *text;
		int want;
		const char *says;
	} row[] = {
		{ HEAD("3", "blocks = 8;") FIVE, 0, NULL },
		{ HEAD("3", "blocks = 7;") FIVE, -EINVAL,
		  "pipelines that may run at the same time need 8 blocks, but gpus[0].blocks allows "
		  "7: 'a' (3), 'd' (3), 'e' (2)" },
		{ HEAD("1", "blocks = 3;") FIVE, 0, NULL },
		{ HEAD("1", "blocks = 2;") FIVE, -EINVAL, "need 3 blocks" },
		{ HEAD("16", "blocks = 11;") FIVE, 0, NULL },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		cr_expect_eq(try_up(row[i].text, HR_STAGE_PARTITION), row[i].want, "row %zu", i);
		if (row[i].says)
			cr_expect(strstr(fake_log_last(), row[i].says), "%s", fake_log_last());
		if (row[i].says)
			cr_expect(strstr(fake_log_last(), "f:4: "), "%s", fake_log_last());
		hr_engine_down(engine);
		free(engine);
	}
}
