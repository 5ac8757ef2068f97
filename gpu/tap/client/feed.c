/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/tap/client/feed.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gpu/tap/client/connection.h"
#include "gpu/tap/client/mapping.h"
#include "gpu/tap/protocol.h"

#define NS_PER_MS 1000000ull
#define WELCOME_NS \
	(60000 * NS_PER_MS) /* a feed answers within a millisecond while its engine runs */
#define SPIN_NS 20000ull
#define SLEEP_FIRST_NS 50000ull
#define SLEEP_MAX_NS NS_PER_MS

struct hr_feed {
	uint32_t *alive; /* 1; a page that the kernel clears in a child of fork() */
	int fd;
	struct hr_tap_mapping map;
	const struct hr_feed_head *head;
	struct hr_feed_commits *page;
	uint64_t next;	  /* entry */
	uint64_t durable; /* at the end of the run */
	bool ended;	  /* the run has ended, or the connection: code and reason are valid */
	int code;
	char reason[HR_FEED_REASON];
	char dtype[8], pipeline[64];
	struct hr_feed_info info;
};

/* Write the reason, and return the error. */
__attribute__((format(printf, 4, 5))) static int fail(char *why, size_t bytes, int err,
						      const char *format, ...)
{
	va_list args;

	va_start(args, format);
	if (why && bytes)
		vsnprintf(why, bytes, format, args);
	va_end(args);
	return err;
}

static int greet(int fd, const struct hr_feed_options *options, struct hr_tap_message *m,
		 int fds[HR_TAP_FDS], char *why, size_t bytes)
{
	int err;

	hr_tap_begin(m, HR_FEED_HELLO, HR_FEED_VERSION);
	m->credits = options->credits;
	snprintf(m->name, sizeof m->name, "%s",
		 options->name ? options->name : program_invocation_short_name);
	err = hr_tap_send(fd, m);
	/* a feed that refuses a connection at once has sent why */
	if (err && err != -EPIPE)
		return fail(why, bytes, err, "%s", strerror(-err));
	if (!hr_tap_wait_ns(fd, WELCOME_NS))
		return fail(why, bytes, -ETIMEDOUT, "the feed does not answer");
	err = hr_tap_receive(fd, m, fds);
	if (err)
		return fail(why, bytes, err, "the connection ended without an answer");
	if (m->kind == HR_TAP_REFUSED)
		return fail(why, bytes, m->code ? -(int)m->code : -EPROTO, "%s", m->text);
	if (m->kind != HR_FEED_WELCOME || m->version != HR_FEED_VERSION)
		return fail(why, bytes, -EPROTO, "the answer is not one of a feed");
	return 0;
}

static void describe(struct hr_feed *feed, const struct hr_tap_message *m)
{
	feed->code = -1;
	memcpy(feed->dtype, m->dtype, sizeof feed->dtype);
	memcpy(feed->pipeline, m->name, sizeof feed->pipeline);
	feed->info = (struct hr_feed_info){
		.epoch = m->epoch,
		.tiles = m->tiles,
		.first = m->first,
		.tile_bytes = m->tile_bytes,
		.credits = m->credits,
		.columns = m->columns,
		.dtype = feed->dtype,
		.pipeline = feed->pipeline,
		.memory = feed->map.tiles,
		.memory_bytes = feed->map.tiles_bytes,
		.gpu = feed->map.gpu,
		.durable = __atomic_load_n(&feed->head->durable, __ATOMIC_ACQUIRE),
	};
}

/* ---- the end */

/* The feed has sent a message, or is gone. */
static void hear(struct hr_feed *feed)
{
	struct hr_tap_message m = { 0 };
	int fds[HR_TAP_FDS];
	const int err = hr_tap_receive(feed->fd, &m, fds);

	hr_tap_close_all(fds);
	if (err == -EAGAIN || (!err && m.kind == HR_TAP_TILES))
		return;
	feed->ended = true;
	feed->durable = __atomic_load_n(&feed->head->durable, __ATOMIC_ACQUIRE);
	if (!err && m.kind == HR_TAP_END) {
		feed->code = m.code;
		fail(feed->reason, sizeof feed->reason, 0, "%s",
		     m.code ? m.text : "the run has ended");
	} else if (!err && m.kind == HR_TAP_REVOKED) {
		fail(feed->reason, sizeof feed->reason, 0, "dropped by the feed: %s", m.text);
	} else {
		fail(feed->reason, sizeof feed->reason, 0, "the appliance is gone");
	}
}

