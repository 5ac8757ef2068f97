/*
 * Write-back over a software controller that fails as scripted: which tiles count as written, in
 * every moment that a script can hold, and each way in which a write or a flush can fail. The disk
 * decides: what counts is compared with the blocks that hold the data.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <nvme/types.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/clock.h"
#include "nvme/soft/soft.h"
#include "tests/fakes/clock.h"
#include "tests/harness/random.h"
#include "tests/harness/rig.h"

#define ROWS(table) (sizeof(table) / sizeof(*(table)))
#define TIMEOUT_NS (20 * HR_NS_PER_S)	    /* less than the pause of CRD 3, 60 s */
#define LONG_TIMEOUT_NS (600 * HR_NS_PER_S) /* more than any pause */
#define LBA 4096u
#define TILE_BLOCKS 4u
#define COMMAND_BLOCKS 2u /* with mdts=1: a tile has two commands */
#define COMMANDS (TILE_BLOCKS / COMMAND_BLOCKS)
#define TILE (TILE_BLOCKS * LBA)
#define TILES 12u
#define BYTES (TILES * TILE)
#define SINK_LBA (RIG_SINK_AT / LBA)
#define HELD "status 0x021 crd 3" /* not carried out, and sent again after 60 s */

TestSuite(pipeline_writes, .timeout = 120);

static struct rig rig;
static uint8_t data[BYTES];

static void up(const char *script, uint64_t timeout_ns)
{
	struct fake_random random = { fake_random_seed("pipeline_writes") };

	rig_up_faulty(&rig, 1, "lba=4096,mdts=1", script, 32, timeout_ns);
	for (uint32_t i = 0; i < BYTES; i++)
		data[i] = (uint8_t)(fake_random_u64(&random) >> 56);
}

static struct rig_work copy_work(uint32_t slots, uint32_t writers)
{
	const struct rig_work work = { .op = HR_OP_copy,
				       .sources = 1,
				       .in = { data },
				       .bytes = { BYTES },
				       .tile_bytes = { TILE },
				       .slots = slots,
				       .blocks = { 1, 1, writers } };

	return work;
}

/* A rule for writes to blocks [from, to) of the sink, but for the rig's poison. */
static char *rule(char *text, size_t bytes, uint64_t from, uint64_t to, uint32_t count,
		  const char *action)
{
	snprintf(text, bytes, "on write lba %llu-%llu nth %llu count %u: %s\n",
		 (unsigned long long)(SINK_LBA + from), (unsigned long long)(SINK_LBA + to - 1),
		 (unsigned long long)((to - from) / COMMAND_BLOCKS + 1), count, action);
	return text;
}

/* The tiles of the sink whose data are on the disk whole, a bit each. */
static uint32_t tiles_on_disk(void)
{
	uint8_t *sink = rig_read_sink(&rig, BYTES);
	uint32_t tiles = 0;

	for (uint32_t t = 0; t < TILES; t++)
		tiles |= (uint32_t)(memcmp(sink + t * TILE, data + t * TILE, TILE) == 0) << t;
	free(sink);
	return tiles;
}

static uint64_t first_missing(uint32_t tiles)
{
	return (uint64_t)__builtin_ctz(~tiles);
}

static uint64_t written(void)
{
	return hr_pipe_written(rig.pipe, rig.pipe->written);
}

static uint64_t settled(void)
{
	return hr_pipe_settled(rig.pipe, rig.pipe->slot);
}

static void stop(enum hr_pipe_stop how)
{
	hr_store_release_sys_u32(&rig.pipe->control->stop, how);
}

static bool has_ended(void)
{
	return rig.backend.ops->poll(&rig.backend) != 0;
}

/* Until so many commands have failed, all in all, and so many tiles are written. */
static void wait_for(uint64_t errors, uint64_t tiles)
{
	while ((rig_errors(&rig) < errors || rig_tiles(&rig, HR_ROLE_WRITEBACK) < tiles) &&
	       !has_ended())
		hr_wait_ns(50000);
	cr_assert_geq(rig_errors(&rig), errors);
	cr_assert_geq(rig_tiles(&rig, HR_ROLE_WRITEBACK), tiles);
}

static uint64_t heartbeat(uint32_t worker)
{
	return hr_load_acquire_sys_u64(&rig.pipe->status[worker].heartbeat);
}

/*
 * What the controller has taken so far is answered, and every worker has looked at its queues after
 * that: nothing is under way but what a script holds. The controller's only thread serves one queue
 * after the other, so reads of the rig's own come behind the rest.
 */
static void settle_down(void)
{
	free(rig_read_sink(&rig, LBA));
	free(rig_read_sink(&rig, LBA));
	for (uint32_t i = 0; i < hr_pipe_statuses(rig.pipe); i++) {
		const uint64_t seen = heartbeat(i);

		while (heartbeat(i) < seen + 5 &&
		       !hr_load_acquire_sys_u32(&rig.pipe->status[i].done))
			hr_wait_ns(50000);
	}
}

