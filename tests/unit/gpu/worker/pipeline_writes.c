/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Write-back over a software controller with scripted faults: the tiles that count as written at
 * every moment that a script can hold, and each failure of a write. The counted tiles are compared
 * with the blocks on the disk.
 */
#include "tests/harness/threads.h"
#include "tests/harness/writes.h"

TestSuite(pipeline_writes, .timeout = 120);

/* ---- tiles that count as written */

/*
 * All writes from tile k on are held, beginning with its first or second command. The counted tiles
 * are exactly those on the disk: while the run is held, after it is given up, and after another run
 * has continued.
 */
static void hold_at(uint32_t slots, uint32_t k, uint32_t command)
{
	const uint32_t held = slots * COMMANDS - command;
	struct rig_work work = copy_work(slots, 1);
	uint64_t errors, most = 0;
	char script[100];

	up(rule(script, sizeof script, k * TILE_BLOCKS + command * COMMAND_BLOCKS,
		TILES * TILE_BLOCKS, held, HELD),
	   LONG_TIMEOUT_NS);
	errors = rig_errors(&rig);
	rig_start(&rig, &work);
	wait_for(errors + held, k);
	cr_assert_eq(tiles_on_disk(), (1u << k) - 1, "the script holds something else");
	cr_expect_eq(rig_tiles(&rig, HR_ROLE_WRITEBACK), k);
	for (uint32_t i = 0; i < slots; i++) {
		const uint64_t next = hr_acquire_sys_u64(&rig.pipe->written[i]);

		most = next > most ? next : most;
	}
	cr_expect_eq(most, k, "slots %u, tile %u: %llu", slots, k, (unsigned long long)most);
	/* There are two slots. The slot that waits with tile k had tile k - 1 or k - 2 before. */
	cr_expect_leq(written(), k);
	if (slots == 1)
		cr_expect_eq(written(), k);
	else if (k <= 2)
		cr_expect_eq(written(), k ? k - 1 : 0);

	stop(HR_STOP_ABANDON);
	cr_expect_eq(wait_end(), (1u << k) - 1);
	cr_expect_eq(settled(), k);
	cr_expect_leq(written(), k);
	cr_expect_eq(rig_errors(&rig) - errors, held, "some were sent again");

	work.first_tile = k;
	work.keep_sink = true;
	rig_start(&rig, &work);
	cr_expect_eq(wait_end(), (1u << TILES) - 1);
	cr_expect_null(rig_failure(&rig));
	cr_expect_eq(settled(), TILES);
	cr_expect_eq(rig_tiles(&rig, HR_ROLE_WRITEBACK), TILES - k);
	rig_down(&rig);
}

Test(pipeline_writes, with_one_slot_exactly_the_tiles_on_the_disk_count)
{
	static const uint32_t tile[] = { 0, 1, 2, 7, TILES - 1 };

	for (size_t i = 0; i < ROWS(tile); i++)
		for (uint32_t command = 0; command < COMMANDS; command++)
			hold_at(1, tile[i], command);
}

Test(pipeline_writes, with_two_slots_the_slot_that_is_behind_counts)
{
	static const uint32_t tile[] = { 0, 1, 2, 7, TILES - 2 };

	for (size_t i = 0; i < ROWS(tile); i++)
		for (uint32_t command = 0; command < COMMANDS; command++)
			hold_at(2, tile[i], command);
}

/*
 * One tile is held, and the other slots write the rest. Tiles after the held one count only after
 * it is written.
 */
Test(pipeline_writes, tiles_after_a_held_tile_count_later)
{
	const struct rig_work work = copy_work(4, 2);
	char script[100];

	for (uint32_t k = 0; k < 4; k++) {
		up(rule(script, sizeof script, k * TILE_BLOCKS, (k + 1) * TILE_BLOCKS, COMMANDS,
			HELD),
		   LONG_TIMEOUT_NS);
		rig_start(&rig, &work);
		wait_for(COMMANDS, TILES - 1);
		settle_down();
		cr_expect_eq(first_missing(tiles_on_disk()), k);
		cr_expect_eq(written(), 0, "slot %u has written nothing", k);
		fake_clock_skip(61 * HR_NS_PER_S);
		cr_expect_eq(wait_end(), (1u << TILES) - 1);
		cr_expect_null(rig_failure(&rig));
		cr_expect_eq(settled(), TILES);
		rig_down(&rig);
	}
}

