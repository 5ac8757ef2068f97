/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine as a process: its attributes, its descriptors, its end with the supervisor, and what
 * the supervisor sends to it and gets from it. The engines are real ones, over ssds in memory.
 */
#include "boot/appliance/supervisor/process.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "boot/appliance/protocol/record.h"
#include "config/base/error.h"
#include "boot/engine/devices/devices.h"
#include "config/base/scm.h"
#include "config/base/process.h"
#include "config/base/clock.h"
#include "config/file/file.h"
#include "config/base/log.h"
#include "tests/fakes/log.h"
#include "tests/harness/error.h"

#define OUTSIDE 200 /* a descriptor of the supervisor alone */

/* With "once" pipelines end at once; with "every" the engine idles between them. */
static const char text[] = "appliance = { name = \"box\"; }; boot = { post = \"off\"; };\n"
			   "ssds = ( { name = \"a\"; device = \"soft:memory,size=64M\";\n"
			   "           objects = ( { name = \"in\"; bytes = \"64K\"; } ); } );\n"
			   "gpus = ( { name = \"g\"; device = \"host:2\"; } );\n"
			   "pipelines = ( { name = \"p\"; source = { object = \"%s\"; };\n"
			   "  operator = \"crc32c\"; tile = \"64K\"; %s } );\n";

static struct hr_engine *engine;
static struct hr_process process;
static bool pipe_fails;

/* In place of libc's: the system may be without free files although the process is not. */
int pipe2(int fd[2], int flags)
{
	if (!pipe_fails)
		return (int)syscall(SYS_pipe2, fd, flags);
	errno = ENFILE;
	return -1;
}

static void configure(const char *object, const char *when)
{
	char all[1024];

	snprintf(all, sizeof all, text, object, when);
	cr_assert_eq(
		hr_config_parse(&engine->config, &hr_lookup, "f", all, strlen(all), test_error()),
		0, "%s", test_error_text());
	cr_assert_eq(hr_engine_init(engine, NULL), 0);
	engine->keep_going = true;
}

static void begin(void)
{
	engine = calloc(1, sizeof *engine);
	cr_assert_not_null(engine);
	hr_log_set_level(HR_LOG_ERROR);
	hr_signals_catch();
	configure("in", "");
	cr_assert_eq(hr_process_open(&process), 0);
}

static void end(void)
{
	hr_process_close(&process);
	free(engine);
}

TestSuite(process, .init = begin, .fini = end, .timeout = 60);

