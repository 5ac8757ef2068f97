/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commands that are sent again, flushes, and the ends of runs in which some commands still wait:
 * retries are counted per tile, deadlines cover all retries, and no command is left behind.
 */
#include "tests/harness/writes.h"

TestSuite(pipeline_repeats, .timeout = 120);

/* ---- repetitions */

/* Each tile has its own retries: all tiles fail as often as allowed, and the run succeeds. */
Test(pipeline_repeats, tries_are_counted_tile_by_tile)
{
	static const char *const kind[] = { "write", "read" };

	for (uint32_t i = 0; i < 2 * ROWS(kind); i++) {
		const struct rig_work work = copy_work(i % 2 ? 4 : 1, 1 + i % 2);
		const bool reads = i / 2;
		char script[TILES * 80];
		size_t length = 0;

		for (uint64_t t = 0; t < TILES; t++)
			length += (size_t)snprintf(
				script + length, sizeof script - length,
				"on %s lba %llu nth %u count %u: status 0x280\n", kind[reads],
				(unsigned long long)((reads ? 0 : SINK_LBA) + t * TILE_BLOCKS),
				reads ? 1 : 2, HR_MEDIA_RETRIES);
		up(script, TIMEOUT_NS);
		rig_start(&rig, &work);
		cr_expect_eq(wait_end(), (1u << TILES) - 1);
		cr_expect_null(rig_failure(&rig), "%s, %u slots", kind[reads], work.slots);
		cr_expect_eq(rig_errors(&rig), TILES * HR_MEDIA_RETRIES);
		cr_expect_eq(settled(), TILES);
		rig_down(&rig);
	}
}

/* A slot's list of failed commands is shorter than this tile, so all its commands are sent again. */
Test(pipeline_repeats, a_tile_of_many_failed_commands_is_sent_again)
{
	enum { FAILED = HR_PARKED_MAX + 4, BLOCKS = COMMAND_BLOCKS * FAILED };
	static const char *const kind[] = { "write", "read" };

	for (uint32_t i = 0; i < 2 * ROWS(kind); i++) {
		const bool reads = i / 2;
		const uint64_t at = reads ? 0 : SINK_LBA;
		struct rig_work work = copy_work(2, 1);
		char script[80];

		/* the first writes are the rig's own */
		snprintf(script, sizeof script,
			 "on %s lba %llu-%llu nth %u count %u: status 0x082\n", kind[reads],
			 (unsigned long long)at, (unsigned long long)at + BLOCKS - 1,
			 reads ? 1 : FAILED + 1, FAILED - i % 2);
		work.tile_bytes[0] = BLOCKS * LBA;
		up(script, TIMEOUT_NS);
		rig_start(&rig, &work);
		cr_expect_eq(wait_end(), (1u << TILES) - 1);
		cr_expect_null(rig_failure(&rig));
		cr_expect_eq(rig_errors(&rig), FAILED - i % 2);
		cr_expect_eq(settled(), (BYTES + BLOCKS * LBA - 1) / (BLOCKS * LBA));
		rig_down(&rig);
	}
}

/* 150 s from the first failure, and pauses of 60 s: the third failure is the last. */
Test(pipeline_repeats, the_deadline_of_a_command_covers_its_repetitions)
{
	static const char *const kind[] = { "write", "read" };
	const struct rig_work work = copy_work(1, 1);

	for (uint32_t reads = 0; reads < ROWS(kind); reads++) {
		char script[100];

		snprintf(script, sizeof script, "on %s lba %llu nth %u count 100: " HELD "\n",
			 kind[reads],
			 (unsigned long long)((reads ? 0 : SINK_LBA) + 5 * TILE_BLOCKS),
			 reads ? 1 : 2);
		up(script, 150 * HR_NS_PER_S);
		rig_start(&rig, &work);
		for (uint64_t n = 1; n <= 2; n++) {
			wait_for(n, 5);
			settle_down();
			fake_clock_skip(61 * HR_NS_PER_S);
		}
		wait_end();
		cr_assert_not_null(rig_failure(&rig));
		cr_expect_eq(rig_failure(&rig)->error, 0x21);
		cr_expect_eq(rig_failure(&rig)->tile, 5);
		cr_expect_eq(rig_errors(&rig), 3, "%s", kind[reads]);
		cr_expect_eq(settled(), 5);
		rig_down(&rig);
	}
}

/*
 * A tile fails permanently while another waits for its repetition: neither counts, and the run
 * ends.
 */
