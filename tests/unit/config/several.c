/*
 * Several pipelines, gpus, objects and operators: what each function says of all of them, and that
 * none looks behind the last. The elements behind the last would be mistakes, or found.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "config/check.h"
#include "config/config.h"
#include "config/cycles.h"
#include "config/feed.h"
#include "config/json.h"
#include "config/mistakes.h"
#include "config/operators.h"
#include "config/remote.h"
#include "config/tap.h"
#include "config/uses.h"
#include "config/when.h"
#include "tests/harness/error.h"

#define ROWS(table) (sizeof(table) / sizeof(*(table)))

static struct hr_config config;
static struct hr_mistakes mistakes;

/* Pipelines p0, p1 ... with lines 10, 11 ...; each reads "in0", "in1" ... of ssd 1. */
static void begin(void)
{
	memset(&config, 0, sizeof config);
	memset(&mistakes, 0, sizeof mistakes);
	config.file = mistakes.file = "f";
	for (uint32_t i = 0; i < HR_PIPELINES_MAX; i++) {
		struct hr_config_pipeline *p = &config.pipeline[i];

		snprintf(p->name, sizeof p->name, "p%u", i);
		snprintf(p->source[0].object, HR_NAME_MAX, "in%u", i);
		p->source[0].ssd = 1;
		p->sources = 1;
		p->line = p->when.line = p->tap.line = p->feed.line = p->to.line = p->from.line =
			p->sink.line = 10 + i;
	}
	config.pipelines = 3;
}

TestSuite(several, .init = begin, .timeout = 60);

static const char *reported(void)
{
	static char lines[2 * HR_ERROR_BYTES];

	test_error();
	hr_mistakes_report(&mistakes, &test_error_last);
	test_error_lines(lines, sizeof lines);
	memset(&mistakes, 0, sizeof mistakes);
	mistakes.file = "f";
	return lines;
}

Test(several, a_configuration_repeats_when_one_of_its_pipelines_does)
{
	config.pipeline[3].when.kind = HR_WHEN_EVERY;
	cr_expect_not(hr_config_repeats(&config), "behind the last");
	for (uint32_t i = 0; i < 3; i++)
		for (int kind = HR_WHEN_ONCE; kind <= HR_WHEN_FOREVER; kind++) {
			begin();
			config.pipeline[i].when.kind = (enum hr_when_kind)kind;
			cr_expect_eq(hr_config_repeats(&config), kind != HR_WHEN_ONCE);
		}
}

Test(several, texts_of_all_starts)
{
	static const struct {
		struct hr_config_when when;
		const char *want;
	} row[] = {
		{ { .kind = HR_WHEN_ONCE }, "once" },
		{ { .kind = HR_WHEN_FOREVER }, "forever" },
		{ { .kind = HR_WHEN_REQUEST }, "on request" },
		{ { .kind = HR_WHEN_OBJECT, .text = "o" }, "on object 'o'" },
		{ { .kind = HR_WHEN_AFTER, .text = "p" }, "after 'p'" },
		{ { .kind = HR_WHEN_AT, .at_day = -1, .at_minute = 61 }, "at 01:01" },
		{ { .kind = HR_WHEN_AT, .at_day = 0, .at_minute = 1439 }, "at Sun 23:59" },
		{ { .kind = HR_WHEN_AT, .at_day = 6, .at_minute = 0 }, "at Sat 00:00" },
		{ { .kind = HR_WHEN_AT, .at_day = 3, .at_minute = 600 }, "at Wed 10:00" },
		{ { .kind = HR_WHEN_EVERY, .every_ns = 10000000 }, "every 10ms" },
		{ { .kind = HR_WHEN_EVERY, .every_ns = 1001000000 }, "every 1001ms" },
		{ { .kind = HR_WHEN_EVERY, .every_ns = 61000000000 }, "every 61s" },
		{ { .kind = HR_WHEN_EVERY, .every_ns = 5400000000000 }, "every 90m" },
		{ { .kind = HR_WHEN_EVERY, .every_ns = 90000000000000 }, "every 25h" },
		{ { .kind = HR_WHEN_EVERY, .every_ns = 3600000000000 }, "every 1h" },
		{ { .kind = HR_WHEN_EVERY, .every_ns = 172800000000000 }, "every 2d" },
	};
	char text[64];

	for (size_t i = 0; i < ROWS(row); i++)
		cr_expect_str_eq(hr_when_text(&row[i].when, text, sizeof text), row[i].want,
				 "row %zu", i);
}

