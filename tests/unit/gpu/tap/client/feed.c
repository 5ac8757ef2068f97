/* SPDX-License-Identifier: Apache-2.0 */
/* A producer of a feed, over a socket whose other side is the test's: what it sends, takes, commits and
 * waits for, and which other side it does not believe. */
#include "gpu/tap/client/feed.h"

#include <poll.h>
#include <sys/wait.h>

#include "tests/harness/tap_server.h"

static struct hr_feed_options options;
static struct hr_feed *feed;
static struct hr_feed_tile tile[4];
static char why[HR_FEED_REASON];

static void begin(void)
{
	server_begin("feed", HR_FEED_VERSION);
	options = (struct hr_feed_options){ .directory = server.folder, .name = "p" };
	feed = NULL;
}

static void end(void)
{
	hr_feed_close(feed);
	server_end();
}

TestSuite(feed_client, .init = begin, .fini = end, .timeout = 120);

static int open_feed(void)
{
	return hr_feed_open("t", &options, &feed, why, sizeof why);
}

static struct hr_feed_head *head(void)
{
	return (struct hr_feed_head *)(void *)server.at[1];
}

static struct hr_feed_commits *page(void)
{
	return (struct hr_feed_commits *)(void *)server.at[2];
}

static void attached(void)
{
	head()->durable = 6;
	server_says(0, server_welcome(77));
	server_start();
	cr_assert_eq(open_feed(), 0, "%s", why);
	server_hears(0, HR_TAP_READY);
}

static int next(int timeout_ms)
{
	return hr_feed_next(feed, tile, 4, timeout_ms);
}

/* Entry n: slot n for tile 10 + n, with the generation n + 1. */
static void offer(unsigned n)
{
	*server_entry(n) = (struct hr_tap_entry){
		.tile = 10 + n, .slot = n % SLOTS, .gen = n + 1, .bytes = 8000, .sequence = n + 1
	};
}

/* ---- attach */

Test(feed_client, a_hello_asks_for_the_credits_under_the_name_of_the_producer)
{
	struct hr_tap_message hello = server_message(HR_FEED_HELLO, 0, "");
	const struct hr_feed_info *info;

	options.credits = 9;
	attached();
	hello.credits = 9;
	hello.name[0] = 'p';
	cr_expect_eq(memcmp(&server.hello[0], &hello, sizeof hello), 0);
	info = hr_feed_info(feed);
	cr_expect(info->epoch == 77 && info->tiles == 1000 && info->tile_bytes == 8000);
	cr_expect(info->first == 10 && info->durable == 6);
	cr_expect(info->credits == 3 && info->columns == 12 && info->gpu == -1);
	cr_expect_str_eq(info->dtype, "bf16");
	cr_expect_str_eq(info->pipeline, "train");
	cr_expect_eq(info->memory_bytes, (size_t)SLOTS * STRIDE);
	((uint8_t *)info->memory)[STRIDE] = 0x5a;
	cr_expect_eq(server.at[0][STRIDE], 0x5a);
	cr_expect_str_eq(hr_feed_reason(feed), "");
	cr_expect_eq(hr_feed_code(feed), -1);
	cr_expect_eq(hr_feed_durable(feed), 6);
	hr_feed_close(feed);
	feed = NULL;
	server_hears(0, HR_TAP_DETACH);
}

Test(feed_client, an_answer_that_is_no_welcome_ends_the_attempt)
{
	static const struct {
		uint16_t kind, version, code;
		const char *text;
		int result;
		const char *why;
	} row[] = {
		{ HR_TAP_REFUSED, 1, EBUSY, "it has one", -EBUSY, "feed 't': it has one" },
		{ HR_TAP_REFUSED, 9, 0, "no", -EPROTO, "feed 't': no" },
		{ HR_FEED_WELCOME, 2, 0, "", -EPROTO, "feed 't': the answer is not one of a feed" },
		{ HR_TAP_WELCOME, 1, 0, "", -EPROTO, "feed 't': the answer is not one of a feed" },
		{ 0, 1, 0, "", -EPIPE, "feed 't': the connection ended without an answer" },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		struct hr_tap_message m = server_message(row[i].kind, row[i].code, row[i].text);

		m.version = row[i].version;
		if (row[i].kind)
			server_says(0, m);
		server.hangs_up[0] = !row[i].kind;
		server_start();
		cr_expect_eq(open_feed(), row[i].result, "row %zu", i);
		cr_expect_str_eq(why, row[i].why);
		server_end();
		begin();
	}
	cr_expect_eq(open_feed(), -ECONNREFUSED);
	cr_expect_str_eq(why, "feed 't': no pipeline with this feed runs");
}

