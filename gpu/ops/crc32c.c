/*
 * crc32c. On a CPU the block is one thread, and has an instruction for it. On a GPU thread t of T
 * takes vectors t, t + T, ... of a tile, so that loads are next to each other, and keeps the CRC of
 * its own, as if all others were zero: a CRC is linear, so the tile's is the xor of them.
 *
 * What a vector adds is looked up, a table for each of its 16 bytes ("slicing"). The tables already
 * hold it appended by the zeros up to the thread's next vector, into whose first word it is xored.
 * Zeros in front of the data change nothing, so the first row of vectors is filled up with them and
 * all threads are through with the last row; there each has appended 16 t bytes too many, which its
 * factor takes off again.
 */
#include "gpu/ops/crc32c.h"

#include "cache/crc32c.h"
#include "gpu/op.h"
#include "gpu/vector.h"

#define CRC_VECTOR 16u
#define CRC_LOADS 4u	      /* rows of vectors that are loaded before the first is looked up */
#define HR_THREADS_MAX 1024u  /* the most a block has */
#define CRC_FIRST 0xffffffffu /* the CRC begins inverted: the same as data that begin inverted */

/* In the block's memory. */
struct crc_block {
	uint32_t table[CRC_VECTOR][256];
	uint32_t factor[HR_THREADS_MAX]; /* of thread t: x^(-8 * 16 t) */
	uint32_t position[CRC_VECTOR];
};

#ifndef __cplusplus
_Static_assert(sizeof(struct crc_block) <= HR_BLOCK_MEMORY, "the tables are in the block's memory");
#endif

/* Block-collective. */
HR_WORKER void crc_prepare(struct crc_block *b)
{
	const uint32_t t = hr_thread(), threads = hr_threads();
	uint32_t i;

	for (i = t; i < CRC_VECTOR; i += threads) /* bytes behind it, up to the next vector */
		b->position[i] =
			hr_crc32c_power(8 * (CRC_VECTOR - 1 - i + CRC_VECTOR * (threads - 1)));
	b->factor[t] = hr_crc32c_power(HR_CRC32C_PERIOD - 8 * CRC_VECTOR * t);
	hr_block_sync();
	for (i = t; i < CRC_VECTOR * 256; i += threads)
		b->table[i / 256][i % 256] =
			hr_crc32c_multiply(hr_crc32c_u8(0, (uint8_t)i), b->position[i / 256]);
	hr_block_sync();
}

HR_WORKER uint32_t crc_vector(const struct crc_block *b, uint32_t crc, const struct hr_vector *v)
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
HR_WORKER uint32_t crc_first_row(const struct crc_block *b, const struct hr_vector *data,
				 uint32_t missing)
{
	const uint32_t t = hr_thread();
	struct hr_vector v;

	if (t < missing)
		return 0;
	v = data[t - missing];
	if (t == missing)
		v.word[0] ^= CRC_FIRST;
	return crc_vector(b, 0, &v);
}

/* This thread's part of the raw CRC of count vectors, at least 1. */
HR_WORKER uint32_t crc_vectors(const struct crc_block *b, const struct hr_vector *data,
			       uint32_t count)
{
	const uint32_t threads = hr_threads(), rows = (count + threads - 1) / threads;
	const uint32_t missing = rows * threads - count;
	const struct hr_vector *at = data + (hr_thread() + threads) - missing;
	uint32_t crc = crc_first_row(b, data, missing), row = 1, i;
	struct hr_vector v[CRC_LOADS];

	for (; row + CRC_LOADS <= rows; row += CRC_LOADS, at += CRC_LOADS * threads) {
		for (i = 0; i < CRC_LOADS; i++)
			v[i] = at[i * threads];
		for (i = 0; i < CRC_LOADS; i++)
			crc = crc_vector(b, crc, &v[i]);
	}
	for (; row < rows; row++, at += threads) {
		v[0] = *at;
		crc = crc_vector(b, crc, &v[0]);
	}
	return hr_crc32c_multiply(crc, b->factor[hr_thread()]);
}

/* The finished CRC of a tile, in thread 0. Block-collective. */
HR_WORKER uint32_t crc_tile(const uint8_t *data, uint32_t bytes)
{
	const uint32_t vectors = bytes / CRC_VECTOR;
	const struct hr_vector *from = (const struct hr_vector *)(const void *)data;
	uint32_t crc = CRC_FIRST, i;

	if (vectors)
		crc = hr_block_xor_u32(
			crc_vectors((const struct crc_block *)hr_block_memory(), from, vectors));
	for (i = vectors * CRC_VECTOR; i < bytes; i++)
		crc = hr_crc32c_u8(crc, data[i]);
	return ~crc;
}

HR_DEVICE void hr_op_crc32c_init(const void *args, void *state)
{
	(void)args;
	(void)state;
	if (HR_LANES > 1)
		crc_prepare((struct crc_block *)hr_block_memory());
}

HR_DEVICE uint32_t hr_op_crc32c_tile(const void *args, void *state, const struct hr_op_tile *tile)
{
	const uint32_t crc = HR_LANES > 1 ? crc_tile(tile->in[0], tile->in_bytes[0])
					  : hr_crc32c(0, tile->in[0], tile->in_bytes[0]);

	(void)args;
	(void)state;
	if (hr_thread() == 0)
		*(uint32_t *)tile->record = crc;
	return 0;
}

/* Each thread joins the tiles of a stretch, then appends what lies behind the stretch. */
HR_DEVICE void hr_op_crc32c_finish(const struct hr_op_all *all)
{
	const uint64_t share = (all->tiles + hr_threads() - 1) / hr_threads();
	const uint64_t first = hr_thread() * share, full = all->tile_bytes;
	const uint64_t end = first + share < all->tiles ? first + share : all->tiles;
	const uint32_t *record = (const uint32_t *)(const void *)all->records;
	const uint32_t shift = hr_crc32c_power(8 * full);
	uint32_t crc = 0;
	uint64_t i;

	for (i = first; i < end; i++) {
		const uint64_t left = all->bytes - i * full;

		crc = hr_crc32c_multiply(crc, left < full ? hr_crc32c_power(8 * left) : shift) ^
		      record[i];
	}
	if (first < end && end < all->tiles)
		crc = hr_crc32c_combine(crc, 0, all->bytes - end * full);
	crc = hr_block_xor_u32(crc);
	if (hr_thread() == 0)
		((struct hr_crc32c_result *)all->result)->crc = crc;
}
