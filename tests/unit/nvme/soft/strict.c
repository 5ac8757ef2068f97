/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cases in which the software controller is stricter than others, so that mistakes of drivers show
 * here: doorbells, namespaces of commands without one, CIDs and CQIDs.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "config/base/clock.h"
#include "nvme/soft/soft.h"
#include "tests/harness/conform.h"
#include "tests/fakes/log.h"

TestSuite(soft_strict, .timeout = 60);

static struct conform c;

static uint16_t admin(uint8_t opcode, uint32_t nsid, uint32_t cdw10, uint32_t cdw11)
{
	const struct hr_sqe sqe = { .opcode = opcode,
				    .nsid = nsid,
				    .prp1 = conform_bus(&c, CONFORM_IDENTIFY),
				    .cdw10 = cdw10,
				    .cdw11 = cdw11 };

	return conform_admin(&c, &sqe, NULL);
}

Test(soft_strict, a_namespace_field_without_meaning_is_refused)
{
	const uint32_t all = NVME_NSID_ALL, aec = NVME_FEAT_FID_ASYNC_EVENT;
	const uint32_t log = 15u << 16 | NVME_LOG_LID_ERROR;
	const struct {
		uint8_t opcode;
		uint32_t nsid, cdw10;
		uint16_t want;
	} row[] = {
		{ nvme_admin_set_features, 0, aec, 0 },
		{ nvme_admin_set_features, all, aec, 0 },
		{ nvme_admin_set_features, 1, aec, CONFORM_SPECIFIC(NVME_SC_FEATURE_NOT_PER_NS) },
		{ nvme_admin_set_features, 2, aec, NVME_SC_INVALID_NS },
		{ nvme_admin_get_features, 1, aec, 0 },
		{ nvme_admin_get_features, 2, aec, NVME_SC_INVALID_NS },
		{ nvme_admin_get_log_page, 0, log, 0 },
		{ nvme_admin_get_log_page, all, log, 0 },
		{ nvme_admin_get_log_page, 1, log, NVME_SC_INVALID_FIELD },
		{ nvme_admin_identify, 0, NVME_IDENTIFY_CNS_CTRL, 0 },
		{ nvme_admin_identify, 1, NVME_IDENTIFY_CNS_CTRL, NVME_SC_INVALID_FIELD },
		{ nvme_admin_identify, 2, NVME_IDENTIFY_CNS_NS, NVME_SC_INVALID_NS },
		{ nvme_admin_abort_cmd, 1, 0, NVME_SC_INVALID_FIELD },
		{ nvme_admin_async_event, 1, 0, NVME_SC_INVALID_FIELD },
		{ nvme_admin_create_cq, 1, 15u << 16 | 1, NVME_SC_INVALID_FIELD },
		{ nvme_admin_delete_sq, 1, 1, NVME_SC_INVALID_FIELD },
	};

	conform_open(&c);
	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		const uint16_t status = admin(row[i].opcode, row[i].nsid, row[i].cdw10, 0);

		cr_expect_eq(status, row[i].want, "row %zu: %03x", i, status);
	}
	conform_close(&c);
}

/* Queue pair 256 is the last. */
Test(soft_strict, the_last_queue_pair_is_created_used_and_deleted)
{
	const uint16_t last = HR_SOFT_QUEUES, none = CONFORM_SPECIFIC(NVME_SC_QID_INVALID);
	struct conform_queue q;

	conform_use("soft:memory,size=4M");
	conform_open(&c);
	cr_assert_eq(admin(nvme_admin_set_features, 0, NVME_FEAT_FID_NUM_QUEUES,
			   (last - 1u) << 16 | (last - 1u)),
		     0);
	cr_assert_eq(conform_add_io(&c, &q, last, CONFORM_ENTRIES), 0);
	cr_expect_eq(conform_add_io(&c, &(struct conform_queue){ 0 }, last + 1, CONFORM_ENTRIES),
		     none);
	for (uint32_t n = 0; n < 2 * CONFORM_ENTRIES; n++) {
		const struct hr_sqe sqe = conform_io_sqe(&c, nvme_cmd_read, n, 1, CONFORM_DATA);

		cr_expect_eq(conform_do(&c, &q, &sqe, NULL), 0);
	}
	cr_expect_eq(admin(nvme_admin_abort_cmd, 0, last, 0), 0);
	cr_expect_eq(admin(nvme_admin_abort_cmd, 0, last + 1u, 0), NVME_SC_INVALID_FIELD);
	for (unsigned cq = 0; cq < 2; cq++) {
		cr_expect_eq(conform_delete(&c, cq, last + 1), none);
		cr_expect_eq(conform_delete(&c, cq, 0), none);
		cr_expect_eq(conform_delete(&c, cq, last), 0);
		cr_expect_eq(conform_delete(&c, cq, last), none, "it is deleted");
	}
	conform_close(&c);
	conform_use(NULL);
}

