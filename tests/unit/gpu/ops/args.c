/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments of operators: accepted and refused values with their messages; descriptions. */
#include <criterion/criterion.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "config/file/file.h"
#include "config/base/limits.h"
#include "gpu/ops/operators.h"
#include "tests/harness/operators.h"
#include "gpu/ops/args.h"

#define ROWS(table) (sizeof(table) / sizeof(*(table)))

TestSuite(ops_args, .timeout = 60);

static char said[2048]; /* messages, each "LINE: TEXT\n" */
static uint64_t args[HR_OP_ARGS_MAX / 8 + 1];

static void hear(void *to, unsigned line, const char *text)
{
	char *all = to;
	size_t at = strlen(all);

	snprintf(all + at, sizeof said - at, "%u: %s\n", line, text);
}

static int parse(uint32_t op, const struct hr_op_arg *arg, uint32_t count)
{
	said[0] = '\0';
	return hr_op_parse(hr_op_get(op), arg, count, args, hear, said);
}

static struct hr_op_arg whole(const char *name, int64_t value)
{
	const struct hr_op_arg arg = {
		.name = name, .type = HR_ARG_INT, .integer = value, .line = 7
	};

	return arg;
}

static struct hr_op_arg text(const char *name, const char *value)
{
	const struct hr_op_arg arg = {
		.name = name, .type = HR_ARG_STRING, .string = value, .line = 8
	};

	return arg;
}

static struct hr_op_arg floats(const char *name, const double *value, uint32_t count)
{
	const struct hr_op_arg arg = {
		.name = name, .type = HR_ARG_FLOATS, .reals = value, .count = count, .line = 9
	};

	return arg;
}

static void good_filter(struct hr_op_arg arg[5])
{
	arg[0] = text("shipdate_from", "1994-01-01");
	arg[1] = whole("shipdate_before", 9131);
	arg[2] = whole("discount_from", 5);
	arg[3] = whole("discount_to", 7);
	arg[4] = whole("quantity_below", 24);
}

/* A refused number reads as 0, so that values computed from it stay in range. */
Test(ops_args, a_number_that_is_refused_is_zero)
{
	const double list[] = { 1 };
	const struct hr_op_arg arg[] = { whole("few", 7), text("word", "7"),
					 floats("list", list, 1), whole("large", INT64_MAX) };
	struct hr_args get = { .arg = arg, .count = ROWS(arg), .complain = hear, .to = said };

	said[0] = '\0';
	cr_expect_eq(hr_args_int(&get, "few", 7, 7), 7);
	cr_expect_eq(hr_args_real(&get, "few", 7, 7), 7.0);
	cr_expect_not(get.bad);
	cr_expect_eq(hr_args_int(&get, "few", 8, 9), 0);
	cr_expect_eq(hr_args_int(&get, "few", 5, 6), 0);
	cr_expect_eq(hr_args_int(&get, "word", -9, 9), 0);
	cr_expect_eq(hr_args_int(&get, "large", 0, INT32_MAX), 0);
	cr_expect_eq(hr_args_int(&get, "none", -9, 9), 0);
	cr_expect_eq(hr_args_real(&get, "list", -9, 9), 0.0);
	cr_expect_eq(hr_args_real(&get, "large", 0, 1e30), 0.0);
	cr_expect_eq(hr_args_real(&get, "none", -9, 9), 0.0);
	cr_expect_eq(hr_args_real(&get, "few", 7.5, 9), 0.0);
	cr_expect(get.bad);
	cr_expect_str_eq(said,
			 "7: few: 7 is outside of 8..9\n7: few: 7 is outside of 5..6\n"
			 "8: word: expected a whole number\n"
			 "7: large: 9223372036854775807 is outside of 0..2147483647\n"
			 "0: argument 'none' is missing\n9: list: expected a number\n"
			 "7: large: 9223372036854775807 is not exact as a floating point number: "
			 "it would become 9223372036854775808\n"
			 "0: argument 'none' is missing\n7: few: 7 is outside of 7.5..9\n",
			 "%s", said);
}

Test(ops_args, every_operator_is_found_by_name_and_describes_itself)
{
	static const char *const name[] = { "copy",	  "crc32c",   "cast_f32_bf16",
					    "filter_sum", "topk_dot", "chase",
					    "gather",	  "join",     "bfs" };

	cr_assert_eq(ROWS(name), HR_OP_COUNT);
	for (unsigned id = 0; id < HR_OP_COUNT; id++) {
		const struct hr_operator *op = hr_op_find(name[id]);

		cr_assert_not_null(op);
		cr_expect_eq(op, hr_op_get(id));
		cr_expect_eq(hr_op_id_of(op), id);
		cr_expect(hr_op_built_in(op));
		cr_expect(strlen(op->help) > 40 && strlen(op->help) < HR_OP_HELP_MAX);
		cr_expect(op->finish);
		cr_expect_eq(hr_op_accesses(op), id > HR_OP_topk_dot);
		cr_expect_eq(hr_op_accesses(op), op->run && op->object && op->check);
		cr_expect_neq(hr_op_accesses(op), op->init && op->tile);
		cr_expect_neq(hr_op_accesses(op), op->sources_min >= 1);
		cr_expect(op->sources_max <= HR_SOURCES_MAX && op->objects <= HR_OBJECTS_MAX);
		cr_expect_eq(op->output == HR_OUT_DATA, op->out_num && op->out_den);
	}
	cr_expect_null(hr_op_find("crc32"));
	cr_expect_null(hr_op_get(HR_OP_COUNT));
}

