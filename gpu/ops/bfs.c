/*
 * bfs: breadth-first search of a graph in compressed sparse rows, level by level.
 *
 * Memory of the run has a queue of all visited vertices in the order of their levels, a bit for each
 * vertex of finished levels, and a parent for each vertex: the smallest vertex of the previous level
 * with an edge to it, whatever the order in which workers find them. Parents are stored inverted, so
 * that memory of zeros has none, and the smallest parent is a maximum.
 *
 * A level has three parts, each ended by all workers together: mark the frontier as visited; take
 * its vertices, HR_LANES at a time, and follow their edges, spread evenly over the lanes; follow the
 * edges of its hubs, all workers together.
 *
 * A wide frontier is taken in the order of its vertices, from a bit for each vertex, because their
 * edges lie in this order: so a level reads each page once, also when the cache is small. In the order
 * of the queue, which is random, it reads a page for nearly each vertex.
 */
#include "gpu/ops/access_op.h"
#include "gpu/ops/bfs_run.h"
#include "gpu/ops/operator.h"

/* Per lane: an edge from u to v, found in this level; `active` lanes only. Collective. */
HR_WORKER void bfs_visit(struct bfs_run *run, bool active, uint32_t u, uint32_t v)
{
	bool fresh = false;
	hr_mask mask;

	if (active && !(run->visited[v / 32] >> v % 32 & 1) && hr_poll_u32(&run->parent[v]) < ~u)
		fresh = hr_fetch_max_u32(&run->parent[v], ~u) == 0;
	mask = hr_ballot(fresh);
	if (mask) {
		uint64_t at = 0;

		if (hr_lane() == hr_lowest_bit(mask))
			at = hr_fetch_add_u64(&run->words->tail, hr_count_bits(mask));
		at = hr_shfl_u64(at, hr_lowest_bit(mask));
		if (fresh)
			run->queue[at + hr_lanes_before(mask)] = v;
	}
}

/* Per lane: follow edge number `edge` of vertex u; HR_NO_INDEX: none. False after an error.
 * Collective. */
