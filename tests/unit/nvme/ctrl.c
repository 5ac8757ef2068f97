/* SPDX-License-Identifier: Apache-2.0 */
/* Controller bring-up and I/O queue pairs against a fake controller and a fake clock. */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "config/base/clock.h"
#include "config/base/log.h"
#include "config/base/tick.h"
#include "nvme/admin.h"
#include "nvme/ctrl.h"
#include "nvme/identify.h"
#include "tests/fakes/clock.h"
#include "tests/fakes/ctrl.h"

#define ROWS(table) (sizeof(table) / sizeof(*(table)))
#define CAP_NVM NVME_SET((uint64_t)NVME_CAP_CSS_NVM, CAP_CSS)

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

TestSuite(ctrl, .init = setup, .fini = teardown, .timeout = 60);

static uint64_t open_ms(int *err)
{
	const uint64_t start = hr_now_ns();

	*err = fake_ctrl_open(&fake);
	return (hr_now_ns() - start) / HR_NS_PER_MS;
}

Test(ctrl, bring_up_ends_in_each_documented_way)
{
	static const struct {
		const char *what;
		uint32_t cc, csts; /* values that the driver finds */
		uint32_t ready_steps, stop_steps, fatal_at, gone_at;
		int want;
		uint64_t ms_min, ms_max;
	} row[] = {
		{ "off", 0, 0, 1, 1, 0, 0, 0, 0, 1 },
		{ "on", 0x460001, 1, 1, 1, 0, 0, 0, 0, 1 },
		{ "on, shut down", 0x464001, 9, 1, 1, 0, 0, 0, 0, 1 },
		{ "still coming up", 0x460001, 0, 3, 1, 0, 0, 0, 0, 1 },
		{ "coming up slowly", 0x460001, 0, 5000, 1, 0, 0, 0, 9000, 11000 },
		{ "never comes up", 0x460001, 0, FAKE_NEVER, 1, 0, 0, -ETIMEDOUT, 8000, 8002 },
		{ "failed while coming up", 0x460001, 2, 1, 1, 0, 0, 0, 0, 1 },
		{ "stays failed", 0x460001, 2, FAKE_NEVER, 1, 0, 0, -EIO, 8000, 8002 },
		{ "fails while coming up", 0x460001, 0, 100, 1, 7, 0, 0, 0, 200 },
		{ "leaves while coming up", 0x460001, 0, 100, 1, 0, 7, -ENOLINK, 0, 1 },
		{ "failed before", 0x460001, 3, 1, 1, 0, 0, 0, 0, 1 },
		{ "slow", 0, 0, 5000, 1, 0, 0, 0, 4500, 5500 },
		{ "never ready", 0, 0, FAKE_NEVER, 1, 0, 0, -ETIMEDOUT, 8000, 8002 },
		{ "never stops", 0x460001, 1, 1, FAKE_NEVER, 0, 0, -ETIMEDOUT, 8000, 8002 },
		{ "fails while stopping", 0x460001, 3, 1, FAKE_NEVER, 0, 0, -EIO, 8000, 8002 },
		/* registers may read all ones for a while after CC.EN = 0 */
		{ "leaves while stopping", 0x460001, 1, 1, 100, 0, 7, -ENOLINK, 8000, 8002 },
		{ "fails while starting", 0, 0, 100, 1, 7, 0, -EIO, 0, 1 },
		{ "leaves while starting", 0, 0, 100, 1, 0, 7, -ENOLINK, 0, 1 },
		{ "is not there", UINT32_MAX, UINT32_MAX, 1, 1, 0, 0, -ENOLINK, 0, 0 },
		{ "leaves, and reads are zero", 0, 0, 100, 1, 0, 7, -ENOLINK, 0, 1 },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		uint64_t ms;
		int err;

		teardown();
		setup();
		fake_ctrl_set32(&fake, NVME_REG_CC, row[i].cc);
		fake.last_cc = row[i].cc;
		fake_ctrl_set32(&fake, NVME_REG_CSTS, row[i].csts);
		fake.ready_steps = row[i].ready_steps;
		fake.stop_steps = row[i].stop_steps;
		fake.fatal_at_step = row[i].fatal_at;
		fake.gone_at_step = row[i].gone_at;
		fake.gone_reads_zero = strstr(row[i].what, "zero") != NULL;
		ms = open_ms(&err);
		cr_expect_eq(err, row[i].want, "%s: %d", row[i].what, err);
		cr_expect_eq(fake.undefined_resets, 0, "%s", row[i].what);
		cr_expect(ms >= row[i].ms_min && ms <= row[i].ms_max, "%s: %llu ms", row[i].what,
			  (unsigned long long)ms);
	}
}

