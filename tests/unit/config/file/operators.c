/* SPDX-License-Identifier: Apache-2.0 */
/* Settings of a configuration for user operators. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "boot/engine/devices/devices.h"
#include "config/config.h"
#include "config/file/file.h"
#include "config/tile.h"
#include "gpu/ops/operators.h"
#include "tests/harness/error.h"

#define ROWS(table) (sizeof(table) / sizeof(*(table)))

TestSuite(op_config, .timeout = 60);

static struct hr_config config;
static char reports[1 << 14];

static int parse_as(const char *file, const char *text)
{
	const int err =
		hr_config_parse(&config, &hr_lookup, file, text, strlen(text), test_error());

	test_error_lines(reports, sizeof reports);
	return err;
}

static int parse(const char *text)
{
	return parse_as(TEST_OPS "/f", text);
}

#define HEAD                                                       \
	"ssds = ( { name = \"a\"; device = \"soft:a.img\"; } );\n" \
	"gpus = ( { name = \"g\"; device = \"host:1\"; } );\n"
#define LIAR HEAD "operators = (\n{ name = \"liar\"; file = \"liar.op\"; } );\n"
#define PIPE(text)                                                            \
	"pipelines = ( { name = \"p\"; source = { object = \"in\"; };\n" text \
	"sink = { object = \"out\"; }; } );\n"
#define LIE(text) LIAR PIPE("operator = \"liar\"; args = { lie = \"" text "\"; };\n")

Test(op_config, an_operator_is_loaded_and_used)
{
	const struct hr_config_pipeline *p = &config.pipeline[0];

	cr_assert_eq(parse(LIE("none")), 0, "%s", reports);
	cr_assert_eq(config.ops, 1u);
	cr_expect_str_eq(config.op[0].name, "liar");
	cr_expect_str_eq(config.op[0].file, TEST_OPS "/liar.op");
	cr_expect_eq(config.op[0].line, 4u);
	cr_expect_eq(p->op, config.op[0].op);
	cr_expect_str_eq(p->op->name, "liar");
	cr_expect_eq(p->op_args_bytes, 4u);
	cr_expect_eq(hr_config_sink_tile_bytes(p), p->tile_bytes);
}

Test(op_config, files_are_named_from_the_folder_of_the_configuration)
{
	char absolute[2048], here[1024];

	cr_assert_not_null(getcwd(here, sizeof here));
	snprintf(absolute, sizeof absolute,
		 HEAD "operators = ( { name = \"liar\"; file = \"%s/%s/liar.op\"; } );", here,
		 TEST_OPS);
	cr_expect_eq(parse_as("/nowhere/f", absolute), 0, "%s", reports);
	cr_expect_eq(parse_as("f", HEAD "operators = ( { name = \"liar\";\n"
					"file = \"" TEST_OPS "/liar.op\"; } );"),
		     0, "%s", reports);
	cr_assert_eq(chdir(TEST_OPS), 0);
	cr_expect_eq(parse_as("f", LIAR), 0, "%s", reports);
	cr_expect_eq(parse_as("/nowhere/f", LIAR), -EINVAL);
	cr_expect_str_eq(reports,
			 "/nowhere/f:4: operators[0].file: '/nowhere/liar.op' cannot be "
			 "opened: No such file or directory\n",
			 "%s", reports);
}

static const struct {
	const char *text, *want;
} mistake[] = {
	{ HEAD "operators = 5;",
	  "3: operators: is an integer, expected a list of groups ( { ... } )\n" },
	{ HEAD "operators = (\n{ name = \"x\"; } );",
	  "4: operators[0]: key 'file' is missing; expected for example: file = "
	  "\"histogram.op\";\n" },
	{ HEAD "operators = (\n{ file = \"liar.op\"; } );",
	  "4: operators[0]: key 'name' is missing; expected for example: name = \"histogram\";\n" },
	{ HEAD "operators = (\n{ name = \"x\";\nfile = \"none.op\"; } );",
	  "5: operators[0].file: '" TEST_OPS "/none.op' cannot be opened: No such file or "
	  "directory\n" },
	{ HEAD "operators = (\n{ name = \"x\";\nfile = \".\"; } );",
	  "5: operators[0].file: '" TEST_OPS "/.' is a folder, expected a file\n" },
	{ HEAD "operators = (\n{ file = \"liar.op\";\nname = \"liat\"; } );",
	  "5: operators[0].name: is 'liat', but the operator in '" TEST_OPS
	  "/liar.op' is called 'liar'\n" },
	{ HEAD "operators = (\n{ file = \"liar.op\";\nname = \"copy\"; } );",
	  "5: operators[0].name: 'copy' is the name of a built-in operator, expected another\n" },
	{ HEAD "operators = ( { name = \"liar\"; file = \"liar.op\"; },\n"
	       "{ name = \"liar\"; file = \"liar.op\"; } );",
	  "4: operators[1].name: 'liar' is already the name of operators[0] on line 3\n" },
	{ HEAD "operators = ( { name = \"liar\"; file = \"liar.op\"; },\n"
	       "{ name = \"x\"; file = \"none.op\"; } );",
	  "4: operators[1].file: '" TEST_OPS "/none.op' cannot be opened: No such file or "
	  "directory\n" },
	/* A mistake in an operator is reported once, not at each use. */
	{ HEAD
	  "operators = (\n{ name = \"x\"; file = \"none.op\"; } );\n" PIPE("operator = \"x\";\n"),
	  "4: operators[0].file: '" TEST_OPS "/none.op' cannot be opened: No such file or "
	  "directory\n" },
	{ LIAR PIPE("operator = \"lair\";\n"),
	  "6: pipelines[0].operator: there is no operator 'lair'; did you mean 'liar'?\n" },
	{ LIAR PIPE("operator = \"truth\";\n"),
	  "6: pipelines[0].operator: there is no operator 'truth'; expected one of: copy, crc32c, "
	  "cast_f32_bf16, filter_sum, topk_dot, chase, gather, join, bfs, liar\n" },
	{ LIAR PIPE("operator = \"liar\";\n"),
	  "5: pipelines[0].args: argument 'lie' is missing\n" },
	{ LIE("what"), "6: pipelines[0].args: lie: there is no 'what'\n" },
	{ LIE("silent"), "6: pipelines[0].args: operator liar does not accept them\n" },
	{ LIE("args"),
	  "6: pipelines[0].args: operator liar stores them in 8201 bytes, expected at most 8200\n" },
	{ LIE("row none"),
	  "6: pipelines[0].operator: liar has rows of 0 bytes in source 0, expected 1 to "
	  "67108864\n" },
	{ LIE("row long"),
	  "6: pipelines[0].operator: liar has rows of 67108865 bytes in source 0, expected 1 to "
	  "67108864\n" },
	{ LIE("state long"),
	  "6: pipelines[0].operator: liar has a state of 16777224 bytes, expected at most 16777216 "
	  "and a multiple of 8\n" },
	{ LIE("state odd"),
	  "6: pipelines[0].operator: liar has a state of 12 bytes, expected at most 16777216 and a "
	  "multiple of 8\n" },
};

