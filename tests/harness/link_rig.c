/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/harness/link_rig.h"

#include <criterion/criterion.h>
#include <dlfcn.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* Far above what a loaded machine needs for anything that a test waits for. */
#define LIMIT_S 200

static void *library;

struct fake_ibverbs *link_rig_fake(void)
{
	return dlsym(library, "fake_ibverbs");
}

static uint8_t *memory(void)
{
	uint8_t *at = mmap(NULL, RIG_SLOTS * RIG_STRIDE, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	cr_assert_neq(at, MAP_FAILED);
	return at;
}

/* Setups that fit, and a device without faults. */
static void describe(struct link_rig *rig)
{
	memset(link_rig_fake(), 0, sizeof(struct fake_ibverbs));
	rig->address[0] = '\0';
	rig->kept_count[0] = rig->kept_count[1] = 0;
	for (int side = 0; side < 2; side++) {
		rig->setup[side] = (struct hr_link_setup){
			.side = (enum hr_link_side)side,
			.name = "stream",
			.address = side == HR_LINK_RECEIVER ? "127.0.0.1:0" : rig->address,
			.memory = { .base = rig->memory[side],
				    .bytes = RIG_SLOTS * RIG_STRIDE,
				    .dmabuf = -1,
				    .slots = RIG_SLOTS,
				    .stride = RIG_STRIDE },
			.tile_bytes = RIG_TILE,
			.tiles = 1000000,
			.depth = 4,
			.dead_ns = 1000000000000ull,
		};
		memset(rig->setup[side].key, 7, sizeof(rig->setup[side].key));
	}
	rig->now_ns = 1000000000;
}

void link_rig_init(struct link_rig *rig)
{
	memset(rig, 0, sizeof(*rig));
	snprintf(rig->folder, sizeof(rig->folder), "/tmp/link-rig-XXXXXX");
	cr_assert(mkdtemp(rig->folder));
	setenv("FAKE_IBVERBS_DIR", rig->folder, 1);
	/* The library that is loaded under this name already is the one that a link gets. */
	library = dlopen(TEST_IBVERBS, RTLD_NOW | RTLD_LOCAL);
	cr_assert(library, "%s", dlerror());
	for (int side = 0; side < 2; side++)
		rig->memory[side] = memory();
	describe(rig);
	rig->first_free = dup(0);
	close(rig->first_free);
}

static void expect_nothing_left(struct link_rig *rig)
{
	const struct fake_ibverbs *fake = link_rig_fake();
	int first_free;

	link_rig_close(rig, HR_LINK_SENDER);
	link_rig_close(rig, HR_LINK_RECEIVER);
	cr_expect_eq(fake->contexts + fake->pds + fake->mrs + fake->cqs + fake->qps, 0,
		     "left: %u contexts, %u pds, %u mrs, %u cqs, %u qps", fake->contexts, fake->pds,
		     fake->mrs, fake->cqs, fake->qps);
	first_free = dup(0);
	cr_expect_eq(first_free, rig->first_free, "a descriptor is left");
	close(first_free);
}

unsigned link_rig_free_port(void)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t bytes = sizeof at;
	const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	cr_assert_eq(bind(fd, (const struct sockaddr *)&at, sizeof at), 0);
	cr_assert_eq(getsockname(fd, (struct sockaddr *)&at, &bytes), 0);
	close(fd);
	return ntohs(at.sin_port);
}

void link_rig_again(struct link_rig *rig)
{
	expect_nothing_left(rig);
	describe(rig);
}

void link_rig_open(struct link_rig *rig, enum hr_link_side side)
{
	struct hr_error *e = &rig->error[side];

	hr_error_clear(e);
	cr_assert_eq(hr_link_open(&rig->link[side], &rig->setup[side], e), 0, "%s", e->text);
	if (side == HR_LINK_RECEIVER)
		snprintf(rig->address, sizeof(rig->address), "127.0.0.1:%u",
			 hr_link_port(rig->link[side]));
}

bool link_rig_step(struct link_rig *rig, enum hr_link_side side)
{
	struct hr_link_event event;

	rig->now_ns += 10000;
	if (!rig->link[side] ||
	    !hr_link_step(rig->link[side], rig->now_ns, &event, &rig->error[side]))
		return false;
	if (event.kind == HR_LINK_NOTHING)
		return false;
	rig->last[side] = event;
	if (event.text) {
		snprintf(rig->text[side], sizeof(rig->text[side]), "%s", event.text);
		rig->last[side].text = rig->text[side];
	}
	return true;
}

