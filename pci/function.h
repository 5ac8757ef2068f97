/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pci/function.h - one PCI function of this machine: its facts from sysfs, and taking it over.
 *
 * Reading facts needs no rights. Opening needs root: it locks the function against other headrace
 * processes. hr_function_close() restores everything that was changed after the opening (memory
 * decoding, bus mastering, the kernel's enable count). When this process dies with the function
 * open, the undo helper turns bus mastering off before the memory can be reused (pci/undo.h).
 */
#ifndef PCI_FUNCTION_H
#define PCI_FUNCTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/base/error.h"
#include "pci/topo/fields.h"
#include "pci/topo/model.h"

#define HR_CLASS_NVME 0x010802u /* mass storage, non-volatile memory, NVM Express I/O controller */
#define HR_NO_GROUP (-1)

/* Facts from sysfs. */
struct hr_function_state {
	char bdf[HR_BDF_MAX];	 /* with its domain */
	uint32_t class;		 /* 24 bits */
	uint16_t vendor, device; /* 0: not readable */
	char driver[64];	 /* "": no driver is bound */
	int group;		 /* IOMMU group, or HR_NO_GROUP */
	char group_type[16];	 /* "identity", "DMA", "DMA-FQ", ...; "": not readable */
};

/* 0; -EINVAL: not an address; -ENOENT: no such function. */
int hr_function_look(const char *address, struct hr_function_state *state, struct hr_error *e);

/*
 * True when the command register enables bus mastering. False also for a function that is missing
 * or does not answer, or whose register is not readable. Changes nothing.
 */
bool hr_function_masters_bus(const char *address);

/*
 * True when an IOMMU translates the addresses that the function puts on the bus, so that it cannot
 * use physical addresses: the function has a group, and the group's domain is not the identity.
 */
bool hr_function_translated(const struct hr_function_state *state);

struct pci_device;

struct hr_function {
	char bdf[HR_BDF_MAX];
	struct pci_device *dev;
	int lock;	  /* descriptor of the lock */
	bool virtual;	  /* an SR-IOV virtual function: no BARs and no memory enable of its own */
	uint16_t command; /* command register at the time of opening */
	bool changed;	  /* the register may differ from `command` */
	bool counted;	  /* the kernel's enable count includes this process */
	int undo[2];	  /* undo steps, for when this process dies */
};

/*
 * Only lock the function at bdf, as hr_function_open() does; closing *fd unlocks it. Waits up to
 * one second for the undo helper of a process that has died. 0; -EACCES: not root; -EBUSY: another
 * process has the lock; -ENOENT: no such function; -errno of open(2).
 */
int hr_function_lock(const char *bdf, int *fd, struct hr_error *e);

/*
 * Open the function at bdf (an address from hr_function_look()) and lock it.
 * 0; -EACCES: not root; -EBUSY: another process has it; -ENODEV: it is gone, or there is no PCI access.
 */
int hr_function_open(struct hr_function *f, const char *bdf, struct hr_error *e);

/*
 * Restore everything. The caller has unmapped all BARs. Does nothing for a struct that is all zero.
 */
void hr_function_close(struct hr_function *f);

/*
 * Power the function up and set bits of its command register: HR_COMMAND_MSE, HR_COMMAND_BME. In a
 * virtual function MSE is hardwired to 0; VF MSE of its physical function decides. With bus
 * mastering, INTx is turned off. 0; -EBUSY: a kernel driver is bound; -EIO: the bits do not stay
 * set, or the undo helper cannot be started; -ENODEV.
 */
int hr_function_enable(struct hr_function *f, uint16_t bits, struct hr_error *e);

/*
 * Clear bus mastering; for_good: hr_function_close() does not set it again. 0; -ENODEV: the
 * configuration space does not answer: the function is gone; -EIO: the bit stays set.
 */
int hr_function_stop_dma(struct hr_function *f, bool for_good);

/*
 * The memory BAR through which peers reach the device's memory: the largest one, prefetchable BARs
 * first. 0 when there is no memory BAR.
 */
unsigned hr_function_peer_bar(const struct hr_function *f);

/* A memory BAR, mapped into this process. */
struct hr_bar_map {
	void *cpu;
	uint64_t bus; /* address on the bus, from the BAR register */
	size_t bytes;
};

/*
 * Map memory BAR `bar` (0..5), uncached. HR_COMMAND_MSE is set.
 * 0; -ENXIO: no such BAR, an I/O BAR, or no address assigned; -EBUSY: a kernel driver owns it; -ENOMEM.
 */
int hr_function_map(struct hr_function *f, unsigned bar, struct hr_bar_map *map,
		    struct hr_error *e);
void hr_function_unmap(struct hr_function *f, struct hr_bar_map *map);

#endif
