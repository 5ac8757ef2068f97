/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stage `sinks`, over stores on disks in memory: what an existing object means, and the durable
 * prefix of a resumed run.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "boot/engine/objects/new_objects.h"
#include "cache/crc32c.h"
#include "tests/harness/sinks_rig.h"

#define ROWS(table) (sizeof(table) / sizeof(*(table)))

TestSuite(stage_sinks, .init = begin, .fini = end, .timeout = 60);

#define EXISTS(why)                                                                             \
	"f:7: object 'out' exists on ssd 'a', and is not of this run: " why "; remove it with " \
	"'headrace store rm soft:x out', or set replace = true"
#define PARTLY(why)                                                                               \
	"f:7: object 'out' is incomplete on ssd 'a', and is not of this run: " why "; remove it " \
	"with 'headrace store rm --pending soft:x out', or set replace = true"
#define OTHER "it was made with another pipeline name, operator, arguments, sources or tile size"

enum { NONE, PENDING = 1, WHOLE = 2, BOTH = 3 };

Test(stage_sinks, what_an_existing_object_of_that_name_means)
{
	static const struct {
		int there;
		bool summed, other, longer, replace, again, verify, collect;
		int want;
		enum hr_sink_plan plan;
		const char *text;
	} row[] = {
		{ NONE, 0, 0, 0, 0, 0, 0, 0, 0, HR_SINK_CREATE, "" },
		{ NONE, 0, 0, 0, 1, 0, 0, 0, 0, HR_SINK_CREATE, "" },
		{ PENDING, 0, 0, 0, 0, 0, 0, 0, 0, HR_SINK_RESUME, "" },
		{ PENDING, 1, 0, 0, 0, 0, 0, 0, 0, HR_SINK_RESUME, "" },
		{ PENDING, 1, 0, 0, 1, 0, 0, 0, 0, HR_SINK_RESUME, "" },
		{ PENDING, 1, 0, 0, 0, 0, 0, 1, 0, HR_SINK_RESUME, "" },
		{ PENDING, 0, 0, 0, 0, 0, 1, 0, 0, HR_SINK_CREATE, "" },
		{ PENDING, 0, 0, 1, 0, 0, 0, 0, -EEXIST, HR_SINK_CREATE,
		  PARTLY("it has 12289 bytes, and this run makes 12288") },
		{ PENDING, 0, 1, 0, 0, 0, 0, 0, -EEXIST, HR_SINK_CREATE, PARTLY(OTHER) },
		{ PENDING, 0, 1, 0, 1, 0, 0, 0, 0, HR_SINK_REPLACE, "" },
		{ PENDING, 0, 1, 0, 0, 0, 0, 1, 0, HR_SINK_REPLACE, "" },
		{ WHOLE, 0, 0, 0, 0, 0, 0, 0, 0, HR_SINK_COMPLETE, "" },
		{ WHOLE, 1, 0, 0, 0, 0, 0, 0, 0, HR_SINK_COMPLETE, "" },
		{ WHOLE, 0, 0, 0, 0, 1, 0, 0, 0, HR_SINK_REPLACE, "" },
		{ WHOLE, 0, 0, 0, 1, 0, 0, 0, 0, HR_SINK_REPLACE, "" },
		{ WHOLE, 0, 1, 0, 0, 0, 0, 0, -EEXIST, HR_SINK_CREATE, EXISTS(OTHER) },
		{ WHOLE, 0, 1, 0, 0, 0, 0, 1, -EEXIST, HR_SINK_CREATE, EXISTS(OTHER) },
		{ WHOLE, 0, 1, 0, 1, 0, 0, 0, 0, HR_SINK_REPLACE, "" },
		{ BOTH, 0, 0, 0, 0, 0, 0, 0, 0, HR_SINK_RESUME, "" },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		const uint64_t bytes = 3 * UNIT + row[i].longer;
		uint64_t id = 0, made;

		end();
		begin();
		pipeline->sink.replace = row[i].replace;
		run->create_again = row[i].again;
		pipeline->verify = row[i].verify ? HR_VERIFY_ON : HR_VERIFY_AUTO;
		for (uint32_t s = 0; s < 2; s++)
			found(s, s ? "y" : "x")->flags |= HR_OBJECT_HAS_CRC;
		if (row[i].there & WHOLE)
			id = test_runs_put(0, "out", bytes, mine(row[i].summed, row[i].other),
					   true);
		if (row[i].there & PENDING)
			id = test_runs_put(0, "out", bytes, mine(row[i].summed, row[i].other),
					   false);
		if (row[i].collect) /* the pipeline uses the name, so it is not collected */
			engine->collect_ns = 1;
		run->sink_crc = 9; /* of an earlier attempt */
		run->sink_unsummed = true;
		cr_expect_eq(hr_sinks_check(engine), row[i].want, "row %zu", i);
		cr_expect_eq(run->sink_plan, row[i].plan, "row %zu: %d", i, run->sink_plan);
		cr_expect_str_eq(engine->error.text, row[i].text, "row %zu: %s", i,
				 engine->error.text);
		cr_expect_eq(engine->refused, row[i].want != 0, "row %zu", i);
		cr_expect_eq(run->sink_id, 0);
		cr_expect_eq(run->outcome, HR_RUN_WAITING);
		hr_error_clear(&engine->error);
		cr_expect_eq(hr_sinks_up(engine), row[i].want, "row %zu", i);
		if (row[i].want)
			continue;
		made = run->sink_id;
		cr_expect_eq(made == id, row[i].plan >= HR_SINK_RESUME, "row %zu", i);
		cr_expect_eq(run->sink_created, row[i].plan < HR_SINK_RESUME, "row %zu", i);
		cr_expect_eq(run->outcome == HR_RUN_COMPLETE, row[i].plan == HR_SINK_COMPLETE);
		cr_expect_eq(run->first_tile, row[i].plan == HR_SINK_COMPLETE ? 3 : 0, "row %zu",
			     i);
		cr_expect_eq(run->durable_tiles, run->first_tile);
		cr_expect_eq(run->sink_crc, 0);
		cr_expect_not(run->sink_unsummed);
		if (!run->sink_created)
			continue;
		cr_assert_not_null(hr_store_find_id(&engine->ssd[0].store, made));
		cr_expect_eq(hr_store_find_id(&engine->ssd[0].store, made)->tag, mine(false, 0));
		cr_expect_eq(hr_store_find_id(&engine->ssd[0].store, made)->bytes, 3 * UNIT);
	}
}

