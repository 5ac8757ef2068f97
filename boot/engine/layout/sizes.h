/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boot/engine/layout/sizes.h - sizes of rings, tables and buffers, for the code that plans them and the
 * code that fills them. The queue pairs of a part are consecutive, by worker.
 */
#ifndef BOOT_ENGINE_LAYOUT_SIZES_H
#define BOOT_ENGINE_LAYOUT_SIZES_H

#include <stdint.h>

#include "nvme/queue/queue.h"

#define HR_CACHE_LINE 64u

/*
 * Bytes of both rings of a queue pair: SQ, then CQ, each page aligned. This is a power of two, at
 * most 512 KiB, and also their alignment: rings must be contiguous on the bus, so they must not
 * cross from one huge page into another.
 */
static inline uint32_t hr_layout_ring_bytes(uint32_t entries)
{
	const size_t bytes = hr_qp_sq_bytes(entries) + hr_qp_cq_bytes(entries);
	uint32_t power = HR_PAGE;

	while (power < bytes)
		power *= 2;
	return power;
}

/* Bytes of its table of commands in flight. */
static inline uint64_t hr_layout_table_bytes(uint32_t entries)
{
	return (hr_qp_table_bytes(entries) + HR_CACHE_LINE - 1) & ~((uint64_t)HR_CACHE_LINE - 1);
}

/* Bytes of a buffer for one tile: whole pages. */
static inline uint32_t hr_layout_tile_bytes(uint32_t bytes)
{
	return (bytes + HR_PAGE - 1) & ~(HR_PAGE - 1);
}

#endif
