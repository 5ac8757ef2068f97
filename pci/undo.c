/* SPDX-License-Identifier: Apache-2.0 */
#include "pci/undo.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define FILES_MAX 65536

struct undo_step {
	uint32_t live; /* atomic */
	uint32_t when; /* enum hr_undo_when */
	uint64_t order, offset;
	size_t size;
	char path[HR_UNDO_FILE_NAME_MAX];
	uint8_t bytes[HR_UNDO_BYTES_MAX];
};

/* Shared memory of this process and the child. */
struct undo_record {
	struct undo_step step[HR_UNDO_MAX];
	int32_t kept[HR_UNDO_KEPT_MAX]; /* descriptor + 1; 0: free entry. Atomic */
};

static struct {
	struct undo_record *record; /* NULL: there is no child */
	pid_t child;
	int parent; /* process descriptor of this process */
	unsigned live;
	uint64_t orders;
} state;

/* ---- the child: a copy of a process with threads, so it may only make system calls */

static void run_step(const struct undo_step *d)
{
	const int fd = open(d->path, O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return;
	/* Attributes of sysfs are written without an offset, configuration space with one. */
	if (d->offset ? pwrite(fd, d->bytes, d->size, (off_t)d->offset) < 0
		      : write(fd, d->bytes, d->size) < 0)
		(void)0; /* the parent is dead, so an error cannot be reported */
	close(fd);
}

static void run_steps(const struct undo_step *step, enum hr_undo_when when)
{
	uint64_t done = 0;

	for (;;) {
		const struct undo_step *next = NULL;

		for (unsigned i = 0; i < HR_UNDO_MAX; i++) {
			const struct undo_step *d = &step[i];

			if (__atomic_load_n(&d->live, __ATOMIC_ACQUIRE) && d->when == when &&
			    d->order > done && (!next || d->order < next->order))
				next = d;
		}
		if (!next)
			return;
		run_step(next);
		done = next->order;
	}
}

static void wait_for_end(int parent)
{
	struct pollfd p = { .fd = parent, .events = POLLIN };

	while (poll(&p, 1, -1) < 0 && errno == EINTR)
		;
}

static bool is_kept(const struct undo_record *record, int fd)
{
	for (unsigned i = 0; i < HR_UNDO_KEPT_MAX; i++)
		if (__atomic_load_n(&record->kept[i], __ATOMIC_ACQUIRE) == fd + 1)
			return true;
	return false;
}

/* The highest descriptor to keep open, or -1. */
static int last_kept(const struct undo_record *record)
{
	int last = 0;

	for (unsigned i = 0; i < HR_UNDO_KEPT_MAX; i++)
		if (record->kept[i] > last)
			last = record->kept[i];
	return last - 1;
}

static void close_files(const struct undo_record *record)
{
	int fd, last = last_kept(record);

	for (fd = 0; fd <= last; fd++)
		if (!is_kept(record, fd))
			close(fd);
	if (syscall(SYS_close_range, fd, ~0u, 0) != 0) /* Linux 5.9 */
		for (; fd < FILES_MAX; fd++)
			close(fd);
}

static void __attribute__((noreturn)) child_main(const struct undo_record *record, int parent)
{
	setsid();
	prctl(PR_SET_NAME, "headrace-undo");
	wait_for_end(parent);
	run_steps(record->step, HR_UNDO_BEFORE_CLOSE);
	close_files(record);
	run_steps(record->step, HR_UNDO_AFTER_CLOSE);
	_exit(0);
}

/* ---- this process */

/* The child blocks all signals from its start, because Ctrl-C reaches the whole process group. */
static long clone_child(void)
{
	sigset_t all, before;
	long pid;

	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, &before);
	pid = syscall(SYS_clone, CLONE_FILES | SIGCHLD, NULL, NULL, NULL, NULL);
	if (pid == 0)
		child_main(state.record, state.parent);
	sigprocmask(SIG_SETMASK, &before, NULL);
	return pid;
}

/* Start the child. 0: state.record is valid. */
static int start_undo_child(void)
{
	const size_t bytes = sizeof(struct undo_record);
	long pid;

	state.record = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (state.record == MAP_FAILED) {
		state.record = NULL;
		return -ENOMEM;
	}
	state.parent = (int)syscall(SYS_pidfd_open, getpid(), 0);
	pid = state.parent < 0 ? -1 : clone_child();
	if (pid < 0) {
		const int err = -errno;

		if (state.parent >= 0)
			close(state.parent);
		munmap(state.record, bytes);
		state.record = NULL;
		return err;
	}
	state.child = (pid_t)pid;
	return 0;
}

static void stop_undo_child(void)
{
	kill(state.child, SIGKILL);
	while (waitpid(state.child, NULL, 0) < 0 && errno == EINTR)
		;
	close(state.parent);
	munmap(state.record, sizeof(struct undo_record));
	state.record = NULL;
}

static int free_entry(const struct undo_record *record)
{
	for (unsigned i = 0; record && i < HR_UNDO_MAX; i++)
		if (!record->step[i].live)
			return (int)i;
	return -ENOSPC;
}

int hr_undo_add(enum hr_undo_when when, const char *path, uint64_t offset, const void *bytes,
		size_t size)
{
	struct undo_step *d;
	int id, err = 0;

	if (strlen(path) >= HR_UNDO_FILE_NAME_MAX || size > HR_UNDO_BYTES_MAX)
		return -E2BIG;
	if (!state.record)
		err = start_undo_child();
	if (err)
		return err;
	id = free_entry(state.record);
	if (id < 0)
		return id;
	d = &state.record->step[id];
	d->when = when;
	d->order = ++state.orders;
	d->offset = offset;
	d->size = size;
	memcpy(d->path, path, strlen(path) + 1);
	memcpy(d->bytes, bytes, size);
	__atomic_store_n(&d->live, 1, __ATOMIC_RELEASE);
	state.live++;
	return id;
}

void hr_undo_drop(int id)
{
	if (id < 0 || !state.record || !state.record->step[id].live)
		return;
	__atomic_store_n(&state.record->step[id].live, 0, __ATOMIC_RELEASE);
	if (--state.live == 0)
		stop_undo_child();
}

int hr_undo_keep_fd(int fd)
{
	for (unsigned i = 0; state.record && i < HR_UNDO_KEPT_MAX; i++)
		if (state.record->kept[i] == 0) {
			__atomic_store_n(&state.record->kept[i], fd + 1, __ATOMIC_RELEASE);
			return 0;
		}
	return -ENOSPC;
}

void hr_undo_release_fd(int fd)
{
	for (unsigned i = 0; state.record && i < HR_UNDO_KEPT_MAX; i++)
		if (state.record->kept[i] == fd + 1)
			__atomic_store_n(&state.record->kept[i], 0, __ATOMIC_RELEASE);
}
