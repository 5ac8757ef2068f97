/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nvme/queue/single.h: a command at a time by the lanes of a worker, alone and in turns with
 * nvme/queue/queue.h; completions that it leaves to hr_qp_reap(). single_lanes_64.c
 * compiles the same tests for 64 lanes.
 */
#include "tests/fakes/lanes.h"

#include <criterion/criterion.h>
#include <string.h>

#include "nvme/queue/single.h"
#include "tests/fakes/clock.h"
#include "tests/fakes/peer.h"

#define ROWS(table) (sizeof(table) / sizeof(*(table)))
#define TIMEOUT_NS 8000u
#define START_NS 1000000u
#define ENTRIES 5u
#define TOKEN(i) (1000u + (i))

/* Shared by the lanes; lane 0 writes. */
static struct {
	struct hr_nvme_qp qp, before;
	struct peer peer;
	struct hr_cqe cqe;    /* of the case: added to the right completion */
	int32_t want_broken;  /* of the case */
	uint32_t want_status; /* of the case; 0: no completion */
	uint64_t word;
	uint32_t entries, sent;
	bool in_turns;
} t;

static void setup(void)
{
	memset(&t, 0, sizeof t);
	t.entries = ENTRIES;
	fake_clock_start(START_NS, NULL, NULL);
}

static void teardown(void)
{
	peer_fini(&t.peer);
	fake_clock_stop();
}

TestSuite(queue_one_lanes, .init = setup, .fini = teardown, .timeout = 120);

static struct hr_sqe sqe_of(uint32_t i)
{
	struct hr_sqe sqe;

	memset(&sqe, 0, sizeof sqe);
	for (uint32_t at = 0; at < sizeof sqe; at++)
		((uint8_t *)&sqe)[at] = (uint8_t)(3 * i + at + 1);
	return sqe;
}

/* Lane 0: the controller gets the entry as it was written, with its CID. */
static void check_fetched(const struct hr_single *one, uint32_t i)
{
	struct hr_sqe want = sqe_of(i);

	want.cid = (uint16_t)one->cid;
	cr_assert_eq(peer_fetch(&t.peer), 1, "command %u", i);
	cr_assert_eq(memcmp(&t.peer.pending[0], &want, sizeof want), 0, "command %u", i);
	cr_assert_eq(hr_qp_outstanding(&t.qp), 1);
	cr_assert_eq(t.qp.inflight[one->index].token, TOKEN(i));
}

static bool wait_once(const struct hr_single *one)
{
	const struct hr_qp_wait wait = { 1, NULL, 0, 0 };
	const bool done = hr_single_wait(&t.qp, one, &wait);

	hr_lanes_sync();
	return done;
}

static void one_of_them(uint32_t i)
{
	const struct hr_sqe sqe = sqe_of(i);
	struct hr_single one;

	cr_assert(hr_qp_is_unused(&t.qp));
	one = hr_single_next(&t.qp);
	hr_single_write_sqe(&one, &sqe);
	hr_single_release_cqe();
	hr_single_submit(&t.qp, &one);
	hr_single_track(&t.qp, &one, TOKEN(i));
	cr_assert_not(hr_qp_is_unused(&t.qp));
	hr_lanes_sync();
	cr_assert_not(wait_once(&one), "nothing has completed");
	if (hr_lane() == 0) {
		check_fetched(&one, i);
		cr_assert(peer_can_post(&t.peer), "no room for completion %u", i);
		peer_complete(&t.peer, 0, 0);
	}
	hr_lanes_sync();
	cr_assert(wait_once(&one), "command %u", i);
	hr_single_end(&t.qp, &one);
}

/* The same by nvme/queue/queue.h. */
static void one_of_others(uint32_t i)
{
	const struct hr_sqe sqe = sqe_of(i);
	struct hr_completion done = { 0 };
	hr_mask mask;

	hr_qp_push(&t.qp, hr_lane() == 0, &sqe, TOKEN(i));
	hr_qp_publish(&t.qp);
	if (hr_lane() == 0) {
		cr_assert_eq(peer_fetch(&t.peer), 1);
		peer_complete(&t.peer, 0, 0);
	}
	hr_lanes_sync();
	mask = hr_qp_reap(&t.qp, &done);
	cr_assert_eq(mask, 1u);
	if (hr_lane() == 0)
		cr_assert_eq(done.token, TOKEN(i));
	hr_lanes_sync();
}

