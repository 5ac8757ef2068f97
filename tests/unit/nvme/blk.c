/* SPDX-License-Identifier: Apache-2.0 */
/* The synchronous disk: transfers of any size and place, and all results of a command. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "config/base/clock.h"
#include "config/base/log.h"
#include "nvme/blk.h"
#include "nvme/admin.h"
#include "nvme/identify.h"
#include "tests/fakes/clock.h"
#include "tests/fakes/ctrl.h"
#include "tests/harness/random.h"

#define ROWS(table) (sizeof(table) / sizeof(*(table)))
#define MEMORY_AT ((size_t)HR_CTRL_ADMIN_BYTES)
#define TIMEOUT_NS HR_NS_PER_S

static struct fake_ctrl fake;
static struct hr_nvme_blk disk;
static uint8_t *data, *back; /* FAKE_MEDIA bytes each */

static void setup(void)
{
	hr_log_set_level(HR_LOG_ERROR);
	fake_ctrl_init(&fake);
	data = calloc(1, FAKE_MEDIA);
	back = calloc(1, FAKE_MEDIA);
}

static void teardown(void)
{
	fake_ctrl_fini(&fake);
	free(data);
	free(back);
}

TestSuite(blk, .init = setup, .fini = teardown, .timeout = 60);

static int open_again(void)
{
	struct hr_ns ns;
	uint32_t got;

	cr_assert_eq(hr_ctrl_identify_ns(&fake.ctrl, 1, &ns, NULL), 0);
	cr_assert_eq(hr_ctrl_set_queues(&fake.ctrl, 1, &got, NULL), 0);
	return hr_nvme_blk_open(&disk, &fake.ctrl, &ns, 1, &fake.region, MEMORY_AT, TIMEOUT_NS,
				NULL);
}

static void open_disk(uint8_t lba_shift)
{
	fake.id_ns.lbaf[0].ds = lba_shift;
	fake.id_ns.nsze = FAKE_MEDIA >> lba_shift;
	cr_assert_eq(fake_ctrl_open(&fake), 0);
	cr_assert_eq(open_again(), 0);
	fake.seen_count = 0;
}

static int read_at(uint64_t offset, size_t bytes)
{
	return disk.blk.ops->read(&disk.blk, offset, back, bytes, NULL);
}

static int write_at(uint64_t offset, size_t bytes, bool fua)
{
	return disk.blk.ops->write(&disk.blk, offset, data, bytes, fua, NULL);
}

static void fill(uint8_t *bytes, size_t count, uint64_t seed)
{
	struct fake_random random = { seed };

	for (size_t i = 0; i < count; i++)
		bytes[i] = (uint8_t)fake_random_u64(&random);
}

static void spoil(uint8_t opcode, uint64_t lba, uint16_t status, uint32_t times)
{
	fake.io = true;
	fake.opcode = opcode;
	fake.lba = lba;
	fake.status = status;
	fake.times = times;
}

Test(blk, opening_describes_the_disk)
{
	fake.id_ctrl.vwc = 0;
	fake.id_ns.nsattr = 1;
	open_disk(9);
	cr_expect_eq(disk.blk.bytes, (uint64_t)FAKE_MEDIA);
	cr_expect_eq(disk.blk.block_bytes, 512u);
	cr_expect(!disk.blk.volatile_cache);
	cr_expect(disk.blk.read_only);
	cr_expect_str_eq(disk.blk.name, "fake");
	cr_expect_eq(disk.chunk, 128u << 10);
}

/* A page outside the disk's own buffers, which must not be changed. */
Test(blk, a_page_moves_to_and_from_any_address)
{
	const size_t at = 600 * (size_t)HR_PAGE; /* a page after the disk's memory */
	const struct hr_bus page = hr_region_bus(&fake.region, at);

	open_disk(9);
	fill(data, HR_PAGE, 7);
	cr_assert_eq(write_at(8192, HR_PAGE, false), 0);
	cr_assert_eq(hr_nvme_blk_move(&disk, false, 8192, page, NULL), 0);
	cr_expect_arr_eq(fake.memory + at, data, HR_PAGE);
	fill(fake.memory + at, HR_PAGE, 8);
	cr_assert_eq(hr_nvme_blk_move(&disk, true, 8192, page, NULL), 0);
	cr_assert_eq(read_at(8192, HR_PAGE), 0);
	cr_expect_arr_eq(fake.memory + at, back, HR_PAGE);
	cr_expect_eq(hr_nvme_blk_move(&disk, false, FAKE_MEDIA, page, NULL), -ERANGE);
	cr_expect_eq(hr_nvme_blk_move(&disk, true, 100, page, NULL), -EINVAL);
	disk.blk.read_only = true;
	cr_expect_eq(hr_nvme_blk_move(&disk, true, 8192, page, NULL), -EROFS);
	cr_expect_eq(hr_nvme_blk_move(&disk, false, 8192, page, NULL), 0);
}

