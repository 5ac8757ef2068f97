/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Consumers of a tap, step by step: what each message, the end of a connection or of a process, and
 * the time do to the state, the orders to the worker, the messages and the counters.
 */
#include <fcntl.h>
#include <stdio.h>

#include "tests/harness/tap_seats_rig.h"

#define ROWS(table) (sizeof(table) / sizeof(*(table)))
#define WHO(seat, name) "tap 't': consumer '" name "' (process 7" #seat " of user 5)"
#define WRONG " is dropped: it sent a message that the protocol does not have here"

TestSuite(tap_consumer, .init = begin, .fini = end, .timeout = 60);

/* An order, and how many there were. */
#define ORDER(count, what) ((count)*HR_TAP_ORDERS + (what))

Test(tap_consumer, ready_attaches_a_consumer)
{
	fake_clock_advance(5);
	cr_assert_eq(greet(0, "a", 0, -1), 0);
	cr_assert_eq(greet(1, "b", 0, -1), 0);
	step(0, false);
	step(0, true); /* no message */
	cr_expect_eq(table->consumer[0].peer.state, HR_LEND_GREETED);
	tell(0, HR_TAP_READY);
	step(0, false); /* not looked at */
	cr_expect_eq(table->consumer[0].peer.state, HR_LEND_GREETED);
	fake_clock_advance(5);
	step(0, true);
	cr_expect_eq(table->consumer[0].peer.state, HR_LEND_ATTACHED);
	cr_expect_eq(table->consumer[0].peer.since_ns, BEGIN_NS + 10);
	cr_expect_str_eq(fake_log_last_of(HR_LOG_INFO), WHO(0, "a") " is attached, 6 credits");
	cr_expect_eq(words->seat[0].order, ORDER(1, HR_TAP_LEND));
	cr_expect_eq(words->seat[0].credits, 6);
	cr_expect_eq(table->consumer[1].peer.state, HR_LEND_GREETED);
	cr_expect_eq(words->seat[1].order, 0);
	tell(1, HR_TAP_READY);
	step(1, true);
	cr_expect_eq(words->seat[1].order, ORDER(1, HR_TAP_LEND));
	cr_expect_eq(words->seat[1].credits, 3); /* half of the slots */
	cr_expect_eq(words->seat[0].credits, 6);
	cr_expect_eq(run->tap.attached, 2);
	cr_expect_eq(run->tap.present, 2);
	cr_expect_eq(run->tap.revoked, 0);
	cr_expect_eq(fake_log_count_of(HR_LOG_WARN), 0u);
}

/* Each consumer of deliver = "each" may hold all slots but two; so may the only one. */
Test(tap_consumer, credits_at_first)
{
	static const struct {
		enum hr_tap_deliver deliver;
		uint32_t slots, most, first, second;
	} row[] = {
		{ HR_TAP_EACH, 8, 0, 6, 6 }, { HR_TAP_ONE, 8, 0, 6, 3 }, { HR_TAP_ONE, 8, 2, 2, 2 },
		{ HR_TAP_ONE, 3, 0, 1, 1 },  { HR_TAP_ONE, 2, 0, 1, 1 }, { HR_TAP_ONE, 7, 0, 5, 3 },
	};

	for (uint32_t i = 0; i < ROWS(row); i++) {
		memset(words, 0, sizeof *words);
		memset(&run->tap.present, 0, sizeof run->tap.present);
		run->slots = row[i].slots;
		pipeline->tap.deliver = row[i].deliver;
		pipeline->tap.credits = row[i].most;
		attach(2 * i, "a", 0, -1);
		attach(2 * i + 1, "b", 0, -1);
		cr_expect_eq(words->seat[2 * i].credits, row[i].first, "row %u", i);
		cr_expect_eq(words->seat[2 * i + 1].credits, row[i].second, "row %u", i);
	}
}

enum { DETACH_, READY_, KIND, SHORT, MAGIC, HANG_UP };

static void send_what(uint32_t seat, int what)
{
	struct hr_tap_message m;

	hr_tap_message_begin(&m, what == DETACH_ ? HR_TAP_DETACH : HR_TAP_READY, HR_TAP_VERSION);
	if (what == KIND)
		m.kind = HR_TAP_HELLO;
	if (what == MAGIC)
		m.magic++;
	if (what == HANG_UP) {
		close(peer[seat]);
		peer[seat] = -1;
	} else {
		cr_assert_eq(hr_scm_send(peer[seat], &m, sizeof m - (what == SHORT), NULL, 0), 0);
	}
}

