/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/tap/client/tap.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "gpu/tap/client/connection.h"
#include "gpu/tap/client/session.h"
#include "gpu/tap/protocol.h"

#define NS_PER_MS 1000000ull
#define OPEN_MS 60000
#define SPIN_NS 20000ull
#define SLEEP_FIRST_NS 50000ull
#define SLEEP_MAX_NS NS_PER_MS
#define SLEEP_ARMED_NS (100 * NS_PER_MS) /* a message ends it */
#define RETRY_FIRST_NS (50 * NS_PER_MS)
#define RETRY_MAX_NS (2000 * NS_PER_MS)

enum state {
	ATTACHED,
	GREETS,	 /* HELLO is sent: WELCOME comes when there is a run */
	RETRIES, /* no connection: the next attempt is at retry_ns */
	ENDED,	 /* no further tile comes: code and reason are valid */
};

struct hr_tap {
	uint32_t *alive; /* 1; a page that the kernel clears in a child of fork() */
	enum state state;
	int fd;				/* -1: no connection */
	struct hr_tap_session *session; /* the newest one; NULL: not attached yet */
	uint64_t retry_ns, pause_ns;
	uint64_t heard_ns; /* when the socket had nothing at last */
	int poll, timer;   /* of hr_tap_fd(); -1: none */
	uint32_t credits;
	int gpu;   /* as in the options */
	bool lost; /* the run was broken off, and the caller has not been told */
	int error; /* of hr_tap_next() when it has ended; 0: all tiles came */
	int code;
	char reason[HR_TAP_REASON];
	char name[64], consumer[64], directory[HR_TAP_DIRECTORY];
	char dtype[8], pipeline[64];
	struct hr_tap_info info;
};

/* Write the reason, and return the error. */
__attribute__((format(printf, 3, 4))) static int fail(struct hr_tap *tap, int err,
						      const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(tap->reason, sizeof tap->reason, format, args);
	va_end(args);
	return err;
}

/* ---- the descriptor for poll */

static void poll_add(const struct hr_tap *tap, int fd)
{
	struct epoll_event event = { .events = EPOLLIN };

	if (tap->poll >= 0)
		epoll_ctl(tap->poll, EPOLL_CTL_ADD, fd, &event);
}

/* 0: never. */
static void poll_at(const struct hr_tap *tap, uint64_t ns)
{
	const struct itimerspec at = { .it_value = { (time_t)(ns / 1000000000),
						     (long)(ns % 1000000000) } };

	if (tap->timer >= 0)
		timerfd_settime(tap->timer, TFD_TIMER_ABSTIME, &at, NULL);
}

/* ---- the state */

static void hang_up(struct hr_tap *tap)
{
	if (tap->fd >= 0)
		close(tap->fd);
	tap->fd = -1;
}

/* The reason is written. */
static int end(struct hr_tap *tap, int err)
{
	hang_up(tap);
	poll_at(tap, 1); /* readable, so that the caller asks */
	tap->state = ENDED;
	tap->error = err;
	return err;
}

static void retry(struct hr_tap *tap)
{
	hang_up(tap);
	tap->state = RETRIES;
	tap->retry_ns = hr_tap_now_ns() + tap->pause_ns;
	tap->pause_ns = 2 * tap->pause_ns < RETRY_MAX_NS ? 2 * tap->pause_ns : RETRY_MAX_NS;
	poll_at(tap, tap->retry_ns);
}

/* 0: it waits for WELCOME, or for the next attempt; otherwise it has ended. */
static int greet(struct hr_tap *tap)
{
	struct hr_tap_message m;
	const int fd = hr_tap_connect(tap->directory, tap->name, "tap");

	if (fd == -EAGAIN) {
		retry(tap);
		return 0;
	}
	if (fd == -ENOENT || fd == -ECONNREFUSED)
		return end(tap, fail(tap, fd, "no pipeline with this tap runs"));
	if (fd < 0)
		return end(tap, fail(tap, fd, "%s", strerror(-fd)));
	hr_tap_begin(&m, HR_TAP_HELLO, HR_TAP_VERSION);
	m.credits = tap->credits;
	memcpy(m.name, tap->consumer, sizeof m.name);
	tap->fd = fd;
	tap->state = GREETS;
	poll_at(tap, 0);
	poll_add(tap, fd);
	hr_tap_send(fd, &m); /* a tap that refuses a connection at once has sent why */
	return 0;
}

