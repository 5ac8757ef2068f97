/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cache/crc32c.h - CRC-32C (Castagnoli, RFC 3720 appendix B.4; polynomial 0x1edc6f41 reflected).
 *
 * The checksum of the object map on disk and of the crc32c operator. Values are in the usual form,
 * with initial and final inversion: hr_crc32c("123456789", 9) is 0xe3069283.
 */
#ifndef CACHE_CRC32C_H
#define CACHE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

#include "nvme/queue/worker.h"

/* Checksum of data[0..bytes), continuing from crc (0 to start). One thread; host and device. */
HR_DEVICE uint32_t hr_crc32c(uint32_t crc, const void *data, size_t bytes);

/*
 * The parts of hr_crc32c_combine(), for code that combines many checksums: polynomials over GF(2)
 * modulo the CRC polynomial, stored reflected (bit 31 is x^0). If c is the raw CRC (without
 * inversion) of some data, then hr_crc32c_multiply(c, hr_crc32c_power(8 * n)) is the raw CRC of the
 * data with n zero bytes appended. x to the power HR_CRC32C_PERIOD is 1, so HR_CRC32C_PERIOD - 8 *
 * n removes n zero bytes again.
 */
#define HR_CRC32C_PERIOD 0x7fffffffu
HR_DEVICE uint32_t hr_crc32c_multiply(uint32_t a, uint32_t b);
HR_DEVICE uint32_t hr_crc32c_power(uint64_t bits);

/* Checksum of A followed by B, from the checksums of A and B and the length of B. O(log
 * bytes_b). */
HR_DEVICE uint32_t hr_crc32c_combine(uint32_t crc_a, uint32_t crc_b, uint64_t bytes_b);

/* ---- combine the checksums of many pieces of equal length. Host only */

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
