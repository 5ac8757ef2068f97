/* SPDX-License-Identifier: Apache-2.0 */
/* The pipelines that come up: the named one; and those that need no ssd that fails at bring-up, if
 * keep_going says so. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/fakes/log.h"
#include "tests/harness/engine.h"

TestSuite(left_out, .timeout = 60);

static struct hr_engine *engine;
static char faults[] = "/tmp/headrace-left-out-XXXXXX";

/* Two ssds, of which those in the mask do not answer Identify. */
static void configure(unsigned failing)
{
	static const char rule[] = "on admin opcode 0x06: status 0x006 dnr\n";
	const int fd = mkstemp(faults);
	char device[2][128];

	cr_assert_eq(write(fd, rule, sizeof rule - 1), (ssize_t)sizeof rule - 1);
	close(fd);
	for (unsigned d = 0; d < 2; d++)
		snprintf(device[d], sizeof device[d], "soft:memory,size=16M%s%s",
			 failing >> d & 1 ? ",faults=" : "", failing >> d & 1 ? faults : "");
	engine = calloc(1, sizeof *engine);
	cr_assert_not_null(engine);
	engine_print(engine,
		     "ssds = ( { name = \"a\"; device = \"%s\";"
		     " objects = ( { name = \"in\"; bytes = \"64K\"; } ); },\n"
		     " { name = \"b\"; device = \"%s\";"
		     " objects = ( { name = \"in\"; bytes = \"64K\"; } ); } );\n"
		     "gpus = ( { name = \"g\"; device = \"host:1\"; } );\n"
		     "pipelines = ( { name = \"p\"; source = { object = \"in\"; ssd = \"a\"; };"
		     " operator = \"crc32c\"; tile = \"4K\"; slots = 4; },\n"
		     " { name = \"q\"; source = { object = \"in\"; ssd = \"b\"; };"
		     " operator = \"crc32c\"; tile = \"4K\"; slots = 4; } );\n",
		     device[0], device[1]);
}

static void forget(void)
{
	engine->error.printed = true;
	free(engine);
	unlink(faults);
	strcpy(faults + sizeof faults - 7, "XXXXXX");
}

Test(left_out, the_other_pipelines_come_up_when_they_keep_going)
{
	for (unsigned failing = 0; failing < 3; failing++) {
		configure(failing);
		engine->keep_going = true;
		cr_assert_eq(hr_engine_up(engine, HR_STAGE_QUEUES), 0, "%u: %s", failing,
			     engine->error.text);
		for (unsigned d = 0; d < 2; d++) {
			cr_expect_eq(engine->left_out[d], failing >> d & 1, "%u: ssd %u", failing,
				     d);
			cr_expect_eq(engine->run[d].selected, !(failing >> d & 1), "%u: run %u",
				     failing, d);
		}
		if (failing)
			cr_expect(strstr(fake_log_last_of(HR_LOG_ERROR), "cannot be brought up"),
				  "%s", fake_log_last_of(HR_LOG_ERROR));
		hr_engine_down(engine);
		forget();
	}
}

Test(left_out, otherwise_the_first_failure_ends_the_bring_up)
{
	for (unsigned failing = 1; failing < 4; failing++) {
		configure(failing);
		engine->keep_going = failing == 3; /* no pipeline remains */
		cr_expect_neq(hr_engine_up(engine, HR_STAGE_QUEUES), 0, "%u", failing);
		cr_expect_eq(engine->up, HR_STAGE_NONE, "%u", failing);
		forget();
	}
}

/* The other ssd is not brought up, so its failure does not matter. */
Test(left_out, a_named_pipeline_comes_up_without_the_ssds_that_it_does_not_use)
{
	static const char *const name[] = { "p", "q" };

	for (unsigned d = 0; d < 2; d++) {
		configure(1u << !d);
		cr_assert_eq(hr_engine_init(engine, name[d]), 0);
		cr_assert_eq(hr_engine_up(engine, HR_STAGE_QUEUES), 0, "%s: %s", name[d],
			     engine->error.text);
		cr_expect(!engine->left_out[d] && engine->left_out[!d], "%s", name[d]);
		cr_expect_null(engine->ssd[!d].controller, "%s", name[d]);
		hr_engine_down(engine);
		forget();
	}
}

Test(left_out, only_the_named_pipeline_is_selected)
{
	static const struct {
		const char *name;
		int want;
		bool p, q;
	} row[] = { { NULL, 0, true, true },
		    { "p", 0, true, false },
		    { "q", 0, false, true },
		    { "r", -ENOENT, false, false } };

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		configure(0);
		cr_expect_eq(hr_engine_init(engine, row[i].name), row[i].want, "row %zu", i);
		cr_expect_eq(engine->run[0].selected, row[i].p, "row %zu", i);
		cr_expect_eq(engine->run[1].selected, row[i].q, "row %zu", i);
		cr_expect(!row[i].want || strstr(engine->error.text, "f: there is no pipeline 'r'"),
			  "%s", engine->error.text);
		forget();
	}
}
