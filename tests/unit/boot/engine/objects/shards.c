/* SPDX-License-Identifier: Apache-2.0 */
/* The part of a data set that one process has: its tiles, and its bytes of sources and sinks. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "boot/engine/objects/shards.h"
#include "config/file/keys.h"
#include "gpu/ops/operators.h"
#include "tests/harness/error.h"

#define ROWS(table) (sizeof(table) / sizeof(*(table)))

static struct hr_engine *engine;
static struct hr_run *run;
static struct hr_config_pipeline *pipeline;

/* 10 tiles of 4 KiB, the last one shorter, to a sink of half the bytes. */
static void begin(void)
{
	engine = calloc(1, sizeof *engine);
	cr_assert_not_null(engine);
	engine->config.file = "f";
	strcpy(engine->config.ssd[0].name, "a");
	run = &engine->run[0];
	pipeline = &engine->config.pipeline[0];
	run->config = pipeline;
	pipeline->op = hr_op_find("cast_f32_bf16");
	pipeline->sources = 1;
	pipeline->tile_bytes = 4096;
	run->source[0].tile_bytes = 4096;
	run->sink_tile_bytes = 2048;
	run->tiles = 10;
	run->sink_bytes = 9 * 2048 + 100;
}

static void end(void)
{
	free(engine);
}

TestSuite(shards, .init = begin, .fini = end, .timeout = 60);

Test(shards, parts_have_all_tiles_and_bytes_once)
{
	static const struct {
		uint32_t parts, part;
		uint64_t begin, end, at, held;
	} row[] = {
		{ 0, 0, 0, 10, 0, 18532 },     { 1, 0, 0, 10, 0, 18532 },
		{ 2, 0, 0, 5, 0, 10240 },      { 2, 1, 5, 10, 10240, 8292 },
		{ 3, 0, 0, 3, 0, 6144 },       { 3, 1, 3, 6, 6144, 6144 },
		{ 3, 2, 6, 10, 12288, 6244 },  { 10, 0, 0, 1, 0, 2048 },
		{ 10, 8, 8, 9, 16384, 2048 },  { 10, 9, 9, 10, 18432, 100 },
		{ 12, 11, 9, 10, 18432, 100 },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		run->parts = row[i].parts;
		run->part = row[i].part;
		cr_expect_eq(hr_run_first_tile(run), row[i].begin, "row %zu", i);
		cr_expect_eq(hr_run_end_tile(run), row[i].end, "row %zu", i);
		cr_expect_eq(hr_run_sink_at(run), row[i].at, "row %zu", i);
		cr_expect_eq(hr_run_sink_held(run), row[i].held, "row %zu: %llu", i,
			     (unsigned long long)hr_run_sink_held(run));
		cr_expect_eq(hr_run_is_divided(run), row[i].parts > 1);
	}
	/* each number of parts, also more than tiles */
	for (uint32_t parts = 1; parts <= 25; parts++) {
		uint64_t tile = 0, at = 0;

		run->parts = parts;
		for (run->part = 0; run->part < parts; run->part++) {
			cr_expect_eq(hr_run_first_tile(run), tile);
			cr_expect_eq(hr_run_sink_at(run), at);
			tile = hr_run_end_tile(run);
			at += hr_run_sink_held(run);
		}
		cr_expect_eq(tile, 10);
		cr_expect_eq(at, run->sink_bytes);
	}
}

Test(shards, a_prefix_of_the_sink_counts_from_its_begin)
{
	static const struct {
		uint64_t tiles, whole, part; /* bytes of all, and of part 1 of 2 */
	} row[] = { { 0, 0, 0 },	{ 1, 2048, 0 },	     { 5, 10240, 0 },	 { 6, 12288, 2048 },
		    { 9, 18432, 8192 }, { 10, 18532, 8292 }, { 11, 18532, 8292 } };

	for (size_t i = 0; i < ROWS(row); i++) {
		run->parts = run->part = 0;
		cr_expect_eq(hr_run_sink_prefix(run, row[i].tiles), row[i].whole, "row %zu", i);
		run->parts = 2;
		run->part = 1;
		cr_expect_eq(hr_run_sink_prefix(run, row[i].tiles), row[i].part, "row %zu", i);
	}
}

Test(shards, a_sink_is_a_shard_in_rows_of_its_output)
{
	struct hr_operator thirds = *hr_op_find("cast_f32_bf16");
	struct hr_store_shard shard;

	run->parts = 3;
	run->part = 2;
	run->data_set = 0x5e7;
	hr_run_sink_shard(run, &shard);
	cr_expect_eq(shard.row_bytes, 2, "a row of 4 bytes makes 2");
	cr_expect_eq(shard.first_row, 12288 / 2);
	cr_expect_eq(shard.rows, 18532 / 2);
	cr_expect_eq(shard.set, 0x5e7);
	cr_expect_eq(shard.index, 2);
	cr_expect_eq(shard.last, 2);
	pipeline->op = hr_op_find("copy");
	hr_run_sink_shard(run, &shard);
	cr_expect_eq(shard.row_bytes, 1);
	cr_expect_eq(shard.rows, 18532);
	thirds.out_den = 3; /* no whole bytes: a row is a byte */
	pipeline->op = &thirds;
	hr_run_sink_shard(run, &shard);
	cr_expect_eq(shard.row_bytes, 1);
}

