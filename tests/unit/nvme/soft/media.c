/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An image whose file fails under the software controller: cut by another process, a file system
 * without room or without holes. The host gets a status of each command, and the cause is logged
 * once.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "config/base/limits.h"
#include "tests/fakes/log.h"
#include "tests/harness/conform.h"

#define A CONFORM_DATA
#define B (CONFORM_DATA + 64)
#define BLOCKS 1024u /* of the image: 4 MiB */
#define READ_ERROR (NVME_SCT_MEDIA << 8 | NVME_SC_READ_ERROR)
#define WRITE_FAULT (NVME_SCT_MEDIA << 8 | NVME_SC_WRITE_FAULT)

static struct conform c;
static char path[64], device[HR_DEVICE_MAX];
static bool no_holes;

/* In place of libc's: a file system may have no holes. */
int fallocate(int fd, int mode, off_t offset, off_t bytes)
{
	if (!no_holes)
		return (int)syscall(SYS_fallocate, fd, mode, offset, bytes);
	errno = EOPNOTSUPP;
	return -1;
}

static unsigned interrupted; /* so many transfers end with EINTR */
static size_t most;	     /* bytes that one transfer moves; 0: all */

/* The bytes that are to be moved; -1 with errno. The first iovec may be shortened. */
static ssize_t before_move(struct iovec *part, const struct iovec *vec, int count)
{
	if (interrupted) {
		interrupted--;
		errno = EINTR;
		return -1;
	}
	memcpy(part, vec, (size_t)count * sizeof *vec);
	if (most && part->iov_len > most)
		part->iov_len = most;
	return most ? 1 : count;
}

/* In place of libc's: a signal may interrupt a transfer, and it may move less than all bytes. */
ssize_t preadv(int fd, const struct iovec *vec, int count, off_t offset)
{
	struct iovec part[64];
	const ssize_t n = before_move(part, vec, count);

	return n < 0 ? n : syscall(SYS_preadv, fd, part, n, offset, 0);
}

ssize_t pwritev(int fd, const struct iovec *vec, int count, off_t offset)
{
	struct iovec part[64];
	const ssize_t n = before_move(part, vec, count);

	return n < 0 ? n : syscall(SYS_pwritev, fd, part, n, offset, 0);
}

static void name_image(void)
{
	int fd;

	snprintf(path, sizeof path, "/tmp/headrace-media-XXXXXX");
	fd = mkstemp(path);
	cr_assert_geq(fd, 0);
	close(fd);
	signal(SIGXFSZ, SIG_IGN);
}

static void finish(void)
{
	conform_close(&c);
	unlink(path);
}

TestSuite(soft_media, .init = name_image, .fini = finish, .timeout = 60);

static void up(const char *options)
{
	snprintf(device, sizeof device, "soft:%s,size=4M%s", path, options);
	conform_use(device);
	conform_open_io(&c);
}

static uint16_t put(uint64_t lba, uint32_t blocks, uint32_t seed, uint32_t cdw12)
{
	conform_fill(&c, A, blocks * HR_PAGE, seed);
	return conform_io(&c, nvme_cmd_write, lba, blocks, A, cdw12);
}

static bool holds(uint64_t lba, uint32_t blocks, uint32_t seed)
{
	cr_assert_eq(conform_io(&c, nvme_cmd_read, lba, blocks, B, 0), 0);
	return conform_is_filled(&c, B, blocks * HR_PAGE, seed);
}

static uint16_t flush(void)
{
	const struct hr_sqe sqe = { .opcode = nvme_cmd_flush, .nsid = 1 };

	return conform_do(&c, &c.io, &sqe, NULL);
}

static uint16_t deallocate(uint64_t lba, uint32_t blocks)
{
	struct nvme_dsm_range *range = (struct nvme_dsm_range *)conform_page(&c, B + 200);
	const struct hr_sqe sqe = { .opcode = nvme_cmd_dsm,
				    .nsid = 1,
				    .prp1 = conform_bus(&c, B + 200),
				    .cdw11 = NVME_DSMGMT_AD };

	memset(range, 0, sizeof *range);
	range->slba = lba;
	range->nlb = blocks;
	return conform_do(&c, &c.io, &sqe, NULL);
}

