/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bfs: breadth-first search of a graph in compressed sparse rows, level by level.
 *
 * Memory of the run has a queue of all visited vertices in the order of their levels, a bit for each
 * vertex of finished levels, and a parent for each vertex: the smallest vertex of the previous level
 * with an edge to it, whatever the order in which workers find them. Parents are stored inverted, so
 * that memory of zeros has none, and the smallest parent is a maximum.
 *
 * A wide level, whose frontier is a good part of the graph, needs most pages of the edges. So it goes
 * through the edges in groups of some pages: for each group a worker finds the vertices of the frontier
 * with edges there, by a bit for each vertex, requests the pages that have such edges together, which
 * costs one command, and follows these edges page by page, in place. Each page is requested by one
 * worker and looked up once, and each worker has little to do at a time, however many edges a vertex
 * has. The first vertex of each group, and the place of each vertex's edges in their group (16 bits),
 * are found once, before the first wide level, from all offsets; so wide levels read no offsets. After
 * a level that needed most pages, the next one goes in the opposite direction, because the last pages
 * are still in the cache.
 *
 * Other levels take the vertices in the order of the queue. An aligned piece of BFS_UNIT edges that all
 * are of one vertex is a unit. Units are put into a list, and are followed by all workers after the
 * other edges, so a vertex with many edges is work for all.
 *
 * A worker is a pipeline: while it follows the edges of a group, or of some vertices, the pages with
 * the edges of the next one are read, and the offsets of the vertices behind. Between the parts of a
 * level all workers wait for each other. When all offsets take a small part of the cache, they are
 * requested at the start, and come while the first levels wait for single pages.
 */
#include "gpu/ops/access_op.h"
#include "gpu/ops/bfs_frontier.h"
#include "gpu/ops/bfs_run.h"
#include "gpu/ops/operator.h"

/* Per lane: the edges [from, hole) and [end, to) of vertex u; the others are units. */
struct bfs_row {
	uint64_t from, hole, end, to;
	uint32_t u;
};

/* The page with an edge. */
HR_WORKER uint64_t bfs_page(const struct bfs_run *run, uint64_t edge)
{
	return edge * BFS_EDGE / hr_page_bytes(run->objects);
}

/*
 * Per lane: follow `count` edges of vertex u from `from` on, which all are in page `page`. All lanes
 * share all edges. They are read in place, so the page is looked up once, and may leave the cache
 * meanwhile. False after an error. Collective.
 */
HR_WORKER bool bfs_follow_page(struct bfs_run *run, uint64_t page, uint64_t from, uint32_t count,
			       uint32_t u)
{
	const uint32_t *edge = (const uint32_t *)hr_page(run->objects, run->edges, page);
	const uint64_t start = page * (hr_page_bytes(run->objects) / BFS_EDGE);
	const uint32_t sum = bfs_running_sum(count);
	const uint32_t base = (uint32_t)(from - start) - (sum - count);
	const uint32_t total = hr_shfl_u32(sum, HR_LANES - 1);
	uint64_t bad = HR_NO_INDEX;
	uint32_t first, i;

	if (hr_access_failed(run->objects))
		return false;
	for (first = 0; first < total; first += BFS_STEP * HR_LANES) {
		struct bfs_edges e;

		for (i = 0; i < BFS_STEP; i++) {
			const uint32_t k = first + i * HR_LANES + hr_lane();
			const uint32_t lane = bfs_lane_of(sum, k);
			const uint32_t at = hr_shfl_u32(base, lane) + k;

			e.u[i] = hr_shfl_u32(u, lane);
			e.v[i] = k < total ? edge[at] : 0;
			e.is[i] = k < total && e.v[i] < run->vertices;
			bad = k < total && !e.is[i] ? start + at : bad;
		}
		bfs_visit(run, &e);
	}
	hr_quiescent(run->objects);
	return !hr_access_refuse(run->objects, run->edges, bad);
}

