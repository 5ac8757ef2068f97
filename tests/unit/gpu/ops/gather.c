/* SPDX-License-Identifier: Apache-2.0 */
/* Gather, by the lanes of workers: sums, rows, the Zipf distribution, both ways to request, wrong
 * indices. */
#define HR_LANES 2u /* fewer than the workers that an issuer serves */
#include "tests/fakes/objects.h"

#define HR_OP_NAME test_gather
#include "gpu/ops/gather.c"

#include <criterion/criterion.h>
#include <string.h>

#include "tests/harness/random.h"

#define ROWS 700u
#define WIDTH 11u    /* numbers of a row */
#define LOOKUPS 150u /* with the thread sanitizer collective calls cost much */

TestSuite(gather, .timeout = 200);

static float table[ROWS][WIDTH], rows[LOOKUPS][WIDTH];
static uint32_t indices[LOOKUPS];
static struct hr_gather_args args;

static void refuse(void *to, unsigned line, const char *text)
{
	cr_expect(false, "%s", text);
}

static void set_args(double zipf, int64_t ahead, int64_t issuers)
{
	const struct hr_op_arg arg[] = {
		{ .name = "row", .type = HR_ARG_INT, .integer = sizeof table[0] },
		{ .name = "lookups", .type = HR_ARG_INT, .integer = LOOKUPS },
		{ .name = "zipf", .type = HR_ARG_FLOAT, .real = zipf },
		{ .name = "ahead", .type = HR_ARG_INT, .integer = ahead },
		{ .name = "issuers", .type = HR_ARG_INT, .integer = issuers },
	};

	cr_assert_eq(parse(arg, sizeof arg / sizeof *arg, &args, refuse, NULL), sizeof args);
}

Test(gather, arguments_have_their_defaults)
{
	const struct hr_op_arg arg[] = {
		{ .name = "row", .type = HR_ARG_INT, .integer = 4 },
		{ .name = "lookups", .type = HR_ARG_INT, .integer = 3 },
	};

	memset(&args, 0xff, sizeof args);
	cr_assert_eq(parse(arg, 2, &args, refuse, NULL), sizeof args);
	cr_expect_eq(args.row_bytes, 4);
	cr_expect_eq(args.lookups, 3);
	cr_expect_eq(args.seed, 1);
	cr_expect_eq(args.ahead, 2);
	cr_expect_eq(args.issuers, 0);
	cr_expect_eq(args.warm, 0);
	cr_expect_eq(hr_zipf_rank(&args.zipf, 1, 1, 7), 0);
}

static void make_table(void)
{
	struct fake_random random = { fake_random_seed("gather") };

	for (uint32_t i = 0; i < ROWS; i++)
		for (uint32_t j = 0; j < WIDTH; j++)
			table[i][j] =
				((float)fake_random_below(&random, 1u << 20) - 524288.0f) / 4096;
	for (uint32_t i = 0; i < LOOKUPS; i++)
		indices[i] = fake_random_below(&random, ROWS);
	memset(rows, 0, sizeof rows);
	fake_access_object(GATHER_TABLE, table, sizeof table);
	fake_access_object(GATHER_INDICES, NULL, 0);
	fake_access_object(GATHER_ROWS, NULL, 0);
}

/* Numbers are whole multiples of 2^-12, so the sum of doubles is exact. */
static int64_t sum_of(bool indexed)
{
	double sum = 0;

	for (uint32_t i = 0; i < LOOKUPS; i++) {
		const uint64_t row =
			indexed ? indices[i]
				: hr_zipf_row(hr_zipf_rank(&args.zipf, ROWS, args.seed, i), ROWS);

		for (uint32_t j = 0; j < WIDTH; j++)
			sum += (double)table[row][j];
	}
	return (int64_t)(sum * 1048576);
}

Test(gather, every_way_to_request_gives_the_same_sum)
{
	static const struct {
		uint32_t workers, ahead, issuers;
	} way[] = {
		{ 1, 1, 0 }, { 1, 32, 0 }, { 4, 2, 0 }, { 2, 3, 1 }, { 4, 1, 1 }, { 4, 32, 3 }
	};
	const struct hr_gather *result = (const void *)fake_access.result;

	make_table();
	for (size_t i = 0; i < sizeof way / sizeof *way; i++) {
		set_args(0.9, way[i].ahead, way[i].issuers);
		args.warm = i & 1;
		cr_assert_eq(fake_access_run(&hr_op_test_gather, &args, way[i].workers), 0);
		cr_expect_eq((int64_t)result->sum, sum_of(false), "way %zu", i);
		cr_expect_eq(result->lookups, LOOKUPS);
		cr_expect_eq(result->skipped, 0);
		cr_expect_eq(fake_access.prefetches, LOOKUPS);
		cr_expect_eq(fake_access.pages,
			     args.warm ? fake_access.object[GATHER_TABLE].pages : 0);
	}
}

