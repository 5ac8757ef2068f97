/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contents of a disk: marks at its beginning, in the middle of its first part, at its end; a store.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "boot/engine/devices/foreign_data.h"
#include "config/base/process.h"
#include "cache/store/store.h"
#include "tests/harness/store.h"

#define DISK_BYTES (24u << 20)

TestSuite(guard, .timeout = 60);

/* Replaces libc's function for libblkid; fails on request of a test. */
static bool reads_fail;

ssize_t read(int fd, void *to, size_t bytes)
{
	if (reads_fail) {
		errno = EIO;
		return -1;
	}
	return syscall(SYS_read, fd, to, bytes);
}

static struct memdisk disk;
static char text[HR_FOREIGN_DATA_TEXT];

static void put(uint64_t at, const void *bytes, size_t size)
{
	memcpy(disk.media + at, bytes, size);
	memcpy(disk.seen + at, bytes, size);
}

static void put32(uint64_t at, uint32_t value)
{
	put(at, &value, sizeof value);
}

static void swap(void)
{
	put32(1024, 1);	   /* version */
	put32(1028, 1000); /* last page */
	put(4086, "SWAPSPACE2", 10);
	put(1024 + 28, "spare\x1b", 6); /* label */
}

/* One partition of type 83h. */
static void dos_table(void)
{
	put32(446 + 4, 0x83);
	put32(446 + 8, 2048);
	put32(446 + 12, 4096);
	put32(508, 0xaa550000);
}

static void btrfs(void)
{
	const uint64_t total = 1ull << 30, at = 65536, sector = 4096;

	put(65536 + 64, "_BHRfS_M", 8);
	put(65536 + 48, &at, 8);
	put(65536 + 112, &total, 8);
	put(65536 + 144, &sector, 4); /* sector size */
}

/* Linux RAID, metadata 1.0: 8 KiB before the end. */
static void raid_at_end(void)
{
	const uint64_t at = DISK_BYTES - 8192, sectors = at / 512;

	put32(at, 0xa92b4efc);
	put32(at + 4, 1);
	put(at + 144, &sectors, 8);
}

static void two_systems(void)
{
	swap();
	btrfs();
}

static void nothing(void)
{
}

static void noise(void)
{
	for (uint32_t i = 0; i < DISK_BYTES; i += 4)
		put32(i, i * 2654435761u | 1);
}

static const struct {
	const char *name;
	void (*make)(void);
	int want;
	const char *say;
} rows[] = {
	{ "blank", nothing, 0, "" },
	{ "noise", noise, 0, "" },
	{ "swap", swap, -EEXIST, "swap 'spare?'" },
	{ "partition table", dos_table, -EEXIST, "a partition table (dos)" },
	{ "btrfs", btrfs, -EEXIST, "btrfs" },
	{ "RAID", raid_at_end, -EEXIST, "linux_raid_member" },
	{ "two", two_systems, -EEXIST, "signatures of several file systems" },
};

Test(guard, marks_are_found_at_every_position)
{
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		memdisk_init(&disk, DISK_BYTES, i % 2 ? 512 : 4096);
		rows[i].make();
		cr_expect_eq(hr_foreign_data_find(&disk.blk, text, NULL), rows[i].want, "%s: %s",
			     rows[i].name, text);
		cr_expect_str_eq(text, rows[i].say, "%s", rows[i].name);
		cr_expect_eq(disk.writes, 0);
		memdisk_fini(&disk);
	}
}

static void make_store(void)
{
	void *io =
		aligned_alloc(HR_PAGE, (hr_store_io_bytes(64) + HR_PAGE - 1) / HR_PAGE * HR_PAGE);

	cr_assert_eq(hr_store_format(&disk.blk, 64, false, io, NULL), 0);
	free(io);
}

Test(guard, a_store_is_accepted_with_any_data_in_its_objects)
{
	memdisk_init(&disk, DISK_BYTES, 512);
	make_store();
	cr_expect_eq(hr_foreign_data_find(&disk.blk, text, NULL), 0, "%s", text);
	raid_at_end(); /* data of an object */
	cr_expect_eq(hr_foreign_data_find(&disk.blk, text, NULL), 0, "%s", text);
	btrfs(); /* but in no object */
	cr_expect_eq(hr_foreign_data_find(&disk.blk, text, NULL), -EEXIST);
	cr_expect_str_eq(text, "btrfs");
	memdisk_fini(&disk);
}

/* mkswap does not change the second superblock, so the store can still be opened. */
Test(guard, an_overwritten_store_is_not_accepted)
{
	static struct fake_store f;

	fake_store_init(&f, 4096);
	fake_store_put(&f, "object", 4096);
	cr_expect_eq(hr_foreign_data_find(&f.disk.blk, text, NULL), 0, "%s", text);
	memcpy(f.disk.media + 4086, "SWAPSPACE2", 10);
	f.disk.media[1024] = f.disk.media[1028] = 1;
	cr_assert_eq(fake_store_reopen(&f), 0);
	cr_expect_eq(hr_foreign_data_find(&f.disk.blk, text, NULL), -EEXIST);
	cr_expect_str_eq(text, "swap");
	fake_store_fini(&f);
}

/* A disk whose contents cannot be identified is not blank. */
Test(guard, a_failure_of_libblkid_is_an_error)
{
	int err;

	memdisk_init(&disk, DISK_BYTES, 512);
	swap();
	reads_fail = true;
	err = hr_foreign_data_find(&disk.blk, text, NULL);
	reads_fail = false;
	cr_expect_eq(err, -EIO, "%s", text);
	cr_expect_eq(hr_foreign_data_find(&disk.blk, text, NULL), -EEXIST);
	memdisk_fini(&disk);
}

Test(guard, small_disks_are_read_and_bad_blocks_are_an_error)
{
	memdisk_init(&disk, 64 * HR_PAGE, 512);
	cr_expect_eq(hr_foreign_data_find(&disk.blk, text, NULL), 0);
	disk.fail_status = 0x281;
	disk.bad_from = 40 * HR_PAGE;
	disk.bad_to = disk.bad_from + 1;
	cr_expect_eq(hr_foreign_data_find(&disk.blk, text, NULL), 0x281);
	hr_signals_stop();
	cr_expect_eq(hr_foreign_data_find(&disk.blk, text, NULL), -EINTR);
	memdisk_fini(&disk);
}