/* The first failure of the image is logged with its cause, and no later one. */
static void expect_logged(unsigned errors, const char *says)
{
	char want[160];

	snprintf(want, sizeof want, "soft:%s: cannot %s", path, says);
	cr_expect_eq(fake_log_count_of(HR_LOG_ERROR), errors + 1);
	cr_expect_str_eq(fake_log_last_of(HR_LOG_ERROR), want, "%s",
			 fake_log_last_of(HR_LOG_ERROR));
}

Test(soft_media, reads_behind_the_end_of_a_cut_file_fail)
{
	unsigned errors;

	up(",cache=0");
	cr_assert_eq(put(254, 4, 1, 0), 0);
	errors = fake_log_count_of(HR_LOG_ERROR);
	cr_assert_eq(truncate(path, (off_t)256 * HR_PAGE), 0);
	cr_expect(holds(254, 2, 1));
	cr_expect_eq(conform_io(&c, nvme_cmd_read, 256, 1, B, 0), READ_ERROR);
	cr_expect_eq(conform_io(&c, nvme_cmd_read, 254, 4, B, 0), READ_ERROR, "half of it");
	cr_expect_eq(conform_io(&c, nvme_cmd_read, BLOCKS - 1, 1, B, 0), READ_ERROR);
	expect_logged(errors, "read the file: the file has been truncated");
	/* A write makes the file longer again. */
	cr_expect_eq(put(300, 2, 2, 0), 0);
	cr_expect(holds(300, 2, 2));
	cr_expect_eq(fake_log_count_of(HR_LOG_ERROR), errors + 1);
}

/* Pieces that end in the middle of a page of the host, and of a block. */
Test(soft_media, interrupted_and_short_transfers_go_on)
{
	static const size_t part[] = { 512, 1000, 4096, 5000, 12288 };

	up(",cache=0");
	for (unsigned i = 0; i < sizeof part / sizeof *part; i++) {
		most = part[i];
		interrupted = 3;
		cr_expect_eq(put(40 + i, 5, 10 + i, 0), 0, "%zu", most);
		interrupted = 3;
		cr_expect(holds(40 + i, 5, 10 + i), "%zu", most);
		most = 0;
		cr_expect(holds(40 + i, 5, 10 + i), "%zu", part[i]);
	}
	cr_expect_eq(interrupted, 0);
}

static struct rlimit limit_before;

/* From now on no file grows beyond this block: writes there fail, or are short. */
static void limit_file(uint64_t blocks)
{
	struct rlimit limit;

	cr_assert_eq(getrlimit(RLIMIT_FSIZE, &limit_before), 0);
	limit = limit_before;
	limit.rlim_cur = blocks * HR_PAGE;
	cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static void lift_limit(void)
{
	cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit_before), 0);
}

Test(soft_media, writes_that_the_file_system_refuses_fail)
{
	unsigned errors;

	up(",cache=0");
	cr_assert_eq(put(510, 4, 1, 0), 0);
	errors = fake_log_count_of(HR_LOG_ERROR);
	limit_file(512);
	cr_expect_eq(put(512, 1, 2, 0), WRITE_FAULT);
	cr_expect_eq(put(600, 2, 2, 0), WRITE_FAULT);
	cr_expect_eq(put(508, 4, 3, 0), 0, "it ends at the limit");
	cr_expect_eq(put(508, 8, 4, 0), WRITE_FAULT, "the second half");
	lift_limit();
	expect_logged(errors, "write the file: File too large");
	cr_expect(holds(508, 4, 4), "the half that the file took");
	cr_assert_eq(put(510, 4, 5, 0), 0);
	cr_expect(holds(510, 4, 5));
}

