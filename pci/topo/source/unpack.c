/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unpacks compressed captures with the system's tools: without a shell or an environment, from a
 * file, with limited output.
 */
#include "pci/topo/source/formats.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define PACKED_MAX (256u << 20)

static const struct hr_packer {
	const char *tool;
	const char *magic;
	size_t length;
	const char *options[2]; /* the second one limits the tool's memory */
	const char *form;
} packers[] = {
	{ "gzip", "\x1f\x8b", 2, { "-dc", NULL }, "compressed with gzip" },
	{ "bzip2", "BZh", 3, { "-dc", NULL }, "compressed with bzip2" },
	{ "xz", "\xfd\x37zXZ", 5, { "-dc", "--memlimit-decompress=256MiB" }, "compressed with xz" },
	{ "zstd", "\x28\xb5\x2f\xfd", 4, { "-dc", "--memory=256MiB" }, "compressed with zstd" },
	/* PowerShell writes text so: ssh box lspci >box.txt */
	{ "iconv", "\xff\xfe", 2, { "-fUTF-16", "-tUTF-8" }, "UTF-16 text for iconv" },
	{ "iconv", "\xfe\xff", 2, { "-fUTF-16", "-tUTF-8" }, "UTF-16 text for iconv" },
};

const struct hr_packer *hr_packed_by(const char *head, size_t size)
{
	for (unsigned i = 0; i < sizeof packers / sizeof *packers; i++)
		if (size >= packers[i].length &&
		    memcmp(head, packers[i].magic, packers[i].length) == 0)
			return &packers[i];
	return NULL;
}

static int put_all(int fd, const char *bytes, size_t size)
{
	while (size) {
		ssize_t n = write(fd, bytes, size);

		if (n < 0 && errno != EINTR)
			return -errno;
		if (n > 0) {
			bytes += n;
			size -= (size_t)n;
		}
	}
	return 0;
}

/* Copy the whole packed input to a file, which the tool reads at its own speed. */
static int keep_packed(const char *head, size_t size, int from)
{
	int fd = memfd_create("packed", MFD_CLOEXEC), err;
	char buffer[65536];
	size_t total = size;
	ssize_t n = 1;

	if (fd < 0)
		return -errno;
	err = put_all(fd, head, size);
	while (!err && from >= 0 && n) {
		n = read(from, buffer, sizeof buffer);
		if (n < 0 && errno == EINTR)
			continue;
		total += n > 0 ? (size_t)n : 0;
		err = n < 0 ? -errno : total > PACKED_MAX ? -EFBIG : put_all(fd, buffer, (size_t)n);
	}
	if (!err && lseek(fd, 0, SEEK_SET) < 0)
		err = -errno;
	if (!err)
		return fd;
	close(fd);
	return err;
}

/*
 * Search only the system's program folders; a file name in the capture never decides which program
 * runs.
 */
static bool find_tool(const char *tool, char *path, size_t capacity)
{
	static const char *const folders[] = { "/usr/bin", "/bin", "/usr/local/bin" };

	for (unsigned i = 0; i < sizeof folders / sizeof *folders; i++) {
		snprintf(path, capacity, "%s/%s", folders[i], tool);
		if (access(path, X_OK) == 0)
			return true;
	}
	return false;
}

static int start_unpacker(const struct hr_packer *p, const char *path, int in, int out,
			  pid_t *child)
{
	char *const environment[] = { (char *)(uintptr_t) "PATH=/usr/bin:/bin",
				      (char *)(uintptr_t) "LC_ALL=C", NULL };
	char *const arguments[] = { (char *)(uintptr_t)p->tool, (char *)(uintptr_t)p->options[0],
				    (char *)(uintptr_t)p->options[1], NULL };
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attributes;
	sigset_t none, pipes;
	int err;

	sigemptyset(&none);
	sigemptyset(&pipes);
	sigaddset(&pipes, SIGPIPE);
	if (posix_spawn_file_actions_init(&files))
		return -ENOMEM;
	posix_spawnattr_init(&attributes);
	posix_spawnattr_setsigmask(&attributes, &none);
	posix_spawnattr_setsigdefault(&attributes, &pipes);
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
	err = posix_spawn_file_actions_adddup2(&files, in, STDIN_FILENO);
	if (!err)
		err = posix_spawn_file_actions_adddup2(&files, out, STDOUT_FILENO);
	if (!err)
		err = posix_spawn_file_actions_addopen(&files, STDERR_FILENO, "/dev/null", O_WRONLY,
						       0);
	if (!err)
		err = posix_spawn(child, path, &files, &attributes, arguments, environment);
	posix_spawnattr_destroy(&attributes);
	posix_spawn_file_actions_destroy(&files);
	return -err;
}

/* Read the tool's output. Returns its length, or -EFBIG: more than fits. */
static ssize_t read_unpacked(int from, char *to, size_t capacity)
{
	size_t have = 0;
	ssize_t n;

	for (;;) {
		n = read(from, to + have, capacity - have);
		if (n < 0 && errno != EINTR)
			return -errno;
		if (n == 0)
			return (ssize_t)have;
		have += n > 0 ? (size_t)n : 0;
		if (have == capacity)
			return -EFBIG;
	}
}

static int end_unpacker(pid_t child, bool stop)
{
	int status;

	if (stop)
		kill(child, SIGKILL);
	while (waitpid(child, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	return stop || (WIFEXITED(status) && WEXITSTATUS(status) == 0) ? 0 : -EINVAL;
}

static int run_unpacker(struct hr_model *m, const struct hr_packer *p, int packed, char **out,
			size_t *size)
{
	char path[64], *to = hr_model_alloc(m, HR_UNPACKED_MAX + 1);
	int pipes[2], err;
	ssize_t got;
	pid_t child = -1;

	if (!to)
		return -ENOMEM;
	if (!find_tool(p->tool, path, sizeof path))
		return hr_fail(&m->error, HR_ERROR_USAGE, -EINVAL,
			       "%s, which is not installed here: unpack it first", p->form);
	if (pipe2(pipes, O_CLOEXEC))
		return -errno;
	err = start_unpacker(p, path, packed, pipes[1], &child);
	close(pipes[1]);
	got = err ? err : read_unpacked(pipes[0], to, HR_UNPACKED_MAX);
	close(pipes[0]);
	if (!err)
		err = end_unpacker(child, got < 0);
	if (got == -EFBIG)
		return hr_fail(&m->error, HR_ERROR_USAGE, -EINVAL,
			       "unpacked by %s it is larger than %u MiB", p->tool,
			       HR_UNPACKED_MAX >> 20);
	if (got < 0)
		return (int)got;
	if (err == -EINVAL)
		return hr_fail(&m->error, HR_ERROR_USAGE, err,
			       "%s cannot unpack it: damaged or cut off", p->tool);
	*out = to;
	*size = (size_t)got;
	return err;
}

int hr_unpack(struct hr_model *m, const struct hr_packer *p, const char *head, size_t have, int fd,
	      char **out, size_t *size)
{
	int packed = keep_packed(head, have, fd), err;

	if (packed == -EFBIG)
		return hr_fail(&m->error, HR_ERROR_USAGE, -EINVAL, "larger than %u MiB",
			       PACKED_MAX >> 20);
	if (packed < 0)
		return packed;
	err = run_unpacker(m, p, packed, out, size);
	close(packed);
	return err;
}
