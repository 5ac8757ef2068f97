/* SPDX-License-Identifier: Apache-2.0 */
/* A measurement whose worker blocks do not run, or do not end: the process ends in limited time. */
#include "boot/cmd/bench/measure.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "boot/engine/devices/devices.h"
#include "config/base/clock.h"
#include "config/file/file.h"
#include "tests/harness/child.h"
#include "tests/harness/error.h"

#define BLOCKS 2u
#define DURATION_NS HR_NS_PER_MS

TestSuite(bench_measure, .timeout = 60);

static struct hr_engine *engine;
static struct hr_measure measure;
static struct hr_backend_ops ops;
static const struct hr_backend_ops *real;
static char text[4096];

static void up(void)
{
	static const char config[] =
		"ssds = ( { name = \"a\"; device = \"soft:memory,size=64M\"; timeout_ms = 60000;\n"
		"  objects = ( { name = \"in\"; bytes = \"1M\"; } ); } );\n"
		"gpus = ( { name = \"g\"; device = \"host:2\"; } );\n"
		"pipelines = ( { name = \"p\"; source = { object = \"in\"; };\n"
		"  operator = \"crc32c\"; } );\n";
	static const struct hr_measure_shape shape = {
		.blocks = BLOCKS, .workers = 1, .depth = 2, .io_max = 4096, .object_bytes = 1 << 20
	};

	engine = calloc(1, sizeof *engine);
	cr_assert_not_null(engine);
	cr_assert_eq(hr_config_parse(&engine->config, &hr_lookup, "f", config, sizeof config - 1,
				     test_error()),
		     0, "%s", test_error_text());
	cr_assert_eq(hr_engine_init(engine, NULL), 0);
	cr_assert_eq(hr_engine_up(engine, HR_STAGE_STORES), 0);
	cr_assert_eq(hr_measure_up(&measure, engine, &shape), 0, "%s", engine->error.text);
	real = engine->backend[0].ops;
	ops = *real;
	engine->backend[0].ops = &ops;
}

static int measure_reads(void)
{
	struct hr_measurement r = { .io_bytes = 4096 };

	return hr_measure(&measure, DURATION_NS, &r);
}

static int launch_nothing(struct hr_backend *b, const struct hr_launch_args *args,
			  struct hr_launch **launch, struct hr_error *e)
{
	static struct hr_launch handle;

	handle = (struct hr_launch){ b, args->stop };
	*launch = &handle;
	return 0;
}

static int never_ends(struct hr_launch *launch, struct hr_error *e)
{
	return 0;
}

static int launch_one_less(struct hr_backend *b, const struct hr_launch_args *args,
			   struct hr_launch **launch, struct hr_error *e)
{
	struct hr_launch_args less = *args;

	less.blocks--;
	return real->launch(b, &less, launch, e);
}

static void no_block_starts(void)
{
	up();
	engine->timeout_ns = 50 * HR_NS_PER_MS;
	ops.launch = launch_nothing;
	ops.poll = never_ends;
	measure_reads();
}

static void one_block_does_not_start(void)
{
	up();
	engine->timeout_ns = 3 * HR_NS_PER_S; /* enough time for the other block to start */
	ops.launch = launch_one_less;
	ops.poll = never_ends;
	measure_reads();
}

static void no_block_ends(void)
{
	up();
	engine->timeout_ns = 3 * HR_NS_PER_S;
	engine->ssd[0].timeout_ns = 50 * HR_NS_PER_MS; /* added twice to the limit of blocks */
	ops.poll = never_ends;
	measure_reads();
}

Test(bench_measure, blocks_that_do_not_start_end_the_process)
{
	cr_expect_eq(child_run(no_block_starts, text, sizeof text), 4, "%s", text);
	cr_expect(strstr(text, "bench: 2 of 2 workers have not started after 50 ms: host:2 does "
			       "not hold all blocks at once; controllers are disabled"),
		  "%s", text);
	cr_expect_eq(child_run(one_block_does_not_start, text, sizeof text), 4, "%s", text);
	cr_expect(strstr(text, "bench: 1 of 2 workers have not started after 3000 ms"), "%s", text);
}

Test(bench_measure, blocks_that_do_not_end_end_the_process)
{
	cr_expect_eq(child_run(no_block_ends, text, sizeof text), 4, "%s", text);
	cr_expect(strstr(text, "bench: worker blocks of host:2 have not ended 3000 ms after their "
			       "time limit; controllers are disabled"),
		  "%s", text);
}

Test(bench_measure, all_blocks_start)
{
	up();
	cr_expect_eq(measure_reads(), 0, "%s", engine->error.text);
	for (uint32_t w = 0; w < BLOCKS; w++)
		cr_expect_eq(measure.cpu.status[w].heartbeat, 1);
	engine->backend[0].ops = real;
	hr_measure_down(&measure);
	hr_engine_down(engine);
	free(engine);
}