Test(blk, memory_that_does_not_fit_is_refused)
{
	struct hr_ns ns;
	uint32_t got;
	struct hr_ctrl *ctrl = &fake.ctrl;
	const size_t last = fake.region.bytes - hr_nvme_blk_bytes();

	cr_assert_eq(fake_ctrl_open(&fake), 0);
	cr_assert_eq(hr_ctrl_identify_ns(ctrl, 1, &ns, NULL), 0);
	cr_assert_eq(hr_ctrl_set_queues(ctrl, 1, &got, NULL), 0);
	cr_expect_eq(hr_nvme_blk_open(&disk, ctrl, &ns, 1, &fake.region, 100, 1, NULL), -EINVAL);
	cr_expect_eq(hr_nvme_blk_open(&disk, ctrl, &ns, 1, &fake.region, last + HR_PAGE, 1, NULL),
		     -EINVAL);
	cr_expect_eq(
		hr_nvme_blk_open(&disk, ctrl, &ns, 1, &fake.region, SIZE_MAX & ~4095ul, 1, NULL),
		-EINVAL);
	cr_expect_eq(hr_nvme_blk_open(&disk, ctrl, &ns, 1, &fake.region, last, 0, NULL), -EINVAL);
	cr_expect_eq(hr_nvme_blk_open(&disk, ctrl, &ns, 2, &fake.region, last, 1, NULL), -EINVAL);
	cr_expect_eq(hr_nvme_blk_open(&disk, ctrl, &ns, 1, &fake.region, last, 1, NULL), 0);
}

Test(blk, written_data_are_read_back_at_any_place_and_size)
{
	static const struct {
		uint8_t lba_shift, mdts;
		uint32_t mqes; /* zero-based */
	} row[] = { { 12, 5, 63 }, { 9, 5, 63 }, { 9, 1, 63 },
		    { 12, 0, 63 }, { 12, 1, 1 }, { 9, 6, 7 } };

	for (size_t i = 0; i < ROWS(row); i++) {
		struct fake_random random = { 99 + 2 * i };
		const uint32_t block = 1u << row[i].lba_shift;
		uint8_t *model = calloc(1, FAKE_MEDIA);

		teardown();
		setup();
		fake.id_ctrl.mdts = row[i].mdts;
		fake_ctrl_set_cap(&fake, NVME_SET((uint64_t)row[i].mqes, CAP_MQES) |
						 NVME_SET((uint64_t)NVME_CAP_CSS_NVM, CAP_CSS));
		open_disk(row[i].lba_shift);
		for (uint32_t n = 0; n < 30; n++) {
			const uint32_t blocks = FAKE_MEDIA / block;
			const uint32_t at = fake_random_below(&random, blocks);
			const uint32_t most = n % 3 ? 4 : blocks - at;
			uint32_t count = 1 + fake_random_below(&random, most);

			count = count > blocks - at ? blocks - at : count;
			fill(data, (size_t)count * block, 7 + 2 * n);
			memcpy(model + (size_t)at * block, data, (size_t)count * block);
			cr_assert_eq(write_at((uint64_t)at * block, (size_t)count * block, false),
				     0);
		}
		cr_expect_eq(memcmp(fake.media, model, FAKE_MEDIA), 0, "row %zu: media", i);
		cr_assert_eq(read_at(0, FAKE_MEDIA), 0);
		cr_expect_eq(memcmp(back, model, FAKE_MEDIA), 0, "row %zu: read", i);
		cr_assert_eq(read_at(block, block), 0);
		cr_expect_eq(memcmp(back, model + block, block), 0, "row %zu: one block", i);
		free(model);
	}
}

Test(blk, several_commands_are_in_flight)
{
	open_disk(12);
	cr_assert_eq(read_at(0, 2u << 20), 0);
	cr_expect_eq(fake.io_queue.most_pending, HR_BLK_BUFFERS);
	cr_expect_eq(fake.seen_count, 16u);
}

