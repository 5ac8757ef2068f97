/* SPDX-License-Identifier: Apache-2.0 */
/* The file with the key of streams: each documented return. */
#include "boot/engine/remote/key.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/harness/error.h"

static char folder[] = "/tmp/headrace-key-XXXXXX", file[64];
static uint8_t key[HR_LINK_KEY_BYTES];

static void init(void)
{
	cr_assert_not_null(mkdtemp(folder));
	snprintf(file, sizeof file, "%s/key", folder);
	memset(key, 0xee, sizeof key);
}

static void fini(void)
{
	remove(file);
	rmdir(folder);
}

TestSuite(remote_key, .init = init, .fini = fini, .timeout = 60);

/* The file: so many bytes 0, 1, 2 .. */
static void make(size_t bytes, mode_t mode)
{
	uint8_t data[64];
	int fd;

	for (size_t i = 0; i < sizeof data; i++)
		data[i] = (uint8_t)i;
	remove(file);
	fd = open(file, O_CREAT | O_WRONLY, 0600);
	cr_assert_geq(fd, 0);
	cr_assert_eq(write(fd, data, bytes), (ssize_t)bytes);
	cr_assert_eq(fchmod(fd, mode), 0);
	close(fd);
}

/* A refusal is an error of use, names the file, and gives no byte of the key. */
static void refused(int err, const char *why)
{
	char text[256];

	cr_expect_eq(hr_remote_key_read(file, key, test_error()), err, "%s", why);
	snprintf(text, sizeof text, "key file %s: %s", file, why);
	cr_expect_str_eq(test_error_text(), text);
	cr_expect_eq(test_error_kind(), HR_ERROR_USAGE, "%s", why);
	for (size_t i = 0; i < sizeof key; i++)
		cr_assert_eq(key[i], 0xee, "byte %zu", i);
}

Test(remote_key, a_file_of_its_owner_with_exactly_the_bytes_is_the_key)
{
	static const mode_t mode[] = { 0400, 0600, 0700 };

	for (size_t m = 0; m < sizeof mode / sizeof *mode; m++) {
		memset(key, 0xee, sizeof key);
		make(HR_LINK_KEY_BYTES, mode[m]);
		cr_expect_eq(hr_remote_key_read(file, key, test_error()), 0, "%s",
			     test_error_text());
		for (size_t i = 0; i < sizeof key; i++)
			cr_assert_eq(key[i], i);
	}
}

Test(remote_key, each_access_of_others_is_refused)
{
	char why[96];

	for (mode_t bit = 1; bit <= 040; bit *= 2) {
		make(HR_LINK_KEY_BYTES, 0600 | bit);
		snprintf(why, sizeof why,
			 "may be accessed by other users (mode %04o); expected mode 0400 or 0600",
			 (unsigned)(0600 | bit));
		refused(-EACCES, why);
	}
}

/* Only root can give files to another user. */
Test(remote_key, a_file_or_folder_of_another_user_is_refused)
{
	char why[256];

	if (geteuid() != 0)
		cr_skip_test("only root can give a file to another user");
	make(HR_LINK_KEY_BYTES, 0600);
	cr_assert_eq(chown(file, 12345, 0), 0);
	refused(-EACCES,
		"belongs to user 12345, not to a trusted one; expected a file of root or of "
		"user 0, as which headrace runs");
	cr_assert_eq(chown(file, 0, 0), 0);
	cr_assert_eq(chown(folder, 12345, 0), 0);
	snprintf(why, sizeof why,
		 "lies in %s, which belongs to user 12345, so that user could replace it; expected "
		 "a folder of root or of user 0, as which headrace runs",
		 folder);
	refused(-EACCES, why);
}

Test(remote_key, another_length_is_refused)
{
	static const size_t length[] = { 0, 1, HR_LINK_KEY_BYTES - 1, HR_LINK_KEY_BYTES + 1, 64 };

	for (size_t i = 0; i < sizeof length / sizeof *length; i++) {
		make(length[i], 0600);
		refused(-EMSGSIZE,
			"expected exactly 32 bytes; 'head -c 32 /dev/urandom' makes a key");
	}
}

Test(remote_key, what_is_no_regular_file_is_refused_and_not_waited_for)
{
	cr_assert_eq(mkfifo(file, 0600), 0);
	refused(-EINVAL, "is a FIFO, expected a file");
	remove(file);
	cr_assert_eq(mkdir(file, 0700), 0);
	refused(-EISDIR, "is a folder, expected a file");
}

Test(remote_key, a_file_that_cannot_be_opened_is_refused_with_the_reason)
{
	refused(-ENOENT, "cannot be opened: No such file or directory");
	cr_assert_eq(symlink(file, file), 0);
	refused(-ELOOP, "cannot be opened: Too many levels of symbolic links");
}
