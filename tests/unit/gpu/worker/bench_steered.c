/* SPDX-License-Identifier: Apache-2.0 */
/* The measuring worker, against a disk that follows PRPs and a clock that the test controls. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/worker/bench.h"
#include "tests/fakes/clock.h"
#include "tests/fakes/target.h"

#define ROWS(table) (sizeof(table) / sizeof(*(table)))
#define LBA_SHIFT 9u
#define IO_BYTES 8192u
#define CHUNKS 24u /* of the object, for all workers together */
#define OBJECT_AT ((uint64_t)4 * IO_BYTES)
#define DISK_BYTES (OBJECT_AT + (CHUNKS + 4ull) * IO_BYTES)
#define DEPTH_MAX 8u
#define MARK 0xeeu
#define STATUS_UNRECOVERED 0x281

static struct target t;
static struct hr_bench bench;
static struct hr_nvme_qp qps[3];
static struct hr_buffer buffers[3 * DEPTH_MAX];
static struct hr_prp chunks[3 * DEPTH_MAX];
static struct hr_bench_sent sent[3 * DEPTH_MAX];
static struct hr_worker_status status[3];
static uint32_t stop;
static uint64_t latency[3 * HR_BENCH_BUCKETS];
static uint8_t *disk_before;
static uint32_t break_after; /* commands; then the target behaves as break_with says */
static enum { BREAK_NOTHING, BREAK_STATUS, BREAK_LOST, BREAK_CID, BREAK_STOP } break_with;

TestSuite(bench_steered, .timeout = 120);

static void step(void *context)
{
	struct hr_cqe cqe = { .sqid = t.qp.id, .cid = UINT16_MAX };

	if (break_with != BREAK_NOTHING && t.commands == break_after) {
		t.status = STATUS_UNRECOVERED;
		t.failures = break_with == BREAK_STATUS;
		t.lose = break_with == BREAK_LOST;
		if (break_with == BREAK_STOP)
			hr_release_sys_u32(&stop, 1);
		if (break_with == BREAK_CID)
			peer_post(&t.peer, cqe);
		break_with = BREAK_NOTHING;
	}
	target_step(&t);
}

/* Block `block` of `blocks`, `depth` commands at a time; each buffer is filled with MARK. */
static void make(uint32_t blocks, uint32_t block, uint32_t depth, uint32_t pattern, bool write)
{
	const uint32_t count = depth * blocks, pages = IO_BYTES / HR_PAGE;

	target_init(&t, 64, count * pages, DISK_BYTES, LBA_SHIFT, IO_BYTES);
	qps[block] = t.qp;
	t.peer.qp = &qps[block];
	disk_before = malloc(DISK_BYTES);
	cr_assert_not_null(disk_before);
	memcpy(disk_before, t.disk, DISK_BYTES);
	for (uint32_t i = 0; i < count; i++)
		hr_buffer_init(&buffers[i], &t.region, (size_t)i * IO_BYTES, IO_BYTES, IO_BYTES,
			       NULL, 0, &chunks[i]);
	memset(t.region.cpu, MARK, t.region.bytes);
	stop = 0;
	memset(status, 0, sizeof status);
	memset(latency, 0, sizeof latency);
	bench = (struct hr_bench){ .extent = { .id = 5,
					       .lba = OBJECT_AT >> LBA_SHIFT,
					       .bytes = CHUNKS * IO_BYTES,
					       .capacity = CHUNKS * IO_BYTES,
					       .nsid = TARGET_NSID,
					       .lba_shift = LBA_SHIFT,
					       .chunk_bytes = IO_BYTES },
				   .write = write,
				   .pattern = pattern,
				   .io_bytes = IO_BYTES,
				   .depth = depth,
				   .blocks = blocks,
				   .workers = 1,
				   .duration_ns = 1000000,
				   .seed = 7,
				   .qp = qps,
				   .buffer = buffers,
				   .status = status,
				   .stop = &stop,
				   .sent = sent,
				   .latency = latency };
	break_with = BREAK_NOTHING;
	fake_clock_start(1, step, NULL);
}

static void unmake(void)
{
	fake_clock_stop();
	target_fini(&t);
	free(disk_before);
}

