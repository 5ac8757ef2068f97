/*
 * crc32c: the checksum of each tile (gpu/worker/checksum.h), joined in the end.
 */
#include "gpu/ops/crc32c.h"

#include "cache/crc32c.h"
#include "gpu/worker/checksum.h"
#include "gpu/worker/op.h"

HR_DEVICE void hr_op_crc32c_init(const void *args, void *state)
{
	hr_checksum_prepare((struct hr_checksum_tables *)hr_block_memory());
}

HR_DEVICE uint32_t hr_op_crc32c_tile(const void *args, void *state, const struct hr_op_tile *tile)
{
	const uint32_t crc = hr_checksum_tile((const struct hr_checksum_tables *)hr_block_memory(),
					      tile->in[0], tile->in_bytes[0], NULL);

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
