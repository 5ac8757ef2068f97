/*
 * nvme/transport_vfio.h - the transport of controllers through the kernel's VFIO (nvme/transports.h).
 */
#ifndef NVME_TRANSPORT_VFIO_H
#define NVME_TRANSPORT_VFIO_H

#include "config/error.h"
#include "nvme/transport.h"

/* Through the kernel's vfio-pci and a type1 IOMMU container, shared by all ssds of the process. */
int hr_vfio_open(struct hr_transport *t, const char *address, struct hr_error *e);

#endif