/* Also the threshold for low temperature, which has no limit after a reset. */
Test(soft_strict, a_reset_takes_both_temperature_thresholds_back)
{
	static const uint32_t under[] = { 0, 1u << 20 };
	uint32_t first[2], value;

	conform_use("soft:memory,size=4M");
	conform_open(&c);
	for (unsigned reset = 0; reset < 2; reset++) {
		for (unsigned i = 0; i < 2; i++) {
			const struct hr_sqe get = { .opcode = nvme_admin_get_features,
						    .cdw10 = NVME_FEAT_FID_TEMP_THRESH,
						    .cdw11 = under[i] };

			cr_assert_eq(conform_admin(&c, &get, &value), 0);
			cr_expect(!reset || value == first[i], "threshold %u: %u", i, value);
			first[i] = value;
			cr_assert_eq(admin(nvme_admin_set_features, 0, NVME_FEAT_FID_TEMP_THRESH,
					   under[i] | (200 + i)),
				     0);
			cr_assert_eq(conform_admin(&c, &get, &value), 0);
			cr_expect_eq(value & 0xffff, 200 + i);
		}
		cr_assert(conform_disable(&c));
		cr_assert(conform_enable(&c, conform_cc()));
	}
	conform_close(&c);
	conform_use(NULL);
}

/* Each field of CAP, and of VS: 1.4. */
Test(soft_strict, capabilities_follow_the_options)
{
	static const struct {
		const char *device;
		uint32_t dstrd, css;
		size_t bar; /* bytes: 4096, and 2 * 257 doorbells of 4 bytes << DSTRD, whole pages */
	} row[] = {
		{ "soft:memory,size=4M", 0, NVME_CAP_CSS_NVM, 0x2000 },
		{ "soft:memory,size=4M,dstrd=3", 3, NVME_CAP_CSS_NVM, 0x6000 },
		{ "soft:memory,size=4M,lba=4096,zoned=1", 0, NVME_CAP_CSS_NVM | NVME_CAP_CSS_CSI,
		  0x2000 },
	};

	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		conform_use(row[i].device);
		conform_reach(&c);
		cr_expect_eq(c.cap,
			     (HR_SOFT_ENTRIES - 1) | 1ull << 16 | 10ull << 24 |
				     (uint64_t)row[i].dstrd << 32 | (uint64_t)row[i].css << 37,
			     "row %zu: %016llx", i, (unsigned long long)c.cap);
		cr_expect_eq(c.t.bar_bytes, row[i].bar, "row %zu: %zx", i, c.t.bar_bytes);
		cr_expect_eq(hr_reg_read32(&c.t, NVME_REG_VS), 0x00010400u);
		cr_expect_eq(hr_reg_read32(&c.t, NVME_REG_INTMS), 0);
		cr_expect_eq(hr_reg_read32(&c.t, NVME_REG_INTMC), 0);
		conform_close(&c);
	}
	conform_use(NULL);
}

/* The controller has read CC: it has read the registers twice after this function was called. */
static void expect_read(void)
{
	for (uint32_t i = 0; i < 3; i++) {
		const uint64_t deadline = hr_now_ns() + 30 * HR_NS_PER_S;

		hr_reg_write32(&c.t, NVME_REG_INTMS, 1u << i);
		while (!(hr_reg_read32(&c.t, NVME_REG_INTMC) & 1u << i))
			cr_assert_lt(hr_now_ns(), deadline);
	}
	hr_reg_write32(&c.t, NVME_REG_INTMC, 7);
}

/* Wait until both registers read as this mask. */
static void expect_interrupt_mask(uint32_t want)
{
	const uint64_t deadline = hr_now_ns() + 30 * HR_NS_PER_S;

	while (hr_reg_read32(&c.t, NVME_REG_INTMS) != want ||
	       hr_reg_read32(&c.t, NVME_REG_INTMC) != want)
		cr_assert_lt(hr_now_ns(), deadline, "%08x: INTMS %08x, INTMC %08x", want,
			     hr_reg_read32(&c.t, NVME_REG_INTMS),
			     hr_reg_read32(&c.t, NVME_REG_INTMC));
}

