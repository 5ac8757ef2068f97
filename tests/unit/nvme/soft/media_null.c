/* SPDX-License-Identifier: Apache-2.0 */
/* soft:null completes commands without moving data, after all checks. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config/base/limits.h"
#include "nvme/soft/soft.h"
#include "tests/harness/conform.h"

#define A CONFORM_DATA
#define OUTSIDE 0x1000ull

static struct conform c;

static void start(void)
{
	conform_use("soft:null,size=1T,mdts=5,threads=2");
	conform_open_io(&c);
}

static void finish(void)
{
	conform_close(&c);
}

TestSuite(soft_null, .init = start, .fini = finish, .timeout = 60);

Test(soft_null, reads_and_writes_complete_without_moving_data)
{
	conform_fill(&c, A, 64 * HR_PAGE, 1);
	for (uint32_t blocks = 1; blocks <= 32; blocks *= 2) {
		cr_expect_eq(conform_io(&c, nvme_cmd_write, 7, blocks, A, 0), 0);
		cr_expect_eq(conform_io(&c, nvme_cmd_write, 7, blocks, A, HR_CDW12_FUA), 0);
		conform_fill(&c, A, 64 * HR_PAGE, 2);
		cr_expect_eq(conform_io(&c, nvme_cmd_read, 7, blocks, A, 0), 0);
		cr_expect(conform_is_filled(&c, A, 64 * HR_PAGE, 2), "%u blocks", blocks);
	}
}

Test(soft_null, other_commands_complete)
{
	struct nvme_dsm_range *range = conform_page(&c, A);
	struct hr_sqe sqe = { .opcode = nvme_cmd_flush, .nsid = 1 };

	cr_expect_eq(conform_do(&c, &c.io, &sqe, NULL), 0);
	sqe.opcode = nvme_cmd_write_zeroes;
	sqe.cdw12 = 0xffff;
	cr_expect_eq(conform_do(&c, &c.io, &sqe, NULL), 0);
	memset(range, 0, sizeof(*range));
	range->nlb = 1u << 20;
	sqe = (struct hr_sqe){ .opcode = nvme_cmd_dsm,
			       .nsid = 1,
			       .prp1 = conform_bus(&c, A),
			       .cdw11 = NVME_DSMGMT_AD };
	cr_expect_eq(conform_do(&c, &c.io, &sqe, NULL), 0);
}

Test(soft_null, the_null_disk_checks_commands)
{
	const uint64_t blocks = 1ull << 28, here = conform_bus(&c, A);
	const struct {
		const char *what;
		uint64_t lba, prp1, prp2;
		uint32_t blocks;
		uint16_t status;
	} row[] = {
		{ "the last block", blocks - 1, here, 0, 1, 0 },
		{ "beyond it", blocks, here, 0, 1, NVME_SC_LBA_RANGE },
		{ "across the end", blocks - 1, here, here + HR_PAGE, 2, NVME_SC_LBA_RANGE },
		{ "far beyond", UINT64_MAX, here, 0, 1, NVME_SC_LBA_RANGE },
		{ "no window", 0, OUTSIDE, 0, 1, NVME_SC_DATA_XFER_ERROR },
		{ "no window for the second page", 0, here, OUTSIDE, 2, NVME_SC_DATA_XFER_ERROR },
		{ "no list", 0, here, OUTSIDE, 3, NVME_SC_DATA_XFER_ERROR },
		{ "odd", 0, here + 2, 0, 1, NVME_SC_PRP_INVALID_OFFSET },
		{ "beyond MDTS", 0, here, here, 33, NVME_SC_INVALID_FIELD },
	};

	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++)
		for (unsigned write = 0; write < 2; write++) {
			struct hr_sqe sqe;

			hr_sqe_io(&sqe, write ? nvme_cmd_write : nvme_cmd_read, 1, row[i].lba,
				  row[i].blocks, row[i].prp1, row[i].prp2);
			cr_expect_eq(conform_do(&c, &c.io, &sqe, NULL), row[i].status, "%s",
				     row[i].what);
		}
}

Test(soft_null, the_null_disk_identifies_itself)
{
	cr_expect(c.t.keeps_no_data);
	cr_expect_str_eq(c.t.name, "soft:null");
	cr_expect_eq(memcmp(c.id.mn, "headrace null controller   ", 27), 0);
	cr_expect_eq(c.id.vwc & 1, 0);
	cr_expect_eq(c.ns.dlfeat & 7, 0, "nothing is said of deallocated blocks");
	cr_expect_eq(c.ns.nsze, 1ull << 28);
}

Test(soft_null, the_null_disk_counts_commands)
{
	struct hr_soft_stats before, after;

	hr_soft_stats(&c.t, &before);
	for (unsigned i = 0; i < 10; i++)
		cr_expect_eq(conform_io(&c, nvme_cmd_read, i, 1, A, 0), 0);
	cr_expect_eq(conform_io(&c, nvme_cmd_write, 0, 8, A, 0), 0);
	hr_soft_stats(&c.t, &after);
	cr_expect_eq(after.commands - before.commands, 11);
	cr_expect_eq(after.reads - before.reads, 10);
	cr_expect_eq(after.writes - before.writes, 1);
	cr_expect_eq(after.read_bytes - before.read_bytes, 10 * HR_PAGE);
	cr_expect_eq(after.written_bytes - before.written_bytes, 8 * HR_PAGE);
}

Test(soft_null, scripted_faults_apply_to_the_null_disk)
{
	char script[] = "/tmp/headrace-null-XXXXXX", device[HR_DEVICE_MAX];
	static const char rules[] = "on read nth 2: status 0x281\n";
	const int fd = mkstemp(script);

	cr_assert_geq(fd, 0);
	cr_assert_eq(write(fd, rules, strlen(rules)), (ssize_t)strlen(rules));
	close(fd);
	conform_close(&c);
	snprintf(device, sizeof(device), "soft:null,size=1G,faults=%s", script);
	conform_use(device);
	conform_open_io(&c);
	unlink(script);
	cr_expect_eq(conform_io(&c, nvme_cmd_read, 0, 1, A, 0), 0);
	cr_expect_eq(conform_io(&c, nvme_cmd_read, 0, 1, A, 0), 0x281);
	cr_expect_eq(conform_io(&c, nvme_cmd_read, 0, 1, A, 0), 0);
}

/* An abort stops the other threads for a moment; afterwards the queues of each are served again. */
Test(soft_null, threads_go_on_after_an_abort)
{
	struct conform_queue second;

	cr_assert_eq(conform_add_io(&c, &second, 2, CONFORM_ENTRIES), 0);
	for (uint32_t sqid = 1; sqid <= 2; sqid++) {
		const struct hr_sqe abort = { .opcode = nvme_admin_abort_cmd,
					      .cdw10 = 0x77u << 16 | sqid };
		const struct hr_sqe read = conform_io_sqe(&c, nvme_cmd_read, 0, 1, A);
		uint32_t dw0 = 0;

		cr_expect_eq(conform_admin(&c, &abort, &dw0), 0);
		cr_expect_eq(dw0, 1u, "there is no such command");
		cr_expect_eq(conform_do(&c, &c.io, &read, NULL), 0);
		cr_expect_eq(conform_do(&c, &second, &read, NULL), 0);
	}
}
