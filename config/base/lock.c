/* SPDX-License-Identifier: Apache-2.0 */
#include "config/base/lock.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FOLDER "headrace-locks"
#define PATH_BYTES 4096u

static void name_folder(char path[PATH_BYTES])
{
	const uid_t user = geteuid();
	const char *own = getenv("XDG_RUNTIME_DIR");

	if (user == 0)
		snprintf(path, PATH_BYTES, "/run/" FOLDER);
	else if (own && own[0] == '/' && strlen(own) < PATH_BYTES - sizeof FOLDER - 1)
		snprintf(path, PATH_BYTES, "%s/" FOLDER, own);
	else
		snprintf(path, PATH_BYTES, "/tmp/" FOLDER "-%u", (unsigned)user);
}

static int fail_lock(const char *path, const char *what, int err, struct hr_error *e)
{
	return hr_fail(e, HR_ERROR_MISSING, err, "%s: %s: %s", path, what, strerror(-err));
}

/* The descriptor of the folder, which belongs to this user alone. */
static int open_folder(const char *path, struct hr_error *e)
{
	struct stat st;
	int fd;

	if (geteuid() == 0)
		mkdir("/run", 0755); /* a rescue system may lack it */
	if (mkdir(path, 0700) != 0 && errno != EEXIST)
		return fail_lock(path, "the folder of locks cannot be made", -errno, e);
	fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) != 0) {
		const int err = -errno;

		if (fd >= 0)
			close(fd);
		return fail_lock(path, "the folder of locks cannot be opened", err, e);
	}
	if (st.st_uid == geteuid() && !(st.st_mode & (S_IWGRP | S_IWOTH)))
		return fd;
	close(fd);
	return hr_fail(e, HR_ERROR_MISSING, -EPERM,
		       "%s: the folder of locks belongs to user %u and has mode %04o, expected "
		       "user %u and 0700",
		       path, (unsigned)st.st_uid, (unsigned)st.st_mode & 07777u,
		       (unsigned)geteuid());
}

/* The name of a file: %xx for each other character, as a serial number may have them. */
static void name_file(const char *name, char file[3 * HR_LOCK_NAME])
{
	for (unsigned i = 0; i < HR_LOCK_NAME && name[i]; i++)
		if (isalnum((unsigned char)name[i]) || (i && strchr("-_.:", name[i])))
			*file++ = name[i];
		else
			file += sprintf(file, "%%%02x", (unsigned char)name[i]);
	*file = '\0';
}

int hr_lock(const char *name, struct hr_error *e)
{
	const struct flock whole = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	char path[PATH_BYTES], file[3 * HR_LOCK_NAME];
	int folder, fd, err = 0;

	name_folder(path);
	folder = open_folder(path, e);
	if (folder < 0)
		return folder;
	name_file(name, file);
	fd = openat(folder, file, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		err = fail_lock(path, file, -errno, e);
	else if (fcntl(fd, F_OFD_SETLK, &whole) != 0)
		err = errno == EAGAIN || errno == EACCES ? -EBUSY
							 : fail_lock(path, file, -errno, e);
	close(folder);
	if (err && fd >= 0)
		close(fd);
	return err ? err : fd;
}
