/* What is written when a process dies: how it dies, in which order, and what is dropped before. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "config/clock.h"
#include "pci/custodian.h"

TestSuite(custodian, .timeout = 60);

static char folder[] = "/tmp/custodian.XXXXXX", path[64];

/* Appends: the order of writes shows. */
static void make_log(void)
{
	FILE *file;

	cr_assert_not_null(mkdtemp(folder));
	snprintf(path, sizeof path, "%s/log", folder);
	file = fopen(path, "w");
	cr_assert_not_null(file);
	fputs("........", file);
	fclose(file);
}

static void remove_log(void)
{
	unlink(path);
	rmdir(folder);
}

static void read_log(char text[16])
{
	const int fd = open(path, O_RDONLY);
	const ssize_t n = read(fd, text, 15);

	text[n > 0 ? n : 0] = '\0';
	close(fd);
}

/* Until the log says so, or ten seconds have passed. */
static void expect_log(const char *want)
{
	char text[16] = "";

	for (unsigned i = 0; i < 1000 && strcmp(text, want) != 0; i++) {
		hr_wait_ns(10 * HR_NS_PER_MS);
		read_log(text);
	}
	cr_expect_str_eq(text, want);
}

static int write_at(enum hr_custody_when when, uint64_t offset, const char *text)
{
	return hr_custodian_add(when, path, offset, text, strlen(text));
}

/* Run in a child, which ends as it likes. */
static void in_child(void (*fn)(void))
{
	int status;
	pid_t pid = fork();

	cr_assert_geq(pid, 0);
	if (pid == 0) {
		fn();
		_exit(0);
	}
	cr_assert_eq(waitpid(pid, &status, 0), pid);
}

static void die_by_signal(void)
{
	if (write_at(HR_CUSTODY_LATER, 3, "d") < 0 || write_at(HR_CUSTODY_NOW, 1, "ab") < 0 ||
	    write_at(HR_CUSTODY_NOW, 2, "c") < 0)
		_exit(1);
	raise(SIGKILL);
}

Test(custodian, killed_and_everything_is_written_in_order)
{
	make_log();
	in_child(die_by_signal);
	expect_log(".acd....");
	remove_log();
}

static void die_with_dropped(void)
{
	int a = write_at(HR_CUSTODY_NOW, 1, "a"), b = write_at(HR_CUSTODY_NOW, 2, "b");

	hr_custodian_drop(a);
	hr_custodian_drop(a); /* twice is once */
	hr_custodian_drop(-1);
	if (a < 0 || b < 0)
		_exit(1);
	abort();
}

Test(custodian, what_was_dropped_is_not_written)
{
	make_log();
	in_child(die_with_dropped);
	expect_log("..b.....");
	remove_log();
}

static void end_in_order(void)
{
	int a = write_at(HR_CUSTODY_NOW, 1, "a"), b;

	hr_custodian_drop(a);
	b = write_at(HR_CUSTODY_LATER, 2, "b"); /* and once more */
	hr_custodian_drop(b);
	if (waitpid(-1, NULL, WNOHANG) != -1 || errno != ECHILD)
		write_at(HR_CUSTODY_NOW, 0, "child left");
}

Test(custodian, nobody_is_left_when_nothing_is)
{
	char text[16];

	make_log();
	cr_assert_eq(prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), 0);
	in_child(end_in_order);
	/* A process that it has left behind is ours now. Once it ends the log has all it wrote. */
	while (waitpid(-1, NULL, 0) > 0 || errno == EINTR)
		;
	read_log(text);
	cr_expect_str_eq(text, "........");
	remove_log();
}

/* A lock ends with the last descriptor: the custodian has ours for as long as it writes. */
static void die_with_lock(void)
{
	int fd;

	if (write_at(HR_CUSTODY_LATER, 1, "x") < 0)
		_exit(1);
	fd = open(path, O_RDWR); /* opened after the custodian began */
	if (fd < 0 || flock(fd, LOCK_EX))
		_exit(1);
	raise(SIGKILL);
}

