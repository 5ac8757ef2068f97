/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sizes of a pipeline: tile, blocks, queues, memory, sources and sinks, at each limit and above it.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "boot/engine/devices/devices.h"
#include "config/file/keys.h"
#include "config/file/file.h"
#include "config/file/group.h"
#include "config/tile.h"
#include "tests/harness/error.h"

#define ROWS(table) (sizeof(table) / sizeof(*(table)))
#define KIB (1u << 10)
#define MIB (1u << 20)

TestSuite(config_check, .timeout = 60);

static struct hr_config config;
static struct hr_mistakes mistakes;
static struct hr_operator op;
static uint32_t row_of[HR_SOURCES_MAX]; /* bytes of a row in each source */
static char reports[1 << 14];

static uint32_t row_bytes(const void *args, uint32_t source)
{
	cr_assert_lt(source, op.sources_max, "the operator has no such source");
	return row_of[source];
}

/* One source of one-byte rows on ssd "a", eight slots, no sink; ssd "b" exists, too. */
static struct hr_config_pipeline *start(void)
{
	struct hr_config_pipeline *p = &config.pipeline[0];

	memset(&config, 0, sizeof config);
	memset(&op, 0, sizeof op);
	memset(row_of, 0, sizeof row_of);
	config.ssds = 2;
	for (uint32_t d = 0; d < 2; d++) {
		config.ssd[d].name[0] = (char)('a' + d);
		config.ssd[d].line = 10 + d;
		config.ssd[d].queue_entries = HR_QUEUE_ENTRIES_MAX;
	}
	op.name = "fake";
	op.sources_min = op.sources_max = 1;
	op.row_bytes = row_bytes;
	row_of[0] = 1;
	config.pipelines = 1;
	p->op = &op;
	p->sources = 1;
	p->slots = 8;
	return p;
}

static void produce(struct hr_config_pipeline *p, uint32_t out_num, uint32_t out_den)
{
	op.output = HR_OUT_DATA;
	op.out_num = out_num;
	op.out_den = out_den;
	p->has_sink = true;
}

/* Check the pipeline, written on line 2 with `blocks` on line 3; returns the reports. */
static const char *check_with(const char *blocks)
{
	struct hr_group group = { .mistakes = &mistakes, .path = "p" };
	char text[512];
	config_t file;

	memset(&mistakes, 0, sizeof mistakes);
	mistakes.file = "f";
	snprintf(text, sizeof text, "\np = {\nblocks = { %s }; };\n", blocks);
	config_init(&file);
	cr_assert_eq(config_read_string(&file, text), CONFIG_TRUE);
	group.setting = config_lookup(&file, "p");
	cr_assert_not_null(group.setting);
	hr_config_pipeline_check(&config, &config.pipeline[0], &group);
	config_destroy(&file);
	hr_mistakes_report(&mistakes, test_error());
	test_error_lines(reports, sizeof reports);
	return reports;
}

static const char *check(void)
{
	return check_with("");
}

Test(config_check, a_pipeline_has_as_many_sources_as_its_operator_requires)
{
	static const struct {
		uint32_t min, max, sources;
		const char *want;
	} row[] = {
		{ 2, 3, 1, "f:2: p.source: has 1 object, operator fake takes 2 to 3\n" },
		{ 2, 3, 2, "" },
		{ 2, 3, 3, "" },
		{ 2, 3, 4, "f:2: p.source: has 4 objects, operator fake takes 2 to 3\n" },
		{ 3, 3, 2, "f:2: p.source: has 2 objects, operator fake takes 3\n" },
		{ 3, 3, 3, "" },
		{ 3, 3, 4, "f:2: p.source: has 4 objects, operator fake takes 3\n" },
		{ 1, HR_SOURCES_MAX, HR_SOURCES_MAX, "" },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		struct hr_config_pipeline *p = start();

		op.sources_min = row[i].min;
		op.sources_max = row[i].max;
		p->sources = row[i].sources;
		memset(row_of, 0, sizeof row_of);
		cr_expect_str_eq(check(), row[i].want, "row %zu: %s", i, reports);
		cr_expect_eq(p->tile_bytes, row[i].sources > row[i].max ? 0 : MIB, "row %zu", i);
	}
}

