/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Admin commands except those about queues: identify, features, logs, abort, events (NVMe Base 5).
 */
#include <criterion/criterion.h>
#include <string.h>

#include "tests/harness/conform.h"

#define SAVE (1u << 31)

static struct conform c;

static void open_it(void)
{
	conform_open(&c);
}

static void close_it(void)
{
	conform_close(&c);
}

TestSuite(conformance_admin, .init = open_it, .fini = close_it, .timeout = 60);

static uint16_t plain(uint8_t opcode, uint32_t cdw10, uint32_t *dw0)
{
	const struct hr_sqe sqe = { .opcode = opcode, .cdw10 = cdw10 };

	return conform_admin(&c, &sqe, dw0);
}

static bool is_text(const char *field, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		if (field[i] < 0x20 || field[i] > 0x7e)
			return false;
	return true;
}

Test(conformance_admin, the_controller_identifies_itself)
{
	const struct nvme_id_ctrl *id = &c.id;

	cr_expect(is_text(id->sn, sizeof(id->sn)));
	cr_expect(is_text(id->mn, sizeof(id->mn)));
	cr_expect(is_text(id->fr, sizeof(id->fr)));
	cr_expect_neq(id->mn[0], ' ', "left-justified");
	cr_expect_eq(id->ver, hr_reg_read32(&c.t, NVME_REG_VS));
	cr_expect_leq(id->sqes & 15, HR_SQE_SHIFT);
	cr_expect_geq(id->sqes >> 4, HR_SQE_SHIFT);
	cr_expect_leq(id->cqes & 15, HR_CQE_SHIFT);
	cr_expect_geq(id->cqes >> 4, HR_CQE_SHIFT);
	cr_expect_geq(id->nn, 1);
	cr_expect_geq(id->frmw >> 1 & 7, 1, "one firmware slot at least");
	cr_expect_eq(strncmp(id->subnqn, "nqn.", 4), 0);
	if (strncmp(id->subnqn, "nqn.2014-08.org.nvmexpress:uuid:", 32) == 0)
		cr_expect_eq(strspn(id->subnqn + 32, "0123456789abcdef-"), 36, "%s", id->subnqn);
	cr_expect_lt(strnlen(id->subnqn, sizeof(id->subnqn)), sizeof(id->subnqn));
}

Test(conformance_admin, the_namespace_identifies_itself)
{
	const unsigned format = c.ns.flbas & 15;

	cr_expect_gt(c.ns.nsze, 0);
	cr_expect_leq(c.ns.ncap, c.ns.nsze);
	cr_expect_leq(c.ns.nuse, c.ns.ncap);
	cr_expect_leq(format, c.ns.nlbaf);
	cr_expect_geq(c.ns.lbaf[format].ds, 9);
}

Test(conformance_admin, identify_lists_the_existing_namespaces)
{
	const uint32_t *list = (const uint32_t *)conform_page(&c, CONFORM_IDENTIFY);

	cr_assert_eq(conform_identify(&c, NVME_IDENTIFY_CNS_NS_ACTIVE_LIST, 0), 0);
	cr_expect_eq(list[0], 1);
	cr_assert_eq(conform_identify(&c, NVME_IDENTIFY_CNS_NS_ACTIVE_LIST, 1), 0);
	cr_expect_neq(list[0], 1, "only identifiers above the one given");
	cr_expect_eq(conform_identify(&c, NVME_IDENTIFY_CNS_NS_ACTIVE_LIST, 0xfffffffe),
		     NVME_SC_INVALID_NS);
	cr_expect_eq(conform_identify(&c, NVME_IDENTIFY_CNS_NS, 0), NVME_SC_INVALID_NS);
	cr_expect_eq(conform_identify(&c, NVME_IDENTIFY_CNS_NS, c.id.nn + 1), NVME_SC_INVALID_NS);
	cr_expect_eq(conform_identify(&c, NVME_IDENTIFY_CNS_NS_DESC_LIST, 0), NVME_SC_INVALID_NS);
}