static void after(uint32_t i, const char *name)
{
	config.pipeline[i].when.kind = HR_WHEN_AFTER;
	snprintf(config.pipeline[i].when.text, HR_NAME_MAX, "%s", name);
}

static void on(uint32_t i, const char *object)
{
	config.pipeline[i].when.kind = HR_WHEN_OBJECT;
	snprintf(config.pipeline[i].when.text, HR_NAME_MAX, "%s", object);
}

static void sink(uint32_t i, const char *object, bool replace)
{
	config.pipeline[i].has_sink = true;
	config.pipeline[i].sink.replace = replace;
	snprintf(config.pipeline[i].sink.object, HR_NAME_MAX, "%s", object);
}

Test(several, starts_find_their_pipelines_and_objects)
{
	struct hr_config_when *when = &config.pipeline[2].when;

	after(0, "p1");
	on(2, "in2b");
	config.pipeline[2].sources = 2;
	snprintf(config.pipeline[2].source[1].object, HR_NAME_MAX, "in2b");
	config.pipeline[2].source[1].ssd = 4;
	sink(1, "made", false); /* starts once */
	after(3, "none");	/* behind the last */
	hr_config_when_check(&config, &mistakes);
	cr_expect_str_eq(reported(), "");
	cr_expect_eq(config.pipeline[0].when.after, 1u);
	cr_expect_eq(when->object_ssd, 4u, "that of the second source");
	after(0, "p2");
	hr_config_when_check(&config, &mistakes);
	cr_expect_str_eq(reported(), "");
	cr_expect_eq(config.pipeline[0].when.after, 2u);
	on(2, "in2");
	hr_config_when_check(&config, &mistakes);
	cr_expect_eq(when->object_ssd, 1u);
	after(0, "p3");
	on(1, "in0");
	on(2, "in9");
	sink(0, "out", false);
	config.pipeline[1].objects = 3;
	config.pipeline[1].object[2] = (struct hr_config_object){
		.object = "newer", .writes = true, .bytes = 5, .line = 31
	};
	config.pipeline[1].object[1] = (struct hr_config_object){
		.object = "new", .writes = true, .bytes = 5, .line = 30
	};
	hr_config_when_check(&config, &mistakes);
	cr_expect_str_eq(
		reported(),
		"f:10: pipelines[0].after: there is no pipeline 'p3'; did you mean 'p0'?\n"
		"f:11: pipelines[1].on: the pipeline does not read object 'in0'\n"
		"f:12: pipelines[2].on: the pipeline does not read object 'in9', it reads 'in2'\n"
		"f:30: pipelines[1].objects: object 'new' is made at each start (line 11), "
		"expected replace = true\n"
		"f:31: pipelines[1].objects: object 'newer' is made at each start (line 11), "
		"expected replace = true\n",
		"%s", test_error_text());
	cr_expect_eq(config.pipeline[0].when.kind, HR_WHEN_ONCE);
	cr_expect_str_eq(when->text, "", "no other check names it");
	when->kind = HR_WHEN_FOREVER;
	sink(2, "out2", false);
	config.pipeline[1].object[1].replace = config.pipeline[1].object[2].replace = true;
	hr_config_when_check(&config, &mistakes);
	cr_expect_str_eq(reported(),
			 "f:12: pipelines[2].sink: object 'out2' is made at each start (line 12), "
			 "expected replace = true, or keep = N\n");
}

static void tap(uint32_t i, const char *name, const char *to)
{
	snprintf(config.pipeline[i].tap.name, HR_NAME_MAX, "%s", name);
	snprintf(config.pipeline[i].to.address, HR_DEVICE_MAX, "%s", to);
}

static void feed(uint32_t i, const char *name, const char *from)
{
	snprintf(config.pipeline[i].feed.name, HR_NAME_MAX, "%s", name);
	snprintf(config.pipeline[i].from.address, HR_DEVICE_MAX, "%s", from);
}

static const char *streams(void)
{
	hr_config_taps_check(&config, &mistakes);
	hr_config_feeds_check(&config, &mistakes);
	hr_config_remotes_check(&config, &mistakes);
	return reported();
}