/* Per lane: follow the edges of a row, a page after the other. False after an error. Collective. */
HR_WORKER bool bfs_follow(struct bfs_run *run, struct bfs_row *row)
{
	hr_mask mask;

	for (mask = hr_ballot(row->from < row->to); mask; mask = hr_ballot(row->from < row->to)) {
		const uint64_t page = hr_shfl_u64(bfs_page(run, row->from), hr_lowest_bit(mask));
		const uint64_t after = (page + 1) * (hr_page_bytes(run->objects) / BFS_EDGE);
		const bool mine = row->from < row->to && bfs_page(run, row->from) == page;
		uint64_t end = row->from < row->hole ? row->hole : row->to;

		end = !mine ? row->from : end < after ? end : after;
		if (!bfs_follow_page(run, page, row->from, (uint32_t)(end - row->from), row->u))
			return false;
		row->from = end == row->hole && mine ? row->end : end;
	}
	return true;
}

/* Per lane: put the units of a row into the list, as far as it has room: they become a hole. */
HR_WORKER void bfs_cut(struct bfs_run *run, struct bfs_row *row)
{
	const uint64_t first = (row->from + BFS_UNIT - 1) / BFS_UNIT, last = row->to / BFS_UNIT;
	uint64_t at, n, i;

	row->hole = row->end = row->to;
	if (first >= last)
		return;
	n = last - first;
	at = hr_fetch_add_u64(&run->words->units, n);
	if (at >= run->unit_capacity)
		return;
	n = n < run->unit_capacity - at ? n : run->unit_capacity - at;
	for (i = 0; i < n; i++) {
		run->unit[at + i].u = row->u;
		run->unit[at + i].number = (uint32_t)(first + i);
	}
	row->hole = first * BFS_UNIT;
	row->end = (first + n) * BFS_UNIT;
	if (row->from == row->hole)
		row->from = row->end;
}

/* Per lane: the edges of vertex u, without its units, whose pages are requested; none for HR_NO_INDEX.
 * False after an error. Collective. */
HR_WORKER bool bfs_open(struct bfs_run *run, uint64_t u, struct bfs_row *row)
{
	uint64_t first = HR_NO_INDEX, last = HR_NO_INDEX;

	row->u = (uint32_t)u;
	if (!bfs_edges_of(run, u, &row->from, &row->to))
		return false;
	run->sum.edges += row->to - row->from;
	bfs_cut(run, row);
	if (row->from < row->to) {
		first = bfs_page(run, row->from);
		last = bfs_page(run, row->to - 1);
	}
	hr_page_prefetch(run->objects, run->edges, first);
	hr_page_prefetch(run->objects, run->edges, last);
	return true;
}

/* Take vertices of the frontier from the queue; their offsets are requested. *more: there were any.
 * Collective. */
HR_WORKER uint64_t bfs_next(struct bfs_run *run, uint64_t begin, uint64_t end, bool *more)
{
	const uint64_t step = (end - begin) / run->objects->workers + 1;
	const uint64_t n = step < HR_LANES ? step : HR_LANES;
	const uint64_t at = begin + bfs_take(run, n);
	uint64_t u = HR_NO_INDEX;

	*more = at < end;
	if (hr_lane() < n && at + hr_lane() < end)
		u = run->queue[at + hr_lane()];
	bfs_request_offsets(run, u, u);
	return u;
}

/* Follow the edges of a frontier in the order of the queue, except units. False after an error.
 * Collective. */
HR_WORKER bool bfs_vertices_of(struct bfs_run *run, uint64_t begin, uint64_t end)
{
	struct bfs_row now = { 0 }, next = { 0 };
	bool more, has_next = true;
	uint64_t u = bfs_next(run, begin, end, &more);

	while (has_next) {
		has_next = more;
		if (has_next && !bfs_open(run, u, &next))
			return false;
		if (more)
			u = bfs_next(run, begin, end, &more);
		if (!bfs_follow(run, &now))
			return false;
		now = next;
		next.from = next.to = 0;
	}
	return true;
}