Test(conformance_admin, a_namespace_has_a_unique_identifier)
{
	const uint8_t *page = (const uint8_t *)conform_page(&c, CONFORM_IDENTIFY);
	static const uint8_t length[] = { 0, 8, 16, 16, 1 };

	cr_assert_eq(conform_identify(&c, NVME_IDENTIFY_CNS_NS_DESC_LIST, 1), 0);
	cr_expect_neq(page[0], 0, "at least one descriptor");
	for (unsigned at = 0; at < HR_PAGE - 4 && page[at];) {
		cr_assert_lt(page[at], sizeof(length), "type %u", page[at]);
		cr_assert_eq(page[at + 1], length[page[at]], "length of type %u", page[at]);
		at += 4u + page[at + 1];
	}
}

Test(conformance_admin, identify_refuses_unknown_structures)
{
	cr_expect_eq(conform_identify(&c, 0xff, 1), NVME_SC_INVALID_FIELD);
}

Test(conformance_admin, identify_data_cross_a_page)
{
	const struct hr_sqe sqe = { .opcode = nvme_admin_identify,
				    .prp1 = conform_bus(&c, CONFORM_DATA) + 1024,
				    .prp2 = conform_bus(&c, CONFORM_DATA + 7),
				    .cdw10 = NVME_IDENTIFY_CNS_CTRL };
	const uint8_t *id = (const uint8_t *)&c.id;

	cr_assert_eq(conform_admin(&c, &sqe, NULL), 0);
	cr_expect_arr_eq((uint8_t *)conform_page(&c, CONFORM_DATA) + 1024, id, 3072);
	cr_expect_arr_eq(conform_page(&c, CONFORM_DATA + 7), id + 3072, 1024);
}

Test(conformance_admin, unknown_and_foreign_commands_are_refused)
{
	const struct hr_sqe fused = { .opcode = nvme_admin_get_features, .flags = 1, .cdw10 = 1 };
	const struct hr_sqe sgl = { .opcode = nvme_admin_get_features, .flags = 0x40, .cdw10 = 1 };

	cr_expect_eq(plain(0x03, 0, NULL), NVME_SC_INVALID_OPCODE);
	cr_expect_eq(plain(0xff, 0, NULL), NVME_SC_INVALID_OPCODE);
	cr_expect_eq(conform_admin(&c, &fused, NULL), NVME_SC_INVALID_FIELD);
	cr_expect_eq(conform_admin(&c, &sgl, NULL), NVME_SC_INVALID_FIELD);
}

Test(conformance_admin, number_of_queues_is_settled_before_the_first_one)
{
	uint32_t granted = 0, now = 1;

	cr_expect_eq(conform_set_feature(&c, NVME_FEAT_FID_NUM_QUEUES, 0xffff, NULL),
		     NVME_SC_INVALID_FIELD);
	cr_expect_eq(conform_set_feature(&c, NVME_FEAT_FID_NUM_QUEUES, 0xffff0000, NULL),
		     NVME_SC_INVALID_FIELD);
	cr_assert_eq(conform_set_feature(&c, NVME_FEAT_FID_NUM_QUEUES, 0x00010001, &granted), 0);
	cr_expect_eq(conform_get_feature(&c, NVME_FEAT_FID_NUM_QUEUES, &now), 0);
	cr_expect_eq(now, granted);
	cr_assert_eq(conform_create_cq(&c, 1, CONFORM_ENTRIES, CONFORM_RINGS), 0);
	cr_expect_eq(conform_set_feature(&c, NVME_FEAT_FID_NUM_QUEUES, 0, NULL),
		     NVME_SC_CMD_SEQ_ERROR);
}

