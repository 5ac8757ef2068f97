/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pipelines over a software controller with scripted faults: the reported failure, the written
 * data, and that every run ends. Stop requests and resumed runs.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <nvme/types.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/base/clock.h"
#include "gpu/backend.h"
#include "config/base/log.h"
#include "nvme/soft/soft.h"
#include "tests/fakes/clock.h"
#include "tests/harness/operators.h"
#include "tests/harness/random.h"
#include "tests/harness/rig.h"

#define ROWS(table) (sizeof(table) / sizeof(*(table)))
#define TIMEOUT_NS (20 * HR_NS_PER_S)
#define LOST_TIMEOUT_NS (5 * HR_NS_PER_S) /* deadline of commands in tests that wait for it */
#define HELD "delay 600s"		  /* longer than any test; skip_held() ends it */
#define HELD_TIMEOUT_NS (2000 * HR_NS_PER_S)
#define LBA 4096u
#define TILE (4 * LBA) /* with mdts=1: two commands of two blocks */
#define TILES 12u
#define BYTES (TILES * TILE)
#define SOURCE_LBA 0u
#define SINK_LBA (RIG_SINK_AT / LBA)

TestSuite(pipeline_faults, .timeout = 120);

static struct rig rig;
static uint8_t data[BYTES];

/* Controllers with a fault script, and new data. */
static void up_with(uint32_t ssds, const char *script, uint32_t entries, uint64_t timeout_ns)
{
	struct fake_random random = { fake_random_seed("pipeline_faults") };

	rig_up_faulty(&rig, ssds, "lba=4096,mdts=1", script, entries, timeout_ns);
	fake_random_fill(&random, data, BYTES);
}

static void up(uint32_t ssds, const char *script, uint64_t timeout_ns)
{
	up_with(ssds, script, 32, timeout_ns);
}

static struct rig_work copy_work(uint32_t slots, uint32_t blocks)
{
	const struct rig_work work = { .op = HR_OP_copy,
				       .sources = 1,
				       .in = { data },
				       .bytes = { BYTES },
				       .tile_bytes = { TILE },
				       .slots = slots,
				       .blocks = { blocks, blocks, blocks } };

	return work;
}

static void run(const struct rig_work *work)
{
	rig_start(&rig, work);
	rig_wait(&rig);
}

/*
 * The sink holds the source up to `bytes`. After that each tile is either the source or the
 * previous data.
 */
static void check_sink(uint64_t bytes)
{
	uint8_t *sink = rig_read_sink(&rig, BYTES), poison[LBA];

	cr_assert(memcmp(sink, data, bytes) == 0, "of the first %llu bytes some are wrong",
		  (unsigned long long)bytes);
	memset(poison, RIG_POISON, LBA);
	for (uint64_t at = bytes; at < BYTES; at += LBA)
		cr_assert(memcmp(sink + at, poison, LBA) == 0 ||
			  memcmp(sink + at, data + at, LBA) == 0);
	free(sink);
}

/* The controller completes the commands that it holds. */
static void skip_held(void)
{
	fake_clock_skip(601 * HR_NS_PER_S);
}

static const struct hr_failure *failed_with(int error)
{
	const struct hr_failure *failure = rig_failure(&rig);

	cr_assert_not_null(failure, "expected error %d, nothing has failed", error);
	cr_assert_eq(failure->error, error, "%d", failure->error);
	return failure;
}

/* Tile 5 has the blocks 20 to 23 of the object; its second command begins with block 22. */
Test(pipeline_faults, a_failing_read_names_object_tile_and_lba)
{
	const struct hr_failure *failure;
	struct rig_work work;

	up(1, "on read lba 22 count 1000: status 0x281\n", TIMEOUT_NS);
	for (uint32_t slots = 1; slots <= 8; slots++) {
		work = copy_work(slots, slots < 4 ? slots : 4);
		run(&work);
		failure = failed_with(0x281);
		cr_expect_eq(failure->role, HR_ROLE_PREFETCH);
		cr_expect_eq(failure->source, 0);
		cr_expect_eq(failure->object, RIG_OBJECT_ID(0));
		cr_expect_eq(failure->tile, 5);
		cr_expect_eq(failure->lba, SOURCE_LBA + 22);
		cr_expect_eq(failure->opcode, nvme_cmd_read);
		cr_expect_neq(failure->qid, 0);
		cr_expect_leq(hr_pipe_final_prefix(rig.pipe, rig.pipe->slot), 5);
		check_sink(hr_pipe_final_prefix(rig.pipe, rig.pipe->slot) * TILE);
	}
	rig_down(&rig);
}