/* The end of a run, with what is on the disk then: a queue that broke ends with its controller. */
static uint32_t wait_end(void)
{
	uint32_t tiles;

	while (!has_ended())
		hr_wait_ns(50000);
	tiles = tiles_on_disk();
	rig_wait(&rig);
	for (uint32_t i = 0; i < rig.pipe->slots; i++) {
		cr_assert_eq(rig.pipe->slot[i].state, HR_SLOT_CLOSED, "slot %u", i);
		cr_assert_eq(rig.pipe->slot[i].parked, 0, "slot %u", i);
	}
	return tiles;
}

/* ---- what counts as written */

/*
 * All writes from tile k on are held, from its first or its second command on. The tiles that count
 * are those on the disk, no more and no less: while the run is held, after it is given up, and after
 * another run has gone on from there.
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
		const uint64_t next = hr_load_acquire_sys_u64(&rig.pipe->written[i]);

		most = next > most ? next : most;
	}
	cr_expect_eq(most, k, "slots %u, tile %u: %llu", slots, k, (unsigned long long)most);
	/* Of two slots, the one that waits with tile k had tile k - 1 or k - 2 before. */
	cr_expect_leq(written(), k);
	if (slots == 1)
		cr_expect_eq(written(), k);
	else if (k <= 2)
		cr_expect_eq(written(), k ? k - 1 : 0);

	stop(HR_STOP_WAITING);
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

Test(pipeline_writes, with_one_slot_all_that_is_on_the_disk_counts_and_nothing_else)
{
	static const uint32_t tile[] = { 0, 1, 2, 7, TILES - 1 };

	for (size_t i = 0; i < ROWS(tile); i++)
		for (uint32_t command = 0; command < COMMANDS; command++)
			hold_at(1, tile[i], command);
}

Test(pipeline_writes, with_two_slots_the_one_that_is_behind_counts)
{
	static const uint32_t tile[] = { 0, 1, 2, 7, TILES - 2 };

	for (size_t i = 0; i < ROWS(tile); i++)
		for (uint32_t command = 0; command < COMMANDS; command++)
			hold_at(2, tile[i], command);
}

/* One tile is held, and the other slots write the rest. The tiles behind the held one do not count
 * before it is written. */
Test(pipeline_writes, what_lies_behind_a_held_tile_counts_later)
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
	stop(HR_STOP_WAITING);
	cr_expect_eq(wait_end(), (1u << TILES) - 1);
	cr_expect_eq(settled(), 5);
	cr_expect_leq(written(), 5);
	cr_expect_eq(rig_tiles(&rig, HR_ROLE_WRITEBACK), TILES - 1);
	rig_down(&rig);
}

/* ---- writes that fail */

struct write_row {
	const char *what, *action;
	uint32_t count; /* of commands that the script hits */
	int error;
	uint64_t failed; /* commands, in all */
	bool done;	 /* the write reaches the disk, and is not known to have */
};

static uint64_t sum_failed(void)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < rig.pipe->blocks[HR_ROLE_WRITEBACK]; i++)
		sum += rig.pipe->write_qp[i].stats.failed;
	return sum;
}

static uint64_t flushes(void)
{
	struct hr_soft_stats stats;

	hr_soft_stats(&rig.ssd[0].transport, &stats);
	return stats.flushes;
}

static const struct hr_failure *failed_with(const char *what, int error)
{
	const struct hr_failure *failure = rig_failure(&rig);

	cr_assert_not_null(failure, "%s: nothing has failed", what);
	cr_expect_eq(failure->error, error, "%s: %d", what, failure->error);
	cr_expect_eq(failure->role, HR_ROLE_WRITEBACK, "%s", what);
	cr_expect_eq(failure->object, RIG_SINK_ID, "%s", what);
	return failure;
}

/* A command of tile 5 has failed. The failure names it, unless its queue broke. */
static void check_failure(const struct write_row *row, uint32_t command)
{
	const struct hr_failure *failure = failed_with(row->what, row->error);
	const struct hr_qp *failed_qp = NULL;

	for (uint32_t i = 0; i < rig.pipe->blocks[HR_ROLE_WRITEBACK]; i++)
		if (rig.pipe->write_qp[i].id == failure->qid)
			failed_qp = &rig.pipe->write_qp[i];
	cr_expect_eq(failure->opcode, nvme_cmd_write, "%s", row->what);
	cr_assert_not_null(failed_qp, "%s: queue %u", row->what, failure->qid);
	cr_expect_eq(failed_qp->broken, row->error == -EPROTO ? -EPROTO : 0, "%s", row->what);
	cr_expect_eq(failed_qp->stats.lost, row->error == -ETIMEDOUT, "%s", row->what);
	cr_expect_eq(sum_failed(), row->failed, "%s: %llu", row->what,
		     (unsigned long long)sum_failed());
	if (row->error == -EPROTO)
		return;
	cr_expect_eq(failure->tile, 5, "%s", row->what);
	cr_expect_eq(failure->lba, SINK_LBA + 5 * TILE_BLOCKS + command * COMMAND_BLOCKS, "%s",
		     row->what);
}

