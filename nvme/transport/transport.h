/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nvme/transport/transport.h - access to a controller.
 *
 * A transport gives the driver two things: the controller's registers and doorbells as memory
 * (BAR0, NVMe over PCIe Transport), and windows through which the controller can access regions.
 * The code above a transport is the same for soft, pci and vfio.
 *
 * boot/engine/devices opens a transport by the prefix of a device string.
 */
#ifndef NVME_TRANSPORT_TRANSPORT_H
#define NVME_TRANSPORT_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/base/error.h"
#include "nvme/dma/region.h"

/* Doorbells begin here in BAR0 (PCIe Transport 3.1.2). */
#define HR_DOORBELLS 0x1000u

struct hr_transport;

struct hr_transport_ops {
	/* Let the controller read and write the region at its bus addresses. 0; -ENOSPC: no
	 * window left; -EEXIST: overlaps a window; -EIO and other errors of the host's IOMMU. */
	int (*map)(struct hr_transport *t, const struct hr_region *region, struct hr_error *e);
	/* Close the window. No command in flight may use it. */
	void (*unmap)(struct hr_transport *t, const struct hr_region *region);
	/*
	 * From now on the controller must not access memory. Through the configuration space, which
	 * may answer when the registers do not: bus mastering goes off; for_good: also close() does
	 * not restore it, because the controller may still run. 0; -ENODEV: the
	 * configuration space does not answer either, so the function is gone; -EIO: bus mastering
	 * stays on.
	 */
	int (*silence)(struct hr_transport *t, bool for_good);
	/* As hr_transport_set_idle(). NULL: the controller is a device, which needs no CPU time. */
	void (*rest)(struct hr_transport *t, bool resting);
	/* Before close(): remove the image, if open() has made it. NULL: there is no image. */
	void (*discard)(struct hr_transport *t);
	/* Release all resources of open(), after the driver has shut the controller down. */
	void (*close)(struct hr_transport *t);
};

enum hr_transport_kind { HR_TRANSPORT_SOFT, HR_TRANSPORT_PCI, HR_TRANSPORT_VFIO };

struct hr_transport {
	const struct hr_transport_ops *ops;
	enum hr_transport_kind kind; /* PCI, VFIO: name is the PCI address */
	uint16_t vendor, device;     /* of the PCI function, for nvme/quirks.h; 0: there is none */
	char name[48];		     /* as in messages: "soft:ssd.img", "0000:41:00.0" */
	/* BAR0 in this process, page aligned. A backend maps it for workers, which write
	 * doorbells (gpu/backend.h, attach with io). */
	volatile uint8_t *bar;
	size_t bar_bytes;
	bool bar_is_memory; /* host memory that a thread polls (soft), not registers of a device */
	bool keeps_no_data; /* writes are discarded (soft:null): for measurements only */
	void *impl;	    /* private data of the transport */
};

/*
 * From now on pci: and vfio: may take a controller from the kernel's nvme driver when its disks are
 * not in use, and give it back at close (pci/bind.h). Without this call a controller with a driver
 * is refused.
 */
void hr_transport_allow_bind(void);

/*
 * How this process opens its ssds from now on. CREATE (the default; of the commands only `store
 * format` uses it): a missing image is created, with the size of size=. EXISTING: a missing image is
 * an error. READ: images, and disks of kernel:, are opened read-only, and the namespace is write
 * protected.
 */
enum hr_open_mode { HR_OPEN_CREATE, HR_OPEN_EXISTING, HR_OPEN_READ_ONLY };
void hr_open_mode_set(enum hr_open_mode access);
enum hr_open_mode hr_open_mode(void);

/*
 * resting: from now on the host and its workers write no doorbell and no register, so the threads of
 * a software controller may sleep when they have no work; commands that are in flight end first.
 * Registers can be read, and windows opened and closed. Not resting (the state after open): the threads
 * poll again. A second call with the same value does nothing.
 */
static inline void hr_transport_set_idle(struct hr_transport *t, bool resting)
{
	if (t->ops->rest)
		t->ops->rest(t, resting);
}

/* Register access of the width that the specification requires. All ones: the device is gone. */
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
