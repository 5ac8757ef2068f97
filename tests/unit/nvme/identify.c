/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bring-up and identify data at their limits, N and N + 1: each field that the driver keeps, each
 * text of an error, and the values of registers.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "config/base/clock.h"
#include "config/base/log.h"
#include "nvme/admin.h"
#include "nvme/ctrl.h"
#include "nvme/identify.h"
#include "tests/fakes/clock.h"
#include "tests/fakes/ctrl.h"
#include "tests/harness/error.h"

#define ROWS(table) (sizeof(table) / sizeof(*(table)))
#define NVM ((uint64_t)NVME_CAP_CSS_NVM << NVME_CAP_CSS_SHIFT)
#define ENTRIES_64 63ull /* CAP.MQES */

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

static void again(void)
{
	teardown();
	setup();
}

TestSuite(identify, .init = setup, .fini = teardown, .timeout = 60);

static int open_at(size_t offset)
{
	return hr_ctrl_open(&fake.ctrl, &fake.transport, &fake.region, offset, HR_ADMIN_TIMEOUT_NS,
			    test_error());
}

static void expect_text(const char *what, const char *want)
{
	cr_expect(strstr(test_error_text(), want), "%s: '%s' lacks '%s'", what, test_error_text(),
		  want);
}

/* ---- registers */

Test(identify, each_refused_capability_is_named_with_its_value)
{
	static const struct {
		uint64_t cap;
		size_t bar_bytes;
		int want;
		const char *text;
	} row[] = {
		{ ENTRIES_64, 16384, -ENOTSUP, "fake: CAP.CSS 00: no NVM command set" },
		{ ENTRIES_64 | 1ull << 43, 16384, -ENOTSUP, "fake: CAP.CSS 40: no NVM" },
		{ ENTRIES_64 | NVM | 1ull << 48, 16384, -ENOTSUP, "fake: CAP.MPSMIN 1:" },
		{ ENTRIES_64 | NVM | 15ull << 48, 16384, -ENOTSUP, "fake: CAP.MPSMIN 15:" },
		{ NVM, 16384, -ENOTSUP, "fake: CAP.MQES 0: a queue needs at least 2 entries" },
		{ ENTRIES_64 | NVM, 4103, -ENOTSUP,
		  "fake: BAR0 of 4103 bytes ends before the admin doorbells (CAP.DSTRD 0)" },
		{ ENTRIES_64 | NVM, 4104, 0, "" },
		{ ENTRIES_64 | NVM | 2ull << 32, 4127, -ENOTSUP, "(CAP.DSTRD 2)" },
		{ ENTRIES_64 | NVM | 2ull << 32, 4128, 0, "" },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		int err;

		again();
		fake_ctrl_set_cap(&fake, row[i].cap);
		fake.transport.bar_bytes = row[i].bar_bytes;
		err = open_at(0);
		cr_expect_eq(err, row[i].want, "row %zu: %d", i, err);
		cr_expect(!err || test_error_kind() == HR_ERROR_MISSING, "row %zu", i);
		expect_text(row[i].text, row[i].text);
	}
}

Test(identify, entries_and_doorbells_follow_the_capabilities)
{
	static const struct {
		uint64_t cap;
		uint32_t entries, step;
	} row[] = {
		{ NVM | 1, 2, 4 },
		{ NVM | 4094, 4095, 4 },
		{ NVM | 4095, 4096, 4 },
		{ NVM | 4096, 4096, 4 },
		{ NVM | 65535, 4096, 4 },
		{ NVM | 63 | 1ull << 32, 64, 8 },
		{ NVM | 63 | 8ull << 32, 64, 1024 },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		fake_ctrl_set_cap(&fake, row[i].cap);
		cr_assert_eq(open_at(0), 0, "row %zu: %s", i, test_error_text());
		cr_expect_eq(fake.ctrl.max_entries, row[i].entries, "row %zu", i);
		cr_expect_eq(fake.ctrl.doorbell_step, row[i].step, "row %zu", i);
		cr_expect_eq((uint8_t *)fake.ctrl.admin.sq_doorbell - fake.bar, 0x1000);
		cr_expect_eq((uint8_t *)fake.ctrl.admin.cq_doorbell - fake.bar,
			     0x1000 + (ptrdiff_t)row[i].step);
		again();
	}
}

