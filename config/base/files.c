/* SPDX-License-Identifier: Apache-2.0 */
#include "config/base/files.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/base/seam.h"

static int refuse_file(int err, const char *text, const char **why)
{
	*why = text;
	return err;
}

static int check_type(mode_t mode, unsigned types, const char **why)
{
	const bool any = types & HR_OPEN_ANY;

	if (S_ISREG(mode))
		return 0;
	if (S_ISDIR(mode))
		return types & HR_OPEN_FOLDER
			       ? 0
			       : refuse_file(-EISDIR, "is a folder, expected a file", why);
	if (S_ISFIFO(mode))
		return any || types & HR_OPEN_PIPE
			       ? 0
			       : refuse_file(-EINVAL, "is a FIFO, expected a file", why);
	if (S_ISCHR(mode) || S_ISBLK(mode))
		return any ? 0 : refuse_file(-EINVAL, "is a device, expected a file", why);
	return refuse_file(-EINVAL, "is a socket, expected a file", why);
}

/* tee() looks at a pipe without taking anything: 0 says that it is empty and has no writer. */
static bool has_writer(int fifo)
{
	int copy[2];
	bool has;

	if (pipe2(copy, O_CLOEXEC) != 0)
		return false;
	has = tee(fifo, copy[1], 1, SPLICE_F_NONBLOCK) != 0;
	close(copy[0]);
	close(copy[1]);
	return has;
}

static int check_opened_file(int fd, unsigned types, const char **why)
{
	struct stat st;
	int err;

	if (fstat(fd, &st) != 0)
		return refuse_file(-errno, strerror(errno), why);
	err = check_type(st.st_mode, types, why);
	if (!err && S_ISFIFO(st.st_mode) && !(types & HR_OPEN_ANY) &&
	    !hr_wait_readable(fd, HR_OPEN_PIPE_NS) && !has_writer(fd))
		err = refuse_file(-ETIMEDOUT,
				  "is a FIFO that no process has opened for writing in 5 s", why);
	if (!err && fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK) != 0)
		err = refuse_file(-errno, strerror(errno), why);
	return err;
}

int hr_open(const char *path, int flags, unsigned types, const char **why)
{
	const int wait = types & HR_OPEN_ANY ? 0 : O_NONBLOCK;
	struct stat st;
	int err = 0, fd;

	if (stat(path, &st) == 0)
		err = check_type(st.st_mode, types, why);
	if (err)
		return err;
	fd = open(path, flags | wait | O_CLOEXEC | O_NOCTTY, 0600);
	if (fd < 0)
		return refuse_file(-errno, strerror(errno), why);
	err = check_opened_file(fd, types, why);
	if (err)
		close(fd);
	return err ? err : fd;
}

/* ---- files that this process obeys */

#define WRITES 0022u
#define PIECE (256u << 10)

#ifndef MFD_EXEC /* Linux 6.3 */
#define MFD_EXEC 0x0010U
#endif

/* Cut the last part of an absolute path; false: it was "/". */
static bool go_up(char *path)
{
	char *slash = strrchr(path, '/');

	if (!slash || !path[1])
		return false;
	slash[slash == path] = '\0';
	return true;
}

/*
 * Write access to the folder of the program already permits more than write access to one of its
 * files.
 */
static bool leads_to_program(const char *folder)
{
	const size_t n = folder[1] ? strlen(folder) : 0;
	char path[PATH_MAX];

	return realpath("/proc/self/exe", path) && strncmp(path, folder, n) == 0 && path[n] == '/';
}

static bool owns_program(uid_t user)
{
	char path[PATH_MAX];
	struct stat st;

	if (!realpath("/proc/self/exe", path))
		return false;
	do
		if (stat(path, &st) == 0 && st.st_uid == user)
			return true;
	while (go_up(path));
	return false;
}

static bool is_trusted(uid_t user)
{
	return user == 0 || user == geteuid() || owns_program(user);
}

static int check_folder(const char *path, struct hr_error *e)
{
	struct stat st;

	if (leads_to_program(path))
		return 0;
	if (stat(path, &st) != 0)
		return hr_fail(e, HR_ERROR_MISSING, -errno, "lies in %s: %s", path,
			       strerror(errno));
	if (!is_trusted(st.st_uid))
		return hr_fail(
			e, HR_ERROR_USAGE, -EACCES,
			"lies in %s, which belongs to user %u, so that user could replace "
			"it; expected a folder of root or of user %u, as which headrace runs",
			path, (unsigned)st.st_uid, (unsigned)geteuid());
	if (st.st_mode & WRITES && !(st.st_mode & S_ISVTX))
		return hr_fail(e, HR_ERROR_USAGE, -EACCES,
			       "lies in %s, to which %s may write (mode %04o) and so replace it; "
			       "chmod go-w that folder",
			       path, st.st_mode & S_IWOTH ? "every user" : "its group",
			       (unsigned)st.st_mode & 07777u);
	return 0;
}