static void describe(struct hr_tap *tap, const struct hr_tap_message *m)
{
	memcpy(tap->dtype, m->dtype, sizeof tap->dtype);
	memcpy(tap->pipeline, m->name, sizeof tap->pipeline);
	tap->info.epoch = m->epoch;
	tap->info.tiles = m->tiles;
	tap->info.tile_bytes = m->tile_bytes;
	tap->info.credits = m->credits;
	tap->info.columns = m->columns;
	tap->info.each = m->each;
	tap->info.dtype = tap->dtype;
	tap->info.pipeline = tap->pipeline;
	tap->info.memory = tap->session->map.tiles;
	tap->info.memory_bytes = tap->session->map.tiles_bytes;
	tap->info.gpu = tap->session->map.gpu;
}

/* Sessions before the newest one are kept while a tile of them is in hand. */
static void free_unused(struct hr_tap *tap)
{
	struct hr_tap_session **at = tap->session ? &tap->session->older : NULL, *unused;

	while (at && *at) {
		if ((*at)->in_hand) {
			at = &(*at)->older;
			continue;
		}
		unused = *at;
		*at = unused->older;
		hr_tap_session_free(unused, false);
	}
}

static int attach(struct hr_tap *tap, const struct hr_tap_message *m, const int fds[HR_TAP_FDS])
{
	struct hr_tap_message ready;
	struct hr_tap_session *session;
	char why[HR_TAP_REASON - 64];
	int err = hr_tap_session_open(&session, m, fds, tap->gpu, why, sizeof why);

	if (err)
		return end(tap, fail(tap, err, "%s", why));
	session->older = tap->session;
	tap->session = session;
	free_unused(tap);
	describe(tap, m);
	hr_tap_begin(&ready, HR_TAP_READY, HR_TAP_VERSION);
	err = hr_tap_send(tap->fd, &ready);
	if (err) {
		retry(tap);
		return 0;
	}
	tap->state = ATTACHED;
	tap->pause_ns = RETRY_FIRST_NS;
	tap->reason[0] = '\0';
	tap->code = -1;
	return 0;
}

static int take_answer(struct hr_tap *tap, const struct hr_tap_message *m,
		       const int fds[HR_TAP_FDS])
{
	if (m->kind == HR_TAP_REFUSED)
		return end(tap, fail(tap, m->code ? -(int)m->code : -EPROTO, "%s", m->text));
	if (m->version != HR_TAP_VERSION)
		return end(tap, fail(tap, -EPROTO, "the answer is not one of a tap"));
	if (m->kind == HR_TAP_WAIT)
		return fail(tap, 0, "%s", m->text);
	if (m->kind != HR_TAP_WELCOME)
		return end(tap, fail(tap, -EPROTO, "the answer is not one of a tap"));
	return attach(tap, m, fds);
}

/* The state GREETS: something may have come. An engine that ends, or makes room for another client,
 * ends the connection without an answer. */
static int hear_answer(struct hr_tap *tap)
{
	struct hr_tap_message m = { 0 };
	int fds[HR_TAP_FDS];
	int err = hr_tap_receive(tap->fd, &m, fds);

	if (err == -EPIPE) {
		retry(tap);
		err = 0;
	} else if (err == -EPROTO) {
		end(tap, fail(tap, err, "the answer is not one of a tap"));
	} else if (err == -EAGAIN) {
		err = 0;
	} else {
		err = take_answer(tap, &m, fds);
	}
	hr_tap_close_all(fds);
	return err;
}

