/* SPDX-License-Identifier: Apache-2.0 */
/* Fault scripts of the software controller (nvme/soft/FAULTS.md). */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "boot/engine/devices/devices.h"
#include "config/base/clock.h"
#include "config/base/log.h"
#include "config/base/limits.h"
#include "nvme/soft/soft.h"
#include "tests/harness/conform.h"
#include "tests/harness/error.h"

#define A CONFORM_DATA

static struct conform c;
static char script[64], device[HR_DEVICE_MAX];

static void name_script(void)
{
	int fd;

	snprintf(script, sizeof(script), "/tmp/headrace-faults-XXXXXX");
	fd = mkstemp(script);
	cr_assert_geq(fd, 0);
	close(fd);
}

static void finish(void)
{
	conform_close(&c);
	unlink(script);
}

TestSuite(soft_faults, .init = name_script, .fini = finish, .timeout = 60);

static void write_script(const char *text)
{
	FILE *file = fopen(script, "w");

	cr_assert_not_null(file);
	cr_assert_geq(fputs(text, file), 0);
	cr_assert_eq(fclose(file), 0);
	snprintf(device, sizeof(device), "soft:memory,size=4M,faults=%s", script);
	conform_use(device);
}

static void start(const char *text)
{
	write_script(text);
	conform_open_io(&c);
}

static uint16_t read_block(uint64_t lba)
{
	return conform_io(&c, nvme_cmd_read, lba, 1, A, 0);
}

/* Submit a read without waiting; returns its CID. */
static uint16_t send_read(void)
{
	const struct hr_sqe sqe = conform_io_sqe(&c, nvme_cmd_read, 0, 1, A);
	const uint16_t cid = conform_push(&c.io, &sqe);

	conform_ring(&c, &c.io);
	return cid;
}

Test(soft_faults, mistakes_name_file_and_line)
{
	static const char *const bad[] = {
		"read: drop\n",
		"on\n",
		"on reed: drop\n",
		"on read drop\n",
		"on read:\n",
		"on read: explode\n",
		"on any opcode: drop\n",
		"on any opcode 0x100: drop\n",
		"on read lba: drop\n",
		"on read lba 9-3: drop\n",
		"on read lba x: drop\n",
		"on read nth 0: drop\n",
		"on read count 0: drop\n",
		"on read: status\n",
		"on read: status 0x10000\n",
		"on read: status 0x281 ndr\n",
		"on read: delay\n",
		"on read: delay 5\n",
		"on read: delay 5min\n",
		"on read: wrong-cid 0x10000\n",
		"on read: wrong-cid 0x\n",
		"on read: wrong-cid 0b1\n",
		"on read: powercut\n",
		"on read: powercut half\n",
		"on read: drop drop\n",
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		char text[256], where[80];
		struct hr_transport t;

		snprintf(text, sizeof(text), "# comment\n\non write: drop\n%s", bad[i]);
		write_script(text);
		snprintf(where, sizeof(where), "%s:4", script);
		cr_expect_eq(hr_transport_open(&t, device, test_error()), -EINVAL, "%s", bad[i]);
		cr_expect(strstr(test_error_text(), where), "%s: %s", bad[i], test_error_text());
	}
}

Test(soft_faults, a_zero_in_front_does_not_make_a_number_octal)
{
	start("on read lba 010 nth 01: status 0X281\n");
	cr_expect_eq(read_block(8), 0);
	cr_expect_eq(read_block(10), 0x281);
}

Test(soft_faults, a_script_has_64_rules_and_lines_of_510_characters)
{
	for (unsigned more = 0; more < 2; more++) {
		char text[65 * 14 + 1] = "", line[520] = "on read: drop #";
		struct hr_transport t;

		for (unsigned i = 0; i < 64 + more; i++)
			strcat(text, "on read: drop\n");
		write_script(text);
		cr_expect_eq(hr_transport_open(&t, device, test_error()), more ? -EINVAL : 0);
		cr_expect(!more || strstr(test_error_text(), ":65: more than 64 rules"));
		if (!more)
			t.ops->close(&t);
		memset(line + 15, 'x', 495 + more);
		write_script(line);
		cr_expect_eq(hr_transport_open(&t, device, test_error()), more ? -EINVAL : 0);
		cr_expect(!more || strstr(test_error_text(), "line longer than 510 characters"));
		if (!more)
			t.ops->close(&t);
	}
}

