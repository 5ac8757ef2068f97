/*
 * nvme/hostmem.h - host memory that controllers reach by DMA, and the bus addresses it has.
 *
 * Which addresses is decided once for the process, before any of it is taken: a controller behind
 * `pci:` drives physical addresses onto the bus, so as soon as one ssd is reached that way all host
 * memory has its physical addresses as bus addresses, and the other transports (vfio, soft) open
 * their windows at the same ones. Otherwise addresses are ours to choose (hr_region_init_host()).
 *
 * Physical memory is 2 MiB huge pages, or, said in the log, pages of 4 KiB that are pinned so that
 * the kernel does not move them. Consecutive pages are not consecutive in physical memory: a region
 * carries one address per page. Ask hr_region_contiguous() where hardware needs one piece.
 */
#ifndef NVME_HOSTMEM_H
#define NVME_HOSTMEM_H

#include <stdbool.h>
#include <stddef.h>

#include "nvme/region.h"

#define HR_HOSTMEM_MAX 256u /* regions at a time: a few per ssd and gpu */

enum hr_hostmem_kind {
	HR_HOSTMEM_OWN,	     /* I/O addresses of our own choice */
	HR_HOSTMEM_PHYSICAL, /* physical addresses; root only */
};

/*
 * Decide, before memory is taken. 0; -EBUSY, which is logged: memory of the other kind is in use.
 */
int hr_hostmem_choose(enum hr_hostmem_kind kind);

enum hr_hostmem_kind hr_hostmem_kind(void);

/*
 * Take zeroed memory of at least `bytes` (rounded up to whole pages, of 2 MiB for physical memory
 * where there are huge pages) and describe it: cpu, bytes, bus addresses; worker equals cpu. All
 * page faults are taken now, and a forked child does not share it. `name` outlives the region. Call
 * during boot, from one thread.
 * 0; -EINVAL: bytes is 0; -ENOMEM; -ENOSPC: no I/O addresses left, or over HR_HOSTMEM_MAX
 * regions; -EACCES: physical addresses are hidden from this user; -ENOTSUP: no huge pages, and the
 * kernel does not let us pin small ones. All but -EINVAL are logged, with the remedy.
 */
int hr_hostmem_alloc(struct hr_region *region, const char *name, size_t bytes);

/*
 * Give it back, when no controller can write to it any more. Zeroes *region. Nothing for a region
 * that is all zero.
 */
void hr_hostmem_free(struct hr_region *region);

#endif
