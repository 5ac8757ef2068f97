/* SPDX-License-Identifier: Apache-2.0 */
/* The memory that the software controller may access, and invalid doorbell values. */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "config/base/clock.h"
#include "config/base/limits.h"
#include "nvme/soft/soft.h"
#include "tests/fakes/log.h"
#include "tests/harness/conform.h"
#include "tests/harness/error.h"

#define A CONFORM_DATA
#define OUTSIDE 0x1000ull

static struct conform c;

static void start(void)
{
	conform_use("soft:memory,size=4M,mdts=5,threads=2");
	conform_open_io(&c);
}

static void finish(void)
{
	conform_close(&c);
}

TestSuite(soft_dma, .init = start, .fini = finish, .timeout = 60);

Test(soft_dma, addresses_outside_of_windows_are_transfer_errors)
{
	const uint64_t end = conform_bus(&c, 0) + CONFORM_PAGES * (uint64_t)HR_PAGE;
	const uint64_t bad[] = {
		OUTSIDE, end, end - HR_PAGE + 2048, UINT64_MAX - 3, conform_bus(&c, 0) - 4096, 0
	};
	uint64_t *list = conform_page(&c, CONFORM_LIST);
	struct hr_sqe sqe;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		hr_sqe_io(&sqe, nvme_cmd_read, 1, 0, 1, bad[i], OUTSIDE);
		cr_expect_eq(conform_do(&c, &c.io, &sqe, NULL), NVME_SC_DATA_XFER_ERROR,
			     "PRP1 %llx", (unsigned long long)bad[i]);
	}
	hr_sqe_io(&sqe, nvme_cmd_write, 1, 0, 2, conform_bus(&c, A), OUTSIDE);
	cr_expect_eq(conform_do(&c, &c.io, &sqe, NULL), NVME_SC_DATA_XFER_ERROR, "PRP2");
	hr_sqe_io(&sqe, nvme_cmd_read, 1, 0, 8, conform_bus(&c, A), OUTSIDE);
	cr_expect_eq(conform_do(&c, &c.io, &sqe, NULL), NVME_SC_DATA_XFER_ERROR, "list");
	sqe = conform_io_sqe(&c, nvme_cmd_read, 0, 8, A);
	list[6] = OUTSIDE;
	cr_expect_eq(conform_do(&c, &c.io, &sqe, NULL), NVME_SC_DATA_XFER_ERROR, "list entry");
	hr_sqe_io(&sqe, nvme_cmd_read, 1, 0, 1, conform_bus(&c, A) + 2, 0);
	cr_expect_eq(conform_do(&c, &c.io, &sqe, NULL), NVME_SC_PRP_INVALID_OFFSET, "odd");
}

Test(soft_dma, admin_data_and_rings_go_through_the_windows)
{
	struct hr_sqe sqe = { .opcode = nvme_admin_identify, .prp1 = OUTSIDE, .cdw10 = 1 };
	uint16_t status;

	cr_expect_eq(conform_admin(&c, &sqe, NULL), NVME_SC_DATA_XFER_ERROR);
	sqe.opcode = nvme_admin_create_cq;
	sqe.cdw10 = 15u << 16 | 2;
	sqe.cdw11 = 1;
	status = conform_admin(&c, &sqe, NULL);
	cr_expect(status != 0, "%03x", status);
	/* The last page holds 256 completions, not 257. */
	sqe.prp1 = conform_bus(&c, CONFORM_PAGES - 1);
	sqe.cdw10 = 256u << 16 | 2;
	status = conform_admin(&c, &sqe, NULL);
	cr_expect(status != 0, "%03x", status);
	sqe.cdw10 = 255u << 16 | 2;
	cr_expect_eq(conform_admin(&c, &sqe, NULL), 0);
}

Test(soft_dma, an_admin_ring_out_of_reach_is_fatal)
{
	cr_assert(conform_disable(&c));
	hr_reg_write64(&c.t, NVME_REG_ASQ, OUTSIDE);
	hr_reg_write32(&c.t, NVME_REG_CC, conform_cc());
	cr_expect(conform_wait(&c, 3, 2), "CSTS %08x", hr_reg_read32(&c.t, NVME_REG_CSTS));
	cr_assert(conform_disable(&c));
	hr_reg_write64(&c.t, NVME_REG_ASQ, conform_bus(&c, CONFORM_ASQ) + 64);
	hr_reg_write32(&c.t, NVME_REG_CC, conform_cc());
	cr_expect(conform_wait(&c, 3, 2), "unaligned");
	cr_assert(conform_disable(&c));
	hr_reg_write64(&c.t, NVME_REG_ASQ, conform_bus(&c, CONFORM_ASQ));
	hr_reg_write32(&c.t, NVME_REG_AQA, 0);
	hr_reg_write32(&c.t, NVME_REG_CC, conform_cc());
	cr_expect(conform_wait(&c, 3, 2), "queues of one entry");
}