Test(several, names_of_taps_feeds_and_streams_are_used_once)
{
	config.remotes.line = 1;
	cr_expect_str_eq(streams(), "");
	tap(0, "t", "");
	tap(3, "t", ""); /* behind the last */
	feed(0, "t", "");
	feed(3, "t", "");
	tap(1, "t", "a:1"); /* to other machines: the names are theirs */
	cr_expect_str_eq(streams(), "");
	tap(2, "t", "b:1");
	cr_expect_str_eq(streams(), "");
	tap(2, "t", "");
	feed(1, "t", "");
	cr_expect_str_eq(streams(),
			 "f:11: pipelines[1].source: 't' is already the feed of pipelines[0] on "
			 "line 10\n"
			 "f:12: pipelines[2].sink: 't' is already the tap of pipelines[0] on line "
			 "10\n",
			 "%s", test_error_text());
	begin();
	config.remotes.line = 1;
	tap(0, "t", "a:1");
	tap(1, "u", "a:1");
	tap(2, "t", "a:1");
	tap(3, "t", "a:1");
	feed(1, "x", "c:1");
	cr_expect_str_eq(streams(), "f:12: pipelines[2].sink: the stream 't' to a:1 is already "
				    "that of pipelines[0] on line 10\n");
	feed(2, "y", "c:1");
	tap(2, "", "");
	cr_expect_str_eq(streams(), "f:12: pipelines[2].source: c:1 is already the address of "
				    "pipelines[1] on line 11\n");
	feed(2, "y", "");
	config.pipeline[3].when.kind = HR_WHEN_EVERY;
	cr_expect_str_eq(streams(), "");
	config.remotes.line = 0;
	tap(1, "", "");
	config.pipeline[2].when.kind = HR_WHEN_EVERY;
	cr_expect_str_eq(
		streams(),
		"f:10: pipelines[0]: a remote sink needs the group `remote`; expected for example: "
		"remote = { key = \"/etc/headrace/remote.key\"; };\n"
		"f:10: pipelines[0]: a remote sink is not possible beside pipelines[2], which runs "
		"again; expected a configuration without the keys every, at, after, on and "
		"forever\n"
		"f:11: pipelines[1]: a remote source needs the group `remote`; expected for "
		"example: remote = { key = \"/etc/headrace/remote.key\"; };\n"
		"f:11: pipelines[1]: a remote source is not possible beside pipelines[2], which "
		"runs again; expected a configuration without the keys every, at, after, on and "
		"forever\n",
		"%s", test_error_text());
}

Test(several, an_object_has_one_maker)
{
	sink(0, "x", true);
	sink(1, "y", true);
	sink(3, "x", true); /* behind the last */
	hr_config_sinks_check(&config, &mistakes);
	cr_expect_str_eq(reported(), "");
	sink(2, "x", true);
	sink(1, "in1", true);
	config.pipeline[1].sink.ssd = 1;
	config.pipeline[1].source[0].line = 44;
	hr_config_sinks_check(&config, &mistakes);
	cr_expect_str_eq(
		reported(),
		"f:11: pipelines[1].sink: object 'in1' is also a source on line 44, expected "
		"another\n"
		"f:12: pipelines[2].sink: object 'x' is already the sink of pipelines[0] on line "
		"10\n",
		"%s", test_error_text());
	begin();
	sink(0, "x", true);
	config.pipeline[0].sink.keep = 3;
	sink(3, "x.1", true);
	hr_config_sinks_check(&config, &mistakes);
	cr_expect_str_eq(reported(), "", "behind the last");
	sink(1, "x.2", true);
	sink(2, "x.3", true);
	hr_config_sinks_check(&config, &mistakes);
	cr_expect_str_eq(reported(), "f:11: pipelines[1].sink: object 'x.2' is the name of an "
				     "older version of the sink of pipelines[0] on line 10\n");
	config.pipeline[2].objects = 1;
	config.pipeline[2].object[0] =
		(struct hr_config_object){ .object = "x", .writes = true, .bytes = 1, .line = 50 };
	config.pipeline[1].objects = 1;
	config.pipeline[1].object[0] =
		(struct hr_config_object){ .object = "x", .writes = true, .bytes = 1, .line = 51 };
	hr_config_sinks_check(&config, &mistakes);
	cr_expect_str_eq(reported(),
			 "f:50: pipelines[2].objects: object 'x' is already the sink of "
			 "pipelines[0] on line 10\n"
			 "f:50: pipelines[2].objects: object 'x' is already a new object of "
			 "pipelines[1] on line 51\n"
			 "f:51: pipelines[1].objects: object 'x' is already the sink of "
			 "pipelines[0] on line 10\n",
			 "%s", test_error_text());
}