Test(blk, parts_of_blocks_and_ranges_beyond_the_end_are_refused_without_a_command)
{
	static const struct {
		uint64_t offset;
		size_t bytes;
		int want;
	} row[] = {
		{ 0, 0, 0 },
		{ FAKE_MEDIA, 0, 0 },
		{ 512, 4096, -EINVAL },
		{ 0, 100, -EINVAL },
		{ 0, FAKE_MEDIA + 4096, -ERANGE },
		{ FAKE_MEDIA, 4096, -ERANGE },
		{ UINT64_MAX - 4095, 4096, -ERANGE },
		{ 4096, SIZE_MAX - 4095, -ERANGE },
	};

	open_disk(12);
	for (size_t i = 0; i < ROWS(row); i++) {
		cr_expect_eq(read_at(row[i].offset, row[i].bytes), row[i].want, "row %zu", i);
		cr_expect_eq(write_at(row[i].offset, row[i].bytes, false), row[i].want, "row %zu",
			     i);
	}
	cr_expect_eq(fake.seen_count, 0u);
}

Test(blk, a_read_only_disk_is_not_written)
{
	fake.id_ns.nsattr = 1;
	open_disk(12);
	cr_expect_eq(write_at(0, 4096, false), -EROFS);
	cr_expect_eq(read_at(0, 4096), 0);
	cr_expect_eq(fake.seen_count, 1u);
}

Test(blk, fua_is_passed_on_and_flush_is_sent_to_volatile_caches_only)
{
	open_disk(12);
	cr_assert_eq(write_at(0, 4096, false), 0);
	cr_assert_eq(write_at(0, 4096, true), 0);
	cr_assert_eq(disk.blk.ops->flush(&disk.blk, NULL), 0);
	cr_assert_eq(fake.seen_count, 3u);
	cr_expect_eq(fake.seen[0].cdw12, 0u);
	cr_expect_eq(fake.seen[1].cdw12, HR_CDW12_FUA);
	cr_expect_eq(fake.seen[2].opcode, nvme_cmd_flush);
	cr_expect_eq(fake.seen[2].nsid, 1u);
	disk.blk.volatile_cache = false;
	cr_assert_eq(disk.blk.ops->flush(&disk.blk, NULL), 0);
	cr_expect_eq(fake.seen_count, 3u, "a flush without a volatile cache");
}

Test(blk, a_status_is_repeated_or_passed_up_by_its_class)
{
	static const struct {
		uint16_t status;
		bool dnr;
		uint32_t times;
		int want;
		uint32_t commands;
	} row[] = {
		{ 0x082, false, 2, 0, 3 },	 /* namespace not ready, then ready */
		{ 0x082, false, 10, 0, 11 },	 /* ready later */
		{ 0x006, false, 100, 0x006, 9 }, /* repeated HR_RETRIES times */
		{ 0x082, true, 100, 0x082, 1 },	 /* do not retry */
		{ 0x281, false, 1, 0, 2 },	 /* unrecovered read error, once */
		{ 0x281, false, 9, 0x281, 4 },	 /* unrecovered read error, always */
		{ 0x281, true, 1, 0x281, 1 },	 /* unrecovered read error, do not retry */
		{ 0x002, false, 1, 0x002, 1 },	 /* a mistake of the driver */
		{ 0x301, false, 1, 0x301, 1 },	 /* fatal */
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		int err;

		teardown();
		setup();
		open_disk(12);
		fill(fake.media, FAKE_MEDIA, 3);
		spoil(nvme_cmd_read, 5, row[i].status, row[i].times);
		fake.dnr = row[i].dnr;
		err = read_at(5 * 4096, 4096);
		cr_expect_eq(err, row[i].want, "row %zu: %d", i, err);
		cr_expect_eq(fake.seen_count, row[i].commands, "row %zu: %u", i, fake.seen_count);
		if (!err)
			cr_expect_eq(memcmp(back, fake.media + 5 * 4096, 4096), 0, "row %zu", i);
		fake.times = 0;
		cr_expect_eq(read_at(0, FAKE_MEDIA), 0, "row %zu: the disk goes on", i);
	}
}

Test(blk, the_first_failure_stops_a_long_transfer_and_no_command_stays_in_flight)
{
	open_disk(12);
	spoil(nvme_cmd_write, 100, 0x280, 1);
	fake.dnr = true;
	cr_expect_eq(write_at(0, FAKE_MEDIA, false), 0x280);
	cr_expect_lt(fake.seen_count, FAKE_MEDIA / disk.chunk);
	cr_expect_eq(hr_qp_outstanding(&disk.qp), 0u);
}

