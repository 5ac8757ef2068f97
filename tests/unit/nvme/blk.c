/* The synchronous disk: any size and place, and every way a command can end. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "config/clock.h"
#include "config/log.h"
#include "nvme/blk.h"
#include "nvme/ioqueues.h"
#include "nvme/namespaces.h"
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

	cr_assert_eq(hr_ctrl_identify_ns(&fake.ctrl, 1, &ns), 0);
	cr_assert_eq(hr_ctrl_set_queues(&fake.ctrl, 1, &got), 0);
	return hr_nvme_blk_open(&disk, &fake.ctrl, &ns, 1, &fake.region, MEMORY_AT, TIMEOUT_NS);
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
	return disk.blk.ops->read(&disk.blk, offset, back, bytes);
}

static int write_at(uint64_t offset, size_t bytes, bool fua)
{
	return disk.blk.ops->write(&disk.blk, offset, data, bytes, fua);
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

/* Another page than those of the disk's own buffers, which are themselves again afterwards. */
Test(blk, a_page_moves_to_and_from_any_address)
{
	const size_t at = 600 * (size_t)HR_PAGE; /* behind the disk's memory */
	const struct hr_bus page = hr_region_bus(&fake.region, at);

	open_disk(9);
	fill(data, HR_PAGE, 7);
	cr_assert_eq(write_at(8192, HR_PAGE, false), 0);
	cr_assert_eq(hr_nvme_blk_move(&disk, false, 8192, page), 0);
	cr_expect_arr_eq(fake.memory + at, data, HR_PAGE);
	fill(fake.memory + at, HR_PAGE, 8);
	cr_assert_eq(hr_nvme_blk_move(&disk, true, 8192, page), 0);
	cr_assert_eq(read_at(8192, HR_PAGE), 0);
	cr_expect_arr_eq(fake.memory + at, back, HR_PAGE);
	cr_expect_eq(hr_nvme_blk_move(&disk, false, FAKE_MEDIA, page), -ERANGE);
	cr_expect_eq(hr_nvme_blk_move(&disk, true, 100, page), -EINVAL);
	disk.blk.read_only = true;
	cr_expect_eq(hr_nvme_blk_move(&disk, true, 8192, page), -EROFS);
	cr_expect_eq(hr_nvme_blk_move(&disk, false, 8192, page), 0);
}

Test(blk, memory_that_does_not_fit_is_refused)
{
	struct hr_ns ns;
	uint32_t got;
	struct hr_ctrl *ctrl = &fake.ctrl;
	const size_t last = fake.region.bytes - hr_nvme_blk_bytes();

	cr_assert_eq(fake_ctrl_open(&fake), 0);
	cr_assert_eq(hr_ctrl_identify_ns(ctrl, 1, &ns), 0);
	cr_assert_eq(hr_ctrl_set_queues(ctrl, 1, &got), 0);
	cr_expect_eq(hr_nvme_blk_open(&disk, ctrl, &ns, 1, &fake.region, 100, 1), -EINVAL);
	cr_expect_eq(hr_nvme_blk_open(&disk, ctrl, &ns, 1, &fake.region, last + HR_PAGE, 1),
		     -EINVAL);
	cr_expect_eq(hr_nvme_blk_open(&disk, ctrl, &ns, 1, &fake.region, SIZE_MAX & ~4095ul, 1),
		     -EINVAL);
	cr_expect_eq(hr_nvme_blk_open(&disk, ctrl, &ns, 1, &fake.region, last, 0), -EINVAL);
	cr_expect_eq(hr_nvme_blk_open(&disk, ctrl, &ns, 2, &fake.region, last, 1), -EINVAL);
	cr_expect_eq(hr_nvme_blk_open(&disk, ctrl, &ns, 1, &fake.region, last, 1), 0);
}

Test(blk, what_was_written_is_read_back_at_any_place_and_size)
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

Test(blk, what_is_not_whole_blocks_or_beyond_the_end_is_refused_without_a_command)
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

Test(blk, fua_and_flush_are_sent_where_they_mean_something)
{
	open_disk(12);
	cr_assert_eq(write_at(0, 4096, false), 0);
	cr_assert_eq(write_at(0, 4096, true), 0);
	cr_assert_eq(disk.blk.ops->flush(&disk.blk), 0);
	cr_assert_eq(fake.seen_count, 3u);
	cr_expect_eq(fake.seen[0].cdw12, 0u);
	cr_expect_eq(fake.seen[1].cdw12, HR_CDW12_FUA);
	cr_expect_eq(fake.seen[2].opcode, nvme_cmd_flush);
	cr_expect_eq(fake.seen[2].nsid, 1u);
	disk.blk.volatile_cache = false;
	cr_assert_eq(disk.blk.ops->flush(&disk.blk), 0);
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
		{ 0x082, false, 2, 0, 3 },	 /* namespace not ready, then it is */
		{ 0x082, false, 100, 0x082, 9 }, /* HR_RETRIES, then enough */
		{ 0x082, true, 100, 0x082, 1 },	 /* do not retry */
		{ 0x281, false, 1, 0, 2 },	 /* unrecovered read error, once */
		{ 0x281, false, 9, 0x281, 4 },	 /* and again */
		{ 0x281, true, 1, 0x281, 1 },	 /* in vain */
		{ 0x002, false, 1, 0x002, 1 },	 /* our mistake */
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

Test(blk, the_first_failure_stops_a_long_transfer_and_nothing_stays_in_flight)
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
		cr_expect_eq(disk.blk.ops->flush(&disk.blk), row[i].want, "row %zu", i);
		cr_expect_eq(fake.commands, commands, "row %zu: used when dead", i);
		if (!row[i].reopens)
			continue;
		cr_expect_eq(hr_nvme_blk_close(&disk), 0);
		cr_assert_eq(open_again(), 0);
		cr_expect_eq(read_at(0, FAKE_MEDIA), 0, "row %zu", i);
	}
}

Test(blk, a_device_that_left_is_not_called_a_timeout)
{
	open_disk(12);
	disk.qp.timeout_ns = 30000; /* passes between two looks at CSTS */
	spoil(nvme_cmd_read, 0, 0, 1);
	fake.lie = FAKE_LOSE;
	fake.gone_at_step = fake.steps + 2;
	cr_expect_eq(read_at(0, 4096), -ENOLINK);
}

/* A flush that fails on the medium is not repeated: the repetition could not show durability. */
Test(blk, a_flush_is_repeated_only_when_it_was_not_tried)
{
	open_disk(12);
	spoil(nvme_cmd_flush, 0, NVME_SC_WRITE_FAULT, 1);
	cr_expect_eq(disk.blk.ops->flush(&disk.blk), NVME_SC_WRITE_FAULT);
	spoil(nvme_cmd_flush, 0, NVME_SC_NS_NOT_READY, 1);
	cr_expect_eq(disk.blk.ops->flush(&disk.blk), 0);
}

Test(blk, a_lost_flush_is_a_timeout)
{
	open_disk(12);
	spoil(nvme_cmd_flush, 0, 0, 1);
	fake.lie = FAKE_LOSE;
	cr_expect_eq(disk.blk.ops->flush(&disk.blk), -ETIMEDOUT);
}
