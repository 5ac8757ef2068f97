/*
 * The hashes that name the contents of sinks. They are on the disk, so other versions of headrace must
 * compute the same, byte by byte.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "config/bytes.h"
#include "tests/harness/sinks_rig.h"

#define ROWS(table) (sizeof(table) / sizeof(*(table)))

TestSuite(stage_sinks_hash, .init = begin, .fini = end, .timeout = 60);

#define SUMMED 0x6b63656863637263u

static uint8_t hashed[1024];
static size_t hashed_bytes;

static void add(const void *data, size_t bytes)
{
	memcpy(hashed + hashed_bytes, data, bytes);
	hashed_bytes += bytes;
}

static void add_text(const char *text)
{
	add(text, strlen(text) + 1);
}

static void add_word(uint64_t word)
{
	add(&word, sizeof word);
}

static uint64_t hash(void)
{
	const uint64_t sum = hr_hash(HR_HASH_BEGIN, hashed, hashed_bytes);

	hashed_bytes = 0;
	return sum;
}

/* The part of a hash that names the operator; built_in: its code has no checksum. */
static void add_operator(bool built_in)
{
	add_text(pipeline->name);
	add_text(pipeline->op->name);
	add("\0\0\0", built_in ? 0 : 4);
	add(pipeline->op_args, pipeline->op_args_bytes);
}

static void add_source(uint32_t s, bool feed)
{
	const uint32_t tile = run->source[s].tile_bytes;

	add(app->ssd[pipeline->source[s].ssd].store.uuid, feed ? 0 : 16);
	add_word(run->source[s].id);
	add_word(run->source[s].bytes);
	add(&tile, sizeof tile);
}

static void add_sink(void)
{
	add(&run->sink_tile_bytes, sizeof run->sink_tile_bytes);
}

Test(stage_sinks_hash, the_fingerprint_covers_names_operator_sources_and_tiles)
{
	static const uint8_t gpu_code[8];
	struct hr_operator own = *hr_op_find("copy");

	own.gpu = gpu_code;
	for (unsigned round = 0; round < 3; round++) {
		pipeline->op = round ? &own : hr_op_find("copy");
		pipeline->op_args_bytes = 4 * round;
		memset(pipeline->op_args, 0x33, sizeof pipeline->op_args);
		run->sink_tile_bytes = 512 + round;
		add_operator(!round);
		add_source(0, false);
		add_source(1, false);
		add_sink();
		cr_expect_eq(hr_run_fingerprint(app, run), hash(), "round %u", round);
	}
}

Test(stage_sinks_hash, the_fingerprint_of_a_feed_names_it_and_no_ssd)
{
	strcpy(pipeline->feed.name, "rows");
	pipeline->sources = 1;
	add_operator(true);
	add_text("rows");
	add_source(0, true);
	add_sink();
	cr_expect_eq(hr_run_fingerprint(app, run), hash());
}

Test(stage_sinks_hash, the_fingerprint_of_objects_has_ids_of_old_ones)
{
	pipeline->sources = 0;
	pipeline->objects = 2;
	pipeline->object[0].bytes = 64;
	pipeline->object[1].ssd = 1;
	run->object[0] = (struct hr_run_object){ .id = 5, .bytes = 64 };
	run->object[1] = (struct hr_run_object){ .id = 6, .bytes = 65 };
	add_operator(true);
	add(app->ssd[0].store.uuid, 16);
	add_word(64);
	add(app->ssd[1].store.uuid, 16);
	add_word(65);
	add_word(6);
	add_sink();
	cr_expect_eq(hr_run_fingerprint(app, run), hash());
}

Test(stage_sinks_hash, the_fingerprint_of_a_part_has_its_tiles)
{
	run->part = 1;
	run->parts = 2;
	run->set = 99;
	add_operator(true);
	add_source(0, false);
	add_source(1, false);
	add_sink();
	add_word(1);
	add_word(2);
	add_word(1);
	add_word(3);
	add_word(99);
	cr_expect_eq(hr_run_fingerprint(app, run), hash());
}

static void add_set(uint64_t set, uint32_t s)
{
	add_word(set);
	add_word(run->source[s].bytes);
	add_word(run->source[s].tile_bytes);
}

