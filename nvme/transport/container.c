/* SPDX-License-Identifier: Apache-2.0 */
#include "nvme/transport/container.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/vfio.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "config/base/log.h"
#include "config/base/limits.h"
#include "nvme/dma/hostmem.h"
#include "pci/machine.h"

#define CONTAINER "/dev/vfio/vfio"
#define RANGES_MAX 16u
#define INFO_BYTES 4096u

struct group {
	int number, fd;
	unsigned devices; /* open devices; 0: free entry */
};

struct mapping {
	const void *cpu;
	uint64_t bus;
	size_t bytes;
	unsigned users; /* 0: free entry */
};

static struct {
	int fd; /* container; valid while a group is in use */
	bool has_iommu;
	struct group group[HR_SSDS_MAX];
	struct mapping mapping[HR_HOSTMEM_MAX];
	struct vfio_iova_range range[RANGES_MAX]; /* addresses that the IOMMU supports */
	unsigned ranges;			  /* 0: unknown */
} box;

static int vfio_request(int fd, unsigned long request, void *argument)
{
	const int result = hr_vfio_call_ioctl(fd, request, argument);

	return result < 0 ? -errno : result;
}

/* ---- container */

static bool is_denied(int err)
{
	return err == -EACCES || err == -EPERM;
}

static bool exists(const char *path)
{
	const int fd = hr_vfio_call_open(path, O_RDWR | O_CLOEXEC);

	if (fd >= 0)
		hr_vfio_call_close(fd);
	return fd >= 0;
}

/* What a machine without the container file lacks. */
static const char *container_remedy(void)
{
	return exists("/dev/iommu") ? ": this kernel has iommufd only; use a kernel with "
				      "CONFIG_VFIO_CONTAINER or CONFIG_IOMMUFD_VFIO_CONTAINER"
				    : ": load the kernel's module: modprobe vfio-pci";
}

static int open_container(const char *bdf, struct hr_error *e)
{
	int err;

	box.fd = hr_vfio_call_open(CONTAINER, O_RDWR | O_CLOEXEC);
	if (box.fd < 0) {
		err = -errno;
		return hr_fail(e, HR_ERROR_MISSING, is_denied(err) ? -EACCES : -ENODEV,
			       "%s: " CONTAINER ": %s%s", bdf, strerror(-err),
			       is_denied(err) ? ": run as root, or let this user have it"
			       : err == -ENOENT || err == -ENODEV ? container_remedy()
								  : "");
	}
	if (vfio_request(box.fd, VFIO_GET_API_VERSION, NULL) == VFIO_API_VERSION &&
	    vfio_request(box.fd, VFIO_CHECK_EXTENSION, (void *)VFIO_TYPE1v2_IOMMU) > 0)
		return 0;
	hr_vfio_call_close(box.fd);
	return hr_fail(e, HR_ERROR_MISSING, -ENODEV,
		       "%s: the kernel's vfio has no type1 IOMMU: modprobe vfio_iommu_type1", bdf);
}

static void read_iova_ranges(const uint8_t *info, uint32_t bytes, uint32_t at)
{
	struct vfio_iommu_type1_info_cap_iova_range cap;

	/* Offsets grow along a chain from the kernel. Any other offset ends the chain. */
	for (uint32_t next = at; next && next + sizeof(cap) <= bytes;) {
		memcpy(&cap, info + next, sizeof(cap));
		if (cap.header.id == VFIO_IOMMU_TYPE1_INFO_CAP_IOVA_RANGE) {
			const uint32_t room =
				(uint32_t)((bytes - next - sizeof(cap)) / sizeof(box.range[0]));

			/* A partial list would refuse addresses that the IOMMU supports. */
			if (cap.nr_iovas > room || cap.nr_iovas > RANGES_MAX)
				return;
			box.ranges = cap.nr_iovas;
			memcpy(box.range, info + next + sizeof(cap),
			       box.ranges * sizeof(box.range[0]));
			return;
		}
		if (cap.header.next <= next)
			return;
		next = cap.header.next;
	}
}