/* Waits between two looks at the shared words. */
struct wait {
	uint64_t began_ns, limit_ns, sleep_ns;
};

static void wait_begin(struct wait *w, int timeout_ms)
{
	w->began_ns = hr_tap_now_ns();
	w->limit_ns = timeout_ms < 0 ? UINT64_MAX : (unsigned)timeout_ms * NS_PER_MS;
	w->sleep_ns = SLEEP_FIRST_NS;
}

/* False: the time is up. */
static bool wait_more(struct wait *w, struct hr_feed *feed)
{
	const uint64_t waited = hr_tap_now_ns() - w->began_ns;
	const bool last = waited >= w->limit_ns;

	if (waited < SPIN_NS && !last)
		return true;
	if (hr_tap_wait_ns(feed->fd, last ? 0 : w->sleep_ns))
		hear(feed);
	w->sleep_ns = w->sleep_ns * 2 < SLEEP_MAX_NS ? w->sleep_ns * 2 : SLEEP_MAX_NS;
	return !last || feed->ended;
}

/* ---- the interface */

static void free_feed(struct hr_feed *feed)
{
	if (feed->fd >= 0)
		close(feed->fd);
	hr_tap_mapping_close(&feed->map, feed->alive && !*feed->alive);
	hr_tap_alive_close(feed->alive);
	free(feed);
}

static int map_feed(struct hr_feed *feed, const struct hr_tap_message *m, const int fds[HR_TAP_FDS],
		    int gpu, char *why, size_t bytes)
{
	const int err = hr_tap_mapping_open(&feed->map, m, fds, true, gpu, why, bytes);

	if (err)
		return err;
	feed->head = feed->map.head;
	feed->page = feed->map.page;
	feed->alive = hr_tap_alive_open();
	return feed->alive ? 0 : fail(why, bytes, -ENOMEM, "the tiles cannot be mapped");
}

static int attach(struct hr_feed *feed, const struct hr_feed_options *options, char *why,
		  size_t bytes)
{
	struct hr_tap_message m = { 0 };
	int fds[HR_TAP_FDS] = { -1, -1, -1 };
	int err = greet(feed->fd, options, &m, fds, why, bytes);

	if (!err)
		err = map_feed(feed, &m, fds, options->gpu, why, bytes);
	hr_tap_close_all(fds);
	if (err)
		return err;
	describe(feed, &m);
	hr_tap_begin(&m, HR_TAP_READY, HR_FEED_VERSION);
	err = hr_tap_send(feed->fd, &m);
	return err ? fail(why, bytes, err, "%s", strerror(-err)) : 0;
}

int hr_feed_open(const char *name, const struct hr_feed_options *options, struct hr_feed **opened,
		 char *why, size_t why_bytes)
{
	static const struct hr_feed_options defaults;
	struct hr_feed *feed = calloc(1, sizeof *feed);
	char directory[HR_TAP_DIRECTORY] = "", text[HR_FEED_REASON] = "";
	int err;

	if (!feed)
		return fail(why, why_bytes, -ENOMEM, "out of memory");
	options = options ? options : &defaults;
	if (options->directory)
		snprintf(directory, sizeof directory, "%s", options->directory);
	feed->fd = hr_tap_connect(directory, name, "feed");
	err = feed->fd < 0 ? fail(text, sizeof text, feed->fd, "%s",
				  feed->fd == -ENOENT || feed->fd == -ECONNREFUSED
					  ? "no pipeline with this feed runs"
					  : strerror(-feed->fd))
			   : attach(feed, options, text, sizeof text);
	if (!err) {
		*opened = feed;
		return 0;
	}
	free_feed(feed);
	return fail(why, why_bytes, err, "feed '%s': %s", name, text);
}

const struct hr_feed_info *hr_feed_info(const struct hr_feed *feed)
{
	return &feed->info;
}

/* Valid entries; an entry of another slot than the memory has is not one. */
static uint32_t take_entries(struct hr_feed *feed, struct hr_feed_tile *tile, uint32_t max)
{
	uint32_t n = 0;

	for (; n < max; n++, feed->next++) {
		const struct hr_tap_entry *e = &feed->map.entry[feed->next % feed->map.ring];

		if (__atomic_load_n(&e->sequence, __ATOMIC_ACQUIRE) != feed->next + 1 ||
		    e->slot >= feed->map.slots || e->bytes > feed->map.stride)
			break;
		tile[n] = (struct hr_feed_tile){
			.data = feed->map.tiles + (size_t)e->slot * feed->map.stride,
			.tile = e->tile,
			.room = e->bytes,
			.slot = e->slot,
			.gen = e->gen,
		};
		feed->map.held[e->slot] = e->gen;
	}
	return n;
}

