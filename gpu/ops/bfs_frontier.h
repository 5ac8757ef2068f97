/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu/ops/bfs_frontier.h - how workers of bfs (gpu/ops/bfs.c) find the vertices of a frontier, and
 * add to the next one. Worker code.
 */
#ifndef GPU_OPS_BFS_FRONTIER_H
#define GPU_OPS_BFS_FRONTIER_H

#include <stdbool.h>
#include <stdint.h>

#include "cache/objects/objects.h"
#include "gpu/ops/access_op.h"
#include "gpu/ops/bfs_run.h"
#include "nvme/queue/worker.h"

/* Edges that a lane follows together, so that their accesses to memory overlap. */
#define BFS_STEP 4u

/* Edges from u[i] to v[i], of one lane. */
struct bfs_edges {
	uint32_t u[BFS_STEP], v[BFS_STEP];
	bool is[BFS_STEP]; /* false: there is no edge */
};

/* The sum of `v` over this lane and all lower ones. Collective. */
HR_WORKER uint32_t bfs_running_sum(uint32_t v)
{
	uint32_t distance;

	for (distance = 1; distance < HR_LANES; distance *= 2) {
		const uint32_t lane = hr_lane();
		const uint32_t other = hr_shfl_u32(v, lane >= distance ? lane - distance : lane);

		v += lane >= distance ? other : 0;
	}
	return v;
}

/* Per lane: the lane that has item k, when each lane has as many as `sum`, over this lane and all lower
 * ones, exceeds that of the lane before. k is below the sum of all lanes. Collective. */
HR_WORKER uint32_t bfs_lane_of(uint32_t sum, uint32_t k)
{
	uint32_t lane = 0, step;

	for (step = HR_LANES / 2; step; step /= 2)
		if (hr_shfl_u32(sum, lane + step - 1) <= k)
			lane += step;
	return lane;
}

/* The next `n` items of the frontier. The same in all lanes. Collective. */
HR_WORKER uint64_t bfs_take(struct bfs_run *run, uint64_t n)
{
	uint64_t at = 0;

	if (hr_lane() == 0)
		at = hr_fetch_add_u64(&run->words->taken, n);
	return hr_shfl_u64(at, 0);
}

/* Per lane: the edges [*from, *to) of vertex u; none for HR_NO_INDEX. False after an error.
 * Collective. */
HR_WORKER bool bfs_edges_of(struct bfs_run *run, uint64_t u, uint64_t *from, uint64_t *to)
{
	const bool active = u != HR_NO_INDEX;
	uint64_t bad = HR_NO_INDEX;

	*from = hr_get_u64(run->objects, run->offsets, u);
	*to = hr_get_u64(run->objects, run->offsets, active ? u + 1 : HR_NO_INDEX);
	if (active && (*to < *from || *to > run->edge_count))
		bad = u + 1;
	return !hr_access_refuse(run->objects, run->offsets, bad);
}

/* Per lane: request the pages with the offsets of vertices first to last; HR_NO_INDEX: none. There are
 * at most two. Collective. */
HR_WORKER void bfs_request_offsets(struct bfs_run *run, uint64_t first, uint64_t last)
{
	const uint64_t in_page = hr_page_bytes(run->objects) / sizeof(uint64_t);
	const uint64_t page = first == HR_NO_INDEX ? HR_NO_INDEX : first / in_page;
	const bool two = first != HR_NO_INDEX && (last + 1) / in_page != page;

	hr_page_prefetch(run->objects, run->offsets, page);
	if (hr_ballot(two))
		hr_page_prefetch(run->objects, run->offsets,
				 two ? (last + 1) / in_page : HR_NO_INDEX);
}

/* Vertices of a wide frontier, from `low` up to `high`. */
struct bfs_bits {
	uint64_t low, high;
	uint64_t at;	/* word of lane 0 */
	uint32_t own;	/* the lane's word */
	uint32_t sum;	/* vertices in the words of this lane and all lower ones */
	uint32_t first; /* of all words of the lanes: the next vertex */
};

/* Load the words from `at` on. Collective. */
HR_WORKER void bfs_bits_load(const struct bfs_run *run, struct bfs_bits *b)
{
	const uint64_t word = b->at + hr_lane();

	b->own = word <= b->high / 32 ? run->frontier[word] : 0;
	if (word == b->low / 32)
		b->own &= UINT32_MAX << b->low % 32;
	if (word == b->high / 32)
		b->own &= UINT32_MAX >> (31 - b->high % 32);
	b->sum = bfs_running_sum(hr_count_bits((hr_mask)b->own));
	b->first = 0;
}

