/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The limits of transfers of a synchronous disk, the texts for those beyond, and how long a command
 * is repeated.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "config/base/clock.h"
#include "config/base/log.h"
#include "nvme/blk.h"
#include "nvme/admin.h"
#include "nvme/identify.h"
#include "tests/fakes/clock.h"
#include "tests/fakes/ctrl.h"
#include "tests/harness/error.h"

#define ROWS(table) (sizeof(table) / sizeof(*(table)))

static struct fake_ctrl fake;
static struct hr_nvme_blk disk;
static uint8_t data[64 << 10];

static void setup(void)
{
	struct hr_ns ns;
	uint32_t got;

	hr_log_set_level(HR_LOG_ERROR);
	fake_ctrl_init(&fake);
	fake.id_ns.lbaf[0].ds = 12;
	fake.id_ns.nsze = FAKE_MEDIA >> 12;
	cr_assert_eq(fake_ctrl_open(&fake), 0);
	cr_assert_eq(hr_ctrl_identify_ns(&fake.ctrl, 1, &ns, NULL), 0);
	cr_assert_eq(hr_ctrl_set_queues(&fake.ctrl, 1, &got, NULL), 0);
	cr_assert_eq(hr_nvme_blk_open(&disk, &fake.ctrl, &ns, 1, &fake.region, HR_CTRL_ADMIN_BYTES,
				      HR_NS_PER_S, NULL),
		     0);
	fake.seen_count = 0;
}

static void teardown(void)
{
	fake_ctrl_fini(&fake);
}

TestSuite(blk_limits, .init = setup, .fini = teardown, .timeout = 60);

Test(blk_limits, whole_blocks_up_to_the_end_are_accepted)
{
	static const struct {
		uint64_t offset;
		size_t bytes;
		uint32_t block;
		uint64_t all;
		const char *want;
	} row[] = {
		{ 0, 0, 512, 4096, "" },
		{ 4096, 0, 512, 4096, "" },
		{ 0, 4096, 512, 4096, "" },
		{ 3584, 512, 512, 4096, "" },
		{ 1, 0, 512, 4096, "d: test of 0 bytes at 1: not whole blocks of 512" },
		{ 0, 1, 512, 4096, "d: test of 1 bytes at 0: not whole blocks of 512" },
		{ 256, 0, 512, 4096, "d: test of 0 bytes at 256: not whole blocks of 512" },
		{ 0, 2048, 4096, 8192, "d: test of 2048 bytes at 0: not whole blocks of 4096" },
		{ 3584, 1024, 512, 4096, "d: test of 1024 bytes at 3584: beyond the end at 4096" },
		{ 4608, 0, 512, 4096, "d: test of 0 bytes at 4608: beyond the end at 4096" },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		const struct hr_blk blk = { .name = "d",
					    .block_bytes = row[i].block,
					    .bytes = row[i].all };
		const int err =
			hr_blk_check(&blk, "test", row[i].offset, row[i].bytes, test_error());

		cr_expect_str_eq(test_error_text(), row[i].want, "row %zu: %s", i,
				 test_error_text());
		cr_expect_eq(err, !*row[i].want			  ? 0
				  : strstr(row[i].want, "beyond") ? -ERANGE
								  : -EINVAL);
		cr_expect_eq(test_error_kind(), *row[i].want ? HR_ERROR_FAILED : HR_ERROR_NONE);
	}
}

static int read_at(uint64_t offset, size_t bytes)
{
	return disk.blk.ops->read(&disk.blk, offset, data, bytes, test_error());
}

static int write_at(uint64_t offset, size_t bytes)
{
	return disk.blk.ops->write(&disk.blk, offset, data, bytes, false, test_error());
}

Test(blk_limits, texts_name_the_transfer)
{
	const struct hr_bus page = { 0x5000 };

	fake.io = true;
	fake.opcode = nvme_cmd_read;
	fake.lba = 3;
	fake.status = 0x281;
	fake.dnr = true;
	fake.times = 2;
	cr_expect_eq(read_at(3 * 4096, 4096), 0x281);
	cr_expect_not_null(strstr(test_error_text(), "fake: read of 1 block at LBA 3: "), "%s",
			   test_error_text());
	cr_expect_not_null(strstr(test_error_text(), " (281)"), "%s", test_error_text());
	cr_expect_eq(test_error_kind(), HR_ERROR_DEVICE);
	cr_expect_eq(read_at(3 * 4096, 3 * 4096), 0x281);
	cr_expect_not_null(strstr(test_error_text(), "fake: read of 3 blocks at LBA 3: "), "%s",
			   test_error_text());
	disk.blk.read_only = true;
	cr_expect_eq(write_at(8192, 4096), -EROFS);
	cr_expect_str_eq(test_error_text(),
			 "fake: write of 4096 bytes at 8192: the disk is read-only");
	cr_expect_eq(test_error_kind(), HR_ERROR_MISSING);
	cr_expect_eq(hr_nvme_blk_move(&disk, true, 4096, page, test_error()), -EROFS);
	cr_expect_str_eq(test_error_text(), "fake: write of a page at 4096: the disk is read-only");
	cr_expect_eq(write_at(8192, 4095), -EINVAL);
	cr_expect_str_eq(test_error_text(),
			 "fake: write of 4095 bytes at 8192: not whole blocks of 4096");
	cr_expect_eq(hr_nvme_blk_move(&disk, true, 4095, page, test_error()), -EINVAL);
	cr_expect_str_eq(test_error_text(),
			 "fake: write of 4096 bytes at 4095: not whole blocks of 4096");
	cr_expect_eq(hr_nvme_blk_move(&disk, false, FAKE_MEDIA, page, test_error()), -ERANGE);
	cr_expect_not_null(strstr(test_error_text(), "fake: read of 4096 bytes at "));
	cr_expect_eq(fake.seen_count, 2u);
}

/* From the first failure on: pauses of 1, 2, 4 ms must end within the time of the queue. */
Test(blk_limits, a_command_is_repeated_while_there_is_time)
{
	static const struct {
		uint64_t timeout_ns;
		uint32_t commands;
	} row[] = { { 999999, 1 },  { 1100000, 2 }, { 2900000, 2 },
		    { 3100000, 3 }, { 6900000, 3 }, { 7200000, 4 } };

	for (size_t i = 0; i < ROWS(row); i++) {
		fake.io = true;
		fake.opcode = nvme_cmd_read;
		fake.lba = 0;
		fake.status = 0x082;
		fake.times = 100;
		fake.seen_count = 0;
		disk.qp.timeout_ns = row[i].timeout_ns;
		cr_expect_eq(read_at(0, 4096), 0x082);
		cr_expect_eq(fake.seen_count, row[i].commands, "row %zu: %u", i, fake.seen_count);
	}
}
