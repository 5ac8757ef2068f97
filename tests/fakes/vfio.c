/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fakes/vfio.h"

#include <errno.h>
#include <linux/vfio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "nvme/transport/container.h"

#define CONTAINER 10000
#define GROUP 20000	/* plus the number of the group */
#define DEVICE 30000	/* plus the number of its group */
#define FILE_THERE 9000 /* descriptor of a file that is only looked for */
#define CONFIG (7ull << 40)

#define GROUPS 64

static struct fake_vfio fake;
static bool joined[GROUPS]; /* by group number: the group is in the container */

static int fail(int error)
{
	errno = error;
	return -1;
}

int hr_vfio_call_open(const char *path, int flags)
{
	if (strcmp(path, "/dev/vfio/vfio") == 0) {
		if (fake.no_container)
			return fail(fake.no_container);
		fake.containers++;
		return CONTAINER;
	}
	if (strcmp(path, "/dev/iommu") == 0)
		return fake.only_iommufd ? FILE_THERE : fail(ENOENT);
	if (strncmp(path, "/dev/vfio/", 10) != 0)
		abort();
	if (strncmp(path, "/dev/vfio/noiommu-", 18) == 0)
		return fake.no_iommu_mode ? FILE_THERE : fail(ENOENT);
	if (fake.no_group)
		return fail(fake.no_group);
	fake.groups++;
	return GROUP + atoi(path + 10);
}

int hr_vfio_call_close(int fd)
{
	unsigned *open = fd >= DEVICE  ? &fake.devices
			 : fd >= GROUP ? &fake.groups
				       : &fake.containers;

	if (fd == FILE_THERE)
		return 0;
	if (fd < CONTAINER || *open == 0)
		abort();
	--*open;
	if (fd >= GROUP && fd < GROUP + GROUPS && joined[fd - GROUP]) {
		joined[fd - GROUP] = false;
		fake.joined--;
	}
	if (fake.joined == 0) { /* the kernel unmaps the rest */
		fake.maps = 0;
		fake.has_iommu = false;
	}
	return 0;
}

static int map(const struct vfio_iommu_type1_dma_map *wanted)
{
	if (!fake.has_iommu || wanted->argsz != sizeof(*wanted) || wanted->size == 0 ||
	    !(wanted->flags & (VFIO_DMA_MAP_FLAG_READ | VFIO_DMA_MAP_FLAG_WRITE)))
		return fail(EINVAL);
	if (fake.no_map && fake.maps >= fake.map_fails_at)
		return fail(fake.no_map);
	for (unsigned i = 0; i < fake.maps; i++)
		if (wanted->iova < fake.map[i].iova + fake.map[i].bytes &&
		    fake.map[i].iova < wanted->iova + wanted->size)
			return fail(EEXIST);
	if (fake.maps == FAKE_VFIO_MAPS)
		return fail(ENOSPC);
	fake.map[fake.maps++] = (struct fake_vfio_map){ wanted->iova, wanted->size,
							(uintptr_t)wanted->vaddr, wanted->flags };
	return 0;
}

/* Like the kernel since v2: exactly the mapped range. */
static int unmap(const struct vfio_iommu_type1_dma_unmap *wanted)
{
	if (!fake.has_iommu || wanted->argsz != sizeof(*wanted))
		return fail(EINVAL);
	if (fake.no_unmap)
		return fail(fake.no_unmap);
	for (unsigned i = 0; i < fake.maps; i++)
		if (fake.map[i].iova == wanted->iova && fake.map[i].bytes == wanted->size) {
			fake.map[i] = fake.map[--fake.maps];
			return 0;
		}
	return fail(EINVAL);
}

/* Address ranges: the first two leave out the interrupt range, the others follow. */
static void fill_ranges(struct vfio_iova_range *range, unsigned count)
{
	const uint64_t step = 1ull << 32;

	range[0] = (struct vfio_iova_range){ 0, 0xfedfffff };
	for (unsigned i = 1; i < count; i++)
		range[i] = (struct vfio_iova_range){ 0xfef00000 + (i - 1) * step,
						     0xfef00000 + i * step - 0x1000 };
	range[count - 1].end = fake.last_iova;
}

static int info(void *argument)
{
	enum {
		HEAD = sizeof(struct vfio_iommu_type1_info),
		CAP = sizeof(struct vfio_iommu_type1_info_cap_iova_range),
		OTHER = 16,
		BYTES = HEAD + OTHER + CAP + FAKE_VFIO_RANGES * sizeof(struct vfio_iova_range)
	};
	const unsigned count = fake.ranges ? fake.ranges : 2;
	const uint32_t at = fake.info_other_first ? HEAD + OTHER : HEAD;
	static uint8_t reply[BYTES] __attribute__((aligned(8)));
	struct vfio_iommu_type1_info *head = (void *)reply;
	struct vfio_info_cap_header *other = (void *)(reply + HEAD);
	struct vfio_iommu_type1_info_cap_iova_range *cap = (void *)(reply + at);

	if (fake.last_iova == 0)
		return fail(ENOTTY);
	memset(reply, 0, sizeof reply);
	head->argsz = fake.info_argsz ? fake.info_argsz : BYTES;
	head->flags = VFIO_IOMMU_INFO_CAPS;
	head->cap_offset = fake.info_cap_at ? fake.info_cap_at : HEAD;
	if (fake.info_other_first)
		*other = (struct vfio_info_cap_header){ VFIO_IOMMU_TYPE1_INFO_DMA_AVAIL, 1,
							fake.info_chain_back ? HEAD : at };
	cap->header.id = VFIO_IOMMU_TYPE1_INFO_CAP_IOVA_RANGE;
	cap->nr_iovas = count;
	fill_ranges(cap->iova_ranges, count);
	memcpy(argument, reply, sizeof reply);
	return 0;
}

