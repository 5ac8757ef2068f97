/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The block-collective part of the operators: several workers of eight lanes against the host's
 * single thread, for sizes around every limit.
 */
#include "tests/fakes/lanes.h"

/* Compile the operators with these functions in place of the host's, under other names. */
#define hr_crc32c lanes_crc32c
#define hr_crc32c_combine lanes_crc32c_combine
#define hr_crc32c_multiply lanes_crc32c_multiply
#define hr_crc32c_power lanes_crc32c_power
#define hr_checksum_prepare lanes_checksum_prepare
#define hr_checksum_tile lanes_checksum_tile
#include "cache/crc32c.c"
#include "gpu/worker/checksum.c"
#include "gpu/cuda/image/operators.cu"
#undef hr_crc32c

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>

#include "tests/harness/random.h"

uint32_t hr_crc32c(uint32_t crc, const void *data, size_t bytes);

#define ROWS(table) (sizeof(table) / sizeof(*(table)))
#define TILE (128u << 10)
#define TILES 5u
#define GUARD 64u

TestSuite(ops_lanes, .timeout = 250);

/* The work of the block: all tiles of one operator, then finish(). */
static struct {
	enum hr_op_id op;
	const void *args;
	uint32_t state_bytes, record_bytes, tile_bytes, out_bytes; /* of a full tile */
	uint64_t bytes;						   /* of source 0 */
	uint8_t *in[4], *out;
	uint32_t wide[4]; /* bytes of source s for each byte of source 0, in quarters */
	uint8_t states[FAKE_WARPS_MAX][4096] __attribute__((aligned(64)));
	uint32_t records[TILES + 1];
	uint8_t result[HR_OP_RESULT_MAX] __attribute__((aligned(16)));
	uint64_t written;
} job;

static uint64_t tiles(void)
{
	return (job.bytes + job.tile_bytes - 1) / job.tile_bytes;
}

static void describe(struct hr_op_tile *tile, uint64_t t)
{
	const uint64_t at = t * job.tile_bytes, left = job.bytes - at;

	memset(tile, 0, sizeof *tile);
	tile->index = t;
	for (uint32_t s = 0; s < 4 && job.in[s]; s++) {
		tile->in[s] = job.in[s] + at * job.wide[s] / 4;
		tile->in_bytes[s] = (uint32_t)((left < job.tile_bytes ? left : job.tile_bytes) *
					       job.wide[s] / 4);
	}
	tile->out = job.out ? job.out + t * job.out_bytes : NULL;
	tile->out_capacity = job.out_bytes;
	tile->record = &job.records[t];
}

static void whole_job(void)
{
	struct hr_op_all all = { .args = job.args,
				 .tiles = tiles(),
				 .bytes = job.bytes,
				 .tile_bytes = job.tile_bytes,
				 .workers = hr_warps(),
				 .state_bytes = sizeof job.states[0],
				 .states = job.states[0],
				 .record_bytes = 4,
				 .records = (const uint8_t *)job.records,
				 .result = job.result };
	struct hr_op_tile tile;

	hr_op_init(job.op, job.args, job.states[hr_warp()]);
	hr_block_sync();
	for (uint64_t t = 0; t < tiles(); t++) {
		uint32_t got;

		describe(&tile, t);
		got = hr_op_tile(job.op, job.args, job.states[hr_warp()], &tile);
		hr_block_sync();
		if (hr_thread() == 0)
			job.written += got;
	}
	/* finish() finds the bytes of other work there */
	if (hr_thread() == 0)
		memset(hr_block_memory(), 0xa5, HR_BLOCK_MEMORY);
	hr_block_sync();
	hr_op_finish(job.op, &all);
}

static void run(enum hr_op_id op, const void *args, uint64_t bytes, uint32_t warps)
{
	job.op = op;
	job.args = args;
	job.bytes = bytes;
	job.tile_bytes = TILE;
	job.written = 0;
	memset(job.states, 0, sizeof job.states);
	memset(job.result, 0, sizeof job.result);
	cr_assert(fake_blocks_run(whole_job, 1, warps));
}

/* Random bytes at a 16-byte aligned address, with no readable byte after them. */
static uint8_t *noise(uint64_t bytes, uint64_t seed)
{
	struct fake_random random = { seed };
	uint8_t *data = NULL;

	cr_assert_eq(posix_memalign((void **)&data, HR_PAGE, bytes + 1), 0);
	for (uint64_t i = 0; i < bytes; i++)
		data[i] = (uint8_t)(fake_random_u64(&random) >> 56);
	return data;
}