/* Number of completely written chunks of the object; the rest of the disk must be unchanged. */
static uint32_t written(uint32_t *first)
{
	uint32_t count = 0;

	*first = CHUNKS;
	for (uint64_t at = 0; at < DISK_BYTES; at += IO_BYTES) {
		const uint64_t chunk = (at - OBJECT_AT) / IO_BYTES;
		bool all = at >= OBJECT_AT && chunk < CHUNKS;

		for (uint32_t i = 0; all && i < IO_BYTES; i++)
			all = t.disk[at + i] == MARK;
		if (!all) {
			cr_assert_eq(memcmp(t.disk + at, disk_before + at, IO_BYTES), 0,
				     "byte %llu", (unsigned long long)at);
			continue;
		}
		*first = count++ ? *first : (uint32_t)chunk;
	}
	return count;
}

static uint64_t latencies(uint32_t block)
{
	uint64_t count = 0;

	for (uint32_t i = 0; i < HR_BENCH_BUCKETS; i++)
		count += latency[block * HR_BENCH_BUCKETS + i];
	return count;
}

Test(bench_steered, each_worker_goes_through_its_own_share_in_order)
{
	static const struct {
		uint32_t blocks, block, depth, commands, want, first;
	} row[] = {
		{ 1, 0, 1, 5, 5, 0 },	      { 1, 0, 4, CHUNKS, CHUNKS, 0 }, { 3, 0, 1, 8, 8, 0 },
		{ 3, 2, 4, 7, 7, 16 },	      { 3, 1, 8, 8, 8, 8 },	      { 3, 1, 8, 30, 8, 8 },
		{ 1, 0, DEPTH_MAX, 3, 3, 0 },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		uint32_t first;

		make(row[i].blocks, row[i].block, row[i].depth, HR_BENCH_SEQUENTIAL, true);
		bench.max_commands = row[i].commands;
		hr_bench_block(&bench, row[i].block);
		cr_expect_eq(written(&first), row[i].want, "row %zu", i);
		cr_expect_eq(first, row[i].first, "row %zu", i);
		cr_expect_eq(t.commands, row[i].commands, "row %zu: %u", i, t.commands);
		cr_expect_eq(status[row[i].block].tiles, (uint64_t)row[i].commands);
		cr_expect_eq(status[row[i].block].bytes, (uint64_t)row[i].commands * IO_BYTES);
		cr_expect_eq(status[row[i].block].ended, 1u);
		cr_expect_eq(status[row[i].block].failed, 0u);
		unmake();
	}
}

Test(bench_steered, random_commands_stay_in_the_object_and_reach_most_blocks)
{
	uint32_t first, reached;

	make(2, 1, 4, HR_BENCH_RANDOM, true);
	bench.max_commands = (uint64_t)4 * CHUNKS;
	hr_bench_block(&bench, 1);
	reached = written(&first);
	cr_expect_gt(reached, CHUNKS * 3 / 4, "%u", reached);
	cr_expect_lt(first, CHUNKS / 2, "not only the worker's share");
	unmake();
}

Test(bench_steered, reads_leave_the_disk_unchanged)
{
	uint32_t first;

	make(1, 0, 4, HR_BENCH_SEQUENTIAL, false);
	bench.max_commands = 4;
	hr_bench_block(&bench, 0);
	cr_expect_eq(written(&first), 0u);
	cr_expect_eq(memcmp(t.region.cpu, t.disk + OBJECT_AT, (size_t)4 * IO_BYTES), 0);
	unmake();
}

Test(bench_steered, single_reads_of_a_page_come_in_turn_and_are_copied)
{
	static uint8_t landing[HR_PAGE] __attribute__((aligned(16)));

	for (uint32_t commands = 1; commands < 200; commands += 33) {
		const uint64_t last = (commands - 1) % (2 * CHUNKS) * HR_PAGE;

		make(1, 0, 1, HR_BENCH_SEQUENTIAL, false);
		bench.io_bytes = HR_PAGE;
		bench.landing = landing;
		bench.max_commands = commands;
		hr_bench_block(&bench, 0);
		cr_expect_eq(status[0].failed, 0u);
		cr_expect_eq(t.commands, commands, "%u commands: %u", commands, t.commands);
		cr_expect_eq(status[0].tiles, commands);
		cr_expect_eq(latencies(0), commands);
		cr_expect_eq(qps[0].stats.completed, commands);
		cr_expect_eq(qps[0].stats.batches, commands);
		cr_expect_eq(hr_qp_outstanding(&qps[0]), 0u);
		cr_expect_eq(sent[0].offset, last, "%u commands", commands);
		cr_expect_eq(memcmp(landing, t.disk + OBJECT_AT + last, HR_PAGE), 0, "%u commands",
			     commands);
		unmake();
	}
}

