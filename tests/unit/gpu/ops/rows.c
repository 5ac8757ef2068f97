/* SPDX-License-Identifier: Apache-2.0 */
/* Operators that reduce rows, against a simple computation, and their output. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "boot/cmd/report/result.h"
#include "tests/harness/opcase.h"
#include "tests/harness/operators.h"
#include "tests/harness/random.h"

#define ROWS(table) (sizeof(table) / sizeof(*(table)))

TestSuite(ops_rows, .timeout = 60);

static char *printed(const struct opcase *c)
{
	char *text = NULL;
	size_t bytes = 0;
	FILE *out = open_memstream(&text, &bytes);

	cr_assert_not_null(out);
	hr_result_print(hr_op_get(c->op), &c->all, out);
	fclose(out);
	return text;
}

struct lineitem {
	uint32_t rows;
	int32_t *shipdate, *discount, *quantity;
	int64_t *price;
};

static void lineitem_alloc(struct lineitem *t, uint32_t rows)
{
	t->rows = rows;
	t->shipdate = calloc(rows + 1, 4);
	t->discount = calloc(rows + 1, 4);
	t->quantity = calloc(rows + 1, 4);
	t->price = calloc(rows + 1, 8);
	cr_assert(t->shipdate && t->discount && t->quantity && t->price);
}

static void lineitem_free(struct lineitem *t)
{
	free(t->shipdate);
	free(t->discount);
	free(t->quantity);
	free(t->price);
}

static struct opcase filter_case(const struct lineitem *t, const struct hr_filter_args *args,
				 uint32_t tile_rows, uint32_t workers)
{
	const struct opcase c = {
		.op = HR_OP_filter_sum,
		.args = args,
		.sources = 4,
		.in = { t->shipdate, t->discount, t->quantity, t->price },
		.bytes = { t->rows * 4ull, t->rows * 4ull, t->rows * 4ull, t->rows * 8ull },
		.tile_bytes = { tile_rows * 4, tile_rows * 4, tile_rows * 4, tile_rows * 8 },
		.workers = workers
	};

	return c;
}

static void check_filter(const struct lineitem *t, const struct hr_filter_args *a,
			 uint32_t tile_rows, uint32_t workers)
{
	struct opcase c = filter_case(t, a, tile_rows, workers);
	const struct hr_filter_sum *sum;
	__int128 revenue = 0;
	uint64_t matched = 0;

	for (uint32_t i = 0; i < t->rows; i++) {
		if (t->shipdate[i] < a->shipdate_from || t->shipdate[i] >= a->shipdate_before ||
		    t->discount[i] < a->discount_from || t->discount[i] > a->discount_to ||
		    t->quantity[i] >= a->quantity_below)
			continue;
		revenue += (__int128)t->price[i] * t->discount[i];
		matched++;
	}
	opcase_run(&c);
	sum = c.all.result;
	cr_assert_eq(sum->matched, matched, "%u rows, %u workers", t->rows, workers);
	cr_assert_eq(sum->rows, t->rows);
	cr_assert((__int128)((unsigned __int128)sum->high << 64 | sum->low) == revenue,
		  "%u rows, %u workers", t->rows, workers);
	opcase_free(&c);
}

Test(ops_rows, filter_sum_is_exact_for_every_number_of_rows_and_workers)
{
	static const uint32_t rows[] = { 0, 1, 2, 127, 128, 129, 4095, 4096, 4097, 20011 };
	static const struct hr_filter_args args = { 100, 200, 5, 7, 24 };
	struct fake_random random = { 7 };

	for (size_t i = 0; i < ROWS(rows); i++) {
		struct lineitem t;

		lineitem_alloc(&t, rows[i]);
		for (uint32_t r = 0; r < rows[i]; r++) {
			t.shipdate[r] = (int32_t)fake_random_below(&random, 300);
			t.discount[r] = (int32_t)fake_random_below(&random, 11);
			t.quantity[r] = (int32_t)fake_random_below(&random, 50);
			t.price[r] = (int64_t)fake_random_u64(&random) >> (r & 63);
		}
		check_filter(&t, &args, 128, 1 + (uint32_t)i % 5);
		check_filter(&t, &args, 16384, 3);
		lineitem_free(&t);
	}
}

/* A tile has as many rows as its shortest column. */
Test(ops_rows, filter_sum_reads_the_rows_that_all_columns_have)
{
	static const struct hr_filter_args args = { INT32_MIN, INT32_MAX, 0, 100, INT32_MAX };
	struct lineitem t;

	lineitem_alloc(&t, 64);
	for (uint32_t r = 0; r < t.rows; r++) {
		t.discount[r] = 1;
		t.price[r] = 1;
	}
	for (uint32_t s = 0; s < 4; s++) {
		struct opcase c = filter_case(&t, &args, 64, 1);
		const struct hr_filter_sum *sum;

		/* part of a row is none */
		c.bytes[s] = s == 3 ? 60 * 8 + 7 : 60 * 4 + 3;
		opcase_run(&c);
		sum = c.all.result;
		cr_expect_eq(sum->rows, 60, "column %u", s);
		cr_expect_eq(sum->matched, 60, "column %u", s);
		cr_expect_eq(sum->low, 60, "column %u", s);
		opcase_free(&c);
	}
	lineitem_free(&t);
}

