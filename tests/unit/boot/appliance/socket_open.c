/*
 * Sockets of appliances, taps and feeds: the folder that each environment gives, the reason why one is
 * not used, the permissions of a socket file, and what a failure leaves. Some system calls are those of
 * the test.
 */
#include "boot/appliance/socket.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/harness/error.h"

#define ROWS(table) (sizeof(table) / sizeof(*(table)))
#define OTHER "/other" /* a folder of user 77, as is HR_SOCKET_ROOT */

static char folder[64];
static uid_t user;
static mode_t other_mode;
static int backlog_of;
static uint32_t given_to; /* the group of the newest lchown() */
static enum call { NO_CALL, LCHOWN, CHMOD, LISTEN, SOCKET, BIND } fails;
static unsigned fails_at, calls_of[BIND + 1]; /* the number of the call that fails, from 1 */

static bool is_failing(enum call what)
{
	if (++calls_of[what] != fails_at || fails != what)
		return false;
	errno = EPERM;
	return true;
}

uid_t geteuid(void)
{
	return user;
}

int lstat(const char *restrict path, struct stat *restrict st)
{
	if (strcmp(path, OTHER) != 0 && strcmp(path, HR_SOCKET_ROOT) != 0)
		return (int)syscall(SYS_lstat, path, st);
	memset(st, 0, sizeof *st);
	st->st_mode = S_IFDIR | other_mode;
	st->st_uid = 77;
	return 0;
}

int lchown(const char *path, uid_t owner, gid_t group)
{
	cr_expect_eq(owner, (uid_t)-1);
	given_to = group;
	return is_failing(LCHOWN) ? -1 : 0;
}

int chmod(const char *path, mode_t mode)
{
	return is_failing(CHMOD) ? -1 : (int)syscall(SYS_chmod, path, mode);
}

int listen(int fd, int backlog)
{
	backlog_of = backlog;
	return is_failing(LISTEN) ? -1 : (int)syscall(SYS_listen, fd, backlog);
}

int socket(int domain, int type, int protocol)
{
	return is_failing(SOCKET) ? -1 : (int)syscall(SYS_socket, domain, type, protocol);
}

int bind(int fd, const struct sockaddr *at, socklen_t bytes)
{
	return is_failing(BIND) ? -1 : (int)syscall(SYS_bind, fd, at, bytes);
}

static void begin(void)
{
	user = (uid_t)syscall(SYS_geteuid);
	other_mode = 0755;
	snprintf(folder, sizeof folder, "/tmp/headrace-open-XXXXXX");
	cr_assert(mkdtemp(folder));
	cr_assert_eq(syscall(SYS_chmod, folder, 0755), 0);
	setenv("RUNTIME_DIRECTORY", folder, 1);
	unsetenv("XDG_RUNTIME_DIR");
}

static void end(void)
{
	char command[128];

	snprintf(command, sizeof command, "rm -rf %s", folder);
	cr_assert_eq(system(command), 0);
}

TestSuite(socket_open, .init = begin, .fini = end, .timeout = 60);

static void set(const char *variable, const char *value)
{
	if (value)
		setenv(variable, value, 1);
	else
		unsetenv(variable);
}

Test(socket_open, the_folder_of_each_environment)
{
	static const struct {
		const char *runtime, *user_runtime;
		uid_t user;
		size_t bytes;
		int want;
		const char *path;
	} row[] = {
		{ "/nowhere/a", "/nowhere/b", 5, 64, -ENOENT, "/nowhere/a" },
		{ "/nowhere/a:/nowhere/c", NULL, 0, 64, -ENOENT, "/nowhere/a" },
		{ "", "/nowhere/b", 5, 64, -ENOENT, "/nowhere/b/headrace" },
		{ NULL, "/nowhere/b", 5, 64, -ENOENT, "/nowhere/b/headrace" },
		{ NULL, "/nowhere/b", 5, 20, -ENOENT, "/nowhere/b/headrace" },
		{ NULL, "/nowhere/b", 5, 19, -ENAMETOOLONG, "/nowhere/b/headrac" },
		{ "/nowhere/a", NULL, 5, 11, -ENOENT, "/nowhere/a" },
		{ "/nowhere/a", NULL, 5, 10, -ENAMETOOLONG, "/nowhere/" },
		{ NULL, "", 5, 64, -ENOKEY, "" },
		{ NULL, NULL, 5, 64, -ENOKEY, "" },
		{ NULL, "/nowhere/b", 0, 64, 0, HR_SOCKET_ROOT },
		{ "", NULL, 0, 14, 0, HR_SOCKET_ROOT },
		{ "", NULL, 0, 13, -ENAMETOOLONG, "/run/headrac" },
		{ OTHER, NULL, 5, 64, -EPERM, OTHER },
		{ OTHER, NULL, 77, 64, 0, OTHER },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		char path[64] = "";

		set("RUNTIME_DIRECTORY", row[i].runtime);
		set("XDG_RUNTIME_DIR", row[i].user_runtime);
		user = row[i].user;
		cr_expect_eq(hr_socket_directory(path, row[i].bytes, false), row[i].want, "row %zu",
			     i);
		cr_expect_str_eq(path, row[i].path, "row %zu: %s", i, path);
	}
}

