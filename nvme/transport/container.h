/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nvme/transport/container.h - the kernel's VFIO: one type1 container for the process, its
 * groups, devices, and DMA mappings.
 *
 * Documentation/driver-api/vfio.rst. All devices share one I/O address space. So a region is mapped
 * once for all controllers, and an SSD may access the BAR of any other function. Call during boot
 * and shutdown, from one thread.
 */
#ifndef NVME_TRANSPORT_CONTAINER_H
#define NVME_TRANSPORT_CONTAINER_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "nvme/dma/region.h"
#include "pci/function.h"

struct hr_vfio_device {
	int fd; /* 0: not open */
	unsigned group;
	uint64_t config; /* offset of its configuration space */
	char bdf[HR_BDF_MAX];
};

/* 0, or -ENODEV when no IOMMU serves the function, so that vfio cannot open it. */
int hr_vfio_possible(const struct hr_function_state *state, struct hr_error *e);

/*
 * Open the function, which is bound to vfio-pci, through its group.
 * 0; -ENODEV: no vfio in this kernel, no IOMMU, or the device is gone; -EBUSY: the group is
 * not viable, or in use by another process; -EACCES; -EPERM: the IOMMU cannot isolate the function;
 * -ENOMEM.
 */
int hr_vfio_device_open(struct hr_vfio_device *d, const struct hr_function_state *state,
			struct hr_error *e);
/* Close the function; the kernel resets it. Does nothing for a struct that is all zero. */
void hr_vfio_device_close(struct hr_vfio_device *d);

/* Set bits of the command register. 0, or -EIO. */
int hr_vfio_device_enable(struct hr_vfio_device *d, uint16_t bits, struct hr_error *e);

/* Clear bus mastering. 0; -ENODEV: the configuration space does not answer: the function is gone; -EIO:
 * the bit stays set. */
int hr_vfio_device_stop_dma(struct hr_vfio_device *d);

/* Map memory BAR `bar`; map->bus stays 0. 0; -ENXIO: no such BAR; -EIO: it cannot be mapped. */
int hr_vfio_device_map(struct hr_vfio_device *d, unsigned bar, struct hr_bar_map *map,
		       struct hr_error *e);
void hr_vfio_device_unmap(struct hr_bar_map *map);

/*
 * Map a region at its bus addresses for all devices of the container. Mappings are counted: every
 * map needs its unmap. BAR regions are allowed too: the kernel accepts VM_PFNMAP mappings.
 * 0; -EINVAL: the CPU cannot access the region; -ERANGE: an address that the IOMMU does
 * not support; -EEXIST; -ENOSPC: too many; -ENOMEM: locked memory; other errors of the kernel.
 */
int hr_vfio_map(const struct hr_region *region, struct hr_error *e);
void hr_vfio_unmap(const struct hr_region *region);

/* ---- the system calls of nvme/transport/container.c, in a file of
 * their own so that a test can link others (tests/fakes/vfio.c). As the system calls of these
 * names; -1 and errno.
 */

int hr_vfio_call_open(const char *path, int flags);
int hr_vfio_call_close(int fd);
int hr_vfio_call_ioctl(int fd, unsigned long request, void *argument);
void *hr_vfio_call_mmap(size_t bytes, int fd, off_t offset); /* readable, writable, shared */
int hr_vfio_call_munmap(void *at, size_t bytes);
ssize_t hr_vfio_call_pread(int fd, void *to, size_t bytes, off_t offset);
ssize_t hr_vfio_call_pwrite(int fd, const void *from, size_t bytes, off_t offset);

#endif