HR_WORKER bool bfs_follow(struct bfs_run *run, uint32_t u, uint64_t edge)
{
	const uint32_t v = hr_get_u32(run->objects, run->edges, edge);
	const bool active = edge != HR_NO_INDEX;

	if (hr_access_refuse(run->objects, run->edges,
			     active && v >= run->vertices ? edge : HR_NO_INDEX))
		return false;
	bfs_visit(run, active, u, v);
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

/* Request the edges of lanes that have more than a page of them, and read the first edge of each lane:
 * so the pages of all lanes are read at the same time. Collective. */
HR_WORKER void bfs_request(struct bfs_run *run, uint64_t from, uint64_t degree)
{
	hr_mask mask = hr_ballot(degree * BFS_EDGE > hr_page_bytes(run->objects));

	for (; mask; mask &= mask - 1) {
		const uint32_t lane = hr_lowest_bit(mask);

		hr_pread_prefetch(run->objects, run->edges, hr_shfl_u64(from, lane) * BFS_EDGE,
				  hr_shfl_u64(degree, lane) * BFS_EDGE);
	}
	if (HR_LANES > 1)
		(void)hr_get_u32(run->objects, run->edges, degree ? from : HR_NO_INDEX);
}

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

/* Per lane: follow `degree` edges from `from` on of vertex u. All lanes share all edges. False after
 * an error. Collective. */
HR_WORKER bool bfs_share(struct bfs_run *run, uint32_t u, uint64_t from, uint64_t degree)
{
	const uint64_t sum = bfs_running_sum(degree);
	const uint64_t total = hr_shfl_u64(sum, HR_LANES - 1);
	uint64_t first;

	for (first = 0; first < total; first += HR_LANES) {
		const uint64_t k = first + hr_lane();
		const uint32_t lane = bfs_lane_of(sum, k);
		const uint64_t edge = hr_shfl_u64(from - (sum - degree), lane) + k;

		if (!bfs_follow(run, hr_shfl_u32(u, lane), k < total ? edge : HR_NO_INDEX))
			return false;
	}
	return true;
}

/* Per lane: add vertex u to the list of hubs, whose edges all workers follow. False when the list
 * is full. */
HR_WORKER bool bfs_leave(struct bfs_run *run, uint32_t u)
{
	const uint64_t at = hr_fetch_add_u64(&run->words->hubs, 1);

	if (at >= run->hub_capacity)
		return false;
	run->hub[at] = u;
	return true;
}

/* Per lane: follow the edges of vertex u of the frontier, unless it is a hub; HR_NO_INDEX: none. False
 * after an error. Collective. */
HR_WORKER bool bfs_expand(struct bfs_run *run, uint64_t u)
{
	uint64_t from, to, degree;

	if (!bfs_edges_of(run, u, &from, &to))
		return false;
	degree = to - from;
	run->sum.edges += degree;
	if (degree >= BFS_HUB_DEGREE && bfs_leave(run, (uint32_t)u))
		degree = 0;
	bfs_request(run, from, degree);
	return bfs_share(run, (uint32_t)u, from, degree);
}

/* The next `n` items of the frontier. The same in all lanes. Collective. */
HR_WORKER uint64_t bfs_take(struct bfs_run *run, uint64_t n)
{
	uint64_t at = 0;

	if (hr_lane() == 0)
		at = hr_fetch_add_u64(&run->words->taken, n);
	return hr_shfl_u64(at, 0);
}

/* Follow the edges of queue[.. end), except those of hubs. False after an error. Collective. */
HR_WORKER bool bfs_expand_queue(struct bfs_run *run, uint64_t end)
{
	for (;;) {
		uint64_t at = bfs_take(run, HR_LANES);

		if (at >= end)
			return true;
		at += hr_lane();
		if (!bfs_expand(run, at < end ? run->queue[at] : HR_NO_INDEX))
			return false;
	}
}

/* The index of the bit of a word that has n bits below it; 0 when there is none. */
HR_BOTH uint32_t bfs_bit(uint32_t word, uint32_t n)
{
	for (; n; n--)
		word &= word - 1;
	return word ? hr_lowest_bit(word) : 0;
}

/* Follow the edges of the vertices that have bits in a word of each lane, except those of hubs. at: the
 * index of the word of lane 0. False after an error. Collective. */
HR_WORKER bool bfs_expand_words(struct bfs_run *run, uint64_t at, uint32_t word)
{
	const uint64_t count = hr_count_bits((hr_mask)word);
	const uint64_t sum = bfs_running_sum(count);
	const uint64_t total = hr_shfl_u64(sum, HR_LANES - 1);
	uint64_t first;

	for (first = 0; first < total; first += HR_LANES) {
		const uint64_t k = first + hr_lane();
		const uint32_t lane = bfs_lane_of(sum, k);
		const uint64_t before = hr_shfl_u64(sum - count, lane);
		const uint32_t bit = bfs_bit(hr_shfl_u32(word, lane), (uint32_t)(k - before) & 31);

		if (!bfs_expand(run, k < total ? (at + lane) * 32 + bit : HR_NO_INDEX))
			return false;
	}
	return true;
}

/* Follow the edges of a wide frontier of `count` vertices, in their order, except those of hubs, and
 * clear its bits. False after an error. Collective. */
HR_WORKER bool bfs_expand_bits(struct bfs_run *run, uint64_t count)
{
	const uint64_t words = (run->vertices + 31) / 32, wanted = words * BFS_TAKE / count + 1;
	const uint64_t step = wanted < HR_LANES ? wanted : HR_LANES;

	for (;;) {
		const uint64_t at = bfs_take(run, step), mine = at + hr_lane();
		const bool is = hr_lane() < step && mine < words;
		uint32_t word = 0;

		if (at >= words)
			return true;
		if (is)
			word = run->frontier[mine];
		if (word)
			run->frontier[mine] = 0;
		if (!bfs_expand_words(run, at, word))
			return false;
	}
}

/* Follow the edges of the frontier, queue[begin .. end), except those of hubs. False after an error.
 * Collective. */
HR_WORKER bool bfs_expand_all(struct bfs_run *run, uint64_t begin, uint64_t end)
{
	return bfs_is_wide(run, begin, end) ? bfs_expand_bits(run, end - begin)
					    : bfs_expand_queue(run, end);
}

/*
 * Follow this worker's segments of the edges [from, to) of hub u; the read of the next segment is in
 * flight meanwhile. before: segments of earlier hubs of the level, so that all segments of all hubs are
 * spread evenly. False after an error. Collective.
 */
HR_WORKER bool bfs_hub(struct bfs_run *run, uint32_t u, uint64_t from, uint64_t to, uint64_t before)
{
	const uint64_t workers = run->objects->workers, step = workers * BFS_SEGMENT;
	const uint64_t mine = (run->objects->worker + workers - before % workers) % workers;
	uint64_t edge, first;

	for (first = from + mine * BFS_SEGMENT; first < to; first += step) {
		const uint64_t end = to - first < BFS_SEGMENT ? to : first + BFS_SEGMENT;

		if (to - first > step)
			hr_pread_prefetch(run->objects, run->edges, (first + step) * BFS_EDGE,
					  BFS_SEGMENT * BFS_EDGE);
		for (edge = first; edge < end; edge += HR_LANES) {
			const uint64_t lanes = edge + hr_lane();

			if (!bfs_follow(run, u, lanes < end ? lanes : HR_NO_INDEX))
				return false;
		}
	}
	return true;
}

/* Follow the edges of all hubs of the level, all workers together. False after an error. Collective. */
HR_WORKER bool bfs_hubs(struct bfs_run *run, uint64_t hubs)
{
	uint64_t before = 0, i, from, to;
	uint32_t lane;

	for (i = 0; i < hubs; i += HR_LANES) {
		const uint64_t mine = i + hr_lane();
		const uint32_t u = mine < hubs ? run->hub[mine] : 0;

		if (!bfs_edges_of(run, mine < hubs ? u : HR_NO_INDEX, &from, &to))
			return false;
		for (lane = 0; lane < HR_LANES && i + lane < hubs; lane++) {
			const uint64_t start = hr_shfl_u64(from, lane), end = hr_shfl_u64(to, lane);

			if (!bfs_hub(run, hr_shfl_u32(u, lane), start, end, before))
				return false;
			before += (end - start + BFS_SEGMENT - 1) / BFS_SEGMENT;
		}
	}
	return true;
}

/* All levels. False when the run ends with an error. Collective. */
HR_WORKER bool bfs_search(struct bfs_run *run)
{
	uint64_t begin = 0, end = 1;
	uint32_t level;

	for (level = 0; begin < end; level++) {
		uint64_t hubs;

		bfs_mark(run, begin, end, level);
		if (hr_workers_sync(run->objects) || !bfs_expand_all(run, begin, end) ||
		    hr_workers_sync(run->objects))
			return false;
		hubs = hr_shfl_u64(run->words->hubs, 0);
		hubs = hubs < run->hub_capacity ? hubs : run->hub_capacity;
		if (hubs && (!bfs_hubs(run, hubs) || hr_workers_sync(run->objects)))
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
