/* SPDX-License-Identifier: Apache-2.0 */
/* Registers and controller states (NVMe Base 3.1.3, 3.5, 3.6; PCIe Transport 3.1). */
#include <criterion/criterion.h>

#include "tests/harness/conform.h"

#define RDY (1u << NVME_CSTS_RDY_SHIFT)
#define CFS (1u << NVME_CSTS_CFS_SHIFT)
#define SHST ((uint32_t)NVME_CSTS_SHST_MASK << NVME_CSTS_SHST_SHIFT)
#define SHST_COMPLETE ((uint32_t)NVME_CSTS_SHST_CMPLT << NVME_CSTS_SHST_SHIFT)

static struct conform c;

static void reach(void)
{
	conform_reach(&c);
}

static void open_it(void)
{
	conform_open(&c);
}

static void close_it(void)
{
	conform_close(&c);
}

TestSuite(conformance_registers, .init = reach, .fini = close_it, .timeout = 60);
TestSuite(conformance_states, .init = open_it, .fini = close_it, .timeout = 60);

Test(conformance_registers, capabilities_satisfy_the_needs_of_a_driver)
{
	const uint32_t vs = hr_reg_read32(&c.t, NVME_REG_VS);

	cr_expect_geq(NVME_CAP_MQES(c.cap), 1, "MQES is zero-based, two entries at least");
	cr_expect(NVME_CAP_CSS(c.cap) & NVME_CAP_CSS_NVM);
	cr_expect_eq(NVME_CAP_MPSMIN(c.cap), 0);
	cr_expect_leq(NVME_CAP_MPSMIN(c.cap), NVME_CAP_MPSMAX(c.cap));
	cr_expect_neq(NVME_CAP_TO(c.cap), 0);
	cr_expect_geq(vs, 0x00010000u);
	cr_expect_eq(vs & 0xff000000u, 0);
	cr_expect_eq(hr_reg_read32(&c.t, NVME_REG_CSTS) & (RDY | CFS), 0);
}

Test(conformance_registers, read_only_registers_keep_their_values)
{
	const uint32_t vs = hr_reg_read32(&c.t, NVME_REG_VS);

	hr_reg_write64(&c.t, NVME_REG_CAP, 0);
	hr_reg_write32(&c.t, NVME_REG_VS, ~vs);
	hr_reg_write32(&c.t, NVME_REG_CSTS, RDY);
	cr_expect(conform_wait(&c, RDY, 0));
	for (unsigned ms = 0; ms < CONFORM_MS && hr_reg_read64(&c.t, NVME_REG_CAP) != c.cap; ms++)
		hr_wait_ns(HR_NS_PER_MS);
	cr_expect_eq(hr_reg_read64(&c.t, NVME_REG_CAP), c.cap);
	cr_expect_eq(hr_reg_read32(&c.t, NVME_REG_VS), vs);
}

Test(conformance_registers, admin_queue_registers_read_back)
{
	hr_reg_write32(&c.t, NVME_REG_AQA, 0x00070003);
	hr_reg_write64(&c.t, NVME_REG_ASQ, 0x123456000);
	hr_reg_write64(&c.t, NVME_REG_ACQ, 0x654321000);
	cr_expect_eq(hr_reg_read32(&c.t, NVME_REG_AQA), 0x00070003);
	cr_expect_eq(hr_reg_read64(&c.t, NVME_REG_ASQ), 0x123456000);
	cr_expect_eq(hr_reg_read64(&c.t, NVME_REG_ACQ), 0x654321000);
}

