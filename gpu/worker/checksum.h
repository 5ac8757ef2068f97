/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu/worker/checksum.h - CRC-32C (cache/crc32c.h) of a tile, by a whole block. Worker code.
 *
 * On a CPU the block is one thread, and the CPU has a CRC instruction. On a GPU all threads of the
 * block share the work, with tables in block memory.
 */
#ifndef GPU_WORKER_CHECKSUM_H
#define GPU_WORKER_CHECKSUM_H

#include <stdint.h>

#include "config/base/limits.h"
#include "nvme/queue/worker.h"

#define HR_CHECKSUM_VECTOR 16u /* bytes that a thread loads at a time */

/* Tables of a block; they depend on its number of threads. */
struct hr_checksum_tables {
	uint32_t table[HR_CHECKSUM_VECTOR][256];
	uint32_t factor[HR_THREADS_MAX]; /* factor of thread t: x^(-8 * 16 t) */
	uint32_t position[HR_CHECKSUM_VECTOR];
};

/* Fill the tables. Block-collective. Does nothing when workers have one lane: tables may be
 * NULL. */
HR_DEVICE void hr_checksum_prepare(struct hr_checksum_tables *tables);

/*
 * Checksum of data[0..bytes), returned in all threads. With copy (not NULL) the same pass also
 * copies the data, rounded up to 16 bytes: that many bytes must be readable at data and writable at
 * copy. data and copy are 16-byte aligned and do not overlap. Block-collective; call
 * hr_block_sync() first when other threads have written to data.
 */
HR_DEVICE uint32_t hr_checksum_tile(const struct hr_checksum_tables *tables, const uint8_t *data,
				    uint32_t bytes, uint8_t *copy);

#endif