Test(socket_open, a_folder_is_made_only_when_asked)
{
	char want[80], path[128];
	struct stat st;

	snprintf(want, sizeof want, "%s/new", folder);
	setenv("RUNTIME_DIRECTORY", want, 1);
	cr_expect_eq(hr_socket_directory(path, sizeof path, false), -ENOENT);
	umask(022);
	cr_expect_eq(hr_socket_directory(path, sizeof path, true), 0);
	cr_expect_str_eq(path, want);
	cr_assert_eq(stat(want, &st), 0);
	cr_expect_eq(st.st_mode, S_IFDIR | 0755u);
	cr_expect_eq(hr_socket_directory(path, sizeof path, true), 0); /* it is there */
	cr_expect_eq(hr_socket_directory(path, sizeof path, false), 0);
}

Test(socket_open, owners_and_permissions_of_a_folder)
{
	static const struct {
		const char *path;
		mode_t mode;
		uid_t user;
		bool own;
		int want;
	} row[] = {
		{ OTHER, 0755, 77, true, 0 },
		{ OTHER, 0755, 77, false, 0 },
		{ OTHER, 0755, 5, true, -EPERM },
		{ OTHER, 0755, 5, false, -EPERM },
		{ OTHER, 0755, 0, true, -EPERM },
		{ OTHER, 0755, 0, false, -EPERM },
		{ OTHER, 0775, 77, true, -EPERM },
		{ OTHER, 0757, 77, true, -EPERM },
		{ OTHER, 01777, 77, false, -EPERM },
		{ OTHER, 0700, 77, true, 0 },
		{ HR_SOCKET_ROOT, 0755, 5, false, 0 },
		{ HR_SOCKET_ROOT, 0755, 5, true, -EPERM },
		{ HR_SOCKET_ROOT, 0775, 5, false, -EPERM },
	};
	char link[96];

	for (size_t i = 0; i < ROWS(row); i++) {
		other_mode = row[i].mode;
		user = row[i].user;
		cr_expect_eq(hr_socket_check(row[i].path, row[i].own), row[i].want, "row %zu", i);
	}
	/* /proc belongs to root */
	user = 5;
	cr_expect_eq(hr_socket_check("/proc", false), 0);
	cr_expect_eq(hr_socket_check("/proc", true), -EPERM);
	cr_expect_eq(hr_socket_check("/proc/cmdline", false), -ENOTDIR);
	cr_expect_eq(hr_socket_check("/nowhere", false), -ENOENT);
	snprintf(link, sizeof link, "%s/link", folder);
	cr_assert_eq(symlink("/proc", link), 0);
	cr_expect_eq(hr_socket_check(link, false), -ENOTDIR);
}

#define LONG                                                                                       \
	"/too/long/for/a/socket/too/long/for/a/socket/too/long/for/a/socket/too/long/for/a/socket" \
	"/too/long/for/a/soc"

