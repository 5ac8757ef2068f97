/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The collective part of nvme/queue/queue.h: HR_LANES lanes own one queue pair, like a warp. lanes_64.c
 * compiles the same tests for 64 lanes.
 */
#include "tests/fakes/lanes.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "nvme/queue/queue.h"
#include "tests/fakes/clock.h"
#include "tests/fakes/peer.h"
#include "tests/harness/random.h"

#define ROWS(table) (sizeof(table) / sizeof(*(table)))
#define TIMEOUT_NS 8000u
#define START_NS 1000000u
#define ALL_LANES ((hr_mask)(((uint64_t)2 << (HR_LANES - 1)) - 1))
#define ENTRIES (2 * HR_LANES)
#define STEPS(of_eight) ((of_eight)*8 / HR_LANES) /* a step of many lanes takes longer */

/* Shared by the lanes: each writes its own element, lane 0 checks all after hr_lanes_sync(). */
static struct {
	struct hr_nvme_qp qp;
	struct peer peer;
	uint32_t entries, steps;
	uint64_t seed;
	int cid[HR_LANES];
	struct hr_completion done[HR_LANES];
	hr_mask mask[HR_LANES], before_gap;
	bool expired[HR_LANES];
	/* lane 0's model */
	bool taken[65536];
	uint32_t token[65536];
	uint32_t outstanding, next_token, completed, pushed;
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
static void push(hr_mask wants, uint32_t base)
{
	struct hr_sqe sqe;

	hr_sqe_io(&sqe, nvme_cmd_read, 1, base + hr_lane(), 1, 0x1000, 0);
	t.cid[hr_lane()] = hr_qp_push(&t.qp, hr_in_mask(wants), &sqe, base + hr_lane());
	hr_lanes_sync();
}

static void reap(void)
{
	t.mask[hr_lane()] = hr_qp_reap(&t.qp, &t.done[hr_lane()]);
	hr_lanes_sync();
}

/* Lane 0: each requesting lane got a CID while there was room, lower lanes first. */
static void check_push(hr_mask wants)
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

static void check_reap(void)
{
	for (uint32_t lane = 0; lane < HR_LANES; lane++) {
		const struct hr_completion *done = &t.done[lane];

		cr_assert_eq(t.mask[lane], t.mask[0], "lanes disagree");
		if (!(t.mask[0] >> lane & 1))
			continue;
		cr_assert(t.taken[done->cid], "lane %u: CID %x", lane, done->cid);
		cr_assert_eq(done->token, t.token[done->cid]);
		t.taken[done->cid] = false;
		t.outstanding--;
		t.completed++;
	}
	cr_assert_eq(t.qp.error, 0);
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
	struct fake_random shared = { t.seed }; /* equal in each lane, so the lanes decide alike */
	struct fake_random own = { t.seed + 2 };

	for (uint32_t i = 0; i < t.steps; i++) {
		const hr_mask wants = (hr_mask)fake_random_u64(&shared) & ALL_LANES;

		push(wants, t.next_token);
		if (hr_lane() == 0)
			check_push(wants);
		hr_lanes_sync();
		if (fake_random_below(&shared, 2))
			hr_qp_publish(&t.qp);
		hr_lanes_sync();
		if (hr_lane() == 0)
			complete_some(&own, fake_random_below(&own, 2 * HR_LANES));
		hr_lanes_sync();
		reap();
		if (hr_lane() == 0)
			check_reap();
		hr_lanes_sync();
	}
}

Test(lanes, any_order_of_completions_agrees_with_a_model)
{
	static const uint32_t depth[] = { 2, 3, 8, 9, 16, 64 };

	for (size_t i = 0; i < ROWS(depth); i++) {
		memset(&t, 0, sizeof(t));
		t.entries = depth[i];
		t.steps = STEPS(150);
		t.seed = 12345 + 2 * i;
		peer_init(&t.peer, &t.qp, t.entries, TIMEOUT_NS);
		cr_assert(fake_lanes_run(random_traffic));
		cr_assert_geq(t.completed, t.steps / 2, "%u entries: little happened", depth[i]);
		if (i + 1 < ROWS(depth))
			peer_fini(&t.peer);
	}
}

/*
 * The operations synchronise themselves: no further synchronisation, so that the thread sanitizer
 * checks this.
 */
static void back_to_back(void)
{
	struct fake_random own = { t.seed };
	const bool odd = hr_lane() & 1;
	struct hr_sqe sqe;
	struct hr_completion done;

	hr_sqe_io(&sqe, nvme_cmd_read, 1, 0, 1, 0x1000, 0);
	for (uint32_t i = 0; i < t.steps; i++) {
		hr_qp_push(&t.qp, odd, &sqe, 0);
		hr_qp_push(&t.qp, !odd, &sqe, 0);
		hr_qp_publish(&t.qp);
		hr_qp_push(&t.qp, odd, &sqe, 0);
		hr_qp_publish(&t.qp);
		if (hr_lane() == 0)
			complete_some(&own, HR_LANES);
		hr_lanes_sync();
		hr_qp_reap(&t.qp, &done);
		hr_qp_reap(&t.qp, &done);
		while (hr_qp_find_expired(&t.qp, START_NS + i * TIMEOUT_NS / t.steps * 2, &done))
			;
		hr_qp_find_expired(&t.qp, START_NS + i * TIMEOUT_NS / t.steps * 2, &done);
	}
	if (hr_lane() == 0)
		peer_post(&t.peer, (struct hr_cqe){ .sqid = 99 });
	hr_lanes_sync();
	hr_qp_reap(&t.qp, &done);
	hr_qp_push(&t.qp, true, &sqe, 0);
}

Test(lanes, operations_of_lanes_need_no_synchronization_between_them)
{
	t.entries = 8 * HR_LANES;
	t.steps = STEPS(40);
	t.seed = 77;
	peer_init(&t.peer, &t.qp, t.entries, TIMEOUT_NS);
	cr_assert(fake_lanes_run(back_to_back));
	cr_expect_eq(t.qp.error, -EPROTO);
	cr_expect_eq(t.qp.stats.submitted, t.qp.stats.completed + hr_qp_outstanding(&t.qp));
	cr_expect_gt(t.qp.stats.completed, 0u);
	cr_expect_gt(t.qp.stats.lost, 0u);
}

/* Values for every field of an SQE, different in each lane and step. */
static struct hr_sqe sqe_of(uint32_t lane, uint32_t step)
{
	struct hr_sqe sqe;