Test(conformance_admin, mandatory_features_are_there)
{
	static const uint8_t fid[] = { NVME_FEAT_FID_ARBITRATION,  NVME_FEAT_FID_POWER_MGMT,
				       NVME_FEAT_FID_TEMP_THRESH,  NVME_FEAT_FID_NUM_QUEUES,
				       NVME_FEAT_FID_IRQ_COALESCE, NVME_FEAT_FID_IRQ_CONFIG,
				       NVME_FEAT_FID_WRITE_ATOMIC, NVME_FEAT_FID_ASYNC_EVENT };
	uint32_t value;

	for (size_t i = 0; i < sizeof(fid); i++)
		cr_expect_eq(conform_get_feature(&c, fid[i], &value), 0, "feature %02x", fid[i]);
	cr_expect_eq(conform_get_feature(&c, 0, &value), NVME_SC_INVALID_FIELD);
	cr_expect_eq(conform_get_feature(&c, 0x7c, &value), NVME_SC_INVALID_FIELD);
	cr_expect_eq(conform_set_feature(&c, 0x7c, 0, NULL), NVME_SC_INVALID_FIELD);
}

Test(conformance_admin, a_feature_keeps_its_value_until_a_reset)
{
	uint32_t first, value = 0;

	cr_assert_eq(conform_get_feature(&c, NVME_FEAT_FID_ASYNC_EVENT, &first), 0);
	cr_assert_eq(conform_set_feature(&c, NVME_FEAT_FID_ASYNC_EVENT, first ^ 1, NULL), 0);
	cr_assert_eq(conform_get_feature(&c, NVME_FEAT_FID_ASYNC_EVENT, &value), 0);
	cr_expect_eq(value, first ^ 1);
	cr_assert(conform_disable(&c));
	cr_assert(conform_enable(&c, conform_cc()));
	cr_assert_eq(conform_get_feature(&c, NVME_FEAT_FID_ASYNC_EVENT, &value), 0);
	cr_expect_eq(value, first);
}

Test(conformance_admin, both_temperature_thresholds_can_be_set)
{
	const uint32_t under = 1u << 20;
	uint32_t value = 0;

	cr_assert_eq(conform_set_feature(&c, NVME_FEAT_FID_TEMP_THRESH, 400, NULL), 0);
	cr_assert_eq(conform_set_feature(&c, NVME_FEAT_FID_TEMP_THRESH, under | 200, NULL), 0);
	cr_assert_eq(conform_get_feature(&c, NVME_FEAT_FID_TEMP_THRESH, &value), 0);
	cr_expect_eq(value & 0xffff, 400, "%08x", value);
}

/* Select and save follow ONCS bit 4; a feature that cannot be saved reports that in both cases. */
Test(conformance_admin, features_are_saved_and_selected_as_advertised)
{
	const uint32_t fid = NVME_FEAT_FID_ASYNC_EVENT;
	const bool select = c.id.oncs & NVME_CTRL_ONCS_SAVE_FEATURES;
	uint32_t value = 0;
	uint16_t status;

	status = conform_set_feature(&c, fid | SAVE, 0, NULL);
	if (select)
		status = conform_get_feature(&c, fid | 3u << 8, &value) == 0 && value & 1 ? 0
											  : status;
	cr_expect(status == 0 ? (value & 1)
			      : status == CONFORM_SPECIFIC(NVME_SC_FEATURE_NOT_SAVEABLE),
		  "%03x", status);
	if (select) {
		cr_expect_eq(conform_get_feature(&c, fid | 1u << 8, &value), 0);
		cr_expect_eq(conform_get_feature(&c, fid | 3u << 8, &value), 0);
		cr_expect(value & 4, "changeable");
	} else {
		cr_expect_eq(conform_get_feature(&c, fid | 3u << 8, &value), NVME_SC_INVALID_FIELD);
	}
}

