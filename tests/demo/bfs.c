/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/demo/bfs.c - the example of the operator bfs: a Kronecker graph as in Graph500.
 *
 * Usage: bfs make DIR SCALE EDGE_FACTOR SEED    write DIR/offsets and DIR/edges
 *        bfs check DIR OUTPUT ROOT              validate DIR/parents and DIR/levels
 *        bfs staged DIR THREADS ROOT            search with pread() from threads
 *
 * The graph has 2^SCALE vertices and EDGE_FACTOR * 2^SCALE edges, each in both directions (an edge
 * from a vertex to itself is left out). Vertex 0 has an edge, so it is a root that reaches others.
 */
#include "cache/page_table.h"
#include "gpu/ops/random.h"
#include "tests/demo/example.h"

#define UNSEEN UINT32_MAX

struct graph {
	uint64_t vertices, count;
	uint64_t *offsets;
	uint32_t *edges;
};

/* Initiator probabilities of Graph500 (A 0.57, B 0.19, C 0.19), as 32-bit thresholds. */
#define P(x) ((uint32_t)((x)*4294967295.0))
static void kronecker(uint32_t scale, uint64_t seed, uint64_t edge, uint32_t *from, uint32_t *to)
{
	*from = *to = 0;
	for (uint32_t level = 0; level < scale; level++) {
		const uint64_t random = hr_random_u64(seed, edge * 32 + level);
		const uint32_t down = (uint32_t)random > P(0.57 + 0.19);
		const uint32_t limit = down ? P(0.19 / (1 - 0.76)) : P(0.57 / 0.76);
		const uint32_t right = (uint32_t)(random >> 32) > limit;

		*from = *from << 1 | down;
		*to = *to << 1 | right;
	}
}
#undef P

/* Both ends of an edge under their final labels: mixed, and such that 0 is an end of `first`. */
static void ends(uint32_t scale, uint64_t seed, uint64_t edge, uint32_t zero, uint32_t *from,
		 uint32_t *to)
{
	kronecker(scale, seed, edge, from, to);
	*from = hr_page_mix(*from, scale) ^ zero;
	*to = hr_page_mix(*to, scale) ^ zero;
}

/* The label that becomes 0: an end of the first edge between two vertices. */
static uint32_t find_zero(uint32_t scale, uint64_t seed, uint64_t count)
{
	uint32_t from, to;

	for (uint64_t e = 0; e < count; e++) {
		ends(scale, seed, e, 0, &from, &to);
		if (from != to)
			return from;
	}
	return 0;
}

/* Edges are made twice, counted and then stored, so the list of them takes no memory. */
static int make(const char *dir, uint64_t scale, uint64_t factor, uint64_t seed)
{
	const uint64_t vertices = 1ull << scale, count = factor << scale;
	const uint32_t zero = find_zero((uint32_t)scale, seed, count);
	uint64_t *offsets = example_memory(vertices + 1, sizeof *offsets);
	uint32_t *edges, from, to;

	for (uint64_t e = 0; e < count; e++) {
		ends((uint32_t)scale, seed, e, zero, &from, &to);
		offsets[from] += from != to;
		offsets[to] += from != to;
	}
	for (uint64_t v = 1; v <= vertices; v++)
		offsets[v] += offsets[v - 1];
	edges = example_memory(offsets[vertices], sizeof *edges);
	for (uint64_t e = 0; e < count; e++) {
		ends((uint32_t)scale, seed, e, zero, &from, &to);
		if (from != to) {
			edges[--offsets[from]] = to;
			edges[--offsets[to]] = from;
		}
	}
	example_save(dir, "offsets", offsets, (vertices + 1) * sizeof *offsets);
	example_save(dir, "edges", edges, offsets[vertices] * sizeof *edges);
	free(offsets);
	free(edges);
	return 0;
}

static void load(struct graph *g, const char *dir)
{
	uint64_t bytes;

	g->offsets = example_load(dir, "offsets", &bytes);
	g->vertices = bytes / sizeof *g->offsets - 1;
	g->edges = example_load(dir, "edges", &bytes);
	g->count = bytes / sizeof *g->edges;
}

static uint32_t *load_result(const struct graph *g, const char *dir, const char *name)
{
	uint64_t bytes;
	uint32_t *result = example_load(dir, name, &bytes);

	if (bytes != g->vertices * sizeof *result) {
		fprintf(stderr, "%s/%s has %llu bytes, expected 4 for each of %llu vertices\n", dir,
			name, (unsigned long long)bytes, (unsigned long long)g->vertices);
		exit(1);
	}
	return result;
}

static bool wrong(const char *rule, uint64_t v)
{
	fprintf(stderr, "vertex %llu: %s\n", (unsigned long long)v, rule);
	return false;
}

/* The rules of Graph500 for one vertex: its level and parent, and each of its edges. The parent is
 * the smallest possible, which is a rule of the operator. */