	for (uint32_t i = 0; i < sizeof sqe; i++)
		((uint8_t *)&sqe)[i] = (uint8_t)(i + 64 * lane + 7 * step);
	return sqe;
}

/* Lane 0: the SQEs of `wants`, in lane order, lie in the ring from `tail`, each with its CID. */
static void check_ring(hr_mask wants, uint32_t tail, uint32_t step)
{
	for (uint32_t lane = 0; lane < HR_LANES; lane++) {
		struct hr_sqe expected = sqe_of(lane, step);

		if (!(wants >> lane & 1))
			continue;
		expected.cid = (uint16_t)t.cid[lane];
		cr_assert_eq(memcmp(&t.qp.sq[tail], &expected, sizeof expected), 0,
			     "mask %llx, lane %u", (unsigned long long)wants, lane);
		tail = (tail + 1) % t.entries;
	}
	cr_assert_eq(t.qp.sq_tail, tail);
}

static void push_by_any_mask(void)
{
	struct fake_random shared = { 4711 };

	for (uint32_t i = 0; i < STEPS(256); i++) {
		const hr_mask wants = HR_LANES == 8 ? i : (hr_mask)fake_random_u64(&shared);
		const uint32_t tail = t.qp.sq_tail;
		const struct hr_sqe sqe = sqe_of(hr_lane(), i);
		struct hr_completion done;

		hr_lanes_sync();
		t.cid[hr_lane()] = hr_qp_push(&t.qp, hr_in_mask(wants), &sqe, 0);
		hr_lanes_sync();
		if (hr_lane() == 0) {
			check_ring(wants, tail, i);
			t.pushed += hr_count_bits(wants);
		}
		hr_lanes_sync();
		hr_qp_publish(&t.qp);
		if (hr_lane() == 0)
			while (peer_fetch(&t.peer))
				peer_complete(&t.peer, 0, 0);
		hr_lanes_sync();
		hr_qp_reap(&t.qp, &done);
	}
}

Test(lanes, an_sqe_of_any_lane_is_whole_in_the_ring_and_in_its_turn)
{
	t.entries = HR_LANES + 3; /* each entry is the first of a batch at some time */
	peer_init(&t.peer, &t.qp, t.entries, TIMEOUT_NS);
	cr_assert(fake_lanes_run(push_by_any_mask));
	cr_expect_eq(t.qp.stats.completed, t.pushed);
	cr_expect_geq(t.pushed, 1000u);
}

/* One command per lane; the controller completes 0, 1, 2, then posts two bad CQEs. */
static void lie_in_the_middle(void)
{
	push(ALL_LANES, 0);
	hr_qp_publish(&t.qp);
	if (hr_lane() == 0) {
		peer_fetch(&t.peer);
		for (uint32_t i = 0; i < 5; i++)
			peer_post(&t.peer,
				  (struct hr_cqe){ .dw0 = i,
						   .sqhd = (uint16_t)(i < 3 ? i + 1 : 996 + i),
						   .sqid = 3,
						   .cid = (uint16_t)t.cid[i] });
	}
	hr_lanes_sync();
	reap();
}

Test(lanes, cqes_before_a_broken_cqe_are_credited_and_later_cqes_are_not)
{
	peer_init(&t.peer, &t.qp, ENTRIES, TIMEOUT_NS);
	cr_assert(fake_lanes_run(lie_in_the_middle));
	cr_expect_eq(t.mask[0], 7u);
	cr_expect_eq(t.qp.error, -EPROTO);
	cr_expect_eq(t.qp.bad_cqe.sqhd, 999, "not the first of them");
	cr_expect_eq(t.qp.unfetched, HR_LANES - 3, "not the newest SQHD");
	cr_expect_eq(t.qp.cq_head, 3);
	cr_expect_eq(hr_qp_outstanding(&t.qp), HR_LANES - 3);
}

/*
 * One completion per lane; the first load of lane 2's CQE returns the present DW3 with the DW2 of
 * the previous lap, whose SQHD and SQID are invalid.
 */
static void load_torn(void)
{
	push(ALL_LANES, 0);
	hr_qp_publish(&t.qp);
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
	peer_init(&t.peer, &t.qp, ENTRIES, TIMEOUT_NS);
	cr_assert(fake_lanes_run(load_torn));
	cr_expect_null(fake_torn.at, "the CQE was not loaded");
	cr_expect_eq(t.qp.error, 0);
	cr_expect_eq(t.mask[0], ALL_LANES);
	cr_expect_eq(hr_qp_outstanding(&t.qp), 0u);
}

/*
 * A CQE breaks the queue while commands lie in the ring before the doorbell write, and reaped
 * entries must be returned to the controller: HR_LANES reaped and HR_LANES outstanding of
 * 2 HR_LANES - 1.
 */
static void break_before_the_ring(void)
{
	push(ALL_LANES, 0);
	hr_qp_publish(&t.qp);
	if (hr_lane() == 0) {
		peer_fetch(&t.peer);
		for (uint32_t i = 0; i < HR_LANES; i++)
			peer_complete(&t.peer, 0, 0);
	}
	hr_lanes_sync();
	reap();
	push(ALL_LANES, HR_LANES);
	if (hr_lane() == 0)
		peer_post(&t.peer, (struct hr_cqe){ .sqhd = HR_LANES, .sqid = 99 });
	hr_lanes_sync();
	reap();
	hr_qp_publish(&t.qp);
	reap();
	hr_qp_publish(&t.qp);
}

Test(lanes, a_broken_queue_writes_no_doorbell)
{
	peer_init(&t.peer, &t.qp, ENTRIES, TIMEOUT_NS);
	cr_assert(fake_lanes_run(break_before_the_ring));
	cr_expect_eq(t.qp.error, -EPROTO);
	cr_expect_eq(t.qp.stats.completed, HR_LANES);
	cr_expect_eq(t.peer.sq_doorbell, HR_LANES);
	cr_expect_eq(t.peer.cq_doorbell, 0u);
	cr_expect_eq(t.qp.stats.doorbells, 1u);
	cr_expect_eq(t.qp.stats.submitted, HR_LANES);
}

#ifndef __SANITIZE_THREAD__ /* lanes write one word by plain stores, and a GPU keeps one */
static void repeat_in_one_batch(void)
{
	push(0xf, 0);
	hr_qp_publish(&t.qp);
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

Test(lanes, a_cid_repeated_in_several_lanes_is_credited_once)
{
	peer_init(&t.peer, &t.qp, ENTRIES, TIMEOUT_NS);
	cr_assert(fake_lanes_run(repeat_in_one_batch));
	cr_expect_eq(hr_count_bits(t.mask[0]), 1u);
	cr_expect_eq(t.qp.stats.stray, 3u);
	cr_expect_eq(hr_qp_outstanding(&t.qp), 3u);
}
#endif

/* A controller that ignores the CQ head fills the ring with one CID, all entries new. */
static void flood(void)
{
	push(1, 0);
	hr_qp_publish(&t.qp);
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

/*
 * Lanes load their CQEs one by one, so a lane can see a later CQE before another lane sees an
 * earlier one.
 */
static void see_with_a_gap(void)
{
	push(7, 0);
	hr_qp_publish(&t.qp);
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
		t.before_gap = t.mask[0];
		t.qp.cq[1].status ^= 1;
	}
	hr_lanes_sync();
	reap();
}

Test(lanes, completions_after_a_gap_wait)
{
	peer_init(&t.peer, &t.qp, ENTRIES, TIMEOUT_NS);
	cr_assert(fake_lanes_run(see_with_a_gap));
	cr_expect_eq(t.before_gap, 1u);
	cr_expect_eq(t.mask[0], 3u);
	cr_expect_eq(t.qp.stats.completed, 3u);
}

static void let_expire(void)
{
	/* The clocks of lanes differ; lane 0's clock counts for all. */
	const uint64_t now = START_NS + (hr_lane() ? 0 : TIMEOUT_NS);

	push(ALL_LANES, 100);
	hr_qp_publish(&t.qp);
	for (uint32_t i = 0; i < 3; i++) {
		t.expired[hr_lane()] = hr_qp_find_expired(&t.qp, now, &t.done[hr_lane()]);
		hr_lanes_sync();
	}
}

Test(lanes, all_lanes_learn_of_the_same_lost_command)
{
	peer_init(&t.peer, &t.qp, ENTRIES, TIMEOUT_NS);
	cr_assert(fake_lanes_run(let_expire));
	for (uint32_t lane = 0; lane < HR_LANES; lane++) {
		cr_expect(t.expired[lane]);
		cr_expect_eq(t.done[lane].token, 102u);
		cr_expect_eq(t.done[lane].cid, t.cid[2]);
	}
	cr_expect_eq(t.qp.stats.lost, 3u);
}

/* A lane without a CID must not count as one with a large CID. */
static void match_large_cids(void)
{
	const uint32_t lane = hr_lane(), slot = (lane + HR_LANES - 1) % HR_LANES;

	t.qp.inflight[slot].cid_state = (slot | 0x8000) | (uint32_t)HR_CMD_SUBMITTED << 16;
	hr_lanes_sync();
	for (uint32_t stray = 0; stray < HR_LANES; stray++) {
		const uint32_t cid = slot | (lane == stray ? 0x4000 : 0x8000);
		const hr_mask got = hr_qp_match_cids(&t.qp, ALL_LANES, cid);

		if (lane == 0)
			cr_assert_eq(got, ALL_LANES & ~((hr_mask)1 << stray), "lane %u", stray);
		hr_lanes_sync();
	}
}

Test(lanes, each_cid_of_16_bits_matches_its_command)
{
	peer_init(&t.peer, &t.qp, ENTRIES, TIMEOUT_NS);
	cr_assert(fake_lanes_run(match_large_cids));
}
