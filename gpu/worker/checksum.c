/*
 * Thread t of T takes vectors t, t + T, ... of a tile, so that loads are next to each other, and keeps
 * the CRC of its own, as if all others were zero: a CRC is linear, so the tile's is the xor of them.
 *
 * What a vector adds is looked up, a table for each of its 16 bytes ("slicing"). The tables already
 * hold it appended by the zeros up to the thread's next vector, into whose first word it is xored.
 * Zeros in front of the data change nothing, so the first row of vectors is filled up with them and
 * all threads are through with the last row; there each has appended 16 t bytes too many, which its
 * factor takes off again.
 */
#include "gpu/worker/checksum.h"

#include "cache/crc32c.h"
#include "gpu/worker/vector.h"

#define CHECKSUM_LOADS 4u /* rows of vectors that are loaded before the first is looked up */
#define CHECKSUM_FIRST \
	0xffffffffu /* the CRC begins inverted: the same as data that begin inverted */

#ifndef __cplusplus
_Static_assert(sizeof(struct hr_checksum_tables) <= HR_CHECKSUM_MEMORY,
	       "a launch has room for them");
_Static_assert(sizeof(struct hr_checksum_tables) <= HR_BLOCK_MEMORY, "so has operator crc32c");
#endif

HR_WORKER void checksum_fill(struct hr_checksum_tables *b)
{
	const uint32_t t = hr_thread(), threads = hr_threads(), vector = HR_CHECKSUM_VECTOR;
	uint32_t i;

	for (i = t; i < vector; i += threads) /* bytes behind it, up to the next vector */
		b->position[i] = hr_crc32c_power(8 * (vector - 1 - i + vector * (threads - 1)));
	b->factor[t] = hr_crc32c_power(HR_CRC32C_PERIOD - 8 * vector * t);
	hr_block_sync();
	for (i = t; i < vector * 256; i += threads)
		b->table[i / 256][i % 256] =
			hr_crc32c_multiply(hr_crc32c_u8(0, (uint8_t)i), b->position[i / 256]);
	hr_block_sync();
}

HR_DEVICE void hr_checksum_prepare(struct hr_checksum_tables *b)
{
	if (HR_LANES > 1)
		checksum_fill(b);
}

HR_WORKER uint32_t checksum_vector(const struct hr_checksum_tables *b, uint32_t crc,
				   const struct hr_vector *v)
{
	uint32_t next = 0, i;

	crc ^= v->word[0];
	for (i = 0; i < 4; i++) {
		const uint32_t word = i ? v->word[i] : crc;

		next ^= b->table[4 * i][word & 255] ^ b->table[4 * i + 1][word >> 8 & 255] ^
			b->table[4 * i + 2][word >> 16 & 255] ^ b->table[4 * i + 3][word >> 24];
	}
	return next;
}

/* Row 0, in front of which there may be no data. */
HR_WORKER uint32_t checksum_first_row(const struct hr_checksum_tables *b,
				      const struct hr_vector *data, struct hr_vector *copy,
				      uint32_t missing)
{
	const uint32_t t = hr_thread();
	struct hr_vector v;

	if (t < missing)
		return 0;
	v = data[t - missing];
	if (copy)
		copy[t - missing] = v;
	if (t == missing)
		v.word[0] ^= CHECKSUM_FIRST;
	return checksum_vector(b, 0, &v);
}

/* This thread's part of the raw CRC of count vectors, at least 1. */
HR_WORKER uint32_t checksum_vectors(const struct hr_checksum_tables *b,
				    const struct hr_vector *data, struct hr_vector *copy,
				    uint32_t count)
{
	const uint32_t threads = hr_threads(), rows = (count + threads - 1) / threads;
	const uint32_t missing = rows * threads - count;
	uint32_t crc = checksum_first_row(b, data, copy, missing), row = 1, i;
	uint32_t at = hr_thread() + threads - missing;
	struct hr_vector v[CHECKSUM_LOADS];

	for (; row + CHECKSUM_LOADS <= rows;
	     row += CHECKSUM_LOADS, at += CHECKSUM_LOADS * threads) {
		for (i = 0; i < CHECKSUM_LOADS; i++)
			v[i] = data[at + i * threads];
		for (i = 0; copy && i < CHECKSUM_LOADS; i++)
			copy[at + i * threads] = v[i];
		for (i = 0; i < CHECKSUM_LOADS; i++)
			crc = checksum_vector(b, crc, &v[i]);
	}
	for (; row < rows; row++, at += threads) {
		v[0] = data[at];
		if (copy)
			copy[at] = v[0];
		crc = checksum_vector(b, crc, &v[0]);
	}
	return hr_crc32c_multiply(crc, b->factor[hr_thread()]);
}

/* By all threads of a block of several. */
HR_WORKER uint32_t checksum_shared(const struct hr_checksum_tables *b, const uint8_t *data,
				   uint32_t bytes, uint8_t *copy)
{
	const uint32_t vectors = bytes / HR_CHECKSUM_VECTOR;
	const struct hr_vector *from = (const struct hr_vector *)(const void *)data;
	struct hr_vector *to = (struct hr_vector *)(void *)copy;
	uint32_t crc = CHECKSUM_FIRST, i;

	if (vectors)
		crc = hr_block_xor_u32(checksum_vectors(b, from, to, vectors));
	for (i = vectors * HR_CHECKSUM_VECTOR; i < bytes; i++)
		crc = hr_crc32c_u8(crc, data[i]);
	if (copy && bytes % HR_CHECKSUM_VECTOR && hr_thread() == 0)
		to[vectors] = from[vectors];
	return ~crc;
}

HR_DEVICE uint32_t hr_checksum_tile(const struct hr_checksum_tables *tables, const uint8_t *data,
				    uint32_t bytes, uint8_t *copy)
{
	if (HR_LANES > 1)
		return checksum_shared(tables, data, bytes, copy);
	if (copy)
		hr_copy_vectors((struct hr_vector *)(void *)copy,
				(const struct hr_vector *)(const void *)data,
				(bytes + HR_CHECKSUM_VECTOR - 1) / HR_CHECKSUM_VECTOR);
	return hr_crc32c(0, copy ? copy : data, bytes);
}