static bool valid(const struct graph *g, const uint32_t *parent, const uint32_t *level,
		  uint32_t root, uint64_t v)
{
	uint32_t least = UNSEEN;

	if ((level[v] == UNSEEN) != (parent[v] == UNSEEN))
		return wrong("has a level or a parent, not both", v);
	if ((level[v] == 0) != (v == root))
		return wrong("has level 0 and is not the root, or is the root", v);
	for (uint64_t e = g->offsets[v]; e < g->offsets[v + 1]; e++) {
		const uint32_t u = g->edges[e];

		if ((level[u] == UNSEEN) != (level[v] == UNSEEN))
			return wrong("was reached, but not all of its neighbours", v);
		if (level[v] != UNSEEN && (level[u] > level[v] + 1 || level[v] > level[u] + 1))
			return wrong("has a neighbour more than one level away", v);
		if (level[v] != UNSEEN && level[u] + 1 == level[v] && u < least)
			least = u;
	}
	if (v == root)
		return parent[v] == root ? true : wrong("is the root, but not its own parent", v);
	if (parent[v] != least)
		return wrong("does not have the smallest neighbour of the previous level as its "
			     "parent",
			     v);
	return true;
}

static int check(const char *dir, const char *output, uint32_t root)
{
	struct graph g;
	uint32_t *parent, *level;
	uint64_t visited = 0, followed = 0, levels = 0;
	bool good = true;

	load(&g, dir);
	parent = load_result(&g, dir, "parents");
	level = load_result(&g, dir, "levels");
	for (uint64_t v = 0; good && v < g.vertices; v++) {
		good = valid(&g, parent, level, root, v);
		if (level[v] == UNSEEN)
			continue;
		visited++;
		followed += g.offsets[v + 1] - g.offsets[v];
		levels = level[v] + 1 > levels ? level[v] + 1 : levels;
	}
	if (good) {
		good = example_same(output, "visited", visited);
		good &= example_same(output, "edges_traversed", followed);
		good &= example_same(output, "levels", levels);
		good &= example_same(output, "vertices", g.vertices);
	}
	free(g.offsets);
	free(g.edges);
	free(parent);
	free(level);
	return good ? 0 : 1;
}

/* ---- the search with pread(): the frontier is shared by threads, level by level */

static struct {
	int offsets, edges;
	uint32_t threads;
	uint32_t *parent, *queue;
	uint64_t begin, end, tail, taken, followed; /* tail, taken, followed: atomic */
	uint32_t levels;
	pthread_barrier_t barrier;
} job;

static void visit(uint32_t u, uint32_t v)
{
	uint32_t none = UNSEEN;

	if (__atomic_load_n(&job.parent[v], __ATOMIC_RELAXED) == UNSEEN &&
	    __atomic_compare_exchange_n(&job.parent[v], &none, u, false, __ATOMIC_RELAXED,
					__ATOMIC_RELAXED))
		job.queue[__atomic_fetch_add(&job.tail, 1, __ATOMIC_RELAXED)] = v;
}

static void expand(uint32_t u)
{
	enum { EDGES = 16384 };
	uint32_t edges[EDGES];
	uint64_t range[2];

	example_read(job.offsets, range, sizeof range, u * sizeof *range);
	__atomic_fetch_add(&job.followed, range[1] - range[0], __ATOMIC_RELAXED);
	for (uint64_t at = range[0]; at < range[1]; at += EDGES) {
		const uint64_t count = range[1] - at < EDGES ? range[1] - at : EDGES;

		example_read(job.edges, edges, count * sizeof *edges, at * sizeof *edges);
		for (uint64_t i = 0; i < count; i++)
			visit(u, edges[i]);
	}
}

static void *search(void *thread)
{
	while (job.begin < job.end) {
		for (;;) {
			const uint64_t i = __atomic_fetch_add(&job.taken, 1, __ATOMIC_RELAXED);

			if (i >= job.end)
				break;
			expand(job.queue[i]);
		}
		pthread_barrier_wait(&job.barrier);
		if (thread == NULL) {
			job.begin = job.taken = job.end;
			job.end = job.tail;
			job.levels++;
		}
		pthread_barrier_wait(&job.barrier);
	}
	return NULL;
}

static int staged(const char *dir, uint32_t root)
{
	uint64_t bytes, vertices;

	job.offsets = example_open(dir, "offsets", &bytes);
	vertices = bytes / sizeof(uint64_t) - 1;
	job.edges = example_open(dir, "edges", &bytes);
	job.parent = example_memory(vertices, sizeof *job.parent);
	job.queue = example_memory(vertices, sizeof *job.queue);
	memset(job.parent, 0xff, vertices * sizeof *job.parent);
	job.parent[root] = job.queue[0] = root;
	job.end = job.tail = 1;
	pthread_barrier_init(&job.barrier, NULL, job.threads);
	example_threads(search, job.threads);
	printf("    visited %llu\n    edges_traversed %llu\n    levels %u\n",
	       (unsigned long long)job.tail, (unsigned long long)job.followed, job.levels);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 6 && strcmp(argv[1], "make") == 0 && example_number(argv[3]) <= 31 &&
	    example_number(argv[3]) >= 1)
		return make(argv[2], example_number(argv[3]), example_number(argv[4]),
			    example_number(argv[5]));
	if (argc == 5 && strcmp(argv[1], "check") == 0)
		return check(argv[2], argv[3], (uint32_t)example_number(argv[4]));
	if (argc == 5 && strcmp(argv[1], "staged") == 0) {
		job.threads = example_thread_count(argv[3]);
		return staged(argv[2], (uint32_t)example_number(argv[4]));
	}
	fprintf(stderr, "usage: bfs make DIR SCALE EDGE_FACTOR SEED    (SCALE: 1 to 31)\n"
			"       bfs check DIR OUTPUT ROOT\n"
			"       bfs staged DIR THREADS ROOT\n");
	return 2;
}