static void keep(struct link_rig *rig, int side)
{
	/* A test that waits for one side does not take the events of the other one: the oldest go. */
	if (rig->kept_count[side] == RIG_KEPT)
		memmove(rig->kept[side], rig->kept[side] + 1,
			--rig->kept_count[side] * sizeof(rig->kept[side][0]));
	rig->kept[side][rig->kept_count[side]++] = rig->last[side];
}

/* True: *event is the first kept one of that kind, and those before it are gone. */
static bool take_kept(struct link_rig *rig, int side, enum hr_link_event_kind kind,
		      struct hr_link_event *event)
{
	for (unsigned i = 0; i < rig->kept_count[side]; i++) {
		*event = rig->kept[side][i];
		if (event->kind != kind)
			continue;
		rig->kept_count[side] -= i + 1;
		memmove(rig->kept[side], rig->kept[side] + i + 1,
			rig->kept_count[side] * sizeof(rig->kept[side][0]));
		return true;
	}
	rig->kept_count[side] = 0;
	return false;
}

struct hr_link_event link_rig_until(struct link_rig *rig, enum hr_link_side side,
				    enum hr_link_event_kind kind)
{
	const time_t end = time(NULL) + LIMIT_S;

	do {
		struct hr_link_event event;

		if (take_kept(rig, (int)side, kind, &event))
			return event;
		link_rig_idle(rig, 1);
	} while (time(NULL) < end);
	cr_assert(0, "side %d: event %d does not come; %s; %s", side, kind,
		  rig->link[0] ? hr_link_describe(rig->link[0]) : "",
		  rig->link[1] ? hr_link_describe(rig->link[1]) : "");
	return (struct hr_link_event){ 0 };
}

void link_rig_idle(struct link_rig *rig, unsigned steps)
{
	for (; steps; steps--)
		for (int i = 0; i < 2; i++)
			if (link_rig_step(rig, (enum hr_link_side)i))
				keep(rig, i);
}

void link_rig_pass(struct link_rig *rig, uint64_t ns)
{
	const uint64_t piece = rig->setup[0].dead_ns / RIG_PIECES, end = rig->now_ns + ns;

	while (rig->now_ns < end) {
		rig->now_ns += piece < end - rig->now_ns ? piece : end - rig->now_ns;
		link_rig_idle(rig, 8);
	}
}

void link_rig_up(struct link_rig *rig)
{
	link_rig_open(rig, HR_LINK_RECEIVER);
	link_rig_open(rig, HR_LINK_SENDER);
	/* The sender's READY is the last message, so the receiver is up last. */
	link_rig_until(rig, HR_LINK_RECEIVER, HR_LINK_UP);
}

static uint8_t byte_of(uint64_t tile, uint32_t at)
{
	return (uint8_t)((tile + 1) * 31 + at * 7 + at / 251);
}

void link_rig_fill(struct link_rig *rig, uint32_t slot, uint64_t tile, uint32_t bytes)
{
	uint8_t *to = rig->memory[HR_LINK_SENDER] + (size_t)slot * RIG_STRIDE;

	for (uint32_t i = 0; i < bytes; i++)
		to[i] = byte_of(tile, i);
}

int link_rig_send(struct link_rig *rig, uint32_t slot, uint64_t tile, uint32_t bytes)
{
	link_rig_fill(rig, slot, tile, bytes);
	return hr_link_send(rig->link[HR_LINK_SENDER], slot, tile, bytes);
}

bool link_rig_holds(const struct link_rig *rig, uint32_t slot, uint64_t tile, uint32_t bytes)
{
	const uint8_t *at = rig->memory[HR_LINK_RECEIVER] + (size_t)slot * RIG_STRIDE;

	for (uint32_t i = 0; i < bytes; i++)
		if (at[i] != byte_of(tile, i))
			return false;
	return true;
}

void link_rig_close(struct link_rig *rig, enum hr_link_side side)
{
	hr_link_close(rig->link[side]);
	rig->link[side] = NULL;
}

void link_rig_fini(struct link_rig *rig)
{
	expect_nothing_left(rig);
	for (int side = 0; side < 2; side++)
		munmap(rig->memory[side], RIG_SLOTS * RIG_STRIDE);
	cr_expect_eq(rmdir(rig->folder), 0, "queue pairs are left in %s", rig->folder);
}
