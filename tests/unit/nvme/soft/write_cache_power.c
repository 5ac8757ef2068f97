/* SPDX-License-Identifier: Apache-2.0 */
/* Data that survive a power cut: the volatile write cache of the software controller. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config/base/limits.h"
#include "tests/harness/conform.h"
#include "tests/harness/power.h"

#define A CONFORM_DATA
#define B (CONFORM_DATA + 64)
#define BLOCKS 32u

static struct conform c;
static char path[64], device[HR_DEVICE_MAX];

static void name_image(void)
{
	int fd;

	snprintf(path, sizeof(path), "/tmp/headrace-power-XXXXXX");
	fd = mkstemp(path);
	cr_assert_geq(fd, 0);
	close(fd);
}

static void finish(void)
{
	conform_close(&c);
	unlink(path);
}

TestSuite(soft_power, .init = name_image, .fini = finish, .timeout = 60);

/* A blank image of 4 MiB, or the image of the last opening, with this cache. */
static void power_on(const char *options)
{
	snprintf(device, sizeof(device), "soft:%s,size=4M%s", path, options);
	conform_use(device);
	conform_open_io(&c);
}

static void put(uint64_t lba, uint32_t blocks, uint32_t seed, uint32_t cdw12)
{
	for (uint32_t i = 0; i < blocks; i++)
		conform_fill(&c, A + i, HR_PAGE, seed + i);
	cr_assert_eq(conform_io(&c, nvme_cmd_write, lba, blocks, A, cdw12), 0);
}

static void flush(void)
{
	const struct hr_sqe sqe = { .opcode = nvme_cmd_flush, .nsid = 1 };

	cr_assert_eq(conform_do(&c, &c.io, &sqe, NULL), 0);
}

/*
 * Cut the power, read the dead registers, and restart without the fault script and without cached
 * data.
 */
static void cut(enum hr_soft_cut policy, uint64_t seed)
{
	power_cut(&c.t, policy, seed);
	cr_expect_eq(hr_reg_read32(&c.t, NVME_REG_CSTS), UINT32_MAX);
	cr_expect_eq(hr_reg_read64(&c.t, NVME_REG_CAP), UINT64_MAX);
	c.t.ops->close(&c.t);
	power_on("");
}

static bool holds(uint64_t lba, uint32_t seed)
{
	cr_assert_eq(conform_io(&c, nvme_cmd_read, lba, 1, B, 0), 0);
	return conform_is_filled(&c, B, HR_PAGE, seed);
}

static bool holds_zeroes(uint64_t lba)
{
	cr_assert_eq(conform_io(&c, nvme_cmd_read, lba, 1, B, 0), 0);
	return conform_is_zero(&c, B, HR_PAGE);
}

Test(soft_power, unflushed_blocks_are_lost_when_dropped)
{
	power_on("");
	put(0, BLOCKS, 100, 0);
	cr_expect(holds(7, 107), "read from the cache");
	cut(HR_SOFT_CUT_DROP, 1);
	for (uint32_t i = 0; i < BLOCKS; i++)
		cr_expect(holds_zeroes(i), "block %u", i);
}

Test(soft_power, some_unflushed_blocks_survive_whole)
{
	uint32_t kept = 0;

	power_on("");
	put(0, BLOCKS, 100, 0);
	cut(HR_SOFT_CUT_SOME, 42);
	for (uint32_t i = 0; i < BLOCKS; i++) {
		const bool there = holds(i, 100 + i);

		cr_expect(there || holds_zeroes(i), "block %u is torn", i);
		kept += there;
	}
	cr_expect(kept > 0 && kept < BLOCKS, "%u of %u blocks", kept, BLOCKS);
}

Test(soft_power, torn_blocks_have_whole_sectors)
{
	uint32_t torn = 0;

	power_on("");
	put(0, BLOCKS, 100, 0);
	cut(HR_SOFT_CUT_TORN, 42);
	for (uint32_t i = 0; i < BLOCKS; i++) {
		const uint8_t *now = conform_page(&c, B), *want = conform_page(&c, A);
		uint32_t kept = 0;

		conform_fill(&c, A, HR_PAGE, 100 + i);
		cr_assert_eq(conform_io(&c, nvme_cmd_read, i, 1, B, 0), 0);
		for (uint32_t s = 0; s < HR_PAGE; s += 512) {
			const bool there = memcmp(now + s, want + s, 512) == 0;
			static const uint8_t zeroes[512];

			cr_expect(there || memcmp(now + s, zeroes, 512) == 0, "block %u at %u", i,
				  s);
			kept += there;
		}
		torn += kept > 0 && kept < 8;
	}
	cr_expect_gt(torn, 0, "no block is torn");
}

