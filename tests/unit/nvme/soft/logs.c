/* SPDX-License-Identifier: Apache-2.0 */
/* Log pages, identify data and features of the software controller: each byte of each structure. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "nvme/soft/internal.h"
#include "tests/harness/conform.h"

#define A CONFORM_DATA
#define MEDIA 0x281u /* unrecovered read error */

static struct conform c;
static char script[] = "/tmp/headrace-logs-XXXXXX";

static void start(void)
{
	const int fd = mkstemp(script);
	char device[96];

	cr_assert(dprintf(fd, "on read lba 1: status 0x281\non read lba 2: status 0x82\n") > 0);
	close(fd);
	snprintf(device, sizeof(device), "soft:memory,size=8M,faults=%s", script);
	conform_use(device);
	conform_open_io(&c);
}

static void finish(void)
{
	conform_close(&c);
	unlink(script);
}

TestSuite(soft_logs, .init = start, .fini = finish, .timeout = 60);

static uint64_t field(const uint8_t *at)
{
	uint64_t value[2];

	memcpy(value, at, sizeof(value));
	cr_expect_eq(value[1], 0);
	return value[0];
}

static const struct nvme_smart_log *health(void)
{
	const struct nvme_smart_log *log = conform_page(&c, CONFORM_IDENTIFY);

	cr_assert_eq(conform_get_log(&c, NVME_LOG_LID_SMART, sizeof(*log), 0), 0);
	return log;
}

Test(soft_logs, the_health_log_is_exact)
{
	const struct nvme_smart_log *log = health();

	cr_expect_eq(log->critical_warning, 0);
	cr_expect_eq(log->temperature[0] | log->temperature[1] << 8, 300);
	cr_expect_eq(log->avail_spare, 100);
	cr_expect_eq(log->spare_thresh, 10);
	cr_expect_eq(field(log->power_cycles), 1);
	cr_expect_eq(field(log->power_on_hours), 0);
	cr_expect_eq(field(log->data_units_read), 0);
	cr_expect_eq(field(log->data_units_written), 0);
	cr_expect_eq(field(log->media_errors), 0);
	cr_expect_eq(field(log->num_err_log_entries), 0);

	/* A unit of 512,000 bytes that has begun counts: 126 blocks of 4 KiB begin the second. */
	cr_assert_eq(conform_io(&c, nvme_cmd_write, 0, 125, A, 0), 0);
	cr_assert_eq(conform_io(&c, nvme_cmd_read, 4, 1, A, 0), 0);
	cr_expect_eq(field(health()->data_units_written), 1);
	cr_assert_eq(conform_io(&c, nvme_cmd_write, 0, 1, A, 0), 0);
	cr_expect_eq(field(health()->data_units_written), 2);
	cr_expect_eq(field(health()->data_units_read), 1);
	cr_expect_eq(field(health()->host_writes), 2);
	cr_expect_eq(field(health()->host_reads), 1);

	/* One of three failed commands met a media error. */
	cr_expect_eq(conform_io(&c, nvme_cmd_read, 1, 1, A, 0), MEDIA);
	cr_expect_eq(conform_io(&c, nvme_cmd_read, 2, 1, A, 0), NVME_SC_NS_NOT_READY);
	cr_expect_eq(conform_io(&c, nvme_cmd_read, 1u << 20, 1, A, 0), NVME_SC_LBA_RANGE);
	cr_expect_eq(field(health()->media_errors), 1);
	cr_expect_eq(field(health()->num_err_log_entries), 3);
}

/*
 * The newest entry comes first. The log holds the last 64 entries; the count of errors has no such
 * limit.
 */