/* A write that the host no longer waits for does not count, although it has reached the disk. */
Test(pipeline_writes, a_write_that_is_not_waited_for_does_not_count)
{
	const struct rig_work work = copy_work(3, 1);
	char script[100];

	up(rule(script, sizeof script, 5 * TILE_BLOCKS, 6 * TILE_BLOCKS, 1, "drop"), TIMEOUT_NS);
	rig_start(&rig, &work);
	wait_for(0, TILES - 1);
	while (!(tiles_on_disk() >> 5 & 1))
		hr_wait_ns(50000);
	stop(HR_STOP_ABANDON);
	cr_expect_eq(wait_end(), (1u << TILES) - 1);
	cr_expect_eq(settled(), 5);
	cr_expect_leq(written(), 5);
	cr_expect_eq(rig_tiles(&rig, HR_ROLE_WRITEBACK), TILES - 1);
	rig_down(&rig);
}

/* The queue has room for the writes of one tile, and all slots wait: each writes once before one
 * writes again. */
static void write_in_turn(uint32_t slots)
{
	const struct rig_work work = copy_work(slots, 1);
	char script[100];

	up_with(rule(script, sizeof script, 0, TILES * TILE_BLOCKS, 1000, "delay 100s"),
		COMMANDS + 1, LONG_TIMEOUT_NS);
	rig_start(&rig, &work);
	for (uint32_t n = 1; n <= TILES; n++) {
		const uint32_t all = n - 1 + slots;

		while (rig_tiles(&rig, HR_ROLE_COMPUTE) < (all < TILES ? all : TILES))
			hr_wait_ns(50000);
		settle_down();
		fake_clock_skip(101 * HR_NS_PER_S);
		wait_for(0, n);
		for (uint32_t s = 0; n % slots == 0 && s < slots; s++)
			cr_expect_eq(hr_acquire_sys_u64(&rig.pipe->written[s]), n - slots + s + 1,
				     "slot %u of %u, %u tiles", s, slots, n);
	}
	cr_expect_eq(wait_end(), (1u << TILES) - 1);
	rig_down(&rig);
}

Test(pipeline_writes, slots_write_in_turn_when_the_queue_is_full)
{
	static const uint32_t slots[] = { 4, 6, 7, 6, 8 };

	for (size_t i = 0; i < ROWS(slots); i++)
		write_in_turn(slots[i]);
}

/* ---- writes that fail */

struct write_row {
	const char *what, *action;
	uint32_t count; /* of commands that the script matches */
	int error;
	uint64_t failed; /* failed commands in total */
	bool done;	 /* the write reaches the disk, but without a completion */
};

static uint64_t sum_failed(void)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < rig.pipe->blocks[HR_ROLE_WRITEBACK]; i++)
		sum += rig.pipe->write_qp[i].stats.failed;
	return sum;
}

/* A command of tile 5 has failed. The failure names it, unless its queue broke. */
static void check_failure(const struct write_row *row, uint32_t command)
{
	const struct hr_failure *failure = failed_with(row->what, row->error);
	const struct hr_nvme_qp *failed_qp = NULL;

	for (uint32_t i = 0; i < rig.pipe->blocks[HR_ROLE_WRITEBACK]; i++)
		if (rig.pipe->write_qp[i].id == failure->qid)
			failed_qp = &rig.pipe->write_qp[i];
	cr_expect_eq(failure->opcode, nvme_cmd_write, "%s", row->what);
	cr_expect_eq(failure->source, 0, "%s", row->what);
	cr_assert_not_null(failed_qp, "%s: queue %u", row->what, failure->qid);
	cr_expect_eq(failed_qp->error, row->error == -EPROTO ? -EPROTO : 0, "%s", row->what);
	cr_expect_eq(failed_qp->stats.lost, row->error == -ETIMEDOUT, "%s", row->what);
	cr_expect_eq(sum_failed(), row->failed, "%s: %llu", row->what,
		     (unsigned long long)sum_failed());
	if (row->error == -EPROTO) {
		cr_expect_eq(failure->tile, HR_NO_TILE, "%s", row->what);
		cr_expect_eq(failure->lba, 0, "%s", row->what);
		cr_expect_eq(failure->cid, 0, "%s", row->what);
		return;
	}
	cr_expect_eq(failure->tile, 5, "%s", row->what);
	cr_expect_eq(failure->lba, SINK_LBA + 5 * TILE_BLOCKS + command * COMMAND_BLOCKS, "%s",
		     row->what);
}

/* Commands of a queue are numbered in the order of sending, in the low bits of the CID. */
static void check_cid(const struct write_row *row, uint32_t command)
{
	const uint32_t want = 5 * COMMANDS + command, mask = rig.pipe->write_qp[0].index_mask;

	cr_expect_eq(rig_failure(&rig)->cid & mask, want, "%s: 0x%x", row->what,
		     rig_failure(&rig)->cid);
}

