/* Numbers of a configuration are exact, or are refused with their line. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "boot/engine/names.h"
#include "config/config.h"
#include "tests/harness/operators.h"
#include "tests/harness/error.h"

#define ROWS(table) (sizeof(table) / sizeof(*(table)))

TestSuite(config_numbers, .timeout = 60);

static struct hr_config config;
static char reports[1 << 14];

static int parse(const char *text)
{
	const int err = hr_config_parse(&config, &hr_names, "f", text, strlen(text), test_error());

	test_error_lines(reports, sizeof reports);
	return err;
}

#define HEAD                                                       \
	"ssds = ( { name = \"a\"; device = \"soft:a.img\"; } );\n" \
	"gpus = ( { name = \"g\"; device = \"host:1\"; } );\n"

static int parse_memory(const char *number)
{
	char text[1024];

	snprintf(text, sizeof text, HEAD "memory = {\n host = %s; };\n", number);
	return parse(text);
}

/* libconfig's parser wraps at 32 bits without an error; sizes are wider. */
Test(config_numbers, integers_are_exact)
{
	static const struct {
		const char *text;
		uint64_t want;
	} row[] = {
		{ "2147483647", 2147483647u },
		{ "2147483648", 2147483648u },
		{ "+4294967297", 4294967297u },
		{ "4294967297L", 4294967297u },
		{ "4294967297LL", 4294967297u },
		{ "0xffffffff", 0xffffffffu },
		{ "0x1FFFFFFFF", 0x1ffffffffu },
		{ "0X10L", 16 },
		{ "0x7fffffffffffffff", INT64_MAX },
		{ "9223372036854775807", INT64_MAX },
		{ "00000000000000000000000000000000000000012", 12 },
		{ "0x000000000000000000000000000000000000000c", 12 },
		{ "-0", 0 },
		{ "010", 10 }, /* decimal */
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		cr_expect_eq(parse_memory(row[i].text), 0, "%s: %s", row[i].text, reports);
		cr_expect_eq(config.memory_host, row[i].want, "%s: %llu", row[i].text,
			     (unsigned long long)config.memory_host);
	}
}

Test(config_numbers, integers_that_do_not_fit_are_refused_with_their_line)
{
	static const char *const number[] = {
		"9223372036854775808",
		"9223372036854775808L",
		"-9223372036854775809",
		"-9223372036854775809LL",
		"18446744073709551616",
		"99999999999999999999999",
		"99999999999999999999999L",
		"0x8000000000000000",
		"0xffffffffffffffffL",
		"0x10000000000000000",
		"0x1ffffffffffffffffffffffffffffL",
	};
	char want[512];

	for (size_t i = 0; i < ROWS(number); i++) {
		cr_expect_eq(parse_memory(number[i]), -EINVAL, "%s", number[i]);
		snprintf(want, sizeof want,
			 "f:4: the number %s does not fit: expected -9223372036854775808 to "
			 "9223372036854775807\n",
			 number[i]);
		cr_expect_str_eq(reports, want, "%s%s", reports, want);
	}
	cr_expect_eq(parse_memory("-9223372036854775808"), -EINVAL);
	cr_expect_str_eq(reports, "f:4: memory.host: is -9223372036854775808, expected 0 to "
				  "9223372036854775807\n");
}

Test(config_numbers, floating_point_numbers_are_exact_or_refused)
{
	static const struct {
		const char *text, *want;
	} row[] = {
		{ "1e999", "f:4: the number 1e999 is too large: expected at most 1.8e308\n" },
		{ "-1.5e309", "f:4: the number -1.5e309 is too large: expected at most 1.8e308\n" },
		{ "1e-999", "f:4: the number 1e-999 is too small: expected 0, or at least "
			    "2.2e-308\n" },
		{ "4e-320", "f:4: the number 4e-320 is too small: expected 0, or at least "
			    "2.2e-308\n" },
		{ "9007199254740993.0", "f:4: the number 9007199254740993.0 is not exact: it would "
					"become 9007199254740992\n" },
		{ ".", "f:4: '.' is not a number: expected digits\n" },
		{ "-.e5", "f:4: '-.e5' is not a number: expected digits\n" },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		cr_expect_eq(parse_memory(row[i].text), -EINVAL, "%s", row[i].text);
		cr_expect_str_eq(reports, row[i].want, "%s%s", reports, row[i].want);
	}
}

