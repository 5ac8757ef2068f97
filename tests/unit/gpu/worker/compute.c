/* Compute, function by function: the tile that an operator gets, what becomes of its output, and the
 * order of slots. The operator is the test's own. */
#include "gpu/worker/compute.c"

#include "cache/crc32c.h"
#include "tests/harness/roles_rig.h"

HR_DEVICE void hr_prefetch_block(struct hr_pipe *pipe, uint32_t block)
{
	calls_note("prefetch %u of %u slots\n", block, pipe->slots);
}

HR_DEVICE void hr_writeback_block(struct hr_pipe *pipe, uint32_t block)
{
	calls_note("writeback %u of %u slots\n", block, pipe->slots);
}

#define BYTES 8192u

static uint8_t input[2][BYTES], output[RIG_SLOTS][4096], copies[2][6 * 4096], states[64];
static uint8_t records[10 * 8], result_memory[8], args[4];
static uint32_t crc[2][10], sink_crc[10];
static struct hr_slot *const mine = &rig.slot[3];

/* ---- the operator */

static struct hr_op_tile given;
static struct hr_op_all all;
static uint32_t returned; /* by the operator */

static unsigned long long at(const void *from, const void *base)
{
	return from ? (unsigned long long)((const uint8_t *)from - (const uint8_t *)base) : 999;
}

HR_DEVICE void hr_op_init(uint32_t op, const void *arguments, void *state)
{
	cr_expect_eq(arguments, (const void *)args);
	calls_note("init %u state %llu\n", op, at(state, states));
}

HR_DEVICE uint32_t hr_op_tile(uint32_t op, const void *arguments, void *state,
			      const struct hr_op_tile *tile)
{
	cr_expect_eq(arguments, (const void *)args);
	calls_note("tile %llu op %u state %llu\n", (unsigned long long)tile->index, op,
		   at(state, states));
	given = *tile;
	if (tile->out)
		memset(tile->out, 0x77, 2048);
	return returned;
}

HR_DEVICE void hr_op_finish(uint32_t op, const struct hr_op_all *of)
{
	calls_note("finish %u\n", op);
	all = *of;
}

static void begin(void)
{
	rig_begin(HR_ROLE_COMPUTE);
	rig.pipe.op = 5;
	rig.pipe.op_args = args;
	rig.pipe.op_states = states;
	rig.pipe.op_records = records;
	rig.pipe.op_result = result_memory;
	rig.pipe.state_bytes = 16;
	rig.pipe.workers[HR_ROLE_COMPUTE] = 1;
	for (unsigned i = 0; i < BYTES; i++) {
		input[0][i] = (uint8_t)(i * 3 + i / 256);
		input[1][i] = (uint8_t)(i * 5 + 1);
	}
	memset(output, 0xee, sizeof output);
	memset(copies, 0xcc, sizeof copies);
	memset(crc, 0, sizeof crc);
	memset(sink_crc, 0, sizeof sink_crc);
	memset(&given, 0xdd, sizeof given);
	for (unsigned s = 0; s < RIG_SLOTS; s++) {
		rig.slot[s].state = HR_SLOT_FREE;
		rig.slot[s].in[0].data = input[0];
		rig.slot[s].in[1].data = input[1];
		rig.slot[s].out.data = output[s];
		rig.slot[s].out.bytes = 4096;
		rig.slot[s].out_bytes = 9;
	}
	mine->state = HR_SLOT_FILLED;
	mine->tile = 6;
	returned = 2048;
}

TestSuite(compute, .init = begin, .fini = rig_end, .timeout = 60);

/* ---- what the operator gets */