/* The same on all ranks: checksums of sources instead of ids. */
Test(stage_sinks_hash, the_set_of_a_divided_run_names_the_data)
{
	static const uint8_t gpu_code[8];
	struct hr_operator own = *hr_op_find("copy");
	struct hr_store_object *x = found(0, "x");

	own.gpu = gpu_code;
	run->set = 1;
	cr_assert_eq(hr_sinks_check(app), 0);
	cr_expect_eq(run->set, 0, "one process has all tiles");
	run->parts = 2;
	x->flags |= HR_OBJECT_HAS_CRC;
	x->crc = 0xabcd;
	found(1, "y")->crc = 0x1234; /* not valid */
	for (unsigned round = 0; round < 2; round++) {
		pipeline->op = round ? &own : hr_op_find("copy");
		pipeline->op_args_bytes = 5 * round;
		run->source[1].is_shard = round;
		run->source[1].shard.set = 77;
		run->source[0].bytes++; /* of other length than tiles */
		cr_assert_eq(hr_sinks_check(app), 0, "%s", app->error.text);
		add_operator(false);
		hashed_bytes -= pipeline->op_args_bytes;
		add(pipeline->op_args, pipeline->op_args_bytes);
		add_set(0xabcd, 0);
		add_set(round ? 77 : 0, 1);
		cr_expect_eq(run->set, hash(), "round %u", round);
	}
}

Test(stage_sinks_hash, the_set_of_a_source_that_a_run_makes_is_that_of_the_run)
{
	test_runs_end();
	app = test_runs_begin(2);
	run = &app->run[1];
	pipeline = &app->config.pipeline[1];
	for (uint32_t i = 0; i < 2; i++) {
		app->config.pipeline[i].op = hr_op_find("copy");
		app->run[i].parts = 2;
	}
	pipeline->sources = 1;
	strcpy(pipeline->source[0].object, "x");
	run->source[0] = (struct hr_run_source){ .from = 0, .is_shard = true, .bytes = 3 };
	run->source[0].shard.set = 77;
	cr_assert_eq(hr_sinks_check(app), 0, "%s", app->error.text);
	cr_assert_neq(app->run[0].set, 0);
	add_operator(false);
	add_set(app->run[0].set, 0);
	cr_expect_eq(run->set, hash());
	app->run[0].selected = false;
	cr_assert_eq(hr_sinks_check(app), 0, "%s", app->error.text);
	add_operator(false);
	add_set(77, 0);
	cr_expect_eq(run->set, hash());
}

Test(stage_sinks_hash, the_set_of_objects_names_their_data_and_lengths)
{
	pipeline->op = hr_op_find("gather");
	pipeline->sources = 0;
	pipeline->has_sink = false;
	pipeline->objects = 2;
	run->parts = 2;
	strcpy(pipeline->object[0].object, "x");
	run->object[0] = (struct hr_run_object){
		.used = true, .from = -1, .is_shard = true, .shard = { .rows = 4, .set = 8 }
	};
	run->object[0].shard.row_bytes = 16;
	run->object[1] = (struct hr_run_object){ .from = -1, .bytes = 12 };
	cr_assert_eq(hr_sinks_check(app), 0, "%s", app->error.text);
	add_operator(false);
	add_word(8);
	add_word(64);
	add_word(0);
	add_word(12);
	cr_expect_eq(run->set, hash());
}

Test(stage_sinks_hash, a_tag_is_never_that_of_other_objects)
{
	static const struct {
		uint64_t print, plain, summed;
	} row[] = { { 0, 1, 1 ^ SUMMED },
		    { 1, 1, 1 ^ SUMMED },
		    { 2, 2, 2 ^ SUMMED },
		    { SUMMED, 1, 1 ^ SUMMED },
		    { SUMMED + 1, SUMMED + 1, (SUMMED + 1) ^ SUMMED } };

	for (size_t i = 0; i < ROWS(row); i++) {
		cr_expect_eq(hr_sink_tag(row[i].print, false), row[i].plain, "row %zu", i);
		cr_expect_eq(hr_sink_tag(row[i].print, true), row[i].summed, "row %zu", i);
	}
}