Test(soft_faults, a_missing_script_is_an_error)
{
	struct hr_transport t;

	cr_expect_eq(hr_transport_open(&t, "soft:memory,size=1M,faults=/nonexistent", test_error()),
		     -ENOENT);
}

Test(soft_faults, status_by_block_and_occurrence)
{
	start("on read lba 10-19 nth 2 count 2: status 0x281\n");
	cr_expect_eq(read_block(9), 0);
	cr_expect_eq(read_block(10), 0, "first match");
	cr_expect_eq(read_block(20), 0);
	cr_expect_eq(read_block(19), 0x281, "second match");
	cr_expect_eq(conform_io(&c, nvme_cmd_read, 8, 4, A, 0), 0x281, "third, by overlap");
	cr_expect_eq(read_block(10), 0, "no more");
	cr_expect_eq(conform_io(&c, nvme_cmd_write, 10, 1, A, 0), 0);
}

/* Block 3 is written by a command that ends with the rule; check the data at a later opening. */
static void expect_not_written(const char *image, const char *action, uint32_t mask, uint32_t want)
{
	char rule[64];
	struct hr_sqe sqe;

	snprintf(rule, sizeof(rule), "on write: %s\n", action);
	write_script(rule);
	snprintf(device, sizeof(device), "soft:%s,size=4M,cache=0,faults=%s", image, script);
	conform_use(device);
	conform_open_io(&c);
	conform_fill(&c, A, HR_PAGE, 1);
	sqe = conform_io_sqe(&c, nvme_cmd_write, 3, 1, A);
	conform_push(&c.io, &sqe);
	conform_ring(&c, &c.io);
	cr_expect(conform_wait(&c, mask, want), "%s", action);
	c.wait_ms = 1; /* do not wait longer: the controller never becomes idle */
	conform_close(&c);
	snprintf(device, sizeof(device), "soft:%s,size=4M", image);
	conform_use(device);
	conform_open_io(&c);
	cr_expect_eq(read_block(3), 0);
	cr_expect(conform_is_zero(&c, A, HR_PAGE), "%s", action);
	conform_close(&c);
}

/* A read with that fault does not write host memory. */
static void expect_not_read(const char *action, uint32_t mask, uint32_t want)
{
	char rule[64];

	snprintf(rule, sizeof(rule), "on read: %s\n", action);
	start(rule);
	conform_fill(&c, A, HR_PAGE, 1);
	send_read();
	cr_expect(conform_wait(&c, mask, want), "%s", action);
	hr_wait_ns(20 * HR_NS_PER_MS);
	cr_expect(conform_is_filled(&c, A, HR_PAGE, 1), "%s", action);
	c.wait_ms = 1;
	conform_close(&c);
}

Test(soft_faults, a_command_that_ends_the_controller_is_not_executed)
{
	char image[] = "/tmp/headrace-faults-XXXXXX";
	const int fd = mkstemp(image);

	cr_assert_geq(fd, 0);
	close(fd);
	expect_not_written(image, "cfs", 2, 2);
	expect_not_written(image, "remove", UINT32_MAX, UINT32_MAX);
	expect_not_written(image, "powercut drop", UINT32_MAX, UINT32_MAX);
	unlink(image);
	expect_not_read("cfs", 2, 2);
	expect_not_read("remove", UINT32_MAX, UINT32_MAX);
	expect_not_read("powercut drop", UINT32_MAX, UINT32_MAX);
	start("");
}