static void start(void)
{
	const int fds[] = { -1, OUTSIDE };

	cr_assert_eq(hr_process_start(&process, engine, fds, 2), 0);
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

static void wait_for(enum hr_phase wanted)
{
	enum hr_phase phase = HR_PHASES;
	int err = -EAGAIN;

	while (err == -EAGAIN || (err == 0 && phase != wanted)) {
		err = hr_process_receive(&process, &phase);
		if (err == -EAGAIN)
			hr_wait_ns(HR_NS_PER_MS);
	}
	cr_assert_eq(err, 0, "the engine ends before phase %d", wanted);
}

/* ---- attributes */

/* Workers have the priority of the supervisor before; the engine's control path has a higher one. */
static void expect_priorities(void)
{
	unsigned workers = 0;
	struct dirent *entry;
	char path[64];
	DIR *dir;

	snprintf(path, sizeof path, "/proc/%d/task", process.pid);
	dir = opendir(path);
	cr_assert_not_null(dir);
	while ((entry = readdir(dir))) {
		const pid_t task = atoi(entry->d_name);

		if (task <= 0)
			continue;
		cr_expect_eq(sched_getscheduler(task), SCHED_OTHER);
		errno = 0;
		if (task == process.pid)
			cr_expect_lt(getpriority(PRIO_PROCESS, (id_t)task), process.nice);
		else
			workers += getpriority(PRIO_PROCESS, (id_t)task) == process.nice;
	}
	closedir(dir);
	cr_expect_gt(workers, 0u);
}

Test(process, the_engine_has_its_name_group_signals_and_descriptors)
{
	char path[64], name[32] = "";
	struct hr_record record;
	FILE *comm;

	memset(process.page, 0x5a, sizeof *process.page); /* of the previous engine */
	cr_assert_eq(dup2(STDERR_FILENO, OUTSIDE), OUTSIDE);
	configure("in", "every = \"1h\";");
	start();
	cr_expect(process.phases >= 0 && process.clients >= 0 && process.dispatch >= 0);
	wait_for(HR_PHASE_IDLE);
	snprintf(path, sizeof path, "/proc/%d/comm", process.pid);
	comm = fopen(path, "r");
	cr_assert(comm && fgets(name, sizeof name, comm));
	fclose(comm);
	cr_expect_str_eq(name, "headrace-engine\n");
	cr_expect_eq(getpgid(process.pid), process.pid);
	snprintf(path, sizeof path, "/proc/%d/fd/%d", process.pid, OUTSIDE);
	cr_expect_eq(access(path, F_OK), -1, "a descriptor of the supervisor");
	cr_expect_geq(fcntl(OUTSIDE, F_GETFD), 0, "the supervisor keeps it");
	if (getpriority(PRIO_PROCESS, 0) < process.nice || sched_getscheduler(0) != SCHED_OTHER)
		expect_priorities();
	cr_expect(hr_record_read(process.page, &record) && record.ready);
	/* as often as they come: the engine ends in order */
	hr_process_signal(&process, SIGTERM);
	hr_process_signal(&process, SIGINT);
	hr_process_signal(&process, SIGTERM);
	cr_expect_eq(wait_end(), 0);
	close(OUTSIDE);
}

/* The history is that of all engines. */
Test(process, the_exit_code_is_that_of_the_error)
{
	start();
	cr_expect_eq(process.dispatch, -1, "no pipeline repeats");
	cr_expect_eq(wait_end(), 0);
	cr_expect_eq(process.page->history.run[0].outcome, (uint64_t)HR_RUN_DONE);
	hr_process_hang_up(&process);
	configure("none", "");
	start();
	cr_expect_eq(wait_end(), HR_EXIT_USAGE);
	cr_expect_eq(process.page->history.run[0].outcome, (uint64_t)HR_RUN_DONE);
	hr_process_hang_up(&process);
}

/* Each side has closed the descriptors of the other one, so it notices the end of that side. */
Test(process, each_side_notices_the_end_of_the_other)
{
	enum hr_phase phase;
	char byte;
	int err;

	configure("in", "every = \"1h\";");
	start();
	wait_for(HR_PHASE_IDLE);
	hr_process_signal(&process, SIGKILL);
	cr_expect_eq(wait_end(), -1);
	while ((err = hr_process_receive(&process, &phase)) == -EAGAIN || err == 0)
		hr_wait_ns(HR_NS_PER_MS);
	cr_expect_eq(err, -EPIPE);
	cr_expect_eq(read(process.clients, &byte, 1), 0);
	cr_expect_eq(read(process.dispatch, &byte, 1), 0);
	hr_process_hang_up(&process);
	start();
	wait_for(HR_PHASE_IDLE);
	hr_process_hang_up(&process);
	cr_expect_eq(wait_end(), 0);
}

/* Children of the supervisor are in the default class again. */
Test(process, the_supervisor_has_a_real_time_priority)
{
	const struct sched_param lowest = { .sched_priority = 1 };

	hr_process_close(&process);
	cr_expect_eq(sched_getscheduler(0), SCHED_OTHER);
	if (sched_setscheduler(0, SCHED_RR, &lowest) != 0)
		cr_skip("the kernel does not permit a real-time priority");
	cr_assert_eq(sched_setscheduler(0, SCHED_OTHER, &(struct sched_param){ 0 }), 0);
	cr_assert_eq(hr_process_open(&process), 0);
	cr_expect_eq(sched_getscheduler(0), SCHED_RR | SCHED_RESET_ON_FORK);
}

/* A process without the privileges keeps its priority. */
static int open_without_privileges(void)
{
	const struct rlimit none = { 0, 0 };

	if (setrlimit(RLIMIT_RTPRIO, &none) != 0 || setrlimit(RLIMIT_NICE, &none) != 0 ||
	    setresuid(65534, 65534, 65534) != 0)
		return 90;
	if (hr_process_open(&process) != 0)
		return 91;
	return getpriority(PRIO_PROCESS, 0) == process.nice && sched_getscheduler(0) == SCHED_OTHER
		       ? 0
		       : 92;
}

Test(process, an_appliance_without_privileges_keeps_its_priority)
{
	int status;
	pid_t pid;

	if (geteuid() != 0)
		cr_skip("only root can become a user without privileges");
	hr_process_close(&process);
	pid = fork();
	if (pid == 0)
		_exit(open_without_privileges());
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status 0x%x", status);
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
	for (unsigned repeats = 0; repeats < 2; repeats++) {
		const unsigned need = repeats ? 6 : 4, open = count_open();

		configure("in", repeats ? "every = \"1h\";" : "");
		for (unsigned n = 0; n <= need; n++) {
			int err;

			leave_free(n, &before);
			err = hr_process_start(&process, engine, NULL, 0);
			setrlimit(RLIMIT_NOFILE, &before);
			cr_expect_eq(err, n < need ? -EMFILE : 0, "%u of %u: %d", n, need, err);
			cr_expect_eq(count_open() - open, n < need ? 0 : need / 2, "%u of %u", n,
				     need);
			cr_expect_eq(process.pid > 0, n == need);
		}
		hr_process_signal(&process, SIGKILL);
		wait_end();
		hr_process_hang_up(&process);
		cr_expect_eq(count_open(), open);
	}
}

Test(process, a_start_without_a_pipe_starts_nothing)
{
	const unsigned open = count_open();

	pipe_fails = true;
	cr_expect_eq(hr_process_start(&process, engine, NULL, 0), -ENFILE);
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
	cr_assert_eq(hr_scm_receive(fd[1], &got, sizeof got, &taken, 1, &count), sizeof got);
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

/* kill(0) would reach all processes of the supervisor's group. */
Test(process, a_signal_reaches_only_an_engine)
{
	signal(SIGUSR1, count_signal);
	hr_process_signal(&process, SIGUSR1);
	cr_expect_eq(signals, 0);
	configure("in", "every = \"1h\";");
	start();
	hr_process_signal(&process, SIGKILL);
	cr_expect_eq(wait_end(), -1);
	hr_process_signal(&process, SIGUSR1);
	cr_expect_eq(signals, 0);
}
