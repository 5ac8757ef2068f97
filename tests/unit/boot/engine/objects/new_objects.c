/* SPDX-License-Identifier: Apache-2.0 */
/*
 * New objects of access operators, from creation to the end of their run, in a store on a disk in
 * memory; and the removal of incomplete objects.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "boot/engine/devices/ssd_store.h"
#include "config/base/process.h"
#include "boot/engine/bringup/sinks.h"
#include "boot/engine/objects/new_objects.h"
#include "tests/harness/error.h"
#include "tests/harness/store.h"

#define ROWS(table) (sizeof(table) / sizeof(*(table)))
#define UNIT HR_STORE_ALIGN
#define PRINT 77u

static struct hr_engine *engine;
static struct hr_run *run;
static struct hr_config_pipeline *pipeline;
static struct fake_store f;
static struct hr_store *store[HR_SSDS_MAX];

/* Pipeline 0 makes object "new" of one unit and changes object "old". */
static void begin(void)
{
	fake_store_init(&f, 4096);
	engine = calloc(1, sizeof *engine);
	cr_assert_not_null(engine);
	engine->config.file = "f";
	engine->config.ssds = engine->config.pipelines = 1;
	strcpy(engine->config.ssd[0].name, "a");
	strcpy(engine->config.ssd[0].device, "soft:x");
	engine->ssd[0].has_store = true;
	engine->ssd[0].blk = &f.disk.blk;
	engine->ssd[0].store = f.store;
	store[0] = &engine->ssd[0].store;
	run = &engine->run[0];
	pipeline = &engine->config.pipeline[0];
	run->config = pipeline;
	run->selected = true;
	run->fingerprint = PRINT;
	strcpy(pipeline->name, "p");
	pipeline->objects = 2;
	pipeline->object[0] = (struct hr_config_object){
		.object = "new", .writes = true, .bytes = UNIT, .line = 5
	};
	pipeline->object[1] = (struct hr_config_object){ .object = "old", .line = 6 };
	run->object[0] = (struct hr_run_object){ .used = true, .bytes = UNIT };
	run->object[1] = (struct hr_run_object){ .used = true };
}

static void end(void)
{
	fake_store_fini(&f);
	free(engine);
}

TestSuite(written, .init = begin, .fini = end, .timeout = 60);

/* Make an object with that tag; returns its id. */
static uint64_t put(const char *name, uint64_t bytes, uint64_t tag, bool whole)
{
	struct hr_store_object *object;

	cr_assert_eq(hr_store_create(store[0], name, bytes, tag, false, &object, NULL), 0);
	if (whole)
		cr_assert_eq(hr_store_finish(store[0], object->id, false, 0, NULL), 0);
	return hr_store_find(store[0], name) ? hr_store_find(store[0], name)->id
					     : hr_store_find_pending(store[0], name)->id;
}