/* The oldest version's name has 63 or 64 characters. */
Test(several, names_of_versions_have_a_limit)
{
	static const struct {
		uint32_t keep;
		size_t length;
		const char *want;
	} row[] = {
		{ 1, 63, "" },
		{ 2, 61, "" },
		{ 10, 61, "" },
		{ 11, 60, "" },
		{ 2, 62,
		  "', the name of the oldest version, has 64 characters, expected at most "
		  "63\n" },
		{ 11, 61,
		  ".10', the name of the oldest version, has 64 characters, expected at "
		  "most 63\n" },
	};
	char name[HR_NAME_MAX];

	for (size_t i = 0; i < ROWS(row); i++) {
		memset(name, 'n', sizeof name);
		name[row[i].length] = '\0';
		sink(0, name, true);
		config.pipeline[0].sink.keep = row[i].keep;
		hr_config_sinks_check(&config, &mistakes);
		cr_expect_eq(mistakes.count, *row[i].want != '\0', "row %zu", i);
		cr_expect_not_null(strstr(reported(), row[i].want), "row %zu: %s", i,
				   test_error_text());
	}
}

Test(several, versions_have_numbers)
{
	static const struct {
		const char *name;
		uint32_t keep, want;
	} row[] = {
		{ "x.1", 2, 1 },    { "x.1", 1, 0 },	   { "x.2", 2, 0 },	  { "x.9", 100, 9 },
		{ "x.10", 11, 10 }, { "x.99", 100, 99 },   { "x.100", 200, 100 }, { "x.0", 9, 0 },
		{ "x.01", 9, 0 },   { "x.1000", 2000, 0 }, { "x.1a", 9, 0 },	  { "x", 9, 0 },
		{ "x.", 9, 0 },	    { "y.1", 9, 0 },	   { "xx.1", 9, 0 },	  { "x-1", 9, 0 },
		{ "x.+1", 9, 0 },   { "x.:", 9, 0 },	   { "x./", 9, 0 },	  { "x. 1", 9, 0 },
	};

	for (size_t i = 0; i < ROWS(row); i++)
		cr_expect_eq(hr_config_version_of(row[i].name, "x", row[i].keep), row[i].want, "%s",
			     row[i].name);
}

static void cycle(uint32_t first, uint32_t second)
{
	after(first, config.pipeline[second].name);
	config.pipeline[first].when.after = second;
}

Test(several, a_cycle_is_reported_at_its_first_pipeline)
{
	cycle(0, 1);
	cycle(1, 2);
	hr_config_cycles_check(&config, &mistakes);
	cr_expect_str_eq(reported(), "");
	cycle(2, 1);
	hr_config_cycles_check(&config, &mistakes);
	cr_expect_str_eq(reported(), "f:11: pipelines[1].after: no pipeline of a cycle would ever "
				     "start: 'p1' after 'p2' after 'p1'\n");
	cycle(2, 0);
	hr_config_cycles_check(&config, &mistakes);
	cr_expect_str_eq(reported(), "f:10: pipelines[0].after: no pipeline of a cycle would ever "
				     "start: 'p0' after 'p1' after 'p2' after 'p0'\n");
	on(2, "made");
	sink(0, "made", true);
	config.pipeline[2].when.object_ssd = 3;
	hr_config_cycles_check(&config, &mistakes);
	cr_expect_str_eq(reported(), "", "on another ssd");
	config.pipeline[2].when.object_ssd = 0;
	sink(3, "made", true);
	hr_config_cycles_check(&config, &mistakes);
	cr_expect_str_eq(reported(), "f:10: pipelines[0].after: a cycle of pipelines would run "
				     "without end: 'p0' after 'p1' after 'p2' on object 'made' of "
				     "'p0'\n");
	sink(0, "other", true);
	hr_config_cycles_check(&config, &mistakes);
	cycle(3, 2);
	hr_config_cycles_check(&config, &mistakes);
	cr_expect_str_eq(reported(), "", "its maker is behind the last");
	sink(0, "made", true);
	config.pipeline[2].when.kind = HR_WHEN_EVERY;
	hr_config_cycles_check(&config, &mistakes);
	cr_expect_str_eq(reported(), "", "a text that another kind of start does not use");
}

