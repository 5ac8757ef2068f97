/* SPDX-License-Identifier: Apache-2.0 */
/* What ranks have of the objects of an access operator: shares of new objects, and everything that an
 * operator cannot divide. */
#include "boot/engine/objects/shards.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "config/base/error.h"

TestSuite(access_shards, .timeout = 60);

enum { TABLE, INDICES, ROWS, LABELS, PLAIN, OBJECTS };

/* The rows of an index have 4 bytes, those of `rows` 64. */
static const struct hr_op_object object[OBJECTS] = {
	[TABLE] = { .name = "table", .columns = 1 },
	[INDICES] = { .name = "indices", .columns = 2 },
	[ROWS] = { .name = "rows", .columns = 2, .writes = true },
	[LABELS] = { .name = "labels", .columns = 2, .writes = true },
	[PLAIN] = { .name = "plain", .writes = true },
};

static uint32_t row_bytes(const void *args, uint32_t k)
{
	return k == INDICES ? 4 : 64;
}

static const struct hr_operator op = {
	.name = "op", .object = object, .objects = OBJECTS, .row_bytes = row_bytes
};

static struct hr_engine engine;
static struct hr_config_pipeline config;
static struct hr_run *const run = &engine.run[0];

/* Rank 1 of 3 has `table` whole; the other objects are left out. */
static void make(void)
{
	memset(&engine, 0, sizeof engine);
	memset(&config, 0, sizeof config);
	engine.config.file = "f";
	config.op = &op;
	config.objects = OBJECTS;
	for (uint32_t k = 0; k < OBJECTS; k++) {
		strcpy(config.object[k].object, "o");
		config.object[k].line = k + 1;
		config.object[k].writes = object[k].writes;
	}
	run->config = &config;
	run->part = 1;
	run->parts = 3;
	run->object[TABLE] = (struct hr_run_object){ .used = true, .bytes = 6400, .writer = -1 };
}

/* Object k has rows first .. end - 1 of 100, of `bytes` each. */
static void shard(uint32_t k, uint64_t first, uint64_t end, uint32_t bytes)
{
	run->object[k] = (struct hr_run_object){
		.used = true,
		.bytes = (end - first) * bytes,
		.writer = -1,
		.is_shard = true,
		.shard = { .first_row = first,
			   .rows = 100,
			   .row_bytes = bytes,
			   .index = 1,
			   .last = 2 },
	};
}

static void new_object(uint32_t k, uint64_t bytes)
{
	config.object[k].bytes = bytes;
	run->object[k] = (struct hr_run_object){ .used = true, .bytes = bytes, .writer = -1 };
}

static void refused(const char *want)
{
	hr_error_clear(&engine.error);
	cr_expect_eq(hr_access_divide(&engine, run), -EINVAL, "%s", want);
	cr_expect(strstr(engine.error.text, want), "%s: %s", want, engine.error.text);
	cr_expect_eq(engine.error.kind, HR_ERROR_USAGE);
	cr_expect_null(strchr(engine.error.text, '\n'));
}

static void divides(void)
{
	cr_assert_eq(hr_access_divide(&engine, run), 0, "%s", engine.error.text);
}

Test(access_shards, whole_objects_stay_as_they_are)
{
	make();
	divides();
	cr_expect_eq(run->object[TABLE].bytes, 6400u);
	cr_expect_not(run->object[TABLE].is_shard);
	cr_expect_eq(hr_run_object_at(&run->object[TABLE]), 0u);
	cr_expect_eq(hr_run_object_all(&run->object[TABLE]), 6400u);
}

Test(access_shards, a_new_object_has_the_rows_of_those_that_exist)
{
	make();
	shard(INDICES, 16, 40, 4);
	new_object(ROWS, 6400);
	divides();
	cr_expect(run->object[ROWS].is_shard);
	cr_expect_eq(run->object[ROWS].bytes, 24u * 64);
	cr_expect_eq(run->object[ROWS].shard.first_row, 16u);
	cr_expect_eq(run->object[ROWS].shard.rows, 100u);
	cr_expect_eq(run->object[ROWS].shard.row_bytes, 64u);
	cr_expect_eq(run->object[ROWS].shard.index, 1u);
	cr_expect_eq(run->object[ROWS].shard.last, 2u);
	cr_expect_eq(hr_run_object_at(&run->object[ROWS]), 16u * 64);
	cr_expect_eq(hr_run_object_all(&run->object[ROWS]), 6400u);
}

/* Rows of a shard may be smaller than those of the operator. */
Test(access_shards, rows_of_the_operator_count)
{
	make();
	shard(ROWS, 20, 40, 128);
	new_object(LABELS, 200 * 64);
	divides();
	cr_expect_eq(run->object[LABELS].shard.first_row, 40u);
	cr_expect_eq(run->object[LABELS].bytes, 40u * 64);
}

Test(access_shards, new_objects_alone_are_shares_of_all_rows)
{
	uint64_t next = 0;

	for (uint32_t part = 0; part < 5; part++) {
		make();
		run->part = part;
		run->parts = 5;
		new_object(ROWS, 64 * 3); /* fewer rows than ranks */
		new_object(LABELS, 64 * 3);
		divides();
		cr_expect_eq(run->object[ROWS].shard.first_row, next);
		cr_expect_eq(run->object[LABELS].shard.first_row, next);
		next += run->object[ROWS].bytes / 64;
	}
	cr_expect_eq(next, 3u);
}

