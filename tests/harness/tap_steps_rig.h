/*
 * tests/harness/tap_steps_rig.h - the tap role in one thread, with a clock that stands still: a test
 * calls its functions. A test includes it once: it contains the role.
 */
#ifndef TESTS_HARNESS_TAP_STEPS_RIG_H
#define TESTS_HARNESS_TAP_STEPS_RIG_H

/* Blocks of other roles are the rig's. */
#define hr_pipe_block test_pipe_block
#include "gpu/tap/role.c"

#include <criterion/criterion.h>
#include <string.h>

#include "config/clock.h"
#include "tests/fakes/clock.h"

#define SLOTS 6u
#define MORE 10u /* of a test that sets pipe_.slots */
#define RING 16u
#define NOW 50000000000ull /* more than 4 s: the low bits of times wrap */

static struct hr_pipe pipe_;
static struct hr_slot slot[MORE];
static struct hr_worker_status status;
static struct hr_pipe_control control;
static struct hr_tap_role tap;
static struct hr_tap_words words;
static struct hr_tap_lending lending[MORE];
static uint8_t entries[HR_TAP_SEATS][4096] __attribute__((aligned(64)));
static uint32_t pages[HR_TAP_SEATS][1024] __attribute__((aligned(64)));
static struct hr_role_worker w;
static uint32_t others; /* a bit for each block of another role */

HR_DEVICE void test_pipe_block(struct hr_pipe *pipe, uint32_t block)
{
	cr_expect_eq(pipe, &pipe_);
	others |= 1u << block;
}

static const struct hr_tap_lending behind = {
	.has = HR_TAP_HAS, .tile = 1, .seats = 1, .gen = 77, .bytes = 9, .lent_ns = NOW - 9000000
};

static inline void begin(void)
{
	fake_clock_start(NOW, NULL, NULL);
	others = 0;
	memset(slot, 0, sizeof slot);
	memset(&status, 0, sizeof status);
	memset(&control, 0, sizeof control);
	memset(&words, 0, sizeof words);
	memset(lending, 0, sizeof lending);
	memset(entries, 0, sizeof entries);
	memset(pages, 0, sizeof pages);
	memset(hr_block_memory(), 0, sizeof(struct tap_watch));
	/* no function looks behind the slots of the pipeline */
	for (uint32_t s = SLOTS; s < MORE; s++) {
		slot[s] = (struct hr_slot){ .state = HR_SLOT_COMPUTED, .tile = 1, .out_bytes = 9 };
		lending[s] = behind;
	}
	tap = (struct hr_tap_role){ .consumers = 1,
				    .tries = 3,
				    .ring = RING,
				    .entries = entries[0],
				    .pages = (uint8_t *)pages[0],
				    .words = &words,
				    .lending = lending };
	pipe_ = (struct hr_pipe){ .tiles = 40,
				  .slots = SLOTS,
				  .slot = slot,
				  .status = &status,
				  .control = &control,
				  .tap = &tap };
	pipe_.blocks[HR_ROLE_WRITEBACK] = pipe_.workers[HR_ROLE_WRITEBACK] = 1;
	tap_watch()->far = &pipe_;
	for (uint32_t seat = 0; seat < HR_TAP_SEATS; seat++)
		words.seat[seat].set = tap.own[seat].set = tap_watch()->set[seat] = seat;
	hr_role_worker_set(&w, &pipe_, HR_ROLE_WRITEBACK, 0, 1);
	w.launch = 7;
}

static inline void end(void)
{
	fake_clock_stop();
	for (uint32_t s = SLOTS; s < MORE && pipe_.slots <= SLOTS; s++)
		cr_expect(slot[s].state == HR_SLOT_COMPUTED && !slot[s].held &&
				  memcmp(&lending[s], &behind, sizeof behind) == 0,
			  "slot %u is behind the last one", s);
}

/* Output s has this tile, which these seats have since 1 ms. */
static inline void has(uint32_t s, uint64_t tile, uint32_t seats)
{
	lending[s].has = HR_TAP_HAS;
	lending[s].tile = tile;
	lending[s].seats = seats;
	lending[s].gen = 10 + s;
	lending[s].bytes = 100 + s;
	lending[s].lent_ns = NOW - HR_NS_PER_MS;
	slot[tap_slot_of(&tap, s)].held = HR_HELD;
	for (uint32_t seat = 0; seat < HR_TAP_SEATS; seat++)
		tap.own[seat].held += seats >> seat & 1;
}

/* A consumer has the seat. */
static inline void lends(uint32_t seat, uint32_t credits)
{
	tap.own[seat].lends = 1;
	tap.own[seat].credits = credits;
}

static inline struct hr_tap_entry *entry(uint32_t seat, uint32_t n)
{
	return (struct hr_tap_entry *)(void *)(entries[seat] + 64) + n;
}

#endif
