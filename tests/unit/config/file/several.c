/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several pipelines and gpus: what a function says of all of them, and that none looks behind the
 * last. The elements behind the last would be mistakes, or found.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "config/file/keys.h"
#include "config/config.h"
#include "config/base/json.h"
#include "config/file/mistakes.h"
#include "config/derived.h"
#include "tests/harness/error.h"

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

static void sink(uint32_t i, const char *object, bool replace)
{
	config.pipeline[i].has_sink = true;
	config.pipeline[i].sink.replace = replace;
	snprintf(config.pipeline[i].sink.object, HR_NAME_MAX, "%s", object);
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
