/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How often a wait of nvme/queue/queue.h and nvme/queue/single.h looks at the completion
 * queue, and which word ends it; entries that lanes must not touch; commands of lanes whose CIDs are 0.
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
#define ENTRIES (2 * HR_LANES)
#define UNUSED 0xabu

/* Shared by the lanes; lane 0 writes. */
static struct {
	struct hr_nvme_qp qp;
	struct peer peer;
	struct hr_qp_wait wait;
	bool late; /* the first look does not see the completion */
	uint64_t word;
	uint32_t got;
} t;

static void setup(void)
{
	memset(&t, 0, sizeof t);
	peer_init(&t.peer, &t.qp, ENTRIES, TIMEOUT_NS);
	fake_clock_start(START_NS, NULL, NULL);
}

static void teardown(void)
{
	peer_fini(&t.peer);
	fake_clock_stop();
}

TestSuite(queue_wait_lanes, .init = setup, .fini = teardown, .timeout = 60);

static const struct {
	uint32_t polls;
	bool late, has_word;
	uint64_t word, mask, value;
	uint32_t want; /* polls until the completion; 0: the wait ended without it */
} row[] = {
	{ 0, false, false, 0, 0, 0, 1 },
	{ 1, false, false, 0, 0, 0, 1 },
	{ 5, false, false, 0, 0, 0, 1 },
	{ 0, true, false, 0, 0, 0, 0 },
	{ 1, true, false, 0, 0, 0, 0 },
	{ 2, true, false, 0, 0, 0, 2 },
	{ 9, true, false, 0, 0, 0, 2 },
	{ 9, true, true, 0x12f0, 0xff00, 0x1200, 0 },
	{ 9, true, true, 0x13f0, 0xff00, 0x1200, 2 },
	{ 9, true, true, 0x12f0, 0, 0, 0 },
	{ 9, true, true, 0x12f0, 0, 1, 2 },
	{ 9, true, true, 0, 0xff00, 0xff00, 2 },
	{ 9, false, true, 0x12f0, 0xff00, 0x1200, 1 }, /* the completion counts first */
};

static void prepare(size_t i)
{
	t.word = row[i].word;
	t.late = row[i].late;
	t.wait = (struct hr_qp_wait){ row[i].polls, row[i].has_word ? &t.word : NULL, row[i].mask,
				      row[i].value };
}

/* Lane 0: the controller completes the command, and the next look at its entry may be too early. */
static void complete(void)
{
	const struct hr_cqe *at = &t.qp.cq[t.peer.cq_tail];

	fake_torn.value = at->dw23;
	peer_fetch(&t.peer);
	peer_complete(&t.peer, 0, 0);
	fake_torn.at = t.late ? &at->dw23 : NULL;
}

static void general(void)
{
	struct hr_sqe sqe = { 0 };
	struct hr_completion done = { 0 };
	hr_mask mask;

	hr_qp_push(&t.qp, hr_lane() == 0, &sqe, 7);
	hr_qp_publish(&t.qp);
	if (hr_lane() == 0)
		complete();
	hr_lanes_sync();
	mask = hr_qp_reap_or(&t.qp, &t.wait, &done);
	if (hr_lane() == 0)
		t.got = mask;
	hr_lanes_sync();
	if (!mask)
		mask = hr_qp_reap(&t.qp, &done);
	cr_assert_eq(mask, 1u);
}

static void single(void)
{
	const struct hr_sqe sqe = { 0 };
	struct hr_single one = hr_single_next(&t.qp);
	uint32_t polls;

	hr_single_write_sqe(&one, &sqe);
	hr_single_release_cqe();
	hr_single_submit(&t.qp, &one);
	if (hr_lane() == 0)
		complete();
	hr_lanes_sync();
	polls = hr_single_wait(&t.qp, &one, &t.wait);
	hr_lanes_sync();
	if (hr_lane() == 0) {
		t.got = polls;
		t.wait = (struct hr_qp_wait){ 1, NULL, 0, 0 };
	}
	hr_lanes_sync();
	if (!polls)
		cr_assert_eq(hr_single_wait(&t.qp, &one, &t.wait), 1u);
	hr_single_end(&t.qp, &one);
}

Test(queue_wait_lanes, a_wait_has_so_many_polls_or_ends_by_its_word)
{
	for (size_t i = 0; i < ROWS(row); i++) {
		prepare(i);
		cr_assert(fake_lanes_run(general));
		cr_expect_eq(t.got, row[i].want != 0, "row %zu: %u", i, t.got);
		cr_expect_null(fake_torn.at, "row %zu: it was not polled", i);
		prepare(i);
		cr_assert(fake_lanes_run(single));
		cr_expect_eq(t.got, row[i].want, "row %zu, single: %u", i, t.got);
		cr_expect_null(fake_torn.at, "row %zu, single: it was not polled", i);
	}
	cr_expect_eq(t.qp.stats.completed, 2 * ROWS(row));
	cr_expect_eq(hr_qp_outstanding(&t.qp), 0u);
}

static void push_some(void)
{
	struct hr_sqe sqe;

	memset(&sqe, 1, sizeof sqe);
	hr_qp_push(&t.qp, hr_lane() < t.got, &sqe, 0);
}

Test(queue_wait_lanes, entries_behind_the_pushed_ones_stay_as_they_are)
{
	uint32_t tail = 0;

	memset(t.qp.sq, UNUSED, ENTRIES * sizeof *t.qp.sq);
	for (uint32_t count = 0; count < 4; count++) {
		t.got = count;
		cr_assert(fake_lanes_run(push_some));
		tail += count;
		cr_assert_eq(t.qp.sq_tail, tail);
		for (uint32_t at = 0; at < ENTRIES * sizeof *t.qp.sq; at++) {
			const bool is = ((const uint8_t *)t.qp.sq)[at] != UNUSED;

			cr_assert_eq(is, at < tail * sizeof *t.qp.sq, "%u: byte %u", count, at);
		}
	}
}

static void write_one(void)
{
	struct hr_single one = hr_single_next(&t.qp);
	struct hr_sqe sqe;

	memset(&sqe, 1, sizeof sqe);
	hr_single_write_sqe(&one, &sqe);
}

Test(queue_wait_lanes, a_single_command_is_one_entry)
{
	memset(t.qp.sq, UNUSED, ENTRIES * sizeof *t.qp.sq);
	cr_assert(fake_lanes_run(write_one));
	for (uint32_t at = 0; at < ENTRIES * sizeof *t.qp.sq; at++) {
		const bool is = ((const uint8_t *)t.qp.sq)[at] != UNUSED;

		cr_assert_eq(is, at < sizeof *t.qp.sq, "byte %u", at);
	}
}

/* A lane without a command in flight is not one whose CID is 0. */
static void match_zero(void)
{
	const hr_mask got = hr_qp_match_cids(&t.qp, 0xf, hr_lane() == 2 ? 0 : 0x4000);

	if (hr_lane() == 0)
		t.got = got;
}

Test(queue_wait_lanes, a_cid_of_zero_is_matched)
{
	t.qp.inflight[0].cid_state = (uint32_t)HR_CMD_SUBMITTED << 16;
	cr_assert(fake_lanes_run(match_zero));
	cr_expect_eq(t.got, 4u);
	cr_expect_eq(t.qp.stats.late + t.qp.stats.stray, 3u);
}
