/* SPDX-License-Identifier: Apache-2.0 */
/* Objects that runs use: by the pipelines that run, and by those that will. */
#include "boot/engine/object_users.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#define IN 11u
#define TABLE 12u

/* Pipeline 0 streams `in` of ssd 0 to `out` of ssd 1. Pipeline 1 has the object `table` of ssd 1. */
enum { STREAM, ACCESS, RUNS };

static struct hr_engine *engine;
static struct hr_run *run;

static void begin(void)
{
	struct hr_config_pipeline *p;

	engine = calloc(1, sizeof *engine);
	cr_assert_not_null(engine);
	run = engine->run;
	engine->config.ssds = 2;
	engine->config.pipelines = RUNS;
	p = engine->config.pipeline;
	p[STREAM].sources = 1;
	p[STREAM].has_sink = true;
	p[STREAM].sink.ssd = 1;
	strcpy(p[STREAM].sink.object, "out");
	p[ACCESS].objects = 1;
	p[ACCESS].object[0].ssd = 1;
	strcpy(p[ACCESS].object[0].object, "table");
	for (uint32_t i = 0; i < RUNS; i++) {
		run[i].config = &p[i];
		run[i].selected = true;
		run[i].outcome = HR_RUN_WAITING;
	}
	run[STREAM].source[0].id = IN;
	run[ACCESS].object[0].used = true;
	run[ACCESS].object[0].id = TABLE;
}

static void end(void)
{
	free(engine);
}

TestSuite(engine_inuse, .init = begin, .fini = end, .timeout = 60);

static void launch(uint32_t i)
{
	run[i].started_ns = 5;
	run[i].pipe = &run[i].cpu;
}

Test(engine_inuse, a_pipeline_runs_from_its_launch_to_its_end)
{
	cr_expect_not(hr_any_running(engine), "it waits");
	run[STREAM].started_ns = 5;
	cr_expect_not(hr_any_running(engine), "no queue is wired");
	launch(STREAM);
	cr_expect(hr_any_running(engine));
	run[STREAM].ended_ns = 6;
	cr_expect_not(hr_any_running(engine));
	launch(ACCESS);
	cr_expect(hr_any_running(engine));
}

Test(engine_inuse, an_object_is_read_where_it_lies)
{
	cr_expect_eq(hr_run_reading(engine, 0, IN), &run[STREAM]);
	cr_expect_null(hr_run_reading(engine, 1, IN), "the same id on another ssd");
	cr_expect_null(hr_run_reading(engine, 0, IN + 1));
	cr_expect_eq(hr_run_reading(engine, 1, TABLE), &run[ACCESS]);
	run[ACCESS].object[0].used = false;
	cr_expect_null(hr_run_reading(engine, 1, TABLE));
}

Test(engine_inuse, a_run_that_has_ended_or_will_not_run_uses_nothing)
{
	run[STREAM].ended_ns = 6;
	cr_expect_null(hr_run_reading(engine, 0, IN), "it has ended");
	run[STREAM].ended_ns = 0;
	run[STREAM].outcome = HR_RUN_COMPLETE;
	cr_expect_null(hr_run_reading(engine, 0, IN), "it was complete");
	run[STREAM].outcome = HR_RUN_WAITING;
	run[STREAM].selected = false;
	cr_expect_null(hr_run_reading(engine, 0, IN), "it is not selected");
}

/* The objects of a pipeline that repeats are found anew at each start. */
Test(engine_inuse, a_pipeline_that_repeats_uses_objects_while_it_runs)
{
	engine->resolves_late = true;
	run[STREAM].sink_id = 20;
	cr_expect_null(hr_run_reading(engine, 0, IN));
	cr_expect_null(hr_run_making(engine, 1, "out"));
	launch(STREAM);
	cr_expect_eq(hr_run_reading(engine, 0, IN), &run[STREAM]);
	cr_expect_eq(hr_run_making(engine, 1, "out"), &run[STREAM]);
	run[STREAM].ended_ns = 6;
	cr_expect_null(hr_run_reading(engine, 0, IN));
	cr_expect_null(hr_run_making(engine, 1, "out"));
}

Test(engine_inuse, only_an_existing_object_that_is_written_is_changed)
{
	cr_expect_null(hr_run_changing(engine, 1, TABLE, false), "it is only read");
	engine->config.pipeline[ACCESS].object[0].writes = true;
	cr_expect_eq(hr_run_changing(engine, 1, TABLE, false), &run[ACCESS]);
	cr_expect_null(hr_run_changing(engine, 1, TABLE, true), "it does not run yet");
	cr_expect_null(hr_run_changing(engine, 0, TABLE, false));
	launch(ACCESS);
	cr_expect_eq(hr_run_changing(engine, 1, TABLE, true), &run[ACCESS]);
	run[ACCESS].object[0].created = true;
	cr_expect_null(hr_run_changing(engine, 1, TABLE, true), "the run makes it");
}

Test(engine_inuse, a_name_is_taken_by_the_run_that_makes_it)
{
	cr_expect_null(hr_run_making(engine, 1, "out"), "the sink is not there yet");
	run[STREAM].sink_id = 20;
	cr_expect_eq(hr_run_making(engine, 1, "out"), &run[STREAM]);
	cr_expect_null(hr_run_making(engine, 0, "out"));
	cr_expect_null(hr_run_making(engine, 1, "ou"));
	cr_expect_null(hr_run_making(engine, 1, "table"), "it exists");
	run[ACCESS].object[0].created = true;
	cr_expect_eq(hr_run_making(engine, 1, "table"), &run[ACCESS]);
	cr_expect_null(hr_run_making(engine, 0, "table"));
}

/* Each of several sources and objects counts, and none behind the last. */
Test(engine_inuse, all_sources_and_objects_count)
{
	struct hr_config_pipeline *p = engine->config.pipeline;

	p[STREAM].sources = 3;
	p[STREAM].source[2].ssd = 1;
	run[STREAM].source[2].id = 30;
	run[STREAM].source[3].id = 31;
	cr_expect_eq(hr_run_reading(engine, 1, 30), &run[STREAM]);
	cr_expect_null(hr_run_reading(engine, 0, 31));
	p[ACCESS].objects = 3;
	for (uint32_t i = 1; i < 4; i++) {
		p[ACCESS].object[i].ssd = 1;
		p[ACCESS].object[i].writes = true;
		run[ACCESS].object[i].used = true;
		run[ACCESS].object[i].id = 40 + i;
	}
	for (uint32_t i = 1; i < 4; i++) {
		const struct hr_run *want = i < 3 ? &run[ACCESS] : NULL;

		cr_expect_eq(hr_run_reading(engine, 1, 40 + i), want, "%u", i);
		cr_expect_eq(hr_run_changing(engine, 1, 40 + i, false), want, "%u", i);
	}
	run[RUNS] = run[ACCESS]; /* it is no pipeline */
	run[ACCESS].selected = false;
	cr_expect_null(hr_run_reading(engine, 1, TABLE));
	cr_expect_null(hr_run_changing(engine, 1, 41, false));
	run[RUNS].started_ns = 5;
	run[RUNS].pipe = &run[RUNS].cpu;
	cr_expect_not(hr_any_running(engine));
}