Test(op_config, each_mistake_is_reported_with_line_and_expected_value)
{
	char want[1024];

	for (size_t i = 0; i < ROWS(mistake); i++) {
		const int err = parse(mistake[i].text);

		cr_expect_eq(err, -EINVAL, "row %zu: %d", i, err);
		snprintf(want, sizeof want, TEST_OPS "/f:%s", mistake[i].want);
		cr_expect_str_eq(reports, want, "row %zu:\n%s%s", i, reports, want);
	}
}

Test(op_config, a_path_longer_than_any_is_refused)
{
	static char text[4096];
	char name[HR_FILE_MAX];

	memset(name, 'x', sizeof name);
	name[sizeof name - 1] = '\0';
	snprintf(text, sizeof text, HEAD "operators = ( { name = \"x\"; file = \"%s\"; } );", name);
	cr_expect_eq(parse(text), -EINVAL);
	cr_expect(strstr(reports, "is too long a path") != NULL, "%s", reports);
}

Test(op_config, forgotten_operators_are_loaded_again)
{
	const struct hr_operator *op;

	cr_assert_eq(parse(LIE("none")), 0, "%s", reports);
	op = config.op[0].op;
	hr_config_operators_forget(&config);
	cr_expect_null(config.op[0].op);
	cr_expect_null(config.pipeline[0].op);
	cr_assert_eq(hr_config_operators_load(&config, test_error()), 0, "%s", test_error_text());
	cr_expect_eq(config.op[0].op, op);
	cr_expect_eq(config.pipeline[0].op, op);
}

Test(op_config, a_changed_file_is_refused)
{

	cr_assert_eq(parse(LIE("none")), 0, "%s", reports);
	hr_config_operators_forget(&config);
	config.op[0].checksum ^= 1;
	cr_expect_eq(hr_config_operators_load(&config, test_error()), -EINVAL);
	cr_expect_str_eq(test_error_text(),
			 TEST_OPS "/f:4: operator 'liar': '" TEST_OPS "/liar.op' has changed since "
				  "the configuration was read");
	strcpy(config.op[0].file, TEST_OPS "/none.op");
	cr_expect_eq(hr_config_operators_load(&config, test_error()), -ENOENT);
	cr_expect(strstr(test_error_text(), "operator 'liar'"), "%s", test_error_text());
	cr_expect_null(config.pipeline[0].op);
}

Test(op_config, a_built_in_operator_is_not_forgotten)
{
	cr_assert_eq(parse(HEAD PIPE("operator = \"copy\";\n")), 0, "%s", reports);
	hr_config_operators_forget(&config);
	cr_expect_eq(config.pipeline[0].op, hr_op_get(HR_OP_copy));
}