/* Each limit, its neighbours, and the ends of the type. */
Test(ops_rows, filter_sum_keeps_its_bounds)
{
	static const int32_t value[] = { INT32_MIN, -1, 0,   4,	  5,   6,   7,
					 8,	    99, 100, 199, 200, 201, INT32_MAX };
	static const struct hr_filter_args args[] = { { 100, 200, 5, 7, 6 },
						      { INT32_MIN, INT32_MAX, 0, 100, INT32_MAX },
						      { 200, 100, 0, 100, 100 },
						      { 0, 200, 7, 5, 100 } };
	struct lineitem t;
	uint32_t r = 0;

	lineitem_alloc(&t, (uint32_t)(ROWS(value) * ROWS(value) * ROWS(value)));
	for (size_t i = 0; i < ROWS(value); i++)
		for (size_t j = 0; j < ROWS(value); j++)
			for (size_t k = 0; k < ROWS(value); k++, r++) {
				t.shipdate[r] = value[i];
				t.discount[r] = value[j];
				t.quantity[r] = value[k];
				t.price[r] = (int64_t)r * 1000003 - 12345;
			}
	for (size_t i = 0; i < ROWS(args); i++)
		check_filter(&t, &args[i], 1024, 2);
	lineitem_free(&t);
}

/* Sums far outside of 64 bits, with both signs. */
Test(ops_rows, filter_sum_does_not_overflow)
{
	static const struct hr_filter_args args = { 0, 10, 100, 100, 10 };
	static const int64_t price[] = { INT64_MAX, INT64_MIN, UINT32_MAX, -1, 1ll << 32 };
	static const int64_t pair[][2] = { { -1, 1 },
					   { 1ll << 32, -(1ll << 32) },
					   { -(1ll << 32), 1ll << 32 },
					   { -(1ll << 32), UINT32_MAX },
					   { INT64_MAX, INT64_MIN },
					   { INT64_MIN, INT64_MAX } };
	struct lineitem t;

	lineitem_alloc(&t, 10000);
	for (size_t i = 0; i < ROWS(price); i++) {
		for (uint32_t r = 0; r < t.rows; r++) {
			t.price[r] = price[i];
			t.discount[r] = 100;
		}
		check_filter(&t, &args, 8192, 2);
	}
	/* the sum changes its sign, with a carry from each of its two parts */
	for (size_t i = 0; i < ROWS(pair); i++) {
		for (uint32_t r = 0; r < t.rows; r++)
			t.price[r] = pair[i][r >= 4096];
		check_filter(&t, &args, 8192, 1);
	}
	lineitem_free(&t);
}

Test(ops_rows, filter_sum_names_the_unit_of_revenue_in_text_and_json)
{
	static const struct {
		uint64_t low, high;
		const char *cents;
	} row[] = {
		{ 0, 0, "0.00" },
		{ 7, 0, "0.07" },
		{ 34, 0, "0.34" },
		{ 100, 0, "1.00" },
		{ 1234, 0, "12.34" },
		{ 1231410782283, 0, "12314107822.83" },
		{ (uint64_t)-5, UINT64_MAX, "-0.05" },
		{ (uint64_t)-123456, UINT64_MAX, "-1234.56" },
		{ 0, 1, "184467440737095516.16" },
		{ 0, 1ull << 63, "-1701411834604692317316873037158841057.28" },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		struct hr_filter_sum sum = { row[i].low, row[i].high, 10, 2 };
		struct opcase c = { .op = HR_OP_filter_sum, .all = { .result = &sum } };
		char *text = printed(&c), expected[128], document[128];
		struct hr_json json;

		snprintf(expected, sizeof expected, "revenue %s cents from 2 of 10 rows",
			 row[i].cents);
		cr_expect_str_eq(text, expected, "%s", text);
		hr_json_to_text(&json, HR_JSON_LINE, document, sizeof document);
		hr_result_json(hr_op_get(c.op), &c.all, true, &json);
		cr_assert_eq(hr_json_done(&json), 0);
		snprintf(expected, sizeof expected, "\"revenue_cents\": \"%s\"", row[i].cents);
		cr_expect(strstr(document, expected), "%s", document);
		free(text);
	}
}

struct scored {
	float score;
	uint64_t row;
};

static int best_first(const void *left, const void *right)
{
	const struct scored *a = left, *b = right;

	if (a->score != b->score)
		return a->score > b->score ? -1 : 1;
	return a->row < b->row ? -1 : 1;
}

