/*
 * cache/crc32c_join.h - combine the checksums of many pieces of equal length. Host only.
 */
#ifndef CACHE_CRC32C_JOIN_H
#define CACHE_CRC32C_JOIN_H

#include <stdint.h>

/* Tables for one length of pieces. */
struct hr_crc32c_join {
	uint32_t table[4][256];
};

/* Make the tables for pieces of piece_bytes. */
void hr_crc32c_join_init(struct hr_crc32c_join *join, uint64_t piece_bytes);

/* Same result as hr_crc32c_combine(crc, piece_crc, piece_bytes), with four table look-ups. */
static inline uint32_t hr_crc32c_join(const struct hr_crc32c_join *join, uint32_t crc,
				      uint32_t piece_crc)
{
	return join->table[0][crc & 255] ^ join->table[1][crc >> 8 & 255] ^
	       join->table[2][crc >> 16 & 255] ^ join->table[3][crc >> 24] ^ piece_crc;
}

#endif
