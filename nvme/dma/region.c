/* SPDX-License-Identifier: Apache-2.0 */
#include "nvme/dma/region.h"

#include <errno.h>
#include <string.h>

#include "config/base/limits.h"

#define SPACE_START (64ull << 30)
#define SPACE_END (1ull << 39)
#define SPACE_ALIGN (2ull << 20)

static uint64_t next_bus = SPACE_START;
static unsigned in_use; /* assigned ranges in use */

size_t hr_region_contiguous_bytes(const struct hr_region *region, size_t offset)
{
	const size_t granule = (size_t)1 << region->granule_shift;
	size_t end = offset + granule;

	if (!region->granule_bus)
		return region->bytes - offset;
	while (end < region->bytes && hr_region_bus(region, end).addr ==
					      hr_region_bus(region, offset).addr + (end - offset))
		end += granule;
	return (end < region->bytes ? end : region->bytes) - offset;
}

int hr_region_assign_bus(size_t bytes, struct hr_bus *bus)
{
	if (bytes > SPACE_END - next_bus)
		return -ENOSPC;
	bus->addr = next_bus;
	next_bus += (bytes + SPACE_ALIGN - 1) & ~(SPACE_ALIGN - 1);
	in_use++;
	return 0;
}

void hr_region_unassign_bus(void)
{
	if (--in_use == 0)
		next_bus = SPACE_START;
}

int hr_region_init_host(struct hr_region *region, const char *name, void *cpu, size_t bytes)
{
	struct hr_bus bus;
	int err;

	if (!cpu || bytes == 0 || ((uintptr_t)cpu | bytes) & (HR_PAGE - 1))
		return -EINVAL;
	err = hr_region_assign_bus(bytes, &bus);
	if (err)
		return err;
	memset(region, 0, sizeof(*region));
	region->name = name;
	region->kind = HR_REGION_HOST;
	region->cpu = region->worker = cpu;
	region->bytes = bytes;
	region->bus = bus;
	return 0;
}
