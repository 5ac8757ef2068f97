/* SPDX-License-Identifier: Apache-2.0 */
/* Locks between processes: the holder, the end of a lock, and that no other user can hold one. */
#include "config/base/lock.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/harness/error.h"

#define SKIPPED 77
#define ROOTS "/run/headrace-locks"

TestSuite(lock, .timeout = 60);

/* Run step() as root with an empty /run. Each step returns 0, or the number of what failed. */
static void in_a_run_of_its_own(int (*step)(void))
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		if (geteuid() || unshare(CLONE_NEWNS) ||
		    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
		    mount("run", "/run", "tmpfs", 0, "size=1m,mode=755"))
			_exit(SKIPPED);
		_exit(step());
	}
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_assert(WIFEXITED(status));
	if (WEXITSTATUS(status) == SKIPPED)
		cr_skip_test("only root can mount");
	cr_expect_eq(WEXITSTATUS(status), 0, "step %d: %s", WEXITSTATUS(status), test_error_text());
}

static int one_owner(void)
{
	const int fd = hr_lock("a", test_error()), other = hr_lock("b", test_error());
	struct stat st;
	int status;
	pid_t child;

	if (fd < 0 || other < 0)
		return 1;
	if (hr_lock("a", test_error()) != -EBUSY || *test_error_text())
		return 2;
	if (stat(ROOTS "/a", &st) || (st.st_mode & 07777) != 0600 || stat(ROOTS, &st) ||
	    (st.st_mode & 07777) != 0700)
		return 3;
	child = fork(); /* has a copy of the descriptor */
	if (child == 0) {
		pause();
		_exit(0);
	}
	close(fd);
	if (hr_lock("a", test_error()) != -EBUSY)
		return 4;
	kill(child, SIGKILL);
	waitpid(child, &status, 0);
	return hr_lock("a", test_error()) < 0 ? 5 : 0;
}

Test(lock, one_process_has_it_until_its_last_copy_is_closed)
{
	in_a_run_of_its_own(one_owner);
}

static int names(void)
{
	return hr_lock("../x/y", test_error()) < 0 || hr_lock(".", test_error()) < 0 ||
	       access(ROOTS "/%2e./x", F_OK) == 0 || access(ROOTS "/%2e.%2fx%2fy", F_OK) != 0 ||
	       access(ROOTS "/%2e", F_OK) != 0;
}

Test(lock, a_name_stays_in_the_folder)
{
	in_a_run_of_its_own(names);
}

/* Another user has made the folder, or may write to it. */
static int foreign_folder(void)
{
	if (mkdir(ROOTS, 0700) || chown(ROOTS, 65534, 0))
		return 1;
	if (hr_lock("a", test_error()) != -EPERM ||
	    !strstr(test_error_text(), ROOTS ": the folder of locks belongs to user 65534"))
		return 2;
	if (chown(ROOTS, 0, 0) || chmod(ROOTS, 0770) || hr_lock("a", test_error()) != -EPERM)
		return 3;
	if (rmdir(ROOTS) || symlink("/tmp", ROOTS))
		return 4;
	return hr_lock("a", test_error()) == -ENOTDIR ? 0 : 5;
}

Test(lock, a_folder_of_another_user_is_refused)
{
	in_a_run_of_its_own(foreign_folder);
}

/* A user holds a lock of its own, cannot open that of root, and does not keep root from it. */
static int user_and_root(void)
{
	int told[2], status;
	char c;
	pid_t child;

	if (mkdir("/run/user", 0700) || chown("/run/user", 65534, 0) || pipe(told) ||
	    setenv("XDG_RUNTIME_DIR", "/run/user", 1))
		return 1;
	close(hr_lock("a", test_error()));
	child = fork();
	if (child == 0) {
		if (setuid(65534) || open(ROOTS "/a", O_RDONLY | O_CLOEXEC) >= 0 ||
		    hr_lock("a", NULL) < 0)
			_exit(1);
		if (write(told[1], "x", 1) == 1)
			pause();
		_exit(1);
	}
	close(told[1]);
	if (read(told[0], &c, 1) != 1 || access("/run/user/headrace-locks/a", F_OK) != 0)
		return 2;
	if (hr_lock("a", test_error()) < 0)
		return 3;
	kill(child, SIGKILL);
	waitpid(child, &status, 0);
	return 0;
}

Test(lock, a_user_has_locks_of_its_own)
{
	in_a_run_of_its_own(user_and_root);
}
