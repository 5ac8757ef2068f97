/* Limits of the arguments of built-in access operators, and of the lengths of their objects. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "config/limits.h"
#include "gpu/ops/operators.h"

TestSuite(arguments, .timeout = 60);

#define ROWS(table) (sizeof(table) / sizeof(*(table)))

static uint8_t args[HR_OP_ARGS_MAX] __attribute__((aligned(16)));
static unsigned complaints, of_object;

static void complain(void *to, unsigned at, const char *text)
{
	cr_expect(*text);
	complaints++;
	of_object |= 1u << at;
}

static int parse(const struct hr_operator *op, const struct hr_op_arg *arg, uint32_t count)
{
	complaints = 0;
	return op->parse(arg, count, args, complain, NULL);
}

/* The arguments that an operator needs. */
static uint32_t needed(const char *op, struct hr_op_arg *arg)
{
	static const struct {
		const char *op, *name;
		int64_t value;
	} need[] = { { "gather", "row", 400 },
		     { "gather", "lookups", 1000 },
		     { "chase", "hops", 10 },
		     { "bfs", "root", 5 } };
	uint32_t count = 0;

	for (size_t i = 0; i < ROWS(need); i++)
		if (strcmp(need[i].op, op) == 0)
			arg[count++] = (struct hr_op_arg){ .name = need[i].name,
							   .type = HR_ARG_INT,
							   .integer = need[i].value };
	return count;
}

/* Set one argument, and leave the others as they are. */
static uint32_t with(struct hr_op_arg *arg, uint32_t count, const struct hr_op_arg *one)
{
	uint32_t i = 0;

	while (i < count && strcmp(arg[i].name, one->name) != 0)
		i++;
	arg[i] = *one;
	return i < count ? count : count + 1;
}

static void expect_limit(const char *name, const struct hr_op_arg *one, bool accepted)
{
	const struct hr_operator *op = hr_op_find(name);
	struct hr_op_arg arg[8];
	uint32_t count = needed(name, arg);
	int got;

	count = with(arg, count, one);
	got = parse(op, arg, count);
	cr_expect_eq(got > 0, accepted, "%s: %s = %lld, %g: %d", name, one->name,
		     (long long)one->integer, one->real, got);
	cr_expect_eq(complaints, accepted ? 0 : 1, "%s: %s", name, one->name);
	cr_expect(got > 0 ? got <= (int)HR_OP_ARGS_MAX : got == -EINVAL, "%d", got);
}

Test(arguments, each_integer_has_its_limits)
{
	static const struct {
		const char *op, *name;
		int64_t least, most, step;
	} row[] = {
		{ "gather", "row", 4, 65536, 4 },
		{ "gather", "lookups", 1, INT32_MAX, 1 },
		{ "gather", "seed", 0, INT32_MAX, 1 },
		{ "gather", "ahead", 1, 32, 1 },
		{ "gather", "issuers", 0, INT16_MAX, 1 },
		{ "gather", "warm", 0, 1, 1 },
		{ "chase", "hops", 1, INT32_MAX, 1 },
		{ "chase", "chains", 1, 1 << 24, 1 },
		{ "chase", "seed", 0, INT32_MAX, 1 },
		{ "chase", "warm", 0, 1, 1 },
		{ "bfs", "root", 0, INT32_MAX, 1 },
		{ "bfs", "warm", 0, 1, 1 },
		{ "join", "warm", 0, 1, 1 },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		struct hr_op_arg one = { .name = row[i].name, .type = HR_ARG_INT };

		for (int above = 0; above < 2; above++) {
			one.integer = above ? row[i].most : row[i].least;
			expect_limit(row[i].op, &one, true);
			one.integer += above ? row[i].step : -row[i].step;
			expect_limit(row[i].op, &one, false);
		}
	}
	expect_limit("gather",
		     &(struct hr_op_arg){ .name = "row", .type = HR_ARG_INT, .integer = 6 }, false);
}