/* The operator's rows, and its output for each byte of source 0. */
struct shape {
	uint32_t sources, row[3], out_num, out_den;
};

static struct hr_config_pipeline *shaped(const struct shape *shape)
{
	struct hr_config_pipeline *p = start();

	op.sources_max = p->sources = shape->sources;
	memcpy(row_of, shape->row, sizeof shape->row);
	if (shape->out_num)
		produce(p, shape->out_num, shape->out_den);
	return p;
}

Test(config_check, a_chosen_tile_is_whole_rows_in_whole_blocks)
{
	static const struct {
		struct shape shape;
		uint32_t step, tile, sink;
	} row[] = {
		{ { 1, { 1 }, 0, 0 }, 4096, MIB, 0 },
		{ { 1, { 0 }, 0, 0 }, 4096, MIB, 0 }, /* counts as one byte */
		{ { 1, { 3 }, 0, 0 }, 12288, 85 * 12288, 0 },
		{ { 1, { 4096 }, 0, 0 }, 4096, MIB, 0 },
		{ { 1, { 4097 }, 0, 0 }, 4097 * 4096, 4097 * 4096, 0 },
		{ { 1, { MIB }, 0, 0 }, MIB, MIB, 0 },
		{ { 1, { MIB + 4096 }, 0, 0 }, MIB + 4096, MIB + 4096, 0 },
		{ { 1, { MIB - 4096 }, 0, 0 }, MIB - 4096, MIB - 4096, 0 },
		{ { 1, { HR_TILE_MAX }, 0, 0 }, HR_TILE_MAX, HR_TILE_MAX, 0 },
		{ { 2, { 4, 2 }, 0, 0 }, 8192, MIB, 0 },
		{ { 2, { 2, 4 }, 0, 0 }, 8192, MIB, 0 },
		{ { 3, { 8, 2, 24 }, 0, 0 }, 2048 * 24, 21 * 2048 * 24, 0 },
		{ { 1, { 4 }, 1, 1 }, 4096, MIB, MIB },
		{ { 1, { 4 }, 1, 2 }, 8192, MIB, MIB / 2 },
		{ { 1, { 4 }, 3, 1 }, 4096, MIB, 3 * MIB },
		{ { 1, { 1 }, 1, 3 }, 12288, 85 * 12288, 85 * 4096 },
		{ { 1, { 1 }, 8, 3 }, 12288, 85 * 12288, 85 * 32768 },
		{ { 2, { 1, 2 }, 1, 3 }, 24576, 42 * 24576, 42 * 4096 },
		{ { 2, { 2, 1 }, 1, 3 }, 24576, 42 * 24576, 42 * 8192 },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		struct hr_config_pipeline *p = shaped(&row[i].shape);

		cr_expect_str_eq(check(), "", "row %zu: %s", i, reports);
		cr_expect(p->tile_chosen, "row %zu", i);
		cr_expect_eq(hr_config_tile_step(p), row[i].step, "row %zu: %llu", i,
			     (unsigned long long)hr_config_tile_step(p));
		cr_expect_eq(p->tile_bytes, row[i].tile, "row %zu: %u", i, p->tile_bytes);
		cr_expect_eq(hr_config_sink_tile_bytes(p), row[i].sink, "row %zu: %u", i,
			     hr_config_sink_tile_bytes(p));
	}
}

/* In a source with shorter rows, a tile has fewer bytes. */
Test(config_check, a_tile_has_as_many_rows_in_each_source)
{
	const struct shape shape = { 2, { 3, 8 }, 0, 0 };
	struct hr_config_pipeline *p = shaped(&shape);

	p->tile_bytes = 4096 * 8;
	cr_assert_str_eq(check(), "", "%s", reports);
	cr_expect(!p->tile_chosen);
	cr_expect_eq(hr_config_tile_rows(p), 4096);
	cr_expect_eq(hr_config_tile_bytes(p, 0), 4096 * 3);
	cr_expect_eq(hr_config_tile_bytes(p, 1), 4096 * 8);
}

