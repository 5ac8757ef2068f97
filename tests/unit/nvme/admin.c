/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Admin commands: texts of those that fail, commands of others that complete meanwhile, and an
 * admin queue that has ended.
 */
#include "nvme/admin.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "config/base/clock.h"
#include "nvme/events.h"
#include "tests/fakes/clock.h"
#include "tests/fakes/ctrl.h"
#include "tests/harness/error.h"

static struct fake_ctrl fake;

static void setup(void)
{
	fake_ctrl_init(&fake);
	cr_assert_eq(fake_ctrl_open(&fake), 0);
}

static void teardown(void)
{
	fake_ctrl_fini(&fake);
}

TestSuite(admin, .init = setup, .fini = teardown, .timeout = 60);

Test(admin, only_a_status_has_a_text)
{
	static const int row[] = { 0, -EIO, -ETIMEDOUT };

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		cr_expect_eq(hr_admin_fail(&fake.ctrl, "test", 3, row[i], test_error()), row[i]);
		cr_expect_str_eq(test_error_text(), "", "%s", test_error_text());
		cr_expect_eq(test_error_kind(), HR_ERROR_NONE);
	}
	cr_expect_eq(hr_admin_fail(&fake.ctrl, "test", 3, 1, test_error()), 1);
	cr_expect_eq(test_error_kind(), HR_ERROR_DEVICE);
	cr_expect_not_null(strstr(test_error_text(), ": admin test 3: "), "%s", test_error_text());
	cr_expect_not_null(strstr(test_error_text(), " (001)"), "%s", test_error_text());
}

/* The completion of an event request comes before that of the command that is waited for. */
Test(admin, an_event_that_completes_meanwhile_is_noted)
{
	struct hr_sqe sqe = { .opcode = nvme_admin_set_features, .cdw10 = 7 };
	uint32_t dw0 = 0;

	fake.queues_granted = 0x00050004;
	fake.ctrl.requests = 2;
	cr_assert_geq(hr_qp_push(&fake.ctrl.admin, true, &sqe, HR_ADMIN_EVENT), 0);
	cr_expect_eq(hr_admin_set_feature(&fake.ctrl, 7, 1, &dw0, test_error()), 0, "%s",
		     test_error_text());
	cr_expect_eq(dw0, 0x00050004u);
	cr_expect_eq(fake.ctrl.requests, 1u);
	cr_expect_eq(fake.ctrl.events, 1u);
	cr_expect_eq(fake.ctrl.event[0], 0x00050004u);
	cr_expect_eq(hr_qp_outstanding(&fake.ctrl.admin), 0u);
}

/* A queue that has ended takes no command, and each further one says why without another fault. */
Test(admin, a_queue_that_has_ended_takes_no_command)
{
	const uint32_t before = fake.commands;
	uint64_t start;

	hr_qp_fail(&fake.ctrl.admin, -ETIMEDOUT);
	start = hr_now_ns();
	cr_expect_eq(hr_admin_identify(&fake.ctrl, NVME_IDENTIFY_CNS_CTRL, 0, test_error()),
		     -ETIMEDOUT);
	cr_expect_eq(hr_now_ns(), start, "nothing is waited for");
	cr_expect_not_null(
		strstr(test_error_text(),
		       ": admin identify: the admin queue accepts no commands: given up"),
		"%s", test_error_text());
	cr_expect_eq(test_error_kind(), HR_ERROR_DEVICE);
	cr_expect(test_error_last.printed, "its end was reported");
	cr_expect_eq(fake.commands, before);
}

/* Data of an earlier command is not that of a log page that is not given. */
Test(admin, the_page_of_data_is_zeroed_first)
{
	const uint8_t *data = fake.ctrl.admin_data;

	memset(fake.ctrl.admin_data, 0x77, HR_PAGE);
	fake.opcode = nvme_admin_get_log_page;
	fake.lie = FAKE_LOSE;
	cr_expect_eq(hr_admin_get_log(&fake.ctrl, 2, 512, NULL), -ETIMEDOUT);
	for (uint32_t i = 0; i < HR_PAGE; i++)
		cr_assert_eq(data[i], 0, "byte %u", i);
}

/* The text of a lost command has its name, and the time that it had. */
Test(admin, a_lost_command_is_named_with_its_deadline)
{
	fake.opcode = nvme_admin_get_log_page;
	fake.lie = FAKE_LOSE;
	cr_expect_eq(hr_admin_get_log(&fake.ctrl, 2, 512, test_error()), -ETIMEDOUT);
	cr_expect_not_null(strstr(test_error_text(), "admin get log page (cid "), "%s",
			   test_error_text());
	cr_expect_not_null(strstr(test_error_text(), "): no completion after 60000 ms"), "%s",
			   test_error_text());
}

/* Bit 0 of DW0 set: the command was not aborted, and a refused abort says nothing of it. */
Test(admin, an_abort_says_what_the_controller_did)
{
	bool aborted = true;

	fake.opcode = nvme_admin_abort_cmd;
	fake.status = 0x103;
	fake.times = 1;
	cr_expect_eq(hr_admin_abort(&fake.ctrl, 1, 2, &aborted, test_error()), 0x103);
	cr_expect(aborted, "it stays as it was");
	aborted = false;
	fake.opcode = 0;
	fake.status = 0;
	cr_expect_eq(hr_admin_abort(&fake.ctrl, 1, 2, &aborted, test_error()), 0);
	cr_expect(aborted);
}
