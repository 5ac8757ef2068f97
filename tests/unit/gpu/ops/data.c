/* SPDX-License-Identifier: Apache-2.0 */
/* Operators that produce data or checksums, against a simple computation. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "boot/cmd/report/result.h"
#include "tests/harness/opcase.h"
#include "tests/harness/operators.h"
#include "tests/harness/random.h"

#define ROWS(table) (sizeof(table) / sizeof(*(table)))

TestSuite(ops_data, .timeout = 60);

static uint8_t *random_bytes(uint64_t bytes, uint64_t seed)
{
	struct fake_random random = { seed };
	uint8_t *data = malloc(bytes + 8);

	cr_assert_not_null(data);
	for (uint64_t i = 0; i < bytes; i++)
		data[i] = (uint8_t)(fake_random_u64(&random) >> 56);
	return data;
}

/* Bit by bit, as RFC 3720 defines it. */
static uint32_t crc32c_naive(const uint8_t *data, uint64_t bytes)
{
	uint32_t crc = 0xffffffffu;

	for (uint64_t i = 0; i < bytes; i++) {
		crc ^= data[i];
		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0);
	}
	return ~crc;
}

static const uint64_t sizes[] = { 0, 1, 2, 7, 8, 63, 511, 4095, 4096, 4097, 8191, 12288, 30001 };

Test(ops_data, copy_is_the_source)
{
	for (size_t i = 0; i < ROWS(sizes); i++) {
		uint8_t *data = random_bytes(sizes[i], i + 1);
		struct opcase c = { .op = HR_OP_copy,
				    .sources = 1,
				    .in = { data },
				    .bytes = { sizes[i] },
				    .tile_bytes = { 4096 },
				    .workers = 1 };

		opcase_run(&c);
		cr_assert_eq(c.out_bytes, sizes[i]);
		cr_assert(memcmp(c.out, data, sizes[i]) == 0, "%zu", i);
		opcase_free(&c);
		free(data);
	}
}

Test(ops_data, crc32c_of_tiles_and_whole_is_that_of_the_definition)
{
	static const uint32_t tile_bytes[] = { 512, 4096, 65536 };

	for (size_t i = 0; i < ROWS(sizes) * ROWS(tile_bytes); i++) {
		const uint64_t bytes = sizes[i % ROWS(sizes)];
		const uint32_t tile = tile_bytes[i / ROWS(sizes)];
		uint8_t *data = random_bytes(bytes, i + 1);
		struct opcase c = { .op = HR_OP_crc32c,
				    .sources = 1,
				    .in = { data },
				    .bytes = { bytes },
				    .tile_bytes = { tile },
				    .workers = 1,
				    .backwards = i & 1 };

		opcase_run(&c);
		cr_assert_eq(((struct hr_crc32c_result *)c.all.result)->crc,
			     crc32c_naive(data, bytes), "%llu bytes", (unsigned long long)bytes);
		for (uint64_t t = 0; t < c.all.tiles; t++) {
			const uint64_t at = t * tile, left = bytes - at;
			uint32_t record;

			memcpy(&record, c.all.records + t * 4, 4);
			cr_assert_eq(record, crc32c_naive(data + at, left < tile ? left : tile));
		}
		opcase_free(&c);
		free(data);
	}
}

Test(ops_data, crc32c_reports_the_checksum_of_the_whole_and_of_each_tile)
{
	struct opcase c = { .op = HR_OP_crc32c,
			    .sources = 1,
			    .in = { "123456789" },
			    .bytes = { 9 },
			    .tile_bytes = { 8 },
			    .workers = 1 };
	struct hr_json json;
	char text[96] = "";
	FILE *out = fmemopen(text, sizeof text, "w");

	cr_assert(out);
	opcase_run(&c);
	hr_result_print(hr_op_get(c.op), &c.all, out);
	fclose(out);
	cr_expect_str_eq(text, "crc32c e3069283 of 9 bytes in 2 tiles", "%s", text);
	hr_json_to_text(&json, HR_JSON_LINE, text, sizeof text);
	hr_result_json(hr_op_get(c.op), &c.all, true, &json);
	cr_assert_eq(hr_json_done(&json), 0);
	cr_expect_str_eq(text,
			 "{\"crc32c\": \"e3069283\", \"tiles\": [\"6087809a\", \"1a2cc12c\"]}\n",
			 "%s", text);
	opcase_free(&c);
}

/* By definition: the nearer of the two neighbours; at equal distance the even neighbour. */
static uint16_t bf16_naive(uint32_t bits)
{
	const uint32_t low = bits & 0xffff, up = bits >> 16;

	if ((bits & 0x7f800000) == 0x7f800000 && (bits & 0x007fffff))
		return (uint16_t)(up | 0x40);
	if (low > 0x8000 || (low == 0x8000 && (up & 1)))
		return (uint16_t)(up + 1);
	return (uint16_t)up;
}