Test(config_check, an_operator_without_row_bytes_has_rows_of_one)
{
	struct hr_config_pipeline *p = start();

	op.row_bytes = NULL;
	cr_expect_str_eq(check(), "", "%s", reports);
	cr_expect_eq(p->tile_bytes, MIB);
	cr_expect_eq(hr_config_tile_rows(p), MIB);
}

/* A tile size that the file leaves out is as small as its output needs. */
Test(config_check, the_output_of_a_chosen_tile_fits_the_largest_output)
{
	static const struct {
		uint32_t row, out_num, out_den, tile, sink;
	} row[] = {
		{ 1, 64, 1, MIB, HR_TILE_MAX },
		{ 1, 65, 1, 252 * 4096, 252 * 4096 * 65 },
		{ 1, 4096, 1, 16 * KIB, HR_TILE_MAX },
		{ 16 * KIB, 4096, 1, 16 * KIB, HR_TILE_MAX },
		{ HR_TILE_MAX / 2, 2, 1, HR_TILE_MAX / 2, HR_TILE_MAX },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		const struct shape shape = { 1, { row[i].row }, row[i].out_num, row[i].out_den };
		struct hr_config_pipeline *p = shaped(&shape);

		cr_expect_str_eq(check(), "", "row %zu: %s", i, reports);
		cr_expect_eq(p->tile_bytes, row[i].tile, "row %zu: %u", i, p->tile_bytes);
		cr_expect_eq(hr_config_sink_tile_bytes(p), row[i].sink, "row %zu: %u", i,
			     hr_config_sink_tile_bytes(p));
	}
}

Test(config_check, rows_that_no_tile_can_hold_are_refused)
{
	static const struct {
		struct shape shape;
		const char *want;
	} row[] = {
		{ { 1, { HR_TILE_MAX + 4096 }, 0, 0 },
		  "f:2: p: whole rows of 67112960 bytes in whole blocks take a tile of 67112960 "
		  "bytes, expected at most 67108864\n" },
		{ { 1, { 16385 }, 0, 0 },
		  "f:2: p: whole rows of 16385 bytes in whole blocks take a tile of 67112960 "
		  "bytes, expected at most 67108864\n" },
		{ { 1, { HR_TILE_MAX / 2 + 4096 }, 2, 1 },
		  "f:2: p: whole rows of 33558528 bytes in whole blocks make 67117056 bytes of "
		  "output, expected at most 67108864\n" },
		{ { 1, { HR_TILE_MAX }, 4096, 1 },
		  "f:2: p: whole rows of 67108864 bytes in whole blocks make 274877906944 bytes "
		  "of output, expected at most 67108864\n" },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		struct hr_config_pipeline *p = shaped(&row[i].shape);

		cr_expect_str_eq(check(), row[i].want, "row %zu: %s", i, reports);
		cr_expect_eq(p->tile_bytes, 0, "row %zu", i);
		cr_expect(!p->tile_chosen, "row %zu", i);
	}
}

Test(config_check, a_tile_of_the_file_is_whole_rows_and_blocks_and_its_output_fits)
{
	static const struct {
		struct shape shape;
		uint32_t tile;
		const char *want;
	} row[] = {
		{ { 1, { 1 }, 0, 0 }, 512, "" },
		{ { 1, { 1 }, 0, 0 }, HR_TILE_MAX, "" },
		{ { 1, { 1 }, 0, 0 },
		  513,
		  "f:2: p.tile: is 513 bytes, expected whole blocks of 512 bytes in every source "
		  "and the sink: a multiple of 512\n" },
		{ { 1, { 3 }, 0, 0 }, 1536, "" },
		{ { 1, { 3 }, 0, 0 },
		  1537,
		  "f:2: p.tile: is 1537 bytes, expected whole rows of operator fake: a multiple of "
		  "3\n" },
		{ { 1, { 3 }, 0, 0 },
		  1539,
		  "f:2: p.tile: is 1539 bytes, expected whole blocks of 512 bytes in every source "
		  "and the sink: a multiple of 1536\n" },
		{ { 2, { 1, 6 }, 0, 0 }, 3072, "" },
		{ { 2, { 1, 6 }, 0, 0 },
		  1536,
		  "f:2: p.tile: is 1536 bytes, expected whole blocks of 512 bytes in every source "
		  "and the sink: a multiple of 3072\n" },
		{ { 1, { 4 }, 1, 2 }, 1024, "" },
		{ { 1, { 4 }, 1, 2 },
		  512,
		  "f:2: p.tile: is 512 bytes, expected whole blocks of 512 bytes in every source "
		  "and the sink: a multiple of 1024\n" },
		{ { 1, { 1 }, 2, 1 }, HR_TILE_MAX / 2, "" },
		{ { 1, { 1 }, 2, 1 },
		  HR_TILE_MAX / 2 + 512,
		  "f:2: p.tile: is 33554944 bytes and makes 67109888 bytes of output, expected at "
		  "most 67108864\n" },
		{ { 1, { 1 }, 4096, 1 },
		  HR_TILE_MAX,
		  "f:2: p.tile: is 67108864 bytes and makes 274877906944 bytes of output, expected "
		  "at most 67108864\n" },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		struct hr_config_pipeline *p = shaped(&row[i].shape);

		p->tile_bytes = row[i].tile;
		cr_expect_str_eq(check(), row[i].want, "row %zu: %s", i, reports);
		cr_expect(!p->tile_chosen, "row %zu", i);
		cr_expect_eq(p->tile_bytes, row[i].tile, "row %zu", i);
	}
}