Test(socket_open, the_reason_why_a_folder_is_not_used)
{
	static const struct {
		int err;
		const char *runtime, *user_runtime;
		uid_t user;
		mode_t mode;
		const char *text;
	} row[] = {
		{ -ENOKEY, NULL, NULL, 5, 0,
		  "neither RUNTIME_DIRECTORY nor XDG_RUNTIME_DIR is set" },
		{ -EPERM, OTHER, NULL, 5, 0755,
		  "RUNTIME_DIRECTORY /other: belongs to user 77, expected 5" },
		{ -EPERM, NULL, NULL, 0, 0755, "/run/headrace: belongs to user 77, expected 0" },
		{ -EPERM, OTHER, NULL, 77, 01775,
		  "RUNTIME_DIRECTORY /other: others may write to it: mode 1775, expected 0755" },
		{ -EPERM, "/nowhere", NULL, 5, 0,
		  "RUNTIME_DIRECTORY /nowhere: No such file or directory" },
		{ -EACCES, NULL, "/nowhere", 5, 0,
		  "XDG_RUNTIME_DIR /nowhere/headrace: Permission denied" },
		{ -EINVAL, "/a:/b", NULL, 5, 0, "RUNTIME_DIRECTORY /a: Invalid argument" },
		{ -ENAMETOOLONG, LONG "ket", NULL, 5, 0,
		  "RUNTIME_DIRECTORY " LONG ": too long for a socket, expected at most 107 bytes "
		  "with the appliance's name" },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		char text[300];

		set("RUNTIME_DIRECTORY", row[i].runtime);
		set("XDG_RUNTIME_DIR", row[i].user_runtime);
		user = row[i].user;
		other_mode = row[i].mode;
		cr_expect_eq(hr_socket_reason(row[i].err, text, sizeof text), text);
		cr_expect_str_eq(text, row[i].text, "row %zu: %s", i, text);
	}
}

Test(socket_open, addresses)
{
	static const struct {
		const char *directory, *name;
		int want;
		const char *path;
	} row[] = {
		{ "/run/headrace", "box", 0, "/run/headrace/box.sock" },
		{ "/a", "", -EINVAL, NULL },
		{ "/a", "b/c", -EINVAL, NULL },
		{ "/a", "/", -EINVAL, NULL },
		{ LONG, "", -EINVAL, NULL },
		{ LONG + 7, "x", 0, &(LONG "/x.sock")[7] },
		{ LONG + 6, "x", -ENAMETOOLONG, NULL },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		struct sockaddr_un at, want = { .sun_family = AF_UNIX };

		memset(&at, 0xee, sizeof at);
		cr_expect_eq(hr_socket_address(&at, row[i].directory, row[i].name), row[i].want,
			     "row %zu", i);
		if (row[i].want)
			continue;
		strncpy(want.sun_path, row[i].path, sizeof want.sun_path - 1);
		cr_expect_eq(memcmp(&at, &want, sizeof at), 0, "row %zu: %s", i, at.sun_path);
	}
}

typedef int open_fn(struct sockaddr_un *at, const char *name,
		    const struct hr_config_control *control, struct hr_error *e);

static const struct kind {
	open_fn *open;
	const char *ending, *owner, *group;
	int type;
} kind[] = {
	{ hr_socket_listen, "sock", "an appliance of this name runs", "control.group",
	  SOCK_STREAM },
	{ hr_socket_listen_tap, "tap", "a tap of this name is open", "group of the sink",
	  SOCK_SEQPACKET },
	{ hr_socket_listen_feed, "feed", "a feed of this name is open", "group of the source",
	  SOCK_SEQPACKET },
};

static const struct hr_config_control own = { .mode = 0600, .group = HR_CONTROL_NO_GROUP };

/* Each kind beside the others; a second one of the same name; and one after its death. */
Test(socket_open, kinds_of_sockets)
{
	int fd[ROWS(kind)];

	for (size_t i = 0; i < ROWS(kind); i++) {
		struct sockaddr_un at, again;
		char want[128], text[256];
		socklen_t bytes = sizeof(int);
		int type = 0;

		fd[i] = kind[i].open(&at, "n", &own, test_error());
		cr_assert_geq(fd[i], 0, "%s", test_error_text());
		snprintf(want, sizeof want, "%s/n.%s", folder, kind[i].ending);
		cr_expect_str_eq(at.sun_path, want);
		cr_expect_eq(backlog_of, 128);
		cr_assert_eq(getsockopt(fd[i], SOL_SOCKET, SO_TYPE, &type, &bytes), 0);
		cr_expect_eq(type, kind[i].type);
		cr_expect(fcntl(fd[i], F_GETFL) & O_NONBLOCK);
		cr_expect(fcntl(fd[i], F_GETFD) & FD_CLOEXEC);
		cr_expect_eq(kind[i].open(&again, "n", &own, test_error()), -EADDRINUSE);
		snprintf(text, sizeof text, "%s: %s already", want, kind[i].owner);
		cr_expect_str_eq(test_error_text(), text);
		cr_expect_eq(test_error_kind(), HR_ERROR_MISSING);
		cr_expect_eq(access(want, F_OK), 0); /* the other one keeps its file */
	}
	for (size_t i = 0; i < ROWS(kind); i++) {
		struct sockaddr_un at;

		close(fd[i]);
		fd[i] = kind[i].open(&at, "n", &own, test_error());
		cr_expect_geq(fd[i], 0, "%s", test_error_text());
		close(fd[i]);
	}
}

