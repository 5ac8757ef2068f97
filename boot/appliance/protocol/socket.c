/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/appliance/protocol/socket.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/base/seam.h"

#define BACKLOG 128
#define BORN_S 10 /* an owner listens sooner after it has made its file */

/* ---- the directory */

int hr_socket_check(const char *path, bool own)
{
	const bool of_root = strcmp(path, HR_SOCKET_ROOT) == 0;
	struct stat st;

	if (lstat(path, &st) != 0)
		return -errno;
	if (!S_ISDIR(st.st_mode))
		return -ENOTDIR;
	if (st.st_mode & (S_IWGRP | S_IWOTH))
		return -EPERM;
	if (st.st_uid == geteuid() || (!own && (st.st_uid == 0 || of_root)))
		return 0;
	return -EPERM;
}

/* The variable that names the folder, or NULL; -ENOKEY: no variable is set. */
static int name_directory(char *path, size_t bytes, const char **variable)
{
	const char *given = getenv("RUNTIME_DIRECTORY"), *user = getenv("XDG_RUNTIME_DIR");
	int n;

	*variable = NULL;
	if (given && *given) {
		*variable = "RUNTIME_DIRECTORY";
		n = snprintf(path, bytes, "%.*s", (int)strcspn(given, ":"), given);
	} else if (geteuid() == 0) {
		n = snprintf(path, bytes, HR_SOCKET_ROOT);
	} else if (user && *user) {
		*variable = "XDG_RUNTIME_DIR";
		n = snprintf(path, bytes, "%s/headrace", user);
	} else {
		return -ENOKEY;
	}
	return n < 0 || (size_t)n >= bytes ? -ENAMETOOLONG : 0;
}

int hr_socket_directory(char *path, size_t bytes, bool make)
{
	const char *variable;
	int err = name_directory(path, bytes, &variable);

	if (err)
		return err;
	if (make && mkdir(path, 0755) != 0 && errno != EEXIST)
		return -errno;
	return hr_socket_check(path, make);
}

static void explain_owner(const char *path, char *text, size_t bytes)
{
	struct stat st;

	if (lstat(path, &st) != 0)
		snprintf(text, bytes, "%s", strerror(errno));
	else if (st.st_uid != geteuid())
		snprintf(text, bytes, "belongs to user %u, expected %u", (unsigned)st.st_uid,
			 (unsigned)geteuid());
	else
		snprintf(text, bytes, "others may write to it: mode %04o, expected 0755",
			 (unsigned)st.st_mode & 07777);
}

const char *hr_socket_reason(int err, char *text, size_t bytes)
{
	char path[sizeof(((struct sockaddr_un *)0)->sun_path)] = "", why[128];
	const char *variable;

	name_directory(path, sizeof path, &variable);
	if (err == -ENOKEY)
		snprintf(why, sizeof why, "neither RUNTIME_DIRECTORY nor XDG_RUNTIME_DIR is set");
	else if (err == -EPERM)
		explain_owner(path, why, sizeof why);
	else if (err == -ENAMETOOLONG)
		snprintf(why, sizeof why,
			 "too long for a socket, expected at most %zu bytes with "
			 "the appliance's name",
			 sizeof path - 1);
	else
		snprintf(why, sizeof why, "%s", strerror(-err));
	snprintf(text, bytes, "%s%s%s%s%s", variable ? variable : "", variable ? " " : "", path,
		 *path ? ": " : "", why);
	return text;
}

/* ---- the socket */

/* The kinds of sockets; their names differ in the ending. */
static const struct kind {
	const char *ending, *owner, *group;
	int type;
} kinds[] = { { "sock", "an appliance of this name runs", "control.group", SOCK_STREAM },
	      { "tap", "a tap of this name is open", "group of the sink", SOCK_SEQPACKET },
	      { "feed", "a feed of this name is open", "group of the source", SOCK_SEQPACKET } };

static int name_socket(struct sockaddr_un *at, const char *directory, const char *name,
		       const struct kind *kind)
{
	int n;

	if (!*name || strchr(name, '/'))
		return -EINVAL;
	memset(at, 0, sizeof *at);
	at->sun_family = AF_UNIX;
	n = snprintf(at->sun_path, sizeof at->sun_path, "%s/%s.%s", directory, name, kind->ending);
	return n < 0 || (size_t)n >= sizeof at->sun_path ? -ENAMETOOLONG : 0;
}

int hr_socket_address(struct sockaddr_un *at, const char *directory, const char *name)
{
	return name_socket(at, directory, name, &kinds[0]);
}

/* True: no process listens at this socket file. */
static bool is_dead(const struct sockaddr_un *at, int type)
{
	const int probe = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	const bool dead = probe >= 0 &&
			  connect(probe, (const struct sockaddr *)at, sizeof(*at)) != 0 &&
			  errno == ECONNREFUSED;

	if (probe >= 0)
		close(probe);
	return dead;
}

