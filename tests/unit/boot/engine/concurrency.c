/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which pipelines run at the same time, and the blocks of a gpu for them: each number exactly. No
 * device is up, so a gpu of any size costs nothing.
 */
#include "boot/engine/concurrency.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/derived.h"
#include "config/file/keys.h"
#include "tests/fakes/log.h"
#include "tests/harness/engine.h"

#define PIPE(name, op, in, sink)                                                            \
	"{ name = \"" name "\"; operator = \"" op "\"; tile = \"64K\"; verify = \"off\";\n" \
	"  source = { object = \"" in "\"; }; " sink " }"
#define CRC(name, in) PIPE(name, "crc32c", in, "")
#define COPY(name, in, out) PIPE(name, "copy", in, "sink = { object = \"" out "\"; };")
#define OVER(name, in, out) \
	PIPE(name, "copy", in, "sink = { object = \"" out "\"; replace = true; };")
#define HEAD                                                                                  \
	"appliance = { parallel = 16; };\n"                                                   \
	"ssds = ( { name = \"s\"; device = \"soft:memory,size=64M\"; objects = (\n"           \
	"  { name = \"in\"; bytes = \"1M\"; }, { name = \"old\"; bytes = \"1M\"; } ); } );\n" \
	"gpus = ( { name = \"g\"; device = \"host:1\"; } );\n"

/* c reads the sink of a; d replaces the source of b; e is independent. */
/* clang-format off */
static const char five[] =
	HEAD "pipelines = (\n" COPY("a", "in", "x") ",\n" CRC("b", "old") ",\n"
	CRC("c", "x") ",\n" OVER("d", "in", "old") ",\n" CRC("e", "in") ");\n";
static const char chain[] =
	HEAD "pipelines = (\n" COPY("a", "in", "1") ",\n" COPY("b", "1", "2") ",\n"
	CRC("c", "2") ");\n";
/* clang-format on */

enum { A, B, C, D, E, RUNS };
#define BIT(i) (1u << (i))

static struct hr_engine *engine;

static void make(const char *text)
{
	free(engine);
	engine = engine_new(text);
}

static void clean(void)
{
	free(engine);
	engine = NULL;
}

TestSuite(schedule, .fini = clean, .timeout = 60);

Test(schedule, a_pipeline_waits_for_those_before_it_that_share_an_object)
{
	static const hr_pipeline_set want[RUNS] = { 0, 0, BIT(A), BIT(B), 0 };

	make(five);
	for (uint32_t i = 0; i < RUNS; i++)
		cr_expect_eq(hr_concurrency_before(engine, i), want[i], "%u", i);
	make(chain);
	cr_expect_eq(hr_concurrency_before(engine, A), 0u);
	cr_expect_eq(hr_concurrency_before(engine, B), BIT(A));
	cr_expect_eq(hr_concurrency_before(engine, C), BIT(A) | BIT(B));
	engine->run[B].selected = false;
	cr_expect_eq(hr_concurrency_before(engine, C), 0u, "what is between them does not run");
	engine->run[A].selected = false;
	cr_expect_eq(hr_concurrency_before(engine, B), 0u);
}

Test(schedule, reading_has_a_direction)
{
	const struct hr_config_pipeline *p;

	make(five);
	p = engine->config.pipeline;
	cr_expect(hr_pipeline_reads_from(&p[C], &p[A]));
	cr_expect_not(hr_pipeline_reads_from(&p[A], &p[C]));
	cr_expect(hr_pipeline_reads_from(&p[B], &p[D]));
	cr_expect_not(hr_pipeline_reads_from(&p[D], &p[B]));
	cr_expect_not(hr_pipeline_reads_from(&p[E], &p[A]), "both read the same object");
	for (uint32_t i = 0; i < RUNS; i++)
		for (uint32_t j = 0; j < RUNS; j++)
			cr_expect_eq(i != j && hr_pipelines_conflict(&p[i], &p[j]),
				     (i + j == A + C && i != j && i % 2 == 0) ||
					     (i + j == B + D && i % 2 == 1 && i != j),
				     "%u and %u", i, j);
}

