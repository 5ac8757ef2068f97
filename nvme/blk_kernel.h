/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nvme/blk_kernel.h - a disk through the kernel's block device, for host commands only.
 *
 * Opened with O_DIRECT, so that reads come from the disk and not from the page cache. fua is
 * RWF_DSYNC, flush is fdatasync(). The disk is opened exclusively, and refused while it is in use
 * (nvme/transport/disk_use.h). I/O errors are -EIO, or -ENOMEM.
 */
#ifndef NVME_BLK_KERNEL_H
#define NVME_BLK_KERNEL_H

#include "config/base/error.h"
#include "nvme/blk.h"

struct hr_kernel_blk {
	struct hr_blk blk;
	int fd; /* valid while blk.ops is set */
	char path[64];
	char serial[64]; /* "" when the kernel reports none */
	uint8_t *piece;	 /* aligned memory that data goes through */
};

/*
 * Open the block device at path. 0; -ENOENT; -ENODEV: no block device, a partition, a zoned disk,
 * or blocks of another size than 512 and 4096; -EBUSY: in use; -EACCES; -ENOMEM.
 */
int hr_kernel_blk_open(struct hr_kernel_blk *disk, const char *path, struct hr_error *e);
/* Does nothing for a struct that is all zero. */
void hr_kernel_blk_close(struct hr_kernel_blk *disk);

#endif
