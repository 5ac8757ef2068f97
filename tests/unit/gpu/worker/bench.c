/* SPDX-License-Identifier: Apache-2.0 */
/* The measuring worker code over the software controller: commands, counts, and its ends. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/base/clock.h"
#include "boot/engine/layout/sizes.h"
#include "gpu/backend.h"
#include "gpu/worker/bench.h"
#include "nvme/soft/soft.h"
#include "tests/harness/launch.h"
#include "tests/harness/rig.h"

#define DEPTH 8u
#define WORKERS 2u
#define LANES_MAX 32u /* each lane has its own histogram */
#define IO 8192u
#define TIMEOUT_NS (20 * HR_NS_PER_S)

TestSuite(bench, .timeout = 60);

static struct rig rig;
static struct hr_bench bench;
static struct hr_nvme_qp qp[WORKERS];
static struct hr_buffer buffer[WORKERS * DEPTH];
static struct hr_prp entry[WORKERS * DEPTH];
static struct hr_worker_status status[WORKERS];
static struct hr_bench_sent sent[WORKERS * DEPTH];
static uint64_t latency[WORKERS * LANES_MAX * HR_BENCH_BUCKETS];
static uint8_t table[WORKERS][16384] __attribute__((aligned(64)));
static uint32_t stop;

static void up(const char *options)
{
	const struct hr_region *region = &rig.memory.region[HR_PLACE_HOST];
	const struct hr_region tables = { .cpu = table, .worker = table, .bytes = sizeof table };
	size_t at = 0;

	rig_up(&rig, 1, options, 16, TIMEOUT_NS);
	rig_share_variables(&rig);
	memset(&bench, 0, sizeof bench);
	memset(status, 0, sizeof status);
	memset(latency, 0, sizeof latency);
	bench.extent.lba = 256; /* not at the start of the disk */
	bench.extent.bytes = bench.extent.capacity = 64 * IO;
	bench.extent.nsid = 1;
	bench.extent.lba_shift = rig.lba_shift;
	bench.extent.chunk_bytes = rig.ssd[0].chunk_bytes;
	bench.io_bytes = IO;
	bench.depth = DEPTH;
	bench.blocks = WORKERS;
	bench.workers = 1;
	bench.duration_ns = TIMEOUT_NS;
	bench.seed = 5;
	bench.qp = qp;
	bench.buffer = buffer;
	bench.status = status;
	bench.stop = &stop;
	stop = 0;
	bench.sent = sent;
	bench.latency = latency;
	for (uint32_t w = 0; w < WORKERS; w++, at += hr_layout_ring_bytes(16)) {
		const struct hr_ssd_qp_memory memory = { .rings = region,
							 .ring_at = at,
							 .tables = &tables,
							 .table_at = w * sizeof table[0],
							 .bar = rig.bar[0] };

		cr_assert_leq(hr_layout_table_bytes(16), sizeof table[0]);
		cr_assert_eq(hr_ssd_create_qp(&rig.ssd[0], &qp[w], &memory, NULL), 0);
	}
	for (uint32_t i = 0; i < WORKERS * DEPTH; i++, at += IO)
		hr_buffer_init(&buffer[i], region, at, IO, bench.extent.chunk_bytes, NULL, 0,
			       &entry[i]);
}

static void run(void)
{
	struct hr_launch *launch;

	cr_assert_eq(launch_start(&rig.backend, HR_ENTRY_BENCH, &bench, WORKERS, rig.backend.lanes,
				  &launch),
		     0);
	cr_assert_eq(launch_end(launch), 1);
	for (uint32_t w = 0; w < WORKERS; w++) {
		cr_expect_eq(status[w].ended, 1);
		cr_expect_eq(status[w].heartbeat, 1);
	}
}

static void down(void)
{
	cr_expect_eq(hr_ssd_delete_qps(&rig.ssd[0]), 0);
	rig_down(&rig);
}