Test(tap_consumer, what_each_message_does)
{
	static const struct {
		bool attached;
		int message;
		enum hr_lend_state state;
		uint32_t order;
		bool revoked;
		const char *to_it, *log; /* messages to the consumer */
	} row[] = {
		{ false, DETACH_, HR_LEND_FREE, 0, false, "2 .", WHO(1, "b") " has gone" },
		{ false, KIND, HR_LEND_LEAVING, 0, true, "2 7 .", WHO(1, "b") WRONG },
		{ false, SHORT, HR_LEND_LEAVING, 0, true, "2 7 .", WHO(1, "b") WRONG },
		{ false, MAGIC, HR_LEND_LEAVING, 0, true, "2 7 .", WHO(1, "b") WRONG },
		{ false, HANG_UP, HR_LEND_LEAVING, 0, false, NULL, "" },
		{ true, DETACH_, HR_LEND_CLOSING, ORDER(2, HR_TAP_CLOSE), false, ".",
		  WHO(1, "b") " has gone" },
		{ true, READY_, HR_LEND_LEAVING, ORDER(2, HR_TAP_HOLD), true, "7 .",
		  WHO(1, "b") WRONG },
		{ true, KIND, HR_LEND_LEAVING, ORDER(2, HR_TAP_HOLD), true, "7 .",
		  WHO(1, "b") WRONG },
		{ true, SHORT, HR_LEND_LEAVING, ORDER(2, HR_TAP_HOLD), true, "7 .",
		  WHO(1, "b") WRONG },
		{ true, HANG_UP, HR_LEND_LEAVING, ORDER(2, HR_TAP_HOLD), false, NULL, "" },
	};

	attach(0, "a", 0, -1);
	for (uint32_t i = 0; i < ROWS(row); i++) {
		struct hr_tap_consumer *c = &table->consumer[1];

		words->seat[1].order = words->seat[1].obeyed = 0;
		run->tap.revoked = 0;
		if (row[i].attached)
			attach(1, "b", 0, -1);
		else
			cr_assert_eq(greet(1, "b", 0, -1), 0);
		hr_log(HR_LOG_INFO, "%s", "");
		fake_clock_advance(100);
		send_what(1, row[i].message);
		step(1, true);
		cr_expect_eq(c->peer.state, row[i].state, "row %u: %d", i, (int)c->peer.state);
		cr_expect_eq(words->seat[1].order, row[i].order, "row %u", i);
		cr_expect_eq(run->tap.revoked, row[i].revoked, "row %u", i);
		cr_expect_eq(run->tap.present, 1, "row %u", i);
		cr_expect_str_eq(fake_log_last(), row[i].log, "row %u: %s", i, fake_log_last());
		cr_expect_eq(c->peer.fd, -1, "row %u", i);
		if (row[i].to_it)
			cr_expect_str_eq(kinds(1), row[i].to_it, "row %u", i);
		if (c->peer.state != HR_LEND_FREE) {
			cr_expect_eq(c->peer.since_ns, hr_now_ns(), "row %u", i);
			cr_expect_eq(head_at(1)->state,
				     row[i].revoked ? HR_TAP_STOPPED : HR_TAP_RUNS);
		}
		cr_expect_eq(is_mapped(head_at(1)), c->peer.state != HR_LEND_FREE, "row %u", i);
		c->peer.state = HR_LEND_FREE;
	}
	cr_expect_eq(table->consumer[0].peer.state, HR_LEND_ATTACHED);
	cr_expect_eq(head_at(0)->state, HR_TAP_RUNS);
}