static int check_folders(char *real, struct hr_error *e)
{
	int err = 0;

	while (!err && go_up(real))
		err = check_folder(real, e);
	return err;
}

static int check_owner(const struct stat *st, enum hr_trust what, struct hr_error *e)
{
	const unsigned mode = st->st_mode & 0777u;

	if (!is_trusted(st->st_uid))
		return hr_fail(e, HR_ERROR_USAGE, -EACCES,
			       "belongs to user %u, not to a trusted one; expected a file of root "
			       "or of user %u, as which headrace runs",
			       (unsigned)st->st_uid, (unsigned)geteuid());
	if (!(mode & what))
		return 0;
	if (what == HR_TRUST_SECRET)
		return hr_fail(e, HR_ERROR_USAGE, -EACCES,
			       "may be accessed by other users (mode %04o); expected mode 0400 or "
			       "0600",
			       mode);
	return hr_fail(e, HR_ERROR_USAGE, -EACCES,
		       "may be written by %s (mode %04o), so %s could change code that headrace "
		       "runs; chmod go-w it",
		       mode & S_IWOTH ? "every user" : "its group", mode,
		       mode & S_IWOTH ? "every user" : "that group");
}

/* The folders of the file that is open, not those of a name that leads elsewhere by now. */
static int check_way(const char *path, const struct stat *st, struct hr_error *e)
{
	char real[PATH_MAX];
	struct stat now;

	if (!realpath(path, real) || stat(real, &now) != 0)
		return hr_fail(e, HR_ERROR_MISSING, -errno, "cannot be found: %s", strerror(errno));
	if (now.st_dev != st->st_dev || now.st_ino != st->st_ino)
		return hr_fail(e, HR_ERROR_FAILED, -EAGAIN,
			       "has been replaced while it was being opened; try again");
	return check_folders(real, e);
}

int hr_trust_open(const char *path, enum hr_trust what, struct hr_error *e)
{
	/* a key is a value of the configuration, code a part of this installation */
	const enum hr_error_kind absent =
		what == HR_TRUST_SECRET ? HR_ERROR_USAGE : HR_ERROR_MISSING;
	const char *why;
	const int fd = hr_open(path, O_RDONLY, HR_OPEN_FILE, &why);
	struct stat st;
	int err;

	if (fd < 0)
		return fd == -EISDIR || fd == -EINVAL
			       ? hr_fail(e, HR_ERROR_USAGE, fd, "%s", why)
			       : hr_fail(e, absent, fd, "cannot be opened: %s", why);
	err = fstat(fd, &st) == 0 ? check_owner(&st, what, e)
				  : hr_fail(e, HR_ERROR_MISSING, -errno, "cannot be examined: %s",
					    strerror(errno));
	if (!err)
		err = check_way(path, &st, e);
	if (err)
		close(fd);
	return err ? err : fd;
}

const char *hr_trust_name(int fd, char name[HR_TRUST_NAME])
{
	snprintf(name, HR_TRUST_NAME, "/proc/self/fd/%d", fd);
	return name;
}

/* ---- copies of such files */

static int make_memory(const char *name)
{
	int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_EXEC);

	if (fd < 0 && errno == EINVAL) /* a kernel before MFD_EXEC, where all may be executed */
		fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	return fd < 0 ? -errno : fd;
}

static int write_all(int fd, const uint8_t *data, size_t bytes)
{
	while (bytes) {
		const ssize_t n = write(fd, data, bytes);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		data += n;
		bytes -= (size_t)n;
	}
	return 0;
}

static int copy_descriptor(int from, int to, size_t limit, size_t *bytes)
{
	uint8_t *piece = malloc(PIECE);
	ssize_t n = 1;
	int err = piece ? 0 : -ENOMEM;

	*bytes = 0;
	while (!err && n) {
		n = read(from, piece, PIECE);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			err = -errno;
		else if ((size_t)n > limit - *bytes)
			err = -EFBIG;
		else
			err = write_all(to, piece, (size_t)n);
		*bytes += n > 0 ? (size_t)n : 0;
	}
	free(piece);
	return err;
}

int hr_trust_copy(int fd, const char *name, size_t limit, size_t *bytes, struct hr_error *e)
{
	static const int seals = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;
	const int memory = make_memory(name);
	int err = memory;

	if (memory >= 0)
		err = copy_descriptor(fd, memory, limit, bytes);
	if (!err && fcntl(memory, F_ADD_SEALS, seals) != 0)
		err = -errno;
	if (!err)
		return memory;
	if (memory >= 0)
		close(memory);
	if (err == -EFBIG)
		return hr_fail(e, HR_ERROR_USAGE, err, "has more than %zu bytes", limit);
	return hr_fail(e, HR_ERROR_MISSING, err, "cannot be read into memory: %s", strerror(-err));
}