Test(soft_logs, the_error_log_is_exact)
{
	const struct nvme_error_log_page *log = conform_page(&c, CONFORM_IDENTIFY);
	const uint64_t far = (7ull << 32) + 5;
	uint16_t cid = 0;

	cr_assert_eq(conform_get_log(&c, NVME_LOG_LID_ERROR, HR_PAGE, 0), 0);
	cr_expect(conform_is_zero(&c, CONFORM_IDENTIFY, HR_PAGE), "no errors, no entries");
	cr_expect_eq(conform_io(&c, nvme_cmd_read, 1, 1, A, 0), MEDIA);
	cr_assert_eq(conform_get_log(&c, NVME_LOG_LID_ERROR, HR_PAGE, 0), 0);
	cr_expect_eq(log[0].error_count, 1);
	cr_expect_eq(log[0].lba, 1);
	cr_expect_eq(log[1].error_count, 0);
	for (unsigned i = 0; i < 2 * SOFT_ERROR_LOG; i++) {
		cid = c.io.cid;
		cr_expect_eq(conform_io(&c, nvme_cmd_read, far + i, 1, A, 0), NVME_SC_LBA_RANGE);
	}
	cr_assert_eq(conform_get_log(&c, NVME_LOG_LID_ERROR, HR_PAGE, 0), 0);
	for (unsigned i = 0; i < SOFT_ERROR_LOG; i++) {
		cr_expect_eq(log[i].error_count, 2 * SOFT_ERROR_LOG + 1 - i, "entry %u", i);
		cr_expect_eq(log[i].lba, far + 2 * SOFT_ERROR_LOG - 1 - i, "entry %u", i);
	}
	cr_expect_eq(log[0].sqid, 1);
	cr_expect_eq(log[0].cmdid, cid);
	cr_expect_eq(log[0].nsid, 1);
	cr_expect_eq(log[0].parm_error_location, 0xffff);
	cr_expect_eq(hr_cqe_status(log[0].status_field), NVME_SC_LBA_RANGE);
}

/* ---- identify data, byte by byte; the expected values are literals, not constants of the product */

TestSuite(soft_identity, .timeout = 60);

static const uint32_t all_namespaces = 16;

static void open_device(const char *device)
{
	conform_use(device);
	conform_open(&c);
}

static void close_device(void)
{
	conform_close(&c);
	conform_use(NULL);
}

static void set_text(char *to, const char *text, size_t bytes)
{
	memset(to, ' ', bytes);
	memcpy(to, text, strlen(text));
}

/* Serial number and NQN differ for each controller: they have a fixed form, and are taken over. */
static void take_names(struct nvme_id_ctrl *want, const struct nvme_id_ctrl *id)
{
	const char *uuid = id->subnqn + 32;

	cr_expect_eq(memcmp(id->sn, "HR", 2), 0, "%.20s", id->sn);
	cr_expect_eq(strspn(id->sn + 2, "0123456789abcdef"), 18, "%.20s", id->sn);
	memcpy(want->sn, id->sn, sizeof(want->sn));
	cr_expect_eq(memcmp(id->subnqn, "nqn.2014-08.org.nvmexpress:uuid:", 32), 0);
	for (unsigned i = 0; i < 36; i++)
		cr_expect_eq(uuid[i] == '-', i == 8 || i == 13 || i == 18 || i == 23, "%s", uuid);
	cr_expect_eq(strlen(uuid), 36);
	memcpy(want->subnqn, id->subnqn, 32 + 36);
}

static void expect_bytes(const void *at, const void *want, size_t bytes, const char *what)
{
	const uint8_t *a = at, *b = want;

	for (size_t i = 0; i < bytes; i++)
		cr_expect_eq(a[i], b[i], "%s: byte %zu is %02x, not %02x", what, i, a[i], b[i]);
}

static const struct {
	const char *device, *model;
	uint64_t cap, blocks;
	uint32_t namespaces;
	uint8_t mdts, vwc, dlfeat, rescap, ds;
	uint16_t oncs;
	uint32_t ctratt;
} shape[] = {
	{ "soft:memory,size=64M,mdts=5,cache=16M", "headrace software controller", 0x200a010fffull,
	  16384, 1, 5, 7, 1, 0, 12, 0xd, 0 },
	{ "soft:memory,size=64M,namespaces=16,lba=512,dstrd=2", "headrace software controller",
	  0x220a010fffull, 8192, 16, 8, 0, 1, 0, 9, 0xd, 0 },
	{ "soft:memory,size=64M,reservations=1,mdts=15", "headrace software controller",
	  0x200a010fffull, 16384, 1, 15, 0, 1, 0xfe, 12, 0x2d, 1 },
	{ "soft:null,size=64M,mdts=0,namespaces=2", "headrace null controller", 0x200a010fffull,
	  8192, 2, 0, 0, 0, 0, 12, 0xc, 0 },
};

#define SHAPES (sizeof(shape) / sizeof(shape[0]))

