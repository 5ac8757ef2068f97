/* SPDX-License-Identifier: Apache-2.0 */
/* I/O commands and their errors (NVM Command Set 3.2), and PRPs (NVMe Base 4.1.1). */
#include <criterion/criterion.h>
#include <string.h>

#include "tests/harness/conform.h"

#define A CONFORM_DATA
#define B (CONFORM_DATA + 400)

static struct conform c;

static void open_it(void)
{
	conform_open_io(&c);
}

static void close_it(void)
{
	conform_close(&c);
}

TestSuite(conformance_io, .init = open_it, .fini = close_it, .timeout = 60);

static uint16_t put(uint64_t lba, uint32_t blocks, uint32_t seed, uint32_t cdw12)
{
	conform_fill(&c, A, blocks * c.block_bytes, seed);
	return conform_io(&c, nvme_cmd_write, lba, blocks, A, cdw12);
}

static bool holds(uint64_t lba, uint32_t blocks, uint32_t seed)
{
	memset(conform_page(&c, B), 0xee, (size_t)blocks * c.block_bytes);
	cr_assert_eq(conform_io(&c, nvme_cmd_read, lba, blocks, B, 0), 0);
	return conform_is_filled(&c, B, blocks * c.block_bytes, seed);
}

static bool holds_zeroes(uint64_t lba, uint32_t blocks)
{
	memset(conform_page(&c, B), 0xee, (size_t)blocks * c.block_bytes);
	cr_assert_eq(conform_io(&c, nvme_cmd_read, lba, blocks, B, 0), 0);
	return conform_is_zero(&c, B, blocks * c.block_bytes);
}

Test(conformance_io, written_data_are_read_at_any_length)
{
	const uint32_t most = (uint32_t)(c.max_bytes / c.block_bytes);
	const uint32_t lengths[] = { 1, 2, 3, 7, 8, 9, 16, most - 1, most };

	for (uint32_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		cr_expect_eq(put(i * most, lengths[i], i + 1, 0), 0, "%u blocks", lengths[i]);
		cr_expect(holds(i * most, lengths[i], i + 1), "%u blocks", lengths[i]);
	}
	for (uint32_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++)
		cr_expect(holds(i * most, lengths[i], i + 1), "%u blocks, later", lengths[i]);
}

Test(conformance_io, a_transfer_touches_no_byte_beside_its_range)
{
	uint8_t *page = (uint8_t *)conform_page(&c, B);

	cr_assert_eq(put(0, 1, 5, 0), 0);
	memset(page - HR_PAGE, 0xee, 4 * HR_PAGE);
	cr_assert_eq(conform_io(&c, nvme_cmd_read, 0, 1, B, 0), 0);
	for (unsigned i = 0; i < HR_PAGE; i++) {
		cr_assert_eq(page[-1 - (int)i], 0xee);
		cr_assert_eq(page[c.block_bytes + i], 0xee);
	}
}

Test(conformance_io, neighbours_of_a_write_keep_their_data)
{
	for (uint32_t i = 0; i < 3; i++)
		cr_assert_eq(put(10 + i, 1, 20 + i, 0), 0);
	cr_assert_eq(put(11, 1, 99, 0), 0);
	cr_expect(holds(10, 1, 20));
	cr_expect(holds(11, 1, 99));
	cr_expect(holds(12, 1, 22));
}

Test(conformance_io, the_last_block_is_the_end)
{
	const uint64_t end = c.ns.nsze;
	const struct {
		uint64_t lba;
		uint32_t blocks;
		uint16_t status;
	} row[] = {
		{ end - 1, 1, 0 },
		{ end - 2, 2, 0 },
		{ end, 1, NVME_SC_LBA_RANGE },
		{ end - 1, 2, NVME_SC_LBA_RANGE },
		{ end + 1, 1, NVME_SC_LBA_RANGE },
		{ 1ull << 32, 1, (1ull << 32) < end ? 0 : NVME_SC_LBA_RANGE },
		{ UINT64_MAX, 1, NVME_SC_LBA_RANGE },
		{ UINT64_MAX, 2, NVME_SC_LBA_RANGE },
		{ UINT64_MAX - 1, 4, NVME_SC_LBA_RANGE },
	};

	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		cr_expect_eq(conform_io(&c, nvme_cmd_read, row[i].lba, row[i].blocks, A, 0),
			     row[i].status, "read, row %zu", i);
		cr_expect_eq(conform_io(&c, nvme_cmd_write, row[i].lba, row[i].blocks, A, 0),
			     row[i].status, "write, row %zu", i);
	}
}

