/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whole pipelines as on a GPU: blocks of several workers with several lanes each, over the software
 * controller; their results against plain arithmetic.
 */
#define HR_LANES 4u
#define FAKE_OWN_IDLE
#include "tests/fakes/lanes.h"

/* More workers than CPUs wait here, so yield the CPU. */
HR_WORKER void hr_idle(uint32_t *spins)
{
	fake_pause(++*spins < 4 ? 20000 : 100000);
}

/*
 * Compile the sources with these functions in place of the host's. The library's copies are not
 * linked, except the CRC, which computes the expected values.
 */
#define hr_crc32c lanes_crc32c
#define hr_crc32c_combine lanes_crc32c_combine
#define hr_crc32c_multiply lanes_crc32c_multiply
#define hr_crc32c_power lanes_crc32c_power
#define hr_checksum_prepare lanes_checksum_prepare
#define hr_checksum_tile lanes_checksum_tile
#include "cache/crc32c.c"
#include "cache/object.c"
#include "gpu/worker/checksum.c"
#include "gpu/worker/compute.c"
#include "gpu/cuda/image/operators.cu"
#include "gpu/worker/pipeline.c"
#include "gpu/worker/role.c"
#include "gpu/worker/prefetch.c"
#include "gpu/worker/writeback.c"
#undef hr_crc32c

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fakes/clock.h"
#include "tests/harness/random.h"
#include "tests/harness/rig.h"

uint32_t hr_crc32c(uint32_t crc, const void *data, size_t bytes);

#define ROWS(table) (sizeof(table) / sizeof(*(table)))
#define TIMEOUT_NS (60 * HR_NS_PER_S)
#define LBA 4096u
#define TILE (4 * LBA) /* with mdts=1: two commands */
#define BYTES_MAX (20 * TILE)

TestSuite(pipeline_lanes, .timeout = 280);

static struct rig rig;
static struct hr_backend_ops ops;
static pthread_t runner;
static uint32_t launched_blocks, launched_warps, ended;
static struct hr_pipe *launched_pipe;
static uint8_t data[BYTES_MAX];

static void block_body(void)
{
	hr_pipe_block(launched_pipe, fake_block->number);
}

static void *run_blocks(void *unused)
{
	cr_assert(fake_blocks_run(block_body, launched_blocks, launched_warps));
	__atomic_store_n(&ended, 1, __ATOMIC_RELEASE);
	return NULL;
}

static int launch(struct hr_backend *b, const struct hr_launch_args *args,
		  struct hr_launch **handle, struct hr_error *e)
{
	static struct hr_launch one;

	one = (struct hr_launch){ b, args->stop };
	*handle = &one;
	launched_pipe = args->argument;
	ended = 0;
	launched_blocks = args->blocks;
	launched_warps = rig.pipe->workers[HR_ROLE_COMPUTE];
	return -pthread_create(&runner, NULL, run_blocks, NULL);
}

static void free_nothing(struct hr_launch *handle)
{
}

static int poll(struct hr_launch *handle, struct hr_error *e)
{
	if (!__atomic_load_n(&ended, __ATOMIC_ACQUIRE))
		return 0;
	if (runner)
		pthread_join(runner, NULL);
	runner = 0;
	return 1;
}

/* `script` of faults, or NULL. */
static void up_with(uint32_t ssds, const char *script, uint64_t timeout_ns)
{
	struct fake_random random = { fake_random_seed("pipeline_lanes") };

	if (script)
		rig_up_faulty(&rig, ssds, "lba=4096,mdts=1", script, 32, timeout_ns);
	else
		rig_up(&rig, ssds, "lba=4096,mdts=1", 32, timeout_ns);
	ops = *rig.backend.ops;
	ops.launch = launch;
	ops.poll = poll;
	ops.launch_free = free_nothing;
	rig.backend.ops = &ops;
	fake_random_fill(&random, data, BYTES_MAX);
}

static void up(uint32_t ssds)
{
	up_with(ssds, NULL, TIMEOUT_NS);
}

