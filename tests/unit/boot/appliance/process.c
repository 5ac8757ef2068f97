/*
 * The engine as a process: its attributes, its descriptors, its end with the supervisor, and what
 * the supervisor sends to it and gets from it. A function of each test replaces the attempt.
 */
#include "boot/appliance/process.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "boot/appliance/attempt.h"
#include "boot/engine/exit.h"
#include "boot/engine/pass.h"
#include "boot/engine/signals.h"
#include "config/clock.h"

static struct hr_appliance *app;
static struct hr_process process;
static int (*in_engine)(struct hr_attempt *attempt);

int hr_attempt_make(struct hr_attempt *attempt)
{
	return in_engine(attempt);
}

void hr_attempt_publish(struct hr_attempt *attempt)
{
}

static bool pipe_fails;

/* In place of libc's: the system may be without free files although the process is not. */
int pipe2(int fd[2], int flags)
{
	if (!pipe_fails)
		return (int)syscall(SYS_pipe2, fd, flags);
	errno = ENFILE;
	return -1;
}

static void begin(void)
{
	app = calloc(1, sizeof *app);
	cr_assert_not_null(app);
	app->config.pipelines = 2;
	cr_assert_eq(hr_process_open(&process), 0);
}

static void end(void)
{
	hr_process_close(&process);
	free(app);
}

TestSuite(process, .init = begin, .fini = end, .timeout = 60);

static void start(int (*work)(struct hr_attempt *attempt))
{
	in_engine = work;
	cr_assert_eq(hr_process_start(&process, app, NULL, 0), 0);
	cr_assert_gt(process.pid, 0);
}

