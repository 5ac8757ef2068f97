/* SPDX-License-Identifier: Apache-2.0 */
/* The directory of control sockets, and the address of a control socket. */
#include "boot/appliance/protocol/socket.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/harness/error.h"

#define NOBODY 65534u

static char folder[64];

static void set_up(void)
{
	snprintf(folder, sizeof folder, "/tmp/headrace-socket-XXXXXX");
	cr_assert(mkdtemp(folder));
	setenv("RUNTIME_DIRECTORY", folder, 1);
}

static void tear_down(void)
{
	char command[128];

	snprintf(command, sizeof command, "rm -rf %s", folder);
	cr_assert_eq(system(command), 0);
}

static void write_file(const char *name, const char *text)
{
	char path[128];
	FILE *file;

	snprintf(path, sizeof path, "%s/%s", folder, name);
	file = fopen(path, "we");
	cr_assert(file);
	fputs(text, file);
	fclose(file);
}

TestSuite(socket_path, .init = set_up, .fini = tear_down, .timeout = 60);

static int open_place(const char *name)
{
	static const struct hr_config_control control = { .mode = 0600,
							  .group = HR_CONTROL_NO_GROUP };
	struct sockaddr_un at;
	const int fd = hr_socket_listen(&at, name, &control, test_error());

	if (fd < 0)
		return fd;
	close(fd);
	unlink(at.sun_path);
	return 0;
}

Test(socket_path, a_directory_writable_by_other_users_is_not_used)
{
	char want[256], reason[256];

	cr_assert_eq(chmod(folder, 0777), 0);
	cr_expect_eq(open_place("box"), -EPERM);
	snprintf(want, sizeof want,
		 "RUNTIME_DIRECTORY %s: others may write to it: mode 0777, expected 0755", folder);
	cr_expect_str_eq(hr_socket_reason(-EPERM, reason, sizeof reason), want, "%s", reason);
	cr_expect_str_eq(test_error_text(), want, "%s", test_error_text());
	cr_expect_eq(test_error_kind(), HR_ERROR_MISSING);
}

Test(socket_path, a_directory_that_cannot_be_used_is_an_error_with_the_reason)
{
	char file[128], reason[256];

	setenv("RUNTIME_DIRECTORY", "/nowhere/at/all", 1);
	cr_expect_eq(open_place("box"), -ENOENT);
	cr_expect_str_eq(test_error_text(),
			 "RUNTIME_DIRECTORY /nowhere/at/all: No such file or directory");
	write_file("file", "");
	snprintf(file, sizeof file, "%s/file", folder);
	setenv("RUNTIME_DIRECTORY", file, 1);
	cr_expect_eq(open_place("box"), -ENOTDIR);
	cr_expect(strstr(test_error_text(), "file: Not a directory"), "%s", test_error_text());
	cr_expect(strstr(hr_socket_reason(-ENAMETOOLONG, reason, sizeof reason),
			 "too long for a socket"),
		  "%s", reason);
	cr_expect(strstr(hr_socket_reason(-ENOKEY, reason, sizeof reason),
			 "neither RUNTIME_DIRECTORY nor XDG_RUNTIME_DIR is set"),
		  "%s", reason);
}

Test(socket_path, the_directory_and_unusable_paths)
{
	char path[128], file[128], longest[200];

	setenv("RUNTIME_DIRECTORY", folder, 1);
	cr_expect_eq(hr_socket_directory(path, sizeof path, false), 0);
	cr_expect_str_eq(path, folder);
	setenv("RUNTIME_DIRECTORY", "/nowhere/at/all", 1);
	cr_expect_eq(hr_socket_directory(path, sizeof path, false), -ENOENT);
	cr_expect_eq(hr_socket_directory(path, sizeof path, true), -ENOENT);
	write_file("file", "");
	snprintf(file, sizeof file, "%s/file", folder);
	setenv("RUNTIME_DIRECTORY", file, 1);
	cr_expect_eq(hr_socket_directory(path, sizeof path, true), -ENOTDIR);
	memset(longest, '/', sizeof longest - 1);
	longest[sizeof longest - 1] = '\0';
	setenv("RUNTIME_DIRECTORY", longest, 1);
	cr_expect_eq(hr_socket_directory(path, sizeof path, false), -ENAMETOOLONG);
	/* The first of several counts; a folder of headrace is created in it. */
	snprintf(file, sizeof file, "%s/made:/nowhere", folder);
	setenv("RUNTIME_DIRECTORY", file, 1);
	cr_expect_eq(hr_socket_directory(path, sizeof path, true), 0);
	cr_expect_eq(hr_socket_directory(path, sizeof path, true), 0);
}

static int directory_of_others(void)
{
	char path[128];

	if (setuid(NOBODY))
		return 1;
	if (hr_socket_directory(path, sizeof path, true) != -EPERM)
		return 2;
	/* a client may ask the appliance of root */
	if (hr_socket_directory(path, sizeof path, false) != 0)
		return 5;
	if (hr_socket_check("/tmp", false) != -EPERM)
		return 6;
	unsetenv("RUNTIME_DIRECTORY");
	unsetenv("XDG_RUNTIME_DIR");
	if (hr_socket_directory(path, sizeof path, false) != -ENOKEY)
		return 3;
	setenv("XDG_RUNTIME_DIR", folder, 1);
	return hr_socket_directory(path, sizeof path, false) == -ENOENT && strstr(path, "/headrace")
		       ? 0
		       : 4;
}

Test(socket_path, a_directory_of_another_user_is_not_used)
{
	int result;
	pid_t pid;

	if (geteuid() != 0)
		cr_skip("not root: files cannot get another owner");
	cr_assert_eq(chmod(folder, 0755), 0);
	pid = fork();
	cr_assert_geq(pid, 0);
	if (pid == 0)
		_exit(directory_of_others());
	cr_assert_eq(waitpid(pid, &result, 0), pid);
	cr_expect_eq(result, 0);
	/* a folder of the user NOBODY is refused */
	cr_assert_eq(chown(folder, NOBODY, NOBODY), 0);
	cr_expect_eq(hr_socket_check(folder, false), -EPERM);
	cr_expect_eq(hr_socket_check(folder, true), -EPERM);
}

Test(socket_path, a_socket_path_that_is_too_long_is_refused)
{
	char directory[128], name[HR_NAME_MAX];
	struct sockaddr_un at;

	snprintf(directory, sizeof directory, "%s/a-folder-with-a-long-name", folder);
	setenv("RUNTIME_DIRECTORY", directory, 1);
	memset(name, 'n', sizeof name - 1);
	name[sizeof name - 1] = '\0';
	cr_expect_eq(open_place(name), -ENAMETOOLONG);
	cr_expect_eq(hr_socket_address(&at, folder, "../x"), -EINVAL);
	cr_expect_eq(hr_socket_address(&at, folder, ""), -EINVAL);
	cr_expect_eq(hr_socket_address(&at, folder, "x"), 0);
}