Test(pipeline_repeats, a_failure_ends_the_writes_that_wait_to_be_sent_again)
{
	const struct rig_work work = copy_work(4, 1);
	char script[200];
	size_t length;

	rule(script, sizeof script, 3 * TILE_BLOCKS, 4 * TILE_BLOCKS, 1000, HELD);
	length = strlen(script);
	rule(script + length, sizeof script - length, 9 * TILE_BLOCKS, 10 * TILE_BLOCKS, 1000,
	     "status 0x280 dnr");
	up(script, LONG_TIMEOUT_NS);
	rig_start(&rig, &work);
	cr_expect_eq(first_missing(wait_end()), 3);
	cr_expect_eq(failed_with("another tile", 0x280)->tile, 9);
	cr_expect_eq(settled(), 3);
	cr_expect_leq(written(), 3);
	rig_down(&rig);
}

/* The same when the other command of the waiting tile succeeds after the failure. */
Test(pipeline_repeats, a_failure_ends_a_tile_of_which_one_command_waits)
{
	const struct rig_work work = copy_work(4, 1);

	for (uint32_t waits = 0; waits < COMMANDS; waits++) {
		const uint64_t at = 3 * TILE_BLOCKS, other = at + (1 - waits) * COMMAND_BLOCKS;
		char script[300];
		size_t length;

		rule(script, sizeof script, at + waits * COMMAND_BLOCKS,
		     at + (waits + 1) * COMMAND_BLOCKS, 1000, HELD);
		length = strlen(script);
		rule(script + length, sizeof script - length, other, other + COMMAND_BLOCKS, 1,
		     "delay 10s");
		length += strlen(script + length);
		rule(script + length, sizeof script - length, 9 * TILE_BLOCKS, 10 * TILE_BLOCKS,
		     1000, "status 0x280 dnr");
		up(script, LONG_TIMEOUT_NS);
		rig_start(&rig, &work);
		wait_for(1 + COMMANDS, 0);
		settle_down();
		fake_clock_skip(11 * HR_NS_PER_S);
		cr_expect_eq(first_missing(wait_end()), 3);
		cr_expect_eq(failed_with("another tile", 0x280)->tile, 9);
		cr_expect_eq(settled(), 3);
		cr_expect_leq(written(), 3);
		rig_down(&rig);
	}
}

/*
 * The write queue breaks while a write and a read wait to be sent again. Prefetch gets the slot of
 * the write, and must not treat the write as one of its reads.
 */
Test(pipeline_repeats, a_broken_queue_ends_the_writes_that_wait_to_be_sent_again)
{
	const struct rig_work work = copy_work(4, 1);
	char script[300];
	size_t length;

	rule(script, sizeof script, 3 * TILE_BLOCKS, 4 * TILE_BLOCKS, 1000, HELD);
	length = strlen(script);
	rule(script + length, sizeof script - length, 9 * TILE_BLOCKS, 10 * TILE_BLOCKS, 1,
	     "wrong-cid 0xffff");
	length += strlen(script + length);
	snprintf(script + length, sizeof script - length,
		 "on read lba 24-27 count 1000: " HELD "\n");
	up(script, LONG_TIMEOUT_NS);
	rig_start(&rig, &work);
	wait_end();
	failed_with("the queue", -EPROTO);
	cr_expect_eq(settled(), 3);
	for (uint32_t i = 0; i < work.slots; i++)
		cr_expect_eq(rig.pipe->slot[i].reads_in_flight, 0, "slot %u", i);
	rig_down(&rig);
}

/* ---- flushes */

static void run_flush(const char *script, int error, uint64_t sent, uint64_t timeout_ns)
{
	const struct rig_work work = copy_work(3, 1);
	uint64_t flushed, errors = 0;

	up(script, timeout_ns);
	flushed = flushes();
	rig_start(&rig, &work);
	wait_for(0, TILES);
	while (!has_ended()) {
		const bool lost = strstr(script, "drop") && flushes() > flushed;

		hr_wait_ns(50000);
		if (!lost && (rig_errors(&rig) == errors || !strstr(script, "crd")))
			continue;
		errors = rig_errors(&rig);
		settle_down();
		fake_clock_skip(61 * HR_NS_PER_S);
	}
	cr_expect_eq(wait_end(), (1u << TILES) - 1);
	cr_expect_eq(rig.pipe->write_qp[0].stats.submitted - TILES * COMMANDS, sent, "%s: %llu",
		     script,
		     (unsigned long long)rig.pipe->write_qp[0].stats.submitted - TILES * COMMANDS);
	if (error)
		cr_expect_eq(failed_with(script, error)->opcode, nvme_cmd_flush, "%s", script);
	else
		cr_expect_null(rig_failure(&rig), "%s", script);
	rig_down(&rig);
}

