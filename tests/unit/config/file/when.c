/* SPDX-License-Identifier: Apache-2.0 */
/* The keys that say when a pipeline starts: values, combinations, names, cycles. */
#include "config/file/keys.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "boot/engine/devices/devices.h"
#include "config/config.h"
#include "config/file/file.h"
#include "config/derived.h"
#include "tests/harness/error.h"

TestSuite(when, .timeout = 60);

static struct hr_config config;
static char reports[2 * HR_ERROR_BYTES];
static unsigned count;

/* Pipelines a, b and c on lines 3 to 5, with these keys. */
static int parse(const char *a, const char *b, const char *c)
{
	char text[2048];
	int n = snprintf(
		text, sizeof text,
		"ssds = ( { name = \"s\"; device = \"soft:s.img\"; } );\n"
		"gpus = ( { name = \"g\"; device = \"host:1\"; } ); pipelines = (\n"
		"{ name = \"a\"; source = { object = \"in\"; }; operator = \"crc32c\"; %s },\n"
		"{ name = \"b\"; source = { object = \"in\"; }; operator = \"copy\"; "
		"sink = { object = \"out\"; replace = true; }; %s },\n"
		"{ name = \"c\"; source = { object = \"in\"; }; operator = \"copy\"; %s } );\n",
		a, b, *c ? c : "sink = { object = \"old\"; };");
	const int err = hr_config_parse(&config, &hr_lookup, "f", text, (size_t)n, test_error());

	count = test_error_lines(reports, sizeof reports);
	return err;
}

static const struct hr_config_when *when(uint32_t i)
{
	return &config.pipeline[i].when;
}

static const char *text(uint32_t i)
{
	static char text[128];

	return hr_when_text(when(i), text, sizeof text);
}

Test(when, without_a_key_a_pipeline_starts_once)
{
	cr_assert_eq(parse("", "", ""), 0, "%s", reports);
	cr_expect_eq(when(0)->kind, HR_WHEN_ONCE);
	cr_expect_not(hr_config_repeats(&config));
	cr_expect_str_eq(text(0), "once");
	cr_assert_eq(parse("forever = false;", "", ""), 0, "%s", reports);
	cr_expect_not(hr_config_repeats(&config));
}

Test(when, each_key_has_its_value)
{
	cr_assert_eq(parse("every = \"90m\"; missed = \"skip\";", "at = \"Sun 03:05\";",
			   "sink = { object = \"x\"; keep = 3; }; after = \"b\";"),
		     0, "%s", reports);
	cr_expect(hr_config_repeats(&config));
	cr_expect_eq(when(0)->kind, HR_WHEN_EVERY);
	cr_expect_eq(when(0)->every_ns, 5400000000000u);
	cr_expect(when(0)->skip);
	cr_expect_str_eq(text(0), "every 90m");
	cr_expect_eq(when(1)->kind, HR_WHEN_AT);
	cr_expect_eq(when(1)->at_minute, 185u);
	cr_expect_eq(when(1)->at_day, 0);
	cr_expect_not(when(1)->skip);
	cr_expect_str_eq(text(1), "at Sun 03:05");
	cr_expect_eq(when(2)->kind, HR_WHEN_AFTER);
	cr_expect_eq(when(2)->after, 1u);
	cr_expect_eq(config.pipeline[2].sink.keep, 3u);
	cr_expect(config.pipeline[2].sink.replace);
	cr_assert_eq(parse("on = \"request\";", "on = \"object in\"; ",
			   "sink = { object = \"x\"; keep = 1; }; forever = true;"),
		     0, "%s", reports);
	cr_expect_eq(when(0)->kind, HR_WHEN_REQUEST);
	cr_expect_eq(when(1)->kind, HR_WHEN_OBJECT);
	cr_expect_eq(when(1)->object_ssd, 0u);
	cr_expect_str_eq(text(1), "on object 'in'");
	cr_expect_eq(when(2)->kind, HR_WHEN_FOREVER);
	cr_assert_eq(parse("at = \"23:59\";", "at = \"00:00\"; missed = \"run\";", ""), 0, "%s",
		     reports);
	cr_expect_eq(when(0)->at_minute, 1439u);
	cr_expect_eq(when(1)->at_day, -1);
}

