/*
 * bfs: breadth-first search of a graph in compressed sparse rows, level by level.
 *
 * Memory of the run has a queue of all visited vertices in the order of their levels, a bit for each
 * vertex of finished levels, and a parent for each vertex: the smallest vertex of the previous level
 * with an edge to it, whatever the order in which workers find them. Parents are stored inverted, so
 * that memory of zeros has none, and the smallest parent is a maximum.
 *
 * A level has three parts, each ended by all workers together: mark the frontier as visited; take its
 * vertices, up to HR_LANES at a time, and follow their edges, spread evenly over the lanes; follow
 * the units. A unit is an aligned piece of BFS_UNIT edges that all are of one vertex. So a vertex with
 * many edges is work for all workers, and the worker that took it follows only the edges before its
 * first and behind its last unit, which share their pages with other vertices.
 *
 * A worker is a pipeline: while it follows the edges of some vertices, the pages with the edges of
 * the next ones are read, and the offsets of those behind.
 *
 * A wide frontier is taken in the order of its vertices, from a bit for each vertex, because their
 * edges lie in this order: so a level reads each page once, also when the cache is small. In the order
 * of the queue, which is random, it reads a page for nearly each vertex.
 */
#include "gpu/ops/access_op.h"
#include "gpu/ops/bfs_frontier.h"
#include "gpu/ops/bfs_run.h"
#include "gpu/ops/operator.h"

/* Edges that a lane follows together, so that their accesses to memory overlap. */
#define BFS_STEP 4u

/* Edges from u[i] to v[i], of one lane. */
struct bfs_edges {
	uint32_t u[BFS_STEP], v[BFS_STEP];
	bool is[BFS_STEP]; /* false: there is no edge */
};

/* Per lane: the edges [from, hole) and [end, to) of a vertex; the others are units. */
struct bfs_row {
	uint64_t from, hole, end, to;
	uint32_t u;
};

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

/* Per lane: follow edges, number edge[i] of vertex e->u[i]; HR_NO_INDEX: none. False after an error.
 * Collective. */