Test(conformance_registers, unsupported_settings_are_fatal)
{
	const struct {
		const char *name;
		uint32_t cc;
	} row[] = {
		{ "CSS reserved", conform_cc() | 5u << NVME_CC_CSS_SHIFT },
		{ "MPS beyond MPSMAX", conform_cc() | ((uint32_t)NVME_CAP_MPSMAX(c.cap) + 1)
							      << NVME_CC_MPS_SHIFT },
		{ "IOSQES 15", conform_cc() | 15u << NVME_CC_IOSQES_SHIFT },
		{ "IOCQES 15", conform_cc() | 15u << NVME_CC_IOCQES_SHIFT },
	};

	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		cr_expect_not(conform_enable(&c, row[i].cc), "%s was accepted", row[i].name);
		cr_expect(hr_reg_read32(&c.t, NVME_REG_CSTS) & CFS, "%s", row[i].name);
		cr_expect(conform_disable(&c), "%s: no way back", row[i].name);
		cr_expect(conform_wait(&c, CFS, 0), "%s: CFS survives a reset", row[i].name);
	}
	cr_expect(conform_enable(&c, conform_cc()), "good settings afterwards");
}

Test(conformance_states, a_reset_deletes_queues_and_keeps_the_admin_registers)
{
	const uint64_t asq = hr_reg_read64(&c.t, NVME_REG_ASQ);

	cr_assert_eq(conform_add_io(&c, &c.io, 1, CONFORM_ENTRIES), 0);
	cr_assert(conform_disable(&c));
	cr_expect_eq(hr_reg_read64(&c.t, NVME_REG_ASQ), asq);
	cr_assert(conform_enable(&c, conform_cc()));
	cr_expect_eq(conform_delete(&c, false, 1), CONFORM_SPECIFIC(NVME_SC_QID_INVALID));
	cr_expect_eq(conform_add_io(&c, &c.io, 1, CONFORM_ENTRIES), 0);
	cr_expect_eq(conform_io(&c, nvme_cmd_read, 0, 1, CONFORM_DATA, 0), 0);
}

Test(conformance_states, many_resets_in_a_row)
{
	for (unsigned i = 0; i < 20; i++) {
		cr_assert(conform_disable(&c));
		cr_assert(conform_enable(&c, conform_cc()));
		cr_assert_eq(conform_identify(&c, NVME_IDENTIFY_CNS_CTRL, 0), 0);
	}
}

Test(conformance_states, shutdown_completes_and_a_reset_ends_it)
{
	for (uint32_t shn = NVME_CC_SHN_NORMAL; shn <= NVME_CC_SHN_ABRUPT; shn++) {
		cr_expect_eq(hr_reg_read32(&c.t, NVME_REG_CSTS) & SHST, 0);
		hr_reg_write32(&c.t, NVME_REG_CC, conform_cc() | shn << NVME_CC_SHN_SHIFT);
		cr_expect(conform_wait(&c, SHST, SHST_COMPLETE), "SHN %u", shn);
		cr_assert(conform_disable(&c));
		cr_assert(conform_enable(&c, conform_cc()));
		cr_expect_eq(conform_identify(&c, NVME_IDENTIFY_CNS_CTRL, 0), 0);
	}
}

Test(conformance_states, data_survive_a_reset_and_a_shutdown)
{
	cr_assert_eq(conform_add_io(&c, &c.io, 1, CONFORM_ENTRIES), 0);
	conform_fill(&c, CONFORM_DATA, c.block_bytes, 7);
	cr_assert_eq(conform_io(&c, nvme_cmd_write, 3, 1, CONFORM_DATA, 0), 0);
	for (unsigned shut = 0; shut < 2; shut++) {
		if (shut)
			hr_reg_write32(&c.t, NVME_REG_CC, conform_cc() | 1u << NVME_CC_SHN_SHIFT);
		cr_assert(conform_wait(&c, SHST, shut ? SHST_COMPLETE : 0));
		cr_assert(conform_disable(&c));
		cr_assert(conform_enable(&c, conform_cc()));
		cr_assert_eq(conform_add_io(&c, &c.io, 1, CONFORM_ENTRIES), 0);
		cr_expect_eq(conform_io(&c, nvme_cmd_read, 3, 1, CONFORM_DATA + 1, 0), 0);
		cr_expect(conform_is_filled(&c, CONFORM_DATA + 1, c.block_bytes, 7));
	}
}
