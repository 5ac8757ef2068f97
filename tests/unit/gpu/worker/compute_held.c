/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compute in a pipeline with a tap: it does not write to memory that consumers hold.
 */
#include <criterion/criterion.h>
#include <pthread.h>
#include <string.h>

#include "config/base/clock.h"
#include "gpu/ops/operators.h"
#include "gpu/tap/role.h"
#include "gpu/worker/role.h"

#define SLOTS 2u
#define TILE 4096u
#define LIMIT_NS (120 * HR_NS_PER_S)

TestSuite(compute_held, .timeout = 280);

static struct hr_pipe pipe_;
static struct hr_slot slots[SLOTS];
static struct hr_worker_status status;
static struct hr_pipe_control control;
static struct hr_tap_role role;
static uint8_t in[SLOTS][TILE] __attribute__((aligned(64)));
static uint8_t out[SLOTS][TILE] __attribute__((aligned(64)));
static pthread_t worker;

static void *work(void *unused)
{
	hr_compute_block(&pipe_, 0);
	return NULL;
}

/* Slot s is filled with bytes of s + 1. */
static void start(uint32_t held)
{
	pipe_ = (struct hr_pipe){
		.tiles = SLOTS,
		.slots = SLOTS,
		.sources = 1,
		.source[0] = { .extent = { .bytes = SLOTS * TILE, .lba_shift = 9 },
			       .tile_bytes = TILE },
		.has_sink = 1,
		.sink = { .bytes = SLOTS * TILE, .lba_shift = 9 },
		.sink_tile_bytes = TILE,
		.part = 1,
		.op = HR_OP_copy,
		.blocks[HR_ROLE_COMPUTE] = 1,
		.workers[HR_ROLE_COMPUTE] = 1,
		.slot = slots,
		.status = &status,
		.control = &control,
		.tap = &role,
	};
	control.launch_number = 1;
	for (uint32_t s = 0; s < SLOTS; s++) {
		memset(in[s], (int)s + 1, TILE);
		memset(out[s], 0xee, TILE);
		slots[s] = (struct hr_slot){ .state = HR_SLOT_FILLED,
					     .tile = s,
					     .in[0] = { .data = in[s], .bytes = TILE },
					     .out = { .data = out[s], .bytes = TILE } };
	}
	slots[0].out_state = held;
	cr_assert_eq(pthread_create(&worker, NULL, work, NULL), 0);
}

static void await_state(uint32_t s, uint32_t state)
{
	const uint64_t end = hr_now_ns() + LIMIT_NS;

	while (hr_acquire_u32(&slots[s].state) != state) {
		cr_assert_lt(hr_now_ns(), end, "slot %u: state %u does not come", s, state);
		hr_yield();
	}
}

/* The block makes whole rounds. */
static void await_rounds(void)
{
	const uint64_t end = hr_now_ns() + LIMIT_NS;
	const uint64_t first = hr_acquire_sys_u64(&status.heartbeat);

	while (hr_acquire_sys_u64(&status.heartbeat) < first + 3) {
		cr_assert_lt(hr_now_ns(), end);
		hr_yield();
	}
}

static void finish(void)
{
	for (uint32_t s = 0; s < SLOTS; s++)
		hr_release_u32(&slots[s].state, HR_SLOT_CLOSING);
	pthread_join(worker, NULL);
	cr_expect_eq(status.ended, 1);
}

static bool is_all(const uint8_t *data, uint8_t byte)
{
	return data[0] == byte && memcmp(data, data + 1, TILE - 1) == 0;
}

Test(compute_held, a_tile_waits_for_memory_that_consumers_hold)
{
	start(HR_OUT_LENT);
	await_state(1, HR_SLOT_COMPUTED);
	await_rounds();
	cr_expect_eq(hr_acquire_u32(&slots[0].state), (uint32_t)HR_SLOT_FILLED);
	cr_expect(is_all(out[0], 0xee));
	hr_release_u32(&slots[0].out_state, HR_OUT_FREE);
	await_state(0, HR_SLOT_COMPUTED);
	cr_expect(is_all(out[0], 1));
	cr_expect(is_all(out[1], 2));
	finish();
	cr_expect_eq(status.tiles, 2);
}

/* Between two launches other blocks use the memory of the block. */
Test(compute_held, memory_and_counts_outlive_a_launch)
{
	static uint8_t kept[HR_BLOCK_MEMORY] __attribute__((aligned(8)));
	uint8_t *memory = hr_block_memory();

	start(HR_OUT_FREE);
	await_state(0, HR_SLOT_COMPUTED);
	await_state(1, HR_SLOT_COMPUTED);
	finish();
	pipe_.op_blocks = kept;
	status.ended = 0;
	for (uint32_t s = 0; s < SLOTS; s++)
		slots[s].state = HR_SLOT_FREE;
	memset(memory, 0x22, HR_BLOCK_MEMORY);
	pipe_.leave_launch = 1;
	hr_compute_block(&pipe_, 0); /* it leaves at once */
	cr_expect_eq(status.ended, 0);
	memset(memory, 0x33, HR_BLOCK_MEMORY);
	control.launch_number = 2;
	for (uint32_t s = 0; s < SLOTS; s++)
		slots[s].state = HR_SLOT_CLOSING;
	hr_compute_block(&pipe_, 0);
	cr_expect_eq(status.ended, 1);
	for (uint32_t i = 0; i < HR_BLOCK_MEMORY; i++)
		cr_assert_eq(memory[i], 0x22, "byte %u", i);
	/* and the block goes on with its counts */
	status.ended = 0;
	status.tiles = 7;
	slots[0].out_state = HR_OUT_FREE;
	slots[0].state = HR_SLOT_FILLED;
	cr_assert_eq(pthread_create(&worker, NULL, work, NULL), 0);
	await_state(0, HR_SLOT_COMPUTED);
	finish();
	cr_expect_eq(status.tiles, 8);
}

Test(compute_held, a_tile_is_discarded_when_consumers_keep_the_memory)
{
	start(HR_OUT_ABANDONED);
	await_state(0, HR_SLOT_FREE);
	await_state(1, HR_SLOT_COMPUTED);
	finish();
	cr_expect(is_all(out[0], 0xee));
	cr_expect_eq(status.tiles, 1);
}
