/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Configurations from files, pipes and standard input: names, folders, pieces, descriptors, memory.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "boot/engine/devices/devices.h"
#include "config/config.h"
#include "config/file/file.h"
#include "tests/harness/error.h"
#include "tests/harness/heap.h"

#define GOOD                                                     \
	"ssds = ( { name = \"a\"; device = \"soft:s.img\"; } );" \
	"gpus = ( { name = \"g\"; device = \"host:1\"; } );\n"

TestSuite(config_read, .timeout = 60);

static struct hr_config config;

/* The next descriptor that would be given out. */
static int next_descriptor(void)
{
	const int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	close(fd);
	return fd;
}

/* Read standard input, which gives the text in these pieces. */
static int read_standard(const char *const *piece, unsigned pieces)
{
	const int before = next_descriptor();
	int ends[2], err;

	cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
	for (unsigned i = 0; i < pieces; i++)
		cr_assert_geq(write(ends[1], piece[i], strlen(piece[i])), 1);
	close(ends[1]);
	cr_assert_eq(dup2(ends[0], STDIN_FILENO), STDIN_FILENO);
	close(ends[0]);
	err = hr_config_read(&config, &hr_lookup, "-", test_error());
	cr_expect_neq(fcntl(STDIN_FILENO, F_GETFD), -1, "standard input stays open");
	cr_expect_eq(next_descriptor(), before);
	return err;
}

Test(config_read, standard_input_comes_in_pieces_and_has_no_folder)
{
	static const char *const good[] = { "ssds = ( { name = \"a\"; dev",
					    "ice = \"soft:s.img\"; } );",
					    "gpus = ( { name = \"g\"; device = \"host:1\"; } );" };
	static const char *const bad[] = { "\n\nssds", " = 5;" };

	cr_assert_eq(read_standard(good, 3), 0, "%s", test_error_text());
	cr_expect_str_eq(config.name, "headrace");
	cr_expect_eq(config.folder, 0u);
	cr_expect_str_eq(config.ssd[0].device, "soft:s.img");
	cr_expect_eq(read_standard(bad, 2), -EINVAL);
	cr_expect_not_null(strstr(test_error_text(), "standard input:3: ssds: is an integer"), "%s",
			   test_error_text());
}

static char folder[64], path[128];

static void make_folder(void)
{
	snprintf(folder, sizeof folder, "/tmp/headrace-read-XXXXXX");
	cr_assert_not_null(mkdtemp(folder));
}

Test(config_read, a_file_has_a_name_and_a_folder_and_a_pipe_has_none)
{
	int fd, before;
	pid_t writer;

	make_folder();
	snprintf(path, sizeof path, "%s/box.conf", folder);
	fd = open(path, O_WRONLY | O_CREAT, 0600);
	cr_assert_eq(write(fd, GOOD, strlen(GOOD)), (ssize_t)strlen(GOOD));
	close(fd);
	before = next_descriptor();
	cr_assert_eq(hr_config_read(&config, &hr_lookup, path, test_error()), 0, "%s",
		     test_error_text());
	cr_expect_str_eq(config.name, "box");
	cr_expect_eq(config.folder, strlen(folder) + 1);
	cr_expect_eq(strncmp(config.ssd[0].device, "soft:/tmp/headrace-read-", 24), 0);
	cr_expect_str_eq(config.file, path);
	cr_expect_eq(next_descriptor(), before);
	unlink(path);
	cr_assert_eq(mkfifo(path, 0600), 0);
	writer = fork();
	if (writer == 0) {
		fd = open(path, O_WRONLY | O_CLOEXEC);
		_exit(write(fd, GOOD, strlen(GOOD)) != (ssize_t)strlen(GOOD));
	}
	cr_assert_gt(writer, 0);
	cr_assert_eq(hr_config_read(&config, &hr_lookup, path, test_error()), 0, "%s",
		     test_error_text());
	cr_expect_eq(waitpid(writer, NULL, 0), writer);
	cr_expect_str_eq(config.name, "headrace");
	cr_expect_eq(config.folder, 0u);
	cr_expect_str_eq(config.ssd[0].device, "soft:s.img");
	cr_expect_eq(next_descriptor(), before);
	unlink(path);
	rmdir(folder);
}

static const char *file_to_read;

static void read_it(void)
{
	hr_config_read(&config, &hr_lookup, file_to_read, test_error());
}

Test(config_read, errors_keep_no_memory_and_no_descriptor)
{
	static const struct {
		const char *file;
		int want;
	} row[] = { { "/tmp", -EISDIR },
		    { "/nowhere/x.conf", -ENOENT },
		    { "/proc/self/mem", -EIO },
		    { "/dev/null", -EINVAL } };
	const int before = next_descriptor();

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		file_to_read = row[i].file;
		cr_expect_eq(hr_config_read(&config, &hr_lookup, row[i].file, test_error()),
			     row[i].want, "%s: %s", row[i].file, test_error_text());
		if (row[i].want != -EINVAL) {
			char want[128];

			snprintf(want, sizeof want, "%s: %s", row[i].file,
				 row[i].want == -EISDIR ? "is a folder, expected a file"
							: strerror(-row[i].want));
			cr_expect_str_eq(test_error_text(), want);
		}
		cr_expect_eq(heap_kept_by(read_it), 0u, "%s", row[i].file);
		cr_expect_eq(next_descriptor(), before, "%s", row[i].file);
	}
}
