/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nvme/dma/barmem.h - memory in a BAR of any PCI function, for controllers to read and write.
 *
 * The counterpart of nvme/dma/hostmem.h. Regions have the kind HR_REGION_BAR: accesses to them leave
 * the host bridge or a switch towards a peer. hr_hostmem_kind() selects the bus addresses: the
 * addresses of the BAR where memory is physical (pci), addresses that headrace assigns where a
 * transport maps them (vfio, soft). The CPU mapping is device memory (VM_PFNMAP): VFIO accepts it,
 * and no process can pin it. The mapping is uncached, which suits queues and is slow for data.
 */
#ifndef NVME_DMA_BARMEM_H
#define NVME_DMA_BARMEM_H

#include <stdbool.h>
#include <stddef.h>

#include "nvme/dma/region.h"
#include "pci/function.h"

#define HR_BARMEM_PEER (-1) /* the BAR through which peers reach the function's memory */

struct hr_barmem {
	struct hr_function function;
	struct hr_bar_map map;
	unsigned bar;
	size_t used;	  /* bytes allocated, from the start of the BAR */
	unsigned regions; /* regions allocated; when it reaches 0, all bytes are free again */
	bool own;	  /* headrace assigns the bus addresses of the regions */
};

/*
 * Take over the function at address, enable its memory decoding, and map BAR `bar` (0..5 or
 * HR_BARMEM_PEER: the largest memory BAR, preferring a prefetchable one).
 * 0; -EINVAL: no address; -ENOENT: no such function; -ENXIO: no such BAR; -EBUSY: a driver or
 * another process uses the function; -EACCES; -ENODEV.
 */
int hr_barmem_open(struct hr_barmem *m, const char *address, int bar, struct hr_error *e);
/* Restore the function. Does nothing for a struct that is all zero. */
void hr_barmem_close(struct hr_barmem *m);

/*
 * Allocate the next `bytes`, zeroed, in whole pages; cpu and worker are the mapping. `name`
 * outlives the region.
 * 0; -EINVAL: bytes is 0; -ENOMEM: the BAR is too small; -ENOSPC: no I/O addresses left. The last
 * two fill e.
 */
int hr_barmem_alloc(struct hr_barmem *m, struct hr_region *region, const char *name, size_t bytes,
		    struct hr_error *e);
/* Call after every controller has stopped using the region. Zeroes *region. */
void hr_barmem_free(struct hr_barmem *m, struct hr_region *region);

#endif
