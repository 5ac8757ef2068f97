/*
 * nvme/blk_kernel.h - a disk through the kernel's block device, for host commands only.
 *
 * O_DIRECT, so that what is read comes from the disk and not from what the kernel remembers of it;
 * fua is RWF_DSYNC, flush is fdatasync(). The disk is opened exclusively and refused while anybody
 * uses it (nvme/inuse.h). Errors of I/O are -EIO and the like, logged.
 */
#ifndef NVME_BLK_KERNEL_H
#define NVME_BLK_KERNEL_H

#include "nvme/blk.h"

struct hr_kernel_blk {
	struct hr_blk blk;
	int fd; /* valid while blk.ops is set */
	char path[64];
	char serial[64]; /* "" when the kernel does not know one */
	uint8_t *piece;	 /* aligned memory that data goes through */
};

/*
 * Open the block device at path. 0; -ENOENT; -ENODEV: no block device, a partition, a zoned disk, or
 * blocks of another size than 512 and 4096; -EBUSY: in use; -EACCES; -ENOMEM. message
 * (HR_LOG_LINE_MAX bytes) says what is wrong.
 */
int hr_kernel_blk_open(struct hr_kernel_blk *disk, const char *path, char *message);
/* Nothing for a struct that is all zero. */
void hr_kernel_blk_close(struct hr_kernel_blk *disk);

#endif