static int set_iommu(void)
{
	if (fake.no_iommu)
		return fail(fake.no_iommu);
	if (fake.joined == 0 || fake.has_iommu)
		return fail(EINVAL);
	fake.has_iommu = true;
	fake.iommus++;
	return 0;
}

static int container_ioctl(unsigned long request, void *argument)
{
	switch (request) {
	case VFIO_GET_API_VERSION:
		return VFIO_API_VERSION + fake.old_version;
	case VFIO_CHECK_EXTENSION:
		return !fake.no_type1;
	case VFIO_SET_IOMMU:
		return set_iommu();
	case VFIO_IOMMU_GET_INFO:
		return info(argument);
	case VFIO_IOMMU_MAP_DMA:
		return map(argument);
	case VFIO_IOMMU_UNMAP_DMA:
		return unmap(argument);
	default:
		abort();
	}
}

static int join(int fd, int container)
{
	if (fake.no_join)
		return fail(fake.no_join);
	if (container != CONTAINER || fd - GROUP >= GROUPS || joined[fd - GROUP])
		return fail(EINVAL);
	joined[fd - GROUP] = true;
	fake.joined++;
	return 0;
}

static int group_ioctl(int fd, unsigned long request, void *argument)
{
	switch (request) {
	case VFIO_GROUP_GET_STATUS:
		if (fake.no_status || ((struct vfio_group_status *)argument)->argsz !=
					      sizeof(struct vfio_group_status))
			return fail(fake.no_status ? fake.no_status : EINVAL);
		((struct vfio_group_status *)argument)->flags =
			fake.not_viable ? 0 : VFIO_GROUP_FLAGS_VIABLE;
		return 0;
	case VFIO_GROUP_SET_CONTAINER:
		return join(fd, *(const int *)argument);
	case VFIO_GROUP_GET_DEVICE_FD:
		if (fake.no_device || !fake.has_iommu)
			return fail(fake.no_device ? fake.no_device : EINVAL);
		fake.devices++;
		return DEVICE + fd - GROUP;
	default:
		abort();
	}
}

static int region(struct vfio_region_info *out)
{
	if (out->index == VFIO_PCI_CONFIG_REGION_INDEX && fake.no_config)
		return fail(fake.no_config);
	if (out->index == VFIO_PCI_CONFIG_REGION_INDEX) {
		out->offset = CONFIG;
		out->size = 4096;
		return 0;
	}
	out->offset = 0;
	out->size = out->index == 0 ? FAKE_VFIO_BAR_BYTES : 0;
	out->flags = fake.bar_is_not_memory ? 0 : VFIO_REGION_INFO_FLAG_MMAP;
	return 0;
}

int hr_vfio_call_ioctl(int fd, unsigned long request, void *argument)
{
	if (fd < GROUP)
		return container_ioctl(request, argument);
	if (fd < DEVICE)
		return group_ioctl(fd, request, argument);
	if (request != VFIO_DEVICE_GET_REGION_INFO)
		abort();
	return region(argument);
}

void *hr_vfio_call_mmap(size_t bytes, int fd, off_t offset)
{
	if (fd < DEVICE || offset != 0 || bytes != FAKE_VFIO_BAR_BYTES)
		abort();
	if (fake.no_bar) {
		errno = fake.no_bar;
		return MAP_FAILED;
	}
	fake.bars++;
	return fake.bar;
}

int hr_vfio_call_munmap(void *at, size_t bytes)
{
	if (at != fake.bar || bytes != FAKE_VFIO_BAR_BYTES || fake.bars-- == 0)
		abort();
	return 0;
}

ssize_t hr_vfio_call_pread(int fd, void *to, size_t bytes, off_t offset)
{
	if (fd < DEVICE || (uint64_t)offset != CONFIG + HR_CFG_COMMAND || bytes != 2)
		abort();
	memcpy(to, &fake.command, bytes);
	return (ssize_t)bytes;
}

ssize_t hr_vfio_call_pwrite(int fd, const void *from, size_t bytes, off_t offset)
{
	uint16_t written;

	if (fd < DEVICE || (uint64_t)offset != CONFIG + HR_CFG_COMMAND || bytes != 2)
		abort();
	memcpy(&written, from, bytes);
	fake.command = (uint16_t)((fake.command & fake.stuck) | (written & ~fake.stuck));
	return (ssize_t)bytes;
}

struct fake_vfio *fake_vfio_start(void)
{
	static uint8_t bar[FAKE_VFIO_BAR_BYTES] __attribute__((aligned(4096)));

	fake = (struct fake_vfio){ .bar = bar };
	memset(joined, 0, sizeof joined);
	memset(bar, 0, sizeof bar);
	return &fake;
}
