/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stage `objects`, over stores on disks in memory: the objects that pipelines read, the runs that
 * make them, tiles, and each error with its line.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "tests/harness/stage_objects_rig.h"

#define ROWS(table) (sizeof(table) / sizeof(*(table)))

TestSuite(stage_objects, .init = begin, .fini = test_runs_end, .timeout = 60);

Test(stage_objects, sources_are_found_and_have_tiles)
{
	const uint64_t x = test_runs_put(0, "x", 2 * UNIT + 4, 0, true);
	const uint64_t y = test_runs_put(1, "y", UNIT + 2, 0, true);

	row_bytes[1] = 2;
	add_source(0, 0, "x");
	add_source(0, 1, "y");
	set_sink(0, 1, "out");
	own.out_num = 3;
	own.out_den = 4;
	engine->ssd[1].ns.lba_shift = 9;
	run->ssds = 7;
	run->source[2].tile_bytes = 77;
	cr_assert_eq(hr_objects_up(engine), 0, "%s", engine->error.text);
	cr_expect_eq(run->source[0].id, x);
	cr_expect_eq(run->source[1].id, y);
	cr_expect_eq(run->source[0].bytes, 2 * UNIT + 4);
	cr_expect_eq(run->source[0].tile_bytes, UNIT);
	cr_expect_eq(run->source[1].tile_bytes, UNIT / 2);
	cr_expect_eq(run->source[2].tile_bytes, 77);
	cr_expect_eq(run->source[0].writer, -1);
	cr_expect_eq(run->source[0].queue, 0);
	cr_expect_eq(run->source[1].queue, 1);
	cr_expect_eq(run->ssds, 2);
	cr_expect_eq(run->ssd[1], 1);
	cr_expect_eq(run->tiles, 3);
	cr_expect_eq(run->sink_tile_bytes, UNIT / 4 * 3);
	cr_expect_eq(run->sink_bytes, (2 * UNIT + 4) / 4 * 3);
	pipeline->has_sink = false;
	run->sink_bytes = 5;
	cr_assert_eq(hr_objects_up(engine), 0, "%s", engine->error.text);
	cr_expect_eq(run->sink_bytes, 5, "there is no output");
	strcpy(pipeline->tap.name, "t");
	cr_assert_eq(hr_objects_up(engine), 0, "%s", engine->error.text);
	cr_expect_eq(run->sink_bytes, (2 * UNIT + 4) / 4 * 3);
}

Test(stage_objects, sources_of_one_ssd_share_its_queues)
{
	for (uint32_t d = 0; d < 2; d++)
		for (uint32_t k = 0; k < 2; k++)
			test_runs_put(d, k ? "l" : "k", UNIT, 0, true);
	add_source(0, 1, "k");
	add_source(0, 0, "k");
	add_source(0, 1, "l");
	cr_assert_eq(hr_objects_up(engine), 0, "%s", engine->error.text);
	cr_expect_eq(run->ssds, 2);
	cr_expect_eq(run->ssd[0], 1);
	cr_expect_eq(run->ssd[1], 0);
	cr_expect_eq(run->source[0].queue, 0);
	cr_expect_eq(run->source[1].queue, 1);
	cr_expect_eq(run->source[2].queue, 0);
}

/* Each of the sources is named, with its own line. */
Test(stage_objects, all_missing_objects_are_told)
{
	test_runs_put(0, "weights", UNIT, 0, true);
	test_runs_put(1, "half", UNIT, 0, false);
	add_source(0, 0, "weigths");
	add_source(0, 1, "half");
	add_source(0, 1, "nothing-like-it");
	expect_error(hr_objects_up(engine),
		     "f:20: there is no object 'weigths' on ssd 'a'; did you mean 'weights'?\n"
		     "f:21: object 'half' on ssd 'b' is incomplete: the run that writes it has not "
		     "finished\n"
		     "f:22: there is no object 'nothing-like-it' on ssd 'b'");
	cr_expect_eq(run->ssds, 0);
}

