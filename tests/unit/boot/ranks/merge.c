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

#include "boot/engine/names.h"
#include "boot/engine/runner.h"
#include "boot/engine/seal.h"
#include "boot/ranks/same.h"
#include "tests/fakes/log.h"
#include "tests/fakes/ranks.h"
#include "tests/harness/error.h"
#include "tests/harness/threads.h"

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

static struct hr_appliance *app[FAKE_RANKS_MAX], *alone;
static struct hr_job job[FAKE_RANKS_MAX];
static struct hr_merged merged[FAKE_RANKS_MAX];
static struct hr_error error[FAKE_RANKS_MAX];
static int result[FAKE_RANKS_MAX];

static struct hr_appliance *load(const char *text, uint32_t rank, uint32_t size)
{
	struct hr_appliance *new = calloc(1, sizeof *new);
	const struct hr_ranks ranks = { .rank = rank, .size = size };

	cr_assert_not_null(new);
	cr_assert_eq(
		hr_config_parse(&new->config, &hr_names, "f", text, strlen(text), test_error()), 0,
		"%s", test_error_text());
	cr_assert_eq(hr_appliance_init(new, NULL), 0);
	if (size)
		hr_ranks_divide(new, &ranks);
	return new;
}

static struct hr_appliance *run(const char *text, uint32_t rank, uint32_t size)
{
	struct hr_appliance *new = load(text, rank, size);
	int err = hr_appliance_up(new, HR_STAGE_QUEUES);

	if (!err)
		err = hr_run_all(new, false, test_error());
	hr_unseal();
	cr_assert_eq(err, 0, "rank %u of %u: %d, %s", rank, size, err, test_error_text());
	return new;
}

static void drop(struct hr_appliance *old)
{
	hr_appliance_down(old);
	free(old);
}

static void run_parts(const char *text, uint32_t size)
{
	memset(job, 0, sizeof job);
	memset(error, 0, sizeof error);
	for (uint32_t r = 0; r < size; r++)
		app[r] = run(text, r, size);
}

static void drop_parts(uint32_t size)
{
	for (uint32_t r = 0; r < size; r++) {
		drop(app[r]);
		hr_merged_free(&merged[r]);
	}
}

static void merge(struct hr_ranks *ranks, void *to)
{
	const uint32_t r = ranks->rank;

	job[r].ranks = *ranks;
	result[r] = hr_ranks_merge(&job[r], app[r], &merged[r], &error[r]);
}

static void compare(uint32_t size)
{
	const struct hr_run *whole = &alone->run[0], *of = &app[0]->run[0];

	cr_expect_eq(of->outcome, HR_RUN_DONE);
	cr_expect(memcmp(of->cpu.op_result, whole->cpu.op_result, HR_OP_RESULT_MAX) == 0,
		  "the result of %u ranks differs", size);
	cr_expect(!whole->pipe->record_bytes ||
			  memcmp(of->cpu.op_records, whole->cpu.op_records,
				 whole->tiles * whole->pipe->record_bytes) == 0,
		  "the records of %u ranks differ", size);
	cr_expect_eq(of->read_bytes, whole->read_bytes);
	cr_expect_eq(of->through_tiles, whole->through_tiles);
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
			cr_expect(memcmp(app[0]->run[0].cpu.op_result, nothing, sizeof nothing) ==
				  0);
			fake_ranks_run(sizes[k], FAKE_RANKS_ALL, merge, NULL);
			for (uint32_t r = 0; r < sizes[k]; r++)
				cr_expect_eq(result[r], 0, "%s", error[r].text);
			compare(sizes[k]);
			drop_parts(sizes[k]);
		}
		drop(alone);
	}
}

/* ---- access operators */

#define ACCESS(op, rest)                                      \
	SSDS "pipelines = ( { name = \"p\"; operator = \"" op \
	     "\"; shard = \"objects\"; compute = 2;\n" rest " } );\n"

static const char gather[] =
	ACCESS("gather", "objects = { table = { object = \"in\"; }; };\n"
			 "args = { row = 80; lookups = 300; zipf = 0.5; issuers = 1; };");

Test(merge, an_access_operator_has_the_result_of_one_process)
{
	static const uint32_t sizes[] = { 1, 3, 5 };
	static const uint64_t nothing[3];
	const uint64_t *of, *whole;

	alone = run(gather, 0, 0);
	whole = (const uint64_t *)(const void *)alone->run[0].gpu[0].cpu.op_result;
	cr_expect_eq(whole[1], 300u);
	for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
		uint64_t bytes = 0;

		run_parts(gather, sizes[k]);
		of = (const uint64_t *)(const void *)app[0]->run[0].gpu[0].cpu.op_result;
		/* a part has no result of its own */
		cr_expect(memcmp(of, nothing, sizeof nothing) == 0);
		for (uint32_t r = 0; r < sizes[k]; r++)
			bytes += app[r]->run[0].read_bytes;
		fake_ranks_run(sizes[k], FAKE_RANKS_ALL, merge, NULL);
		for (uint32_t r = 0; r < sizes[k]; r++)
			cr_expect_eq(result[r], 0, "%s", error[r].text);
		cr_expect_eq(app[0]->run[0].outcome, HR_RUN_DONE);
		/* sum, lookups and skipped numbers; the time differs */
		cr_expect(memcmp(of, whole, sizeof nothing) == 0, "%u ranks", sizes[k]);
		cr_expect_eq(app[0]->run[0].read_bytes, bytes);
		drop_parts(sizes[k]);
	}
	drop(alone);
}