/* CAP.TO and CRTO.CRWMT have units of 500 ms. CRTO counts only where CAP.CRMS reports it. The driver
 * waits for one unit more. */
Test(identify, the_ready_timeout_is_the_longer_of_two_and_a_unit)
{
	static const struct {
		uint32_t to, crms, crto, want_ms;
		const char *text;
	} row[] = {
		{ 0, 0, 0, 500, "CSTS.RDY still 0 after 500 ms (CAP.TO 0)" },
		{ 1, 0, 0, 1000, "after 1000 ms (CAP.TO 1)" },
		{ 3, 0, 20, 2000, "after 2000 ms (CAP.TO 3)" },
		{ 3, 2, 20, 2000, "after 2000 ms (CAP.TO 3)" }, /* only CRIMS */
		{ 3, 1, 4, 2500, "after 2500 ms (CRTO.CRWMT 4)" },
		{ 3, 1, 3, 2000, "after 2000 ms (CRTO.CRWMT 3)" },
		{ 3, 1, 2, 2000, "after 2000 ms (CRTO.CRWMT 3)" },
		{ 3, 1, 0xffff, 2000, "after 2000 ms (CRTO.CRWMT 3)" },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		uint64_t begin;

		again();
		fake_ctrl_set_cap(&fake, NVM | ENTRIES_64 | (uint64_t)row[i].to << 24 |
						 (uint64_t)row[i].crms << 59);
		fake_ctrl_set32(&fake, NVME_REG_CRTO, row[i].crto);
		fake.ready_steps = FAKE_NEVER;
		begin = hr_now_ns();
		cr_expect_eq(open_at(0), -ETIMEDOUT, "row %zu", i);
		cr_expect_eq(fake.ctrl.ready_timeout_ns, row[i].want_ms * HR_NS_PER_MS, "row %zu",
			     i);
		cr_expect_geq(hr_now_ns() - begin, row[i].want_ms * HR_NS_PER_MS, "row %zu", i);
		cr_expect_eq(test_error_kind(), HR_ERROR_DEVICE);
		expect_text("timeout", row[i].text);
	}
}

/* All places of the memory that the caller gives are behind `offset`, and nothing is behind them. */
Test(identify, the_admin_queues_lie_where_the_caller_wants_them)
{
	const size_t last = (FAKE_PAGES - 4) * (size_t)HR_PAGE;

	cr_expect_eq(open_at(last + HR_PAGE), -EINVAL);
	cr_expect_eq(open_at(last + 1), -EINVAL);
	cr_expect_eq(open_at(1), -EINVAL);
	cr_assert_eq(open_at(last), 0, "%s", test_error_text());
	cr_expect_eq(fake_ctrl_get32(&fake, NVME_REG_ASQ), (uint32_t)(FAKE_BUS + last));
	cr_expect_eq(fake_ctrl_get32(&fake, NVME_REG_ASQ + 4), (uint32_t)(FAKE_BUS >> 32));
	cr_expect_eq(fake_ctrl_get32(&fake, NVME_REG_ACQ), (uint32_t)(FAKE_BUS + last) + HR_PAGE);
	cr_expect_eq(fake_ctrl_get32(&fake, NVME_REG_ACQ + 4), (uint32_t)(FAKE_BUS >> 32));
	cr_expect_eq(fake.ctrl.admin_data, fake.memory + last + 2 * HR_PAGE);
	cr_expect_eq(fake.ctrl.admin_data_bus.addr, FAKE_BUS + last + 2 * HR_PAGE);
	cr_expect_eq(fake.ctrl.event_data, fake.memory + last + 3 * HR_PAGE);
	cr_expect_eq(fake.ctrl.event_data_bus.addr, FAKE_BUS + last + 3 * HR_PAGE);
}

Test(identify, several_command_sets_are_all_enabled)
{
	fake_ctrl_set_cap(&fake, NVM | ENTRIES_64 | 1ull << 43);
	cr_assert_eq(open_at(0), 0, "%s", test_error_text());
	cr_expect_eq(fake_ctrl_get32(&fake, NVME_REG_CC), 0x00460061u);
}

