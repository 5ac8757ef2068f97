/* Tiles of a producer: how it waits for them, commits them, and ends the feed; and what ends it. */
#include "tests/harness/feed_client_rig.h"

#include <sys/wait.h>

TestSuite(feed_tiles, .init = start, .fini = finish, .timeout = 60);

Test(feed_tiles, tiles_are_taken_as_they_were_offered)
{
	attached();
	for (unsigned n = 0; n < 3; n++)
		offer(n);
	cr_expect_eq(hr_feed_next(feed, tile, 0, 0), -EINVAL);
	cr_expect_eq(hr_feed_next(feed, tile, 2, -1), 2);
	cr_expect_eq(hr_feed_next(feed, tile + 2, 2, 0), 1);
	EXPECT_LOG("");
	for (unsigned n = 0; n < 3; n++) {
		cr_expect_eq((uint8_t *)tile[n].data - (uint8_t *)feed->info.memory,
			     (long)(n * STRIDE));
		cr_expect(tile[n].tile == 10 + n && tile[n].gen == n + 1 && tile[n].slot == n);
		cr_expect_eq(tile[n].room, 8000);
	}
	cr_expect_eq(page()->wake, 0);
	cr_expect_eq(next(0), -ETIMEDOUT);
	cr_expect_eq(page()->wake, 4);
	for (unsigned n = 3; n < 20; n++) {
		offer(n);
		cr_expect_eq(next(0), 1);
		cr_expect(tile[0].tile == 10 + n && tile[0].slot == n % SLOTS);
	}
}

Test(feed_tiles, an_entry_with_a_word_that_cannot_be_is_not_taken)
{
	attached();
	for (unsigned i = 0; i < 5; i++) {
		struct hr_tap_entry *e = (struct hr_tap_entry *)(void *)(fake_side.ring + 64);

		offer(0);
		if (i == 0)
			e->sequence = 0;
		if (i == 1)
			e->sequence = 2;
		if (i == 2)
			e->slot = SLOTS;
		if (i == 3)
			e->bytes = STRIDE + 1;
		if (i == 4)
			e->bytes = STRIDE;
		cr_expect_eq(next(0), i == 4 ? 1 : -ETIMEDOUT, "%u", i);
	}
}

static unsigned sleeps;

static void offer_third(void)
{
	if (++sleeps == 3)
		offer(0);
}

Test(feed_tiles, a_wait_has_sleeps_that_grow_and_ends_with_a_look)
{
	attached();
	cr_expect_eq(next(4), -ETIMEDOUT);
	EXPECT_LOG("w50000 w100000 w200000 w400000 w800000 w1000000 w1000000 w1000000 w0");
	cr_expect_eq(page()->wake, 1);
	sleeps = 0;
	fake_side.waits = offer_third;
	cr_expect_eq(next(-1), 1);
	EXPECT_LOG("w50000 w100000 w200000");
	says(0, HR_TAP_TILES, 0, "");
	cr_expect_eq(next(0), -ETIMEDOUT);
	EXPECT_LOG("w0! <9");
	fake_side_says(0, NULL, false, -EAGAIN);
	cr_expect_eq(next(0), -ETIMEDOUT);
	cr_expect_eq(page()->wake, 2);
}

/* The limits of the looks and of the time, to the nanosecond. */
Test(feed_tiles, a_wait_looks_for_20_us_before_it_sleeps)
{
	struct wait w;

	attached();
	fake_side.step_ns = 0;
	wait_begin(&w, 1);
	fake_side.now_ns += 19999;
	cr_expect(wait_more(&w, feed));
	EXPECT_LOG("");
	fake_side.now_ns += 1;
	cr_expect(wait_more(&w, feed));
	EXPECT_LOG("w50000");
	fake_side.now_ns = w.began_ns + MS - 1;
	cr_expect(wait_more(&w, feed));
	EXPECT_LOG("w100000");
	fake_side.now_ns = w.began_ns + MS;
	cr_expect(!wait_more(&w, feed));
	EXPECT_LOG("w0");
	wait_begin(&w, 0);
	cr_expect(!wait_more(&w, feed));
	EXPECT_LOG("w0");
	wait_begin(&w, -1);
	fake_side.now_ns += 1ull << 61;
	cr_expect(wait_more(&w, feed));
	EXPECT_LOG("w50000");
}

