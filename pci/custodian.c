#include "pci/custodian.h"

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

struct deed {
	uint32_t live; /* atomic */
	uint32_t when; /* enum hr_custody_when */
	uint64_t order, offset;
	size_t size;
	char path[HR_CUSTODY_PATH_MAX];
	uint8_t bytes[HR_CUSTODY_BYTES_MAX];
};

/* Shared with the child. */
struct will {
	struct deed deed[HR_CUSTODY_MAX];
	int32_t kept[HR_CUSTODY_KEPT_MAX]; /* descriptor + 1; 0: free entry. Atomic */
};

static struct {
	struct will *will; /* NULL: there is no child */
	pid_t child;
	int parent; /* process descriptor of this process */
	unsigned live;
	uint64_t orders;
} state;

/* ---- the child: a copy of a process that may have had threads, so system calls only */

static void carry_out_one(const struct deed *d)
{
	const int fd = open(d->path, O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return;
	/* Attributes of sysfs take no offset; configuration space does. */
	if (d->offset ? pwrite(fd, d->bytes, d->size, (off_t)d->offset) < 0
		      : write(fd, d->bytes, d->size) < 0)
		(void)0; /* nobody is left to be told */
	close(fd);
}

static void carry_out(const struct deed *deed, enum hr_custody_when when)
{
	uint64_t done = 0;

	for (;;) {
		const struct deed *next = NULL;

		for (unsigned i = 0; i < HR_CUSTODY_MAX; i++) {
			const struct deed *d = &deed[i];

			if (__atomic_load_n(&d->live, __ATOMIC_ACQUIRE) && d->when == when &&
			    d->order > done && (!next || d->order < next->order))
				next = d;
		}
		if (!next)
			return;
		carry_out_one(next);
		done = next->order;
	}
}

static void wait_for_end(int parent)
{
	struct pollfd p = { .fd = parent, .events = POLLIN };

	while (poll(&p, 1, -1) < 0 && errno == EINTR)
		;
}

static bool is_kept(const struct will *will, int fd)
{
	for (unsigned i = 0; i < HR_CUSTODY_KEPT_MAX; i++)
		if (__atomic_load_n(&will->kept[i], __ATOMIC_ACQUIRE) == fd + 1)
			return true;
	return false;
}

/* The highest descriptor that is kept, or -1. */
static int last_kept(const struct will *will)
{
	int last = 0;

	for (unsigned i = 0; i < HR_CUSTODY_KEPT_MAX; i++)
		if (will->kept[i] > last)
			last = will->kept[i];
	return last - 1;
}

static void close_files(const struct will *will)
{
	int fd, last = last_kept(will);

	for (fd = 0; fd <= last; fd++)
		if (!is_kept(will, fd))
			close(fd);
	if (syscall(SYS_close_range, fd, ~0u, 0) != 0) /* Linux 5.9 */
		for (; fd < FILES_MAX; fd++)
			close(fd);
}

static void __attribute__((noreturn)) child_main(const struct will *will, int parent)
{
	setsid();
	prctl(PR_SET_NAME, "headrace-guard");
	wait_for_end(parent);
	carry_out(will->deed, HR_CUSTODY_NOW);
	close_files(will);
	carry_out(will->deed, HR_CUSTODY_LATER);
	_exit(0);
}

/* ---- this process */

/* The child begins, and stays, with all signals blocked: Ctrl-C is for the whole process group. */
static long clone_child(void)
{
	sigset_t all, before;
	long pid;

	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, &before);
	pid = syscall(SYS_clone, CLONE_FILES | SIGCHLD, NULL, NULL, NULL, NULL);
	if (pid == 0)
		child_main(state.will, state.parent);
	sigprocmask(SIG_SETMASK, &before, NULL);
	return pid;
}

/* Start the child. 0: state.will is there. */
static int start(void)
{
	const size_t bytes = sizeof(struct will);
	long pid;

	state.will = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (state.will == MAP_FAILED) {
		state.will = NULL;
		return -ENOMEM;
	}
	state.parent = (int)syscall(SYS_pidfd_open, getpid(), 0);
	pid = state.parent < 0 ? -1 : clone_child();
	if (pid < 0) {
		const int err = -errno;

		if (state.parent >= 0)
			close(state.parent);
		munmap(state.will, bytes);
		state.will = NULL;
		return err;
	}
	state.child = (pid_t)pid;
	return 0;
}

static void stop(void)
{
	kill(state.child, SIGKILL);
	while (waitpid(state.child, NULL, 0) < 0 && errno == EINTR)
		;
	close(state.parent);
	munmap(state.will, sizeof(struct will));
	state.will = NULL;
}

static int free_entry(const struct will *will)
{
	for (unsigned i = 0; will && i < HR_CUSTODY_MAX; i++)
		if (!will->deed[i].live)
			return (int)i;
	return -ENOSPC;
}

int hr_custodian_add(enum hr_custody_when when, const char *path, uint64_t offset,
		     const void *bytes, size_t size)
{
	struct deed *d;
	int id, err = 0;

	if (strlen(path) >= HR_CUSTODY_PATH_MAX || size > HR_CUSTODY_BYTES_MAX)
		return -E2BIG;
	if (!state.will)
		err = start();
	if (err)
		return err;
	id = free_entry(state.will);
	if (id < 0)
		return id;
	d = &state.will->deed[id];
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

void hr_custodian_drop(int id)
{
	if (id < 0 || !state.will || !state.will->deed[id].live)
		return;
	__atomic_store_n(&state.will->deed[id].live, 0, __ATOMIC_RELEASE);
	if (--state.live == 0)
		stop();
}

int hr_custodian_keep(int fd)
{
	for (unsigned i = 0; state.will && i < HR_CUSTODY_KEPT_MAX; i++)
		if (state.will->kept[i] == 0) {
			__atomic_store_n(&state.will->kept[i], fd + 1, __ATOMIC_RELEASE);
			return 0;
		}
	return -ENOSPC;
}

void hr_custodian_unkeep(int fd)
{
	for (unsigned i = 0; state.will && i < HR_CUSTODY_KEPT_MAX; i++)
		if (state.will->kept[i] == fd + 1)
			__atomic_store_n(&state.will->kept[i], 0, __ATOMIC_RELEASE);
}