/* PCIe Transport 3.1.1: bits are set one by one, cleared one by one, and all by a reset. */
Test(soft_strict, the_interrupt_mask_is_set_cleared_and_reset)
{
	const struct {
		uint32_t reg, value, mask;
	} row[] = {
		{ NVME_REG_INTMS, 0x1, 0x1 },
		{ NVME_REG_INTMS, 0x20, 0x21 },
		{ NVME_REG_INTMS, 0x80000001, 0x80000021 },
		{ NVME_REG_INTMC, 0x1, 0x80000020 },
		{ NVME_REG_INTMC, 0xffffffdf, 0x20 },
		{ NVME_REG_INTMS, 0xffffffff, 0xffffffff },
		{ NVME_REG_INTMC, 0xfffffffe, 0x1 },
	};

	conform_open(&c);
	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		hr_reg_write32(&c.t, row[i].reg, row[i].value);
		expect_interrupt_mask(row[i].mask);
	}
	cr_assert(conform_disable(&c));
	cr_expect_eq(hr_reg_read32(&c.t, NVME_REG_INTMS), 0);
	cr_expect_eq(hr_reg_read32(&c.t, NVME_REG_INTMC), 0);
	/* The mask is cleared, not only the registers: the next bit is alone. */
	hr_reg_write32(&c.t, NVME_REG_INTMS, 4);
	expect_interrupt_mask(4);
	conform_close(&c);
}

/* Only the command sets of CAP.CSS, with the settings that both need. */
Test(soft_strict, a_command_set_that_it_lacks_is_fatal)
{
	for (unsigned zoned = 0; zoned < 2; zoned++) {
		conform_use(zoned ? "soft:memory,size=64M,zoned=1" : "soft:memory,size=64M");
		conform_reach(&c);
		for (uint32_t css = 0; css < 8; css++)
			for (uint32_t mps = 0; mps < 2; mps++) {
				const uint32_t cc = (conform_cc() & ~(7u << NVME_CC_CSS_SHIFT)) |
						    css << NVME_CC_CSS_SHIFT |
						    mps << NVME_CC_MPS_SHIFT;
				const bool good = (css == 0 || (zoned && css == 6)) && !mps;

				cr_assert(conform_disable(&c));
				cr_assert(conform_wait(&c, 3, 0), "CFS stays");
				cr_expect_eq(conform_enable(&c, cc), good, "zoned=%u, %u, %u",
					     zoned, css, mps);
				cr_expect_eq(hr_reg_read32(&c.t, NVME_REG_CSTS), good ? 1u : 2u);
			}
		conform_close(&c);
	}
	conform_use(NULL);
}

/* Base 3.1.3.5: only CC.EN from 0 to 1 starts it, and only CC.EN from 1 to 0 resets it. */
Test(soft_strict, settings_alone_neither_start_nor_reset_it)
{
	conform_reach(&c);
	hr_reg_write32(&c.t, NVME_REG_CC, conform_cc() & ~1u);
	expect_read();
	cr_expect_eq(hr_reg_read32(&c.t, NVME_REG_CSTS), 0);
	conform_close(&c);
	conform_open(&c);
	hr_reg_write32(&c.t, NVME_REG_CC, conform_cc() ^ 1u << NVME_CC_AMS_SHIFT);
	expect_read();
	for (unsigned i = 0; i < 3; i++)
		cr_expect_eq(admin(nvme_admin_identify, 0, NVME_IDENTIFY_CNS_CTRL, 0), 0);
	conform_close(&c);
}