static void source(uint32_t s, uint8_t *data, uint32_t wide)
{
	job.in[s] = data;
	job.wide[s] = wide;
}

static const uint64_t sizes[] = {
	1,   3,	   15,	  16,	 17,   127,	 128,		129,	     511,
	512, 4095, 16384, 65535, TILE, TILE + 1, 2 * TILE + 16, 5 * TILE - 1
};

Test(ops_lanes, powers_of_the_polynomial_repeat_after_the_period)
{
	cr_expect_eq(hr_crc32c_power(0), 0x80000000u);
	cr_expect_eq(hr_crc32c_power(HR_CRC32C_PERIOD), 0x80000000u);
	cr_expect_eq(
		hr_crc32c_multiply(hr_crc32c_power(HR_CRC32C_PERIOD - 1000), hr_crc32c_power(1000)),
		0x80000000u);
}

Test(ops_lanes, crc32c_is_exact_for_every_tile_and_the_whole)
{
	for (size_t i = 0; i < ROWS(sizes); i++) {
		source(0, noise(sizes[i], i + 1), 4);
		for (uint32_t warps = 1; warps <= FAKE_WARPS_MAX; warps++) {
			run(HR_OP_crc32c, NULL, sizes[i], warps);
			for (uint64_t t = 0; t < tiles(); t++) {
				const uint64_t left = sizes[i] - t * TILE;

				cr_assert_eq(job.records[t],
					     hr_crc32c(0, job.in[0] + t * TILE,
						       left < TILE ? left : TILE),
					     "%llu bytes, tile %llu, %u warps",
					     (unsigned long long)sizes[i], (unsigned long long)t,
					     warps);
			}
			cr_assert_eq(((struct hr_crc32c_result *)(void *)job.result)->crc,
				     hr_crc32c(0, job.in[0], sizes[i]));
		}
		free(job.in[0]);
	}
}

static void with_output(enum hr_op_id op, uint32_t den, uint64_t bytes, uint32_t warps)
{
	job.out_bytes = TILE / den;
	cr_assert_eq(posix_memalign((void **)&job.out, HR_PAGE, TILES * job.out_bytes + GUARD), 0);
	memset(job.out, 0xa5, TILES * job.out_bytes + GUARD);
	run(op, NULL, bytes, warps);
	cr_assert_eq(job.written, bytes / den);
	for (uint64_t at = job.written; at < job.written + GUARD; at++)
		cr_assert_eq(job.out[at], 0xa5, "byte %llu behind the data",
			     (unsigned long long)at);
}

Test(ops_lanes, copy_writes_every_byte_and_no_byte_beyond)
{
	for (size_t i = 0; i < ROWS(sizes); i++) {
		source(0, noise(sizes[i], i + 1), 4);
		with_output(HR_OP_copy, 1, sizes[i], 1 + i % FAKE_WARPS_MAX);
		cr_assert_eq(memcmp(job.out, job.in[0], sizes[i]), 0);
		free(job.out);
		free(job.in[0]);
	}
}

Test(ops_lanes, cast_is_the_hosts_bit_for_bit)
{
	for (size_t i = 0; i < ROWS(sizes); i++) {
		const uint64_t bytes =
			sizes[i] * 4 < TILES * TILE ? sizes[i] * 4 : sizes[i] / 4 * 4;
		uint32_t *from;

		source(0, noise(bytes, i + 1), 4);
		from = (uint32_t *)(void *)job.in[0];
		if (bytes >= 12)
			memcpy(from, (uint32_t[]){ 0x7fc00001, 0xff800000, 0x7f7fffff }, 12);
		with_output(HR_OP_cast_f32_bf16, 2, bytes, 1 + i % FAKE_WARPS_MAX);
		for (uint64_t n = 0; n < bytes / 4; n++)
			cr_assert_eq(((uint16_t *)(void *)job.out)[n], cast_one(from[n]));
		free(job.out);
		free(job.in[0]);
	}
}