Test(conformance_io, transfers_beyond_mdts_are_refused)
{
	const uint64_t limit = c.id.mdts ? ((uint64_t)HR_PAGE << c.id.mdts) / c.block_bytes : 0;

	if (!limit || limit >= 65536)
		return; /* MDTS allows every length of a command */
	cr_expect_eq(conform_io(&c, nvme_cmd_read, 0, (uint32_t)limit + 1, A, 0),
		     NVME_SC_INVALID_FIELD);
	cr_expect_eq(conform_io(&c, nvme_cmd_write, 0, (uint32_t)limit + 1, A, 0),
		     NVME_SC_INVALID_FIELD);
}

Test(conformance_io, namespaces_that_do_not_exist_are_refused)
{
	static const uint8_t opcode[] = { nvme_cmd_read, nvme_cmd_write, nvme_cmd_flush };
	const uint32_t nsid[] = { 0, c.id.nn + 1, 0xfffffffe };

	for (unsigned i = 0; i < sizeof(opcode); i++)
		for (unsigned j = 0; j < 3; j++) {
			struct hr_sqe sqe = conform_io_sqe(&c, opcode[i], 0, 1, A);

			sqe.nsid = nsid[j];
			cr_expect_eq(conform_do(&c, &c.io, &sqe, NULL), NVME_SC_INVALID_NS,
				     "opcode %02x, namespace %x", opcode[i], nsid[j]);
		}
}

Test(conformance_io, unknown_opcodes_and_formats_are_refused)
{
	struct hr_sqe sqe = conform_io_sqe(&c, 0x7b, 0, 1, A);

	cr_expect_eq(conform_do(&c, &c.io, &sqe, NULL), NVME_SC_INVALID_OPCODE);
	sqe.opcode = nvme_cmd_compare;
	if (!(c.id.oncs & NVME_CTRL_ONCS_COMPARE))
		cr_expect_eq(conform_do(&c, &c.io, &sqe, NULL), NVME_SC_INVALID_OPCODE);
	sqe.opcode = nvme_cmd_read;
	sqe.flags = 1;
	if (!c.id.fuses)
		cr_expect_eq(conform_do(&c, &c.io, &sqe, NULL), NVME_SC_INVALID_FIELD);
	sqe.flags = 0x40;
	if (!c.id.sgls)
		cr_expect_eq(conform_do(&c, &c.io, &sqe, NULL), NVME_SC_INVALID_FIELD);
}

/* The first page may start at any multiple of four bytes; the others follow in whole pages. */
Test(conformance_io, a_buffer_may_start_inside_a_page)
{
	const uint32_t blocks = 3 * HR_PAGE / c.block_bytes, offset = 1536;
	uint64_t *list = (uint64_t *)conform_page(&c, CONFORM_LIST);
	uint8_t *from = (uint8_t *)conform_page(&c, A), *to = (uint8_t *)conform_page(&c, B);
	struct hr_sqe sqe;

	conform_fill(&c, A, 4 * HR_PAGE, 3);
	cr_assert_eq(conform_io(&c, nvme_cmd_write, 0, blocks, A, 0), 0);
	hr_sqe_io(&sqe, nvme_cmd_read, 1, 0, blocks, conform_bus(&c, B) + offset,
		  conform_bus(&c, CONFORM_LIST));
	for (uint32_t i = 0; i < 3; i++)
		list[i] = conform_bus(&c, B + 1 + i);
	cr_assert_eq(conform_do(&c, &c.io, &sqe, NULL), 0);
	cr_expect_arr_eq(to + offset, from, 3 * HR_PAGE);
	/* For two pages PRP2 is the second page, not a list. */
	memset(to, 0, 3 * HR_PAGE);
	hr_sqe_io(&sqe, nvme_cmd_read, 1, 0, HR_PAGE / c.block_bytes, conform_bus(&c, B) + offset,
		  conform_bus(&c, B + 1));
	cr_assert_eq(conform_do(&c, &c.io, &sqe, NULL), 0);
	cr_expect_arr_eq(to + offset, from, HR_PAGE);
}

