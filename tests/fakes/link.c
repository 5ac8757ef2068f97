#include "tests/fakes/link.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define EVENTS 64u

struct hr_link {
	int wake; /* eventfd: its value is the number of events */
	struct hr_link_event event[EVENTS];
	unsigned head, count;
	unsigned quiet_steps; /* steps without an event, since the last one */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct hr_link link_;
static struct fake_link_seen seen;
static int result[FAKE_LINK_CALLS];
static bool never_ends, counted;
static struct hr_link_counters counters; /* when counted */

static void enter(void)
{
	pthread_mutex_lock(&lock);
}

static void leave(void)
{
	pthread_mutex_unlock(&lock);
}

/* ---- for tests */

void fake_link_reset(void)
{
	enter();
	if (link_.wake > 0)
		close(link_.wake);
	memset(&link_, 0, sizeof link_);
	memset(&seen, 0, sizeof seen);
	memset(result, 0, sizeof result);
	never_ends = counted = false;
	link_.wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK | EFD_SEMAPHORE);
	leave();
}

void fake_link_fail(enum fake_link_call call, int err)
{
	enter();
	result[call] = err;
	leave();
}

void fake_link_count(struct hr_link_counters count)
{
	enter();
	counters = count;
	counted = true;
	leave();
}

void fake_link_say(struct hr_link_event event)
{
	const uint64_t one = 1;

	enter();
	if (link_.count == EVENTS || write(link_.wake, &one, sizeof one) != sizeof one)
		abort();
	link_.event[(link_.head + link_.count++) % EVENTS] = event;
	link_.quiet_steps = 0;
	leave();
}

bool fake_link_is_quiet(void)
{
	bool quiet;

	enter();
	/* the owner acts on the last event before its next step */
	quiet = !link_.count && link_.quiet_steps > 1;
	leave();
	return quiet;
}

void fake_link_ends(bool ends)
{
	enter();
	never_ends = !ends;
	leave();
}

struct fake_link_seen fake_link_look(void)
{
	struct fake_link_seen copy;

	enter();
	copy = seen;
	leave();
	return copy;
}

/* ---- gpu/remote/link.h */

int hr_link_open(struct hr_link **link, const struct hr_link_setup *setup, struct hr_error *e)
{
	int err;

	enter();
	err = result[FAKE_LINK_OPEN];
	seen.opens++;
	seen.setup = *setup;
	snprintf(seen.name, sizeof seen.name, "%s", setup->name);
	snprintf(seen.address, sizeof seen.address, "%s", setup->address);
	leave();
	if (err)
		return hr_fail(e, HR_ERROR_MISSING, err, "no link in this test");
	*link = &link_;
	return 0;
}

bool hr_link_step(struct hr_link *link, uint64_t now_ns, struct hr_link_event *event,
		  struct hr_error *e)
{
	uint64_t one;
	bool any;

	enter();
	seen.steps++;
	any = link->count > 0;
	*event = (struct hr_link_event){ .kind = HR_LINK_NOTHING };
	link->quiet_steps += !any;
	if (any) {
		*event = link->event[link->head];
		link->head = (link->head + 1) % EVENTS;
		link->count--;
		if (read(link->wake, &one, sizeof one) != sizeof one)
			abort();
	}
	leave();
	if (event->kind == HR_LINK_FAILED)
		hr_fail(e, (enum hr_error_kind)event->code, -1, "%s", event->text);
	return any;
}

int hr_link_fd(const struct hr_link *link)
{
	return link->wake;
}

static int note(struct fake_link_move *move, unsigned *count, enum fake_link_call call,
		uint32_t slot, uint32_t bytes, uint64_t tile)
{
	int err;

	enter();
	err = result[call];
	if (!err && *count < FAKE_LINK_MOVES)
		move[(*count)++] = (struct fake_link_move){ slot, bytes, tile };
	if (call == FAKE_LINK_SEND)
		seen.tries++;
	leave();
	return err;
}

int hr_link_offer(struct hr_link *link, uint32_t slot, uint64_t tile)
{
	return note(seen.offer, &seen.offers, FAKE_LINK_OFFER, slot, 0, tile);
}

bool hr_link_has(const struct hr_link *link, uint64_t tile)
{
	return false;
}

int hr_link_send(struct hr_link *link, uint32_t slot, uint64_t tile, uint32_t bytes)
{
	return note(seen.send, &seen.sends, FAKE_LINK_SEND, slot, bytes, tile);
}

void hr_link_end(struct hr_link *link, uint64_t tiles, uint64_t bytes)
{
	enter();
	seen.ended = true;
	seen.end_tiles = tiles;
	seen.end_bytes = bytes;
	leave();
}

void hr_link_durable(struct hr_link *link, uint64_t tile)
{
	enter();
	seen.durable = tile;
	leave();
}

void hr_link_finish(struct hr_link *link, int code, const char *text)
{
	enter();
	seen.finished = true;
	seen.finish_steps = seen.steps;
	seen.code = code;
	snprintf(seen.text, sizeof seen.text, "%s", text ? text : "");
	leave();
}

bool hr_link_ended(const struct hr_link *link)
{
	bool ended;

	enter();
	ended = seen.finished && !never_ends;
	leave();
	return ended;
}

uint16_t hr_link_port(const struct hr_link *link)
{
	return 4791;
}

struct hr_link_counters hr_link_count(const struct hr_link *link)
{
	struct hr_link_counters count = { 0 };

	enter();
	count.tiles = seen.sends;
	count.connections = 1;
	if (counted)
		count = counters;
	leave();
	return count;
}

const char *hr_link_describe(struct hr_link *link)
{
	return "fake link";
}

void hr_link_close(struct hr_link *link)
{
	if (!link)
		return;
	enter();
	seen.closes++;
	leave();
}
