/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/tap/client/connection.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define ROOT_DIRECTORY "/run/headrace"
#define NS_PER_S 1000000000ull

uint64_t hr_tap_now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec;
}

bool hr_tap_wait_ns(int fd, uint64_t ns)
{
	const struct timespec limit = { (time_t)(ns / NS_PER_S), (long)(ns % NS_PER_S) };
	struct pollfd wanted = { .fd = fd, .events = POLLIN };

	return ppoll(&wanted, 1, &limit, NULL) > 0;
}

/* ---- messages */

void hr_tap_begin(struct hr_tap_message *m, unsigned kind, uint16_t version)
{
	memset(m, 0, sizeof *m);
	m->magic = HR_TAP_MAGIC;
	m->kind = (uint16_t)kind;
	m->version_least = m->version = version;
}

int hr_tap_send(int fd, const struct hr_tap_message *m)
{
	const ssize_t n = send(fd, m, sizeof *m, MSG_NOSIGNAL | MSG_DONTWAIT);

	return n == sizeof *m ? 0 : n < 0 ? -errno : -EPROTO;
}

static void take_descriptors(struct msghdr *from, int fds[HR_TAP_FDS])
{
	unsigned count = 0;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(from); c; c = CMSG_NXTHDR(from, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t i = 0; i < (c->cmsg_len - CMSG_LEN(0)) / sizeof(int); i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
			if (count < HR_TAP_FDS)
				fds[count++] = fd;
			else
				close(fd);
		}
	}
}

int hr_tap_receive(int fd, struct hr_tap_message *m, int fds[HR_TAP_FDS])
{
	union {
		char bytes[CMSG_SPACE(HR_TAP_FDS * sizeof(int))];
		struct cmsghdr align;
	} control;
	struct iovec vec = { m, sizeof *m };
	struct msghdr message = { .msg_iov = &vec,
				  .msg_iovlen = 1,
				  .msg_control = control.bytes,
				  .msg_controllen = sizeof control.bytes };
	ssize_t n = recvmsg(fd, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);

	/* a tap that closes a connection before it has read all is reported first, once; the
	 * message that it has sent before comes after that */
	if (n < 0 && errno == ECONNRESET)
		n = recvmsg(fd, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
	for (unsigned i = 0; i < HR_TAP_FDS; i++)
		fds[i] = -1;
	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? -EAGAIN : -EPIPE;
	take_descriptors(&message, fds);
	if (n == 0)
		return -EPIPE;
	m->name[sizeof m->name - 1] = m->dtype[sizeof m->dtype - 1] = '\0';
	m->text[sizeof m->text - 1] = '\0';
	return n == sizeof *m && m->magic == HR_TAP_MAGIC ? 0 : -EPROTO;
}

void hr_tap_close_all(int fds[HR_TAP_FDS])
{
	for (unsigned i = 0; i < HR_TAP_FDS; i++)
		if (fds[i] >= 0)
			close(fds[i]);
}

/* ---- the socket */

/* No other user may put a socket there: the folder belongs to this user or root. That of root's
 * appliances is made by root only, and may belong to any user. */
static bool is_trusted(const char *directory)
{
	struct stat st;

	return lstat(directory, &st) == 0 && S_ISDIR(st.st_mode) &&
	       !(st.st_mode & (S_IWGRP | S_IWOTH)) &&
	       (st.st_uid == geteuid() || st.st_uid == 0 || strcmp(directory, ROOT_DIRECTORY) == 0);
}

static int connect_in(const char *directory, const char *name, const char *ending)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	const int n =
		snprintf(at.sun_path, sizeof at.sun_path, "%s/%s.%s", directory, name, ending);
	int fd, err;

	if (n < 0 || (size_t)n >= sizeof at.sun_path)
		return -ENAMETOOLONG;
	if (!is_trusted(directory))
		return -ENOENT;
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	if (connect(fd, (const struct sockaddr *)&at, sizeof at) == 0)
		return fd;
	err = -errno;
	close(fd);
	return err;
}

/* -ENOENT: the next candidate may have the socket. */
static int try(char directory[HR_TAP_DIRECTORY], const char *candidate, const char *name,
	       const char *ending)
{
	const int fd = connect_in(candidate, name, ending);

	if (fd >= 0)
		snprintf(directory, HR_TAP_DIRECTORY, "%s", candidate);
	return fd;
}

int hr_tap_connect(char directory[HR_TAP_DIRECTORY], const char *name, const char *ending)
{
	const char *given = getenv("RUNTIME_DIRECTORY"), *user = getenv("XDG_RUNTIME_DIR");
	char path[HR_TAP_DIRECTORY];
	int fd = -ENOENT;

	if (!*name || strchr(name, '/'))
		return -EINVAL;
	if (*directory)
		return connect_in(directory, name, ending);
	if (given && *given) {
		snprintf(path, sizeof path, "%.*s", (int)strcspn(given, ":"), given);
		fd = try(directory, path, name, ending);
	}
	if (fd == -ENOENT && user && *user &&
	    (size_t)snprintf(path, sizeof path, "%s/headrace", user) < sizeof path)
		fd = try(directory, path, name, ending);
	return fd == -ENOENT ? try(directory, ROOT_DIRECTORY, name, ending) : fd;
}
