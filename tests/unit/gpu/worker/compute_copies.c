/*
 * Tiles that compute blocks copy before use: the operator's arguments at each call.
 * gpu/worker/compute.c is compiled here with an observer in place of the operator.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "config/clock.h"
#include "gpu/worker/pipeline.h"
#include "gpu/worker/role.h"
#include "tests/harness/random.h"
#include "tests/harness/rig.h"

static uint32_t observed_op_tile(uint32_t op, const void *args, void *state,
				 const struct hr_op_tile *tile);
static void observed_compute_block(struct hr_pipe *pipe, uint32_t block);

#define hr_op_tile(...) observed_op_tile(__VA_ARGS__)
#define hr_compute_block observed_compute_block
#include "gpu/worker/compute.c"
#undef hr_op_tile
#undef hr_compute_block

#define TIMEOUT_NS (20 * HR_NS_PER_S)
#define COUNT 12573u /* rows: the last tile ends between two vectors of 16 bytes */
#define BLOCKS 3u
#define PAGES(bytes) (((bytes) + HR_PAGE - 1) & ~(uint64_t)(HR_PAGE - 1))

TestSuite(compute_copies, .timeout = 60);

static struct rig rig;
static struct rig_work work;
static uint32_t rows; /* of a tile */
static uint8_t column[4][COUNT * 8];

static _Thread_local uint32_t my_block;
static struct {
	uint32_t tiles[BLOCKS]; /* set by the block of the worker */
	uint32_t wrong;		/* atomic; calls with other arguments */
} seen;

static void expect(bool right)
{
	if (!right)
		__atomic_fetch_add(&seen.wrong, 1, __ATOMIC_RELAXED);
}

/* True when the address is a slot's buffer of the source (source -1: of the output). */
static bool is_of_a_slot(const uint8_t *at, int source)
{
	for (uint32_t i = 0; i < rig.pipe->slots; i++) {
		const struct hr_slot *slot = &rig.pipe->slot[i];

		if (at == (source < 0 ? slot->out.data : slot->in[source].data))
			return true;
	}
	return false;
}

/*
 * The block has its own memory for copies: the output, if it has a checksum, then the sources, each
 * at the start of a page.
 */
static void observe(const struct hr_op_tile *tile)
{
	uint64_t each = 0, at = 0;

	if (rig.pipe->out_copy_bytes)
		at += PAGES(work.tile_bytes[0]);
	each = at;
	for (uint32_t s = 0; s < work.sources; s++)
		each += work.direct >> s & 1 ? 0 : PAGES(work.tile_bytes[s]);
	expect(rig.pipe->out_copy_bytes ? tile->out == rig.pipe->copy + my_block * each
					: !tile->out || is_of_a_slot(tile->out, -1));
	for (uint32_t s = 0; s < work.sources; s++) {
		const uint64_t from = tile->index * work.tile_bytes[s], left = work.bytes[s] - from;
		const uint64_t bytes = left < work.tile_bytes[s] ? left : work.tile_bytes[s];

		expect(tile->in_bytes[s] == bytes);
		expect(memcmp(tile->in[s], column[s] + from, bytes) == 0);
		if (work.direct >> s & 1) {
			expect(is_of_a_slot(tile->in[s], (int)s));
			continue;
		}
		expect(tile->in[s] == rig.pipe->copy + my_block * each + at);
		at += PAGES(work.tile_bytes[s]);
	}
	seen.tiles[my_block]++;
}

static uint32_t observed_op_tile(uint32_t op, const void *args, void *state,
				 const struct hr_op_tile *tile)
{
	observe(tile);
	return hr_op_tile(op, args, state, tile);
}

/* Replaces the library's function; that one is not linked. */
void hr_compute_block(struct hr_pipe *pipe, uint32_t block)
{
	my_block = block;
	observed_compute_block(pipe, block);
}

static void begin(enum hr_op_id op, uint32_t sources, bool checksums, uint32_t direct)
{
	struct fake_random random = { fake_random_seed("compute_copies") };

	memset(&seen, 0, sizeof seen);
	work = (struct rig_work){ .op = op,
				  .sources = sources,
				  .slots = 2 * BLOCKS,
				  .blocks = { 1, BLOCKS, 1 },
				  .copies = true,
				  .checksums = checksums,
				  .direct = direct };
	for (uint32_t s = 0; s < sources; s++) {
		const uint32_t width = s == 3 ? 8 : 4;

		work.in[s] = column[s];
		work.bytes[s] = COUNT * width;
		work.tile_bytes[s] = rows * width;
		fake_random_fill(&random, column[s], work.bytes[s]);
	}
}

static void run(void)
{
	static const uint8_t args[64]; /* zero: no row matches filter_sum */
	uint32_t tiles = 0;

	work.args = args;
	work.args_bytes = hr_op_get(work.op)->output == HR_OUT_DATA ? 0 : 20;
	rig_start(&rig, &work);
	rig_wait(&rig);
	cr_expect_null(rig_failure(&rig));
	cr_expect_eq(seen.wrong, 0, "%u were given something else: %u sources, direct 0x%x",
		     seen.wrong, work.sources, work.direct);
	for (uint32_t b = 0; b < BLOCKS; b++) {
		cr_expect_geq(seen.tiles[b], 1, "block %u had none", b);
		tiles += seen.tiles[b];
	}
	cr_expect_eq(tiles, (COUNT + rows - 1) / rows);
}

Test(compute_copies, each_block_copies_each_source_to_a_place_of_its_own)
{
	rig_up(&rig, 1, "lba=512", 64, TIMEOUT_NS);
	for (uint32_t direct = 0; direct < 16; direct++) {
		/* Columns of 11 blocks of 512 bytes, and of a page. */
		rows = direct & 2 ? 1408 : 1024;
		begin(HR_OP_filter_sum, 4, direct & 4, direct);
		run();
	}
	rig_down(&rig);
}

Test(compute_copies, the_operator_writes_its_output_and_checksum_beside_copies)
{
	uint8_t *sink;

	rig_up(&rig, 1, "lba=512", 64, TIMEOUT_NS);
	for (uint32_t turn = 0; turn < 4; turn++) {
		rows = turn & 1 ? 1408 : 1024;
		begin(HR_OP_copy, 1, turn & 1, turn >> 1);
		run();
		sink = rig_read_sink(&rig, rig.sink_room);
		cr_expect_eq(memcmp(sink, column[0], work.bytes[0]), 0);
		free(sink);
	}
	rig_down(&rig);
}