static uint64_t last_tick_ns, longest_ns;

static void note_tick(void *to, uint64_t now_ns)
{
	if (now_ns - last_tick_ns > longest_ns)
		longest_ns = now_ns - last_tick_ns;
	last_tick_ns = now_ns;
}

/* The function is called during start, stop, a lost command and a shutdown that does not end. */
Test(ctrl, the_periodic_function_is_called_during_long_waits)
{
	static const uint32_t row[][4] = { { 5000, 1, 1, FAKE_HONEST },
					   { FAKE_NEVER, 1, 1, FAKE_HONEST },
					   { 1, FAKE_NEVER, 1, FAKE_HONEST },
					   { 1, 1, FAKE_NEVER, FAKE_HONEST },
					   { 1, 1, 1, FAKE_LOSE } }; /* ready, stop, shutdown */

	for (size_t i = 0; i < ROWS(row); i++) {
		fake_ctrl_fini(&fake);
		fake_ctrl_init(&fake);
		fake.ready_steps = row[i][0];
		fake.stop_steps = row[i][1];
		fake.shutdown_steps = row[i][2];
		fake.opcode = nvme_admin_identify;
		fake.lie = (enum fake_lie)row[i][3];
		longest_ns = 0;
		last_tick_ns = hr_now_ns();
		hr_tick_set(note_tick, NULL);
		if (fake_ctrl_open(&fake) == 0)
			hr_ctrl_close(&fake.ctrl, NULL);
		hr_tick();
		hr_tick_set(NULL, NULL);
		cr_expect_leq(longest_ns, 2 * HR_TICK_NS, "row %zu: %llu ms", i,
			      (unsigned long long)(longest_ns / HR_NS_PER_MS));
	}
}

/* The caller must not free the memory of the admin queue. */
Test(ctrl, a_controller_that_fails_to_open_and_does_not_stop_is_stuck)
{
	static const struct {
		uint32_t ready_steps, stop_steps;
		enum fake_lie lie;
		enum hr_health_state want;
	} row[] = {
		{ 1, 1, FAKE_LOSE, HR_HEALTH_STOPPED },
		{ 1, FAKE_NEVER, FAKE_LOSE, HR_HEALTH_STUCK },
		{ 1, FAKE_NEVER, FAKE_FATAL, HR_HEALTH_STUCK },
		{ 1, FAKE_NEVER, FAKE_GONE, HR_HEALTH_STOPPED }, /* gone means stopped */
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		teardown();
		setup();
		fake.ready_steps = row[i].ready_steps;
		fake.stop_steps = row[i].stop_steps;
		fake.opcode = nvme_admin_identify;
		fake.lie = row[i].lie;
		cr_expect_neq(fake_ctrl_open(&fake), 0, "row %zu", i);
		cr_expect_eq(fake.ctrl.health.state, row[i].want, "row %zu: %s", i,
			     hr_health_rule(fake.ctrl.health.state)->name);
	}
}

