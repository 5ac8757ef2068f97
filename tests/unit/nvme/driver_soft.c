/* SPDX-License-Identifier: Apache-2.0 */
/* The whole driver against the software controller: real threads, real clock, scripted faults. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "config/base/clock.h"
#include "config/base/log.h"
#include "nvme/admin.h"
#include "nvme/blk.h"
#include "nvme/identify.h"
#include "nvme/soft/soft.h"
#include "tests/harness/random.h"
#include "tests/harness/error.h"
#include "tests/harness/threads.h"

#define ROWS(table) (sizeof(table) / sizeof(*(table)))
#define DISK_BYTES (4u << 20)
#define QP_AT ((size_t)HR_CTRL_ADMIN_BYTES)
#define QP_BYTES (3 * (size_t)HR_PAGE)
#define BUFFERS_AT (QP_AT + QP_BYTES)
#define BUFFERS 64u
#define TIMEOUT_NS (60 * HR_NS_PER_S) /* long, because a loaded machine is not a fault */
#define BLK_AT (BUFFERS_AT + BUFFERS * (size_t)HR_PAGE)

/* A controller that is up, with one region for all its transfers. */
static struct {
	struct hr_transport transport;
	struct hr_region region;
	struct hr_ctrl ctrl;
	struct hr_ns ns;
	struct hr_nvme_qp qp;
	struct hr_nvme_blk disk;
	uint8_t *memory;
	size_t bytes;
} ssd;

TestSuite(driver_soft, .timeout = 120);

static void bring_up(const char *options, uint32_t dstrd)
{
	struct hr_soft_options soft;
	uint32_t got;

	hr_log_set_level(HR_LOG_ERROR);
	memset(&ssd, 0, sizeof(ssd));
	ssd.bytes = BLK_AT + hr_nvme_blk_bytes();
	ssd.memory = aligned_alloc(HR_PAGE, ssd.bytes);
	memset(ssd.memory, 0, ssd.bytes);
	cr_assert_eq(hr_soft_parse(options, &soft, test_error()), 0, "%s", test_error_text());
	soft.dstrd = dstrd;
	cr_assert_eq(hr_soft_open(&ssd.transport, &soft, test_error()), 0, "%s", test_error_text());
	cr_assert_eq(hr_region_init_host(&ssd.region, "test", ssd.memory, ssd.bytes), 0);
	cr_assert_eq(ssd.transport.ops->map(&ssd.transport, &ssd.region, NULL), 0);
	cr_assert_eq(
		hr_ctrl_open(&ssd.ctrl, &ssd.transport, &ssd.region, 0, HR_ADMIN_TIMEOUT_NS, NULL),
		0);
	cr_assert_eq(hr_ctrl_identify_ns(&ssd.ctrl, 1, &ssd.ns, NULL), 0);
	cr_assert_eq(hr_ctrl_set_queues(&ssd.ctrl, 2, &got, NULL), 0);
	cr_assert_eq(got, 2u);
}

static void let_go(void)
{
	ssd.transport.ops->unmap(&ssd.transport, &ssd.region);
	ssd.transport.ops->close(&ssd.transport);
	free(ssd.memory);
}

static void take_down(int want)
{
	cr_expect_eq(hr_ctrl_close(&ssd.ctrl, NULL), want);
	let_go();
}

/* The second bring-up follows the end of the first at once. */
Test(driver_soft, a_model_that_is_ready_too_early_is_waited_for)
{
	static const struct {
		const char *options;
		int want;
	} row[] = { { "memory,size=4M,quirks=early-ready", -EIO },
		    { "memory,size=4M,quirks=early-ready,id=144d:a821", 0 } };

	for (size_t i = 0; i < ROWS(row); i++) {
		bring_up(row[i].options, 0);
		cr_expect_eq(hr_ctrl_close(&ssd.ctrl, NULL), 0);
		cr_expect_eq(hr_ctrl_open(&ssd.ctrl, &ssd.transport, &ssd.region, 0,
					  HR_ADMIN_TIMEOUT_NS, NULL),
			     row[i].want, "row %zu", i);
		hr_ctrl_close(&ssd.ctrl, NULL); /* 0 when the 2 s of the quirk have passed */
		let_go();
	}
}