Test(feed_tiles, the_last_tile_is_followed_by_none)
{
	attached();
	offer(0);
	head()->last = 1;
	cr_expect_eq(next(-1), 1);
	cr_expect_eq(next(-1), 0);
	EXPECT_LOG("");
}

Test(feed_tiles, messages_that_end_a_run)
{
	static const struct {
		uint16_t kind, code;
		const char *text;
		int error, result, run_code;
		const char *reason;
	} row[] = {
		{ HR_TAP_END, 0, "x", 0, 0, 0, "the run has ended" },
		{ HR_TAP_END, 4, "a fault", 0, -EPIPE, 4, "a fault" },
		{ HR_TAP_REVOKED, 0, "it was slow", 0, -EPIPE, -1,
		  "dropped by the feed: it was slow" },
		{ 0, 0, "", -EPIPE, -EPIPE, -1, "the appliance is gone" },
		{ HR_TAP_END, 0, "", -EPROTO, -EPIPE, -1, "the appliance is gone" },
		{ HR_TAP_REVOKED, 0, "", -EPROTO, -EPIPE, -1, "the appliance is gone" },
		{ HR_TAP_WAIT, 0, "", 0, -EPIPE, -1, "the appliance is gone" },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		struct hr_tap_message m = message(row[i].kind, row[i].code, row[i].text);

		attached();
		fake_side_says(0, &m, false, row[i].error);
		head()->durable = 8;
		cr_expect_eq(next(0), row[i].result, "%zu", i);
		offer(0); /* too late */
		head()->durable = 9;
		cr_expect_eq(next(-1), row[i].result);
		cr_expect_eq(hr_feed_durable(feed), 8);
		cr_expect_str_eq(hr_feed_reason(feed), row[i].reason);
		cr_expect_eq(hr_feed_code(feed), row[i].run_code, "%zu", i);
		cr_expect_eq(hr_feed_end(feed, 0), row[i].result);
		fake_side_log();
		hr_feed_close(feed);
		EXPECT_LOG("");
		feed = NULL;
		finish();
		start();
	}
}

/* ---- commits */

Test(feed_tiles, only_a_tile_in_hand_can_be_committed_with_bytes_that_it_has)
{
	attached();
	for (unsigned n = 0; n < 4; n++)
		offer(n);
	cr_expect_eq(next(0), 4);
	for (unsigned i = 0; i < 5; i++) {
		struct hr_feed_tile other = tile[1];

		if (i == 0)
			other.gen++;
		if (i == 1)
			other.gen = 0;
		if (i == 2)
			other.slot = SLOTS;
		cr_expect_eq(hr_feed_commit(feed, &other,
					    i == 3   ? 0
					    : i == 4 ? 8001
						     : 8000),
			     -EINVAL, "%u", i);
	}
	cr_expect_eq(hr_feed_commit_stream(feed, &tile[0], 8000, NULL), -EINVAL);
	cr_expect_eq(hr_feed_commit(feed, &tile[3], 8000), 0);
	cr_expect_eq(hr_feed_commit(feed, &tile[1], 1), 0);
	cr_expect_eq(hr_feed_commit(feed, &tile[1], 1), -EINVAL);
	for (unsigned n = 0; n < 4; n++)
		cr_expect_eq(page()->commit[n],
			     n == 1   ? (2ull << 32 | 1)
			     : n == 3 ? (4ull << 32 | 8000)
				      : 0,
			     "%u", n);
	EXPECT_LOG("");
}

