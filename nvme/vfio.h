/*
 * nvme/vfio.h - the kernel's VFIO: one type1 container for the process, its groups, devices, and
 * DMA mappings.
 *
 * Documentation/driver-api/vfio.rst. All devices share one I/O address space, so a region is mapped
 * once however many controllers use it, and an SSD may reach the BAR of any other function. Call
 * during boot and shutdown, from one thread. Tests put their own calls into hr_vfio_calls.
 */
#ifndef NVME_VFIO_H
#define NVME_VFIO_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "nvme/region.h"
#include "pci/function.h"

/* What is asked of the kernel. As the system calls of these names; -1 and errno. */
struct hr_vfio_calls {
	int (*open)(const char *path, int flags);
	int (*close)(int fd);
	int (*ioctl)(int fd, unsigned long request, void *argument);
	void *(*mmap)(void *at, size_t bytes, int prot, int flags, int fd, off_t offset);
	int (*munmap)(void *at, size_t bytes);
	ssize_t (*pread)(int fd, void *to, size_t bytes, off_t offset);
	ssize_t (*pwrite)(int fd, const void *from, size_t bytes, off_t offset);
};
extern const struct hr_vfio_calls *hr_vfio_calls;

struct hr_vfio_device {
	int fd; /* 0: not open */
	unsigned group;
	uint64_t config; /* offset of its configuration space */
	char bdf[HR_BDF_MAX];
};

/* 0, or -ENODEV when no IOMMU stands before the function, so that vfio cannot open it. */
int hr_vfio_possible(const struct hr_function_state *state, char *message);

/*
 * Open the function, which is bound to vfio-pci, through its group. message says what is missing.
 * 0; -ENODEV: no vfio in this kernel, no IOMMU, or the device is gone; -EBUSY: the group is not
 * viable, or somebody else's; -EACCES; -EPERM: the IOMMU cannot isolate it; -ENOMEM.
 */
int hr_vfio_device_open(struct hr_vfio_device *d, const struct hr_function_state *state,
			char *message);
/* The kernel resets the function. Nothing for a struct that is all zero. */
void hr_vfio_device_close(struct hr_vfio_device *d);

/* Set bits of the command register. 0, or -EIO with message. */
int hr_vfio_device_enable(struct hr_vfio_device *d, uint16_t bits, char *message);

/* Map memory BAR `bar`; map->bus stays 0. 0; -ENXIO: no such BAR; -EIO: it cannot be mapped. */
int hr_vfio_device_map(struct hr_vfio_device *d, unsigned bar, struct hr_bar_map *map,
		       char *message);
void hr_vfio_device_unmap(struct hr_bar_map *map);

/*
 * Let the container's devices reach a region at its bus addresses; counted, so that every map has
 * its unmap. BAR regions too: the kernel takes VM_PFNMAP mappings. Errors are logged. 0; -EINVAL:
 * the CPU does not see the region; -ERANGE: an address that the IOMMU does not have; -EEXIST;
 * -ENOSPC: too many; -ENOMEM: locked memory; others of the kernel.
 */
int hr_vfio_map(const struct hr_region *region);
void hr_vfio_unmap(const struct hr_region *region);

#endif