Test(merge, an_access_operator_that_failed_elsewhere_has_no_result)
{
	run_parts(gather, 2);
	app[1]->run[0].outcome = HR_RUN_FAILED;
	fake_ranks_run(2, FAKE_RANKS_ALL, merge, NULL);
	cr_expect_eq(app[0]->run[0].outcome, HR_RUN_FAILED);
	cr_expect(strstr(app[0]->run[0].cause.text, "not succeeded on rank 1"));
	drop_parts(2);
}

Test(merge, parts_are_about_equal_and_cover_all_tiles)
{
	struct hr_run run = { 0 };

	for (run.tiles = 0; run.tiles < 40; run.tiles++)
		for (run.parts = 1; run.parts < 45; run.parts++) {
			uint64_t next = 0;

			for (run.part = 0; run.part < run.parts; run.part++) {
				const uint64_t tiles = hr_run_end(&run) - hr_run_begin(&run);

				cr_assert_eq(hr_run_begin(&run), next);
				cr_assert(tiles == run.tiles / run.parts ||
					  tiles == run.tiles / run.parts + 1);
				next = hr_run_end(&run);
			}
			cr_assert_eq(next, run.tiles);
		}
	run = (struct hr_run){ .tiles = UINT64_MAX, .part = 65535, .parts = 65536 };
	cr_expect_eq(hr_run_end(&run), UINT64_MAX);
	run.parts = 0;
	cr_expect_eq(hr_run_begin(&run), 0u);
	cr_expect_eq(hr_run_end(&run), UINT64_MAX);
}

Test(merge, a_damaged_source_is_found_in_the_tiles_of_all_ranks)
{
	run_parts(topk, 3);
	app[2]->run[0].cpu.source[0].crc[24] ^= 1; /* as if the last tile had been read wrongly */
	fake_ranks_run(3, FAKE_RANKS_ALL, merge, NULL);
	cr_expect_eq(result[0], -EBADMSG);
	cr_expect(strstr(error[0].text, "object 'in' on ssd 'a' differs from the stored data"));
	cr_expect_eq(app[0]->run[0].outcome, HR_RUN_FAILED);
	cr_expect_eq(app[0]->run[0].source[0].verify.check, HR_SOURCE_WRONG);
	for (uint32_t r = 0; r < 3; r++)
		cr_expect_eq(error[r].kind, HR_ERROR_DEVICE);
	cr_expect(error[1].printed && error[2].printed && !error[0].printed);
	drop_parts(3);
}

Test(merge, a_run_that_failed_or_was_interrupted_elsewhere_has_no_result)
{
	for (int interrupted = 0; interrupted < 2; interrupted++) {
		run_parts(crc32c, 3);
		app[1]->run[0].outcome = interrupted ? HR_RUN_INTERRUPTED : HR_RUN_FAILED;
		fake_ranks_run(3, FAKE_RANKS_ALL, merge, NULL);
		for (uint32_t r = 0; r < 3; r++)
			cr_expect_eq(result[r], 0);
		cr_expect_eq(app[0]->run[0].outcome,
			     interrupted ? HR_RUN_INTERRUPTED : HR_RUN_FAILED);
		cr_expect_eq(app[0]->run[0].error, interrupted ? -EINTR : -ECANCELED);
		cr_expect(strstr(app[0]->run[0].cause.text, "not succeeded on rank 1"));
		drop_parts(3);
	}
}

Test(merge, every_failure_of_the_library_leaves_no_result)
{
	struct hr_pipe part;
	uint32_t calls = 0;

	run_parts(topk, 2);
	part = app[0]->run[0].cpu;
	for (;; calls++) {
		memset(job, 0, sizeof job);
		memset(error, 0, sizeof error);
		app[0]->run[0].outcome = app[1]->run[0].outcome = HR_RUN_DONE;
		app[0]->run[0].cpu = part; /* it refers to the memory of the last merge */
		fake_ranks_run(2, calls, merge, NULL);
		if (result[0] == 0)
			break;
		cr_expect_eq(result[0], -EIO, "after %u calls: %d", calls, result[0]);
		cr_expect_eq(app[0]->run[0].outcome, HR_RUN_FAILED, "after %u calls", calls);
		hr_merged_free(&merged[0]);
	}
	cr_expect_eq(calls, 23u, "%u calls", calls);
	drop_parts(2);
}

/* ---- checks before the run */

static void same(struct hr_ranks *ranks, void *to)
{
	const uint32_t r = ranks->rank;

	job[r].ranks = *ranks;
	result[r] = hr_ranks_same(&job[r], app[r], &error[r]);
}