Test(soft_identity, each_byte_of_the_controller_is_as_documented)
{
	for (size_t i = 0; i < SHAPES; i++) {
		struct nvme_id_ctrl want = { 0 };

		open_device(shape[i].device);
		cr_expect_eq(c.cap, shape[i].cap, "%s: %llx", shape[i].device,
			     (unsigned long long)c.cap);
		cr_expect_eq(hr_reg_read32(&c.t, NVME_REG_VS), 0x10400u);
		take_names(&want, &c.id);
		set_text(want.mn, shape[i].model, sizeof(want.mn));
		set_text(want.fr, "1.0", sizeof(want.fr));
		want.mdts = shape[i].mdts;
		want.ver = 0x10400;
		want.rtd3e = 5000000;
		want.oaes = 0x100;
		want.ctratt = shape[i].ctratt;
		want.cntrltype = 1;
		want.crdt1 = 1;
		want.crdt2 = 2;
		want.crdt3 = 600;
		want.acl = want.aerl = want.frmw = 3;
		want.elpe = 63;
		want.wctemp = 343;
		want.cctemp = 353;
		want.sqes = 0x66;
		want.cqes = 0x44;
		want.nn = shape[i].namespaces;
		want.oncs = shape[i].oncs;
		want.vwc = shape[i].vwc;
		expect_bytes(&c.id, &want, sizeof(want), shape[i].device);
		close_device();
	}
}

Test(soft_identity, each_byte_of_a_namespace_is_as_documented)
{
	for (size_t i = 0; i < SHAPES; i++) {
		struct nvme_id_ns want = { 0 };

		open_device(shape[i].device);
		want.lbaf[0].ds = shape[i].ds;
		cr_expect_eq(conform_identify(&c, NVME_IDENTIFY_CNS_NS, NVME_NSID_ALL), 0);
		expect_bytes(conform_page(&c, CONFORM_IDENTIFY), &want, sizeof(want), "common");
		want.nsze = want.ncap = want.nuse = shape[i].blocks;
		want.dlfeat = shape[i].dlfeat;
		want.rescap = shape[i].rescap;
		for (uint32_t nsid = 1; nsid <= shape[i].namespaces; nsid++) {
			cr_expect_eq(conform_identify(&c, NVME_IDENTIFY_CNS_NS, nsid), 0);
			expect_bytes(conform_page(&c, CONFORM_IDENTIFY), &want, sizeof(want),
				     shape[i].device);
		}
		cr_expect_eq(conform_identify(&c, NVME_IDENTIFY_CNS_NS, shape[i].namespaces + 1),
			     NVME_SC_INVALID_NS);
		close_device();
	}
}

/* The UUID of a namespace, in the text form of an NQN. */
static void read_uuid(uint32_t nsid, char text[37])
{
	const uint8_t *page = conform_page(&c, CONFORM_IDENTIFY), *u = page + 4;
	uint8_t want[HR_PAGE] = { 3, 16 };

	cr_assert_eq(conform_identify(&c, NVME_IDENTIFY_CNS_NS_DESC_LIST, nsid), 0);
	memcpy(want + 4, u, 16);
	expect_bytes(page, want, HR_PAGE, "descriptors");
	cr_expect_eq(u[6] >> 4, 8, "version %02x", u[6]);
	cr_expect_eq(u[8] >> 6, 2, "variant %02x", u[8]);
	snprintf(text, 37, "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x",
		 u[0], u[1], u[2], u[3], u[4], u[5], u[6], u[7], u[8], u[9], u[10], u[11], u[12],
		 u[13], u[14], u[15]);
}

/* 64 UUIDs, because a wrong bit of the version or the variant shows only in some of them. */
Test(soft_identity, each_namespace_has_a_uuid_of_its_own)
{
	for (unsigned turn = 0; turn < 4; turn++) {
		char uuid[16][37];
		unsigned other_bits = 0;

		open_device("soft:null,size=64M,namespaces=16");
		for (uint32_t i = 0; i < all_namespaces; i++) {
			read_uuid(i + 1, uuid[i]);
			cr_expect_eq(uuid[i][14], '8', "version: %s", uuid[i]);
			cr_expect_not_null(strchr("89ab", uuid[i][19]), "variant: %s", uuid[i]);
			other_bits |= 1u << (strchr("0123456789abcdef", uuid[i][20]) -
					     "0123456789abcdef");
			for (uint32_t j = 0; j < i; j++)
				cr_expect_str_neq(uuid[i], uuid[j], "%u and %u", i + 1, j + 1);
		}
		cr_expect_str_eq(c.id.subnqn + 32, uuid[0], "the NQN has the UUID of namespace 1");
		cr_expect_neq(other_bits & (other_bits - 1), 0, "all have the same digit");
		close_device();
	}
}

