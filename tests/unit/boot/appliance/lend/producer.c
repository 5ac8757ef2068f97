/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The producer of a feed, step by step: what each message, a fault, the end of a connection or of a
 * process, and the time do to the state, the orders to the worker, the messages and the counters.
 */
#include "tests/harness/feed_producer_rig.h"

#define ROWS(table) (sizeof(table) / sizeof(*(table)))

TestSuite(feed_producer, .init = begin, .fini = end, .timeout = 60);

Test(feed_producer, ready_attaches_a_producer)
{
	words->fault = HR_FEED_GAP;
	words->offered = words->committed = 7;
	p.peer.woken = p.leases = p.committed = 5;
	p.peer.told_last = true;
	cr_assert_eq(greet("one", 3, -1), 0);
	step(true); /* no message */
	cr_expect_eq(p.peer.state, HR_LEND_GREETED);
	tell(HR_TAP_READY);
	step(false); /* not looked at */
	cr_expect_eq(p.peer.state, HR_LEND_GREETED);
	fake_clock_advance(8);
	run->durable_tiles = 11;
	step(true);
	cr_expect_eq(p.peer.state, HR_LEND_ATTACHED);
	cr_expect_eq(p.peer.since_ns, BEGIN_NS + 8);
	cr_expect_eq(p.committed_ns, BEGIN_NS + 8);
	cr_expect_str_eq(fake_log_last_of(HR_LOG_INFO), WHO " is attached, 3 credits");
	cr_expect_eq(words->order, ORDER(1, HR_FEED_OFFER));
	cr_expect_eq(words->credits, 3);
	cr_expect_eq(words->fault, HR_FEED_SOUND);
	cr_expect_eq(words->offered + words->committed, 0);
	cr_expect_eq(run->feed.attached, 1);
	cr_expect_eq(run->feed.present, 1);
	cr_expect_eq(p.peer.woken + p.leases + p.committed, 0);
	cr_expect_not(p.peer.told_last);
	cr_expect_eq(head->durable, 11);
	cr_expect_eq(fake_log_count_of(HR_LOG_WARN), 0u);
}

enum { DETACH_, READY_, BOTH, SHORT, HANG_UP };

#define WRONG WHO " is dropped: it sent a message that the protocol does not have here"

Test(feed_producer, what_each_message_does)
{
	static const struct {
		bool attached;
		int message;
		bool revoked, detached;
		const char *to_it;
	} row[] = {
		{ false, DETACH_, false, true, "34 ." }, { false, SHORT, true, false, "34 7 ." },
		{ false, HANG_UP, false, false, NULL },	 { true, DETACH_, false, true, "." },
		{ true, READY_, true, false, "7 ." },	 { true, SHORT, true, false, "7 ." },
		{ true, HANG_UP, false, false, NULL },	 { false, BOTH, false, true, "34 ." },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		const bool worked = row[i].attached || row[i].message == BOTH;
		struct hr_tap_message m = { .magic = HR_TAP_MAGIC, .kind = HR_TAP_READY };
		const unsigned before = open_fds();

		words->order = words->obeyed = 0;
		run->feed.revoked = 0;
		if (row[i].attached)
			attach(-1);
		else
			cr_assert_eq(greet("one", 0, -1), 0);
		fake_clock_advance(100);
		if (row[i].message == SHORT)
			cr_assert_eq(hr_scm_send(peer, &m, sizeof m - 1, NULL, 0), 0);
		if (row[i].message == READY_ || row[i].message == BOTH)
			tell(HR_TAP_READY);
		if (row[i].message == DETACH_ || row[i].message == BOTH)
			tell(HR_TAP_DETACH);
		if (row[i].message == HANG_UP) {
			close(peer);
			peer = -1;
		}
		step(true);
		cr_expect_eq(p.peer.state, worked ? HR_LEND_CLOSING : HR_LEND_FREE, "row %zu", i);
		cr_expect_eq(words->order, worked ? ORDER(2, HR_FEED_CLOSE) : 0, "row %zu", i);
		cr_expect_eq(run->feed.revoked, row[i].revoked, "row %zu", i);
		cr_expect_eq(run->feed.present, 0, "row %zu", i);
		cr_expect_eq(p.detached, row[i].detached, "row %zu", i);
		cr_expect_str_eq(fake_log_last_of(HR_LOG_INFO), WHO " has gone", "row %zu", i);
		cr_expect_eq(fake_log_count_of(HR_LOG_WARN) > 0, i > 0, "row %zu", i);
		if (row[i].revoked)
			cr_expect_str_eq(fake_log_last_of(HR_LOG_WARN), WRONG, "row %zu", i);
		if (row[i].to_it)
			cr_expect_str_eq(kinds(), row[i].to_it, "row %zu", i);
		cr_expect_eq(p.peer.fd, -1, "row %zu", i);
		cr_expect_eq(is_mapped(head), worked, "row %zu", i);
		if (worked) {
			cr_expect_eq(p.peer.since_ns, hr_now_ns());
			cr_expect_eq(head->state, row[i].revoked ? HR_TAP_STOPPED : HR_TAP_RUNS);
			step(true); /* the worker can still access the memory */
			cr_expect_eq(p.peer.state, HR_LEND_CLOSING);
			words->obeyed = words->order;
			step(false);
			cr_expect_eq(p.peer.state, HR_LEND_FREE);
			cr_expect(!is_mapped(reserved) && !is_mapped(head) && !is_mapped(page));
		}
		if (peer >= 0)
			close(peer);
		peer = -1;
		cr_expect_eq(open_fds(), before, "row %zu", i);
	}
}

