/* SPDX-License-Identifier: Apache-2.0 */
/* Positions of the fields in queue memory, and PRPs of buffers of every length. */
#include <criterion/criterion.h>
#include <stddef.h>
#include <string.h>

#include "nvme/dma/prp.h"
#include "nvme/queue/wire.h"

#define ROWS(table) (sizeof(table) / sizeof(*(table)))

TestSuite(wire, .timeout = 60);

/* NVMe Base 2.0, figures 87 and 90: byte offsets, as printed there. */
Test(wire, fields_lie_where_the_specification_has_them)
{
	static const struct {
		const char *name;
		size_t at, want;
	} row[] = {
		{ "CDW0.OPC", offsetof(struct hr_sqe, opcode), 0 },
		{ "CDW0.FUSE", offsetof(struct hr_sqe, flags), 1 },
		{ "CDW0.CID", offsetof(struct hr_sqe, cid), 2 },
		{ "NSID", offsetof(struct hr_sqe, nsid), 4 },
		{ "CDW2", offsetof(struct hr_sqe, cdw2), 8 },
		{ "MPTR", offsetof(struct hr_sqe, mptr), 16 },
		{ "DPTR.PRP1", offsetof(struct hr_sqe, prp1), 24 },
		{ "DPTR.PRP2", offsetof(struct hr_sqe, prp2), 32 },
		{ "CDW10", offsetof(struct hr_sqe, cdw10), 40 },
		{ "CDW15", offsetof(struct hr_sqe, cdw15), 60 },
		{ "DW0", offsetof(struct hr_cqe, dw0), 0 },
		{ "SQHD", offsetof(struct hr_cqe, sqhd), 8 },
		{ "SQID", offsetof(struct hr_cqe, sqid), 10 },
		{ "CID", offsetof(struct hr_cqe, cid), 12 },
		{ "status", offsetof(struct hr_cqe, status), 14 },
		{ "DW3", offsetof(struct hr_cqe, dw3), 12 },
	};

	for (size_t i = 0; i < ROWS(row); i++)
		cr_expect_eq(row[i].at, row[i].want, "%s at %zu", row[i].name, row[i].at);
}

/* Figure 91: P bit 0, SC 8:1, SCT 11:9, CRD 13:12, M 14, DNR 15. */
Test(wire, the_status_field_is_decoded)
{
	static const struct {
		uint16_t field, status, phase;
		uint8_t crd;
		bool dnr;
	} row[] = {
		{ 0x0000, 0x000, 0, 0, false }, { 0x0001, 0x000, 1, 0, false },
		{ 0x0502, 0x281, 0, 0, false }, { 0x8503, 0x281, 1, 0, true },
		{ 0x7000, 0x000, 0, 3, false }, { 0xffff, 0x7ff, 1, 3, true },
		{ 0x1000, 0x000, 0, 1, false }, { 0x2000, 0x000, 0, 2, false },
		{ 0x4000, 0x000, 0, 0, false }, { 0x0800, 0x400, 0, 0, false },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		cr_expect_eq(hr_cqe_status(row[i].field), row[i].status, "%04x", row[i].field);
		cr_expect_eq(hr_cqe_phase(row[i].field), row[i].phase, "%04x", row[i].field);
		cr_expect_eq(hr_cqe_dnr(row[i].field), row[i].dnr, "%04x", row[i].field);
		cr_expect_eq(hr_cqe_crd(row[i].field), row[i].crd, "%04x", row[i].field);
	}
}

/* Each byte of an entry is in its place among the words, but for the CID. */
Test(wire, an_entry_in_words_is_the_same_entry)
{
	struct hr_sqe sqe, want;
	uint64_t word[9];

	for (uint32_t i = 0; i < sizeof sqe; i++)
		((uint8_t *)&sqe)[i] = (uint8_t)(0x81 + i);
	want = sqe;
	want.cid = 0x1234;
	memset(word, 0xee, sizeof word);
	hr_sqe_words(&sqe, 0x1234, word);
	cr_expect_eq(memcmp(word, &want, sizeof want), 0);
	cr_expect_eq(word[8], 0xeeeeeeeeeeeeeeeeull);
}

