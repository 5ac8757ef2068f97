/*
 * tests/harness/tap_client_rig.h - a consumer of a tap on a scripted other side
 * (tests/fakes/tap_side.h). A test includes it once: it contains the library.
 */
#ifndef TESTS_HARNESS_TAP_CLIENT_RIG_H
#define TESTS_HARNESS_TAP_CLIENT_RIG_H

#include "gpu/tap/client/tap.c"
#include "gpu/tap/client/session.c"

#include <criterion/criterion.h>

#include "tests/fakes/calloc.h"
#include "tests/fakes/tap_side.h"

#define SLOTS 4u
#define RING 4u
#define STRIDE 8192u
#define MS 1000000ull

static unsigned before;
static size_t mapped;
static char why[HR_TAP_REASON];
static struct hr_tap *tap;
static struct hr_tap_tile tile[4];
static struct hr_tap_options options;

static inline void begin(void)
{
	fake_side_reset();
	before = fake_side_descriptors();
	mapped = fake_side_mapped();
	options = (struct hr_tap_options){ .directory = "d", .name = "c", .wait_ms = 2500 };
	tap = NULL;
}

static inline void finish(void)
{
	fake_side_log();
	hr_tap_close(tap);
	fake_side_reset();
	cr_expect_eq(fake_side_descriptors(), before);
	cr_expect_eq(fake_side_mapped(), mapped);
}

static inline struct hr_tap_message message(uint16_t kind, uint16_t code, const char *text)
{
	return fake_side_message(HR_TAP_VERSION, kind, code, text);
}

static inline void says(uint64_t after_ns, uint16_t kind, uint16_t code, const char *text)
{
	const struct hr_tap_message m = message(kind, code, text);

	fake_side_says(after_ns, &m, false, 0);
}

static inline struct hr_tap_message welcome(void)
{
	struct hr_tap_message m = message(HR_TAP_WELCOME, 0, "");

	m.credits = 3;
	m.slots = SLOTS;
	m.ring = RING;
	m.epoch = 77;
	m.tiles = 1000;
	m.stride = STRIDE;
	m.tile_bytes = 8000;
	m.columns = 12;
	m.each = 1;
	memcpy(m.dtype, "bf16", 5);
	memcpy(m.name, "train", 6);
	return m;
}

static inline void memory(void)
{
	fake_side_memory((size_t)SLOTS * STRIDE, hr_tap_ring_bytes(RING), hr_tap_page_bytes(SLOTS));
	((struct hr_tap_head *)(void *)fake_side.ring)->magic = HR_TAP_MAGIC;
}

/* WELCOME of a run with this epoch; its memory is new. */
static inline void welcomes(uint64_t after_ns, uint64_t epoch)
{
	struct hr_tap_message m = welcome();

	m.epoch = epoch;
	memory();
	fake_side_says(after_ns, &m, true, 0);
}

/* Entry number `n`: tile 10 + n in the slot n, of generation 5 + n. */
static inline void lend(unsigned n)
{
	struct hr_tap_entry *e = (struct hr_tap_entry *)(void *)(fake_side.ring + 64) + n % RING;

	*e = (struct hr_tap_entry){ .tile = 10 + n, .slot = n % SLOTS, .gen = 5 + n, .bytes = 100 };
	e->check = hr_tap_entry_check(e, n + 1);
	e->sequence = n + 1;
}

static inline struct hr_tap_page *page(void)
{
	return (struct hr_tap_page *)(void *)fake_side.page;
}

static inline int open_tap(void)
{
	return hr_tap_open("t", &options, &tap, why, sizeof why);
}

static inline void attached(void)
{
	fake_side_connects(0);
	welcomes(0, 77);
	cr_assert_eq(open_tap(), 0, "%s", why);
	EXPECT_LOG("d/t.tap >1 w1000000000! <2 >4");
}

#endif
