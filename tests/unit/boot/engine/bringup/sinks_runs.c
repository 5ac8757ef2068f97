/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stage `sinks` with several pipelines, over stores on disks in memory: ids of sinks that others
 * read, errors, failed disks, and the removal of sinks of runs that never start.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "config/base/clock.h"
#include "tests/harness/sinks_rig.h"

#define ROWS(table) (sizeof(table) / sizeof(*(table)))

TestSuite(stage_sinks_runs, .init = begin, .fini = end, .timeout = 60);

static uint64_t first; /* id of "x" */

/* p0 makes "mid", p1 makes "out" of it on ssd b, and p2 makes "far" of "x". */
static void use_three(void)
{
	static const char *const from[] = { "x", "mid", "x" }, *const to[] = { "mid", "out",
									       "far" };

	test_runs_end();
	engine = test_runs_begin(3);
	first = test_runs_put(0, "x", UNIT, 0, true);
	for (uint32_t i = 0; i < 3; i++) {
		struct hr_config_pipeline *p = &engine->config.pipeline[i];

		p->op = hr_op_find("copy");
		p->sources = 1;
		strcpy(p->source[0].object, from[i]);
		p->has_sink = true;
		p->sink = (struct hr_config_object){ .line = 10 + i, .ssd = i == 1 };
		strcpy(p->sink.object, to[i]);
		engine->run[i].source[0] = (struct hr_run_source){ .id = i == 1 ? 0 : first,
								   .bytes = UNIT,
								   .writer = i == 1 ? 0 : -1 };
		engine->run[i].tiles = 1;
		engine->run[i].sink_bytes = engine->run[i].sink_tile_bytes = UNIT;
	}
	run = &engine->run[0];
	pipeline = &engine->config.pipeline[0];
}

Test(stage_sinks_runs, a_check_changes_neither_disks_nor_runs)
{
	uint64_t writes[TEST_RUNS_SSDS];

	use_three();
	for (uint32_t d = 0; d < TEST_RUNS_SSDS; d++)
		writes[d] = test_runs_disk[d].disk.writes + test_runs_disk[d].disk.flushes;
	engine->run[2].outcome = HR_RUN_COMPLETE;
	engine->run[1].object[0].created = true; /* not an object of that run */
	cr_expect_eq(hr_sinks_check(engine), 0, "%s", engine->error.text);
	for (uint32_t d = 0; d < TEST_RUNS_SSDS; d++) {
		cr_expect_eq(test_runs_disk[d].disk.writes + test_runs_disk[d].disk.flushes,
			     writes[d]);
		cr_expect_null(hr_store_find_pending(&engine->ssd[d].store, d ? "out" : "mid"));
	}
	for (uint32_t i = 0; i < 3; i++) {
		cr_expect_eq(engine->run[i].sink_plan, HR_SINK_CREATE);
		cr_expect_eq(engine->run[i].sink_id, 0);
		cr_expect_not(engine->run[i].sink_created);
		cr_expect_eq(engine->run[i].outcome, HR_RUN_WAITING, "run %u", i);
	}
	cr_expect(engine->run[1].object[0].created);
	cr_expect_not(engine->refused);
}

Test(stage_sinks_runs, a_source_gets_the_id_of_the_sink_that_is_made)
{
	use_three();
	engine->run[1].selected = false;
	engine->run[1].sink_id = 77;
	cr_expect_eq(hr_sinks_up(engine), 0, "%s", engine->error.text);
	cr_expect_eq(engine->run[1].sink_id, 77, "it is not selected");
	cr_expect_eq(engine->run[1].sink_plan, HR_SINK_NONE);
	cr_expect_eq(engine->run[1].source[0].id, 0);
	engine->run[1].selected = true;
	cr_expect_eq(hr_sinks_up(engine), 0, "%s", engine->error.text);
	cr_expect_eq(engine->run[1].source[0].id, engine->run[0].sink_id);
	cr_expect_neq(engine->run[0].sink_id, 0);
	cr_expect_eq(engine->run[0].source[0].id, first);
	cr_expect_eq(engine->run[2].source[0].id, first);
}

