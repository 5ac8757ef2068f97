/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu/ops/bfs_run.h - the memory of a run of bfs (gpu/ops/bfs.c): where its arrays lie, and the start
 * of a level. Worker code; bfs_plan() also on the CPU.
 */
#ifndef GPU_OPS_BFS_RUN_H
#define GPU_OPS_BFS_RUN_H

#include <stdbool.h>
#include <stdint.h>

#include "cache/objects/objects.h"
#include "gpu/ops/random.h"
#include "nvme/queue/worker.h"

enum { BFS_OFFSETS, BFS_EDGES, BFS_PARENTS, BFS_LEVELS, BFS_OBJECTS };

#define BFS_EDGE sizeof(uint32_t)
#define BFS_UNIT 1024u	/* edges of a unit: 4 KiB */
#define BFS_GROUP 4096u /* edges of a group: 16 KiB, the pages that a worker reads together */
HR_STATIC_ASSERT(BFS_GROUP <= 1u << 16, "a place in a group has 16 bits");

#define BFS_INDEX 2048u	   /* offsets that a worker reads at a time: 16 KiB */
#define BFS_INDEX_AHEAD 2u /* so many times, offsets are requested before */
#define BFS_EARLY 3u	   /* offsets that fit this part of the frames are requested at the start */
#define BFS_OUTPUT 1024u   /* vertices that a worker writes at a time */
#define BFS_WIDE 1024u	   /* a frontier of this part of all vertices, or more, is wide */
#define BFS_DENSE 16u	   /* one of this part needs most pages of the edges */

struct hr_bfs_args {
	uint32_t root, warm;
};

/* State of a worker, and the sum of all, the result. */
struct hr_bfs {
	uint64_t visited;
	uint64_t edges;	   /* followed */
	uint64_t checksum; /* sum of a hash of each visited vertex, its parent and its level */
	uint64_t levels;   /* by worker 0 */
	uint64_t run_ns;
};

#define BFS_WORDS (sizeof(struct hr_bfs) / sizeof(uint64_t))

/* The start of the run's memory. */
struct bfs_words {
	uint64_t tail;	/* vertices in the queue */
	uint64_t taken; /* of the frontier, by workers: entries of the queue, or groups */
	uint64_t units; /* of the frontier; may exceed unit_capacity */
	/* Edges of vertices are first_edge up to end_edge - 1. disorder: some offsets are wrong,
	 * so groups are not used. */
	uint64_t first_edge, end_edge;
	uint32_t disorder, unused[5];
};

/* Edges number * BFS_UNIT up to (number + 1) * BFS_UNIT - 1, all of vertex u. */
struct bfs_unit {
	uint32_t u, number;
};

/* Offsets of the arrays in the run's memory, and its size, in bytes. */
struct bfs_memory {
	uint64_t visited, frontier[2], parent, queue, unit, group, place, level, bytes;
	uint64_t unit_capacity;
};

/* A run of one worker; each lane has a copy. */
struct bfs_run {
	struct hr_objects *objects;
	const struct hr_object *offsets, *edges;
	uint64_t vertices, edge_count;
	uint64_t unit_capacity;
	struct bfs_words *words;
	uint32_t *visited;  /* bits */
	uint32_t *frontier; /* bits, of a wide frontier */
	uint32_t *before;   /* the same of the level before, and of the next one */
	uint32_t *parent;   /* inverted; 0: none */
	uint32_t *queue;
	struct bfs_unit *unit;
	uint32_t *group; /* the vertex of the first edge of each group */
	uint16_t *place; /* of the first edge of each vertex in its group */
	uint32_t *level; /* + 1; NULL: levels are not wanted */
	bool back;	 /* wide levels go from the last group to the first */
	struct hr_bfs sum;
};

HR_BOTH uint64_t bfs_part(uint64_t words)
{
	return (words * sizeof(uint32_t) + 63) / 64 * 64;
}

HR_BOTH uint64_t bfs_vertices(uint64_t offsets_bytes)
{
	return offsets_bytes / sizeof(uint64_t) - 1;
}