Test(ctrl, an_admin_queue_that_ends_leaves_io_until_a_reset)
{
	cr_assert_eq(fake_ctrl_open(&fake), 0);
	fake.opcode = nvme_admin_get_log_page;
	fake.lie = FAKE_LOSE;
	cr_expect_eq(hr_admin_get_log(&fake.ctrl, 2, 512, NULL), -ETIMEDOUT);
	cr_expect_eq(fake.ctrl.health.state, HR_HEALTH_NO_ADMIN);
	cr_expect_eq(fake.ctrl.health.count[HR_FAULT_ADMIN_QUEUE], 1u);
	fake.lie = FAKE_HONEST;
	cr_expect_eq(hr_ctrl_reset(&fake.ctrl, NULL), 0);
	cr_expect_eq(fake.ctrl.health.state, HR_HEALTH_UP);
	cr_expect_eq(hr_admin_get_log(&fake.ctrl, 2, 512, NULL), 0);
	cr_expect_eq(hr_ctrl_close(&fake.ctrl, NULL), 0);
	cr_expect_eq(fake.ctrl.health.state, HR_HEALTH_STOPPED);
}

Test(ctrl, a_version_of_zero_is_a_device_that_is_gone)
{
	fake_ctrl_set32(&fake, NVME_REG_VS, 0);
	cr_expect_eq(fake_ctrl_open(&fake), -ENOLINK);
	teardown();
	setup();
	cr_assert_eq(fake_ctrl_open(&fake), 0);
	cr_expect_eq(hr_ctrl_check(&fake.ctrl, NULL), 0);
	fake_ctrl_set32(&fake, NVME_REG_CSTS, 0); /* reset by another driver */
	cr_expect_eq(hr_ctrl_check(&fake.ctrl, NULL), -ECONNRESET);
	fake_ctrl_set32(&fake, NVME_REG_VS, 0);
	cr_expect_eq(hr_ctrl_check(&fake.ctrl, NULL), -ENOLINK);
}

Test(ctrl, bring_up_writes_the_registers_of_the_specification)
{
	cr_assert_eq(fake_ctrl_open(&fake), 0);
	cr_expect_eq(fake_ctrl_get32(&fake, NVME_REG_AQA), 0x003f003fu);
	cr_expect_eq(fake_ctrl_get32(&fake, NVME_REG_ASQ), (uint32_t)FAKE_BUS);
	cr_expect_eq(fake_ctrl_get32(&fake, NVME_REG_ASQ + 4), (uint32_t)(FAKE_BUS >> 32));
	cr_expect_eq(fake_ctrl_get32(&fake, NVME_REG_ACQ), (uint32_t)FAKE_BUS + HR_PAGE);
	cr_expect_eq(fake_ctrl_get32(&fake, NVME_REG_CC), 0x00460001u);
	cr_expect_str_eq(fake_ctrl_trace(&fake), "06");
	cr_expect_eq(fake.seen[0].cdw10, 1u);
	cr_expect_eq(fake.seen[0].prp1, FAKE_BUS + 2 * HR_PAGE);
}

Test(ctrl, a_failed_open_leaves_the_controller_disabled)
{
	fake.id_ctrl.cntrltype = 2;
	cr_assert_eq(fake_ctrl_open(&fake), -ENOTSUP);
	cr_expect_eq(fake_ctrl_get32(&fake, NVME_REG_CC) & 1, 0u);
	cr_expect_eq(fake_ctrl_get32(&fake, NVME_REG_CSTS), 0u);
}

Test(ctrl, admin_commands_end_in_each_documented_way)
{
	static const struct {
		enum fake_lie lie;
		uint16_t status;
		int want, again; /* results of the command and of the next command */
		uint64_t ms_min, ms_max;
	} row[] = {
		{ FAKE_HONEST, 0, 0, 0, 0, 1 },
		{ FAKE_HONEST, 0x109, 0x109, 0, 0, 1 },
		{ FAKE_LOSE, 0, -ETIMEDOUT, -ETIMEDOUT, 60000, 67600 },
		{ FAKE_GENERATION, 0, -ETIMEDOUT, -ETIMEDOUT, 60000, 67600 },
		{ FAKE_CID, 0, -EPROTO, -EPROTO, 0, 1 },
		{ FAKE_SQHD, 0, -EPROTO, -EPROTO, 0, 1 },
		{ FAKE_SQID, 0, -EPROTO, -EPROTO, 0, 1 },
		{ FAKE_FATAL, 0, -EIO, -EIO, 0, 1 },
		{ FAKE_GONE, 0, -ENOLINK, -ENOLINK, 0, 1 },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		uint64_t start, ms;
		int err;

		teardown();
		setup();
		cr_assert_eq(fake_ctrl_open(&fake), 0);
		fake.opcode = nvme_admin_get_log_page;
		fake.lie = row[i].lie;
		fake.status = row[i].status;
		start = hr_now_ns();
		err = hr_admin_get_log(&fake.ctrl, NVME_LOG_LID_SMART, 512, NULL);
		ms = (hr_now_ns() - start) / HR_NS_PER_MS;
		cr_expect_eq(err, row[i].want, "row %zu: %d", i, err);
		cr_expect(ms >= row[i].ms_min && ms <= row[i].ms_max, "row %zu: %llu ms", i,
			  (unsigned long long)ms);
		err = hr_admin_identify(&fake.ctrl, NVME_IDENTIFY_CNS_CTRL, 0, NULL);
		cr_expect_eq(err, row[i].again, "row %zu, next: %d", i, err);
	}
}