/* What the record of an object shows, in the order in which it is told. */
Test(stage_sinks, the_error_says_how_the_object_differs)
{
	struct hr_store_object *out;

	test_runs_put(0, "out", UNIT, 5, true);
	out = found(0, "out");
	out->tag = 0;
	cr_expect_eq(hr_sinks_check(engine), -EEXIST);
	cr_expect_str_eq(engine->error.text,
			 EXISTS("'headrace store put' or a configuration stored it"));
	hr_error_clear(&engine->error);
	out->tag = 5;
	cr_expect_eq(hr_sinks_check(engine), -EEXIST);
	cr_expect_str_eq(engine->error.text, EXISTS("it has 4096 bytes, and this run makes 12288"));
	hr_error_clear(&engine->error);
	out->bytes = 3 * UNIT;
	run->source[1].writer = 0;
	cr_expect_eq(hr_sinks_check(engine), -EEXIST);
	cr_expect_str_eq(engine->error.text, EXISTS("its source 'y' is made again"));
	hr_error_clear(&engine->error);
	run->source[1].writer = -1;
	run->source[0].id = test_runs_put(0, "w", 3 * UNIT, 0, true); /* newer than the sink */
	strcpy(pipeline->source[0].object, "w");
	cr_expect_eq(hr_sinks_check(engine), -EEXIST);
	cr_expect_str_eq(engine->error.text, EXISTS("its source 'w' was stored after it"));
	hr_error_clear(&engine->error);
	/* ids of another store do not compare */
	pipeline->sources = 1;
	pipeline->source[0].ssd = 1;
	for (uint32_t k = 0; k < 3; k++)
		run->source[0].id = test_runs_put(1, k == 0 ? "q" : k == 1 ? "r" : "s", 1, 0, true);
	cr_expect_eq(hr_sinks_check(engine), -EEXIST);
	cr_expect_str_eq(engine->error.text, EXISTS(OTHER));
}

