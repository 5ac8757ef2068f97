/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptions of the built-in operators: texts of refused lengths, and the reports of access
 * operators, value by value. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "boot/cmd/report/result.h"
#include "gpu/ops/operators.h"
#include "tests/harness/operators.h"

#define ROWS(table) (sizeof(table) / sizeof(*(table)))

TestSuite(ops_describe, .timeout = 60);

static uint64_t args[HR_OP_ARGS_MAX / 8 + 1];
static char said[512]; /* "OBJECT: TEXT\n" for each complaint */

static void hear(void *to, unsigned object, const char *text)
{
	char *all = to;

	snprintf(all + strlen(all), sizeof said - strlen(all), "%u: %s\n", object, text);
}

/* The arguments of the tests below. */
static const struct hr_chase_args chase_args = { .hops = 1, .chains = 1 };
static const struct hr_gather_args gather_400 = { .row_bytes = 400, .lookups = 1000 };
static const struct hr_bfs_args bfs_root_5 = { .root = 5 };
static const struct hr_join_args join_args = { 0 };

Test(ops_describe, a_wrong_length_is_refused_with_its_object)
{
	static const char of_gather[] = "0: expected 1 to 4294967295 rows of the length 'row'\n";
	static const char of_chase[] = "0: expected one u64 or more: a multiple of 8 bytes\n";
	static const char of_bfs[] =
		"0: expected 2 to 4294967296 u64, one more than the graph has vertices\n";
	static const struct {
		const char *op;
		const void *args;
		uint64_t bytes[4];
		const char *said;
	} row[] = {
		{ "gather", &gather_400, { 400 }, "" },
		{ "gather", &gather_400, { 400, 4000, 400000 }, "" },
		{ "gather", &gather_400, { 0 }, of_gather },
		{ "gather", &gather_400, { 399 }, of_gather },
		{ "gather", &gather_400, { 401 }, of_gather },
		{ "gather", &gather_400, { 400ull * HR_ZIPF_SPREAD }, of_gather },
		{ "gather", &gather_400, { 400ull * (HR_ZIPF_SPREAD + 1) }, "" },
		{ "gather", &gather_400, { 400ull * UINT32_MAX }, "" },
		{ "gather", &gather_400, { 400ull << 32 }, of_gather },
		{ "gather",
		  &gather_400,
		  { 400, 3999, 1 },
		  "1: has 3999 bytes, expected at least 4000 for these lookups\n"
		  "2: has 1 bytes, expected at least 400000 for these lookups\n" },
		{ "chase", &chase_args, { 8 }, "" },
		{ "chase", &chase_args, { 0 }, of_chase },
		{ "chase", &chase_args, { 9 }, of_chase },
		{ "join", &join_args, { 16, 8 }, "" },
		{ "join", &join_args, { 16, 0 }, "" },
		{ "join",
		  &join_args,
		  { 0, 9 },
		  "0: expected one bucket or more: a multiple of 16 bytes\n"
		  "1: expected u64: a multiple of 8 bytes\n" },
		{ "join",
		  &join_args,
		  { 17, 8 },
		  "0: expected one bucket or more: a multiple of 16 bytes\n" },
		{ "bfs", &bfs_root_5, { 56, 0 }, "" },
		{ "bfs", &bfs_root_5, { 56, 4, 24, 24 }, "" },
		{ "bfs", &bfs_root_5, { 15 }, of_bfs },
		{ "bfs", &bfs_root_5, { 57, 5, 1, 1 }, of_bfs },
		{ "bfs", &bfs_root_5, { (8ull << 32) + 8 }, of_bfs },
		{ "bfs", &bfs_root_5, { 48 }, "0: has 5 vertices, but the root is vertex 5\n" },
		{ "bfs",
		  &bfs_root_5,
		  { 16, 6, 3, 1 },
		  "0: has 1 vertices, but the root is vertex 5\n"
		  "1: expected u32: a multiple of 4 bytes\n"
		  "2: has 3 bytes, expected at least 4 for 1 vertices\n"
		  "3: has 1 bytes, expected at least 4 for 1 vertices\n" },
		{ "bfs",
		  &bfs_root_5,
		  { 56, 4, 23, 25 },
		  "2: has 23 bytes, expected at least 24 for 6 vertices\n" },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		said[0] = '\0';
		cr_expect_eq(hr_op_find(row[i].op)->check(row[i].args, row[i].bytes, hear, said),
			     *row[i].said ? -EINVAL : 0, "row %zu", i);
		cr_expect_str_eq(said, row[i].said, "row %zu: %s", i, said);
	}
	/* the smallest graph */
	cr_expect_eq(hr_op_find("bfs")->check(args, (uint64_t[]){ 16, 0, 4, 4 }, hear, said), 0);
}

static void refuse(void *to, unsigned line, const char *text)
{
	cr_expect(false, "%s", text);
}

Test(ops_describe, graphs_and_joins_are_not_read_before_unless_asked_for)
{
	const struct hr_op_arg root = { .name = "root", .type = HR_ARG_INT, .integer = 7 };
	const struct hr_op_arg warm = { .name = "warm", .type = HR_ARG_INT, .integer = 1 };
	const struct hr_bfs_args *bfs = (const void *)args;
	const struct hr_join_args *join = (const void *)args;

	memset(args, 0xff, sizeof args);
	cr_expect_eq(hr_op_find("bfs")->parse(&root, 1, args, refuse, NULL), sizeof *bfs);
	cr_expect(bfs->root == 7 && bfs->warm == 0);
	memset(args, 0xff, sizeof args);
	cr_expect_eq(hr_op_find("join")->parse(NULL, 0, args, refuse, NULL), sizeof *join);
	cr_expect_eq(join->warm, 0);
	cr_expect_eq(hr_op_find("join")->parse(&warm, 1, args, refuse, NULL), sizeof *join);
	cr_expect_eq(join->warm, 1);
}