/* Bring up ranks of which number `odd` has another configuration, and compare them. */
static void compare_ranks(const char *text, const char *other, uint32_t odd)
{
	memset(job, 0, sizeof job);
	memset(error, 0, sizeof error);
	for (uint32_t r = 0; r < 3; r++) {
		app[r] = load(r == odd ? other : text, r, 3);
		cr_assert_eq(hr_appliance_up(app[r], HR_STAGE_PARTITION), 0);
	}
	fake_ranks_run(3, FAKE_RANKS_ALL, same, NULL);
	for (uint32_t r = 0; r < 3; r++) {
		hr_appliance_down(app[r]);
		free(app[r]);
	}
}

/* text with the first `was` replaced */
static const char *changed(const char *text, const char *was, const char *now)
{
	static char to[4096];
	const char *at = strstr(text, was);

	cr_assert_not_null(at);
	snprintf(to, sizeof to, "%.*s%s%s", (int)(at - text), text, now, at + strlen(was));
	return to;
}

Test(merge, ranks_with_other_work_are_named)
{
	static const struct {
		const char *text, *was, *now, *want;
	} row[] = {
		{ topk, "k = 9", "k = 8",
		  "f:6: pipeline 'p' of rank 2 differs from that of rank 0 in name, operator, "
		  "arguments, tile, shard or verify" },
		{ topk, "16K", "32K", "pipeline 'p' of rank 2 differs" },
		{ topk, "\"p\"", "\"q\"", "pipeline 'p' of rank 2 differs" },
		{ crc32c, "crc32c",
		  "topk_dot\"; args = { k = 1; query = [ 1.0 ]; }; verify = \"auto",
		  "pipeline 'p' of rank 2 differs" },
		{ crc32c, "\"in\"; bytes = 400000", "\"in\"; bytes = 400008",
		  "object 'in' on ssd 'a' has 400008 bytes on rank 2, but 400000 on rank 0" },
		{ gather, "lookups = 300", "lookups = 301", "pipeline 'p' of rank 2 differs" },
		{ gather, "\"in\"; bytes = 400000", "\"in\"; bytes = 400080",
		  "object 'in' on ssd 'a' has 400080 bytes on rank 2, but 400000 on rank 0" },
		{ crc32c, "pipelines = ( ",
		  "pipelines = ( { name = \"x\"; operator = \"crc32c\"; source = { object = "
		  "\"in\"; }; }, ",
		  "f: rank 2 has 2 pipelines, but rank 0 has 1" },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i += THREAD_STEP(3u)) {
		compare_ranks(row[i].text, changed(row[i].text, row[i].was, row[i].now), 2);
		cr_expect_eq(result[0], -EINVAL, "row %zu", i);
		cr_expect(strstr(error[0].text, row[i].want), "row %zu: %s", i, error[0].text);
		cr_expect_null(strstr(error[0].text, "rank 1"));
		for (uint32_t r = 0; r < 3; r++)
			cr_expect_eq(error[r].kind, HR_ERROR_USAGE, "row %zu", i);
		cr_expect_eq(result[1], -ECANCELED);
	}
	compare_ranks(topk, topk, 0);
	for (uint32_t r = 0; r < 3; r++)
		cr_expect_eq(result[r], 0, "%s", error[r].text);
}

Test(merge, pipelines_that_ranks_do_not_run)
{
	static const struct {
		const char *was, *now, *want;
	} row[] = {
		{ "shard = \"tiles\";", "",
		  "with --mpi each pipeline needs shard = \"tiles\" or \"objects\"" },
		{ "crc32c\"; tile = \"16K\"; shard = \"tiles\"",
		  "copy\"; tile = \"16K\"; sink = { tap = \"out\"; }",
		  "a tap is not possible on several ranks" },
		{ "operator = \"crc32c\"; tile = \"16K\"; shard = \"tiles\"; blocks = { compute = "
		  "2; };\nsource = { object = \"in\"; }; ",
		  "operator = \"bfs\"; objects = { offsets = { object = \"in\"; }; edges = { object = "
		  "\"date\"; }; }; args = { root = 0; }; ",
		  "its operator does not divide its work over ranks" },
		{ "operator = \"crc32c\"; tile = \"16K\"; shard = \"tiles\"; blocks = { compute = "
		  "2; };\nsource = { object = \"in\"; }; ",
		  "operator = \"chase\"; objects = { next = { object = \"in\"; }; }; args = { hops "
		  "= 1; }; ",
		  "with --mpi each pipeline needs shard; expected shard = \"objects\"" },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		struct hr_appliance *one = load(changed(crc32c, row[i].was, row[i].now), 0, 1);

		cr_expect_eq(hr_ranks_check(one, test_error()), -EINVAL);
		cr_expect(strstr(test_error_text(), "f:6: pipeline 'p': "), "%s",
			  test_error_text());
		cr_expect(strstr(test_error_text(), row[i].want), "%s", test_error_text());
		cr_expect_eq(test_error_kind(), HR_ERROR_USAGE);
		one->run[0].selected = false;
		cr_expect_eq(hr_ranks_check(one, test_error()), 0);
		free(one);
	}
}