Test(stage_sinks, an_older_version_must_be_of_a_run)
{
	test_runs_put(0, "out.1", UNIT, 0, true);
	pipeline->sink.keep = 2;
	pipeline->sink.replace = true;
	cr_expect_eq(hr_sinks_check(engine), -EEXIST);
	cr_expect_str_eq(engine->error.text,
			 "f:7: object 'out.1' on ssd 'a' has the name of an older version of the "
			 "sink (keep = 2), and no run has made it: rename or remove it");
	hr_error_clear(&engine->error);
	pipeline->sink.keep = 1;
	cr_expect_eq(hr_sinks_check(engine), 0);
	cr_expect_eq(run->sink_plan, HR_SINK_CREATE);
}

Test(stage_sinks, texts_of_plans)
{
	static const char *const text[] = { "", "", "; replaces the existing object",
					    "; resumes an interrupted run",
					    "; already complete: nothing to do" };

	for (uint32_t plan = HR_SINK_NONE; plan <= HR_SINK_COMPLETE; plan++)
		cr_expect_str_eq(hr_sink_plan_text((enum hr_sink_plan)plan), text[plan]);
}

Test(stage_sinks, a_result_or_a_verified_source_needs_all_tiles)
{
	cr_expect(hr_run_resumes(run));
	pipeline->verify = HR_VERIFY_OFF;
	cr_expect(hr_run_resumes(run));
	pipeline->verify = HR_VERIFY_ON;
	cr_expect_not(hr_run_resumes(run));
	pipeline->verify = HR_VERIFY_AUTO;
	pipeline->op = hr_op_find("crc32c");
	cr_expect_not(hr_run_resumes(run));
}

/* ---- a durable prefix */

/* An incomplete sink of which that many bytes are durable. */
static struct hr_store_object *interrupted(uint64_t bytes, bool summed, uint32_t crc)
{
	const uint64_t id = test_runs_put(0, "out", run->sink_bytes, mine(summed, 0), false);

	cr_assert_eq(
		hr_store_progress(&engine->ssd[0].store, id, bytes, mine(summed, 0), crc, NULL), 0);
	return hr_store_find_id(&engine->ssd[0].store, id);
}

Test(stage_sinks, a_run_resumes_behind_the_whole_tiles)
{
	static const struct {
		uint64_t all, durable; /* bytes */
		uint32_t tile;
		uint64_t first, read; /* tiles; bytes whose checksum is computed again */
	} row[] = {
		{ 3 * UNIT, 0, UNIT, 0, 0 },
		{ 3 * UNIT, UNIT - 1, UNIT, 0, 0 },
		{ 3 * UNIT, UNIT, UNIT, 1, 0 },
		{ 3 * UNIT, UNIT + 1, UNIT, 1, UNIT }, /* the checksum covers a byte too many */
		{ 3 * UNIT, 2 * UNIT, UNIT, 2, 0 },
		{ 3 * UNIT, 3 * UNIT, UNIT, 3, 0 },
		{ 2 * UNIT + 5, 2 * UNIT + 4, UNIT, 2, 2 * UNIT },
		{ 2 * UNIT + 5, 2 * UNIT + 5, UNIT, 3, 0 },
		{ 3 * UNIT, 2 * UNIT, 256, 3,
		  0 }, /* of another tile size: more tiles than there are */
		{ 3 * UNIT, UNIT, 0, 0, 0 },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		const struct hr_store_object *object;
		uint8_t *data;

		end();
		begin();
		pipeline->sink.checksum = true;
		run->sink_bytes = row[i].all;
		run->sink_tile_bytes = row[i].tile;
		object = interrupted(row[i].durable, true, 0xc0de);
		data = test_runs_disk[0].disk.seen + object->offset;
		for (uint64_t at = 0; at < object->capacity; at++)
			data[at] = (uint8_t)(at * 7 + at / 256);
		cr_assert_eq(hr_sinks_up(engine), 0, "%s", engine->error.text);
		cr_expect_eq(run->sink_plan, HR_SINK_RESUME);
		cr_expect_eq(run->sink_id, found(0, "out")->id);
		cr_expect_eq(run->first_tile, row[i].first, "row %zu", i);
		cr_expect_eq(run->durable_tiles, row[i].first);
		if (row[i].tile == 256)
			continue;
		cr_expect_eq(run->sink_summed_tiles, row[i].first, "row %zu", i);
		cr_expect_eq(run->sink_crc,
			     row[i].read    ? hr_crc32c(0, data, row[i].read)
			     : row[i].first ? 0xc0de
					    : 0,
			     "row %zu: %08x", i, run->sink_crc);
	}
}