Test(several, objects_are_read_written_and_created)
{
	struct hr_config_pipeline *p = &config.pipeline[0];

	p->sources = 2;
	cr_expect_eq(hr_config_reads(p, 1), &p->source[1]);
	cr_expect_null(hr_config_reads(p, 2));
	cr_expect_null(hr_config_writes(p, 0));
	cr_expect(hr_config_uses_ssd(p, 1));
	cr_expect_not(hr_config_uses_ssd(p, 2));
	sink(0, "s", true);
	p->sink.ssd = 2;
	p->sink.keep = 3;
	cr_expect_eq(hr_config_writes(p, 0), &p->sink);
	cr_expect_eq(hr_config_creates(p, 0), &p->sink);
	cr_expect_null(hr_config_creates(p, 1));
	cr_expect(hr_config_uses_ssd(p, 2));
	cr_expect_eq(hr_config_writes_ssd(p, 2), &p->sink);
	cr_expect_null(hr_config_writes_ssd(p, 1));
	cr_expect(hr_config_creates_name(p, 2, "s"));
	cr_expect_not(hr_config_creates_name(p, 1, "s"));
	cr_expect_not(hr_config_creates_name(p, 2, "s.1"));
	cr_expect(hr_config_makes_version(p, 2, "s"));
	cr_expect(hr_config_makes_version(p, 2, "s.2"));
	cr_expect_not(hr_config_makes_version(p, 2, "s.3"));
	cr_expect_not(hr_config_makes_version(p, 1, "s.2"));
	p->has_sink = false;
	cr_expect_not(hr_config_makes_version(p, 2, "s.2"));
	feed(0, "f", "");
	cr_expect_null(hr_config_reads(p, 0), "a feed is no object");
	/* read; left out; written in place; created; read */
	p->objects = 5;
	p->object[0] = (struct hr_config_object){ .object = "a", .ssd = 5 };
	p->object[2] = (struct hr_config_object){ .object = "c", .ssd = 6, .writes = true };
	p->object[3] = (struct hr_config_object){ .object = "d", .writes = true, .bytes = 7 };
	p->object[4] = (struct hr_config_object){ .object = "e", .ssd = 8 };
	p->object[5] = (struct hr_config_object){ .object = "z", .ssd = 9, .writes = true };
	cr_expect_eq(hr_config_reads(p, 0), &p->object[0]);
	cr_expect_eq(hr_config_reads(p, 1), &p->object[2]);
	cr_expect_eq(hr_config_reads(p, 2), &p->object[4]);
	cr_expect_null(hr_config_reads(p, 3));
	cr_expect_eq(hr_config_writes(p, 0), &p->object[2]);
	cr_expect_eq(hr_config_writes(p, 1), &p->object[3]);
	cr_expect_null(hr_config_writes(p, 2));
	cr_expect_eq(hr_config_creates(p, 0), &p->object[3]);
	cr_expect_null(hr_config_creates(p, 1));
	cr_expect_eq(hr_config_writes_ssd(p, 0), &p->object[3]);
	cr_expect_null(hr_config_writes_ssd(p, 9));
	cr_expect(hr_config_uses_ssd(p, 8) && hr_config_uses_ssd(p, 6));
	cr_expect_not(hr_config_uses_ssd(p, 9));
}