/* The driver clears only CC.EN and CC.SHN for a reset. For a shutdown it sets only CC.SHN. */
Test(identify, settings_of_the_controller_are_kept_during_reset_and_shutdown)
{
	cr_assert_eq(open_at(0), 0, "%s", test_error_text());
	fake_ctrl_set32(&fake, NVME_REG_CC, 0x00468001); /* an abrupt shutdown has begun */
	fake.last_cc = 0x00468001;
	fake.shutdown_steps = FAKE_NEVER;
	fake.stop_steps = FAKE_NEVER;
	cr_expect_eq(hr_ctrl_close(&fake.ctrl, test_error()), -ETIMEDOUT);
	expect_text("reset", "fake: CSTS.RDY still 1 after 8000 ms (CAP.TO 15)");
	cr_expect_eq(fake_ctrl_get32(&fake, NVME_REG_CC), 0x00460000u);
	cr_expect_eq(fake.ctrl.health.state, HR_HEALTH_STUCK);
}

Test(identify, a_shutdown_sets_the_normal_notification)
{
	cr_assert_eq(open_at(0), 0, "%s", test_error_text());
	fake_ctrl_set32(&fake, NVME_REG_CC, 0x00468001);
	fake.last_cc = 0x00468001;
	fake.shutdown_steps = 3;
	fake.gone_at_step = fake.steps + 2; /* registers keep their last values in the log */
	cr_expect_eq(hr_ctrl_close(&fake.ctrl, test_error()), -ENOLINK);
	cr_expect_eq(fake.last_cc, 0x00464001u, "%08x", fake.last_cc);
	expect_text("gone", "CSTS reads all ones");
	cr_expect_eq(fake.ctrl.health.state, HR_HEALTH_STOPPED);
}

/* Each register that a step reads first can be the one that shows that the device is gone. */
Test(identify, the_register_that_reads_all_ones_is_named)
{
	fake_ctrl_set_cap(&fake, UINT64_MAX);
	cr_expect_eq(open_at(0), -ENOLINK);
	expect_text("CAP", "CAP reads all ones");
	again();
	fake_ctrl_set32(&fake, NVME_REG_VS, UINT32_MAX);
	cr_expect_eq(open_at(0), -ENOLINK);
	expect_text("VS", "VS reads all ones");
	again();
	fake_ctrl_set32(&fake, NVME_REG_VS, 0);
	cr_expect_eq(open_at(0), -ENOLINK);
	expect_text("VS", "VS reads 0: the device is gone");
	again();
	fake_ctrl_set32(&fake, NVME_REG_CC, UINT32_MAX);
	cr_expect_eq(open_at(0), -ENOLINK);
	expect_text("CC", "CC reads all ones");
	again();
	fake_ctrl_set32(&fake, NVME_REG_CSTS, UINT32_MAX);
	cr_expect_eq(open_at(0), -ENOLINK);
	expect_text("CSTS", "CSTS reads all ones");
	again();
	cr_assert_eq(open_at(0), 0, "%s", test_error_text());
	fake_ctrl_set32(&fake, NVME_REG_CC, UINT32_MAX);
	cr_expect_eq(hr_ctrl_close(&fake.ctrl, test_error()), -ENOLINK);
	expect_text("CC", "CC reads all ones");
}

/* ---- identify data */