Test(arguments, the_exponent_of_a_zipf_distribution_is_0_to_8)
{
	struct hr_op_arg one = { .name = "zipf", .type = HR_ARG_FLOAT };

	expect_limit("gather", &one, true);
	one.real = 8;
	expect_limit("gather", &one, true);
	one.real = 8.01;
	expect_limit("gather", &one, false);
	one.real = -0.01;
	expect_limit("gather", &one, false);
}

Test(arguments, unknown_and_missing_arguments_are_mistakes)
{
	static const char *const names[] = { "gather", "chase", "bfs", "join" };

	for (size_t i = 0; i < ROWS(names); i++) {
		struct hr_op_arg arg[8];
		const uint32_t count = needed(names[i], arg);

		expect_limit(
			names[i],
			&(struct hr_op_arg){ .name = "nonsense", .type = HR_ARG_INT, .integer = 1 },
			false);
		cr_expect_eq(parse(hr_op_find(names[i]), arg, 0) < 0, count != 0, "%s", names[i]);
		cr_expect_eq(complaints, count, "%s", names[i]);
	}
}

/* Objects of gather: table, indices, rows; of bfs: offsets, edges, parents, levels; of join: table,
 * keys. */
Test(arguments, objects_have_possible_lengths)
{
	static const struct {
		const char *op;
		uint64_t bytes[4];
		unsigned refused; /* a bit for each object */
	} row[] = {
		{ "gather", { 400 }, 0 },
		{ "gather", { 0 }, 1 },
		{ "gather", { 399 }, 1 },
		{ "gather", { 404 }, 1 },
		{ "gather", { 400ull * UINT32_MAX }, 0 },
		{ "gather", { 400ull * UINT32_MAX + 400 }, 1 },
		{ "gather", { 400, 4000 }, 0 },
		{ "gather", { 400, 3999 }, 2 },
		{ "gather", { 400, 4001, 400000 }, 0 },
		{ "gather", { 400, 4000, 399999 }, 4 },
		{ "gather", { 400, 3999, 399999 }, 6 },
		{ "gather", { 400, 0, 400001 }, 0 },
		{ "chase", { 8 }, 0 },
		{ "chase", { 0 }, 1 },
		{ "chase", { 12 }, 1 },
		{ "chase", { 16 }, 0 },
		/* the root is vertex 5 */
		{ "bfs", { 7 * 8, 8 }, 0 },
		{ "bfs", { 6 * 8, 8 }, 1 },
		{ "bfs", { 8, 8 }, 1 },
		{ "bfs", { 0, 8 }, 1 },
		{ "bfs", { 7 * 8 + 4, 8 }, 1 },
		{ "bfs", { 8ull << 32, 0 }, 0 },
		{ "bfs", { (8ull << 32) + 8, 0 }, 1 },
		{ "bfs", { 7 * 8, 6 }, 2 },
		{ "bfs", { 7 * 8, 8, 24, 24 }, 0 },
		{ "bfs", { 7 * 8, 8, 23, 24 }, 4 },
		{ "bfs", { 7 * 8, 8, 25, 23 }, 8 },
		{ "bfs", { 6 * 8, 6, 4, 4 }, 15 },
		{ "join", { 16, 8 }, 0 },
		{ "join", { 0, 8 }, 1 },
		{ "join", { 24, 8 }, 1 },
		{ "join", { 32, 0 }, 0 },
		{ "join", { 16, 12 }, 2 },
		{ "join", { 8, 4 }, 3 },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		const struct hr_operator *op = hr_op_find(row[i].op);
		struct hr_op_arg arg[8];

		cr_assert_gt(parse(op, arg, needed(row[i].op, arg)), 0);
		of_object = 0;
		cr_expect_eq(op->check(args, row[i].bytes, complain, NULL),
			     row[i].refused ? -EINVAL : 0, "row %zu", i);
		cr_expect_eq(of_object, row[i].refused, "row %zu: %x", i, of_object);
	}
}