Test(soft_dma, windows_do_not_overlap_and_are_counted)
{
	static uint8_t memory[HR_PAGE] __attribute__((aligned(HR_PAGE)));
	struct hr_region many[HR_SOFT_WINDOWS];
	unsigned mapped = 0;

	cr_expect_eq(c.t.ops->map(&c.t, &c.region, NULL), -EEXIST);
	for (unsigned i = 0; i < HR_SOFT_WINDOWS; i++) {
		cr_assert_eq(hr_region_init_host(&many[i], "many", memory, HR_PAGE), 0);
		if (c.t.ops->map(&c.t, &many[i], NULL) == 0)
			mapped++;
	}
	cr_expect_eq(mapped, HR_SOFT_WINDOWS - 1);
	cr_expect_eq(c.t.ops->map(&c.t, &many[HR_SOFT_WINDOWS - 1], NULL), -ENOSPC);
	for (unsigned i = 0; i < mapped; i++)
		c.t.ops->unmap(&c.t, &many[i]);
	cr_expect_eq(c.t.ops->map(&c.t, &many[HR_SOFT_WINDOWS - 1], NULL), 0);
	c.t.ops->unmap(&c.t, &many[HR_SOFT_WINDOWS - 1]);
}

/* Physical memory: each page has its own address, and a transfer uses each address. */
Test(soft_dma, pages_that_lie_apart_on_the_bus_are_reached_each)
{
	static uint8_t memory[4 * HR_PAGE] __attribute__((aligned(HR_PAGE)));
	struct hr_bus page[4] = { { 0x7000000 }, { 0x7001000 }, { 0x9000000 }, { 0x8000000 } };
	struct hr_region apart = { .name = "apart",
				   .cpu = memory,
				   .bytes = sizeof memory,
				   .bus = page[0],
				   .granule_bus = page,
				   .granule_shift = 12 };
	struct hr_sqe sqe = { .opcode = nvme_admin_identify, .cdw10 = NVME_IDENTIFY_CNS_CTRL };

	cr_assert_eq(c.t.ops->map(&c.t, &apart, NULL), 0);
	cr_expect_eq(c.t.ops->map(&c.t, &apart, NULL), -EEXIST);
	for (unsigned i = 0; i < 4; i++) {
		sqe.prp1 = page[i].addr;
		cr_assert_eq(conform_admin(&c, &sqe, NULL), 0, "page %u", i);
		cr_expect_neq(memory[i * HR_PAGE + 4], 0, "page %u", i); /* serial number */
	}
	/* Halves of two pages: on the bus the second does not follow the first. */
	memset(memory, 0, sizeof memory);
	sqe.prp1 = page[1].addr + HR_PAGE / 2;
	sqe.prp2 = page[2].addr;
	cr_assert_eq(conform_admin(&c, &sqe, NULL), 0);
	cr_expect_neq(memory[HR_PAGE + HR_PAGE / 2 + 4], 0);
	sqe.prp1 = page[2].addr + HR_PAGE; /* an address without memory */
	cr_expect_eq(conform_admin(&c, &sqe, NULL), NVME_SC_DATA_XFER_ERROR);
	c.t.ops->unmap(&c.t, &apart);
	sqe.prp1 = page[0].addr;
	cr_expect_eq(conform_admin(&c, &sqe, NULL), NVME_SC_DATA_XFER_ERROR);
}

/* Identify data arrives at the address, or the transfer fails. */
static uint16_t identify_at(uint64_t bus)
{
	const struct hr_sqe sqe = { .opcode = nvme_admin_identify,
				    .cdw10 = NVME_IDENTIFY_CNS_CTRL,
				    .prp1 = bus };

	return conform_admin(&c, &sqe, NULL);
}

/* Of a region in pieces the third is refused: no window of the region stays, and the window that
 * it overlaps does not change. */
