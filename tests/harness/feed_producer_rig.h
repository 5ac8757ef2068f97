/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/harness/feed_producer_rig.h - the producer of one feed without an engine: its memory, a run
 * that goes on, and the other end of its connection. The clock stands still, and the test plays the
 * worker.
 * Static, because each test program has one.
 */
#ifndef TESTS_HARNESS_FEED_PRODUCER_RIG_H
#define TESTS_HARNESS_FEED_PRODUCER_RIG_H

#include "boot/appliance/lend/producer.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "boot/appliance/protocol/tap_message.h"
#include "config/base/scm.h"
#include "tests/fakes/clock.h"
#include "tests/fakes/log.h"
#include "tests/harness/error.h"
#include "tests/harness/mapped.h"

#define SLOTS 4u
#define BEGIN_NS (1000 * HR_NS_PER_S)
#define PAGE 4096u
#define SETS 3u /* on a GPU */
#define RESERVED ((2 * SLOTS + 2 * SETS) * PAGE)
#define ORDER(count, what) ((count)*HR_FEED_ORDERS + (what))
#define WHO "feed 'f': producer 'one' (process 71 of user 5)"

static struct hr_engine *engine;
static struct hr_config_pipeline *pipeline;
static struct hr_run *run;
static struct hr_feed_words *words;
static struct hr_slot slots[SLOTS];
static struct hr_feed_memory memory;
static struct hr_feed_producer p;
static uint8_t *reserved;	  /* tiles, entries, pages */
static struct hr_feed_head *head; /* of the first set */
static struct hr_feed_commits *page;
static int peer = -1; /* the producer's end of the connection */

static inline void set_part(int part, enum hr_place place, void *cpu)
{
	engine->partition[0].part[part].place = place;
	engine->partition[0].region[place].cpu = cpu;
}

static inline void begin(void)
{
	engine = calloc(1, sizeof *engine);
	words = aligned_alloc(64, sizeof *words);
	cr_assert(engine && words);
	memset(words, 0, sizeof *words);
	reserved = mmap(NULL, RESERVED, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	cr_assert_neq(reserved, MAP_FAILED);
	head = (void *)(reserved + 2 * SLOTS * PAGE);
	page = (void *)(reserved + (2 * SLOTS + SETS) * PAGE);
	pipeline = &engine->config.pipeline[0];
	strcpy(pipeline->name, "work");
	strcpy(pipeline->feed.name, "f");
	strcpy(pipeline->feed.dtype, "bf16");
	pipeline->feed.columns = 12;
	run = &engine->run[0];
	run->config = pipeline;
	run->slots = SLOTS;
	run->tiles = 20;
	run->durable_tiles = 3;
	run->started_ns = BEGIN_NS;
	run->source[0].tile_bytes = PAGE + 512;
	run->feed.role.ring = SLOTS;
	run->cpu.slot = slots;
	slots[0].in[0].data = reserved;
	run->layout.parts.partition = &engine->partition[0];
	run->layout.feed_entries = 1;
	run->layout.feed_pages = 2;
	run->layout.feed_words = 3;
	set_part(1, HR_PLACE_TAP_WORDS, head);
	set_part(2, HR_PLACE_HOST, page);
	set_part(3, HR_PLACE_CONTROL, words);
	p = (struct hr_feed_producer){ .run = run, .memory = &memory, .epoch = 0x1122334455667788 };
	hr_lend_peer_begin(&p.peer, &hr_lend_feed, "f");
	fake_clock_start(BEGIN_NS, NULL, NULL);
}

static inline void end(void)
{
	hr_feed_owner_forget(&p.owner);
	if (p.peer.fd >= 0)
		close(p.peer.fd);
	if (p.peer.pidfd >= 0)
		close(p.peer.pidfd);
	if (peer >= 0)
		close(peer);
	hr_sets_give(&memory.sets);
	munmap(reserved, RESERVED);
	free(words);
	free(engine);
}

/* As at a bring-up for a GPU. */
static struct hr_gpu_facts facts = { .uuid = "0123456789abcde" };

static inline void fix_memory(void)
{
	const struct hr_sets_range range = { .entries_name = "entries",
					     .page_name = "page",
					     .entries = (uint8_t *)head,
					     .pages = (uint8_t *)page,
					     .entries_bytes = PAGE,
					     .page_bytes = PAGE,
					     .count = SETS };

	cr_assert_eq(mprotect(reserved, 2 * SLOTS * PAGE, PROT_READ | PROT_WRITE), 0);
	memset(reserved, 0xee, 2 * SLOTS * PAGE);
	hr_sets_give(&memory.sets);
	memory = (struct hr_feed_memory){ .up = true, .bytes = 1 << 21 };
	cr_assert_eq(hr_sets_fill(&memory.sets, &range, test_error()), 0);
	p.facts = &facts;
}

/* Number of descriptors that are open. */
static inline unsigned open_fds(void)
{
	unsigned count = 0;

	for (int fd = 0; fd < 256; fd++)
		count += fcntl(fd, F_GETFD) != -1;
	return count;
}

static inline int greet(const char *name, uint32_t credits, int pidfd)
{
	const struct hr_credentials sender = { .user = 5, .process = 71 };
	struct hr_tap_client client = { .credentials = sender, .hello = { .credits = credits } };
	int pair[2], err;

	cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair),
		     0);
	memcpy(client.hello.name, name, strnlen(name, sizeof client.hello.name));
	client.fd = pair[0];
	if (peer >= 0)
		close(peer);
	peer = pair[1];
	err = hr_feed_producer_greet(&p, &client, pidfd, test_error());
	if (err)
		close(pair[0]);
	return err;
}

static inline ssize_t come(struct hr_tap_message *m, int *fds, unsigned *count)
{
	memset(m, 0, sizeof *m);
	return hr_scm_receive(peer, m, sizeof *m, fds, fds ? HR_TAP_FDS : 0, count);
}

/* Kinds of the messages to the producer, and "." at the end of the connection. */
static inline const char *kinds(void)
{
	static char text[64];
	struct hr_tap_message m;
	int fds[HR_TAP_FDS];
	unsigned count;
	ssize_t n;

	text[0] = '\0';
	while ((n = come(&m, fds, &count)) > 0) {
		cr_expect_eq(m.magic, HR_TAP_MAGIC);
		cr_expect_eq(m.version, HR_FEED_VERSION);
		for (unsigned i = 0; i < count; i++)
			close(fds[i]);
		snprintf(text + strlen(text), sizeof text - strlen(text), "%d ", m.kind);
	}
	if (n == 0)
		strcat(text, ".");
	return text;
}

static inline void tell(unsigned kind)
{
	struct hr_tap_message m;

	hr_tap_message_begin(&m, kind, HR_FEED_VERSION);
	cr_assert_eq(hr_scm_send(peer, &m, sizeof m, NULL, 0), 0);
}

static inline void step(bool events)
{
	hr_feed_producer_step(&p, events, hr_now_ns());
}

static inline void attach(int pidfd)
{
	cr_assert_eq(greet("one", 0, pidfd), 0, "%s", test_error_text());
	tell(HR_TAP_READY);
	step(true);
	cr_assert_eq(p.peer.state, HR_LEND_ATTACHED);
	words->obeyed = words->order;
	kinds();
}

#endif
