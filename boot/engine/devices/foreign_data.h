/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boot/engine/devices/foreign_data.h - find data on a disk that must not be overwritten by mistake.
 *
 * The only user of libblkid, which knows the signatures of file systems, partition tables, RAID,
 * LVM, LUKS, swap and others. It gets a copy of the first HR_FOREIGN_DATA_HEAD and the last
 * HR_FOREIGN_DATA_TAIL bytes, read through the transport of the disk. For a disk with an
 * object store the copy has only the reserved area, because objects may contain any data.
 */
#ifndef BOOT_ENGINE_DEVICES_FOREIGN_DATA_H
#define BOOT_ENGINE_DEVICES_FOREIGN_DATA_H

#include "config/base/error.h"
#include "nvme/blk.h"

#define HR_FOREIGN_DATA_HEAD (8u << 20)
#define HR_FOREIGN_DATA_TAIL (1u << 20)
#define HR_FOREIGN_DATA_TEXT 128u

/*
 * 0: blank, an object store, or no known signature; -EEXIST: data, described in
 * text[HR_FOREIGN_DATA_TEXT], such as "an ext4 file system"; -EINTR: a signal requests a stop; -ENOMEM,
 * -EIO: the library fails; or the error of a read.
 */
int hr_foreign_data_find(struct hr_blk *blk, char *text, struct hr_error *e);

#endif