HR_WORKER bool bfs_follow(struct bfs_run *run, struct bfs_edges *e, const uint64_t edge[BFS_STEP])
{
	uint64_t bad = HR_NO_INDEX;
	uint32_t i;

	for (i = 0; i < BFS_STEP; i++) {
		e->is[i] = edge[i] != HR_NO_INDEX;
		e->v[i] = hr_get_u32(run->objects, run->edges, edge[i]);
		if (e->is[i] && e->v[i] >= run->vertices)
			bad = edge[i];
	}
	if (hr_access_refuse(run->objects, run->edges, bad))
		return false;
	bfs_visit(run, e);
	return true;
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

/* The first page of the edges [from, to), and their number of pages. */
HR_WORKER uint64_t bfs_page(const struct bfs_run *run, uint64_t edge)
{
	return edge * BFS_EDGE / hr_page_bytes(run->objects);
}

HR_WORKER uint64_t bfs_pages(const struct bfs_run *run, uint64_t from, uint64_t to)
{
	return to > from ? bfs_page(run, to - 1) - bfs_page(run, from) + 1 : 0;
}

/* Request the pages of the rows of all lanes, without the first `done` pages and at most `most`; their
 * reads go on at the same time. Collective. */
HR_WORKER void bfs_request(struct bfs_run *run, const struct bfs_row *row, uint64_t done,
			   uint64_t most)
{
	const uint64_t head = bfs_pages(run, row->from, row->hole);
	const uint64_t sum = bfs_running_sum(head + bfs_pages(run, row->end, row->to));
	const uint64_t before = sum - head - bfs_pages(run, row->end, row->to);
	uint64_t total = hr_shfl_u64(sum, HR_LANES - 1), first;

	total = total - done < most || total < done ? total : done + most;
	for (first = done; first < total; first += HR_LANES) {
		const uint64_t k = first + hr_lane();
		const uint32_t lane = bfs_lane_of(sum, k);
		const uint64_t at = k - hr_shfl_u64(before, lane);
		const uint64_t its_head = hr_shfl_u64(head, lane);
		const uint64_t from = hr_shfl_u64(bfs_page(run, row->from), lane);
		const uint64_t end = hr_shfl_u64(bfs_page(run, row->end), lane);
		const uint64_t page = at < its_head ? from + at : end + at - its_head;

		hr_page_prefetch(run->objects, run->edges, k < total ? page : HR_NO_INDEX);
	}
}

/* Per lane: follow the edges of a row. All lanes share all edges. False after an error. Collective. */
HR_WORKER bool bfs_share(struct bfs_run *run, const struct bfs_row *row)
{
	const uint64_t count = row->hole - row->from + (row->to - row->end);
	const uint64_t sum = bfs_running_sum(count), base = row->from - (sum - count);
	const uint64_t total = hr_shfl_u64(sum, HR_LANES - 1);
	const bool holes = hr_ballot(row->hole != row->end) != 0;
	uint64_t first, edge[BFS_STEP];
	struct bfs_edges e;
	uint32_t i;

	for (first = 0; first < total; first += BFS_STEP * HR_LANES) {
		for (i = 0; i < BFS_STEP; i++) {
			const uint64_t k = first + i * HR_LANES + hr_lane();
			const uint32_t lane = bfs_lane_of(sum, k);

			edge[i] = hr_shfl_u64(base, lane) + k;
			if (holes) {
				const uint64_t hole = hr_shfl_u64(row->hole, lane);
				const uint64_t end = hr_shfl_u64(row->end, lane);

				edge[i] += edge[i] >= hole ? end - hole : 0;
			}
			e.u[i] = hr_shfl_u32(row->u, lane);
			edge[i] = k < total ? edge[i] : HR_NO_INDEX;
		}
		if (!bfs_follow(run, &e, edge))
			return false;
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
}

/* Per lane: the edges of vertex u of the frontier, without its units, whose pages are requested; none
 * for HR_NO_INDEX. False after an error. Collective. */
HR_WORKER bool bfs_open(struct bfs_run *run, uint64_t u, struct bfs_row *row)
{
	row->u = (uint32_t)u;
	if (!bfs_edges_of(run, u, &row->from, &row->to))
		return false;
	run->sum.edges += row->to - row->from;
	bfs_cut(run, row);
	bfs_request(run, row, 0, BFS_AHEAD);
	return true;
}

/* Follow the edges of the frontier, queue[begin .. end), except those of units. False after an error.
 * Collective. */
HR_WORKER bool bfs_expand(struct bfs_run *run, uint64_t begin, uint64_t end)
{
	struct bfs_source source;
	struct bfs_row now = { 0 }, next = { 0 };
	bool has_now = false, has_next, has_u, more = true;
	uint64_t u;

	bfs_source_start(run, &source, begin, end);
	has_u = more = bfs_next(run, &source, &u);
	while (has_now || has_u) {
		has_next = has_u;
		if (has_u && !bfs_open(run, u, &next))
			return false;
		more = more && bfs_next(run, &source, &u);
		has_u = more;
		if (has_now) {
			bfs_request(run, &now, BFS_AHEAD, UINT64_MAX);
			if (!bfs_share(run, &now))
				return false;
		}
		now = next;
		has_now = has_next;
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

/* Follow the edges of unit i of the list. False after an error. Collective. */
HR_WORKER bool bfs_unit(struct bfs_run *run, uint64_t i)
{
	const struct bfs_unit *unit = &run->unit[i];
	uint64_t edge[BFS_STEP];
	struct bfs_edges e;
	uint32_t first, j;

	for (first = 0; first < BFS_UNIT; first += BFS_STEP * HR_LANES) {
		for (j = 0; j < BFS_STEP; j++) {
			e.u[j] = unit->u;
			edge[j] = (uint64_t)unit->number * BFS_UNIT + first + j * HR_LANES +
				  hr_lane();
		}
		if (!bfs_follow(run, &e, edge))
			return false;
	}
	return true;
}

/* Follow the edges of all units of the level, all workers together. False after an error.
 * Collective. */
HR_WORKER bool bfs_units(struct bfs_run *run, uint64_t units)
{
	const uint64_t workers = run->objects->workers;
	uint64_t i;

	bfs_request_unit(run, run->objects->worker, units);
	for (i = run->objects->worker; i < units; i += workers) {
		bfs_request_unit(run, i + workers, units);
		if (!bfs_unit(run, i))
			return false;
	}
	return true;
}

/* All levels. False when the run ends with an error. Collective. */
HR_WORKER bool bfs_search(struct bfs_run *run)
{
	uint64_t begin = 0, end = 1;
	uint32_t level;

	for (level = 0; begin < end; level++) {
		uint64_t units;

		bfs_mark(run, begin, end, level);
		if (hr_workers_sync(run->objects) || !bfs_expand(run, begin, end) ||
		    hr_workers_sync(run->objects))
			return false;
		units = hr_shfl_u64(run->words->units, 0);
		units = units < run->unit_capacity ? units : run->unit_capacity;
		if (units && (!bfs_units(run, units) || hr_workers_sync(run->objects)))
			return false;
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
