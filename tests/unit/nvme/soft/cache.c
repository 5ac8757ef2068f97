/* The volatile write cache of the software controller, called directly, over memory. */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "nvme/soft/internal.h"
#include "nvme/soft/options.h"
#include "tests/harness/error.h"
#include "tests/harness/heap.h"
#include "tests/harness/random.h"

#define BLOCK 512u
#define BLOCKS 96u /* that the tests use */
#define CAPACITY 16u

static struct soft_media media;
static struct soft_cache cache;
static uint32_t dead;
static uint8_t model[BLOCKS][BLOCK], durable[BLOCKS][BLOCK]; /* as read; as on the media */

static void begin(void)
{
	struct hr_soft_options options;

	cr_assert_eq(hr_soft_parse("memory,size=1M,lba=512", &options, test_error()), 0, "%s",
		     test_error_text());
	cr_assert_eq(soft_media_open(&media, &options, test_error()), 0, "%s", test_error_text());
	dead = 0;
	memset(model, 0, sizeof model);
	memset(durable, 0, sizeof durable);
	cr_assert_eq(soft_cache_open(&cache, &media, CAPACITY * BLOCK + BLOCK - 1, BLOCK, &dead),
		     0);
}

static void end(void)
{
	soft_cache_close(&cache);
	soft_media_close(&media);
}

TestSuite(soft_cache, .init = begin, .fini = end, .timeout = 60);

/* Through two pieces of memory, of which the first ends within a block. */
static int write_blocks(uint32_t lba, uint32_t blocks, uint8_t value, bool through)
{
	uint8_t data[BLOCKS * BLOCK];
	const struct iovec vec[] = { { data, BLOCK / 2 },
				     { data + BLOCK / 2, (blocks * BLOCK) - BLOCK / 2 } };

	for (uint32_t i = 0; i < blocks * BLOCK; i++)
		data[i] = (uint8_t)(value + i / BLOCK + i % BLOCK);
	return soft_cache_write(&cache, lba, blocks, vec, 2, through);
}

static void note_write(uint8_t (*to)[BLOCK], uint32_t lba, uint32_t blocks, uint8_t value)
{
	for (uint32_t i = 0; i < blocks * BLOCK; i++)
		to[lba + i / BLOCK][i % BLOCK] = (uint8_t)(value + i / BLOCK + i % BLOCK);
}

static void expect_model(const char *when)
{
	static uint8_t back[BLOCKS][BLOCK];
	const struct iovec vec[] = { { back, 700 }, { (uint8_t *)back + 700, sizeof back - 700 } };

	memset(back, 0xee, sizeof back);
	cr_assert_eq(soft_cache_read(&cache, 0, BLOCKS, vec, 2), 0);
	cr_assert_eq(memcmp(back, model, sizeof back), 0, "%s", when);
}

static void expect_on_media(uint8_t (*want)[BLOCK], const char *when)
{
	static uint8_t back[BLOCKS][BLOCK];
	const struct iovec vec = { back, sizeof back };

	cr_assert_eq(soft_media_read(&media, 0, &vec, 1), 0);
	cr_assert_eq(memcmp(back, want, sizeof back), 0, "%s", when);
}

Test(soft_cache, its_capacity_is_whole_blocks)
{
	cr_expect_eq(cache.capacity, CAPACITY);
	cr_expect(cache.enabled);
	soft_cache_close(&cache);
	cr_assert_eq(soft_cache_open(&cache, &media, BLOCK - 1, BLOCK, &dead), 0);
	cr_expect_eq(cache.capacity, 0u);
	cr_expect_not(cache.enabled);
	cr_expect_eq(write_blocks(3, 2, 7, false), 0);
	note_write(model, 3, 2, 7);
	expect_on_media(model, "without a cache");
}