/* The reason, as the consumer reads it. */
Test(tap_consumer, a_consumer_that_does_not_map_in_time_is_dropped)
{
	struct hr_tap_message m;
	unsigned count;

	cr_assert_eq(greet(1, "slow", 0, -1), 0);
	kinds(1);
	fake_clock_advance(HR_LEND_READY_NS - 1);
	step(1, false);
	cr_expect_eq(table->consumer[1].peer.state, HR_LEND_GREETED);
	/* the state is newer than the step */
	hr_tap_consumer_step(table, 1, false, BEGIN_NS - 1);
	cr_expect_eq(table->consumer[1].peer.state, HR_LEND_GREETED);
	fake_clock_advance(1);
	step(1, false);
	cr_expect_eq(table->consumer[1].peer.state, HR_LEND_LEAVING);
	cr_expect_eq(run->tap.revoked, 1);
	cr_expect_eq(run->tap.present, 0);
	cr_expect_str_eq(fake_log_last_of(HR_LOG_WARN),
			 WHO(1, "slow") " is dropped: it did not map the tiles in time");
	cr_assert_eq(come(1, &m, NULL, &count), (ssize_t)sizeof m);
	cr_expect_eq(m.magic, HR_TAP_MAGIC);
	cr_expect_eq(m.version, HR_TAP_VERSION);
	cr_expect_eq(m.kind, HR_TAP_REVOKED);
	cr_expect_str_eq(m.text, "it did not map the tiles in time");
	cr_expect_eq(come(1, &m, NULL, &count), 0);
	/* an attached one has mapped them */
	attach(0, "a", 0, -1);
	fake_clock_advance(2 * HR_LEND_READY_NS);
	step(0, false);
	cr_expect_eq(table->consumer[0].peer.state, HR_LEND_ATTACHED);
}

/* Its tiles are taken back after the quarantine, and its memory is given back when the worker has. */
Test(tap_consumer, memory_outlives_the_connection)
{
	for (int again = 0; again < 2; again++) {
		struct hr_tap_consumer *c = &table->consumer[1];
		const int pidfd = a_process(false);

		words->seat[1].order = words->seat[1].obeyed = 0;
		attach(1, "b", 0, pidfd);
		cr_expect_eq(new_fds(), 3u);
		send_what(1, HANG_UP);
		step(1, true);
		cr_expect_eq(new_fds(), 1u); /* the process */
		cr_expect_eq(run->tap.present, 0);
		fake_clock_advance(HR_TAP_QUARANTINE_NS - 1);
		step(1, true);
		step(1, false);
		cr_expect_eq(c->peer.state, HR_LEND_LEAVING);
		fake_clock_advance(1);
		step(1, false);
		cr_expect_eq(c->peer.state, HR_LEND_CLOSING);
		cr_expect_eq(run->tap.present, 0);
		cr_expect_str_eq(fake_log_last(), WHO(1, "b") " has gone");
		cr_expect_eq(words->seat[1].order, ORDER(3, HR_TAP_CLOSE));
		words->seat[1].obeyed = ORDER(2, HR_TAP_HOLD);
		fake_clock_advance(HR_TAP_QUARANTINE_NS);
		step(1, true);
		cr_expect_eq(c->peer.state, HR_LEND_CLOSING);
		cr_expect(is_mapped(head_at(1)) && is_mapped(page_at(1)));
		cr_expect_eq(words->seat[1].order, ORDER(3, HR_TAP_CLOSE));
		obey(1);
		step(1, false);
		cr_expect_eq(c->peer.state, HR_LEND_FREE);
		cr_expect(!is_mapped(head_at(1)) && !is_mapped(page_at(1)));
		cr_expect_eq(c->peer.pidfd, -1);
		cr_expect_eq(new_fds(), 0u);
		end_process(pidfd);
	}
}

/* The kernel says when the process has ended: at a look for events. */
Test(tap_consumer, the_end_of_a_process_takes_all_back)
{
	static const struct {
		bool attached, hung_up;
		uint32_t order;
	} row[] = { { false, false, 0 },
		    { true, false, ORDER(2, HR_TAP_CLOSE) },
		    { true, true, ORDER(3, HR_TAP_CLOSE) } };

	for (size_t i = 0; i < ROWS(row); i++) {
		struct hr_tap_consumer *c = &table->consumer[1];
		const int pidfd = a_process(false);
		enum hr_lend_state before;

		words->seat[1].order = words->seat[1].obeyed = 0;
		if (row[i].attached)
			attach(1, "b", 0, pidfd);
		else
			cr_assert_eq(greet(1, "b", 0, pidfd), 0);
		if (row[i].hung_up) {
			send_what(1, HANG_UP);
			step(1, true);
		}
		before = c->peer.state;
		step(1, true);
		cr_expect_eq(c->peer.state, before, "row %zu", i);
		end_process(pidfd);
		step(1, false);
		cr_expect_eq(c->peer.state, before, "row %zu", i);
		step(1, true);
		cr_expect_eq(c->peer.state, row[i].attached ? HR_LEND_CLOSING : HR_LEND_FREE,
			     "row %zu", i);
		cr_expect_eq(words->seat[1].order, row[i].order, "row %zu", i);
		cr_expect_eq(run->tap.present, 0);
		obey(1);
		step(1, true);
		cr_expect_eq(c->peer.state, HR_LEND_FREE);
		cr_expect_eq(c->peer.fd, -1);
		cr_expect_eq(c->peer.pidfd, -1);
	}
}