/* More laps of the rings than CIDs have generations. */
static void many(void)
{
	for (uint32_t i = 0; i < 20 * t.entries; i++)
		if (t.in_turns && i % 3 == 2)
			one_of_others(i);
		else
			one_of_them(i);
}

Test(queue_one_lanes, commands_complete_one_after_the_other_and_are_counted)
{
	static const struct {
		uint32_t entries;
		bool in_turns;
	} row[] = { { 2, false }, { 3, false }, { 5, true }, { 16, true } };

	for (size_t i = 0; i < ROWS(row); i++) {
		const uint32_t commands = 20 * row[i].entries;

		memset(&t, 0, sizeof t);
		t.entries = row[i].entries;
		t.in_turns = row[i].in_turns;
		peer_init(&t.peer, &t.qp, t.entries, TIMEOUT_NS);
		cr_assert(fake_lanes_run(many));
		cr_expect_eq(t.qp.error, 0);
		cr_expect_eq(t.qp.stats.submitted, commands);
		cr_expect_eq(t.qp.stats.completed, commands);
		cr_expect_eq(t.qp.stats.batches, commands);
		cr_expect_eq(t.qp.stats.failed, 0);
		cr_expect_eq(t.qp.stats.late + t.qp.stats.stray + t.qp.stats.lost, 0);
		cr_expect_geq(t.qp.stats.doorbells, commands, "and some of the completion queue");
		cr_expect_eq(hr_qp_outstanding(&t.qp), 0);
		if (i + 1 < ROWS(row))
			peer_fini(&t.peer);
	}
}

/* The next command is written while the one before is at the controller. */
static void prepared(void)
{
	struct hr_single one, next;
	struct hr_sqe sqe = sqe_of(0);

	one = hr_single_next(&t.qp);
	hr_single_write_sqe(&one, &sqe);
	for (uint32_t i = 0; i < 20 * t.entries; i++) {
		hr_single_release_cqe();
		hr_single_submit(&t.qp, &one);
		hr_single_track(&t.qp, &one, TOKEN(i));
		sqe = sqe_of(i + 1);
		next = hr_single_next(&t.qp);
		hr_single_write_sqe(&next, &sqe);
		hr_lanes_sync();
		if (hr_lane() == 0) {
			check_fetched(&one, i);
			peer_complete(&t.peer, 0, 0);
		}
		hr_lanes_sync();
		cr_assert(wait_once(&one), "command %u", i);
		hr_single_end(&t.qp, &one);
		one = next;
	}
}

Test(queue_one_lanes, the_next_command_is_prepared_during_one)
{
	t.entries = 3;
	peer_init(&t.peer, &t.qp, t.entries, TIMEOUT_NS);
	cr_assert(fake_lanes_run(prepared));
	cr_expect_eq(t.qp.stats.completed, 20 * t.entries);
	cr_expect_eq(hr_qp_outstanding(&t.qp), 0);
}

