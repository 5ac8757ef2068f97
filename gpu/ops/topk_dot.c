/* SPDX-License-Identifier: Apache-2.0 */
/*
 * topk_dot: the k rows of a matrix with the largest dot product with a query. Each worker keeps the
 * best of its rows; finish() merges them. On a GPU the block's memory holds the query, and a warp
 * loads several rows at a time.
 */
#include "gpu/ops/operator.h"
#include "gpu/worker/vector.h"

#define HR_TOPK_MAX 128u	 /* maximum k: rows are kept sorted, per worker */
#define HR_TOPK_DIMENSIONS 2048u /* floats in a row */

struct hr_topk_args {
	uint32_t k; /* 1..HR_TOPK_MAX */
	uint32_t dimensions;
	float query[HR_TOPK_DIMENSIONS]; /* [dimensions] */
};

/* A row: tile << 32 | row in the tile during the run; row number in the result. */
struct hr_topk_row {
	uint64_t row;
	float score;
	uint32_t unused;
};

/* State of a worker (k rows), and the result: best row first; of equal scores the lower row
 * first. */
struct hr_topk {
	uint64_t count;
	struct hr_topk_row best[HR_TOPK_MAX];
};

/* Independent sums, so that a CPU adds them as vectors: the compiler may not reorder float
 * additions. */
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

/* Collective: each lane takes every HR_LANES-th element. */
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

#define TOPK_ROWS 8u /* rows that a worker processes together */

HR_WORKER float topk_vector_dot(const struct hr_vector *a, const struct hr_vector *b)
{
	float sum = hr_f32_of_bits(a->word[0]) * hr_f32_of_bits(b->word[0]);

	sum += hr_f32_of_bits(a->word[1]) * hr_f32_of_bits(b->word[1]);
	sum += hr_f32_of_bits(a->word[2]) * hr_f32_of_bits(b->word[2]);
	return sum + hr_f32_of_bits(a->word[3]) * hr_f32_of_bits(b->word[3]);
}

/* Collective: `count` (up to TOPK_ROWS) rows of `vectors` each. Missing rows are replaced by the
 * last one. */
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

/* Collective: process rows of whole vectors. */
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

/* Block-collective: copy the query to block memory, as whole vectors, where access is fast. */
HR_WORKER void topk_keep_query(const struct hr_topk_args *a)
{
	float *query = (float *)hr_block_memory();
	uint32_t i;

	for (i = hr_thread(); i < a->dimensions; i += hr_threads())
		query[i] = a->query[i];
}

HR_OP_CODE void hr_operator_init(const void *args, void *state)
{
	if (hr_lane() == 0)
		((struct hr_topk *)state)->count = 0;
	if (HR_LANES > 1)
		topk_keep_query((const struct hr_topk_args *)args);
}

HR_OP_CODE uint32_t hr_operator_tile(const void *args, void *state, const struct hr_op_tile *tile)
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

#define TOPK_WARPS 32u /* maximum warps of a block */
#define TOPK_WORKERS (HR_BLOCKS_MAX * TOPK_WARPS)
#define TOPK_NO_WORKER UINT32_MAX

/* The best remaining row of a worker. `worker` is TOPK_NO_WORKER when no row remains. */
struct topk_offer {
	struct hr_topk_row row;
	uint32_t worker;
};

/* In the block's memory, for finish(): the best offer of each warp of this block, the best of
 * all, and the number of rows already merged per worker. */
struct topk_merge {
	struct topk_offer warp[TOPK_WARPS], best;
	uint8_t taken[TOPK_WORKERS]; /* up to HR_TOPK_MAX */
};

HR_STATIC_ASSERT(sizeof(struct topk_merge) <= HR_BLOCK_MEMORY, "merging has room");

HR_WORKER const struct hr_topk *topk_of(const struct hr_op_all *all, uint64_t worker)
{
	return (const struct hr_topk *)(const void *)(all->states + worker * all->state_bytes);
}

HR_WORKER void topk_better(struct topk_offer *best, const struct topk_offer *other)
{
	if (other->worker != TOPK_NO_WORKER &&
	    (best->worker == TOPK_NO_WORKER ||
	     topk_before(other->row.score, other->row.row, &best->row)))
		*best = *other;
}

/* The best remaining row of this thread's workers. */
HR_WORKER void topk_look(const struct hr_op_all *all, const struct topk_merge *m,
			 struct topk_offer *mine)
{
	struct topk_offer other;
	uint32_t w;

	hr_zero_bytes(mine, sizeof(*mine));
	mine->worker = TOPK_NO_WORKER;
	for (w = hr_thread(); w < all->workers; w += hr_threads()) {
		const struct hr_topk *top = topk_of(all, w);

		if (m->taken[w] >= top->count)
			continue;
		other.row = top->best[m->taken[w]];
		other.worker = w;
		topk_better(mine, &other);
	}
}

/* Collective: the best of all lanes, returned in all of them. */
HR_WORKER void topk_of_lanes(struct topk_offer *best)
{
	struct topk_offer other = *best;
	uint32_t distance;

	for (distance = HR_LANES / 2; distance; distance /= 2) {
		const uint32_t lane = hr_lane() ^ distance;

		other.row.score = hr_f32_of_bits(hr_shfl_u32(hr_f32_bits(best->row.score), lane));
		other.row.row = hr_shfl_u64(best->row.row, lane);
		other.worker = hr_shfl_u32(best->worker, lane);
		topk_better(best, &other);
	}
}

