/* The engine's process when calls of the system fail: priorities, the pipe, and dispatches. */
#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

static int test_setpriority(__priority_which_t which, id_t process, int value);
static int test_scheduler(pid_t pid, int policy, const struct sched_param *param);
static ssize_t test_read(int fd, void *to, size_t bytes);
static ssize_t test_send(int fd, const void *data, size_t bytes, int flags);
static void *test_mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset);
static pid_t test_fork(void);

#define setpriority test_setpriority
#define sched_setscheduler test_scheduler
#define read test_read
#define send test_send
#define mmap test_mmap
#define hr_fork test_fork
#include "boot/appliance/process.c"
#undef setpriority
#undef sched_setscheduler
#undef read
#undef send
#undef mmap
#undef hr_fork

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdlib.h>

#include "tests/fakes/log.h"
#include "tests/harness/calls.h"

static int error; /* errno of each call; 0: it succeeds */
static ssize_t got;
static unsigned char byte;

static int fails(void)
{
	errno = error;
	return error ? -1 : 0;
}
static int test_setpriority(__priority_which_t which, id_t process, int value)
{
	calls_note("nice(%d,%u,%d) ", (int)which, (unsigned)process, value);
	return fails();
}
static int test_scheduler(pid_t pid, int policy, const struct sched_param *param)
{
	calls_note("scheduler(%d,%s,%d) ", (int)pid,
		   policy == (SCHED_RR | SCHED_RESET_ON_FORK) ? "rr" : "?", param->sched_priority);
	return fails();
}
static ssize_t test_read(int fd, void *to, size_t bytes)
{
	cr_expect(fd == 9 && bytes == 1);
	memcpy(to, &byte, 1);
	errno = error;
	return got;
}
static ssize_t test_send(int fd, const void *data, size_t bytes, int flags)
{
	cr_expect(fd == 9 && bytes == 5 && flags == MSG_NOSIGNAL);
	errno = error;
	return got;
}
static void *test_mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset)
{
	cr_expect(!at && bytes == sizeof(struct hr_record_page) && fd == -1 && !offset);
	cr_expect(protection == (PROT_READ | PROT_WRITE) && flags == (MAP_SHARED | MAP_ANONYMOUS));
	return error == ENOMEM ? MAP_FAILED : mmap(at, bytes, protection, flags, fd, offset);
}
static pid_t test_fork(void)
{
	return -error;
}

TestSuite(process_calls, .timeout = 60);

Test(process_calls, priorities)
{
	const int nice = getpriority(PRIO_PROCESS, 0);
	char want[64];

	raise_priority(4);
	cr_expect_str_eq(calls_take(), "scheduler(0,rr,1) ");
	error = EPERM;
	raise_priority(4);
	snprintf(want, sizeof want, "scheduler(0,rr,1) nice(0,0,%d) ", 4 + HR_CONTROL_NICE);
	cr_expect_str_eq(calls_take(), want);
	cr_expect_str_eq(fake_log_last_of(HR_LOG_DEBUG),
			 "supervisor or control path has the priority of workers: Operation not "
			 "permitted");
	{
		struct hr_process p;

		error = ENOMEM;
		cr_expect_eq(hr_process_open(&p), -ENOMEM);
		cr_expect(!p.page && p.phases == -1 && p.dispatch == -1 && p.clients == -1);
		cr_expect_str_eq(calls_take(), "");
		hr_process_close(&p);
		error = 0;
		cr_expect_eq(hr_process_open(&p), 0);
		cr_expect(p.page && p.nice == nice && p.pid == 0);
		cr_expect_str_eq(calls_take(), "scheduler(0,rr,1) ");
		hr_process_close(&p);
		cr_expect_null(p.page);
	}
}

Test(process_calls, errors_of_the_pipe)
{
	static const struct {
		ssize_t got;
		int error, want;
		unsigned char byte;
	} row[] = {
		{ -1, EAGAIN, -EAGAIN, 0 },
		{ -1, EINTR, -EAGAIN, 0 },
		{ -1, EIO, -EPIPE, 0 },
		{ 0, 0, -EPIPE, 0 },
		{ 0, EAGAIN, -EPIPE, 0 },
		{ 1, EAGAIN, 0, HR_PHASE_GOING_DOWN },
		{ 1, 0, -EPROTO, HR_PHASES_OF_ENGINE },
	};
	struct hr_process p = { .phases = 9 };

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		enum hr_phase phase = HR_PHASES;

		got = row[i].got;
		error = row[i].error;
		byte = row[i].byte;
		cr_expect_eq(hr_process_receive(&p, &phase), row[i].want, "row %zu", i);
		cr_expect_eq(phase, got == 1 ? (enum hr_phase)byte : HR_PHASES);
	}
	p.phases = -1;
	cr_expect_eq(hr_process_receive(&p, NULL), -EPIPE);
}

Test(process_calls, errors_of_a_dispatch)
{
	static const struct {
		ssize_t got;
		int error, want;
	} row[] = {
		{ 5, EIO, 0 },		{ -1, EAGAIN, -EAGAIN },
		{ -1, EINTR, -EAGAIN }, { -1, ENOBUFS, -EAGAIN },
		{ -1, EPIPE, -EPIPE },	{ 4, 0, -EPIPE },
	};
	struct hr_process p = { .dispatch = 9 };

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		got = row[i].got;
		error = row[i].error;
		cr_expect_eq(hr_process_dispatch(&p, "abcd", 5), row[i].want, "row %zu", i);
	}
	p.dispatch = -1;
	cr_expect_eq(hr_process_dispatch(&p, "abcd", 5), -EPIPE);
}

/* Nothing stays open. */
Test(process_calls, a_process_that_cannot_be_started)
{
	static struct hr_record_page page;
	struct hr_process p = { .page = &page, .phases = -1, .dispatch = -1, .clients = -1 };
	struct hr_appliance *app = calloc(1, sizeof *app);
	const int lowest = dup(0);

	cr_assert_not_null(app);
	close(lowest);
	error = EAGAIN;
	cr_expect_eq(hr_process_start(&p, app, NULL, 0), -EAGAIN);
	cr_expect(p.pid == 0 && p.phases == -1 && p.dispatch == -1 && p.clients == -1);
	cr_expect_eq(dup(0), lowest);
	close(lowest);
	free(app);
}
