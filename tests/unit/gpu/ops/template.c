/*
 * The example operator for users (gpu/ops/template/histogram.c), included in this file so that the
 * sanitizers see it: its results against simple counting, and its arguments.
 */
#include <criterion/criterion.h>
#include <float.h>
#include <stdio.h>
#include <stdlib.h>

#include "gpu/ops/template/histogram.c"

#include "tests/harness/random.h"

#define ROWS(table) (sizeof(table) / sizeof(*(table)))
#define TILE 4096u
#define WORKERS 3u

TestSuite(op_template, .timeout = 60);

static char said[1024];
static struct histogram_args args;

static void hear(void *to, unsigned line, const char *text)
{
	const size_t at = strlen(said);

	snprintf(said + at, sizeof said - at, "%u: %s\n", line, text);
}

static struct hr_op_arg real(const char *name, double value)
{
	const struct hr_op_arg arg = {
		.name = name, .type = HR_ARG_FLOAT, .real = value, .line = 3
	};

	return arg;
}

static struct hr_op_arg whole(const char *name, int64_t value)
{
	const struct hr_op_arg arg = {
		.name = name, .type = HR_ARG_INT, .integer = value, .line = 4
	};

	return arg;
}

static int take(double from, double to, int64_t bins)
{
	const struct hr_op_arg arg[] = { real("from", from), real("to", to), whole("bins", bins) };

	said[0] = '\0';
	return hr_operator.parse(arg, 3, &args, hear, NULL);
}

/* Find bins by their edges in the order of the numbers, not by a product. */
static void count_plainly(const float *number, uint32_t numbers, struct histogram_result *want)
{
	memset(want, 0, sizeof *want);
	want->range.least = INFINITY;
	want->range.greatest = -INFINITY;
	for (uint32_t i = 0; i < numbers; i++) {
		const float x = number[i];

		if (isnan(x))
			want->count[args.bins + NOT_A_NUMBER]++;
		else if (x < args.from)
			want->count[args.bins + BELOW]++;
		else if (x >= args.to)
			want->count[args.bins + ABOVE]++;
		else
			want->count[(uint32_t)floorf((x - args.from) * args.scale)]++;
		if (!isnan(x) && x < want->range.least)
			want->range.least = x;
		if (!isnan(x) && x > want->range.greatest)
			want->range.greatest = x;
	}
}

static void run(const float *number, uint32_t numbers, struct histogram_result *result)
{
	const uint32_t bytes = numbers * 4, tiles = (bytes + TILE - 1) / TILE;
	const uint32_t state_size = hr_operator.state_bytes(&args);
	uint8_t *states = calloc(WORKERS, state_size);
	struct histogram_range *records = calloc(tiles + 1, sizeof *records);
	struct hr_op_all all = { .args = &args,
				 .tiles = tiles,
				 .bytes = bytes,
				 .tile_bytes = TILE,
				 .workers = WORKERS,
				 .state_bytes = state_size,
				 .states = states,
				 .record_bytes = hr_operator.tile_record_bytes,
				 .records = (const uint8_t *)records,
				 .result = result };

	cr_assert(states && records);
	memset(result, 0, sizeof *result);
	for (uint32_t w = 0; w < WORKERS; w++)
		hr_operator.init(&args, states + w * state_size);
	for (uint32_t t = 0; t < tiles; t++) {
		struct hr_op_tile tile = { .index = t, .record = &records[t] };

		tile.in[0] = (const uint8_t *)number + t * TILE;
		tile.in_bytes[0] = bytes - t * TILE < TILE ? bytes - t * TILE : TILE;
		cr_assert_eq(hr_operator.tile(&args, states + t % WORKERS * state_size, &tile), 0u);
	}
	hr_operator.finish(&all);
	free(states);
	free(records);
}

Test(op_template, histogram_agrees_with_a_plain_loop)
{
	static const uint32_t numbers[] = { 0, 1, 2, 1023, 1024, 1025, 50000 };
	static const int64_t bins[] = { 1, 2, 10, 255, 256 };
	struct histogram_result got, want;
	struct fake_random random = { 7 };
	float *number = malloc(50000 * sizeof *number);

	cr_assert_not_null(number);
	for (size_t n = 0; n < ROWS(numbers); n++) {
		for (uint32_t i = 0; i < numbers[n]; i++)
			number[i] =
				i % 97 == 13 ? NAN : (float)fake_random_below(&random, 1000) / 100;
		for (size_t b = 0; b < ROWS(bins); b++) {
			cr_assert_eq(take(1.5, 8.25, bins[b]), (int)sizeof args, "%s", said);
			run(number, numbers[n], &got);
			count_plainly(number, numbers[n], &want);
			cr_expect_eq(memcmp(&got, &want, sizeof got), 0, "%u numbers, %d bins",
				     numbers[n], (int)bins[b]);
		}
	}
	free(number);
}

Test(op_template, limits_of_the_range_and_of_f32_are_counted_right)
{
	const float number[] = { -INFINITY,	   -FLT_MAX, -1.0f,   nextafterf(-1, -2), 0,
				 nextafterf(1, 0), 1.0f,     FLT_MAX, INFINITY,		  NAN };
	struct histogram_result got;

	cr_assert_eq(take(-1, 1, 4), (int)sizeof args, "%s", said);
	run(number, ROWS(number), &got);
	cr_expect_eq(got.count[0], 1u);
	cr_expect_eq(got.count[1], 0u);
	cr_expect_eq(got.count[2], 1u);
	cr_expect_eq(got.count[3], 1u);
	cr_expect_eq(got.count[4 + BELOW], 3u);
	cr_expect_eq(got.count[4 + ABOVE], 3u);
	cr_expect_eq(got.count[4 + NOT_A_NUMBER], 1u);
	cr_expect(isinf(got.range.least) && isinf(got.range.greatest));
}

Test(op_template, arguments_are_checked)
{
	static const struct {
		double from, to;
		int64_t bins;
		const char *want;
	} row[] = {
		{ 0, 1, 0, "4: bins: 0 is outside of 1..256\n" },
		{ 0, 1, 257, "4: bins: 257 is outside of 1..256\n" },
		{ 1, 1, 4, "0: from 1 to 1 is not a range of f32\n" },
		{ 2, 1, 4, "0: from 2 to 1 is not a range of f32\n" },
		{ -3e38, 3e38, 4, "0: from -3e+38 to 3e+38 is not a range of f32\n" },
		{ 0, 1e-45, 4, "0: from 0 to 1.4013e-45 is not a range of f32\n" },
		{ 0, 1e39, 4, "3: to: 1e+39 is outside of -3.40282e+38..3.40282e+38\n" },
		{ -1e39, 0, 4, "3: from: -1e+39 is outside of -3.40282e+38..3.40282e+38\n" },
		{ 0, (double)NAN, 4, "3: to: nan is outside of -3.40282e+38..3.40282e+38\n" },
	};
	const struct hr_op_arg wrong[] = { { .name = "from", .type = HR_ARG_STRING, .line = 5 },
					   whole("to", 3),
					   real("bins", 4) };

	for (size_t i = 0; i < ROWS(row); i++) {
		cr_expect_eq(take(row[i].from, row[i].to, row[i].bins), -EINVAL, "row %zu", i);
		cr_expect_str_eq(said, row[i].want, "row %zu: %s", i, said);
	}
	said[0] = '\0';
	cr_expect_eq(hr_operator.parse(wrong, 3, &args, hear, NULL), -EINVAL);
	cr_expect_str_eq(said, "5: from: expected a number\n3: bins: expected a whole number\n");
}