/* The process was begun without a standard input. */
Test(feed_producer, a_connection_with_descriptor_0_is_closed)
{
	close(0);
	attach(-1);
	cr_assert_eq(p.peer.fd, 0);
	tell(HR_TAP_DETACH);
	step(true);
	cr_expect_eq(p.peer.state, HR_LEND_CLOSING);
	cr_expect_eq(p.peer.fd, -1);
	cr_expect_eq(run->feed.present, 0);
	cr_expect_eq(fcntl(0, F_GETFD), -1);
	cr_expect_str_eq(kinds(), ".");
}

Test(feed_producer, no_worker_runs_before_and_after_the_run)
{
	static const struct {
		uint64_t started, ended;
		enum hr_lend_state state;
	} row[] = { { 0, 0, HR_LEND_FREE },
		    { BEGIN_NS, 1, HR_LEND_FREE },
		    { BEGIN_NS, 0, HR_LEND_CLOSING } };

	for (size_t i = 0; i < ROWS(row); i++) {
		attach(-1);
		run->started_ns = row[i].started;
		run->ended_ns = row[i].ended;
		tell(HR_TAP_DETACH);
		step(true);
		cr_expect_eq(p.peer.state, row[i].state, "row %zu", i);
		run->started_ns = BEGIN_NS;
		run->ended_ns = 0;
	}
}

static void expect_revoked(const char *why)
{
	struct hr_tap_message m;
	char want[200];
	unsigned count;

	snprintf(want, sizeof want, WHO " is dropped: %s", why);
	cr_expect_str_eq(fake_log_last_of(HR_LOG_WARN), want);
	cr_assert_eq(come(&m, NULL, &count), (ssize_t)sizeof m);
	cr_expect_eq(m.kind, HR_TAP_REVOKED);
	cr_expect_eq(m.version, HR_FEED_VERSION);
	cr_expect_str_eq(m.text, why);
}

Test(feed_producer, a_producer_that_does_not_map_in_time_is_dropped)
{
	cr_assert_eq(greet("one", 0, -1), 0);
	kinds();
	fake_clock_advance(HR_LEND_READY_NS - 1);
	step(false);
	hr_feed_producer_step(&p, false, BEGIN_NS - 1); /* the state is newer than the step */
	cr_expect_eq(p.peer.state, HR_LEND_GREETED);
	fake_clock_advance(1);
	step(false);
	cr_expect_eq(p.peer.state, HR_LEND_FREE);
	expect_revoked("it did not map the tiles in time");
	attach(-1);
	fake_clock_advance(2 * HR_LEND_READY_NS);
	step(false);
	cr_expect_eq(p.peer.state, HR_LEND_ATTACHED);
}