Test(stage_objects, an_ssd_without_a_store_has_no_objects)
{
	engine->ssd[0].has_store = false;
	engine->ssd[1].has_store = false;
	engine->ssd[1].transport.keeps_no_data = true;
	add_source(0, 0, "x");
	set_sink(0, 1, "out");
	expect_error(hr_objects_up(engine),
		     "f:20: ssd 'a' (soft:x) has no object store; make one with 'headrace store "
		     "format'\n"
		     "f:29: ssd 'b' (soft:y) keeps no data, so it has no objects; only 'headrace "
		     "bench' can use it");
	engine->ssd[0].has_store = true;
	test_runs_put(0, "x", UNIT, 0, true);
	expect_error(hr_objects_up(engine), "f:29: ssd 'b' (soft:y) keeps no data, so it has no "
					    "objects; only 'headrace bench' can use it");
	engine->ssd[0].has_store = false;
	pipeline->sources = 0;
	pipeline->has_sink = false;
	pipeline->op = hr_op_find("gather");
	pipeline->objects = 1;
	strcpy(pipeline->object[0].object, "x");
	pipeline->object[0].line = 24;
	expect_error(hr_objects_up(engine), "f:24: ssd 'a' (soft:x) has no object store; make one "
					    "with 'headrace store format'");
}

Test(stage_objects, sources_have_whole_rows_and_as_many)
{
	test_runs_put(0, "x", 2 * UNIT, 0, true);
	test_runs_put(0, "odd", 2 * UNIT + 3, 0, true);
	test_runs_put(1, "less", 2 * UNIT - 4, 0, true);
	add_source(0, 0, "x");
	add_source(0, 0, "odd");
	expect_error(hr_objects_up(engine),
		     "f:21: object 'odd' has 8195 bytes, expected whole rows "
		     "of 4 bytes for operator copy");
	pipeline->sources = 1;
	add_source(0, 1, "less");
	expect_error(hr_objects_up(engine), "f:21: object 'less' has 2047 rows, but 'x' has 2048; "
					    "expected the same number in all sources");
}

Test(stage_objects, tiles_are_whole_blocks)
{
	test_runs_put(0, "x", 2 * UNIT, 0, true);
	add_source(0, 0, "x");
	set_sink(0, 1, "out");
	pipeline->tile_bytes = UNIT + 512;
	engine->ssd[0].chunk_bytes = engine->ssd[1].chunk_bytes = 2 * UNIT;
	expect_error(hr_objects_up(engine),
		     "f:15: pipeline 'p0': a tile of source 'x' is 4608 bytes, "
		     "expected whole blocks of 4096 bytes");
	engine->ssd[0].ns.lba_shift = 9;
	expect_error(hr_objects_up(engine),
		     "f:15: pipeline 'p0': the output of a tile is 4608 bytes, "
		     "expected whole blocks of 4096 bytes");
	engine->ssd[1].ns.lba_shift = 9;
	cr_expect_eq(hr_objects_up(engine), 0);
	pipeline->tile_bytes = UNIT + 256;
	expect_error(hr_objects_up(engine),
		     "f:15: pipeline 'p0': a tile of source 'x' is 4352 bytes, "
		     "expected whole blocks of 512 bytes");
	engine->ssd[0].ns.lba_shift = 8;
	pipeline->has_sink = false;
	cr_expect_eq(hr_objects_up(engine), 0);
}

#define CROWDED(n, ssd)                                                                            \
	"f:15: pipeline 'p0': one tile takes " n " commands of at most 4096 bytes, but queues of " \
	"ssd '" ssd "' have room for 2"