#define TOO_MANY(need, ssd, room, line)                                                   \
	"f:2: p.tile: one tile takes at least " need " commands, but queues of ssd '" ssd \
	"' have room for " room " (queue_entries on line " line ")\n"

Test(config_check, one_tile_fits_the_queues_of_each_ssd)
{
	static const struct {
		uint32_t entries[2], sources, ssd[2], tile, out_num, sink;
		const char *want;
	} row[] = {
		{ { 4, 2 }, 1, { 0 }, 6 * MIB, 0, 0, "" },
		{ { 4, 9 }, 1, { 0 }, 6 * MIB + 512, 0, 0, TOO_MANY("4", "a", "3", "10") },
		{ { 3, 2 }, 1, { 0 }, 6 * MIB, 0, 0, TOO_MANY("3", "a", "2", "10") },
		{ { 2, 4 }, 1, { 1 }, 6 * MIB, 0, 0, "" },
		{ { 9, 3 }, 1, { 1 }, 6 * MIB, 0, 0, TOO_MANY("3", "b", "2", "11") },
		/* Sources of one ssd share its queue. */
		{ { 3, 2 }, 2, { 0, 0 }, 2 * MIB, 0, 0, "" },
		{ { 2, 9 }, 2, { 0, 0 }, 2 * MIB, 0, 0, TOO_MANY("2", "a", "1", "10") },
		{ { 9, 2 }, 2, { 1, 1 }, 2 * MIB, 0, 0, TOO_MANY("2", "b", "1", "11") },
		{ { 2, 2 }, 2, { 0, 1 }, 2 * MIB, 0, 0, "" },
		{ { 2, 2 }, 2, { 1, 0 }, 2 * MIB, 0, 0, "" },
		/* Writes have a queue of their own. */
		{ { 2, 2 }, 1, { 0 }, 2 * MIB, 1, 0, "" },
		{ { 4, 2 }, 1, { 0 }, 2 * MIB, 3, 0, "" },
		{ { 4, 9 }, 1, { 0 }, 2 * MIB, 4, 0, TOO_MANY("4", "a", "3", "10") },
		{ { 2, 4 }, 1, { 0 }, 2 * MIB, 3, 1, "" },
		{ { 2, 3 }, 1, { 0 }, 2 * MIB, 3, 1, TOO_MANY("3", "b", "2", "11") },
		{ { 2, 9 }, 2, { 0, 0 }, 2 * MIB, 3, 0, TOO_MANY("3", "a", "1", "10") },
		{ { 2, 9 }, 2, { 0, 0 }, 2 * MIB, 1, 0, TOO_MANY("2", "a", "1", "10") },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		struct hr_config_pipeline *p = start();

		config.ssd[0].queue_entries = row[i].entries[0];
		config.ssd[1].queue_entries = row[i].entries[1];
		op.sources_max = p->sources = row[i].sources;
		for (uint32_t s = 0; s < row[i].sources; s++) {
			p->source[s].ssd = row[i].ssd[s];
			row_of[s] = 1;
		}
		p->tile_bytes = row[i].tile;
		if (row[i].out_num)
			produce(p, row[i].out_num, 1);
		p->sink.ssd = row[i].sink;
		cr_expect_str_eq(check(), row[i].want, "row %zu: %s", i, reports);
	}
}