Test(soft_identity, active_namespaces_are_listed_in_order)
{
	static const uint32_t above[] = { 0, 1, 7, 14, 15, 16, 0xfffffffd };

	open_device("soft:null,size=64M,namespaces=16");
	for (size_t i = 0; i < sizeof(above) / sizeof(above[0]); i++) {
		uint32_t want[HR_PAGE / 4] = { 0 };

		for (uint32_t nsid = above[i], n = 0; nsid < all_namespaces; nsid++)
			want[n++] = nsid + 1;
		cr_expect_eq(conform_identify(&c, NVME_IDENTIFY_CNS_NS_ACTIVE_LIST, above[i]), 0);
		expect_bytes(conform_page(&c, CONFORM_IDENTIFY), want, sizeof(want), "list");
	}
	cr_expect_eq(conform_identify(&c, NVME_IDENTIFY_CNS_NS_ACTIVE_LIST, 0xfffffffe),
		     NVME_SC_INVALID_NS);
	cr_expect_eq(conform_identify(&c, NVME_IDENTIFY_CNS_NS_ACTIVE_LIST, 0xffffffff),
		     NVME_SC_INVALID_NS);
	close_device();
}

/* ---- features */

#define REFUSED UINT32_MAX
#define DEFAULT (1u << 8) /* SEL */

/* Features 1 to 0bh of a controller with a cache; all others but 16h are unknown. */
static const uint32_t default_value[] = { REFUSED,    0, 0, REFUSED, 343, 0,	  1,
					  0x00ff00ff, 0, 0, 0,	     0,	  REFUSED };

/* All identifiers up to 24, and some of the others. */
static void expect_features(const uint32_t *want, uint32_t select)
{
	for (uint32_t fid = 0; fid < 256; fid += fid < 24 ? 1 : 21) {
		const bool known = fid < 13 && want[fid] != REFUSED;
		uint32_t value = 0x5a5a5a5a;
		const uint16_t status = conform_get_feature(&c, fid | select, &value);

		if (fid == 0x16) /* has data in place of a value, and no address is given */
			continue;
		cr_expect_eq(status, known ? 0 : NVME_SC_INVALID_FIELD, "%02x: %03x", fid, status);
		if (known)
			cr_expect_eq(value, want[fid], "%02x: %08x", fid, value);
	}
}

Test(soft_identity, features_have_their_defaults_until_set_and_after_a_reset)
{
	static const uint32_t set[] = { 1, 2, 4, 5, 8, 10, 11 };
	uint32_t want[13];

	open_device("soft:memory,size=64M,cache=16M");
	expect_features(default_value, 0);
	expect_features(default_value, DEFAULT);
	memcpy(want, default_value, sizeof(want));
	for (size_t i = 0; i < sizeof(set) / sizeof(set[0]); i++) {
		want[set[i]] = 0x140 + 0x20 * set[i];
		cr_expect_eq(conform_set_feature(&c, set[i], want[set[i]], NULL), 0, "%u", set[i]);
	}
	cr_expect_eq(conform_set_feature(&c, 6, 0, NULL), 0);
	want[6] = 0;
	expect_features(want, 0);
	expect_features(default_value, DEFAULT);
	cr_expect_eq(conform_get_feature(&c, 1 | 2 * DEFAULT, NULL), NVME_SC_INVALID_FIELD);
	cr_expect_eq(conform_get_feature(&c, 1 | 3 * DEFAULT, NULL), NVME_SC_INVALID_FIELD);
	cr_assert(conform_disable(&c));
	cr_assert(conform_enable(&c, conform_cc()));
	expect_features(default_value, 0);
	close_device();
}

/* Number of Queues: the larger of both numbers counts, and 0 means one queue pair. */
Test(soft_identity, the_larger_number_of_queues_is_granted)
{
	static const uint32_t row[][2] = {
		{ 0x00000000, 0x00000000 }, { 0x00030001, 0x00030003 }, { 0x00010003, 0x00030003 },
		{ 0x00fe00fe, 0x00fe00fe }, { 0x00ff0000, 0x00ff00ff }, { 0x00000100, 0x00ff00ff },
		{ 0xfffe0000, 0x00ff00ff }, { 0xffff0000, REFUSED },	{ 0x0000ffff, REFUSED },
	};
	uint32_t granted;

	open_device("soft:null,size=64M");
	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		const uint16_t status = conform_set_feature(&c, 7, row[i][0], &granted);

		cr_expect_eq(status, row[i][1] == REFUSED ? NVME_SC_INVALID_FIELD : 0, "row %zu",
			     i);
		if (!status)
			cr_expect_eq(granted, row[i][1], "row %zu: %08x", i, granted);
	}
	cr_expect_eq(conform_get_feature(&c, 7, &granted), 0);
	cr_expect_eq(granted, 0x00ff00ffu, "%08x", granted);
	close_device();
}

