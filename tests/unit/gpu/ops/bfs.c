/* SPDX-License-Identifier: Apache-2.0 */
/* Breadth-first search, by the lanes of workers: the tree of a plain search, units, hostile graphs. */
#include "tests/fakes/objects.h"

#define HR_OP_NAME test_bfs
#include "gpu/ops/bfs.c"

#include <criterion/criterion.h>
#include <string.h>

#include "tests/harness/random.h"

#define VERTICES 200u /* with the thread sanitizer collective calls cost much */
#define EDGES (4 * VERTICES)
#define UNSEEN UINT32_MAX

TestSuite(bfs, .timeout = 200);

static uint64_t offsets[VERTICES + 1];
static uint32_t edges[EDGES], parents[VERTICES], levels[VERTICES];
static uint32_t want_parent[VERTICES], want_level[VERTICES], queue[VERTICES];

/* Random edges: a few vertices have many edges, and some vertices are not reachable. */
static void make_graph(void)
{
	struct fake_random random = { fake_random_seed("bfs") };

	memset(offsets, 0, sizeof offsets);
	for (uint32_t i = 0; i < EDGES; i++) {
		const uint32_t v =
			fake_random_below(&random, 1 + fake_random_below(&random, VERTICES));

		offsets[v + 1]++;
		edges[i] = fake_random_below(&random, VERTICES);
	}
	for (uint32_t v = 0; v < VERTICES; v++)
		offsets[v + 1] += offsets[v];
	memset(parents, 0, sizeof parents);
	fake_access_object(BFS_OFFSETS, offsets, sizeof offsets);
	fake_access_object(BFS_EDGES, edges, sizeof edges);
	fake_access_object(BFS_PARENTS, parents, sizeof parents);
	fake_access_object(BFS_LEVELS, levels, sizeof levels);
}

/* A plain search; the parent is the smallest vertex of the level before. */
static uint32_t search(uint32_t root, uint64_t *followed)
{
	uint32_t tail = 1;

	memset(want_parent, 0xff, sizeof want_parent);
	memset(want_level, 0xff, sizeof want_level);
	queue[0] = want_parent[root] = root;
	want_level[root] = 0;
	*followed = 0;
	for (uint32_t head = 0; head < tail; head++) {
		const uint32_t u = queue[head];

		for (uint64_t e = offsets[u]; e < offsets[u + 1]; e++, ++*followed) {
			const uint32_t v = edges[e];

			if (want_level[v] == UNSEEN) {
				want_level[v] = want_level[u] + 1;
				queue[tail++] = v;
			}
			if (want_level[v] == want_level[u] + 1 && u < want_parent[v])
				want_parent[v] = u;
		}
	}
	return tail;
}

static void expect_tree(uint32_t root, uint32_t workers)
{
	const struct hr_bfs *result = (const void *)fake_access.result;
	uint64_t followed, checksum = 0;
	const uint32_t visited = search(root, &followed);

	cr_expect_eq(result->visited, visited, "%u workers", workers);
	cr_expect_eq(result->edges, followed);
	cr_expect_eq(result->levels, want_level[queue[visited - 1]] + 1);
	cr_expect_arr_eq(parents, want_parent, sizeof parents, "%u workers", workers);
	cr_expect_arr_eq(levels, want_level, sizeof levels, "%u workers", workers);
	for (uint32_t i = 0; i < visited; i++) {
		const uint32_t v = queue[i];

		checksum += hr_mix_u64(hr_mix_u64((uint64_t)v << 32 | parents[v]) + levels[v]);
	}
	cr_expect_eq(result->checksum, checksum);
	cr_expect_gt(result->run_ns, 0);
}

Test(bfs, the_tree_is_the_same_for_any_number_of_workers)
{
	make_graph();
	for (uint32_t workers = 1; workers <= 4; workers++) {
		const struct hr_bfs_args args = { .root = workers, .warm = workers & 1 };

		cr_assert_eq(fake_access_run(&hr_op_test_bfs, &args, workers), 0);
		expect_tree(args.root, workers);
	}
}

Test(bfs, the_graph_is_read_before_the_run_when_asked_for)
{
	const struct hr_bfs_args cold = { .root = 1 }, warm = { .root = 1, .warm = 1 };
	uint64_t needed;

	make_graph();
	cr_assert_eq(fake_access_run(&hr_op_test_bfs, &cold, 1), 0);
	needed = fake_access.pages;
	cr_assert_eq(fake_access_run(&hr_op_test_bfs, &warm, 1), 0);
	cr_expect_eq(fake_access.pages, needed + fake_access.object[BFS_OFFSETS].pages +
						fake_access.object[BFS_EDGES].pages);
}

