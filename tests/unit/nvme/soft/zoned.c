/* SPDX-License-Identifier: Apache-2.0 */
/* The zoned namespace of the software controller: identify, reads, its zones, and refusals. */
#include <criterion/criterion.h>
#include <string.h>

#include "tests/harness/conform.h"

#define A CONFORM_DATA
#define BLOCKS 2500u /* two whole zones of 1024 blocks, and a short one */
#define ZONE 1024u
#define FULL CONFORM_SPECIFIC(NVME_SC_ZNS_FULL)

static struct conform c;

static void start_with(const char *device)
{
	conform_use(device);
	conform_reach(&c);
	cr_assert(conform_enable(&c, conform_cc() | NVME_CC_CSS_CSI << NVME_CC_CSS_SHIFT));
	cr_assert_eq(conform_add_io(&c, &c.io, 1, CONFORM_ENTRIES), 0);
	c.block_bytes = 4096;
	cr_assert_eq(conform_identify(&c, NVME_IDENTIFY_CNS_NS, 1), NVME_SC_INVALID_IOCS);
}

static void start(void)
{
	start_with("soft:memory,size=10240000,lba=4096,zoned=1");
}

static void finish(void)
{
	conform_close(&c);
}

TestSuite(soft_zoned, .init = start, .fini = finish, .timeout = 60);

static uint16_t identify(uint32_t cns, uint32_t nsid, uint32_t csi)
{
	const struct hr_sqe sqe = { .opcode = nvme_admin_identify,
				    .nsid = nsid,
				    .prp1 = conform_bus(&c, CONFORM_IDENTIFY),
				    .cdw10 = cns,
				    .cdw11 = csi << 24 };

	memset(conform_page(&c, CONFORM_IDENTIFY), 0xff, HR_PAGE);
	return conform_admin(&c, &sqe, NULL);
}

Test(soft_zoned, identify_names_the_command_set)
{
	const struct nvme_zns_id_ns *ns = conform_page(&c, CONFORM_IDENTIFY);
	const uint32_t *list = conform_page(&c, CONFORM_IDENTIFY);
	const uint64_t *sets = conform_page(&c, CONFORM_IDENTIFY);

	cr_expect_eq(identify(NVME_IDENTIFY_CNS_CSI_NS, 1, NVME_CSI_ZNS), 0);
	cr_expect_eq(ns->lbafe[0].zsze, ZONE);
	cr_expect_eq(ns->lbafe[1].zsze, 0);
	cr_expect_eq(ns->zoc, 0);
	cr_expect_eq(identify(NVME_IDENTIFY_CNS_CSI_NS, 2, NVME_CSI_ZNS), NVME_SC_INVALID_NS);
	cr_expect_eq(identify(NVME_IDENTIFY_CNS_CSI_NS, 1, NVME_CSI_KV), NVME_SC_INVALID_IOCS);
	cr_expect_eq(identify(NVME_IDENTIFY_CNS_CSI_CTRL, 0, NVME_CSI_ZNS), 0);
	cr_expect(conform_is_zero(&c, CONFORM_IDENTIFY, HR_PAGE));
	cr_expect_eq(identify(NVME_IDENTIFY_CNS_CSI_CTRL, 0, NVME_CSI_NVM), 0);
	cr_expect_eq(identify(NVME_IDENTIFY_CNS_CSI_CTRL, 0, NVME_CSI_KV), NVME_SC_INVALID_IOCS);
	cr_expect_eq(identify(NVME_IDENTIFY_CNS_CSI_NS_ACTIVE_LIST, 0, NVME_CSI_ZNS), 0);
	cr_expect(list[0] == 1 && list[1] == 0);
	cr_expect_eq(identify(NVME_IDENTIFY_CNS_CSI_NS_ACTIVE_LIST, 1, NVME_CSI_ZNS), 0);
	cr_expect(conform_is_zero(&c, CONFORM_IDENTIFY, HR_PAGE));
	cr_expect_eq(identify(NVME_IDENTIFY_CNS_CSI_NS_ACTIVE_LIST, 0, NVME_CSI_NVM), 0);
	cr_expect(conform_is_zero(&c, CONFORM_IDENTIFY, HR_PAGE));
	cr_expect_eq(identify(NVME_IDENTIFY_CNS_CSI_NS_ACTIVE_LIST, 0, NVME_CSI_KV),
		     NVME_SC_INVALID_IOCS);
	cr_expect_eq(identify(NVME_IDENTIFY_CNS_COMMAND_SET_STRUCTURE, 0, 0), 0);
	cr_expect(sets[0] == 5 && sets[1] == 0);
}

/* The UUID comes first, and takes 20 bytes. */
Test(soft_zoned, descriptors_of_the_namespace_name_the_command_set)
{
	static const uint8_t want[] = { NVME_NIDT_CSI, 1, 0, 0, NVME_CSI_ZNS };
	const uint8_t *page = conform_page(&c, CONFORM_IDENTIFY);

	cr_expect_eq(identify(NVME_IDENTIFY_CNS_NS_DESC_LIST, 1, 0), 0);
	cr_expect_eq(page[0], NVME_NIDT_UUID);
	cr_expect_eq(page[1], 16);
	cr_expect_eq(memcmp(page + 20, want, sizeof want), 0);
	for (uint32_t i = 25; i < HR_PAGE; i++)
		cr_assert_eq(page[i], 0, "byte %u", i);
}