static void check_cast(const uint32_t *bits, uint64_t count, uint32_t tile_bytes)
{
	struct opcase c = { .op = HR_OP_cast_f32_bf16,
			    .sources = 1,
			    .in = { bits },
			    .bytes = { count * 4 },
			    .tile_bytes = { tile_bytes },
			    .workers = 1 };

	opcase_run(&c);
	cr_assert_eq(c.out_bytes, count * 2);
	for (uint64_t i = 0; i < count; i++) {
		uint16_t got;

		memcpy(&got, c.out + i * 2, 2);
		cr_assert_eq(got, bf16_naive(bits[i]), "%08x: %04x, expected %04x", bits[i], got,
			     bf16_naive(bits[i]));
	}
	opcase_free(&c);
}

Test(ops_data, cast_rounds_each_upper_half_at_every_critical_lower_half)
{
	static const uint16_t low[] = { 0, 1, 0x7fff, 0x8000, 0x8001, 0xffff };
	uint32_t *bits = malloc(65536 * ROWS(low) * 4);

	cr_assert_not_null(bits);
	for (uint32_t up = 0; up < 65536; up++)
		for (uint32_t i = 0; i < ROWS(low); i++)
			bits[up * ROWS(low) + i] = up << 16 | low[i];
	check_cast(bits, 65536 * ROWS(low), 65536);
	free(bits);
}

Test(ops_data, cast_keeps_infinities_zeros_and_nan)
{
	static const struct {
		uint32_t f32;
		uint16_t bf16;
	} row[] = {
		{ 0x00000000, 0x0000 }, /* zero */
		{ 0x80000000, 0x8000 }, /* its negative */
		{ 0x3f800000, 0x3f80 }, /* 1 */
		{ 0x3f808000, 0x3f80 }, /* a tie: to even, down */
		{ 0x3f818000, 0x3f82 }, /* a tie: to even, up */
		{ 0x7f7fffff, 0x7f80 }, /* the largest rounds to infinity */
		{ 0xff800000, 0xff80 }, /* infinity stays */
		{ 0x7f800001, 0x7fc0 }, /* a signalling NaN with low bits only: made quiet */
		{ 0xffffffff, 0xffff }, /* rounding a NaN must not overflow */
		{ 0x00000001, 0x0000 }, /* the smallest subnormal is less than half a unit */
		{ 0x00008001, 0x0001 }, /* a subnormal above half a unit */
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		struct opcase c = { .op = HR_OP_cast_f32_bf16,
				    .sources = 1,
				    .in = { &row[i].f32 },
				    .bytes = { 4 },
				    .tile_bytes = { 4096 },
				    .workers = 1 };

		opcase_run(&c);
		cr_assert_eq(c.out_bytes, 2);
		cr_expect(memcmp(c.out, &row[i].bf16, 2) == 0, "%08x", row[i].f32);
		opcase_free(&c);
	}
}

Test(ops_data, cast_of_odd_counts_writes_each_number_once)
{
	static const uint64_t count[] = { 0, 1, 2, 3, 15, 1023, 1024, 1025, 5000 };

	for (size_t i = 0; i < ROWS(count); i++) {
		uint8_t *data = random_bytes(count[i] * 4, i + 1);
		uint32_t *bits = malloc(count[i] * 4 + 1);

		cr_assert_not_null(bits);
		memcpy(bits, data, count[i] * 4);
		check_cast(bits, count[i], 4096);
		free(bits);
		free(data);
	}
}

/* The room for the output is a limit, as the input is. */
Test(ops_data, no_more_is_written_than_fits)
{
	static const struct {
		enum hr_op_id op;
		uint32_t in, room, want;
	} row[] = {
		{ HR_OP_copy, 40, 39, 39 },	     { HR_OP_copy, 40, 40, 40 },
		{ HR_OP_copy, 39, 40, 39 },	     { HR_OP_copy, 40, 0, 0 },
		{ HR_OP_cast_f32_bf16, 40, 18, 18 }, { HR_OP_cast_f32_bf16, 40, 19, 18 },
		{ HR_OP_cast_f32_bf16, 40, 20, 20 }, { HR_OP_cast_f32_bf16, 40, 22, 20 },
		{ HR_OP_cast_f32_bf16, 43, 22, 20 }, { HR_OP_cast_f32_bf16, 40, 1, 0 },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		static uint8_t in[64] __attribute__((aligned(16)));
		uint8_t out[64] __attribute__((aligned(16)));
		const struct hr_op_tile tile = { .in = { in },
						 .in_bytes = { row[i].in },
						 .out = out,
						 .out_capacity = row[i].room };

		memset(in, 0x5a, sizeof in);
		memset(out, 0xa5, sizeof out);
		cr_expect_eq(hr_op_get(row[i].op)->tile(NULL, NULL, &tile), row[i].want, "row %zu",
			     i);
		for (size_t at = 0; at < sizeof out; at++)
			cr_expect_eq(out[at] != 0xa5, at < row[i].want, "row %zu: byte %zu", i, at);
	}
}
