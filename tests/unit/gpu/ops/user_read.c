/* SPDX-License-Identifier: Apache-2.0 */
/* How the file of a user operator is read: its owner, short reads, and its end. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "gpu/ops/user.h"
#include "tests/harness/error.h"

/* Replace libc's functions for the code under test. */
static uid_t as_user; /* 0: the real one */
static struct {
	bool is_on;
	unsigned calls;
	size_t left; /* bytes until the file ends */
} reading;

__attribute__((visibility("hidden"))) uid_t geteuid(void)
{
	return as_user ? as_user : (uid_t)syscall(SYS_geteuid);
}

/* Single bytes, and a signal in between. */
__attribute__((visibility("hidden"))) ssize_t read(int fd, void *to, size_t bytes)
{
	if (!reading.is_on)
		return syscall(SYS_read, fd, to, bytes);
	if (++reading.calls % 3 == 0) {
		errno = EINTR;
		return -1;
	}
	if (reading.left == 0 || bytes == 0)
		return 0;
	reading.left--;
	return syscall(SYS_read, fd, to, 1);
}

static char folder[] = "/tmp/op_read.XXXXXX";
static const char zeros[400];

static void make_folder(void)
{
	cr_assert_not_null(mkdtemp(folder));
}

static const char *path_of(const char *name)
{
	static char path[128];

	snprintf(path, sizeof path, "%s/%s", folder, name);
	return path;
}

static void remove_folder(void)
{
	unlink(path_of("text"));
	unlink(path_of("short"));
	rmdir(folder);
}

TestSuite(op_read, .timeout = 60, .init = make_folder, .fini = remove_folder);

static void write_file(const char *name, const void *data, size_t bytes, mode_t mode)
{
	FILE *out = fopen(path_of(name), "we");

	cr_assert_not_null(out);
	cr_assert_eq(fwrite(data, 1, bytes, out), bytes);
	cr_assert_eq(fclose(out), 0);
	cr_assert_eq(chmod(path_of(name), mode), 0);
}

static void expect_not_loaded(const char *name, int err, const char *text)
{
	const struct hr_operator *op = NULL;

	cr_expect_eq(hr_op_user_load(path_of(name), &op, test_error()), err, "%s", name);
	cr_expect(strstr(test_error_text(), text) != NULL, "%s: %s", name, test_error_text());
	cr_expect_null(op);
}

Test(op_read, a_file_of_root_is_for_every_user)
{
	if (geteuid() != 0)
		cr_skip_test("only root has files of root");
	write_file("text", "#!/bin/sh\n", 10, 0755);
	as_user = 1000;
	expect_not_loaded("text", -EINVAL, "is not an operator file");
	as_user = 0;
	cr_assert_eq(chown(path_of("text"), 1000, 0), 0);
	as_user = 1000;
	expect_not_loaded("text", -EINVAL, "is not an operator file");
	as_user = 1001;
	expect_not_loaded("text", -EACCES, "belongs to user 1000");
	as_user = 0;
}

/* No other user can replace the file through its folder; a sticky folder protects its entries. */
Test(op_read, folders_in_which_others_could_replace_the_file)
{
	static const struct {
		mode_t mode;
		uid_t owner;
		const char *text;
	} row[] = {
		{ 0777, 0, "to which every user may write (mode 0777)" },
		{ 0775, 0, "to which its group may write (mode 0775)" },
		{ 0755, 12345, "which belongs to user 12345" },
		{ 01777, 12345, "which belongs to user 12345" },
		{ 01777, 0, "is not an operator file" },
	};

	write_file("text", "#!/bin/sh\n", 10, 0755);
	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		if (row[i].owner && geteuid() != 0)
			continue; /* only root can give a folder to another user */
		cr_assert_eq(chown(folder, row[i].owner ? row[i].owner : geteuid(), (gid_t)-1), 0);
		cr_assert_eq(chmod(folder, row[i].mode), 0);
		expect_not_loaded("text", row[i].text[0] == 'i' ? -EINVAL : -EACCES, row[i].text);
	}
	cr_assert_eq(chown(folder, geteuid(), (gid_t)-1), 0);
	cr_assert_eq(chmod(folder, 0700), 0);
}

Test(op_read, a_file_that_becomes_shorter_is_judged_by_the_bytes_that_were_read)
{
	write_file("short", zeros, sizeof zeros, 0644);
	reading.is_on = true;
	for (size_t left = 0; left < sizeof zeros; left += 50) {
		reading.left = left;
		expect_not_loaded("short", -EINVAL, "is not an operator file");
	}
	reading.is_on = false;
}