Test(written, what_an_existing_object_of_that_name_means)
{
#define REFUSED(is, rm)                                                                          \
	"f:5: object 'new' " is " on ssd 'a', and is not of this run; remove it with 'headrace " \
	"store rm" rm " soft:x new', or set replace = true"
	static const struct {
		uint64_t bytes, tag; /* of the object that is there; 0 bytes: none */
		bool whole, replace;
		int want;
		enum hr_sink_plan plan;
		bool complete;
		const char *text;
	} row[] = {
		{ 0, 0, true, false, 0, HR_SINK_CREATE, false, "" },
		{ UNIT, PRINT, true, false, 0, HR_SINK_COMPLETE, true, "" },
		{ UNIT, PRINT, true, true, 0, HR_SINK_REPLACE, false, "" },
		{ UNIT, PRINT, false, false, 0, HR_SINK_REPLACE, false, "" },
		{ UNIT, PRINT, false, true, 0, HR_SINK_REPLACE, false, "" },
		{ UNIT, PRINT + 1, true, false, -EEXIST, HR_SINK_NONE, false,
		  REFUSED("exists", "") },
		{ UNIT - 1, PRINT, true, false, -EEXIST, HR_SINK_NONE, false,
		  REFUSED("exists", "") },
		{ UNIT, PRINT + 1, true, true, 0, HR_SINK_REPLACE, false, "" },
		{ UNIT, PRINT + 1, false, false, -EEXIST, HR_SINK_NONE, false,
		  REFUSED("is incomplete", " --pending") },
		{ UNIT + 1, PRINT, false, false, -EEXIST, HR_SINK_NONE, false,
		  REFUSED("is incomplete", " --pending") },
		{ UNIT, 0, true, false, -EEXIST, HR_SINK_NONE, false, REFUSED("exists", "") },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		const struct hr_store_object *made;
		uint64_t id = 0;

		end();
		begin();
		pipeline->object[0].replace = row[i].replace;
		if (row[i].bytes)
			id = put("new", row[i].bytes, hr_sink_tag(row[i].tag, false), row[i].whole);
		if (row[i].bytes && row[i].tag == 0)
			hr_store_find(store[0], "new")->tag = 0;
		cr_expect_eq(hr_new_objects_create(engine, run, store), row[i].want, "row %zu", i);
		cr_expect_str_eq(engine->error.text, row[i].text);
		cr_expect_eq(run->object[0].plan, row[i].plan, "row %zu", i);
		cr_expect_eq(run->object[0].created, !row[i].want && !row[i].complete, "row %zu",
			     i);
		cr_expect_eq(run->outcome, row[i].complete ? HR_RUN_COMPLETE : HR_RUN_WAITING);
		if (row[i].complete)
			cr_expect_eq(run->object[0].id, id);
		if (!run->object[0].created)
			continue;
		made = hr_store_find_pending(store[0], "new");
		cr_assert_not_null(made);
		cr_expect_eq(made->id, run->object[0].id, "row %zu", i);
		cr_expect_neq(made->id, id);
		cr_expect_eq(made->bytes, UNIT);
		cr_expect_eq(made->tag, hr_sink_tag(PRINT, false));
	}
}

/* The part of another rank is not complete. */
Test(written, a_part_is_a_shard_and_is_made_again_with_the_others)
{
	const uint64_t id = put("new", UNIT, hr_sink_tag(PRINT, false), true);
	const struct hr_store_object *made;

	run->create_again = true;
	run->data_set = 9;
	run->object[0].is_shard = true;
	run->object[0].shard = (struct hr_store_shard){ 5, 200, 0, 64, 1, 2 };
	cr_assert_eq(hr_new_objects_create(engine, run, store), 0, "%s", engine->error.text);
	cr_expect_eq(run->object[0].plan, HR_SINK_REPLACE);
	cr_expect_eq(run->outcome, HR_RUN_WAITING);
	made = hr_store_find_pending(store[0], "new");
	cr_assert_not_null(made);
	cr_expect_neq(made->id, id);
	cr_expect(made->flags & HR_OBJECT_SHARD);
	cr_expect_eq(made->shard.first_row, 5);
	cr_expect_eq(made->shard.rows, 200);
	cr_expect_eq(made->shard.set, 9);
}

