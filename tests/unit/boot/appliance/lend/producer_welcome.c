/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory of the producer of a feed and the message of welcome, and what of it is undone when that
 * fails.
 */

#include "tests/fakes/memfd.h"
#include "tests/harness/feed_producer_rig.h"

#define ROWS(table) (sizeof(table) / sizeof(*(table)))

TestSuite(feed_welcome, .init = begin, .fini = end, .timeout = 60);

static void expect_welcome(const struct hr_tap_message *m, uint32_t credits, bool gpu)
{
	struct hr_tap_message want = { .magic = HR_TAP_MAGIC,
				       .kind = HR_FEED_WELCOME,
				       .version_least = HR_FEED_VERSION,
				       .version = HR_FEED_VERSION,
				       .credits = credits,
				       .slots = SLOTS,
				       .ring = SLOTS,
				       .epoch = p.epoch,
				       .tiles = 20,
				       .first = 6,
				       .stride = 2 * PAGE,
				       .tile_bytes = PAGE + 512,
				       .columns = 12,
				       .dtype = "bf16",
				       .name = "work" };

	if (gpu) {
		want.memory = HR_TAP_MEMORY_CUDA;
		want.gpu.bytes = 1 << 21;
		memcpy(want.gpu.uuid, facts.uuid, sizeof want.gpu.uuid);
	}
	cr_expect_eq(memcmp(m, &want, sizeof want), 0);
}

static void expect_head(void)
{
	cr_expect_eq(head->magic, HR_TAP_MAGIC);
	cr_expect_eq(head->version, HR_FEED_VERSION);
	cr_expect_eq(head->epoch, p.epoch);
	cr_expect_eq(head->state, HR_TAP_RUNS);
	cr_expect_eq(head->last, 0);
	cr_expect_eq(head->durable, 3);
}

Test(feed_welcome, welcome_comes_with_new_memory)
{
	const unsigned before = open_fds();
	struct hr_tap_message m;
	int fds[HR_TAP_FDS];
	unsigned count;

	words->next = 6;
	p.late = p.detached = true;
	fake_clock_advance(9);
	cr_assert_eq(greet("one\x1ftwo\x7f ~\xff", 0, -1), 0, "%s", test_error_text());
	cr_expect_str_eq(fake_memfd.names,
			 "headrace feed tiles;headrace feed entries;headrace feed page;");
	cr_expect_eq(open_fds(), before + 2); /* both ends of the connection */
	cr_assert_eq(come(&m, fds, &count), (ssize_t)sizeof m);
	cr_assert_eq(count, 3u);
	expect_welcome(&m, SLOTS, false);
	expect_head();
	cr_expect_eq(lseek(fds[0], 0, SEEK_END), SLOTS * 2 * PAGE);
	cr_expect_eq(lseek(fds[1], 0, SEEK_END), PAGE);
	cr_expect_eq(lseek(fds[2], 0, SEEK_END), PAGE);
	cr_expect_eq(pwrite(fds[0], "tile", 4, 0), 4);
	cr_expect_lt(pwrite(fds[1], "x", 1, 0), 0);
	cr_expect_eq(pwrite(fds[2], "page", 4, 8), 4);
	cr_expect_eq(memcmp(reserved, "tile", 4), 0);
	cr_expect_eq(memcmp(&page->wake, "page", 4), 0);
	for (unsigned i = 0; i < 3; i++)
		close(fds[i]);
	cr_expect_eq(p.peer.state, HR_LEND_GREETED);
	cr_expect_eq(p.peer.since_ns, BEGIN_NS + 9);
	cr_expect_eq(p.peer.credentials.process, 71);
	cr_expect_eq(p.peer.credentials.user, 5);
	cr_expect_str_eq(p.peer.name, "one?two? ~?");
	cr_expect_not(p.late || p.detached);
	cr_expect_eq(words->order, 0);
	cr_expect_eq(run->feed.present + run->feed.attached, 0);
}

Test(feed_welcome, credits_and_names)
{
	static const struct {
		uint32_t limit, asked, credits;
	} row[] = { { 0, 0, 4 }, { 0, 4, 4 }, { 0, 3, 3 }, { 0, 5, 4 },
		    { 2, 0, 2 }, { 2, 3, 2 }, { 2, 1, 1 }, { 9, 0, 4 } };
	static const char most[65] =
		"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

	for (size_t i = 0; i < ROWS(row); i++) {
		struct hr_tap_message m;
		int fds[HR_TAP_FDS];
		unsigned count;

		pipeline->feed.credits = row[i].limit;
		cr_assert_eq(greet(most, row[i].asked, -1), 0);
		cr_assert_gt(come(&m, fds, &count), 0);
		for (unsigned k = 0; k < count; k++)
			close(fds[k]);
		cr_expect_eq(m.credits, row[i].credits, "row %zu", i);
		cr_expect_eq(strlen(p.peer.name), 63u);
		cr_expect_eq(strncmp(p.peer.name, most, 63), 0);
		tell(HR_TAP_READY);
		step(true);
		cr_expect_eq(words->credits, row[i].credits, "row %zu", i);
		tell(HR_TAP_DETACH);
		words->obeyed = ORDER(2 * (uint32_t)i + 2, HR_FEED_CLOSE);
		step(true);
		cr_assert_eq(p.peer.state, HR_LEND_FREE);
	}
}

