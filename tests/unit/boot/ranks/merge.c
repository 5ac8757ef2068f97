/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whole pipelines in parts, and their merge: the part of each rank runs on an appliance of its own, one
 * after another; then ranks that are threads merge them. The result is compared with that of one
 * process, byte by byte.
 */
#include "boot/ranks/merge.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "boot/engine/runner/runner.h"
#include "config/base/process.h"
#include "boot/ranks/agree.h"
#include "tests/fakes/log.h"
#include "tests/fakes/ranks.h"
#include "tests/harness/engine.h"

TestSuite(merge, .timeout = 250);

/* 400000 bytes in tiles of 16 KiB: 25 tiles, the last one short. */
#define SSDS                                                                                        \
	"ssds = ( { name = \"a\"; device = \"soft:memory,size=8M\"; objects = (\n"                  \
	"    { name = \"in\"; bytes = 400000; }, { name = \"date\"; bytes = 400000; },\n"           \
	"    { name = \"discount\"; bytes = 400000; }, { name = \"quantity\"; bytes = 400000; },\n" \
	"    { name = \"price\"; bytes = 800000; } ); } );\n"                                       \
	"gpus = ( { name = \"g\"; device = \"host:3\"; } );\n"
#define PIPE(op, rest)                                                                       \
	SSDS "pipelines = ( { name = \"p\"; operator = \"" op "\"; tile = \"16K\"; shard = " \
	     "\"tiles\"; blocks = { compute = 2; };\n" rest " } );\n"
#define IN "source = { object = \"in\"; }; "

static const char crc32c[] = PIPE("crc32c", IN);
static const char topk[] =
	PIPE("topk_dot", IN "args = { k = 9; query = [ 1.0, -2.0, 3.0, 0.5 ]; };");
static const char filter_sum[] = PIPE(
	"filter_sum",
	"source = ( { object = \"date\"; }, { object = \"discount\"; }, { object = \"quantity\"; },\n"
	"  { object = \"price\"; } ); args = { shipdate_from = 0; shipdate_before = 40000;\n"
	"  discount_from = 0; discount_to = 100; quantity_below = 50000; };");

static struct hr_engine *engine[FAKE_RANKS_MAX], *alone;
static struct hr_job job[FAKE_RANKS_MAX];
static struct hr_merged merged[FAKE_RANKS_MAX];
static struct hr_error error[FAKE_RANKS_MAX];
static int result[FAKE_RANKS_MAX];

static struct hr_engine *load(const char *text, uint32_t rank, uint32_t size)
{
	struct hr_engine *new = calloc(1, sizeof *new);
	const struct hr_ranks ranks = { .rank = rank, .size = size };

	cr_assert_not_null(new);
	engine_read(new, text);
	if (size)
		hr_ranks_divide(new, &ranks);
	return new;
}

static struct hr_engine *run(const char *text, uint32_t rank, uint32_t size)
{
	struct hr_engine *new = load(text, rank, size);
	int err = hr_engine_up(new, HR_STAGE_QUEUES);

	if (!err)
		err = hr_run_all(new, false, test_error());
	hr_unseal();
	cr_assert_eq(err, 0, "rank %u of %u: %d, %s", rank, size, err, test_error_text());
	return new;
}

static void drop(struct hr_engine *old)
{
	hr_engine_down(old);
	free(old);
}

static void run_parts(const char *text, uint32_t size)
{
	memset(job, 0, sizeof job);
	memset(error, 0, sizeof error);
	for (uint32_t r = 0; r < size; r++)
		engine[r] = run(text, r, size);
}

static void drop_parts(uint32_t size)
{
	for (uint32_t r = 0; r < size; r++) {
		drop(engine[r]);
		hr_merged_free(&merged[r]);
	}
}

static void merge(struct hr_ranks *ranks, void *to)
{
	const uint32_t r = ranks->rank;

	job[r].ranks = *ranks;
	result[r] = hr_ranks_merge(&job[r], engine[r], &merged[r], &error[r]);
}

