/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/fuzz/tap.c - the sockets of a tap against clients with arbitrary behaviour.
 *
 * The input is a program of small steps of up to 8 clients: connect, send a message or other bytes,
 * send descriptors, hang up, read the answers; of the clock; and of a worker that carries out the
 * orders of the host late, and until then accesses the memory of a consumer. The tap runs between
 * all steps. No threads, so a crash repeats.
 *
 * Whatever clients do: the worker's accesses are valid, answers are messages of the protocol, the
 * seats are in a state of the protocol, no descriptor is left, and none of a client stays open.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "boot/appliance/lend/service.h"
#include "boot/engine/layout/sizes.h"
#include "config/base/log.h"
#include "tests/fakes/clock.h"
#include "tests/fuzz/tap_peers.h"

#define SLOTS 8u
#define CREDITS 5u
#define STEPS 400u

static struct hr_engine engine;
static struct hr_lend_service service;
static struct hr_tap_sockets sockets;
static bool supervised;
static struct hr_tap_role role;
static struct hr_tap_words words;
static struct hr_partition partition; /* a place for each part, which is enough here */
static bool lends[HR_TAP_SEATS];      /* of the worker: it accesses the memory of the seat */

/* ---- the appliance: a run with a tap, without other parts */

static int add_part(enum hr_place place, void *at)
{
	partition.part[partition.count].place = place;
	partition.region[place].cpu = at;
	return (int)partition.count++;
}

static void set_up(void)
{
	struct hr_config_pipeline *pipeline = &engine.config.pipeline[0];
	struct hr_run *run = &engine.run[0];

	hr_log_set_level(HR_LOG_ERROR);
	make_directory();
	engine.config.pipelines = 1;
	snprintf(pipeline->name, sizeof pipeline->name, "fuzz");
	snprintf(pipeline->tap.name, sizeof pipeline->tap.name, "t");
	pipeline->tap.credits = CREDITS;
	pipeline->tap.group = HR_CONTROL_NO_GROUP;
	pipeline->tap.lease_ns = HR_NS_PER_S;
	run->config = pipeline;
	run->selected = true;
	run->slots = SLOTS;
	run->tiles = 64;
	run->sink_tile_bytes = 4096;
	run->tap.role.ring = role.ring = SLOTS;
	engine.up = HR_STAGE_QUEUES;
	engine.tap_tiles[0].fd = memfd_create("tiles", MFD_CLOEXEC);
	must(engine.tap_tiles[0].fd >= 0 &&
	     ftruncate(engine.tap_tiles[0].fd, (off_t)SLOTS * 4096) == 0);
	role.entries = reserve(HR_TAP_SEATS * hr_tap_ring_bytes(SLOTS));
	role.pages = reserve(HR_TAP_SEATS * hr_tap_page_bytes(SLOTS));
	role.words = &words;
	run->cpu.tap = &role;
	run->layout.parts.partition = &partition;
	run->layout.tap_entries = add_part(HR_PLACE_TAP, role.entries);
	run->layout.tap_pages = add_part(HR_PLACE_HOST, role.pages);
	run->layout.tap_words = add_part(HR_PLACE_CONTROL, &words);
}

static void begin(void)
{
	struct hr_error e = { 0 };
	struct hr_run *run = &engine.run[0];

	fake_clock_start(HR_NS_PER_S, NULL, NULL);
	memset(&words, 0, sizeof words);
	memset(lends, 0, sizeof lends);
	run->tap.attached = run->tap.revoked = run->tap.refused = 0;
	run->started_ns = 1;
	run->ended_ns = 0;
	run->outcome = HR_RUN_WAITING;
	begin_peers();
	must(hr_tap_sockets_open(&sockets, &engine.config, NULL, &e) == 0);
	must(hr_lend_service_open(&service, &engine, &sockets, supervised, &e) == 0);
	must(service.tap[0].state == HR_LEND_LIVE);
}

/* ---- what must hold */

/* As the role does (gpu/tap/role.c), without tiles. */
static void carry_out(uint32_t seat)
{
	struct hr_tap_seat *seat_words = &words.seat[seat];
	const uint32_t order = seat_words->order;

	if (order == seat_words->obeyed)
		return;
	if (order % HR_TAP_ORDERS == HR_TAP_LEND) {
		must(seat_words->credits >= 1 && seat_words->credits <= CREDITS);
		must(!lends[seat]);
		lends[seat] = true;
	} else if (order % HR_TAP_ORDERS == HR_TAP_CLOSE) {
		lends[seat] = false;
	}
	seat_words->obeyed = order;
}

static void access_memory(uint32_t seat)
{
	uint8_t *entries = role.entries + seat * hr_tap_ring_bytes(SLOTS);
	const uint8_t *at = role.pages + seat * hr_tap_page_bytes(SLOTS);
	const uint32_t *gen = (const uint32_t *)(const void *)(at + sizeof(struct hr_tap_returns));

	must(((struct hr_tap_head *)(void *)entries)->magic == HR_TAP_MAGIC);
	entries[sizeof(struct hr_tap_head)]++;
	for (uint32_t i = 0; i < SLOTS; i++)
		words.seat[seat].returned += *(const volatile uint32_t *)&gen[i] & 1;
}