/* Bring-up may shrink a tile that the file leaves out, so the smallest one counts. */
Test(config_check, the_least_tile_fits_the_queues_when_the_file_leaves_it_open)
{
	static const struct {
		struct shape shape;
		uint32_t entries;
		const char *want;
	} row[] = {
		{ { 1, { 1 }, 3, 1 }, 2, "" },
		{ { 3, { 4, 2, 1 }, 0, 0 }, 4, "" },
		{ { 3, { 4, 2, 1 }, 0, 0 }, 3, TOO_MANY("3", "a", "2", "10") },
		{ { 1, { 6 * MIB }, 0, 0 }, 4, "" },
		{ { 1, { 6 * MIB }, 0, 0 }, 3, TOO_MANY("3", "a", "2", "10") },
		{ { 1, { 2 * MIB }, 3, 1 }, 4, "" },
		{ { 1, { 2 * MIB }, 3, 1 }, 3, TOO_MANY("3", "a", "2", "10") },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		shaped(&row[i].shape);
		config.ssd[0].queue_entries = row[i].entries;
		cr_expect_str_eq(check(), row[i].want, "row %zu: %s", i, reports);
	}
}

#define TOO_MUCH(slots, bytes, limit)                                       \
	"f:2: p.slots: " slots " slots take " bytes " bytes of tiles, but " \
	"memory allows " limit "\n"

Test(config_check, the_tiles_fit_the_memory_of_the_path)
{
	static const struct {
		enum hr_path_policy path;
		uint64_t host, gpu;
		uint32_t slots, sources, out_num;
		const char *want;
	} row[] = {
		{ HR_PATH_BOUNCE, 4 * MIB, 1, 4, 1, 0, "" },
		{ HR_PATH_BOUNCE, 4 * MIB - 1, 8 * MIB, 4, 1, 0,
		  TOO_MUCH("4", "4194304", "4194303") },
		{ HR_PATH_BOUNCE, 0, 1, 4, 1, 0, "" },
		{ HR_PATH_DIRECT, 1, 4 * MIB, 4, 1, 0, "" },
		{ HR_PATH_DIRECT, 8 * MIB, 4 * MIB - 1, 4, 1, 0,
		  TOO_MUCH("4", "4194304", "4194303") },
		{ HR_PATH_DIRECT, 1, 0, 4, 1, 0, "" },
		/* The path is not known yet: each is possible. */
		{ HR_PATH_AUTO, 1, 4 * MIB, 4, 1, 0, "" },
		{ HR_PATH_AUTO, 4 * MIB, 1, 4, 1, 0, "" },
		{ HR_PATH_AUTO, 1, 0, 4, 1, 0, "" },
		{ HR_PATH_AUTO, 0, 1, 4, 1, 0, "" },
		{ HR_PATH_AUTO, 4 * MIB - 2, 4 * MIB - 1, 4, 1, 0,
		  TOO_MUCH("4", "4194304", "4194303") },
		{ HR_PATH_AUTO, 4 * MIB - 1, 4 * MIB - 2, 4, 1, 0,
		  TOO_MUCH("4", "4194304", "4194303") },
		/* Slots that the file leaves out. */
		{ HR_PATH_BOUNCE, 8 * MIB, 0, 0, 1, 0, "" },
		{ HR_PATH_BOUNCE, 8 * MIB - 1, 0, 0, 1, 0, TOO_MUCH("8", "8388608", "8388607") },
		/* Every source and the sink. */
		{ HR_PATH_BOUNCE, 6 * MIB, 0, 2, 3, 0, "" },
		{ HR_PATH_BOUNCE, 6 * MIB - 1, 0, 2, 3, 0, TOO_MUCH("2", "6291456", "6291455") },
		{ HR_PATH_BOUNCE, 8 * MIB, 0, 2, 1, 3, "" },
		{ HR_PATH_BOUNCE, 8 * MIB - 1, 0, 2, 1, 3, TOO_MUCH("2", "8388608", "8388607") },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		struct hr_config_pipeline *p = start();

		config.path = row[i].path;
		config.memory_host = row[i].host;
		config.memory_gpu = row[i].gpu;
		p->slots = row[i].slots;
		op.sources_max = p->sources = row[i].sources;
		if (row[i].out_num)
			produce(p, row[i].out_num, 1);
		cr_expect_str_eq(check(), row[i].want, "row %zu: %s", i, reports);
	}
}

