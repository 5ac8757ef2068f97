/*
 * nvme/transport/transport_vfio.h - the transport of controllers through the kernel's VFIO
 * (nvme/transport/hardware.h).
 */
#ifndef NVME_TRANSPORT_TRANSPORT_VFIO_H
#define NVME_TRANSPORT_TRANSPORT_VFIO_H

#include "config/base/error.h"
#include "nvme/transport/transport.h"

/* Through the kernel's vfio-pci and a type1 IOMMU container, shared by all ssds of the process. */
int hr_vfio_open(struct hr_transport *t, const char *address, struct hr_error *e);

#endif