/* An object that the operator changes loses its checksum; one that it only reads keeps it. */
Test(written, a_changed_object_loses_its_checksum)
{
	struct hr_store_object *object;

	cr_assert_eq(hr_store_create(store[0], "old", UNIT, 0, false, &object, NULL), 0);
	cr_assert_eq(hr_store_finish(store[0], object->id, true, 0x1234, NULL), 0);
	run->object[1].id = hr_store_find(store[0], "old")->id;
	cr_expect_eq(hr_written_begin(engine, run, test_error()), 0);
	cr_expect(hr_store_find(store[0], "old")->flags & HR_OBJECT_HAS_CRC);
	pipeline->object[1].writes = true;
	run->object[1].used = false;
	cr_expect_eq(hr_written_begin(engine, run, test_error()), 0);
	cr_expect(hr_store_find(store[0], "old")->flags & HR_OBJECT_HAS_CRC, "left out");
	run->object[1].used = true;
	cr_expect_eq(hr_new_objects_create(engine, run, store), 0);
	cr_expect(hr_store_find(store[0], "old")->flags & HR_OBJECT_HAS_CRC, "not yet verified");
	cr_expect_eq(hr_written_begin(engine, run, test_error()), 0);
	cr_expect_not(hr_store_find(store[0], "old")->flags & HR_OBJECT_HAS_CRC);
	cr_expect_eq(run->object[1].plan, HR_SINK_NONE);
	cr_expect_not(run->object[1].created);
	run->object[1].summed = true;
	run->object[1].crc = 0x1234;
	cr_expect_eq(hr_new_objects_commit(engine, run, test_error()), 0, "%s", test_error_text());
	cr_expect_eq(hr_store_find(store[0], "old")->crc, 0x1234, "of its new data");
}

/* A complete new object does not complete a run that also changes another object. */
Test(written, a_run_that_changes_an_object_is_never_complete)
{
	put("new", UNIT, hr_sink_tag(PRINT, false), true);
	run->object[1].id = put("old", UNIT, 0, true);
	pipeline->object[1].writes = true;
	cr_expect_eq(hr_new_objects_create(engine, run, store), 0);
	cr_expect_eq(run->outcome, HR_RUN_WAITING);
	cr_expect_eq(run->object[0].plan, HR_SINK_REPLACE);
	pipeline->object[0].writes = pipeline->object[1].writes = false;
	run->object[0].created = false;
	cr_expect_eq(hr_new_objects_create(engine, run, store), 0);
	cr_expect_eq(run->outcome, HR_RUN_WAITING, "it writes nothing");
	cr_expect_not(run->object[0].created);
}

Test(written, errors_of_the_store_name_object_ssd_and_line)
{
	put("lost", 2 * UNIT, 1, false);
	pipeline->object[0].bytes = run->object[0].bytes = 64 * UNIT;
	cr_expect_eq(hr_new_objects_create(engine, run, store), -ENOSPC);
	cr_expect(strstr(engine->error.text, "f:5: object 'new' of ") == engine->error.text, "%s",
		  engine->error.text);
	cr_expect(strstr(engine->error.text, " bytes cannot be created on ssd 'a': "), "%s",
		  engine->error.text);
	cr_expect(strstr(engine->error.text, ": 1 incomplete object holds "), "%s",
		  engine->error.text);
	cr_expect(strstr(engine->error.text, " bytes: 'headrace store rm --pending soft:x' removes "
					     "them"),
		  "%s", engine->error.text);
	cr_expect_not(run->object[0].created);
	hr_error_clear(&engine->error);
	f.disk.fail_at = f.disk.writes + f.disk.flushes + 1;
	f.disk.fail_status = -EIO;
	pipeline->object[0].bytes = run->object[0].bytes = UNIT;
	cr_expect_eq(hr_new_objects_create(engine, run, store), -EIO);
	cr_expect_not(strstr(engine->error.text, "incomplete object"), "%s", engine->error.text);
	hr_error_clear(&engine->error);
	f.disk.fail_at = 0;
	pipeline->object[0].object[0] = '\0';
	cr_expect_eq(hr_new_objects_create(engine, run, store), -EINVAL);
	cr_expect_str_eq(engine->error.text,
			 "f:5: object '' of 4096 bytes cannot be created on ssd "
			 "'a': the name or the size is invalid");
	cr_expect_eq(engine->error.kind, HR_ERROR_USAGE);
	cr_expect_not(run->object[0].created);
}