/* Cached data stay in the cache while the file takes none, and reach it later. */
Test(soft_media, a_failed_flush_loses_no_data)
{
	unsigned errors;

	up(",cache=64K");
	errors = fake_log_count_of(HR_LOG_ERROR);
	limit_file(512);
	cr_expect_eq(put(100, 2, 1, 0), 0);
	cr_expect_eq(put(700, 4, 2, 0), 0, "in the cache");
	cr_expect_eq(flush(), WRITE_FAULT);
	cr_expect_eq(flush(), WRITE_FAULT);
	cr_expect(holds(100, 2, 1));
	cr_expect(holds(700, 4, 2));
	cr_expect_eq(put(800, 2, 3, HR_CDW12_FUA), WRITE_FAULT, "not cached");
	/* 16 blocks of cache hold 4 that cannot leave it: writes fail when it is full. */
	cr_expect_eq(put(900, 12, 4, 0), 0);
	cr_expect_eq(put(950, 1, 5, 0), WRITE_FAULT);
	lift_limit();
	expect_logged(errors, "write the file: File too large");
	cr_expect_eq(flush(), 0);
	cr_expect(holds(700, 4, 2));
	cr_expect(holds(900, 12, 4));
	conform_close(&c);
	conform_open_io(&c);
	cr_expect(holds(100, 2, 1), "after a restart");
	cr_expect(holds(700, 4, 2), "after a restart");
	cr_expect(holds(900, 12, 4), "after a restart");
}

Test(soft_media, a_shutdown_that_cannot_save_the_cache_is_fatal)
{
	const uint32_t shst = NVME_CSTS_SHST_MASK << NVME_CSTS_SHST_SHIFT;
	uint32_t csts;

	up(",cache=64K");
	limit_file(512);
	cr_expect_eq(put(700, 4, 2, 0), 0, "in the cache");
	hr_reg_write32(&c.t, NVME_REG_CC, conform_cc() | NVME_CC_SHN_NORMAL << NVME_CC_SHN_SHIFT);
	cr_assert(conform_wait(&c, 1u << NVME_CSTS_CFS_SHIFT, 1u << NVME_CSTS_CFS_SHIFT));
	csts = hr_reg_read32(&c.t, NVME_REG_CSTS);
	cr_expect_eq(csts & shst, 0, "CSTS %08x", csts);
	cr_expect_eq(csts & ~shst, 3u, "CSTS %08x", csts);
	/* A reset ends the failure, and the cache still has the data. */
	lift_limit();
	cr_assert(conform_disable(&c));
	cr_assert(conform_enable(&c, conform_cc()));
	cr_assert_eq(conform_add_io(&c, &c.io, 1, CONFORM_ENTRIES), 0);
	cr_expect(holds(700, 4, 2));
	hr_reg_write32(&c.t, NVME_REG_CC, conform_cc() | NVME_CC_SHN_NORMAL << NVME_CC_SHN_SHIFT);
	cr_assert(conform_wait(&c, shst, NVME_CSTS_SHST_CMPLT << NVME_CSTS_SHST_SHIFT));
	cr_expect_eq(hr_reg_read32(&c.t, NVME_REG_CSTS), 1u | NVME_CSTS_SHST_CMPLT << 2);
}

/* Deallocated blocks read as zeros, and the blocks beside them do not change. */
static void expect_zeros(uint64_t lba, uint32_t blocks)
{
	cr_expect_eq(deallocate(lba, blocks), 0);
	cr_assert_eq(conform_io(&c, nvme_cmd_read, lba, blocks, B, 0), 0);
	cr_expect(conform_is_zero(&c, B, blocks * HR_PAGE), "%u blocks at %llu", blocks,
		  (unsigned long long)lba);
}

Test(soft_media, deallocation_needs_no_holes)
{
	static const uint32_t blocks[] = { 1, 15, 16, 17, 40 }; /* zeros are written by 16 blocks */

	up(",cache=0");
	for (unsigned i = 0; i < 2 * (sizeof blocks / sizeof *blocks); i++) {
		const uint32_t n = blocks[i / 2];

		no_holes = i % 2;
		cr_assert_eq(put(99, 1, 1, 0), 0);
		cr_assert_eq(put(100, n, 2, 0), 0);
		cr_assert_eq(put(100 + n, 1, 3, 0), 0);
		expect_zeros(100, n);
		cr_expect(holds(99, 1, 1), "%u", n);
		cr_expect(holds(100 + n, 1, 3), "%u", n);
	}
	no_holes = true;
	cr_assert_eq(put(508, 8, 4, 0), 0);
	limit_file(512);
	cr_expect_eq(deallocate(508, 8), WRITE_FAULT);
	lift_limit();
	no_holes = false;
	expect_zeros(508, 8);
	cr_expect_eq(deallocate(20, 0), 0);
}