Test(feed_producer, faults_that_the_worker_finds)
{
	static const struct {
		uint32_t fault;
		const char *why;
	} row[] = {
		{ HR_FEED_LENGTH,
		  "it committed tile 77 with a length that is not whole rows of the tile" },
		{ HR_FEED_GAP, "it ended the feed at tile 77, but a later tile is committed" },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		attach(-1);
		words->fault_tile = 77;
		step(false);
		cr_expect_eq(p.peer.state, HR_LEND_ATTACHED);
		words->fault = row[i].fault;
		step(false);
		cr_expect_eq(p.peer.state, HR_LEND_CLOSING, "row %zu", i);
		expect_revoked(row[i].why);
		cr_expect_eq(head->state, HR_TAP_STOPPED);
		words->obeyed = words->order;
		step(false);
		cr_expect_eq(p.peer.state, HR_LEND_FREE);
	}
}

/* The kernel says when the process has ended: at a look for events. */
Test(feed_producer, the_end_of_a_process)
{
	for (int attached = 0; attached < 2; attached++) {
		const unsigned before = open_fds();
		int pidfd[2];

		cr_assert_eq(pipe2(pidfd, O_CLOEXEC), 0);
		if (attached)
			attach(pidfd[0]);
		else
			cr_assert_eq(greet("one", 0, pidfd[0]), 0);
		step(true);
		cr_expect_eq(p.peer.state, attached ? HR_LEND_ATTACHED : HR_LEND_GREETED);
		close(pidfd[1]);
		step(false);
		cr_expect_eq(p.peer.state, attached ? HR_LEND_ATTACHED : HR_LEND_GREETED);
		step(true);
		cr_expect_eq(p.peer.state, attached ? HR_LEND_CLOSING : HR_LEND_FREE);
		cr_expect_eq(p.peer.pidfd, -1);
		cr_expect_not(p.owner.known);
		words->obeyed = words->order;
		step(true);
		cr_expect_eq(p.peer.state, HR_LEND_FREE);
		close(peer);
		peer = -1;
		cr_expect_eq(open_fds(), before);
	}
}

Test(feed_producer, a_lease_is_named_once)
{
	static const struct {
		uint64_t lease_s, offered, committed, pass_s;
		uint64_t leases;
	} row[] = {
		{ 0, 3, 0, 99, 0 }, { 5, 3, 1, 99, 0 }, /* a commit begins it anew */
		{ 5, 3, 1, 4, 0 },  { 5, 3, 1, 1, 1 },	{ 5, 3, 1, 99, 1 },
		{ 5, 3, 3, 1, 1 },  { 5, 4, 3, 4, 1 },	{ 5, 4, 3, 1, 2 },
		{ 5, 4, 4, 99, 2 }, { 5, 4, 4, 99, 2 }, { 5, 9, 4, 6, 3 },
	};

	attach(-1);
	for (size_t i = 0; i < ROWS(row); i++) {
		const uint64_t before = p.leases;

		pipeline->feed.lease_ns = row[i].lease_s * HR_NS_PER_S;
		words->offered = row[i].offered;
		words->committed = row[i].committed;
		fake_clock_advance(row[i].pass_s * HR_NS_PER_S);
		step(false);
		cr_expect_eq(p.leases, row[i].leases, "row %zu: %llu", i,
			     (unsigned long long)p.leases);
		cr_expect_eq(run->feed.late, row[i].leases, "row %zu", i);
		cr_expect_eq(fake_log_count_of(HR_LOG_WARN), row[i].leases, "row %zu", i);
		if (row[i].leases > before) {
			char want[200];

			snprintf(want, sizeof want,
				 WHO " holds %d tiles and has committed none for %d000 ms",
				 (int)(row[i].offered - row[i].committed), i == 10 ? 6 : 5);
			cr_expect_str_eq(fake_log_last(), want, "row %zu: %s", i, fake_log_last());
		}
	}
}

Test(feed_producer, a_producer_that_sleeps_is_woken_once)
{
	static const struct {
		uint64_t wake, offered;
		uint32_t last;
		bool obeyed, sent;
	} row[] = {
		{ 0, 5, 0, true, false },   { 6, 5, 0, true, false },	{ 6, 6, 0, false, false },
		{ 6, 6, 0, true, true },    { 6, 7, 0, true, false },	{ 8, 9, 0, true, true },
		{ 10, 9, 1, false, false }, { 10, 9, 1, true, true },	{ 10, 9, 1, true, false },
		{ 10, 10, 1, true, true },  { 11, 10, 1, true, false }, { 11, 10, 0, true, false },
		{ 11, 10, 1, true, true },
	};

	attach(-1);
	for (size_t i = 0; i < ROWS(row); i++) {
		page->wake = row[i].wake;
		words->offered = row[i].offered;
		head->last = row[i].last;
		words->obeyed = words->order - !row[i].obeyed;
		step(false);
		cr_expect_str_eq(kinds(), row[i].sent ? "9 " : "", "row %zu", i);
	}
}

