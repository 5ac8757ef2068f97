/*
 * boot/engine/devices.h - device strings of a configuration: what they name, and opening it.
 */
#ifndef BOOT_ENGINE_DEVICES_H
#define BOOT_ENGINE_DEVICES_H

#include <stdbool.h>
#include <stdint.h>

#include "gpu/backend.h"
#include "nvme/transport.h"

/*
 * Reach the controller that a configuration's device string names:
 *   soft:PATH|memory|null[,size=1G][,lba=512|4096][,mdts=8][,cache=16M][,threads=1][,cpus=2-5]
 *     [,populate=0|1][,namespaces=1][,faults=FILE]
 *   pci:BDF  vfio:BDF
 * Fills *t; message (of HR_LOG_LINE_MAX bytes) says what is wrong, and what to do, on error.
 * Returns 0; -EINVAL: malformed string; -ENOENT, -EACCES, -ENODEV: no such file or device; -EBUSY:
 * a kernel driver or another process has it; -ENOTSUP: an IOMMU stands in the way; -EPERM, -ENOMEM,
 * -ENXIO, -EIO: the kernel or the device does not let us.
 */
int hr_transport_open(struct hr_transport *t, const char *device, char *message);

/* The same, for a string that only has to be well formed. 0 or -EINVAL, with message. */
int hr_transport_check(const char *device, char *message);

/*
 * True when nothing of that name is there now: no such image, or no such PCI function. It may come
 * later. False says only that opening it may work.
 */
bool hr_transport_is_absent(const char *device);

/* Namespaces of the soft controller that a string names; 0: it names another kind, or is malformed. */
uint32_t hr_transport_namespaces(const char *device);

/* True when the controller that a string names is a PCI function, and may master the bus: its command
 * register says so. The register is read through the kernel; nothing is opened or changed. */
bool hr_transport_masters_bus(const char *device);

/* True when the controller that a string names drives physical addresses onto the bus: host memory
 * then has to have them (hr_hostmem_choose()). */
bool hr_transport_is_physical(const char *device);

/*
 * Open what a gpu device string names:
 *   host:CPUS              threads, parked: max_blocks of them, the most blocks of one launch, which
 *                          share CPUS of the CPUs that this process may use (all of them when CPUS
 *                          is more than there are)
 *   host:CPUS,bar=BDF[/N]  the same, and as memory of this "gpu" BAR N of the function at BDF (the
 *                          largest memory BAR): for controllers a peer, as GPU memory is
 *   cuda:N[,compressible]  GPU N of the driver; compressible: memory that the GPU compresses itself,
 *                          and that no other device can reach
 *   auto                   the first GPU that can be used, else all CPUs
 * message (HR_LOG_LINE_MAX bytes) says what is wrong, or what was chosen and why when that is not
 * plainly what was asked for, or nothing. -EINVAL: malformed; -ENODEV: no driver, no such GPU; with a
 * BAR also as hr_barmem_open();
 * -ENOTSUP: this build, the driver or the GPU lacks what is needed; -EIO: the GPU or its driver
 * fails; -ENOMEM; -EAGAIN: no threads.
 */
int hr_backend_open(struct hr_backend *b, const char *device, uint32_t max_blocks, char *message);

/* The string only has to be well formed. 0 or -EINVAL, with message. */
int hr_backend_check(const char *device, char *message);

#endif