static uint64_t left_ns(uint64_t began, int timeout_ms)
{
	const uint64_t waited = hr_tap_now_ns() - began;
	const uint64_t limit = timeout_ms < 0 ? UINT64_MAX : (unsigned)timeout_ms * NS_PER_MS;

	return waited < limit ? limit - waited : 0;
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* Until it is attached: 0; -ETIMEDOUT; or it has ended. */
static int attach_in_time(struct hr_tap *tap, uint64_t began, int timeout_ms)
{
	int err = tap->state == ENDED ? tap->error : 0;
	bool is_over = false;

	while (!err && tap->state != ATTACHED) {
		const uint64_t left = left_ns(began, timeout_ms), now = hr_tap_now_ns();

		if (is_over)
			return -ETIMEDOUT;
		is_over = !left;
		if (tap->state == GREETS) {
			if (hr_tap_wait_ns(tap->fd, least(left, 1000 * NS_PER_MS)))
				err = hear_answer(tap);
		} else if (now >= tap->retry_ns) {
			err = greet(tap);
		} else {
			hr_tap_wait_ns(-1, least(left, tap->retry_ns - now));
		}
	}
	return err;
}

/* ---- open and close */

static void free_tap(struct hr_tap *tap)
{
	const bool forked = tap->alive && !*tap->alive;
	struct hr_tap_session *older;

	hang_up(tap);
	if (tap->poll >= 0)
		close(tap->poll);
	if (tap->timer >= 0)
		close(tap->timer);
	for (struct hr_tap_session *s = tap->session; s; s = older) {
		older = s->older;
		hr_tap_session_free(s, forked);
	}
	hr_tap_alive_close(tap->alive);
	free(tap);
}

static bool copy_text(char *to, size_t bytes, const char *from)
{
	return (size_t)snprintf(to, bytes, "%s", from) < bytes;
}

static int open_first(struct hr_tap *tap, const char *name, const struct hr_tap_options *options)
{
	const int wait_ms = options->wait_ms ? options->wait_ms : OPEN_MS;
	const char *consumer = options->name ? options->name : program_invocation_short_name;
	int err;

	tap->credits = options->credits;
	tap->gpu = options->gpu;
	copy_text(tap->consumer, sizeof tap->consumer, consumer);
	if (!copy_text(tap->name, sizeof tap->name, name) ||
	    !copy_text(tap->directory, sizeof tap->directory,
		       options->directory ? options->directory : ""))
		return fail(tap, -ENAMETOOLONG, "%s", strerror(ENAMETOOLONG));
	tap->alive = hr_tap_alive_open();
	if (!tap->alive)
		return fail(tap, -ENOMEM, "%s", strerror(ENOMEM));
	err = greet(tap);
	if (!err)
		err = attach_in_time(tap, hr_tap_now_ns(), wait_ms);
	if (err == -ETIMEDOUT && !*tap->reason)
		fail(tap, err, "the appliance has no engine that answers, within %d ms", wait_ms);
	return err;
}

int hr_tap_open(const char *name, const struct hr_tap_options *options, struct hr_tap **opened,
		char *why, size_t why_bytes)
{
	static const struct hr_tap_options defaults;
	struct hr_tap *tap = calloc(1, sizeof *tap);
	int err = -ENOMEM;

	if (tap) {
		tap->fd = tap->poll = tap->timer = -1;
		tap->pause_ns = RETRY_FIRST_NS;
		err = open_first(tap, name, options ? options : &defaults);
	}
	if (!err) {
		*opened = tap;
		return 0;
	}
	if (why && why_bytes)
		snprintf(why, why_bytes, "tap '%s': %s", name, tap ? tap->reason : "out of memory");
	if (tap)
		free_tap(tap);
	return err;
}

void hr_tap_close(struct hr_tap *tap)
{
	struct hr_tap_message m;

	if (!tap)
		return;
	hr_tap_begin(&m, HR_TAP_DETACH, HR_TAP_VERSION);
	if (*tap->alive && tap->state == ATTACHED)
		hr_tap_send(tap->fd, &m);
	free_tap(tap);
}

/* ---- tiles */

/* The run has ended. The socket tells whether the appliance makes another one: then this
 * consumer is in its queue from now on. */
static void lose(struct hr_tap *tap, bool again)
{
	char reason[HR_TAP_REASON];

	memcpy(reason, tap->reason, sizeof reason);
	hang_up(tap);
	tap->lost = again && greet(tap) == 0;
	if (tap->lost)
		memcpy(tap->reason, reason, sizeof reason);
	else
		end(tap, fail(tap, -EPIPE, "%s", reason));
}

/* In the state ATTACHED: the tap has sent a message, or is gone. */
static void hear_end(struct hr_tap *tap)
{
	struct hr_tap_message m = { 0 };
	int fds[HR_TAP_FDS];
	const int err = hr_tap_receive(tap->fd, &m, fds);

	hr_tap_close_all(fds);
	if (err == -EAGAIN || (!err && m.kind == HR_TAP_TILES))
		return;
	if (!err && m.kind == HR_TAP_END) {
		tap->code = m.code;
		fail(tap, 0, "%s", m.code ? m.text : "the run has ended");
		if (m.code)
			lose(tap, m.again);
		else
			end(tap, 0);
	} else if (!err && m.kind == HR_TAP_REVOKED) {
		end(tap, fail(tap, -EPIPE, "dropped by the tap: %s", m.text));
	} else if (err == -EPIPE) {
		fail(tap, 0, "the engine of the appliance has died");
		lose(tap, true);
		if (!tap->lost)
			fail(tap, 0, "the appliance is gone");
	} else {
		end(tap, fail(tap, -EPIPE, "the other side is not a tap"));
	}
}

/* Sleep until the next look: shorter while tiles come soon, then until a message comes. */
static void sleep_for_tile(struct hr_tap *tap, uint64_t *sleep_ns, uint64_t left)
{
	if (*sleep_ns == SLEEP_MAX_NS) {
		hr_tap_session_arm(tap->session);
		*sleep_ns = SLEEP_ARMED_NS;
	}
	hr_tap_session_waits(tap->session, true);
	if (hr_tap_wait_ns(tap->fd, least(*sleep_ns, left)))
		hear_end(tap);
	else if (*sleep_ns < SLEEP_MAX_NS)
		*sleep_ns = least(2 * *sleep_ns, SLEEP_MAX_NS);
	hr_tap_session_waits(tap->session, false);
}

/* Look at the socket. A caller that looks for tiles all the time finds a message a little later,
 * because the system call would delay a tile; one that waits for hr_tap_fd() was told of it. */
static void look_for_message(struct hr_tap *tap, uint64_t now)
{
	if (tap->poll < 0 && now - tap->heard_ns < SPIN_NS)
		return;
	if (hr_tap_wait_ns(tap->fd, 0))
		hear_end(tap);
	else
		tap->heard_ns = now;
}

/* In the state ATTACHED: tiles; 0: no further tile comes; -ETIMEDOUT; -EAGAIN: look again.
 * `now`: a time before this call. */
static int look_for_tiles(struct hr_tap *tap, struct hr_tap_tile *tile, uint32_t max, uint64_t left,
			  uint64_t now)
{
	const bool last = hr_tap_session_last(tap->session);
	const int n = (int)hr_tap_session_take(tap->session, tile, max);

	if (n || last)
		return n;
	if (left)
		return -EAGAIN;
	look_for_message(tap, now);
	if (tap->state != ATTACHED)
		return -EAGAIN;
	hr_tap_session_arm(tap->session);
	return -ETIMEDOUT;
}

/* -EAGAIN: there is none, and the tap is not attached any more. */
static int wait_for_tiles(struct hr_tap *tap, struct hr_tap_tile *tile, uint32_t max,
			  uint64_t began, int timeout_ms)
{
	uint64_t sleep_ns = SLEEP_FIRST_NS;
	int n;

	while (tap->state == ATTACHED) {
		const uint64_t left = left_ns(began, timeout_ms);

		n = look_for_tiles(tap, tile, max, left, began);
		if (n != -EAGAIN)
			return n;
		if (tap->state == ATTACHED && hr_tap_now_ns() - began >= SPIN_NS)
			sleep_for_tile(tap, &sleep_ns, left);
	}
	/* tiles that came before the end are valid */
	n = (int)hr_tap_session_take(tap->session, tile, max);
	return n ? n : -EAGAIN;
}

/* After a run that was broken off. */
static int attach_again(struct hr_tap *tap, uint64_t began, int timeout_ms)
{
	const int err = attach_in_time(tap, began, timeout_ms);

	if (!err || err == -ETIMEDOUT || err == -ENOMEM)
		return err;
	if (err == -ENOENT || err == -ECONNREFUSED)
		fail(tap, 0, "the appliance is gone");
	tap->error = -EPIPE;
	return -EPIPE;
}

int hr_tap_next(struct hr_tap *tap, struct hr_tap_tile *tile, uint32_t max, int timeout_ms)
{
	const uint64_t began = hr_tap_now_ns();
	int n;

	if (!max)
		return -EINVAL;
	if (!*tap->alive)
		return -EPIPE;
	if (tap->state != ATTACHED && tap->state != ENDED && !tap->lost) {
		n = attach_again(tap, began, timeout_ms);
		if (n)
			return n;
	}
	n = wait_for_tiles(tap, tile, max, began, timeout_ms);
	if (n != -EAGAIN)
		return n;
	if (!tap->lost)
		return tap->error;
	tap->lost = false;
	return -ECONNRESET;
}

/* The session of a tile. */
static struct hr_tap_session *session_of(const struct hr_tap *tap, const struct hr_tap_tile *tile)
{
	struct hr_tap_session *s = tap->session;

	while (s && s->epoch != tile->epoch)
		s = s->older;
	return s;
}

static int give(struct hr_tap *tap, const struct hr_tap_tile *tile, bool failed)
{
	struct hr_tap_session *session = *tap->alive ? session_of(tap, tile) : NULL;
	int err;

	if (!*tap->alive)
		return -EPIPE;
	err = session ? hr_tap_session_give(session, tile, failed) : -EINVAL;
	if (!err && session != tap->session)
		free_unused(tap);
	return err;
}

int hr_tap_done(struct hr_tap *tap, const struct hr_tap_tile *tile)
{
	return give(tap, tile, false);
}

int hr_tap_fail(struct hr_tap *tap, const struct hr_tap_tile *tile)
{
	return give(tap, tile, true);
}

int hr_tap_done_stream(struct hr_tap *tap, const struct hr_tap_tile *tile, void *stream)
{
	struct hr_tap_session *session = *tap->alive ? session_of(tap, tile) : NULL;

	if (!*tap->alive)
		return -EPIPE;
	return session ? hr_tap_session_give_stream(session, tile, stream) : -EINVAL;
}

/* ---- other calls */

int hr_tap_fd(struct hr_tap *tap)
{
	int err;

	if (!*tap->alive)
		return -EPIPE;
	if (tap->poll >= 0)
		return tap->poll;
	tap->poll = epoll_create1(EPOLL_CLOEXEC);
	tap->timer =
		tap->poll < 0 ? -1 : timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (tap->timer < 0) {
		err = -errno;
		if (tap->poll >= 0)
			close(tap->poll);
		tap->poll = -1;
		return err;
	}
	poll_add(tap, tap->timer);
	if (tap->fd >= 0)
		poll_add(tap, tap->fd);
	poll_at(tap, tap->state == RETRIES ? tap->retry_ns : tap->state == ENDED || tap->lost);
	return tap->poll;
}

const struct hr_tap_info *hr_tap_info(const struct hr_tap *tap)
{
	return &tap->info;
}

const char *hr_tap_reason(const struct hr_tap *tap)
{
	return tap->reason;
}

int hr_tap_code(const struct hr_tap *tap)
{
	return tap->code;
}