/* Sizes that cannot be, and memory that does not have them: nothing is mapped. */
static void expect_welcome(const struct server_row *row)
{
	server_answers(row, hr_feed_page_bytes(SLOTS));
	cr_expect_eq(open_feed(), row->result, "byte %zu, %u: %s", row->at, row->value, why);
	cr_expect(!row->result || strstr(why, "memory has sizes that cannot be") ||
			  strstr(why, "the tiles cannot be mapped"),
		  "byte %zu, %u: %s", row->at, row->value, why);
	end();
	begin();
}

Test(feed_client, a_welcome_whose_memory_cannot_be_ends_the_attempt)
{
	static const struct server_row own[] = {
		{ AT(stride), STRIDE + 2048, { 0 }, 3, -EPROTO },
		{ AT(stride), STRIDE - 4096, { 0 }, 3, -EPROTO },
		{ AT(tile_bytes), 0, { 0 }, 3, -EPROTO },
	};

	for (size_t i = 0; i < sizeof own / sizeof *own; i++)
		expect_welcome(&own[i]);
	for (size_t i = 0; i < sizeof server_rows / sizeof *server_rows; i++)
		expect_welcome(&server_rows[i]);
	server_says(0, server_welcome(77));
	head()->magic++;
	server_start();
	cr_expect_eq(open_feed(), -EPROTO);
}

/* ---- tiles */

Test(feed_client, tiles_are_taken_as_they_were_offered_and_committed)
{
	static const struct {
		uint32_t slot, gen, bytes;
	} wrong[] = { { 1, 3, 8000 }, { 1, 0, 8000 }, { SLOTS, 2, 8000 }, { UINT32_MAX, 2, 8000 },
		      { 1, 2, 0 },    { 1, 2, 8001 }, { 3, 4, 8000 } };

	attached();
	for (unsigned n = 0; n < 3; n++)
		offer(n);
	cr_expect_eq(hr_feed_next(feed, tile, 0, 0), -EINVAL);
	cr_expect_eq(hr_feed_next(feed, tile, 2, -1), 2);
	cr_expect_eq(hr_feed_next(feed, tile + 2, 2, 0), 1);
	for (unsigned n = 0; n < 3; n++) {
		cr_expect_eq((uint8_t *)tile[n].data - (uint8_t *)hr_feed_info(feed)->memory,
			     (long)(n * STRIDE));
		cr_expect(tile[n].tile == 10 + n && tile[n].gen == n + 1 && tile[n].slot == n);
		cr_expect_eq(tile[n].room, 8000);
	}
	cr_expect_eq(next(0), -ETIMEDOUT);
	cr_expect_eq(next(3), -ETIMEDOUT);
	cr_expect_eq(page()->wake, 4);
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		struct hr_feed_tile other = tile[1];

		other.slot = wrong[i].slot;
		other.gen = wrong[i].gen;
		cr_expect_eq(hr_feed_commit(feed, &other, wrong[i].bytes), -EINVAL, "row %zu", i);
	}
	cr_expect_eq(hr_feed_commit_stream(feed, &tile[0], 8000, NULL), -EINVAL);
	cr_expect_eq(hr_feed_commit(feed, &tile[2], 8000), 0);
	cr_expect_eq(hr_feed_commit(feed, &tile[1], 1), 0);
	cr_expect_eq(hr_feed_commit(feed, &tile[1], 1), -EINVAL);
	cr_expect(page()->commit[0] == 0 && page()->commit[1] == HR_FEED_COMMIT(2, 1) &&
		  page()->commit[2] == HR_FEED_COMMIT(3, 8000) && page()->commit[3] == 0);
	cr_expect_eq(hr_feed_commit(feed, &tile[0], 8000), 0);
	cr_expect_eq(hr_feed_commit(feed, &tile[0], 8000), -EINVAL);
	for (unsigned n = 3; n < 30; n++) {
		offer(n);
		cr_assert_eq(next(0), 1);
		cr_expect(tile[0].tile == 10 + n && tile[0].slot == n % SLOTS);
		cr_expect_eq(hr_feed_commit(feed, tile, 8), 0);
		cr_expect_eq(page()->commit[n % SLOTS], HR_FEED_COMMIT(n + 1, 8));
	}
}