/* A list that reaches the end of its page continues at the address in its last entry. */
Test(conformance_io, lists_are_chained)
{
	const uint32_t pages = 8, blocks = pages * HR_PAGE / c.block_bytes;
	uint64_t *first = (uint64_t *)conform_page(&c, CONFORM_LIST);
	uint64_t *second = (uint64_t *)conform_page(&c, CONFORM_LIST + 1);
	struct hr_sqe sqe;

	cr_assert_leq(pages * HR_PAGE, c.max_bytes);
	cr_assert_eq(put(0, blocks, 8, 0), 0);
	for (uint32_t head = 1; head <= 4; head++) {
		const uint32_t start = 512 - head;

		memset(first, 0xff, HR_PAGE);
		memset(second, 0xff, HR_PAGE);
		for (uint32_t i = 1; i < pages; i++) {
			uint64_t *entry = i < head ? &first[start + i - 1] : &second[i - head];

			*entry = conform_bus(&c, B + 2 * i);
		}
		first[511] = conform_bus(&c, CONFORM_LIST + 1);
		hr_sqe_io(&sqe, nvme_cmd_read, 1, 0, blocks, conform_bus(&c, B),
			  conform_bus(&c, CONFORM_LIST) + 8 * start);
		for (uint32_t i = 0; i < pages; i++)
			memset(conform_page(&c, B + 2 * i), 0, HR_PAGE);
		cr_assert_eq(conform_do(&c, &c.io, &sqe, NULL), 0, "%u entries before the link",
			     head - 1);
		for (uint32_t i = 0; i < pages; i++)
			cr_expect_arr_eq(conform_page(&c, B + 2 * i), conform_page(&c, A + i),
					 HR_PAGE);
	}
}

Test(conformance_io, pages_of_one_transfer_lie_anywhere)
{
	const uint32_t pages = 6, blocks = pages * HR_PAGE / c.block_bytes;
	uint64_t *list = (uint64_t *)conform_page(&c, CONFORM_LIST);
	struct hr_sqe sqe;

	cr_assert_eq(put(64, blocks, 77, 0), 0);
	hr_sqe_io(&sqe, nvme_cmd_read, 1, 64, blocks, conform_bus(&c, B + 20),
		  conform_bus(&c, CONFORM_LIST));
	for (uint32_t i = 1; i < pages; i++)
		list[i - 1] = conform_bus(&c, B + 20 - 3 * i);
	cr_assert_eq(conform_do(&c, &c.io, &sqe, NULL), 0);
	for (uint32_t i = 0; i < pages; i++)
		cr_expect_arr_eq(conform_page(&c, B + 20 - 3 * i), conform_page(&c, A + i),
				 HR_PAGE);
}

Test(conformance_io, prps_with_forbidden_offsets_are_refused)
{
	const uint32_t blocks = 4 * HR_PAGE / c.block_bytes;
	uint64_t *list = (uint64_t *)conform_page(&c, CONFORM_LIST);
	struct hr_sqe sqe = conform_io_sqe(&c, nvme_cmd_read, 0, 2 * HR_PAGE / c.block_bytes, B);

	sqe.prp2 += 512;
	cr_expect_eq(conform_do(&c, &c.io, &sqe, NULL), NVME_SC_PRP_INVALID_OFFSET, "PRP2");
	sqe = conform_io_sqe(&c, nvme_cmd_read, 0, blocks, B);
	list[1] += 512;
	cr_expect_eq(conform_do(&c, &c.io, &sqe, NULL), NVME_SC_PRP_INVALID_OFFSET, "list entry");
}

Test(conformance_io, flush_takes_one_namespace_and_all_where_advertised)
{
	struct hr_sqe sqe = { .opcode = nvme_cmd_flush, .nsid = 1 };

	cr_assert_eq(put(5, 1, 55, 0), 0);
	cr_expect_eq(conform_do(&c, &c.io, &sqe, NULL), 0);
	sqe.nsid = NVME_NSID_ALL;
	if ((c.id.vwc >> 1 & 3) == 3)
		cr_expect_eq(conform_do(&c, &c.io, &sqe, NULL), 0);
	else if ((c.id.vwc >> 1 & 3) == 2)
		cr_expect_eq(conform_do(&c, &c.io, &sqe, NULL), NVME_SC_INVALID_NS);
	cr_expect(holds(5, 1, 55));
}