/* The controller grants the requested number of queues, up to the number that it has. */
Test(soft_strict, queues_are_granted_as_requested_up_to_the_limit)
{
	uint32_t granted = 0, most = 0;

	conform_open(&c);
	cr_expect_eq(conform_set_feature(&c, NVME_FEAT_FID_NUM_QUEUES, 0x00020002, &granted), 0);
	cr_expect_eq(granted, 0x00020002u, "%x", granted);
	cr_expect_eq(conform_set_feature(&c, NVME_FEAT_FID_NUM_QUEUES, 0xfffefffe, &most), 0);
	cr_expect_gt(most, granted);
	cr_expect_lt(most, 0xfffefffeu);
	conform_close(&c);

	/* The controller accepts only identifiers of granted queues. */
	conform_open(&c);
	cr_assert_eq(conform_set_feature(&c, NVME_FEAT_FID_NUM_QUEUES, 0x00010001, &granted), 0);
	cr_assert_eq(granted, 0x00010001u);
	cr_expect_eq(conform_create_cq(&c, 3, CONFORM_ENTRIES, CONFORM_RINGS),
		     CONFORM_SPECIFIC(NVME_SC_QID_INVALID));
	cr_expect_eq(conform_create_cq(&c, 2, CONFORM_ENTRIES, CONFORM_RINGS), 0);
	cr_expect_eq(conform_create_sq(&c, 3, 2, CONFORM_ENTRIES, CONFORM_RINGS + 1),
		     CONFORM_SPECIFIC(NVME_SC_QID_INVALID));
	cr_expect_eq(conform_create_sq(&c, 2, 2, CONFORM_ENTRIES, CONFORM_RINGS + 1), 0);
	conform_close(&c);
}

/* It has one power state and no interrupts. */
Test(soft_strict, values_that_a_feature_cannot_have_are_refused)
{
	static const struct {
		uint32_t cdw10, cdw11;
		uint16_t want;
	} row[] = {
		{ NVME_FEAT_FID_IRQ_CONFIG, 0, NVME_SC_INVALID_FIELD },
		{ NVME_FEAT_FID_POWER_MGMT, 1, NVME_SC_INVALID_FIELD },
		{ NVME_FEAT_FID_POWER_MGMT, 0x10, NVME_SC_INVALID_FIELD },
		{ NVME_FEAT_FID_POWER_MGMT, 0x20, 0 }, /* workload hint */
		{ NVME_FEAT_FID_ASYNC_EVENT | 1u << 31, 0,
		  CONFORM_SPECIFIC(NVME_SC_FEATURE_NOT_SAVEABLE) },
	};
	uint32_t value = 0;

	conform_open(&c);
	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++)
		cr_expect_eq(conform_set_feature(&c, row[i].cdw10, row[i].cdw11, NULL), row[i].want,
			     "row %zu", i);
	cr_expect_eq(conform_get_feature(&c, NVME_FEAT_FID_POWER_MGMT, &value), 0);
	cr_expect_eq(value, 0x20u);
	conform_close(&c);
}

Test(soft_strict, a_completion_queue_out_of_range_is_a_wrong_identifier)
{
	static const struct {
		uint32_t cqid;
		uint16_t want;
	} row[] = {
		{ 0, CONFORM_SPECIFIC(NVME_SC_QID_INVALID) },
		{ 2, CONFORM_SPECIFIC(NVME_SC_CQ_INVALID) },
		{ 0xffff, CONFORM_SPECIFIC(NVME_SC_QID_INVALID) },
	};

	conform_open(&c);
	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++)
		cr_expect_eq(conform_create_sq(&c, 1, (uint16_t)row[i].cqid, CONFORM_ENTRIES,
					       CONFORM_RINGS),
			     row[i].want, "CQID %u", row[i].cqid);
	conform_close(&c);
}

/* An event request waits, and so does a read whose completion is delayed. */
Test(soft_strict, a_cid_that_is_in_flight_is_refused)
{
	char file[] = "/tmp/headrace-strict-XXXXXX", device[96];
	const int fd = mkstemp(file);
	struct hr_sqe sqe = { .opcode = nvme_admin_async_event };
	struct hr_cqe cqe;
	uint16_t cid;

	cr_assert(dprintf(fd, "on read: reorder\n") > 0);
	snprintf(device, sizeof(device), "soft:memory,size=64M,faults=%s", file);
	conform_use(device);
	conform_open_io(&c);
	unlink(file);
	close(fd);

	/* The command behind it in the queue ends, so the request waits in the controller. */
	cid = conform_push(&c.admin, &sqe);
	cr_expect_eq(admin(nvme_admin_get_features, 0, NVME_FEAT_FID_ARBITRATION, 0), 0);
	c.admin.cid = cid;
	cr_expect_eq(admin(nvme_admin_get_features, 0, NVME_FEAT_FID_ARBITRATION, 0),
		     NVME_SC_CMDID_CONFLICT);
	cr_expect_eq(admin(nvme_admin_get_features, 0, NVME_FEAT_FID_ARBITRATION, 0), 0);

	sqe = conform_io_sqe(&c, nvme_cmd_read, 0, 1, CONFORM_DATA);
	cid = conform_push(&c.io, &sqe);
	conform_ring(&c, &c.io);
	cr_expect_eq(admin(nvme_admin_get_features, 0, NVME_FEAT_FID_ARBITRATION, 0), 0);
	c.io.cid = cid;
	conform_push(&c.io, &sqe);
	conform_ring(&c, &c.io);
	cr_assert(conform_peek(&c, &c.io, 5000, &cqe));
	conform_release(&c, &c.io);
	cr_expect_eq(cqe.cid, cid);
	cr_expect_eq(hr_cqe_status(cqe.status), NVME_SC_CMDID_CONFLICT);
	cr_assert(conform_peek(&c, &c.io, 5000, &cqe), "the first one");
	cr_expect_eq(hr_cqe_status(cqe.status), 0);
	conform_close(&c);
	conform_use(NULL);
}