Test(identify, each_field_of_the_controller_is_kept)
{
	struct nvme_id_ctrl *id = &fake.id_ctrl;

	id->cmic = 2;
	memcpy(id->subnqn, "nqn.a", 6);
	id->nn = 0x01020304;
	id->aerl = 9;
	id->oaes = 0x00000300;
	id->oncs = 0x0124;
	id->ctratt = 1;
	id->awupf = 0x1234;
	id->crdt1 = 3;
	id->crdt2 = 50;
	id->crdt3 = 700;
	cr_assert_eq(open_at(0), 0, "%s", test_error_text());
	cr_expect(fake.ctrl.shared_subsystem);
	cr_expect_str_eq(fake.ctrl.subnqn, "nqn.a");
	cr_expect_eq(fake.ctrl.namespaces, 0x01020304u);
	cr_expect_eq(fake.ctrl.aerl, 9);
	cr_expect_eq(fake.ctrl.oaes, 0x300u);
	cr_expect_eq(fake.ctrl.oncs, 0x124);
	cr_expect(fake.ctrl.long_host_id);
	cr_expect_eq(fake.ctrl.awupf, 0x1234);
	cr_expect_eq(fake.ctrl.crdt[0], 0);
	cr_expect_eq(fake.ctrl.crdt[1], 3);
	cr_expect_eq(fake.ctrl.crdt[2], 50);
	cr_expect_eq(fake.ctrl.crdt[3], 700);
	cr_expect(fake.ctrl.volatile_cache);
	cr_expect_eq(fake.ctrl.health.state, HR_HEALTH_UP);
	again();
	id->vwc = 6; /* flush of all namespaces, without a cache */
	id->cmic = 1;
	id->ctratt = 0x80;
	cr_assert_eq(open_at(0), 0, "%s", test_error_text());
	cr_expect_not(fake.ctrl.volatile_cache);
	cr_expect_not(fake.ctrl.shared_subsystem);
	cr_expect_not(fake.ctrl.long_host_id);
}

Test(identify, texts_keep_printable_characters_and_inner_blanks)
{
	memset(fake.id_ctrl.mn, 'M', sizeof(fake.id_ctrl.mn));
	memcpy(fake.id_ctrl.sn, " \x1f \x7e\x7f\x80\xff\x01", 8);
	memset(fake.id_ctrl.fr, ' ', sizeof(fake.id_ctrl.fr));
	cr_assert_eq(open_at(0), 0, "%s", test_error_text());
	cr_expect_str_eq(fake.ctrl.serial, " ? ~????");
	cr_expect_eq(strlen(fake.ctrl.model), 40);
	cr_expect_str_eq(fake.ctrl.firmware, "");
	again();
	memset(fake.id_ctrl.sn, 0, sizeof(fake.id_ctrl.sn));
	memcpy(fake.id_ctrl.sn, "A\0B", 4);
	cr_assert_eq(open_at(0), 0, "%s", test_error_text());
	cr_expect_str_eq(fake.ctrl.serial, "A B");
}

Test(identify, sizes_of_queue_entries_must_include_64_and_16_bytes)
{
	static const struct {
		uint8_t sqes, cqes;
		int want;
	} row[] = {
		{ 0x66, 0x44, 0 },	  { 0x65, 0x44, 0 },	    { 0x76, 0x44, 0 },
		{ 0x67, 0x44, -ENOTSUP }, { 0x55, 0x44, -ENOTSUP }, { 0x60, 0x44, 0 },
		{ 0x66, 0x43, 0 },	  { 0x66, 0x54, 0 },	    { 0x66, 0x45, -ENOTSUP },
		{ 0x66, 0x33, -ENOTSUP }, { 0x66, 0x40, 0 },	    { 0, 0x44, -ENOTSUP },
		{ 0x66, 0, -ENOTSUP },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		again();
		fake.id_ctrl.sqes = row[i].sqes;
		fake.id_ctrl.cqes = row[i].cqes;
		cr_expect_eq(open_at(0), row[i].want, "row %zu: %s", i, test_error_text());
		if (row[i].want)
			expect_text("entries", "do not allow entries of 2^6 and 2^4");
	}
}

Test(identify, limits_in_time_and_bytes_follow_the_controller)
{
	static const struct {
		uint8_t mdts;
		uint32_t bytes, rtd3e_us;
		uint64_t shutdown_us;
	} row[] = {
		{ 0, 2u << 20, 0, 1000000 },	      { 1, 8192, 999999, 1000000 },
		{ 2, 16384, 1000000, 1000000 },	      { 7, 512u << 10, 5000001, 5000001 },
		{ 8, 1u << 20, 59999999, 59999999 },  { 9, 2u << 20, 60000000, 60000000 },
		{ 10, 2u << 20, 60000001, 60000000 }, { 255, 2u << 20, UINT32_MAX, 60000000 },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		again();
		fake.id_ctrl.mdts = row[i].mdts;
		fake.id_ctrl.rtd3e = row[i].rtd3e_us;
		cr_assert_eq(open_at(0), 0, "%s", test_error_text());
		cr_expect_eq(fake.ctrl.max_transfer, row[i].bytes, "row %zu: %u", i,
			     fake.ctrl.max_transfer);
		cr_expect_eq(fake.ctrl.shutdown_timeout_ns, row[i].shutdown_us * 1000, "row %zu",
			     i);
	}
}

