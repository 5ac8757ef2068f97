/* SPDX-License-Identifier: Apache-2.0 */
/* The collective part of cache/object.c: eight lanes move data over one queue pair, like a warp. */
#define FAKE_OWN_IDLE
#include "tests/fakes/lanes.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fakes/clock.h"
#include "tests/harness/random.h"
#include "tests/fakes/target.h"

/* The controller runs whenever the worker waits. */
static struct target target;

HR_WORKER void hr_idle(uint32_t *spins)
{
	++*spins;
	if (hr_lane() == 0)
		target_step(&target);
	fake_pause(0);
}

/*
 * Compile the source with these functions in place of the host's; the library's copy is not linked.
 */
#include "cache/object.c"
#include "tests/harness/transfer.h"

#define DISK_BYTES (3u << 20)
#define ROUNDS 40u

static struct hr_buffer buffer;
static struct hr_prp chunks[1024];
static struct hr_extent extent;

/* The call of each lane, and its result. */
static struct {
	int (*call)(void);
	uint64_t offset;
	uint32_t bytes;
	int got[HR_LANES];
} job;

TestSuite(object_lanes, .timeout = 120);

static void make(uint32_t entries, uint32_t buffer_bytes, uint32_t chunk_bytes)
{
	const uint32_t lists = (uint32_t)hr_buffer_prp_bytes(buffer_bytes, chunk_bytes) / HR_PAGE;

	target_init(&target, entries, buffer_bytes / HR_PAGE + lists, DISK_BYTES, 12, chunk_bytes);
	hr_buffer_init(&buffer, &target.region, 0, buffer_bytes, chunk_bytes, &target.region,
		       buffer_bytes, chunks);
	extent = (struct hr_extent){ .bytes = DISK_BYTES,
				     .capacity = DISK_BYTES,
				     .nsid = TARGET_NSID,
				     .lba_shift = 12,
				     .chunk_bytes = chunk_bytes };
	fake_clock_start(1, NULL, NULL);
}

static void unmake(void)
{
	fake_clock_stop();
	target_fini(&target);
}

static void body(void)
{
	job.got[hr_lane()] = job.call();
}

/* All lanes make the call; their results must be equal. */
static int run(int (*call)(void))
{
	job.call = call;
	cr_assert(fake_lanes_run(body));
	for (uint32_t lane = 1; lane < HR_LANES; lane++)
		cr_assert_eq(job.got[lane], job.got[0], "lane %u: %d and %d", lane, job.got[lane],
			     job.got[0]);
	return job.got[0];
}

static int call_pread(void)
{
	return transfer_end(&target.qp, hr_io_read_post(&target.qp, &extent, job.offset, job.bytes,
							&buffer, 0));
}

static int call_pwrite(void)
{
	return transfer_end(&target.qp, hr_io_write_post(&target.qp, &extent, job.offset, job.bytes,
							 &buffer, 0, 0));
}

static int call_prefetch(void)
{
	return hr_io_read_post(&target.qp, &extent, job.offset, job.bytes, &buffer, 9);
}

static int call_flush(void)
{
	return transfer_end(&target.qp, hr_io_flush_post(&target.qp, &extent, 0));
}

Test(object_lanes, any_transfer_moves_exactly_its_bytes)
{
	struct fake_random random = { 5 };

	for (unsigned i = 0; i < ROUNDS; i++) {
		const uint32_t pages = 1 + fake_random_below(&random, 120);

		make(2 + pages + fake_random_below(&random, 60), pages * HR_PAGE,
		     HR_PAGE << fake_random_below(&random, 4));
		job.offset = fake_random_below(&random, 256) * HR_PAGE;
		job.bytes = pages * HR_PAGE;
		cr_assert_eq(run(call_pread), 0);
		cr_assert_arr_eq(buffer.data, target.disk + job.offset, job.bytes);
		for (uint32_t j = 0; j < job.bytes; j++)
			buffer.data[j] = (uint8_t)~buffer.data[j];
		cr_assert_eq(run(call_pwrite), 0);
		cr_assert_arr_eq(buffer.data, target.disk + job.offset, job.bytes);
		cr_assert_eq(target.commands, 2 * hr_chunk_count(job.bytes, buffer.chunk_bytes));
		cr_assert_eq(run(call_flush), 0);
		cr_assert_eq(target.flushes, 1);
		cr_assert_eq(target.qp.stats.failed, 0);
		unmake();
	}
}