static int open_disk(uint64_t timeout_ns)
{
	return hr_nvme_blk_open(&ssd.disk, &ssd.ctrl, &ssd.ns, 1, &ssd.region, BLK_AT, timeout_ns,
				NULL);
}

static void fill(uint8_t *bytes, size_t count, uint64_t seed)
{
	struct fake_random random = { seed | 1 };

	fake_random_fill(&random, bytes, count);
}

static void write_and_read_back(struct hr_blk *blk)
{
	uint8_t *model = calloc(1, DISK_BYTES), *data = malloc(DISK_BYTES);
	struct fake_random random = { 4711 };
	const uint32_t blocks = (uint32_t)(blk->bytes / blk->block_bytes);

	for (uint32_t n = 0; n < 40; n++) {
		const uint32_t at = fake_random_below(&random, blocks);
		uint32_t count = 1 + fake_random_below(&random, n % 4 ? 9 : blocks - at);
		size_t bytes;

		count = count > blocks - at ? blocks - at : count;
		bytes = (size_t)count * blk->block_bytes;
		fill(data, bytes, n);
		memcpy(model + (size_t)at * blk->block_bytes, data, bytes);
		cr_assert_eq(blk->ops->write(blk, (uint64_t)at * blk->block_bytes, data, bytes,
					     n % 5 == 0, NULL),
			     0);
	}
	cr_assert_eq(blk->ops->flush(blk, NULL), 0);
	cr_assert_eq(blk->ops->read(blk, 0, data, DISK_BYTES, NULL), 0);
	cr_expect_eq(memcmp(data, model, DISK_BYTES), 0);
	free(model);
	free(data);
}

Test(driver_soft, a_disk_keeps_written_data_in_every_configuration)
{
	static const struct {
		const char *options;
		uint32_t dstrd;
	} row[] = {
		{ "memory,size=4M,lba=4096,cache=16M", 0 },
		{ "memory,size=4M,lba=512,mdts=1,cache=16M", 0 },
		{ "memory,size=4M,lba=512,mdts=0,cache=0", 3 },
		{ "memory,size=4M,lba=4096,cache=1M,threads=2", 0 },
		{ "memory,size=4M,lba=512,cache=16M", 0 },
	};

	for (size_t i = 0; i < ROWS(row); i += THREAD_STEP(2u)) {
		bring_up(row[i].options, row[i].dstrd);
		cr_assert_eq(open_disk(TIMEOUT_NS), 0);
		cr_expect_eq(ssd.disk.blk.bytes, (uint64_t)DISK_BYTES);
		write_and_read_back(&ssd.disk.blk);
		cr_expect_eq(hr_qp_outstanding(&ssd.disk.qp), 0u);
		cr_expect_eq(hr_nvme_blk_close(&ssd.disk, NULL), 0);
		take_down(0);
	}
}

static void create_qp(uint32_t entries)
{
	const struct hr_qp_memory memory = {
		.sq = ssd.memory + QP_AT,
		.cq = ssd.memory + QP_AT + HR_PAGE,
		.table = ssd.memory + QP_AT + 2 * (size_t)HR_PAGE,
	};

	cr_assert_eq(hr_qp_init(&ssd.qp, 2, entries, &memory, TIMEOUT_NS), 0);
	cr_assert_eq(hr_ctrl_create_qp(&ssd.ctrl, &ssd.qp, hr_region_bus(&ssd.region, QP_AT),
				       hr_region_bus(&ssd.region, QP_AT + HR_PAGE), NULL),
		     0);
}

static void push_read(uint32_t buffer, uint32_t page)
{
	const size_t at = BUFFERS_AT + buffer * (size_t)HR_PAGE;
	struct hr_sqe sqe;

	hr_sqe_io(&sqe, nvme_cmd_read, 1, page, 1, hr_region_bus(&ssd.region, at).addr, 0);
	cr_assert_geq(hr_qp_push(&ssd.qp, true, &sqe, buffer), 0);
}

