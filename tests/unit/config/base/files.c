/* SPDX-License-Identifier: Apache-2.0 */
/* Files of each type: which are accepted, the text of each refusal, and that no open waits. */
#include "config/base/files.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

static char folder[] = "/tmp/headrace-open-XXXXXX", path[64];

static void make_folder(void)
{
	cr_assert_not_null(mkdtemp(folder));
	snprintf(path, sizeof path, "%s/x", folder);
}

static void remove_folder(void)
{
	remove(path);
	rmdir(folder);
}

TestSuite(open, .init = make_folder, .fini = remove_folder, .timeout = 60);

static void make_file(void)
{
	close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0644));
}

static void make_fifo(void)
{
	cr_assert_eq(mkfifo(path, 0600), 0);
}

static void make_subfolder(void)
{
	cr_assert_eq(mkdir(path, 0700), 0);
}

static void make_socket(void)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	memcpy(at.sun_path, path, strlen(path) + 1);
	cr_assert_eq(bind(fd, (struct sockaddr *)&at, sizeof at), 0);
	close(fd);
}

static void make_device(void)
{
	cr_assert_eq(symlink("/dev/zero", path), 0);
}

Test(open, each_type_is_accepted_or_refused_before_it_is_opened)
{
	static const struct {
		void (*make)(void);
		unsigned types;
		int err;
		const char *why;
	} row[] = {
		{ make_file, HR_OPEN_FILE, 0, "" },
		{ make_fifo, HR_OPEN_FILE, -EINVAL, "is a FIFO, expected a file" },
		{ make_fifo, HR_OPEN_FILE | HR_OPEN_FOLDER, -EINVAL, "is a FIFO, expected a file" },
		{ make_subfolder, HR_OPEN_FILE | HR_OPEN_PIPE, -EISDIR,
		  "is a folder, expected a file" },
		{ make_subfolder, HR_OPEN_FILE | HR_OPEN_FOLDER, 0, "" },
		{ make_socket, HR_OPEN_FILE | HR_OPEN_PIPE, -EINVAL,
		  "is a socket, expected a file" },
		{ make_device, HR_OPEN_FILE | HR_OPEN_PIPE, -EINVAL,
		  "is a device, expected a file" },
		{ make_device, HR_OPEN_ANY, 0, "" },
		{ NULL, HR_OPEN_FILE, -ENOENT, "No such file or directory" },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		const char *why = "";
		int fd;

		if (row[i].make)
			row[i].make();
		fd = hr_open(path, O_RDONLY, row[i].types, &why);
		cr_expect_eq(fd < 0 ? fd : 0, row[i].err, "row %zu: %d", i, fd);
		cr_expect_str_eq(why, row[i].why, "row %zu", i);
		if (fd >= 0) {
			cr_expect_eq(fcntl(fd, F_GETFL) & O_NONBLOCK, 0, "row %zu", i);
			cr_expect_eq(fcntl(fd, F_GETFD), FD_CLOEXEC, "row %zu", i);
			close(fd);
		}
		remove(path);
	}
}

Test(open, a_pipe_is_read_when_it_has_a_writer)
{
	const char *why = "";
	char c = 0;
	int writer, fd;

	make_fifo();
	writer = open(path, O_RDWR | O_CLOEXEC);
	cr_assert_eq(write(writer, "a", 1), 1);
	fd = hr_open(path, O_RDONLY, HR_OPEN_FILE | HR_OPEN_PIPE, &why);
	cr_assert_geq(fd, 0, "%s", why);
	cr_expect_eq(read(fd, &c, 1), 1);
	cr_expect_eq(c, 'a', "a byte was taken");
	close(writer);
	close(fd);
}

Test(open, a_pipe_without_a_writer_is_refused)
{
	const char *why = "";

	make_fifo();
	cr_expect_eq(hr_open(path, O_RDONLY, HR_OPEN_FILE | HR_OPEN_PIPE, &why), -ETIMEDOUT);
	cr_expect_str_eq(why, "is a FIFO that no process has opened for writing in 5 s");
}

/* Its contents are those of a disk: no other user may read or lock it. */
Test(open, a_new_file_belongs_to_its_owner_alone)
{
	const mode_t mask = umask(0);
	const char *why = "";
	const int fd = hr_open(path, O_RDWR | O_CREAT, HR_OPEN_FILE, &why);
	struct stat st;

	umask(mask);
	cr_assert_geq(fd, 0, "%s", why);
	cr_assert_eq(fstat(fd, &st), 0);
	cr_expect_eq(st.st_mode & 0777u, 0600u);
	close(fd);
}