/* Commands of a queue are numbered as they are sent, below its generations. */
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
		while (!(tiles_on_disk() >> 5 & 1))
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
	for (uint32_t command = 0; command < COMMANDS; command++) {
		run_row(row, 1, 1, command);
		run_row(row, 4, 2, command);
		run_row(row, 5, 1, command);
	}
}

Test(pipeline_writes, a_write_that_is_refused_ends_the_run)
{
	static const struct write_row row[] = {
		{ "medium, DNR", "status 0x280 dnr", 1000, 0x280, 1, false },
		{ "transient, DNR", "status 0x021 dnr", 1000, 0x21, 1, false },
		{ "a mistake", "status 0x002", 1000, 0x02, 1, false },
		{ "medium, again and again", "status 0x280", 1000, 0x280, 1 + HR_MEDIA_RETRIES,
		  false },
		{ "transient, again and again", "status 0x021", 1000, 0x21, 1 + HR_RETRIES, false },
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

/* Of the two commands of a tile one fails; the other ends well, before it or long after. */
Test(pipeline_writes, half_a_tile_does_not_count)
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

/* ---- repetitions */

/* Each tile has its own tries: all of them fail as often as is allowed, and the run is whole. */
Test(pipeline_writes, tries_are_counted_tile_by_tile)
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

/* 150 s from the first failure on, and pauses of 60 s: the third failure is the last. */
Test(pipeline_writes, the_deadline_of_a_command_covers_its_repetitions)
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

/* A tile fails for good while another waits for its repetition: neither counts, and the run ends. */
Test(pipeline_writes, a_failure_ends_the_writes_that_wait_to_be_sent_again)
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

/* The same when the other command of the waiting tile ends well after the failure. */
Test(pipeline_writes, a_failure_ends_a_tile_of_which_one_command_waits)
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

/* ---- flushes */

static void run_flush(const char *script, int error, uint64_t sent, uint64_t timeout_ns)
{
	const struct rig_work work = copy_work(3, 1);
	uint64_t flushed;

	up(script, timeout_ns);
	flushed = flushes();
	rig_start(&rig, &work);
	wait_for(0, TILES);
	while (strstr(script, "drop") && flushes() == flushed)
		hr_wait_ns(50000);
	while (!has_ended()) {
		hr_wait_ns(HR_NS_PER_MS);
		if (strstr(script, "drop") || strstr(script, "crd"))
			fake_clock_skip(timeout_ns / 10 + HR_NS_PER_S);
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

Test(pipeline_writes, a_flush_is_sent_again_only_where_that_is_safe)
{
	run_flush("on flush count 2: status 0x021\n", 0, 3, TIMEOUT_NS);
	run_flush("on flush count 1000: status 0x021\n", 0x21, 1 + HR_RETRIES, TIMEOUT_NS);
	run_flush("on flush count 1000: status 0x021 dnr\n", 0x21, 1, TIMEOUT_NS);
	run_flush("on flush: status 0x280\n", 0x280, 1, TIMEOUT_NS);
	run_flush("on flush: " HELD "\n", 0x21, 1, TIMEOUT_NS);
	run_flush("on flush: " HELD "\n", 0, 2, LONG_TIMEOUT_NS);
	run_flush("on flush count 1000: " HELD "\n", 0x21, 3, 150 * HR_NS_PER_S);
}

Test(pipeline_writes, a_flush_without_a_proper_completion_fails_the_run)
{
	run_flush("on flush: drop\n", -ETIMEDOUT, 1, TIMEOUT_NS);
	run_flush("on flush: wrong-cid 0xffff\n", -EPROTO, 1, TIMEOUT_NS);
	run_flush("on flush: bad-sqhd 0xfff0\n", -EPROTO, 1, TIMEOUT_NS);
}

/* The host has found the controller gone: workers wait neither for a flush nor for its repetition. */
Test(pipeline_writes, the_host_ends_a_flush)
{
	static const char *const script[] = { "on flush: drop\n", "on flush: " HELD "\n" };
	const struct rig_work work = copy_work(2, 1);

	for (size_t i = 0; i < ROWS(script); i++) {
		uint64_t flushed;

		up(script[i], LONG_TIMEOUT_NS);
		flushed = flushes();
		rig_start(&rig, &work);
		wait_for(i, TILES);
		while (i == 0 && flushes() == flushed)
			hr_wait_ns(50000);
		stop(HR_STOP_WAITING);
		wait_end();
		cr_expect_eq(rig.pipe->write_qp[0].stats.submitted - TILES * COMMANDS, 1);
		rig_down(&rig);
	}
}

/* ---- reads */

/*
 * A stop leaves no command behind: prefetch closes a slot when its reads have ended. The reads here
 * end late, when every worker has seen the stop.
 */
Test(pipeline_writes, a_stop_waits_for_the_reads_that_are_under_way)
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
		cr_expect_eq(rig.pipe->slot[i].reading, 0);
	cr_expect_eq(settled(), 5 + work.slots);
	rig_down(&rig);
}
