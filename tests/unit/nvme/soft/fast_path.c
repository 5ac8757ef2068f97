/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fast path through a queue has the same results as the slow path. Two controllers get the same
 * commands, good and bad: one with a fault script whose rule never matches, so that it executes
 * each command separately, and one without.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config/base/clock.h"
#include "config/base/limits.h"
#include "nvme/soft/soft.h"
#include "tests/harness/conform.h"
#include "tests/harness/random.h"

#define A CONFORM_DATA
#define ENTRIES 64u /* a page of commands */
#define BATCHES 60u
#define DISK_BYTES (1u << 20)

static struct conform two[2];
static char script[64];

static void write_script(void)
{
	static const char rules[] = "on any nth 1000000000: drop\n";
	int fd;

	snprintf(script, sizeof(script), "/tmp/headrace-straight-XXXXXX");
	fd = mkstemp(script);
	cr_assert_geq(fd, 0);
	cr_assert_eq(write(fd, rules, strlen(rules)), (ssize_t)strlen(rules));
	close(fd);
}

static void finish(void)
{
	conform_close(&two[0]);
	conform_close(&two[1]);
	unlink(script);
}

TestSuite(soft_straight, .init = write_script, .fini = finish, .timeout = 120);

static void open_both(const char *options)
{
	char device[HR_DEVICE_MAX];

	for (unsigned i = 0; i < 2; i++) {
		snprintf(device, sizeof(device), "soft:memory,size=%u,%s%s%s", DISK_BYTES, options,
			 i ? ",faults=" : "", i ? script : "");
		conform_use(device);
		conform_open(&two[i]);
		cr_assert_eq(conform_add_io(&two[i], &two[i].io, 1, ENTRIES), 0);
		for (uint32_t page = 0; page < 2 * ENTRIES; page++)
			conform_fill(&two[i], A + page, HR_PAGE, page);
	}
}

/* A command with CID n with its own buffer of two pages. */
static struct hr_sqe make(struct conform *c, struct fake_random *random, uint32_t n)
{
	static const uint8_t opcode[] = { nvme_cmd_read,	 nvme_cmd_write,
					  nvme_cmd_read,	 nvme_cmd_write,
					  nvme_cmd_read,	 nvme_cmd_flush,
					  nvme_cmd_write_zeroes, 0x7f };
	const uint32_t blocks = DISK_BYTES / c->block_bytes;
	const uint32_t odd = fake_random_below(random, 40), page = A + 2 * n;
	const uint64_t lba = fake_random_below(random, odd == 1 ? blocks + 8 : blocks / 4);
	const uint32_t count = 1 + fake_random_below(random, 2 * HR_PAGE / c->block_bytes);
	const uint32_t offset = 4 * fake_random_below(random, odd < 10 ? HR_PAGE / 4 : 1);
	struct hr_sqe sqe;

	hr_sqe_io(&sqe, opcode[fake_random_below(random, sizeof(opcode))], 1, lba,
		  offset && count * c->block_bytes > HR_PAGE ? 1 : count,
		  conform_bus(c, page) + offset, conform_bus(c, page + 1));
	sqe.cdw12 |= odd == 2 ? HR_CDW12_FUA : 0;
	sqe.nsid = odd == 3 ? 2 : 1;
	sqe.flags = odd == 4 ? 0x40 : (odd == 5 ? 1 : 0);
	sqe.prp1 += odd == 6 ? 2 : 0;
	sqe.prp1 = odd == 7 ? 0x1000 : sqe.prp1;
	return sqe;
}

/* Send n commands at once; returns the status of each. */
static void run(struct conform *c, uint64_t seed, uint32_t n, uint16_t *status)
{
	struct fake_random random = { seed };
	uint16_t first = c->io.cid;
	struct hr_cqe cqe;

	for (uint32_t i = 0; i < n; i++) {
		const struct hr_sqe sqe = make(c, &random, i);

		conform_push(&c->io, &sqe);
		status[i] = CONFORM_SILENCE;
	}
	conform_ring(c, &c->io);
	for (uint32_t i = 0; i < n; i++) {
		uint16_t index;

		cr_assert(conform_peek(c, &c->io, 10000, &cqe), "completion %u of %u", i, n);
		index = (uint16_t)(cqe.cid - first);
		cr_assert_lt(index, n, "CID %u", cqe.cid);
		cr_assert_eq(status[index], CONFORM_SILENCE, "CID %u twice", cqe.cid);
		cr_expect_eq(cqe.sqid, 1);
		status[index] = cqe.status >> 1;
	}
	cr_expect_eq(c->io.sqhd, c->io.tail);
	conform_release(c, &c->io);
}

/* A poller counts a batch after it has completed the commands, so the counters may be late. */
static void expect_equal_counters(const char *options)
{
	struct hr_soft_stats stats[2];

	do {
		hr_wait_ns(1000);
		for (unsigned i = 0; i < 2; i++)
			hr_soft_stats(&two[i].t, &stats[i]);
	} while (memcmp(&stats[0], &stats[1], sizeof(stats[0])) != 0);
	cr_expect_gt(stats[0].writes, 0u, "%s", options);
	cr_expect_gt(stats[0].written_bytes, stats[0].writes, "%s", options);
	cr_expect_gt(stats[0].read_bytes, stats[0].reads, "%s", options);
}

static void compare(const char *options)
{
	uint16_t status[2][ENTRIES];

	open_both(options);
	for (uint32_t batch = 0; batch < BATCHES; batch++) {
		const uint32_t n = 1 + batch * 17 % (ENTRIES - 1);

		for (unsigned i = 0; i < 2; i++)
			run(&two[i], batch + 1, n, status[i]);
		for (uint32_t i = 0; i < n; i++)
			cr_expect_eq(status[0][i], status[1][i],
				     "%s, batch %u, command %u: %03x, %03x", options, batch, i,
				     status[0][i], status[1][i]);
		cr_assert_eq(memcmp(conform_page(&two[0], A), conform_page(&two[1], A),
				    2 * ENTRIES * (size_t)HR_PAGE),
			     0, "%s, batch %u: what was read", options, batch);
	}
	expect_equal_counters(options);
	conform_close(&two[0]);
	conform_close(&two[1]);
}

Test(soft_straight, straight_io_has_the_same_results_as_careful_io)
{
	compare("lba=4096,cache=0");
	compare("lba=512,cache=0");
	compare("lba=512,cache=64K");
	compare("lba=4096,cache=64K,threads=2");
	compare("lba=4096,cache=0,populate=1,threads=3");
}