Test(when, each_mistake_is_one_line_with_its_place)
{
	static const struct {
		const char *a, *b, *c, *want;
	} row[] = {
		{ "every = \"9ms\";", "", "",
		  "f:3: pipelines[0].every: is 9ms, expected \"10ms\" to \"366d\"" },
		{ "every = \"367d\";", "", "", "f:3: pipelines[0].every: is 367d, expected" },
		{ "every = 0;", "", "", "f:3: pipelines[0].every: is 0, expected" },
		{ "every = \"often\";", "", "", "f:3: pipelines[0].every: 'often' is not a dur" },
		{ "at = \"24:00\";", "", "", "f:3: pipelines[0].at: is \"24:00\", expected a loc" },
		{ "at = \"3:00\";", "", "", "f:3: pipelines[0].at: is \"3:00\"" },
		{ "at = \"03:60\";", "", "", "f:3: pipelines[0].at: is \"03:60\"" },
		{ "at = \"-3:00\";", "", "", "f:3: pipelines[0].at: is \"-3:00\"" },
		{ "at = \"Day 03:00\";", "", "", "f:3: pipelines[0].at: is \"Day 03:00\"" },
		{ "at = \"Sut 03:00\";", "", "", "f:3: pipelines[0].at: is \"Sut 03:00\"" },
		{ "at = \"Sun 03:00 \";", "", "", "f:3: pipelines[0].at: is \"Sun 03:00 \"" },
		{ "every = \"1h\"; at = \"03:00\";", "", "",
		  "f:3: pipelines[0].at: cannot be used together with 'every' on line 3" },
		{ "forever = true; on = \"request\";", "", "",
		  "f:3: pipelines[0].forever: cannot be used together with 'on'" },
		{ "after = \"d\";", "", "", "f:3: pipelines[0].after: there is no pipeline 'd'" },
		{ "after = \"a\";", "", "",
		  "f:3: pipelines[0].after: no pipeline of a cycle would ever start: 'a' after "
		  "'a'" },
		{ "after = \"b\";", "after = \"a\";", "",
		  "f:3: pipelines[0].after: no pipeline of a cycle would ever start: 'a' after "
		  "'b' after 'a'" },
		{ "after = \"b\";", "after = \"c\";",
		  "sink = { object = \"old\"; replace = true; }; after = \"b\";",
		  "f:4: pipelines[1].after: no pipeline of a cycle would ever start: 'b' after "
		  "'c' after 'b'" },
		{ "on = \"object inn\";", "", "",
		  "f:3: pipelines[0].on: the pipeline does not read object 'inn', it reads 'in'" },
		{ "on = \"objects\";", "", "", "f:3: pipelines[0].on: is \"objects\", expected" },
		{ "on = \"object \";", "", "", "f:3: pipelines[0].on: is \"object \", expected" },
		{ "missed = \"run\";", "", "",
		  "f:3: pipelines[0].missed: belongs to every, at or after" },
		{ "on = \"request\"; missed = \"run\";", "", "",
		  "f:3: pipelines[0].missed: belongs to every, at or after" },
		{ "every = \"1h\"; missed = \"never\";", "", "",
		  "f:3: pipelines[0].missed: is \"never\", expected \"run\" or \"skip\"" },
		{ "", "", "sink = { object = \"x\"; }; every = \"1h\";",
		  "f:5: pipelines[2].sink: object 'x' is made at each start (line 5), expected "
		  "replace = true, or keep = N" },
		{ "", "", "sink = { object = \"x\"; keep = 0; };",
		  "f:5: pipelines[2].sink.keep: is 0, expected an integer from 1 to 100" },
		{ "", "", "sink = { object = \"x\"; keep = 101; };",
		  "f:5: pipelines[2].sink.keep: is 101, expected" },
		{ "", "sink = { object = \"o\"; };",
		  "sink = { object = \"o2345678901234567890123456789012345678901234567890123456789"
		  "012\"; keep = 11; };",
		  "f:5: pipelines[2].sink: 'o23" },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		const bool other = strstr(row[i].b, "sink") != NULL;

		cr_expect_neq(parse(row[i].a, other ? "" : row[i].b, row[i].c), 0, "row %zu", i);
		cr_expect_eq(count, 1u, "row %zu: %s", i, reports);
		cr_expect_not_null(strstr(reports, row[i].want), "row %zu: %s", i, reports);
	}
}

Test(when, an_older_version_is_not_made_by_another_pipeline)
{
	cr_assert_neq(
		parse("", "",
		      "sink = { object = \"out.1\"; }; }, { name = \"d\"; operator = "
		      "\"copy\"; source = { object = \"in\"; }; sink = { object = \"out.2\"; "
		      "replace = true; }; }, { name = \"e\"; operator = \"copy\"; source = { "
		      "object = \"in\"; }; sink = { object = \"ou\"; keep = 3; }; }, { name = "
		      "\"f\"; operator = \"copy\"; source = { object = \"in\"; }; sink = { "
		      "object = \"ou.2\"; };"),
		0);
	cr_expect_eq(count, 1u, "%s", reports);
	cr_expect_not_null(strstr(reports,
				  "f:5: pipelines[5].sink: object 'ou.2' is the name of an "
				  "older version of the sink of pipelines[4] on line 5"),
			   "%s", reports);
}