/* The commands that a rule matches: each kind, and all of a queue. */
Test(soft_faults, a_rule_applies_to_the_commands_that_it_names)
{
	static const uint8_t opcode[] = { nvme_cmd_read, nvme_cmd_write, nvme_cmd_flush,
					  nvme_cmd_write_zeroes };
	static const struct {
		const char *name;
		uint8_t io; /* a bit for each of these commands */
		bool admin;
	} row[] = { { "read", 1, false },
		    { "write", 2, false },
		    { "flush", 4, false },
		    { "any", 15, false },
		    { "admin", 0, true } };

	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		uint32_t value;

		for (unsigned j = 0; j < sizeof(opcode); j++) {
			char text[64];

			snprintf(text, sizeof(text), "on %s nth 1: status 0x281\n", row[i].name);
			write_script(text);
			if (row[i].admin)
				break;
			conform_open_io(&c);
			cr_expect_eq(conform_io(&c, opcode[j], 0, 1, A, 0),
				     row[i].io >> j & 1 ? 0x281 : 0, "%s, opcode %02x", row[i].name,
				     opcode[j]);
			conform_close(&c);
		}
		conform_reach(&c);
		cr_assert(conform_enable(&c, conform_cc()));
		cr_expect_eq(conform_get_feature(&c, NVME_FEAT_FID_ARBITRATION, &value),
			     row[i].admin ? 0x281 : 0, "%s, admin", row[i].name);
		conform_close(&c);
	}
	start("");
}

Test(soft_faults, status_sets_do_not_retry_when_asked)
{
	struct hr_cqe cqe;

	start("on read: status 0x281 dnr\non flush: status 0x006\n");
	send_read();
	cr_assert(conform_peek(&c, &c.io, CONFORM_MS, &cqe));
	cr_expect_eq(hr_cqe_status(cqe.status), 0x281);
	cr_expect(hr_cqe_dnr(cqe.status));
	conform_release(&c, &c.io);
	cr_expect_eq(conform_do(&c, &c.io, &(struct hr_sqe){ .nsid = 1 }, NULL), 0x006);
	cr_expect_eq(conform_do(&c, &c.io, &(struct hr_sqe){ .nsid = 1 }, NULL), 0);
}

Test(soft_faults, a_failed_write_leaves_the_data_unchanged)
{
	start("on write nth 2: status 0x280\n");
	conform_fill(&c, A, HR_PAGE, 1);
	cr_assert_eq(conform_io(&c, nvme_cmd_write, 3, 1, A, 0), 0);
	conform_fill(&c, A, HR_PAGE, 2);
	cr_assert_eq(conform_io(&c, nvme_cmd_write, 3, 1, A, 0), 0x280);
	cr_assert_eq(read_block(3), 0);
	cr_expect(conform_is_filled(&c, A, HR_PAGE, 1));
}

Test(soft_faults, a_dropped_completion_never_comes)
{
	struct hr_cqe cqe;
	uint16_t cid;

	start("on read: drop\n");
	send_read();
	cr_expect_not(conform_peek(&c, &c.io, 100, &cqe));
	cid = send_read();
	cr_assert(conform_peek(&c, &c.io, CONFORM_MS, &cqe));
	cr_expect_eq(cqe.cid, cid);
}

Test(soft_faults, a_delayed_completion_is_late_but_right)
{
	struct hr_cqe cqe;
	uint64_t start_ns;
	uint16_t cid;

	start("on read: delay 100ms\n");
	start_ns = hr_now_ns();
	cid = send_read();
	cr_assert(conform_peek(&c, &c.io, CONFORM_MS, &cqe));
	cr_expect_geq(hr_now_ns() - start_ns, 100 * HR_NS_PER_MS);
	cr_expect_eq(cqe.cid, cid);
	cr_expect_eq(hr_cqe_status(cqe.status), 0);
}

Test(soft_faults, a_delayed_command_can_be_aborted)
{
	struct hr_sqe abort = { .opcode = nvme_admin_abort_cmd };
	struct hr_cqe cqe;
	uint32_t dw0 = 1;
	uint16_t cid;

	start("on read: delay 60s\n");
	cid = send_read();
	cr_assert_eq(read_block(1), 0, "the controller has fetched the command before this one");
	abort.cdw10 = (uint32_t)cid << 16 | 1;
	cr_assert_eq(conform_admin(&c, &abort, &dw0), 0);
	cr_expect_eq(dw0 & 1, 0, "not aborted");
	cr_assert(conform_peek(&c, &c.io, CONFORM_MS, &cqe));
	cr_expect_eq(cqe.cid, cid);
	cr_expect_eq(hr_cqe_status(cqe.status), NVME_SC_ABORT_REQ);
}