/* Address ranges of the IOMMU. They improve messages only, so a failure here is not an error. */
static void read_ranges(void)
{
	uint8_t buffer[INFO_BYTES] __attribute__((aligned(8))) = { 0 };
	struct vfio_iommu_type1_info info = { .argsz = sizeof(buffer) };

	box.ranges = 0;
	memcpy(buffer, &info, sizeof(info));
	if (vfio_request(box.fd, VFIO_IOMMU_GET_INFO, buffer) < 0)
		return;
	memcpy(&info, buffer, sizeof(info));
	if (info.flags & VFIO_IOMMU_INFO_CAPS)
		read_iova_ranges(
			buffer, info.argsz < sizeof(buffer) ? info.argsz : (uint32_t)sizeof(buffer),
			info.cap_offset);
}

static int set_iommu(const char *bdf, struct hr_error *e)
{
	const int err = box.has_iommu
				? 0
				: vfio_request(box.fd, VFIO_SET_IOMMU, (void *)VFIO_TYPE1v2_IOMMU);

	if (err < 0)
		return hr_fail(
			e, HR_ERROR_MISSING, err == -EPERM ? -EPERM : -ENODEV,
			"%s: the kernel cannot use the IOMMU for it: %s%s", bdf, strerror(-err),
			err == -EPERM ? "; without interrupt remapping, load vfio_iommu_type1 with "
					"allow_unsafe_interrupts=1"
				      : "");
	if (!box.has_iommu)
		read_ranges();
	box.has_iommu = true;
	return 0;
}

/* ---- groups */

static bool any_group(void)
{
	for (unsigned i = 0; i < HR_SSDS_MAX; i++)
		if (box.group[i].devices)
			return true;
	return false;
}

static int not_viable(const struct hr_function_state *state, struct hr_error *e)
{
	char why[HR_LOG_LINE_MAX - 128];

	hr_vfio_group_explain(state->bdf, why, sizeof(why));
	return hr_fail(e, HR_ERROR_MISSING, -EBUSY, "%s: IOMMU group %d cannot be opened: %s",
		       state->bdf, state->group, why);
}

static int open_group(struct group *group, const struct hr_function_state *state,
		      struct hr_error *e)
{
	char path[32];
	int err;

	snprintf(path, sizeof(path), "/dev/vfio/%d", state->group);
	group->number = state->group;
	group->fd = hr_vfio_call_open(path, O_RDWR | O_CLOEXEC);
	if (group->fd >= 0)
		return 0;
	err = -errno;
	snprintf(path, sizeof(path), "/dev/vfio/noiommu-%d", state->group);
	if (err == -ENOENT && exists(path))
		return hr_fail(e, HR_ERROR_MISSING, -ENODEV,
			       "%s: IOMMU group %d is in the kernel's no-IOMMU mode, so nothing "
			       "translates its addresses; boot with an IOMMU (intel_iommu=on, "
			       "amd_iommu=on), or use pci:%s",
			       state->bdf, state->group, state->bdf);
	snprintf(path, sizeof(path), "/dev/vfio/%d", state->group);
	return hr_fail(e, HR_ERROR_MISSING,
		       err == -EBUSY	? -EBUSY
		       : is_denied(err) ? -EACCES
					: -ENODEV,
		       "%s: %s: %s%s", state->bdf, path, strerror(-err),
		       err == -EBUSY	? ": another process has this IOMMU group; end it first"
		       : is_denied(err) ? ": run as root, or let this user have it"
					: "");
}

static int join_container(const struct group *group, const struct hr_function_state *state,
			  struct hr_error *e)
{
	struct vfio_group_status status = { .argsz = sizeof(status) };
	int err = vfio_request(group->fd, VFIO_GROUP_GET_STATUS, &status);

