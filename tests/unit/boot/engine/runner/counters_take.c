/* SPDX-License-Identifier: Apache-2.0 */
/* Counters of taps, feeds, consumers and producers: each from a word of its own. */
#include "boot/engine/runner/counters.h"
#include "tests/harness/words_rig.h"

TestSuite(counters_take, .timeout = 60);

static struct hr_counters taken(void)
{
	struct hr_counters c;

	memset(&c, 0xff, sizeof c);
	hr_counters_snapshot(&c, engine, run);
	return c;
}

/* ---- the tap */

static void fill_tap(void)
{
	struct hr_tap_words *words = hr_run_tap_words(run);

	words->dropped = 2;
	words->redelivered = 30;
	words->failed = 3;
	words->waiting = 50;
	run->tap.present = 60;
	run->tap.attached = 70;
	run->tap.revoked = 80;
	run->tap.refused = 90;
	run->tap.late = 100;
	run->done_tiles = 1000;
	run->started_ns = 1;
}

Test(counters_take, of_a_tap)
{
	struct hr_counters c;

	begin();
	fill_tap();
	run->ended_ns = 2;
	c = taken();
	cr_expect_eq(c.tiles_done, 1000u);
	cr_expect_eq(c.tap.returned, 995u);
	cr_expect_eq(c.tap.dropped, 2u);
	cr_expect_eq(c.tap.failed, 3u);
	cr_expect_eq(c.tap.redelivered, 30u);
	cr_expect_eq(c.tap.waiting, 0u); /* none after the end */
	cr_expect_eq(c.tap.present, 60u);
	cr_expect_eq(c.tap.attached, 70u);
	cr_expect_eq(c.tap.revoked, 80u);
	cr_expect_eq(c.tap.refused, 90u);
	cr_expect_eq(c.tap.late, 100u);
	cr_expect_eq(c.feed.next, 0u);
	run->done_tiles = 5; /* all others are newer */
	cr_expect_eq(taken().tap.returned, 0u);
	run->done_tiles = 4;
	cr_expect_eq(taken().tap.returned, 0u);
	run->done_tiles = 6;
	cr_expect_eq(taken().tap.returned, 1u);
	run->ended_ns = 0;
	cr_expect_eq(taken().tap.waiting, 50u);
	end();
}

/* What a run has not, and one that was not wired or never began. */
Test(counters_take, of_a_run_without_them)
{
	begin();
	fill_tap();
	hr_run_feed_words(run)->next = 9;
	pipeline->tap.name[0] = '\0';
	cr_expect_eq(taken().tap.dropped, 0u);
	cr_expect_eq(taken().feed.next, 0u);
	strcpy(pipeline->tap.name, "t");
	run->pipe = NULL;
	cr_expect_eq(taken().tap.dropped, 0u);
	run->pipe = &pipe_words;
	run->started_ns = 0;
	engine->up = HR_STAGE_SINKS;
	cr_expect_eq(taken().tap.dropped, 0u);
	engine->up = HR_STAGE_QUEUES;
	cr_expect_eq(taken().tap.dropped, 2u);
	end();
}

/* ---- a consumer */

