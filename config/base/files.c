#include "config/base/files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/base/seam.h"

static int refuse(int err, const char *text, const char **why)
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
			       : refuse(-EISDIR, "is a folder, expected a file", why);
	if (S_ISFIFO(mode))
		return any || types & HR_OPEN_PIPE
			       ? 0
			       : refuse(-EINVAL, "is a FIFO, expected a file", why);
	if (S_ISCHR(mode) || S_ISBLK(mode))
		return any ? 0 : refuse(-EINVAL, "is a device, expected a file", why);
	return refuse(-EINVAL, "is a socket, expected a file", why);
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

static int settle(int fd, unsigned types, const char **why)
{
	struct stat st;
	int err;

	if (fstat(fd, &st) != 0)
		return refuse(-errno, strerror(errno), why);
	err = check_type(st.st_mode, types, why);
	if (!err && S_ISFIFO(st.st_mode) && !(types & HR_OPEN_ANY) &&
	    !hr_wait_readable(fd, HR_OPEN_PIPE_NS) && !has_writer(fd))
		err = refuse(-ETIMEDOUT, "is a FIFO that no process has opened for writing in 5 s",
			     why);
	if (!err && fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK) != 0)
		err = refuse(-errno, strerror(errno), why);
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
		return refuse(-errno, strerror(errno), why);
	err = settle(fd, types, why);
	if (err)
		close(fd);
	return err ? err : fd;
}
