/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nvme/dma/prp.h - PRP entries (physical region pages) of a buffer that never moves: built once, used
 * for transfers of any length.
 *
 * Spec: NVMe Base 2.0, 4.1.1. The buffer is page aligned, so every entry has offset 0. PRP2 depends
 * on the length of the transfer: 0 for one page, the second page for two, the list for more. A list
 * describes at most HR_CHUNK_MAX bytes, so it fits in one page and needs no chaining.
 */
#ifndef NVME_DMA_PRP_H
#define NVME_DMA_PRP_H

#include <stddef.h>
#include <stdint.h>

#include "config/base/limits.h"
#include "nvme/queue/worker.h"
#include "nvme/dma/region.h"

struct hr_prp {
	uint64_t first;	 /* bus address of page 0 */
	uint64_t second; /* of page 1 */
	uint64_t list;	 /* of the list that holds pages 1, 2, ... */
};

/* PRP2 of a transfer of `bytes` (1..the buffer's size) from the start of the buffer. */
HR_BOTH uint64_t hr_prp2(const struct hr_prp *prp, uint32_t bytes)
{
	if (bytes <= HR_PAGE)
		return 0;
	return bytes <= 2 * HR_PAGE ? prp->second : prp->list;
}

/*
 * Build the PRP entries of [offset, offset + bytes) of data. The list (8 bytes for each page but
 * the first) is written at list_offset of lists, which the CPU can access. lists may be NULL when
 * bytes is at most two pages. Host side. offset is page aligned, bytes is 1..HR_CHUNK_MAX;
 * list_offset is 8-byte aligned, and the list does not cross a page boundary (PRP2 may point into a
 * page, NVMe Base 4.1.1). It does not end there either: some controllers take the last entry of a page
 * for the address of another list, also where the transfer needs no more.
 */
void hr_prp_build(struct hr_prp *prp, const struct hr_region *data, size_t offset, uint32_t bytes,
		  const struct hr_region *lists, size_t list_offset);

#endif