/* Host Behavior Support is set if one of three delays is in use. */
Test(identify, delays_are_accepted_when_the_controller_reports_one)
{
	for (unsigned n = 0; n <= 3; n++)
		for (unsigned refuses = 0; refuses < 2; refuses++) {
			again();
			fake.id_ctrl.crdt1 = n == 1;
			fake.id_ctrl.crdt2 = n == 2;
			fake.id_ctrl.crdt3 = n == 3;
			fake.opcode = refuses ? nvme_admin_set_features : 0xff;
			fake.status = 2;
			cr_assert_eq(open_at(0), 0, "%s", test_error_text());
			cr_expect_str_eq(fake_ctrl_trace(&fake), n ? "06 09" : "06");
			for (unsigned i = 1; i <= 3; i++)
				cr_expect_eq(fake.ctrl.crdt[i], n == i && !refuses);
			if (!n)
				continue;
			cr_expect_eq(fake.seen[1].cdw10, 0x16u);
			cr_expect_eq(fake.seen[1].prp1, FAKE_BUS + 2 * HR_PAGE);
			cr_expect_eq(*(uint8_t *)fake.ctrl.admin_data, 1);
			for (size_t i = 1; i < HR_PAGE; i++)
				cr_assert_eq(((uint8_t *)fake.ctrl.admin_data)[i], 0, "%zu", i);
		}
	again();
	fake.id_ctrl.crdt1 = 1;
	fake.opcode = nvme_admin_set_features;
	fake.lie = FAKE_LOSE;
	cr_expect_eq(open_at(0), -ETIMEDOUT);
}

Test(identify, a_refused_command_is_named_with_its_status)
{
	fake.opcode = nvme_admin_identify;
	fake.status = 2;
	cr_expect_eq(open_at(0), 2);
	expect_text("identify", "fake: admin identify controller: ");
	expect_text("identify", "(002)");
	cr_expect_eq(test_error_kind(), HR_ERROR_DEVICE);
	again();
	fake.id_ctrl.cntrltype = 3;
	cr_expect_eq(open_at(0), -ENOTSUP);
	expect_text("type", "fake: identify: CNTRLTYPE 3 is not an I/O controller (1)");
}

Test(identify, a_number_of_queues_that_cannot_be_set_is_read)
{
	uint32_t got = 0;

	cr_assert_eq(open_at(0), 0);
	fake.opcode = nvme_admin_set_features;
	fake.status = 0x10c;
	cr_expect_eq(hr_ctrl_set_queues(&fake.ctrl, 77, &got, test_error()), 0);
	cr_expect(got >= 1 && got <= 77, "%u", got);
}

static int look_at(const struct nvme_id_ns *id, struct hr_ns *ns)
{
	memset(ns, 0, sizeof(*ns));
	return hr_identify_ns(ns, 7, id, "disk", test_error());
}

Test(identify, the_format_of_a_namespace_is_found_up_to_the_last_one)
{
	static const struct {
		uint8_t nlbaf, nulbaf, flbas, format; /* 255: none */
	} row[] = {
		{ 0, 0, 0, 0 },	     { 0, 0, 1, 255 },	   { 1, 0, 1, 1 },
		{ 0, 1, 1, 1 },	     { 15, 0, 15, 15 },	   { 15, 0, 0x2f, 15 },
		{ 16, 0, 0x20, 16 }, { 15, 1, 0x20, 16 },  { 16, 0, 0x21, 255 },
		{ 63, 0, 0x6f, 63 }, { 62, 1, 0x6f, 63 },  { 64, 0, 0, 255 },
		{ 63, 1, 0, 255 },   { 40, 0, 0x4f, 255 }, { 47, 0, 0x4f, 47 },
		{ 3, 0, 0x13, 3 },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		struct nvme_id_ns id = { .nsze = 5,
					 .nlbaf = row[i].nlbaf,
					 .nulbaf = row[i].nulbaf,
					 .flbas = row[i].flbas };
		struct hr_ns ns;
		int err;

		for (unsigned f = 0; f < 64; f++)
			id.lbaf[f].ds = 30;
		if (row[i].format != 255)
			id.lbaf[row[i].format].ds = 9;
		err = look_at(&id, &ns);
		cr_expect_eq(err, row[i].format == 255 ? -EPROTO : 0, "row %zu: %d %s", i, err,
			     test_error_text());
		if (err)
			expect_text("format", "disk: namespace 7: FLBAS ");
	}
}