Test(feed_producer, only_an_attached_producer_is_recorded)
{
	static const struct {
		pid_t process;
		uint64_t offered, committed, idle_ns;
	} row[] = { { 71, 5, 3, 50 }, { 0, 5, 5, 0 }, { -1, 5, 6, 0 } };
	struct hr_record_producer got, zero;

	memset(&zero, 0, sizeof zero);
	for (int state = HR_LEND_FREE; state <= HR_LEND_CLOSING; state++) {
		memset(&got, 0xee, sizeof got);
		p.peer.state = (enum hr_lend_state)state;
		if (state == HR_LEND_ATTACHED)
			continue;
		cr_expect_not(hr_feed_producer_snapshot(&p, &got));
		cr_expect_eq(memcmp(&got, &zero, sizeof got), 0);
	}
	p.peer.state = HR_LEND_FREE;
	attach(-1);
	p.leases = 6;
	fake_clock_advance(50);
	for (size_t i = 0; i < ROWS(row); i++) {
		memset(&got, 0xee, sizeof got);
		p.peer.credentials.process = row[i].process;
		words->offered = row[i].offered;
		words->committed = row[i].committed;
		cr_expect(hr_feed_producer_snapshot(&p, &got));
		cr_expect_eq(got.attached, 1);
		cr_expect_eq(got.user, 5);
		cr_expect_eq(got.process, row[i].process > 0 ? 71 : 0);
		cr_expect_str_eq(got.name, "one");
		cr_expect_eq(got.count.credits, SLOTS);
		cr_expect_eq(got.count.late, 6);
		cr_expect_eq(got.count.offered, 5);
		cr_expect_eq(got.count.idle_ns, row[i].idle_ns, "row %zu", i);
	}
}

#define LONG                                                                                      \
	"0123456789 123456789 123456789 123456789 123456789 123456789 123456789 123456789 123456" \
	"789 123456789 123456789 12345678"

Test(feed_producer, a_producer_hears_of_the_end)
{
	static const struct {
		enum hr_outcome outcome;
		enum hr_error_kind kind;
		const char *cause;
		uint16_t code;
		uint64_t tiles;
		const char *text;
	} row[] = {
		{ HR_RUN_DONE, 0, "", 0, 20, "" },
		{ HR_RUN_FAILED, HR_ERROR_DEVICE, "the ssd", 4, 9, "the ssd" },
		{ HR_RUN_FAILED, HR_ERROR_MISSING, LONG "9", 3, 9, LONG },
		{ HR_RUN_INTERRUPTED, 0, "", 1, 9, "the run was interrupted" },
	};

	hr_feed_producer_end(&p); /* there is none */
	for (size_t i = 0; i < ROWS(row); i++) {
		struct hr_tap_message m;
		unsigned count;

		fix_memory();
		words->set = 0;
		attach(-1);
		run->durable_tiles = 9;
		run->outcome = row[i].outcome;
		run->cause.kind = row[i].kind;
		strcpy(run->cause.text, row[i].cause);
		hr_feed_producer_end(&p);
		cr_assert_eq(come(&m, NULL, &count), (ssize_t)sizeof m, "row %zu", i);
		cr_expect_eq(m.magic, HR_TAP_MAGIC);
		cr_expect_eq(m.version, HR_FEED_VERSION);
		cr_expect_eq(m.kind, HR_TAP_END);
		cr_expect_eq(m.code, row[i].code, "row %zu", i);
		cr_expect_eq(m.tiles, row[i].tiles, "row %zu", i);
		cr_expect_str_eq(m.text, row[i].text, "row %zu", i);
		cr_expect_eq(come(&m, NULL, &count), 0);
		cr_expect_eq(head->state,
			     row[i].outcome == HR_RUN_DONE ? HR_TAP_ENDED : HR_TAP_STOPPED);
		cr_expect_eq(head->durable, 9);
		cr_expect_eq(p.peer.state, HR_LEND_FREE);
		cr_expect_eq(run->feed.present, 0);
		hr_feed_owner_forget(&p.owner);
	}
}
