/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nvme/dma/hostmem.h - host memory that controllers access by DMA, and its bus addresses.
 *
 * The kind of bus addresses is chosen once for the process, before the first allocation. A
 * controller behind `pci:` drives physical addresses onto the bus. So when one ssd uses `pci:`, all
 * host memory has its physical addresses as bus addresses, and the other transports (vfio, soft)
 * open their windows at the same addresses. Otherwise headrace assigns the addresses
 * (hr_region_init_host()).
 *
 * Physical memory consists of 2 MiB huge pages. When these are short, it consists of pages of 4 KiB
 * that are pinned so that the kernel does not move them; this is logged. Consecutive pages are not
 * consecutive in physical memory, so a region carries one address per page. Use
 * hr_region_contiguous() where hardware needs a contiguous range.
 */
#ifndef NVME_DMA_HOSTMEM_H
#define NVME_DMA_HOSTMEM_H

#include <stdbool.h>
#include <stddef.h>

#include "config/base/error.h"
#include "nvme/dma/region.h"

#define HR_HOSTMEM_MAX 256u /* maximum regions at a time: a few per ssd and gpu */

enum hr_hostmem_kind {
	HR_HOSTMEM_OWN,	     /* I/O addresses that headrace assigns */
	HR_HOSTMEM_PHYSICAL, /* physical addresses; root only */
};

/* Choose before the first allocation. 0; -EBUSY: memory of the other kind is in use. */
int hr_hostmem_set_kind(enum hr_hostmem_kind kind, struct hr_error *e);

enum hr_hostmem_kind hr_hostmem_kind(void);

/*
 * Allocate zeroed memory of at least `bytes` and describe it: cpu, bytes, bus addresses; worker
 * equals cpu. The size is rounded up to whole pages, of 2 MiB for physical memory where huge pages
 * are available. All page faults are taken now, and a forked child does not share the memory.
 * `name` outlives the region. Call during boot, from one thread.
 * 0; -EINVAL: bytes is 0; -ENOMEM; -ENOSPC: no I/O addresses left, or over HR_HOSTMEM_MAX regions;
 * -EACCES: physical addresses are hidden from this user; -ENOTSUP: no huge pages, and the kernel
 * refuses to pin small ones. All but -EINVAL fill e, with the remedy.
 */
int hr_hostmem_alloc(struct hr_region *region, const char *name, size_t bytes, struct hr_error *e);

/*
 * Free the region. Call when no controller can write to it any more. Zeroes *region. Does nothing
 * for a region that is all zero.
 */
void hr_hostmem_free(struct hr_region *region);

#endif
