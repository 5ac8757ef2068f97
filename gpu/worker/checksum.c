/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Thread t of T takes vectors t, t + T, ... of a tile, so that adjacent threads load adjacent
 * vectors. It computes the CRC of its vectors as if all others were zero. A CRC is linear, so the
 * CRC of the tile is the xor of all of them.
 *
 * The contribution of a vector is looked up, with a table for each of its 16 bytes ("slicing"). The
 * table entries already include the zeros up to the thread's next vector, into whose first word the
 * result is xored. Zeros in front of the data do not change the CRC. So the first row of vectors is
 * padded in front, and all threads end in the last row. There each thread has appended 16 t bytes
 * too many, which its factor removes.
 */
#include "gpu/worker/checksum.h"

#include "cache/crc32c.h"
#include "gpu/worker/vector.h"

#define CHECKSUM_LOADS 4u /* rows of vectors to load before the first look-up */
#define CHECKSUM_FIRST \
	0xffffffffu /* the initial inversion of the CRC equals inverting the first bytes */

HR_STATIC_ASSERT(sizeof(struct hr_checksum_tables) <= HR_CHECKSUM_MEMORY,
		 "a launch has room for them");
HR_STATIC_ASSERT(sizeof(struct hr_checksum_tables) <= HR_BLOCK_MEMORY, "so has operator crc32c");
HR_STATIC_ASSERT(HR_BLOCK_SHARED + HR_CHECKSUM_MEMORY <= 65536,
		 "some GPUs have no more for a block");

HR_WORKER void checksum_fill(struct hr_checksum_tables *b)
{
	const uint32_t t = hr_thread(), threads = hr_threads(), vector = HR_CHECKSUM_VECTOR;
	uint32_t i;

	/* bytes behind byte i, up to the thread's next vector */
	for (i = t; i < vector; i += threads)
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

/* Row 0, which may begin before the data. */
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

/* Raw CRC of this thread's part of count vectors; count is at least 1. */
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

/* For a block with several threads. */
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