/* A completion that differs from that of a good command by the case's cqe. */
static void differs(void)
{
	const struct hr_sqe sqe = sqe_of(0);
	struct hr_completion done = { 0 };
	struct hr_single one;
	hr_mask mask;

	one_of_them(0);
	one = hr_single_next(&t.qp);
	hr_single_write_sqe(&one, &sqe);
	hr_single_release_cqe();
	hr_single_submit(&t.qp, &one);
	hr_single_track(&t.qp, &one, TOKEN(1));
	if (hr_lane() == 0) {
		peer_fetch(&t.peer);
		t.before = t.qp;
		peer_post(&t.peer, (struct hr_cqe){ .sqhd = (uint16_t)(t.peer.sq_head + t.cqe.sqhd),
						    .sqid = (uint16_t)(3 + t.cqe.sqid),
						    .cid = (uint16_t)(one.cid + t.cqe.cid),
						    .status = t.cqe.status });
	}
	hr_lanes_sync();
	cr_assert_not(wait_once(&one));
	if (hr_lane() == 0)
		cr_assert_eq(memcmp(&t.qp, &t.before, sizeof t.qp), 0, "something has changed");
	hr_lanes_sync();
	mask = hr_qp_reap(&t.qp, &done);
	if (hr_lane() == 0) {
		cr_expect_eq(t.qp.error, t.want_broken);
		cr_expect_eq(mask, t.want_status != UINT32_MAX ? 1u : 0u);
		if (mask)
			cr_expect_eq(done.status, t.want_status);
	}
	hr_lanes_sync();
}

#define NONE UINT32_MAX

Test(queue_one_lanes, another_completion_is_left_to_the_general_way)
{
	static const struct {
		struct hr_cqe cqe;
		uint32_t status;
		int32_t broken;
		uint64_t stray, late;
	} row[] = {
		{ { .status = 0x81 << 1 }, 0x81, 0, 0, 0 },
		{ { .status = 0x8000 }, 0, 0, 0, 0 },	  /* DNR without a status */
		{ { .sqhd = (uint16_t)-1 }, 0, 0, 0, 0 }, /* not fetched then */
		{ { .sqid = 1 }, NONE, -EPROTO, 0, 0 },
		{ { .sqhd = 1 }, 0, 0, 0, 0 }, /* odd */
		{ { .sqhd = ENTRIES }, NONE, -EPROTO, 0, 0 },
		{ { .cid = (uint16_t)-8 }, NONE, 0, 0, 1 }, /* of an earlier use */
		{ { .cid = 1 }, NONE, 0, 0, 1 },	    /* of a command that was not sent */
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		memset(&t, 0, sizeof t);
		t.entries = ENTRIES;
		t.cqe = row[i].cqe;
		t.want_status = row[i].status;
		t.want_broken = row[i].broken;
		peer_init(&t.peer, &t.qp, t.entries, TIMEOUT_NS);
		cr_assert(fake_lanes_run(differs));
		cr_expect_eq(t.qp.stats.stray + t.qp.stats.late, row[i].stray + row[i].late,
			     "case %zu", i);
		cr_expect_eq(hr_qp_outstanding(&t.qp), row[i].status == NONE, "case %zu", i);
		if (i + 1 < ROWS(row))
			peer_fini(&t.peer);
	}
}

/* Without a completion a wait ends by the word; the command keeps its deadline. */
static void word_and_deadline(void)
{
	const struct hr_qp_wait wait = { UINT32_MAX, &t.word, 0xff00, 0x1200 };
	const struct hr_sqe sqe = sqe_of(0);
	struct hr_single one = hr_single_next(&t.qp);
	struct hr_completion lost = { 0 };

	hr_single_write_sqe(&one, &sqe);
	hr_single_release_cqe();
	hr_single_submit(&t.qp, &one);
	hr_single_track(&t.qp, &one, TOKEN(0));
	cr_assert_not(hr_single_wait(&t.qp, &one, &wait));
	hr_lanes_sync();
	cr_assert_not(hr_qp_find_expired(&t.qp, START_NS + TIMEOUT_NS - 1, &lost));
	cr_assert(hr_qp_find_expired(&t.qp, START_NS + 2 * TIMEOUT_NS, &lost));
	if (hr_lane() == 0)
		cr_expect_eq(lost.token, TOKEN(0));
	cr_expect_not(hr_qp_is_unused(&t.qp), "the controller may still write");
}

Test(queue_one_lanes, a_wait_ends_by_the_word_and_a_command_by_its_deadline)
{
	t.word = 0xff1234;
	peer_init(&t.peer, &t.qp, t.entries, TIMEOUT_NS);
	cr_assert(fake_lanes_run(word_and_deadline));
	cr_expect_eq(t.qp.stats.lost, 1);
}
