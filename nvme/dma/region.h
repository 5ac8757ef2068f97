/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nvme/dma/region.h - memory that a controller may access by DMA, and its bus addresses.
 *
 * Interfaces never pass a bus address as a bare integer or pointer, so that CPU, GPU and bus
 * addresses cannot be confused. The bus addresses of a region are fixed when the region is made:
 * transports open a window for them (soft, vfio) or need none (pci). A region of pages with
 * unrelated physical addresses keeps one bus address per granule.
 */
#ifndef NVME_DMA_REGION_H
#define NVME_DMA_REGION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hr_bus {
	uint64_t addr;
};

enum hr_region_kind {
	HR_REGION_HOST, /* host memory */
	HR_REGION_GPU,	/* GPU memory */
	HR_REGION_BAR,	/* a BAR of any PCI function */
};

struct hr_region {
	const char *name; /* as in the partition map; outlives the region */
	enum hr_region_kind kind;
	void *cpu;    /* CPU mapping, page aligned; NULL when the CPU cannot access the region */
	void *worker; /* address for workers; equals cpu on the host backend */
	size_t bytes; /* multiple of HR_PAGE */
	struct hr_bus bus; /* address of byte 0; of the whole region when granule_bus is NULL */
	struct hr_bus *granule_bus; /* [bytes >> granule_shift], or NULL: contiguous. Not owned */
	uint32_t granule_shift;
};

/* Bus address of a byte of the region. offset < bytes. */
static inline struct hr_bus hr_region_bus(const struct hr_region *region, size_t offset)
{
	struct hr_bus bus = region->bus;

	if (region->granule_bus) {
		bus = region->granule_bus[offset >> region->granule_shift];
		offset &= ((size_t)1 << region->granule_shift) - 1;
	}
	bus.addr += offset;
	return bus;
}

/* Length of the part that starts at `offset` and is contiguous on the bus: a multiple of a
 * granule. offset < bytes, at the start of a granule. */
size_t hr_region_contiguous_bytes(const struct hr_region *region, size_t offset);

/* True if [offset, offset + bytes) is contiguous on the bus. bytes > 0, inside the region. */
static inline bool hr_region_contiguous(const struct hr_region *region, size_t offset, size_t bytes)
{
	const size_t granule = (size_t)1 << region->granule_shift;
	const uint64_t start = hr_region_bus(region, offset).addr;
	size_t at = (offset | (granule - 1)) + 1; /* the next granule boundary */

	if (!region->granule_bus)
		return true;
	for (; at < offset + bytes; at += granule)
		if (hr_region_bus(region, at).addr != start + (at - offset))
			return false;
	return true;
}

/* Assign the next `bytes` of the I/O address space below to other memory. 0 or -ENOSPC. */
int hr_region_assign_bus(size_t bytes, struct hr_bus *bus);

/* Release one assigned range, which no controller can access any more. When no range is left,
 * assignment starts again at the first address, so that repeated restarts do not use up the
 * space. */
void hr_region_unassign_bus(void);

/*
 * Describe host memory [cpu, cpu + bytes) as a region with assigned bus addresses (soft and vfio
 * transports): the next free 2 MiB aligned range of one process-wide I/O address space. This space
 * starts at 64 GiB and ends below 2^39 (the narrowest IOMMU). Bus addresses deliberately differ
 * from CPU addresses. The owner of the memory calls hr_region_unassign_bus() when it frees the memory.
 * Call during boot, from one thread.
 * Returns 0; -EINVAL: cpu or bytes not page aligned or zero; -ENOSPC: address space used up.
 */
int hr_region_init_host(struct hr_region *region, const char *name, void *cpu, size_t bytes);

#endif
