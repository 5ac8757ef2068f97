/* The collective side of nvme/queue.h: eight lanes own one queue pair, as a warp does. */
#include "tests/fakes/lanes.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "nvme/queue.h"
#include "tests/fakes/clock.h"
#include "tests/fakes/peer.h"
#include "tests/harness/random.h"

#define ROWS(table) (sizeof(table) / sizeof(*(table)))
#define TIMEOUT_NS 8000u
#define START_NS 1000000u

/* Shared by the lanes: each writes its own element, lane 0 judges all after hr_lanes_sync(). */
static struct {
	struct hr_nvme_qp qp;
	struct peer peer;
	uint32_t entries, steps;
	uint64_t seed;
	int cid[HR_LANES];
	struct hr_done done[HR_LANES];
	uint32_t mask[HR_LANES];
	bool expired[HR_LANES];
	/* lane 0's model */
	bool taken[65536];
	uint32_t token[65536];
	uint32_t outstanding, next_token, completed;
} t;

static void setup(void)
{
	memset(&t, 0, sizeof(t));
	fake_clock_start(START_NS, NULL, NULL);
}

static void teardown(void)
{
	peer_fini(&t.peer);
	fake_clock_stop();
}

TestSuite(lanes, .init = setup, .fini = teardown, .timeout = 120);

/* Collective: the lanes in `wants` push commands with tokens base + lane. */
static void push(uint32_t wants, uint32_t base)
{
	struct hr_sqe sqe;

	hr_sqe_io(&sqe, nvme_cmd_read, 1, base + hr_lane(), 1, 0x1000, 0);
	t.cid[hr_lane()] = hr_qp_push(&t.qp, wants >> hr_lane() & 1, &sqe, base + hr_lane());
	hr_lanes_sync();
}

static void reap(void)
{
	t.mask[hr_lane()] = hr_qp_reap(&t.qp, &t.done[hr_lane()]);
	hr_lanes_sync();
}

/* Lane 0: who wanted got a CID as long as there was room, lower lanes first. */
static void judge_push(uint32_t wants)
{
	for (uint32_t lane = 0; lane < HR_LANES; lane++) {
		const int cid = t.cid[lane];

		if (!(wants >> lane & 1)) {
			cr_assert_eq(cid, -EINVAL);
		} else if (t.outstanding == t.entries - 1) {
			cr_assert_eq(cid, -EAGAIN);
		} else {
			cr_assert(cid >= 0 && !t.taken[cid], "lane %u: CID %d", lane, cid);
			t.taken[cid] = true;
			t.token[cid] = t.next_token + lane;
			t.outstanding++;
		}
	}
	t.next_token += HR_LANES;
	cr_assert_eq(hr_qp_outstanding(&t.qp), t.outstanding);
}

static void judge_reap(void)
{
	for (uint32_t lane = 0; lane < HR_LANES; lane++) {
		const struct hr_done *done = &t.done[lane];

		cr_assert_eq(t.mask[lane], t.mask[0], "lanes disagree");
		if (!(t.mask[0] >> lane & 1))
			continue;
		cr_assert(t.taken[done->cid], "lane %u: CID %x", lane, done->cid);
		cr_assert_eq(done->token, t.token[done->cid]);
		t.taken[done->cid] = false;
		t.outstanding--;
		t.completed++;
	}
	cr_assert_eq(t.qp.broken, 0);
	cr_assert_eq(hr_qp_outstanding(&t.qp), t.outstanding);
	cr_assert_eq(t.qp.stats.completed, t.completed);
}

static void complete_some(struct fake_random *random, uint32_t some)
{
	while (some-- && peer_fetch(&t.peer) && peer_can_post(&t.peer))
		peer_complete(&t.peer, fake_random_below(random, t.peer.fetched), 0);
}

static void random_traffic(void)
{
	struct fake_random shared = { t.seed }; /* the same in each lane: they decide alike */
	struct fake_random own = { t.seed + 2 };

	for (uint32_t i = 0; i < t.steps; i++) {
		const uint32_t wants = fake_random_below(&shared, 1u << HR_LANES);

		push(wants, t.next_token);
		if (hr_lane() == 0)
			judge_push(wants);
		hr_lanes_sync();
		if (fake_random_below(&shared, 2))
			hr_qp_ring(&t.qp);
		hr_lanes_sync();
		if (hr_lane() == 0)
			complete_some(&own, fake_random_below(&own, 2 * HR_LANES));
		hr_lanes_sync();
		reap();
		if (hr_lane() == 0)
			judge_reap();
		hr_lanes_sync();
	}
}