/* The oldest blocks are on the media when the cache is full, and not before. */
Test(soft_cache, blocks_leave_in_the_order_of_their_first_write)
{
	for (uint32_t i = 0; i < CAPACITY; i++)
		cr_assert_eq(write_blocks(2 * i, 1, (uint8_t)i, false), 0);
	expect_on_media(durable, "nothing has left a cache that is full");
	cr_assert_eq(write_blocks(0, 1, 99, false), 0); /* again: it keeps its place */
	expect_on_media(durable, "no more blocks than before");
	cr_assert_eq(write_blocks(80, 1, 1, false), 0);
	note_write(durable, 0, 1, 99);
	{
		static uint8_t back[BLOCK];
		const struct iovec vec = { back, BLOCK };

		cr_assert_eq(soft_media_read(&media, 0, &vec, 1), 0);
		cr_expect_eq(memcmp(back, durable[0], BLOCK), 0, "the oldest has left");
		cr_assert_eq(soft_media_read(&media, 80 * BLOCK, &vec, 1), 0);
		cr_expect_eq(back[0], 0u, "the newest has not");
	}
}

Test(soft_cache, random_calls_agree_with_a_model)
{
	struct fake_random random = { fake_random_seed("soft_cache") };

	for (unsigned n = 0; n < 3000; n++) {
		const uint32_t lba = fake_random_below(&random, BLOCKS);
		const uint32_t most = BLOCKS - lba < 24 ? BLOCKS - lba : 24;
		const uint32_t blocks = 1 + fake_random_below(&random, most);
		const uint8_t value = (uint8_t)fake_random_u64(&random);
		const bool through = fake_random_below(&random, 4) == 0;

		switch (fake_random_below(&random, 8)) {
		case 0:
			cr_assert_eq(soft_cache_flush(&cache), 0);
			expect_on_media(model, "after a flush");
			break;
		case 1:
			cr_assert_eq(soft_cache_discard(&cache, lba, blocks, through), 0);
			memset(model[lba], 0, blocks * BLOCK);
			break;
		case 2:
			cr_assert_eq(soft_cache_flush(&cache), 0);
			cache.enabled = !cache.enabled;
			break;
		default:
			cr_assert_eq(write_blocks(lba, blocks, value, through), 0);
			note_write(model, lba, blocks, value);
			if (!cache.enabled)
				expect_on_media(model, "without a volatile cache");
		}
		cr_assert_leq(cache.count, CAPACITY);
		expect_model("after a call");
	}
}

Test(soft_cache, nothing_reaches_the_media_after_power_is_cut)
{
	for (unsigned full = 0; full < 3; full++) {
		if (full == 1)
			cr_assert_eq(write_blocks(0, CAPACITY, 5, false), 0);
		else if (full == 2)
			cache.enabled = false;
		dead = 1;
		cr_expect_eq(soft_cache_flush(&cache), -EIO, "%u", full);
		cr_expect_eq(write_blocks(40, 2, 1, false), -EIO, "%u", full);
		cr_expect_eq(write_blocks(40, 2, 1, true), -EIO, "%u", full);
		cr_expect_eq(soft_cache_discard(&cache, 0, 4, false), -EIO, "%u", full);
		cr_expect_eq(soft_cache_discard(&cache, 0, 4, true), -EIO, "%u", full);
		expect_on_media(durable, "power is cut");
		dead = 0;
		if (full == 1)
			soft_cache_cut(&cache, HR_SOFT_CUT_DROP, 1);
		cr_expect_eq(cache.count, 0u, "%u", full);
		expect_model("the blocks in the cache are lost");
	}
	soft_cache_close(&cache);
	cr_assert_eq(soft_cache_open(&cache, &media, 0, BLOCK, &dead), 0);
	dead = 1;
	cr_expect_eq(write_blocks(40, 2, 1, false), -EIO, "no cache");
	cr_expect_eq(soft_cache_discard(&cache, 0, 4, false), -EIO, "no cache");
	cr_expect_eq(soft_cache_flush(&cache), -EIO, "no cache");
	expect_on_media(durable, "power is cut");
}

static void open_and_close(void)
{
	struct soft_cache other;

	cr_assert_eq(soft_cache_open(&other, &media, 9 * BLOCK, BLOCK, &dead), 0);
	soft_cache_close(&other);
}

Test(soft_cache, its_memory_is_given_back)
{
	cr_expect_eq(heap_kept_by(open_and_close), 0u);
}

/* A power of two of buckets, at least as many as blocks. */
Test(soft_cache, buckets_follow_the_capacity)
{
	static const uint32_t row[][2] = { { 1, 1 }, { 2, 2 }, { 3, 4 }, { 4, 4 }, { 5, 8 } };

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		struct soft_cache other;

		cr_assert_eq(soft_cache_open(&other, &media, row[i][0] * BLOCK, BLOCK, &dead), 0);
		cr_expect_eq(other.buckets, row[i][1], "%u", row[i][0]);
		soft_cache_close(&other);
	}
}

