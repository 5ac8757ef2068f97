/*
 * nvme/transport.h - how a controller is reached.
 *
 * A transport gives the driver two things: the controller's registers and doorbells as memory
 * (BAR0, NVMe over PCIe Transport), and windows through which the controller may reach regions.
 * Everything above is the same for soft, pci and vfio.
 */
#ifndef NVME_TRANSPORT_H
#define NVME_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nvme/region.h"

struct hr_transport;

struct hr_transport_ops {
	/* Let the controller read and write the region at its bus addresses. 0; -ENOSPC: no window
	 * left; -EEXIST: overlaps one; -EIO and others of the host's IOMMU. */
	int (*map)(struct hr_transport *t, const struct hr_region *region);
	/* Close the window. No command that uses it may be in flight. */
	void (*unmap)(struct hr_transport *t, const struct hr_region *region);
	/* Release everything open() took, after the driver has shut the controller down. */
	void (*close)(struct hr_transport *t);
};

enum hr_transport_kind { HR_TRANSPORT_SOFT, HR_TRANSPORT_PCI, HR_TRANSPORT_VFIO };

struct hr_transport {
	const struct hr_transport_ops *ops;
	enum hr_transport_kind kind; /* PCI, VFIO: name is the function's address */
	char name[48];		     /* as in messages: "soft:ssd.img", "0000:41:00.0" */
	/* BAR0 as this process sees it, page aligned; a backend makes it reachable for workers, who
	 * write doorbells (gpu/backend.h, attach with io). */
	volatile uint8_t *bar;
	size_t bar_bytes;
	bool bar_is_memory; /* host memory that a thread polls (soft), not a device's registers */
	bool keeps_no_data; /* what is written is gone (soft:null): for measuring only */
	void *impl;	    /* the transport's own */
};

/*
 * From now on pci: and vfio: may take a controller from the kernel's nvme driver, if nobody
 * uses its disks, and give it back at close (pci/bind.h). Otherwise one that has a driver is refused.
 */
void hr_transport_allow_bind(void);

/*
 * What this process opens its ssds for, from now on: an image that is not there is made, with size=
 * (the default); it must be there; or it, and a disk of kernel:, is opened for reading only, and the
 * namespace is write protected.
 */
enum hr_transport_access { HR_ACCESS_CREATE, HR_ACCESS_EXISTING, HR_ACCESS_READ };
void hr_transport_set_access(enum hr_transport_access access);
enum hr_transport_access hr_transport_access(void);

/* Register access of the width the specification demands; all ones means: the device is gone. */
static inline uint32_t hr_reg_read32(const struct hr_transport *t, uint32_t offset)
{
	return __atomic_load_n((const volatile uint32_t *)(t->bar + offset), __ATOMIC_ACQUIRE);
}

static inline uint64_t hr_reg_read64(const struct hr_transport *t, uint32_t offset)
{
	return __atomic_load_n((const volatile uint64_t *)(t->bar + offset), __ATOMIC_ACQUIRE);
}

static inline void hr_reg_write32(struct hr_transport *t, uint32_t offset, uint32_t value)
{
	__atomic_store_n((volatile uint32_t *)(t->bar + offset), value, __ATOMIC_RELEASE);
}

static inline void hr_reg_write64(struct hr_transport *t, uint32_t offset, uint64_t value)
{
	__atomic_store_n((volatile uint64_t *)(t->bar + offset), value, __ATOMIC_RELEASE);
}

#endif
