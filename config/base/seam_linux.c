/* SPDX-License-Identifier: Apache-2.0 */
#include "config/base/seam.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* ---- threads */

static bool has_nice;
static int threads_nice;

void hr_threads_nice(int nice)
{
	has_nice = true;
	threads_nice = nice;
}

/* The kernel starts a handler with up to 11 KiB of registers on the stack. */
#define SIGNAL_STACK_BYTES (64u << 10)

void hr_signal_stack(void)
{
	static _Thread_local uint8_t memory[SIGNAL_STACK_BYTES];
	const stack_t own = { .ss_sp = memory, .ss_size = sizeof memory };
	stack_t old;

	/* a sanitizer has set its own, and frees it at the end of the thread */
	if (sigaltstack(NULL, &old) == 0 && old.ss_flags & SS_DISABLE)
		sigaltstack(&own, NULL);
}

/* On Linux, process 0 is the calling thread. */
static void *begin_thread(void *argument)
{
	struct hr_cpu_thread *thread = argument;

	if (has_nice)
		setpriority(PRIO_PROCESS, 0, threads_nice);
	hr_signal_stack();
	return thread->main(thread->argument);
}

int hr_thread_start(struct hr_cpu_thread *thread, const cpu_set_t *cpus,
		    void *(*main)(void *argument), void *argument)
{
	pthread_attr_t attributes;
	int err;

	thread->main = main;
	thread->argument = argument;
	pthread_attr_init(&attributes);
	if (cpus)
		pthread_attr_setaffinity_np(&attributes, sizeof *cpus, cpus);
	err = pthread_create(&thread->id, &attributes, begin_thread, thread);
	pthread_attr_destroy(&attributes);
	return -err;
}

void hr_thread_join(struct hr_cpu_thread *thread)
{
	pthread_join(thread->id, NULL);
}

int hr_thread_cpus(cpu_set_t *cpus)
{
	return sched_getaffinity(0, sizeof *cpus, cpus) == 0 ? 0 : -errno;
}

void hr_mutex_lock(pthread_mutex_t *mutex)
{
	pthread_mutex_lock(mutex);
}

void hr_read_lock(pthread_rwlock_t *lock)
{
	pthread_rwlock_rdlock(lock);
}

void hr_write_lock(pthread_rwlock_t *lock)
{
	pthread_rwlock_wrlock(lock);
}

void hr_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex)
{
	pthread_cond_wait(cond, mutex);
}

void hr_cond_broadcast(pthread_cond_t *cond)
{
	pthread_cond_broadcast(cond);
}

/* ---- clocks, random numbers */

uint64_t hr_wall_ns(void)
{
	struct timespec now;

	if (clock_gettime(CLOCK_REALTIME, &now) != 0 || now.tv_sec < 0)
		return 0;
	return (uint64_t)now.tv_sec * HR_NS_PER_S + (uint64_t)now.tv_nsec;
}

uint64_t hr_cpu_ns(void)
{
	struct timespec used;

	if (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used) != 0)
		return 0;
	return (uint64_t)used.tv_sec * HR_NS_PER_S + (uint64_t)used.tv_nsec;
}

int hr_random(void *data, size_t bytes)
{
	const ssize_t n = getrandom(data, bytes, 0);

	if (n < 0)
		return -errno;
	return (size_t)n == bytes ? 0 : -EIO;
}

/* ---- host I/O */

ssize_t hr_file_read(int fd, const struct iovec *vec, int count, uint64_t offset)
{
	const ssize_t n = preadv(fd, vec, count, (off_t)offset);

	return n < 0 ? -errno : n;
}

ssize_t hr_file_write(int fd, const struct iovec *vec, int count, uint64_t offset, int flags)
{
	const ssize_t n = flags ? pwritev2(fd, vec, count, (off_t)offset, flags)
				: pwritev(fd, vec, count, (off_t)offset);

	return n < 0 ? -errno : n;
}

int hr_file_sync(int fd)
{
	return fdatasync(fd) == 0 ? 0 : -errno;
}

void hr_write_message(const char *line, size_t bytes)
{
	if (write(STDERR_FILENO, line, bytes) < 0)
		return;
}

/* ---- waits for descriptors */

bool hr_wait_readable(int fd, uint64_t ns)
{
	const struct timespec limit = { .tv_sec = (time_t)(ns / HR_NS_PER_S),
					.tv_nsec = (long)(ns % HR_NS_PER_S) };
	struct pollfd wanted = { .fd = fd, .events = POLLIN };

	return ppoll(&wanted, 1, &limit, NULL) > 0;
}

/* ---- processes */

#define CHILDREN_MAX 8u

/* Started by hr_fork(), and not collected. pid 0: free. fd: pidfd; -1: the kernel gave none. */
static struct {
	pid_t pid;
	int fd;
} children[CHILDREN_MAX];

static uint32_t find_child(pid_t pid)
{
	uint32_t i = 0;

	while (i < CHILDREN_MAX && children[i].pid != pid)
		i++;
	return i;
}

static void forget_child(pid_t pid)
{
	const uint32_t i = pid > 0 ? find_child(pid) : CHILDREN_MAX;

	if (i == CHILDREN_MAX)
		return;
	if (children[i].fd >= 0)
		close(children[i].fd);
	children[i].pid = 0;
}

/* The parent's children are not those of the new process. */
static void forget_children(void)
{
	for (uint32_t i = 0; i < CHILDREN_MAX; i++)
		forget_child(children[i].pid);
}

pid_t hr_fork(void)
{
	const uint32_t i = find_child(0);
	pid_t pid;

	if (i == CHILDREN_MAX)
		return -EAGAIN;
	pid = fork();
	if (pid < 0)
		return -errno;
	if (pid == 0) {
		forget_children();
		return 0;
	}
	/* only hr_wait_child() collects it, so the identifier is still that of this child */
	children[i].fd = (int)syscall(SYS_pidfd_open, pid, 0);
	children[i].pid = pid;
	return pid;
}

bool hr_is_child(pid_t pid)
{
	return pid > 0 && find_child(pid) < CHILDREN_MAX;
}

pid_t hr_wait_child(pid_t pid, int *status, int flags)
{
	pid_t ended;

	do
		ended = waitpid(pid, status, flags);
	while (ended < 0 && errno == EINTR);
	if (ended < 0) {
		const int err = -errno;

		if (err == -ECHILD)
			forget_child(pid);
		return err;
	}
	forget_child(ended);
	return ended;
}

int hr_kill(pid_t pid, int signal_number)
{
	const uint32_t i = pid > 0 ? find_child(pid) : CHILDREN_MAX;
	long err;

	if (i == CHILDREN_MAX)
		return -ESRCH;
	if (children[i].fd >= 0)
		err = syscall(SYS_pidfd_send_signal, children[i].fd, signal_number, NULL, 0);
	else
		err = kill(pid, signal_number);
	return err == 0 ? 0 : -errno;
}