/* Source 1 starts at block 256 of the second ssd; its tiles have two blocks. A broken queue names the
 * first source that is read over it. */
Test(pipeline_faults, a_failing_column_is_named)
{
	static const struct {
		const char *script;
		int error;
		uint64_t tile, lba;
	} row[] = {
		{ "on read lba 259 count 1000: status 0x281\n", 0x281, 1, 258 },
		{ "on read lba 259: wrong-cid 0xffff\n", -EPROTO, HR_NO_TILE, 0 },
	};
	struct rig_work work = { .op = HR_OP_filter_sum,
				 .args = "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
				 .args_bytes = 20,
				 .sources = 4,
				 .slots = 3,
				 .blocks = { 2, 1, 1 } };

	for (uint32_t s = 0; s < 4; s++) {
		work.in[s] = data;
		work.bytes[s] = s == 3 ? BYTES : BYTES / 2;
		work.tile_bytes[s] = s == 3 ? TILE : TILE / 2;
	}
	for (size_t i = 0; i < ROWS(row); i++) {
		const struct hr_failure *failure;

		up(2, row[i].script, TIMEOUT_NS);
		run(&work);
		failure = failed_with(row[i].error);
		cr_expect_eq(failure->source, 1, "%s", row[i].script);
		cr_expect_eq(failure->object, RIG_OBJECT_ID(1), "%s", row[i].script);
		cr_expect_eq(failure->tile, row[i].tile, "%s", row[i].script);
		cr_expect_eq(failure->lba, row[i].lba, "%s", row[i].script);
		rig_down(&rig);
	}
}

static uint64_t failed_commands(void)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < rig.pipe->blocks[HR_ROLE_PREFETCH]; i++)
		sum += rig.pipe->read_qp[i].stats.failed;
	return sum;
}

/* Commands that fail are sent again some times; not with DNR, and not after a pause that exceeds the
 * deadline of the command. */
Test(pipeline_faults, a_read_that_stays_bad_has_its_tries)
{
	static const struct {
		const char *script;
		uint64_t timeout_ns;
		int error;
		uint64_t tries_min, tries_max;
	} row[] = {
		{ "on read lba 20 count 100000: status 0x021\n", LOST_TIMEOUT_NS, 0x21, 2, 99 },
		{ "on read lba 20 count 100000: status 0x281\n", TIMEOUT_NS, 0x281,
		  1 + HR_MEDIA_RETRIES, 1 + HR_MEDIA_RETRIES },
		{ "on read lba 20: status 0x021 crd 3\n", TIMEOUT_NS, 0x21, 1, 1 },
		{ "on read lba 20: status 0x021 dnr\n", TIMEOUT_NS, 0x21, 1, 1 },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		const struct rig_work work = copy_work(1, 1);

		up(1, row[i].script, row[i].timeout_ns);
		run(&work);
		cr_expect_eq(failed_with(row[i].error)->tile, 5, "%s", row[i].script);
		cr_expect_geq(failed_commands(), row[i].tries_min, "%s", row[i].script);
		cr_expect_leq(failed_commands(), row[i].tries_max, "%s", row[i].script);
		rig_down(&rig);
	}
}

/* The controller requests 100 ms before each repetition; other tiles continue meanwhile. */
Test(pipeline_faults, a_delay_that_the_controller_asks_for_is_kept)
{
	struct rig_work work = copy_work(3, 1);
	uint64_t began;

	up(1, "on read lba 20 count 2: status 0x021 crd 1\n", TIMEOUT_NS);
	began = hr_now_ns();
	run(&work);
	cr_expect_geq(hr_now_ns() - began, 200 * HR_NS_PER_MS);
	cr_expect_null(rig_failure(&rig));
	check_sink(BYTES);
	rig_down(&rig);
}