Test(blk, a_dead_disk_stays_dead_until_it_is_opened_anew)
{
	static const struct {
		enum fake_lie lie;
		int want;
		bool reopens;
	} row[] = {
		{ FAKE_LOSE, -ETIMEDOUT, true }, { FAKE_GENERATION, -ETIMEDOUT, true },
		{ FAKE_CID, -EPROTO, true },	 { FAKE_SQHD, -EPROTO, true },
		{ FAKE_SQID, -EPROTO, true },	 { FAKE_FATAL, -EIO, false },
		{ FAKE_GONE, -ENOLINK, false },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		uint64_t start;
		uint32_t commands;
		int err;

		teardown();
		setup();
		open_disk(12);
		spoil(nvme_cmd_write, 40, 0, 1);
		fake.lie = row[i].lie;
		start = hr_now_ns();
		err = write_at(0, FAKE_MEDIA, false);
		cr_expect_eq(err, row[i].want, "row %zu: %d", i, err);
		cr_expect_leq(hr_now_ns() - start,
			      row[i].reopens ? TIMEOUT_NS + TIMEOUT_NS / 4 : 10 * HR_NS_PER_MS,
			      "row %zu: a lost device is noticed before the deadline", i);
		commands = fake.commands;
		cr_expect_eq(read_at(0, 4096), row[i].want, "row %zu", i);
		cr_expect_eq(disk.blk.ops->flush(&disk.blk, NULL), row[i].want, "row %zu", i);
		cr_expect_eq(fake.commands, commands, "row %zu: used when dead", i);
		if (!row[i].reopens)
			continue;
		cr_expect_eq(hr_nvme_blk_close(&disk, NULL), 0);
		cr_assert_eq(open_again(), 0);
		cr_expect_eq(read_at(0, FAKE_MEDIA), 0, "row %zu", i);
	}
}

Test(blk, a_device_that_left_is_not_called_a_timeout)
{
	open_disk(12);
	disk.qp.timeout_ns = 30000; /* time between two reads of CSTS */
	spoil(nvme_cmd_read, 0, 0, 1);
	fake.lie = FAKE_LOSE;
	fake.gone_at_step = fake.steps + 2;
	cr_expect_eq(read_at(0, 4096), -ENOLINK);
}

/*
 * A flush that fails on the medium is not repeated, because the repetition would not prove
 * durability.
 */
Test(blk, a_flush_is_repeated_only_when_it_was_not_tried)
{
	open_disk(12);
	spoil(nvme_cmd_flush, 0, NVME_SC_WRITE_FAULT, 1);
	cr_expect_eq(disk.blk.ops->flush(&disk.blk, NULL), NVME_SC_WRITE_FAULT);
	spoil(nvme_cmd_flush, 0, NVME_SC_NS_NOT_READY, 1);
	cr_expect_eq(disk.blk.ops->flush(&disk.blk, NULL), 0);
}

Test(blk, a_lost_flush_is_a_timeout)
{
	open_disk(12);
	spoil(nvme_cmd_flush, 0, 0, 1);
	fake.lie = FAKE_LOSE;
	cr_expect_eq(disk.blk.ops->flush(&disk.blk, NULL), -ETIMEDOUT);
}

/* ---- transfers that wait for nothing */

static int begin(bool write, uint64_t offset, size_t bytes)
{
	return hr_nvme_blk_begin(&disk, write, offset, write ? data : back, bytes, NULL);
}

static int poll_to_end(void)
{
	int err;

	while ((err = hr_nvme_blk_poll(&disk)) == -EINPROGRESS)
		hr_wait_ns(1000);
	return err;
}

Test(blk, a_begun_transfer_moves_the_data_when_it_is_polled)
{
	open_disk(12);
	fill(data, FAKE_MEDIA, 11);
	cr_assert_eq(begin(true, 0, FAKE_MEDIA), 0);
	cr_expect_eq(poll_to_end(), 0);
	cr_expect_eq(memcmp(fake.media, data, FAKE_MEDIA), 0);
	cr_assert_eq(begin(false, 8192, FAKE_MEDIA - 8192), 0);
	cr_expect_eq(poll_to_end(), 0);
	cr_expect_eq(memcmp(back, data + 8192, FAKE_MEDIA - 8192), 0);
	cr_expect_eq(hr_nvme_blk_poll(&disk), -ENOENT, "the result is returned once");
	cr_expect_eq(hr_qp_outstanding(&disk.qp), 0u);
}