Test(soft_faults, deleting_its_queue_ends_a_delayed_command)
{
	struct hr_cqe cqe;

	start("on read: delay 60s\n");
	send_read();
	cr_assert_eq(read_block(1), 0, "the controller has fetched the command before this one");
	cr_assert_eq(conform_delete(&c, false, 1), 0);
	cr_assert(conform_peek(&c, &c.io, CONFORM_MS, &cqe));
	cr_expect_eq(hr_cqe_status(cqe.status), NVME_SC_ABORT_QUEUE);
}

/* Submit a read of block 0 with that CID. */
static void send_cid(struct conform_queue *q, uint16_t cid)
{
	const struct hr_sqe sqe = conform_io_sqe(&c, nvme_cmd_read, 0, 1, A);

	q->cid = cid;
	conform_push(q, &sqe);
	conform_ring(&c, q);
}

/* Abort a command of a submission queue; returns whether it was aborted. */
static bool aborts(uint32_t sqid, uint32_t cid)
{
	const struct hr_sqe abort = { .opcode = nvme_admin_abort_cmd, .cdw10 = cid << 16 | sqid };
	uint32_t dw0 = 7;

	return conform_admin(&c, &abort, &dw0) == 0 && dw0 == 0;
}

static void expect_only(struct conform_queue *q, uint16_t cid, uint16_t status)
{
	struct hr_cqe cqe;

	cr_assert(conform_peek(&c, q, CONFORM_MS, &cqe));
	conform_release(&c, q);
	cr_expect_eq(cqe.cid, cid, "%u, not %u", cqe.cid, cid);
	cr_expect_eq(hr_cqe_status(cqe.status), status);
	cr_expect_not(conform_peek(&c, q, 20, &cqe), "no other command has ended");
}

/* Commands of two queues with the same CIDs are delayed; each abort and deletion ends its own. */
Test(soft_faults, only_the_named_delayed_command_ends)
{
	struct conform_queue second;

	start("on read lba 0 count 7: delay 60s\n");
	cr_assert_eq(conform_add_io(&c, &second, 2, CONFORM_ENTRIES), 0);
	for (uint16_t cid = 0; cid < 3; cid++) {
		send_cid(&c.io, cid);
		send_cid(&second, cid);
	}
	c.io.cid = second.cid = 10;
	cr_assert_eq(read_block(1), 0, "the controller has fetched the commands before this one");
	cr_assert_eq(conform_do(&c, &second,
				&(struct hr_sqe){ .opcode = nvme_cmd_flush, .nsid = 1 }, NULL),
		     0);
	cr_expect_not(aborts(1, 5));
	cr_expect_not(aborts(3, 1));
	cr_expect(aborts(1, 0));
	expect_only(&c.io, 0, NVME_SC_ABORT_REQ);
	cr_expect_not(aborts(1, 0), "it has ended");
	cr_expect(aborts(2, 2));
	expect_only(&second, 2, NVME_SC_ABORT_REQ);
	cr_expect(aborts(1, 2));
	expect_only(&c.io, 2, NVME_SC_ABORT_REQ);
	cr_assert_eq(conform_delete(&c, false, 1), 0);
	expect_only(&c.io, 1, NVME_SC_ABORT_QUEUE);
	cr_expect(aborts(2, 0));
	expect_only(&second, 0, NVME_SC_ABORT_REQ);
	/* A reset drops what is left, and the same queue is new. */
	cr_assert(conform_disable(&c));
	cr_assert(conform_enable(&c, conform_cc()));
	cr_assert_eq(conform_add_io(&c, &second, 2, CONFORM_ENTRIES), 0);
	cr_expect_not(aborts(2, 1));
	send_cid(&second, 1);
	cr_assert_eq(conform_do(&c, &second,
				&(struct hr_sqe){ .opcode = nvme_cmd_flush, .nsid = 1 }, NULL),
		     0);
	cr_expect(aborts(2, 1));
	expect_only(&second, 1, NVME_SC_ABORT_REQ);
}