/* Start before the first vertex. False: there is none. Collective. */
HR_WORKER bool bfs_bits_start(const struct bfs_run *run, struct bfs_bits *b, uint64_t low,
			      uint64_t high)
{
	b->low = low;
	b->high = high;
	for (b->at = low / 32; b->at <= high / 32; b->at += HR_LANES) {
		bfs_bits_load(run, b);
		if (hr_shfl_u32(b->sum, HR_LANES - 1))
			return true;
	}
	return false;
}

/* The index of the bit of a word that has n bits below it; 0 when there is none. */
HR_BOTH uint32_t bfs_bit(uint32_t word, uint32_t n)
{
	for (; n; n--)
		word &= word - 1;
	return word ? hr_lowest_bit(word) : 0;
}

/* Per lane: a further vertex; HR_NO_INDEX: none for this lane. False: there are no more.
 * Collective. */
HR_WORKER bool bfs_bits_next(const struct bfs_run *run, struct bfs_bits *b, uint64_t *u)
{
	const uint32_t total = hr_shfl_u32(b->sum, HR_LANES - 1), k = b->first + hr_lane();
	uint32_t lane, own, below;

	*u = HR_NO_INDEX;
	if (b->first >= total) {
		b->at += HR_LANES;
		if (b->at > b->high / 32)
			return false;
		bfs_bits_load(run, b);
		return true; /* perhaps without a vertex */
	}
	lane = bfs_lane_of(b->sum, k);
	own = hr_shfl_u32(b->own, lane);
	below = hr_shfl_u32(b->sum, lane ? lane - 1 : 0);
	if (k < total)
		*u = (b->at + lane) * 32 + bfs_bit(own, lane ? k - below : k);
	b->first += HR_LANES;
	return true;
}

/* Per lane: note the place of the edges [from, to) of vertex v, and v as the first of the groups that
 * begin there. */
HR_WORKER void bfs_index_vertex(struct bfs_run *run, uint64_t v, uint64_t from, uint64_t to)
{
	uint64_t group = (from + BFS_GROUP - 1) / BFS_GROUP;

	if (to < from || to > run->edge_count) {
		hr_relaxed_u32(&run->words->disorder, 1);
		return;
	}
	run->place[v] = (uint16_t)(from % BFS_GROUP);
	for (; group * BFS_GROUP < to; group++)
		hr_relaxed_u32(&run->group[group], (uint32_t)v); /* twice in a hostile graph */
	if (v == 0)
		run->words->first_edge = from;
	if (v + 1 == run->vertices)
		run->words->end_edge = to;
}

/* Request the offsets [first, first + BFS_INDEX), as far as there are so many. Collective. */
HR_WORKER void bfs_index_request(struct bfs_run *run, uint64_t first)
{
	const uint64_t in_page = hr_page_bytes(run->objects) / sizeof(uint64_t);
	const uint64_t pages = run->offsets->pages, end = (first + BFS_INDEX - 1) / in_page + 1;
	uint64_t page = first / in_page;

	for (; page < pages && page < end; page += HR_LANES)
		hr_page_prefetch(run->objects, run->offsets,
				 page + hr_lane() < pages && page + hr_lane() < end
					 ? page + hr_lane()
					 : HR_NO_INDEX);
}

/* Request the first offsets that the worker reads for the index. Collective. */
HR_WORKER void bfs_index_begin(struct bfs_run *run)
{
	const uint64_t first = (uint64_t)run->objects->worker * BFS_INDEX;
	uint32_t i;

	for (i = 0; i < BFS_INDEX_AHEAD; i++)
		bfs_index_request(run, first + (uint64_t)i * run->objects->workers * BFS_INDEX);
}

/* Note the vertices that end at the offsets [at, end), which are in one page. *before: the offset
 * before these, and the last of them. False after an error. Collective. */