/* Pages 0, 2, 4 ... are found, and only rows in other pages, or in two pages, are requested. */
static bool is_found(uint64_t row, uint32_t bytes)
{
	const uint64_t first = row * bytes / FAKE_PAGE,
		       last = (row * bytes + bytes - 1) / FAKE_PAGE;

	return first == last && first % 2 == 0;
}

Test(gather, rows_that_are_found_are_summed_in_place)
{
	const struct hr_gather *result = (const void *)fake_access.result;
	uint64_t found = 0;

	make_table();
	fake_access_object(GATHER_INDICES, indices, sizeof indices);
	for (uint32_t i = 0; i < LOOKUPS; i++)
		found += is_found(indices[i], sizeof table[0]);
	cr_assert(found > 0 && found < LOOKUPS);
	for (uint32_t issuers = 0; issuers < 2; issuers++) {
		set_args(0, 5, issuers);
		fake_access.finds = 2;
		cr_assert_eq(fake_access_run(&hr_op_test_gather, &args, 3), 0);
		fake_access.finds = 0;
		cr_expect_eq((int64_t)result->sum, sum_of(true));
		cr_expect_eq(result->lookups, LOOKUPS);
		cr_expect_eq(fake_access.prefetches, LOOKUPS - (issuers ? 0 : found));
	}
}

/* Rows that a caller wants are copied, so pages are not used in place. */
Test(gather, rows_that_are_kept_are_requested)
{
	make_table();
	fake_access_object(GATHER_INDICES, indices, sizeof indices);
	fake_access_object(GATHER_ROWS, rows, sizeof rows);
	set_args(0, 5, 0);
	fake_access.finds = 1;
	cr_assert_eq(fake_access_run(&hr_op_test_gather, &args, 3), 0);
	fake_access.finds = 0;
	cr_expect_eq(fake_access.prefetches, LOOKUPS);
	for (uint32_t i = 0; i < LOOKUPS; i++)
		cr_assert_arr_eq(rows[i], table[indices[i]], sizeof rows[i]);
}

/* Loads of 16 bytes, many of a lane together, and what is left of rows of other lengths. */
Test(gather, rows_of_each_length_have_their_sum)
{
	static const uint32_t length[] = { 1, 3, 4, 5, 31, 36, 128, 132, 255, 1000, 1020, 1024 };
	static float wide[16 * FAKE_PAGE / sizeof(float)] __attribute__((aligned(16)));
	const struct hr_gather *result = (const void *)fake_access.result;

	for (uint32_t i = 0; i < sizeof wide / sizeof *wide; i++)
		wide[i] = (float)(int32_t)(i * 2654435761u >> 12) / 4096;
	make_table();
	for (uint32_t i = 0; i < sizeof length / sizeof *length; i++) {
		const uint32_t row_bytes = length[i] * (uint32_t)sizeof *wide;
		const uint64_t count = sizeof wide / row_bytes;
		uint64_t found = 0;
		double sum = 0;

		fake_access_object(GATHER_TABLE, wide, count * row_bytes);
		set_args(0, 3, 0);
		args.row_bytes = row_bytes;
		args.lookups = 40;
		for (uint32_t q = 0; q < args.lookups; q++) {
			const uint64_t row =
				hr_zipf_row(hr_zipf_rank(&args.zipf, count, args.seed, q), count);

			found += is_found(row, row_bytes);
			for (uint32_t k = 0; k < length[i]; k++)
				sum += (double)wide[row * length[i] + k];
		}
		for (fake_access.finds = 0; fake_access.finds <= 2; fake_access.finds += 2) {
			cr_assert_eq(fake_access_run(&hr_op_test_gather, &args, 2), 0);
			cr_expect_eq((int64_t)result->sum, (int64_t)(sum * 1048576), "%u",
				     length[i]);
			cr_expect_eq(fake_access.prefetches,
				     args.lookups - (fake_access.finds ? found : 0));
		}
		fake_access.finds = 0;
	}
}