/*
 * Move the file aside first, because a new owner may have replaced it after it was found dead: then
 * it goes back.
 */
static void remove_dead(const char *path, ino_t dead)
{
	char aside[sizeof(((struct sockaddr_un *)0)->sun_path) + 16];
	struct stat st;

	snprintf(aside, sizeof aside, "%s.%d", path, (int)getpid());
	if (rename(path, aside) != 0)
		return;
	if (lstat(aside, &st) != 0 || st.st_ino != dead)
		(void)!link(aside, path);
	unlink(aside);
}

bool hr_socket_lives(const struct sockaddr_un *at)
{
	struct stat st;

	if (lstat(at->sun_path, &st) != 0 || !S_ISSOCK(st.st_mode))
		return false;
	if (!is_dead(at, SOCK_STREAM))
		return true;
	if ((int64_t)(hr_wall_ns() / HR_NS_PER_S) - st.st_mtime > BORN_S)
		remove_dead(at->sun_path, st.st_ino);
	return false;
}

/* The socket file of a dead owner refuses connections and blocks the name, so it is replaced. */
static int bind_at(int fd, const struct sockaddr_un *at, int type)
{
	const struct sockaddr *address = (const struct sockaddr *)at;

	if (bind(fd, address, sizeof(*at)) == 0)
		return 0;
	if (errno != EADDRINUSE)
		return -errno;
	if (!is_dead(at, type))
		return -EADDRINUSE;
	unlink(at->sun_path);
	return bind(fd, address, sizeof(*at)) == 0 ? 0 : -errno;
}

/* To connect needs `w`; the appliance decides by the credentials of a client which requests it may
 * send. */
static int permit(const char *path, const struct hr_config_control *control,
		  const struct kind *kind, struct hr_error *e)
{
	const mode_t mode =
		0600u | (control->mode & 0060u ? 0060u : 0) | (control->mode & 0006u ? 0006u : 0);

	if (control->group != HR_CONTROL_NO_GROUP && lchown(path, (uid_t)-1, control->group) != 0)
		return hr_fail(e, HR_ERROR_MISSING, -errno,
			       "%s: cannot be given to group %u (%s): %s", path, control->group,
			       kind->group, strerror(errno));
	if (chmod(path, mode) != 0)
		return hr_fail(e, HR_ERROR_MISSING, -errno, "%s: cannot get the mode %04o: %s",
			       path, (unsigned)mode, strerror(errno));
	return 0;
}

/* Clients can connect only after listen(), so no client gets in before the permissions are set. */
static int listen_at(int fd, const struct sockaddr_un *at, const struct hr_config_control *control,
		     const struct kind *kind, struct hr_error *e)
{
	int err = bind_at(fd, at, kind->type);

	if (err == -EADDRINUSE)
		return hr_fail(e, HR_ERROR_MISSING, err, "%s: %s already", at->sun_path,
			       kind->owner);
	if (err)
		return hr_fail(e, HR_ERROR_MISSING, err, "%s: %s", at->sun_path, strerror(-err));
	err = permit(at->sun_path, control, kind, e);
	if (!err && listen(fd, BACKLOG) != 0)
		err = hr_fail(e, HR_ERROR_MISSING, -errno, "%s: %s", at->sun_path, strerror(errno));
	if (err)
		unlink(at->sun_path);
	return err;
}

static int open_socket(struct sockaddr_un *at, const char *name,
		       const struct hr_config_control *control, const struct kind *kind,
		       struct hr_error *e)
{
	char directory[sizeof(at->sun_path)], reason[HR_LOG_LINE_MAX / 2];
	int err = hr_socket_directory(directory, sizeof directory, true), fd;

	if (!err)
		err = name_socket(at, directory, name, kind);
	if (err)
		return hr_fail(e, HR_ERROR_MISSING, err, "%s",
			       hr_socket_reason(err, reason, sizeof reason));
	fd = socket(AF_UNIX, kind->type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return hr_fail(e, HR_ERROR_MISSING, -errno, "%s: %s", at->sun_path,
			       strerror(errno));
	err = listen_at(fd, at, control, kind, e);
	if (err)
		close(fd);
	return err ? err : fd;
}

int hr_socket_listen(struct sockaddr_un *at, const char *name,
		     const struct hr_config_control *control, struct hr_error *e)
{
	return open_socket(at, name, control, &kinds[0], e);
}

int hr_socket_listen_tap(struct sockaddr_un *at, const char *name,
			 const struct hr_config_control *control, struct hr_error *e)
{
	return open_socket(at, name, control, &kinds[1], e);
}

int hr_socket_listen_feed(struct sockaddr_un *at, const char *name,
			  const struct hr_config_control *control, struct hr_error *e)
{
	return open_socket(at, name, control, &kinds[2], e);
}