/* Request the page of unit i of the list. Collective. */
HR_WORKER void bfs_request_unit(struct bfs_run *run, uint64_t i, uint64_t units)
{
	uint64_t page = HR_NO_INDEX;

	if (i < units && hr_lane() == 0)
		page = bfs_page(run, (uint64_t)run->unit[i].number * BFS_UNIT);
	hr_page_prefetch(run->objects, run->edges, page);
}

/* Follow the edges of all units of the level, all workers together. False after an error.
 * Collective. */
HR_WORKER bool bfs_units(struct bfs_run *run, uint64_t units)
{
	const uint64_t workers = run->objects->workers;
	uint64_t i;

	bfs_request_unit(run, run->objects->worker, units);
	for (i = run->objects->worker; i < units; i += workers) {
		const uint64_t from = (uint64_t)run->unit[i].number * BFS_UNIT;

		bfs_request_unit(run, i + workers, units);
		if (!bfs_follow_page(run, bfs_page(run, from), from, hr_lane() ? 0 : BFS_UNIT,
				     run->unit[i].u))
			return false;
	}
	return true;
}

/* A group of a worker: its edges [first, end) that are of vertices; its vertices of the frontier. */
struct bfs_group {
	uint64_t number, first, end;
	struct bfs_bits bits;
	bool is;
};

/* Take the next group with vertices of the frontier. Collective. */
HR_WORKER void bfs_take_group(struct bfs_run *run, struct bfs_group *g)
{
	const uint64_t begin = hr_shfl_u64(run->words->first_edge, 0);
	const uint64_t end = hr_shfl_u64(run->words->end_edge, 0);
	const uint64_t first = begin / BFS_GROUP,
		       groups = (end + BFS_GROUP - 1) / BFS_GROUP - first;

	for (g->is = false; !g->is;) {
		const uint64_t taken = bfs_take(run, 1);
		uint64_t low, high = run->vertices - 1;

		if (taken >= groups)
			return;
		g->number = first + (run->back ? groups - 1 - taken : taken);
		g->first = g->number * BFS_GROUP > begin ? g->number * BFS_GROUP : begin;
		g->end = (g->number + 1) * BFS_GROUP < end ? (g->number + 1) * BFS_GROUP : end;
		low = hr_shfl_u32(run->group[g->number], 0);
		if (g->end < end)
			high = hr_shfl_u32(run->group[g->number + 1], 0);
		g->is = bfs_bits_start(run, &g->bits, low, high);
	}
}

/* Per lane: the first edge of vertex v, which begins behind the first edge of the group, and not
 * behind its end. */
HR_WORKER uint64_t bfs_edge_in(const struct bfs_run *run, const struct bfs_group *g, uint64_t v)
{
	const uint32_t place = run->place[v];
	const uint64_t edge = g->number * BFS_GROUP + (place ? place : BFS_GROUP);

	return edge < g->end ? edge : g->end;
}

/* Per lane: the edges of vertex u of the group in that group; none for HR_NO_INDEX. */
HR_WORKER void bfs_row_in(const struct bfs_run *run, const struct bfs_group *g, uint64_t u,
			  struct bfs_row *row)
{
	row->u = (uint32_t)u;
	row->from = row->to = g->first;
	if (u != HR_NO_INDEX) {
		if (u != g->bits.low)
			row->from = bfs_edge_in(run, g, u);
		row->to = u < g->bits.high ? bfs_edge_in(run, g, u + 1) : g->end;
	}
	row->to = row->to > row->from ? row->to : row->from;
	row->hole = row->end = row->to;
}