Test(written, a_checksum_that_stays_is_an_error)
{
	run->object[1].id = put("old", UNIT, 0, true);
	hr_store_find(store[0], "old")->flags |= HR_OBJECT_HAS_CRC;
	pipeline->object[1].writes = true;
	pipeline->object[0].writes = false;
	f.disk.fail_at = f.disk.writes + f.disk.flushes + 1;
	f.disk.fail_status = 0x281;
	cr_expect_eq(hr_written_begin(engine, run, test_error()), 0x281);
	cr_expect(strstr(test_error_text(), "the checksum of object 'old' on ssd 'a' cannot be "
					    "removed: "),
		  "%s", test_error_text());
	cr_expect_eq(test_error_kind(), HR_ERROR_DEVICE);
}

/* Two new objects, and an entry behind them that is none. */
Test(written, each_object_counts)
{
	pipeline->object[1] = pipeline->object[0];
	strcpy(pipeline->object[1].object, "second");
	run->object[1] = run->object[0];
	run->object[2] = (struct hr_run_object){ .created = true, .id = 99 };
	cr_assert_eq(hr_new_objects_create(engine, run, store), 0);
	cr_expect(run->object[0].created && run->object[1].created);
	cr_expect_eq(hr_new_objects_zero(engine, run), 0);
	cr_expect_eq(hr_new_objects_commit(engine, run, test_error()), 0);
	cr_expect(!run->object[0].created && !run->object[1].created && run->object[2].created);
	cr_expect_not_null(hr_store_find(store[0], "new"));
	cr_expect_not_null(hr_store_find(store[0], "second"));
	run->object[0].id = run->object[1].id = 0;
	cr_assert_eq(hr_new_objects_create(engine, run, store), 0);
	cr_expect_eq(run->outcome, HR_RUN_COMPLETE);
	cr_expect_eq(run->object[0].id, hr_store_find(store[0], "new")->id);
	cr_expect_eq(run->object[1].id, hr_store_find(store[0], "second")->id);
	pipeline->object[0].replace = true;
	run->outcome = HR_RUN_WAITING;
	cr_assert_eq(hr_new_objects_create(engine, run, store), 0);
	hr_new_objects_remove(engine, run);
	cr_expect_null(hr_store_find_pending(store[0], "new"));
	cr_expect_null(hr_store_find_pending(store[0], "second"));
	cr_expect(run->object[2].created);
}

/* Every byte of a new object, and no other byte of the disk. */
Test(written, a_new_object_is_filled_with_zeros)
{
	static const uint64_t bytes[] = { 1, UNIT - 1, UNIT, 9 * UNIT + 5, 33 * UNIT };

	for (size_t i = 0; i < ROWS(bytes); i++) {
		const struct hr_store_object *object;
		uint64_t dirty = 0;

		end();
		begin();
		pipeline->object[0].bytes = run->object[0].bytes = bytes[i];
		put("old", UNIT, 0, true);
		cr_assert_eq(hr_new_objects_create(engine, run, store), 0);
		object = hr_store_find_pending(store[0], "new");
		memset(f.disk.seen + HR_STORE_DATA_ALIGN, 0xff, FAKE_STORE_DATA);
		cr_expect_eq(hr_new_objects_zero(engine, run), 0);
		for (uint64_t at = HR_STORE_DATA_ALIGN; at < FAKE_STORE_BYTES; at++) {
			const bool inside =
				at >= object->offset && at < object->offset + object->capacity;

			dirty += f.disk.seen[at] != (inside ? 0 : 0xff);
		}
		cr_expect_eq(dirty, 0, "%llu bytes: %llu wrong", (unsigned long long)bytes[i],
			     (unsigned long long)dirty);
	}
}