HR_WORKER bool bfs_index_page(struct bfs_run *run, uint64_t at, uint64_t end, uint64_t *before)
{
	const uint64_t in_page = hr_page_bytes(run->objects) / sizeof(uint64_t);
	const uint64_t page = at / in_page;
	const uint64_t *offset = (const uint64_t *)hr_page(run->objects, run->offsets, page);
	uint64_t next[BFS_STEP];
	uint32_t i;

	if (hr_access_failed(run->objects))
		return false;
	for (; at < end; at += BFS_STEP * HR_LANES) {
		for (i = 0; i < BFS_STEP; i++) {
			const uint64_t k = at + i * HR_LANES + hr_lane();

			next[i] = k < end ? offset[k - page * in_page] : 0;
		}
		for (i = 0; i < BFS_STEP; i++) {
			const uint64_t k = at + i * HR_LANES + hr_lane();
			const uint64_t from = hr_shfl_u64(next[i], hr_lane() ? hr_lane() - 1 : 0);

			if (k < end && k > 0)
				bfs_index_vertex(run, k - 1, hr_lane() ? from : *before, next[i]);
			*before = hr_shfl_u64(next[i], HR_LANES - 1);
		}
	}
	hr_quiescent(run->objects);
	return true;
}

/* The same for the offsets [first, first + BFS_INDEX), as far as there are so many. Collective. */
HR_WORKER bool bfs_index_part(struct bfs_run *run, uint64_t first)
{
	const uint64_t in_page = hr_page_bytes(run->objects) / sizeof(uint64_t);
	const uint64_t left = run->vertices + 1 - first;
	const uint64_t end = first + (left < BFS_INDEX ? left : BFS_INDEX);
	uint64_t before = 0, after;

	if (first)
		before = hr_get_u64(run->objects, run->offsets, first - 1);
	for (; first < end; first = after) {
		after = (first / in_page + 1) * in_page;
		if (!bfs_index_page(run, first, after < end ? after : end, &before))
			return false;
	}
	return true;
}

/*
 * Find the first vertex of each group of edges, and the place of each vertex's edges, all workers
 * together. It reads all offsets, once for the run, before the first wide level. False after an error.
 * Collective.
 */
HR_WORKER bool bfs_index(struct bfs_run *run)
{
	const uint64_t step = (uint64_t)run->objects->workers * BFS_INDEX;
	uint64_t first = (uint64_t)run->objects->worker * BFS_INDEX;

	bfs_index_begin(run);
	for (; first <= run->vertices; first += step) {
		bfs_index_request(run, first + BFS_INDEX_AHEAD * step);
		if (!bfs_index_part(run, first))
			return false;
	}
	return true;
}

/* Per lane: set the parents of the vertices that edges found in this level lead to. Returns the mask of
 * those that had none, bit i for v[i]. */
HR_WORKER uint32_t bfs_improve(struct bfs_run *run, const struct bfs_edges *e)
{
	uint32_t fresh = 0, known[BFS_STEP], i;
	bool seen[BFS_STEP];

	for (i = 0; i < BFS_STEP; i++)
		seen[i] = !e->is[i] || (run->visited[e->v[i] / 32] >> e->v[i] % 32 & 1);
	for (i = 0; i < BFS_STEP; i++)
		known[i] = seen[i] ? UINT32_MAX : hr_poll_u32(&run->parent[e->v[i]]);
	for (i = 0; i < BFS_STEP; i++)
		if (known[i] < ~e->u[i] && hr_fetch_max_u32(&run->parent[e->v[i]], ~e->u[i]) == 0)
			fresh |= 1u << i;
	return fresh;
}

/* Per lane: edges that were found in this level. Collective. */
HR_WORKER void bfs_visit(struct bfs_run *run, const struct bfs_edges *e)
{
	const uint32_t fresh = bfs_improve(run, e);
	hr_mask mask[BFS_STEP];
	uint32_t count = 0, i;
	uint64_t at = 0;

	for (i = 0; i < BFS_STEP; i++) {
		mask[i] = hr_ballot(fresh >> i & 1);
		count += hr_count_bits(mask[i]);
	}
	if (!count)
		return;
	if (hr_lane() == 0)
		at = hr_fetch_add_u64(&run->words->tail, count);
	at = hr_shfl_u64(at, 0);
	for (i = 0; i < BFS_STEP; i++) {
		if (fresh >> i & 1)
			run->queue[at + hr_lanes_before(mask[i])] = e->v[i];
		at += hr_count_bits(mask[i]);
	}
}

#endif