Test(compute, a_tile_is_described_with_its_bytes_and_places)
{
	compute_run_tile(&rig.w, mine);
	EXPECT_LOG("tile 6 op 5 state 16\n");
	cr_expect(given.index == 6 && given.in[0] == input[0] && given.in[1] == input[1]);
	cr_expect(given.in_bytes[0] == 8192 && given.in_bytes[1] == 4096);
	cr_expect(given.out == output[3] && given.out_capacity == 4096 && !given.record);
	cr_expect(mine->state == HR_SLOT_COMPUTED && mine->out_bytes == 2048);
	cr_expect_eq(mine->computed_ns, 0);
	cr_expect_eq(rig.w.status->tile, 6);
	cr_expect(rig.w.status->tiles == 1 && rig.w.status->bytes == 12288);
	cr_expect(!rig.w.status->failed && !rig.pipe.stop);
	begin();
	rig.pipe.has_sink = 0;
	rig.pipe.state_bytes = 0;
	rig.pipe.record_bytes = 8;
	mine->tile = 9;
	returned = 77; /* does not matter */
	compute_run_tile(&rig.w, mine);
	EXPECT_LOG("tile 9 op 5 state 999\n");
	cr_expect(given.in_bytes[0] == 8092 && !given.out && given.out_capacity == 0);
	cr_expect_eq(given.record, (void *)(records + 72));
	cr_expect(mine->state == HR_SLOT_FREE && mine->out_bytes == 77);
	cr_expect_eq(output[3][0], 0xee);
	cr_expect_eq(rig.w.status->bytes, 8092 + 4096);
}

Test(compute, a_worker_of_a_block_has_a_state_of_its_own)
{
	rig.pipe.workers[HR_ROLE_COMPUTE] = 2;
	cr_expect_eq(compute_state_of(&rig.pipe, 0), (void *)states);
	cr_expect_eq(compute_state_of(&rig.pipe, 1), (void *)(states + 32));
	rig.pipe.state_bytes = 0;
	cr_expect_null(compute_state_of(&rig.pipe, 1));
}

/* { source 0 is copied, source 1, with checksums } */
Test(compute, tiles_are_copied_and_their_checksums_computed)
{
	for (unsigned i = 0; i < 16; i++) {
		const bool copied[2] = { i & 1, i & 2 }, sums = i & 4, out = i & 8;
		unsigned place = out ? 4096 : 0;

		begin();
		rig.pipe.copy = copies[0];
		rig.pipe.copy_bytes = sizeof copies[0];
		rig.pipe.out_copy_bytes = out ? 4096 : 0;
		mine->tile = 9; /* 8092 bytes of source 0: not whole vectors */
		for (unsigned s = 0; s < 2; s++) {
			rig.pipe.source[s].copied = copied[s];
			rig.pipe.source[s].crc = sums ? crc[s] : NULL;
		}
		rig.pipe.source[1].tile_bytes = 4000; /* copies have whole pages */
		compute_run_tile(&rig.w, mine);
		for (unsigned s = 0; s < 2; s++) {
			const unsigned bytes = s ? 4000 : 8092, rounded = s ? 4000 : 8096;

			cr_expect_eq(given.in_bytes[s], bytes);
			cr_expect_eq(crc[s][9], sums ? hr_crc32c(0, input[s], bytes) : 0, "%u", i);
			cr_expect_eq(crc[s][8], 0);
			cr_expect_eq(given.in[s], copied[s] ? copies[1] + place : input[s], "%u",
				     i);
			if (!copied[s])
				continue;
			cr_expect_eq(memcmp(copies[1] + place, input[s], rounded), 0);
			cr_expect_eq(copies[1][place + rounded], 0xcc, "%u", i);
			place += s ? 4096 : 8192;
		}
		cr_expect_eq(copies[0][0], 0xcc); /* of the other block */
		cr_expect_eq(given.out, out ? copies[1] : output[3]);
	}
}

/* ---- the output */