/* Of two sources the commands add up; the sink has queues of its own. */
Test(stage_objects, a_queue_has_room_for_a_tile)
{
	static const struct {
		uint32_t tile, out, second, sink; /* units, and ssds */
		const char *text;
	} row[] = {
		{ 1, 1, 0, 0, NULL },
		{ 2, 1, 1, 0, NULL },
		{ 2, 1, 0, 0, CROWDED("4", "a") },
		{ 3, 1, 1, 1, CROWDED("3", "a") },
		{ 1, 2, 1, 0, NULL },
		{ 1, 2, 1, 1, NULL },
		{ 1, 3, 1, 1, CROWDED("3", "b") },
		{ 1, 3, 1, 0, CROWDED("3", "a") },
		{ 1, 2, 0, 0, NULL },
	};

	test_runs_put(0, "x", 6 * UNIT, 0, true);
	test_runs_put(0, "y", 6 * UNIT, 0, true);
	test_runs_put(1, "y", 6 * UNIT, 0, true);
	for (size_t i = 0; i < ROWS(row); i++) {
		pipeline->sources = 0;
		add_source(0, 0, "x");
		add_source(0, row[i].second, "y");
		set_sink(0, row[i].sink, "out");
		pipeline->tile_bytes = row[i].tile * UNIT;
		own.out_num = row[i].out;
		own.out_den = 1;
		if (row[i].text)
			expect_error(hr_objects_up(engine), row[i].text);
		else
			cr_expect_eq(hr_objects_up(engine), 0, "row %zu: %s", i,
				     engine->error.text);
	}
	/* an ssd behind the last has no queues, and a pipeline without a sink writes nothing */
	engine->config.ssds = 1;
	pipeline->has_sink = false;
	cr_expect_eq(hr_objects_up(engine), 0, "%s", engine->error.text);
}

/* The step is a block of 4 KiB of the shortest rows. */
Test(stage_objects, a_tile_size_that_is_open_shrinks_to_fit)
{
	static const struct {
		uint32_t tile, sinks, want;
	} row[] = { { 2, 0, 2 }, { 3, 0, 1 }, { 4, 0, 2 }, { 7, 0, 1 }, { 10, 0, 2 }, { 2, 2, 1 } };

	test_runs_put(0, "x", 20 * UNIT, 0, true);
	add_source(0, 0, "x");
	for (size_t i = 0; i < ROWS(row); i++) {
		pipeline->tile_chosen = true;
		pipeline->tile_bytes = row[i].tile * UNIT;
		own.out_num = row[i].sinks ? row[i].sinks : 1;
		own.out_den = 1;
		if (row[i].sinks)
			set_sink(0, 1, "out");
		cr_expect_eq(hr_objects_up(engine), 0, "row %zu: %s", i, engine->error.text);
		cr_expect_eq(pipeline->tile_bytes, row[i].want * UNIT, "row %zu: %u", i,
			     pipeline->tile_bytes);
		cr_expect_eq(run->source[0].tile_bytes, row[i].want * UNIT);
	}
	pipeline->tile_bytes = 4 * UNIT;
	engine->ssd[0].queue_entries = 1; /* no tile fits */
	expect_error(hr_objects_up(engine),
		     "f:15: pipeline 'p0': one tile takes 1 commands of at "
		     "most 4096 bytes, but queues of ssd 'a' have room for 0");
	cr_expect_eq(pipeline->tile_bytes, UNIT);
	pipeline->has_sink = pipeline->tile_chosen = false;
	engine->ssd[0].queue_entries = 3;
	pipeline->tile_bytes = 3 * UNIT;
	expect_error(hr_objects_up(engine), CROWDED("3", "a"));
	cr_expect_eq(pipeline->tile_bytes, 3 * UNIT);
}

/* ---- objects that other pipelines make */

Test(stage_objects, a_source_may_be_the_sink_of_an_earlier_run)
{
	test_runs_put(0, "x", 3 * UNIT, 0, true);
	test_runs_put(0, "mid", UNIT, 0, true);
	engine->run[1].selected = engine->run[2].selected = true;
	add_source(0, 0, "x");
	add_source(1, 0, "x");
	add_source(2, 0, "mid");
	set_sink(0, 0, "mid");
	set_sink(1, 1, "mid");
	set_sink(2, 1, "out");
	engine->run[2].source[0].id = 9;
	cr_assert_eq(hr_objects_up(engine), 0, "%s", engine->error.text);
	cr_expect_eq(engine->run[2].source[0].writer, 0);
	cr_expect_eq(engine->run[2].source[0].bytes, 3 * UNIT);
	cr_expect_eq(engine->run[2].tiles, 3);
	/* the last one that writes it */
	engine->config.pipeline[1].sink.ssd = 0;
	cr_assert_eq(hr_objects_up(engine), 0, "%s", engine->error.text);
	cr_expect_eq(engine->run[2].source[0].writer, 1);
	/* not one that does not run, nor a later one */
	engine->run[0].selected = engine->run[1].selected = false;
	cr_assert_eq(hr_objects_up(engine), 0, "%s", engine->error.text);
	cr_expect_eq(engine->run[2].source[0].writer, -1);
	cr_expect_eq(engine->run[2].tiles, 1);
	engine->run[0].selected = true;
	strcpy(engine->config.pipeline[0].source[0].object, "out");
	engine->config.pipeline[0].source[0].ssd = 1;
	expect_error(hr_objects_up(engine), "f:20: there is no object 'out' on ssd 'b'");
}