/* The exit code of the engine; -1: a signal ended it. */
static int wait_end(void)
{
	int status;

	while (!hr_process_ended(&process, &status))
		hr_wait_ns(HR_NS_PER_MS);
	cr_expect_eq(process.pid, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* ---- attributes */

static bool is_zero(const void *data, size_t bytes)
{
	const uint8_t *at = data;

	return at[0] == 0 && memcmp(at, at + 1, bytes - 1) == 0;
}

static int look_at_itself(struct hr_attempt *a)
{
	char name[16] = "";
	int at_death = 0;

	prctl(PR_GET_NAME, name);
	prctl(PR_GET_PDEATHSIG, &at_death);
	if (strcmp(name, "headrace-engine") != 0)
		_exit(90);
	if (at_death != SIGKILL)
		_exit(91);
	if (getpgid(0) != getpid())
		_exit(92);
	if (a->app != app || a->page != process.page)
		_exit(93);
	if (!is_zero(a->page, offsetof(struct hr_record_page, history)) ||
	    a->page->history.run[0].start != 0x5a5a5a5a5a5a5a5a)
		_exit(94); /* the history is that of all engines */
	raise(SIGTERM);	   /* as often as it likes: the engine ends in order */
	raise(SIGTERM);
	raise(SIGINT);
	if (!hr_signals_pending())
		_exit(95);
	if (a->phases < 0 || a->clients < 0 ||
	    (a->dispatch >= 0) != hr_config_repeats(&app->config))
		_exit(96);
	if (!(fcntl(a->phases, F_GETFD) & FD_CLOEXEC) || !(fcntl(a->clients, F_GETFD) & FD_CLOEXEC))
		_exit(97);
	_exit(0);
}

Test(process, the_engine_has_its_name_group_signals_and_descriptors)
{
	memset(process.page, 0x5a, sizeof *process.page); /* of the previous engine */
	start(look_at_itself);
	cr_expect_geq(process.phases, 0);
	cr_expect_geq(process.clients, 0);
	cr_expect_eq(process.dispatch, -1, "no pipeline repeats");
	cr_expect_eq(wait_end(), 0);
	hr_process_hang_up(&process);
	app->config.pipeline[1].when.kind = HR_WHEN_EVERY;
	start(look_at_itself);
	cr_expect_geq(process.dispatch, 0);
	cr_expect_eq(wait_end(), 0);
}

static int fail_with_a_device_error(struct hr_attempt *a)
{
	return hr_fail(&a->app->error, HR_ERROR_DEVICE, -EIO, "a device");
}

static int do_nothing(struct hr_attempt *a)
{
	return 0;
}

Test(process, the_exit_code_is_that_of_the_error)
{
	start(do_nothing);
	cr_expect_eq(wait_end(), 0);
	hr_process_hang_up(&process);
	start(fail_with_a_device_error);
	cr_expect_eq(wait_end(), HR_EXIT_DEVICE);
}

static int wait_for_hangup(struct hr_attempt *a)
{
	struct pollfd clients = { .fd = a->clients, .events = POLLIN };

	while (poll(&clients, 1, -1) < 0 && errno == EINTR)
		;
	_exit(clients.revents & POLLHUP ? 7 : 8);
}

/* Each side has closed the descriptors of the other one, so it notices the end of that side. */
Test(process, each_side_notices_the_end_of_the_other)
{
	enum hr_phase phase;
	char byte;
	int err;

	app->config.pipeline[0].when.kind = HR_WHEN_EVERY;
	start(do_nothing);
	cr_expect_eq(wait_end(), 0);
	while ((err = hr_process_receive(&process, &phase)) == -EAGAIN)
		hr_wait_ns(HR_NS_PER_MS);
	cr_expect_eq(err, -EPIPE);
	cr_expect_eq(read(process.clients, &byte, 1), 0);
	cr_expect_eq(read(process.dispatch, &byte, 1), 0);
	hr_process_hang_up(&process);
	start(wait_for_hangup);
	hr_process_hang_up(&process);
	cr_expect_eq(wait_end(), 7);
}

static int alive[2];

static int hang(struct hr_attempt *a)
{
	alarm(300); /* ends the engine when the test has failed to */
	if (write(alive[1], "e", 1) != 1)
		_exit(99);
	for (;;)
		pause();
}

/* The pipe of the engine is closed when the kernel has ended it, too. */
Test(process, the_engine_ends_with_its_supervisor)
{
	pid_t supervisor;
	char byte;

	cr_assert_eq(pipe(alive), 0);
	supervisor = fork();
	if (supervisor == 0) {
		in_engine = hang;
		if (hr_process_start(&process, app, NULL, 0) != 0)
			_exit(99);
		for (;;)
			pause();
	}
	close(alive[1]);
	cr_assert_eq(read(alive[0], &byte, 1), 1);
	kill(supervisor, SIGKILL);
	cr_assert_eq(waitpid(supervisor, NULL, 0), supervisor);
	cr_expect_eq(read(alive[0], &byte, 1), 0);
	close(alive[0]);
}

/* ---- descriptors */

#define DESCRIPTORS 1024

static unsigned count_open(void)
{
	unsigned n = 0;

	for (int fd = 0; fd < DESCRIPTORS; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

/* From now on the process can open so many more descriptors. */
static void leave_free(unsigned n, const struct rlimit *before)
{
	struct rlimit limit = *before;
	int fd = 0;

	for (; n || fcntl(fd, F_GETFD) >= 0; fd++)
		n -= fcntl(fd, F_GETFD) < 0;
	limit.rlim_cur = (rlim_t)fd;
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

Test(process, a_start_without_descriptors_leaves_none_open)
{
	struct rlimit before;

	cr_assert_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
	in_engine = do_nothing;
	for (unsigned repeats = 0; repeats < 2; repeats++) {
		const unsigned need = repeats ? 6 : 4, open = count_open();

		app->config.pipeline[1].when.kind = repeats ? HR_WHEN_EVERY : HR_WHEN_ONCE;
		for (unsigned n = 0; n <= need; n++) {
			int err;

			leave_free(n, &before);
			err = hr_process_start(&process, app, NULL, 0);
			setrlimit(RLIMIT_NOFILE, &before);
			cr_expect_eq(err, n < need ? -EMFILE : 0, "%u of %u: %d", n, need, err);
			cr_expect_eq(count_open() - open, n < need ? 0 : need / 2, "%u of %u", n,
				     need);
			cr_expect_eq(process.pid > 0, n == need);
		}
		cr_expect_eq(wait_end(), 0);
		hr_process_hang_up(&process);
		cr_expect_eq(count_open(), open);
	}
}

Test(process, a_start_without_a_pipe_starts_nothing)
{
	const unsigned open = count_open();

	in_engine = do_nothing;
	pipe_fails = true;
	cr_expect_eq(hr_process_start(&process, app, NULL, 0), -ENFILE);
	pipe_fails = false;
	cr_expect_eq(process.pid, 0);
	cr_expect_eq(count_open(), open);
}

Test(process, a_hangup_closes_all_descriptors_once)
{
	int fd[6];

	for (unsigned i = 0; i < 6; i += 2)
		cr_assert_eq(pipe(fd + i), 0);
	process.phases = fd[0];
	process.dispatch = fd[2];
	process.clients = fd[4];
	hr_process_hang_up(&process);
	for (unsigned i = 0; i < 6; i++)
		cr_expect_eq(fcntl(fd[i], F_GETFD) >= 0, i % 2 == 1, "%u", i);
	cr_expect(process.phases == -1 && process.dispatch == -1 && process.clients == -1);
	cr_assert_eq(dup2(fd[1], fd[0]), fd[0]);
	hr_process_hang_up(&process);
	cr_expect_geq(fcntl(fd[0], F_GETFD), 0, "not closed again");
	for (unsigned i = 0; i < 6; i++)
		close(fd[i]);
}

/* ---- phases, dispatches, clients, signals */

Test(process, bytes_are_phases_of_an_engine_or_refused)
{
	enum hr_phase phase;
	int fd[2];

	cr_expect_eq(hr_process_receive(&process, &phase), -EPIPE, "no pipe");
	cr_assert_eq(pipe2(fd, O_NONBLOCK), 0);
	process.phases = fd[0];
	cr_expect_eq(hr_process_receive(&process, &phase), -EAGAIN);
	for (unsigned i = 0; i < 256; i++) {
		const unsigned char byte = (unsigned char)i;
		const int want = i < HR_PHASES_OF_ENGINE ? 0 : -EPROTO;

		cr_assert_eq(write(fd[1], &byte, 1), 1);
		cr_expect_eq(hr_process_receive(&process, &phase), want, "%u", i);
		if (!want)
			cr_expect_eq(phase, i);
		cr_expect_eq(hr_process_receive(&process, &phase), -EAGAIN);
	}
	close(fd[1]);
	cr_expect_eq(hr_process_receive(&process, &phase), -EPIPE);
}

Test(process, a_dispatch_is_one_message)
{
	char sent[100], got[200];
	unsigned count = 0;
	int fd[2], err;

	signal(SIGPIPE, SIG_DFL);
	cr_expect_eq(hr_process_dispatch(&process, sent, sizeof sent), -EPIPE, "no socket");
	cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, fd), 0);
	process.dispatch = fd[0];
	memset(sent, 'd', sizeof sent);
	while ((err = hr_process_dispatch(&process, sent, sizeof sent)) == 0 && count < 1u << 20)
		count++;
	cr_expect_eq(err, -EAGAIN);
	cr_expect_gt(count, 1u);
	for (unsigned i = 0; i < count; i++)
		cr_assert_eq(read(fd[1], got, sizeof got), sizeof sent, "message %u", i);
	cr_expect_eq(read(fd[1], got, sizeof got), -1, "no part of a message was left");
	cr_expect_eq(memcmp(got, sent, sizeof sent), 0);
	close(fd[1]);
	cr_expect_eq(hr_process_dispatch(&process, sent, sizeof sent), -EPIPE);
}

Test(process, a_client_reaches_an_engine_that_runs)
{
	const struct hr_request request = { .kind = HR_REQUEST_TRIGGER };
	struct hr_request got;
	int fd[2], data[2], taken;
	unsigned count = 0;
	char byte;

	signal(SIGPIPE, SIG_DFL);
	cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, fd), 0);
	cr_assert_eq(pipe(data), 0);
	cr_expect_eq(hr_process_pass(&process, &request, data[1]), -ENOTCONN, "no engine");
	process.clients = fd[0];
	cr_expect_eq(hr_process_pass(&process, &request, data[1]), -ENOTCONN, "it has ended");
	process.pid = getpid();
	cr_expect_eq(hr_process_pass(&process, &request, data[1]), 0);
	cr_assert_eq(hr_pass_receive(fd[1], &got, sizeof got, &taken, 1, &count), sizeof got);
	cr_assert_eq(count, 1u);
	cr_expect_eq(got.kind, HR_REQUEST_TRIGGER);
	cr_assert_eq(write(taken, "x", 1), 1);
	cr_assert_eq(read(data[0], &byte, 1), 1);
	cr_expect_eq(byte, 'x');
	cr_assert_eq(write(data[1], "y", 1), 1, "the supervisor keeps its own");
	close(fd[1]);
	cr_expect_eq(hr_process_pass(&process, &request, data[1]), -EPIPE);
	process.pid = 0;
}

static volatile sig_atomic_t signals;

static void count_signal(int number)
{
	signals++;
}

static int end_with_signals(struct hr_attempt *a)
{
	signal(SIGUSR1, count_signal);
	if (write(alive[1], "e", 1) != 1)
		_exit(99);
	while (!signals)
		hr_wait_ns(HR_NS_PER_MS);
	_exit(5);
}

/* kill(0) would reach all processes of the supervisor's group. */
Test(process, a_signal_reaches_only_an_engine)
{
	char byte;

	signal(SIGUSR1, count_signal);
	hr_process_signal(&process, SIGUSR1);
	cr_expect_eq(signals, 0);
	cr_assert_eq(pipe(alive), 0);
	start(end_with_signals);
	cr_assert_eq(read(alive[0], &byte, 1), 1);
	hr_process_signal(&process, SIGUSR1);
	cr_expect_eq(wait_end(), 5);
	cr_expect_eq(signals, 0);
	hr_process_signal(&process, SIGUSR1);
	cr_expect_eq(signals, 0);
	close(alive[0]);
	close(alive[1]);
}