/* Computed in plain 128-bit arithmetic. */
static void check_filter(const struct hr_filter_args *a, uint64_t rows)
{
	const struct hr_filter_sum *sum = (const struct hr_filter_sum *)(void *)job.result;
	const int32_t *ship = (int32_t *)(void *)job.in[0],
		      *discount = (int32_t *)(void *)job.in[1];
	const int32_t *quantity = (int32_t *)(void *)job.in[2];
	const int64_t *price = (int64_t *)(void *)job.in[3];
	__int128 want = 0;
	uint64_t matched = 0;

	for (uint64_t i = 0; i < rows; i++) {
		if (ship[i] < a->shipdate_from || ship[i] >= a->shipdate_before ||
		    discount[i] < a->discount_from || discount[i] > a->discount_to ||
		    quantity[i] >= a->quantity_below)
			continue;
		want += (__int128)price[i] * discount[i];
		matched++;
	}
	cr_assert_eq(sum->matched, matched);
	cr_assert_eq(sum->rows, rows);
	cr_assert_eq(sum->low, (uint64_t)want, "%llu rows", (unsigned long long)rows);
	cr_assert_eq(sum->high, (uint64_t)(want >> 64));
}

Test(ops_lanes, filter_sum_is_exact)
{
	static const struct hr_filter_args args = { -1500000000, 1500000000, 2, 90, 1500000000 };
	static const uint64_t rows[] = { 1,   3,   4,	 5,	31,    32,    33,
					 127, 128, 1000, 32768, 40001, 163839 };
	static const int32_t bound[3][4] = {
		{ -1500000000, -1500000001, 1500000000, 1499999999 },
		{ 2, 1, 90, 91 },
		{ 1500000000, 1499999999, INT32_MIN, INT32_MAX },
	};

	for (size_t i = 0; i < ROWS(rows); i++) {
		for (uint32_t s = 0; s < 4; s++)
			source(s, noise(rows[i] * (s == 3 ? 8 : 4), 10 * i + s + 1),
			       s == 3 ? 8 : 4);
		for (uint64_t n = 0; n < rows[i]; n++)
			((uint32_t *)(void *)job.in[1])[n] %= 101;
		/* some rows are at a bound, or next to it */
		for (uint64_t n = 0; n < rows[i]; n++)
			for (uint32_t s = 0; s < 3; s++)
				if (n % 7 == s)
					((int32_t *)(void *)job.in[s])[n] = bound[s][n / 7 % 4];
		run(HR_OP_filter_sum, &args, rows[i] * 4, 1 + i % FAKE_WARPS_MAX);
		check_filter(&args, rows[i]);
		for (uint32_t s = 0; s < 4; s++)
			free(job.in[s]);
	}
}

static struct hr_topk_args topk;

/* Small whole numbers: every order of additions gives the same sum. */
static void check_topk(uint64_t rows)
{
	const struct hr_topk *top = (const struct hr_topk *)(void *)job.result;
	const float *matrix = (const float *)(void *)job.in[0];

	cr_assert_eq(top->count, rows < topk.k ? rows : topk.k);
	for (uint64_t i = 0; i < top->count; i++) {
		float score = 0;
		uint64_t better = 0;

		for (uint32_t d = 0; d < topk.dimensions; d++)
			score += matrix[top->best[i].row * topk.dimensions + d] * topk.query[d];
		cr_assert_float_eq(score, top->best[i].score, 0);
		for (uint64_t r = 0; r < rows; r++) {
			float other = 0;

			for (uint32_t d = 0; d < topk.dimensions; d++)
				other += matrix[r * topk.dimensions + d] * topk.query[d];
			better += other > score || (other == score && r < top->best[i].row);
		}
		cr_assert_eq(better, i, "rank %llu is row %llu", (unsigned long long)i,
			     (unsigned long long)top->best[i].row);
	}
}

Test(ops_lanes, topk_dot_finds_the_best_in_order)
{
	static const uint32_t shape[][3] = { { 32, 100, 5 },   { 4, 1, 3 },	 { 36, 9, 20 },
					     { 7, 61, 4 },     { 128, 777, 10 }, { 4, 9000, 3 },
					     { 64, 300, 128 }, { 33, 70, 5 },	 { 130, 50, 6 },
					     { 5, 30, 30 } };

	for (size_t i = 0; i < ROWS(shape); i++) {
		const uint64_t rows = shape[i][1], count = rows * shape[i][0];
		struct fake_random random = { i + 1 };

		topk.dimensions = shape[i][0];
		topk.k = shape[i][2];
		for (uint32_t d = 0; d < topk.dimensions; d++)
			topk.query[d] = (float)fake_random_below(&random, 9) - 4;
		source(0, noise(count * 4, 1), 4);
		for (uint64_t n = 0; n < count; n++)
			((float *)(void *)job.in[0])[n] = (float)fake_random_below(&random, 7) - 3;
		job.tile_bytes = TILE;
		run(HR_OP_topk_dot, &topk, count * 4, 1 + i % FAKE_WARPS_MAX);
		check_topk(rows);
		free(job.in[0]);
	}
}