Test(soft_strict, data_of_reservations_stay_in_the_windows)
{
	static const uint8_t opcode[] = { nvme_cmd_resv_register, nvme_cmd_resv_report,
					  nvme_cmd_resv_acquire, nvme_cmd_resv_release };
	struct hr_sqe sqe = { .opcode = nvme_cmd_resv_report, .nsid = 1, .cdw10 = 15 };

	conform_use("soft:memory,size=64M,reservations=1");
	conform_open_io(&c);
	sqe.prp1 = conform_bus(&c, CONFORM_DATA);
	cr_expect_eq(conform_do(&c, &c.io, &sqe, NULL), 0);
	sqe.prp1 = 1ull << 50;
	for (size_t i = 0; i < sizeof(opcode); i++) {
		sqe.opcode = opcode[i];
		sqe.cdw10 = opcode[i] == nvme_cmd_resv_report ? 15 : 0;
		cr_expect_eq(conform_do(&c, &c.io, &sqe, NULL), NVME_SC_DATA_XFER_ERROR, "%02x",
			     opcode[i]);
	}
	conform_close(&c);
	conform_use(NULL);
}

/* The statuses of commands sent by one doorbell write, in the order of their completions. */
static void send_at_once(const struct hr_sqe *sqe, const uint16_t *cid, uint32_t n,
			 uint16_t *status)
{
	struct hr_cqe cqe;

	for (uint32_t i = 0; i < n; i++) {
		c.io.cid = cid[i];
		conform_push(&c.io, &sqe[i]);
	}
	conform_ring(&c, &c.io);
	for (uint32_t i = 0; i < n; i++) {
		cr_assert(conform_peek(&c, &c.io, 5000, &cqe), "command %u", i);
		conform_release(&c, &c.io);
		cr_expect_eq(cqe.cid, cid[i]);
		status[i] = hr_cqe_status(cqe.status);
	}
}

/* Both commands count as in flight, even if the first is complete before the second is fetched. */
static void repeat_in_one_doorbell(const char *device)
{
	static const uint16_t cid[] = { 1, 1025, 65535, 1025, 2, 1, 1, 3, 3 };
	static const bool repeated[] = { 0, 0, 0, 1, 0, 1, 1, 0, 1 };
	enum { COUNT = sizeof(cid) / sizeof(cid[0]) };
	uint16_t status[COUNT];
	struct hr_sqe sqe[COUNT];

	conform_use(device);
	conform_open_io(&c);
	for (uint32_t i = 0; i < COUNT; i++) {
		const uint8_t opcode[] = { nvme_cmd_read, nvme_cmd_write };

		sqe[i] = conform_io_sqe(&c, opcode[i & 1], i, 1, CONFORM_DATA + i);
	}
	sqe[7] = (struct hr_sqe){ .opcode = nvme_cmd_flush, .nsid = 1 };
	for (unsigned turn = 0; turn < 3; turn++) {
		send_at_once(sqe, cid, COUNT, status);
		for (uint32_t i = 0; i < COUNT; i++)
			cr_expect_eq(status[i], repeated[i] ? NVME_SC_CMDID_CONFLICT : 0,
				     "%s: turn %u, command %u: %03x", device, turn, i, status[i]);
	}
	conform_close(&c);
	conform_use(NULL);
}

