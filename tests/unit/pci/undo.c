/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The undo helper: when it starts and ends, the order of its steps, an interrupt, and the locks that it
 * keeps.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pci/undo.h"

TestSuite(undo, .timeout = 60);

static char folder[64], path[5][80]; /* 0: a pipe; 1 to 4: files */

static void make_files(void)
{
	strcpy(folder, "/tmp/undo.XXXXXX");
	cr_assert_not_null(mkdtemp(folder));
	for (unsigned i = 0; i < 5; i++) {
		snprintf(path[i], sizeof path[i], "%s/%u", folder, i);
		if (i == 0)
			cr_assert_eq(mkfifo(path[i], 0600), 0);
		else
			close(open(path[i], O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
	}
}

static void remove_files(void)
{
	for (unsigned i = 0; i < 5; i++)
		unlink(path[i]);
	rmdir(folder);
}

/* Run fn in a child process; returns its exit status, or 100 and its signal. */
static int in_child(int (*fn)(void))
{
	const pid_t pid = fork();
	int status;

	cr_assert_geq(pid, 0);
	if (pid == 0)
		_exit(fn());
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 100 + WTERMSIG(status);
}

static int next_fd(void)
{
	const int fd = dup(0);

	close(fd);
	return fd;
}

static int add(void)
{
	return hr_undo_add(HR_UNDO_BEFORE_CLOSE, "/nowhere/x", 0, "a", 1);
}

/* The helper starts with the first step and ends with the last: no child, no descriptor is left. */
static int starts_and_ends(void)
{
	const int before = next_fd();
	int id[3];

	for (unsigned again = 0; again < 2; again++) {
		for (int i = 0; i < 3; i++) {
			id[i] = add();
			if (id[i] != i || next_fd() != before + 1 ||
			    waitpid(-1, NULL, WNOHANG) != 0)
				return 1;
		}
		hr_undo_drop(id[1]);
		hr_undo_drop(id[0]);
		hr_undo_drop(id[0]); /* dropped steps do not count again */
		if (next_fd() != before + 1 || waitpid(-1, NULL, WNOHANG) != 0)
			return 2;
		hr_undo_drop(id[2]);
		hr_undo_drop(id[2]);
		if (next_fd() != before || waitpid(-1, NULL, WNOHANG) != -1 || errno != ECHILD)
			return 3;
	}
	return 0;
}

Test(undo, the_helper_lives_from_the_first_step_to_the_last)
{
	cr_expect_eq(in_child(starts_and_ends), 0);
}

static int limit(int what, rlim_t value)
{
	struct rlimit r;

	getrlimit(what, &r);
	r.rlim_cur = value;
	return setrlimit(what, &r);
}

/* Each part of the start fails once; nothing is left of it, and the next call starts the helper. */
static int fails_to_start(void)
{
	const int before = next_fd();
	struct rlimit files, memory;
	int err;

	getrlimit(RLIMIT_NOFILE, &files);
	getrlimit(RLIMIT_AS, &memory);
	limit(RLIMIT_AS, 1);
	err = add();
	if (setrlimit(RLIMIT_AS, &memory) || err != -ENOMEM || hr_undo_keep_fd(1) != -ENOSPC)
		return 5;
	if (limit(RLIMIT_NOFILE, (rlim_t)before) || add() != -EMFILE ||
	    hr_undo_keep_fd(1) != -ENOSPC)
		return 1;
	hr_undo_release_fd(1);
	hr_undo_drop(0);
	if (limit(RLIMIT_NOFILE, files.rlim_cur) || next_fd() != before || add() != 0 ||
	    hr_undo_keep_fd(1))
		return 2;
	hr_undo_drop(0);
	if (next_fd() != before)
		return 3;
	/* Not root, and no process more. */
	if ((geteuid() == 0 && setuid(65534)) || limit(RLIMIT_NPROC, 0) || add() != -EAGAIN ||
	    next_fd() != before || hr_undo_keep_fd(1) != -ENOSPC)
		return 4;
	return 0;
}

Test(undo, a_start_that_fails_leaves_nothing)
{
	cr_expect_eq(in_child(fails_to_start), 0);
}

/* ---- steps */

static int die_with_steps_at_one_place(void)
{
	static const char *const text[] = { "first", "second", "3" };
	int id[3];

	for (unsigned i = 0; i < 3; i++)
		id[i] = hr_undo_add(HR_UNDO_BEFORE_CLOSE, path[1], 2, text[i], strlen(text[i]));
	hr_undo_drop(id[0]);
	/* The entry of the first step is now that of the last step. */
	if (hr_undo_add(HR_UNDO_BEFORE_CLOSE, path[1], 3, "xy", 2) != id[0] ||
	    hr_undo_add(HR_UNDO_AFTER_CLOSE, path[2], 0, "end", 3) < 0 ||
	    hr_undo_add(HR_UNDO_BEFORE_CLOSE, path[2], 0, "begin", 5) < 0 ||
	    hr_undo_add(HR_UNDO_BEFORE_CLOSE, "/nowhere/x", 0, "a", 1) < 0 ||
	    hr_undo_add(HR_UNDO_AFTER_CLOSE, path[0], 0, "p", 1) < 0)
		return 1;
	raise(SIGKILL);
	return 2;
}

static void expect_content(const char *file, const char *want, size_t bytes)
{
	char text[32] = "";
	const int fd = open(file, O_RDONLY | O_CLOEXEC);

	cr_expect_eq(read(fd, text, sizeof text), (ssize_t)bytes, "%s", file);
	cr_expect(memcmp(text, want, bytes) == 0, "%s", file);
	close(fd);
}

Test(undo, steps_are_made_in_the_order_of_their_adding)
{
	char byte;
	int reader;

	make_files();
	cr_expect_eq(in_child(die_with_steps_at_one_place), 100 + SIGKILL);
	reader = open(path[0], O_RDONLY | O_CLOEXEC); /* the last step waits for it */
	cr_expect_eq(read(reader, &byte, 1), 1);
	close(reader);
	expect_content(path[1],
		       "\0\0"
		       "3xyond",
		       8);
	expect_content(path[2], "endin", 5);
	remove_files();
}

static int at_the_limits(void)
{
	char name[HR_UNDO_FILE_NAME_MAX + 1], bytes[HR_UNDO_BYTES_MAX + 1];

	memset(name, '/', sizeof name);
	strcpy(name + HR_UNDO_FILE_NAME_MAX - 1 - strlen(path[1]), path[1]);
	memset(bytes, 'b', sizeof bytes);
	if (strlen(name) != HR_UNDO_FILE_NAME_MAX - 1)
		return 1;
	if (hr_undo_add(HR_UNDO_BEFORE_CLOSE, name, 0, bytes, HR_UNDO_BYTES_MAX + 1) != -E2BIG ||
	    hr_undo_add(HR_UNDO_BEFORE_CLOSE, name, 0, bytes, HR_UNDO_BYTES_MAX) != 0 ||
	    hr_undo_add(HR_UNDO_AFTER_CLOSE, path[0], 0, "p", 1) != 1)
		return 2;
	name[0] = '/';
	memmove(name + 1, name, HR_UNDO_FILE_NAME_MAX);
	if (hr_undo_add(HR_UNDO_BEFORE_CLOSE, name, 0, bytes, 1) != -E2BIG)
		return 3;
	raise(SIGTERM);
	return 4;
}

Test(undo, the_longest_path_and_the_most_bytes)
{
	struct stat st;
	char byte;
	int reader;

	make_files();
	cr_expect_eq(in_child(at_the_limits), 100 + SIGTERM);
	reader = open(path[0], O_RDONLY | O_CLOEXEC);
	cr_expect_eq(read(reader, &byte, 1), 1);
	close(reader);
	cr_assert_eq(stat(path[1], &st), 0);
	cr_expect_eq(st.st_size, HR_UNDO_BYTES_MAX);
	remove_files();
}

/* Ctrl-C reaches the whole process group; the undo helper ignores it. */
static int die_by_interrupt(void)
{
	setpgid(0, 0);
	if (hr_undo_add(HR_UNDO_BEFORE_CLOSE, path[1], 0, "i", 1) < 0 ||
	    hr_undo_add(HR_UNDO_AFTER_CLOSE, path[0], 0, "p", 1) < 0)
		return 1;
	signal(SIGINT, SIG_DFL);
	kill(0, SIGINT);
	pause();
	return 2;
}

Test(undo, an_interrupt_of_the_process_group_does_not_end_it)
{
	char byte;
	int reader;

	make_files();
	cr_expect_eq(in_child(die_by_interrupt), 100 + SIGINT);
	reader = open(path[0], O_RDONLY | O_CLOEXEC);
	cr_expect_eq(read(reader, &byte, 1), 1);
	close(reader);
	expect_content(path[1], "i", 1);
	remove_files();
}

Test(undo, too_many_steps_are_refused)
{
	int id[HR_UNDO_MAX];

	for (unsigned i = 0; i < HR_UNDO_MAX; i++) {
		id[i] = add();
		cr_assert_geq(id[i], 0);
	}
	cr_expect_eq(add(), -ENOSPC);
	hr_undo_drop(id[7]);
	cr_expect_eq(add(), id[7]);
	for (unsigned i = 0; i < HR_UNDO_MAX; i++)
		hr_undo_drop(id[i]);
}

/* ---- descriptors that are kept */

static int free_entries(void)
{
	int n = 0;

	while (hr_undo_keep_fd(5000 + n) == 0)
		n++;
	for (int i = 0; i < n; i++)
		hr_undo_release_fd(5000 + i);
	return n;
}

static int keeps_and_releases(void)
{
	const int id = add(), most = (int)HR_UNDO_KEPT_MAX;

	if (free_entries() != most || hr_undo_keep_fd(0) || free_entries() != most - 1)
		return 1;
	if (hr_undo_keep_fd(100) || hr_undo_keep_fd(101) || hr_undo_keep_fd(100) ||
	    free_entries() != most - 4)
		return 2;
	hr_undo_release_fd(99);
	hr_undo_release_fd(102);
	if (free_entries() != most - 4)
		return 3;
	hr_undo_release_fd(100); /* both of them */
	if (free_entries() != most - 2)
		return 4;
	hr_undo_release_fd(101);
	hr_undo_release_fd(0);
	if (free_entries() != most)
		return 5;
	hr_undo_drop(id);
	return free_entries() == 0 ? 0 : 6;
}

Test(undo, each_kept_descriptor_has_an_entry)
{
	cr_expect_eq(in_child(keeps_and_releases), 0);
}

/* Locks on files 1 to 4, of which 2 is not kept; file 4 is kept in the last entry. */
static int die_with_locks(void)
{
	int fd[5];

	if (hr_undo_add(HR_UNDO_AFTER_CLOSE, path[0], 0, "p", 1) < 0)
		return 1;
	for (unsigned i = 1; i < 5; i++) {
		fd[i] = open(path[i], O_RDWR | O_CLOEXEC);
		if (fd[i] < 0 || flock(fd[i], LOCK_EX))
			return 2;
	}
	if (hr_undo_keep_fd(fd[3]) || hr_undo_keep_fd(fd[1]))
		return 3;
	for (unsigned i = 0; i < HR_UNDO_KEPT_MAX - 3; i++)
		if (hr_undo_keep_fd(fd[1]))
			return 4;
	if (hr_undo_keep_fd(fd[4]) || hr_undo_keep_fd(fd[2]) != -ENOSPC)
		return 5;
	raise(SIGKILL);
	return 6;
}

Test(undo, only_kept_locks_are_held_until_the_last_step)
{
	int fd[5], reader;
	char byte;

	make_files();
	cr_expect_eq(in_child(die_with_locks), 100 + SIGKILL);
	for (unsigned i = 1; i < 5; i++)
		fd[i] = open(path[i], O_RDWR | O_CLOEXEC);
	cr_expect_eq(flock(fd[2], LOCK_EX), 0); /* waits for the end of the process */
	for (unsigned i = 1; i < 5; i++)
		cr_expect(i == 2 || flock(fd[i], LOCK_EX | LOCK_NB) != 0, "file %u", i);
	reader = open(path[0], O_RDONLY | O_CLOEXEC);
	cr_expect_eq(read(reader, &byte, 1), 1);
	for (unsigned i = 1; i < 5; i++) {
		cr_expect_eq(flock(fd[i], LOCK_EX), 0, "file %u", i);
		close(fd[i]);
	}
	close(reader);
	remove_files();
}
