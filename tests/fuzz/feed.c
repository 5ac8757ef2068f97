/*
 * tests/fuzz/feed.c - the socket of a feed against clients with arbitrary behaviour.
 *
 * The input is a program of small steps of up to 8 clients: connect, send a message or other bytes,
 * send descriptors, hang up, read the answers; of the clock; and of a worker that carries out the
 * orders of the host late, reports faults of a producer, and until then accesses its memory. The feed
 * runs between all steps. No threads, so a crash repeats.
 *
 * Whatever clients do: the worker's accesses are valid, answers are messages of the protocol, one
 * producer is attached at most, no descriptor is left, and none of a client stays open.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "boot/appliance/feed_service.h"
#include "boot/engine/pass.h"
#include "config/log.h"
#include "tests/fakes/clock.h"

#define SLOTS 4u
#define CREDITS 3u
#define TILE 4096u
#define TILES 24u
#define PEERS 8u
#define STEPS 400u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

struct input {
	const uint8_t *at;
	size_t left;
};

static char directory[64];
static struct hr_appliance app;
static struct hr_feed_service service;
static struct hr_operator op = { .name = "copy" };
static struct hr_feed_role role;
static struct hr_feed_words words;
static struct hr_slot slots[SLOTS];
static bool offers;	/* of the worker: it accesses the memory of the producer */
static int peer[PEERS]; /* -1: not connected */

static void must(bool holds)
{
	if (!holds)
		abort();
}

static uint8_t take(struct input *in)
{
	if (!in->left)
		return 0;
	in->left--;
	return *in->at++;
}

static void take_bytes(struct input *in, void *to, size_t bytes)
{
	const size_t n = bytes < in->left ? bytes : in->left;

	memcpy(to, in->at, n);
	in->at += n;
	in->left -= n;
}

/* ---- the appliance: a run with a feed, without other parts */

static void remove_directory(void)
{
	rmdir(directory);
}

static void *reserve(uint64_t bytes)
{
	void *at = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	must(at != MAP_FAILED);
	return at;
}

static void set_up(void)
{
	struct hr_config_pipeline *pipeline = &app.config.pipeline[0];
	struct hr_run *run = &app.run[0];
	uint8_t *tiles = reserve(SLOTS * TILE);

	hr_log_set_level(HR_LOG_ERROR);
	snprintf(directory, sizeof directory, "/tmp/headrace-fuzz-XXXXXX");
	must(mkdtemp(directory) && setenv("RUNTIME_DIRECTORY", directory, 1) == 0);
	atexit(remove_directory);
	app.config.pipelines = 1;
	pipeline->op = &op;
	snprintf(pipeline->name, sizeof pipeline->name, "fuzz");
	snprintf(pipeline->feed.name, sizeof pipeline->feed.name, "f");
	pipeline->feed.credits = CREDITS;
	pipeline->feed.group = HR_CONTROL_NO_GROUP;
	pipeline->feed.lease_ns = HR_NS_PER_S;
	run->config = pipeline;
	run->selected = true;
	run->slots = SLOTS;
	run->tiles = TILES;
	run->source[0].tile_bytes = TILE;
	run->feed.role.ring = SLOTS;
	role.entries = reserve(hr_tap_ring_bytes(SLOTS));
	role.page = reserve(hr_feed_page_bytes(SLOTS));
	for (uint32_t s = 0; s < SLOTS; s++)
		slots[s].in[0].data = tiles + s * TILE;
	run->cpu.feed = &role;
	run->cpu.slot = slots;
}

static void begin(void)
{
	struct hr_error e = { 0 };
	struct hr_run *run = &app.run[0];

	fake_clock_start(HR_NS_PER_S, NULL, NULL);
	memset(&words, 0, sizeof words);
	words.total = HR_NO_TILE;
	offers = false;
	role.words = &words;
	run->feed.attached = run->feed.revoked = run->feed.refused = 0;
	run->started_ns = 1;
	run->ended_ns = 0;
	run->durable_tiles = 0;
	run->outcome = HR_RUN_WAITING;
	for (uint32_t i = 0; i < PEERS; i++)
		peer[i] = -1;
	must(hr_feed_service_open(&service, &app, &e) == 0);
}

/* ---- what must hold */

/* As the role does (gpu/tap/feed.c), without tiles. */
static void carry_out(void)
{
	const uint32_t order = words.order;

	if (order == words.done)
		return;
	must(order % HR_FEED_ORDERS == HR_FEED_OFFER || order % HR_FEED_ORDERS == HR_FEED_CLOSE);
	if (order % HR_FEED_ORDERS == HR_FEED_OFFER) {
		must(words.credits >= 1 && words.credits <= CREDITS);
		must(!offers);
	}
	offers = order % HR_FEED_ORDERS == HR_FEED_OFFER;
	words.done = order;
}

static void access_memory(void)
{
	const struct hr_feed_head *head = (const struct hr_feed_head *)(void *)role.entries;
	const struct hr_feed_page *page = (const struct hr_feed_page *)(void *)role.page;

	must(head->magic == HR_TAP_MAGIC && head->epoch);
	role.entries[sizeof *head]++;
	for (uint32_t s = 0; s < SLOTS; s++) {
		words.committed += *(const volatile uint64_t *)&page->commit[s] & 1;
		words.next += *(volatile uint8_t *)slots[s].in[0].data;
	}
	words.next %= TILES;
}

