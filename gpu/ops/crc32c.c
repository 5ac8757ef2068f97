/* SPDX-License-Identifier: Apache-2.0 */
/*
 * crc32c: the checksum of each tile (gpu/worker/checksum.h), combined at the end.
 */
#include "cache/crc32c.h"
#include "gpu/ops/operator.h"
#include "gpu/worker/checksum.h"

/* The record of a tile is its CRC-32C, 4 bytes. */
struct hr_crc32c_result {
	uint32_t crc; /* of the whole source 0 */
};

HR_OP_CODE void hr_operator_init(const void *args, void *state)
{
	hr_checksum_prepare((struct hr_checksum_tables *)hr_block_memory());
}

HR_OP_CODE uint32_t hr_operator_tile(const void *args, void *state, const struct hr_op_tile *tile)
{
	const uint32_t crc = hr_checksum_tile((const struct hr_checksum_tables *)hr_block_memory(),
					      tile->in[0], tile->in_bytes[0], NULL);

	if (hr_thread() == 0)
		*(uint32_t *)tile->record = crc;
	return 0;
}

/* Each thread combines the tiles of one range, then appends zeros for the rest of the object. */
HR_OP_CODE void hr_operator_finish(const struct hr_op_all *all)
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

#ifdef HR_OP_CPU /* the rest is the description, for the CPU */

#include <stdio.h>

static void report_tile(const struct hr_op_all *all, uint64_t i, const struct hr_op_report *to)
{
	char text[9];

	snprintf(text, sizeof text, "%08x", ((const uint32_t *)(const void *)all->records)[i]);
	to->text(to, NULL, text);
}

static void report(const struct hr_op_all *all, const struct hr_op_report *to)
{
	const struct hr_crc32c_result *result = all->result;
	char text[9];

	snprintf(text, sizeof text, "%08x", result->crc);
	to->line(to, "crc32c %s of %llu bytes in %llu tiles", text, (unsigned long long)all->bytes,
		 (unsigned long long)all->tiles);
	to->text(to, "crc32c", text);
	to->list(to, "tiles", all, all->tiles, report_tile);
}

HR_OPERATOR(.name = "crc32c",
	    .help = "One source. No arguments. Result: the CRC-32C of each tile (with --json), and "
		    "of the\n  whole object.",
	    .sources_min = 1, .sources_max = 1, .output = HR_OUT_NONE,
	    .tile_record_bytes = sizeof(uint32_t), .reads_once = true, .records_checksum = true,
	    .report = report);

#endif
