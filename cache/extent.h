/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cache/extent.h - where an object lies on its ssd, for workers.
 */
#ifndef CACHE_EXTENT_H
#define CACHE_EXTENT_H

#include <stdint.h>

/* Location of an object, for workers: a copy of fields of the object map, in control memory. */
struct hr_extent {
	uint64_t id;
	uint64_t lba;	   /* LBA of byte 0 */
	uint64_t bytes;	   /* length of the data */
	uint64_t capacity; /* bytes of the extent; whole blocks */
	uint32_t nsid;
	uint32_t lba_shift;
	uint32_t ssd; /* index in the appliance: selects the queue pair */
	/* largest command for that ssd: power of two, HR_PAGE..HR_CHUNK_MAX */
	uint32_t chunk_bytes;
};

#endif