Test(soft_dma, a_region_is_mapped_as_a_whole_or_not_at_all)
{
	static uint8_t memory[4 * HR_PAGE] __attribute__((aligned(HR_PAGE)));
	static uint8_t other[HR_PAGE] __attribute__((aligned(HR_PAGE)));
	struct hr_bus page[4] = { { 0x7000000 }, { 0x8000000 }, { 0x9000000 }, { 0xa000000 } };
	struct hr_region apart = { .name = "apart",
				   .cpu = memory,
				   .bytes = sizeof memory,
				   .bus = page[0],
				   .granule_bus = page,
				   .granule_shift = 12 };
	const struct hr_region taken = {
		.name = "taken", .cpu = other, .bytes = HR_PAGE, .bus = { 0x9000000 }
	};

	cr_assert_eq(c.t.ops->map(&c.t, &taken, test_error()), 0);
	for (unsigned i = 0; i < 2; i++) { /* no window was left over from the first time */
		cr_expect_eq(c.t.ops->map(&c.t, &apart, test_error()), -EEXIST);
		cr_expect_str_eq(test_error_text(), "region 'apart': overlaps another window");
	}
	for (unsigned i = 0; i < 4; i++)
		cr_expect_eq(identify_at(page[i].addr), i == 2 ? 0 : NVME_SC_DATA_XFER_ERROR,
			     "page %u", i);
	cr_expect(other[4] && !memory[4] && !memory[2 * HR_PAGE + 4]);
	c.t.ops->unmap(&c.t, &taken);
	cr_expect_eq(c.t.ops->map(&c.t, &apart, test_error()), 0, "%s", test_error_text());
	for (unsigned i = 0; i < 4; i++)
		cr_expect_eq(identify_at(page[i].addr), 0, "page %u", i);
	c.t.ops->unmap(&c.t, &apart);
	for (unsigned i = 0; i < 4; i++)
		cr_expect_eq(identify_at(page[i].addr), NVME_SC_DATA_XFER_ERROR, "page %u", i);
}

/* Windows touch without a common byte: right before, and right behind. */
Test(soft_dma, windows_that_touch_do_not_overlap)
{
	static uint8_t memory[4 * HR_PAGE] __attribute__((aligned(HR_PAGE)));
	static const struct {
		uint64_t bus, pages;
		int want;
	} row[] = {
		{ 0x7fff000, 1, 0 },	   { 0x8002000, 1, 0 },	      { 0x7fff000, 2, -EEXIST },
		{ 0x8001000, 1, -EEXIST }, { 0x8001000, 2, -EEXIST }, { 0x7fff000, 4, -EEXIST },
	};
	const struct hr_region middle = {
		.name = "middle", .cpu = memory, .bytes = 2 * HR_PAGE, .bus = { 0x8000000 }
	};
	const struct hr_region hidden = { .name = "hidden",
					  .bytes = HR_PAGE,
					  .bus = { 0x6000000 } };

	cr_assert_eq(c.t.ops->map(&c.t, &middle, test_error()), 0);
	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		const struct hr_region beside = { .name = "beside",
						  .cpu = memory,
						  .bytes = row[i].pages * HR_PAGE,
						  .bus = { row[i].bus } };

		cr_expect_eq(c.t.ops->map(&c.t, &beside, test_error()), row[i].want, "row %zu", i);
		if (!row[i].want)
			c.t.ops->unmap(&c.t, &beside);
		cr_expect_eq(identify_at(0x8001000), 0, "row %zu: the window is still there", i);
	}
	cr_expect_eq(c.t.ops->map(&c.t, &hidden, test_error()), -EINVAL);
	cr_expect_str_eq(test_error_text(), "region 'hidden': the CPU cannot access it");
	cr_expect_eq(identify_at(0x6000000), NVME_SC_DATA_XFER_ERROR);
}