/* Abort a request for an event: its completion comes first, and both have the expected status. */
static void abort_event(uint32_t sqid, uint16_t cid, bool aborted)
{
	const struct hr_sqe sqe = { .opcode = nvme_admin_abort_cmd,
				    .cdw10 = (uint32_t)cid << 16 | sqid };
	uint16_t own;

	c.admin.cid = 100;
	own = conform_push(&c.admin, &sqe);
	conform_ring(&c, &c.admin);
	for (unsigned event = aborted; event < 2; event--) {
		struct hr_cqe cqe;

		cr_assert(conform_peek(&c, &c.admin, CONFORM_MS, &cqe));
		conform_release(&c, &c.admin);
		cr_expect_eq(cqe.cid, event ? cid : own, "%u", cid);
		cr_expect_eq(hr_cqe_status(cqe.status), event ? NVME_SC_ABORT_REQ : 0, "%u", cid);
		cr_expect_eq(cqe.dw0, event ? 0u : !aborted, "%u", cid);
	}
}

Test(soft_faults, only_the_named_request_for_an_event_is_aborted)
{
	const struct hr_sqe sqe = { .opcode = nvme_admin_async_event };
	struct hr_cqe cqe;

	start("on flush: drop\n");
	for (c.admin.cid = 20; c.admin.cid < 23;)
		conform_push(&c.admin, &sqe);
	conform_ring(&c, &c.admin);
	abort_event(0, 23, false);
	abort_event(1, 20, false);
	abort_event(0, 21, true);
	abort_event(0, 21, false);
	abort_event(0, 22, true);
	abort_event(0, 20, true);
	abort_event(0, 20, false);
	cr_expect_not(conform_peek(&c, &c.admin, 20, &cqe));
}

/* Base 3.3.3.2: the delay is reported only to a host that has enabled it. */
Test(soft_faults, a_retry_delay_needs_a_host_that_knows_it)
{
	struct hr_sqe enable = { .opcode = nvme_admin_set_features,
				 .cdw10 = NVME_FEAT_FID_HOST_BEHAVIOR };

	start("on read lba 0 count 2: status 0x82 crd 2\n");
	for (unsigned knows = 0; knows < 2; knows++) {
		const struct hr_sqe sqe = conform_io_sqe(&c, nvme_cmd_read, 0, 1, A);
		struct hr_cqe cqe;

		memset(conform_page(&c, A), 0, 512);
		*(uint8_t *)conform_page(&c, A) = (uint8_t)knows;
		enable.prp1 = conform_bus(&c, A);
		cr_assert_eq(conform_admin(&c, &enable, NULL), 0);
		conform_push(&c.io, &sqe);
		conform_ring(&c, &c.io);
		cr_assert(conform_peek(&c, &c.io, CONFORM_MS, &cqe));
		conform_release(&c, &c.io);
		cr_expect_eq(cqe.status >> 1, knows ? 0x1082 : 0x82, "%04x", cqe.status >> 1);
	}
}

Test(soft_faults, a_duplicated_completion_comes_twice)
{
	struct hr_cqe cqe;
	uint16_t cid;

	start("on read: duplicate\n");
	cid = send_read();
	for (unsigned i = 0; i < 2; i++) {
		cr_assert(conform_peek(&c, &c.io, CONFORM_MS, &cqe), "copy %u", i);
		cr_expect_eq(cqe.cid, cid);
		conform_release(&c, &c.io);
	}
	cr_expect_not(conform_peek(&c, &c.io, 50, &cqe));
}

Test(soft_faults, a_reordered_completion_comes_behind_the_next)
{
	struct hr_cqe cqe;
	uint16_t first, second;

	start("on read: reorder\n");
	first = send_read();
	cr_expect_not(conform_peek(&c, &c.io, 50, &cqe));
	second = send_read();
	cr_assert(conform_peek(&c, &c.io, CONFORM_MS, &cqe));
	cr_expect_eq(cqe.cid, second);
	conform_release(&c, &c.io);
	cr_assert(conform_peek(&c, &c.io, CONFORM_MS, &cqe));
	cr_expect_eq(cqe.cid, first);
}