HR_BOTH void bfs_plan(struct bfs_memory *m, uint64_t vertices, uint64_t edges, bool levels)
{
	m->visited = sizeof(struct bfs_words);
	m->frontier[0] = m->visited + bfs_part((vertices + 31) / 32);
	m->frontier[1] = m->frontier[0] + bfs_part((vertices + 31) / 32);
	m->parent = m->frontier[1] + bfs_part((vertices + 31) / 32);
	m->queue = m->parent + bfs_part(vertices);
	m->unit = m->queue + bfs_part(vertices);
	m->unit_capacity = edges / BFS_UNIT;
	m->group = m->unit + bfs_part(m->unit_capacity * 2);
	m->place = m->group + bfs_part(edges / BFS_GROUP + 1);
	m->level = m->place + bfs_part((vertices + 1) / 2);
	m->bytes = m->level + (levels ? bfs_part(vertices) : 0);
}

HR_WORKER void bfs_set(struct bfs_run *run, struct hr_objects *objects)
{
	const bool levels = hr_get_object_map(objects, BFS_LEVELS) != NULL;
	uint8_t *scratch = objects->scratch;
	struct bfs_memory m;

	run->objects = objects;
	run->offsets = hr_get_object_map(objects, BFS_OFFSETS);
	run->edges = hr_get_object_map(objects, BFS_EDGES);
	run->vertices = bfs_vertices(run->offsets->bytes);
	run->edge_count = run->edges->bytes / BFS_EDGE;
	bfs_plan(&m, run->vertices, run->edge_count, levels);
	run->unit_capacity = m.unit_capacity;
	run->words = (struct bfs_words *)(void *)scratch;
	run->visited = (uint32_t *)(void *)(scratch + m.visited);
	run->frontier = (uint32_t *)(void *)(scratch + m.frontier[0]);
	run->before = (uint32_t *)(void *)(scratch + m.frontier[1]);
	run->parent = (uint32_t *)(void *)(scratch + m.parent);
	run->queue = (uint32_t *)(void *)(scratch + m.queue);
	run->unit = (struct bfs_unit *)(void *)(scratch + m.unit);
	run->group = (uint32_t *)(void *)(scratch + m.group);
	run->place = (uint16_t *)(void *)(scratch + m.place);
	run->level = levels ? (uint32_t *)(void *)(scratch + m.level) : NULL;
	run->back = false;
	hr_zero_bytes(&run->sum, sizeof(run->sum));
}

HR_WORKER bool bfs_is_wide(const struct bfs_run *run, uint64_t begin, uint64_t end)
{
	return (end - begin) * BFS_WIDE >= run->vertices;
}

/* Clear the bits of the vertices queue[begin .. end), the frontier of the level before, and take the
 * other bits for the next one. Collective. */
HR_WORKER void bfs_turn(struct bfs_run *run, uint64_t begin, uint64_t end)
{
	const uint64_t step = (uint64_t)run->objects->workers * HR_LANES;
	uint32_t *bits = run->frontier;
	uint64_t i = begin + (uint64_t)run->objects->worker * HR_LANES + hr_lane();

	for (; i < end && bfs_is_wide(run, begin, end); i += step)
		hr_relaxed_u32(&bits[run->queue[i] / 32], 0);
	run->frontier = run->before;
	run->before = bits;
}

/* Mark queue[begin .. end) as visited, and prepare the counters of this level. Collective. */
HR_WORKER void bfs_mark(struct bfs_run *run, uint64_t begin, uint64_t end, uint32_t level)
{
	const uint32_t worker = run->objects->worker;
	const uint64_t step = (uint64_t)run->objects->workers * HR_LANES;
	const bool wide = bfs_is_wide(run, begin, end);
	uint64_t i;

	for (i = begin + (uint64_t)worker * HR_LANES + hr_lane(); i < end; i += step) {
		const uint32_t v = run->queue[i], parent = ~run->parent[v];

		hr_fetch_or_u32(&run->visited[v / 32], (uint32_t)1 << v % 32);
		if (wide)
			hr_fetch_or_u32(&run->frontier[v / 32], (uint32_t)1 << v % 32);
		if (run->level)
			run->level[v] = level + 1;
		run->sum.visited++;
		run->sum.checksum += hr_mix_u64(hr_mix_u64((uint64_t)v << 32 | parent) + level);
	}
	if (worker == 0 && hr_lane() == 0) {
		run->words->taken = 0;
		/* A worker may still read the count of the last level, but only when it is 0: after
		 * a level with units all workers have met at a barrier. */
		if (run->words->units)
			run->words->units = 0;
		run->sum.levels++;
	}
	hr_lanes_sync();
}

#endif