/* The controller does not access a ring whose memory was unmapped. */
Test(soft_dma, memory_taken_back_takes_its_queues_along)
{
	uint8_t *memory =
		mmap(NULL, 2 * HR_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct hr_region rings;
	struct hr_sqe sqe = { .opcode = nvme_admin_create_cq, .cdw10 = 15u << 16 | 2, .cdw11 = 1 };

	cr_assert_neq(memory, MAP_FAILED);
	cr_assert_eq(hr_region_init_host(&rings, "rings", memory, 2 * HR_PAGE), 0);
	cr_assert_eq(c.t.ops->map(&c.t, &rings, NULL), 0);
	sqe.prp1 = rings.bus.addr;
	cr_assert_eq(conform_admin(&c, &sqe, NULL), 0);
	sqe.opcode = nvme_admin_create_sq;
	sqe.prp1 = rings.bus.addr + HR_PAGE;
	sqe.cdw11 = 2u << 16 | 1;
	cr_assert_eq(conform_admin(&c, &sqe, NULL), 0);
	c.t.ops->unmap(&c.t, &rings);
	munmap(memory, 2 * HR_PAGE);
	conform_doorbell(&c, 2, false, 3); /* the controller would fetch from the unmapped page */
	hr_wait_ns(20 * HR_NS_PER_MS);
	cr_expect_eq(conform_io(&c, nvme_cmd_read, 0, 1, A, 0), 0);
	c.t.ops->unmap(&c.t, &c.region);
	cr_expect(conform_wait(&c, 2, 2), "the admin queue's memory is gone: CSTS %08x",
		  hr_reg_read32(&c.t, NVME_REG_CSTS));
	cr_assert_eq(c.t.ops->map(&c.t, &c.region, NULL), 0);
}

/* Writes to the doorbell of a missing queue, and impossible head values, cause events. */
Test(soft_dma, impossible_doorbells_are_events)
{
	const struct hr_sqe request = { .opcode = nvme_admin_async_event };
	const struct {
		uint32_t queue, value, info;
		bool cq;
		const char *says;
	} row[] = {
		{ 7, 1, NVME_AER_ERROR_INVALID_DB_REG, false,
		  "queue 7: SQ tail doorbell value 1, but there is no such queue" },
		{ HR_SOFT_QUEUES, 1, NVME_AER_ERROR_INVALID_DB_REG, true,
		  "queue 256: CQ head doorbell value 1, but there is no such queue" },
		{ 1, CONFORM_ENTRIES, NVME_AER_ERROR_INVALID_DB_VAL, false,
		  "queue 1: SQ tail doorbell value 16 is impossible now (16 entries)" },
		{ 1, CONFORM_ENTRIES - 1, NVME_AER_ERROR_INVALID_DB_VAL, true,
		  "queue 1: CQ head doorbell value 15 is impossible now (16 entries)" },
	};

	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		struct hr_cqe cqe;

		conform_push(&c.admin, &request);
		conform_ring(&c, &c.admin);
		conform_doorbell(&c, row[i].queue, row[i].cq, row[i].value);
		cr_assert(conform_peek(&c, &c.admin, CONFORM_MS, &cqe), "row %zu", i);
		conform_release(&c, &c.admin);
		cr_expect_eq(cqe.dw0, NVME_LOG_LID_ERROR << 16 | row[i].info << 8, "row %zu: %08x",
			     i, cqe.dw0);
		cr_expect(strstr(fake_log_last_of(HR_LOG_WARN), row[i].says), "row %zu: %s", i,
			  fake_log_last_of(HR_LOG_WARN));
		cr_assert_eq(conform_get_log(&c, NVME_LOG_LID_ERROR, 64, 0), 0);
	}
	conform_doorbell(&c, 1, true, 0);
	cr_expect_eq(conform_io(&c, nvme_cmd_read, 0, 1, A, 0), 0);
}

Test(soft_dma, counters_follow_commands_bytes_and_errors)
{
	struct hr_soft_stats before, after;

	hr_soft_stats(&c.t, &before);
	cr_assert_eq(conform_io(&c, nvme_cmd_write, 0, 4, A, 0), 0);
	cr_assert_eq(conform_io(&c, nvme_cmd_read, 0, 2, A, 0), 0);
	cr_assert_eq(conform_io(&c, nvme_cmd_read, 1u << 30, 2, A, 0), NVME_SC_LBA_RANGE);
	hr_soft_stats(&c.t, &after);
	cr_expect_eq(after.commands - before.commands, 3);
	cr_expect_eq(after.written_bytes - before.written_bytes, 4 * HR_PAGE);
	cr_expect_eq(after.read_bytes - before.read_bytes, 2 * HR_PAGE);
	cr_expect_eq(after.errors - before.errors, 1);
}

/*
 * Polling threads, queues and a shared namespace at the same time, mainly for the thread sanitizer.
 */
Test(soft_dma, several_threads_serve_several_queues)
{
	struct conform_queue q[4];
	struct hr_cqe cqe;

	q[0] = c.io;
	for (uint16_t i = 1; i < 4; i++)
		cr_assert_eq(conform_add_io(&c, &q[i], (uint16_t)(i + 1), CONFORM_ENTRIES), 0);
	for (unsigned round = 0; round < 50; round++) {
		for (unsigned i = 0; i < 4; i++) {
			for (uint32_t n = 0; n < 8; n++) {
				const struct hr_sqe sqe = conform_io_sqe(
					&c, (n ^ i) & 1 ? nvme_cmd_write : nvme_cmd_read,
					n / 2 + 8 * (round % 3), 1, A + 16 * i + n);

				conform_push(&q[i], &sqe);
			}
			conform_ring(&c, &q[i]);
		}
		for (unsigned i = 0; i < 4; i++)
			for (unsigned n = 0; n < 8; n++) {
				cr_assert(conform_peek(&c, &q[i], CONFORM_MS, &cqe));
				cr_assert_eq(hr_cqe_status(cqe.status), 0);
				conform_release(&c, &q[i]);
			}
	}
}

