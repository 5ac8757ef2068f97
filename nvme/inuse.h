/*
 * nvme/inuse.h - is anybody using a disk that the kernel offers?
 *
 * Used means: the disk or one of its partitions is mounted, swapped on, part of something stacked on
 * it (md, dm, loop), exported by nvmet, claimed by the kernel in any other way, or open in any
 * process. Reads only.
 */
#ifndef NVME_INUSE_H
#define NVME_INUSE_H

/*
 * Block device by its kernel name ("nvme0n1") with its partitions. 0: nobody uses it; -EBUSY, with
 * who and how in message (HR_LOG_LINE_MAX bytes); -EACCES: not root, who may not see the files of
 * other users' processes; -ENOENT: there is none;
 * -ENODEV: it cannot be told, because /dev has no node for it.
 */
int hr_disk_unused(const char *name, char *message);

/* The same for every disk of the NVMe controller at this PCI address. 0 when it has none. */
int hr_controller_unused(const char *bdf, char *message);

#endif
