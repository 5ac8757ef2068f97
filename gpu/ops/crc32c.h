/*
 * gpu/ops/crc32c.h - what the operator crc32c leaves: a record of 4 bytes per tile, the tile's own
 * CRC-32C, and this result.
 */
#ifndef GPU_OPS_CRC32C_H
#define GPU_OPS_CRC32C_H

#include <stdint.h>

struct hr_crc32c_result {
	uint32_t crc; /* of source 0 as a whole */
};

#endif