/* One read fails permanently while another waits to be sent again: the run ends. */
Test(pipeline_faults, a_failure_ends_commands_that_wait_to_be_sent_again)
{
	struct rig_work work = copy_work(4, 1);

	up(1, "on read lba 4 count 1000: status 0x021 crd 2\non read lba 20: status 0x281 dnr\n",
	   TIMEOUT_NS);
	run(&work);
	cr_expect_not_null(rig_failure(&rig));
	for (uint32_t i = 0; i < work.slots; i++)
		cr_expect_eq(rig.pipe->slot[i].state, HR_SLOT_CLOSED);
	rig_down(&rig);
}

Test(pipeline_faults, a_lost_completion_ends_in_a_timeout_that_names_the_command)
{
	const struct hr_failure *failure;
	struct rig_work work = copy_work(3, 1);

	up(1, "on read lba 20: drop\n", LOST_TIMEOUT_NS);
	run(&work);
	failure = failed_with(-ETIMEDOUT);
	cr_expect_eq(failure->role, HR_ROLE_PREFETCH);
	cr_expect_eq(failure->tile, 5);
	cr_expect_eq(failure->lba, 20);
	cr_expect_eq(failure->opcode, nvme_cmd_read);
	cr_expect_eq(rig.pipe->read_qp[0].stats.lost, 1);
	cr_expect_eq(failure->qid, rig.pipe->read_qp[0].id);
	rig_down(&rig);
}

/* The record of a broken queue names no tile and no command. */
static void expect_broken_queue(const struct hr_nvme_qp *qp)
{
	const struct hr_failure *failure = failed_with(-EPROTO);

	cr_expect_eq(qp->error, -EPROTO);
	cr_expect_eq(failure->role, HR_ROLE_PREFETCH);
	cr_expect_eq(failure->object, RIG_OBJECT_ID(0));
	cr_expect_eq(failure->tile, HR_NO_TILE);
	cr_expect_eq(failure->lba, 0);
	cr_expect_eq(failure->qid, qp->id);
	cr_expect_eq(failure->cid, 0);
	cr_expect_eq(failure->opcode, nvme_cmd_read);
}

Test(pipeline_faults, an_impossible_completion_breaks_the_queue_and_ends_the_run)
{
	static const char *const script[] = {
		"on read lba 20: wrong-cid 0xffff\n",
		"on read lba 20: bad-sqhd 0xfff0\n",
	};

	for (size_t i = 0; i < ROWS(script); i++) {
		struct rig_work work = copy_work(3, 1);

		up(1, script[i], TIMEOUT_NS);
		run(&work);
		expect_broken_queue(&rig.pipe->read_qp[0]);
		rig_down(&rig);
	}
}

/* The controller disappears during the run: sent commands expire, and the run ends. */
Test(pipeline_faults, a_device_that_leaves_ends_the_run)
{
	struct rig_work work = copy_work(4, 2);

	up(1, "on read lba 20: remove\n", LOST_TIMEOUT_NS);
	rig_start(&rig, &work);
	while (hr_launch_poll(rig.launch, NULL) == 0)
		hr_wait_ns(HR_NS_PER_MS);
	failed_with(-ETIMEDOUT);
	for (uint32_t i = 0; i < hr_pipe_statuses(rig.pipe); i++)
		cr_expect_eq(hr_acquire_u32(&rig.pipe->status[i].ended), 1);
	hr_health_fault(&rig.ssd[0].health, HR_FAULT_UNKNOWN_QUEUES, NULL, -EIO, NULL);
	hr_ssd_delete_qps(&rig.ssd[0]);
	rig_down(&rig);
}