/* ---- reports */

static void expect_report(const char *op, const void *result, const uint64_t *bytes,
			  const char *expected)
{
	struct hr_op_all all = { .result = (void *)(uintptr_t)result };
	struct hr_json json;
	char text[512] = "";

	if (bytes)
		memcpy(all.object_bytes, bytes, sizeof all.object_bytes);
	hr_json_to_text(&json, HR_JSON_LINE, text, sizeof text);
	hr_result_json(hr_op_find(op), &all, true, &json);
	cr_assert_eq(hr_json_done(&json), 0);
	cr_expect_str_eq(text, expected, "%s: %s", op, text);
}

Test(ops_describe, gather_reports_its_sum_in_two_forms)
{
	expect_report(
		"gather",
		&(struct hr_gather){
			.sum = (uint64_t)-1572864, .lookups = 7, .skipped = 3, .run_ns = 2000 },
		NULL,
		"{\"lookups\": 7, \"sum\": -1.5, \"sum_fixed\": -1572864, \"skipped\": 3, "
		"\"run_ns\": 2000, \"lookups_per_s\": 3500000.0}\n");
	expect_report("gather", &(struct hr_gather){ .sum = 1 << 18, .lookups = 1 }, NULL,
		      "{\"lookups\": 1, \"sum\": 0.25, \"sum_fixed\": 262144, \"skipped\": 0, "
		      "\"run_ns\": 0, \"lookups_per_s\": 0.0}\n");
}

Test(ops_describe, join_reports_keys_per_second)
{
	expect_report("join", &(struct hr_join){ 8, 5, UINT64_MAX, 21, 4000 }, NULL,
		      "{\"keys\": 8, \"matches\": 5, \"payload_sum\": 18446744073709551615, "
		      "\"buckets\": 21, \"run_ns\": 4000, \"keys_per_s\": 2000000.0}\n");
	expect_report("join", &(struct hr_join){ 1, 2, 3, 4, 0 }, NULL,
		      "{\"keys\": 1, \"matches\": 2, \"payload_sum\": 3, \"buckets\": 4, "
		      "\"run_ns\": 0, \"keys_per_s\": 0.0}\n");
}

Test(ops_describe, bfs_reports_the_graph_and_edges_per_second)
{
	static const uint64_t bytes[HR_OBJECTS_MAX] = { 80, 400 };

	expect_report("bfs", &(struct hr_bfs){ 6, 50, 77, 3, 10000 }, bytes,
		      "{\"vertices\": 9, \"edges\": 100, \"levels\": 3, \"visited\": 6, "
		      "\"edges_traversed\": 50, \"checksum\": 77, \"run_ns\": 10000, "
		      "\"teps\": 5000000.0}\n");
	expect_report("bfs", &(struct hr_bfs){ 1, 2, 3, 4, 0 }, bytes,
		      "{\"vertices\": 9, \"edges\": 100, \"levels\": 4, \"visited\": 1, "
		      "\"edges_traversed\": 2, \"checksum\": 3, \"run_ns\": 0, \"teps\": 0.0}\n");
}

/* A percentile lies in its bin as if the steps of a bin were spread evenly. */
Test(ops_describe, chase_reports_percentiles_of_its_histogram)
{
	static const struct {
		uint64_t step_ns, step_ticks;
		uint32_t bin[2];
		uint64_t steps[2]; /* of each bin */
		const char *times;
	} row[] = {
		{ 0, 0, { 0 }, { 0 }, "\"ns_per_hop\": 0.0, \"p50_ns\": 0.0, \"p99_ns\": 0.0" },
		/* a tick is 2 ns; bin 4 is that of 4 ticks */
		{ 90,
		  45,
		  { 4 },
		  { 10 },
		  "\"ns_per_hop\": 9.0, \"p50_ns\": 9.0, \"p99_ns\": 9.9800000000000004" },
		{ 100,
		  100,
		  { 2, 3 },
		  { 50, 50 },
		  "\"ns_per_hop\": 1.0, \"p50_ns\": 3.0, \"p99_ns\": 3.98" },
		/* bin 20: 24 and 25 ticks; bin 30: 56 to 59 ticks */
		{ 400,
		  100,
		  { 20, 30 },
		  { 51, 49 },
		  "\"ns_per_hop\": 4.0, \"p50_ns\": 103.84313725490196, "
		  "\"p99_ns\": 239.67346938775512" },
		{ 3,
		  3,
		  { 319 },
		  { 1 },
		  "\"ns_per_hop\": 3.0, \"p50_ns\": 4123168604160.0, "
		  "\"p99_ns\": 4123168604160.0" },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		struct hr_chase chase = { .checksum = 11,
					  .hops = 12,
					  .run_ns = 13,
					  .step_ns = row[i].step_ns,
					  .step_ticks = row[i].step_ticks };
		char expected[256];

		for (uint32_t j = 0; j < 2; j++) {
			chase.bin[row[i].bin[j]] += row[i].steps[j];
			chase.steps += row[i].steps[j];
		}
		snprintf(expected, sizeof expected,
			 "{\"checksum\": 11, \"hops\": 12, \"run_ns\": 13, %s}\n", row[i].times);
		expect_report("chase", &chase, NULL, expected);
	}
}