Test(stage_objects, checksums_of_sources_are_wanted)
{
	add_source(0, 0, "x");
	pipeline->verify = HR_VERIFY_ON;
	test_runs_put(0, "x", UNIT, 0, true);
	cr_expect_eq(hr_objects_up(engine), -EINVAL);
	cr_expect(strstr(engine->error.text, "f:20: object 'x' on ssd 'a' has no checksum"), "%s",
		  engine->error.text);
	hr_error_clear(&engine->error);
	hr_store_find(&engine->ssd[0].store, "x")->flags |= HR_OBJECT_HAS_CRC;
	cr_expect_eq(hr_objects_up(engine), 0);
	cr_expect(run->source[0].verify.wanted);
	engine->run[1].selected = true;
	set_sink(0, 0, "mid");
	add_source(1, 0, "mid");
	engine->config.pipeline[1].verify = HR_VERIFY_ON;
	cr_expect_eq(hr_objects_up(engine), -EINVAL, "the sink has none");
	hr_error_clear(&engine->error);
	pipeline->sink.checksum = true;
	cr_expect_eq(hr_objects_up(engine), 0, "%s", engine->error.text);
}

/* One process cannot read a part of a data set. */
Test(stage_objects, a_shard_needs_ranks)
{
	test_runs_put(0, "x", UNIT, 0, true);
	add_source(0, 0, "x");
	set_sink(0, 0, "mid");
	be_shard(2 * UNIT);
	cr_expect_eq(hr_objects_up(engine), -EINVAL);
	cr_expect_eq(engine->error.kind, HR_ERROR_USAGE);
	hr_error_clear(&engine->error);
	engine->run[1].selected = true;
	engine->config.pipeline[1].shard = HR_SHARD_OBJECTS;
	run->parts = engine->run[1].parts = 2;
	pipeline->shard = HR_SHARD_OBJECTS;
	add_source(1, 0, "mid");
	cr_expect_eq(hr_objects_up(engine), 0, "%s", engine->error.text);
	cr_expect(run->of_shards);
	cr_expect(engine->run[1].source[0].is_shard);
	engine->run[1].parts = 0;
	cr_expect_eq(hr_objects_up(engine), -EINVAL);
	cr_expect(strstr(engine->error.text, "f:30: object 'mid'"), "%s", engine->error.text);
}

Test(stage_objects, a_feed_is_a_source_of_its_configured_length)
{
	strcpy(pipeline->feed.name, "rows");
	pipeline->feed.bytes = 5 * UNIT;
	pipeline->sources = 1;
	run->source[0].id = 9;
	set_sink(0, 0, "out");
	cr_assert_eq(hr_objects_up(engine), 0, "%s", engine->error.text);
	cr_expect_eq(run->source[0].id, 0);
	cr_expect_eq(run->source[0].writer, -1);
	cr_expect_eq(run->source[0].verify.check, HR_SOURCE_NO_CHECKSUM);
	cr_expect_eq(run->tiles, 5);
	cr_expect_eq(run->ssds, 0);
}

/* ---- several pipelines */

Test(stage_objects, pipelines_go_on_behind_one_that_fails)
{
	test_runs_put(0, "x", UNIT, 0, true);
	engine->run[2].selected = true;
	add_source(0, 0, "none");
	add_source(1, 0, "x");
	add_source(2, 0, "x");
	cr_expect_eq(hr_objects_up(engine), -EINVAL);
	cr_expect(engine->run[0].selected);
	cr_expect_eq(engine->run[2].tiles, 1);
	cr_expect_eq(engine->run[1].tiles, 0, "it is not selected");
	hr_error_clear(&engine->error);
	engine->keep_going = true;
	cr_expect_eq(hr_objects_up(engine), 0);
	cr_expect(!engine->run[0].selected && engine->run[2].selected);
	cr_expect_eq(engine->run[0].error, -EINVAL);
	engine->run[0].selected = true;
	engine->run[2].selected = false;
	cr_expect_eq(hr_objects_up(engine), -EINVAL, "none is left");
}

