/* The undo helper: causes of death, order of the steps, dropped steps. */
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
#include "pci/undo.h"

TestSuite(undo, .timeout = 60);

static char folder[] = "/tmp/undo.XXXXXX", path[64];

/* The log shows the order of the writes. */
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

/* Wait until the log has this content, at most 50 s. */
static void expect_log(const char *want)
{
	char text[16] = "";

	for (unsigned i = 0; i < 5000 && strcmp(text, want) != 0; i++) {
		hr_wait_ns(10 * HR_NS_PER_MS);
		read_log(text);
	}
	cr_expect_str_eq(text, want);
}

static int write_at(enum hr_undo_when when, uint64_t offset, const char *text)
{
	return hr_undo_add(when, path, offset, text, strlen(text));
}

/* Run fn in a child process; any end of the child is accepted. */
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
	if (write_at(HR_UNDO_AFTER_CLOSE, 3, "d") < 0 ||
	    write_at(HR_UNDO_BEFORE_CLOSE, 1, "ab") < 0 ||
	    write_at(HR_UNDO_BEFORE_CLOSE, 2, "c") < 0)
		_exit(1);
	raise(SIGKILL);
}

Test(undo, a_killed_process_gets_all_its_steps_in_order)
{
	make_log();
	in_child(die_by_signal);
	expect_log(".acd....");
	remove_log();
}

static void die_with_dropped(void)
{
	int a = write_at(HR_UNDO_BEFORE_CLOSE, 1, "a"), b = write_at(HR_UNDO_BEFORE_CLOSE, 2, "b");

	hr_undo_drop(a);
	hr_undo_drop(a); /* a second drop does nothing */
	hr_undo_drop(-1);
	if (a < 0 || b < 0)
		_exit(1);
	abort();
}

Test(undo, a_dropped_step_is_not_made)
{
	make_log();
	in_child(die_with_dropped);
	expect_log("..b.....");
	remove_log();
}

/* A step may reuse the entry of a dropped step with a longer path. */
static void die_with_reused(void)
{
	char longer[80];
	int id;

	snprintf(longer, sizeof longer, "%s.longer", path);
	id = hr_undo_add(HR_UNDO_BEFORE_CLOSE, longer, 1, "a", 1);
	if (id < 0 || write_at(HR_UNDO_BEFORE_CLOSE, 2, "b") < 0)
		_exit(1);
	hr_undo_drop(id);
	if (write_at(HR_UNDO_BEFORE_CLOSE, 3, "c") != id)
		_exit(1);
	abort();
}

Test(undo, an_entry_is_used_again)
{
	make_log();
	in_child(die_with_reused);
	expect_log("..bc....");
	remove_log();
}

static void end_in_order(void)
{
	int a = write_at(HR_UNDO_BEFORE_CLOSE, 1, "a"), b;

	hr_undo_drop(a);
	b = write_at(HR_UNDO_AFTER_CLOSE, 2, "b"); /* this step starts a child again */
	hr_undo_drop(b);
	if (waitpid(-1, NULL, WNOHANG) != -1 || errno != ECHILD)
		write_at(HR_UNDO_BEFORE_CLOSE, 0, "child left");
}

Test(undo, the_child_ends_with_the_last_step)
{
	char text[16];

	make_log();
	cr_assert_eq(prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), 0);
	in_child(end_in_order);
	/* This process inherits a child that was left behind; after its end the log is complete. */
	while (waitpid(-1, NULL, 0) > 0 || errno == EINTR)
		;
	read_log(text);
	cr_expect_str_eq(text, "........");
	remove_log();
}

/* A lock ends when its last descriptor is closed; the undo helper shares the descriptors. */
static void die_with_lock(void)
{
	int fd;

	if (write_at(HR_UNDO_AFTER_CLOSE, 1, "x") < 0)
		_exit(1);
	fd = open(path, O_RDWR); /* opened after the start of the undo helper */
	if (fd < 0 || flock(fd, LOCK_EX))
		_exit(1);
	raise(SIGKILL);
}

Test(undo, files_are_closed_before_the_steps_after_close)
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

/* A pipe without a reader blocks the steps after close, so the kept lock stays held. */
static char pipe_path[64];

static void die_with_kept_lock(void)
{
	int fd;

	if (hr_undo_keep_fd(0) != -ENOSPC || /* there is no child */
	    hr_undo_add(HR_UNDO_AFTER_CLOSE, pipe_path, 0, "p", 1) < 0)
		_exit(1);
	for (unsigned i = 0; i < HR_UNDO_KEPT_MAX; i++)
		if (hr_undo_keep_fd(100))
			_exit(2);
	if (hr_undo_keep_fd(101) != -ENOSPC)
		_exit(3);
	hr_undo_release_fd(100);
	fd = open(path, O_RDWR);
	if (fd < 0 || flock(fd, LOCK_EX) || hr_undo_keep_fd(fd))
		_exit(4);
	raise(SIGKILL);
}

Test(undo, a_kept_lock_is_held_until_the_end)
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

/* Ctrl-C reaches the whole process group; the undo helper ignores it. */
static void die_by_interrupt(void)
{
	setpgid(0, 0);
	if (write_at(HR_UNDO_BEFORE_CLOSE, 1, "i") < 0)
		_exit(1);
	signal(SIGINT, SIG_DFL);
	kill(0, SIGINT);
	pause();
}

Test(undo, an_interrupt_of_the_process_group_does_not_end_it)
{
	make_log();
	in_child(die_by_interrupt);
	expect_log(".i......");
	remove_log();
}

Test(undo, too_long_or_too_many_steps_are_refused)
{
	char name[HR_UNDO_FILE_NAME_MAX + 1], bytes[HR_UNDO_BYTES_MAX + 1] = "";
	int id[HR_UNDO_MAX];

	memset(name, 'x', sizeof name - 1);
	name[sizeof name - 1] = '\0';
	cr_expect_eq(hr_undo_add(HR_UNDO_BEFORE_CLOSE, name, 0, "a", 1), -E2BIG);
	cr_expect_eq(hr_undo_add(HR_UNDO_BEFORE_CLOSE, "/x", 0, bytes, sizeof bytes), -E2BIG);
	for (unsigned i = 0; i < HR_UNDO_MAX; i++) {
		id[i] = hr_undo_add(HR_UNDO_BEFORE_CLOSE, "/nowhere/x", 0, "a", 1);
		cr_assert_geq(id[i], 0);
	}
	cr_expect_eq(hr_undo_add(HR_UNDO_BEFORE_CLOSE, "/nowhere/x", 0, "a", 1), -ENOSPC);
	hr_undo_drop(id[7]);
	cr_expect_eq(hr_undo_add(HR_UNDO_BEFORE_CLOSE, "/nowhere/x", 0, "a", 1), id[7]);
	for (unsigned i = 0; i < HR_UNDO_MAX; i++)
		hr_undo_drop(id[i]);
}
