/* SPDX-License-Identifier: Apache-2.0 */
/*
 * config/base/seam.h and config/base/clock.h of a world (tests/sim/schedule.h): threads are
 * coroutines, each wait gives up the turn, and all that is not deterministic follows from the seed.
 */
#include "config/base/seam.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "config/base/tick.h"
#include "tests/sim/schedule.h"

#define LOOK_NS 20u /* time of a reading of the clock */
#define LOOKS 16u   /* one of so many readings of the clock gives up the turn */
#define ROT_LEAST 4096u
#define ROT_FROM (2u << 20) /* data of a store for 4,096 objects begin there */

static struct sim_thread *self(void)
{
	return &sim_world->thread[sim_self()];
}

/* ---- threads */

/* The scheduler chooses threads at random; it has no priorities. */
void hr_threads_nice(int nice)
{
}

void hr_signal_stack(void)
{
}

int hr_thread_start(struct hr_cpu_thread *thread, const cpu_set_t *cpus,
		    void *(*main)(void *argument), void *argument)
{
	const unsigned number = sim_thread_start(main, argument);

	thread->number = number;
	return number == SIM_NONE ? -EAGAIN : 0;
}

void hr_thread_join(struct hr_cpu_thread *thread)
{
	self()->joined = (uint16_t)thread->number;
	sim_wait(SIM_JOINING);
	sim_thread_free(thread->number);
}

int hr_thread_cpus(cpu_set_t *cpus)
{
	CPU_ZERO(cpus);
	for (size_t cpu = 0; cpu < 4; cpu++)
		CPU_SET(cpu, cpus);
	return 0;
}

void hr_yield(void)
{
	sim_wait(SIM_READY);
}

/* While another thread holds the lock, try again after each turn; turns move the clock. */
void hr_mutex_lock(pthread_mutex_t *mutex)
{
	do
		hr_yield();
	while (pthread_mutex_trylock(mutex) != 0);
}

void hr_read_lock(pthread_rwlock_t *lock)
{
	do
		hr_yield();
	while (pthread_rwlock_tryrdlock(lock) != 0);
}

void hr_write_lock(pthread_rwlock_t *lock)
{
	do
		hr_yield();
	while (pthread_rwlock_trywrlock(lock) != 0);
}

void hr_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex)
{
	self()->seen = sim_world->process[sim_process_self()].broadcasts;
	pthread_mutex_unlock(mutex);
	sim_wait(SIM_AT_COND);
	hr_mutex_lock(mutex);
}

void hr_cond_broadcast(pthread_cond_t *cond)
{
	if (sim_is_on())
		sim_world->process[sim_process_self()].broadcasts++;
}

/* ---- clocks, random numbers */

uint64_t hr_now_ns(void)
{
	if (!sim_is_on())
		return SIM_START_NS;
	sim_world->now_ns += LOOK_NS;
	if (fake_random_below(&sim_world->order, LOOKS) == 0)
		hr_yield();
	return sim_world->now_ns;
}

static void sleep_ns(uint64_t ns)
{
	self()->wake_ns = sim_world->now_ns + ns;
	sim_wait(SIM_ASLEEP);
}

void hr_wait_ns(uint64_t ns)
{
	while (hr_tick_is_set() && ns > HR_TICK_NS) {
		sleep_ns(HR_TICK_NS);
		ns -= HR_TICK_NS;
		hr_tick();
	}
	sleep_ns(ns);
	hr_tick();
}

void hr_wait_precisely(void)
{
}

static bool is_readable(int fd)
{
	struct pollfd look = { .fd = fd, .events = POLLIN };

	return poll(&look, 1, 0) > 0;
}

bool hr_wait_readable(int fd, uint64_t ns)
{
	const uint64_t end_ns = sim_world->now_ns + ns;

	while (!is_readable(fd)) {
		if (sim_world->now_ns >= end_ns)
			return false;
		self()->wake_ns = end_ns;
		self()->seen = sim_world->activity;
		sim_wait(SIM_AT_FD);
	}
	return true;
}