Test(ops_args, filter_sum_takes_dates_as_text_and_as_days)
{
	static const struct {
		const char *text;
		int32_t days;
	} row[] = {
		{ "1970-01-01", 0 },	  { "1969-12-31", -1 },	     { "1994-01-01", 8766 },
		{ "2000-02-29", 11016 },  { "2000-03-01", 11017 },   { "1900-03-01", -25508 },
		{ "1900-02-28", -25509 }, { "9999-12-31", 2932896 }, { "0001-01-01", -719162 },
	};
	const struct hr_filter_args *filter = (const struct hr_filter_args *)args;
	struct hr_op_arg arg[5];

	good_filter(arg);
	for (size_t i = 0; i < ROWS(row); i++) {
		arg[0] = text("shipdate_from", row[i].text);
		cr_assert_eq(parse(HR_OP_filter_sum, arg, 5), (int)sizeof *filter, "%s", said);
		cr_expect_eq(filter->shipdate_from, row[i].days, "%s: %d", row[i].text,
			     filter->shipdate_from);
	}
	cr_expect_eq(filter->shipdate_before, 9131);
	cr_expect_eq(filter->discount_from, 5);
	cr_expect_eq(filter->discount_to, 7);
	cr_expect_eq(filter->quantity_below, 24);
}

/* Each day of a leap year, and of an ordinary year, follows the day before it. */
Test(ops_args, months_end_on_their_last_day)
{
	static const int last[] = { 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };
	const struct hr_filter_args *filter = (const struct hr_filter_args *)args;
	int32_t days = 9496; /* 1996-01-01 */
	struct hr_op_arg arg[5];
	char date[32];

	good_filter(arg);
	for (int year = 1996; year <= 1997; year++)
		for (int month = 1; month <= 12; month++) {
			const int end = last[month - 1] + (year == 1996 && month == 2);

			for (int day = 1; day <= end + 1; day++) {
				snprintf(date, sizeof date, "%d-%02d-%02d", year, month, day);
				arg[0] = text("shipdate_from", date);
				if (day > end) {
					cr_expect_eq(parse(HR_OP_filter_sum, arg, 5), -EINVAL, "%s",
						     date);
					continue;
				}
				cr_assert_eq(parse(HR_OP_filter_sum, arg, 5), (int)sizeof *filter,
					     "%s", date);
				cr_expect_eq(filter->shipdate_from, days++, "%s", date);
			}
		}
}

Test(ops_args, filter_sum_refuses_invalid_dates)
{
	static const char *const wrong[] = { "",	   "1994",	 "1994-1-01",
					     "1994-13-01", "1994-00-01", "1994-01-00",
					     "1994-01-32", "1993-02-29", "1900-02-29",
					     "0000-01-01", "1994/01/01", "1994-01-01 ",
					     "x994-01-01", "-994-01-01" };
	struct hr_op_arg arg[5];

	good_filter(arg);
	for (size_t i = 0; i < ROWS(wrong); i++) {
		arg[0] = text("shipdate_from", wrong[i]);
		cr_expect_eq(parse(HR_OP_filter_sum, arg, 5), -EINVAL, "'%s'", wrong[i]);
		cr_expect_str_eq(said,
				 "8: shipdate_from: expected a date \"YYYY-MM-DD\" or days since "
				 "1970-01-01\n",
				 "%s", said);
	}
}

Test(ops_args, all_mistakes_are_reported_at_once)
{
	const struct hr_op_arg arg[] = { whole("shipdate_from", 1ll << 40),
					 whole("discount_from", -1),
					 whole("discount_to", 101),
					 text("quantity_below", "24"),
					 whole("quantity", 24),
					 whole("discount_to", 7) };

	cr_expect_eq(parse(HR_OP_filter_sum, arg, ROWS(arg)), -EINVAL);
	cr_expect_str_eq(
		said,
		"7: there is no argument 'quantity'; expected shipdate_from, shipdate_before, "
		"discount_from, discount_to, quantity_below\n"
		"7: argument 'discount_to' is given twice\n"
		"7: shipdate_from: 1099511627776 is outside of -2147483648..2147483647\n"
		"0: argument 'shipdate_before' is missing\n"
		"7: discount_from: -1 is outside of 0..100\n"
		"7: discount_to: 101 is outside of 0..100\n"
		"8: quantity_below: expected a whole number\n",
		"%s", said);
}

