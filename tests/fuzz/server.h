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