static void run_row(const struct write_row *row, uint32_t slots, uint32_t writers, uint32_t command)
{
	const struct rig_work work = copy_work(slots, writers);
	const uint64_t from = 5 * TILE_BLOCKS + command * COMMAND_BLOCKS;
	uint64_t flushed;
	char script[100];
	uint32_t tiles;

	up(rule(script, sizeof script, from, from + COMMAND_BLOCKS, row->count, row->action),
	   TIMEOUT_NS);
	flushed = flushes();
	rig_start(&rig, &work);
	if (row->error == -ETIMEDOUT) {
		wait_for(0, slots == 1 ? 5 : TILES - 1);
		while (!(tiles_on_disk() >> 5 & 1) || flushes() - flushed < writers - 1)
			hr_wait_ns(50000);
		settle_down();
		fake_clock_skip(2 * TIMEOUT_NS);
	}
	tiles = wait_end();
	check_failure(row, command);
	if (row->done)
		cr_expect_leq(settled(), 5, "%s", row->what);
	else
		cr_expect_eq(settled(), first_missing(tiles), "%s: %llu, 0x%x on the disk",
			     row->what, (unsigned long long)settled(), tiles);
	if (slots == 1)
		cr_expect_eq(settled(), 5, "%s", row->what);
	if (slots == 1 && row->error != -EPROTO && row->failed <= 1)
		check_cid(row, command);
	cr_expect_leq(written(), settled(), "%s", row->what);
	cr_expect_eq(flushes() - flushed, writers - 1, "%s: the worker that failed flushes nothing",
		     row->what);
	rig_down(&rig);
}

static void run_forms(const struct write_row *row)
{
	static const uint32_t form[][2] = { { 1, 1 }, { 4, 2 }, { 5, 1 } };
	static uint32_t first;

	for (uint32_t i = first++ % THREAD_STEP(2u); i < ROWS(form) * COMMANDS;
	     i += THREAD_STEP(2u))
		run_row(row, form[i % ROWS(form)][0], form[i % ROWS(form)][1], i / ROWS(form));
}

Test(pipeline_writes, a_write_that_is_refused_ends_the_run)
{
	static const struct write_row row[] = {
		{ "medium, DNR", "status 0x280 dnr", 1000, 0x280, 1, false },
		{ "transient, DNR", "status 0x021 dnr", 1000, 0x21, 1, false },
		{ "a mistake", "status 0x002", 1000, 0x02, 1, false },
		{ "medium, again and again", "status 0x280", 1000, 0x280, 1 + HR_MEDIA_RETRIES,
		  false },
		{ "transient, again and again", "status 0x006", 1000, 0x06, 1 + HR_RETRIES, false },
		{ "a pause beyond the deadline", HELD, 1, 0x21, 1, false },
	};

	for (size_t i = 0; i < ROWS(row); i++)
		run_forms(&row[i]);
}

Test(pipeline_writes, a_write_without_a_proper_completion_ends_the_run)
{
	static const struct write_row row[] = {
		{ "a foreign CID", "wrong-cid 0xffff", 1, -EPROTO, 0, true },
		{ "an impossible SQHD", "bad-sqhd 0xfff0", 1, -EPROTO, 0, true },
		{ "lost", "drop", 1, -ETIMEDOUT, 0, true },
	};

	for (size_t i = 0; i < ROWS(row); i++)
		run_forms(&row[i]);
}

/* One of two commands of a tile fails; the other succeeds, before it or long after. */
Test(pipeline_writes, a_partly_written_tile_does_not_count)
{
	const struct rig_work work = copy_work(1, 1);

	for (uint32_t bad = 0; bad < COMMANDS; bad++) {
		const uint64_t at = 5 * TILE_BLOCKS;
		char script[200];
		size_t length;

		rule(script, sizeof script, at + bad * COMMAND_BLOCKS,
		     at + (bad + 1) * COMMAND_BLOCKS, 1, "status 0x280 dnr");
		length = strlen(script);
		rule(script + length, sizeof script - length, at + (1 - bad) * COMMAND_BLOCKS,
		     at + (2 - bad) * COMMAND_BLOCKS, 1, "delay 10s");
		up(script, LONG_TIMEOUT_NS);
		rig_start(&rig, &work);
		wait_for(1, 5);
		settle_down();
		fake_clock_skip(11 * HR_NS_PER_S);
		cr_expect_eq(wait_end(), 0x1f);
		cr_expect_eq(failed_with("half a tile", 0x280)->tile, 5);
		cr_expect_eq(settled(), 5);
		cr_expect_eq(written(), 5);
		cr_expect_eq(rig_tiles(&rig, HR_ROLE_WRITEBACK), 5);
		cr_expect_eq(rig.pipe->write_qp[0].stats.completed, 6 * COMMANDS);
		rig_down(&rig);
	}
}
