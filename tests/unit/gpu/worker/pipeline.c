/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pipelines over the software controller against the same operator called directly: all operators,
 * odd sizes, numbers of blocks and slots, logical block sizes, one and two ssds.
 */
#include <criterion/criterion.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "config/base/clock.h"
#include "config/base/log.h"
#include "cache/crc32c.h"
#include "nvme/soft/soft.h"
#include "tests/harness/opcase.h"
#include "tests/harness/operators.h"
#include "tests/harness/random.h"
#include "tests/harness/rig.h"
#include "tests/harness/threads.h"

#define ROWS(table) (sizeof(table) / sizeof(*(table)))
#define TIMEOUT_NS (20 * HR_NS_PER_S)
#define TILE 16384u /* of the source with the longest rows */

TestSuite(pipeline, .timeout = 280);

static struct rig rig;
static struct fake_random fresh; /* sources have new contents each time */

/* The shape of one operator: bytes of a row per source. */
static const struct shape {
	enum hr_op_id op;
	uint32_t sources, row[4];
} shapes[] = {
	{ HR_OP_copy, 1, { 1 } },	   { HR_OP_crc32c, 1, { 1 } },
	{ HR_OP_cast_f32_bf16, 1, { 4 } }, { HR_OP_filter_sum, 4, { 4, 4, 4, 8 } },
	{ HR_OP_topk_dot, 1, { 128 } },
};

static const struct hr_filter_args filter_args = { -1000000000, 1000000000, 10, 90, 1000000000 };
static struct hr_topk_args topk_args = { .k = 10, .dimensions = 32 };

/* Bytes that are valid numbers for every operator, without NaN for topk_dot. */
static void *source_data(const struct shape *shape, uint32_t source, uint64_t bytes)
{
	uint8_t *data = malloc(bytes + 8);

	cr_assert_not_null(data);
	fake_random_fill(&fresh, data, bytes);
	for (uint64_t i = 0; shape->op == HR_OP_topk_dot && i + 4 <= bytes; i += 4) {
		const float small = (float)fake_random_below(&fresh, 200) - 100;

		memcpy(data + i, &small, 4);
	}
	for (uint64_t i = 0; shape->op == HR_OP_filter_sum && source == 1 && i + 4 <= bytes;
	     i += 4) {
		const int32_t discount = (int32_t)fake_random_below(&fresh, 101);

		memcpy(data + i, &discount, 4);
	}
	return data;
}

static void describe(struct rig_work *work, struct opcase *c, const struct shape *shape,
		     uint64_t rows)
{
	uint32_t widest = 1;

	if (!fresh.state)
		fresh.state = fake_random_seed("pipeline");
	memset(work, 0, sizeof *work);
	memset(c, 0, sizeof *c);
	work->op = c->op = shape->op;
	work->sources = c->sources = shape->sources;
	if (shape->op == HR_OP_filter_sum) {
		work->args = c->args = &filter_args;
		work->args_bytes = sizeof filter_args;
	} else if (shape->op == HR_OP_topk_dot) {
		for (uint32_t i = 0; i < topk_args.dimensions; i++)
			topk_args.query[i] = (float)i - 10;
		work->args = c->args = &topk_args;
		work->args_bytes = sizeof topk_args;
	}
	for (uint32_t s = 0; s < shape->sources; s++)
		widest = shape->row[s] > widest ? shape->row[s] : widest;
	for (uint32_t s = 0; s < shape->sources; s++) {
		work->bytes[s] = c->bytes[s] = rows * shape->row[s];
		work->tile_bytes[s] = c->tile_bytes[s] = TILE / widest * shape->row[s];
		work->in[s] = c->in[s] = source_data(shape, s, work->bytes[s]);
	}
	c->workers = 1;
}

