/*
 * gpu/ops/bfs_frontier.h - how workers of bfs (gpu/ops/bfs.c) take the vertices of a frontier, and
 * spread items over the lanes. Worker code.
 */
#ifndef GPU_OPS_BFS_FRONTIER_H
#define GPU_OPS_BFS_FRONTIER_H

#include <stdbool.h>
#include <stdint.h>

#include "cache/objects.h"
#include "gpu/ops/bfs_run.h"
#include "nvme/worker.h"

/* The sum of `v` over this lane and all lower ones. Collective. */
HR_WORKER uint64_t bfs_running_sum(uint64_t v)
{
	uint32_t distance;

	for (distance = 1; distance < HR_LANES; distance *= 2) {
		const uint32_t lane = hr_lane();
		const uint64_t other = hr_shfl_u64(v, lane >= distance ? lane - distance : lane);

		v += lane >= distance ? other : 0;
	}
	return v;
}

/* Per lane: the lane that has item k, when each lane has as many as `sum`, over this lane and all lower
 * ones, exceeds that of the lane before. k is below the sum of all lanes. Collective. */
HR_WORKER uint32_t bfs_lane_of(uint64_t sum, uint64_t k)
{
	uint32_t lane = 0, step;

	for (step = HR_LANES / 2; step; step /= 2)
		if (hr_shfl_u64(sum, lane + step - 1) <= k)
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

/* The index of the bit of a word that has n bits below it; 0 when there is none. */
HR_BOTH uint32_t bfs_bit(uint32_t word, uint32_t n)
{
	for (; n; n--)
		word &= word - 1;
	return word ? hr_lowest_bit(word) : 0;
}

/* Vertices of the frontier that a worker takes. */
struct bfs_source {
	uint64_t end;  /* of the queue; of the words of bits */
	uint64_t step; /* entries, words that are taken at a time */
	bool wide;
	/* Of a wide frontier: the words taken start at `at`; vertices in the words of this lane and all
	 * lower ones, and of all lanes, of which `first` are done; the lane's word. */
	uint64_t at, sum, total, first;
	uint32_t word;
};

HR_WORKER void bfs_source_start(const struct bfs_run *run, struct bfs_source *s, uint64_t begin,
				uint64_t end)
{
	const uint64_t words = (run->vertices + 31) / 32, count = end - begin;

	s->wide = bfs_is_wide(run, begin, end);
	s->end = s->wide ? words : end;
	s->step = s->wide ? words * BFS_TAKE / count + 1 : count / run->objects->workers + 1;
	s->step = s->step < HR_LANES ? s->step : HR_LANES;
	s->at = s->sum = s->total = s->first = 0;
	s->word = 0;
}

/* Take words of a wide frontier, and clear them. False: there are no more. Collective. */
HR_WORKER bool bfs_take_words(struct bfs_run *run, struct bfs_source *s)
{
	uint64_t mine;

	s->at = bfs_take(run, s->step);
	if (s->at >= s->end)
		return false;
	mine = s->at + hr_lane();
	s->word = 0;
	if (hr_lane() < s->step && mine < s->end)
		s->word = run->frontier[mine];
	if (s->word)
		run->frontier[mine] = 0;
	s->sum = bfs_running_sum(hr_count_bits((hr_mask)s->word));
	s->total = hr_shfl_u64(s->sum, HR_LANES - 1);
	s->first = 0;
	return true;
}

/* Per lane: the next vertex of the frontier; HR_NO_INDEX: none for this lane. The pages with its
 * offsets are requested. False: there are no more. Collective. */
HR_WORKER bool bfs_next(struct bfs_run *run, struct bfs_source *s, uint64_t *u)
{
	*u = HR_NO_INDEX;
	if (s->wide) {
		uint32_t lane, bit;
		uint64_t k, before;

		while (s->first >= s->total)
			if (!bfs_take_words(run, s))
				return false;
		k = s->first + hr_lane();
		lane = bfs_lane_of(s->sum, k);
		before = hr_shfl_u64(s->sum - hr_count_bits((hr_mask)s->word), lane);
		bit = bfs_bit(hr_shfl_u32(s->word, lane), (uint32_t)(k - before) & 31);
		if (k < s->total)
			*u = (s->at + lane) * 32 + bit;
		s->first += HR_LANES;
	} else {
		const uint64_t at = bfs_take(run, s->step);

		if (at >= s->end)
			return false;
		if (hr_lane() < s->step && at + hr_lane() < s->end)
			*u = run->queue[at + hr_lane()];
	}
	hr_page_prefetch(run->objects, run->offsets,
			 *u == HR_NO_INDEX ? HR_NO_INDEX
					   : *u * sizeof(uint64_t) / hr_page_bytes(run->objects));
	return true;
}

#endif