Test(shards, a_source_is_its_object_or_a_part_of_a_data_set)
{
	struct hr_store_object object = { .bytes = 1000, .flags = 0 };
	const struct hr_run_source *source = &run->source[0];

	memset(&run->source[0], 7, sizeof *source);
	hr_run_set_source(run, 0, &object);
	cr_expect_not(source->is_shard);
	cr_expect_eq(source->at, 0);
	cr_expect_eq(source->held, 1000);
	cr_expect_eq(source->bytes, 1000);
	object.flags = HR_OBJECT_SHARD;
	object.shard = (struct hr_store_shard){ 25, 300, 9, 10, 1, 2 };
	hr_run_set_source(run, 0, &object);
	cr_expect(source->is_shard);
	cr_expect_eq(source->at, 250);
	cr_expect_eq(source->held, 1000);
	cr_expect_eq(source->bytes, 3000);
	cr_expect_eq(source->shard.set, 9);
}

Test(shards, a_source_is_the_sink_of_a_run_or_its_part)
{
	struct hr_run reader = { .config = pipeline };

	hr_run_set_source_of(&reader, 1, run);
	cr_expect_not(reader.source[1].is_shard);
	cr_expect_eq(reader.source[1].held, 18532);
	cr_expect_eq(reader.source[1].bytes, 18532);
	run->parts = 2;
	run->part = 1;
	hr_run_set_source_of(&reader, 1, run);
	cr_expect(reader.source[1].is_shard);
	cr_expect_eq(reader.source[1].at, 10240);
	cr_expect_eq(reader.source[1].held, 8292);
	cr_expect_eq(reader.source[1].bytes, 18532);
	cr_expect_eq(reader.source[1].shard.index, 1);
}

Test(shards, a_source_is_the_new_object_of_a_run_or_its_part)
{
	struct hr_run reader = { .config = pipeline };

	strcpy(pipeline->source[1].object, "new");
	pipeline->objects = 2;
	strcpy(pipeline->object[1].object, "new");
	run->object[1] = (struct hr_run_object){ .bytes = 640 };
	hr_run_set_source_of(&reader, 1, run);
	cr_expect_not(reader.source[1].is_shard);
	cr_expect_eq(reader.source[1].held, 640);
	run->parts = 2;
	run->part = 1;
	run->object[1].is_shard = true;
	run->object[1].shard = (struct hr_store_shard){ 5, 20, 0, 64, 1, 1 };
	hr_run_set_source_of(&reader, 1, run);
	cr_expect(reader.source[1].is_shard);
	cr_expect_eq(reader.source[1].at, 320);
	cr_expect_eq(reader.source[1].held, 640);
	cr_expect_eq(reader.source[1].bytes, 1280);
}

Test(shards, a_shard_needs_the_other_processes)
{
	struct hr_run_source *source = &run->source[0];

	pipeline->source[0] = (struct hr_config_object){ .object = "in", .line = 7 };
	cr_expect_eq(hr_run_check_shard(engine, run, 0), 0);
	source->is_shard = true;
	source->held = 1000;
	source->shard = (struct hr_store_shard){ 25, 300, 9, 10, 1, 2 };
	cr_expect_eq(hr_run_check_shard(engine, run, 0), -EINVAL);
	cr_expect_str_eq(
		engine->error.text,
		"f:7: object 'in' on ssd 'a' is shard 1 of 3 of a data set, 100 of 300 rows "
		"from row 25; expected shard = \"objects\" and 'mpirun -n 3 headrace run "
		"--mpi'");
	cr_expect_eq(engine->error.kind, HR_ERROR_USAGE);
	run->parts = 3;
	cr_expect_eq(hr_run_check_shard(engine, run, 0), 0);
}

/* A tile belongs to the process that has its first byte. */
Test(shards, tiles_of_shards_begin_in_them)
{
	static const struct {
		uint64_t at, held, begin, end;
	} row[] = {
		{ 0, 4096, 0, 1 },	 { 0, 4097, 0, 2 },	 { 0, 4095, 0, 1 },
		{ 4096, 4096, 1, 2 },	 { 4097, 4096, 2, 3 },	 { 4095, 2, 1, 2 },
		{ 4095, 1, 1, 1 },	 { 36864, 5000, 9, 10 }, { 40960, 1, 10, 10 },
		{ 90000, 1000, 10, 10 },
	};

	pipeline->shard = HR_SHARD_OBJECTS;
	for (size_t i = 0; i < ROWS(row); i++) {
		run->parts = 2;
		run->source[0].at = row[i].at;
		run->source[0].held = row[i].held;
		hr_run_set_tiles(run);
		cr_expect(run->of_shards);
		cr_expect_eq(hr_run_first_tile(run), row[i].begin, "row %zu: %llu", i,
			     (unsigned long long)hr_run_first_tile(run));
		cr_expect_eq(hr_run_end_tile(run), row[i].end, "row %zu: %llu", i,
			     (unsigned long long)hr_run_end_tile(run));
	}
	run->parts = 1;
	hr_run_set_tiles(run);
	cr_expect_not(run->of_shards);
	run->parts = 2;
	pipeline->shard = HR_SHARD_TILES;
	hr_run_set_tiles(run);
	cr_expect_not(run->of_shards);
}