static uint16_t threshold(bool set, uint32_t select, uint32_t cdw11, uint32_t *value)
{
	const struct hr_sqe sqe = { .opcode =
					    set ? nvme_admin_set_features : nvme_admin_get_features,
				    .cdw10 = 4 | select,
				    .cdw11 = cdw11 };

	*value = 0x5a5a5a5a;
	return conform_admin(&c, &sqe, value);
}

/* CDW11: the sensor in 19:16 (0 is the composite temperature, 15 all), under in 21:20. */
Test(soft_identity, temperature_thresholds_are_of_the_composite_temperature)
{
	static const struct {
		uint32_t cdw11;
		bool set, get; /* accepted */
		uint32_t fresh, now;
	} row[] = {
		{ 0x000190, true, true, 343, 400 }, { 0x1000c8, true, true, 0, 200 },
		{ 0x0f0191, true, false, 0, 401 },  { 0x1f00c9, true, false, 0, 201 },
		{ 0x010190, false, false, 0, 0 },   { 0x0e0190, false, false, 0, 0 },
		{ 0x200190, false, false, 0, 0 },   { 0x300190, false, false, 0, 0 },
	};
	uint32_t value;

	open_device("soft:null,size=64M");
	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		const uint32_t which = row[i].cdw11 & ~0xffffu;

		cr_expect_eq(threshold(true, 0, row[i].cdw11, &value),
			     row[i].set ? 0 : NVME_SC_INVALID_FIELD, "row %zu", i);
		cr_expect_eq(threshold(false, 0, which, &value),
			     row[i].get ? 0 : NVME_SC_INVALID_FIELD, "row %zu", i);
		if (row[i].get)
			cr_expect_eq(value, row[i].now, "row %zu: %u", i, value);
		cr_expect_eq(threshold(false, DEFAULT, which, &value),
			     row[i].get ? 0 : NVME_SC_INVALID_FIELD, "row %zu", i);
		if (row[i].get)
			cr_expect_eq(value, row[i].fresh, "row %zu: %u", i, value);
		if (row[i].set) {
			cr_expect_eq(threshold(false, 0, which & 0x300000, &value), 0);
			cr_expect_eq(value, row[i].now, "row %zu: %u", i, value);
		}
	}
	close_device();
}

/* Host Behavior Support has one byte of data, which a reset clears. */
Test(soft_identity, host_behavior_is_kept_until_a_reset)
{
	static const uint8_t acre[] = { 1, 0, 1, 2, 255 };
	struct hr_sqe sqe = { .cdw10 = 0x16 };
	uint8_t *page, want[512] = { 0 };

	open_device("soft:null,size=64M");
	page = conform_page(&c, CONFORM_DATA);
	sqe.prp1 = conform_bus(&c, CONFORM_DATA);
	for (size_t i = 0; i < sizeof(acre); i++) {
		memset(page, 0, 512);
		page[0] = acre[i];
		sqe.opcode = nvme_admin_set_features;
		cr_expect_eq(conform_admin(&c, &sqe, NULL), acre[i] > 1 ? NVME_SC_INVALID_FIELD : 0,
			     "%u", acre[i]);
		want[0] = acre[i] > 1 ? want[0] : acre[i];
		for (uint32_t select = 0; select <= DEFAULT; select += DEFAULT) {
			memset(page, 0xa5, 1024);
			sqe.opcode = nvme_admin_get_features;
			sqe.cdw10 = 0x16 | select;
			cr_expect_eq(conform_admin(&c, &sqe, NULL), 0);
			cr_expect_eq(page[0], select ? 0 : want[0], "%u", acre[i]);
			expect_bytes(page + 1, want + 1, 511, "host behavior");
			cr_expect_eq(page[512], 0xa5);
		}
		sqe.cdw10 = 0x16;
	}
	cr_assert(conform_disable(&c));
	cr_assert(conform_enable(&c, conform_cc()));
	cr_expect_eq(conform_admin(&c, &sqe, NULL), 0);
	cr_expect_eq(page[0], 0);
	close_device();
}

