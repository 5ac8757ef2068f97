/* SPDX-License-Identifier: Apache-2.0 */
/*
 * config/base/seam.h - calls that are not deterministic: threads and their waits, random
 * numbers, clocks of the wall and the CPU, host I/O, processes. config/base/clock.h, the
 * monotonic clock, sleep and yield, belongs to it.
 *
 * Engine, supervisor, host backend and software controller call the kernel for these through this
 * header only (tests/lint/seam.sh). The product links config/base/seam_linux.c and
 * config/base/clock.c, where each function is one call of libc. A simulation links
 * tests/sim/seam.c in place of both: one thread of all its processes runs at a time, a seeded
 * scheduler chooses which one, and the clock advances when all of them wait.
 *
 * Mutexes and conditions are those of pthreads. A call that never waits (init, destroy, unlock) is
 * called directly.
 *
 * Errors: 0 or a negative errno, unless a function says otherwise.
 */
#ifndef CONFIG_BASE_SEAM_H
#define CONFIG_BASE_SEAM_H

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "config/base/clock.h"

/* ---- threads */

struct hr_cpu_thread {
	pthread_t id;		       /* of seam_linux.c */
	void *(*main)(void *argument); /* of seam_linux.c */
	void *argument;		       /* of seam_linux.c */
	unsigned number;	       /* of the simulation */
};

/* Threads that are started from now on get this nice value (nice(2)) when the kernel permits it;
 * without this call, that of the thread that starts them. */
void hr_threads_nice(int nice);

/* Give the calling thread a stack of its own for handlers of signals, so that they run also after
 * an overflow of its stack. hr_thread_start() does so for the threads that it starts. */
void hr_signal_stack(void);

/* Start a thread that runs main(argument). It may run on `cpus` only; NULL: on all that the process
 * may use. *thread stays at its address until hr_thread_join(). */
int hr_thread_start(struct hr_cpu_thread *thread, const cpu_set_t *cpus,
		    void *(*main)(void *argument), void *argument);

/* Wait until the thread has ended. Exactly once for each thread that was started. */
void hr_thread_join(struct hr_cpu_thread *thread);

/* The CPUs that the calling thread may use. */
int hr_thread_cpus(cpu_set_t *cpus);

/* As pthread_mutex_lock(), pthread_rwlock_rdlock(), pthread_rwlock_wrlock(), pthread_cond_wait(),
 * pthread_cond_broadcast(). */
void hr_mutex_lock(pthread_mutex_t *mutex);
void hr_read_lock(pthread_rwlock_t *lock);
void hr_write_lock(pthread_rwlock_t *lock);
void hr_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex);
void hr_cond_broadcast(pthread_cond_t *cond);

/* ---- clocks, random numbers */

/* Nanoseconds since 1970; 0 when the clock was never set. An earlier time than HR_WALL_SET_NS, the
 * begin of 2025, counts as a clock that was not set after the machine lost its time. */
#define HR_WALL_SET_NS (1735689600 * HR_NS_PER_S)
uint64_t hr_wall_ns(void);

/* Time that the CPUs have spent on this process; 0: unknown. */
uint64_t hr_cpu_ns(void);

/* Fill data with random bytes of the kernel. */
int hr_random(void *data, size_t bytes);

/* ---- host I/O. The result as in Linux, with -errno in place of -1. */

/* flags: RWF_*, or 0. */
ssize_t hr_file_read(int fd, const struct iovec *vec, int count, uint64_t offset);
ssize_t hr_file_write(int fd, const struct iovec *vec, int count, uint64_t offset, int flags);
int hr_file_sync(int fd); /* data only: fdatasync() */

/* Write a line of the log to stderr, with one write(2), so that lines of several threads never mix. A
 * failed write is ignored. */
void hr_write_message(const char *line, size_t bytes);

/* ---- waits for descriptors */

/* Sleep until fd can be read or has hung up, at most ns; a signal can end the sleep early. True: it
 * can be read. Without hr_tick(). */
bool hr_wait_readable(int fd, uint64_t ns);

/* ---- processes */

/*
 * As fork(): 0 in the child, its identifier or -errno in the parent; -EAGAIN also when eight
 * children have not been collected. The identifier is that of the child until hr_wait_child() has
 * collected it.
 */
pid_t hr_fork(void);

/* True for a child of hr_fork() that hr_wait_child() has not collected. */
bool hr_is_child(pid_t pid);

/* As waitpid(), waiting again after a signal. */
pid_t hr_wait_child(pid_t pid, int *status, int flags);

/* Send a signal to a child of hr_fork(), by its pidfd. -ESRCH: it has been collected, or is no
 * such child. */
int hr_kill(pid_t pid, int signal_number);

#endif