Test(lanes, any_order_of_completions_agrees_with_a_model)
{
	static const uint32_t depth[] = { 2, 3, 8, 9, 16, 64 };

	for (size_t i = 0; i < ROWS(depth); i++) {
		memset(&t, 0, sizeof(t));
		t.entries = depth[i];
		t.steps = 150;
		t.seed = 12345 + 2 * i;
		peer_init(&t.peer, &t.qp, t.entries, TIMEOUT_NS);
		cr_assert(fake_lanes_run(random_traffic));
		cr_assert_geq(t.completed, t.steps / 2, "%u entries: little happened", depth[i]);
		if (i + 1 < ROWS(depth))
			peer_fini(&t.peer);
	}
}

/* Nothing between the operations but what they do themselves: for the thread sanitizer. */
static void back_to_back(void)
{
	struct fake_random own = { t.seed };
	const bool odd = hr_lane() & 1;
	struct hr_sqe sqe;
	struct hr_done done;

	hr_sqe_io(&sqe, nvme_cmd_read, 1, 0, 1, 0x1000, 0);
	for (uint32_t i = 0; i < t.steps; i++) {
		hr_qp_push(&t.qp, odd, &sqe, 0);
		hr_qp_push(&t.qp, !odd, &sqe, 0);
		hr_qp_ring(&t.qp);
		hr_qp_push(&t.qp, odd, &sqe, 0);
		hr_qp_ring(&t.qp);
		if (hr_lane() == 0)
			complete_some(&own, HR_LANES);
		hr_lanes_sync();
		hr_qp_reap(&t.qp, &done);
		hr_qp_reap(&t.qp, &done);
		while (hr_qp_expire(&t.qp, START_NS + i * TIMEOUT_NS / t.steps * 2, &done))
			;
		hr_qp_expire(&t.qp, START_NS + i * TIMEOUT_NS / t.steps * 2, &done);
	}
	if (hr_lane() == 0)
		peer_post(&t.peer, (struct hr_cqe){ .sqid = 99 });
	hr_lanes_sync();
	hr_qp_reap(&t.qp, &done);
	hr_qp_push(&t.qp, true, &sqe, 0);
}

Test(lanes, operations_need_no_help_between_them)
{
	t.entries = 64;
	t.steps = 40;
	t.seed = 77;
	peer_init(&t.peer, &t.qp, t.entries, TIMEOUT_NS);
	cr_assert(fake_lanes_run(back_to_back));
	cr_expect_eq(t.qp.broken, -EPROTO);
	cr_expect_eq(t.qp.stats.submitted, t.qp.stats.completed + hr_qp_outstanding(&t.qp));
	cr_expect_gt(t.qp.stats.completed, 0u);
	cr_expect_gt(t.qp.stats.lost, 0u);
}

/* Every field of an SQE, different in each lane and each time. */
static struct hr_sqe sqe_of(uint32_t lane, uint32_t step)
{
	struct hr_sqe sqe;

	for (uint32_t i = 0; i < sizeof sqe; i++)
		((uint8_t *)&sqe)[i] = (uint8_t)(i + 64 * lane + 7 * step);
	return sqe;
}

/* Lane 0: the SQEs of `wants`, in lane order, are in the ring from `tail` on, each with its CID. */
static void judge_ring(uint32_t wants, uint32_t tail, uint32_t step)
{
	for (uint32_t lane = 0; lane < HR_LANES; lane++) {
		struct hr_sqe expected = sqe_of(lane, step);

		if (!(wants >> lane & 1))
			continue;
		expected.cid = (uint16_t)t.cid[lane];
		cr_assert_eq(memcmp(&t.qp.sq[tail], &expected, sizeof expected), 0,
			     "mask %02x, lane %u", wants, lane);
		tail = (tail + 1) % t.entries;
	}
	cr_assert_eq(t.qp.sq_tail, tail);
}

static void push_by_every_mask(void)
{
	for (uint32_t wants = 0; wants <= 0xff; wants++) {
		const uint32_t tail = t.qp.sq_tail;
		const struct hr_sqe sqe = sqe_of(hr_lane(), wants);
		struct hr_done done;

		hr_lanes_sync();
		t.cid[hr_lane()] = hr_qp_push(&t.qp, wants >> hr_lane() & 1, &sqe, 0);
		hr_lanes_sync();
		if (hr_lane() == 0)
			judge_ring(wants, tail, wants);
		hr_lanes_sync();
		hr_qp_ring(&t.qp);
		if (hr_lane() == 0)
			while (peer_fetch(&t.peer))
				peer_complete(&t.peer, 0, 0);
		hr_lanes_sync();
		hr_qp_reap(&t.qp, &done);
	}
}