/* One of a and c, one of b and d, and e. */
Test(schedule, the_largest_set_is_found)
{
	static const uint32_t blocks[RUNS] = { 3, 2, 2, 4, 5 };
	static const struct {
		uint32_t parallel;
		uint64_t most;
		hr_pipeline_set them;
		uint32_t beside;
	} row[] = {
		{ 16, 12, BIT(A) | BIT(D) | BIT(E), 3 },
		{ 3, 12, BIT(A) | BIT(D) | BIT(E), 3 },
		{ 2, 9, BIT(D) | BIT(E), 2 },
		{ 1, 5, BIT(E), 1 },
	};
	hr_pipeline_set them;

	make(five);
	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		engine->config.parallel = row[i].parallel;
		cr_expect_eq(hr_concurrency_blocks(engine, 0, blocks, &them), row[i].most, "%zu",
			     i);
		cr_expect_eq(them, row[i].them, "%zu: %x", i, them);
		cr_expect_eq(hr_concurrency_most(engine, 0), row[i].beside, "%zu", i);
	}
	engine->run[E].selected = false; /* of those that run */
	cr_expect_eq(hr_concurrency_blocks(engine, 0, blocks, &them), 4u);
	cr_expect_eq(them, BIT(D));
	for (uint32_t i = 0; i < RUNS; i++)
		engine->run[i].selected = false;
	cr_expect_eq(hr_concurrency_blocks(engine, 0, blocks, &them), 0u);
	cr_expect_eq(them, 0u);
	cr_expect_eq(hr_concurrency_most(engine, 0), 0u);
}

/* What is between a and c need not have been asked for, so both may run at the same time. */
Test(schedule, pipelines_that_repeat_exclude_only_those_that_share_an_object)
{
	static const uint32_t blocks[RUNS] = { 3, 2, 4 };
	hr_pipeline_set them;

	make(chain);
	cr_expect_eq(hr_concurrency_blocks(engine, 0, blocks, &them), 4u);
	engine->config.pipeline[B].when.kind = HR_WHEN_REQUEST;
	cr_expect(hr_config_repeats(&engine->config));
	cr_expect_eq(hr_concurrency_blocks(engine, 0, blocks, &them), 7u);
	cr_expect_eq(them, BIT(A) | BIT(C));
}

Test(schedule, the_budget_is_the_smaller_of_two_limits)
{
	static const struct {
		uint32_t parallel, lanes, limit, want;
	} row[] = {
		{ 1, 1, 0, UINT32_MAX }, { 3, 1, 0, UINT32_MAX },  /* blocks are threads */
		{ 3, 1, 7, 7 },		 { 1, 32, 0, UINT32_MAX }, /* one launch at a time */
		{ 1, 32, 12, 12 },	 { 2, 32, 0, 10 },	   { 3, 32, 9, 9 },
		{ 3, 32, 10, 10 },	 { 3, 32, 11, 10 },	   { 3, 2, 0, 10 },
	};

	make(five);
	engine->backend[0].side_by_side = 10;
	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		engine->config.parallel = row[i].parallel;
		engine->backend[0].lanes = row[i].lanes;
		engine->config.gpu[0].blocks = row[i].limit;
		cr_expect_eq(hr_concurrency_budget(engine, 0), row[i].want, "row %zu: %u", i,
			     hr_concurrency_budget(engine, 0));
	}
}

/* a and d have one block of each role, which is the most; the others have none. */
Test(schedule, the_check_names_the_limit_that_is_exceeded)
{
	static const struct {
		uint32_t limit, side_by_side;
		const char *says; /* NULL: it fits */
	} row[] = {
		{ 0, 2 * HR_RUN_ROLES, NULL },
		{ 0, 2 * HR_RUN_ROLES - 1,
		  "but box holds %u of several pipelines: 'a' (%u), 'd' (%u); " },
		{ 2 * HR_RUN_ROLES, 100, NULL },
		{ 2 * HR_RUN_ROLES - 1, 100, "but gpus[0].blocks allows %u: 'a' (%u), 'd' (%u); " },
		{ 100, 2 * HR_RUN_ROLES - 1, "but box holds %u of several pipelines: 'a' " },
	};

	make(five);
	engine->backend[0].lanes = 32;
	strcpy(engine->backend[0].name, "box");
	for (int role = 0; role < HR_RUN_ROLES; role++)
		engine->run[A].blocks[role] = engine->run[D].blocks[role] = 1;
	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		char says[160] = "";

		hr_error_clear(&engine->error);
		engine->config.gpu[0].blocks = row[i].limit;
		engine->backend[0].side_by_side = row[i].side_by_side;
		engine->gpu_up[0] = false;
		cr_expect_eq(hr_concurrency_check(engine), 0, "row %zu: the gpu is left out", i);
		engine->gpu_up[0] = true;
		cr_expect_eq(hr_concurrency_check(engine), row[i].says ? -EINVAL : 0, "row %zu", i);
		if (row[i].says)
			snprintf(says, sizeof says, row[i].says, 2 * HR_RUN_ROLES - 1, HR_RUN_ROLES,
				 HR_RUN_ROLES);
		cr_expect(strstr(engine->error.text, says), "row %zu: %s", i, engine->error.text);
	}
}

