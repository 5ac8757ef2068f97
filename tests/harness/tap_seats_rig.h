/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/harness/tap_seats_rig.h - the consumers of one tap without an engine: the memory of the
 * seats, a run that goes on, and both ends of each connection. The clock stands still. Static,
 * because each test program has one.
 */
#ifndef TESTS_HARNESS_TAP_SEATS_RIG_H
#define TESTS_HARNESS_TAP_SEATS_RIG_H

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "boot/appliance/lend/consumer.h"
#include "boot/appliance/protocol/tap_message.h"
#include "config/base/scm.h"
#include "boot/engine/shared_memory.h"
#include "tests/fakes/clock.h"
#include "tests/fakes/log.h"
#include "tests/harness/error.h"
#include "tests/harness/mapped.h"

#define SLOTS 8u
#define BEGIN_NS (1000 * HR_NS_PER_S)
#define SEAT_BYTES 4096u /* of the entries, and of the page */
#define FDS 256

static struct hr_engine *engine;
static struct hr_config_pipeline *pipeline;
static struct hr_run *run;
static struct hr_tap_table *table;
static struct hr_tap_words *words;
static uint8_t *reserved;      /* entries of all seats, then their pages */
static int peer[HR_TAP_SEATS]; /* the consumer's end of each connection; -1: none */
static bool was_open[FDS];

static inline bool is_open(int fd)
{
	return fcntl(fd, F_GETFD) != -1;
}

/* Descriptors that are open now, and were not at the begin. */
static inline unsigned new_fds(void)
{
	unsigned count = 0;

	for (int fd = 0; fd < FDS; fd++)
		count += !was_open[fd] && is_open(fd);
	return count;
}

static inline void set_part(int part, enum hr_place place, uint64_t offset)
{
	struct hr_partition *p = &engine->partition[0];

	p->part[part].place = place;
	p->part[part].offset = offset;
}

/* Pipeline 1 of two has the tap. */
static inline void begin(void)
{
	for (int fd = 0; fd < FDS; fd++)
		was_open[fd] = is_open(fd);
	engine = calloc(1, sizeof *engine);
	table = calloc(1, sizeof *table);
	words = aligned_alloc(64, sizeof *words);
	cr_assert(engine && table && words);
	memset(words, 0, sizeof *words);
	reserved = mmap(NULL, 2 * HR_TAP_SEATS * SEAT_BYTES, PROT_NONE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	cr_assert_neq(reserved, MAP_FAILED);
	pipeline = &engine->config.pipeline[1];
	strcpy(pipeline->name, "work");
	strcpy(pipeline->tap.name, "t");
	pipeline->tap.deliver = HR_TAP_ONE;
	run = &engine->run[1];
	run->config = pipeline;
	run->slots = SLOTS;
	run->started_ns = BEGIN_NS;
	run->tap.role.ring = SLOTS;
	run->layout.parts.partition = &engine->partition[0];
	run->layout.tap_words = 1;
	run->layout.tap_entries = 2;
	run->layout.tap_pages = 3;
	set_part(1, HR_PLACE_CONTROL, 0);
	set_part(2, HR_PLACE_TAP_WORDS, 0);
	set_part(3, HR_PLACE_TAP_WORDS, HR_TAP_SEATS * SEAT_BYTES);
	engine->partition[0].region[HR_PLACE_CONTROL].cpu = words;
	engine->partition[0].region[HR_PLACE_TAP_WORDS].cpu = reserved;
	engine->tap_tiles[1].fd = STDERR_FILENO;
	table->engine = engine;
	table->pipeline = 1;
	table->run = run;
	table->epoch = 0x1122334455667788;
	hr_tap_consumers_begin(table);
	memset(peer, 0xff, sizeof peer);
	fake_clock_start(BEGIN_NS, NULL, NULL);
}

static inline void end(void)
{
	for (uint32_t i = 0; i < HR_TAP_SEATS; i++) {
		const int fds[] = { peer[i], table->consumer[i].peer.fd,
				    table->consumer[i].peer.pidfd };

		for (unsigned k = 0; k < 3; k++)
			if (fds[k] >= 0)
				close(fds[k]);
	}
	hr_sets_give(&engine->tap_tiles[1].sets);
	munmap(reserved, 2 * HR_TAP_SEATS * SEAT_BYTES);
	free(words);
	free(table);
	free(engine);
}

static inline struct hr_tap_head *head_at(uint32_t seat)
{
	return (void *)(reserved + seat * SEAT_BYTES);
}

static inline struct hr_tap_returns *page_at(uint32_t seat)
{
	return (void *)(reserved + (HR_TAP_SEATS + seat) * SEAT_BYTES);
}

/* A descriptor in place of that of a process, which has ended when it can be read. */
static inline int a_process(bool ended)
{
	int fds[2];

	cr_assert_eq(pipe2(fds, O_CLOEXEC), 0);
	if (ended)
		close(fds[1]);
	else
		cr_assert_eq(dup2(fds[1], FDS + fds[0]), FDS + fds[0]);
	if (!ended)
		close(fds[1]);
	return fds[0];
}

static inline void end_process(int pidfd)
{
	close(FDS + pidfd);
}

/* hr_tap_consumer_greet() for a consumer of process 70 + seat and user 5, which asks for so many
 * credits. */
static inline int greet(uint32_t seat, const char *name, uint32_t credits, int pidfd)
{
	const struct hr_credentials sender = { .user = 5, .process = 70 + (pid_t)seat };
	struct hr_tap_client client = { .credentials = sender,
					.hello = { .kind = HR_TAP_HELLO, .credits = credits } };
	int pair[2], err;

	cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair),
		     0);
	memcpy(client.hello.name, name, strnlen(name, sizeof client.hello.name));
	client.fd = pair[0];
	err = hr_tap_consumer_greet(table, seat, &client, pidfd, test_error());
	if (err)
		close(pair[0]);
	if (peer[seat] >= 0)
		close(peer[seat]);
	peer[seat] = pair[1];
	return err;
}