static void check(void)
{
	const struct hr_feed_producer *p = &service.port[0].producer;

	must((unsigned)p->state <= HR_FEED_CLOSING);
	if (p->state == HR_FEED_GREETED || p->state == HR_FEED_ATTACHED) {
		must(p->fd >= 0 && p->credits >= 1 && p->credits <= CREDITS);
		must(memchr(p->name, '\0', sizeof p->name));
		for (const char *at = p->name; *at; at++)
			must(*at >= ' ' && *at <= '~');
	} else {
		must(p->fd < 0 && p->pidfd < 0);
	}
	if (offers)
		access_memory();
}

/* Whether an answer came; it is a message of the protocol. */
static bool read_answer(int fd)
{
	struct hr_tap_message m = { 0 };
	int fds[HR_TAP_FDS];
	unsigned count = 0;
	const ssize_t n = hr_pass_receive(fd, &m, sizeof m, fds, HR_TAP_FDS, &count);

	if (n <= 0)
		return false;
	must(n == sizeof m && m.magic == HR_TAP_MAGIC && m.version == HR_FEED_VERSION);
	must(memchr(m.text, '\0', sizeof m.text) && memchr(m.name, '\0', sizeof m.name));
	must(count == (m.kind == HR_FEED_WELCOME ? HR_TAP_FDS : 0));
	if (m.kind == HR_FEED_WELCOME)
		must(m.credits >= 1 && m.credits <= CREDITS && m.ring == SLOTS &&
		     m.slots == SLOTS && m.first < TILES && m.tiles == TILES);
	else if (m.kind == HR_TAP_REFUSED)
		must(m.code && *m.text);
	else
		must(m.kind == HR_TAP_END || (m.kind == HR_TAP_REVOKED && *m.text));
	for (unsigned i = 0; i < count; i++)
		close(fds[i]);
	return true;
}

/* ---- steps */

static void connect_peer(int *fd)
{
	if (*fd >= 0)
		return;
	*fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	must(*fd >= 0);
	if (connect(*fd, (const struct sockaddr *)&service.port[0].at, sizeof service.port[0].at) ==
	    0)
		return;
	close(*fd);
	*fd = -1;
}

static void hang_up(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

/* A message: kind, versions, credits, name; all other bytes are 0. */
static void send_message(struct input *in, int fd, unsigned descriptors)
{
	const int fds[2] = { fd, fd };
	struct hr_tap_message m = { .magic = HR_TAP_MAGIC };

	m.kind = take(in);
	m.version_least = take(in);
	m.version = take(in);
	m.credits = take(in);
	take_bytes(in, m.name, take(in) % (sizeof m.name + 1));
	hr_pass_send(fd, &m, sizeof m, fds, descriptors);
}

static void greet(int fd)
{
	struct hr_tap_message m;

	hr_feed_message_begin(&m, HR_FEED_HELLO);
	hr_pass_send(fd, &m, sizeof m, NULL, 0);
}

static void send_bytes(struct input *in, int fd)
{
	uint8_t bytes[2 * sizeof(struct hr_tap_message)] = { 0 };
	const size_t count = take(in) * 2u;

	take_bytes(in, bytes, count);
	hr_pass_send(fd, bytes, count, NULL, 0);
}

static void step(struct input *in)
{
	const uint8_t what = take(in);
	int *fd = &peer[what >> 4 & (PEERS - 1)];

	switch (what & 15) {
	case 0:
		connect_peer(fd);
		break;
	case 1:
		hang_up(fd);
		break;
	case 2:
		send_bytes(in, *fd);
		break;
	case 3:
		send_message(in, *fd, 1 + (what >> 7));
		break;
	case 4:
		fake_clock_advance((uint64_t)take(in) << (what >> 4) * 2);
		break;
	case 5:
	case 6:
		carry_out();
		break;
	case 7:
		read_answer(*fd);
		break;
	case 8:
		shutdown(*fd, what >> 7 ? SHUT_WR : SHUT_RD);
		break;
	case 9:
		words.fault = offers ? take(in) % 3 : words.fault;
		break;
	case 10:
		app.run[0].durable_tiles++;
		words.offered = words.committed + 1;
		break;
	case 11:
		connect_peer(fd);
		greet(*fd);
		break;
	default:
		send_message(in, *fd, 0);
	}
}

/* The run ends: with it the worker, so it accesses no memory any more. */
static void end(uint8_t how)
{
	struct hr_run *run = &app.run[0];

	offers = false;
	run->outcome = how & 1 ? HR_RUN_DONE : HR_RUN_INTERRUPTED;
	run->ended_ns = 2;
	if (how & 2) {
		fake_clock_advance(HR_FEED_STEP_NS);
		hr_feed_service_step(&service);
		must(!service.port[0].open);
	}
	hr_feed_service_close(&service);
	must(service.port[0].producer.state == HR_FEED_ABSENT);
	for (uint32_t i = 0; i < PEERS; i++) {
		while (peer[i] >= 0 && read_answer(peer[i]))
			;
		hang_up(&peer[i]);
	}
}

/* Open descriptors, as far as a run of these steps can open them. */
static unsigned descriptors(void)
{
	unsigned count = 0;

	for (int fd = 0; fd < 256; fd++)
		count += fcntl(fd, F_GETFD) >= 0;
	return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct input in = { data, bytes };
	uint8_t how = take(&in);
	unsigned before;

	if (!*directory)
		set_up();
	before = descriptors();
	begin();
	for (uint32_t i = 0; i < STEPS && in.left; i++) {
		step(&in);
		fake_clock_advance(HR_FEED_STEP_NS);
		hr_feed_service_step(&service);
		check();
	}
	end(how);
	must(descriptors() == before);
	return 0;
}
