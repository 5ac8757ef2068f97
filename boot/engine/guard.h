/*
 * boot/engine/guard.h - is there something on a disk that its owner would miss?
 *
 * The only user of libblkid, which knows the marks of file systems, partition tables, RAID, LVM,
 * LUKS, swap and so on. It is shown a copy of the first HR_GUARD_HEAD and the last HR_GUARD_TAIL
 * bytes, read through whatever reaches the disk. Of a disk with a store of ours it sees the reserved
 * area only: objects may hold anything.
 */
#ifndef BOOT_ENGINE_GUARD_H
#define BOOT_ENGINE_GUARD_H

#include "nvme/blk.h"

#define HR_GUARD_HEAD (8u << 20)
#define HR_GUARD_TAIL (1u << 20)
#define HR_GUARD_TEXT 128u

/*
 * 0: blank, a store, or nothing that anybody knows; -EEXIST: what it is in text[HR_GUARD_TEXT], as
 * in "an ext4 file system"; -EINTR: a signal asked to stop; -ENOMEM, -EIO: the
 * library fails, or the error of reading, which is logged.
 */
int hr_guard_look(struct hr_blk *blk, char *text);

#endif
