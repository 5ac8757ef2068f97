/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operators that return an unexpected size: the failure names the first such tile, the tile is not
 * written, and no new tile is started. An operator shares the memory of a block with headrace.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "config/file/file.h"
#include "gpu/ops/operators.h"
#include "gpu/ops/user.h"
#include "nvme/queue/worker.h"
#include "tests/harness/error.h"
#include "tests/harness/rig.h"

#define LIAR TEST_OPS "/liar.op"
#define TIMEOUT_NS (20ull * 1000000000)
#define TILE 16384u
#define TILES 40u
#define GOOD 3u /* tiles before the first unexpected size */

TestSuite(compute_lies, .timeout = 120);

static uint8_t data[TILES * TILE];
static struct rig rig;
static uint64_t args[HR_OP_ARGS_MAX / 8];

static void complain(void *to, unsigned line, const char *text)
{
	cr_assert_fail("%s", text);
}

static struct rig_work work_of(const char *lie, uint32_t slots)
{
	const struct hr_op_arg arg = { .name = "lie", .type = HR_ARG_STRING, .string = lie };
	const struct hr_operator *op;
	struct rig_work work = { .args = args,
				 .sources = 1,
				 .in = { data },
				 .bytes = { sizeof data },
				 .tile_bytes = { TILE },
				 .slots = slots,
				 .blocks = { 1, 1, 1 } };
	int bytes;

	cr_assert_eq(hr_op_user_load(LIAR, &op, test_error()), 0, "%s", test_error_text());
	bytes = hr_op_parse(op, &arg, 1, args, complain, NULL);
	cr_assert_gt(bytes, 0);
	work.op = (enum hr_op_id)hr_op_id_of(op);
	work.args_bytes = (uint32_t)bytes;
	return work;
}

/* The sink holds the settled tiles; each other good tile as a whole or not at all; its previous data
 * behind them. */
static void check_sink(uint64_t settled)
{
	uint8_t *sink = rig_read_sink(&rig, sizeof data);

	for (size_t t = 0; t < GOOD; t++)
		if (t < settled || sink[t * TILE] != RIG_POISON)
			cr_expect_eq(memcmp(sink + t * TILE, data + t * TILE, TILE), 0, "tile %zu",
				     t);
	for (size_t at = GOOD * TILE; at < sizeof data; at++)
		cr_assert_eq(sink[at], RIG_POISON, "byte %zu was written", at);
	free(sink);
}

static void expect_failure(const char *lie, uint32_t slots, uint32_t said)
{
	const struct rig_work work = work_of(lie, slots);
	const struct hr_failure *failure;
	uint64_t taken, written, settled;

	rig_start(&rig, &work);
	rig_wait(&rig);
	failure = rig_failure(&rig);
	cr_assert_not_null(failure);
	cr_expect_eq(failure->error, -ERANGE);
	cr_expect_eq(failure->role, HR_ROLE_COMPUTE);
	cr_expect_eq(failure->tile, GOOD, "%llu", (unsigned long long)failure->tile);
	cr_expect_eq(failure->object, RIG_SINK_ID);
	cr_expect_eq(failure->out_bytes, said);
	cr_expect_eq(failure->out_promised, TILE);
	cr_expect_eq(rig_tiles(&rig, HR_ROLE_COMPUTE), GOOD);
	/* Write-back drops computed tiles once it has seen the tile that must not be written, in
	 * another slot. With one slot it sees that one last. */
	written = rig_tiles(&rig, HR_ROLE_WRITEBACK);
	settled = hr_pipe_final_prefix(rig.pipe, rig.pipe->slot);
	cr_expect(settled <= written && written <= GOOD);
	cr_expect(slots > 1 || settled == GOOD);
	/* The slot of the tile is not used again, and each other slot has at most one more tile. */
	taken = rig.pipe->next_tile;
	cr_expect(taken > GOOD && taken <= GOOD + slots, "%u slots: %llu tiles", slots,
		  (unsigned long long)taken);
	check_sink(settled);
}

Test(compute_lies, an_unexpected_size_ends_the_run_at_its_tile)
{
	for (size_t i = 0; i < sizeof data; i++)
		data[i] = i % TILE ? (uint8_t)(i * 7 + i / TILE) : (uint8_t)~RIG_POISON;
	rig_up(&rig, 1, "lba=4096", 32, TIMEOUT_NS);
	for (uint32_t slots = 1; slots <= 4; slots++) {
		expect_failure("more", slots, TILE + 1);
		expect_failure("less", slots, TILE - 1);
	}
	rig_down(&rig);
}

/* The failure of each compute block is its own; none of their tiles is written. */
Test(compute_lies, each_block_reports_its_own_tile)
{
	struct rig_work work = work_of("less", 4);

	rig_up(&rig, 1, "lba=4096", 32, TIMEOUT_NS);
	work.blocks[HR_ROLE_COMPUTE] = 2;
	rig_start(&rig, &work);
	rig_wait(&rig);
	for (uint32_t i = 0; i < 2; i++) {
		const uint32_t first = hr_pipe_first_status(rig.pipe, HR_ROLE_COMPUTE);
		const struct hr_worker_status *status = &rig.pipe->status[first + i];

		if (status->failed)
			cr_expect_geq(status->failure.tile, GOOD);
	}
	cr_assert_not_null(rig_failure(&rig));
	cr_expect_leq(rig_tiles(&rig, HR_ROLE_WRITEBACK), GOOD);
	cr_expect_leq(hr_pipe_final_prefix(rig.pipe, rig.pipe->slot), GOOD);
	cr_expect_leq(rig.pipe->next_tile, GOOD + 4u);
	rig_down(&rig);
}

Test(compute_lies, the_same_operator_copies_all_tiles_without_a_lie)
{
	const struct rig_work work = work_of("none", 4);
	uint8_t *sink;

	rig_up(&rig, 1, "lba=4096", 32, TIMEOUT_NS);
	rig_start(&rig, &work);
	rig_wait(&rig);
	cr_expect_null(rig_failure(&rig));
	sink = rig_read_sink(&rig, sizeof data);
	cr_expect_eq(memcmp(sink, data, sizeof data), 0);
	free(sink);
	rig_down(&rig);
}

/* tile() of liar writes the bytes of the tile to the block's memory. */
static void *expect_one_block_memory(void *loaded)
{
	const struct hr_operator *op = loaded;
	const uint8_t in[7] = "input.";
	uint8_t out[7] = "";
	const struct hr_op_tile tile = {
		.in = { in }, .in_bytes = { sizeof in }, .out = out, .out_capacity = sizeof out
	};
	uint32_t *memory = hr_block_memory();

	*memory = 0;
	cr_expect_eq(op->tile(args, NULL, &tile), sizeof in);
	cr_expect_str_eq((const char *)out, "input.");
	cr_expect_eq(*memory, sizeof in);
	return memory;
}

Test(compute_lies, a_block_has_one_memory_for_the_operator_and_for_headrace)
{
	const struct hr_operator *op = NULL;
	void *other = NULL;
	pthread_t block;

	cr_assert_eq(hr_op_user_load(LIAR, &op, test_error()), 0, "%s", test_error_text());
	cr_assert_eq(pthread_create(&block, NULL, expect_one_block_memory, (void *)(uintptr_t)op),
		     0);
	cr_assert_eq(pthread_join(block, &other), 0);
	cr_expect_neq(expect_one_block_memory((void *)(uintptr_t)op), other);
}
