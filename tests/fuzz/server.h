/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/fuzz/server.h - the other side of the socket of a tap or feed, for fuzz targets of the client
 * library: a socket in a folder of its own, changed bytes, memory objects. One in a process.
 */
#ifndef TESTS_FUZZ_SERVER_H
#define TESTS_FUZZ_SERVER_H

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "config/base/scm.h"
#include "gpu/tap/protocol.h"
#include "tests/fuzz/input.h"

static struct {
	struct sockaddr_un at;
	char directory[64];
	int fd;
	struct input in;
} server;

/* Each change: two bytes of the place, one of the value. */
static inline void change(struct input *in, void *to, size_t bytes)
{
	for (unsigned count = take(in) % 32; count; count--) {
		const size_t at = take(in) | (size_t)take(in) << 8;

		((uint8_t *)to)[at % bytes] = take(in);
	}
}

static inline void remove_socket(void)
{
	unlink(server.at.sun_path);
	rmdir(server.directory);
}

/* The socket NAME of the server. */
static inline void set_up(const char *name)
{
	snprintf(server.directory, sizeof server.directory, "/tmp/headrace-fuzz-XXXXXX");
	must(mkdtemp(server.directory) != NULL);
	server.at.sun_family = AF_UNIX;
	snprintf(server.at.sun_path, sizeof server.at.sun_path, "%s/%s", server.directory, name);
	server.fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	must(server.fd >= 0);
	must(bind(server.fd, (const struct sockaddr *)&server.at, sizeof server.at) == 0);
	must(listen(server.fd, 4) == 0);
	atexit(remove_socket);
}

/* A descriptor of a memory object, which the caller closes. */
static inline int memory(size_t bytes, const void *content, size_t filled)
{
	const int fd = memfd_create("fuzz", MFD_CLOEXEC);

	must(fd >= 0 && ftruncate(fd, (off_t)bytes) == 0);
	must(pwrite(fd, content, filled, 0) == (ssize_t)filled);
	return fd;
}

#define SLOTS 4u
#define RING 4u
#define PAGE 4096u

/* What is different between taps and feeds. */
struct side {
	uint16_t hello, welcome, version;
};

/* WELCOME and a ring with changed bytes; the head of the ring begins as that of a tap. */
static inline void send_welcome(const struct side *side, int fd, struct input *in)
{
	struct hr_tap_message m = { .magic = HR_TAP_MAGIC, .kind = side->welcome, .credits = 2 };
	struct {
		struct hr_tap_head head;
		struct hr_tap_entry entry[RING];
	} ring = { .head = { .magic = HR_TAP_MAGIC, .state = HR_TAP_RUNS } };
	const uint8_t how = take(in);
	int fds[HR_TAP_FDS];

	m.version_least = m.version = side->version;
	m.slots = SLOTS;
	m.ring = RING;
	m.tiles = SLOTS;
	m.stride = m.tile_bytes = PAGE;
	for (uint32_t i = 0; i < RING; i++)
		ring.entry[i] = (struct hr_tap_entry){
			.tile = i, .slot = i, .gen = 1, .bytes = PAGE, .sequence = i + 1
		};
	change(in, &m, sizeof m);
	change(in, &ring, sizeof ring);
	for (uint32_t i = 0; i < RING; i++)
		ring.entry[i].check = hr_tap_entry_check(&ring.entry[i], i + 1);
	fds[0] = memory(how & 4 ? PAGE : SLOTS * PAGE, "tile", 4);
	fds[1] = memory(how & 8 ? 64 : PAGE, &ring, how & 8 ? 64 : sizeof ring);
	fds[2] = memory(how & 16 ? 0 : PAGE, "", 0);
	hr_scm_send(fd, &m, how & 32 ? sizeof m / 2 : sizeof m, fds, HR_TAP_FDS - how % 4);
	for (unsigned i = 0; i < HR_TAP_FDS; i++)
		close(fds[i]);
}

/* A thread: the first connection, until after READY. context: the struct side. */
static inline void *serve(void *context)
{
	const struct side *side = context;
	struct input *in = &server.in;
	const int fd = accept4(server.fd, NULL, NULL, SOCK_CLOEXEC);
	struct hr_tap_message m = { 0 };

	must(fd >= 0 && recv(fd, &m, sizeof m, 0) == sizeof m);
	must(m.magic == HR_TAP_MAGIC && m.kind == side->hello);
	send_welcome(side, fd, in);
	if (recv(fd, &m, sizeof m, 0) == sizeof m) {
		must(m.kind == HR_TAP_READY);
		m.kind = HR_TAP_END;
		change(in, &m, sizeof m);
		hr_scm_send(fd, &m, in->left % 3 ? sizeof m : 1 + in->left % 200, NULL, 0);
	}
	close(fd);
	return NULL;
}

/* Connections that the client has made after the first one. */
static inline void hang_up_rest(void)
{
	struct pollfd wanted = { .fd = server.fd, .events = POLLIN };

	while (poll(&wanted, 1, 0) > 0)
		close(accept4(server.fd, NULL, NULL, SOCK_CLOEXEC));
}

/* Open descriptors. */
static inline unsigned descriptors(void)
{
	unsigned count = 0;

	for (int fd = 0; fd < 64; fd++)
		count += fcntl(fd, F_GETFD) >= 0;
	return count;
}

#endif