Test(access_shards, what_an_operator_cannot_divide)
{
	make();
	shard(PLAIN, 16, 40, 64);
	refused("f:5: object 'o', as 'plain' of operator op, is shard 1 of 3 of a data set; expected "
		"the whole object on every rank");
	make();
	new_object(PLAIN, 64);
	refused("f:5: object 'o', as 'plain' of operator op, is written, and 3 ranks cannot divide it");
	make();
	run->object[ROWS] = (struct hr_run_object){ .used = true, .bytes = 6400, .writer = -1 };
	refused("as 'rows' of operator op, is whole on each of 3 ranks, which would change copies "
		"of it");
	make();
	new_object(ROWS, 6401);
	refused("as 'rows' of operator op, has 6401 bytes, expected whole rows of 64 bytes");
	make();
	shard(TABLE, 16, 40, 32);
	divides();
	shard(TABLE, 15, 39, 32);
	refused("as 'table' of operator op, is a shard of 768 bytes from byte 480 on, of 3200 bytes; "
		"expected whole rows of 64 bytes");
	shard(TABLE, 16, 39, 32);
	refused("is a shard of 736 bytes from byte 512 on");
	shard(TABLE, 16, 40, 32);
	run->object[TABLE].shard.rows = 101;
	refused("of 3232 bytes; expected whole rows of 64 bytes");
}

Test(access_shards, objects_that_do_not_fit_each_other)
{
	make();
	shard(TABLE, 16, 40, 64);
	shard(INDICES, 16, 40, 4);
	refused("f:2: object 'o', as 'indices' of operator op, is divided over ranks, and 'table' is, "
		"too; the operator can divide one of them");
	make();
	shard(TABLE, 16, 40, 64);
	new_object(ROWS, 6400);
	refused("as 'rows' of operator op, is divided over ranks, and 'table' is, too");
	make();
	shard(INDICES, 16, 40, 4);
	shard(ROWS, 16, 41, 64);
	refused("as 'rows' of operator op, has 25 rows from row 16 on, of 100 rows, but 'indices' has "
		"24 from row 16 on, of 100; expected the same rows");
	shard(ROWS, 15, 40, 64);
	refused("has 25 rows from row 15 on");
	make();
	shard(INDICES, 16, 40, 4);
	new_object(ROWS, 64 * 99);
	refused("has 99 rows from row 0 on, of 99 rows, but 'indices' has 24 from row 16 on, of 100");
}

Test(access_shards, a_process_alone_has_no_shards)
{
	make();
	shard(TABLE, 16, 40, 64);
	for (run->parts = 0; run->parts < 2; run->parts++)
		refused("f:1: object 'o' on ssd '' is shard 1 of 3 of a data set, 24 of 100 rows from "
			"row 16");
	make();
	run->parts = 0;
	new_object(PLAIN, 65);
	divides();
	cr_expect_eq(run->object[PLAIN].bytes, 65u);
	cr_expect_not(run->object[PLAIN].is_shard);
}

Test(access_shards, each_object_of_a_process_alone_is_looked_at)
{
	make();
	run->parts = 0;
	run->object[OBJECTS].is_shard = true; /* it has no such object */
	divides();
	shard(INDICES, 16, 40, 4);
	refused("f:2: object 'o' on ssd '' is shard 1 of 3 of a data set, 24 of 100 rows from row 16");
}

/* What tells one data set from another: its maker's, its shard's, or the checksum of a whole object. */
Test(access_shards, the_data_set_of_an_object_is_that_of_its_maker_shard_or_checksum)
{
	static const struct {
		bool used, made, selected, shard, exists;
		int from;
		uint32_t flags;
		uint64_t want;
	} row[] = {
		{ false, false, true, true, true, 1, HR_OBJECT_HAS_CRC, 0 },
		{ true, true, true, true, true, 1, HR_OBJECT_HAS_CRC, 0 },
		{ true, false, true, true, true, 1, HR_OBJECT_HAS_CRC, 500 },
		{ true, false, false, true, true, 1, HR_OBJECT_HAS_CRC, 600 },
		{ true, false, true, true, true, -1, HR_OBJECT_HAS_CRC, 600 },
		{ true, false, true, false, true, -1, HR_OBJECT_HAS_CRC, 700 },
		{ true, false, true, false, true, -1, HR_OBJECT_PENDING, 0 },
		{ true, false, true, false, false, -1, HR_OBJECT_HAS_CRC, 0 },
		{ true, false, true, true, true, 0, HR_OBJECT_HAS_CRC, 400 },
	};

	struct hr_store_object stored = { .id = 33, .crc = 700 };

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		struct hr_run_object *o = &run->object[INDICES];

		make();
		config.object[INDICES].ssd = 2;
		config.object[INDICES].bytes = row[i].made ? 64 : 0;
		*o = (struct hr_run_object){ .used = row[i].used,
					     .id = 33,
					     .writer = row[i].from,
					     .is_shard = row[i].shard,
					     .shard.set = 600 };
		engine.run[0].data_set = 400;
		engine.run[0].selected = true;
		engine.run[1].data_set = 500;
		engine.run[1].selected = row[i].selected;
		engine.ssd[2].store.object = &stored;
		engine.ssd[2].store.count = row[i].exists;
		stored.flags = row[i].flags;
		cr_expect_eq(hr_run_object_data_set(&engine, run, INDICES), row[i].want, "%zu", i);
	}
}