Test(soft_strict, a_cid_is_not_used_twice_in_one_doorbell)
{
	char file[] = "/tmp/headrace-strict-XXXXXX", device[96];
	const int fd = mkstemp(file);

	repeat_in_one_doorbell("soft:memory,size=64M");
	repeat_in_one_doorbell("soft:memory,size=64M,cache=16M");
	repeat_in_one_doorbell("soft:null,size=64M");
	cr_assert(dprintf(fd, "on flush nth 1000: drop\n") > 0);
	snprintf(device, sizeof(device), "soft:memory,size=64M,faults=%s", file);
	repeat_in_one_doorbell(device);
	unlink(file);
	close(fd);
}

Test(soft_strict, a_bad_doorbell_is_a_warning_and_a_log_entry)
{
	const struct nvme_error_log_page *log;
	unsigned warnings;

	conform_open_io(&c);
	log = (const struct nvme_error_log_page *)conform_page(&c, CONFORM_IDENTIFY);
	warnings = fake_log_count_of(HR_LOG_WARN);
	conform_doorbell(&c, 1, false, 5000);
	while (fake_log_count_of(HR_LOG_WARN) == warnings)
		hr_wait_ns(HR_NS_PER_MS);
	cr_expect(strstr(fake_log_last_of(HR_LOG_WARN), "queue 1: SQ tail doorbell value 5000"),
		  "%s", fake_log_last_of(HR_LOG_WARN));
	cr_assert_eq(conform_get_log(&c, NVME_LOG_LID_ERROR, 64, 0), 0);
	cr_expect_eq(log->sqid, 1);
	cr_expect_eq(log->cmdid, 0xffff);
	conform_doorbell(&c, 7, true, 3);
	while (fake_log_count_of(HR_LOG_WARN) == warnings + 1)
		hr_wait_ns(HR_NS_PER_MS);
	cr_expect(strstr(fake_log_last_of(HR_LOG_WARN),
			 "queue 7: CQ head doorbell value 3, but there is no"),
		  "%s", fake_log_last_of(HR_LOG_WARN));
	conform_close(&c);
}

/* A register is memory here: the last value written for a deleted queue is not an error. */
Test(soft_strict, a_queue_that_was_deleted_leaves_no_event_behind)
{
	const struct hr_sqe request = { .opcode = nvme_admin_async_event };
	const unsigned warnings = fake_log_count_of(HR_LOG_WARN);
	struct hr_cqe cqe;

	conform_open_io(&c);
	cr_expect_eq(conform_io(&c, nvme_cmd_read, 0, 1, CONFORM_DATA, 0), 0);
	conform_push(&c.admin, &request);
	conform_ring(&c, &c.admin);
	cr_expect_eq(conform_delete(&c, false, 1), 0);
	cr_expect_eq(conform_delete(&c, true, 1), 0);
	cr_expect_not(conform_peek(&c, &c.admin, 50, &cqe), "an event: %08x", cqe.dw0);
	cr_expect_eq(fake_log_count_of(HR_LOG_WARN), warnings);
	conform_close(&c);
}

/* The completion queue keeps its head, and the new submission queue begins at 0. */
Test(soft_strict, a_new_submission_queue_leaves_its_completion_queue_as_it_is)
{
	const unsigned warnings = fake_log_count_of(HR_LOG_WARN);
	struct hr_soft_stats before, after;

	conform_open_io(&c);
	for (int i = 0; i < 3; i++)
		cr_expect_eq(conform_io(&c, nvme_cmd_read, 0, 1, CONFORM_DATA, 0), 0);
	cr_expect_eq(conform_delete(&c, false, 1), 0);
	cr_expect_eq(conform_create_sq(&c, 1, 1, CONFORM_ENTRIES, CONFORM_RINGS + 2), 0);
	c.io.tail = c.io.sqhd = 0;
	hr_soft_stats(&c.t, &before);
	for (unsigned i = 0; i < 2 * CONFORM_ENTRIES; i++)
		cr_expect_eq(conform_io(&c, nvme_cmd_read, 0, 1, CONFORM_DATA, 0), 0, "%u", i);
	hr_soft_stats(&c.t, &after);
	cr_expect_eq(after.reads - before.reads, 2 * CONFORM_ENTRIES);
	cr_expect_eq(fake_log_count_of(HR_LOG_WARN), warnings, "%s", fake_log_last_of(HR_LOG_WARN));
	conform_close(&c);
}