Test(stage_sinks, a_prefix_without_checksum_is_read_again)
{
	const struct hr_store_object *object = interrupted(2 * UNIT, false, 0xc0de);
	uint8_t *data = test_runs_disk[0].disk.seen + object->offset;

	memset(data, 0x5a, 3 * UNIT);
	cr_assert_eq(hr_sinks_up(engine), 0);
	cr_expect_eq(run->sink_summed_tiles, 0, "the sink wants none");
	cr_expect_eq(run->sink_crc, 0);
	cr_expect_not(run->sink_unsummed);
	pipeline->sink.checksum = true;
	cr_assert_eq(hr_sinks_up(engine), 0);
	cr_expect_eq(run->first_tile, 2);
	cr_expect_eq(run->sink_crc, hr_crc32c(0, data, 2 * UNIT));
	cr_expect_str_eq(fake_log_last_of(HR_LOG_WARN),
			 "pipeline 'p0': the incomplete object 'out' on ssd 'a' has no checksum of "
			 "its first 8192 bytes: they are read again");
	test_runs_disk[0].disk.bad_from = object->offset + UNIT;
	test_runs_disk[0].disk.bad_to = object->offset + UNIT + 1;
	test_runs_disk[0].disk.fail_status = 0x281;
	cr_expect_eq(hr_sinks_up(engine), 0x281);
	cr_expect(strstr(engine->error.text, "pipeline 'p0': object 'out' on ssd 'a': ") ==
			  engine->error.text,
		  "%s", engine->error.text);
	cr_expect_eq(run->first_tile, 2);
}

/* A part of another rank begins at its first tile, and so does its object. */
Test(stage_sinks, a_part_resumes_within_its_tiles)
{
	uint64_t id;

	run->part = 1;
	run->parts = 2;
	run->tiles = 6;
	run->sink_bytes = 6 * UNIT;
	pipeline->sink.checksum = true;
	cr_assert_eq(hr_sinks_up(engine), 0, "%s", engine->error.text);
	cr_expect_eq(run->first_tile, 3);
	cr_expect_eq(run->durable_tiles, 3);
	cr_expect_eq(run->sink_summed_tiles, 3);
	id = run->sink_id;
	cr_expect(found(0, "out")->flags & HR_OBJECT_SHARD);
	cr_expect_eq(found(0, "out")->shard.first_row, 3 * UNIT);
	cr_expect_eq(found(0, "out")->bytes, 3 * UNIT);
	cr_assert_eq(hr_store_progress(&engine->ssd[0].store, id, UNIT, found(0, "out")->tag,
				       0xc0de, NULL),
		     0);
	cr_assert_eq(hr_sinks_up(engine), 0, "%s", engine->error.text);
	cr_expect_eq(run->sink_plan, HR_SINK_RESUME);
	cr_expect_eq(run->sink_id, id);
	cr_expect_eq(run->first_tile, 4);
	cr_expect_eq(run->sink_summed_tiles, 4);
	cr_expect_eq(run->sink_crc, 0xc0de);
	cr_assert_eq(hr_store_finish(&engine->ssd[0].store, id, false, 0, NULL), 0);
	cr_assert_eq(hr_sinks_up(engine), 0, "%s", engine->error.text);
	cr_expect_eq(run->outcome, HR_RUN_COMPLETE);
	cr_expect_eq(run->first_tile, 6);
}

/* The producer has ended it early, so the object tells the number of tiles. */
Test(stage_sinks, a_complete_sink_of_a_feed_tells_its_tiles)
{
	static const struct {
		uint64_t bytes;
		uint32_t tile;
		uint64_t tiles;
	} row[] = { { 1, UNIT, 1 }, { UNIT, UNIT, 1 }, { UNIT + 1, UNIT, 2 }, { UNIT, 0, 3 } };

	for (size_t i = 0; i < ROWS(row); i++) {
		end();
		begin();
		strcpy(pipeline->feed.name, "rows");
		pipeline->sources = 1;
		run->sink_tile_bytes = row[i].tile;
		test_runs_put(0, "out", row[i].bytes, mine(false, 0), true);
		cr_assert_eq(hr_sinks_up(engine), 0);
		cr_expect_eq(run->outcome, HR_RUN_COMPLETE);
		cr_expect_eq(run->tiles, row[i].tiles, "row %zu: %llu", i,
			     (unsigned long long)run->tiles);
		cr_expect_eq(run->first_tile, row[i].tiles);
		cr_expect_eq(run->sink_id, found(0, "out")->id);
	}
}