Test(ctrl, typed_admin_commands_encode_their_fields)
{
	uint32_t dw0 = 0;
	bool aborted = false;

	fake.queues_granted = 0x12345678;
	cr_assert_eq(fake_ctrl_open(&fake), 0);
	cr_expect_eq(hr_admin_get_log(&fake.ctrl, 2, 512, NULL), 0);
	cr_expect_eq(fake.seen[1].cdw10, 127u << 16 | 2u);
	cr_expect_eq(fake.seen[1].nsid, UINT32_MAX);
	cr_expect_eq(hr_admin_get_log(&fake.ctrl, 2, 0, NULL), -EINVAL);
	cr_expect_eq(hr_admin_get_log(&fake.ctrl, 2, 6, NULL), -EINVAL);
	cr_expect_eq(hr_admin_get_log(&fake.ctrl, 2, HR_PAGE + 4, NULL), -EINVAL);
	cr_expect_eq(hr_admin_set_feature(&fake.ctrl, 6, 1, &dw0, NULL), 0);
	cr_expect_eq(dw0, 0x12345678u);
	cr_expect_eq(fake.seen[2].cdw10, 6u);
	cr_expect_eq(fake.seen[2].cdw11, 1u);
	cr_expect_eq(hr_admin_get_feature(&fake.ctrl, 7, &dw0, NULL), 0);
	cr_expect_eq(hr_admin_abort(&fake.ctrl, 3, 0x1234, &aborted, NULL), 0);
	cr_expect_eq(fake.seen[4].cdw10, 0x12340003u);
	cr_expect(aborted);
	cr_expect_str_eq(fake_ctrl_trace(&fake), "06 02 09 0a 08");
}

Test(ctrl, number_of_queues_is_the_smallest_of_all_limits)
{
	static const struct {
		uint32_t want, dw0, dstrd, err, got;
	} row[] = {
		{ 4, 0x00030003, 0, 0, 4 },	  { 4, 0x00010003, 0, 0, 2 },
		{ 4, 0x00030000, 0, 0, 1 },	  { 4, 0xffffffff, 0, 0, 4 },
		{ 5000, 0xffffffff, 0, 0, 1535 }, { 5000, 0xffffffff, 8, 0, 5 },
		{ 0, 0, 0, EINVAL, 0 },		  { 65536, 0, 0, EINVAL, 0 },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		uint32_t got = 0;
		int err;

		teardown();
		setup();
		fake.queues_granted = row[i].dw0;
		fake_ctrl_set_cap(&fake, NVME_SET(63ull, CAP_MQES) | CAP_NVM |
						 NVME_SET((uint64_t)row[i].dstrd, CAP_DSTRD));
		cr_assert_eq(fake_ctrl_open(&fake), 0);
		err = hr_ctrl_set_queues(&fake.ctrl, row[i].want, &got, NULL);
		cr_expect_eq(err, -(int)row[i].err, "row %zu: %d", i, err);
		cr_expect_eq(got, row[i].got, "row %zu: %u", i, got);
		cr_expect_eq(fake.ctrl.io_queues, row[i].got, "row %zu", i);
	}
}

