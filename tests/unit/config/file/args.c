/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arguments of an operator: each value as the operator gets it, what a call returns, and the sizes
 * that the operator computes from them, at each limit and above it.
 */
#include "config/file/keys.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "config/config.h"
#include "config/file/file.h"
#include "config/file/group.h"
#include "tests/harness/error.h"

#define ROWS(table) (sizeof(table) / sizeof(*(table)))

static config_t file;
static struct hr_mistakes mistakes;
static struct hr_config_pipeline pipeline;
static struct hr_operator op;
static struct hr_op_object object[3];
static char seen[1024];
static int result; /* of the operator's parse() */
static const char *said;
static unsigned said_line;
static uint32_t row[4], state;

static int parse(const struct hr_op_arg *arg, uint32_t count, void *args,
		 void (*complain)(void *to, unsigned line, const char *text), void *to)
{
	int at = 0;

	cr_assert_eq(args, pipeline.op_args);
	for (uint32_t i = 0; i < count; i++, arg++) {
		at += sprintf(seen + at, "%s%s@%u", i ? " " : "", arg->name, arg->line);
		if (arg->type == HR_ARG_INT)
			at += sprintf(seen + at, "=%lld", (long long)arg->integer);
		else if (arg->type == HR_ARG_FLOAT)
			at += sprintf(seen + at, "=%gf", arg->real);
		else if (arg->type == HR_ARG_STRING)
			at += sprintf(seen + at, "='%s'", arg->string);
		for (uint32_t k = 0; arg->type == HR_ARG_FLOATS && k < arg->count; k++)
			at += sprintf(seen + at, ",%.17g", arg->reals[k]);
	}
	if (said)
		complain(to, said_line, said);
	return result;
}

static uint32_t row_bytes(const void *args, uint32_t source)
{
	cr_assert_eq(args, pipeline.op_args);
	return row[source];
}

static uint32_t state_bytes(const void *args)
{
	cr_assert_eq(args, pipeline.op_args);
	return state;
}

static void begin(void)
{
	config_init(&file);
	memset(&op, 0, sizeof op);
	memset(&pipeline, 0, sizeof pipeline);
	op.name = "fake";
	op.parse = parse;
	op.row_bytes = row_bytes;
	op.state_bytes = state_bytes;
	op.sources_max = 2;
	op.object = object;
	pipeline.op = &op;
	pipeline.sources = 1;
	row[0] = row[1] = row[2] = row[3] = 1;
	result = 8;
	state = 0;
	said = NULL;
}

static void end(void)
{
	config_destroy(&file);
}

TestSuite(config_args, .init = begin, .fini = end, .timeout = 60);

/* Read the arguments of pipeline "p" from this text. */
static bool read_args(const char *text)
{
	struct hr_group group = { .mistakes = &mistakes, .path = "p" };

	cr_assert(config_read_string(&file, text), "%s", text);
	memset(&mistakes, 0, sizeof mistakes);
	strcpy(seen, "none");
	pipeline.op_args_bytes = 77;
	group.setting = config_root_setting(&file);
	return hr_config_args_read(&pipeline, &group);
}

static const char *reported(void)
{
	static char lines[2 * HR_ERROR_BYTES];

	mistakes.file = "f";
	test_error();
	hr_mistakes_report(&mistakes, &test_error_last);
	test_error_lines(lines, sizeof lines);
	return lines;
}

Test(config_args, an_operator_gets_each_value_with_its_line)
{
	static const struct {
		const char *text, *seen, *report;
	} table[] = {
		{ "x = 1;", "none", "" },
		{ "args = { };", "none", "" },
		{ "args = { a = 7; b = -8L; };", "a@1=7 b@1=-8", "" },
		{ "args = { a = 9223372036854775807L; };", "a@1=9223372036854775807", "" },
		{ "args = {\na = 1.5;\nb = \"x y\"; };", "a@2=1.5f b@3='x y'", "" },
		{ "args = { a = [ 1, 2 ]; b = [ 1.5 ]; c = [ ]; d = 3; e = ( 4, 5.5 ); };",
		  "a@1,1,2 b@1,1.5 c@1 d@1=3 e@1,4,5.5", "" },
		{ "args = { a = [ 9007199254740992L, -9007199254740992L ]; };",
		  "a@1,9007199254740992,-9007199254740992", "" },
		{ "args = { a = true; };", "none",
		  "f:1: p.args.a: expected a number, a string, or an array of numbers\n" },
		{ "args = { a = 1;\nb = { };\nc = [ true ];\nd = ( 1, \"x\" ); };", "none",
		  "f:2: p.args.b: expected a number, a string, or an array of numbers\n"
		  "f:3: p.args.c: expected a number, a string, or an array of numbers\n"
		  "f:4: p.args.d: expected a number, a string, or an array of numbers\n" },
		{ "args = { a = [ 9007199254740993L ];\nb = [ 1L,\n-9007199254740993L ]; };",
		  "none",
		  "f:1: p.args.a[0]: 9007199254740993 is not exact as a floating point number: it "
		  "would become 9007199254740992\n"
		  "f:3: p.args.b[1]: -9007199254740993 is not exact as a floating point number: it "
		  "would become -9007199254740992\n" },
		{ "args = { a = [ 9223372036854775807L ]; };", "none",
		  "f:1: p.args.a[0]: 9223372036854775807 is not exact as a floating point number: "
		  "it would become 9223372036854775808\n" },
	};

	for (size_t i = 0; i < ROWS(table); i++) {
		const bool good = !*table[i].report;
		const bool some = strcmp(table[i].seen, "none") != 0;

		cr_expect_eq(read_args(table[i].text), good, "row %zu", i);
		cr_expect_str_eq(seen, some || !good ? table[i].seen : "none", "row %zu: %s", i,
				 seen);
		cr_expect_str_eq(reported(), table[i].report, "row %zu: %s", i, reported());
		cr_expect_eq(pipeline.op_args_bytes, good ? 8u : 77u, "row %zu", i);
	}
	cr_expect_not(read_args("args = 5;"), "reported with the types of keys");
	cr_expect_str_eq(reported(), "");
	cr_expect_eq(pipeline.op_args_bytes, 77u);
}

