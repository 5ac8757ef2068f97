/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs of access operators as on a GPU: blocks of several workers with several lanes each. The
 * thread sanitizer detects lanes that use each other's data without hr_lanes_sync().
 */
#define HR_LANES 4u
#define FAKE_OWN_IDLE
#include "tests/fakes/lanes.h"

/* More workers than CPUs wait here, so yield the CPU. */
HR_WORKER void hr_idle(uint32_t *spins)
{
	fake_pause(++*spins < 4 ? 20000 : 100000);
}

/* Worker code for these lanes; the library's copies are not linked. */
#include "cache/object.c"
#include "gpu/worker/io/access.c"
#include "gpu/worker/io/io.c"
#include "gpu/worker/io/commands.c"
#include "gpu/worker/io/single.c"
#include "gpu/worker/io/requests.c"
#include "gpu/worker/io/writeback.c"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cache/page_policy.h"
#include "config/base/clock.h"
#include "tests/harness/access_rig.h"
#include "tests/harness/random.h"

#define TIMEOUT_NS (60 * HR_NS_PER_S)
#define PIECE 9000u

TestSuite(io_lanes, .timeout = 280);

static struct access_rig rig;

static void lane_main(void *access)
{
	hr_access_block(access, fake_block->number);
}

/* A block of the run, with all lanes of its workers. */
static void run_block(struct hr_access *access, uint32_t number)
{
	static struct fake_block block[ACCESS_BLOCKS_MAX];

	cr_assert(fake_block_run(&block[number], number, access->warps, lane_main, access));
}

static uint8_t piece[ACCESS_BLOCKS_MAX * FAKE_WARPS_MAX][PIECE];

/* Reads and writes of the worker in its part of an object, and single elements by lanes. */
static void use_own_part(struct hr_objects *objects)
{
	struct fake_random random = { rig.seed + 9 + objects->worker };
	uint8_t *data = piece[objects->worker];

	for (uint32_t i = 0; i < 12; i++) {
		const uint32_t object = i % objects->cache->objects;
		const struct hr_object *o = hr_get_object_map(objects, object);
		const uint64_t part = o->bytes / objects->workers / 4096 * 4096;
		const uint64_t bytes = (fake_random_u64(&random) >> 20) % PIECE % part;
		const uint64_t at =
			objects->worker * part + (fake_random_u64(&random) >> 20) % (part - bytes);
		const uint64_t index = (objects->worker * part) / 4 + hr_lane() * 500 % (part / 4);

		if (i % 2) {
			hr_lanes_sync();
			if (hr_lane() == 0) {
				memset(data, (int)i, bytes);
				memcpy(rig.model[object] + at, data, bytes);
			}
			hr_lanes_sync();
			cr_assert_eq(hr_pwrite(objects, o, at, data, bytes), (int64_t)bytes);
		} else {
			cr_assert_eq(hr_pread(objects, o, at, data, bytes), (int64_t)bytes);
			hr_lanes_sync();
			cr_assert(memcmp(data, rig.model[object] + at, bytes) == 0);
		}
		hr_lanes_sync();
		cr_assert_eq(hr_get_u32(objects, o, index),
			     ((uint32_t *)(void *)rig.model[object])[index]);
		hr_lanes_sync();
	}
}

static void run_with(uint32_t ssds, uint32_t warps, bool staging, uint32_t frames)
{
	const struct access_work work = { .objects = ssds,
					  .bytes = { 400000, 300001 },
					  .writable = 3,
					  .frames = frames,
					  .compute = 2,
					  .warps = warps,
					  .commands = 16,
					  .staging = staging };
	struct hr_io_counters c;

	access_up(&rig, ssds, "lba=4096", NULL, 32, TIMEOUT_NS);
	rig.block = run_block;
	rig.op.run = use_own_part;
	access_start(&rig, &work);
	access_wait(&rig);
	cr_assert_null(access_failure(&rig));
	for (uint32_t i = 0; i < ssds; i++)
		access_check_disk(&rig, i);
	c = access_counters(&rig);
	cr_expect_gt(c.write_backs, 0);
	if (frames < 100)
		cr_expect_gt(c.evictions, 0);
	access_down(&rig);
}

Test(io_lanes, the_disk_holds_the_data_written_by_workers_with_lanes)
{
	run_with(1, 1, false, 2000);
}

Test(io_lanes, blocks_of_several_workers_share_a_small_cache)
{
	run_with(2, 2, true, 28);
}

/* Two of the three workers of the block. */
static void read_beyond(struct hr_objects *objects)
{
	const struct hr_object *o = hr_get_object_map(objects, 0);

	if (objects->worker > 0)
		hr_get_u32(objects, o, o->bytes / 4 + objects->worker);
}

Test(io_lanes, the_first_failed_worker_of_a_block_records_its_failure)
{
	const struct access_work work = {
		.objects = 1, .bytes = { 400000 }, .warps = 3, .commands = 16
	};
	const struct hr_failure *failure;

	access_up(&rig, 1, "lba=4096", NULL, 32, TIMEOUT_NS);
	rig.block = run_block;
	rig.op.run = read_beyond;
	access_start(&rig, &work);
	access_wait(&rig);
	failure = access_failure(&rig);
	cr_assert_not_null(failure);
	cr_expect_eq(failure->error, -ERANGE);
	cr_expect_eq(failure->object, ACCESS_OBJECT_ID(0));
	cr_expect_eq(failure->tile, 400000 / 4 + 1, "of worker 1: %llu",
		     (unsigned long long)failure->tile);
	access_down(&rig);
}
