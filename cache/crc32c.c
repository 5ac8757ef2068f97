/* SPDX-License-Identifier: Apache-2.0 */
#include "cache/crc32c.h"

/*
 * Polynomials over GF(2) are stored reflected, as the CRC is: bit 31 is x^0, and P is 0x82f63b78.
 *
 * The CRC32 instruction takes three cycles and can start every cycle. So a long buffer is cut into
 * three streams that are processed in parallel. Appending n bytes multiplies a CRC by x^8n mod P;
 * for the two stream lengths in use this factor is a constant (the tests derive it).
 */
#define CRC_POLYNOMIAL 0x82f63b78u
#define CRC_ONE 0x80000000u
#define CRC_X 0x40000000u

#define CRC_LONG_BYTES 16384u
#define CRC_LONG_SHIFT 0xbf455269u /* x^(8 * CRC_LONG_BYTES) mod P */
#define CRC_SHORT_BYTES 1024u
#define CRC_SHORT_SHIFT 0xe4172b16u /* x^(8 * CRC_SHORT_BYTES) mod P */

/* a * b mod P, without branches. */
HR_DEVICE uint32_t hr_crc32c_multiply(uint32_t a, uint32_t b)
{
	uint32_t product = 0;
	int bit;

	for (bit = 31; bit >= 0; bit--) {
		product ^= b & (0u - (a >> bit & 1u));
		b = b >> 1 ^ (CRC_POLYNOMIAL & (0u - (b & 1u)));
	}
	return product;
}

HR_WORKER uint64_t crc_word_at(const uint8_t *p)
{
	uint64_t v;

	hr_copy_bytes(&v, __builtin_assume_aligned(p, 8), sizeof(v));
	return v;
}

/* Three adjacent streams of `bytes` each, a multiple of 8. crc and the result are not inverted. */
HR_WORKER uint32_t crc_triple(uint32_t crc, const uint8_t *p, uint32_t bytes, uint32_t shift)
{
	uint32_t second = 0, third = 0, i;

	for (i = 0; i < bytes; i += 8) {
		crc = hr_crc32c_u64(crc, crc_word_at(p + i));
		second = hr_crc32c_u64(second, crc_word_at(p + bytes + i));
		third = hr_crc32c_u64(third, crc_word_at(p + 2 * bytes + i));
	}
	return hr_crc32c_multiply(hr_crc32c_multiply(crc, shift) ^ second, shift) ^ third;
}

HR_DEVICE uint32_t hr_crc32c(uint32_t crc, const void *data, size_t bytes)
{
	const uint8_t *p = (const uint8_t *)data;

	crc = ~crc;
	for (; bytes && ((uintptr_t)p & 7); bytes--)
		crc = hr_crc32c_u8(crc, *p++);
	for (; bytes >= 3 * CRC_LONG_BYTES; bytes -= 3 * CRC_LONG_BYTES, p += 3 * CRC_LONG_BYTES)
		crc = crc_triple(crc, p, CRC_LONG_BYTES, CRC_LONG_SHIFT);
	for (; bytes >= 3 * CRC_SHORT_BYTES; bytes -= 3 * CRC_SHORT_BYTES, p += 3 * CRC_SHORT_BYTES)
		crc = crc_triple(crc, p, CRC_SHORT_BYTES, CRC_SHORT_SHIFT);
	for (; bytes >= 8; bytes -= 8, p += 8)
		crc = hr_crc32c_u64(crc, crc_word_at(p));
	for (; bytes; bytes--)
		crc = hr_crc32c_u8(crc, *p++);
	return ~crc;
}

/* By squaring: one multiplication for each bit of the exponent, and one more for each bit that
 * is set. */
HR_DEVICE uint32_t hr_crc32c_power(uint64_t bits)
{
	uint32_t factor = CRC_ONE, square = CRC_X;

	for (; bits; bits >>= 1) {
		if (bits & 1)
			factor = hr_crc32c_multiply(factor, square);
		square = hr_crc32c_multiply(square, square);
	}
	return factor;
}

HR_DEVICE uint32_t hr_crc32c_combine(uint32_t crc_a, uint32_t crc_b, uint64_t bytes_b)
{
	return hr_crc32c_multiply(hr_crc32c_power(bytes_b % HR_CRC32C_PERIOD * 8), crc_a) ^ crc_b;
}