Test(lanes, an_sqe_of_any_lane_is_whole_in_the_ring_and_in_its_turn)
{
	t.entries = 11; /* every place of the ring is a first one */
	peer_init(&t.peer, &t.qp, t.entries, TIMEOUT_NS);
	cr_assert(fake_lanes_run(push_by_every_mask));
	cr_expect_eq(t.qp.stats.completed, 1024u);
}

/* Eight commands; the controller completes 0, 1, 2, then lies twice. */
static void lie_in_the_middle(void)
{
	push(0xff, 0);
	hr_qp_ring(&t.qp);
	if (hr_lane() == 0) {
		peer_fetch(&t.peer);
		for (uint32_t i = 0; i < 5; i++)
			peer_post(&t.peer,
				  (struct hr_cqe){ .dw0 = i,
						   .sqhd = (uint16_t)(i < 3 ? i + 1 : 96 + i),
						   .sqid = 3,
						   .cid = (uint16_t)t.cid[i] });
	}
	hr_lanes_sync();
	reap();
}

Test(lanes, what_lies_before_a_broken_cqe_is_credited_and_nothing_behind_it)
{
	peer_init(&t.peer, &t.qp, 16, TIMEOUT_NS);
	cr_assert(fake_lanes_run(lie_in_the_middle));
	cr_expect_eq(t.mask[0], 7u);
	cr_expect_eq(t.qp.broken, -EPROTO);
	cr_expect_eq(t.qp.offence.sqhd, 99, "not the first of them");
	cr_expect_eq(t.qp.unfetched, 5u, "not the newest SQHD");
	cr_expect_eq(t.qp.cq_head, 3);
	cr_expect_eq(hr_qp_outstanding(&t.qp), 5u);
}

/*
 * Eight completions; the first load of the CQE of lane 2 gets DW3 of now with DW2 of a lap ago, in
 * which SQHD and SQID are those of nothing.
 */
static void load_torn(void)
{
	push(0xff, 0);
	hr_qp_ring(&t.qp);
	if (hr_lane() == 0) {
		peer_fetch(&t.peer);
		for (uint32_t i = 0; i < HR_LANES; i++)
			peer_complete(&t.peer, 0, 0);
		fake_torn.value = (t.qp.cq[2].dw23 & ~0xffffffffull) | 0xdeadbeef;
		fake_torn.at = &t.qp.cq[2].dw23;
	}
	hr_lanes_sync();
	reap();
}

Test(lanes, a_cqe_that_was_loaded_in_two_parts_is_loaded_again)
{
	peer_init(&t.peer, &t.qp, 16, TIMEOUT_NS);
	cr_assert(fake_lanes_run(load_torn));
	cr_expect_null(fake_torn.at, "the CQE was not loaded");
	cr_expect_eq(t.qp.broken, 0);
	cr_expect_eq(t.mask[0], 0xffu);
	cr_expect_eq(hr_qp_outstanding(&t.qp), 0u);
}

/*
 * A CQE breaks the queue while commands lie in the ring, not rung, and what was reaped has to go
 * back to the controller: 8 reaped and 8 outstanding of 15.
 */
static void break_before_the_ring(void)
{
	push(0xff, 0);
	hr_qp_ring(&t.qp);
	if (hr_lane() == 0) {
		peer_fetch(&t.peer);
		for (uint32_t i = 0; i < HR_LANES; i++)
			peer_complete(&t.peer, 0, 0);
	}
	hr_lanes_sync();
	reap();
	push(0xff, HR_LANES);
	if (hr_lane() == 0)
		peer_post(&t.peer, (struct hr_cqe){ .sqhd = 8, .sqid = 99 });
	hr_lanes_sync();
	reap();
	hr_qp_ring(&t.qp);
	reap();
	hr_qp_ring(&t.qp);
}

Test(lanes, a_broken_queue_writes_no_doorbell)
{
	peer_init(&t.peer, &t.qp, 16, TIMEOUT_NS);
	cr_assert(fake_lanes_run(break_before_the_ring));
	cr_expect_eq(t.qp.broken, -EPROTO);
	cr_expect_eq(t.qp.stats.completed, 8u);
	cr_expect_eq(t.peer.sq_doorbell, 8u);
	cr_expect_eq(t.peer.cq_doorbell, 0u);
	cr_expect_eq(t.qp.stats.doorbells, 1u);
	cr_expect_eq(t.qp.stats.submitted, 8u);
}