Test(config_args, the_operators_mistakes_have_a_line)
{
	said = "b: is wrong";
	said_line = 9;
	result = -EINVAL;
	cr_expect_not(read_args("args = {\na = 1; };"));
	cr_expect_str_eq(reported(), "f:9: p.args: b: is wrong\n");
	said_line = 0;
	cr_expect_not(read_args("\nargs = {\na = 1; };"));
	cr_expect_not_null(strstr(reported(), ": p.args: b: is wrong\n"));
	cr_expect_eq(mistakes.list[0].line, 2u, "that of the group");
	said = NULL;
	cr_expect_not(read_args("args = { a = 1; };"));
	cr_expect_str_eq(reported(), "f:1: p.args: operator fake does not accept them\n");
	result = HR_OP_ARGS_MAX;
	cr_expect(read_args("args = { a = 1; };"));
	cr_expect_eq(pipeline.op_args_bytes, HR_OP_ARGS_MAX);
	result = HR_OP_ARGS_MAX + 1;
	cr_expect_not(read_args("args = { a = 1; };"));
	cr_expect_str_eq(reported(), "f:1: p.args: operator fake stores them in 8201 bytes, "
				     "expected at most 8200\n");
	result = 0;
	cr_expect(read_args("args = { a = 1; };"));
	cr_expect_eq(pipeline.op_args_bytes, 0u);
}

Test(config_args, an_operator_without_arguments_refuses_each)
{
	op.parse = NULL;
	cr_expect(read_args("args = { };"));
	cr_expect(read_args("x = 1;"));
	cr_expect_eq(pipeline.op_args_bytes, 0u);
	cr_expect_not(read_args("args = { a = 1;\nb = 2; };"));
	cr_expect_str_eq(reported(), "f:1: p.args: there is no argument 'a'; expected none\n"
				     "f:2: p.args: there is no argument 'b'; expected none\n");
	cr_expect_eq(hr_op_parse(&op, NULL, 0, NULL, NULL, NULL), 0);
}

#define LONG HR_TILE_MAX

Test(config_args, sizes_of_rows_and_states_have_limits)
{
	static const struct {
		uint32_t sources, row[3], objects, columns[3], state;
		const char *report;
	} table[] = {
		{ 2, { 1, LONG, 0 }, 0, { 0 }, 0, "" },
		{ 1, { 1, 0, 0 }, 0, { 0 }, 0, "" },
		{ 3, { 1, 1, 0 }, 0, { 0 }, 0, "" }, /* more than the operator takes */
		{ 2,
		  { 1, 0, 1 },
		  0,
		  { 0 },
		  0,
		  "operator: fake has rows of 0 bytes in source 1, expected 1 to 67108864\n" },
		{ 2,
		  { LONG + 1, 0, 1 },
		  0,
		  { 0 },
		  0,
		  "operator: fake has rows of 67108865 bytes in source 0, expected 1 to "
		  "67108864\n" },
		{ 0, { 1, LONG, 0 }, 2, { 1, 1, 1 }, 0, "" },
		{ 0, { 0, 1, 0 }, 2, { 0, 1, 1 }, 0, "" },
		{ 0,
		  { 1, 0, 0 },
		  2,
		  { 1, 1, 1 },
		  0,
		  "operator: fake has rows of 0 bytes in object 'o1', expected 1 to 67108864\n" },
		{ 0,
		  { 1, LONG + 1, 0 },
		  2,
		  { 1, 1, 1 },
		  0,
		  "operator: fake has rows of 67108865 bytes in object 'o1', expected 1 to "
		  "67108864\n" },
		{ 1, { 1 }, 0, { 0 }, 8, "" },
		{ 1, { 1 }, 0, { 0 }, HR_OP_STATE_MAX, "" },
		{ 1,
		  { 1 },
		  0,
		  { 0 },
		  9,
		  "operator: fake has a state of 9 bytes, expected at most 16777216 and a "
		  "multiple of 8\n" },
		{ 1,
		  { 1 },
		  0,
		  { 0 },
		  HR_OP_STATE_MAX + 8,
		  "operator: fake has a state of 16777224 bytes, expected at most 16777216 and a "
		  "multiple of 8\n" },
	};

	for (size_t i = 0; i < ROWS(table); i++) {
		const char *report;

		pipeline.sources = table[i].sources;
		pipeline.objects = table[i].objects;
		state = table[i].state;
		memcpy(row, table[i].row, sizeof table[i].row);
		for (uint32_t k = 0; k < 3; k++) {
			static const char *const name[] = { "o0", "o1", "o2" };

			object[k].name = name[k];
			object[k].columns = table[i].columns[k];
		}
		cr_expect_eq(read_args("operator = \"fake\";"), !*table[i].report, "row %zu", i);
		report = reported();
		cr_expect_str_eq(*report ? report + strlen("f:1: p.") : "", table[i].report,
				 "row %zu: %s", i, report);
	}
}