/* To connect needs the permission to write; the mode of an appliance has those to read, too. */
Test(socket_open, modes_of_the_file)
{
	static const struct {
		uint32_t mode, group;
		mode_t want;
		uint32_t given_to;
	} row[] = {
		{ 0600, HR_CONTROL_NO_GROUP, 0600, 1 },
		{ 0000, HR_CONTROL_NO_GROUP, 0600, 1 },
		{ 0640, 9, 0660, 9 },
		{ 0620, 9, 0660, 9 },
		{ 0660, 9, 0660, 9 },
		{ 0610, 9, 0600, 9 },
		{ 0604, HR_CONTROL_NO_GROUP, 0606, 1 },
		{ 0602, HR_CONTROL_NO_GROUP, 0606, 1 },
		{ 0601, HR_CONTROL_NO_GROUP, 0600, 1 },
		{ 0644, 0, 0666, 0 },
		{ 0700, HR_CONTROL_NO_GROUP, 0600, 1 },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		const struct hr_config_control control = { .mode = row[i].mode,
							   .group = row[i].group };
		struct sockaddr_un at;
		struct stat st;
		int fd;

		given_to = 1;
		fd = hr_socket_listen(&at, "n", &control, test_error());
		cr_assert_geq(fd, 0, "row %zu: %s", i, test_error_text());
		cr_assert_eq(stat(at.sun_path, &st), 0);
		cr_expect_eq(st.st_mode & 07777, row[i].want, "row %zu: %o", i, st.st_mode);
		cr_expect_eq(given_to, row[i].given_to, "row %zu", i);
		close(fd);
	}
}

/* A descriptor that stays open would take this number. */
static int next_fd(void)
{
	const int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	close(fd);
	return fd;
}

Test(socket_open, a_failure_leaves_no_file)
{
	static const struct {
		enum call call;
		unsigned at;
		int err;
		const char *text; /* after the path */
		bool dead;	  /* the file of a dead process is there */
		bool stays;
	} row[] = {
		{ SOCKET, 1, -EPERM, "Operation not permitted", false, false },
		{ BIND, 1, -EPERM, "Operation not permitted", false, false },
		{ LCHOWN, 1, -EPERM,
		  "cannot be given to group 9 (group of the sink): Operation not permitted", false,
		  false },
		{ CHMOD, 1, -EPERM, "cannot get the mode 0660: Operation not permitted", false,
		  false },
		{ LISTEN, 1, -EPERM, "Operation not permitted", false, false },
		{ BIND, 2, -EPERM, "Operation not permitted", true, false },
		{ SOCKET, 2, -EADDRINUSE, "a tap of this name is open already", true, true },
		{ CHMOD, 1, -EPERM, "cannot get the mode 0660: Operation not permitted", true,
		  false },
	};
	const struct hr_config_control control = { .mode = 0640, .group = 9 };

	for (size_t i = 0; i < ROWS(row); i++) {
		char want[256], path[128];
		struct sockaddr_un at;
		const int before = next_fd();

		fails = NO_CALL;
		if (row[i].dead)
			close(hr_socket_listen_tap(&at, "n", &control, test_error()));
		memset(calls_of, 0, sizeof calls_of);
		fails = row[i].call;
		fails_at = row[i].at;
		cr_expect_eq(hr_socket_listen_tap(&at, "n", &control, test_error()), row[i].err,
			     "row %zu", i);
		snprintf(path, sizeof path, "%s/n.tap", folder);
		snprintf(want, sizeof want, "%s: %s", path, row[i].text);
		cr_expect_str_eq(test_error_text(), want, "row %zu: %s", i, test_error_text());
		cr_expect_eq(test_error_kind(), HR_ERROR_MISSING);
		cr_expect_eq(access(path, F_OK) == 0, row[i].stays, "row %zu", i);
		cr_expect_eq(next_fd(), before, "row %zu", i);
		unlink(path);
	}
	fails = NO_CALL;
}