Test(counters_take, of_a_consumer)
{
	struct hr_consumer_counters c = { .credits = 1000, .late = 2000 };
	struct hr_tap_words *words;
	struct hr_tap_seat *seat;

	begin();
	words = hr_run_tap_words(run);
	seat = &words->seat[5];
	*seat = (struct hr_tap_seat){ .lent = 100,
				      .returned = 90,
				      .failed = 3,
				      .redelivered = 4,
				      .hold_ns = 909,
				      .hold_max_ns = 60,
				      .oldest_ns = 70,
				      .oldest_tile = 500 };
	words->seat[4].lent = words->seat[6].lent = 1;
	words->front = 580;
	hr_counters_snapshot_consumer(&c, run, 5);
	cr_expect_eq(c.lent, 100u);
	cr_expect_eq(c.returned, 90u);
	cr_expect_eq(c.held, 10u);
	cr_expect_eq(c.failed, 3u);
	cr_expect_eq(c.redelivered, 4u);
	cr_expect_eq(c.hold_ns, 10u);
	cr_expect_eq(c.hold_max_ns, 60u);
	cr_expect_eq(c.oldest_ns, 70u);
	cr_expect_eq(c.lag, 80u);
	cr_expect_eq(c.credits, 1000u);
	cr_expect_eq(c.late, 2000u);
	/* it holds one that is not looked at, or is in front of the others */
	seat->oldest_ns = 0;
	hr_counters_snapshot_consumer(&c, run, 5);
	cr_expect_eq(c.lag, 0u);
	seat->oldest_ns = 1;
	words->front = 500;
	hr_counters_snapshot_consumer(&c, run, 5);
	cr_expect_eq(c.lag, 0u);
	words->front = 499;
	hr_counters_snapshot_consumer(&c, run, 5);
	cr_expect_eq(c.lag, 0u);
	/* the words are read while it gives tiles back */
	words->front = 580;
	seat->returned = 101;
	hr_counters_snapshot_consumer(&c, run, 5);
	cr_expect_eq(c.returned, 100u);
	cr_expect_eq(c.held, 0u);
	cr_expect_eq(c.oldest_ns, 0u);
	cr_expect_eq(c.lag, 0u);
	cr_expect_eq(c.hold_ns, 9u);
	seat->returned = 0;
	hr_counters_snapshot_consumer(&c, run, 5);
	cr_expect_eq(c.hold_ns, 0u);
	cr_expect_eq(c.held, 100u);
	seat->returned = 1;
	hr_counters_snapshot_consumer(&c, run, 5);
	cr_expect_eq(c.hold_ns, 909u);
	end();
}

/* ---- the feed, and its producer */

Test(counters_take, of_a_feed)
{
	struct hr_counters c;

	begin();
	pipeline->tap.name[0] = '\0';
	strcpy(pipeline->feed.name, "f");
	hr_run_feed_words(run)->next = 1;
	hr_run_feed_words(run)->discarded = 2;
	run->feed.present = 3;
	run->feed.attached = 4;
	run->feed.revoked = 5;
	run->feed.refused = 6;
	run->feed.late = 7;
	run->started_ns = 1;
	run->ended_ns = 2;
	c = taken();
	cr_expect_eq(c.feed.next, 1u);
	cr_expect_eq(c.feed.discarded, 2u);
	cr_expect_eq(c.feed.present, 3u);
	cr_expect_eq(c.feed.attached, 4u);
	cr_expect_eq(c.feed.revoked, 5u);
	cr_expect_eq(c.feed.refused, 6u);
	cr_expect_eq(c.feed.late, 7u);
	cr_expect_eq(c.tap.dropped, 0u);
	/* of one that another appliance fills, the link has the counters */
	strcpy(pipeline->from.address, "host");
	cr_expect_eq(taken().feed.next, 0u);
	pipeline->from.address[0] = '\0';
	run->pipe = NULL;
	cr_expect_eq(taken().feed.next, 0u);
	end();
}

Test(counters_take, of_a_producer)
{
	struct hr_producer_counters c = { .credits = 1000, .idle_ns = 2000, .late = 3000 };
	struct hr_feed_words *words;

	begin();
	words = hr_run_feed_words(run);
	words->offered = 40;
	words->committed = 30;
	words->next = 100;
	words->front = 160;
	hr_counters_snapshot_producer(&c, run);
	cr_expect_eq(c.offered, 40u);
	cr_expect_eq(c.committed, 30u);
	cr_expect_eq(c.held, 10u);
	cr_expect_eq(c.lag, 60u);
	cr_expect_eq(c.credits, 1000u);
	cr_expect_eq(c.idle_ns, 2000u);
	cr_expect_eq(c.late, 3000u);
	words->front = 100;
	hr_counters_snapshot_producer(&c, run);
	cr_expect_eq(c.lag, 0u);
	words->front = 99;
	hr_counters_snapshot_producer(&c, run);
	cr_expect_eq(c.lag, 0u);
	/* the words are read while it commits tiles */
	words->front = 160;
	words->committed = 41;
	hr_counters_snapshot_producer(&c, run);
	cr_expect_eq(c.committed, 40u);
	cr_expect_eq(c.held, 0u);
	cr_expect_eq(c.lag, 0u);
	end();
}

/* ---- the sink */
