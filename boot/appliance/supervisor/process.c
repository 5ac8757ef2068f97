/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/appliance/supervisor/process.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "boot/appliance/attempt/attempt.h"
#include "boot/engine/crash.h"
#include "config/base/error.h"
#include "config/base/scm.h"
#include "config/base/process.h"
#include "config/base/log.h"
#include "config/base/seam.h"
#include "config/base/tick.h"
#include "config/derived.h"

/* Without the privilege (CAP_SYS_NICE, RLIMIT_RTPRIO or RLIMIT_NICE) the priority stays as it is. */
static void raise_nice(int nice)
{
	if (setpriority(PRIO_PROCESS, 0, nice + HR_CONTROL_NICE) != 0)
		hr_debug("supervisor or control path has the priority of workers: %s",
			 strerror(errno));
}

static void raise_priority(int nice)
{
	const struct sched_param lowest = { .sched_priority = sched_get_priority_min(SCHED_RR) };

	if (sched_setscheduler(0, SCHED_RR | SCHED_RESET_ON_FORK, &lowest) != 0)
		raise_nice(nice);
}

int hr_process_open(struct hr_process *p)
{
	*p = (struct hr_process){ .phases = -1, .dispatch = -1, .clients = -1 };
	p->nice = getpriority(PRIO_PROCESS, 0);
	p->page = mmap(NULL, sizeof *p->page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		       -1, 0);
	if (p->page == MAP_FAILED) {
		p->page = NULL;
		return -ENOMEM;
	}
	raise_priority(p->nice);
	return 0;
}

void hr_process_close(struct hr_process *p)
{
	hr_process_hang_up(p);
	if (!p->page)
		return;
	munmap(p->page, sizeof *p->page);
	p->page = NULL;
	sched_setscheduler(0, SCHED_OTHER, &(struct sched_param){ 0 });
	setpriority(PRIO_PROCESS, 0, p->nice);
}

/* ---- the engine */

static void publish_attempt(void *to, uint64_t now_ns)
{
	hr_attempt_publish(to);
}

/* Descriptors of one side; -1: none. */
struct ends {
	int phases, dispatch, clients;
};

/* Ends with exit(), not _exit(), because the GPU driver and leak checkers have exit handlers. */
static _Noreturn void be_engine(struct hr_process *p, struct hr_engine *engine,
				const struct ends *own, pid_t supervisor)
{
	static struct hr_attempt attempt; /* one per process */

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != supervisor) /* the supervisor died before prctl() */
		_exit(HR_EXIT_FAILED);
	setpgid(0, 0);
	raise_nice(p->nice);
	hr_threads_nice(p->nice);
	prctl(PR_SET_NAME, "headrace-engine");
	hr_signals_hold();
	attempt.engine = engine;
	attempt.page = p->page;
	attempt.phases = own->phases;
	attempt.dispatch = own->dispatch;
	attempt.clients = own->clients;
	attempt.sockets = p->sockets;
	hr_tick_set(publish_attempt, &attempt);
	hr_crash_catch(&p->page->crash, engine);
	exit(hr_error_report(&engine->error, hr_attempt_make(&attempt)));
}

/* ---- the supervisor */

static int open_pair(int *mine, int *other)
{
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) != 0)
		return -errno;
	*mine = pair[0];
	*other = pair[1];
	return 0;
}

static int open_phases(struct ends *mine, struct ends *other)
{
	int pipe[2];

	if (pipe2(pipe, O_CLOEXEC | O_NONBLOCK) != 0)
		return -errno;
	mine->phases = pipe[0];
	other->phases = pipe[1];
	return 0;
}

static void close_one(int fd)
{
	if (fd >= 0)
		close(fd);
}

static void close_ends(const struct ends *ends)
{
	close_one(ends->phases);
	close_one(ends->dispatch);
	close_one(ends->clients);
}

int hr_process_start(struct hr_process *p, struct hr_engine *engine, const int *fds, unsigned count)
{
	struct ends mine = { -1, -1, -1 }, its = mine;
	const pid_t self = getpid();
	pid_t pid = 0;
	int err = open_phases(&mine, &its);

	if (!err && hr_config_repeats(&engine->config))
		err = open_pair(&mine.dispatch, &its.dispatch);
	if (!err)
		err = open_pair(&mine.clients, &its.clients);
	if (!err) {
		memset(p->page, 0, offsetof(struct hr_record_page, history));
		fflush(stdout); /* else both processes would write the buffered text */
		pid = hr_fork();
		err = pid < 0 ? pid : 0;
	}
	if (!err && pid == 0) {
		for (unsigned i = 0; i < count; i++)
			close_one(fds[i]);
		close_ends(&mine);
		be_engine(p, engine, &its, self);
	}
	close_ends(&its);
	if (err) {
		close_ends(&mine);
		return err;
	}
	p->pid = pid;
	p->phases = mine.phases;
	p->dispatch = mine.dispatch;
	p->clients = mine.clients;
	return 0;
}

bool hr_process_ended(struct hr_process *p, int *status)
{
	if (hr_wait_child(p->pid, status, WNOHANG) != p->pid)
		return false;
	p->pid = 0;
	return true;
}

int hr_process_receive(struct hr_process *p, enum hr_phase *phase)
{
	unsigned char byte;
	ssize_t n;

	if (p->phases < 0)
		return -EPIPE;
	n = read(p->phases, &byte, 1);
	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? -EAGAIN : -EPIPE;
	if (n == 0)
		return -EPIPE;
	*phase = (enum hr_phase)byte;
	return byte < HR_PHASES_OF_ENGINE ? 0 : -EPROTO;
}

void hr_process_signal(const struct hr_process *p, int signal_number)
{
	if (p->pid > 0)
		hr_kill(p->pid, signal_number);
}

void hr_process_hang_up(struct hr_process *p)
{
	close_ends(&(struct ends){ p->phases, p->dispatch, p->clients });
	p->phases = p->dispatch = p->clients = -1;
}

int hr_process_dispatch(const struct hr_process *p, const void *dispatch, size_t bytes)
{
	if (p->dispatch < 0)
		return -EPIPE;
	if (send(p->dispatch, dispatch, bytes, MSG_NOSIGNAL) == (ssize_t)bytes)
		return 0;
	return errno == EAGAIN || errno == EINTR || errno == ENOBUFS ? -EAGAIN : -EPIPE;
}

int hr_process_pass(const struct hr_process *p, const struct hr_request *request, int fd)
{
	if (p->clients < 0 || p->pid == 0)
		return -ENOTCONN;
	return hr_scm_send(p->clients, request, sizeof *request, &fd, 1);
}
