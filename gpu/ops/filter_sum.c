/* SPDX-License-Identifier: Apache-2.0 */
/*
 * filter_sum: exact sum of price * discount over the rows that match.
 *
 * A price is split into high * 2^32 + low. With a discount of at most 100 (7 bits) a product of
 * either half has at most 39 bits, so 64 bits hold the sum over a tile (of at most HR_TILE_MAX / 8
 * = 2^23 rows). This sum is then added to the 128 bits of the worker.
 *
 * On a CPU the compiler vectorizes a loop over rows; it does so only when counts stay within 32
 * bits. On a GPU a thread loads four rows at a time.
 */
#include "gpu/ops/operator.h"
#include "gpu/worker/vector.h"

/* The columns, in the order of the sources, little-endian. */
enum hr_filter_column {
	HR_FILTER_SHIPDATE, /* int32: days since 1970-01-01 */
	HR_FILTER_DISCOUNT, /* int32: hundredths */
	HR_FILTER_QUANTITY, /* int32: units */
	HR_FILTER_PRICE,    /* int64: hundredths (cents) */
	HR_FILTER_COLUMNS,
};

/* hundredths: with this limit sums of products stay exact */
#define HR_FILTER_DISCOUNT_MAX 100

struct hr_filter_args {
	int32_t shipdate_from, shipdate_before; /* from <= shipdate < before */
	int32_t discount_from, discount_to; /* from <= discount <= to; 0..HR_FILTER_DISCOUNT_MAX */
	int32_t quantity_below;		    /* quantity < below */
};

/* State of a worker, and the result. */
struct hr_filter_sum {
	/* sum of price * discount: 128 bits, two's complement, in 1/10000 */
	uint64_t low, high;
	uint64_t rows, matched;
};

#define FILTER_RUN 4096u

/* sum += high * 2^32 + low */
HR_WORKER void filter_add(struct hr_filter_sum *sum, int64_t high, uint64_t low)
{
	const uint64_t shifted = (uint64_t)high << 32;

	sum->low += shifted;
	sum->high += (uint64_t)(high >> 32) + (sum->low < shifted ? 1 : 0);
	sum->low += low;
	sum->high += sum->low < low ? 1 : 0;
}

/* Result of one lane for a run of rows. */
struct filter_part {
	int64_t high;
	uint64_t low;
	uint64_t matched;
};

/* Process rows first, first + step, ... below end. */
HR_WORKER void filter_run(const struct hr_filter_args *args, const struct hr_op_tile *tile,
			  uint32_t first, uint32_t end, uint32_t step, struct filter_part *part)
{
	const int32_t *shipdate = (const int32_t *)(const void *)tile->in[HR_FILTER_SHIPDATE];
	const int32_t *discount = (const int32_t *)(const void *)tile->in[HR_FILTER_DISCOUNT];
	const int32_t *quantity = (const int32_t *)(const void *)tile->in[HR_FILTER_QUANTITY];
	const int64_t *price = (const int64_t *)(const void *)tile->in[HR_FILTER_PRICE];
	const int32_t from = args->shipdate_from, before = args->shipdate_before;
	const int32_t least = args->discount_from, most = args->discount_to;
	const int32_t below = args->quantity_below;
	uint64_t low = 0;
	int64_t high = 0;
	uint32_t matched = 0, i;

	for (i = first; i < end; i += step) {
		const int32_t match = (shipdate[i] >= from) & (shipdate[i] < before) &
				      (discount[i] >= least) & (discount[i] <= most) &
				      (quantity[i] < below);
		const int32_t share = discount[i] & -match;

		low += (uint64_t)(uint32_t)price[i] * (uint32_t)share;
		high += (int64_t)(int32_t)(price[i] >> 32) * share;
		matched += (uint32_t)match;
	}
	part->high = high;
	part->low = low;
	part->matched = matched;
}

/* Four rows as loaded: a vector of each column, two of prices. */
struct filter_four {
	struct hr_vector shipdate, discount, quantity, price[2];
};

HR_WORKER void filter_load(struct filter_four *four, const struct hr_op_tile *tile, uint32_t i)
{
	const struct hr_vector *column[HR_FILTER_COLUMNS];
	uint32_t c;

	for (c = 0; c < HR_FILTER_COLUMNS; c++)
		column[c] = (const struct hr_vector *)(const void *)tile->in[c];
	four->shipdate = column[HR_FILTER_SHIPDATE][i];
	four->discount = column[HR_FILTER_DISCOUNT][i];
	four->quantity = column[HR_FILTER_QUANTITY][i];
	four->price[0] = column[HR_FILTER_PRICE][2 * i];
	four->price[1] = column[HR_FILTER_PRICE][2 * i + 1];
}

HR_WORKER void filter_four(const struct hr_filter_args *args, const struct filter_four *four,
			   struct filter_part *part)
{
	uint32_t j;