/* Block-collective: the best of all threads, returned in all of them and removed from its
 * worker. */
HR_WORKER void topk_take(struct topk_merge *m, struct topk_offer *best)
{
	uint32_t i;

	topk_of_lanes(best);
	if (hr_lane() == 0)
		m->warp[hr_warp()] = *best;
	hr_block_sync();
	for (i = 0; hr_thread() == 0 && i < hr_warps(); i++)
		topk_better(best, &m->warp[i]);
	if (hr_thread() == 0) {
		m->best = *best;
		if (best->worker != TOPK_NO_WORKER)
			m->taken[best->worker]++;
	}
	hr_block_sync();
	*best = m->best;
}

/* One thread: append a row to the result, numbered from the start of the matrix. */
HR_WORKER void topk_append(struct hr_topk *total, const struct hr_topk_row *row,
			   uint64_t rows_per_tile)
{
	struct hr_topk_row *to = &total->best[total->count++];

	to->row = (row->row >> 32) * rows_per_tile + (row->row & 0xffffffffu);
	to->score = row->score;
}

HR_OP_CODE void hr_operator_finish(const struct hr_op_all *all)
{
	const struct hr_topk_args *a = (const struct hr_topk_args *)all->args;
	struct topk_merge *m = (struct topk_merge *)hr_block_memory();
	struct topk_offer mine, best;
	uint32_t i;

	for (i = hr_thread(); i < all->workers; i += hr_threads())
		m->taken[i] = 0;
	topk_look(all, m, &mine);
	for (i = 0; i < a->k; i++) {
		best = mine;
		topk_take(m, &best);
		if (best.worker == TOPK_NO_WORKER)
			return;
		if (hr_thread() == 0)
			topk_append((struct hr_topk *)all->result, &best.row,
				    all->tile_bytes / (a->dimensions * 4));
		if (best.worker % hr_threads() == hr_thread())
			topk_look(all, m, &mine);
	}
}

#ifdef HR_OP_CPU /* the rest is the description, for the CPU */

#include <errno.h>
#include <stddef.h>
#include <stdio.h>

#include "gpu/ops/args.h"

static void parse_query(struct hr_args *given, struct hr_topk_args *topk)
{
	const struct hr_op_arg *query = hr_args_need(given, "query");
	char name[32];

	if (!query)
		return;
	if (query->type != HR_ARG_FLOATS || query->count < 1 || query->count > HR_TOPK_DIMENSIONS) {
		hr_args_error(given, query->line, "query: expected 1 to %u numbers",
			      HR_TOPK_DIMENSIONS);
		return;
	}
	topk->dimensions = query->count;
	for (uint32_t i = 0; i < query->count; i++) {
		snprintf(name, sizeof name, "query[%u]", i);
		topk->query[i] = hr_args_f32(given, query->line, name, query->reals[i]);
	}
}

static int parse(const struct hr_op_arg *arg, uint32_t count, void *args,
		 void (*complain)(void *to, unsigned line, const char *text), void *to)
{
	static const char *const names[] = { "query", "k" };
	struct hr_args given = { arg, count, complain, to, false };
	struct hr_topk_args *topk = args;

	hr_args_known(&given, names, sizeof names / sizeof *names);
	topk->k = (uint32_t)hr_args_int(&given, "k", 1, HR_TOPK_MAX);
	parse_query(&given, topk);
	if (given.bad)
		return -EINVAL;
	return (int)(offsetof(struct hr_topk_args, query) + topk->dimensions * sizeof(float));
}

static uint32_t row_bytes(const void *args, uint32_t source)
{
	return ((const struct hr_topk_args *)args)->dimensions * (uint32_t)sizeof(float);
}

static uint32_t state_bytes(const void *args)
{
	return (uint32_t)(offsetof(struct hr_topk, best) +
			  ((const struct hr_topk_args *)args)->k * sizeof(struct hr_topk_row));
}

static void report_row(const struct hr_op_all *all, uint64_t i, const struct hr_op_report *to)
{
	const struct hr_topk *top = all->result;

	to->u64(to, "row", top->best[i].row);
	to->real(to, "score", (double)top->best[i].score);
}

static void report(const struct hr_op_all *all, const struct hr_op_report *to)
{
	const struct hr_topk *top = all->result;

	to->line(to, "%llu best rows", (unsigned long long)top->count);
	for (uint64_t i = 0; i < top->count; i++)
		to->line(to, "%4llu. row %llu, score %.9g", (unsigned long long)i + 1,
			 (unsigned long long)top->best[i].row, (double)top->best[i].score);
	to->list(to, "best", all, top->count, report_row);
}

HR_OPERATOR(.name = "topk_dot",
	    .help = "One source: a matrix of little-endian f32, row by row. Arguments: query (as "
		    "many numbers\n  as a row has, at most 2048), k (1 to 128). Result: the k rows "
		    "with the largest dot product with\n  the query, best first; of equal ones the "
		    "lower row, NaN never.",
	    .sources_min = 1, .sources_max = 1, .output = HR_OUT_NONE, .reads_once = true,
	    .parse = parse, .row_bytes = row_bytes, .state_bytes = state_bytes, .report = report);

#endif