Test(custodian, our_files_are_closed_before_the_late_writes)
{
	int fd;

	make_log();
	in_child(die_with_lock);
	expect_log(".x......");
	fd = open(path, O_RDWR);
	cr_expect_eq(flock(fd, LOCK_EX | LOCK_NB), 0);
	close(fd);
	remove_log();
}

/* A pipe that nobody reads holds the late writes up, and with them the lock that was to be kept. */
static char pipe_path[64];

static void die_with_kept_lock(void)
{
	int fd;

	if (hr_custodian_keep(0) != -ENOSPC || /* there is nobody to keep it */
	    hr_custodian_add(HR_CUSTODY_LATER, pipe_path, 0, "p", 1) < 0)
		_exit(1);
	for (unsigned i = 0; i < HR_CUSTODY_KEPT_MAX; i++)
		if (hr_custodian_keep(100))
			_exit(2);
	if (hr_custodian_keep(101) != -ENOSPC)
		_exit(3);
	hr_custodian_unkeep(100);
	fd = open(path, O_RDWR);
	if (fd < 0 || flock(fd, LOCK_EX) || hr_custodian_keep(fd))
		_exit(4);
	raise(SIGKILL);
}

Test(custodian, a_lock_that_is_kept_is_there_until_the_end)
{
	char text[2] = "";
	int fd, reader;

	make_log();
	snprintf(pipe_path, sizeof pipe_path, "%s/pipe", folder);
	cr_assert_eq(mkfifo(pipe_path, 0600), 0);
	in_child(die_with_kept_lock);
	fd = open(path, O_RDWR);
	hr_wait_ns(50 * HR_NS_PER_MS);
	cr_expect_eq(flock(fd, LOCK_EX | LOCK_NB), -1);
	reader = open(pipe_path, O_RDONLY);
	cr_expect_eq(read(reader, text, 1), 1);
	cr_expect_str_eq(text, "p");
	cr_expect_eq(flock(fd, LOCK_EX), 0);
	close(reader);
	close(fd);
	unlink(pipe_path);
	remove_log();
}

/* Ctrl-C goes to the whole group; the custodian stays. */
static void die_by_interrupt(void)
{
	setpgid(0, 0);
	if (write_at(HR_CUSTODY_NOW, 1, "i") < 0)
		_exit(1);
	signal(SIGINT, SIG_DFL);
	kill(0, SIGINT);
	pause();
}

Test(custodian, an_interrupt_of_the_group_does_not_end_it)
{
	make_log();
	in_child(die_by_interrupt);
	expect_log(".i......");
	remove_log();
}

Test(custodian, what_does_not_fit_is_refused)
{
	char name[HR_CUSTODY_PATH_MAX + 1], bytes[HR_CUSTODY_BYTES_MAX + 1] = "";
	int id[HR_CUSTODY_MAX];

	memset(name, 'x', sizeof name - 1);
	name[sizeof name - 1] = '\0';
	cr_expect_eq(hr_custodian_add(HR_CUSTODY_NOW, name, 0, "a", 1), -E2BIG);
	cr_expect_eq(hr_custodian_add(HR_CUSTODY_NOW, "/x", 0, bytes, sizeof bytes), -E2BIG);
	for (unsigned i = 0; i < HR_CUSTODY_MAX; i++) {
		id[i] = hr_custodian_add(HR_CUSTODY_NOW, "/nowhere/x", 0, "a", 1);
		cr_assert_geq(id[i], 0);
	}
	cr_expect_eq(hr_custodian_add(HR_CUSTODY_NOW, "/nowhere/x", 0, "a", 1), -ENOSPC);
	hr_custodian_drop(id[7]);
	cr_expect_eq(hr_custodian_add(HR_CUSTODY_NOW, "/nowhere/x", 0, "a", 1), id[7]);
	for (unsigned i = 0; i < HR_CUSTODY_MAX; i++)
		hr_custodian_drop(id[i]);
}