Test(conformance_admin, the_write_cache_is_switched_where_present)
{
	const uint32_t fid = NVME_FEAT_FID_VOLATILE_WC;
	uint32_t value = 9;

	if (!(c.id.vwc & 1)) {
		cr_expect_eq(conform_get_feature(&c, fid, &value), NVME_SC_INVALID_FIELD);
		cr_expect_eq(conform_set_feature(&c, fid, 1, NULL), NVME_SC_INVALID_FIELD);
		return;
	}
	for (uint32_t on = 0; on < 2; on++) {
		cr_expect_eq(conform_set_feature(&c, fid, on, NULL), 0);
		cr_expect_eq(conform_get_feature(&c, fid, &value), 0);
		cr_expect_eq(value & 1, on);
	}
}

Test(conformance_admin, the_error_log_names_the_failed_command)
{
	const struct nvme_error_log_page *log =
		(const struct nvme_error_log_page *)conform_page(&c, CONFORM_IDENTIFY);
	uint64_t count;
	uint16_t cid;

	cr_assert_eq(conform_get_log(&c, NVME_LOG_LID_ERROR, 64, 0), 0);
	count = log->error_count;
	cid = c.admin.cid;
	cr_assert_eq(plain(0xff, 0, NULL), NVME_SC_INVALID_OPCODE);
	cr_assert_eq(conform_get_log(&c, NVME_LOG_LID_ERROR, 64, 0), 0);
	if (log->error_count == 0)
		return; /* the controller keeps no entries, which ELPE cannot express */
	cr_expect_gt(log->error_count, count);
	cr_expect_eq(log->sqid, 0);
	cr_expect_eq(log->cmdid, cid);
	cr_expect_eq(hr_cqe_status(log->status_field), NVME_SC_INVALID_OPCODE);
}

Test(conformance_admin, health_counts_the_data_read_and_written)
{
	const struct nvme_smart_log *log =
		(const struct nvme_smart_log *)conform_page(&c, CONFORM_IDENTIFY);
	uint64_t reads, writes, now;

	cr_assert_eq(conform_add_io(&c, &c.io, 1, CONFORM_ENTRIES), 0);
	cr_assert_eq(conform_get_log(&c, NVME_LOG_LID_SMART, sizeof(*log), 0), 0);
	memcpy(&reads, log->host_reads, sizeof(reads));
	memcpy(&writes, log->host_writes, sizeof(writes));
	cr_expect_eq(log->critical_warning, 0);
	cr_expect_gt(log->temperature[0] | log->temperature[1] << 8, 250, "kelvin");
	for (unsigned i = 0; i < 3; i++)
		cr_assert_eq(conform_io(&c, nvme_cmd_read, i, 1, CONFORM_DATA, 0), 0);
	cr_assert_eq(conform_io(&c, nvme_cmd_write, 0, 1, CONFORM_DATA, 0), 0);
	cr_assert_eq(conform_get_log(&c, NVME_LOG_LID_SMART, sizeof(*log), 0), 0);
	memcpy(&now, log->host_reads, sizeof(now));
	cr_expect_eq(now, reads + 3);
	memcpy(&now, log->host_writes, sizeof(now));
	cr_expect_eq(now, writes + 1);
}

Test(conformance_admin, the_firmware_slot_holds_what_identify_names)
{
	const struct nvme_firmware_slot *log =
		(const struct nvme_firmware_slot *)conform_page(&c, CONFORM_IDENTIFY);

	cr_assert_eq(conform_get_log(&c, NVME_LOG_LID_FW_SLOT, sizeof(*log), 0), 0);
	cr_assert(log->afi >= 1 && log->afi <= 7, "AFI %02x", log->afi);
	cr_expect_arr_eq(log->frs[log->afi - 1], c.id.fr, sizeof(c.id.fr));
}

Test(conformance_admin, unknown_logs_are_refused)
{
	const uint16_t status = conform_get_log(&c, 0xbe, 64, 0);

	/* The first status is older; both are in use. */
	cr_expect(status == CONFORM_SPECIFIC(NVME_SC_INVALID_LOG_PAGE) ||
			  status == NVME_SC_INVALID_FIELD,
		  "%03x", status);
}

