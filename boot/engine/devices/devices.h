/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boot/engine/devices/devices.h - device strings of a configuration: parse and open them.
 */
#ifndef BOOT_ENGINE_DEVICES_DEVICES_H
#define BOOT_ENGINE_DEVICES_DEVICES_H

#include <stdbool.h>
#include <stdint.h>

#include "config/config.h"
#include "config/base/error.h"
#include "gpu/backend.h"
#include "nvme/transport/transport.h"

/*
 * Open the controller that a device string of the configuration names:
 *   soft:PATH|memory|null[,size=1G][,lba=512|4096][,mdts=8][,cache=16M][,threads=1][,cpus=2-5]
 *     [,populate=0|1][,namespaces=1][,faults=FILE], and more (nvme/soft/README.md)
 *   pci:BDF  vfio:BDF
 * Fills *t.
 * Returns 0; -EINVAL: malformed string; -ENOENT, -EACCES, -ENODEV: no such file or device; -EBUSY:
 * a kernel driver or another process uses it; -ENOTSUP: an IOMMU prevents it; -EPERM, -ENOMEM,
 * -ENXIO, -EIO: the kernel or the device refuses.
 */
int hr_transport_open(struct hr_transport *t, const char *device, struct hr_error *e);

/* Check only the form of the string. 0 or -EINVAL. */
int hr_transport_check(const char *device, struct hr_error *e);

/*
 * True when the device does not exist now: no such image, or no such PCI function. It may appear
 * later. False does not mean that it can be opened.
 */
bool hr_transport_is_absent(const char *device);

/*
 * Write what identifies the disk, whatever path or address form the string has: two strings of the
 * same disk give the same text. 0; -EINVAL: malformed; -ENODEV: soft:memory and soft:null exist in
 * their process only; -errno: the image cannot be looked at; -ENAMETOOLONG. On an error text is
 * "".
 */
int hr_transport_identity(const char *device, uint32_t nsid, char *text, size_t bytes);

/* Namespaces of the soft controller that a string names; 0: another kind, or malformed. */
uint32_t hr_transport_namespaces(const char *device);

/* True when the controller that a string names is a PCI function whose command register allows
 * it to master the bus. The register is read through the kernel; nothing is opened or changed. */
bool hr_transport_masters_bus(const char *device);

/* True when the controller that a string names drives physical addresses onto the bus: host
 * memory then needs them (hr_hostmem_set_kind()). */
bool hr_transport_is_physical(const char *device);

/*
 * Open the backend that a gpu device string names:
 *   host:CPUS              max_blocks waiting threads (the maximum blocks of one launch), which
 *                          share CPUS of the CPUs that this process may use (all when CPUS is
 *                          larger)
 *   host:CPUS,bar=BDF[/N]  the same, with BAR N of the function at BDF as memory of this "gpu"
 *                          (default: the largest memory BAR): a peer for controllers, as GPU
 *                          memory is
 *   cuda:N[,compressible]  GPU N of the driver; compressible: memory that the GPU compresses, and
 *                          that no other device can access
 *   auto                   the first usable GPU, otherwise all CPUs
 * b->note has the choice and its reason when the result differs from the string.
 * -EINVAL: malformed; -ENODEV: no driver, no such GPU; with a BAR also as hr_barmem_open();
 * -ENOTSUP: this build, the driver or the GPU lacks a required feature; -EIO: the GPU or its
 * driver fails; -ENOMEM; -EAGAIN: no threads.
 */
int hr_backend_open(struct hr_backend *b, const char *device, uint32_t max_blocks,
		    struct hr_error *e);

/* Check only the form of the string. 0 or -EINVAL. */
int hr_backend_check(const char *device, struct hr_error *e);

/* True for a gpu that may be absent, or not ready, when the machine starts. */
bool hr_backend_may_come(const char *device);

/* 0; or -EAGAIN, with the reason in *e: it is not there yet. As hr_cuda_await(), for a process that
 * ends soon. */
int hr_backend_await(const char *device, struct hr_error *e);

/* Checks of device strings and operators, for the reader of the configuration. */
extern const struct hr_config_lookup hr_lookup;

#endif