Test(compute, the_rest_of_the_last_block_is_zero)
{
	static const uint32_t row[][2] = {
		/* bytes of the last tile, end of the zeros */
		{ 2048, 2048 }, { 2047, 2048 }, { 1537, 2048 }, { 1536, 1536 },
		{ 1535, 1536 }, { 1, 512 },	{ 16, 512 },	{ 17, 512 },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		for (unsigned copied = 0; copied < 2; copied++) {
			uint8_t *out = copied ? copies[1] : output[3];
			const uint32_t vectors = (row[i][0] + 15) & ~15u;
			struct hr_op_tile tile = { .out = out };

			begin();
			rig.pipe.sink.bytes = 9 * 2048 + row[i][0];
			mine->tile = 9;
			if (copied) {
				rig.pipe.copy = copies[0];
				rig.pipe.copy_bytes = sizeof copies[0];
				rig.pipe.out_copy_bytes = 4096;
				rig.pipe.sink_crc = sink_crc;
			}
			memset(out, 0x77, 4096);
			compute_deliver(&rig.pipe, mine, &tile);
			for (uint32_t b = 0; b < 2100; b++) {
				const uint8_t is = output[3][b];

				/* from the copy whole vectors come */
				if (b < row[i][0])
					cr_assert_eq(is, 0x77, "%zu %u %u", i, copied, b);
				else if (b < row[i][1])
					cr_assert_eq(is, 0, "%zu %u %u", i, copied, b);
				else
					cr_assert_eq(is, copied ? 0xee : 0x77, "%zu %u %u", i,
						     copied, b);
			}
			cr_expect_eq(out[vectors], vectors < row[i][1] && !copied ? 0 : 0x77);
			cr_expect_eq(sink_crc[9], copied ? hr_crc32c(0, out, row[i][0]) : 0);
			cr_expect_eq(sink_crc[8], 0);
		}
	}
}

Test(compute, a_checksum_without_a_copy_leaves_the_slot_as_it_is)
{
	rig.pipe.sink_crc = sink_crc;
	compute_run_tile(&rig.w, mine);
	cr_expect_eq(sink_crc[6], hr_crc32c(0, output[3], 2048));
	cr_expect_eq(output[3][2047], 0x77);
	cr_expect_eq(output[3][2048], 0xee);
}

Test(compute, an_output_of_another_size_fails_the_pipeline)
{
	const struct hr_failure *f = &rig.w.status->failure;

	returned = 2047;
	compute_run_tile(&rig.w, mine);
	cr_expect(mine->out_bytes == HR_OUT_BROKEN && mine->state == HR_SLOT_COMPUTED);
	cr_expect(rig.w.status->failed && rig.pipe.stop && rig.w.status->tiles == 0);
	cr_expect(f->error == -ERANGE && f->role == HR_ROLE_COMPUTE && f->tile == 6);
	cr_expect(f->object == 99 && f->out_bytes == 2047 && f->out_promised == 2048);
	mine->state = HR_SLOT_FILLED;
	mine->tile = 7;
	returned = 2049;
	mine->out_bytes = 0;
	compute_run_tile(&rig.w, mine);
	cr_expect_eq(mine->out_bytes, HR_OUT_BROKEN);
	cr_expect(f->out_bytes == 2047 && f->tile == 6); /* the first one */
}

Test(compute, an_output_for_other_processes_has_its_time)
{
	rig.w.launch = 1;
	fake_clock_start(0x123456789abcull, NULL, NULL);
	compute_run_tile(&rig.w, mine);
	cr_expect_eq(mine->state, HR_SLOT_COMPUTED);
	cr_expect_eq(mine->computed_ns, 0x56789abcu);
}

/* ---- slots */

Test(compute, a_slot_whose_output_is_held_counts_as_free)
{
	static const struct {
		uint32_t launch, state, held, look, then;
	} row[] = {
		{ 1, HR_SLOT_FILLED, HR_HELD_NOT, HR_SLOT_FILLED, HR_SLOT_FILLED },
		{ 1, HR_SLOT_FILLED, HR_HELD, HR_SLOT_FREE, HR_SLOT_FILLED },
		{ 1, HR_SLOT_FILLED, HR_HELD_FOR_GOOD, HR_SLOT_FREE, HR_SLOT_FREE },
		{ 1, HR_SLOT_COMPUTED, HR_HELD_FOR_GOOD, HR_SLOT_COMPUTED, HR_SLOT_COMPUTED },
		{ 0, HR_SLOT_FILLED, HR_HELD, HR_SLOT_FILLED, HR_SLOT_FILLED },
		{ 1, HR_SLOT_CLOSING, HR_HELD, HR_SLOT_CLOSING, HR_SLOT_CLOSING },
	};
	uint32_t s;

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		rig.w.launch = row[i].launch;
		mine->state = row[i].state;
		mine->held = row[i].held;
		cr_expect_eq(compute_look(&rig.w, 1, &s), row[i].look, "%zu", i);
		cr_expect_eq(s, 3);
		cr_expect_eq(mine->state, row[i].then, "%zu", i);
	}
	rig.w.launch = 0;
	mine->held = HR_HELD;
	cr_expect(compute_claim(&rig.w, 3));
	cr_expect_eq(mine->held, HR_HELD);
	rig.w.launch = 1;
	cr_expect(!compute_claim(&rig.w, 3));
	mine->held = HR_HELD_NOT;
	cr_expect(compute_claim(&rig.w, 3));
	cr_expect_eq(mine->held, HR_HELD_COMPUTE);
}