/* While one slot waits for its first tile, the other slots process all other tiles. */
Test(pipeline_faults, a_slow_read_holds_up_no_other_slot)
{
	const struct rig_work work = copy_work(3, 3);
	uint64_t least = TILES, most = 0;

	up(1, "on read lba 0: " HELD "\n", HELD_TIMEOUT_NS);
	rig_start(&rig, &work);
	while (rig_tiles(&rig, HR_ROLE_WRITEBACK) < TILES - 1)
		hr_wait_ns(HR_NS_PER_MS);
	skip_held();
	rig_wait(&rig);
	cr_assert_null(rig_failure(&rig));
	check_sink(BYTES);
	cr_expect_eq(hr_pipe_final_prefix(rig.pipe, rig.pipe->slot), TILES);
	for (uint32_t i = 0; i < work.blocks[HR_ROLE_COMPUTE]; i++) {
		const uint32_t first = hr_pipe_first_status(rig.pipe, HR_ROLE_COMPUTE);
		const uint64_t tiles = rig.pipe->status[first + i].tiles;

		least = tiles < least ? tiles : least;
		most = tiles > most ? tiles : most;
	}
	cr_expect_leq(least, 1, "the block of that slot computes no other tile");
	cr_expect_gt(most, TILES / 3);
	rig_down(&rig);
}

static struct rig_work long_copy_work(void)
{
	static uint8_t more[60 * TILE];
	struct rig_work work = copy_work(8, 1);

	work.in[0] = more;
	work.bytes[0] = sizeof more;
	return work;
}

/* Data written before a failure count, except for tiles that slots were about to read or write. */
Test(pipeline_faults, a_late_failure_keeps_the_data_written_before)
{
	static const char *const command[] = { "read", "write" };
	const struct rig_work work = long_copy_work();
	char script[64];

	for (uint32_t i = 0; i < ROWS(command); i++) {
		const uint64_t lba = (i ? SINK_LBA : SOURCE_LBA) + 200; /* first block of tile 50 */
		uint64_t written;

		/* The first write is the rig's own. */
		snprintf(script, sizeof script, "on %s lba %llu nth %u: status 0x281 dnr\n",
			 command[i], (unsigned long long)lba, 1 + i);
		up(1, script, TIMEOUT_NS);
		run(&work);
		cr_expect_eq(failed_with(0x281)->tile, 50);
		written = hr_pipe_final_prefix(rig.pipe, rig.pipe->slot);
		cr_expect(written <= 50 && written >= 50 - 2 * work.slots, "%s: %llu", command[i],
			  (unsigned long long)written);
		rig_down(&rig);
	}
}

/* Run; returns the most tiles by which the count of written tiles was behind the written tiles. On
 * a busy machine the looks are few. */
static uint64_t run_and_look(const struct rig_work *work)
{
	uint64_t behind = 0;

	rig_start(&rig, work);
	while (hr_launch_poll(rig.launch, NULL) == 0) {
		const uint64_t done = rig_tiles(&rig, HR_ROLE_WRITEBACK);
		const uint64_t written = hr_pipe_written_prefix(rig.pipe, rig.pipe->written);

		if (done > written && done - written > behind)
			behind = done - written;
		hr_wait_ns(20000);
	}
	rig_wait(&rig);
	cr_assert_null(rig_failure(&rig));
	cr_expect_eq(hr_pipe_final_prefix(rig.pipe, rig.pipe->slot), 60);
	return behind;
}

/*
 * The queues have less room than the slots need. All slots make progress, so that the count of
 * written tiles follows the written tiles.
 */
Test(pipeline_faults, slots_take_turns_when_queues_are_full)
{
	static const char *const script[] = { "on read count 1000000: delay 300us\n",
					      "on write count 1000000: delay 300us\n" };
	const struct rig_work work = long_copy_work();

	for (uint32_t i = 0; i < ROWS(script); i++) {
		uint64_t behind = 0;

		up_with(1, script[i], 6, TIMEOUT_NS);
		for (uint32_t turn = 0; turn < 100 && !behind; turn++)
			behind = run_and_look(&work);
		cr_expect_gt(behind, 0);
		cr_expect_leq(behind, 2 * work.slots, "%s: %llu", script[i],
			      (unsigned long long)behind);
		rig_down(&rig);
	}
}

/*
 * Stop at any moment: exactly the written tiles count as written, and a second run completes the
 * rest. On a busy machine a run may end before its stop; a stop in the middle that depends on no
 * time is in pipeline_repeats.
 */
