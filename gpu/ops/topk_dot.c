/*
 * topk_dot: the k rows of a matrix with the largest dot product with a query. Each worker keeps the
 * best of the rows it has seen; finish() merges. On a GPU the block's memory holds the query, and a
 * warp has several rows on their way at a time.
 */
#include "gpu/ops/topk_dot.h"

#include "gpu/op.h"
#include "config/limits.h"
#include "gpu/vector.h"

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

#define TOPK_ROWS 8u /* that a worker works on together */

HR_WORKER float topk_float(uint32_t bits)
{
	float value;

	memcpy(&value, &bits, sizeof(value));
	return value;
}

HR_WORKER float topk_vector_dot(const struct hr_vector *a, const struct hr_vector *b)
{
	float sum = topk_float(a->word[0]) * topk_float(b->word[0]);

	sum += topk_float(a->word[1]) * topk_float(b->word[1]);
	sum += topk_float(a->word[2]) * topk_float(b->word[2]);
	return sum + topk_float(a->word[3]) * topk_float(b->word[3]);
}

/* Collective: `count` (up to TOPK_ROWS) rows of `vectors` each; the last is read again in place of
 * those that there are not. */
HR_WORKER void topk_rows(const struct hr_vector *row, uint32_t vectors, uint32_t count,
			 const struct hr_vector *query, float sum[TOPK_ROWS])
{
	struct hr_vector v[TOPK_ROWS];
	uint32_t i, j;

	for (j = 0; j < TOPK_ROWS; j++)
		sum[j] = 0;
	for (i = hr_lane(); i < vectors; i += HR_LANES) {
		const struct hr_vector q = query[i];

		for (j = 0; j < TOPK_ROWS; j++)
			v[j] = row[(uint64_t)(j < count ? j : count - 1) * vectors + i];
		for (j = 0; j < TOPK_ROWS; j++)
			sum[j] += topk_vector_dot(&v[j], &q);
	}
	for (j = 0; j < TOPK_ROWS; j++)
		sum[j] = hr_lanes_sum_f32(sum[j]);
}

/* Rows of whole vectors. Collective. */
HR_WORKER void topk_tile(const struct hr_topk_args *a, struct hr_topk *top,
			 const struct hr_op_tile *tile, uint32_t rows)
{
	const struct hr_vector *matrix = (const struct hr_vector *)(const void *)tile->in[0];
	const uint32_t vectors = a->dimensions / 4;
	float score[TOPK_ROWS];
	uint32_t row, j;

	for (row = hr_warp() * TOPK_ROWS; row < rows; row += hr_warps() * TOPK_ROWS) {
		const uint32_t count = rows - row < TOPK_ROWS ? rows - row : TOPK_ROWS;

		topk_rows(matrix + (uint64_t)row * vectors, vectors, count,
			  (const struct hr_vector *)hr_block_memory(), score);
		for (j = 0; hr_lane() == 0 && j < TOPK_ROWS; j++)
			if (j < count)
				topk_insert(top, a->k, score[j], tile->index << 32 | (row + j));
	}
}

HR_DEVICE void hr_op_topk_dot_init(const void *args, void *state)
{
	const struct hr_topk_args *a = (const struct hr_topk_args *)args;
	float *query = (float *)hr_block_memory();
	uint32_t i;

	if (hr_lane() == 0)
		((struct hr_topk *)state)->count = 0;
	for (i = hr_thread(); HR_LANES > 1 && i < a->dimensions; i += hr_threads())
		query[i] = a->query[i];
}

HR_DEVICE uint32_t hr_op_topk_dot_tile(const void *args, void *state, const struct hr_op_tile *tile)
{
	const struct hr_topk_args *a = (const struct hr_topk_args *)args;
	const float *matrix = (const float *)(const void *)tile->in[0];
	const uint32_t rows = tile->in_bytes[0] / (a->dimensions * 4);
	struct hr_topk *top = (struct hr_topk *)state;
	uint32_t row;

	if (HR_LANES > 1 && a->dimensions % 4 == 0) {
		topk_tile(a, top, tile, rows);
		return 0;
	}
	for (row = hr_warp(); row < rows; row += hr_warps()) {
		const float score =
			topk_dot(matrix + (uint64_t)row * a->dimensions, a->query, a->dimensions);

		if (hr_lane() == 0)
			topk_insert(top, a->k, score, tile->index << 32 | row);
	}
	return 0;
}