Test(bench_steered, single_reads_at_random_stay_in_the_object)
{
	static bool read[2 * CHUNKS];
	uint32_t reached = 0;

	for (uint32_t commands = 1; commands < 100; commands++) {
		make(1, 0, 1, HR_BENCH_RANDOM, false);
		bench.io_bytes = HR_PAGE;
		bench.max_commands = commands;
		hr_bench_block(&bench, 0);
		cr_assert_eq(t.commands, commands);
		cr_assert_lt(sent[0].offset / HR_PAGE, 2 * CHUNKS);
		reached += !read[sent[0].offset / HR_PAGE];
		read[sent[0].offset / HR_PAGE] = true;
		unmake();
	}
	cr_expect_gt(reached, CHUNKS, "%u", reached);
}

/* The target answers 5 us after a command was sent, so the worker sleeps that long. */
Test(bench_steered, a_timed_bench_ends_in_time_and_counts_latencies)
{
	uint32_t bucket = 0;
	uint64_t ended;

	make(1, 0, 4, HR_BENCH_RANDOM, false);
	bench.duration_ns = 100000;
	hr_bench_block(&bench, 0);
	ended = hr_clock_ns();
	cr_expect_geq(ended, 1 + bench.duration_ns);
	cr_expect_leq(ended, 1 + bench.duration_ns + 5000, "%llu", (unsigned long long)ended);
	cr_expect_eq(t.commands, 4u * 20, "%u", t.commands);
	while (hr_bench_bucket_ns(bucket + 1) <= 5000)
		bucket++;
	cr_expect_eq(latency[bucket], 4u * 20, "bucket %u", bucket);
	cr_expect_eq(latencies(0), 4u * 20);
	cr_expect_eq(hr_qp_outstanding(&qps[0]), 0u);
	unmake();
}

Test(bench_steered, a_failing_command_ends_the_bench_and_is_named)
{
	static const struct {
		int with, want;
		bool write;
		uint32_t io_bytes; /* a page: the way of single reads */
	} row[] = {
		{ BREAK_STATUS, STATUS_UNRECOVERED, false, IO_BYTES },
		{ BREAK_STATUS, STATUS_UNRECOVERED, true, IO_BYTES },
		{ BREAK_LOST, -ETIMEDOUT, false, IO_BYTES },
		{ BREAK_LOST, -ETIMEDOUT, true, IO_BYTES },
		{ BREAK_STATUS, STATUS_UNRECOVERED, false, HR_PAGE },
		{ BREAK_LOST, -ETIMEDOUT, false, HR_PAGE },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		const struct hr_failure *failure = &status[0].failure;

		make(1, 0, 1, HR_BENCH_SEQUENTIAL, row[i].write);
		bench.io_bytes = row[i].io_bytes;
		break_with = (typeof(break_with))row[i].with;
		break_after = 5;
		hr_bench_block(&bench, 0);
		cr_expect_eq(status[0].failed, 1u, "row %zu", i);
		cr_expect_eq(failure->error, row[i].want, "row %zu: %d", i, failure->error);
		cr_expect_eq(failure->lba, (OBJECT_AT + (uint64_t)5 * row[i].io_bytes) >> LBA_SHIFT,
			     "row %zu", i);
		cr_expect_eq(failure->object, 5u);
		cr_expect_eq(failure->qid, qps[0].id);
		cr_expect_eq(failure->cid, t.last.cid);
		cr_expect_eq(failure->opcode, t.last.opcode);
		cr_expect_eq(failure->role,
			     (uint32_t)(row[i].write ? HR_ROLE_WRITEBACK : HR_ROLE_PREFETCH));
		cr_expect_eq(t.commands, 6u, "row %zu: nothing is sent after it", i);
		cr_expect_eq(latencies(0), 5u);
		cr_expect_eq(stop, 1u);
		cr_expect_eq(status[0].ended, 1u);
		unmake();
	}
}

Test(bench_steered, a_broken_queue_ends_the_bench)
{
	make(1, 0, 4, HR_BENCH_SEQUENTIAL, false);
	break_with = BREAK_CID;
	break_after = 4;
	hr_bench_block(&bench, 0);
	cr_expect_eq(status[0].failed, 1u);
	cr_expect_eq(status[0].failure.error, -EPROTO, "%d", status[0].failure.error);
	cr_expect_eq(status[0].ended, 1u);
	unmake();
}

