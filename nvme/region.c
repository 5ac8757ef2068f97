#include "nvme/region.h"

#include <errno.h>
#include <string.h>

#include "config/limits.h"

#define SPACE_START (64ull << 30)
#define SPACE_END (1ull << 39)
#define SPACE_ALIGN (2ull << 20)

static uint64_t next_bus = SPACE_START;

int hr_region_init_host(struct hr_region *region, const char *name, void *cpu, size_t bytes)
{
	if (!cpu || bytes == 0 || ((uintptr_t)cpu | bytes) & (HR_PAGE - 1))
		return -EINVAL;
	if (bytes > SPACE_END - next_bus)
		return -ENOSPC;
	memset(region, 0, sizeof(*region));
	region->name = name;
	region->kind = HR_REGION_HOST;
	region->cpu = region->worker = cpu;
	region->bytes = bytes;
	region->bus.addr = next_bus;
	next_bus += (bytes + SPACE_ALIGN - 1) & ~(SPACE_ALIGN - 1);
	if (next_bus > SPACE_END)
		next_bus = SPACE_END;
	return 0;
}
