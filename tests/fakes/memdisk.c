/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Both copies of the data are files in memory, whose holes are known: a store of some MiB has data in
 * few pages, and a page that is neither copied nor read takes no page fault.
 */
#include "tests/fakes/memdisk.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

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

/* Offset of the next byte of a file in a page with data (SEEK_DATA) or in a hole (SEEK_HOLE). */
static uint64_t next(int fd, uint64_t from, uint64_t end, int whence)
{
	const off_t at = lseek(fd, (off_t)from, whence);

	return at < 0 || (uint64_t)at > end ? end : (uint64_t)at;
}

static void copy_all(uint8_t *to, int to_fd, const uint8_t *from, int from_fd, uint64_t bytes)
{
	uint64_t at, hole;

	if (fallocate(to_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, (off_t)bytes) != 0)
		abort();
	for (at = 0; (at = next(from_fd, at, bytes, SEEK_DATA)) < bytes; at = hole) {
		hole = next(from_fd, at, bytes, SEEK_HOLE);
		memcpy(to + at, from + at, hole - at);
	}
}

static void copy_out(const struct memdisk *disk, uint64_t offset, uint8_t *data, size_t bytes)
{
	const uint64_t end = offset + bytes;
	uint64_t from, hole;

	for (uint64_t at = offset; at < end; at = hole) {
		from = next(disk->seen_fd, at, end, SEEK_DATA);
		hole = from < end ? next(disk->seen_fd, from, end, SEEK_HOLE) : end;
		memset(data + (at - offset), 0, from - at);
		memcpy(data + (from - offset), disk->seen + from, hole - from);
	}
}

void memdisk_power_on(struct memdisk *disk)
{
	copy_all(disk->seen, disk->seen_fd, disk->media, disk->media_fd, disk->blk.bytes);
	memset(disk->dirty, 0, sectors(disk) * sizeof(*disk->dirty));
	disk->off = false;
	disk->cut_at = disk->fail_at = 0;
	disk->reads = disk->writes = disk->flushes = 0;
}

void memdisk_copy(struct memdisk *to, const struct memdisk *from)
{
	copy_all(to->media, to->media_fd, from->seen, from->seen_fd, from->blk.bytes);
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
	copy_out(disk, offset, data, bytes);
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

/* At once, and durable: the worst case. */
static int disk_trim(struct hr_blk *blk, uint64_t offset, uint64_t bytes, struct hr_error *e)
{
	struct memdisk *disk = blk->impl;

	if (disk->off)
		return hr_fail(e, HR_ERROR_DEVICE, -ENODEV, "%s: is off", blk->name);
	memset(disk->seen + offset, 0xdb, bytes);
	memset(disk->media + offset, 0xdb, bytes);
	disk->trims++;
	disk->trimmed_bytes += bytes;
	return 0;
}

static const struct hr_blk_ops ops = {
	.read = disk_read, .write = disk_write, .flush = disk_flush, .trim = disk_trim
};

static uint8_t *make_file(int *fd, uint64_t bytes)
{
	void *memory;

	*fd = memfd_create("memdisk", MFD_CLOEXEC);
	if (*fd < 0 || ftruncate(*fd, (off_t)bytes) != 0)
		abort();
	memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
	if (memory == MAP_FAILED)
		abort();
	return memory;
}

void memdisk_init(struct memdisk *disk, uint64_t bytes, uint32_t block_bytes)
{
	memset(disk, 0, sizeof(*disk));
	disk->blk = (struct hr_blk){ .ops = &ops,
				     .name = "memdisk",
				     .bytes = bytes,
				     .block_bytes = block_bytes,
				     .volatile_cache = true,
				     .impl = disk };
	disk->media = make_file(&disk->media_fd, bytes);
	disk->seen = make_file(&disk->seen_fd, bytes);
	disk->dirty = calloc(sectors(disk), sizeof(*disk->dirty));
	if (!disk->dirty)
		abort();
}

void memdisk_fini(struct memdisk *disk)
{
	munmap(disk->media, disk->blk.bytes);
	munmap(disk->seen, disk->blk.bytes);
	close(disk->media_fd);
	close(disk->seen_fd);
	free(disk->dirty);
}