static void make_qp(struct hr_nvme_qp *qp, uint16_t id, uint32_t entries)
{
	static uint64_t table[4096 * 3];
	const struct hr_qp_memory memory = {
		.sq = fake.memory + 4 * HR_PAGE,
		.cq = fake.memory + 8 * HR_PAGE,
		.table = table,
	};

	cr_assert_eq(hr_qp_init(qp, id, entries, &memory, HR_NS_PER_S), 0);
}

static int create(struct hr_nvme_qp *qp)
{
	return hr_ctrl_create_qp(&fake.ctrl, qp, (struct hr_bus){ FAKE_BUS + 4 * HR_PAGE },
				 (struct hr_bus){ FAKE_BUS + 8 * HR_PAGE }, NULL);
}

Test(ctrl, queue_pairs_are_created_cq_first_and_deleted_sq_first)
{
	struct hr_nvme_qp qp;
	uint32_t got;

	cr_assert_eq(fake_ctrl_open(&fake), 0);
	cr_assert_eq(hr_ctrl_set_queues(&fake.ctrl, 4, &got, NULL), 0);
	make_qp(&qp, 3, 64);
	cr_assert_eq(create(&qp), 0);
	cr_expect_eq(fake.seen[2].cdw10, 63u << 16 | 3u);
	cr_expect_eq(fake.seen[2].cdw11, 1u);
	cr_expect_eq(fake.seen[2].prp1, FAKE_BUS + 8 * HR_PAGE);
	cr_expect_eq(fake.seen[3].cdw10, 63u << 16 | 3u);
	cr_expect_eq(fake.seen[3].cdw11, 3u << 16 | 1u);
	cr_expect_eq(fake.seen[3].prp1, FAKE_BUS + 4 * HR_PAGE);
	cr_expect_eq((uint8_t *)qp.sq_doorbell - fake.bar, 0x1000 + 6 * 4);
	cr_expect_eq((uint8_t *)qp.cq_doorbell - fake.bar, 0x1000 + 7 * 4);
	cr_assert_eq(hr_ctrl_delete_qp(&fake.ctrl, 3, NULL), 0);
	cr_expect_str_eq(fake_ctrl_trace(&fake), "06 09 05 01 00 04");
	cr_expect_eq(fake.seen[4].cdw10, 3u);
	cr_expect_eq(fake.seen[5].cdw10, 3u);
}

Test(ctrl, queue_pair_failures_unwind)
{
	static const struct {
		uint16_t id;
		uint32_t entries;
		uint8_t opcode;
		uint16_t status;
		int want;
		const char *trace;
	} row[] = {
		{ 0, 64, 0xff, 0, -EINVAL, "06 09" },
		{ 5, 64, 0xff, 0, -EINVAL, "06 09" },
		{ 1, 128, 0xff, 0, -EINVAL, "06 09" },
		{ 1, 64, nvme_admin_create_cq, 0x101, 0x101, "06 09 05" },
		{ 1, 64, nvme_admin_create_sq, 0x102, 0x102, "06 09 05 01 04" },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		struct hr_nvme_qp qp;
		uint32_t got;
		int err;

		teardown();
		setup();
		cr_assert_eq(fake_ctrl_open(&fake), 0);
		cr_assert_eq(hr_ctrl_set_queues(&fake.ctrl, 4, &got, NULL), 0);
		fake.opcode = row[i].opcode;
		fake.status = row[i].status;
		make_qp(&qp, row[i].id, row[i].entries);
		err = create(&qp);
		cr_expect_eq(err, row[i].want, "row %zu: %d", i, err);
		cr_expect_str_eq(fake_ctrl_trace(&fake), row[i].trace, "row %zu", i);
	}
}

Test(ctrl, a_queue_whose_sq_stays_keeps_its_cq)
{
	cr_assert_eq(fake_ctrl_open(&fake), 0);
	fake.opcode = nvme_admin_delete_sq;
	fake.status = 0x101;
	cr_expect_eq(hr_ctrl_delete_qp(&fake.ctrl, 1, NULL), 0x101);
	cr_expect_str_eq(fake_ctrl_trace(&fake), "06 00");
}
