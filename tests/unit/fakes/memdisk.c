/* SPDX-License-Identifier: Apache-2.0 */
/* The disk in memory, on which tests of the object store rely for power cuts. */
#include "tests/fakes/memdisk.h"

#include <criterion/criterion.h>
#include <string.h>

#define BYTES 65536u
#define PAGE 4096u

static struct memdisk disk;

static void up(void)
{
	memdisk_init(&disk, BYTES, 512);
}

static void down(void)
{
	memdisk_fini(&disk);
}

TestSuite(memdisk, .init = up, .fini = down, .timeout = 60);

static void put(uint64_t at, uint8_t value, size_t bytes)
{
	uint8_t data[BYTES];

	memset(data, value, sizeof data);
	cr_assert_eq(disk.blk.ops->write(&disk.blk, at, data, bytes, false, NULL), 0);
}

/* Expect these bytes, and no others, after a read of that range into memory with other contents. */
static void expect(const struct memdisk *of, uint64_t at, size_t bytes, const uint8_t *want)
{
	struct hr_blk blk = of->blk;
	uint8_t got[BYTES + 1];

	memset(got, 0xee, sizeof got);
	cr_assert_eq(blk.ops->read(&blk, at, got, bytes, NULL), 0);
	cr_expect_eq(memcmp(got, want + at, bytes), 0, "%zu bytes at %llu", bytes,
		     (unsigned long long)at);
	cr_expect_eq(got[bytes], 0xee);
}

Test(memdisk, reads_return_what_was_written_and_zeros_elsewhere)
{
	static const struct {
		uint64_t at;
		size_t bytes;
	} row[] = { { 0, BYTES },
		    { 3 * PAGE, PAGE },
		    { 3 * PAGE - 512, 1024 },
		    { 3 * PAGE + 512, 512 },
		    { 4 * PAGE, 512 },
		    { 5 * PAGE, BYTES - 5 * PAGE } };
	static uint8_t want[BYTES];

	memset(want + 3 * PAGE + 512, 0x11, 1024);
	memset(want + 9 * PAGE - 512, 0x22, 1024);
	put(3 * PAGE + 512, 0x11, 1024);
	put(9 * PAGE - 512, 0x22, 1024);
	disk.seen[BYTES - 1] = want[BYTES - 1] = 0x33; /* a test may write there, too */
	for (size_t i = 0; i < sizeof row / sizeof *row; i++)
		expect(&disk, row[i].at, row[i].bytes, want);
}

Test(memdisk, only_flushed_data_survive_a_power_cut)
{
	static uint8_t want[BYTES];

	memset(want + PAGE, 0x11, 512);
	put(PAGE, 0x11, 512);
	cr_assert_eq(disk.blk.ops->flush(&disk.blk, NULL), 0);
	put(PAGE, 0x22, 512);	  /* over flushed data */
	put(5 * PAGE, 0x22, 512); /* in a page without any */
	memdisk_power_on(&disk);
	expect(&disk, 0, BYTES, want);
}

Test(memdisk, a_copy_has_all_written_data_and_none_of_its_own)
{
	static uint8_t want[BYTES];
	struct memdisk copy;

	memset(want + PAGE, 0x11, 512);
	put(PAGE, 0x11, 512);
	memdisk_init(&copy, BYTES, 512);
	copy.media[7 * PAGE] = 0x77;
	memdisk_copy(&copy, &disk);
	expect(&copy, 0, BYTES, want);
	memdisk_fini(&copy);
}