	if (err >= 0 && !(status.flags & VFIO_GROUP_FLAGS_VIABLE))
		return not_viable(state, e);
	if (err < 0)
		return hr_fail(e, HR_ERROR_MISSING, -ENODEV,
			       "%s: cannot read the state of IOMMU group %d: %s", state->bdf,
			       state->group, strerror(-err));
	err = vfio_request(group->fd, VFIO_GROUP_SET_CONTAINER, &box.fd);
	if (err < 0)
		return hr_fail(
			e, HR_ERROR_MISSING, -EBUSY,
			"%s: IOMMU group %d cannot share an address space with those of the other "
			"ssds: %s",
			state->bdf, state->group, strerror(-err));
	return set_iommu(state->bdf, e);
}

/* The entry of a group that is open, or a free one. */
static struct group *find_group(int number)
{
	struct group *free_one = NULL;

	for (unsigned i = 0; i < HR_SSDS_MAX; i++) {
		struct group *g = &box.group[i];

		if (g->devices && g->number == number)
			return g;
		if (!g->devices && !free_one)
			free_one = g;
	}
	return free_one;
}

static void leave_container(void)
{
	if (any_group())
		return;
	hr_vfio_call_close(box.fd);
	box.has_iommu = false;
	memset(box.mapping, 0, sizeof(box.mapping)); /* the kernel removes the remaining mappings */
}

static int get_group(const struct hr_function_state *state, struct hr_error *e, unsigned *index)
{
	struct group *group = find_group(state->group);
	int err = 0;

	if (!group)
		return hr_fail(e, HR_ERROR_MISSING, -ENOMEM, "%s: more than %u IOMMU groups",
			       state->bdf, HR_SSDS_MAX);
	*index = (unsigned)(group - box.group);
	if (group->devices) {
		group->devices++;
		return 0;
	}
	if (!any_group())
		err = open_container(state->bdf, e);
	if (err)
		return err;
	err = open_group(group, state, e);
	if (!err) {
		err = join_container(group, state, e);
		if (err)
			hr_vfio_call_close(group->fd);
	}
	group->devices = !err;
	if (err)
		leave_container();
	return err;
}

static void put_group(unsigned index)
{
	struct group *group = &box.group[index];

	if (--group->devices)
		return;
	hr_vfio_call_close(group->fd);
	leave_container();
}

/* ---- devices */

static int region_info(const struct hr_vfio_device *d, unsigned index,
		       struct vfio_region_info *info)
{
	*info = (struct vfio_region_info){ .argsz = sizeof(*info), .index = index };
	return vfio_request(d->fd, VFIO_DEVICE_GET_REGION_INFO, info);
}

int hr_vfio_possible(const struct hr_function_state *state, struct hr_error *e)
{
	if (state->group != HR_NO_GROUP)
		return 0;
	return hr_fail(
		e, HR_ERROR_MISSING, -ENODEV,
		"%s: no IOMMU is active, and vfio needs one: enable it in the firmware and boot "
		"with intel_iommu=on or amd_iommu=on; or use pci:%s",
		state->bdf, state->bdf);
}

int hr_vfio_device_open(struct hr_vfio_device *d, const struct hr_function_state *state,
			struct hr_error *e)
{
	struct vfio_region_info info;
	int err = hr_vfio_possible(state, e);

	memset(d, 0, sizeof(*d));
	memcpy(d->bdf, state->bdf, sizeof(d->bdf));
	if (err)
		return err;
	err = get_group(state, e, &d->group);
	if (err)
		return err;
	d->fd = vfio_request(box.group[d->group].fd, VFIO_GROUP_GET_DEVICE_FD, d->bdf);
	err = d->fd < 0 ? d->fd : region_info(d, VFIO_PCI_CONFIG_REGION_INDEX, &info);
	if (err < 0) {
		hr_fail(e, HR_ERROR_MISSING, err, "%s: vfio does not open it: %s", state->bdf,
			strerror(-err));
		if (d->fd >= 0)
			hr_vfio_call_close(d->fd);
		put_group(d->group);
		memset(d, 0, sizeof(*d));
		return err == -EBUSY ? -EBUSY : -ENODEV;
	}
	d->config = info.offset;
	return 0;
}