Test(feed_tiles, a_stream_commits_a_tile_of_a_gpu)
{
	attached_on_gpu();
	offer(0);
	offer(1);
	cr_assert_eq(next(0), 2);
	fake_side.cuda_error = -EIO;
	cr_expect_eq(hr_feed_commit_stream(feed, &tile[1], 80, (void *)0x10), -EIO);
	EXPECT_LOG("cuda(0x10+72=0x200000050)");
	fake_side.cuda_error = 0;
	cr_expect_eq(hr_feed_commit_stream(feed, &tile[1], 8001, (void *)0x10), -EINVAL);
	cr_expect_eq(hr_feed_commit_stream(feed, &tile[1], 80, (void *)0x20), 0);
	EXPECT_LOG("cuda(0x20+72=0x200000050)");
	cr_expect_eq(hr_feed_commit_stream(feed, &tile[1], 80, (void *)0x20), -EINVAL);
	cr_expect_eq(hr_feed_commit(feed, &tile[1], 80), -EINVAL);
	EXPECT_LOG("");
}

/* ---- the end */

Test(feed_tiles, the_end_is_said_once_and_waited_for)
{
	attached();
	head()->durable = 7;
	cr_expect_eq(hr_feed_end(feed, 1), -ETIMEDOUT);
	EXPECT_LOG("w50000 w100000 w200000 w400000 w800000 w0");
	cr_expect_eq(page()->end, 77);
	cr_expect_eq(hr_feed_durable(feed), 7);
	says(3 * MS, HR_TAP_END, 0, "");
	cr_expect_eq(hr_feed_end(feed, -1), 0);
	EXPECT_LOG("w50000 w100000 w200000 w400000 w800000! <6");
	cr_expect_eq(hr_feed_code(feed), 0);
	cr_expect_eq(hr_feed_end(feed, -1), 0);
	EXPECT_LOG("");
}

Test(feed_tiles, a_message_at_the_limit_is_heard)
{
	attached();
	says(0, HR_TAP_END, 3, "a fault");
	cr_expect_eq(hr_feed_end(feed, 0), -EPIPE);
	EXPECT_LOG("w0! <6");
	cr_expect_eq(hr_feed_code(feed), 3);
}

Test(feed_tiles, the_end_waits_for_what_streams_commit)
{
	attached_on_gpu();
	fake_side.cuda_error = -EIO;
	cr_expect_eq(hr_feed_end(feed, 0), -EIO);
	EXPECT_LOG("cuda(wait)");
	cr_expect_eq(page()->end, 0);
	fake_side.cuda_error = 0;
	says(0, HR_TAP_END, 0, "");
	cr_expect_eq(hr_feed_end(feed, 0), 0);
	EXPECT_LOG("cuda(wait) w0! <6");
	cr_expect_eq(page()->end, 77);
	cr_expect_eq(hr_feed_end(feed, 0), 0);
	EXPECT_LOG("");
}

Test(feed_tiles, a_close_says_so_while_it_is_attached)
{
	struct hr_tap_message detach = message(HR_TAP_DETACH, 0, "");

	hr_feed_close(NULL);
	attached();
	hr_feed_close(feed);
	EXPECT_LOG(">5");
	cr_expect_eq(memcmp(&fake_side.sent[2], &detach, sizeof detach), 0);
	attached();
	*feed->alive = 0;
	hr_feed_close(feed);
	EXPECT_LOG("");
	feed = NULL;
}

Test(feed_tiles, a_child_of_fork_has_no_feed)
{
	int status;
	pid_t child;

	attached();
	offer(0);
	cr_assert_eq(next(0), 1);
	child = fork();
	if (child == 0)
		_exit(next(0) != -EPIPE || hr_feed_commit(feed, tile, 1) != -EPIPE ||
		      hr_feed_commit_stream(feed, tile, 1, NULL) != -EPIPE ||
		      hr_feed_fd(feed) != -EPIPE || hr_feed_end(feed, 0) != -EPIPE ||
		      hr_feed_durable(feed) != 0 || *fake_side_log());
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_expect_eq(status, 0);
	cr_expect_eq(hr_feed_commit(feed, tile, 1), 0);
}