/* SGLs, fused operations and interrupt vectors do not exist here, for no queue. */
Test(soft_strict, flags_of_features_that_it_lacks_are_refused)
{
	static const uint8_t flags[] = { 1, 2, 3, 0x40, 0x80, 0xc0 };
	static const uint32_t vector[] = { 0x00010001, 0x00000003, 0x80000001 };
	static const char *const device[] = { NULL, "soft:null,size=64M" };

	for (size_t d = 0; d < sizeof(device) / sizeof(device[0]); d++) {
		struct hr_sqe sqe;

		conform_use(device[d]);
		conform_open_io(&c);
		for (size_t i = 0; i < sizeof(flags); i++) {
			for (uint8_t opcode = nvme_cmd_flush; opcode <= nvme_cmd_read; opcode++) {
				sqe = conform_io_sqe(&c, opcode, 0, 1, CONFORM_DATA);
				sqe.flags = flags[i];
				cr_expect_eq(conform_do(&c, &c.io, &sqe, NULL),
					     NVME_SC_INVALID_FIELD, "%02x %02x", opcode, flags[i]);
			}
			sqe = (struct hr_sqe){ .opcode = nvme_admin_get_features,
					       .flags = flags[i],
					       .cdw10 = NVME_FEAT_FID_ARBITRATION };
			cr_expect_eq(conform_admin(&c, &sqe, NULL), NVME_SC_INVALID_FIELD, "%02x",
				     flags[i]);
		}
		for (size_t i = 0; i < sizeof(vector) / sizeof(vector[0]); i++) {
			sqe = (struct hr_sqe){ .opcode = nvme_admin_create_cq,
					       .prp1 = conform_bus(&c, CONFORM_RINGS + 4),
					       .cdw10 = 15u << 16 | 2,
					       .cdw11 = vector[i] };
			cr_expect_eq(conform_admin(&c, &sqe, NULL),
				     CONFORM_SPECIFIC(NVME_SC_INVALID_VECTOR), "%08x", vector[i]);
		}
		conform_close(&c);
	}
	conform_use(NULL);
}

static uint32_t next_event(void)
{
	struct hr_cqe cqe;

	cr_assert(conform_peek(&c, &c.admin, CONFORM_MS, &cqe));
	conform_release(&c, &c.admin);
	cr_expect_eq(hr_cqe_status(cqe.status), 0);
	return cqe.dw0;
}

/* The list of changed namespaces is kept until the host reads it, whatever happens meanwhile. */
Test(soft_strict, a_changed_namespace_is_listed_until_the_list_is_read)
{
	char file[] = "/tmp/headrace-strict-XXXXXX", device[96];
	const struct hr_sqe request = { .opcode = nvme_admin_async_event };
	const int fd = mkstemp(file);
	const uint32_t *list;

	cr_assert(dprintf(fd, "on read lba 1: protect\non read lba 2: warn 0x4\n") > 0);
	snprintf(device, sizeof(device), "soft:memory,size=64M,faults=%s", file);
	conform_use(device);
	conform_open_io(&c);
	unlink(file);
	close(fd);
	list = conform_page(&c, CONFORM_IDENTIFY);
	cr_expect_eq(conform_set_feature(&c, NVME_FEAT_FID_ASYNC_EVENT, 0x11f, NULL), 0);
	cr_expect_eq(conform_io(&c, nvme_cmd_read, 1, 1, CONFORM_DATA, 0), 0);
	conform_push(&c.admin, &request);
	conform_ring(&c, &c.admin);
	cr_expect_eq(next_event(), 0x040002u, "namespace attributes, changed namespace list");
	cr_expect_eq(conform_io(&c, nvme_cmd_read, 2, 1, CONFORM_DATA, 0), 0);
	conform_push(&c.admin, &request);
	conform_ring(&c, &c.admin);
	cr_expect_eq(next_event() & 0xff00ff, 0x020001u, "health log");
	cr_expect_eq(conform_get_log(&c, NVME_LOG_LID_CHANGED_NS, HR_PAGE, 1u << 15), 0);
	cr_expect_eq(list[0], 1, "retained");
	cr_expect_eq(conform_get_log(&c, NVME_LOG_LID_CHANGED_NS, HR_PAGE, 0), 0);
	cr_expect_eq(list[0], 1);
	cr_expect_eq(list[1], 0);
	cr_expect_eq(conform_get_log(&c, NVME_LOG_LID_CHANGED_NS, HR_PAGE, 0), 0);
	cr_expect_eq(list[0], 0, "read before");
	conform_close(&c);
	conform_use(NULL);
}