	for (j = 0; j < 4; j++) {
		const int32_t shipdate = (int32_t)four->shipdate.word[j];
		const int32_t discount = (int32_t)four->discount.word[j];
		const int32_t quantity = (int32_t)four->quantity.word[j];
		const uint32_t low = four->price[j / 2].word[j % 2 * 2];
		const int32_t high = (int32_t)four->price[j / 2].word[j % 2 * 2 + 1];
		const int32_t match =
			(shipdate >= args->shipdate_from) & (shipdate < args->shipdate_before) &
			(discount >= args->discount_from) & (discount <= args->discount_to) &
			(quantity < args->quantity_below);
		const int32_t share = discount & -match;

		part->low += (uint64_t)low * (uint32_t)share;
		part->high += (int64_t)high * share;
		part->matched += (uint32_t)match;
	}
}

/* Process this thread's part of the first 4 * count rows. */
HR_WORKER void filter_fours(const struct hr_filter_args *args, const struct hr_op_tile *tile,
			    uint32_t count, struct filter_part *part)
{
	const uint32_t threads = hr_threads();
	uint32_t i = hr_thread();
	struct filter_four a, b;

	for (; i + threads < count; i += 2 * threads) {
		filter_load(&a, tile, i);
		filter_load(&b, tile, i + threads);
		filter_four(args, &a, part);
		filter_four(args, &b, part);
	}
	if (i < count) {
		filter_load(&a, tile, i);
		filter_four(args, &a, part);
	}
}

/* Collective: add the results of the lanes to the sum of their worker. */
HR_WORKER void filter_keep(struct hr_filter_sum *sum, const struct filter_part *part, uint32_t rows)
{
	const int64_t high = (int64_t)hr_lanes_sum_u64((uint64_t)part->high);
	const uint64_t low = hr_lanes_sum_u64(part->low);
	const uint64_t matched = hr_lanes_sum_u64(part->matched);

	if (hr_lane() == 0) {
		filter_add(sum, high, low);
		sum->matched += matched;
		sum->rows += rows;
	}
}

HR_WORKER uint32_t filter_rows(const struct hr_op_tile *tile)
{
	uint32_t rows = tile->in_bytes[HR_FILTER_PRICE] / 8;
	uint32_t i;

	for (i = 0; i < HR_FILTER_PRICE; i++)
		if (tile->in_bytes[i] / 4 < rows)
			rows = tile->in_bytes[i] / 4;
	return rows;
}

HR_OP_CODE void hr_operator_init(const void *args, void *state)
{
	struct hr_filter_sum *sum = (struct hr_filter_sum *)state;

	if (hr_lane() == 0) {
		sum->low = 0;
		sum->high = 0;
		sum->rows = 0;
		sum->matched = 0;
	}
}

/* Block-collective: process groups of four rows, then each remaining row. */
HR_WORKER void filter_block(const struct hr_filter_args *args, const struct hr_op_tile *tile,
			    struct hr_filter_sum *sum, uint32_t rows)
{
	struct filter_part part = { 0, 0, 0 }, rest;

	filter_fours(args, tile, rows / 4, &part);
	filter_run(args, tile, rows / 4 * 4 + hr_thread(), rows, hr_threads(), &rest);
	part.low += rest.low;
	part.high += rest.high;
	part.matched += rest.matched;
	filter_keep(sum, &part, hr_warp() == 0 ? rows : 0);
}

HR_OP_CODE uint32_t hr_operator_tile(const void *args, void *state, const struct hr_op_tile *tile)
{
	const struct hr_filter_args *a = (const struct hr_filter_args *)args;
	struct hr_filter_sum *sum = (struct hr_filter_sum *)state;
	const uint32_t rows = filter_rows(tile);
	struct filter_part part;
	uint32_t start;

	if (HR_LANES > 1)
		filter_block(a, tile, sum, rows);
	for (start = HR_LANES > 1 ? rows : 0; start < rows; start += FILTER_RUN) {
		const uint32_t end = rows - start < FILTER_RUN ? rows : start + FILTER_RUN;

		filter_run(a, tile, start, end, 1, &part);
		filter_keep(sum, &part, end - start);
	}
	return 0;
}

/* Sums of the four 32 bit digits of `sum`, of matched and of rows. */
#define FILTER_DIGITS 6u

struct filter_digits {
	uint64_t of[FILTER_DIGITS];
};

HR_WORKER void filter_digits_add(struct filter_digits *digits, const struct hr_filter_sum *sum)
{
	digits->of[0] += sum->low & 0xffffffffu;
	digits->of[1] += sum->low >> 32;
	digits->of[2] += sum->high & 0xffffffffu;
	digits->of[3] += sum->high >> 32;
	digits->of[4] += sum->matched;
	digits->of[5] += sum->rows;
}

/* One thread: add up the digits of all warps, with their carries. */
HR_WORKER void filter_total(struct hr_filter_sum *total, const struct filter_digits *warp)
{
	uint64_t of[FILTER_DIGITS] = { 0 };
	uint32_t i, j;

	for (i = 0; i < hr_warps(); i++)
		for (j = 0; j < FILTER_DIGITS; j++)
			of[j] += warp[i].of[j];
	for (j = 0; j < 3; j++)
		of[j + 1] += of[j] >> 32;
	total->low = of[1] << 32 | (of[0] & 0xffffffffu);
	total->high = of[3] << 32 | (of[2] & 0xffffffffu);
	total->matched = of[4];
	total->rows = of[5];
}

