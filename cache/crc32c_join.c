/* SPDX-License-Identifier: Apache-2.0 */
#include "cache/crc32c.h"

/*
 * Multiplication by a constant factor is linear: the product of a CRC is the xor of the products of
 * its bits. One table look-up gives the product of eight bits.
 */
void hr_crc32c_join_init(struct hr_crc32c_join *join, uint64_t piece_bytes)
{
	const uint32_t factor = hr_crc32c_power(piece_bytes % HR_CRC32C_PERIOD * 8);

	for (unsigned k = 0; k < 4; k++) {
		join->table[k][0] = 0;
		for (uint32_t bit = 0; bit < 8; bit++) {
			const uint32_t product =
				hr_crc32c_multiply((uint32_t)1 << (8 * k + bit), factor);

			for (uint32_t low = 0; low < 1u << bit; low++)
				join->table[k][1u << bit | low] = join->table[k][low] ^ product;
		}
	}
}