static void check_seat(const struct hr_tap_consumer *c)
{
	must((unsigned)c->peer.state <= HR_LEND_CLOSING);
	if (c->peer.state == HR_LEND_GREETED || c->peer.state == HR_LEND_ATTACHED) {
		must(c->peer.fd >= 0 && c->peer.credits >= 1 && c->peer.credits <= CREDITS);
		must(memchr(c->peer.name, '\0', sizeof c->peer.name));
		for (const char *at = c->peer.name; *at; at++)
			must(*at >= ' ' && *at <= '~');
	}
	if (c->peer.state == HR_LEND_CLOSING)
		must(c->peer.fd < 0);
	if (c->peer.state == HR_LEND_FREE)
		must(c->peer.fd <= 0 && c->peer.pidfd <= 0);
}

static void check(void)
{
	for (uint32_t seat = 0; seat < HR_TAP_SEATS; seat++) {
		check_seat(&service.tap[0].table.consumer[seat]);
		if (lends[seat])
			access_memory(seat);
	}
}

/* True when an answer came; it is one of a tap. */
static bool read_answer(int fd)
{
	struct hr_tap_message m;

	if (!read_message(fd, &m, HR_TAP_VERSION, HR_TAP_WELCOME))
		return false;
	if (m.kind == HR_TAP_WELCOME)
		must(m.credits >= 1 && m.credits <= CREDITS && m.ring == SLOTS && m.slots == SLOTS);
	else
		must(m.kind == HR_TAP_REFUSED || m.kind == HR_TAP_END || m.kind == HR_TAP_TILES ||
		     ((m.kind == HR_TAP_REVOKED || m.kind == HR_TAP_WAIT) && *m.text));
	return true;
}

/* ---- steps */

static void step(struct input *in)
{
	const uint8_t what = take(in);
	int *fd = &peer[what >> 4 & (PEERS - 1)];
	const int fds[2] = { *fd, engine.tap_tiles[0].fd };

	switch (what & 15) {
	case 0:
		connect_peer(fd, &sockets.at[0]);
		break;
	case 1:
		hang_up(fd);
		break;
	case 2:
		send_bytes(in, *fd);
		break;
	case 3:
		send_message(in, *fd, fds, 1 + (what >> 7));
		break;
	case 4:
		fake_clock_advance((uint64_t)take(in) << (what >> 4) * 2);
		break;
	case 5:
		for (uint32_t seat = 0; seat < HR_TAP_SEATS; seat++)
			carry_out(seat);
		break;
	case 6:
		carry_out(take(in) % HR_TAP_SEATS);
		break;
	case 7:
		read_answer(*fd);
		break;
	case 8:
		shutdown(*fd, what >> 7 ? SHUT_WR : SHUT_RD);
		break;
	default:
		send_message(in, *fd, NULL, 0);
	}
}

static void step_service(void)
{
	fake_clock_advance(HR_TAP_STEP_NS);
	hr_lend_service_step(&service);
	check();
}

/* The engine stays, and clients may wait for the next run. */
static void run_again(void)
{
	struct hr_run *run = &engine.run[0];
	struct hr_error e = { 0 };

	hr_lend_service_end(&service, 0);
	must(service.tap[0].state == HR_LEND_IDLE || service.tap[0].state == HR_LEND_OVER);
	for (unsigned i = 0; i < 2; i++) {
		connect_peer(&peer[i], &sockets.at[0]);
		greet(peer[i], HR_TAP_HELLO, HR_TAP_VERSION);
		step_service();
	}
	run->ended_ns = 0;
	memset(&words, 0, sizeof words);
	must(hr_lend_service_begin(&service, 0, &e) == 0);
	step_service();
	run->ended_ns = 3;
}

/* The run ends: with it the worker, so it accesses no memory of a seat any more. */
static void end(uint8_t how)
{
	struct hr_run *run = &engine.run[0];

	memset(lends, 0, sizeof lends);
	run->outcome = how & 1 ? HR_RUN_DONE : how & 8 ? HR_RUN_FAILED : HR_RUN_INTERRUPTED;
	run->error = how & 8 ? -EIO : 0;
	run->ended_ns = 2;
	if (supervised && how & 16)
		run_again();
	if (how & 2) {
		fake_clock_advance(HR_TAP_STEP_NS);
		hr_lend_service_step(&service);
		must(service.tap[0].state != HR_LEND_LIVE);
	}
	hr_lend_service_close(&service);
	hr_tap_sockets_close(&sockets);
	for (uint32_t seat = 0; seat < HR_TAP_SEATS; seat++)
		must(service.tap[0].table.consumer[seat].peer.state == HR_LEND_FREE);
	for (uint32_t i = 0; i < PEERS; i++) {
		while (peer[i] >= 0 && read_answer(peer[i]))
			;
		hang_up(&peer[i]);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct input in = { data, bytes };
	const uint8_t how = take(&in);
	unsigned before;

	if (!*directory)
		set_up();
	before = descriptors();
	supervised = how & 4;
	begin();
	for (uint32_t i = 0; i < STEPS && in.left; i++) {
		step(&in);
		step_service();
	}
	end(how);
	must(descriptors() == before);
	return 0;
}
