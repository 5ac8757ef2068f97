/* SPDX-License-Identifier: Apache-2.0 */
/* Pipelines that start each other in a cycle: `after`, `on = "object NAME"`, and both. */
#include "config/file/keys.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "boot/engine/devices/devices.h"
#include "config/config.h"
#include "config/file/file.h"
#include "tests/harness/error.h"

TestSuite(cycles, .timeout = 60);

static struct hr_config config;
static char reports[2 * HR_ERROR_BYTES];
static unsigned count;

/* Pipelines a, b and c, each a copy, on lines 3 to 5: object that is read, sink, and more keys. */
struct copy {
	const char *source, *sink, *keys;
};

static int parse(const struct copy p[3])
{
	char text[2048];
	int n = snprintf(text, sizeof text,
			 "ssds = ( { name = \"s\"; device = \"soft:s.img\"; } );\n"
			 "gpus = ( { name = \"g\"; device = \"host:1\"; } ); pipelines = (");

	for (int i = 0; i < 3; i++)
		n += snprintf(text + n, sizeof text - (size_t)n,
			      "%s\n{ name = \"%c\"; operator = \"copy\"; source = { object = "
			      "\"%s\"; }; sink = { object = \"%s\"; keep = 2; }; %s }",
			      i ? "," : "", 'a' + i, p[i].source, p[i].sink, p[i].keys);
	n += snprintf(text + n, sizeof text - (size_t)n, ");\n");

	const int err = hr_config_parse(&config, &hr_lookup, "f", text, (size_t)n, test_error());

	count = test_error_lines(reports, sizeof reports);
	return err;
}

Test(cycles, each_is_one_line_with_its_pipelines_and_objects)
{
	static const struct {
		struct copy p[3];
		const char *want;
	} row[] = {
		{ { { "y", "x", "on = \"object y\";" },
		    { "x", "y", "on = \"object x\";" },
		    { "i", "z", "every = \"1h\";" } },
		  "f:3: pipelines[0].on: a cycle of pipelines would run without end: 'a' on object "
		  "'y' of 'b' on object 'x' of 'a'" },
		{ { { "x", "y", "on = \"object x\";" },
		    { "y", "x", "on = \"object y\";" },
		    { "i", "z", "" } },
		  "f:3: pipelines[0].on: a cycle of pipelines would run without end: 'a' on object "
		  "'x' of 'b' on object 'y' of 'a'" },
		{ { { "y", "x", "on = \"object y\";" },
		    { "i", "y", "after = \"a\";" },
		    { "i", "z", "" } },
		  "f:3: pipelines[0].on: a cycle of pipelines would run without end: 'a' on object "
		  "'y' of 'b' after 'a'" },
		{ { { "i", "x", "after = \"b\";" },
		    { "x", "y", "on = \"object x\";" },
		    { "i", "z", "" } },
		  "f:3: pipelines[0].after: a cycle of pipelines would run without end: 'a' after "
		  "'b' on object 'x' of 'a'" },
		{ { { "i", "z", "forever = true;" },
		    { "i", "x", "after = \"c\";" },
		    { "x", "y", "on = \"object x\";" } },
		  "f:4: pipelines[1].after: a cycle of pipelines would run without end: 'b' after "
		  "'c' on object 'x' of 'b'" },
		{ { { "z", "x", "on = \"object z\";" },
		    { "i", "y", "after = \"a\";" },
		    { "y", "z", "on = \"object y\";" } },
		  "f:3: pipelines[0].on: a cycle of pipelines would run without end: 'a' on object "
		  "'z' of 'c' on object 'y' of 'b' after 'a'" },
		/* the version before becomes a new version of x.1 with each start */
		{ { { "x.1", "x", "on = \"object x.1\";" }, { "i", "y", "" }, { "i", "z", "" } },
		  "f:3: pipelines[0].on: a cycle of pipelines would run without end: 'a' on object "
		  "'x.1' of 'a'" },
		{ { { "i", "z", "after = \"b\";" },
		    { "i", "x", "after = \"c\";" },
		    { "i", "y", "after = \"a\";" } },
		  "f:3: pipelines[0].after: no pipeline of a cycle would ever start: 'a' after 'b' "
		  "after 'c' after 'a'" },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		cr_expect_neq(parse(row[i].p), 0, "row %zu", i);
		cr_expect_eq(count, 1u, "row %zu: %s", i, reports);
		cr_expect_not_null(strstr(reports, row[i].want), "row %zu: %s", i, reports);
	}
}

