/*
 * Where the software controller is stricter than others that a driver may meet, so that mistakes of
 * drivers show here: doorbells, namespaces that are named for nothing, CIDs and CQIDs.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "config/clock.h"
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

Test(soft_strict, a_namespace_that_has_no_meaning_is_refused)
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

/* As many queues as were asked for, and no more than there are. */
Test(soft_strict, queues_are_granted_as_asked)
{
	uint32_t granted = 0, most = 0;

	conform_open(&c);
	cr_expect_eq(conform_set_feature(&c, NVME_FEAT_FID_NUM_QUEUES, 0x00020002, &granted), 0);
	cr_expect_eq(granted, 0x00020002u, "%x", granted);
	cr_expect_eq(conform_set_feature(&c, NVME_FEAT_FID_NUM_QUEUES, 0xfffefffe, &most), 0);
	cr_expect_gt(most, granted);
	cr_expect_lt(most, 0xfffefffeu);
	conform_close(&c);
}

/* It has one power state, and no interrupts. */
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

/* An event request waits, and so does a read whose completion is held back. */
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

	cid = conform_push(&c.admin, &sqe);
	c.admin.cid = cid;
	cr_expect_eq(admin(nvme_admin_get_features, 0, NVME_FEAT_FID_ARBITRATION, 0),
		     NVME_SC_CMDID_CONFLICT);
	cr_expect_eq(admin(nvme_admin_get_features, 0, NVME_FEAT_FID_ARBITRATION, 0), 0);

	sqe = conform_io_sqe(&c, nvme_cmd_read, 0, 1, CONFORM_DATA);
	cid = conform_push(&c.io, &sqe);
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

/* The statuses of commands that one doorbell tells of, in the order of their completions. */
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

/* They are in flight together, also where the first one is done before the second one is fetched. */
static void repeat_in_one_doorbell(const char *device)
{
	static const uint16_t cid[] = { 1, 257, 65535, 257, 2, 1, 1, 3, 3 };
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

Test(soft_strict, a_bad_doorbell_is_said_and_logged)
{
	const struct nvme_error_log_page *log;
	unsigned warnings;

	conform_open_io(&c);
	log = (const struct nvme_error_log_page *)conform_page(&c, CONFORM_IDENTIFY);
	warnings = fake_log_count_of(HR_LOG_WARN);
	conform_doorbell(&c, 1, false, 5000);
	while (fake_log_count_of(HR_LOG_WARN) == warnings)
		hr_wait_ns(HR_NS_PER_MS);
	cr_expect(strstr(fake_log_last_of(HR_LOG_WARN), "queue 1: SQ tail doorbell 5000"), "%s",
		  fake_log_last_of(HR_LOG_WARN));
	cr_assert_eq(conform_get_log(&c, NVME_LOG_LID_ERROR, 64, 0), 0);
	cr_expect_eq(log->sqid, 1);
	cr_expect_eq(log->cmdid, 0xffff);
	conform_doorbell(&c, 7, true, 3);
	while (fake_log_count_of(HR_LOG_WARN) == warnings + 1)
		hr_wait_ns(HR_NS_PER_MS);
	cr_expect(strstr(fake_log_last_of(HR_LOG_WARN),
			 "queue 7: CQ head doorbell 3, and there is no"),
		  "%s", fake_log_last_of(HR_LOG_WARN));
	conform_close(&c);
}

/* A register is memory here: what was last written to a queue that is gone is no mistake. */
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
