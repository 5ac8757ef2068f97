/*
 * Calls of libc that wait, of processes outside of config/seam.h: clients of the command line and of
 * the client library. The linker calls these in their place (--wrap); each waits in simulated time.
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
#include <time.h>
#include <unistd.h>

#include "config/clock.h"
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

ssize_t __wrap_recv(int fd, void *to, size_t bytes, int flags)
{
	if (may_wait(fd, flags) && !is_ready(fd, POLLIN, SO_RCVTIMEO))
		return -1;
	return __real_recv(fd, to, bytes, flags);
}

/* A call that waits returns when all bytes are sent, or the limit has passed. */
ssize_t __wrap_send(int fd, const void *from, size_t bytes, int flags)
{
	size_t sent = 0;

	if (!may_wait(fd, flags))
		return __real_send(fd, from, bytes, flags);
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

	if (sim_is_on() && fstat(fd, &st) == 0 && (S_ISSOCK(st.st_mode) || S_ISFIFO(st.st_mode)) &&
	    may_wait(fd, 0) && !is_ready(fd, POLLIN, SO_RCVTIMEO))
		return -1;
	return __real_read(fd, to, bytes);
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