void hr_vfio_device_close(struct hr_vfio_device *d)
{
	if (d->fd == 0)
		return;
	hr_vfio_call_close(d->fd);
	put_group(d->group);
	memset(d, 0, sizeof(*d));
}

int hr_vfio_device_enable(struct hr_vfio_device *d, uint16_t bits, struct hr_error *e)
{
	const off_t at = (off_t)d->config + HR_CFG_COMMAND;
	uint16_t command = 0;
	bool good = hr_vfio_call_pread(d->fd, &command, 2, at) == 2 && command != UINT16_MAX;

	command |= bits;
	good = good && hr_vfio_call_pwrite(d->fd, &command, 2, at) == 2 &&
	       hr_vfio_call_pread(d->fd, &command, 2, at) == 2;
	if (good && (command & bits) == bits)
		return 0;
	return hr_fail(e, HR_ERROR_DEVICE, -EIO,
		       "%s: its command register does not take %04x (it reads %04x)", d->bdf, bits,
		       command);
}

int hr_vfio_device_stop_dma(struct hr_vfio_device *d)
{
	const off_t at = (off_t)d->config + HR_CFG_COMMAND;
	uint16_t command;

	if (hr_vfio_call_pread(d->fd, &command, 2, at) != 2 || command == UINT16_MAX)
		return -ENODEV;
	command &= (uint16_t)~HR_COMMAND_BME;
	hr_vfio_call_pwrite(d->fd, &command, 2, at);
	/* The answer to this read comes behind all that the function has written before. */
	if (hr_vfio_call_pread(d->fd, &command, 2, at) != 2 || command == UINT16_MAX)
		return -ENODEV;
	return command & HR_COMMAND_BME ? -EIO : 0;
}

int hr_vfio_device_map(struct hr_vfio_device *d, unsigned bar, struct hr_bar_map *map,
		       struct hr_error *e)
{
	struct vfio_region_info info;
	const int err = region_info(d, VFIO_PCI_BAR0_REGION_INDEX + bar, &info);
	void *cpu;

	memset(map, 0, sizeof(*map));
	if (err < 0 || info.size == 0 || !(info.flags & VFIO_REGION_INFO_FLAG_MMAP))
		return hr_fail(
			e, HR_ERROR_MISSING, -ENXIO,
			"%s: BAR%u is not memory that can be mapped; look at it with lspci -vvs "
			"%s: if it has no address, enable 64-bit BARs (above 4G decoding) in the "
			"firmware",
			d->bdf, bar, d->bdf);
	cpu = hr_vfio_call_mmap(info.size, d->fd, (off_t)info.offset);
	if (cpu == MAP_FAILED)
		return hr_fail(e, HR_ERROR_DEVICE, -EIO,
			       "%s: BAR%u of %llu bytes cannot be mapped: %s", d->bdf, bar,
			       (unsigned long long)info.size, strerror(errno));
	map->cpu = cpu;
	map->bytes = info.size;
	return 0;
}

void hr_vfio_device_unmap(struct hr_bar_map *map)
{
	if (map->cpu)
		hr_vfio_call_munmap(map->cpu, map->bytes);
	memset(map, 0, sizeof(*map));
}

/* ---- mappings */

static bool in_range(uint64_t bus, size_t bytes)
{
	for (unsigned i = 0; i < box.ranges; i++)
		if (bus >= box.range[i].start && bus + bytes - 1 <= box.range[i].end)
			return true;
	return box.ranges == 0;
}