/* Numbers beyond 2^53 that are exact, in all forms: only the type of the key is wrong. */
Test(config_numbers, exact_numbers_are_accepted_in_each_form)
{
	static const char *const text[] = { "9007199254740992.0",    "9007199254740994.",
					    "+9007199254740994.00",  "-9007199254740994.0",
					    "0009007199254740994.0", "-0009007199254740996.000",
					    "9.007199254740994e15" };

	for (size_t i = 0; i < ROWS(text); i++) {
		cr_expect_eq(parse_memory(text[i]), -EINVAL, "%s", text[i]);
		cr_expect_null(strstr(reports, "is not exact"), "%s: %s", text[i], reports);
		cr_expect_not_null(strstr(reports, "memory"), "%s: %s", text[i], reports);
	}
	cr_expect_eq(parse_memory("-9007199254740993.0"), -EINVAL);
	cr_expect_str_eq(reports,
			 "f:4: the number -9007199254740993.0 is not exact: it would become "
			 "-9007199254740992\n",
			 "%s", reports);
	cr_expect_eq(parse_memory("9007199254740992.5"), -EINVAL);
	cr_expect_not_null(strstr(reports, "is not exact"), "%s", reports);
}

/* A digit is part of a number only where the parser reads a number. */
Test(config_numbers, names_strings_and_comments_hide_digits)
{
	cr_expect_eq(parse("# 99999999999999999999\n// 1e999\n/* 99999999999999999999\n*/\n" HEAD
			   "appliance = { name = \"99999999999999999999 \\\" 1e999\"; };\n"),
		     0, "%s", reports);
	cr_expect_str_eq(config.name, "99999999999999999999 \" 1e999");
	cr_expect_eq(parse(HEAD "a99999999999999999999 = 1;\n"), -EINVAL);
	cr_expect_not_null(strstr(reports, "f:3: a99999999999999999999: unknown key"), "%s",
			   reports);
	cr_expect_eq(parse(HEAD "a-99999999999999999999_1 = 1;\n"), -EINVAL);
	cr_expect_null(strstr(reports, "does not fit"), "%s", reports);
}

/* For every key with an integer: 2^32 + the least value must not become that value. */
Test(config_numbers, no_key_accepts_a_number_that_would_wrap)
{
	static const struct {
		const char *text, *want;
	} row[] = {
		{ "ssds = ( { name = \"a\"; device = \"soft:a\"; namespace = 4294967297; } );\n"
		  "gpus = ( { name = \"g\"; device = \"host:1\"; } );\n",
		  "f:1: ssds[0].namespace: is 4294967297, expected an integer from 1 to "
		  "4294967294\n" },
		{ "ssds = ( { name = \"a\"; device = \"soft:a\"; queue_entries = 4294967552; } );\n"
		  "gpus = ( { name = \"g\"; device = \"host:1\"; } );\n",
		  "f:1: ssds[0].queue_entries: is 4294967552, expected an integer from 2 to "
		  "4096\n" },
		{ "ssds = ( { name = \"a\"; device = \"soft:a\"; timeout_ms = 0x1000003e8; } );\n"
		  "gpus = ( { name = \"g\"; device = \"host:1\"; } );\n",
		  "f:1: ssds[0].timeout_ms: is 4294968296, expected an integer from 1 to "
		  "600000\n" },
		{ HEAD "boot = { restarts = 4294967299; };\n",
		  "f:3: boot.restarts: is 4294967299, expected an integer from 0 to 1000000\n" },
		{ HEAD "memory = { gpu = \"99999999999999999999999\"; };\n",
		  "f:3: memory.gpu: '99999999999999999999999' is too large, expected at most "
		  "9223372036854775807\n" },
		{ HEAD "appliance = { checkpoint = \"99999999999999999999999s\"; };\n",
		  "f:3: appliance.checkpoint: '99999999999999999999999s' is too large, expected "
		  "at most 292 years\n" },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		cr_expect_eq(parse(row[i].text), -EINVAL, "row %zu", i);
		cr_expect_str_eq(reports, row[i].want, "%s%s", reports, row[i].want);
	}
	cr_expect_eq(
		parse("ssds = ( { name = \"a\"; device = \"soft:a\"; namespace = 4294967294; } );\n"
		      "gpus = ( { name = \"g\"; device = \"host:1\"; } );\n"),
		0, "%s", reports);
	cr_expect_eq(config.ssd[0].nsid, 4294967294u);
}