/* `headrace check` of a schedule: what comes later is no error. */
Test(stage_objects, a_check_accepts_objects_that_come_later)
{
	static const struct {
		bool checks;
		enum hr_when_kind kind;
		const char *wanted; /* object of the schedule */
		uint32_t ssd;
		bool there, awaits;
	} row[] = {
		{ true, HR_WHEN_OBJECT, "late", 0, false, true },
		{ false, HR_WHEN_OBJECT, "late", 0, false, false },
		{ true, HR_WHEN_ONCE, "late", 0, false, false },
		{ true, HR_WHEN_EVERY, "late", 0, false, false },
		{ true, HR_WHEN_OBJECT, "other", 0, false, false },
		{ true, HR_WHEN_OBJECT, "late", 1, false, false },
		{ true, HR_WHEN_OBJECT, "late", 0, true, false },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		int want = row[i].there || row[i].awaits ? 0 : -EINVAL;

		test_runs_end();
		begin();
		test_runs_put(0, "x", UNIT, 0, true);
		if (row[i].there)
			test_runs_put(0, "late", UNIT, 0, true);
		add_source(0, 0, "x");
		add_source(0, 0, "late");
		engine->only_checks = row[i].checks;
		pipeline->when.kind = row[i].kind;
		pipeline->when.object_ssd = row[i].ssd;
		strcpy(pipeline->when.text, row[i].wanted);
		run->awaits = &pipeline->sink;
		engine->run[1].awaits = &pipeline->sink;
		cr_expect_eq(hr_objects_up(engine), want, "row %zu: %s", i, engine->error.text);
		cr_expect_eq(run->selected, !row[i].awaits, "row %zu", i);
		if (row[i].checks && row[i].kind != HR_WHEN_ONCE) {
			cr_expect_eq(run->awaits, row[i].awaits ? &pipeline->source[1] : NULL,
				     "row %zu", i);
			cr_expect_null(engine->run[1].awaits);
		}
	}
}

/* A pipeline that is not run now, and has its start later, makes the object. */
Test(stage_objects, a_check_accepts_objects_of_other_pipelines)
{
	engine->only_checks = true;
	pipeline->when.kind = HR_WHEN_EVERY;
	add_source(0, 0, "late");
	for (uint32_t maker = 0; maker < 4; maker++) {
		run->selected = true;
		for (uint32_t i = 0; i < 3; i++)
			engine->config.pipeline[i].has_sink = false;
		if (maker < 3)
			set_sink(maker, 0, "late");
		cr_expect_eq(hr_objects_up(engine), maker == 1 || maker == 2 ? 0 : -EINVAL,
			     "pipeline %u", maker);
		cr_expect_eq(run->selected, maker == 0 || maker == 3, "pipeline %u", maker);
		hr_error_clear(&engine->error);
	}
	run->selected = true;
	engine->ssd[0].has_store = false;
	set_sink(1, 0, "late");
	cr_expect_eq(hr_objects_up(engine), -EINVAL, "it has no store");
	cr_expect(run->selected);
}

/* A run that is made now is not awaited. */
Test(stage_objects, a_check_does_not_await_what_an_earlier_run_makes)
{
	engine->only_checks = true;
	engine->config.pipeline[1].when.kind = HR_WHEN_EVERY;
	test_runs_put(0, "x", UNIT, 0, true);
	add_source(0, 0, "x");
	set_sink(0, 0, "late");
	add_source(1, 0, "late");
	engine->run[1].selected = true;
	cr_expect_eq(hr_objects_up(engine), 0, "%s", engine->error.text);
	cr_expect(engine->run[1].selected);
	cr_expect_eq(engine->run[1].source[0].writer, 0);
	run->selected = false; /* it runs later */
	cr_expect_eq(hr_objects_up(engine), 0, "%s", engine->error.text);
	cr_expect_not(engine->run[1].selected);
	cr_expect_eq(engine->run[1].awaits, &engine->config.pipeline[1].source[0]);
}