Test(bfs, results_are_optional)
{
	const struct hr_bfs *result = (const void *)fake_access.result;
	const struct hr_bfs_args args = { .root = 0 };
	uint64_t followed;

	make_graph();
	fake_access_object(BFS_PARENTS, NULL, 0);
	fake_access_object(BFS_LEVELS, NULL, 0);
	cr_assert_eq(fake_access_run(&hr_op_test_bfs, &args, 3), 0);
	cr_expect_eq(result->visited, search(0, &followed));
}

/* Each array of a run has its room, and little more. */
Test(bfs, arrays_of_a_run_lie_side_by_side)
{
	static const uint64_t count[] = { 1,  2,   3,	16,   17,   32,	  33,
					  34, 512, 513, 4095, 4096, 4097, 1u << 17 };

	for (size_t i = 0; i < sizeof count / sizeof *count; i++)
		for (size_t j = 0; j < sizeof count / sizeof *count; j++)
			for (int with = 0; with < 2; with++) {
				const uint64_t v = count[i], e = count[j];
				struct bfs_memory m;

				bfs_plan(&m, v, e, with);
				const struct {
					uint64_t at, end, bytes;
				} array[] = {
					{ 0, m.visited, sizeof(struct bfs_words) },
					{ m.visited, m.frontier[0], (v + 31) / 32 * 4 },
					{ m.frontier[0], m.frontier[1], (v + 31) / 32 * 4 },
					{ m.frontier[1], m.parent, (v + 31) / 32 * 4 },
					{ m.parent, m.queue, v * 4 },
					{ m.queue, m.unit, v * 4 },
					{ m.unit, m.group, e / 1024 * sizeof(struct bfs_unit) },
					{ m.group, m.place, (e + 4096) / 4096 * 4 },
					{ m.place, m.level, v * 2 },
					{ m.level, m.bytes, with ? v * 4 : 0 },
				};

				cr_expect_eq(m.unit_capacity, e / 1024);
				for (size_t a = 0; a < sizeof array / sizeof *array; a++) {
					const uint64_t room = array[a].end - array[a].at;

					cr_expect_eq(array[a].at % 64, 0, "array %zu", a);
					cr_expect_eq(room, (array[a].bytes + 63) / 64 * 64,
						     "array %zu of %llu vertices", a,
						     (unsigned long long)v);
				}
			}
}

/* A path has a level for each vertex. */
Test(bfs, a_path_has_as_many_levels_as_vertices)
{
	const struct hr_bfs *result = (const void *)fake_access.result;
	const struct hr_bfs_args args = { .root = 0 };
	const uint32_t length = VERTICES / 10;

	make_graph();
	for (uint32_t v = 0; v < length; v++) {
		offsets[v] = v;
		edges[v] = v + 1;
	}
	offsets[length] = length;
	fake_access_object(BFS_OFFSETS, offsets, (length + 1) * sizeof *offsets);
	fake_access_object(BFS_EDGES, edges, length * sizeof *edges);
	edges[length - 1] = 0;
	cr_assert_eq(fake_access_run(&hr_op_test_bfs, &args, 3), 0);
	cr_expect_eq(result->levels, length);
	cr_expect_eq(result->visited, length);
}

#define SPOKES (2 * BFS_UNIT + 77)

/* Vertices with units: all workers follow their edges. The ranges begin and end inside a unit. */
Test(bfs, units_are_shared)
{
	static uint64_t from[SPOKES + 1];
	static uint32_t to[2 * SPOKES];
	const struct hr_bfs *result = (const void *)fake_access.result;
	const struct hr_bfs_args args = { .root = 0 };

	make_graph();
	for (uint32_t i = 0; i < SPOKES; i++) {
		from[i + 1] = i == 0 ? SPOKES : 2 * SPOKES;
		to[i] = i;
		to[SPOKES + i] = SPOKES - 1 - i;
	}
	fake_access_object(BFS_OFFSETS, from, sizeof from);
	fake_access_object(BFS_EDGES, to, sizeof to);
	fake_access_object(BFS_PARENTS, NULL, 0);
	fake_access_object(BFS_LEVELS, NULL, 0);
	cr_assert_eq(fake_access_run(&hr_op_test_bfs, &args, 2), 0);
	cr_expect_eq(result->visited, SPOKES);
	cr_expect_eq(result->levels, 2);
	cr_expect_eq(result->edges, 2 * SPOKES);
}

