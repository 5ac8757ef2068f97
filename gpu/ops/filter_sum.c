/*
 * filter_sum: sum of price * discount over the rows that match, exact.
 *
 * A price is split into high * 2^32 + low; with a discount of at most 100 (7 bit) a product of
 * either half has at most 39 bit, so 64 bit hold the sum of a run of FILTER_RUN rows per lane, and
 * of all lanes. Each run is then added to the 128 bit of the worker.
 */
#include "gpu/ops/filter_sum.h"

#include "gpu/op.h"

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

/* What one lane finds in a run. */
struct filter_part {
	int64_t high;
	uint64_t low;
	uint64_t matched;
};

/* Rows first, first + step, ... below end. */
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

HR_WORKER uint32_t filter_rows(const struct hr_op_tile *tile)
{
	uint32_t rows = tile->in_bytes[HR_FILTER_PRICE] / 8;
	uint32_t i;

	for (i = 0; i < HR_FILTER_PRICE; i++)
		if (tile->in_bytes[i] / 4 < rows)
			rows = tile->in_bytes[i] / 4;
	return rows;
}

HR_DEVICE void hr_op_filter_sum_init(const void *args, void *state)
{
	struct hr_filter_sum *sum = (struct hr_filter_sum *)state;

	(void)args;
	if (hr_lane() == 0) {
		sum->low = 0;
		sum->high = 0;
		sum->rows = 0;
		sum->matched = 0;
	}
}

HR_DEVICE uint32_t hr_op_filter_sum_tile(const void *args, void *state,
					 const struct hr_op_tile *tile)
{
	const uint32_t rows = filter_rows(tile), run = FILTER_RUN * HR_LANES;
	struct hr_filter_sum *sum = (struct hr_filter_sum *)state;
	struct filter_part part;
	uint32_t start;

	for (start = hr_warp() * run; start < rows; start += hr_warps() * run) {
		const uint32_t end = rows - start < run ? rows : start + run;

		filter_run((const struct hr_filter_args *)args, tile, start + hr_lane(), end,
			   HR_LANES, &part);
		part.high = (int64_t)hr_lanes_sum_u64((uint64_t)part.high);
		part.low = hr_lanes_sum_u64(part.low);
		part.matched = hr_lanes_sum_u64(part.matched);
		if (hr_lane() == 0) {
			filter_add(sum, part.high, part.low);
			sum->matched += part.matched;
			sum->rows += end - start;
		}
	}
	return 0;
}

HR_DEVICE void hr_op_filter_sum_finish(const struct hr_op_all *all)
{
	struct hr_filter_sum *total = (struct hr_filter_sum *)all->result;
	uint32_t i;

	if (hr_thread() != 0)
		return;
	for (i = 0; i < all->workers; i++) {
		const struct hr_filter_sum *sum =
			(const struct hr_filter_sum *)(const void *)(all->states +
								     (uint64_t)i *
									     all->state_bytes);

		total->low += sum->low;
		total->high += sum->high + (total->low < sum->low ? 1 : 0);
		total->rows += sum->rows;
		total->matched += sum->matched;
	}
}