Test(object_lanes, lanes_agree_on_failure)
{
	make(17, 64 << 10, 4096);
	job.offset = 0;
	job.bytes = 64 << 10;
	cr_expect_eq(run(call_prefetch), 16);
	cr_expect_eq(run(call_prefetch), -EAGAIN);
	unmake();

	make(17, 64 << 10, 4096);
	target.status = 0x281;
	target.failures = 1;
	cr_expect_eq(run(call_pread), 0x281);
	job.offset = DISK_BYTES;
	cr_expect_eq(run(call_pread), -ERANGE);
	target.qp.error = -EPROTO;
	cr_expect_eq(run(call_flush), -EPROTO);
	unmake();
}

static hr_mask masks[HR_LANES];
static struct hr_completion dones[HR_LANES];

static int call_consume(void)
{
	masks[hr_lane()] = hr_io_reap(&target.qp, &dones[hr_lane()]);
	return (int)masks[hr_lane()];
}

static int call_ring(void)
{
	hr_qp_publish(&target.qp);
	return 0;
}

Test(object_lanes, each_lane_gets_a_completion_of_its_own)
{
	bool seen[16] = { false };

	make(17, 64 << 10, 4096);
	job.offset = 0;
	job.bytes = 64 << 10;
	cr_assert_eq(run(call_prefetch), 16);
	run(call_ring);
	target_step(&target);
	for (unsigned round = 0; round < 2; round++) {
		cr_assert_eq(run(call_consume), 0xff);
		for (uint32_t lane = 0; lane < HR_LANES; lane++) {
			const uint32_t chunk = HR_TOKEN_CHUNK(dones[lane].token);

			cr_assert_eq(HR_TOKEN_BUFFER(dones[lane].token), 9);
			cr_assert(chunk < 16 && !seen[chunk]);
			seen[chunk] = true;
		}
	}
	cr_expect_eq(run(call_consume), 0);
	unmake();
}

Test(object_lanes, a_lost_command_is_reported_in_lane_0)
{
	make(17, 64 << 10, 4096);
	job.offset = 0;
	job.bytes = 4096;
	cr_assert_eq(run(call_prefetch), 1);
	run(call_ring);
	fake_clock_advance(2000000000);
	cr_assert_eq(run(call_consume), 1);
	cr_expect_eq(dones[0].status, HR_STATUS_LOST);
	cr_expect_eq(dones[0].token, HR_TOKEN(9, 0));
	cr_expect_eq(run(call_consume), 0);
	unmake();
}

static struct hr_buffer own[HR_LANES];
static struct hr_prp own_chunk[HR_LANES];
static bool writes;

/* Lane 2 requests nothing, lane 5 an object that does not exist. */
static int call_each(void)
{
	const uint32_t lane = hr_lane();
	const uint64_t offset = lane == 5 ? DISK_BYTES : (uint64_t)(31 * lane + 1) * HR_PAGE;

	return writes ? hr_io_write_each(&target.qp, lane != 2, &extent, offset, 2 * HR_PAGE,
					 &own[lane], lane, 0)
		      : hr_io_read_each(&target.qp, lane != 2, &extent, offset, 2 * HR_PAGE,
					&own[lane], lane);
}

Test(object_lanes, each_lane_transfers_the_range_that_it_requested)
{
	for (unsigned round = 0; round < 2; round++) {
		make(17, 64 << 10, 8192);
		writes = round == 1;
		for (uint32_t lane = 0; lane < HR_LANES; lane++)
			hr_buffer_init(&own[lane], &target.region, lane * 8192, 8192, 8192, NULL, 0,
				       &own_chunk[lane]);
		memset(target.region.cpu, 0x5a, 64 << 10);
		job.call = call_each;
		cr_assert(fake_lanes_run(body));
		for (uint32_t lane = 0; lane < HR_LANES; lane++)
			cr_expect_eq(job.got[lane], lane == 2 ? 0 : (lane == 5 ? -ERANGE : 1));
		run(call_ring);
		target_step(&target);
		cr_assert_eq(run(call_consume), 0x3f);
		for (uint32_t lane = 0; lane < HR_LANES; lane++) {
			const uint64_t at = (uint64_t)(31 * lane + 1) * HR_PAGE;
			const bool moved = lane != 2 && lane != 5;

			cr_expect_eq(memcmp(own[lane].data, target.disk + at, 2 * HR_PAGE) == 0,
				     moved, "lane %u", lane);
			cr_expect_eq(own[lane].data[8191] == 0x5a, writes || !moved);
		}
		unmake();
	}
}
