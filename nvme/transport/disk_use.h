/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nvme/transport/disk_use.h - find out whether a disk of the kernel is in use.
 *
 * A disk is in use when the disk or one of its partitions is mounted, used as swap, part of a
 * stacked device (md, dm, loop), exported by nvmet, claimed by the kernel in any other way, or open
 * in any process. Reads only.
 */
#ifndef NVME_TRANSPORT_DISK_USE_H
#define NVME_TRANSPORT_DISK_USE_H

#include "config/base/error.h"

/*
 * Check a block device, by its kernel name ("nvme0n1"), with its partitions. 0: not in use; -EBUSY:
 * the text names the user; -EACCES: not root, so the files of other users' processes cannot be
 * listed; -ENOENT: no such device; -ENODEV: unknown, because /dev has no node for the device; -errno:
 * unknown, because a file or folder of the kernel cannot be read. Only what is not there has no
 * users.
 */
int hr_disk_check_unused(const char *name, struct hr_error *e);

/* The same for every disk of the NVMe controller at this PCI address. 0 when it has no disk. */
int hr_disks_check_unused(const char *bdf, struct hr_error *e);

#endif
