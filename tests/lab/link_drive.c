/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/lab/link_drive.c - one side of a link (boot/remote/link.h) without a pipeline, for scenarios
 * that test the link itself and measure it.
 *
 *   link_drive send|receive A.B.C.D:PORT [OPTION=VALUE...]
 *
 *   key=TEXT name=NAME     the same on both sides
 *   tiles=N bytes=N        of the stream; last=N: bytes of its last tile
 *   slots=N depth=N        memory of this side; tiles in flight
 *   hold=MS                the receiver takes so long for each tile
 *   check=0                no contents and checksums, to measure the link alone
 *   call=SECONDS           longest time without a connection (0: for ever)
 *   dead=SECONDS           longest silence of the other side (0: the link's default)
 *   durable=N              the receiver has the tiles before N, from an earlier run
 *   code=N                 the exit code that this side tells the other one at the end
 *   linger=MS              time from the last tile until this side tells its end
 *   newer=N                this side says that it speaks a protocol so many versions newer
 *   die=STATE              this process kills itself as soon as the link is there: calling, greeting,
 *                          opening, offered, flow, broken, down (after a connection), done, bye
 *
 * Each 100th tile and each event of the connection is a line on stdout: tiles so far, event, time
 * since this machine has started. The last line has the counters. Exit code: 0, or that of the link's
 * error; 1: wrong contents; 5: the code of the other side is not 0.
 */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "config/base/clock.h"
#include "boot/remote/internal.h"

#define LINES_EVERY 100u

enum state { FREE, FILLED, SENDING, HELD };

struct slot {
	enum state state;
	uint64_t tile, until_ns; /* until_ns: of a receiver's slot that is HELD */
};

struct drive {
	struct hr_link_setup setup;
	char key[HR_LINK_KEY_BYTES + 1], name[HR_NAME_MAX];
	uint64_t last, hold, durable, call, dead, checked;
	uint64_t code, linger, newer;
	bool (*die)(const struct hr_link *link); /* true in the state in which this process dies */

	struct hr_link *link;
	struct slot slot[HR_LINK_SLOTS_MAX];
	uint64_t next;	/* tile to fill, or to offer */
	uint64_t moved; /* tiles that this run has sent or taken */
	uint64_t began_ns, end_ns;
	int other;			/* code of the other side, or -1 */
	bool up, finished, told, wrong; /* finished: no tiles are left; told: to the other side */
};

static uint32_t bytes_of(const struct drive *d, uint64_t tile)
{
	return tile + 1 == d->setup.tiles ? (uint32_t)d->last : d->setup.tile_bytes;
}

static uint8_t *at(const struct drive *d, uint32_t slot)
{
	return (uint8_t *)d->setup.memory.base + (uint64_t)slot * d->setup.memory.stride;
}

/* Contents of a tile: they differ between tiles, and between the places in a tile. */
static void fill(uint8_t *to, uint64_t tile, uint32_t bytes)
{
	uint64_t x = (tile + 1) * 0x9e3779b97f4a7c15ull;

	for (uint32_t i = 0; i < bytes; i += 8) {
		x = x * 6364136223846793005ull + 1442695040888963407ull;
		memcpy(to + i, &x, bytes - i < 8 ? bytes - i : 8);
	}
}

static void told(const struct drive *d, const char *what, const char *text)
{
	printf("%" PRIu64 " %s at %" PRIu64 " ms%s%s\n", d->moved, what,
	       (uint64_t)(hr_now_ns() / HR_NS_PER_MS), text && *text ? ": " : "", text ? text : "");
}

/* ---- the sender */

static void give_back(struct drive *d, uint64_t tile)
{
	for (uint32_t s = 0; s < d->setup.memory.slots; s++)
		if (d->slot[s].state != FREE && d->slot[s].tile == tile)
			d->slot[s].state = FREE;
}

static void send_slot(struct drive *d, uint32_t s)
{
	struct slot *slot = &d->slot[s];
	const int err = hr_link_send(d->link, s, slot->tile, bytes_of(d, slot->tile));

	if (err == 0)
		slot->state = SENDING;
	else if (err == -EALREADY)
		slot->state = FREE;
	else if (err != -EAGAIN && err != -ENOTCONN) {
		fprintf(stderr, "hr_link_send: %s\n", strerror(-err));
		d->wrong = true;
	}
}

static void fill_slot(struct drive *d, uint32_t s)
{
	while (d->next < d->setup.tiles && hr_link_receiver_has(d->link, d->next))
		d->next++;
	if (d->next == d->setup.tiles)
		return;
	d->slot[s] = (struct slot){ .state = FILLED, .tile = d->next };
	if (d->checked)
		fill(at(d, s), d->next, bytes_of(d, d->next));
	d->next++;
}

static void pump_sender(struct drive *d)
{
	bool idle = true;

	for (uint32_t s = 0; d->up && s < d->setup.memory.slots; s++) {
		if (d->slot[s].state == FREE)
			fill_slot(d, s);
		if (d->slot[s].state == FILLED)
			send_slot(d, s);
		idle = idle && d->slot[s].state == FREE;
	}
	if (d->up && idle && d->next == d->setup.tiles && !d->finished) {
		d->finished = true;
		d->end_ns = hr_now_ns();
	}
}

/* ---- the receiver */

static void offer(struct drive *d, uint32_t s)
{
	int err;

	while (d->next < d->setup.tiles && hr_link_receiver_has(d->link, d->next))
		d->next++;
	if (d->next == d->setup.tiles)
		return;
	err = hr_link_offer(d->link, s, d->next);
	if (err) {
		fprintf(stderr, "hr_link_offer: %s\n", strerror(-err));
		d->wrong = true;
	}
	d->next++;
}

static void take(struct drive *d, const struct hr_link_event *event)
{
	uint8_t *expected;

	if (event->bytes != bytes_of(d, event->tile)) {
		fprintf(stderr, "tile %" PRIu64 " has %u bytes\n", event->tile, event->bytes);
		d->wrong = true;
	}
	if (!d->checked)
		return;
	expected = malloc(event->bytes + 1u);
	if (!expected)
		abort();
	fill(expected, event->tile, event->bytes);
	if (memcmp(expected, at(d, event->slot), event->bytes) != 0) {
		fprintf(stderr, "tile %" PRIu64 ": wrong bytes\n", event->tile);
		d->wrong = true;
	}
	free(expected);
	/* What the network writes late would be seen in the next tile of this slot. */
	memset(at(d, event->slot), 0xdb, d->setup.tile_bytes);
}

static void release_held(struct drive *d)
{
	for (uint32_t s = 0; s < d->setup.memory.slots; s++) {
		if (d->slot[s].state != HELD || hr_now_ns() < d->slot[s].until_ns)
			continue;
		d->slot[s].state = FREE;
		offer(d, s);
	}
}

/* ---- both */

static void handle(struct drive *d, const struct hr_link_event *event)
{
	switch (event->kind) {
	case HR_LINK_UP:
		d->up = true;
		if (!d->began_ns)
			d->began_ns = hr_now_ns();
		told(d, "up", hr_link_describe(d->link));
		for (uint64_t t = d->next; t-- > 0 && d->next - t <= HR_LINK_SLOTS_MAX;)
			if (d->setup.side == HR_LINK_SENDER && hr_link_receiver_has(d->link, t))
				give_back(d, t);
		break;
	case HR_LINK_DOWN:
		d->up = false;
		for (uint32_t s = 0; s < d->setup.memory.slots; s++)
			if (d->slot[s].state == SENDING)
				d->slot[s].state = FILLED;
		told(d, "down", event->text);
		break;
	case HR_LINK_SENT:
	case HR_LINK_RECEIVED:
		if (++d->moved % LINES_EVERY == 0)
			told(d, "tiles", NULL);
		if (event->kind == HR_LINK_SENT) {
			d->slot[event->slot].state = FREE;
			break;
		}
		take(d, event);
		if (d->hold) {
			d->slot[event->slot].state = HELD;
			d->slot[event->slot].until_ns = hr_now_ns() + d->hold * HR_NS_PER_MS;
		} else {
			offer(d, event->slot);
		}
		break;
	case HR_LINK_END:
		told(d, "end", NULL);
		d->end_ns = hr_now_ns();
		d->finished = true;
		break;
	case HR_LINK_REMOTE_ENDED:
		d->other = event->code;
		told(d, "the other side is done", event->text);
		/* A side that has failed takes no more tiles, or has none. */
		if (event->code && !d->told) {
			d->finished = d->told = true;
			hr_link_report_result(d->link, event->code, "");
		}
		break;
	case HR_LINK_CLIENT_REFUSED:
		told(d, "refused", event->text);
		break;
	default:
		break;
	}
}

static void tell_end(struct drive *d)
{
	if (!d->finished || d->told || hr_now_ns() - d->end_ns < d->linger * HR_NS_PER_MS)
		return;
	d->told = true;
	hr_link_report_result(d->link, d->wrong ? 1 : (int)d->code, "the driver says so");
}

/* Until the next held slot is due, or the link wants a step. */
static int pause_ms(const struct drive *d)
{
	const uint64_t now_ns = hr_now_ns();
	uint64_t pause_ns = HR_LINK_STEP_NS;

	for (uint32_t s = 0; d->hold && s < d->setup.memory.slots; s++) {
		const uint64_t until_ns = d->slot[s].until_ns;

		if (d->slot[s].state == HELD && until_ns < now_ns + pause_ns)
			pause_ns = until_ns > now_ns ? until_ns - now_ns : 0;
	}
	return (int)((pause_ns + HR_NS_PER_MS - 1) / HR_NS_PER_MS);
}

static int run(struct drive *d)
{
	struct hr_error e = { 0 };
	struct hr_link_event event;

	while (!hr_link_both_ended(d->link)) {
		struct pollfd fd = { .fd = hr_link_fd(d->link), .events = POLLIN };

		while (hr_link_step(d->link, hr_now_ns(), &event, &e)) {
			if (event.kind == HR_LINK_FAILED)
				return hr_error_report(&e, -EIO);
			handle(d, &event);
			if (d->setup.side == HR_LINK_SENDER)
				pump_sender(d);
		}
		if (d->setup.side == HR_LINK_SENDER)
			pump_sender(d);
		else
			release_held(d);
		tell_end(d);
		poll(&fd, 1, pause_ms(d));
	}
	return d->wrong ? 1 : d->other ? 5 : 0;
}

static void print_counters(const struct drive *d)
{
	const struct hr_link_counters c = hr_link_read_counters(d->link);
	const uint64_t ns = d->end_ns > d->began_ns ? d->end_ns - d->began_ns : 1;
	struct rusage used;

	getrusage(RUSAGE_SELF, &used);
	printf("tiles=%" PRIu64 " bytes=%" PRIu64 " ms=%" PRIu64 " mb_per_s=%.2f cpu_ms=%ld "
	       "connections=%" PRIu64 " broken=%" PRIu64 " again=%" PRIu64 " not_ready=%" PRIu64
	       " refused=%" PRIu64 " recovery_ms=%" PRIu64 "\n",
	       c.tiles, c.bytes, (uint64_t)(ns / HR_NS_PER_MS), (double)c.bytes / (double)ns * 1e3,
	       (used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1000 +
		       (used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1000,
	       c.connections, c.broken, c.repeated, c.not_ready, c.refused,
	       (uint64_t)(c.last_recovery_ns / HR_NS_PER_MS));
}

/* ---- an end in a state of the link */

/* Receiver: a stranger has said HELLO. Sender: the receiver has. */
static bool in_greeting(const struct hr_link *link)
{
	for (unsigned i = 0; i < HR_LINK_UNPROVED_MAX; i++)
		if (link->unproved[i].fd >= 0 &&
		    link->unproved[i].said.hello[HR_LINK_SENDER].version)
			return true;
	return link->state == HR_LINK_STATE_HANDSHAKE &&
	       link->tcp.said.hello[HR_LINK_RECEIVER].version;
}

static bool in_calling(const struct hr_link *link)
{
	return link->state == HR_LINK_STATE_HANDSHAKE && link->tcp.connecting;
}

/* The key is proved. A receiver has made its queue pair, and has told where its memory is. On a busy
 * machine the same step may take the sender's OPEN. */
static bool in_opening(const struct hr_link *link)
{
	return link->state == HR_LINK_STATE_CONNECTING;
}

/* This side knows the memory of the other one, and has connected its queue pair. */
static bool in_offered(const struct hr_link *link)
{
	return link->state == HR_LINK_STATE_CONNECTING && link->heard_open;
}

static bool in_flow(const struct hr_link *link)
{
	return link->state == HR_LINK_STATE_UP;
}

static bool in_broken(const struct hr_link *link)
{
	return link->state == HR_LINK_STATE_DRAINING;
}

static bool in_down(const struct hr_link *link)
{
	return link->state == HR_LINK_STATE_DOWN && link->count.broken;
}

static bool in_done(const struct hr_link *link)
{
	return link->state == HR_LINK_STATE_UP && link->said_done;
}

static bool in_bye(const struct hr_link *link)
{
	return link->said_bye;
}

static bool state_option(struct drive *d, const char *word)
{
	static const struct {
		const char *name;
		bool (*in)(const struct hr_link *link);
	} all[] = {
		{ "calling", in_calling }, { "greeting", in_greeting }, { "opening", in_opening },
		{ "offered", in_offered }, { "flow", in_flow },		{ "broken", in_broken },
		{ "down", in_down },	   { "done", in_done },		{ "bye", in_bye },
	};

	for (size_t i = 0; strncmp(word, "die=", 4) == 0 && i < sizeof all / sizeof *all; i++)
		if (strcmp(word + 4, all[i].name) == 0)
			d->die = all[i].in;
	return d->die && strncmp(word, "die=", 4) == 0;
}

/* ---- options */

static int usage(const char *word)
{
	fprintf(stderr,
		"link_drive: %s; usage: link_drive send|receive A.B.C.D:PORT "
		"[OPTION=VALUE...]\n",
		word);
	return 2;
}

static bool text_option(struct drive *d, const char *word)
{
	if (strncmp(word, "key=", 4) == 0)
		return snprintf(d->key, sizeof(d->key), "%s", word + 4) > 0;
	return strncmp(word, "name=", 5) == 0 &&
	       snprintf(d->name, sizeof(d->name), "%s", word + 5) > 0;
}

static bool number_option(struct drive *d, const char *word)
{
	uint64_t bytes = d->setup.tile_bytes, slots = d->setup.memory.slots, depth = d->setup.depth;
	const struct {
		const char *name;
		uint64_t *to, max;
	} all[] = {
		{ "tiles", &d->setup.tiles, UINT32_MAX },
		{ "bytes", &bytes, HR_TILE_MAX },
		{ "last", &d->last, HR_TILE_MAX },
		{ "slots", &slots, HR_LINK_SLOTS_MAX },
		{ "depth", &depth, HR_LINK_SLOTS_MAX },
		{ "hold", &d->hold, 10000 },
		{ "check", &d->checked, 1 },
		{ "call", &d->call, 10000 },
		{ "dead", &d->dead, 100 },
		{ "durable", &d->durable, UINT32_MAX },
		{ "code", &d->code, 4 },
		{ "linger", &d->linger, 10000 },
		{ "newer", &d->newer, 1000 },
	};
	const char *equal = strchr(word, '=');

	for (size_t i = 0; equal && i < sizeof all / sizeof *all; i++) {
		char *end;
		const unsigned long long value = strtoull(equal + 1, &end, 10);

		if (strncmp(word, all[i].name, (size_t)(equal - word)) != 0 ||
		    all[i].name[equal - word] || *end || end == equal + 1 || value > all[i].max)
			continue;
		*all[i].to = value;
		d->setup.tile_bytes = (uint32_t)bytes;
		d->setup.memory.slots = (uint32_t)slots;
		d->setup.depth = (uint32_t)depth;
		return true;
	}
	return false;
}

static int prepare(struct drive *d)
{
	struct hr_rdma_memory *m = &d->setup.memory;

	if (!d->last)
		d->last = d->setup.tile_bytes;
	m->dmabuf = -1;
	m->stride = (d->setup.tile_bytes + HR_PAGE - 1) / HR_PAGE * HR_PAGE;
	m->bytes = (uint64_t)m->slots * m->stride;
	m->base = mmap(NULL, m->bytes, PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (m->base == MAP_FAILED) {
		fprintf(stderr, "link_drive: no memory of %" PRIu64 " bytes\n", m->bytes);
		return 3;
	}
	memcpy(d->setup.key, d->key, sizeof(d->setup.key));
	d->setup.name = d->name;
	d->setup.call_ns = d->call * HR_NS_PER_S;
	d->setup.dead_ns = d->dead * HR_NS_PER_S;
	return 0;
}

static struct drive drive = {
	.setup = { .tiles = 1000, .tile_bytes = 4096, .memory = { .slots = 16 } },
	.key = "the lab's key",
	.name = "stream",
	.checked = 1,
	.call = 60,
	.other = -1,
};

/* The linker calls this one in place of hr_link_advance() (--wrap): a call of hr_link_step() can pass
 * through several states. */
bool __real_hr_link_advance(struct hr_link *link);
bool __wrap_hr_link_advance(struct hr_link *link);
bool __wrap_hr_link_advance(struct hr_link *link)
{
	const bool more = __real_hr_link_advance(link);

	if (drive.die && drive.die(link)) {
		/* The other side gets what this one has said in the state. */
		hr_tcp_flush(&link->tcp);
		for (unsigned i = 0; i < HR_LINK_UNPROVED_MAX; i++)
			hr_tcp_flush(&link->unproved[i]);
		kill(getpid(), SIGKILL);
	}
	return more;
}

static void begin(struct drive *d)
{
	uint64_t bytes = d->last;

	if (d->setup.side == HR_LINK_SENDER) {
		bytes += (d->setup.tiles - 1) * d->setup.tile_bytes;
		hr_link_end(d->link, d->setup.tiles, bytes);
		return;
	}
	if (d->durable)
		hr_link_set_durable(d->link, d->durable);
	for (uint32_t s = 0; s < d->setup.memory.slots; s++)
		offer(d, s);
}

int main(int argc, char **argv)
{
	struct hr_error e = { 0 };
	int code;

	if (argc < 3 || (strcmp(argv[1], "send") != 0 && strcmp(argv[1], "receive") != 0))
		return usage("no side");
	drive.setup.side = argv[1][0] == 's' ? HR_LINK_SENDER : HR_LINK_RECEIVER;
	drive.setup.address = argv[2];
	for (int i = 3; i < argc; i++)
		if (!text_option(&drive, argv[i]) && !number_option(&drive, argv[i]) &&
		    !state_option(&drive, argv[i]))
			return usage(argv[i]);
	setvbuf(stdout, NULL, _IOLBF, 0);
	code = prepare(&drive);
	if (code)
		return code;
	code = hr_link_open(&drive.link, &drive.setup, &e);
	if (code || !drive.link)
		return hr_error_report(&e, code);
	drive.link->self.hello.version += (uint32_t)drive.newer;
	told(&drive, "open", hr_link_describe(drive.link));
	begin(&drive);
	code = run(&drive);
	print_counters(&drive);
	hr_link_close(drive.link);
	return code;
}