Test(pipeline_faults, a_stopped_run_resumes_at_its_last_written_tile)
{
	up(1, "on write count 1000000: delay 300us\n", TIMEOUT_NS);
	for (uint32_t turn = 0; turn < TILES; turn++) {
		struct rig_work work = copy_work(1 + turn % 5, 1);
		uint64_t written;

		rig_start(&rig, &work);
		while (turn && hr_pipe_written_prefix(rig.pipe, rig.pipe->written) < turn &&
		       hr_launch_poll(rig.launch, NULL) == 0)
			hr_wait_ns(50000);
		hr_release_sys_u32(&rig.pipe->control->stop, 1);
		rig_wait(&rig);
		cr_assert_null(rig_failure(&rig));
		written = hr_pipe_final_prefix(rig.pipe, rig.pipe->slot);
		cr_assert_eq(rig_tiles(&rig, HR_ROLE_WRITEBACK), rig_tiles(&rig, HR_ROLE_COMPUTE));
		cr_assert_eq(rig_tiles(&rig, HR_ROLE_WRITEBACK), written);
		check_sink(written * TILE);

		work.first_tile = written;
		work.slots = 1 + (turn + 2) % 6;
		work.keep_sink = true;
		run(&work);
		cr_assert_null(rig_failure(&rig));
		cr_assert_eq(hr_pipe_final_prefix(rig.pipe, rig.pipe->slot), TILES);
		cr_assert_eq(rig_tiles(&rig, HR_ROLE_COMPUTE), TILES - written);
		check_sink(BYTES);
	}
	rig_down(&rig);
}

/* Prefetch worker 0 reads the host's stop flag in the rounds in which it writes its heartbeat. */
static void wait_for_beats(unsigned count)
{
	const uint64_t *beat = &rig.pipe->status[0].heartbeat;

	for (uint64_t last = hr_acquire_sys_u64(beat); count; hr_wait_ns(50000)) {
		const uint64_t now = hr_acquire_sys_u64(beat);

		count -= now != last;
		last = now;
	}
}

/* finish() sees all tiles, or does not run. */
Test(pipeline_faults, a_stopped_reduction_has_no_result)
{
	struct rig_work work = copy_work(2, 1);
	struct hr_soft_stats stats;

	up(1, "on read lba 16-23 count 4: " HELD "\n", HELD_TIMEOUT_NS); /* tiles 4 and 5 */
	work.op = HR_OP_crc32c;
	rig_start(&rig, &work);
	do {
		hr_wait_ns(50000);
		hr_soft_stats(&rig.ssd[0].transport, &stats);
	} while (stats.reads < 12 || rig_tiles(&rig, HR_ROLE_COMPUTE) < 4);
	hr_release_sys_u32(&rig.pipe->control->stop, 1);
	wait_for_beats(2);
	skip_held();
	rig_wait(&rig);
	cr_assert_lt(rig_tiles(&rig, HR_ROLE_COMPUTE), TILES);
	cr_expect_eq(((struct hr_crc32c_result *)(void *)rig.pipe->op_result)->crc, 0);
	rig_down(&rig);
}

/*
 * Completions in another order, twice, and late. Each reordered completion has another one to
 * follow.
 */
Test(pipeline_faults, completions_in_any_order_give_the_same_result)
{
	struct rig_work work = copy_work(6, 2);
	char script[320];

	snprintf(script, sizeof script,
		 "on read lba 4: reorder\non read lba 12: reorder\non read lba 16: duplicate\n"
		 "on read lba 26: duplicate\non read lba 32: delay 3ms\n"
		 "on write lba %llu nth 2: reorder\non write lba %llu nth 2: duplicate\n"
		 "on write lba %llu nth 2: delay 3ms\n",
		 (unsigned long long)SINK_LBA + 8, (unsigned long long)SINK_LBA + 20,
		 (unsigned long long)SINK_LBA + 24);
	up(1, script, TIMEOUT_NS);
	run(&work);
	cr_expect_null(rig_failure(&rig));
	check_sink(BYTES);
	rig_down(&rig);
}