/* Edges before the first offset and behind the last one belong to no vertex. */
Test(bfs, edges_of_no_vertex_are_not_followed)
{
	enum { GAP = BFS_GROUP + 100 };
	static uint64_t from[VERTICES + 1];
	static uint32_t to[EDGES + 2 * GAP];
	const struct hr_bfs_args args = { .root = 0 };

	make_graph();
	memset(to, 0xff, sizeof to);
	memcpy(&to[GAP], edges, sizeof edges);
	for (uint32_t v = 0; v <= VERTICES; v++)
		from[v] = offsets[v] + GAP;
	fake_access_object(BFS_OFFSETS, from, sizeof from);
	fake_access_object(BFS_EDGES, to, sizeof to);
	for (uint32_t workers = 1; workers <= 3; workers++) {
		cr_assert_eq(fake_access_run(&hr_op_test_bfs, &args, workers), 0);
		expect_tree(0, workers);
	}
}

/* The edges of a vertex end where a group ends, and vertices without edges lie there. */
Test(bfs, vertices_begin_where_groups_do)
{
	enum { DEGREE = 128, GROUP = BFS_GROUP / DEGREE, ROWS = 3 * GROUP, EMPTY = 3 };
	static uint64_t from[ROWS + EMPTY + 1];
	static uint32_t to[ROWS * DEGREE];
	const struct hr_bfs *result = (const void *)fake_access.result;
	const struct hr_bfs_args args = { .root = 0 };

	make_graph();
	for (uint32_t v = 0; v < ROWS + EMPTY; v++)
		from[v + 1] = from[v] + (v >= GROUP && v < GROUP + EMPTY ? 0 : DEGREE);
	for (uint32_t e = 0; e < ROWS * DEGREE; e++)
		to[e] = e % (ROWS + EMPTY);
	fake_access_object(BFS_OFFSETS, from, sizeof from);
	fake_access_object(BFS_EDGES, to, sizeof to);
	fake_access_object(BFS_PARENTS, NULL, 0);
	fake_access_object(BFS_LEVELS, NULL, 0);
	for (uint32_t workers = 1; workers <= 3; workers++) {
		cr_assert_eq(fake_access_run(&hr_op_test_bfs, &args, workers), 0);
		cr_expect_eq(result->visited, ROWS + EMPTY);
		cr_expect_eq(result->levels, 2);
		cr_expect_eq(result->edges, ROWS * DEGREE);
	}
}

/* In a hostile graph, in which vertices share edges, a level has more units than the list has room
 * for: workers follow the rest themselves. Odd vertices have wrong offsets, and no edge leads there;
 * so no level is taken by groups, because they need offsets in order. */
Test(bfs, more_units_than_room)
{
	static uint32_t to[3 * BFS_UNIT];
	uint64_t from[9];
	const struct hr_bfs *result = (const void *)fake_access.result;
	const struct hr_bfs_args args = { .root = 0 };

	make_graph();
	for (uint32_t v = 0; v < 9; v++)
		from[v] = v % 2 ? 3 * BFS_UNIT : 0;
	for (uint32_t i = 0; i < 3 * BFS_UNIT; i++)
		to[i] = i % 4 * 2;
	fake_access_object(BFS_OFFSETS, from, sizeof from);
	fake_access_object(BFS_EDGES, to, sizeof to);
	fake_access_object(BFS_PARENTS, NULL, 0);
	fake_access_object(BFS_LEVELS, NULL, 0);
	for (uint32_t workers = 1; workers <= 3; workers++) {
		cr_assert_eq(fake_access_run(&hr_op_test_bfs, &args, workers), 0);
		cr_expect_eq(result->visited, 4);
		cr_expect_eq(result->levels, 2);
		cr_expect_eq(result->edges, 4 * 3 * BFS_UNIT);
	}
}

static void refuses(uint32_t which, uint64_t element)
{
	const struct hr_bfs_args args = { .root = 0 };

	for (uint32_t workers = 1; workers <= 3; workers += 2) {
		cr_expect_eq(fake_access_run(&hr_op_test_bfs, &args, workers), -EBADMSG);
		cr_expect_eq(fake_access.refused_object, which);
		cr_expect_eq(fake_access.refused, element, "element %llu",
			     (unsigned long long)fake_access.refused);
	}
}

/* The fake reports an access beyond an object as another error. */
Test(bfs, a_hostile_graph_is_refused_by_its_element)
{
	make_graph();
	offsets[1] = offsets[1] > 3 ? offsets[1] : 3;
	edges[0] = VERTICES;
	refuses(BFS_EDGES, 0);
	edges[0] = 0;
	edges[2] = UINT32_MAX;
	refuses(BFS_EDGES, 2);
	edges[2] = 0;
	offsets[0] = offsets[1] + 1;
	refuses(BFS_OFFSETS, 1);
	offsets[0] = 0;
	offsets[1] = EDGES + 1;
	refuses(BFS_OFFSETS, 1);
	offsets[1] = UINT64_MAX;
	refuses(BFS_OFFSETS, 1);
}