Test(feed_welcome, each_producer_on_a_gpu_gets_words_of_its_own)
{
	struct hr_tap_message m;
	const uint64_t commit = 77;
	int fds[HR_TAP_FDS], pidfd[2];
	unsigned count;

	fix_memory();
	words->next = 6;
	cr_assert_eq(pipe2(pidfd, O_CLOEXEC), 0);
	cr_assert_eq(greet("one", 2, pidfd[0]), 0, "%s", test_error_text());
	cr_expect_eq(fake_memfd.created, 2 * SETS);
	cr_assert_gt(come(&m, fds, &count), 0);
	cr_assert_eq(count, 3u);
	close(fds[0]);
	close(fds[1]);
	expect_welcome(&m, 2, true);
	expect_head();
	for (uint32_t i = 0; i < PAGE; i++) {
		cr_assert_eq(((uint8_t *)page)[i], 0);
		cr_assert(i < sizeof *head || ((uint8_t *)head)[i] == 0);
	}
	cr_expect_eq(reserved[0], 0xee);
	cr_expect(fcntl(0, F_GETFD) != -1 && fcntl(1, F_GETFD) != -1 && fcntl(2, F_GETFD) != -1);
	/* the next process gets it after the end of this one */
	fake_clock_advance(5);
	tell(HR_TAP_DETACH);
	step(true);
	cr_expect_eq(p.peer.state, HR_LEND_FREE);
	cr_expect(is_mapped(head) && is_mapped(page));
	cr_expect(p.owner.known && p.owner.detached);
	cr_expect_eq(p.owner.pidfd, pidfd[0]);
	cr_expect_eq(p.owner.process, 71);
	cr_expect_eq(p.owner.left_ns, BEGIN_NS + 5);
	p.owner.process = 70;
	cr_expect_eq(greet("one", 0, -1), -EBUSY);
	cr_expect_str_eq(test_error_text(),
			 "process 70 has the tiles on the GPU mapped until it ends");
	close(pidfd[1]);
	facts.mps = true; /* the work of a process that has ended can still run */
	cr_expect_eq(greet("one", 0, -1), -EAGAIN);
	fake_clock_advance(HR_FEED_QUIET_NS);
	cr_expect_eq(greet("one", 0, -1), 0);
	cr_expect_not(p.owner.known);
	facts.mps = false;
	/* a process with the page of the first producer does not reach that of this one */
	cr_expect_eq(words->set, 1);
	cr_expect_eq(pwrite(fds[2], &commit, sizeof commit, 8), (ssize_t)sizeof commit);
	cr_expect_eq(((uint64_t *)page)[1], commit);
	cr_expect_eq(((uint64_t *)page)[PAGE / 8 + 1], 0);
	cr_expect_eq(((struct hr_feed_head *)((uint8_t *)head + PAGE))->epoch, p.epoch);
	close(fds[2]);
}

/* One that does not get the descriptors costs no set. */
Test(feed_welcome, a_gpu_has_words_for_so_many_producers_in_a_run)
{
	const unsigned before = open_fds();

	fix_memory();
	for (uint32_t i = 0; i < SETS; i++) {
		cr_assert_eq(greet("one", 0, -1), 0, "%s", test_error_text());
		cr_expect_eq(words->set, i);
		cr_expect_eq(memory.sets.spent, i + 1);
		tell(HR_TAP_DETACH);
		step(true);
		hr_feed_owner_forget(&p.owner);
	}
	cr_expect_eq(greet("one", 0, -1), -EBUSY);
	cr_expect_str_eq(test_error_text(),
			 "memory for 3 clients on the GPU is used up: it is renewed when this "
			 "pipeline starts and no other runs");
	cr_expect_eq(p.peer.state, HR_LEND_FREE);
	cr_expect_eq(open_fds(), before + 1, "the client's end");
}

Test(feed_welcome, a_failure_leaves_nothing)
{
	for (fake_memfd.fails = 1; fake_memfd.fails <= 3; fake_memfd.fails++) {
		const unsigned before = open_fds() + (fake_memfd.fails == 1); /* the client's end */

		fake_memfd.created = 0;
		cr_expect_eq(greet("one", 0, -1), -EMFILE);
		cr_expect_eq(fake_memfd.created, fake_memfd.fails);
		cr_expect_eq(test_error_kind(), HR_ERROR_FAILED);
		cr_expect_eq(open_fds(), before, "failure %u", fake_memfd.fails);
		cr_expect(!is_mapped(reserved) && !is_mapped(head) && !is_mapped(page),
			  "failure %u", fake_memfd.fails);
		cr_expect_eq(p.peer.state, HR_LEND_FREE);
		cr_expect_eq(p.peer.fd, -1);
	}
}

/* The client has gone before its welcome. */
Test(feed_welcome, a_lost_connection_leaves_nothing)
{
	struct hr_tap_client client = { .credentials = { .process = 71 } };

	for (int fixed = 0; fixed < 2; fixed++) {
		unsigned before;
		int pair[2];

		if (fixed)
			fix_memory();
		before = open_fds();
		cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
		close(pair[1]);
		client.fd = pair[0];
		cr_expect_eq(hr_feed_producer_greet(&p, &client, -1, test_error()), -EPIPE);
		cr_expect_str_eq(test_error_text(), "Broken pipe");
		cr_expect_eq(test_error_kind(), HR_ERROR_FAILED);
		cr_expect_str_eq(fake_log_last(),
				 "feed: a message of kind 34 is lost: Broken pipe");
		cr_expect_neq(fcntl(pair[0], F_GETFD), -1);
		close(pair[0]);
		cr_expect_eq(open_fds(), before);
		cr_expect_eq(is_mapped(reserved), fixed);
		cr_expect_eq(is_mapped(head), fixed);
		cr_expect_eq(is_mapped(page), fixed);
		cr_expect_eq(p.peer.state, HR_LEND_FREE);
		cr_expect_eq(memory.sets.spent, 0);
	}
}