Test(config_check, blocks_have_slots_and_whole_warps)
{
	static const struct {
		uint32_t slots, prefetch, compute, writeback, threads;
		bool sink;
		const char *blocks, *want;
	} row[] = {
		{ 3, 3, 3, 3, 32, true, "writeback = 3;", "" },
		{ 3, 4, 3, 3, 0, true, "",
		  "f:3: p.blocks.prefetch: is 4, expected at most the 3 slots\n" },
		{ 3, 3, 4, 3, 0, true, "",
		  "f:3: p.blocks.compute: is 4, expected at most the 3 slots\n" },
		{ 3, 3, 3, 4, 0, true, "",
		  "f:3: p.blocks.writeback: is 4, expected at most the 3 slots\n" },
		{ 0, 256, 256, 256, 0, true, "", "" }, /* slots are chosen later */
		{ 3, 0, 0, 0, 0, true, "", "" },
		{ 3, 0, 0, 0, 0, true, "writeback = 0;",
		  "f:3: p.blocks.writeback: is 0, expected at least 1: there is a sink\n" },
		{ 3, 0, 0, 1, 0, true, "writeback = 1;", "" },
		{ 3, 0, 0, 0, 0, false, "writeback = 0;", "" },
		{ 3, 0, 0, 1, 0, false, "writeback = 1;",
		  "f:3: p.blocks.writeback: is 1, expected 0: there is no sink\n" },
		{ 3, 0, 0, 0, 64, false, "", "" },
		{ 3, 0, 0, 0, 33, false, "",
		  "f:3: p.blocks.threads: is 33, expected a multiple of 32\n" },
		{ 3, 0, 0, 0, 31, false, "",
		  "f:3: p.blocks.threads: is 31, expected a multiple of 32\n" },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		struct hr_config_pipeline *p = start();

		p->slots = row[i].slots;
		p->prefetch_blocks = row[i].prefetch;
		p->compute_blocks = row[i].compute;
		p->writeback_blocks = row[i].writeback;
		p->threads = row[i].threads;
		if (row[i].sink)
			produce(p, 1, 1);
		cr_expect_str_eq(check_with(row[i].blocks), row[i].want, "row %zu: %s", i, reports);
	}
}

#define HEAD                                                       \
	"ssds = ( { name = \"a\"; device = \"soft:a.img\"; },\n"   \
	"         { name = \"b\"; device = \"soft:b.img\"; } );\n" \
	"gpus = ( { name = \"g\"; device = \"host:1\"; } );\n"
#define COPY(name, from, into)                                                 \
	"{ name = \"" name "\"; operator = \"copy\"; source = { " from " };\n" \
	"sink = { " into " }; }"
#define AT(ssd, object) "ssd = \"" ssd "\"; object = \"" object "\";"