Test(pipeline_repeats, a_flush_is_sent_again_only_where_that_is_safe)
{
	run_flush("on flush count 2: status 0x021\n", 0, 3, TIMEOUT_NS);
	run_flush("on flush count 12: status 0x021\n", 0, 13, LONG_TIMEOUT_NS);
	run_flush("on flush count 1000: status 0x006\n", 0x06, 1 + HR_RETRIES, TIMEOUT_NS);
	run_flush("on flush count 1000: status 0x021 dnr\n", 0x21, 1, TIMEOUT_NS);
	run_flush("on flush: status 0x280\n", 0x280, 1, TIMEOUT_NS);
	run_flush("on flush: " HELD "\n", 0x21, 1, TIMEOUT_NS);
	run_flush("on flush: " HELD "\n", 0, 2, LONG_TIMEOUT_NS);
	run_flush("on flush count 1000: " HELD "\n", 0x21, 3, 150 * HR_NS_PER_S);
}

Test(pipeline_repeats, a_flush_without_a_proper_completion_fails_the_run)
{
	run_flush("on flush: drop\n", -ETIMEDOUT, 1, TIMEOUT_NS);
	run_flush("on flush: wrong-cid 0xffff\n", -EPROTO, 1, TIMEOUT_NS);
	run_flush("on flush: bad-sqhd 0xfff0\n", -EPROTO, 1, TIMEOUT_NS);
}

/*
 * The host has detected that the controller is gone, so workers wait neither for a flush nor for
 * its repetition.
 */
Test(pipeline_repeats, the_host_ends_a_flush)
{
	static const char *const script[] = { "on flush: drop\n", "on flush: " HELD "\n" };
	const struct rig_work work = copy_work(2, 1);

	for (size_t i = 0; i < ROWS(script); i++) {
		uint64_t flushed, stopped;

		up(script[i], LONG_TIMEOUT_NS);
		flushed = flushes();
		rig_start(&rig, &work);
		wait_for(i, TILES);
		while (i == 0 && flushes() == flushed)
			hr_wait_ns(50000);
		stopped = hr_now_ns();
		stop(HR_STOP_ABANDON);
		wait_end();
		cr_expect_lt(hr_now_ns() - stopped, 30 * HR_NS_PER_S, "the pause is 60 s");
		cr_expect_eq(rig.pipe->write_qp[0].stats.submitted - TILES * COMMANDS, 1);
		rig_down(&rig);
	}
}

/* ---- reads */

/*
 * A stop leaves no command behind: prefetch closes a slot when its reads have ended. The reads here
 * end late, after every worker has seen the stop.
 */
Test(pipeline_repeats, a_stop_waits_for_reads_in_flight)
{
	const struct rig_work work = copy_work(3, 1);
	struct hr_soft_stats stats;

	up("on read lba 20-47 count 1000: delay 10s\n", LONG_TIMEOUT_NS);
	rig_start(&rig, &work);
	do {
		hr_wait_ns(50000);
		hr_soft_stats(&rig.ssd[0].transport, &stats);
	} while (stats.reads < (5 + work.slots) * COMMANDS ||
		 rig_tiles(&rig, HR_ROLE_WRITEBACK) < 5);
	stop(HR_STOP_NEW);
	settle_down();
	cr_assert_not(has_ended(), "three slots have reads outstanding");
	fake_clock_skip(11 * HR_NS_PER_S);
	cr_expect_eq(wait_end(), 0xff, "what was read is written, too");
	cr_expect_null(rig_failure(&rig));
	cr_expect_eq(rig.pipe->read_qp[0].stats.submitted, (5 + work.slots) * COMMANDS);
	cr_expect_eq(rig.pipe->read_qp[0].stats.completed, (5 + work.slots) * COMMANDS);
	for (uint32_t i = 0; i < work.slots; i++)
		cr_expect_eq(rig.pipe->slot[i].reads_in_flight, 0);
	cr_expect_eq(settled(), 5 + work.slots);
	rig_down(&rig);
}

/* The host knows that a read will not complete: prefetch gives it up long before its deadline. */
Test(pipeline_repeats, reads_without_a_completion_are_given_up)
{
	for (uint32_t slots = 1; slots <= 4; slots += 3) {
		const struct rig_work work = copy_work(slots, 1);

		up("on read lba 20: drop\n", LONG_TIMEOUT_NS);
		rig_start(&rig, &work);
		wait_for(0, slots == 1 ? 5 : TILES - 1);
		stop(HR_STOP_ABANDON);
		cr_expect_eq(wait_end(), slots == 1 ? 0x1f : 0xfdf, "%u slots", slots);
		cr_expect_null(rig_failure(&rig));
		cr_expect_eq(settled(), 5, "%u slots: %llu", slots, (unsigned long long)settled());
		rig_down(&rig);
	}
}