static uint64_t measured(uint32_t worker)
{
	const uint32_t own = rig.backend.lanes * HR_BENCH_BUCKETS;
	uint64_t sum = 0;

	for (uint32_t i = 0; i < own; i++)
		sum += latency[worker * own + i];
	return sum;
}

Test(bench, the_bench_sends_the_requested_commands_and_measures_each)
{
	for (uint32_t kind = 0; kind < 4; kind++) {
		struct hr_soft_stats before, after;

		up("lba=4096,mdts=1");
		bench.write = kind & 1;
		bench.pattern = kind / 2 ? HR_BENCH_RANDOM : HR_BENCH_SEQUENTIAL;
		bench.max_commands = 100;
		hr_soft_stats(&rig.ssd[0].transport, &before);
		run();
		hr_soft_stats(&rig.ssd[0].transport, &after);
		for (uint32_t w = 0; w < WORKERS; w++) {
			cr_expect_eq(status[w].failed, 0);
			cr_expect_eq(qp[w].stats.completed, 100, "kind %u: %llu", kind,
				     (unsigned long long)qp[w].stats.completed);
			cr_expect_eq(measured(w), 100);
			cr_expect_eq(status[w].tiles, 100);
			cr_expect_eq(status[w].bytes, 100 * IO);
		}
		cr_expect_eq(bench.write ? after.written_bytes - before.written_bytes
					 : after.read_bytes - before.read_bytes,
			     200 * IO);
		down();
	}
}

/* Two workers, 64 chunks: each sequential worker covers its half once. */
Test(bench, sequential_writes_touch_exactly_the_object)
{
	struct hr_blk *blk;
	uint8_t *disk = malloc(RIG_DISK_BYTES);

	cr_assert_not_null(disk);
	up("lba=4096,mdts=1");
	blk = &rig.ssd[0].disk.blk;
	memset(buffer[0].data, 0xee, WORKERS * DEPTH * IO);
	bench.write = 1;
	bench.max_commands = 32;
	run();
	cr_assert_eq(blk->ops->read(blk, 0, disk, RIG_DISK_BYTES, NULL), 0);
	for (size_t i = 0; i < RIG_DISK_BYTES; i++)
		cr_assert_eq(disk[i], i / 4096 >= 256 && i / 4096 < 256 + 128 ? 0xee : 0,
			     "byte %zu", i);
	down();
	free(disk);
}

Test(bench, the_bench_ends_after_its_time_or_at_a_stop)
{
	const uint64_t began = hr_now_ns();

	up("lba=4096,mdts=1");
	bench.duration_ns = 50 * HR_NS_PER_MS;
	run();
	cr_expect_geq(hr_now_ns() - began, 50 * HR_NS_PER_MS);
	cr_expect_gt(measured(0), 0);
	down();
	up("lba=4096,mdts=1");
	stop = 1;
	run();
	cr_expect_leq(measured(0), DEPTH);
	down();
}

Test(bench, latencies_are_counted_in_the_bucket_with_enclosing_limits)
{
	uint64_t last = 0;

	for (uint32_t i = 1; i < HR_BENCH_BUCKETS; i++) {
		cr_assert_geq(hr_bench_bucket_ns(i), last);
		last = hr_bench_bucket_ns(i);
	}
	cr_expect_eq(hr_bench_bucket_ns(31), 31);
	cr_expect_eq(hr_bench_bucket_ns(32), 32);
	cr_expect_eq(hr_bench_bucket_ns(63), 63);
	cr_expect_eq(hr_bench_bucket_ns(64), 64);
	cr_expect_eq(hr_bench_bucket_ns(65), 66);
	cr_expect_eq(hr_bench_bucket_ns(256), 4096);
	cr_expect_eq(hr_bench_bucket_ns(257), 4224);
	cr_expect_eq(hr_bench_bucket_ns(HR_BENCH_BUCKETS - 1), 67645734912); /* 63 << 30 */
}
