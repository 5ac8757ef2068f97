/* Arguments of operators: what is taken, what is refused and with which words; descriptions. */
#include <criterion/criterion.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "gpu/ops/operators.h"
#include "tests/harness/operators.h"
#include "gpu/ops/args.h"

#define ROWS(table) (sizeof(table) / sizeof(*(table)))

TestSuite(ops_args, .timeout = 10);

static char said[2048]; /* complaints, "LINE: TEXT\n" each */
static uint64_t args[HR_OP_ARGS_MAX / 8 + 1];

static void hear(void *to, unsigned line, const char *text)
{
	char *all = to;
	size_t at = strlen(all);

	snprintf(all + at, sizeof said - at, "%u: %s\n", line, text);
}

static int parse(enum hr_op_id op, const struct hr_op_arg *arg, uint32_t count)
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

/* A number that is refused reads as 0, so that what is computed from it stays in range. */
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
	static const char *const name[] = { "copy", "crc32c", "cast_f32_bf16", "filter_sum",
					    "topk_dot" };

	cr_assert_eq(ROWS(name), HR_OP_COUNT);
	for (unsigned id = 0; id < HR_OP_COUNT; id++) {
		const struct hr_operator *op = hr_op_find(name[id]);

		cr_assert_not_null(op);
		cr_expect_eq(op, hr_op_get(id));
		cr_expect_eq(hr_op_id_of(op), id);
		cr_expect(hr_op_built_in(op));
		cr_expect(op->init && op->tile && op->finish);
		cr_expect(strlen(op->help) > 40);
		cr_expect(op->sources_min >= 1 && op->sources_max <= HR_SOURCES_MAX);
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

Test(ops_args, filter_sum_refuses_what_is_no_date)
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

Test(ops_args, every_mistake_is_told_at_once)
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

Test(ops_args, topk_dot_takes_the_longest_query_and_not_a_longer_one)
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

Test(ops_args, topk_dot_refuses_what_it_cannot_compare_with)
{
	static const double query[] = { 1, NAN, 1e39 };
	struct hr_op_arg arg[] = { whole("k", 0), floats("query", query, 3) };

	cr_expect_eq(parse(HR_OP_topk_dot, arg, 2), -EINVAL);
	cr_expect(strstr(said, "7: k: 0 is outside of 1..128\n"), "%s", said);
	cr_expect(strstr(said, "9: query[1]: nan is no finite f32\n"), "%s", said);
	cr_expect(strstr(said, "9: query[2]: 1e+39 is no finite f32\n"), "%s", said);
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