#define PIPE(op, args)                                                                             \
	HEAD "pipelines = ( { name = \"p\"; operator = \"" op "\"; source = (\n"                   \
	     "{ object = \"a\"; }, { object = \"b\"; }, { object = \"c\"; }, { object = \"d\"; } " \
	     ");\n"                                                                                \
	     "args = {\n" args "}; } );\n"
#define FILTER(below)                                                  \
	PIPE("filter_sum", "shipdate_from = 0; shipdate_before = 1;\n" \
			   "discount_from = 0; discount_to = 0x64;\n"  \
			   "quantity_below = " below ";")

Test(config_numbers, operators_take_exact_integers)
{
	const struct hr_filter_args *filter =
		(const struct hr_filter_args *)(const void *)config.pipeline[0].op_args;

	cr_expect_eq(parse(FILTER("2147483647")), 0, "%s", reports);
	cr_expect_eq(filter->quantity_below, 2147483647);
	cr_expect_eq(filter->discount_to, 100);
	cr_expect_eq(parse(FILTER("2147483648")), -EINVAL);
	cr_expect_not_null(strstr(reports, "f:8: pipelines[0].args: quantity_below: 2147483648 is "
					   "outside of -2147483648..2147483647\n"),
			   "%s", reports);
	cr_expect_eq(parse(FILTER("4294967297")), -EINVAL);
	cr_expect_eq(parse(FILTER("99999999999999999999999")), -EINVAL);
	cr_expect_not_null(strstr(reports, "f:8: the number 9"), "%s", reports);
}

#define TOPK(query)                                                                               \
	HEAD "pipelines = ( { name = \"p\"; operator = \"topk_dot\"; source = { object = \"m\"; " \
	     "};\n"                                                                               \
	     "args = { k = 1;\nquery = [" query "]; }; } );\n"

Test(config_numbers, operators_take_exact_floats)
{
	static const struct {
		const char *text, *want;
	} row[] = {
		{ TOPK("1, 9007199254740993"),
		  "f:5: pipelines[0].args.query[1]: 9007199254740993 is not exact as a floating "
		  "point number: it would become 9007199254740992\n" },
		{ TOPK("16777216, 16777217"),
		  "f:5: pipelines[0].args: query[1]: 16777217 is not exact as f32: it would become "
		  "16777216\n" },
		{ TOPK("1.0, 16777217.0"),
		  "f:5: pipelines[0].args: query[1]: 16777217 is not exact as f32: it would become "
		  "16777216\n" },
		{ TOPK("1.0, 1e39"),
		  "f:5: pipelines[0].args: query[1]: 1e+39 is not a finite f32\n" },
		{ TOPK("1.0, 1e-50"),
		  "f:5: pipelines[0].args: query[1]: 1e-50 is too small for f32\n" },
	};
	const struct hr_topk_args *topk =
		(const struct hr_topk_args *)(const void *)config.pipeline[0].op_args;

	for (size_t i = 0; i < ROWS(row); i++) {
		cr_expect_eq(parse(row[i].text), -EINVAL, "row %zu", i);
		cr_expect_str_eq(reports, row[i].want, "%s%s", reports, row[i].want);
	}
	cr_expect_eq(parse(TOPK("16777216, 4294967296, -1, 0x100000000, 10000000000")), 0, "%s",
		     reports);
	cr_expect_eq(topk->query[0], 16777216.0f);
	cr_expect_eq(topk->query[1], 4294967296.0f);
	cr_expect_eq(topk->query[2], -1.0f);
	cr_expect_eq(topk->query[3], 4294967296.0f);
	cr_expect_eq(parse(TOPK("0.1, 3.25, -1e3, .5, 2., 1e-40")), 0, "%s", reports);
	cr_expect_eq(topk->query[0], 0.1f);
	cr_expect_eq(topk->query[2], -1000.0f);
}