static void check_sink(const struct opcase *c)
{
	const uint64_t block = 1ull << rig.lba_shift;
	uint8_t *sink = rig_read_sink(&rig, rig.sink_room);
	uint64_t i = c->out_bytes;

	cr_assert_eq(rig.sink_bytes, c->out_bytes);
	cr_assert(memcmp(sink, c->out, c->out_bytes) == 0, "the sink's data is wrong");
	for (; i % block; i++)
		cr_assert_eq(sink[i], 0, "byte %llu in the last block", (unsigned long long)i);
	for (; i < rig.sink_room; i++)
		cr_assert_eq(sink[i], RIG_POISON, "byte %llu behind it", (unsigned long long)i);
	free(sink);
}

static uint64_t role_bytes(uint32_t role)
{
	const uint32_t end = hr_pipe_first_status(rig.pipe, role + 1);
	uint64_t sum = 0;

	for (uint32_t i = hr_pipe_first_status(rig.pipe, role); i < end; i++)
		sum += hr_acquire_sys_u64(&rig.pipe->status[i].bytes);
	return sum;
}

/* Compare the checksums of an object's tiles with those of the expected bytes. */
static void check_words(const uint32_t *word, const uint8_t *bytes, uint64_t count,
			uint32_t tile_bytes, const char *what)
{
	for (uint64_t t = 0; t * tile_bytes < count; t++) {
		const uint64_t at = t * tile_bytes, left = count - at;

		cr_assert_eq(word[t],
			     hr_crc32c(0, bytes + at, left < tile_bytes ? left : tile_bytes),
			     "checksum of tile %llu of the %s", (unsigned long long)t, what);
	}
}

static void check_checksums(const struct opcase *c)
{
	const struct hr_pipe *pipe = rig.pipe;

	for (uint32_t s = 0; s < pipe->sources && pipe->source[s].crc; s++)
		check_words(pipe->source[s].crc, c->in[s], c->bytes[s], c->tile_bytes[s], "source");
	if (pipe->sink_crc)
		check_words(pipe->sink_crc, c->out, c->out_bytes, pipe->sink_tile_bytes, "sink");
}

static void check(struct opcase *c)
{
	struct hr_pipe *pipe = rig.pipe;
	uint64_t bytes = 0;

	cr_assert_null(rig_failure(&rig), "error %d", rig_failure(&rig)->error);
	opcase_run(c);
	cr_assert_eq(pipe->tiles, c->all.tiles);
	for (uint32_t s = 0; s < c->sources; s++)
		bytes += c->bytes[s];
	cr_assert_eq(rig_tiles(&rig, HR_ROLE_PREFETCH), pipe->tiles);
	cr_assert_eq(role_bytes(HR_ROLE_PREFETCH), bytes, "of all sources");
	cr_assert_eq(rig_tiles(&rig, HR_ROLE_COMPUTE), pipe->tiles);
	cr_assert_eq(role_bytes(HR_ROLE_COMPUTE), bytes, "of all sources");
	if (pipe->blocks[HR_ROLE_PREFETCH] * rig.warps == 1)
		cr_assert_eq(pipe->control->first_submit_ns != 0, pipe->tiles != 0);
	cr_assert(memcmp(pipe->op_result, c->all.result, HR_OP_RESULT_MAX) == 0, "result");
	if (pipe->op_records)
		cr_assert(memcmp(pipe->op_records, c->all.records,
				 pipe->record_bytes * pipe->tiles) == 0);
	check_checksums(c);
	if (pipe->has_sink) {
		cr_assert_eq(rig_tiles(&rig, HR_ROLE_WRITEBACK), pipe->tiles);
		cr_assert_eq(role_bytes(HR_ROLE_WRITEBACK), c->out_bytes);
		cr_assert_eq(hr_pipe_final_prefix(pipe, pipe->slot), pipe->tiles);
		check_sink(c);
	}
}

/* Every second run with checksums, every third with tiles that blocks copy. */
static void run_and_check(const struct shape *shape, uint64_t rows, uint32_t slots,
			  const uint32_t blocks[HR_ROLES])
{
	static uint32_t turn;
	struct rig_work work;
	struct opcase c;

	describe(&work, &c, shape, rows);
	work.checksums = turn % 2;
	work.copies = turn++ % 3 == 0;
	work.slots = slots;
	memcpy(work.blocks, blocks, sizeof work.blocks);
	rig_start(&rig, &work);
	rig_wait(&rig);
	check(&c);
	opcase_free(&c);
	for (uint32_t s = 0; s < work.sources; s++)
		free((void *)(uintptr_t)work.in[s]);
}