int hr_feed_next(struct hr_feed *feed, struct hr_feed_tile *tile, uint32_t max, int timeout_ms)
{
	struct wait wait;

	if (!max)
		return -EINVAL;
	if (!*feed->alive)
		return -EPIPE;
	wait_begin(&wait, timeout_ms);
	for (;;) {
		const bool last = __atomic_load_n(&feed->head->last, __ATOMIC_ACQUIRE);
		/* entries that came before the last one are valid */
		const uint32_t n = feed->ended ? 0 : take_entries(feed, tile, max);

		if (n)
			return (int)n;
		if (feed->ended)
			return feed->code == 0 ? 0 : -EPIPE;
		if (last)
			return 0;
		if (!wait_more(&wait, feed))
			break;
	}
	/* a message comes also when the entry is valid already */
	__atomic_store_n(&feed->page->wake, feed->next + 1, __ATOMIC_RELEASE);
	return -ETIMEDOUT;
}

int hr_feed_fd(struct hr_feed *feed)
{
	return *feed->alive ? feed->fd : -EPIPE;
}

static bool is_held(const struct hr_feed *feed, const struct hr_feed_tile *tile, uint32_t bytes)
{
	return tile->slot < feed->map.slots && tile->gen &&
	       feed->map.held[tile->slot] == tile->gen && bytes && bytes <= tile->room;
}

int hr_feed_commit_stream(struct hr_feed *feed, const struct hr_feed_tile *tile, uint32_t bytes,
			  void *stream)
{
	int err;

	if (!*feed->alive)
		return -EPIPE;
	if (!feed->map.cuda || !is_held(feed, tile, bytes))
		return -EINVAL;
	err = hr_tap_cuda_write64(feed->map.cuda, stream, &feed->page->commit[tile->slot],
				  HR_FEED_COMMIT(tile->gen, bytes));
	if (!err)
		feed->map.held[tile->slot] = 0;
	return err;
}

int hr_feed_commit(struct hr_feed *feed, const struct hr_feed_tile *tile, uint32_t bytes)
{
	if (!*feed->alive)
		return -EPIPE;
	if (!is_held(feed, tile, bytes))
		return -EINVAL;
	feed->map.held[tile->slot] = 0;
	__atomic_store_n(&feed->page->commit[tile->slot], HR_FEED_COMMIT(tile->gen, bytes),
			 __ATOMIC_RELEASE);
	return 0;
}

int hr_feed_end(struct hr_feed *feed, int timeout_ms)
{
	struct wait wait;
	int err;

	if (!*feed->alive)
		return -EPIPE;
	/* what streams commit comes before the end */
	err = feed->map.cuda && !feed->ended ? hr_tap_cuda_wait(feed->map.cuda) : 0;
	if (err)
		return err;
	__atomic_store_n(&feed->page->end, feed->info.epoch, __ATOMIC_RELEASE);
	wait_begin(&wait, timeout_ms);
	while (!feed->ended)
		if (!wait_more(&wait, feed))
			return -ETIMEDOUT;
	return feed->code == 0 ? 0 : -EPIPE;
}

uint64_t hr_feed_durable(const struct hr_feed *feed)
{
	if (feed->ended || !*feed->alive)
		return feed->durable;
	return __atomic_load_n(&feed->head->durable, __ATOMIC_ACQUIRE);
}

const char *hr_feed_reason(const struct hr_feed *feed)
{
	return feed->reason;
}

int hr_feed_code(const struct hr_feed *feed)
{
	return feed->code;
}

void hr_feed_close(struct hr_feed *feed)
{
	struct hr_tap_message m = { 0 };

	if (!feed)
		return;
	hr_tap_begin(&m, HR_TAP_DETACH, HR_FEED_VERSION);
	if (*feed->alive && !feed->ended) {
		/* what streams commit is kept */
		if (feed->map.cuda)
			hr_tap_cuda_wait(feed->map.cuda);
		hr_tap_send(feed->fd, &m);
	}
	free_feed(feed);
}
