/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a controller, against a fake controller and a fake clock. */
#include <criterion/criterion.h>
#include <errno.h>

#include "config/base/clock.h"
#include "config/base/log.h"
#include "nvme/ctrl.h"
#include "tests/fakes/clock.h"
#include "tests/fakes/ctrl.h"

#define ROWS(table) (sizeof(table) / sizeof(*(table)))

static struct fake_ctrl fake;

static void setup(void)
{
	hr_log_set_level(HR_LOG_ERROR);
	fake_ctrl_init(&fake);
}

static void teardown(void)
{
	fake_ctrl_fini(&fake);
}

TestSuite(ctrl_close, .init = setup, .fini = teardown, .timeout = 60);

Test(ctrl_close, close_shuts_down_and_disables)
{
	cr_assert_eq(fake_ctrl_open(&fake), 0);
	cr_assert_eq(hr_ctrl_close(&fake.ctrl, NULL), 0);
	cr_expect_eq(fake_ctrl_get32(&fake, NVME_REG_CC) & 0xc001, 0u);
	cr_expect_eq(fake_ctrl_get32(&fake, NVME_REG_CSTS), 0u);
	cr_expect_eq(fake.silenced, 1u);
	cr_expect_eq(fake.ctrl.health.state, HR_HEALTH_STOPPED);
}

/* Registers of a function that is being reset read like those of one that is gone. */
Test(ctrl_close, a_function_whose_configuration_space_answers_is_not_gone)
{
	for (unsigned deaf = 0; deaf < 2; deaf++) {
		for (unsigned zero = 0; zero < 2; zero++) {
			teardown();
			setup();
			fake.deaf = deaf;
			fake.gone_reads_zero = zero;
			cr_assert_eq(fake_ctrl_open(&fake), 0);
			fake.gone_at_step = fake.steps + 1;
			hr_wait_ns(HR_NS_PER_MS);
			cr_expect_eq(hr_ctrl_disable(&fake.ctrl, NULL), -ENOLINK);
			cr_expect_eq(fake.silenced, 1u);
			cr_expect_eq(fake.ctrl.health.state,
				     deaf ? HR_HEALTH_STUCK : HR_HEALTH_STOPPED, "%u %u", deaf,
				     zero);
		}
	}
}

/* Also when CC.EN cannot be cleared. */
Test(ctrl_close, a_controller_that_does_not_stop_loses_the_bus)
{
	cr_assert_eq(fake_ctrl_open(&fake), 0);
	fake.stop_steps = FAKE_NEVER;
	cr_expect_eq(hr_ctrl_close(&fake.ctrl, NULL), -ETIMEDOUT);
	cr_expect_eq(fake.silenced, 1u);
	cr_expect_eq(fake.ctrl.health.state, HR_HEALTH_STUCK);
}

Test(ctrl_close, close_ends_in_each_documented_way)
{
	static const struct {
		uint32_t rtd3e_us, shutdown_steps, fatal_after, gone_after;
		int want;
		uint64_t ms_min, ms_max;
	} row[] = {
		{ 0, 1, 0, 0, 0, 0, 1 },
		/* a shutdown that does not complete is no error */
		{ 0, FAKE_NEVER, 0, 0, 0, 1000, 1003 },
		{ 8000000, FAKE_NEVER, 0, 0, 0, 8000, 8003 },
		{ UINT32_MAX, FAKE_NEVER, 0, 0, 0, 60000, 60003 },
		{ 0, 100, 5, 0, -EIO, 0, 1 },
		{ 0, 100, 0, 5, -ENOLINK, 0, 1 },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		uint64_t start, ms;
		int err;

		teardown();
		setup();
		fake.id_ctrl.rtd3e = row[i].rtd3e_us;
		fake.shutdown_steps = row[i].shutdown_steps;
		cr_assert_eq(fake_ctrl_open(&fake), 0);
		if (row[i].fatal_after)
			fake.fatal_at_step = fake.steps + row[i].fatal_after;
		if (row[i].gone_after)
			fake.gone_at_step = fake.steps + row[i].gone_after;
		start = hr_now_ns();
		err = hr_ctrl_close(&fake.ctrl, NULL);
		ms = (hr_now_ns() - start) / HR_NS_PER_MS;
		cr_expect_eq(err, row[i].want, "row %zu: %d", i, err);
		cr_expect(ms >= row[i].ms_min && ms <= row[i].ms_max, "row %zu: %llu ms", i,
			  (unsigned long long)ms);
		if (err != -ENOLINK)
			cr_expect_eq(fake_ctrl_get32(&fake, NVME_REG_CC) & 1, 0u, "row %zu", i);
	}
}

/* Another disk in the place of the first one is not driven. */
Test(ctrl_close, a_reset_that_finds_another_serial_number_disables_the_controller)
{
	cr_assert_eq(fake_ctrl_open(&fake), 0);
	cr_expect_eq(hr_ctrl_reset(&fake.ctrl, NULL), 0);
	cr_expect_eq(fake_ctrl_get32(&fake, NVME_REG_CC) & 1, 1u);
	fake.id_ctrl.sn[1] = '2';
	cr_expect_eq(hr_ctrl_reset(&fake.ctrl, NULL), -ESTALE);
	cr_expect_eq(fake_ctrl_get32(&fake, NVME_REG_CC) & 1, 0u);
}