#ifndef __SANITIZE_THREAD__ /* several lanes claim with plain stores; a GPU lets one of them win */
static void repeat_in_one_batch(void)
{
	push(0xf, 0);
	hr_qp_ring(&t.qp);
	if (hr_lane() == 0) {
		peer_fetch(&t.peer);
		for (uint32_t i = 0; i < 4; i++)
			peer_post(
				&t.peer,
				(struct hr_cqe){ .sqhd = 4, .sqid = 3, .cid = (uint16_t)t.cid[0] });
	}
	hr_lanes_sync();
	reap();
}

Test(lanes, of_one_cid_in_several_lanes_one_is_credited)
{
	peer_init(&t.peer, &t.qp, 16, TIMEOUT_NS);
	cr_assert(fake_lanes_run(repeat_in_one_batch));
	cr_expect_eq(hr_count_bits(t.mask[0]), 1u);
	cr_expect_eq(t.qp.stats.stray, 3u);
	cr_expect_eq(hr_qp_outstanding(&t.qp), 3u);
}
#endif

/* A controller that ignores the CQ head floods the ring with one CID, all slots new. */
static void flood(void)
{
	push(1, 0);
	hr_qp_ring(&t.qp);
	if (hr_lane() == 0) {
		peer_fetch(&t.peer);
		for (uint32_t i = 0; i < t.entries; i++)
			peer_post(&t.peer, (struct hr_cqe){ .sqhd = 1,
							    .sqid = 3,
							    .cid = (uint16_t)(t.cid[0] ^ 0x100) });
	}
	hr_lanes_sync();
	for (uint32_t i = 0; i < 8; i++)
		reap();
}

Test(lanes, a_flooded_ring_is_read_once)
{
	t.entries = 4;
	peer_init(&t.peer, &t.qp, t.entries, TIMEOUT_NS);
	cr_assert(fake_lanes_run(flood));
	cr_expect_eq(t.qp.stats.late, 4u);
	cr_expect_eq(t.mask[0], 0u);
}

/* Lanes load their CQEs one by one, so a later one can be seen when an earlier one was not yet. */
static void see_with_a_gap(void)
{
	push(7, 0);
	hr_qp_ring(&t.qp);
	if (hr_lane() == 0) {
		peer_fetch(&t.peer);
		for (uint32_t i = 0; i < 3; i++)
			peer_post(
				&t.peer,
				(struct hr_cqe){ .sqhd = 3, .sqid = 3, .cid = (uint16_t)t.cid[i] });
		t.qp.cq[1].status ^= 1;
	}
	hr_lanes_sync();
	reap();
	if (hr_lane() == 0) {
		t.token[0] = t.mask[0];
		t.qp.cq[1].status ^= 1;
	}
	hr_lanes_sync();
	reap();
}

Test(lanes, what_lies_behind_a_gap_waits)
{
	peer_init(&t.peer, &t.qp, 16, TIMEOUT_NS);
	cr_assert(fake_lanes_run(see_with_a_gap));
	cr_expect_eq(t.token[0], 1u);
	cr_expect_eq(t.mask[0], 3u);
	cr_expect_eq(t.qp.stats.completed, 3u);
}

static void let_expire(void)
{
	/* Clocks of lanes differ; lane 0's counts for all. */
	const uint64_t now = START_NS + (hr_lane() ? 0 : TIMEOUT_NS);

	push(0xff, 100);
	hr_qp_ring(&t.qp);
	for (uint32_t i = 0; i < 3; i++) {
		t.expired[hr_lane()] = hr_qp_expire(&t.qp, now, &t.done[hr_lane()]);
		hr_lanes_sync();
	}
}

Test(lanes, all_lanes_learn_of_the_same_lost_command)
{
	peer_init(&t.peer, &t.qp, 16, TIMEOUT_NS);
	cr_assert(fake_lanes_run(let_expire));
	for (uint32_t lane = 0; lane < HR_LANES; lane++) {
		cr_expect(t.expired[lane]);
		cr_expect_eq(t.done[lane].token, 102u);
		cr_expect_eq(t.done[lane].cid, t.cid[2]);
	}
	cr_expect_eq(t.qp.stats.lost, 3u);
}