/* The next message to the consumer. Returns its bytes; 0: the connection has ended; -EAGAIN. */
static inline ssize_t come(uint32_t seat, struct hr_tap_message *m, int fds[HR_TAP_FDS],
			   unsigned *count)
{
	memset(m, 0, sizeof *m);
	return hr_scm_receive(peer[seat], m, sizeof *m, fds, fds ? HR_TAP_FDS : 0, count);
}

/* Kinds of the messages to the consumer, and "." at the end of the connection. */
static inline const char *kinds(uint32_t seat)
{
	static char text[64];
	struct hr_tap_message m;
	int fds[HR_TAP_FDS];
	unsigned count;
	ssize_t n;

	text[0] = '\0';
	while ((n = come(seat, &m, fds, &count)) > 0) {
		for (unsigned i = 0; i < count; i++)
			close(fds[i]);
		snprintf(text + strlen(text), sizeof text - strlen(text), "%d ", m.kind);
	}
	if (n == 0)
		strcat(text, ".");
	return text;
}

static inline void tell(uint32_t seat, unsigned kind)
{
	struct hr_tap_message m;

	hr_tap_message_begin(&m, kind, HR_TAP_VERSION);
	cr_assert_eq(hr_scm_send(peer[seat], &m, sizeof m, NULL, 0), 0);
}

static inline void step(uint32_t seat, bool events)
{
	hr_tap_consumer_step(table, seat, events, hr_now_ns());
}

/* The worker carries out all orders. */
static inline void obey(uint32_t seat)
{
	words->seat[seat].obeyed = words->seat[seat].order;
}

/* A consumer that is attached, without messages in its socket. */
static inline void attach(uint32_t seat, const char *name, uint32_t credits, int pidfd)
{
	cr_assert_eq(greet(seat, name, credits, pidfd), 0, "%s", test_error_text());
	tell(seat, HR_TAP_READY);
	step(seat, true);
	cr_assert_eq(table->consumer[seat].peer.state, HR_LEND_ATTACHED);
	obey(seat);
	kinds(seat);
}

#endif
