#include "tests/fakes/memdisk.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tests/harness/random.h"

static uint64_t sectors(const struct memdisk *disk)
{
	return disk->blk.bytes / MEMDISK_SECTOR;
}

/* By seed, all, none or about half of the cached sectors reach the media. */
void memdisk_cut(struct memdisk *disk)
{
	struct fake_random random = { (disk->seed + 1) * 0x9e3779b97f4a7c15u };
	const uint32_t mood = fake_random_below(&random, 4);

	for (uint64_t i = 0; i < sectors(disk); i++) {
		const uint64_t at = i * MEMDISK_SECTOR;

		if (disk->dirty[i] && (mood == 0 || (mood > 1 && fake_random_below(&random, 2))))
			memcpy(disk->media + at, disk->seen + at, MEMDISK_SECTOR);
	}
	disk->off = true;
}

void memdisk_power_on(struct memdisk *disk)
{
	memcpy(disk->seen, disk->media, disk->blk.bytes);
	memset(disk->dirty, 0, sectors(disk) * sizeof(*disk->dirty));
	disk->off = false;
	disk->cut_at = disk->fail_at = 0;
	disk->reads = disk->writes = disk->flushes = 0;
}

void memdisk_copy(struct memdisk *to, const struct memdisk *from)
{
	memcpy(to->media, from->seen, from->blk.bytes);
	memdisk_power_on(to);
}

static int check(const struct hr_blk *blk, uint64_t offset, size_t bytes, struct hr_error *e)
{
	const struct memdisk *disk = blk->impl;

	if (disk->off)
		return hr_fail(e, HR_ERROR_DEVICE, -ENODEV, "memdisk: is off");
	if ((offset | bytes) & (blk->block_bytes - 1))
		return -EINVAL;
	return offset > blk->bytes || bytes > blk->bytes - offset ? -ERANGE : 0;
}

static int disk_read(struct hr_blk *blk, uint64_t offset, void *data, size_t bytes,
		     struct hr_error *e)
{
	struct memdisk *disk = blk->impl;
	const int err = check(blk, offset, bytes, e);

	if (err)
		return err;
	disk->reads++;
	if (offset < disk->bad_to && offset + bytes > disk->bad_from)
		return hr_fail(e, HR_ERROR_DEVICE, disk->fail_status, "memdisk: the read fails");
	memcpy(data, disk->seen + offset, bytes);
	return 0;
}

static void make_durable(struct memdisk *disk, uint64_t offset, uint64_t bytes)
{
	memcpy(disk->media + offset, disk->seen + offset, bytes);
	memset(disk->dirty + offset / MEMDISK_SECTOR, 0,
	       bytes / MEMDISK_SECTOR * sizeof(*disk->dirty));
}

/* Result of this write or flush: 0, the planned error, or the cut. */
static int fate(struct memdisk *disk, struct hr_error *e)
{
	const uint64_t now = disk->writes + disk->flushes;

	if (now == disk->cut_at) {
		memdisk_cut(disk);
		return hr_fail(e, HR_ERROR_DEVICE, -ENODEV, "memdisk: the power is cut");
	}
	if (now != disk->fail_at)
		return 0;
	return hr_fail(e, HR_ERROR_DEVICE, disk->fail_status, "memdisk: the write fails");
}

static int disk_write(struct hr_blk *blk, uint64_t offset, const void *data, size_t bytes, bool fua,
		      struct hr_error *e)
{
	struct memdisk *disk = blk->impl;
	int err = check(blk, offset, bytes, e);

	if (!err && blk->read_only)
		err = -EROFS;
	if (err)
		return err;
	disk->writes++;
	memcpy(disk->seen + offset, data, bytes);
	memset(disk->dirty + offset / MEMDISK_SECTOR, 1,
	       bytes / MEMDISK_SECTOR * sizeof(*disk->dirty));
	err = fate(disk, e);
	if (!err && (fua || !blk->volatile_cache))
		make_durable(disk, offset, bytes);
	return err;
}

/* Disks are large, and few sectors are dirty. */
static void flush_dirty(struct memdisk *disk)
{
	const bool *end = disk->dirty + sectors(disk);
	bool *dirty = disk->dirty;

	while ((dirty = memchr(dirty, 1, (size_t)(end - dirty))))
		make_durable(disk, (uint64_t)(dirty - disk->dirty) * MEMDISK_SECTOR,
			     MEMDISK_SECTOR);
}

static int disk_flush(struct hr_blk *blk, struct hr_error *e)
{
	struct memdisk *disk = blk->impl;
	int err = disk->off ? -ENODEV : 0;

	if (err)
		return err;
	disk->flushes++;
	err = fate(disk, e);
	if (!err)
		flush_dirty(disk);
	return err;
}

static const struct hr_blk_ops ops = { .read = disk_read,
				       .write = disk_write,
				       .flush = disk_flush };

void memdisk_init(struct memdisk *disk, uint64_t bytes, uint32_t block_bytes)
{
	memset(disk, 0, sizeof(*disk));
	disk->blk = (struct hr_blk){ .ops = &ops,
				     .name = "memdisk",
				     .bytes = bytes,
				     .block_bytes = block_bytes,
				     .volatile_cache = true,
				     .impl = disk };
	disk->media = calloc(1, bytes);
	disk->seen = calloc(1, bytes);
	disk->dirty = calloc(sectors(disk), sizeof(*disk->dirty));
	if (!disk->media || !disk->seen || !disk->dirty)
		abort();
}

void memdisk_fini(struct memdisk *disk)
{
	free(disk->media);
	free(disk->seen);
	free(disk->dirty);
}