Test(wire, reads_and_writes_carry_64_bit_lbas_and_zero_based_counts)
{
	struct hr_sqe sqe;

	memset(&sqe, 0xff, sizeof(sqe));
	hr_sqe_io(&sqe, nvme_cmd_write, 7, 0x123456789abcdef0, 65536, 0x1000, 0x2000);
	cr_expect_eq(sqe.opcode, 1);
	cr_expect_eq(sqe.flags, 0);
	cr_expect_eq(sqe.nsid, 7u);
	cr_expect_eq(sqe.mptr, 0u);
	cr_expect_eq(sqe.prp1, 0x1000u);
	cr_expect_eq(sqe.prp2, 0x2000u);
	cr_expect_eq(sqe.cdw10, 0x9abcdef0u);
	cr_expect_eq(sqe.cdw11, 0x12345678u);
	cr_expect_eq(sqe.cdw12, 0xffffu);
	cr_expect_eq(sqe.cdw2 | sqe.cdw3 | sqe.cdw13 | sqe.cdw14 | sqe.cdw15, 0u);
}

static _Alignas(4096) uint64_t list[3][HR_PAGE / 8];

/* Data in granules of two pages with unrelated bus addresses. */
static void build(struct hr_prp *prp, uint32_t bytes)
{
	static struct hr_bus granule[HR_CHUNK_MAX / HR_PAGE / 2 + 1];
	struct hr_region data = { .bytes = (size_t)HR_CHUNK_MAX + 2 * HR_PAGE,
				  .granule_bus = granule,
				  .granule_shift = 13 };
	struct hr_region lists = { .cpu = list, .bytes = sizeof(list), .bus = { 0xf000000 } };

	for (uint64_t i = 0; i < ROWS(granule); i++)
		granule[i].addr = (1000 - i) << 20;
	memset(list, 0xee, sizeof(list));
	hr_prp_build(prp, &data, HR_PAGE, bytes, &lists, HR_PAGE);
}

/* Bus address of page n of the buffer that build() describes, which begins at page 1. */
static uint64_t bus_of(uint32_t n)
{
	return ((uint64_t)(1000 - (n + 1) / 2) << 20) + (n + 1) % 2 * HR_PAGE;
}

static void expect_pages(uint32_t bytes, uint32_t pages)
{
	struct hr_prp prp;

	build(&prp, bytes);
	cr_expect_eq(prp.first, bus_of(0));
	cr_expect_eq(hr_prp2(&prp, HR_PAGE), 0u);
	if (pages >= 2) {
		cr_expect_eq(prp.second, bus_of(1));
		cr_expect_eq(hr_prp2(&prp, HR_PAGE + 1), bus_of(1));
		cr_expect_eq(hr_prp2(&prp, 2 * HR_PAGE), bus_of(1));
	}
	if (pages < 3) {
		cr_expect_eq(list[1][0], 0xeeeeeeeeeeeeeeeeull, "%u bytes", bytes);
		return;
	}
	cr_expect_eq(hr_prp2(&prp, 2 * HR_PAGE + 1), 0xf000000u + HR_PAGE);
	for (uint32_t n = 1; n < pages; n++)
		cr_expect_eq(list[1][n - 1], bus_of(n), "%u bytes: %u", bytes, n);
	cr_expect_eq(list[1][pages - 1], 0xeeeeeeeeeeeeeeeeull, "%u bytes", bytes);
	cr_expect_eq(list[2][0], 0xeeeeeeeeeeeeeeeeull, "%u bytes", bytes);
}

/* A last page that is used partly, by one block or by all but one, counts as a page. */
Test(wire, prps_name_every_page_once)
{
	static const uint32_t row[] = { 1, 2, 3, 4, 5, 64, 511, 512 };

	for (size_t i = 0; i < ROWS(row); i++) {
		expect_pages(row[i] * HR_PAGE, row[i]);
		expect_pages(row[i] * HR_PAGE - 512, row[i]);
		expect_pages(row[i] * HR_PAGE - HR_PAGE + 512, row[i]);
	}
}
