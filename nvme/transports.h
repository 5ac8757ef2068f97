/*
 * nvme/transports.h - transports of hardware, for nvme/transport.c. Use hr_transport_open().
 *
 * address is a PCI function as the user wrote it. Returns and message as hr_transport_open() has
 * them, and -EBUSY: a kernel driver or another process has the function; -EIO, -EPERM of the host.
 */
#ifndef NVME_TRANSPORTS_H
#define NVME_TRANSPORTS_H

#include "nvme/transport.h"
#include "pci/bind.h"
#include "pci/function.h"

/* Physical addresses: no kernel driver, no translation by an IOMMU, root. */
int hr_pci_open(struct hr_transport *t, const char *address, char *message);

/* Through the kernel's vfio-pci and a type1 IOMMU container, which all ssds of the process share. */
int hr_vfio_open(struct hr_transport *t, const char *address, char *message);

/* Find the function and refuse what is no NVMe controller (-ENODEV). */
int hr_nvme_function(const char *address, struct hr_function_state *state, char *message);

/*
 * See to it that `driver` is bound to the function, or none for NULL, and update *state: as it is,
 * or by hr_bind() where that is allowed and nobody uses the controller's disks. *binding is what
 * to undo. 0; -EBUSY: another driver, or a disk in use; or as hr_bind().
 */
int hr_nvme_bind(struct hr_binding *binding, struct hr_function_state *state, const char *driver,
		 char *message);

/* Registers that are there: BAR0 large enough, VS neither zero nor all ones. 0 or -ENODEV. */
int hr_nvme_registers(const struct hr_transport *t, char *message);

#endif
