/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hashes that name the contents of sinks. They are on the disk, so all versions of headrace must
 * compute the values here.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "tests/harness/sinks_rig.h"
#include "boot/engine/objects/new_objects.h"

#define ROWS(table) (sizeof(table) / sizeof(*(table)))

TestSuite(stage_sinks_hash, .init = begin, .fini = end, .timeout = 60);

static struct hr_operator own;

#define CHANGE(name, statement) \
	static void name(void)  \
	{                       \
		statement;      \
	}

CHANGE(nothing, (void)0)
CHANGE(pipeline_name, strcpy(pipeline->name, "q"))
CHANGE(operator_, pipeline->op = hr_op_find("cast_f32_bf16"))
CHANGE(own_operator, pipeline->op = &own)
CHANGE(argument, (pipeline->op_args_bytes = 4, pipeline->op_args[3] = 1))
CHANGE(longer_arguments, (pipeline->op_args_bytes = 5, pipeline->op_args[3] = 1))
CHANGE(store, engine->ssd[1].store.uuid[15] = 3)
CHANGE(source_id, run->source[1].id = 77)
CHANGE(source_bytes, run->source[0].bytes = 5)
CHANGE(source_tile, run->source[1].tile_bytes = 128)
CHANGE(fewer_sources, pipeline->sources = 1)
CHANGE(sink_tile, run->sink_tile_bytes = 513)
CHANGE(feed, (pipeline->sources = 1, strcpy(pipeline->feed.name, "rows")))
CHANGE(other_feed, (feed(), strcpy(pipeline->feed.name, "row")))
CHANGE(objects, (pipeline->sources = 0, pipeline->objects = 2, pipeline->object[0].bytes = 64,
		 strcpy(pipeline->object[0].object, "x"), pipeline->object[1].ssd = 1,
		 strcpy(pipeline->object[1].object, "y"),
		 run->object[0] = (struct hr_run_object){ .id = 5, .bytes = 64, .writer = -1 },
		 run->object[1] = (struct hr_run_object){ .id = 6, .bytes = 65, .writer = -1 }))
CHANGE(old_object, (objects(), run->object[1].id = 7))
CHANGE(new_object, (objects(), run->object[0].id = 7))
CHANGE(object_bytes, (objects(), run->object[1].bytes = 66))
CHANGE(object_shard, (objects(), pipeline->object[0].bytes = 0,
		      run->object[0].used = run->object[0].is_shard = true,
		      run->object[0].shard = (struct hr_store_shard){ .rows = 4, .set = 8 },
		      run->object[0].shard.row_bytes = 16))
CHANGE(part, (run->parts = 2, run->part = 1))
CHANGE(data_set, (part(), run->data_set = 99))
CHANGE(more_parts, (run->parts = 3, run->part = 1))
CHANGE(checksum, (found(0, "x")->flags |= HR_OBJECT_HAS_CRC, found(0, "x")->crc = 0xabcd))
CHANGE(no_checksum, found(0, "x")->crc = 0xabcd)
CHANGE(source_shard, (run->source[1].is_shard = true, run->source[1].shard.set = 77))

/* The hash of the run, and that of the whole data set, when two ranks divide the run. */
static const struct {
	void (*change)(void);
	uint64_t print, set;
} row[] = {
	{ nothing, 0xdbc010011f8f66c2, 0x06fa74d2520c0d52 },
	{ pipeline_name, 0x6e97cdf74ca7ddbb, 0x6f78a1161d9da9cb },
	{ operator_, 0x390a50b1d0add042, 0x27f1bfaa29a9e6d2 },
	{ own_operator, 0xf2a7fb099f249fe2, 0x06fa74d2520c0d52 },
	{ argument, 0xe513eea619fed8e5, 0xe4f5a1a78c8a5ca5 },
	{ longer_arguments, 0x5c983494be6cbddf, 0xc2c4885c1f2d4b5f },
	{ store, 0x07da3b6082e72a48, 0x06fa74d2520c0d52 },
	{ source_id, 0x88632492b86cbc4e, 0x06fa74d2520c0d52 },
	{ source_bytes, 0xdbbd31c405cadac7, 0x765f5f72a3dbd967 },
	{ source_tile, 0x1e6432d727acfdf2, 0x2f3640b2ac73f022 },
	{ fewer_sources, 0x7d44cf2f91f64c03, 0xdac25e11fd8a7bf2 },
	{ sink_tile, 0x17a56209ce150b59, 0x06fa74d2520c0d52 },
	{ feed, 0x39b3f60a94b950e4, 0xdac25e11fd8a7bf2 },
	{ other_feed, 0xf448140cede6d54b, 0xdac25e11fd8a7bf2 },
	{ objects, 0x378f34e732950185, 0x3b162c8e978a6af3 },
	{ old_object, 0x577b114774c69e34, 0x3b162c8e978a6af3 },
	{ new_object, 0x378f34e732950185, 0x3b162c8e978a6af3 },
	{ object_bytes, 0x66170fc2252779d6, 0xde25d77376bc8c90 },
	{ object_shard, 0xdb2d68ec9e677d90, 0x65dbc3c3af3c6efb },
	{ part, 0x7536dd4374dfcc03, 0x06fa74d2520c0d52 },
	{ data_set, 0xf79f6949b1fb31c0, 0x06fa74d2520c0d52 },
	{ more_parts, 0x6e2f670c39a84803, 0x06fa74d2520c0d52 },
	{ checksum, 0xdbc010011f8f66c2, 0x16ca3dcb62f7ed62 },
	{ no_checksum, 0xdbc010011f8f66c2, 0x06fa74d2520c0d52 },
	{ source_shard, 0xdbc010011f8f66c2, 0xe5eb9247524787ff },
};