static int map_run(const struct hr_region *region, size_t offset, size_t bytes, struct hr_error *e)
{
	struct vfio_iommu_type1_dma_map map = {
		.argsz = sizeof(map),
		.flags = VFIO_DMA_MAP_FLAG_READ | VFIO_DMA_MAP_FLAG_WRITE,
		.vaddr = (uintptr_t)region->cpu + offset,
		.iova = hr_region_bus(region, offset).addr,
		.size = bytes,
	};
	int err = in_range(map.iova, bytes) ? vfio_request(box.fd, VFIO_IOMMU_MAP_DMA, &map)
					    : -ERANGE;

	if (err == -ERANGE && box.ranges)
		hr_fail(e, HR_ERROR_MISSING, err,
			"vfio: region '%s': the IOMMU does not support the addresses %#llx to "
			"%#llx; it supports addresses up to %#llx, except reserved ranges",
			region->name, (unsigned long long)map.iova,
			(unsigned long long)(map.iova + bytes - 1),
			(unsigned long long)box.range[box.ranges - 1].end);
	else if (err < 0)
		hr_fail(e, err == -ENOMEM || err == -ENOSPC ? HR_ERROR_MISSING : HR_ERROR_DEVICE,
			err,
			"vfio: region '%s': %zu bytes at I/O address %#llx cannot be mapped: %s%s",
			region->name, bytes, (unsigned long long)map.iova, strerror(-err),
			err == -ENOMEM	 ? "; more locked memory: ulimit -l"
			: err == -ENOSPC ? "; use huge pages, which need fewer mappings"
					 : "");
	return err < 0 ? err : 0;
}

static void unmap_run(const struct hr_region *region, size_t offset, size_t bytes)
{
	struct vfio_iommu_type1_dma_unmap unmap = {
		.argsz = sizeof(unmap),
		.iova = hr_region_bus(region, offset).addr,
		.size = bytes,
	};
	const int err = vfio_request(box.fd, VFIO_IOMMU_UNMAP_DMA, &unmap);

	if (err < 0)
		hr_warn("vfio: region '%s': %zu bytes at I/O address %#llx stay mapped: %s",
			region->name, bytes, (unsigned long long)unmap.iova, strerror(-err));
}

static void unmap_until(const struct hr_region *region, size_t end)
{
	for (size_t at = 0, bytes; at < end; at += bytes) {
		bytes = hr_region_contiguous_bytes(region, at);
		unmap_run(region, at, bytes);
	}
}

/* The entry of this region, or a free one. */
static struct mapping *find_mapping(const struct hr_region *region)
{
	struct mapping *free_one = NULL;

	for (unsigned i = 0; i < HR_HOSTMEM_MAX; i++) {
		struct mapping *m = &box.mapping[i];

		if (m->users && m->bus == region->bus.addr && m->bytes == region->bytes)
			return m;
		if (!m->users && !free_one)
			free_one = m;
	}
	return free_one;
}

int hr_vfio_map(const struct hr_region *region, struct hr_error *e)
{
	struct mapping *m = find_mapping(region);

	if (!region->cpu)
		return hr_fail(e, HR_ERROR_MISSING, -EINVAL,
			       "vfio: region '%s': the CPU cannot access it", region->name);
	if (!m)
		return hr_fail(e, HR_ERROR_MISSING, -ENOSPC,
			       "vfio: region '%s': over %u regions are mapped", region->name,
			       HR_HOSTMEM_MAX);
	if (m->users && m->cpu != region->cpu)
		return hr_fail(e, HR_ERROR_FAILED, -EEXIST,
			       "vfio: region '%s': other memory is mapped at I/O address %#llx",
			       region->name, (unsigned long long)region->bus.addr);
	for (size_t at = 0, bytes; !m->users && at < region->bytes; at += bytes) {
		int err;

		bytes = hr_region_contiguous_bytes(region, at);
		err = map_run(region, at, bytes, e);
		if (err) {
			unmap_until(region, at);
			return err;
		}
	}
	m->cpu = region->cpu;
	m->bus = region->bus.addr;
	m->bytes = region->bytes;
	m->users++;
	return 0;
}

void hr_vfio_unmap(const struct hr_region *region)
{
	struct mapping *m = find_mapping(region);

	if (!m || !m->users || --m->users)
		return;
	unmap_until(region, region->bytes);
}