Test(feed_client, an_entry_with_a_word_that_cannot_be_is_not_taken)
{
	attached();
	for (unsigned i = 0; i < 5; i++) {
		struct hr_tap_entry *e = server_entry(0);

		offer(0);
		e->sequence = i == 0 ? 0 : i == 1 ? 2 : e->sequence;
		e->slot = i == 2 ? SLOTS : e->slot;
		e->bytes = i == 3 ? STRIDE + 1 : STRIDE;
		cr_expect_eq(next(0), i == 4 ? 1 : -ETIMEDOUT, "%u", i);
	}
}

Test(feed_client, the_last_tile_is_followed_by_none)
{
	attached();
	offer(0);
	head()->last = 1;
	cr_expect_eq(next(-1), 1);
	cr_expect_eq(next(-1), 0);
}

static void *offer_later(void *unused)
{
	usleep(3000);
	offer(0);
	return NULL;
}

Test(feed_client, an_offer_that_comes_during_a_wait_ends_it)
{
	const struct hr_tap_message tiles = server_message(HR_TAP_TILES, 0, "");
	struct pollfd wait = { .events = POLLIN };
	pthread_t thread;

	attached();
	cr_assert_eq(pthread_create(&thread, NULL, offer_later, NULL), 0);
	cr_expect_eq(next(-1), 1);
	pthread_join(thread, NULL);
	wait.fd = hr_feed_fd(feed);
	cr_expect_eq(next(0), -ETIMEDOUT);
	cr_expect_eq(poll(&wait, 1, 0), 0);
	server_send(server.fd[0], &tiles);
	cr_expect_eq(poll(&wait, 1, 60000), 1);
	cr_expect_eq(next(0), -ETIMEDOUT);
	cr_expect_eq(poll(&wait, 1, 0), 0);
}

Test(feed_client, a_child_of_fork_has_no_feed)
{
	int status;
	pid_t child;

	attached();
	offer(0);
	cr_assert_eq(next(0), 1);
	child = fork();
	if (child == 0) {
		const bool none = next(0) == -EPIPE && hr_feed_commit(feed, tile, 1) == -EPIPE &&
				  hr_feed_commit_stream(feed, tile, 1, NULL) == -EPIPE &&
				  hr_feed_fd(feed) == -EPIPE && hr_feed_end(feed, 0) == -EPIPE &&
				  hr_feed_durable(feed) == 0;

		hr_feed_close(feed);
		_exit(!none);
	}
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_expect_eq(status, 0);
	cr_expect_eq(hr_feed_commit(feed, tile, 1), 0);
	cr_expect_eq(recv(server.fd[0], why, 1, MSG_DONTWAIT), -1, "the child says nothing");
}

/* ---- the end */

Test(feed_client, messages_that_end_a_run)
{
	static const struct {
		uint16_t kind, code;
		const char *text;
		int result, run_code;
		const char *reason;
	} row[] = {
		{ HR_TAP_END, 0, "x", 0, 0, "the run has ended" },
		{ HR_TAP_END, 4, "a fault", -EPIPE, 4, "a fault" },
		{ HR_TAP_REVOKED, 0, "it was slow", -EPIPE, -1,
		  "dropped by the feed: it was slow" },
		{ HR_TAP_WAIT, 0, "", -EPIPE, -1, "the appliance is gone" },
		{ 0, 0, "", -EPIPE, -1, "the appliance is gone" },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		struct hr_tap_message m = server_message(row[i].kind, row[i].code, row[i].text);

		attached();
		head()->durable = 8;
		if (row[i].kind)
			server_send(server.fd[0], &m);
		close(server.fd[0]);
		server.fd[0] = -1;
		cr_expect_eq(next(60000), row[i].result, "row %zu", i);
		offer(0); /* too late */
		head()->durable = 9;
		cr_expect_eq(next(-1), row[i].result);
		cr_expect_eq(hr_feed_durable(feed), 8);
		cr_expect_str_eq(hr_feed_reason(feed), row[i].reason);
		cr_expect_eq(hr_feed_code(feed), row[i].run_code, "row %zu", i);
		cr_expect_eq(hr_feed_end(feed, 0), row[i].result);
		end();
		begin();
	}
}

Test(feed_client, the_end_is_said_once_and_waited_for)
{
	const struct hr_tap_message m = server_message(HR_TAP_END, 0, "");

	attached();
	head()->durable = 7;
	cr_expect_eq(hr_feed_end(feed, 1), -ETIMEDOUT);
	cr_expect_eq(page()->end, 77);
	cr_expect_eq(hr_feed_durable(feed), 7);
	server_send(server.fd[0], &m);
	cr_expect_eq(hr_feed_end(feed, -1), 0);
	cr_expect_eq(hr_feed_code(feed), 0);
	cr_expect_eq(hr_feed_end(feed, -1), 0);
}