/* No worker runs before and after the run, so none obeys an order. */
Test(tap_consumer, memory_is_given_back_at_once_when_no_worker_runs)
{
	static const struct {
		uint64_t started, ended;
		enum hr_lend_state state;
	} row[] = { { BEGIN_NS, 0, HR_LEND_CLOSING },
		    { 0, 0, HR_LEND_FREE },
		    { BEGIN_NS, BEGIN_NS + 1, HR_LEND_FREE } };

	for (size_t i = 0; i < ROWS(row); i++) {
		attach((uint32_t)i, "b", 0, -1);
		run->started_ns = row[i].started;
		run->ended_ns = row[i].ended;
		tell((uint32_t)i, HR_TAP_DETACH);
		step((uint32_t)i, true);
		cr_expect_eq(table->consumer[i].peer.state, row[i].state, "row %zu", i);
		run->started_ns = BEGIN_NS;
		run->ended_ns = 0;
	}
}

Test(tap_consumer, a_lease_is_named_once_for_each_tile)
{
	static const struct {
		uint64_t lease, held, tile;
		bool obeyed;
		uint64_t late; /* then */
	} row[] = {
		{ 0, 9 * HR_NS_PER_S, 7, true, 0 },
		{ HR_NS_PER_S, HR_NS_PER_S - 1, 7, true, 0 },
		{ HR_NS_PER_S, HR_NS_PER_S, 0, false, 0 },
		{ HR_NS_PER_S, HR_NS_PER_S, 0, true, 1 }, /* the first tile has number 0 */
		{ HR_NS_PER_S, 2 * HR_NS_PER_S, 0, true, 1 },
		{ HR_NS_PER_S, 0, 7, true, 1 },
		{ HR_NS_PER_S, 1234 * HR_NS_PER_MS + 5, 7, true, 2 },
		{ HR_NS_PER_S, 9 * HR_NS_PER_S, 7, true, 2 },
		{ HR_NS_PER_S, 9 * HR_NS_PER_S, 6, true, 3 },
	};
	unsigned warnings = 0;

	attach(0, "x", 0, -1);
	attach(1, "b", 0, -1);
	for (size_t i = 0; i < ROWS(row); i++) {
		pipeline->tap.lease_ns = row[i].lease;
		words->seat[1].oldest_ns = row[i].held;
		words->seat[1].oldest_tile = row[i].tile;
		words->seat[1].lent = 20;
		words->seat[1].returned = 17;
		words->seat[1].obeyed = words->seat[1].order - !row[i].obeyed;
		step(1, false);
		cr_expect_eq(table->consumer[1].late, row[i].late, "row %zu", i);
		cr_expect_eq(run->tap.late, row[i].late, "row %zu", i);
		cr_expect_eq(fake_log_count_of(HR_LOG_WARN), row[i].late, "row %zu", i);
		if (row[i].late > warnings) {
			char want[160];

			snprintf(want, sizeof want,
				 WHO(1, "b") " holds tile %llu for %llu ms, and 3 tiles in all",
				 (unsigned long long)row[i].tile,
				 (unsigned long long)(row[i].held / 1000000));
			cr_expect_str_eq(fake_log_last(), want);
			warnings = (unsigned)row[i].late;
		}
	}
	cr_expect_eq(table->consumer[0].late, 0);
	/* greeted: it holds no tile, whatever the words of the last consumer say */
	cr_assert_eq(greet(1, "b", 0, -1), 0);
	words->seat[1].oldest_tile = 99;
	obey(1);
	step(1, false);
	cr_expect_eq(run->tap.late, 3);
}