/* The stamp, written by stamp_disk(), of the page in this buffer. */
static uint32_t stamp_of(uint32_t buffer)
{
	uint32_t stamp;

	memcpy(&stamp, ssd.memory + BUFFERS_AT + buffer * (size_t)HR_PAGE, sizeof(stamp));
	return stamp;
}

/* One queue pair, always full: each 4 KiB buffer is filled from one place after another. */
static void read_deep(uint32_t entries, uint32_t reads)
{
	uint32_t page[BUFFERS], idle[BUFFERS], idles = 0, sent = 0, done = 0, spins = 0;
	struct hr_completion got = { 0 };

	create_qp(entries);
	while (idles < BUFFERS) {
		idle[idles] = idles;
		idles++;
	}
	while (done < reads) {
		for (; sent < reads && idles && hr_qp_free_commands(&ssd.qp); sent++) {
			const uint32_t buffer = idle[--idles];

			page[buffer] = sent * 7 % (DISK_BYTES / HR_PAGE);
			push_read(buffer, page[buffer]);
		}
		hr_qp_publish(&ssd.qp);
		if (!hr_qp_reap(&ssd.qp, &got)) {
			cr_assert_eq(ssd.qp.error, 0);
			cr_assert(!hr_qp_find_expired(&ssd.qp, hr_now_ns(), &got));
			hr_idle(&spins);
			continue;
		}
		cr_assert_eq(got.status, 0);
		cr_assert_eq(stamp_of(got.token), page[got.token], "buffer %u", got.token);
		idle[idles++] = got.token;
		spins = 0;
		done++;
	}
	cr_expect_eq(ssd.qp.stats.completed, reads);
	cr_expect_eq(ssd.qp.stats.late + ssd.qp.stats.stray, 0u);
	cr_expect_eq(hr_ctrl_delete_qp(&ssd.ctrl, 2, NULL), 0);
}

static void stamp_disk(void)
{
	uint8_t *data = calloc(1, DISK_BYTES);

	for (uint32_t i = 0; i < DISK_BYTES / HR_PAGE; i++)
		memcpy(data + i * (size_t)HR_PAGE, &i, sizeof(i));
	cr_assert_eq(open_disk(TIMEOUT_NS), 0);
	cr_assert_eq(ssd.disk.blk.ops->write(&ssd.disk.blk, 0, data, DISK_BYTES, false, NULL), 0);
	cr_assert_eq(hr_nvme_blk_close(&ssd.disk, NULL), 0);
	free(data);
}

Test(driver_soft, a_full_queue_reads_the_right_data)
{
	bring_up("memory,size=4M", 0);
	stamp_disk();
	read_deep(2, 300);
	read_deep(5, 2000);
	read_deep(64, 5000);
	take_down(0);
}

/* A file of a fault script without a name in a file system. */
static int script(const char *rules, char *options, size_t bytes)
{
	const int fd = memfd_create("faults", 0);

	cr_assert_geq(fd, 0);
	cr_assert_eq(write(fd, rules, strlen(rules)), (ssize_t)strlen(rules));
	snprintf(options, bytes, "memory,size=4M,faults=/proc/self/fd/%d", fd);
	return fd;
}