Test(gather, rows_of_given_indices_are_kept)
{
	const struct hr_gather *result = (const void *)fake_access.result;

	make_table();
	fake_access_object(GATHER_INDICES, indices, sizeof indices);
	fake_access_object(GATHER_ROWS, rows, sizeof rows);
	for (uint32_t issuers = 0; issuers < 2; issuers++) {
		set_args(0, 4, issuers);
		cr_assert_eq(fake_access_run(&hr_op_test_gather, &args, 3), 0);
		cr_expect_eq((int64_t)result->sum, sum_of(true));
		for (uint32_t i = 0; i < LOOKUPS; i++)
			cr_assert_arr_eq(rows[i], table[indices[i]], sizeof rows[i]);
	}
}

/* ---- several ranks */

static struct {
	bool of_table; /* ranks divide the table; false: indices and rows, or nothing */
	bool of_rows;
	uint32_t ranks;
} split;

/* Rank r has items at(r) to at(r + 1) - 1: shares of different size, some of them empty. */
static uint32_t at(uint32_t r, uint32_t items)
{
	return r >= split.ranks ? items : items * (r / 2) / split.ranks;
}

static void place(uint32_t r)
{
	if (split.of_table)
		fake_access_shard(GATHER_TABLE, table, at(r, ROWS) * sizeof *table,
				  at(r + 1, ROWS) * sizeof *table, sizeof table);
	if (!split.of_rows)
		return;
	fake_access_shard(GATHER_INDICES, indices, at(r, LOOKUPS) * sizeof *indices,
			  at(r + 1, LOOKUPS) * sizeof *indices, sizeof indices);
	fake_access_shard(GATHER_ROWS, rows, at(r, LOOKUPS) * sizeof *rows,
			  at(r + 1, LOOKUPS) * sizeof *rows, sizeof rows);
}

Test(gather, ranks_that_divide_lookups_or_the_table_have_the_sum_of_one)
{
	static const uint32_t ranks[] = { 3, 1, 2, 7 };
	const size_t numbers = sizeof ranks / sizeof *ranks;
	const struct hr_gather *result = (const void *)fake_access.result;

	for (uint32_t way = 0; way < 8 * numbers; way++) {
		const bool indexed = way & 1, issues = way & 4;

		split.ranks = ranks[way / 8];
		split.of_table = way & 2;
		split.of_rows = indexed && !split.of_table;
		make_table();
		if (indexed)
			fake_access_object(GATHER_INDICES, indices, sizeof indices);
		set_args(0.9, 3, issues ? 1 : 0);
		cr_assert_eq(
			fake_access_run_ranks(&hr_op_test_gather, &args, 2, split.ranks, place), 0);
		cr_expect_eq((int64_t)result->sum, sum_of(indexed), "way %u", way);
		cr_expect_eq(result->lookups, LOOKUPS, "way %u", way);
		cr_expect_eq(fake_access.prefetches, LOOKUPS, "way %u", way);
		for (uint32_t i = 0; split.of_rows && i < LOOKUPS; i++)
			cr_assert_arr_eq(rows[i], table[indices[i]], sizeof rows[i]);
	}
}

/* A share of the rows alone, with indices that each rank has. */
static void place_rows(uint32_t r)
{
	fake_access_shard(GATHER_ROWS, rows, at(r, LOOKUPS) * sizeof *rows,
			  at(r + 1, LOOKUPS) * sizeof *rows, sizeof rows);
}

Test(gather, ranks_write_the_rows_that_they_have)
{
	const struct hr_gather *result = (const void *)fake_access.result;

	split.ranks = 3;
	make_table();
	fake_access_object(GATHER_INDICES, indices, sizeof indices);
	set_args(0, 2, 0);
	cr_assert_eq(fake_access_run_ranks(&hr_op_test_gather, &args, 2, 3, place_rows), 0);
	cr_expect_eq((int64_t)result->sum, sum_of(true));
	for (uint32_t i = 0; i < LOOKUPS; i++)
		cr_assert_arr_eq(rows[i], table[indices[i]], sizeof rows[i]);
}