Test(identify, a_namespace_is_taken_over_or_refused_with_its_value)
{
	static const struct {
		struct nvme_id_ns id;
		uint8_t ds;
		uint16_t ms;
		int want;
		const char *text;
	} row[] = {
		{ { .nsze = 0 }, 12, 0, -ENOENT, "" },
		{ { .nsze = 1 }, 8, 0, -ENOTSUP, "namespace 7: blocks of 2^8 bytes" },
		{ { .nsze = 1 }, 10, 0, -ENOTSUP, "blocks of 2^10 bytes" },
		{ { .nsze = 1 }, 11, 0, -ENOTSUP, "blocks of 2^11 bytes" },
		{ { .nsze = 1 }, 13, 0, -ENOTSUP, "blocks of 2^13 bytes" },
		{ { .nsze = 1 }, 9, 1, -ENOTSUP, "1 bytes of metadata, protection type 0" },
		{ { .nsze = 1, .dps = 3 },
		  9,
		  0,
		  -ENOTSUP,
		  "0 bytes of metadata, protection type 3" },
		{ { .nsze = 1, .dps = 4 }, 9, 0, -ENOTSUP, "protection type 4" },
		{ { .nsze = 1, .dps = 8 }, 9, 0, 0, "" }, /* position of data that are not there */
		{ { .nsze = 1ull << 54 }, 9, 0, -EPROTO, "NSZE 18014398509481984 blocks" },
		{ { .nsze = (1ull << 54) - 1 }, 9, 0, 0, "" },
		{ { .nsze = 1 }, 12, 0, 0, "" },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		struct nvme_id_ns id = row[i].id;
		struct hr_ns ns;
		int err;

		id.lbaf[0].ds = row[i].ds;
		id.lbaf[0].ms = row[i].ms;
		err = look_at(&id, &ns);
		cr_expect_eq(err, row[i].want, "row %zu: %d", i, err);
		expect_text("namespace", row[i].text);
		cr_expect_eq(ns.nsid, err ? 0u : 7u, "row %zu", i);
		cr_expect_eq(ns.blocks, err ? 0 : row[i].id.nsze, "row %zu", i);
	}
}

Test(identify, properties_of_a_namespace_are_kept)
{
	struct nvme_id_ns id = { .nsze = 1, .nmic = 1, .nsattr = 1, .rescap = 0xa5 };
	struct hr_ns ns;

	id.lbaf[0].ds = 12;
	memset(id.nguid, 3, sizeof(id.nguid));
	memset(id.eui64, 4, sizeof(id.eui64));
	cr_assert_eq(look_at(&id, &ns), 0);
	cr_expect(ns.read_only);
	cr_expect(ns.shared);
	cr_expect_eq(ns.rescap, 0xa5);
	cr_expect_arr_eq(ns.nguid, id.nguid, sizeof(ns.nguid));
	cr_expect_arr_eq(ns.eui64, id.eui64, sizeof(ns.eui64));
	id.nmic = id.nsattr = 0xfe;
	ns.nguid[15] = 9; /* the list of descriptors has given it */
	ns.eui64[7] = 9;
	cr_assert_eq(hr_identify_ns(&ns, 7, &id, "disk", test_error()), 0);
	cr_expect_not(ns.read_only);
	cr_expect_not(ns.shared);
	cr_expect_eq(ns.nguid[15], 9);
	cr_expect_eq(ns.eui64[7], 9);
}