Test(tap_consumer, a_consumer_that_sleeps_is_woken_once)
{
	static const struct {
		uint64_t wake, lent;
		uint32_t last;
		bool obeyed, sent;
	} row[] = {
		{ 0, 5, 0, true, false },   { 6, 5, 0, true, false },	{ 6, 6, 0, false, false },
		{ 6, 6, 0, true, true },    { 6, 7, 0, true, false },	{ 8, 7, 0, true, false },
		{ 8, 9, 0, true, true },    { 9, 9, 0, true, true },	{ 10, 9, 1, false, false },
		{ 10, 9, 1, true, true },   { 10, 9, 1, true, false },	{ 10, 10, 1, true, true },
		{ 11, 10, 1, true, false }, { 11, 10, 0, true, false }, { 11, 10, 1, true, true },
		{ 10, 10, 1, true, false }, { 0, 10, 0, true, false },	{ 11, 10, 1, true, false },
	};
	struct hr_tap_message m;
	unsigned count;

	attach(0, "x", 0, -1);
	attach(1, "b", 0, -1);
	for (size_t i = 0; i < ROWS(row); i++) {
		page_at(1)->wake = row[i].wake;
		words->seat[1].lent = row[i].lent;
		head_at(1)->last = row[i].last;
		words->seat[1].obeyed = words->seat[1].order - !row[i].obeyed;
		step(1, false);
		if (row[i].sent) {
			cr_assert_eq(come(1, &m, NULL, &count), (ssize_t)sizeof m, "row %zu", i);
			cr_expect_eq(m.magic, HR_TAP_MAGIC);
			cr_expect_eq(m.kind, HR_TAP_TILES);
			cr_expect_eq(m.version, HR_TAP_VERSION);
		}
		cr_expect_eq(come(1, &m, NULL, &count), -EAGAIN, "row %zu", i);
		cr_expect_str_eq(kinds(0), "");
	}
}

/* Seats 0, 2 and 5 of a tap with 10 slots are attached, seat 3 is greeted. */
static void attach_three(void)
{
	run->slots = 10;
	attach(0, "a", 0, -1);
	attach(2, "b", 0, -1);
	cr_assert_eq(greet(3, "g", 0, -1), 0);
	attach(5, "c", 0, -1);
	cr_expect_eq(words->seat[0].credits, 8);
	cr_expect_eq(words->seat[2].credits, 4);
	cr_expect_eq(words->seat[5].credits, 3);
	words->seat[3].credits = 77;
}

static void expect_credits(uint32_t a, uint32_t b, uint32_t c)
{
	cr_expect_eq(words->seat[0].credits, a, "%u", words->seat[0].credits);
	cr_expect_eq(words->seat[2].credits, b, "%u", words->seat[2].credits);
	cr_expect_eq(words->seat[5].credits, c, "%u", words->seat[5].credits);
	cr_expect_eq(words->seat[3].credits, 77);
}

Test(tap_consumer, slots_are_shared_out_by_rate)
{
	attach_three();
	table->shared_ns = hr_now_ns();
	words->seat[0].returned = words->seat[0].lent = 30;
	words->seat[2].returned = words->seat[2].lent = 10;
	fake_clock_advance(HR_TAP_ALLOT_NS - 1);
	hr_tap_consumers_allot(table, hr_now_ns());
	expect_credits(8, 4, 3);
	fake_clock_advance(1);
	hr_tap_consumers_allot(table, hr_now_ns());
	expect_credits(6, 2, 1);
	cr_expect_eq(table->shared_ns, hr_now_ns());
	words->seat[5].returned = words->seat[5].lent = 400;
	hr_tap_consumers_allot(table, hr_now_ns() + HR_TAP_ALLOT_NS - 1);
	expect_credits(6, 2, 1);
	/* a seat whose worker has not obeyed yet has words of another consumer */
	words->seat[5].obeyed--;
	hr_tap_consumers_allot(table, hr_now_ns() + HR_TAP_ALLOT_NS);
	expect_credits(6, 2, 1);
	obey(5);
	hr_tap_consumers_allot(table, hr_now_ns() + 2 * HR_TAP_ALLOT_NS);
	expect_credits(2, 1, 7); /* the rate is an average */
}