HR_OP_CODE void hr_operator_finish(const struct hr_op_all *all)
{
	struct filter_digits *warp = (struct filter_digits *)hr_block_memory();
	struct filter_digits mine = { { 0 } };
	uint32_t i;

	for (i = hr_thread(); i < all->workers; i += hr_threads())
		filter_digits_add(
			&mine,
			(const struct hr_filter_sum *)(const void *)(all->states +
								     (uint64_t)i *
									     all->state_bytes));
	for (i = 0; i < FILTER_DIGITS; i++)
		mine.of[i] = hr_lanes_sum_u64(mine.of[i]);
	if (hr_lane() == 0)
		warp[hr_warp()] = mine;
	hr_block_sync();
	if (hr_thread() == 0)
		filter_total((struct hr_filter_sum *)all->result, warp);
}

#ifdef HR_OP_CPU /* the rest is the description, for the CPU */

#include <errno.h>

#include "gpu/ops/args.h"

#define REVENUE_BYTES 42 /* 128 bits: 39 digits, sign, point and NUL */

static int parse(const struct hr_op_arg *arg, uint32_t count, void *args,
		 void (*complain)(void *to, unsigned line, const char *text), void *to)
{
	static const char *const names[] = { "shipdate_from", "shipdate_before", "discount_from",
					     "discount_to", "quantity_below" };
	struct hr_args given = { arg, count, complain, to, false };
	struct hr_filter_args *filter = args;

	hr_args_known(&given, names, sizeof names / sizeof *names);
	filter->shipdate_from = hr_args_date(&given, "shipdate_from");
	filter->shipdate_before = hr_args_date(&given, "shipdate_before");
	filter->discount_from = hr_args_int(&given, "discount_from", 0, HR_FILTER_DISCOUNT_MAX);
	filter->discount_to = hr_args_int(&given, "discount_to", 0, HR_FILTER_DISCOUNT_MAX);
	filter->quantity_below = hr_args_int(&given, "quantity_below", INT32_MIN, INT32_MAX);
	return given.bad ? -EINVAL : (int)sizeof *filter;
}

static uint32_t row_bytes(const void *args, uint32_t source)
{
	return source == HR_FILTER_PRICE ? sizeof(int64_t) : sizeof(int32_t);
}

static uint32_t state_bytes(const void *args)
{
	return sizeof(struct hr_filter_sum);
}

/*
 * The sum in cents, at the end of the buffer. Cents times hundredths give two decimals. An exact
 * string: a JSON number would be rounded by its reader.
 */
static const char *revenue_text(const struct hr_filter_sum *sum, char buffer[REVENUE_BYTES])
{
	const bool negative = sum->high >> 63;
	unsigned __int128 value = (unsigned __int128)sum->high << 64 | sum->low;
	char *at = &buffer[REVENUE_BYTES - 1];
	int digits = 0;

	if (negative)
		value = -value;
	*at = '\0';
	do {
		*--at = (char)('0' + (int)(value % 10));
		value /= 10;
		if (++digits == 2)
			*--at = '.';
	} while (value || digits < 3);
	if (negative)
		*--at = '-';
	return at;
}

static void report(const struct hr_op_all *all, const struct hr_op_report *to)
{
	const struct hr_filter_sum *sum = all->result;
	char buffer[REVENUE_BYTES];
	const char *revenue = revenue_text(sum, buffer);

	to->line(to, "revenue %s cents from %llu of %llu rows", revenue,
		 (unsigned long long)sum->matched, (unsigned long long)sum->rows);
	to->text(to, "revenue_cents", revenue);
	to->u64(to, "rows", sum->matched);
	to->u64(to, "rows_read", sum->rows);
}

HR_OPERATOR(.name = "filter_sum",
	    .help = "TPC-H Q6. Four sources of as many rows each, little-endian: shipdate (i32, "
		    "days "
		    "since\n  1970-01-01), discount (i32, hundredths), quantity (i32), "
		    "extendedprice "
		    "(i64, cents). Arguments:\n  shipdate_from, shipdate_before (dates "
		    "\"YYYY-MM-DD\" or days; the second excluded), discount_from,\n  discount_to "
		    "(hundredths, 0 to 100, both included), quantity_below. Result: revenue, the "
		    "exact\n  sum of extendedprice * discount over the rows that match, in cents "
		    "with "
		    "two decimals; and\n  how many these are.",
	    .sources_min = HR_FILTER_COLUMNS, .sources_max = HR_FILTER_COLUMNS,
	    .output = HR_OUT_NONE, .reads_once = true, .parse = parse, .row_bytes = row_bytes,
	    .state_bytes = state_bytes, .report = report);

#endif