/* Request the pages of a group that the frontier needs. Collective. */
HR_WORKER void bfs_open_group(struct bfs_run *run, const struct bfs_group *g)
{
	const uint64_t base = bfs_page(run, g->number * BFS_GROUP);
	struct bfs_bits bits = g->bits;
	uint32_t pages = 0, k;
	struct bfs_row row;
	uint64_t u;

	while (bfs_bits_next(run, &bits, &u)) {
		uint32_t mine = 0;

		bfs_row_in(run, g, u, &row);
		if (row.from < row.to)
			mine = (2u << (bfs_page(run, row.to - 1) - base)) -
			       (1u << (bfs_page(run, row.from) - base));
		for (k = 0; k < BFS_GROUP / BFS_UNIT; k++)
			pages |= hr_ballot(mine >> k & 1) ? 1u << k : 0;
	}
	for (k = 0; k < BFS_GROUP / BFS_UNIT; k += HR_LANES)
		hr_page_prefetch(run->objects, run->edges,
				 k + hr_lane() < 32 && pages >> (k + hr_lane()) & 1
					 ? base + k + hr_lane()
					 : HR_NO_INDEX);
}

/* Follow the edges of a group. False after an error. Collective. */
HR_WORKER bool bfs_follow_group(struct bfs_run *run, struct bfs_group *g)
{
	struct bfs_row row;
	uint64_t u;

	while (bfs_bits_next(run, &g->bits, &u)) {
		bfs_row_in(run, g, u, &row);
		run->sum.edges += row.to - row.from;
		if (!bfs_follow(run, &row))
			return false;
	}
	return true;
}

/* Follow the edges of a wide frontier, all workers together. False after an error. Collective. */
HR_WORKER bool bfs_groups(struct bfs_run *run)
{
	struct bfs_group now, next = { 0 };

	bfs_take_group(run, &next);
	if (next.is)
		bfs_open_group(run, &next);
	while (next.is) {
		now = next;
		bfs_take_group(run, &next);
		if (next.is)
			bfs_open_group(run, &next);
		if (!bfs_follow_group(run, &now))
			return false;
	}
	return true;
}

/* A level: queue[begin .. end). wide: its edges are followed by groups. False after an error.
 * Collective. */
HR_WORKER bool bfs_level(struct bfs_run *run, uint64_t begin, uint64_t end, bool wide)
{
	uint64_t units;

	if (wide)
		return bfs_groups(run) && !hr_workers_sync(run->objects);
	if (!bfs_vertices_of(run, begin, end) || hr_workers_sync(run->objects))
		return false;
	units = hr_shfl_u64(run->words->units, 0);
	units = units < run->unit_capacity ? units : run->unit_capacity;
	return !units || (bfs_units(run, units) && !hr_workers_sync(run->objects));
}

/* All levels. False when the run ends with an error. Collective. */
HR_WORKER bool bfs_search(struct bfs_run *run)
{
	uint64_t before = 0, begin = 0, end = 1;
	bool indexed = false;
	uint32_t level;

	if (run->offsets->pages <= hr_frames(run->objects) / BFS_EARLY)
		bfs_index_begin(run);
	for (level = 0; begin < end; level++) {
		bool wide = bfs_is_wide(run, begin, end);

		if (wide && !indexed && !bfs_index(run))
			return false;
		indexed |= wide;
		bfs_turn(run, before, begin);
		bfs_mark(run, begin, end, level);
		if (hr_workers_sync(run->objects))
			return false;
		wide = wide && !hr_shfl_u32(run->words->disorder, 0);
		if (!bfs_level(run, begin, end, wide))
			return false;
		run->back ^= wide && (end - begin) * BFS_DENSE >= run->vertices;
		before = begin;
		begin = end;
		end = hr_shfl_u64(run->words->tail, 0);
	}
	return true;
}

/*
 * Write an object of one u32 for each vertex from `word`; NULL: it is not wanted. Parents are
 * written without the inversion, levels without the added 1; both are UINT32_MAX for a vertex that
 * was not visited. Collective.
 */
HR_WORKER void bfs_write(struct bfs_run *run, const struct hr_object *object, uint32_t *word,
			 bool inverted)
{
	const uint64_t step = (uint64_t)run->objects->workers * BFS_OUTPUT;
	uint64_t first = (uint64_t)run->objects->worker * BFS_OUTPUT, v;

	if (!object)
		return;
	for (; first < run->vertices; first += step) {
		const uint64_t end =
			run->vertices - first < BFS_OUTPUT ? run->vertices : first + BFS_OUTPUT;

		for (v = first + hr_lane(); v < end; v += HR_LANES)
			word[v] = inverted ? ~word[v] : word[v] - 1;
		hr_lanes_sync();
		if (hr_pwrite(run->objects, object, first * sizeof(*word), &word[first],
			      (end - first) * sizeof(*word)) < 0)
			return;
	}
}