/* Get Log Page moves as many dwords as the command says, and no offset is possible. */
Test(soft_identity, a_log_page_has_the_length_that_the_command_says)
{
	static const struct {
		uint8_t lid;
		uint32_t dwords, upper, cdw12, cdw13;
		uint16_t want;
	} row[] = {
		{ 1, 1, 0, 0, 0, 0 },
		{ 2, 128, 0, 0, 0, 0 },
		{ 3, 1024, 0, 0, 0, 0 },
		{ 3, 1025, 0, 0, 0, NVME_SC_INVALID_FIELD },
		{ 2, 128, 1, 0, 0, NVME_SC_INVALID_FIELD },
		{ 2, 128, 0, 1, 0, NVME_SC_INVALID_FIELD },
		{ 2, 128, 0, 0, 1, NVME_SC_INVALID_FIELD },
		{ 0, 128, 0, 0, 0, CONFORM_SPECIFIC(NVME_SC_INVALID_LOG_PAGE) },
		{ 5, 128, 0, 0, 0, CONFORM_SPECIFIC(NVME_SC_INVALID_LOG_PAGE) },
	};

	open_device("soft:null,size=64M");
	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		const struct hr_sqe sqe = { .opcode = nvme_admin_get_log_page,
					    .prp1 = conform_bus(&c, CONFORM_DATA),
					    .cdw10 = (row[i].dwords - 1) << 16 | row[i].lid,
					    .cdw11 = row[i].upper,
					    .cdw12 = row[i].cdw12,
					    .cdw13 = row[i].cdw13 };
		uint8_t *page = conform_page(&c, CONFORM_DATA);
		const size_t bytes = row[i].want ? 0 : 4 * row[i].dwords;

		memset(page, 0xa5, 2 * HR_PAGE);
		cr_expect_eq(conform_admin(&c, &sqe, NULL), row[i].want, "row %zu", i);
		cr_expect(!bytes || page[bytes - 1] == 0, "row %zu", i);
		cr_expect_eq(page[bytes], 0xa5, "row %zu", i);
	}
	close_device();
}

Test(soft_identity, the_firmware_log_is_exact)
{
	uint8_t want[512] = { 1 };

	open_device("soft:null,size=64M");
	memcpy(want + 8, "1.0     ", 8);
	cr_expect_eq(conform_get_log(&c, NVME_LOG_LID_FW_SLOT, sizeof(want), 0), 0);
	expect_bytes(conform_page(&c, CONFORM_IDENTIFY), want, sizeof(want), "firmware log");
	close_device();
}

/* Identifiers that all controllers with the option have: of 8 bytes (type 1), or of 16 (type 2). */
Test(soft_identity, options_show_in_their_fields)
{
	static const struct {
		const char *quirk;
		uint8_t type, bytes;
	} row[] = { { "same-eui64", 1, 8 }, { "same-nguid", 2, 16 } };
	char file[] = "/tmp/headrace-identity-XXXXXX", device[128];
	const int fd = mkstemp(file);

	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		uint8_t want[HR_PAGE] = { row[i].type, row[i].bytes, 0, 0, 1 };
		struct nvme_id_ns ns = { 0 };

		want[4 + row[i].bytes - 1] = 2; /* the namespace */
		snprintf(device, sizeof(device),
			 "soft:null,size=64M,namespaces=2,id=144d:a821,quirks=no-shutdown+%s",
			 row[i].quirk);
		open_device(device);
		cr_expect_eq(c.id.vid, 0x144d);
		cr_expect_eq(c.id.ssvid, 0x144d);
		cr_expect_eq(c.id.rtd3e, 0);
		cr_expect_eq(conform_identify(&c, NVME_IDENTIFY_CNS_NS_DESC_LIST, 2), 0);
		expect_bytes(conform_page(&c, CONFORM_IDENTIFY), want, HR_PAGE, row[i].quirk);
		cr_expect_eq(conform_identify(&c, NVME_IDENTIFY_CNS_NS, 2), 0);
		memcpy(&ns, conform_page(&c, CONFORM_IDENTIFY), sizeof(ns));
		expect_bytes(ns.eui64, i == 0 ? want + 4 : want + 64, 8, row[i].quirk);
		expect_bytes(ns.nguid, i == 1 ? want + 4 : want + 64, 16, row[i].quirk);
		close_device();
	}
	snprintf(device, sizeof(device), "soft:%s,size=4M,shared=1", file);
	open_device(device);
	cr_expect_eq(c.id.cmic, 2, "several controllers");
	cr_expect_eq(c.ns.nmic, 1, "a shared namespace");
	close_device();
	unlink(file);
	close(fd);
}