Test(blk, one_transfer_is_begun_at_a_time)
{
	open_disk(12);
	cr_expect_eq(hr_nvme_blk_poll(&disk), -ENOENT);
	cr_expect_eq(begin(false, 100, 4096), -EINVAL);
	cr_expect_eq(begin(false, FAKE_MEDIA, 4096), -ERANGE);
	cr_expect_eq(hr_nvme_blk_poll(&disk), -ENOENT, "a refused one has not begun");
	cr_expect_eq(begin(false, 0, 4096), 0);
	cr_expect_eq(begin(false, 4096, 4096), -EBUSY);
	cr_expect_eq(poll_to_end(), 0);
	disk.blk.read_only = true;
	cr_expect_eq(begin(true, 0, 4096), -EROFS);
	cr_expect_eq(begin(false, 4096, 4096), 0);
	cr_expect_eq(poll_to_end(), 0);
}

Test(blk, another_call_first_ends_the_begun_transfer)
{
	open_disk(12);
	fill(fake.media, FAKE_MEDIA, 5);
	fill(data, FAKE_MEDIA, 6);
	cr_assert_eq(begin(true, 0, FAKE_MEDIA), 0);
	cr_expect_eq(disk.blk.ops->flush(&disk.blk, NULL), 0);
	cr_expect_eq(memcmp(fake.media, data, FAKE_MEDIA), 0, "the flush covers the write");
	cr_expect_eq(hr_nvme_blk_poll(&disk), 0, "its result is kept");
}

Test(blk, a_begun_transfer_repeats_a_command_without_waiting)
{
	uint64_t start;

	open_disk(12);
	fill(fake.media, FAKE_MEDIA, 3);
	spoil(nvme_cmd_read, 5, 0x082, 2);
	cr_assert_eq(begin(false, 5 * 4096, 4096), 0);
	start = hr_now_ns();
	cr_expect_eq(hr_nvme_blk_poll(&disk), -EINPROGRESS, "the pause before the next attempt");
	cr_expect_eq(hr_now_ns(), start, "the poll has waited");
	for (unsigned i = 0; i < 10; i++) { /* of the 1,000 us of the pause */
		hr_wait_ns(1000);
		cr_expect_eq(hr_nvme_blk_poll(&disk), -EINPROGRESS);
	}
	cr_expect_eq(fake.seen_count, 1u, "sent again before the pause has ended");
	cr_expect_eq(poll_to_end(), 0);
	cr_expect_eq(memcmp(back, fake.media + 5 * 4096, 4096), 0);
	cr_expect_eq(fake.seen_count, 3u);
	spoil(nvme_cmd_write, 100, 0x280, 1);
	fake.dnr = true;
	cr_assert_eq(begin(true, 0, FAKE_MEDIA), 0);
	cr_expect_eq(poll_to_end(), 0x280);
	cr_expect_eq(hr_qp_outstanding(&disk.qp), 0u);
}

/* All that are in flight fail twice, so several wait for their next attempt at the same time. */
Test(blk, a_begun_transfer_repeats_each_of_its_commands)
{
	for (unsigned write = 0; write < 2; write++) {
		teardown();
		setup();
		open_disk(12);
		fill(fake.media, FAKE_MEDIA, 8);
		fill(data, FAKE_MEDIA, 9);
		spoil(write ? nvme_cmd_write : nvme_cmd_read, 0, 0x082, 2 * HR_BLK_BUFFERS);
		fake.more = FAKE_MEDIA;
		cr_assert_eq(begin(write, 0, FAKE_MEDIA), 0);
		cr_expect_eq(poll_to_end(), 0);
		cr_expect_eq(memcmp(fake.media, write ? data : back, FAKE_MEDIA), 0);
		cr_expect_eq(fake.seen_count,
			     2 * HR_BLK_BUFFERS + (FAKE_MEDIA + disk.chunk - 1) / disk.chunk);
		cr_expect_eq(hr_qp_outstanding(&disk.qp), 0u);
	}
}

Test(blk, a_begun_transfer_ends_with_its_disk)
{
	static const struct {
		enum fake_lie lie;
		int want;
	} row[] = { { FAKE_LOSE, -ETIMEDOUT },
		    { FAKE_CID, -EPROTO },
		    { FAKE_FATAL, -EIO },
		    { FAKE_GONE, -ENOLINK } };

	for (size_t i = 0; i < ROWS(row); i++) {
		teardown();
		setup();
		open_disk(12);
		spoil(nvme_cmd_write, 40, 0, 1);
		fake.lie = row[i].lie;
		cr_assert_eq(begin(true, 0, FAKE_MEDIA), 0);
		cr_expect_eq(poll_to_end(), row[i].want, "row %zu", i);
		cr_expect_eq(begin(false, 0, 4096), row[i].want, "row %zu: it stays dead", i);
	}
}
