/*
 * tests/harness/feed_client_rig.h - a producer of a feed on a scripted other side
 * (tests/fakes/tap_side.h). A test includes it once: it contains the library.
 */
#ifndef TESTS_HARNESS_FEED_CLIENT_RIG_H
#define TESTS_HARNESS_FEED_CLIENT_RIG_H

#include "gpu/tap/client/feed.c"

#include <criterion/criterion.h>

#include "tests/fakes/calloc.h"
#include "tests/fakes/tap_side.h"

#define SLOTS 4u
#define RING 8u
#define STRIDE 8192u
#define MS 1000000ull

static unsigned before;
static size_t mapped;
static char why[HR_FEED_REASON];
static struct hr_feed *feed;
static struct hr_feed_tile tile[4];
static struct hr_feed_options options;

static inline void start(void)
{
	fake_side_reset();
	before = fake_side_descriptors();
	mapped = fake_side_mapped();
	options = (struct hr_feed_options){ .directory = "d", .name = "p" };
	feed = NULL;
}

static inline void finish(void)
{
	fake_side_log();
	hr_feed_close(feed);
	fake_side_reset();
	cr_expect_eq(fake_side_descriptors(), before);
	cr_expect_eq(fake_side_mapped(), mapped);
}

static inline struct hr_tap_message message(uint16_t kind, uint16_t code, const char *text)
{
	return fake_side_message(HR_FEED_VERSION, kind, code, text);
}

static inline void says(uint64_t after_ns, uint16_t kind, uint16_t code, const char *text)
{
	const struct hr_tap_message m = message(kind, code, text);

	fake_side_says(after_ns, &m, false, 0);
}

static inline struct hr_tap_message welcome(void)
{
	struct hr_tap_message m = message(HR_FEED_WELCOME, 0, "");

	m.credits = 3;
	m.slots = SLOTS;
	m.ring = RING;
	m.epoch = 77;
	m.tiles = 1000;
	m.first = 10;
	m.stride = STRIDE;
	m.tile_bytes = 8000;
	m.columns = 12;
	memcpy(m.dtype, "bf16", 5);
	memcpy(m.name, "train", 6);
	return m;
}

static inline struct hr_feed_head *head(void)
{
	return (struct hr_feed_head *)(void *)fake_side.ring;
}

static inline struct hr_feed_page *page(void)
{
	return (struct hr_feed_page *)(void *)fake_side.page;
}

static inline void memory(void)
{
	fake_side_memory((size_t)SLOTS * STRIDE, hr_tap_ring_bytes(RING),
			 hr_feed_page_bytes(SLOTS));
	head()->magic = HR_TAP_MAGIC;
	head()->durable = 6;
}

static inline int open_feed(void)
{
	return hr_feed_open("f", &options, &feed, why, sizeof why);
}

static inline void attached(void)
{
	const struct hr_tap_message m = welcome();

	fake_side_connects(0);
	memory();
	fake_side_says(0, &m, true, 0);
	cr_assert_eq(open_feed(), 0, "%s", why);
	EXPECT_LOG("d/f.feed >33 w60000000000! <34 >4");
}

static inline struct hr_tap_message gpu_welcome(void)
{
	struct hr_tap_message m = welcome();

	m.memory = HR_TAP_MEMORY_CUDA;
	m.gpu.bytes = (uint64_t)SLOTS * STRIDE;
	m.gpu.uuid[2] = 9;
	return m;
}

static inline void attached_on_gpu(void)
{
	const struct hr_tap_message m = gpu_welcome();

	fake_side_connects(0);
	memory();
	fake_side_says(0, &m, true, 0);
	fake_side.cuda_ordinal = 5;
	cr_assert_eq(open_feed(), 0, "%s", why);
	EXPECT_LOG("d/f.feed >33 w60000000000! <34 cuda(open) >4");
}

/* Entry number `n` offers the slot n % SLOTS for tile 10 + n, with the generation n + 1. */
static inline void offer(unsigned n)
{
	struct hr_tap_entry *e = (struct hr_tap_entry *)(void *)(fake_side.ring + 64) + n % RING;

	*e = (struct hr_tap_entry){
		.tile = 10 + n, .slot = n % SLOTS, .gen = n + 1, .bytes = 8000, .sequence = n + 1
	};
}

static inline int next(int timeout_ms)
{
	return hr_feed_next(feed, tile, 4, timeout_ms);
}

#endif
