/* SPDX-License-Identifier: Apache-2.0 */
/* The message about a controller that has lost a command. */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "nvme/ctrl.h"
#include "tests/fakes/clock.h"
#include "tests/fakes/ctrl.h"
#include "tests/fakes/log.h"
#include "tests/harness/error.h"

TestSuite(ctrl_check, .timeout = 60);

Test(ctrl_check, the_explanation_has_only_facts_of_the_registers)
{
	static const struct {
		uint32_t cc, csts, intms;
		const char *says; /* NULL: no message */
	} row[] = {
		{ 0x460001, 1, UINT32_MAX, NULL },
		{ 0x460001, 2, UINT32_MAX, "fatal status (CSTS 00000002)" },
		{ 0x460001, 3, UINT32_MAX, "fatal status (CSTS 00000003)" },
		{ 0x460000, 0, 0, "CC.EN is 0: the controller was reset" },
		{ 0x460000, 2, 0, "fatal status" },
		{ 0x464001, 5, UINT32_MAX, "CC is 00464001, expected 00460001" },
		{ 0x460001, 1, 0, "reset and enabled again" },
		{ 0x460001, 0, 0, "reset and enabled again" },
		{ UINT32_MAX, UINT32_MAX, UINT32_MAX, NULL },
	};

	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		struct fake_ctrl fake;
		unsigned before;

		fake_ctrl_init(&fake);
		cr_assert_eq(fake_ctrl_open(&fake), 0);
		fake_ctrl_set32(&fake, NVME_REG_CC, row[i].cc);
		fake_ctrl_set32(&fake, NVME_REG_CSTS, row[i].csts);
		fake_ctrl_set32(&fake, NVME_REG_INTMS, row[i].intms);
		before = fake_log_count();
		hr_ctrl_explain(&fake.ctrl, NULL);
		hr_ctrl_explain(&fake.ctrl, NULL);
		cr_expect_eq(fake_log_count() - before, row[i].says ? 1u : 0u, "row %zu: once", i);
		if (row[i].says)
			cr_expect(strstr(fake_log_last(), row[i].says), "row %zu: %s", i,
				  fake_log_last());
		fake_ctrl_fini(&fake);
	}
}

Test(ctrl_check, a_device_that_is_gone_gets_no_explanation)
{
	struct fake_ctrl fake;
	unsigned before;

	fake_ctrl_init(&fake);
	cr_assert_eq(fake_ctrl_open(&fake), 0);
	fake_ctrl_set32(&fake, NVME_REG_CC, 0);
	fake_ctrl_set32(&fake, NVME_REG_CSTS, 0);
	fake_ctrl_set32(&fake, NVME_REG_VS, 0);
	before = fake_log_count();
	hr_ctrl_explain(&fake.ctrl, NULL);
	cr_expect_eq(fake_log_count(), before);
	fake_ctrl_fini(&fake);
}

/* CSTS, CC and VS as they are read. */
Test(ctrl_check, a_device_that_goes_between_two_reads_is_gone)
{
	static const struct {
		uint32_t cc, csts, vs;
		int want;
		const char *says;
	} row[] = {
		{ 0x460001, 1, 0x20000, 0, "" },
		{ UINT32_MAX, 1, 0x20000, -ENOLINK,
		  "fake: CC reads all ones: the device is gone, or its function is being reset" },
		{ 0x460001, UINT32_MAX, 0x20000, -ENOLINK,
		  "fake: CSTS reads all ones: the device is gone, or its function is being reset" },
		{ 0, 0, 0, -ENOLINK,
		  "fake: CSTS and VS read 0: the device is gone, or its function is being reset" },
		{ 0x460001, 3, 0x20000, -EIO, "fake: controller fatal status (CSTS 00000003)" },
	};

	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		struct fake_ctrl fake;

		fake_ctrl_init(&fake);
		cr_assert_eq(fake_ctrl_open(&fake), 0);
		fake_ctrl_set32(&fake, NVME_REG_CC, row[i].cc);
		fake_ctrl_set32(&fake, NVME_REG_CSTS, row[i].csts);
		fake_ctrl_set32(&fake, NVME_REG_VS, row[i].vs);
		cr_expect_eq(hr_ctrl_check(&fake.ctrl, test_error()), row[i].want, "row %zu", i);
		cr_expect_str_eq(test_error_text(), row[i].says, "row %zu: %s", i,
				 test_error_text());
		fake_ctrl_fini(&fake);
	}
}
