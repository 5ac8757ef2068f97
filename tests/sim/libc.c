/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls of libc that wait, of processes outside of config/base/seam.h: clients of the command
 * line and of the client library. The linker calls these in their place (--wrap); each waits
 * in simulated time.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "config/base/clock.h"
#include "tests/sim/schedule.h"

#define FOREVER (1000 * 3600 * HR_NS_PER_S)

ssize_t __real_recv(int fd, void *to, size_t bytes, int flags);
ssize_t __wrap_recv(int fd, void *to, size_t bytes, int flags);
ssize_t __real_send(int fd, const void *from, size_t bytes, int flags);
ssize_t __wrap_send(int fd, const void *from, size_t bytes, int flags);
ssize_t __real_read(int fd, void *to, size_t bytes);
ssize_t __wrap_read(int fd, void *to, size_t bytes);
int __real_poll(struct pollfd *fds, nfds_t count, int ms);
int __wrap_poll(struct pollfd *fds, nfds_t count, int ms);
int __wrap_ppoll(struct pollfd *fds, nfds_t count, const struct timespec *limit,
		 const sigset_t *mask);

/* Calls after which a descriptor of another process may be ready. */
#define SIGN(type, name, parameters, ...)          \
	type __real_##name parameters;             \
	type __wrap_##name parameters;             \
	type __wrap_##name parameters              \
	{                                          \
		sim_stir();                        \
		return __real_##name(__VA_ARGS__); \
	}
SIGN(ssize_t, write, (int fd, const void *from, size_t bytes), fd, from, bytes)
SIGN(int, close, (int fd), fd)
SIGN(int, shutdown, (int fd, int how), fd, how)
SIGN(int, connect, (int fd, const struct sockaddr *to, socklen_t bytes), fd, to, bytes)
SIGN(int, accept4, (int fd, struct sockaddr *from, socklen_t *bytes, int flags), fd, from, bytes,
     flags)
SIGN(ssize_t, sendto,
     (int fd, const void *from, size_t bytes, int flags, const struct sockaddr *to, socklen_t size),
     fd, from, bytes, flags, to, size)
SIGN(ssize_t, sendmsg, (int fd, const struct msghdr *message, int flags), fd, message, flags)
SIGN(ssize_t, recvmsg, (int fd, struct msghdr *message, int flags), fd, message, flags)
SIGN(int, timerfd_settime, (int fd, int flags, const struct itimerspec *to, struct itimerspec *old),
     fd, flags, to, old)

int __real_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now);

int __wrap_clock_gettime(clockid_t clock, struct timespec *now)
{
	if (!sim_is_on() || clock != CLOCK_MONOTONIC)
		return __real_clock_gettime(clock, now);
	sim_world->now_ns += 20;
	now->tv_sec = (time_t)(sim_world->now_ns / HR_NS_PER_S);
	now->tv_nsec = (long)(sim_world->now_ns % HR_NS_PER_S);
	return 0;
}

static bool may_wait(int fd, int flags)
{
	return sim_is_on() && !(flags & MSG_DONTWAIT) && !(fcntl(fd, F_GETFL) & O_NONBLOCK);
}

/* Limit of a socket, SO_RCVTIMEO or SO_SNDTIMEO. */
static uint64_t limit_of(int fd, int option)
{
	struct timeval limit = { 0 };
	socklen_t bytes = sizeof limit;
	uint64_t ns = 0;

	if (getsockopt(fd, SOL_SOCKET, option, &limit, &bytes) == 0)
		ns = (uint64_t)limit.tv_sec * HR_NS_PER_S + (uint64_t)limit.tv_usec * 1000;
	return ns ? ns : FOREVER;
}

/* True: one of the descriptors is ready. */
static bool wait_for(struct pollfd *fds, nfds_t count, uint64_t ns)
{
	const uint64_t end_ns = sim_world->now_ns + ns;

	while (__real_poll(fds, count, 0) == 0) {
		struct sim_thread *self = &sim_world->thread[sim_self()];

		if (sim_world->now_ns >= end_ns)
			return false;
		self->wake_ns = end_ns;
		self->seen = sim_world->activity;
		sim_wait(SIM_AT_FD);
	}
	return true;
}

static bool is_ready(int fd, short events, int option)
{
	struct pollfd one = { .fd = fd, .events = events };

	if (wait_for(&one, 1, limit_of(fd, option)))
		return true;
	errno = EAGAIN;
	return false;
}

/* A stream may transfer fewer bytes than asked for. */
static size_t cut_short(int fd, size_t bytes)
{
	int type = 0;
	socklen_t size = sizeof type;

	if (!sim_is_on() || bytes < 2 || !sim_world->fragments ||
	    fake_random_below(&sim_world->order, 256) >= sim_world->fragments ||
	    getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) != 0 || type != SOCK_STREAM)
		return bytes;
	return 1 + fake_random_below(&sim_world->order, (uint32_t)bytes - 1);
}

ssize_t __wrap_recv(int fd, void *to, size_t bytes, int flags)
{
	sim_stir();
	if (may_wait(fd, flags) && !is_ready(fd, POLLIN, SO_RCVTIMEO))
		return -1;
	return __real_recv(fd, to, flags & MSG_WAITALL ? bytes : cut_short(fd, bytes), flags);
}

/* A call that waits returns when all bytes are sent, or the limit has passed. */
ssize_t __wrap_send(int fd, const void *from, size_t bytes, int flags)
{
	size_t sent = 0;

	sim_stir();
	if (!may_wait(fd, flags))
		return __real_send(fd, from, cut_short(fd, bytes), flags);
	while (is_ready(fd, POLLOUT, SO_SNDTIMEO)) {
		const ssize_t n = __real_send(fd, (const char *)from + sent, bytes - sent,
					      flags | MSG_DONTWAIT);

		if (n < 0 && errno != EAGAIN)
			return sent ? (ssize_t)sent : -1;
		sent += n > 0 ? (size_t)n : 0;
		if (sent == bytes)
			break;
		hr_yield();
	}
	return sent ? (ssize_t)sent : -1;
}

/* Files never wait. */
ssize_t __wrap_read(int fd, void *to, size_t bytes)
{
	struct stat st;

	sim_stir();
	if (sim_is_on() && fstat(fd, &st) == 0 && (S_ISSOCK(st.st_mode) || S_ISFIFO(st.st_mode)) &&
	    may_wait(fd, 0) && !is_ready(fd, POLLIN, SO_RCVTIMEO))
		return -1;
	return __real_read(fd, to, cut_short(fd, bytes));
}

int __wrap_poll(struct pollfd *fds, nfds_t count, int ms)
{
	if (!sim_is_on())
		return __real_poll(fds, count, ms);
	if (ms != 0)
		wait_for(fds, count, ms < 0 ? FOREVER : (uint64_t)(unsigned)ms * HR_NS_PER_MS);
	return __real_poll(fds, count, 0);
}

int __wrap_ppoll(struct pollfd *fds, nfds_t count, const struct timespec *limit,
		 const sigset_t *mask)
{
	wait_for(fds, count,
		 limit ? (uint64_t)limit->tv_sec * HR_NS_PER_S + (uint64_t)limit->tv_nsec
		       : FOREVER);
	return __real_poll(fds, count, 0);
}