/* A descriptor ends at the last byte of the page, or the list ends before it. */
Test(identify, descriptors_are_read_up_to_the_end_of_the_page)
{
	static const struct {
		uint32_t at;	     /* of a UUID */
		uint8_t type, bytes; /* its head */
		bool taken;
	} row[] = {
		{ 0, 3, 16, true },	    { 4096 - 20, 3, 16, true }, { 4096 - 19, 3, 16, false },
		{ 4096 - 4, 3, 16, false }, { 0, 3, 15, false },	{ 0, 3, 17, false },
		{ 0, 2, 16, false },	    { 0, 77, 16, false },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		uint8_t list[HR_PAGE + 64] = { 0 };
		struct hr_ns ns = { 0 };
		uint32_t left = row[i].at;
		int csi = 5;

		/* Fill the list up to that place with descriptors of an unknown type. */
		for (uint32_t at = 0; left;) {
			const uint32_t step = left > 300 ? 204 : left > 200 ? left - 100 : left;

			list[at] = 99;
			list[at + 1] = (uint8_t)(step - 4);
			at += step;
			left -= step;
		}
		list[row[i].at] = row[i].type;
		list[row[i].at + 1] = row[i].bytes;
		memset(list + row[i].at + 4, 0x42, 16);
		hr_identify_descriptors(&ns, &csi, 1, list, "disk");
		cr_expect_eq(ns.uuid[0] == 0x42 && ns.uuid[15] == 0x42, row[i].taken, "row %zu", i);
		cr_expect_eq(csi, -1);
		cr_expect_eq(ns.nguid[0], row[i].type == 2 ? 0x42 : 0, "row %zu", i);
	}
}

Test(identify, command_sets_have_names)
{
	static const char *const want[] = { "unknown", "NVM", "key value", "zoned", "unknown" };

	for (int csi = -1; csi < 4; csi++)
		cr_expect_str_eq(hr_command_set_name(csi), want[csi + 1]);
}

/* ---- queue pairs */

Test(identify, the_last_queue_pair_and_the_largest_queue_are_possible)
{
	static const struct {
		uint16_t id;
		uint32_t entries;
		int want;
	} row[] = { { 4, 64, 0 },
		    { 5, 64, -EINVAL },
		    { 0, 64, -EINVAL },
		    { 1, 2, 0 },
		    { 4, 128, -EINVAL } };

	for (size_t i = 0; i < ROWS(row); i++) {
		static uint64_t table[4096 * 3];
		struct hr_qp_memory memory = { .table = table };
		struct hr_nvme_qp qp;
		uint32_t got;
		int err;

		again();
		memory.sq = fake.memory + 4 * HR_PAGE;
		memory.cq = fake.memory + 8 * HR_PAGE;
		fake.id_ctrl.crdt2 = 5;
		cr_assert_eq(open_at(0), 0);
		cr_assert_eq(hr_ctrl_set_queues(&fake.ctrl, 4, &got, NULL), 0);
		cr_assert_eq(hr_qp_init(&qp, row[i].id, row[i].entries, &memory, HR_NS_PER_S), 0);
		err = hr_ctrl_create_qp(&fake.ctrl, &qp, (struct hr_bus){ FAKE_BUS + 4 * HR_PAGE },
					(struct hr_bus){ FAKE_BUS + 8 * HR_PAGE }, test_error());
		cr_expect_eq(err, row[i].want, "row %zu: %d", i, err);
		cr_expect_eq(qp.retry_delay[2], err ? 0 : 5, "row %zu", i);
		if (err)
			expect_text("queue pair", ": 1..4 with up to 64 are possible");
	}
}

Test(identify, the_most_queues_are_65535)
{
	uint32_t got = 0;

	cr_assert_eq(open_at(0), 0);
	cr_expect_eq(hr_ctrl_set_queues(&fake.ctrl, 65536, &got, NULL), -EINVAL);
	cr_expect_eq(hr_ctrl_set_queues(&fake.ctrl, 65535, &got, NULL), 0);
	cr_expect_eq(fake.seen[1].cdw11, 0xfffefffeu);
	cr_expect_eq(got, 8u, "of 0x00070007");
	cr_expect_eq(hr_ctrl_set_queues(&fake.ctrl, 1, &got, NULL), 0);
	cr_expect_eq(fake.seen[2].cdw11, 0u);
	cr_expect_eq(got, 1u);
}