Test(conformance_admin, abort_of_an_unknown_command_succeeds_and_reports_no_abort)
{
	uint32_t dw0 = 0;

	cr_expect_eq(plain(nvme_admin_abort_cmd, 0x7777u << 16, &dw0), 0);
	cr_expect_eq(dw0 & 1, 1, "nothing was aborted");
	cr_expect_eq(plain(nvme_admin_abort_cmd, 0x00010000u | 0xfffe, NULL),
		     NVME_SC_INVALID_FIELD);
}

Test(conformance_admin, event_requests_are_limited_and_end_with_a_reset)
{
	const struct hr_sqe sqe = { .opcode = nvme_admin_async_event };
	struct hr_cqe cqe;

	for (unsigned i = 0; i <= c.id.aerl && i < CONFORM_ENTRIES - 2; i++)
		conform_push(&c.admin, &sqe);
	conform_ring(&c, &c.admin);
	cr_expect_not(conform_peek(&c, &c.admin, 20, &cqe), "an event out of nothing: %08x",
		      cqe.dw0);
	if (c.id.aerl < CONFORM_ENTRIES - 2) {
		conform_push(&c.admin, &sqe);
		conform_ring(&c, &c.admin);
		cr_assert(conform_peek(&c, &c.admin, CONFORM_MS, &cqe));
		conform_release(&c, &c.admin);
		cr_expect_eq(hr_cqe_status(cqe.status), CONFORM_SPECIFIC(NVME_SC_ASYNC_LIMIT));
	}
	cr_assert(conform_disable(&c));
	cr_assert(conform_enable(&c, conform_cc()));
	cr_expect_eq(conform_identify(&c, NVME_IDENTIFY_CNS_CTRL, 0), 0);
}

/*
 * Send an event request and wait until the controller has fetched it: commands are fetched in
 * order, and a later command has completed. Events before that need not be reported.
 */
static uint16_t request_event(void)
{
	const struct hr_sqe request = { .opcode = nvme_admin_async_event };
	const uint16_t cid = conform_push(&c.admin, &request);
	uint32_t value;

	conform_ring(&c, &c.admin);
	cr_assert_eq(conform_get_feature(&c, NVME_FEAT_FID_ARBITRATION, &value), 0);
	return cid;
}

/* One report for each kind of event until its log is read (Base 5.2). */
Test(conformance_admin, a_bad_doorbell_value_is_an_event)
{
	const uint32_t want = NVME_LOG_LID_ERROR << 16 | NVME_AER_ERROR_INVALID_DB_VAL << 8;
	struct hr_cqe cqe;
	uint16_t cid;

	cr_assert_eq(conform_add_io(&c, &c.io, 1, CONFORM_ENTRIES), 0);
	for (unsigned i = 0; i < 3; i++) {
		cid = request_event();
		conform_doorbell(&c, 1, false, 0xffff - i);
		cr_assert(conform_peek(&c, &c.admin, CONFORM_MS, &cqe), "no event %u", i);
		conform_release(&c, &c.admin);
		cr_expect_eq(cqe.cid, cid);
		cr_expect_eq(hr_cqe_status(cqe.status), 0);
		cr_expect_eq(cqe.dw0 & 0xffffff, want, "%08x", cqe.dw0);
		request_event();
		conform_doorbell(&c, 1, false, 0xfff0 - i);
		cr_expect_not(conform_peek(&c, &c.admin, 20, &cqe), "not muted");
		conform_doorbell(&c, 1, false, c.io.tail);
		cr_assert(conform_disable(&c));
		cr_assert(conform_enable(&c, conform_cc()));
		cr_assert_eq(conform_add_io(&c, &c.io, 1, CONFORM_ENTRIES), 0);
		cr_expect_eq(conform_io(&c, nvme_cmd_read, 0, 1, CONFORM_DATA, 0), 0);
	}
}