Test(conformance_io, forced_unit_access_reads_and_writes_like_the_others)
{
	cr_assert_eq(put(9, 2, 1, 0), 0);
	cr_assert_eq(put(9, 2, 2, HR_CDW12_FUA), 0);
	cr_expect(holds(9, 2, 2));
	cr_assert_eq(put(9, 2, 3, 0), 0);
	memset(conform_page(&c, B), 0, HR_PAGE);
	cr_assert_eq(conform_io(&c, nvme_cmd_read, 9, 2, B, HR_CDW12_FUA), 0);
	cr_expect(conform_is_filled(&c, B, 2 * c.block_bytes, 3));
}

Test(conformance_io, write_zeroes_where_advertised)
{
	struct hr_sqe sqe;

	hr_sqe_io(&sqe, nvme_cmd_write_zeroes, 1, 101, 3, 0, 0);
	if (!(c.id.oncs & NVME_CTRL_ONCS_WRITE_ZEROES)) {
		cr_expect_eq(conform_do(&c, &c.io, &sqe, NULL), NVME_SC_INVALID_OPCODE);
		return;
	}
	for (uint32_t i = 0; i < 5; i++)
		cr_assert_eq(put(100 + i, 1, 30 + i, i & 1 ? HR_CDW12_FUA : 0), 0);
	cr_expect_eq(conform_do(&c, &c.io, &sqe, NULL), 0);
	cr_expect(holds(100, 1, 30));
	cr_expect(holds_zeroes(101, 3));
	cr_expect(holds(104, 1, 34));
	hr_sqe_io(&sqe, nvme_cmd_write_zeroes, 1, c.ns.nsze - 1, 2, 0, 0);
	cr_expect_eq(conform_do(&c, &c.io, &sqe, NULL), NVME_SC_LBA_RANGE);
	hr_sqe_io(&sqe, nvme_cmd_write_zeroes, 9, 0, 1, 0, 0);
	sqe.nsid = c.id.nn + 1;
	cr_expect_eq(conform_do(&c, &c.io, &sqe, NULL), NVME_SC_INVALID_NS);
}

/* Deallocation is a hint: afterwards a block of the range is either unchanged or deallocated. */
static bool deallocated_or_kept(uint64_t lba, uint32_t seed)
{
	return holds(lba, 1, seed) || ((c.ns.dlfeat & 7) != 1 || holds_zeroes(lba, 1));
}

Test(conformance_io, deallocation_where_advertised)
{
	struct nvme_dsm_range *range = (struct nvme_dsm_range *)conform_page(&c, A + 300);
	struct hr_sqe sqe = { .opcode = nvme_cmd_dsm,
			      .nsid = 1,
			      .prp1 = conform_bus(&c, A + 300),
			      .cdw10 = 1,
			      .cdw11 = NVME_DSMGMT_AD };
	uint16_t status;

	memset(range, 0, HR_PAGE);
	range[0].slba = 200;
	range[0].nlb = 2;
	range[1].slba = 205;
	range[1].nlb = 1;
	if (!(c.id.oncs & NVME_CTRL_ONCS_DSM)) {
		cr_expect_eq(conform_do(&c, &c.io, &sqe, NULL), NVME_SC_INVALID_OPCODE);
		return;
	}
	for (uint32_t i = 0; i < 7; i++)
		cr_assert_eq(put(200 + i, 1, 60 + i, 0), 0);
	cr_expect_eq(conform_do(&c, &c.io, &sqe, NULL), 0);
	for (uint32_t i = 2; i < 7; i++)
		cr_expect(i == 5 || holds(200 + i, 1, 60 + i), "block %u", 200 + i);
	cr_expect(deallocated_or_kept(200, 60) && deallocated_or_kept(201, 61) &&
		  deallocated_or_kept(205, 65));
	range[1].slba = c.ns.nsze;
	status = conform_do(&c, &c.io, &sqe, NULL);
	cr_expect(status == NVME_SC_LBA_RANGE || status == 0, "%03x", status);
}

Test(conformance_io, a_refused_write_leaves_the_data_unchanged)
{
	const uint64_t last = c.ns.nsze - 1;

	cr_assert_eq(put(last, 1, 42, 0), 0);
	conform_fill(&c, A, 2 * c.block_bytes, 43);
	cr_expect_eq(conform_io(&c, nvme_cmd_write, last, 2, A, 0), NVME_SC_LBA_RANGE);
	cr_expect(holds(last, 1, 42));
}