Test(soft_power, one_seed_gives_the_same_losses)
{
	bool first[BLOCKS];

	for (unsigned round = 0; round < 2; round++) {
		unlink(path);
		power_on("");
		put(0, BLOCKS, 100, 0);
		cut(HR_SOFT_CUT_SOME, 7);
		for (uint32_t i = 0; i < BLOCKS; i++) {
			const bool there = holds(i, 100 + i);

			cr_expect(round == 0 || there == first[i], "block %u", i);
			first[i] = there;
		}
		if (round == 0)
			conform_close(&c);
	}
}

Test(soft_power, flushed_blocks_survive_every_cut)
{
	for (unsigned policy = HR_SOFT_CUT_DROP; policy <= HR_SOFT_CUT_TORN; policy++) {
		power_on("");
		put(0, BLOCKS, 200 + policy, 0);
		flush();
		put(BLOCKS, BLOCKS, 300, 0);
		cut((enum hr_soft_cut)policy, policy + 1);
		for (uint32_t i = 0; i < BLOCKS; i++)
			cr_expect(holds(i, 200 + policy + i), "policy %u, block %u", policy, i);
		conform_close(&c);
	}
	power_on("");
}

Test(soft_power, forced_unit_access_survives_and_newer_data_hide_nothing)
{
	power_on("");
	put(0, 4, 1, 0);
	put(1, 2, 50, HR_CDW12_FUA);
	cr_expect(holds(1, 50), "the older block in the cache must not come back");
	cut(HR_SOFT_CUT_DROP, 1);
	cr_expect(holds_zeroes(0));
	cr_expect(holds(1, 50));
	cr_expect(holds(2, 51));
	cr_expect(holds_zeroes(3));
}

Test(soft_power, overwritten_unflushed_data_fall_back_to_the_flushed)
{
	power_on("");
	put(5, 1, 1, 0);
	flush();
	put(5, 1, 2, 0);
	cr_expect(holds(5, 2));
	cut(HR_SOFT_CUT_DROP, 1);
	cr_expect(holds(5, 1));
}

Test(soft_power, without_a_cache_every_write_is_durable)
{
	power_on(",cache=0");
	cr_expect_eq(c.id.vwc & 1, 0);
	put(0, 8, 9, 0);
	cut(HR_SOFT_CUT_DROP, 1);
	for (uint32_t i = 0; i < 8; i++)
		cr_expect(holds(i, 9 + i));
}

Test(soft_power, a_cache_switched_off_has_written_everything)
{
	power_on("");
	put(0, 4, 1, 0);
	cr_assert_eq(conform_set_feature(&c, NVME_FEAT_FID_VOLATILE_WC, 0, NULL), 0);
	put(4, 4, 5, 0);
	cut(HR_SOFT_CUT_DROP, 1);
	for (uint32_t i = 0; i < 8; i++)
		cr_expect(holds(i, 1 + i), "block %u", i);
}

/* The cache is limited: the oldest blocks are destaged, and only the newest can be lost. */
Test(soft_power, a_full_cache_destages_the_oldest)
{
	uint32_t durable = 0;

	power_on(",cache=32K");
	for (uint32_t i = 0; i < BLOCKS; i++)
		put(2 * i, 1, i, 0);
	for (uint32_t i = 0; i < BLOCKS; i++)
		cr_expect(holds(2 * i, i), "block %u", i);
	cut(HR_SOFT_CUT_DROP, 1);
	while (durable < BLOCKS && holds(2 * durable, durable))
		durable++;
	cr_expect_eq(durable, BLOCKS - 8, "eight blocks fit, %u survived", durable);
	for (uint32_t i = durable; i < BLOCKS; i++)
		cr_expect(holds_zeroes(2 * i));
}

Test(soft_power, a_shutdown_saves_the_cache_and_closing_does_not)
{
	power_on("");
	put(0, 2, 1, 0);
	conform_close(&c);
	power_on("");
	cr_expect(holds_zeroes(0), "closed without shutdown");
	put(0, 2, 1, 0);
	hr_reg_write32(&c.t, NVME_REG_CC, conform_cc() | 1u << NVME_CC_SHN_SHIFT);
	cr_assert(conform_wait(&c, 0xc, 0x8));
	conform_close(&c);
	power_on("");
	cr_expect(holds(0, 1));
	cr_expect(holds(1, 2));
}