/* The range of an index is that of the whole table; the element counts in the shard. */
Test(gather, ranks_refuse_an_index_beyond_the_whole_table)
{
	make_table();
	split.ranks = 2;
	split.of_table = false;
	split.of_rows = true;
	indices[LOOKUPS - 1] = ROWS;
	set_args(0, 2, 0);
	cr_expect_eq(fake_access_run_ranks(&hr_op_test_gather, &args, 2, 2, place), -EBADMSG);
	cr_expect_eq(fake_access.refused, LOOKUPS - 1 - at(1, LOOKUPS));
	split.of_table = true;
	split.of_rows = false;
	make_table();
	indices[7] = ROWS - 1;
	fake_access_object(GATHER_INDICES, indices, sizeof indices);
	cr_expect_eq(fake_access_run_ranks(&hr_op_test_gather, &args, 2, 2, place), 0);
	indices[7] = ROWS;
	cr_expect_eq(fake_access_run_ranks(&hr_op_test_gather, &args, 2, 2, place), -EBADMSG);
	cr_expect_eq(fake_access.refused, 7);
}

/* Workers that wait for other workers also end. */
Test(gather, an_index_beyond_the_table_is_refused_by_its_element)
{
	make_table();
	fake_access_object(GATHER_INDICES, indices, sizeof indices);
	indices[LOOKUPS / 2] = ROWS;
	for (uint32_t issuers = 0; issuers < 3; issuers++) {
		set_args(0, 2, issuers);
		cr_expect_eq(fake_access_run(&hr_op_test_gather, &args, 4), -EBADMSG);
		cr_expect_eq(fake_access.refused, LOOKUPS / 2);
		cr_expect_eq(fake_access.refused_object, GATHER_INDICES);
	}
}

Test(gather, issuers_leave_a_worker_that_computes)
{
	make_table();
	set_args(0, 2, 2);
	cr_expect_eq(fake_access_run(&hr_op_test_gather, &args, 2), -EINVAL);
}

Test(gather, fixed_point_is_exact_and_skips_values_out_of_its_range)
{
	static const struct {
		float number;
		double want;
		bool skipped;
	} row[] = { { 1.5f, 1.5, false },
		    { -65535.0f, -65535, false },
		    { 65536.0f, 0, true },
		    { -1e30f, 0, true },
		    { INFINITY, 0, true },
		    { NAN, 0, true },
		    { 0.0f, 0, false },
		    { -0.0f, 0, false },
		    { 0x1p-20f, 0x1p-20, false },
		    { -0x1.8p-20f, -0x1p-20, false },
		    { 0x1p-21f, 0, false },
		    { 1e-40f, 0, false },
		    { 0x1.fffffep15f, 0x1.fffffep15, false },
		    { -0x1.000002p3f, -0x1.000002p3, false },
		    { 0x1.fffffep2f, 0x1.fffffcp2, false },
		    { 0x1.fffffep-20f, 0x1p-20, false } };

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		bool skipped;
		const int64_t fixed = gather_fixed(hr_f32_bits(row[i].number), &skipped);

		cr_expect_eq(fixed, (int64_t)(row[i].want * 1048576), "row %zu", i);
		cr_expect_eq(skipped, row[i].skipped, "row %zu", i);
	}
}

Test(gather, buckets_cover_all_ranks)
{
	for (uint32_t b = 0; b < HR_ZIPF_BUCKETS; b++) {
		const uint64_t first = hr_zipf_first(b), ranks = 1ull << hr_zipf_shift(b);

		cr_assert_eq(hr_zipf_bucket(first), b);
		cr_assert_eq(hr_zipf_bucket(first + ranks - 1), b);
		cr_assert_eq(hr_zipf_first(b + 1), first + ranks);
	}
	cr_expect_eq(hr_zipf_first(HR_ZIPF_BUCKETS), 1ull << 32);
}

Test(gather, ranks_and_rows_are_a_bijection)
{
	static bool seen[ROWS];

	for (uint32_t rank = 0; rank < ROWS; rank++) {
		const uint64_t row = hr_zipf_row(rank, ROWS);

		cr_assert_lt(row, ROWS);
		cr_assert_not(seen[row]);
		seen[row] = true;
	}
	set_args(1, 2, 0);
	for (uint64_t i = 0; i < 1000; i++) {
		cr_assert_eq(hr_zipf_rank(&args.zipf, 1, 1, i), 0);
		cr_assert_lt(hr_zipf_rank(&args.zipf, UINT32_MAX, 1, i), UINT32_MAX);
	}
}