Test(ops_args, topk_dot_accepts_the_longest_query_and_refuses_longer_queries)
{
	static double query[HR_TOPK_DIMENSIONS + 1];
	struct hr_op_arg arg[] = { whole("k", HR_TOPK_MAX), floats("query", query, 1) };
	const struct hr_topk_args *topk = (const struct hr_topk_args *)args;
	const struct hr_operator *op = hr_op_get(HR_OP_topk_dot);

	for (uint32_t i = 0; i < HR_TOPK_DIMENSIONS; i++)
		query[i] = i;
	arg[1].count = HR_TOPK_DIMENSIONS;
	cr_assert_eq(parse(HR_OP_topk_dot, arg, 2), (int)sizeof(struct hr_topk_args), "%s", said);
	cr_expect_leq(sizeof(struct hr_topk_args), HR_OP_ARGS_MAX);
	cr_expect_leq(sizeof(struct hr_topk), HR_OP_RESULT_MAX);
	cr_expect_eq(topk->query[2047], 2047);
	cr_expect_eq(op->row_bytes(args, 0), 8192);
	cr_expect_eq(op->state_bytes(args), sizeof(struct hr_topk));
	arg[1].count++;
	cr_expect_eq(parse(HR_OP_topk_dot, arg, 2), -EINVAL);
	cr_expect_str_eq(said, "9: query: expected 1 to 2048 numbers\n", "%s", said);
	arg[1].count = 0;
	cr_expect_eq(parse(HR_OP_topk_dot, arg, 2), -EINVAL);
}

Test(ops_args, topk_dot_refuses_queries_that_do_not_match_the_rows)
{
	static const double query[] = { 1, NAN, 1e39 };
	struct hr_op_arg arg[] = { whole("k", 0), floats("query", query, 3) };

	cr_expect_eq(parse(HR_OP_topk_dot, arg, 2), -EINVAL);
	cr_expect(strstr(said, "7: k: 0 is outside of 1..128\n"), "%s", said);
	cr_expect(strstr(said, "9: query[1]: nan is not a finite f32\n"), "%s", said);
	cr_expect(strstr(said, "9: query[2]: 1e+39 is not a finite f32\n"), "%s", said);
	cr_expect_eq(parse(HR_OP_topk_dot, arg, 0), -EINVAL);
	cr_expect_str_eq(said, "0: argument 'k' is missing\n0: argument 'query' is missing\n");
}

Test(ops_args, operators_without_arguments_refuse_any)
{
	static const enum hr_op_id op[] = { HR_OP_copy, HR_OP_crc32c, HR_OP_cast_f32_bf16 };
	const struct hr_op_arg arg = whole("k", 1);

	for (size_t i = 0; i < ROWS(op); i++) {
		cr_expect_eq(parse(op[i], NULL, 0), 0);
		cr_expect_eq(parse(op[i], &arg, 1), -EINVAL);
		cr_expect_str_eq(said, "7: there is no argument 'k'; expected none\n", "%s", said);
	}
}

/* ---- access operators */

static uint32_t complaints(void)
{
	uint32_t lines = 0;

	for (const char *at = said; *at; at++)
		lines += *at == '\n';
	return lines;
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
	got = parse(hr_op_id_of(op), arg, count);
	cr_expect_eq(got > 0, accepted, "%s: %s = %lld, %g: %d", name, one->name,
		     (long long)one->integer, one->real, got);
	cr_expect_eq(complaints(), accepted ? 0 : 1, "%s: %s", name, one->name);
	cr_expect(got > 0 ? got <= (int)HR_OP_ARGS_MAX : got == -EINVAL, "%d", got);
}

Test(ops_args, each_integer_has_its_limits)
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

Test(ops_args, the_exponent_of_a_zipf_distribution_is_0_to_8)
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

Test(ops_args, unknown_and_missing_arguments_are_mistakes)
{
	static const char *const names[] = { "gather", "chase", "bfs", "join" };

	for (size_t i = 0; i < ROWS(names); i++) {
		struct hr_op_arg arg[8];
		const uint32_t count = needed(names[i], arg);

		expect_limit(
			names[i],
			&(struct hr_op_arg){ .name = "nonsense", .type = HR_ARG_INT, .integer = 1 },
			false);
		cr_expect_eq(parse(hr_op_id_of(hr_op_find(names[i])), arg, 0) < 0, count != 0, "%s",
			     names[i]);
		cr_expect_eq(complaints(), count, "%s", names[i]);
	}
}