/* Each operator with sizes around every limit, each size with other numbers of slots and blocks. */
static void run_matrix(void)
{
	static const struct {
		uint32_t slots, blocks[HR_ROLES];
	} form[] = {
		{ 1, { 1, 1, 1 } }, { 2, { 1, 2, 1 } }, { 3, { 2, 1, 3 } }, { 4, { 3, 4, 2 } },
		{ 5, { 1, 1, 1 } }, { 7, { 4, 3, 4 } }, { 8, { 4, 4, 4 } }, { 8, { 2, 3, 1 } },
	};
	size_t turn = 0;

	for (size_t i = 0; i < ROWS(shapes); i++) {
		const uint32_t widest = shapes[i].sources == 4 ? 8 : shapes[i].row[0];
		const uint64_t tile = TILE / widest, block = (1u << rig.lba_shift) / widest;
		const uint64_t rows[] = {
			0,	  1,	2,	  block - 1, block,	   block + 1,
			tile - 1, tile, tile + 1, 2 * tile,  5 * tile + 3, 17 * tile - 1
		};

		for (size_t j = i % THREAD_STEP(3u); j < ROWS(rows); j += THREAD_STEP(3u), turn++)
			run_and_check(&shapes[i], rows[j], form[turn % ROWS(form)].slots,
				      form[turn % ROWS(form)].blocks);
		turn++; /* so that sizes meet other variants with the next operator */
	}
}

Test(pipeline, every_operator_and_size_with_blocks_of_512_on_one_ssd)
{
	rig_up(&rig, 1, "lba=512,mdts=1", 16, TIMEOUT_NS);
	run_matrix();
	rig_down(&rig);
}

Test(pipeline, every_operator_and_size_with_blocks_of_4096_on_two_ssds)
{
	rig_up(&rig, 2, "lba=4096,mdts=0,threads=2", 64, TIMEOUT_NS);
	run_matrix();
	rig_down(&rig);
}

Test(pipeline, each_number_of_blocks_per_role)
{
	rig_up(&rig, 1, "lba=4096,mdts=1", 32, TIMEOUT_NS);
	for (uint32_t n = 0; n < 64; n += THREAD_STEP(3u)) {
		const uint32_t blocks[HR_ROLES] = { 1 + n % 4, 1 + n / 4 % 4, 1 + n / 16 };

		run_and_check(&shapes[n % 2 ? 0 : 3], 9 * TILE / 8 + n, 4 + n % 5, blocks);
	}
	rig_down(&rig);
}

/* A tile of four columns needs five commands, and a queue pair holds three. */
Test(pipeline, a_tile_larger_than_the_queue_is_read_in_parts)
{
	const uint32_t blocks[HR_ROLES] = { 1, 1, 1 };

	rig_up(&rig, 1, "lba=512,mdts=1", 4, TIMEOUT_NS);
	for (size_t i = 0; i < ROWS(shapes); i++)
		run_and_check(&shapes[i],
			      5 * TILE / (shapes[i].sources == 4 ? 8 : shapes[i].row[0]), 6,
			      blocks);
	rig_down(&rig);
}

Test(pipeline, written_tiles_are_flushed_once_per_worker_at_the_end)
{
	const uint32_t blocks[HR_ROLES] = { 1, 1, 3 };
	struct hr_soft_stats before, after;

	rig_up(&rig, 1, "lba=4096,cache=1M", 32, TIMEOUT_NS);
	hr_soft_stats(&rig.ssd[0].transport, &before);
	run_and_check(&shapes[0], 5 * TILE, 4, blocks);
	hr_soft_stats(&rig.ssd[0].transport, &after);
	cr_expect_eq(after.flushes - before.flushes, 3 * rig.warps);
	rig_down(&rig);
}