Test(cycles, a_pipeline_that_reads_its_own_sink_is_told_so)
{
	static const struct copy p[3] = { { "x", "x", "on = \"object x\";" },
					  { "i", "y", "" },
					  { "i", "z", "" } };

	cr_expect_neq(parse(p), 0);
	cr_expect_not_null(strstr(reports, "pipelines[0].sink: object 'x' is also a source"), "%s",
			   reports);
	cr_expect_not_null(strstr(reports, "'a' on object 'x' of 'a'"), "%s", reports);
}

Test(cycles, two_cycles_are_two_lines)
{
	static const struct copy p[3] = { { "x.1", "x", "on = \"object x.1\";" },
					  { "z", "y", "on = \"object z\";" },
					  { "y", "z", "on = \"object y\";" } };

	cr_expect_neq(parse(p), 0);
	cr_expect_eq(count, 2u, "%s", reports);
	cr_expect_not_null(strstr(reports, "f:3: pipelines[0].on"), "%s", reports);
	cr_expect_not_null(strstr(reports, "f:4: pipelines[1].on"), "%s", reports);
}

Test(cycles, a_chain_that_ends_or_waits_for_another_start_is_none)
{
	static const struct copy row[][3] = {
		/* a and b read what the other one makes, and only one of them starts by that */
		{ { "y", "x", "every = \"1h\";" },
		  { "x", "y", "on = \"object x\";" },
		  { "i", "z", "" } },
		{ { "y", "x", "on = \"request\";" },
		  { "x", "y", "on = \"object x\";" },
		  { "i", "z", "" } },
		{ { "y", "x", "forever = true;" },
		  { "x", "y", "on = \"object x\";" },
		  { "x", "z", "after = \"b\";" } },
		/* a chain, and a pipeline with an older version that is not kept */
		{ { "i", "x", "on = \"object i\";" },
		  { "x", "y", "on = \"object x\";" },
		  { "y", "z", "after = \"b\";" } },
		{ { "x.2", "x", "on = \"object x.2\";" }, { "i", "y", "" }, { "i", "z", "" } },
		{ { "i", "x", "on = \"object i\";" },
		  { "i", "y", "on = \"object i\";" },
		  { "x", "z", "on = \"object x\";" } },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++)
		cr_expect_eq(parse(row[i]), 0, "row %zu: %s", i, reports);
}

Test(cycles, objects_of_one_name_on_two_ssds_are_two_objects)
{
	static const char text[] =
		"ssds = ( { name = \"s\"; device = \"soft:s.img\"; }, { name = \"t\"; device = "
		"\"soft:t.img\"; } );\n"
		"gpus = ( { name = \"g\"; device = \"host:1\"; } ); pipelines = (\n"
		"{ name = \"a\"; operator = \"copy\"; source = { ssd = \"s\"; object = \"x\"; }; "
		"sink = { ssd = \"t\"; object = \"x\"; replace = true; }; on = \"object x\"; },\n"
		"{ name = \"b\"; operator = \"copy\"; source = { ssd = \"s\"; object = \"x\"; }; "
		"sink = { ssd = \"t\"; object = \"y\"; replace = true; }; on = \"object x\"; });\n";

	cr_expect_eq(hr_config_parse(&config, &hr_lookup, "f", text, sizeof text - 1, test_error()),
		     0);
	test_error_lines(reports, sizeof reports);
}

/* All names have the full length: the line is cut, and the first names are in it. */
Test(cycles, a_long_cycle_is_one_line)
{
	char text[16384];
	char name[64];
	int n = snprintf(text, sizeof text,
			 "ssds = ( { name = \"s\"; device = \"soft:s.img\"; } );\n"
			 "gpus = ( { name = \"g\"; device = \"host:1\"; } ); pipelines = (");

	for (int i = 0; i < 16; i++) {
		snprintf(name, sizeof name, "%02d%058d", (i + 15) % 16, 0);
		n += snprintf(text + n, sizeof text - (size_t)n,
			      "%s\n{ name = \"%02d%058d\"; operator = \"copy\"; source = { object "
			      "= \"%s\"; }; sink = { object = \"%02d%058d\"; replace = true; }; "
			      "on = \"object %s\"; }",
			      i ? "," : "", i, 0, name, i, 0, name);
	}
	n += snprintf(text + n, sizeof text - (size_t)n, ");\n");
	cr_expect_neq(hr_config_parse(&config, &hr_lookup, "f", text, (size_t)n, test_error()), 0);
	cr_expect_eq(test_error_lines(reports, sizeof reports), 1u, "%s", reports);
	cr_expect_not_null(strstr(reports, "f:3: pipelines[0].on: a cycle of pipelines would"),
			   "%s", reports);
	cr_expect_not_null(strstr(reports, "'00000"), "%s", reports);
	cr_expect_not_null(strstr(reports, "..."), "%s", reports);
}
