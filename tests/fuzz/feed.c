/* SPDX-License-Identifier: Apache-2.0 */
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

#include "boot/appliance/lend/service.h"
#include "boot/engine/shared_memory.h"
#include "config/base/log.h"
#include "gpu/tap/memory.h"
#include "tests/fakes/clock.h"
#include "tests/fuzz/tap_peers.h"

#define SETS 3u
#define SLOTS 4u
#define CREDITS 3u
#define TILE 4096u
#define TILES 24u
#define STEPS 400u

static struct hr_engine engine;
static struct hr_lend_service service;
static struct hr_operator op = { .name = "copy" };
static struct hr_feed_role role;
static struct hr_partition partition; /* a place for each part, which is enough here */
static struct hr_feed_words words;
static struct hr_slot slots[SLOTS];
static struct hr_gpu_facts facts = { .uuid = { 7 } };
static bool offers; /* of the worker: it accesses the memory of the producer */

/* ---- the appliance: a run with a feed, without other parts */

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
	uint8_t *tiles = reserve(SLOTS * TILE);

	hr_log_set_level(HR_LOG_ERROR);
	make_directory();
	engine.config.pipelines = 1;
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
	role.entries = reserve(SETS * hr_tap_ring_bytes(SLOTS));
	role.pages = reserve(SETS * hr_feed_page_bytes(SLOTS));
	for (uint32_t s = 0; s < SLOTS; s++)
		slots[s].in[0].data = tiles + s * TILE;
	run->cpu.feed = &role;
	run->layout.parts.partition = &partition;
	run->layout.feed_entries = add_part(HR_PLACE_TAP_WORDS, role.entries);
	run->layout.feed_pages = add_part(HR_PLACE_HOST, role.pages);
	run->layout.feed_words = add_part(HR_PLACE_CONTROL, &words);
	run->cpu.slot = slots;
}

/* Memory as on a GPU: made before the run; the tiles are the same for all producers. */
static void make_fixed(bool mps)
{
	struct hr_feed_memory *memory = &engine.feed_memory[0];
	const struct hr_sets_range range = { .entries_name = "entries",
					     .page_name = "page",
					     .entries = role.entries,
					     .pages = role.pages,
					     .entries_bytes = hr_tap_ring_bytes(SLOTS),
					     .page_bytes = hr_feed_page_bytes(SLOTS),
					     .count = SETS };

	memory->tiles = memfd_create("tiles", MFD_CLOEXEC);
	must(memory->tiles >= 0 && hr_sets_fill(&memory->sets, &range, NULL) == 0);
	memory->bytes = SLOTS * TILE;
	memory->up = true;
	facts.mps = mps;
	engine.backend[0].facts = &facts;
}

static void drop_fixed(void)
{
	hr_feed_memory_close(&engine.feed_memory[0]);
	hr_tap_memory_drop(role.entries, SETS * hr_tap_ring_bytes(SLOTS));
	hr_tap_memory_drop(role.pages, SETS * hr_feed_page_bytes(SLOTS));
	engine.backend[0].facts = NULL;
}

static void begin(uint8_t how)
{
	struct hr_error e = { 0 };
	struct hr_run *run = &engine.run[0];

	if (how & 8)
		make_fixed(how & 16);
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
	begin_peers();
	must(hr_lend_service_open(&service, &engine, NULL, false, &e) == 0);
}

/* ---- what must hold */

/* As the role does (gpu/tap/feed.c), without tiles. */
static void carry_out(void)
{
	const uint32_t order = words.order;

	if (order == words.obeyed)
		return;
	must(order % HR_FEED_ORDERS == HR_FEED_OFFER || order % HR_FEED_ORDERS == HR_FEED_CLOSE);
	if (order % HR_FEED_ORDERS == HR_FEED_OFFER) {
		must(words.credits >= 1 && words.credits <= CREDITS);
		must(!offers);
	}
	offers = order % HR_FEED_ORDERS == HR_FEED_OFFER;
	words.obeyed = order;
}

