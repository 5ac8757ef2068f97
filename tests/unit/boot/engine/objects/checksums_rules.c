/* SPDX-License-Identifier: Apache-2.0 */
/* Which sources a run compares, the checksums that are joined from those of tiles, and each result of a
 * comparison, without a disk. */
#include "boot/engine/objects/checksums.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cache/crc32c.h"
#include "config/operator.h"
#include "tests/harness/error.h"

TestSuite(checksums_rules, .timeout = 60);

#define TILE 64u
#define TILES 4u
#define BYTES (3 * TILE + 20) /* the last tile is short */

enum { MAKER, RUN };

static struct hr_engine *engine;
static struct hr_run *run;
static struct hr_config_pipeline *config;
static struct hr_store_object object[2]; /* of sources 0 and 1, with ids 1 and 2, on ssds 0 and 1 */
static struct hr_store *store[HR_SSDS_MAX];
static struct hr_operator op;
static uint8_t data[2][BYTES];
static uint32_t word[2][TILES];

static uint32_t sum(uint32_t s, uint64_t from, uint64_t to)
{
	const uint64_t end = to * TILE < BYTES ? to * TILE : BYTES;

	return hr_crc32c(0, data[s] + from * TILE, end - from * TILE);
}

static void begin(void)
{
	free(engine);
	engine = calloc(1, sizeof *engine);
	cr_assert_not_null(engine);
	engine->config.file = "f";
	engine->config.pipelines = 2;
	memset(&op, 0, sizeof op);
	for (uint32_t i = 0; i < 2; i++)
		engine->run[i].config = &engine->config.pipeline[i];
	run = &engine->run[RUN];
	config = &engine->config.pipeline[RUN];
	strcpy(config->name, "p");
	config->op = &op;
	config->sources = 2;
	run->tiles = TILES;
	for (uint32_t s = 0; s < 2; s++) {
		store[s] = &engine->ssd[s].store;
		snprintf(engine->config.ssd[s].name, sizeof engine->config.ssd[s].name, "d%u", s);
		config->source[s].ssd = s;
		config->source[s].line = 20 + s;
		snprintf(config->source[s].object, sizeof config->source[s].object, "in%u", s);
		run->source[s] = (struct hr_run_source){
			.id = s + 1, .writer = -1, .bytes = BYTES, .tile_bytes = TILE
		};
		run->source[s].verify.wanted = true;
		for (uint32_t i = 0; i < BYTES; i++)
			data[s][i] = (uint8_t)((i + 7 * s) * 2654435761u >> 11);
		for (uint32_t t = 0; t < TILES; t++)
			word[s][t] = sum(s, t, t + 1);
		run->cpu.source[s].crc = word[s];
		object[s] = (struct hr_store_object){ .id = s + 1,
						      .flags = HR_OBJECT_HAS_CRC,
						      .crc = sum(s, 0, TILES) };
		engine->ssd[s].store.object = &object[s];
		engine->ssd[s].store.count = 1;
	}
}

static void end(void)
{
	free(engine);
	engine = NULL;
}

#define NO_CHECKSUM(s)                                                                 \
	"f:2" s ": object 'in" s "' on ssd 'd" s                                       \
	"' has no checksum, but pipeline 'p' has verify = \"on\"; expected an object " \
	"that 'headrace store put', or a pipeline with sink.checksum, has written"

Test(checksums_rules, a_source_is_wanted_when_it_has_or_will_have_a_checksum, .fini = end)
{
	static const struct {
		enum hr_verify_policy verify;
		bool has, wanted;
	} row[] = {
		{ HR_VERIFY_AUTO, true, true },	 { HR_VERIFY_ON, true, true },
		{ HR_VERIFY_OFF, true, false },	 { HR_VERIFY_AUTO, false, false },
		{ HR_VERIFY_OFF, false, false }, { HR_VERIFY_ON, false, false },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++)
		for (uint32_t made = 0; made < 2; made++) {
			const int want = i == 5 ? -EINVAL : 0;

			begin();
			config->verify = row[i].verify;
			run->source[1].writer = MAKER;
			run->source[1].verify.wanted = !row[i].wanted;
			/* what counts is the sink that will be made, or the object that exists */
			engine->config.pipeline[MAKER].sink.checksum =
				made ? row[i].has : !row[i].has;
			object[1].flags = row[i].has ? HR_OBJECT_HAS_CRC : HR_OBJECT_PENDING;
			cr_expect_eq(hr_checksums_want(engine, run, 1, made ? NULL : &object[1]),
				     want, "%zu", i);
			cr_expect_eq(run->source[1].verify.wanted, row[i].wanted, "%zu", i);
			cr_expect_str_eq(engine->error.text, want ? NO_CHECKSUM("1") : "");
		}
}