Test(bench_steered, a_stop_ends_the_bench_without_failure)
{
	make(1, 0, 4, HR_BENCH_SEQUENTIAL, false);
	break_with = BREAK_STOP;
	break_after = 8;
	hr_bench_block(&bench, 0);
	cr_expect_eq(status[0].failed, 0u);
	cr_expect_eq(status[0].tiles, 12u, "what was out comes back: %llu",
		     (unsigned long long)status[0].tiles);
	cr_expect_eq(hr_qp_outstanding(&qps[0]), 0u);
	cr_expect_eq(status[0].ended, 1u);
	unmake();
}

/* ---- copies between buffers and the gpu's memory, and the cost of commands */

Test(bench_steered, reads_are_copied_to_the_place_of_their_buffer)
{
	for (uint32_t depth = 1; depth <= 5; depth += 2) {
		const size_t bytes = (size_t)depth * IO_BYTES;
		uint8_t *landing = aligned_alloc(64, 2 * bytes);

		make(2, 1, depth, HR_BENCH_SEQUENTIAL, false);
		memset(landing, 0, 2 * bytes);
		bench.landing = landing;
		bench.max_commands = depth;
		hr_bench_block(&bench, 1);
		cr_expect_eq(t.commands, depth);
		/* each command in the buffer of its number, from the second half of the object on */
		cr_expect_eq(memcmp(landing + bytes,
				    t.disk + OBJECT_AT + (size_t)CHUNKS / 2 * IO_BYTES, bytes),
			     0, "depth %u", depth);
		for (size_t i = 0; i < bytes; i++)
			cr_assert_eq(landing[i], 0); /* of the other worker */
		unmake();
		free(landing);
	}
}

Test(bench_steered, writes_come_from_the_place_of_their_buffer)
{
	for (uint32_t depth = 1; depth <= 5; depth += 2) {
		const size_t bytes = (size_t)depth * IO_BYTES;
		uint8_t *landing = aligned_alloc(64, bytes);

		make(1, 0, depth, HR_BENCH_SEQUENTIAL, true);
		for (size_t i = 0; i < bytes; i++)
			landing[i] = (uint8_t)(i * 5 + i / 4096);
		bench.landing = landing;
		bench.max_commands = depth;
		hr_bench_block(&bench, 0);
		cr_expect_eq(memcmp(landing, t.disk + OBJECT_AT, bytes), 0, "depth %u", depth);
		cr_expect_eq(t.disk[OBJECT_AT + bytes], disk_before[OBJECT_AT + bytes]);
		unmake();
		free(landing);
	}
}

/* Buffers are used first when they are new: these rounds have no completed command. */
Test(bench_steered, rounds_with_completed_commands_are_counted)
{
	for (uint32_t single = 0; single < 2; single++) {
		struct hr_bench_cost cost[2] = { { 0 }, { .send_cycles = 5, .rounds = 7 } };

		make(2, 1, single ? 1 : 4, HR_BENCH_SEQUENTIAL, false);
		bench.io_bytes = single ? HR_PAGE : IO_BYTES;
		bench.max_commands = 9;
		bench.cost = cost;
		hr_bench_block(&bench, 1);
		cr_expect_eq(cost[1].commands, 9);
		cr_expect_eq(cost[1].rounds, 7 + 9);
		cr_expect(cost[1].reap_cycles == 0 && cost[1].send_cycles == 5);
		cr_expect(cost[0].commands == 0 && cost[0].rounds == 0);
		cr_expect_eq(status[1].heartbeat, 1);
		cr_expect_eq(status[0].heartbeat, 0);
		unmake();
	}
}

Test(bench_steered, a_command_that_cannot_be_sent_ends_the_bench)
{
	make(1, 0, 2, HR_BENCH_SEQUENTIAL, false);
	bench.io_bytes = IO_BYTES + 512; /* more than a chunk of the buffer */
	hr_bench_block(&bench, 0);
	cr_expect_eq(status[0].failed, 1);
	cr_expect_eq(status[0].failure.error, -EINVAL);
	cr_expect_eq(status[0].failure.lba, OBJECT_AT >> LBA_SHIFT); /* the first one, only */
	cr_expect(t.commands == 0 && status[0].tiles == 0 && status[0].ended == 1);
	cr_expect_eq(status[0].failure.cid, 0);
	unmake();
}
