/* SPDX-License-Identifier: Apache-2.0 */
/*
 * config/base/bytes.h - tests and hashes of bytes.
 */
#ifndef CONFIG_BASE_BYTES_H
#define CONFIG_BASE_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* True when all bytes are zero. */
static inline bool hr_is_zero(const void *data, size_t bytes)
{
	const uint8_t *byte = data;

	return bytes == 0 || (byte[0] == 0 && memcmp(byte, byte + 1, bytes - 1) == 0);
}

#define HR_HASH_BEGIN 0xcbf29ce484222325ull

/* FNV-1a with 64 bits, continued from hash (HR_HASH_BEGIN to start). */
static inline uint64_t hr_hash(uint64_t hash, const void *data, size_t bytes)
{
	const uint8_t *byte = data;

	for (size_t i = 0; i < bytes; i++)
		hash = (hash ^ byte[i]) * 0x100000001b3ull;
	return hash;
}

#endif