Test(driver_soft, scripted_faults_end_as_documented)
{
	static const struct {
		const char *rules;
		int want;
		bool again; /* the disk works after it is opened again */
	} row[] = {
		{ "on read: status 0x281 dnr\n", 0x281, true },
		{ "on read: status 0x2 dnr\n", 0x002, true },
		{ "on read count 2: status 0x82\n", 0, true },
		{ "on read count 100: status 0x6\n", 0x006, true },
		{ "on read: duplicate\n", 0, true },
		{ "on read lba 0-63: reorder\n", 0, true },
		{ "on read: drop\n", -ETIMEDOUT, true },
		{ "on read: delay 2s\n", -ETIMEDOUT, true },
		{ "on read: wrong-cid 0xffff\n", -EPROTO, true },
		{ "on read: bad-sqhd 0xffff\n", -EPROTO, true },
		{ "on read: cfs\n", -EIO, false },
		{ "on read: remove\n", -ENOLINK, false },
	};
	uint8_t *data = malloc(DISK_BYTES), *back = malloc(DISK_BYTES);

	for (size_t i = 0; i < ROWS(row); i++) {
		char options[80];
		const int fd = script(row[i].rules, options, sizeof(options));
		struct hr_blk *blk = &ssd.disk.blk;
		int err;

		bring_up(options, 0);
		cr_assert_eq(open_disk(TIMEOUT_NS), 0);
		fill(data, DISK_BYTES, i);
		cr_assert_eq(blk->ops->write(blk, 0, data, DISK_BYTES, false, NULL), 0);
		if (row[i].want == -ETIMEDOUT) {
			ssd.disk.qp.timeout_ns = 200 * HR_NS_PER_MS;
			ssd.disk.qp.next_scan_ns = 0; /* the long deadline has set this value */
		}
		err = blk->ops->read(blk, 0, back, DISK_BYTES, NULL);
		cr_expect_eq(err, row[i].want, "%s: %d", row[i].rules, err);
		if (err == 0)
			cr_expect_eq(memcmp(data, back, DISK_BYTES), 0, "%s", row[i].rules);
		if (row[i].again && row[i].want != 0x006) {
			cr_expect_eq(hr_nvme_blk_close(&ssd.disk, NULL), 0, "%s", row[i].rules);
			cr_assert_eq(open_disk(TIMEOUT_NS), 0, "%s", row[i].rules);
			cr_expect_eq(blk->ops->read(blk, 0, back, DISK_BYTES, NULL), 0, "%s",
				     row[i].rules);
			cr_expect_eq(memcmp(data, back, DISK_BYTES), 0, "%s", row[i].rules);
		}
		take_down(row[i].again ? 0 : row[i].want);
		close(fd);
	}
	free(data);
	free(back);
}

Test(driver_soft, admin_faults_end_as_documented)
{
	static const struct {
		const char *rules;
		int want;
	} row[] = {
		{ "on admin opcode 0x02: status 0x106\n", 0x106 },
		{ "on admin opcode 0x02: wrong-cid 0xffff\n", -EPROTO },
		{ "on admin opcode 0x02: cfs\n", -EIO },
		{ "on admin opcode 0x02: remove\n", -ENOLINK },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		char options[80];
		const int fd = script(row[i].rules, options, sizeof(options));
		int err;

		bring_up(options, 0);
		err = hr_admin_get_log(&ssd.ctrl, NVME_LOG_LID_SMART, 512, NULL);
		cr_expect_eq(err, row[i].want, "%s: %d", row[i].rules, err);
		take_down(err == -EIO || err == -ENOLINK ? err : 0);
		close(fd);
	}
}

/* RFC 9562: version 8 and the variant of the document; the other bits are those of the disk. */
Test(driver_soft, a_disk_in_memory_has_a_uuid_of_its_own)
{
	uint8_t any[2] = { 0 }, all[2] = { 0xff, 0xff };

	for (unsigned i = 0; i < 24; i++) {
		bring_up("memory,size=4M", 0);
		cr_assert_eq(ssd.ns.uuid[6] >> 4, 8, "%02x", ssd.ns.uuid[6]);
		cr_assert_eq(ssd.ns.uuid[8] >> 6, 2, "%02x", ssd.ns.uuid[8]);
		for (unsigned k = 0; k < 2; k++) {
			any[k] |= ssd.ns.uuid[6 + 2 * k];
			all[k] &= ssd.ns.uuid[6 + 2 * k];
		}
		take_down(0);
	}
	cr_expect_eq(any[0], 0x8f);
	cr_expect_eq(all[0], 0x80);
	cr_expect_eq(any[1], 0xbf);
	cr_expect_eq(all[1], 0x80);
}