/* Sorts all rows. Values are small integers, so that every order of additions is exact. */
static void check_topk(const float *matrix, uint32_t rows, const struct hr_topk_args *args,
		       uint32_t tile_rows, uint32_t workers)
{
	const uint32_t row_bytes = args->dimensions * 4;
	struct scored *all = calloc(rows + 1, sizeof *all);
	struct opcase c = { .op = HR_OP_topk_dot,
			    .args = args,
			    .sources = 1,
			    .in = { matrix },
			    .bytes = { (uint64_t)rows * row_bytes },
			    .tile_bytes = { tile_rows * row_bytes },
			    .workers = workers,
			    .backwards = workers & 1 };
	const struct hr_topk *top;
	uint32_t scored = 0;

	cr_assert_not_null(all);
	for (uint32_t r = 0; r < rows; r++) {
		float sum = 0;

		for (uint32_t d = 0; d < args->dimensions; d++)
			sum += matrix[(size_t)r * args->dimensions + d] * args->query[d];
		if (!isnan(sum))
			all[scored++] = (struct scored){ sum, r };
	}
	qsort(all, scored, sizeof *all, best_first);
	opcase_run(&c);
	top = c.all.result;
	cr_assert_eq(top->count, scored < args->k ? scored : args->k);
	for (uint64_t i = 0; i < top->count; i++) {
		cr_assert_eq(top->best[i].row, all[i].row, "place %u of %u rows, k %u", (unsigned)i,
			     rows, args->k);
		cr_assert(top->best[i].score == all[i].score);
	}
	opcase_free(&c);
	free(all);
}

Test(ops_rows, topk_dot_sorts_as_a_full_sort_does)
{
	static const uint32_t rows[] = { 0, 1, 9, 10, 11, 1000 };
	static const uint32_t dimensions[] = { 1, 3, 16, 17, 128 };
	static const uint32_t ks[] = { 1, 10, HR_TOPK_MAX };
	static struct hr_topk_args args;
	struct fake_random random = { 3 };
	float *matrix = calloc(1000 * 128, sizeof *matrix);

	cr_assert_not_null(matrix);
	for (size_t i = 0; i < ROWS(rows) * ROWS(dimensions) * ROWS(ks); i++) {
		const uint32_t n = rows[i % ROWS(rows)];

		args.dimensions = dimensions[i / ROWS(rows) % ROWS(dimensions)];
		args.k = ks[i / ROWS(rows) / ROWS(dimensions)];
		for (uint32_t d = 0; d < args.dimensions; d++)
			args.query[d] = (float)fake_random_below(&random, 7) - 3;
		for (uint32_t j = 0; j < n * args.dimensions; j++)
			/* Many equal scores. */
			matrix[j] = (float)fake_random_below(&random, 5) - 2;
		check_topk(matrix, n, &args, 64, 1 + (uint32_t)i % 4);
	}
	free(matrix);
}

Test(ops_rows, topk_dot_never_selects_nan_and_orders_infinities)
{
	static const struct hr_topk_args args = { .k = 4, .dimensions = 1, .query = { 1 } };
	const float matrix[] = { NAN, 1, -INFINITY, NAN, INFINITY, 1, -0.0f, 0, INFINITY, NAN };

	for (uint32_t workers = 1; workers <= 3; workers++)
		for (uint32_t k = 1; k <= ROWS(matrix); k++) {
			struct hr_topk_args with_k = args;

			with_k.k = k;
			check_topk(matrix, ROWS(matrix), &with_k, 3, workers);
		}
}

Test(ops_rows, topk_dot_reports_rows_and_scores)
{
	static const struct hr_topk_args args = { .k = 2, .dimensions = 1, .query = { 0.5f } };
	const float matrix[] = { 1, 3, INFINITY };
	struct opcase c = { .op = HR_OP_topk_dot,
			    .args = &args,
			    .sources = 1,
			    .in = { matrix },
			    .bytes = { sizeof matrix },
			    .tile_bytes = { 4 },
			    .workers = 1 };
	struct hr_json json;
	char *text, document[128];

	opcase_run(&c);
	text = printed(&c);
	cr_expect_str_eq(text, "2 best rows\n   1. row 2, score inf\n   2. row 1, score 1.5", "%s",
			 text);
	hr_json_to_text(&json, HR_JSON_LINE, document, sizeof document);
	hr_result_json(hr_op_get(c.op), &c.all, true, &json);
	cr_assert_eq(hr_json_done(&json), 0);
	cr_expect_str_eq(
		document,
		"{\"best\": [{\"row\": 2, \"score\": \"inf\"}, {\"row\": 1, \"score\": 1.5}]}\n",
		"%s", document);
	free(text);
	opcase_free(&c);
}