Test(written, only_made_objects_are_filled_and_errors_are_told)
{
	uint64_t writes;

	cr_assert_eq(hr_new_objects_create(engine, run, store), 0);
	writes = f.disk.writes;
	run->object[0].created = false;
	cr_expect_eq(hr_new_objects_zero(engine, run), 0);
	cr_expect_eq(f.disk.writes, writes);
	run->object[0].created = true;
	run->object[0].id++;
	cr_expect_eq(hr_new_objects_zero(engine, run), 0, "it is gone");
	cr_expect_eq(f.disk.writes, writes);
	run->object[0].id--;
	f.disk.fail_at = f.disk.writes + f.disk.flushes + 1;
	f.disk.fail_status = 0x281;
	cr_expect_eq(hr_new_objects_zero(engine, run), 0x281);
	cr_expect(strstr(engine->error.text, "f:5: object 'new' of "), "%s", engine->error.text);
	cr_expect(strstr(engine->error.text, " bytes on ssd 'a' cannot be filled with zeros: "),
		  "%s", engine->error.text);
}

Test(written, a_stop_ends_the_zeros)
{
	uint64_t writes;

	cr_assert_eq(hr_new_objects_create(engine, run, store), 0);
	writes = f.disk.writes;
	hr_signals_stop();
	cr_expect_eq(hr_new_objects_zero(engine, run), -EINTR);
	cr_expect_eq(f.disk.writes, writes);
	cr_expect_str_eq(engine->error.text, "");
}

Test(written, the_end_completes_or_removes)
{
	char want[160];

	cr_assert_eq(hr_new_objects_create(engine, run, store), 0);
	cr_expect_eq(hr_new_objects_commit(engine, run, test_error()), 0);
	cr_expect_str_eq(test_error_text(), "");
	cr_expect_not(run->object[0].created);
	cr_expect_not_null(hr_store_find(store[0], "new"));
	cr_expect_not(hr_store_find(store[0], "new")->flags & HR_OBJECT_HAS_CRC);
	hr_new_objects_remove(engine, run);
	cr_expect_not_null(hr_store_find(store[0], "new"), "it is complete");
	pipeline->object[0].replace = true;
	cr_assert_eq(hr_new_objects_create(engine, run, store), 0);
	hr_new_objects_remove(engine, run);
	cr_expect_not(run->object[0].created);
	cr_expect_eq(run->object[0].id, 0);
	cr_expect_null(hr_store_find_pending(store[0], "new"));
	cr_expect_eq(fake_log_count(), 0);
	cr_assert_eq(hr_new_objects_create(engine, run, store), 0);
	engine->ssd[0].health.state = HR_HEALTH_FAILED;
	hr_new_objects_remove(engine, run);
	cr_expect_not(run->object[0].created);
	cr_expect_neq(run->object[0].id, 0);
	cr_expect_not_null(hr_store_find_pending(store[0], "new"));
	cr_expect_str_eq(fake_log_last_of(HR_LOG_WARN),
			 "object 'new' stays on ssd 'a', incomplete: 'headrace store rm --pending "
			 "soft:x' removes it");
	engine->ssd[0].health.state = HR_HEALTH_UP;
	run->object[0].created = true;
	run->object[0].id += 100;
	cr_expect_neq(hr_new_objects_commit(engine, run, test_error()), 0);
	cr_expect(run->object[0].created);
	snprintf(want, sizeof want, "pipeline 'p': object 'new' on ssd 'a' cannot be completed: ");
	cr_expect(strstr(test_error_text(), want) == test_error_text(), "%s", test_error_text());
}

/* ---- incomplete objects */

