#include "boot/appliance/process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "boot/appliance/attempt.h"
#include "boot/engine/exit.h"
#include "boot/engine/signals.h"
#include "config/clock.h"
#include "config/tick.h"

int hr_process_open(struct hr_process *p)
{
	*p = (struct hr_process){ .line = -1 };
	p->page = mmap(NULL, sizeof *p->page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		       -1, 0);
	if (p->page != MAP_FAILED)
		return 0;
	p->page = NULL;
	return -ENOMEM;
}

void hr_process_close(struct hr_process *p)
{
	hr_process_hang_up(p);
	if (p->page)
		munmap(p->page, sizeof *p->page);
	p->page = NULL;
}

/* ---- the engine */

static void publish(void *to, uint64_t now_ns)
{
	hr_attempt_publish(to);
}

/* exit(), not _exit(): the GPU's driver and leak checkers have handlers. */
static void __attribute__((noreturn))
be_engine(struct hr_process *p, struct hr_appliance *app, int line, pid_t supervisor)
{
	static struct hr_attempt attempt; /* one a process */

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != supervisor) /* it died before that */
		_exit(HR_EXIT_FAILED);
	setpgid(0, 0);
	prctl(PR_SET_NAME, "headrace-engine");
	hr_signals_hold();
	attempt.app = app;
	attempt.page = p->page;
	attempt.line = line;
	hr_tick_set(publish, &attempt);
	exit(hr_exit_code(hr_attempt_make(&attempt)));
}

/* ---- the supervisor */

int hr_process_start(struct hr_process *p, struct hr_appliance *app, const int *fds, unsigned count)
{
	const pid_t self = getpid();
	int line[2], err;
	pid_t pid;

	if (pipe2(line, O_CLOEXEC | O_NONBLOCK) != 0)
		return -errno;
	memset(p->page, 0, sizeof *p->page);
	fflush(stdout); /* else both would write it */
	pid = fork();
	if (pid == 0) {
		for (unsigned i = 0; i < count; i++)
			if (fds[i] >= 0)
				close(fds[i]);
		close(line[0]);
		be_engine(p, app, line[1], self);
	}
	err = pid < 0 ? -errno : 0;
	close(line[1]);
	if (err) {
		close(line[0]);
		return err;
	}
	p->pid = pid;
	p->line = line[0];
	return 0;
}

bool hr_process_ended(struct hr_process *p, int *status)
{
	pid_t ended;

	do
		ended = waitpid(p->pid, status, WNOHANG);
	while (ended < 0 && errno == EINTR);
	if (ended != p->pid)
		return false;
	p->pid = 0;
	return true;
}

int hr_process_hear(struct hr_process *p, enum hr_phase *phase)
{
	unsigned char byte;
	ssize_t n;

	if (p->line < 0)
		return -EPIPE;
	n = read(p->line, &byte, 1);
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
		kill(p->pid, signal_number);
}

void hr_process_hang_up(struct hr_process *p)
{
	if (p->line >= 0)
		close(p->line);
	p->line = -1;
}