#define WALL_NS (1800000000 * HR_NS_PER_S)

uint64_t hr_wall_ns(void)
{
	return (uint64_t)((int64_t)(WALL_NS + sim_world->now_ns - SIM_START_NS) +
			  sim_world->wall_jump_ns);
}

uint64_t hr_cpu_ns(void)
{
	return 0;
}

int hr_random(void *data, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		((uint8_t *)data)[i] = (uint8_t)(fake_random_u64(&sim_world->numbers) >> 32);
	return 0;
}

/* ---- host I/O: of the machine, and a turn before it */

/* One of `of`; 0: never. */
static bool happens(uint32_t of)
{
	return sim_is_on() && of && fake_random_below(&sim_world->order, of) == 0;
}

/* Only of reads of several pages, so never of a map, a superblock or the starts of pipelines: when
 * these differ, the version before them is in force. */
static void rot(const struct iovec *vec, int count, size_t bytes, uint64_t offset)
{
	size_t at;

	if (bytes <= ROT_LEAST || offset < ROT_FROM || !happens(sim_world->rot))
		return;
	at = fake_random_below(&sim_world->order, (uint32_t)bytes);
	for (int i = 0; i < count; at -= vec[i++].iov_len)
		if (at < vec[i].iov_len) {
			((uint8_t *)vec[i].iov_base)[at] ^= 16;
			return;
		}
}

ssize_t hr_file_read(int fd, const struct iovec *vec, int count, uint64_t offset)
{
	ssize_t n;

	hr_yield();
	n = preadv(fd, vec, count, (off_t)offset);
	if (n > 0)
		rot(vec, count, (size_t)n, offset);
	return n < 0 ? -errno : n;
}

ssize_t hr_file_write(int fd, const struct iovec *vec, int count, uint64_t offset, int flags)
{
	ssize_t n;

	hr_yield();
	if (happens(sim_world->bad_writes))
		return -ENOSPC;
	n = pwritev(fd, vec, count, (off_t)offset);
	return n < 0 ? -errno : n;
}

int hr_file_sync(int fd)
{
	hr_yield();
	return happens(sim_world->bad_writes) ? -EIO : 0;
}

/* Without a turn, so that a message does not change what happens. */
void hr_write_message(const char *line, size_t bytes)
{
	if (write(STDERR_FILENO, line, bytes) < 0)
		return;
}

/* ---- processes */

pid_t hr_fork(void)
{
	const int process = sim_fork();

	return process <= 0 ? process : SIM_PID + process;
}

static pid_t real(pid_t pid)
{
	const unsigned process = (unsigned)(pid - SIM_PID);

	return pid > SIM_PID && process < sim_world->processes ? sim_world->process[process].pid
							       : pid;
}

/* A child that has been collected has no virtual identifier any more. */
bool hr_is_child(pid_t pid)
{
	const unsigned process = sim_process_of(real(pid));

	return process != SIM_NONE && sim_world->process[process].parent == sim_process_self() &&
	       !sim_world->process[process].collected;
}

pid_t hr_wait_child(pid_t pid, int *status, int flags)
{
	for (;;) {
		const uint64_t deaths = sim_world->deaths;
		const pid_t ended = waitpid(real(pid), status, flags | WNOHANG);
		const unsigned process = ended > 0 ? sim_process_of(ended) : SIM_NONE;

		if (process != SIM_NONE) {
			sim_world->process[process].collected = true;
			return SIM_PID + (pid_t)process;
		}
		if (ended < 0 && errno != EINTR)
			return -errno;
		if (ended > 0 || flags & WNOHANG)
			return ended > 0 ? ended : 0;
		self()->seen = deaths;
		sim_wait(SIM_AT_CHILD);
	}
}

int hr_kill(pid_t pid, int signal_number)
{
	return hr_is_child(pid) ? sim_kill((unsigned)(pid - SIM_PID), signal_number) : -ESRCH;
}
