/* SPDX-License-Identifier: Apache-2.0 */
/* CRC-32C against the specification's vectors and a bit-by-bit model. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "cache/crc32c.h"

#define ROWS(table) (sizeof(table) / sizeof(*(table)))
#define BYTES_MAX (200u << 10) /* several rounds of the long streams, and of the short ones */

TestSuite(crc32c, .timeout = 60);

static uint32_t model(uint32_t crc, const uint8_t *data, size_t bytes)
{
	crc = ~crc;
	for (size_t i = 0; i < bytes; i++) {
		crc ^= data[i];
		for (int bit = 0; bit < 8; bit++)
			crc = crc & 1 ? crc >> 1 ^ 0x82f63b78u : crc >> 1;
	}
	return ~crc;
}

static uint8_t *random_bytes(size_t bytes, unsigned seed)
{
	uint8_t *data = malloc(bytes);

	cr_assert_not_null(data);
	for (size_t i = 0; i < bytes; i++)
		data[i] = (uint8_t)(rand_r(&seed) >> 7);
	return data;
}

/* The vectors of RFC 3720, appendix B.4, and the usual check value. */
Test(crc32c, gives_the_published_values)
{
	static const uint8_t zeroes[32];
	uint8_t ones[32], up[32], down[32];

	for (unsigned i = 0; i < 32; i++) {
		ones[i] = 0xff;
		up[i] = (uint8_t)i;
		down[i] = (uint8_t)(31 - i);
	}
	cr_expect_eq(hr_crc32c(0, "123456789", 9), 0xe3069283);
	cr_expect_eq(hr_crc32c(0, zeroes, 32), 0x8a9136aa);
	cr_expect_eq(hr_crc32c(0, ones, 32), 0x62a8ab43);
	cr_expect_eq(hr_crc32c(0, up, 32), 0x46dd794e);
	cr_expect_eq(hr_crc32c(0, down, 32), 0x113fdb5c);
	cr_expect_eq(hr_crc32c(0, zeroes, 0), 0);
}

Test(crc32c, agrees_with_the_model_for_any_length_and_alignment)
{
	static const size_t around[] = { 0, 8, 64, 3072, 6144, 49152, 98304, 147456 };
	uint8_t *data = random_bytes(BYTES_MAX, 1);

	for (size_t row = 0; row < ROWS(around); row++)
		for (size_t more = 0; more < 20; more++)
			for (size_t start = 0; start < 9; start += 1 + row) {
				const size_t bytes = around[row] + more;

				cr_expect_eq(hr_crc32c(0, data + start, bytes),
					     model(0, data + start, bytes), "%zu bytes at %zu",
					     bytes, start);
			}
	cr_expect_eq(hr_crc32c(0, data, BYTES_MAX), model(0, data, BYTES_MAX));
	free(data);
}

Test(crc32c, continues_and_combines_at_any_cut)
{
	const size_t bytes = 100000;
	uint8_t *data = random_bytes(bytes, 2);
	const uint32_t want = model(0, data, bytes);

	for (size_t cut = 0; cut <= bytes; cut += cut < 40 || cut > 99900 ? 1 : 911) {
		const uint32_t a = hr_crc32c(0, data, cut);
		const uint32_t b = hr_crc32c(0, data + cut, bytes - cut);

		cr_assert_eq(hr_crc32c(a, data + cut, bytes - cut), want, "cut at %zu", cut);
		cr_assert_eq(hr_crc32c_combine(a, b, bytes - cut), want, "cut at %zu", cut);
	}
	free(data);
}

/* Appending zeroes one by one is the definition that the logarithmic method must match. */
Test(crc32c, combines_over_lengths_beyond_32_bits)
{
	const uint32_t a = hr_crc32c(0, "head", 4);
	static const uint8_t zeroes[4096];
	const uint32_t page = hr_crc32c(0, zeroes, sizeof zeroes);
	uint32_t half = page, whole = hr_crc32c_combine(a, page, sizeof zeroes);
	uint64_t bytes = sizeof zeroes;

	/* Double the zeroes, once as one piece and once as two, up to 2^60 bytes. */
	for (; bytes < 1ull << 60; bytes *= 2) {
		const uint32_t twice = hr_crc32c_combine(half, half, bytes);

		whole = hr_crc32c_combine(whole, half, bytes);
		cr_assert_eq(whole, hr_crc32c_combine(a, twice, 2 * bytes), "%llu bytes",
			     (unsigned long long)bytes);
		half = twice;
	}
}

/*
 * Pieces of one length are joined by tables with the same result as by the general method, for
 * every length.
 */
Test(crc32c, joins_pieces_of_one_length)
{
	static const uint64_t length[] = { 0, 1, 7, 4096, 1 << 20, (1ull << 31) - 1, 1ull << 40 };
	uint32_t crc = 0x01234567, piece = 0x89abcdef;
	struct hr_crc32c_join join;

	for (size_t i = 0; i < sizeof length / sizeof *length; i++) {
		hr_crc32c_join_init(&join, length[i]);
		for (unsigned n = 0; n < 1000; n++) {
			const uint32_t want = hr_crc32c_combine(crc, piece, length[i]);

			cr_assert_eq(hr_crc32c_join(&join, crc, piece), want, "%llu bytes",
				     (unsigned long long)length[i]);
			piece = crc * 1664525u + 1013904223u;
			crc = want ^ n;
		}
	}
}