Test(stage_sinks_runs, objects_get_the_ids_of_objects_that_are_made)
{
	use_three();
	engine->config.pipelines = 2;
	engine->config.pipeline[1].sources = 0;
	engine->config.pipeline[1].has_sink = false;
	engine->config.pipeline[1].op = hr_op_find("gather");
	engine->config.pipeline[1].objects = 2;
	strcpy(engine->config.pipeline[1].object[0].object, "mid");
	engine->config.pipeline[1].object[1] =
		(struct hr_config_object){ .object = "mid", .writes = true, .bytes = 5, .ssd = 1 };
	engine->run[1].object[0] = (struct hr_run_object){ .used = true };
	engine->run[1].object[1] = (struct hr_run_object){ .used = true, .bytes = 5 };
	engine->run[1].object[2].id = 88; /* behind the last */
	cr_expect_eq(hr_sinks_up(engine), 0, "%s", engine->error.text);
	cr_expect_eq(engine->run[1].object[0].id, engine->run[0].sink_id);
	cr_expect_eq(engine->run[1].object[1].id, found(1, "mid")->id);
	cr_expect(engine->run[1].object[1].created);
	cr_expect_eq(engine->run[1].object[2].id, 88);
	hr_sinks_down(engine);
	cr_expect_null(found(1, "mid"));
	cr_expect_null(found(0, "mid"));
	cr_expect_eq(hr_sinks_check(engine), 0);
	cr_expect_not(engine->run[1].object[1].created);
	/* an object of that pipeline is not one of an earlier pipeline of the same name */
	strcpy(engine->config.pipeline[1].object[1].object, "out");
	engine->config.pipeline[1].object[1].ssd = 0;
	strcpy(engine->config.pipeline[0].sink.object, "out");
	engine->config.pipeline[0].sink.replace = engine->config.pipeline[1].object[1].replace =
		true;
	cr_expect_eq(hr_sinks_up(engine), 0, "%s", engine->error.text);
	cr_expect_neq(engine->run[1].object[1].id, engine->run[0].sink_id);
}

/* All errors are told, the first is returned. */
Test(stage_sinks_runs, a_check_goes_on_behind_an_error)
{
	use_three();
	test_runs_put(0, "mid", UNIT, 0, true);
	test_runs_put(0, "far", UNIT, 5, false);
	cr_expect_eq(hr_sinks_check(engine), -EEXIST);
	cr_expect(strstr(engine->error.text, "f:10: object 'mid' exists"), "%s",
		  engine->error.text);
	cr_expect(strstr(engine->error.text, "f:12: object 'far' is incomplete"), "%s",
		  engine->error.text);
	cr_expect(engine->refused);
	cr_expect_eq(engine->run[1].sink_plan, HR_SINK_CREATE);
	cr_expect_eq(engine->run[0].outcome, HR_RUN_WAITING);
}

Test(stage_sinks_runs, others_run_without_a_pipeline_whose_sink_is_refused)
{
	use_three();
	engine->keep_going = true;
	test_runs_put(0, "far", UNIT, 5, false);
	cr_expect_eq(hr_sinks_up(engine), 0, "%s", engine->error.text);
	cr_expect(engine->run[0].selected && engine->run[1].selected && !engine->run[2].selected);
	cr_expect_eq(engine->run[2].outcome, HR_RUN_FAILED);
	cr_expect_eq(engine->run[2].error, -EEXIST);
	cr_expect_eq(engine->error.kind, HR_ERROR_NONE);
	cr_expect_not(engine->refused);
	hr_sinks_down(engine);
	test_runs_put(0, "mid", UNIT, 5, false);
	cr_expect_eq(hr_sinks_up(engine), -EEXIST, "p1 reads the sink of p0");
	cr_expect(!engine->run[0].selected && !engine->run[1].selected);
	cr_expect(engine->refused);
}

/* Errors that stay, and those that may be gone the next time. */
Test(stage_sinks_runs, an_error_of_the_configuration_or_the_store_stays)
{
	static const struct {
		int err;
		bool refused;
		const char *text;
	} row[] = {
		{ 0, false, "" },      { -EINVAL, true, "the name or the size is invalid" },
		{ -ENOSPC, true, "" }, { -ENFILE, true, "" },
		{ -EROFS, true, "" },  { -EOVERFLOW, true, "" },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		end();
		begin();
		if (row[i].err == -EINVAL)
			pipeline->sink.object[0] = '\0';
		if (row[i].err == -ENOSPC)
			run->sink_bytes = 65 * UNIT;
		for (unsigned k = 0; row[i].err == -ENFILE && k < FAKE_STORE_OBJECTS - 1; k++)
			test_runs_put(0, (const char[]){ (char)('A' + (int)k), '\0' }, 1, 0, true);
		test_runs_disk[0].disk.blk.read_only = row[i].err == -EROFS;
		if (row[i].err == -EOVERFLOW)
			engine->ssd[0].store.generation = HR_STORE_COUNTER_MAX;
		engine->refused = !row[i].refused;
		cr_expect_eq(hr_sinks_check(engine), row[i].err, "row %zu: %s", i,
			     engine->error.text);
		cr_expect_eq(engine->refused, row[i].refused, "row %zu", i);
		if (row[i].text[0])
			cr_expect(strstr(engine->error.text, row[i].text), "%s",
				  engine->error.text);
	}
}

Test(stage_sinks_runs, a_disk_that_fails_ends_the_stage_and_remains_no_reason)
{
	use_three();
	test_runs_fail(1, 0, -EIO);
	cr_expect_eq(hr_sinks_up(engine), -EIO);
	cr_expect_not(engine->refused);
	cr_expect(engine->run[0].sink_created);
	cr_expect_not(engine->run[1].sink_created);
	cr_expect_eq(engine->run[2].sink_id, 0, "it comes after the error");
	hr_sinks_down(engine);
	cr_expect_null(found(0, "mid"));
	cr_expect_not(engine->run[0].sink_created);
}