/* The root is the queue's first vertex, and its own parent. */
HR_WORKER void bfs_start(struct bfs_run *run, uint32_t root)
{
	if (run->objects->worker == 0 && hr_lane() == 0) {
		run->queue[0] = root;
		run->parent[root] = ~root;
		run->words->tail = 1;
	}
	hr_lanes_sync();
}

/* Collective: the sum over the lanes, to the state. */
HR_WORKER void bfs_keep(const struct bfs_run *run, uint64_t run_ns, uint64_t *state)
{
	const uint64_t *part = (const uint64_t *)(const void *)&run->sum;
	uint32_t i;

	for (i = 0; i < BFS_WORDS; i++) {
		const uint64_t all = hr_lanes_sum_u64(part[i]);

		if (hr_lane() == 0)
			state[i] = all;
	}
	if (hr_lane() == 0)
		state[BFS_WORDS - 1] = run_ns;
}

HR_OP_CODE void hr_operator_run(const void *args, void *state, struct hr_objects *objects)
{
	const struct hr_bfs_args *a = (const struct hr_bfs_args *)args;
	struct bfs_run run;
	uint64_t start, run_ns;

	bfs_set(&run, objects);
	if (a->warm) {
		hr_access_warm(objects, run.offsets);
		hr_access_warm(objects, run.edges);
	}
	bfs_start(&run, a->root);
	start = hr_access_begin(objects);
	if (!bfs_search(&run))
		return;
	run_ns = hr_access_end(objects, start);
	bfs_write(&run, hr_get_object_map(objects, BFS_PARENTS), run.parent, true);
	bfs_write(&run, hr_get_object_map(objects, BFS_LEVELS), run.level, false);
	bfs_keep(&run, run_ns, (uint64_t *)state);
}

HR_OP_CODE void hr_operator_finish(const struct hr_op_all *all)
{
	hr_access_sum(all, BFS_WORDS);
}

#ifdef HR_OP_CPU /* the rest is the description, for the CPU */

#include <errno.h>
#include <stdio.h>

#include "gpu/ops/args.h"

static const struct hr_op_object object[BFS_OBJECTS] = {
	[BFS_OFFSETS] = { .name = "offsets",
			  .help = "u64, one more than vertices: the edges of vertex v are offsets[v] "
				  "to offsets[v + 1] - 1" },
	[BFS_EDGES] = { .name = "edges", .help = "u32: the vertex that an edge leads to" },
	[BFS_PARENTS] = { .name = "parents",
			  .help = "u32: receives the parent of each vertex, of the root itself; "
				  "4294967295: not visited",
			  .writes = true,
			  .optional = true },
	[BFS_LEVELS] = { .name = "levels",
			 .help = "u32: receives the distance of each vertex from the root; "
				 "4294967295: not visited",
			 .writes = true,
			 .optional = true },
};

static int parse(const struct hr_op_arg *arg, uint32_t count, void *args,
		 void (*complain)(void *to, unsigned line, const char *text), void *to)
{
	static const char *const names[] = { "root", "warm" };
	struct hr_args given = { arg, count, complain, to, false };
	struct hr_bfs_args *bfs = args;

	hr_args_known(&given, names, sizeof names / sizeof *names);
	bfs->root = (uint32_t)hr_args_int(&given, "root", 0, INT32_MAX);
	bfs->warm = (uint32_t)hr_args_int_or(&given, "warm", 0, 1, 0);
	return given.bad ? -EINVAL : (int)sizeof *bfs;
}