#define TOPK_THREADS HR_THREADS_MAX
#define TOPK_WORKERS (HR_BLOCKS_MAX * 32) /* warps of compute blocks */

/* In the block's memory, for finish(): what each thread offers, whose offer is taken, and how many
 * of each worker's rows have been. */
struct topk_merge {
	struct hr_topk_row offer[TOPK_THREADS];
	uint8_t offered[TOPK_THREADS];
	uint8_t taken[TOPK_WORKERS]; /* up to HR_TOPK_MAX */
	uint32_t winner;
};

#ifndef __cplusplus
_Static_assert(sizeof(struct topk_merge) <= HR_BLOCK_MEMORY, "merging has room");
#endif

#define TOPK_NOBODY UINT32_MAX

HR_WORKER const struct hr_topk *topk_of(const struct hr_op_all *all, uint64_t worker)
{
	return (const struct hr_topk *)(const void *)(all->states + worker * all->state_bytes);
}

/* The best row that is left among this thread's workers is offered. Returns whose it is. */
HR_WORKER uint32_t topk_offer(const struct hr_op_all *all, struct topk_merge *m)
{
	const struct hr_topk_row *best = NULL;
	uint32_t whose = TOPK_NOBODY, w;

	for (w = hr_thread(); w < all->workers; w += hr_threads()) {
		const struct hr_topk *top = topk_of(all, w);
		const struct hr_topk_row *row = &top->best[m->taken[w]];

		if (m->taken[w] < top->count &&
		    (!best || topk_before(row->score, row->row, best))) {
			best = row;
			whose = w;
		}
	}
	m->offered[hr_thread()] = best != NULL;
	if (best)
		m->offer[hr_thread()] = *best;
	return whose;
}

/* The thread with the best offer, or TOPK_NOBODY. One thread. */
HR_WORKER uint32_t topk_winner(const struct topk_merge *m)
{
	uint32_t winner = TOPK_NOBODY, t;

	for (t = 0; t < hr_threads(); t++)
		if (m->offered[t] &&
		    (winner == TOPK_NOBODY ||
		     topk_before(m->offer[t].score, m->offer[t].row, &m->offer[winner])))
			winner = t;
	return winner;
}

/* One thread: the next of the result, its row counted from the start of the matrix. */
HR_WORKER void topk_append(struct hr_topk *total, const struct hr_topk_row *row,
			   uint64_t rows_per_tile)
{
	struct hr_topk_row *to = &total->best[total->count++];

	to->row = (row->row >> 32) * rows_per_tile + (row->row & 0xffffffffu);
	to->score = row->score;
}

HR_DEVICE void hr_op_topk_dot_finish(const struct hr_op_all *all)
{
	const struct hr_topk_args *a = (const struct hr_topk_args *)all->args;
	struct topk_merge *m = (struct topk_merge *)hr_block_memory();
	uint32_t whose, winner, i;

	for (i = hr_thread(); i < all->workers; i += hr_threads())
		m->taken[i] = 0;
	whose = topk_offer(all, m);
	for (i = 0; i < a->k; i++) {
		hr_block_sync();
		if (hr_thread() == 0) {
			m->winner = topk_winner(m);
			if (m->winner != TOPK_NOBODY)
				topk_append((struct hr_topk *)all->result, &m->offer[m->winner],
					    all->tile_bytes / (a->dimensions * 4));
		}
		hr_block_sync();
		winner = m->winner;
		if (winner == TOPK_NOBODY)
			return;
		if (winner == hr_thread()) {
			m->taken[whose]++;
			whose = topk_offer(all, m);
		}
	}
}
