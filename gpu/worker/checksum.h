/*
 * gpu/worker/checksum.h - CRC-32C (cache/crc32c.h) of a tile, by a whole block. Worker code.
 *
 * On a CPU the block is one thread, and the CPU has an instruction for a CRC. On a GPU all threads of
 * the block share the work, with tables in memory that the block shares.
 */
#ifndef GPU_WORKER_CHECKSUM_H
#define GPU_WORKER_CHECKSUM_H

#include <stdint.h>

#include "config/limits.h"
#include "nvme/worker.h"

#define HR_CHECKSUM_VECTOR 16u /* bytes that a thread loads at a time */

/* Of a block; the contents depend on its number of threads. */
struct hr_checksum_tables {
	uint32_t table[HR_CHECKSUM_VECTOR][256];
	uint32_t factor[HR_THREADS_MAX]; /* of thread t: x^(-8 * 16 t) */
	uint32_t position[HR_CHECKSUM_VECTOR];
};

/* Fill the tables. Block-collective. Does nothing where workers have one lane: tables may be NULL. */
HR_DEVICE void hr_checksum_prepare(struct hr_checksum_tables *tables);

/*
 * Checksum of data[0..bytes), returned in all threads. With copy (not NULL) the data are stored there
 * too, in the same pass, rounded up to 16 bytes: so many must be readable behind data and writable
 * behind copy. data and copy are 16-byte aligned and do not overlap. Block-collective; what was
 * written to data by other threads needs a hr_block_sync() before.
 */
HR_DEVICE uint32_t hr_checksum_tile(const struct hr_checksum_tables *tables, const uint8_t *data,
				    uint32_t bytes, uint8_t *copy);

#endif
