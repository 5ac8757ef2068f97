/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A controller that creates fewer I/O queue pairs than it has granted: the runs are laid out again for
 * those that exist. The backend has the numbers of a GPU, from which queue pairs are derived, and its
 * workers do not run.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/base/process.h"
#include "tests/fakes/log.h"
#include "tests/harness/engine.h"

#define CREATED 8u /* by the software controller with the quirk */

static struct hr_engine *engine;
static const struct hr_backend_ops *real_gpu;
static struct hr_backend_ops gpu_ops;

static int resident(struct hr_backend *b, enum hr_entry entry, uint32_t threads,
		    uint32_t shared_bytes, uint32_t *blocks, struct hr_error *e)
{
	*blocks = 400;
	return 0;
}

static void begin(void)
{
	engine = calloc(1, sizeof *engine);
	cr_assert(engine);
}

static void end(void)
{
	free(engine);
}

TestSuite(few_queues, .init = begin, .fini = end, .timeout = 60);

/* Bring up to the stage `backends`, with ssds a and b on controllers with these options. */
static void prepare(const char *options, const char *pipelines)
{
	struct hr_backend *b = &engine->backend[0];
	engine_print(engine,
		     "ssds = ( { name = \"a\"; device = \"soft:memory,size=64M%s\";\n"
		     "    objects = ( { name = \"in\"; bytes = 16777216; } ); },\n"
		     "  { name = \"b\"; device = \"soft:memory,size=64M%s\"; } );\n"
		     "gpus = ( { name = \"g\"; device = \"host:2\"; } );\n"
		     "pipelines = ( %s );\n",
		     options, options, pipelines);
	cr_assert_eq(hr_engine_up(engine, HR_STAGE_BACKENDS), 0);
	real_gpu = b->ops;
	gpu_ops = *real_gpu;
	gpu_ops.resident = resident;
	b->ops = &gpu_ops;
	b->lanes = b->wave = 32;
	b->processors = 100;
	b->max_threads = 1024;
	b->side_by_side = 400;
	b->max_blocks = 400;
}

static uint32_t pairs_of(enum hr_role role)
{
	return hr_run_workers(&engine->run[0], role);
}

static void down(void)
{
	hr_unseal();
	hr_engine_down(engine);
	cr_expect_eq(fake_log_count_of(HR_LOG_ERROR), 0, "%s", fake_log_last_of(HR_LOG_ERROR));
}

#define COPY                                                     \
	"{ name = \"p\"; operator = \"copy\"; tile = \"64K\";\n" \
	"  source = { ssd = \"a\"; object = \"in\"; };\n"        \
	"  sink = { ssd = \"b\"; object = \"out\"; }; }"

Test(few_queues, a_run_takes_those_that_exist)
{
	unsigned warnings;

	prepare("", COPY);
	cr_assert_eq(hr_engine_up(engine, HR_STAGE_QUEUES), 0);
	cr_assert_gt(pairs_of(HR_ROLE_PREFETCH), CREATED - 1);
	cr_assert_gt(pairs_of(HR_ROLE_WRITEBACK), CREATED - 1);
	down();
	warnings = fake_log_count_of(HR_LOG_WARN);
	prepare(",quirks=few-queues", COPY);
	cr_assert_eq(hr_engine_up(engine, HR_STAGE_QUEUES), 0, "%s",
		     fake_log_last_of(HR_LOG_ERROR));
	cr_expect_eq(pairs_of(HR_ROLE_PREFETCH), CREATED - 1, "one is of the object store");
	cr_expect_eq(pairs_of(HR_ROLE_WRITEBACK), CREATED - 1);
	cr_expect_eq(hr_ssd_queues_left(&engine->ssd[0]), 0);
	cr_expect_eq(engine->ssd[0].controller->queues_used, CREATED);
	cr_expect_eq(engine->ssd[1].controller->queues_used, CREATED);
	cr_expect_eq(fake_log_count_of(HR_LOG_WARN), warnings + 2, "one of each controller");
	cr_expect_str_eq(fake_log_last_of(HR_LOG_WARN),
			 "soft:memory: cannot create I/O queue pair 9 of 256: soft:memory: admin "
			 "create I/O CQ 9: Invalid Queue Identifier (101); going on with "
			 "8");
	cr_expect_eq(engine->ssd[1].store.count, 1, "the sink of the last plan");
	cr_expect(engine->run[0].sink_created);
	down();
}

/* The number stays known when the queues come up again, and after a reset. */
Test(few_queues, the_number_is_known_from_then_on)
{
	unsigned warnings;

	prepare(",quirks=few-queues", COPY);
	cr_assert_eq(hr_engine_up(engine, HR_STAGE_QUEUES), 0);
	warnings = fake_log_count_of(HR_LOG_WARN);
	hr_engine_down_to(engine, HR_STAGE_STORES);
	cr_expect_eq(hr_ssd_queues_left(&engine->ssd[0]), CREATED - 1);
	cr_assert_eq(hr_engine_up_keeping(engine, HR_STAGE_QUEUES), 0);
	cr_expect_eq(fake_log_count_of(HR_LOG_WARN), warnings);
	hr_engine_down_to(engine, HR_STAGE_STORES);
	cr_assert_eq(hr_ssd_reset(&engine->ssd[0], test_error()), 0, "%s", test_error_text());
	cr_expect_eq(hr_ssd_queues(&engine->ssd[0]), CREATED);
	cr_assert_eq(hr_engine_up_keeping(engine, HR_STAGE_QUEUES), 0);
	cr_expect_eq(fake_log_count_of(HR_LOG_WARN), warnings + 1, "of the reset");
	down();
}

/* More than exist are configured: the stages before are still up. */
Test(few_queues, too_few_for_the_configured_blocks_are_an_error)
{
	prepare(",quirks=few-queues",
		"{ name = \"p\"; operator = \"crc32c\"; tile = \"64K\"; blocks = { prefetch = 8; };\n"
		"  source = { ssd = \"a\"; object = \"in\"; }; }");
	cr_assert_eq(hr_engine_up(engine, HR_STAGE_STORES), 0);
	cr_expect_eq(hr_engine_up_keeping(engine, HR_STAGE_QUEUES), -ENOTSUP);
	cr_expect_eq(engine->up, HR_STAGE_STORES);
	cr_expect(strstr(fake_log_last_of(HR_LOG_ERROR),
			 "the pipelines need 8 I/O queue pairs, but the controller has 7 left; use "
			 "fewer blocks"),
		  "%s", fake_log_last_of(HR_LOG_ERROR));
	cr_expect_eq(hr_ssd_queues_left(&engine->ssd[0]), CREATED - 1);
	hr_engine_down(engine);
}
