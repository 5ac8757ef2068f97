/*
 * topk_dot: the k rows of a matrix with the largest dot product with a query. Each worker keeps the
 * best of the rows it has seen; finish() merges.
 */
#include "gpu/ops/topk_dot.h"

#include "gpu/op.h"

/* Sums that run side by side, so that a CPU adds them as vectors: the order of float additions is
 * the program's, not the compiler's. */
#define TOPK_SUMS 16u

/* True when a comes before b. False for NaN. */
HR_WORKER bool topk_before(float score, uint64_t row, const struct hr_topk_row *b)
{
	return score > b->score || (score == b->score && row < b->row);
}

HR_WORKER void topk_insert(struct hr_topk *top, uint32_t k, float score, uint64_t row)
{
	uint64_t i = top->count;

	if (score != score)
		return;
	if (i == k) {
		if (!topk_before(score, row, &top->best[k - 1]))
			return;
		i--;
	} else {
		top->count++;
	}
	for (; i > 0 && topk_before(score, row, &top->best[i - 1]); i--)
		top->best[i] = top->best[i - 1];
	top->best[i].row = row;
	top->best[i].score = score;
}

/* Collective: lanes take every HR_LANES-th element. */
HR_WORKER float topk_dot(const float *a, const float *b, uint32_t count)
{
	const uint32_t step = TOPK_SUMS * HR_LANES;
	float sum[TOPK_SUMS], total = 0;
	uint32_t i, j;

	for (j = 0; j < TOPK_SUMS; j++)
		sum[j] = 0;
	for (i = hr_lane(); i + (TOPK_SUMS - 1) * HR_LANES < count; i += step)
		for (j = 0; j < TOPK_SUMS; j++)
			sum[j] += a[i + j * HR_LANES] * b[i + j * HR_LANES];
	for (; i < count; i += HR_LANES)
		total += a[i] * b[i];
	for (j = 0; j < TOPK_SUMS; j++)
		total += sum[j];
	return hr_lanes_sum_f32(total);
}

HR_DEVICE void hr_op_topk_dot_init(const void *args, void *state)
{
	(void)args;
	if (hr_lane() == 0)
		((struct hr_topk *)state)->count = 0;
}

HR_DEVICE uint32_t hr_op_topk_dot_tile(const void *args, void *state, const struct hr_op_tile *tile)
{
	const struct hr_topk_args *a = (const struct hr_topk_args *)args;
	const float *matrix = (const float *)(const void *)tile->in[0];
	const uint32_t rows = tile->in_bytes[0] / (a->dimensions * 4);
	struct hr_topk *top = (struct hr_topk *)state;
	uint32_t row;

	for (row = hr_warp(); row < rows; row += hr_warps()) {
		const float score =
			topk_dot(matrix + (uint64_t)row * a->dimensions, a->query, a->dimensions);

		if (hr_lane() == 0)
			topk_insert(top, a->k, score, tile->index << 32 | row);
	}
	return 0;
}

HR_DEVICE void hr_op_topk_dot_finish(const struct hr_op_all *all)
{
	const struct hr_topk_args *a = (const struct hr_topk_args *)all->args;
	const uint64_t rows_per_tile = all->tile_bytes / (a->dimensions * 4);
	struct hr_topk *total = (struct hr_topk *)all->result;
	uint64_t i, j;

	if (hr_thread() != 0)
		return;
	for (i = 0; i < all->workers; i++) {
		const struct hr_topk *top =
			(const struct hr_topk *)(const void *)(all->states + i * all->state_bytes);

		for (j = 0; j < top->count; j++)
			topk_insert(total, a->k, top->best[j].score, top->best[j].row);
	}
	for (i = 0; i < total->count; i++) {
		const uint64_t at = total->best[i].row;

		total->best[i].row = (at >> 32) * rows_per_tile + (at & 0xffffffffu);
	}
}