/* The same name on another ssd is another object. */
Test(config_check, a_sink_is_an_object_of_its_own)
{
	static const struct {
		const char *pipelines, *want;
	} row[] = {
		{ COPY("p", AT("a", "x"), AT("a", "y")), "" },
		{ COPY("p", AT("a", "x"), AT("b", "x")), "" },
		{ COPY("p", AT("b", "x"), AT("b", "x")),
		  "f:5: pipelines[0].sink: object 'x' is also a source on line 4, expected "
		  "another\n" },
		{ COPY("p", AT("a", "x"), AT("a", "y")) ",\n" COPY("q", AT("a", "x"), AT("b", "y")),
		  "" },
		{ COPY("p", AT("a", "x"), AT("a", "y")) ",\n" COPY("q", AT("a", "x"), AT("a", "z")),
		  "" },
		{ COPY("p", AT("a", "x"), AT("a", "y")) ",\n" COPY("q", AT("a", "y"), AT("a", "z")),
		  "" }, /* a sink may be the source of another pipeline */
		{ COPY("p", AT("a", "x"), AT("b", "y")) ",\n" COPY("q", AT("b", "x"), AT("b", "y")),
		  "f:7: pipelines[1].sink: object 'y' is already the sink of pipelines[0] on line "
		  "5\n" },
		{ COPY("p", AT("a", "x"), AT("a", "y")) ",\n" COPY(
			  "q", AT("a", "x"), AT("b", "y")) ",\n" COPY("r", AT("b", "x"),
								      AT("b", "y")),
		  "f:9: pipelines[2].sink: object 'y' is already the sink of pipelines[1] on line "
		  "7\n" },
		/* A pipeline without a sink accepts none. */
		{ "{ name = \"p\"; operator = \"crc32c\"; source = { ssd = \"a\";\nobject = \"x\"; "
		  "}; },\n" COPY("q", AT("a", "z"), AT("a", "x")),
		  "" },
		/* Objects without a name are one mistake each, not also equal objects. */
		{ COPY("p", "ssd = \"a\"; object = \"\";", "ssd = \"a\"; object = \"\";"),
		  "f:4: pipelines[0].source.object: has 0 characters, expected 1 to 63\n"
		  "f:5: pipelines[0].sink.object: has 0 characters, expected 1 to 63\n" },
		/* Sizes of a pipeline with unknown objects are not checked. */
		{ "{ name = \"p\"; operator = \"copy\"; source = {\nssd = \"a\"; object = \"\"; }; "
		  "}",
		  "f:5: pipelines[0].source.object: has 0 characters, expected 1 to 63\n" },
		{ "{ name = \"p\"; operator = \"copy\"; source = {\nssd = \"c\"; object = \"x\"; "
		  "}; }",
		  "f:5: pipelines[0].source.ssd: there is no ssd 'c'\n" },
	};
	char text[2048];

	for (size_t i = 0; i < ROWS(row); i++) {
		int err;

		snprintf(text, sizeof text, HEAD "pipelines = ( %s );\n", row[i].pipelines);
		err = hr_config_parse(&config, &hr_lookup, "f", text, strlen(text), test_error());
		test_error_lines(reports, sizeof reports);
		cr_expect_eq(err, row[i].want[0] ? -EINVAL : 0, "row %zu: %d", i, err);
		cr_expect_str_eq(reports, row[i].want, "row %zu:\n%s%s", i, reports, row[i].want);
	}
}

#define SIX                                                                                   \
	"{ ssd = \"a\"; object = \"c\"; }, { ssd = \"a\"; object = \"d\"; }, { ssd = \"a\"; " \
	"object = \"e\"; }, { ssd = \"a\"; object = \"f\"; }, { ssd = \"a\"; object = "       \
	"\"g\"; }, { ssd = \"a\"; object = \"h\"; }"

/* For every source, also when there are too many sources for the operator. */
Test(config_check, a_sink_differs_from_each_of_many_sources)
{
	static const char text[] =
		HEAD "pipelines = ( { name = \"p\"; operator = \"copy\"; source = (\n" SIX
		     ",\n{ ssd = \"a\"; object = \"x\"; },\n{ ssd = \"b\"; object = \"y\"; } );\n"
		     "sink = { ssd = \"b\"; object = \"y\"; }; },\n"
		     "{ name = \"q\"; operator = \"crc32c\"; source = ( { ssd = \"a\"; object = "
		     "\"x\"; },\n{ ssd = \"a\"; object = \"z\"; } ); } );\n";
	static const char want[] =
		"f:4: pipelines[0].source: has 8 objects, operator copy takes 1\n"
		"f:8: pipelines[0].sink: object 'y' is also a source on line 7, expected another\n"
		"f:9: pipelines[1].source: has 2 objects, operator crc32c takes 1\n";

	cr_expect_eq(hr_config_parse(&config, &hr_lookup, "f", text, strlen(text), test_error()),
		     -EINVAL);
	test_error_lines(reports, sizeof reports);
	cr_expect_str_eq(reports, want, "%s%s", reports, want);
}