/* A property of this controller: it follows the hint completely or refuses it. */
Test(soft_dma, deallocation_is_followed_or_refused_as_a_whole)
{
	struct nvme_dsm_range *range = (struct nvme_dsm_range *)conform_page(&c, A + 300);
	const struct hr_sqe sqe = { .opcode = nvme_cmd_dsm,
				    .nsid = 1,
				    .prp1 = conform_bus(&c, A + 300),
				    .cdw10 = 1,
				    .cdw11 = NVME_DSMGMT_AD };
	struct hr_sqe hint;

	conform_fill(&c, A, 4 * c.block_bytes, 7);
	cr_assert_eq(conform_io(&c, nvme_cmd_write, 200, 4, A, 0), 0);
	memset(range, 0, 2 * sizeof(range[0]));
	range[0].slba = 200;
	range[0].nlb = 4;
	range[1].slba = c.ns.nsze;
	range[1].nlb = 1;
	cr_expect_eq(conform_do(&c, &c.io, &sqe, NULL), NVME_SC_LBA_RANGE);
	cr_assert_eq(conform_io(&c, nvme_cmd_read, 200, 4, A + 10, 0), 0);
	cr_expect(conform_is_filled(&c, A + 10, 4 * c.block_bytes, 7));
	cr_assert_eq(conform_io(&c, nvme_cmd_write, 300, 2, A, 0), 0);
	range[1].slba = 300;
	hint = sqe;
	hint.cdw11 = 0; /* no attribute: nothing is deallocated */
	cr_expect_eq(conform_do(&c, &c.io, &hint, NULL), 0);
	cr_assert_eq(conform_io(&c, nvme_cmd_read, 200, 4, A + 10, 0), 0);
	cr_expect(conform_is_filled(&c, A + 10, 4 * c.block_bytes, 7));
	cr_expect_eq(conform_do(&c, &c.io, &sqe, NULL), 0);
	cr_assert_eq(conform_io(&c, nvme_cmd_read, 200, 4, A + 10, 0), 0);
	cr_expect(conform_is_zero(&c, A + 10, 4 * c.block_bytes));
	cr_assert_eq(conform_io(&c, nvme_cmd_read, 300, 2, A + 10, 0), 0);
	cr_expect(conform_is_zero(&c, A + 10, c.block_bytes));
	cr_expect_not(conform_is_zero(&c, A + 10, 2 * c.block_bytes), "one block of the range");
}

/* 256 ranges, of which the first is alone in its page: every second block is deallocated, or none when
 * the last range is wrong. */
Test(soft_dma, ranges_may_lie_in_two_pages)
{
	struct nvme_dsm_range *first = (struct nvme_dsm_range *)conform_page(&c, A + 301) - 1;
	struct nvme_dsm_range *rest = (struct nvme_dsm_range *)conform_page(&c, A + 303);
	const struct hr_sqe sqe = { .opcode = nvme_cmd_dsm,
				    .nsid = 1,
				    .prp1 = conform_bus(&c, A + 301) - sizeof *first,
				    .prp2 = conform_bus(&c, A + 303),
				    .cdw10 = 255,
				    .cdw11 = NVME_DSMGMT_AD };

	conform_fill(&c, A, 32 * HR_PAGE, 7);
	for (unsigned at = 0; at < 512; at += 32)
		cr_assert_eq(conform_io(&c, nvme_cmd_write, at, 32, A, 0), 0);
	memset(first, 0, sizeof *first);
	memset(rest, 0, 255 * sizeof *rest);
	first->nlb = 1;
	for (unsigned i = 0; i < 255; i++) {
		rest[i].slba = 2 * (i + 1);
		rest[i].nlb = 1;
	}
	for (unsigned wrong = 2; wrong-- > 0;) {
		rest[254].slba = wrong ? c.ns.nsze : 510;
		cr_expect_eq(conform_do(&c, &c.io, &sqe, NULL), wrong ? NVME_SC_LBA_RANGE : 0);
		for (unsigned at = 0; at < 512; at++) {
			cr_assert_eq(conform_io(&c, nvme_cmd_read, at, 1, A + 40, 0), 0);
			cr_expect_eq(conform_is_zero(&c, A + 40, HR_PAGE), !wrong && at % 2 == 0,
				     "block %u", at);
		}
	}
}