#define LARGE 4096u
#define SECTORS (LARGE / 512)

/*
 * Two blocks of eight sectors in the cache, cut: each sector (or block) of the media is the old or
 * the new one. Returns a bit for each new sector.
 */
static uint32_t cut_two(enum hr_soft_cut policy, uint64_t seed)
{
	static uint8_t data[4 * LARGE], want[2][4 * LARGE];
	const struct iovec two = { want[1] + LARGE, 2 * LARGE }, all = { data, sizeof data };
	struct iovec old = { want[0], sizeof want[0] };
	struct soft_cache large;
	uint32_t is_new = 0;

	for (uint32_t i = 0; i < sizeof data; i++) {
		want[0][i] = (uint8_t)(1 + i / 512);
		want[1][i] = (uint8_t)(0x81 + i / 512);
	}
	cr_assert_eq(soft_media_write(&media, 0, &old, 1), 0);
	cr_assert_eq(soft_cache_open(&large, &media, 3 * LARGE, LARGE, &dead), 0);
	cr_assert_eq(soft_cache_write(&large, 1, 2, &two, 1, false), 0);
	soft_cache_cut(&large, policy, seed);
	cr_expect_eq(large.count, 0u);
	cr_assert_eq(soft_media_read(&media, 0, &all, 1), 0);
	soft_cache_close(&large);
	for (uint32_t i = 0; i < 4 * SECTORS; i++) {
		const bool changed = memcmp(data + i * 512, want[0] + i * 512, 512) != 0;

		if (!changed)
			continue;
		cr_assert(i >= SECTORS && i < 3 * SECTORS, "sector %u", i);
		cr_assert_eq(memcmp(data + i * 512, want[1] + i * 512, 512), 0, "sector %u", i);
		is_new |= 1u << (i - SECTORS);
	}
	return is_new;
}

Test(soft_cache, a_cut_keeps_sectors_blocks_or_nothing)
{
	uint32_t torn = 0, always = 0xffff, whole[4] = { 0 }, kept[2] = { 0 };

	for (uint64_t seed = 0; seed < 40; seed++) {
		const uint32_t sectors = cut_two(HR_SOFT_CUT_TORN, seed);
		const uint32_t blocks = cut_two(HR_SOFT_CUT_SOME, seed);

		cr_assert_eq(cut_two(HR_SOFT_CUT_TORN, seed), sectors, "the same seed");
		cr_assert_eq(cut_two(HR_SOFT_CUT_DROP, seed), 0u);
		cr_assert(!(blocks & 0xff) || (blocks & 0xff) == 0xff, "%04x", blocks);
		cr_assert(!(blocks >> 8) || blocks >> 8 == 0xff, "%04x", blocks);
		whole[(blocks & 1) | (blocks >> 8 & 1) << 1]++;
		torn |= sectors;
		always &= sectors;
		kept[0] += (uint32_t)__builtin_popcount(sectors);
		kept[1] += (uint32_t)__builtin_popcount(blocks);
	}
	cr_expect(torn == 0xffff && always == 0, "each sector is new at times: %04x, %04x", torn,
		  always);
	cr_expect(whole[0] && whole[1] && whole[2] && whole[3], "each selection occurs");
	for (unsigned i = 0; i < 2; i++) /* of 40 x 16 */
		cr_expect(kept[i] > 160 && kept[i] < 480, "about a half: %u", kept[i]);
}

/* The blocks of a discard that was not done are as they were. */
Test(soft_cache, a_discard_that_fails_drops_no_block)
{
	cr_assert_eq(write_blocks(4, 3, 9, false), 0);
	note_write(model, 4, 3, 9);
	dead = 1;
	cr_expect_eq(soft_cache_discard(&cache, 4, 2, false), -EIO);
	cr_expect_eq(soft_cache_discard(&cache, 0, BLOCKS, true), -EIO);
	dead = 0;
	expect_model("after discards that failed");
	cr_expect_eq(soft_cache_flush(&cache), 0);
	expect_on_media(model, "after a flush");
}