/* An object that receives a u32 for each vertex. */
static int check_result(const uint64_t *object_bytes, uint32_t i, uint64_t vertices,
			void (*complain)(void *to, unsigned object, const char *text), void *to)
{
	char text[128];

	if (!object_bytes[i] || object_bytes[i] >= vertices * sizeof(uint32_t))
		return 0;
	snprintf(text, sizeof text, "has %llu bytes, expected at least %llu for %llu vertices",
		 (unsigned long long)object_bytes[i],
		 (unsigned long long)vertices * sizeof(uint32_t), (unsigned long long)vertices);
	complain(to, i, text);
	return -EINVAL;
}

static int check(const void *args, const uint64_t *object_bytes,
		 void (*complain)(void *to, unsigned object, const char *text), void *to)
{
	const struct hr_bfs_args *bfs = args;
	const uint64_t offsets = object_bytes[BFS_OFFSETS];
	char text[128];
	int err = 0;

	if (offsets < 2 * sizeof(uint64_t) || offsets % sizeof(uint64_t) ||
	    bfs_vertices(offsets) > UINT32_MAX) {
		complain(to, BFS_OFFSETS,
			 "expected 2 to 4294967296 u64, one more than the graph has vertices");
		return -EINVAL;
	}
	if (bfs->root >= bfs_vertices(offsets)) {
		snprintf(text, sizeof text, "has %llu vertices, but the root is vertex %u",
			 (unsigned long long)bfs_vertices(offsets), bfs->root);
		complain(to, BFS_OFFSETS, text);
		err = -EINVAL;
	}
	if (object_bytes[BFS_EDGES] % BFS_EDGE) {
		complain(to, BFS_EDGES, "expected u32: a multiple of 4 bytes");
		err = -EINVAL;
	}
	if (check_result(object_bytes, BFS_PARENTS, bfs_vertices(offsets), complain, to))
		err = -EINVAL;
	if (check_result(object_bytes, BFS_LEVELS, bfs_vertices(offsets), complain, to))
		err = -EINVAL;
	return err;
}

static uint64_t scratch_bytes(const void *args, const uint64_t *object_bytes)
{
	struct bfs_memory m;

	bfs_plan(&m, bfs_vertices(object_bytes[BFS_OFFSETS]), object_bytes[BFS_EDGES] / BFS_EDGE,
		 object_bytes[BFS_LEVELS] != 0);
	return m.bytes;
}

static uint32_t state_bytes(const void *args)
{
	return sizeof(struct hr_bfs);
}

static void report(const struct hr_op_all *all, const struct hr_op_report *to)
{
	const struct hr_bfs *bfs = all->result;

	to->u64(to, "vertices", bfs_vertices(all->object_bytes[BFS_OFFSETS]));
	to->u64(to, "edges", all->object_bytes[BFS_EDGES] / BFS_EDGE);
	to->u64(to, "levels", bfs->levels);
	to->u64(to, "visited", bfs->visited);
	to->u64(to, "edges_traversed", bfs->edges);
	to->u64(to, "checksum", bfs->checksum);
	to->u64(to, "run_ns", bfs->run_ns);
	to->real(to, "teps", bfs->run_ns ? (double)bfs->edges * 1e9 / (double)bfs->run_ns : 0);
}

HR_ACCESS_OPERATOR(.name = "bfs",
		   .help = "Breadth-first search. Objects: offsets (u64[vertices + 1]) and edges "
			   "(u32), a graph in compressed\n  sparse rows; parents and levels "
			   "(optional, u32[vertices]: they receive the tree and the distances;\n  "
			   "4294967295 for a vertex that was not visited). Arguments: root (a "
			   "vertex), warm (1: read the graph\n  into the cache before the time is "
			   "taken; 0). The parent of a vertex is the smallest one possible,\n  so "
			   "the tree does not depend on the number of workers. Result: levels, "
			   "visited vertices, traversed\n  edges, their number per second (teps; "
			   "an edge that is stored in both directions counts twice),\n  checksum "
			   "of the tree.",
		   .output = HR_OUT_NONE, .parse = parse, .state_bytes = state_bytes,
		   .object = object, .objects = BFS_OBJECTS, .check = check,
		   .scratch_bytes = scratch_bytes, .report = report);

#endif
