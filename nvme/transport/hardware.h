/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nvme/transport/hardware.h - the transports of hardware: by physical addresses, and through VFIO.
 */
#ifndef NVME_TRANSPORT_HARDWARE_H
#define NVME_TRANSPORT_HARDWARE_H

#include "nvme/transport/transport.h"
#include "pci/bind.h"
#include "pci/function.h"
#include "config/base/error.h"

/*
 * address is a PCI function as the user wrote it. Return values as for
 * hr_transport_open(), and -EBUSY: a kernel driver or another process uses the function; -EIO,
 * -EPERM of the host.
 */

/* Find the function and refuse any other device than an NVMe controller (-ENODEV). */
int hr_nvme_function(const char *address, struct hr_function_state *state, struct hr_error *e);

/*
 * Make sure that `driver` (NULL: no driver) is bound to the function, and update *state. When it is
 * not, and binding is allowed and the controller's disks are not in use, bind it with hr_bind().
 * *binding records the change for hr_bind_undo(). 0; -EBUSY: another driver, or a disk in use; or
 * as hr_bind().
 */
int hr_nvme_bind(struct hr_binding *binding, struct hr_function_state *state, const char *driver,
		 struct hr_error *e);

/* Check that registers are accessible: BAR0 large enough, VS neither zero nor all ones. 0 or
 * -ENODEV. */
int hr_nvme_registers(const struct hr_transport *t, struct hr_error *e);

/* ---- the transport of controllers by physical addresses */

/* Physical addresses: needs no kernel driver, no translation by an IOMMU, and root. */
int hr_pci_open(struct hr_transport *t, const char *address, struct hr_error *e);

/* ---- the transport of controllers through the kernel's VFIO */

/* Through the kernel's vfio-pci and a type1 IOMMU container, shared by all ssds of the process. */
int hr_vfio_open(struct hr_transport *t, const char *address, struct hr_error *e);

#endif