/* Of several gpus each has the pipelines that use it; of those behind the last number none counts. */
Test(schedule, each_gpu_has_blocks_of_its_own_pipelines)
{
	static const uint32_t blocks[HR_PIPELINES_MAX] = { 3, 2, 2, 4, 5, 100 };
	hr_pipeline_set them = 99;

	make(five);
	engine->config.gpus = 2;
	engine->config.pipeline[E].gpu = 1;
	engine->config.pipeline[D].other_gpus = 1; /* on both */
	engine->config.pipeline[D].other_gpu[0] = 1;
	engine->config.pipeline[RUNS] = engine->config.pipeline[E];
	engine->config.pipeline[RUNS].gpu = 0;
	engine->run[RUNS] = engine->run[E];
	engine->run[RUNS].selected = true;
	cr_expect_eq(hr_concurrency_blocks(engine, 0, blocks, &them), 7u);
	cr_expect_eq(them, BIT(A) | BIT(D));
	cr_expect_eq(hr_concurrency_blocks(engine, 1, blocks, &them), 9u);
	cr_expect_eq(them, BIT(D) | BIT(E));
	cr_expect_eq(hr_concurrency_blocks(engine, 2, blocks, &them), 0u);
	cr_expect_eq(them, 0u);
	/* of two sets with the same number of blocks the one with the lowest pipelines */
	engine->config.parallel = 1;
	engine->run[A].blocks[0] = 0;
	cr_expect_eq(hr_concurrency_blocks(engine, 0, (const uint32_t[]){ 4, 0, 0, 4, 0 }, &them),
		     4u);
	cr_expect_eq(them, BIT(A));
	/* those without a block have no part in it */
	cr_expect_eq(hr_concurrency_blocks(engine, 0, (const uint32_t[]){ 0, 0, 0, 0, 0 }, &them),
		     0u);
	cr_expect_eq(them, 0u);
}

Test(schedule, the_check_says_all_and_stops_at_the_first_gpu)
{
	make(five);
	engine->config.gpus = 2;
	engine->config.gpu[0].line = 7;
	strcpy(engine->config.gpu[1].name, "h");
	engine->config.gpu[1].line = 8;
	engine->gpu_up[0] = engine->gpu_up[1] = engine->gpu_up[2] = true;
	engine->config.gpu[0].blocks = engine->config.gpu[1].blocks = 2;
	engine->config.gpu[2].blocks = 1; /* behind the last */
	engine->config.pipeline[E].gpu = 1;
	engine->config.pipeline[D].gpu = 2;
	for (int role = 0; role < HR_RUN_ROLES; role++)
		engine->run[A].blocks[role] = 2;
	for (uint32_t i = B; i < RUNS; i++)
		engine->run[i].blocks[HR_RUN_ROLES - 1] = 3;
	engine->run[A].workers[0] = 100; /* of the member behind */
	engine->config.parallel = 3;
	cr_expect_eq(hr_concurrency_check(engine), -EINVAL);
	cr_expect_eq(engine->error.kind, HR_ERROR_USAGE);
	{
		char says[400];

		snprintf(
			says, sizeof says,
			"f:7: gpu 'g': pipelines that may run at the same time need %u blocks, but "
			"gpus[0].blocks allows 2: 'a' (%u), 'b' (3); use fewer blocks, or a "
			"smaller appliance.parallel (3)",
			2 * HR_RUN_ROLES + 3, 2 * HR_RUN_ROLES);
		cr_expect_str_eq(engine->error.text, says);
	}
	hr_error_clear(&engine->error);
	engine->gpu_up[0] = false;
	cr_expect_eq(hr_concurrency_check(engine), -EINVAL);
	cr_expect_str_eq(engine->error.text,
			 "f:8: gpu 'h': pipelines that may run at the same time need 3 blocks, but "
			 "gpus[1].blocks allows 2: 'e' (3); use fewer blocks, or a smaller "
			 "appliance.parallel (3)");
	hr_error_clear(&engine->error);
	engine->config.gpu[1].blocks = 3;
	cr_expect_eq(hr_concurrency_check(engine), 0, "%s", engine->error.text);
}

/* A sink that keeps versions changes the objects of older ones. */
Test(schedule, versions_of_a_sink_are_its_objects)
{
	const struct hr_config_pipeline *p;

	make(five);
	p = engine->config.pipeline;
	cr_expect_not(hr_pipelines_conflict(&p[D], &p[E]));
	strcpy(engine->config.pipeline[E].source[0].object, "old.2");
	cr_expect_not(hr_pipelines_conflict(&p[D], &p[E]));
	engine->config.pipeline[D].sink.keep = 3;
	cr_expect(hr_pipelines_conflict(&p[D], &p[E]));
	cr_expect(hr_pipelines_conflict(&p[E], &p[D]));
	cr_expect_not(hr_pipeline_reads_from(&p[E], &p[D]), "an older version");
	engine->config.pipeline[E].source[0].ssd = 1;
	cr_expect_not(hr_pipelines_conflict(&p[D], &p[E]), "on another ssd");
	strcpy(engine->config.pipeline[E].source[0].object, "old");
	cr_expect_not(hr_pipelines_conflict(&p[D], &p[E]));
	cr_expect_not(hr_pipeline_reads_from(&p[E], &p[D]));
}
