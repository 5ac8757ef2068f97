/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/harness/tap_server.h - the other side of the socket of a tap or feed: a thread accepts the
 * connections of a client in a folder of its own, and answers each HELLO with the messages that the
 * test has listed. A test includes it once.
 */
#ifndef TESTS_HARNESS_TAP_SERVER_H
#define TESTS_HARNESS_TAP_SERVER_H

#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "gpu/tap/protocol.h"

#define SLOTS 4u
#define RING 8u
#define STRIDE 8192u
#define SERVER_CONNECTIONS 4u
#define SERVER_SAYS 4u

static struct {
	char folder[64], path[96];
	const char *ending; /* "tap", "feed" */
	uint16_t version;
	int listener;
	pthread_t thread;
	/* by connection */
	struct hr_tap_message hello[SERVER_CONNECTIONS], says[SERVER_CONNECTIONS][SERVER_SAYS];
	unsigned count[SERVER_CONNECTIONS];
	bool hangs_up[SERVER_CONNECTIONS];
	int fd[SERVER_CONNECTIONS];
	/* the memory that WELCOME brings: tiles, entries, page */
	int memory[HR_TAP_FDS];
	unsigned memories; /* 3, or fewer */
	size_t bytes[HR_TAP_FDS];
	uint8_t *at[HR_TAP_FDS];
	unsigned descriptors; /* of this process before the client */
} server;

static inline unsigned server_descriptors(void)
{
	DIR *all = opendir("/proc/self/fd");
	unsigned count = 0;

	while (readdir(all))
		count++;
	closedir(all);
	return count;
}

/* Mappings of the memory in this process; the server has one of each. */
static inline unsigned server_mappings(void)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	char line[512];
	unsigned count = 0;

	while (fgets(line, sizeof line, maps))
		count += strstr(line, "memfd:tap-server") != NULL;
	fclose(maps);
	return count;
}

static inline struct hr_tap_message server_message(uint16_t kind, uint16_t code, const char *text)
{
	struct hr_tap_message m = { .magic = HR_TAP_MAGIC,
				    .kind = kind,
				    .version_least = server.version,
				    .version = server.version,
				    .code = code };

	strcpy(m.text, text);
	return m;
}

static inline void server_send(int fd, const struct hr_tap_message *m)
{
	const bool welcome = m->kind == HR_TAP_WELCOME || m->kind == HR_FEED_WELCOME;
	union {
		char bytes[CMSG_SPACE(sizeof server.memory)];
		struct cmsghdr align;
	} control = { .bytes = "" };
	struct iovec vec = { (void *)(uintptr_t)m, sizeof *m };
	struct msghdr message = { .msg_iov = &vec, .msg_iovlen = 1 };

	if (welcome && server.memories) {
		struct cmsghdr *c;

		message.msg_control = control.bytes;
		message.msg_controllen = CMSG_SPACE(server.memories * sizeof(int));
		c = CMSG_FIRSTHDR(&message);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(server.memories * sizeof(int));
		memcpy(CMSG_DATA(c), server.memory, server.memories * sizeof(int));
	}
	if (sendmsg(fd, &message, MSG_NOSIGNAL) < 0)
		abort();
}

static inline void *server_serve(void *unused)
{
	for (unsigned n = 0; n < SERVER_CONNECTIONS; n++) {
		const int fd = accept4(server.listener, NULL, NULL, SOCK_CLOEXEC);
		const struct timeval limit = { 60, 0 };

		if (fd < 0)
			return NULL;
		setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
		if (recv(fd, &server.hello[n], sizeof server.hello[n], 0) != sizeof server.hello[n])
			abort();
		for (unsigned i = 0; i < server.count[n]; i++)
			server_send(fd, &server.says[n][i]);
		if (server.hangs_up[n])
			close(fd);
		__atomic_store_n(&server.fd[n], server.hangs_up[n] ? -1 : fd, __ATOMIC_RELEASE);
	}
	return NULL;
}

/* The next message of connection n is this kind. */
static inline void server_hears(unsigned n, uint16_t kind)
{
	struct hr_tap_message m = { .kind = 0 };

	while (__atomic_load_n(&server.fd[n], __ATOMIC_ACQUIRE) < 0)
		usleep(100);
	cr_assert_eq(recv(server.fd[n], &m, sizeof m, 0), (ssize_t)sizeof m);
	cr_expect_eq(m.kind, kind);
	cr_expect(m.magic == HR_TAP_MAGIC && m.version == server.version);
}

/* Memory of these sizes, all zero but the magic number of its entries. */
static inline void server_memory(size_t tiles, size_t ring, size_t page)
{
	const size_t bytes[HR_TAP_FDS] = { tiles, ring, page };

	for (unsigned i = 0; i < HR_TAP_FDS; i++) {
		if (server.memory[i] >= 0) {
			munmap(server.at[i], server.bytes[i]);
			close(server.memory[i]);
		}
		server.bytes[i] = bytes[i];
		server.memory[i] = memfd_create("tap-server", MFD_CLOEXEC);
		cr_assert_eq(ftruncate(server.memory[i], (off_t)bytes[i]), 0);
		server.at[i] = mmap(NULL, bytes[i], PROT_READ | PROT_WRITE, MAP_SHARED,
				    server.memory[i], 0);
		cr_assert_neq(server.at[i], MAP_FAILED);
	}
	server.memories = HR_TAP_FDS;
	((struct hr_tap_head *)(void *)server.at[1])->magic = HR_TAP_MAGIC;
	((struct hr_tap_head *)(void *)server.at[1])->version = server.version;
}