/* An object that an operator accesses is compared as a whole, before the run. */
Test(checksums_rules, an_accessed_object_is_read_when_it_has_a_checksum_and_is_small, .fini = end)
{
	static const struct {
		enum hr_verify_policy verify;
		bool has, large;
		enum hr_source_check check;
	} row[] = {
		{ HR_VERIFY_AUTO, true, false, HR_SOURCE_UNREAD },
		{ HR_VERIFY_AUTO, true, true, HR_SOURCE_LARGE },
		{ HR_VERIFY_BEFORE, true, true, HR_SOURCE_UNREAD },
		{ HR_VERIFY_ON, true, true, HR_SOURCE_UNREAD },
		{ HR_VERIFY_ON, false, false, HR_SOURCE_NO_CHECKSUM },
		{ HR_VERIFY_AUTO, false, true, HR_SOURCE_NO_CHECKSUM },
		{ HR_VERIFY_OFF, true, false, HR_SOURCE_VERIFY_OFF },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		struct hr_run_object *to;

		begin();
		to = &run->object[0];
		config->verify = row[i].verify;
		to->writer = -1;
		to->bytes = HR_VERIFY_AUTO_BYTES + row[i].large;
		object[0].flags = row[i].has ? HR_OBJECT_HAS_CRC : 0;
		cr_expect_eq(hr_checksums_want_object(engine, run, 0, &object[0]),
			     i == 4 ? -EINVAL : 0, "%zu", i);
		cr_expect_eq(to->verify.check, row[i].check, "%zu", i);
		cr_expect_eq(to->verify.wanted, row[i].check == HR_SOURCE_UNREAD, "%zu", i);
	}
}

Test(checksums_rules, the_check_of_a_source_is_decided_by_its_object_and_the_first_tile,
     .fini = end)
{
	static const struct {
		enum hr_verify_policy verify;
		int flags; /* -1: there is no object */
		bool wanted;
		uint64_t first_tile, part;
		enum hr_outcome outcome;
		enum hr_source_check check;
		int err;
	} row[] = {
		{ HR_VERIFY_AUTO, HR_OBJECT_HAS_CRC, true, 0, 0, 0, HR_SOURCE_UNREAD, 0 },
		{ HR_VERIFY_ON, HR_OBJECT_PENDING, true, 0, 0, 0, HR_SOURCE_UNREAD, 0 },
		{ HR_VERIFY_OFF, HR_OBJECT_HAS_CRC, true, 0, 0, 0, HR_SOURCE_VERIFY_OFF, 0 },
		{ HR_VERIFY_AUTO, 0, true, 0, 0, 0, HR_SOURCE_NO_CHECKSUM, 0 },
		{ HR_VERIFY_ON, 0, true, 0, 0, 0, HR_SOURCE_NO_CHECKSUM, -EINVAL },
		{ HR_VERIFY_ON, -1, true, 0, 0, 0, HR_SOURCE_NO_CHECKSUM, 0 },
		{ HR_VERIFY_AUTO, HR_OBJECT_HAS_CRC, false, 0, 0, 0, HR_SOURCE_NO_CHECKSUM, 0 },
		{ HR_VERIFY_AUTO, HR_OBJECT_HAS_CRC, true, 1, 0, 0, HR_SOURCE_RESUMED, 0 },
		{ HR_VERIFY_AUTO, HR_OBJECT_HAS_CRC, true, 1, 0, HR_RUN_COMPLETE, HR_SOURCE_UNREAD,
		  0 },
		{ HR_VERIFY_AUTO, HR_OBJECT_HAS_CRC, true, 2, 1, 0, HR_SOURCE_UNREAD, 0 },
		{ HR_VERIFY_AUTO, HR_OBJECT_HAS_CRC, true, 3, 1, 0, HR_SOURCE_RESUMED, 0 },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		const bool known = row[i].flags == HR_OBJECT_HAS_CRC;
		struct hr_run_source *source;

		begin();
		source = &run->source[0];
		config->verify = row[i].verify;
		engine->ssd[0].store.count = row[i].flags >= 0;
		object[0].flags = (uint32_t)row[i].flags;
		source->verify.wanted = row[i].wanted;
		source->verify.expected = source->verify.found = source->verify.stored = 9;
		run->first_tile = row[i].first_tile;
		run->parts = row[i].part ? 2 : 0; /* of two tiles */
		run->part = (uint32_t)row[i].part;
		run->outcome = row[i].outcome;
		cr_expect_eq(hr_checksums_decide(engine, run, store), row[i].err, "%zu", i);
		cr_expect_eq(source->verify.check, row[i].check, "%zu", i);
		cr_expect_eq(source->verify.known, known, "%zu", i);
		cr_expect_eq(source->verify.stored, known ? object[0].crc : 0, "%zu", i);
		cr_expect_eq(source->verify.expected + source->verify.found, 0u, "%zu", i);
		cr_expect_eq(run->source[1].verify.stored, object[1].crc, "also after an error");
		cr_expect_str_eq(engine->error.text, row[i].err ? NO_CHECKSUM("0") : "");
	}
	begin();
	config->verify = HR_VERIFY_ON;
	object[0].flags = object[1].flags = 0;
	cr_expect_eq(hr_checksums_decide(engine, run, store), -EINVAL);
	cr_expect_str_eq(engine->error.text, NO_CHECKSUM("0"), "one of them");
	begin();
	strcpy(config->feed.name, "f"); /* its source has no object */
	run->source[0].verify.check = HR_SOURCE_RESUMED;
	cr_expect_eq(hr_checksums_decide(engine, run, store), 0);
	cr_expect_eq(run->source[0].verify.check, HR_SOURCE_RESUMED);
}