Test(compute, the_filled_slot_with_the_lowest_tile_comes_first)
{
	uint32_t open = 0;

	rig.w.index = 0;
	rig.w.count = 1;
	for (unsigned s = 0; s < RIG_SLOTS; s++)
		rig.slot[s].tile = 20 - s;
	rig.slot[1].state = rig.slot[2].state = HR_SLOT_FILLED;
	mine->state = HR_SLOT_FREE;
	cr_expect_eq(compute_slots(&rig.w, &open), 2);
	cr_expect_eq(open, 5);
	rig.slot[1].tile = 0;
	open = 0;
	cr_expect_eq(compute_slots(&rig.w, &open), 1);
	rig.slot[1].state = rig.slot[2].state = HR_SLOT_CLOSING;
	rig.slot[0].state = HR_SLOT_CLOSED;
	open = 0;
	cr_expect_eq(compute_slots(&rig.w, &open), COMPUTE_NOTHING);
	cr_expect_eq(open, 2);
	cr_expect(rig.slot[1].state == HR_SLOT_CLOSED && rig.slot[2].state == HR_SLOT_CLOSED);
	cr_expect(rig.slot[3].state == HR_SLOT_FREE);
	rig.slot[4].state = HR_SLOT_FILLED; /* the last one */
	open = 0;
	cr_expect_eq(compute_slots(&rig.w, &open), 4);
	/* another worker's slots are left alone */
	rig.w.index = 1;
	rig.w.count = 2;
	rig.slot[2].state = HR_SLOT_CLOSING;
	open = 0;
	cr_expect_eq(compute_slots(&rig.w, &open), COMPUTE_NOTHING);
	cr_expect_eq(open, 1);
	cr_expect_eq(rig.slot[2].state, HR_SLOT_CLOSING);
}

Test(compute, the_next_slot_is_claimed_or_there_is_none)
{
	cr_expect_eq(compute_next(&rig.w), 3);
	cr_expect(rig.w.cost.rounds == 1 && rig.w.cost.busy_rounds == 1);
	rig.w.launch = 2;
	rig.pipe.parked = 2;
	rig.slot[3].held = HR_HELD_COMPUTE; /* found, but not free */
	cr_expect_eq(compute_next(&rig.w), COMPUTE_LEAVES);
	cr_expect_eq(rig.w.cost.busy_rounds, 1);
	rig.slot[3].held = HR_HELD_NOT;
	cr_expect_eq(compute_next(&rig.w), 3);
	cr_expect_eq(rig.slot[3].held, HR_HELD_COMPUTE);
	rig.slot[1].state = HR_SLOT_CLOSING;
	rig.slot[3].state = HR_SLOT_CLOSED;
	cr_expect_eq(compute_next(&rig.w), COMPUTE_NOTHING);
}

/* ---- the end */

static void finished(uint64_t second)
{
	begin();
	hr_role_worker_set(&rig.w, &rig.pipe, HR_ROLE_COMPUTE, 0, 2);
	rig.w.status->tiles = 4;
	rig.w.status[1].tiles = second;
	rig.w.status[1].done = 1;
	rig.pipe.first_tile = 1;
}

Test(compute, the_result_needs_every_tile_of_every_block)
{
	uint64_t fed = 12;

	finished(5);
	cr_expect_eq(compute_wait_for_all(&rig.w), COMPUTE_WHOLE);
	finished(4);
	cr_expect_eq(compute_wait_for_all(&rig.w), COMPUTE_PART);
	cr_expect(compute_finish(&rig.w));
	EXPECT_LOG("");
	finished(7);
	rig.pipe.fed_tiles = &fed;
	cr_expect_eq(compute_wait_for_all(&rig.w), COMPUTE_WHOLE);
	rig.w.launch = rig.pipe.parked = 3;
	cr_expect_eq(compute_wait_for_all(&rig.w), COMPUTE_WHOLE);
	rig.w.status[1].done = 0;
	cr_expect_eq(compute_wait_for_all(&rig.w), COMPUTE_AGAIN);
	cr_expect(!compute_finish(&rig.w));
	EXPECT_LOG("");
}