Test(soft_faults, wrong_cids_and_wrong_sq_heads_are_sent_as_scripted)
{
	struct hr_cqe cqe;

	start("on read nth 1: wrong-cid 0x1234\non read nth 2: bad-sqhd 0xfff0\n");
	send_read();
	cr_assert(conform_peek(&c, &c.io, CONFORM_MS, &cqe));
	conform_release(&c, &c.io);
	cr_expect_eq(cqe.cid, 0x1234);
	send_read();
	cr_assert(conform_peek(&c, &c.io, CONFORM_MS, &cqe));
	conform_release(&c, &c.io);
	cr_expect_eq(cqe.sqhd, 0xfff0, "rules count matches that others answer");
	cr_expect_eq(read_block(0), 0);
}

Test(soft_faults, a_fatal_controller_answers_no_more_until_reset)
{
	struct hr_cqe cqe;

	start("on read: cfs\n");
	send_read();
	cr_expect(conform_wait(&c, 2, 2), "CSTS.CFS");
	cr_expect_not(conform_peek(&c, &c.io, 50, &cqe));
	cr_assert(conform_disable(&c));
	cr_assert(conform_enable(&c, conform_cc()));
	cr_assert_eq(conform_add_io(&c, &c.io, 1, CONFORM_ENTRIES), 0);
	cr_expect_eq(read_block(0), 0);
}

Test(soft_faults, a_removed_device_reads_all_ones_for_good)
{
	start("on read: remove\n");
	send_read();
	cr_expect(conform_wait(&c, UINT32_MAX, UINT32_MAX));
	hr_reg_write32(&c.t, NVME_REG_CC, 0);
	cr_expect(conform_wait(&c, UINT32_MAX, UINT32_MAX));
	for (unsigned ms = 0; ms < CONFORM_MS && ~hr_reg_read32(&c.t, NVME_REG_CC); ms++)
		hr_wait_ns(HR_NS_PER_MS);
	cr_expect_eq(hr_reg_read32(&c.t, NVME_REG_CC), UINT32_MAX);
	c.wait_ms = 1;
}

Test(soft_faults, a_scripted_power_cut_takes_the_device_away)
{
	start("on write nth 3: powercut drop\n");
	for (unsigned i = 0; i < 2; i++)
		cr_assert_eq(conform_io(&c, nvme_cmd_write, i, 1, A, 0), 0);
	conform_push(&c.io, &(struct hr_sqe){ .opcode = nvme_cmd_write,
					      .nsid = 1,
					      .prp1 = conform_bus(&c, A) });
	conform_ring(&c, &c.io);
	cr_expect(conform_wait(&c, UINT32_MAX, UINT32_MAX));
	c.wait_ms = 1;
}

Test(soft_faults, admin_commands_have_rules_too)
{
	uint32_t value;

	start("on admin opcode 0x0a nth 3: status 0x006\non any nth 1: status 0x281\n");
	cr_expect_eq(read_block(0), 0x281);
	for (unsigned i = 0; i < 10; i++) {
		const uint16_t status = conform_get_feature(&c, NVME_FEAT_FID_ARBITRATION, &value);

		cr_expect_eq(status, i == 2 ? 0x006 : 0, "command %u: %03x", i, status);
	}
}

Test(soft_faults, an_opcode_selects_one_kind_of_command)
{
	static const uint8_t opcode[] = { nvme_cmd_read, nvme_cmd_write, nvme_cmd_write_zeroes,
					  nvme_cmd_flush };

	start("on any opcode 0x08 nth 2: status 0x281\n");
	for (unsigned turn = 0; turn < 3; turn++)
		for (unsigned i = 0; i < sizeof(opcode); i++)
			cr_expect_eq(conform_io(&c, opcode[i], 0, 1, A, 0),
				     turn == 1 && opcode[i] == nvme_cmd_write_zeroes ? 0x281 : 0,
				     "turn %u, opcode %02x", turn, opcode[i]);
}
