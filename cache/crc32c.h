/*
 * cache/crc32c.h - CRC-32C (Castagnoli, RFC 3720 appendix B.4; polynomial 0x1edc6f41 reflected).
 *
 * The checksum of the object map on disk and of the crc32c operator. Values are the usual finished
 * ones (initial and final inversion applied): hr_crc32c("123456789", 9) is 0xe3069283.
 */
#ifndef CACHE_CRC32C_H
#define CACHE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

#include "gpu/worker.h"

/* Checksum of data[0..bytes), continuing from crc (0 to start). One thread; host and device. */
HR_DEVICE uint32_t hr_crc32c(uint32_t crc, const void *data, size_t bytes);

/* Checksum of A followed by B, from those of A and B and the length of B. O(log bytes_b). */
HR_DEVICE uint32_t hr_crc32c_combine(uint32_t crc_a, uint32_t crc_b, uint64_t bytes_b);

#endif
