/*
 * nvme/transport_pci.h - the transport of controllers by physical addresses (nvme/transports.h).
 */
#ifndef NVME_TRANSPORT_PCI_H
#define NVME_TRANSPORT_PCI_H

#include "config/error.h"
#include "nvme/transport.h"

/* Physical addresses: needs no kernel driver, no translation by an IOMMU, and root. */
int hr_pci_open(struct hr_transport *t, const char *address, struct hr_error *e);

#endif