static uint16_t report(uint64_t lba, uint32_t bytes, uint32_t cdw13)
{
	const struct hr_sqe sqe = { .opcode = nvme_zns_cmd_mgmt_recv,
				    .nsid = 1,
				    .prp1 = conform_bus(&c, A),
				    .cdw10 = (uint32_t)lba,
				    .cdw11 = (uint32_t)(lba >> 32),
				    .cdw12 = bytes / 4 - 1,
				    .cdw13 = cdw13 };

	memset(conform_page(&c, A), 0xff, 2 * HR_PAGE);
	return conform_do(&c, &c.io, &sqe, NULL);
}

/*
 * A report of zones from the zone of `lba` on: `count` descriptors in `bytes`; nothing after them
 * is written.
 */
static void expect_report(uint64_t lba, uint32_t bytes, uint64_t zones, uint32_t count)
{
	static const uint64_t capacity[] = { ZONE, ZONE, BLOCKS - 2 * ZONE };
	const uint8_t *page = conform_page(&c, A);
	struct nvme_zns_desc zone;
	uint32_t at = 64;

	cr_assert_eq(report(lba, bytes, 0), 0);
	cr_expect_eq(memcmp(page, &zones, sizeof zones), 0);
	for (uint32_t i = 8; i < 64; i++)
		cr_expect_eq(page[i], 0, "byte %u", i);
	for (uint32_t i = 0; i < count; i++, at += sizeof zone) {
		memcpy(&zone, page + at, sizeof zone);
		cr_expect_eq(zone.zt, NVME_ZONE_TYPE_SEQWRITE_REQ);
		cr_expect_eq(zone.zs, NVME_ZNS_ZS_FULL << 4);
		cr_expect_eq(zone.zslba, (lba / ZONE + i) * ZONE);
		cr_expect_eq(zone.zcap, capacity[lba / ZONE + i]);
		cr_expect_eq(zone.wp, UINT64_MAX);
	}
	for (; at < bytes; at++)
		cr_assert_eq(page[at], 0, "byte %u of %u", at, bytes);
	cr_expect(at >= 2 * HR_PAGE || page[at] == 0xff, "more than %u bytes", bytes);
}

Test(soft_zoned, the_report_has_as_many_zones_as_fit_the_buffer)
{
	expect_report(0, HR_PAGE, 3, 3);
	expect_report(0, 64 + 3 * 64, 3, 3);
	expect_report(0, 64 + 3 * 64 - 4, 3, 2);
	expect_report(0, 64, 3, 0);
	expect_report(ZONE - 1, HR_PAGE, 3, 3);
	expect_report(ZONE, HR_PAGE, 2, 2);
	expect_report(BLOCKS - 1, HR_PAGE, 1, 1);
	cr_expect_eq(report(BLOCKS, HR_PAGE, 0), NVME_SC_LBA_RANGE);
	cr_expect_eq(report(1ull << 32, HR_PAGE, 0), NVME_SC_LBA_RANGE);
	cr_expect_eq(report(0, HR_PAGE + 4, 0), NVME_SC_INVALID_FIELD);
	cr_expect_eq(report(0, HR_PAGE, 1), NVME_SC_INVALID_FIELD); /* extended report */
}

static uint16_t command(uint8_t opcode)
{
	return conform_io(&c, opcode, 0, 1, A, 0);
}

Test(soft_zoned, full_zones_are_read_and_not_written)
{
	cr_expect_eq(command(nvme_cmd_read), 0);
	cr_expect(conform_is_zero(&c, A, 4096));
	cr_expect_eq(command(nvme_cmd_flush), 0);
	cr_expect_eq(command(nvme_cmd_write), FULL);
	cr_expect_eq(command(nvme_cmd_write_zeroes), FULL);
	cr_expect_eq(command(nvme_zns_cmd_append), FULL);
	cr_expect_eq(command(nvme_zns_cmd_mgmt_send),
		     CONFORM_SPECIFIC(NVME_SC_ZNS_INVAL_TRANSITION));
	cr_expect_eq(command(nvme_cmd_compare), NVME_SC_INVALID_OPCODE);
}

/* Whole zones: none is behind the last block. */
Test(soft_zoned, a_disk_of_whole_zones_has_no_short_one)
{
	uint64_t zones;

	conform_close(&c);
	start_with("soft:memory,size=8M,lba=4096,zoned=1");
	cr_expect_eq(report(0, HR_PAGE, 0), 0);
	memcpy(&zones, conform_page(&c, A), sizeof zones);
	cr_expect_eq(zones, 2u);
	cr_expect_eq(report(2 * ZONE, HR_PAGE, 0), NVME_SC_LBA_RANGE);
}