Test(tap_consumer, a_hungry_consumer_gets_one_credit_more)
{
	attach_three();
	table->shared_ns = hr_now_ns();
	words->seat[2].lent = 14;
	words->seat[2].returned = 10;
	hr_tap_consumers_allot(table, hr_now_ns());
	expect_credits(8, 4, 3); /* it does not wait */
	page_at(2)->waits = 1;
	hr_tap_consumers_allot(table, hr_now_ns());
	expect_credits(8, 5, 3);
	hr_tap_consumers_allot(table, hr_now_ns()); /* it holds less than it may now */
	expect_credits(8, 5, 3);
	words->seat[2].lent++;
	hr_tap_consumers_allot(table, hr_now_ns());
	expect_credits(8, 6, 3);
}

Test(tap_consumer, nothing_is_shared_out_when_each_gets_all)
{
	pipeline->tap.deliver = HR_TAP_EACH;
	attach(0, "a", 0, -1);
	words->seat[0].credits = 3;
	table->consumer[0].share.returned = 1;
	page_at(0)->waits = 1;
	hr_tap_consumers_allot(table, hr_now_ns() + 2 * HR_TAP_ALLOT_NS);
	cr_expect_eq(words->seat[0].credits, 3);
	cr_expect_eq(table->shared_ns, 0);
	cr_expect_eq(table->consumer[0].share.returned, 1);
}

Test(tap_consumer, only_an_attached_consumer_is_recorded)
{
	struct hr_record_consumer got, zero = { .attached = 0 };

	words->seat[4].lent = 9;
	words->seat[4].returned = 5;
	words->seat[4].failed = 2;
	for (int state = HR_LEND_FREE; state <= HR_LEND_CLOSING; state++) {
		memset(&got, 0, sizeof got);
		table->consumer[4].peer.state = (enum hr_lend_state)state;
		if (state == HR_LEND_ATTACHED)
			continue;
		cr_expect_not(hr_tap_consumer_snapshot(table, 4, &got));
		cr_expect_eq(memcmp(&got, &zero, sizeof got), 0);
	}
	table->consumer[4].peer.state = HR_LEND_FREE;
	attach(4, "rec", 0, -1);
	table->consumer[4].late = 6;
	for (uint32_t obeyed = 0; obeyed < 2; obeyed++) {
		memset(&got, 0, sizeof got);
		words->seat[4].obeyed = words->seat[4].order - !obeyed;
		cr_expect(hr_tap_consumer_snapshot(table, 4, &got));
		cr_expect_eq(got.attached, 1);
		cr_expect_eq(got.pipeline, 1);
		cr_expect_eq(got.user, 5);
		cr_expect_eq(got.process, 74);
		cr_expect_str_eq(got.name, "rec");
		cr_expect_eq(got.count.credits, 6);
		cr_expect_eq(got.count.late, 6);
		cr_expect_eq(got.count.lent, obeyed ? 9u : 0);
		cr_expect_eq(got.count.held, obeyed ? 4u : 0);
		cr_expect_eq(got.count.failed, obeyed ? 2u : 0);
	}
}

/* A consumer that does not read loses messages, and nothing else. */
Test(tap_consumer, a_full_socket_loses_a_message)
{
	char text[sizeof(struct hr_tap_message)] = "x";

	attach(0, "deaf", 0, -1);
	while (send(table->consumer[0].peer.fd, text, sizeof text, MSG_DONTWAIT) > 0)
		;
	page_at(0)->wake = 1;
	words->seat[0].lent = 1;
	step(0, false);
	cr_expect_str_eq(fake_log_last(), "tap: a message of kind 9 is lost: "
					  "Resource temporarily unavailable");
	cr_expect_eq(table->consumer[0].peer.state, HR_LEND_ATTACHED);
	send_what(0, KIND);
	step(0, true);
	cr_expect_eq(table->consumer[0].peer.state, HR_LEND_LEAVING);
	/* the connection has ended before: there is nothing to send with */
	run->outcome = HR_RUN_DONE;
	hr_tap_consumers_end(table, false);
	cr_expect_str_eq(fake_log_last(), "tap: a message of kind 6 is lost: "
					  "Transport endpoint is not connected");
	cr_expect_eq(table->consumer[0].peer.state, HR_LEND_FREE);
}