Test(several, gpus_of_a_pipeline_have_names)
{
	struct hr_config_pipeline *p = &config.pipeline[0];
	char text[64], report[128];
	struct hr_json out;

	for (uint32_t g = 0; g < 4; g++)
		snprintf(config.gpu[g].name, HR_NAME_MAX, "g%u", g);
	p->gpu = 2;
	p->other_gpu[0] = 3;
	p->other_gpu[1] = 1;
	for (p->other_gpus = 0; p->other_gpus < 2; p->other_gpus++) {
		static const char *const names[] = { "g2", "g2, g3" };
		static const char *const want[] = {
			"{\"gpu\": \"g2\", \"gpus\": [\"g2\"], \"end\": true}\n",
			"{\"gpu\": \"g2\", \"gpus\": [\"g2\", \"g3\"], \"end\": true}\n"
		};

		for (uint32_t g = 0; g < 4; g++)
			cr_expect_eq(hr_config_uses_gpu(p, g), g == 2 || (p->other_gpus && g == 3),
				     "gpu %u", g);
		memset(text, 'x', sizeof text);
		cr_expect_str_eq(hr_config_gpu_names(&config, p, text, sizeof text),
				 names[p->other_gpus]);
		hr_json_to_text(&out, HR_JSON_LINE, report, sizeof report);
		hr_config_gpus_json(&config, p, &out);
		hr_json_bool(&out, "end", true);
		cr_expect_eq(hr_json_done(&out), 0);
		cr_expect_str_eq(report, want[p->other_gpus], "%s", report);
	}
	memset(text, 'x', sizeof text);
	cr_expect_str_eq(hr_config_gpu_names(&config, p, text, 5), "g2, ",
			 "as much as there is "
			 "room for");
	cr_expect_eq(text[5], 'x');
}

/* ---- operators of files */

static const struct hr_operator loaded[3] = { { .name = "o0" },
					      { .name = "o1" },
					      { .name = "o2" } };
static const char *refused;

static int load(const char *path, const struct hr_operator **op, struct hr_error *e)
{
	if (refused && strcmp(path, refused) == 0)
		return hr_fail(e, HR_ERROR_MISSING, -EPERM, "is refused");
	*op = &loaded[path[4] - '0'];
	return 0;
}

static uint32_t checksum(const struct hr_operator *op)
{
	return 100 + (uint32_t)(op->name[1] - '0');
}

Test(several, operators_are_loaded_for_the_pipelines_that_use_them)
{
	static const struct hr_operator built_in = { .name = "b" };
	static const struct hr_config_names names = { .operator_load = load,
						      .operator_checksum = checksum };

	config.names = &names;
	config.ops = 2;
	for (uint32_t i = 0; i < 3; i++) {
		config.op[i].line = 5 + i;
		config.op[i].checksum = 100 + i;
		snprintf(config.op[i].name, HR_NAME_MAX, "o%u", i);
		snprintf(config.op[i].file, HR_FILE_MAX, "file%u", i);
		config.op[i].op = &loaded[i];
	}
	config.pipeline[0].user_op = 2;
	config.pipeline[2].user_op = 1;
	config.pipeline[3].user_op = 1; /* behind the last */
	for (uint32_t i = 0; i < 4; i++)
		config.pipeline[i].op = &built_in;
	hr_config_operators_forget(&config);
	cr_expect(!config.op[0].op && !config.op[1].op && config.op[2].op == &loaded[2]);
	cr_expect(!config.pipeline[0].op && config.pipeline[1].op == &built_in);
	cr_expect(!config.pipeline[2].op && config.pipeline[3].op == &built_in);
	config.op[2].op = NULL;
	cr_expect_eq(hr_config_operators_load(&config, test_error()), 0, "%s", test_error_text());
	cr_expect(config.op[0].op == &loaded[0] && config.op[1].op == &loaded[1]);
	cr_expect_null(config.op[2].op);
	cr_expect(config.pipeline[0].op == &loaded[1] && config.pipeline[2].op == &loaded[0]);
	cr_expect(config.pipeline[1].op == &built_in && config.pipeline[3].op == &built_in);
	hr_config_operators_forget(&config);
	refused = "file1";
	cr_expect_eq(hr_config_operators_load(&config, test_error()), -EPERM);
	cr_expect_str_eq(test_error_text(), "f:6: operator 'o1': 'file1' is refused");
	cr_expect_eq(test_error_kind(), HR_ERROR_MISSING);
	cr_expect(config.op[0].op == &loaded[0] && !config.op[1].op);
	refused = NULL;
	config.op[1].checksum = 5;
	cr_expect_eq(hr_config_operators_load(&config, test_error()), -EINVAL);
	cr_expect_str_eq(test_error_text(), "f:6: operator 'o1': 'file1' has changed since the "
					    "configuration was read");
	cr_expect_eq(test_error_kind(), HR_ERROR_USAGE);
}
