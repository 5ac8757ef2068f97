/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/engine/devices/foreign_data.h"

#include <blkid/blkid.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "config/base/process.h"
#include "cache/store/store.h"

#define PIECE (256u << 10)
#define SIGNATURE 0 /* of blkid_do_safeprobe() */
#define NOTHING 1
#define AMBIVALENT (-2)

/* Copy [from, to) of the disk to the same offset of the file. -EINTR: a signal requests a stop. */
static int copy_foreign(struct hr_blk *blk, int fd, uint64_t from, uint64_t to, uint8_t *piece,
			struct hr_error *e)
{
	int err = 0;

	for (uint64_t at = from; !err && at < to; at += PIECE) {
		const size_t bytes = to - at < PIECE ? (size_t)(to - at) : PIECE;

		err = hr_signals_pending() ? -EINTR : blk->ops->read(blk, at, piece, bytes, e);
		if (!err && pwrite(fd, piece, bytes, (off_t)at) != (ssize_t)bytes)
			err = -ENOMEM;
	}
	return err;
}

/* Copy both ends of the disk to a sparse file of the same size. */
static int copy_ends(struct hr_blk *blk, int fd, uint8_t *piece, struct hr_error *e)
{
	uint64_t head,
		tail = blk->bytes > HR_FOREIGN_DATA_TAIL ? blk->bytes - HR_FOREIGN_DATA_TAIL : 0;
	int err = hr_store_reserved(blk, &head, piece, e);

	if (err)
		return err;
	if (head)
		tail = blk->bytes;
	else
		head = HR_FOREIGN_DATA_HEAD;
	head = head < blk->bytes ? head : blk->bytes;
	tail = tail / blk->block_bytes * blk->block_bytes;
	err = copy_foreign(blk, fd, 0, head, piece, e);
	return err ? err : copy_foreign(blk, fd, tail > head ? tail : head, blk->bytes, piece, e);
}

static const char *probe_value(blkid_probe probe, const char *name)
{
	const char *data;

	return blkid_probe_lookup_value(probe, name, &data, NULL) == 0 ? data : NULL;
}

static void describe_signature(blkid_probe probe, char *text)
{
	const char *type = probe_value(probe, "TYPE"), *table = probe_value(probe, "PTTYPE"),
		   *label = probe_value(probe, "LABEL");

	if (type && table)
		snprintf(text, HR_FOREIGN_DATA_TEXT, "%.40s and a partition table (%.20s)", type,
			 table);
	else if (type)
		snprintf(text, HR_FOREIGN_DATA_TEXT, "%.40s%s%.40s%s", type, label ? " '" : "",
			 label ? label : "", label ? "'" : "");
	else
		snprintf(text, HR_FOREIGN_DATA_TEXT, "a partition table (%.20s)",
			 table ? table : "?");
	/* A label may contain any bytes. */
	for (char *at = text; *at; at++)
		if ((unsigned char)*at < ' ' || (unsigned char)*at > '~')
			*at = '?';
}

static int probe_signatures(blkid_probe probe, char *text)
{
	switch (blkid_do_safeprobe(probe)) {
	case NOTHING:
		return 0;
	case SIGNATURE:
		describe_signature(probe, text);
		return -EEXIST;
	case AMBIVALENT:
		snprintf(text, HR_FOREIGN_DATA_TEXT, "signatures of several file systems");
		return -EEXIST;
	default:
		return -EIO;
	}
}

static int probe_file(int fd, uint32_t block_bytes, char *text)
{
	blkid_probe probe = blkid_new_probe();
	int err;

	if (!probe)
		return -ENOMEM;
	if (blkid_probe_set_device(probe, fd, 0, 0) ||
	    blkid_probe_set_sectorsize(probe, block_bytes) ||
	    blkid_probe_enable_superblocks(probe, 1) ||
	    blkid_probe_set_superblocks_flags(probe, BLKID_SUBLKS_TYPE | BLKID_SUBLKS_LABEL |
							     BLKID_SUBLKS_BADCSUM) ||
	    blkid_probe_enable_partitions(probe, 1) ||
	    blkid_probe_set_partitions_flags(probe, BLKID_PARTS_FORCE_GPT))
		err = -ENOMEM;
	else
		err = probe_signatures(probe, text);
	blkid_free_probe(probe);
	return err;
}

int hr_foreign_data_find(struct hr_blk *blk, char *text, struct hr_error *e)
{
	uint8_t *piece = aligned_alloc(HR_PAGE, PIECE);
	int fd = memfd_create("headrace-guard", MFD_CLOEXEC), err = -ENOMEM;

	*text = '\0';
	if (piece && fd >= 0 && ftruncate(fd, (off_t)blk->bytes) == 0)
		err = copy_ends(blk, fd, piece, e);
	if (!err) {
		err = probe_file(fd, blk->block_bytes, text);
		if (err == -EIO)
			hr_fail(e, HR_ERROR_FAILED, err,
				"%s: cannot identify the contents of the disk: libblkid fails",
				blk->name);
	}
	if (err == -ENOMEM)
		hr_fail(e, HR_ERROR_MISSING, err,
			"%s: out of memory while identifying the contents of the disk", blk->name);
	if (fd >= 0)
		close(fd);
	free(piece);
	return err;
}
