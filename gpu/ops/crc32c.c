/*
 * crc32c: threads take stripes of a tile. A CRC-32C of A followed by B is that of A, shifted by the
 * length of B, xor that of B; so each thread shifts its own to the end and all are xored.
 */
#include "gpu/ops/crc32c.h"

#include "cache/crc32c.h"
#include "gpu/op.h"

#define CRC32C_STRIPE_ALIGN 64u

HR_DEVICE void hr_op_crc32c_init(const void *args, void *state)
{
	(void)args;
	(void)state;
}

HR_DEVICE uint32_t hr_op_crc32c_tile(const void *args, void *state, const struct hr_op_tile *tile)
{
	const uint32_t bytes = tile->in_bytes[0], threads = hr_threads(),
		       mask = CRC32C_STRIPE_ALIGN - 1;
	const uint32_t stripe = ((bytes + threads - 1) / threads + mask) & ~mask;
	const uint64_t start = (uint64_t)hr_thread() * stripe;
	uint32_t crc = 0;

	(void)args;
	(void)state;
	if (start < bytes) {
		const uint32_t left = bytes - (uint32_t)start, mine = left < stripe ? left : stripe;

		crc = hr_crc32c(0, tile->in[0] + start, mine);
		if (left > mine)
			crc = hr_crc32c_combine(crc, 0, left - mine);
	}
	crc = hr_block_xor_u32(crc);
	if (hr_thread() == 0)
		*(uint32_t *)tile->record = crc;
	return 0;
}

HR_DEVICE void hr_op_crc32c_finish(const struct hr_op_all *all)
{
	const uint32_t *record = (const uint32_t *)(const void *)all->records;
	struct hr_crc32c_result *result = (struct hr_crc32c_result *)all->result;
	uint64_t i, left = all->bytes;
	uint32_t crc = 0;

	if (hr_thread() != 0)
		return;
	for (i = 0; i < all->tiles; i++) {
		const uint64_t bytes = left < all->tile_bytes ? left : all->tile_bytes;

		crc = hr_crc32c_combine(crc, record[i], bytes);
		left -= bytes;
	}
	result->crc = crc;
}