/* A WELCOME that fits the memory. */
static inline struct hr_tap_message server_welcome(uint64_t epoch)
{
	const bool feed = strcmp(server.ending, "feed") == 0;
	struct hr_tap_message m = server_message(feed ? HR_FEED_WELCOME : HR_TAP_WELCOME, 0, "");

	m.credits = 3;
	m.slots = SLOTS;
	m.ring = RING;
	m.epoch = epoch;
	m.tiles = 1000;
	m.first = feed ? 10 : 0;
	m.stride = STRIDE;
	m.tile_bytes = 8000;
	m.columns = 12;
	m.each = !feed;
	strcpy(m.dtype, "bf16");
	strcpy(m.name, "train");
	return m;
}

/* The answer to HELLO of connection n begins with, or goes on with this message. */
static inline void server_says(unsigned n, struct hr_tap_message m)
{
	server.says[n][server.count[n]++] = m;
}

/* An appliance without a script. */
static inline void server_begin(const char *ending, uint16_t version)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };

	memset(&server, 0, sizeof server);
	server.ending = ending;
	server.version = version;
	for (unsigned i = 0; i < HR_TAP_FDS; i++)
		server.memory[i] = -1;
	for (unsigned i = 0; i < SERVER_CONNECTIONS; i++)
		server.fd[i] = -1;
	strcpy(server.folder, "/tmp/headrace-tap-XXXXXX");
	cr_assert_not_null(mkdtemp(server.folder));
	snprintf(server.path, sizeof server.path, "%s/t.%s", server.folder, ending);
	strcpy(at.sun_path, server.path);
	server.listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	cr_assert_eq(bind(server.listener, (const struct sockaddr *)&at, sizeof at), 0);
	server_memory((size_t)SLOTS * STRIDE, hr_tap_ring_bytes(RING), hr_feed_page_bytes(SLOTS));
}

/* From now on it answers. */
static inline void server_start(void)
{
	cr_assert_eq(listen(server.listener, 8), 0);
	server.descriptors = server_descriptors();
	cr_assert_eq(pthread_create(&server.thread, NULL, server_serve, NULL), 0);
}

/* A WELCOME with another value at one place, and memory with less bytes than it states. */
struct server_row {
	size_t at;
	uint32_t value;
	size_t less[HR_TAP_FDS];
	unsigned memories; /* descriptors that come along */
	int result;	   /* of the client's attempt */
};

#define AT(field) offsetof(struct hr_tap_message, field)

/* Those of taps and of feeds. */
static const struct server_row server_rows[] = {
	{ AT(slots), 0, { 0 }, 3, -EPROTO },
	{ AT(slots), SLOTS + 1, { 0 }, 3, -ENOMEM },
	{ AT(slots), (1u << 20) + 1, { 0 }, 3, -EPROTO },
	{ AT(ring), 2, { 0 }, 3, -EPROTO }, /* < credits */
	{ AT(ring), 4, { 0 }, 3, 0 },
	{ AT(ring), 6, { 0 }, 3, -EPROTO },
	{ AT(ring), 1u << 21, { 0 }, 3, -EPROTO },
	{ AT(credits), 0, { 0 }, 3, -EPROTO },
	{ AT(credits), RING, { 0 }, 3, 0 },
	{ AT(credits), RING + 1, { 0 }, 3, -EPROTO },
	{ AT(stride), 0, { 0 }, 3, -EPROTO },
	{ AT(stride), STRIDE + 4096, { 0 }, 3, -ENOMEM },
	{ AT(tile_bytes), STRIDE, { 0 }, 3, 0 },
	{ AT(tile_bytes), STRIDE + 1, { 0 }, 3, -EPROTO },
	{ AT(memory), HR_TAP_MEMORY_CUDA + 1, { 0 }, 3, -EPROTO },
	{ AT(columns), 12, { 1 }, 3, -ENOMEM },
	{ AT(columns), 12, { 0, 1 }, 3, -ENOMEM },
	{ AT(columns), 12, { 0, 0, 1 }, 3, -ENOMEM },
	{ AT(columns), 12, { 0 }, 2, -ENOMEM },
	{ AT(columns), 12, { 0 }, 0, -ENOMEM },
};

/* The answer to the next HELLO; page: bytes of a page of the client. */
static inline void server_answers(const struct server_row *row, size_t page)
{
	struct hr_tap_message m = server_welcome(77);

	memcpy((uint8_t *)&m + row->at, &row->value, row->at == AT(memory) ? 1 : 4);
	server_memory((size_t)SLOTS * STRIDE - row->less[0], hr_tap_ring_bytes(RING) - row->less[1],
		      page - row->less[2]);
	server.memories = row->memories;
	server_says(0, m);
	server_start();
}

/* The client is closed: nothing of it is left. */
static inline void server_end(void)
{
	unsigned open = 0;

	if (server.thread) {
		shutdown(server.listener, SHUT_RDWR);
		pthread_join(server.thread, NULL);
	}
	for (unsigned i = 0; i < SERVER_CONNECTIONS; i++)
		open += server.fd[i] >= 0;
	if (server.thread)
		cr_expect_eq(server_descriptors(), server.descriptors + open);
	for (unsigned i = 0; i < SERVER_CONNECTIONS; i++)
		if (server.fd[i] >= 0)
			close(server.fd[i]);
	cr_expect_eq(server_mappings(), HR_TAP_FDS);
	for (unsigned i = 0; i < HR_TAP_FDS; i++) {
		munmap(server.at[i], server.bytes[i]);
		close(server.memory[i]);
	}
	close(server.listener);
	unlink(server.path);
	rmdir(server.folder);
}

static inline struct hr_tap_entry *server_entry(unsigned n)
{
	return (struct hr_tap_entry *)(void *)(server.at[1] + sizeof(struct hr_tap_head)) +
	       n % RING;
}

#endif