Test(compute, finish_gets_all_states_and_records)
{
	finished(5);
	rig.pipe.record_bytes = 8;
	rig.pipe.workers[HR_ROLE_COMPUTE] = 3;
	cr_expect(compute_finish(&rig.w));
	EXPECT_LOG("finish 5\n");
	cr_expect(all.args == args && all.tiles == 10 && all.bytes == 9 * 8192 + 8092);
	cr_expect(all.tile_bytes == 8192 && all.workers == 6 && all.state_bytes == 16);
	cr_expect(all.states == states && all.record_bytes == 8 && all.records == records);
	cr_expect_eq(all.result, (void *)result_memory);
}

/* ---- a whole block */

Test(compute, a_block_computes_its_slots_and_the_first_one_finishes)
{
	for (unsigned part = 0; part < 2; part++) {
		begin();
		rig.pipe.tiles = 3;
		rig.pipe.part = part;
		for (unsigned s = 0; s < RIG_SLOTS; s++) {
			rig.slot[s].tile = s / 2;
			rig.slot[s].state = s % 2 ? HR_SLOT_CLOSED : HR_SLOT_FILLED;
		}
		rig.pipe.has_sink = 0;
		/* without a sink the slots are free again, so they are closed by the operator */
		rig.status[3].done = 1;
		rig.pipe.slots = 1;
		rig.slot[0].state = HR_SLOT_CLOSING;
		rig.status[2].tiles = 1;
		rig.status[3].tiles = 2;
		hr_pipe_block(&rig.pipe, 2);
		EXPECT_LOG(part ? "init 5 state 0\n" : "init 5 state 0\nfinish 5\n");
		cr_expect_eq(rig.status[2].done, 1);
		rig.status[3].done = 0;
		hr_pipe_block(&rig.pipe, 3);
		EXPECT_LOG("init 5 state 16\n"); /* it has no slot */
		cr_expect_eq(rig.status[3].done, 1);
	}
}

Test(compute, a_block_keeps_the_memory_of_its_operator_between_launches)
{
	static uint8_t kept[2][HR_BLOCK_MEMORY] __attribute__((aligned(8)));
	uint8_t *memory = hr_block_memory();
	uint8_t tap;

	memset(kept, 0x11, sizeof kept);
	memset(memory, 0x22, HR_BLOCK_MEMORY);
	rig.pipe.tap = (struct hr_tap_role *)(void *)&tap;
	rig.pipe.op_blocks = kept[0];
	rig.control.launch = 1;
	rig.pipe.parked = 1;
	mine->state = HR_SLOT_FREE;
	hr_compute_block(&rig.pipe, 1); /* it leaves at once */
	EXPECT_LOG("init 5 state 16\n");
	cr_expect_eq(rig.status[3].done, 0);
	cr_expect_eq(rig.status[3].cost.rounds, 1);
	cr_expect(kept[1][0] == 0x22 && kept[1][HR_BLOCK_MEMORY - 1] == 0x22);
	cr_expect(kept[0][0] == 0x11 && kept[0][HR_BLOCK_MEMORY - 1] == 0x11);
	memset(memory, 0x33, HR_BLOCK_MEMORY);
	rig.control.launch = 2;
	rig.slot[1].state = mine->state = HR_SLOT_CLOSING;
	hr_compute_block(&rig.pipe, 1);
	EXPECT_LOG("");
	cr_expect_eq(rig.status[3].done, 1);
	cr_expect(memory[0] == 0x22 && memory[HR_BLOCK_MEMORY - 1] == 0x22);
	cr_expect_eq(rig.status[3].cost.rounds, 2);
}

Test(compute, blocks_of_other_roles_are_theirs)
{
	hr_pipe_block(&rig.pipe, 1);
	hr_pipe_block(&rig.pipe, 4);
	EXPECT_LOG("prefetch 1 of 5 slots\nwriteback 0 of 5 slots\n");
}
