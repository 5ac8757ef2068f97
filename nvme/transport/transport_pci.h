/*
 * nvme/transport/transport_pci.h - the transport of controllers by physical addresses
 * (nvme/transport/hardware.h).
 */
#ifndef NVME_TRANSPORT_TRANSPORT_PCI_H
#define NVME_TRANSPORT_TRANSPORT_PCI_H

#include "config/base/error.h"
#include "nvme/transport/transport.h"

/* Physical addresses: needs no kernel driver, no translation by an IOMMU, and root. */
int hr_pci_open(struct hr_transport *t, const char *address, struct hr_error *e);

#endif
