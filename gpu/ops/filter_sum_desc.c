#include <errno.h>
#include <json-c/json.h>

#include "gpu/ops/args.h"
#include "gpu/ops/desc.h"
#include "gpu/ops/filter_sum.h"

#define REVENUE_BYTES 42 /* of 128 bits: 39 digits, sign, point and NUL */

static int parse(const struct hr_op_arg *arg, uint32_t count, void *args,
		 void (*complain)(void *to, unsigned line, const char *text), void *to)
{
	static const char *const names[] = { "shipdate_from", "shipdate_before", "discount_from",
					     "discount_to", "quantity_below" };
	struct hr_args given = { arg, count, complain, to, false };
	struct hr_filter_args *filter = args;

	hr_args_known(&given, names, sizeof names / sizeof *names);
	filter->shipdate_from = hr_args_date(&given, "shipdate_from");
	filter->shipdate_before = hr_args_date(&given, "shipdate_before");
	filter->discount_from = hr_args_int(&given, "discount_from", 0, HR_FILTER_DISCOUNT_MAX);
	filter->discount_to = hr_args_int(&given, "discount_to", 0, HR_FILTER_DISCOUNT_MAX);
	filter->quantity_below = hr_args_int(&given, "quantity_below", INT32_MIN, INT32_MAX);
	return given.bad ? -EINVAL : (int)sizeof *filter;
}

static uint32_t row_bytes(const void *args, uint32_t source)
{
	return source == HR_FILTER_PRICE ? sizeof(int64_t) : sizeof(int32_t);
}

static uint32_t state_bytes(const void *args)
{
	return sizeof(struct hr_filter_sum);
}

/*
 * The sum in cents, in the buffer's tail: cents times hundredths leave two digits behind the point.
 * Exact, so a string: a JSON number would be rounded by its reader.
 */
static const char *revenue_text(const struct hr_filter_sum *sum, char buffer[REVENUE_BYTES])
{
	const bool negative = sum->high >> 63;
	unsigned __int128 value = (unsigned __int128)sum->high << 64 | sum->low;
	char *at = &buffer[REVENUE_BYTES - 1];
	int digits = 0;

	if (negative)
		value = -value;
	*at = '\0';
	do {
		*--at = (char)('0' + (int)(value % 10));
		value /= 10;
		if (++digits == 2)
			*--at = '.';
	} while (value || digits < 3);
	if (negative)
		*--at = '-';
	return at;
}

static void print(const struct hr_op_all *all, FILE *out)
{
	const struct hr_filter_sum *sum = all->result;
	char buffer[REVENUE_BYTES];

	fprintf(out, "revenue %s cents from %llu of %llu rows", revenue_text(sum, buffer),
		(unsigned long long)sum->matched, (unsigned long long)sum->rows);
}

static void json(const struct hr_op_all *all, void *json_object)
{
	const struct hr_filter_sum *sum = all->result;
	char buffer[REVENUE_BYTES];

	json_object_object_add(json_object, "revenue_cents",
			       json_object_new_string(revenue_text(sum, buffer)));
	json_object_object_add(json_object, "rows", json_object_new_uint64(sum->matched));
	json_object_object_add(json_object, "rows_read", json_object_new_uint64(sum->rows));
}

const struct hr_op_desc hr_op_filter_sum_desc = {
	.name = "filter_sum",
	.help = "TPC-H Q6. Four sources of as many rows each, little-endian: shipdate (i32, days "
		"since\n  1970-01-01), discount (i32, hundredths), quantity (i32), extendedprice "
		"(i64, "
		"cents). Arguments:\n  shipdate_from, shipdate_before (dates \"YYYY-MM-DD\" or "
		"days; "
		"the second excluded), discount_from,\n  discount_to (hundredths, 0 to 100, both "
		"included), quantity_below. Result: revenue, the exact\n  sum of extendedprice * "
		"discount over the rows that match, in cents with two decimals; and\n  how many "
		"these are.",
	.id = HR_OP_filter_sum,
	.sources_min = HR_FILTER_COLUMNS,
	.sources_max = HR_FILTER_COLUMNS,
	.output = HR_OUT_NONE,
	.out_den = 1,
	.reads_once = true,
	.parse = parse,
	.row_bytes = row_bytes,
	.state_bytes = state_bytes,
	.print = print,
	.json = json,
};