Test(checksums_rules, blocks_compute_what_no_operator_computes, .fini = end)
{
	begin();
	cr_expect(hr_run_sums(run, 0) && hr_run_sums(run, 1) && hr_run_verifies(run));
	op.records_checksum = true; /* of source 0 */
	cr_expect(!hr_run_sums(run, 0) && hr_run_sums(run, 1) && hr_run_verifies(run));
	run->source[1].verify.wanted = false;
	cr_expect(!hr_run_sums(run, 1) && !hr_run_verifies(run) && !hr_run_checksums(run));
	run->source[2].verify.wanted = true;
	cr_expect_not(hr_run_verifies(run), "it is no source");
	config->has_sink = true;
	cr_expect_not(hr_run_checksums(run));
	config->sink.checksum = true;
	cr_expect(hr_run_checksums(run));
	config->has_sink = false;
	cr_expect_not(hr_run_checksums(run));
	run->source[1].verify.wanted = true;
	cr_expect(hr_run_checksums(run));
}

#define DIFFERS                                                                                \
	"pipeline 'p': object 'in1' on ssd 'd1' differs from the stored data: CRC-32C of the " \
	"data is %08x, expected %08x"

static void expect(enum hr_source_check check, uint32_t expected)
{
	const bool wrong = check == HR_SOURCE_WRONG;
	char says[256] = "";

	run->source[0].verify.check = HR_SOURCE_VERIFY_OFF;
	cr_expect_eq(hr_checksums_verify(engine, run, test_error()), wrong ? -EBADMSG : 0);
	cr_expect_eq(run->source[1].verify.check, check);
	cr_expect_eq(run->source[1].verify.expected, expected);
	if (wrong)
		snprintf(says, sizeof says, DIFFERS, run->source[1].verify.found, expected);
	cr_expect_str_eq(test_error_text(), says);
	cr_expect_eq(test_error_kind(), wrong ? HR_ERROR_DEVICE : HR_ERROR_NONE);
	cr_expect_eq(run->source[0].verify.check, HR_SOURCE_VERIFY_OFF);
}

/* The sink of an earlier run whose other parts are not whole yet. */
Test(checksums_rules, an_incomplete_source_has_the_checksum_of_its_maker, .fini = end)
{
	static const struct {
		int from;
		bool sums;
		enum hr_source_check check;
	} row[] = { { -1, true, HR_SOURCE_NO_CHECKSUM },
		    { MAKER, false, HR_SOURCE_NO_CHECKSUM },
		    { MAKER, true, HR_SOURCE_VERIFIED } };

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		struct hr_run *maker;

		begin();
		maker = &engine->run[MAKER];
		engine->config.pipeline[MAKER].sink.checksum = row[i].sums;
		maker->tiles = TILES;
		maker->cpu.sink_crc = word[1];
		maker->sink_bytes = BYTES;
		maker->sink_tile_bytes = TILE;
		run->source[1].writer = row[i].from;
		object[1].flags = HR_OBJECT_PENDING;
		object[1].crc = 7; /* of no meaning */
		expect(row[i].check, row[i].check == HR_SOURCE_VERIFIED ? sum(1, 0, TILES) : 0);
	}
}

Test(checksums_rules, the_tiles_of_shards_and_of_records_are_compared, .fini = end)
{
	begin();
	run->of_shards = true;
	run->shard_begin = 1;
	run->shard_end = 3;
	object[1].crc = sum(1, 1, 3);
	expect(HR_SOURCE_VERIFIED, sum(1, 1, 3));
	begin();
	op.records_checksum = true;
	run->cpu.op_records = (uint8_t *)word[1]; /* of source 0 only */
	object[0].crc = sum(1, 0, TILES);
	cr_expect_eq(hr_checksums_verify(engine, run, test_error()), 0);
	cr_expect_eq(run->source[0].verify.check, HR_SOURCE_VERIFIED);
	cr_expect_eq(run->source[1].verify.check, HR_SOURCE_VERIFIED);
	begin();
	run->tiles = 0; /* an empty object, whose words do not exist */
	run->cpu.source[1].crc = NULL;
	run->source[1].bytes = run->source[1].tile_bytes = 0;
	object[1].crc = 0;
	expect(HR_SOURCE_VERIFIED, 0);
}