/* Before the sinks, so that their space is free. */
Test(stage_sinks_runs, old_objects_are_collected_first)
{
	test_runs_put(0, "lost", UNIT, 5, false);
	found(0, "lost")->created_ns = 1;
	test_runs_put(1, "young", UNIT, 5, false);
	engine->collect_ns = HR_NS_PER_S * 1000;
	cr_expect_eq(hr_sinks_check(engine), 0);
	cr_expect_not_null(found(0, "lost"));
	cr_expect_eq(hr_sinks_up(engine), 0);
	cr_expect_null(found(0, "lost"));
	cr_expect_not_null(found(1, "young"));
	found(1, "young")->created_ns = 1;
	test_runs_fail(1, 0, -EIO);
	cr_expect_eq(hr_sinks_up(engine), -EIO);
	cr_expect_not_null(found(1, "young"));
}

/* ---- work on disks before the runs */

Test(stage_sinks_runs, a_failed_disk_stops_only_the_run_of_that_sink)
{
	struct hr_store_object *object;

	use_three();
	engine->config.pipeline[2].sink.checksum = true;
	for (unsigned round = 0; round < 3; round++) {
		test_runs_disk[0].disk.bad_to = 0;
		engine->keep_going = round > 0;
		if (round == 2)
			engine->run[0].selected = engine->run[1].selected = false;
		run = &engine->run[2];
		if (!found(0, "far"))
			test_runs_put(0, "far", UNIT, mine(false, 0), false);
		object = found(0, "far");
		cr_assert_eq(hr_store_progress(&engine->ssd[0].store, object->id, UNIT, object->tag,
					       0, NULL),
			     0);
		test_runs_disk[0].disk.bad_from = object->offset;
		test_runs_disk[0].disk.bad_to = object->offset + 1;
		test_runs_disk[0].disk.fail_status = 0x281;
		/* found at the end of a sum, also when the rest of the pipelines may run */
		cr_expect_eq(hr_sinks_up(engine),
			     round == 1	  ? 0
			     : round == 0 ? 0x281
					  : -EIO,
			     "round %u", round);
		cr_expect_eq(engine->run[2].selected, round == 0);
		cr_expect_eq(engine->run[2].error, round ? 0x281 : 0);
		engine->run[2].selected = true;
		hr_sinks_down(engine);
		hr_error_clear(&engine->error);
	}
}

/* ---- the end */

Test(stage_sinks_runs, only_empty_sinks_of_runs_that_wait_are_removed)
{
	struct hr_pipe pipe;

	for (unsigned row = 0; row < 7; row++) {
		const bool stays = row > 0;

		end();
		begin();
		cr_assert_eq(hr_sinks_up(engine), 0);
		switch (row) {
		case 1:
			run->pipe = &pipe;
			break;
		case 2:
			run->sink_created = false;
			break;
		case 3:
			run->outcome = HR_RUN_DONE;
			break;
		case 4:
			cr_assert_eq(hr_store_progress(&engine->ssd[0].store, run->sink_id, 1, 5, 0,
						       NULL),
				     0);
			break;
		case 5:
			engine->ssd[0].health.state = HR_HEALTH_FAILED;
			break;
		case 6:
			test_runs_fail(0, 0, -EIO);
			break;
		default:
			break;
		}
		hr_sinks_down(engine);
		cr_expect_eq(found(0, "out") != NULL, stays, "row %u", row);
		cr_expect_eq(run->sink_created, row == 1 || row == 3, "row %u", row);
		cr_expect_eq(fake_log_count_of(HR_LOG_WARN), row < 5 ? 0 : row - 4, "row %u", row);
		if (row == 5)
			cr_expect_str_eq(fake_log_last_of(HR_LOG_WARN),
					 "object 'out' stays on ssd 'a', incomplete; 'headrace "
					 "store rm --pending soft:x' removes it");
		if (row == 6)
			cr_expect(strstr(fake_log_last_of(HR_LOG_WARN), "incomplete: "), "%s",
				  fake_log_last_of(HR_LOG_WARN));
	}
}

Test(stage_sinks_runs, each_pipeline_removes_its_own_sink)
{
	use_three();
	cr_assert_eq(hr_sinks_up(engine), 0);
	engine->run[1].sink_id = 99; /* it is gone */
	hr_sinks_down(engine);
	cr_expect_null(found(0, "mid"));
	cr_expect_not_null(found(1, "out"));
	cr_expect_null(found(0, "far"));
	for (uint32_t i = 0; i < 3; i++)
		cr_expect_not(engine->run[i].sink_created, "run %u", i);
	cr_expect_eq(fake_log_count_of(HR_LOG_WARN), 0);
}