/* Two blocks compute, one reads, one writes, each with so many workers. */
static struct rig_work work_of(enum hr_op_id op, uint64_t bytes, uint32_t slots, uint32_t workers)
{
	const struct rig_work work = { .op = op,
				       .sources = 1,
				       .in = { data },
				       .bytes = { bytes },
				       .tile_bytes = { TILE },
				       .slots = slots,
				       .workers = workers,
				       .blocks = { 1, 2, 1 } };

	return work;
}

static void run(const struct rig_work *work)
{
	rig_start(&rig, work);
	rig_wait(&rig);
}

static const uint64_t sizes[] = { 0, 1, LBA, TILE - 1, TILE, TILE + 1, 5 * TILE + 17, BYTES_MAX };

Test(pipeline_lanes, tiles_go_through_all_workers_once)
{
	up(1);
	for (uint32_t i = 0; i < ROWS(sizes); i++) {
		struct rig_work work = work_of(HR_OP_crc32c, sizes[i], 1 + 3 * i, 1 + i % 3);
		const uint64_t tiles = (sizes[i] + TILE - 1) / TILE;

		work.copies = i % 2;
		run(&work);
		cr_assert_null(rig_failure(&rig));
		cr_assert_eq(rig_tiles(&rig, HR_ROLE_COMPUTE), tiles);
		cr_assert_eq(((struct hr_crc32c_result *)(void *)rig.pipe->op_result)->crc,
			     hr_crc32c(0, data, sizes[i]), "%llu bytes",
			     (unsigned long long)sizes[i]);
		for (uint64_t t = 0; t < tiles; t++)
			cr_assert_eq(((uint32_t *)(void *)rig.pipe->op_records)[t],
				     hr_crc32c(0, data + t * TILE,
					       t + 1 < tiles ? TILE : sizes[i] - t * TILE));
	}
	rig_down(&rig);
}

/* Check the checksums of the only source and of the sink, which are equal here. */
static void check_checksums(uint64_t bytes)
{
	const uint32_t *in = rig.pipe->source[0].crc, *out = rig.pipe->sink_crc;

	for (uint64_t at = 0; in && at < bytes; at += TILE) {
		const uint32_t want =
			hr_crc32c(0, data + at, bytes - at < TILE ? bytes - at : TILE);

		cr_assert_eq(in[at / TILE], want, "tile %llu", (unsigned long long)(at / TILE));
		cr_assert_eq(out[at / TILE], want, "tile %llu", (unsigned long long)(at / TILE));
	}
}

Test(pipeline_lanes, results_are_written_whole_and_zeroed_to_the_block)
{
	up(1);
	for (uint32_t i = 0; i < ROWS(sizes); i++) {
		struct rig_work work = work_of(HR_OP_copy, sizes[i], 2 + 2 * i, 1 + i % 3);
		uint8_t *sink;

		work.checksums = i % 4 != 0;
		work.copies = i % 2;
		run(&work);
		cr_assert_null(rig_failure(&rig));
		check_checksums(sizes[i]);
		cr_assert_eq(hr_pipe_final_prefix(rig.pipe, rig.pipe->slot),
			     (sizes[i] + TILE - 1) / TILE);
		sink = rig_read_sink(&rig, rig.sink_room);
		cr_assert(memcmp(sink, data, sizes[i]) == 0);
		for (uint64_t at = sizes[i]; at < rig.sink_room; at++)
			cr_assert_eq(sink[at],
				     at < (sizes[i] + LBA - 1) / LBA * LBA ? 0 : RIG_POISON);
		free(sink);
	}
	rig_down(&rig);
}