static void compare(uint32_t size)
{
	const struct hr_run *whole = &alone->run[0], *of = &engine[0]->run[0];

	cr_expect_eq(of->outcome, HR_RUN_DONE);
	cr_expect(memcmp(of->cpu.op_result, whole->cpu.op_result, HR_OP_RESULT_MAX) == 0,
		  "the result of %u ranks differs", size);
	cr_expect(!whole->pipe->record_bytes ||
			  memcmp(of->cpu.op_records, whole->cpu.op_records,
				 whole->tiles * whole->pipe->record_bytes) == 0,
		  "the records of %u ranks differ", size);
	cr_expect_eq(of->read_bytes, whole->read_bytes);
	cr_expect_eq(of->done_tiles, whole->done_tiles);
	for (uint32_t s = 0; s < whole->config->sources; s++) {
		cr_expect_eq(whole->source[s].verify.check, HR_SOURCE_VERIFIED);
		cr_expect_eq(of->source[s].verify.check, HR_SOURCE_VERIFIED);
		cr_expect_eq(of->source[s].verify.found, whole->source[s].verify.found);
	}
}

Test(merge, the_result_is_that_of_one_process)
{
	static const char *const text[] = { crc32c, topk, filter_sum };
#ifdef __SANITIZE_THREAD__ /* which sees the same threads for each number of ranks */
	static const uint32_t sizes[] = { 1, 3 };
#else
	static const uint32_t sizes[] = { 1, 2, 3, 4, 7, 27 };
#endif
	static const uint8_t nothing[HR_OP_RESULT_MAX];

	for (size_t i = 0; i < sizeof text / sizeof *text; i++) {
		alone = run(text[i], 0, 0);
		cr_expect_eq(alone->run[0].tiles, i == 2 ? 49u : 25u);
		cr_expect(memcmp(alone->run[0].cpu.op_result, nothing, sizeof nothing) != 0);
		for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
			if (sizes[k] > 7 && i != 1) /* bring-up takes most of the time */
				continue;
			run_parts(text[i], sizes[k]);
			/* a part has no result of its own */
			cr_expect(memcmp(engine[0]->run[0].cpu.op_result, nothing,
					 sizeof nothing) == 0);
			fake_ranks_run(sizes[k], FAKE_RANKS_ALL, merge, NULL);
			for (uint32_t r = 0; r < sizes[k]; r++)
				cr_expect_eq(result[r], 0, "%s", error[r].text);
			compare(sizes[k]);
			drop_parts(sizes[k]);
		}
		drop(alone);
	}
}

Test(merge, parts_are_about_equal_and_cover_all_tiles)
{
	struct hr_run run = { 0 };

	for (run.tiles = 0; run.tiles < 40; run.tiles++)
		for (run.parts = 1; run.parts < 45; run.parts++) {
			uint64_t next = 0;

			for (run.part = 0; run.part < run.parts; run.part++) {
				const uint64_t tiles =
					hr_run_end_tile(&run) - hr_run_first_tile(&run);

				cr_assert_eq(hr_run_first_tile(&run), next);
				cr_assert(tiles == run.tiles / run.parts ||
					  tiles == run.tiles / run.parts + 1);
				next = hr_run_end_tile(&run);
			}
			cr_assert_eq(next, run.tiles);
		}
	run = (struct hr_run){ .tiles = UINT64_MAX, .part = 65535, .parts = 65536 };
	cr_expect_eq(hr_run_end_tile(&run), UINT64_MAX);
	run.parts = 0;
	cr_expect_eq(hr_run_first_tile(&run), 0u);
	cr_expect_eq(hr_run_end_tile(&run), UINT64_MAX);
}

Test(merge, every_failure_of_the_library_leaves_no_result)
{
	struct hr_pipe part;
	uint32_t calls = 0;

	run_parts(topk, 2);
	part = engine[0]->run[0].cpu;
	for (;; calls++) {
		memset(job, 0, sizeof job);
		memset(error, 0, sizeof error);
		engine[0]->run[0].outcome = engine[1]->run[0].outcome = HR_RUN_DONE;
		engine[0]->run[0].cpu = part; /* it refers to the memory of the last merge */
		fake_ranks_run(2, calls, merge, NULL);
		if (result[0] == 0)
			break;
		cr_expect_eq(result[0], -EIO, "after %u calls: %d", calls, result[0]);
		cr_expect_eq(engine[0]->run[0].outcome, HR_RUN_FAILED, "after %u calls", calls);
		hr_merged_free(&merged[0]);
	}
	cr_expect_eq(calls, 23u, "%u calls", calls);
	drop_parts(2);
}