Test(stage_sinks_hash, each_change_of_the_work_has_the_hash_of_earlier_versions)
{
	static const uint8_t gpu_code[8];

	own = *hr_op_find("copy");
	own.gpu = gpu_code;
	for (size_t i = 0; i < ROWS(row); i++) {
		uint64_t print;

		end();
		begin();
		for (uint32_t d = 0; d < TEST_RUNS_SSDS; d++)
			memset(engine->ssd[d].store.uuid, 0x40 + (int)d, 16);
		row[i].change();
		print = hr_run_fingerprint(engine, run);
		cr_expect_eq(print, row[i].print, "row %zu: 0x%016llx", i,
			     (unsigned long long)print);
		run->parts = 2;
		run->data_set = 1;
		cr_assert_eq(hr_sinks_check(engine), 0, "row %zu: %s", i, engine->error.text);
		cr_expect_eq(run->data_set, row[i].set, "row %zu: set 0x%016llx", i,
			     (unsigned long long)run->data_set);
	}
	run->parts = 0;
	cr_assert_eq(hr_sinks_check(engine), 0);
	cr_expect_eq(run->data_set, 0u, "one process has all tiles");
}

/* The data set of a source that another run makes is that of the run. */
Test(stage_sinks_hash, the_set_of_a_source_that_a_run_makes_is_that_of_the_run)
{
	uint64_t made, stored;

	test_runs_end();
	engine = test_runs_begin(2);
	run = &engine->run[1];
	pipeline = &engine->config.pipeline[1];
	for (uint32_t i = 0; i < 2; i++) {
		engine->config.pipeline[i].op = hr_op_find("copy");
		engine->run[i].parts = 2;
	}
	pipeline->sources = 1;
	strcpy(pipeline->source[0].object, "x");
	run->source[0] = (struct hr_run_source){ .writer = 0, .is_shard = true, .bytes = 3 };
	cr_assert_eq(hr_sinks_check(engine), 0, "%s", engine->error.text);
	made = run->data_set;
	run->source[0].shard.set = engine->run[0].data_set;
	engine->run[0].selected = false;
	cr_assert_eq(hr_sinks_check(engine), 0, "%s", engine->error.text);
	cr_expect_eq(run->data_set, made);
	run->source[0].shard.set++;
	cr_assert_eq(hr_sinks_check(engine), 0, "%s", engine->error.text);
	stored = run->data_set;
	cr_expect_neq(stored, made);
}

Test(stage_sinks_hash, a_tag_is_never_that_of_other_objects)
{
#define SUMMED 0x6b63656863637263u
	static const struct {
		uint64_t print, plain;
	} tag[] = { { 0, 1 }, { 1, 1 }, { 2, 2 }, { SUMMED, 1 }, { SUMMED + 1, SUMMED + 1 } };

	for (size_t i = 0; i < ROWS(tag); i++) {
		cr_expect_eq(hr_sink_tag(tag[i].print, false), tag[i].plain, "row %zu", i);
		cr_expect_eq(hr_sink_tag(tag[i].print, true), tag[i].plain ^ SUMMED, "row %zu", i);
	}
}
