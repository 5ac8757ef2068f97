/*
 * nvme/barmem.h - memory in a BAR of any PCI function, for controllers to read and write.
 *
 * The counterpart of nvme/hostmem.h: regions of kind HR_REGION_BAR, whose bytes leave the host
 * bridge or a switch towards a peer. Their bus addresses are those of the BAR where memory is
 * physical (pci), and of our own choice where a transport maps them (vfio, soft), as
 * hr_hostmem_kind() says. The mapping is of device memory (VM_PFNMAP): VFIO takes it, and no
 * process can pin it. It is uncached, which is right for queues and slow for data.
 */
#ifndef NVME_BARMEM_H
#define NVME_BARMEM_H

#include <stdbool.h>
#include <stddef.h>

#include "nvme/region.h"
#include "pci/function.h"

#define HR_BARMEM_PEER (-1) /* the BAR through which peers reach the function's memory */

struct hr_barmem {
	struct hr_function function;
	struct hr_bar_map map;
	unsigned bar;
	size_t used;	  /* bytes given out, from the start */
	unsigned regions; /* given out; with the last, all is free again */
	bool own;	  /* their bus addresses are of our own choice */
};

/*
 * Take over the function at address, turn its memory decoding on, and map BAR `bar` (0..5 or
 * HR_BARMEM_PEER: the largest memory BAR, a prefetchable one before others).
 * 0; -EINVAL: no address; -ENOENT: no such function; -ENXIO: no such BAR; -EBUSY: a driver or another
 * process has it; -EACCES; -ENODEV. message (HR_LOG_LINE_MAX bytes) says what is wrong.
 */
int hr_barmem_open(struct hr_barmem *m, const char *address, int bar, char *message);
/* Put the function back. Nothing for a struct that is all zero. */
void hr_barmem_close(struct hr_barmem *m);

/*
 * Give out the next `bytes`, zeroed, in whole pages: cpu and worker are the mapping. `name` outlives
 * the region. 0; -EINVAL: bytes 0; -ENOMEM: the BAR is too small; -ENOSPC: no I/O addresses left.
 * Both are logged.
 */
int hr_barmem_alloc(struct hr_barmem *m, struct hr_region *region, const char *name, size_t bytes);
/* No controller reaches it any more. Zeroes *region. */
void hr_barmem_free(struct hr_barmem *m, struct hr_region *region);

#endif