Test(written, the_hint_counts_incomplete_objects)
{
	struct hr_error e = { 0 };
	char want[160];

	hr_incomplete_hint(store[0], "soft:x", -ENOSPC, &e);
	cr_expect_str_eq(e.text, "", "there are none");
	put("one", UNIT, 1, false);
	hr_incomplete_hint(store[0], "soft:x", -EIO, &e);
	cr_expect_str_eq(e.text, "");
	hr_incomplete_hint(store[0], "soft:x", -ENFILE, &e);
	snprintf(want, sizeof want,
		 "%s: 1 incomplete object holds %llu bytes: 'headrace store rm --pending soft:x' "
		 "removes them",
		 f.disk.blk.name, (unsigned long long)UNIT);
	cr_expect_str_eq(e.text, want);
	put("two", 2 * UNIT, 1, false);
	hr_error_clear(&e);
	hr_incomplete_hint(store[0], "soft:x", -ENOSPC, &e);
	snprintf(want, sizeof want,
		 "%s: 2 incomplete objects hold %llu bytes: 'headrace store rm --pending soft:x' "
		 "removes them",
		 f.disk.blk.name, 3 * (unsigned long long)UNIT);
	cr_expect_str_eq(e.text, want);
}

/* All old objects that no pipeline makes; sinks and complete objects stay. */
Test(written, old_incomplete_objects_are_collected)
{
	put("new", UNIT, 1, false);
	put("lost", UNIT, 1, false);
	put("late", 2 * UNIT, 1, false);
	put("whole", UNIT, 1, true);
	cr_expect_eq(hr_incomplete_collect(engine), 0);
	cr_expect_not_null(hr_store_find_pending(store[0], "lost"), "no age is given");
	engine->collect_ns = 1;
	hr_store_find_pending(store[0], "late")->created_ns = UINT64_MAX;
	engine->ssd[0].has_store = false;
	cr_expect_eq(hr_incomplete_collect(engine), 0);
	engine->ssd[0].has_store = true;
	f.disk.blk.read_only = true;
	cr_expect_eq(hr_incomplete_collect(engine), 0);
	f.disk.blk.read_only = false;
	cr_expect_not_null(hr_store_find_pending(store[0], "lost"));
	cr_expect_eq(fake_log_count(), 0);
	cr_expect_eq(hr_incomplete_collect(engine), 0);
	cr_expect_null(hr_store_find_pending(store[0], "lost"));
	cr_expect_not_null(hr_store_find_pending(store[0], "late"));
	cr_expect_not_null(hr_store_find_pending(store[0], "new"));
	cr_expect_not_null(hr_store_find(store[0], "whole"));
	cr_expect_eq(fake_log_count(), 1);
	cr_expect(strstr(fake_log_last(), "ssd 'a': 1 incomplete object of "), "%s",
		  fake_log_last());
	cr_expect(strstr(fake_log_last(), " bytes older than boot.collect removed"), "%s",
		  fake_log_last());
	put("lost", UNIT, 1, false);
	hr_store_find_pending(store[0], "late")->created_ns = 0;
	cr_expect_eq(hr_incomplete_collect(engine), 0);
	cr_expect(strstr(fake_log_last(), "ssd 'a': 2 incomplete objects of "), "%s",
		  fake_log_last());
}

Test(written, an_age_is_compared_with_the_clock)
{
	struct hr_store_object object = { 0 };
	uint32_t count = 0;
	uint64_t bytes = 0;

	cr_expect(hr_incomplete_is_old(&object, 1000));
	cr_expect_not(hr_incomplete_is_old(&object, UINT64_MAX));
	object.created_ns = UINT64_MAX;
	cr_expect_not(hr_incomplete_is_old(&object, 0));
	put("a", UNIT, 1, false);
	put("b", 3 * UNIT, 1, false);
	hr_store_find_pending(store[0], "b")->created_ns = UINT64_MAX;
	cr_expect_eq(hr_incomplete_remove(store[0], 3600000000000ull, NULL, NULL, &count, &bytes,
					  test_error()),
		     0);
	cr_expect_eq(count, 0, "it is younger than an hour");
	cr_expect_eq(hr_incomplete_remove(store[0], 0, NULL, NULL, &count, &bytes, test_error()),
		     0);
	cr_expect_eq(count, 2, "without an age all of them");
	cr_expect_eq(bytes, 4 * (uint64_t)UNIT);
}