/* Four columns on two ssds: a worker has a queue pair on each. */
Test(pipeline_lanes, columns_are_read_in_step)
{
	static const struct hr_filter_args args = { INT32_MIN, INT32_MAX, 0, 100, INT32_MAX };
	struct rig_work work = work_of(HR_OP_filter_sum, 0, 5, 2);
	const struct hr_filter_sum *sum;
	__int128 want = 0;

	up(2);
	work.args = &args;
	work.args_bytes = sizeof args;
	work.sources = 4;
	for (uint32_t s = 0; s < 4; s++) {
		work.in[s] = data;
		work.bytes[s] = s == 3 ? BYTES_MAX - 8 : BYTES_MAX / 2 - 4;
		work.tile_bytes[s] = s == 3 ? TILE : TILE / 2;
	}
	for (uint32_t i = 0; i < BYTES_MAX / 2; i += 4)
		data[i + 1] = data[i + 2] = data[i + 3] = 0;
	for (uint32_t i = 0; i + 1 < BYTES_MAX / 8; i++) {
		const int32_t discount = ((int32_t *)(void *)data)[i];

		if (discount <= 100)
			want += (__int128)((int64_t *)(void *)data)[i] * discount;
	}
	run(&work);
	sum = (const struct hr_filter_sum *)(void *)rig.pipe->op_result;
	cr_assert_null(rig_failure(&rig));
	cr_expect_eq(sum->rows, BYTES_MAX / 8 - 1);
	cr_expect_eq(sum->low, (uint64_t)want);
	cr_expect_eq(sum->high, (uint64_t)(want >> 64));
	rig_down(&rig);
}

/* The host's stop request reaches all workers, and all end. */
Test(pipeline_lanes, a_stop_ends_all_workers)
{
	const struct rig_work work = work_of(HR_OP_copy, BYTES_MAX, 4, 2);

	up(1);
	for (uint32_t wait_ms = 0; wait_ms < 8; wait_ms += 2) {
		uint8_t *sink;
		uint64_t written;

		rig_start(&rig, &work);
		hr_wait_ns(wait_ms * HR_NS_PER_MS);
		hr_release_sys_u32(&rig.pipe->control->stop, 1);
		rig_wait(&rig);
		cr_assert_null(rig_failure(&rig));
		written = hr_pipe_final_prefix(rig.pipe, rig.pipe->slot);
		cr_assert_eq(written, rig_tiles(&rig, HR_ROLE_WRITEBACK));
		sink = rig_read_sink(&rig, BYTES_MAX);
		cr_assert(memcmp(sink, data, written * TILE) == 0);
		free(sink);
	}
	rig_down(&rig);
}

/* Tile 5 has the blocks 20 to 23; its second command begins with block 22. */
Test(pipeline_lanes, a_failing_command_is_named_by_the_worker_that_sent_it)
{
	const struct rig_work work = work_of(HR_OP_copy, BYTES_MAX, 8, 3);
	const struct hr_failure *failure;

	up_with(1, "on read lba 22 count 1000: status 0x281 dnr\n", TIMEOUT_NS);
	run(&work);
	failure = rig_failure(&rig);
	cr_assert_not_null(failure);
	cr_expect_eq(failure->error, 0x281);
	cr_expect_eq(failure->role, HR_ROLE_PREFETCH);
	cr_expect_eq(failure->tile, 5);
	cr_expect_eq(failure->lba, 22);
	cr_expect_leq(hr_pipe_final_prefix(rig.pipe, rig.pipe->slot), 5);
	rig_down(&rig);
}

Test(pipeline_lanes, a_command_with_a_temporary_error_is_sent_again)
{
	const struct rig_work work = work_of(HR_OP_crc32c, BYTES_MAX, 6, 2);

	up_with(1, "on read lba 22 count 3: status 0x082\n", TIMEOUT_NS);
	run(&work);
	cr_assert_null(rig_failure(&rig));
	cr_expect_eq(((struct hr_crc32c_result *)(void *)rig.pipe->op_result)->crc,
		     hr_crc32c(0, data, BYTES_MAX));
	rig_down(&rig);
}

Test(pipeline_lanes, a_lost_command_ends_the_run_after_its_deadline)
{
	const struct rig_work work = work_of(HR_OP_copy, BYTES_MAX, 6, 2);

	up_with(1, "on read lba 22: drop\n", TIMEOUT_NS);
	rig_start(&rig, &work);
	/* All tiles are written except tiles 5, 11 and 17 of 20, which have the slot of tile 5. */
	while (rig_tiles(&rig, HR_ROLE_WRITEBACK) < 17)
		hr_wait_ns(HR_NS_PER_MS);
	fake_clock_skip(TIMEOUT_NS);
	rig_wait(&rig);
	cr_assert_not_null(rig_failure(&rig));
	cr_expect_eq(rig_failure(&rig)->error, -ETIMEDOUT);
	cr_expect(hr_health_failed(&rig.ssd[0].health));
	rig_down(&rig);
}
