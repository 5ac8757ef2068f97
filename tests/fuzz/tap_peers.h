/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/fuzz/tap_peers.h - clients with arbitrary behaviour of the socket of a tap or a feed, and the
 * folder for their sockets
 */
#ifndef TESTS_FUZZ_TAP_PEERS_H
#define TESTS_FUZZ_TAP_PEERS_H

#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "config/base/scm.h"
#include "gpu/tap/protocol.h"
#include "tests/fuzz/input.h"

#define PEERS 8u

static char directory[64];
static int peer[PEERS]; /* -1: not connected */

static void remove_directory(void)
{
	rmdir(directory);
}

/* Control sockets are in a new folder, which is removed at the end of the process. */
static inline void make_directory(void)
{
	snprintf(directory, sizeof directory, "/tmp/headrace-fuzz-XXXXXX");
	must(mkdtemp(directory) && setenv("RUNTIME_DIRECTORY", directory, 1) == 0);
	atexit(remove_directory);
}

/* Addresses without memory. */
static inline void *reserve(uint64_t bytes)
{
	void *at = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	must(at != MAP_FAILED);
	return at;
}

static inline void begin_peers(void)
{
	for (uint32_t i = 0; i < PEERS; i++)
		peer[i] = -1;
}

static inline void connect_peer(int *fd, const struct sockaddr_un *at)
{
	if (*fd >= 0)
		return;
	*fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	must(*fd >= 0);
	if (connect(*fd, (const struct sockaddr *)at, sizeof *at) == 0)
		return;
	close(*fd);
	*fd = -1;
}

static inline void hang_up(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

/* A message: kind, versions, credits, name; all other bytes are 0. */
static inline void send_message(struct input *in, int fd, const int *fds, unsigned count)
{
	struct hr_tap_message m = { .magic = HR_TAP_MAGIC };

	m.kind = take(in);
	m.version_least = take(in);
	m.version = take(in);
	m.credits = take(in);
	take_bytes(in, m.name, take(in) % (sizeof m.name + 1));
	hr_scm_send(fd, &m, sizeof m, fds, count);
}

static inline void greet(int fd, uint16_t kind, uint16_t version)
{
	const struct hr_tap_message hello = { .magic = HR_TAP_MAGIC,
					      .kind = kind,
					      .version = version };

	hr_scm_send(fd, &hello, sizeof hello, NULL, 0);
}

static inline void send_bytes(struct input *in, int fd)
{
	uint8_t bytes[2 * sizeof(struct hr_tap_message)] = { 0 };
	const size_t count = take(in) * 2u;

	take_bytes(in, bytes, count);
	hr_scm_send(fd, bytes, count, NULL, 0);
}

/* True when an answer came; it is a message of the protocol, with descriptors when it is WELCOME. */
static inline bool read_message(int fd, struct hr_tap_message *m, uint16_t version,
				uint16_t welcome)
{
	int fds[HR_TAP_FDS];
	unsigned count = 0;
	ssize_t n;

	memset(m, 0, sizeof *m);
	n = hr_scm_receive(fd, m, sizeof *m, fds, HR_TAP_FDS, &count);
	if (n <= 0)
		return false;
	must(n == sizeof *m && m->magic == HR_TAP_MAGIC && m->version == version);
	must(memchr(m->text, '\0', sizeof m->text) && memchr(m->name, '\0', sizeof m->name));
	must(count == (m->kind == welcome ? HR_TAP_FDS : 0));
	must(m->kind != HR_TAP_REFUSED || (m->code && *m->text));
	for (unsigned i = 0; i < count; i++)
		close(fds[i]);
	return true;
}

/* Open descriptors, as far as a run of these steps can open them. */
static inline unsigned descriptors(void)
{
	unsigned count = 0;

	for (int fd = 0; fd < 256; fd++)
		count += fcntl(fd, F_GETFD) >= 0;
	return count;
}

#endif