static void access_memory(void)
{
	uint8_t *entries = role.entries + words.set * hr_tap_ring_bytes(SLOTS);
	const uint8_t *pages = role.pages + words.set * hr_feed_page_bytes(SLOTS);
	const struct hr_feed_head *head = (const struct hr_feed_head *)(void *)entries;
	const struct hr_feed_commits *page = (const struct hr_feed_commits *)(const void *)pages;

	must(head->magic == HR_TAP_MAGIC && head->epoch);
	entries[sizeof *head]++;
	for (uint32_t s = 0; s < SLOTS; s++) {
		words.committed += *(const volatile uint64_t *)&page->commit[s] & 1;
		if (!engine.feed_memory[0].up)
			words.next += *(volatile uint8_t *)slots[s].in[0].data;
	}
	words.next %= TILES;
}

static void check(void)
{
	const struct hr_feed_producer *p = &service.feed[0].producer;

	must((unsigned)p->peer.state <= HR_LEND_CLOSING && p->peer.state != HR_LEND_LEAVING);
	if (p->peer.state == HR_LEND_GREETED || p->peer.state == HR_LEND_ATTACHED) {
		must(p->peer.fd >= 0 && p->peer.credits >= 1 && p->peer.credits <= CREDITS);
		must(memchr(p->peer.name, '\0', sizeof p->peer.name));
		for (const char *at = p->peer.name; *at; at++)
			must(*at >= ' ' && *at <= '~');
	} else {
		must(p->peer.fd < 0 && p->peer.pidfd < 0);
	}
	if (offers)
		access_memory();
}

/* True when an answer came; it is one of a feed. */
static bool read_answer(int fd)
{
	struct hr_tap_message m;

	if (!read_message(fd, &m, HR_FEED_VERSION, HR_FEED_WELCOME))
		return false;
	if (m.kind == HR_FEED_WELCOME)
		must(m.credits >= 1 && m.credits <= CREDITS && m.ring == SLOTS &&
		     m.slots == SLOTS && m.first < TILES && m.tiles == TILES &&
		     m.memory ==
			     (engine.feed_memory[0].up ? HR_TAP_MEMORY_CUDA : HR_TAP_MEMORY_HOST));
	else
		must(m.kind == HR_TAP_REFUSED || m.kind == HR_TAP_END ||
		     (m.kind == HR_TAP_REVOKED && *m.text));
	return true;
}

/* ---- steps */

static void step(struct input *in)
{
	const uint8_t what = take(in);
	int *fd = &peer[what >> 4 & (PEERS - 1)];
	const int fds[2] = { *fd, *fd };

	switch (what & 15) {
	case 0:
		connect_peer(fd, &service.feed[0].at);
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
		engine.run[0].durable_tiles++;
		words.offered = words.committed + 1;
		break;
	case 11:
		connect_peer(fd, &service.feed[0].at);
		greet(*fd, HR_FEED_HELLO, HR_FEED_VERSION);
		break;
	default:
		send_message(in, *fd, NULL, 0);
	}
}

/* The run ends: with it the worker, so it accesses no memory any more. */
static void end(uint8_t how)
{
	struct hr_run *run = &engine.run[0];

	offers = false;
	run->outcome = how & 1 ? HR_RUN_DONE : HR_RUN_INTERRUPTED;
	run->ended_ns = 2;
	if (how & 2) {
		fake_clock_advance(HR_TAP_STEP_NS);
		hr_lend_service_step(&service);
		must(service.feed[0].state == HR_LEND_CLOSED);
	}
	hr_lend_service_close(&service);
	must(service.feed[0].producer.peer.state == HR_LEND_FREE);
	for (uint32_t i = 0; i < PEERS; i++) {
		while (peer[i] >= 0 && read_answer(peer[i]))
			;
		hang_up(&peer[i]);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct input in = { data, bytes };
	uint8_t how = take(&in);
	unsigned before;

	if (!*directory)
		set_up();
	before = descriptors();
	begin(how);
	for (uint32_t i = 0; i < STEPS && in.left; i++) {
		step(&in);
		fake_clock_advance(HR_TAP_STEP_NS);
		hr_lend_service_step(&service);
		check();
	}
	end(how);
	if (how & 8)
		drop_fixed();
	must(descriptors() == before);
	return 0;
}
