/*
 * The socket of a tap from a client's side: where it is looked for, in which folders it is trusted, and
 * which messages and descriptors are taken. Over real sockets; some system calls fail when asked to.
 */
#include "gpu/tap/client/connection.c"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>

#include "tests/harness/folder.h"

#define HIDDEN __attribute__((visibility("hidden")))

static char top[64], folder[80];
static int server = -1, pair[2];
static int receive_errors[2]; /* of the next calls of recvmsg() */
static int socket_error;
static long wait_s, wait_ns; /* of the last ppoll() */
static bool root_is_folder;  /* lstat() of ROOT_DIRECTORY is that of the folder */
static uid_t owner, user;

/* ---- calls of libc */

HIDDEN ssize_t recvmsg(int fd, struct msghdr *message, int flags)
{
	const int err = receive_errors[0];

	receive_errors[0] = receive_errors[1];
	receive_errors[1] = 0;
	cr_expect_eq(flags, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
	if (err) {
		errno = err;
		return -1;
	}
	return syscall(SYS_recvmsg, fd, message, flags);
}

HIDDEN int socket(int domain, int type, int protocol)
{
	cr_expect(domain == AF_UNIX && protocol == 0);
	if (socket_error) {
		errno = socket_error;
		return -1;
	}
	return (int)syscall(SYS_socket, domain, type, protocol);
}

HIDDEN int ppoll(struct pollfd *wanted, nfds_t count, const struct timespec *limit,
		 const __sigset_t *mask)
{
	struct timespec none = { 0, 0 };

	cr_expect(count == 1 && wanted->events == POLLIN && !mask);
	wait_s = limit->tv_sec;
	wait_ns = limit->tv_nsec;
	return (int)syscall(SYS_ppoll, wanted, count, &none, NULL, 8);
}

HIDDEN uid_t geteuid(void)
{
	return user;
}

/* The folder belongs to `owner`. */
HIDDEN int lstat(const char *path, struct stat *st)
{
	const bool root = strcmp(path, ROOT_DIRECTORY) == 0;
	const int err =
		fstatat(AT_FDCWD, root && root_is_folder ? folder : path, st, AT_SYMLINK_NOFOLLOW);

	st->st_uid = owner;
	return err;
}

/* ---- the fixture */

static unsigned descriptors(void)
{
	unsigned count = 0;

	for (int fd = 0; fd < 64; fd++)
		count += fcntl(fd, F_GETFD) >= 0;
	return count;
}

static void listen_at(const char *name)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };

	snprintf(at.sun_path, sizeof at.sun_path, "%s/%s", folder, name);
	server = (int)syscall(SYS_socket, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	cr_assert_eq(bind(server, (const struct sockaddr *)&at, sizeof at), 0);
	cr_assert_eq(listen(server, 0), 0);
}

static void begin(void)
{
	snprintf(top, sizeof top, "/tmp/headrace-unit-XXXXXX");
	cr_assert_not_null(mkdtemp(top));
	snprintf(folder, sizeof folder, "%s/headrace", top);
	cr_assert_eq(mkdir(folder, 0755), 0);
	cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	user = owner = 7;
	receive_errors[0] = receive_errors[1] = socket_error = 0;
	root_is_folder = false;
	unsetenv("RUNTIME_DIRECTORY");
	unsetenv("XDG_RUNTIME_DIR");
}

static void finish(void)
{
	close(pair[0]);
	close(pair[1]);
	if (server >= 0)
		close(server);
	server = -1;
	folder_remove(top);
}

TestSuite(connection, .init = begin, .fini = finish, .timeout = 60);

/* ---- time */

Test(connection, a_wait_has_its_limit_in_seconds_and_nanoseconds)
{
	const uint64_t began = hr_tap_now_ns();
	struct timespec now;

	cr_expect(!hr_tap_wait_ns(-1, 3000000007u));
	cr_expect(wait_s == 3 && wait_ns == 7);
	cr_expect(!hr_tap_wait_ns(pair[0], 999999999));
	cr_expect(wait_s == 0 && wait_ns == 999999999);
	cr_expect_eq(write(pair[1], "x", 1), 1);
	cr_expect(hr_tap_wait_ns(pair[0], 0));
	clock_gettime(CLOCK_MONOTONIC, &now);
	cr_expect_leq(hr_tap_now_ns() - began, UINT64_MAX / 2);
	cr_expect_leq((uint64_t)now.tv_sec * 1000000000u, hr_tap_now_ns());
	cr_expect_leq(began, (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec);
}

/* ---- messages */

Test(connection, a_message_begins_with_its_kind_and_version)
{
	struct hr_tap_message m, expected = { .magic = HR_TAP_MAGIC,
					      .kind = HR_TAP_READY,
					      .version_least = HR_TAP_VERSION,
					      .version = HR_TAP_VERSION };

	memset(&m, 0x77, sizeof m);
	hr_tap_begin(&m, HR_TAP_READY);
	cr_expect_eq(memcmp(&m, &expected, sizeof m), 0);
}

Test(connection, a_message_is_sent_at_once_or_not_at_all)
{
	struct hr_tap_message m, got;

	hr_tap_begin(&m, HR_TAP_READY);
	m.tiles = 5;
	cr_expect_eq(hr_tap_send(pair[0], &m), 0);
	cr_expect_eq(recv(pair[1], &got, sizeof got, 0), (ssize_t)sizeof got);
	cr_expect_eq(memcmp(&m, &got, sizeof m), 0);
	for (int i = 0; i < 100000; i++)
		if (hr_tap_send(pair[0], &m) == -EAGAIN)
			break;
	cr_expect_eq(hr_tap_send(pair[0], &m), -EAGAIN);
	shutdown(pair[0], SHUT_WR);
	cr_expect_eq(hr_tap_send(pair[0], &m), -EPIPE);
	cr_expect_eq(hr_tap_send(-1, &m), -EBADF);
}

static void send_with(const void *data, size_t bytes, const int *fds, size_t count)
{
	union {
		char bytes[CMSG_SPACE(8 * sizeof(int))];
		struct cmsghdr align;
	} control = { { 0 } };
	struct iovec vec = { (void *)(uintptr_t)data, bytes };
	struct msghdr message = { .msg_iov = &vec, .msg_iovlen = 1 };

	if (count) {
		message.msg_control = control.bytes;
		message.msg_controllen = CMSG_SPACE(count * sizeof(int));
		CMSG_FIRSTHDR(&message)->cmsg_level = SOL_SOCKET;
		CMSG_FIRSTHDR(&message)->cmsg_type = SCM_RIGHTS;
		CMSG_FIRSTHDR(&message)->cmsg_len = CMSG_LEN(count * sizeof(int));
		memcpy(CMSG_DATA(CMSG_FIRSTHDR(&message)), fds, count * sizeof(int));
	}
	cr_assert_eq(sendmsg(pair[1], &message, 0), (ssize_t)bytes);
}

Test(connection, descriptors_come_in_their_order_and_too_many_are_closed)
{
	const unsigned before = descriptors();
	struct hr_tap_message m;
	int mine[5], fds[HR_TAP_FDS];

	hr_tap_begin(&m, HR_TAP_WELCOME);
	for (uint64_t i = 0; i < 5; i++)
		mine[i] = eventfd((unsigned)i + 1, EFD_CLOEXEC);
	for (unsigned count = 0; count <= 5; count++) {
		const unsigned open = descriptors(), got = count < 3 ? count : 3;

		send_with(&m, sizeof m, mine, count);
		cr_expect_eq(hr_tap_receive(pair[0], &m, fds), 0);
		cr_expect_eq(descriptors(), open + got, "%u", count);
		for (unsigned i = 0; i < 3; i++) {
			uint64_t value = i + 1;

			cr_expect_eq(fds[i] >= 0, i < got);
			if (i >= got)
				continue;
			cr_expect_eq(fcntl(fds[i], F_GETFD), FD_CLOEXEC);
			cr_expect_eq(read(fds[i], &value, sizeof value), 8);
			cr_expect_eq(value, i + 1);
			cr_expect_eq(write(fds[i], &value, sizeof value), 8);
		}
		hr_tap_close_all(fds);
		cr_expect_eq(descriptors(), open);
	}
	for (unsigned i = 0; i < 5; i++)
		close(mine[i]);
	cr_expect_eq(descriptors(), before);
}

Test(connection, texts_of_a_message_end)
{
	struct hr_tap_message m;
	int fds[HR_TAP_FDS];

	memset(&m, 'x', sizeof m);
	m.magic = HR_TAP_MAGIC;
	send_with(&m, sizeof m, NULL, 0);
	cr_expect_eq(hr_tap_receive(pair[0], &m, fds), 0);
	cr_expect_eq(strnlen(m.name, sizeof m.name), sizeof m.name - 1);
	cr_expect_eq(strnlen(m.dtype, sizeof m.dtype), sizeof m.dtype - 1);
	cr_expect_eq(strnlen(m.text, sizeof m.text), sizeof m.text - 1);
}

Test(connection, what_is_no_message_of_a_tap_is_refused)
{
	char longer[300] = { 0 };
	struct hr_tap_message m;
	int fds[HR_TAP_FDS];

	cr_expect_eq(hr_tap_receive(pair[0], &m, fds), -EAGAIN);
	cr_expect(fds[0] == -1 && fds[1] == -1 && fds[2] == -1);
	receive_errors[0] = EINTR;
	cr_expect_eq(hr_tap_receive(pair[0], &m, fds), -EAGAIN);
	receive_errors[0] = ENOTCONN;
	cr_expect_eq(hr_tap_receive(pair[0], &m, fds), -EPIPE);
	receive_errors[0] = receive_errors[1] = ECONNRESET;
	cr_expect_eq(hr_tap_receive(pair[0], &m, fds), -EPIPE);
	/* the message that came before the other side has closed */
	hr_tap_begin(&m, HR_TAP_REFUSED);
	send_with(&m, sizeof m, NULL, 0);
	receive_errors[0] = ECONNRESET;
	cr_expect_eq(hr_tap_receive(pair[0], &m, fds), 0);
	send_with(&m, sizeof m - 1, &server, 0);
	cr_expect_eq(hr_tap_receive(pair[0], &m, fds), -EPROTO);
	m.magic++;
	send_with(&m, sizeof m, NULL, 0);
	cr_expect_eq(hr_tap_receive(pair[0], &m, fds), -EPROTO);
	m.magic--;
	memcpy(longer, &m, sizeof m);
	send_with(longer, sizeof longer, NULL, 0);
	cr_expect_eq(hr_tap_receive(pair[0], &m, fds), 0); /* a later version's is cut */
	shutdown(pair[1], SHUT_WR);
	cr_expect_eq(hr_tap_receive(pair[0], &m, fds), -EPIPE);
}

/* ---- the socket */

static int connect_to(const char *where, const char *name)
{
	char directory[HR_TAP_DIRECTORY];
	int fd;

	snprintf(directory, sizeof directory, "%s", where);
	fd = hr_tap_connect(directory, name, "tap");
	if (fd < 0)
		return fd;
	cr_expect_str_eq(directory, folder);
	cr_expect_eq(fcntl(fd, F_GETFD), FD_CLOEXEC);
	cr_expect(fcntl(fd, F_GETFL) & O_NONBLOCK);
	close(fd);
	close(accept(server, NULL, NULL));
	return 0;
}

Test(connection, only_a_folder_that_no_other_user_can_change_is_trusted)
{
	static const struct {
		unsigned mode;
		uid_t owner;
		int result;
	} row[] = {
		{ 0755, 7, 0 },	      { 0755, 0, 0 }, { 0755, 8, -ENOENT }, { 0775, 7, -ENOENT },
		{ 0757, 7, -ENOENT }, { 0700, 7, 0 }, { 0700, 8, -ENOENT },
	};

	listen_at("t.tap");
	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		chmod(folder, row[i].mode);
		owner = row[i].owner;
		cr_expect_eq(connect_to(folder, "t"), row[i].result, "%zu", i);
	}
	/* the folder of root's appliances may belong to any user */
	root_is_folder = true;
	cr_expect(is_trusted(ROOT_DIRECTORY));
	owner = 7;
	chmod(folder, 0755);
	cr_expect_eq(connect_to(top, "t"), -ENOENT);
	cr_expect_eq(connect_to("/tmp/headrace-unit-none", "t"), -ENOENT);
	snprintf(top + strlen(top), 8, "/link");
	cr_assert_eq(symlink(folder, top), 0);
	cr_expect_eq(connect_to(top, "t"), -ENOENT);
	*strrchr(top, '/') = '\0';
}

Test(connection, a_socket_that_cannot_be_reached_leaves_no_descriptor)
{
	const unsigned before = descriptors();
	char name[200];

	cr_expect_eq(connect_to(folder, "t"), -ENOENT);
	listen_at("t.tap");
	close(server);
	server = -1;
	cr_expect_eq(connect_to(folder, "t"), -ECONNREFUSED);
	socket_error = EMFILE;
	cr_expect_eq(connect_to(folder, "t"), -EMFILE);
	socket_error = 0;
	cr_expect_eq(connect_to(folder, ""), -EINVAL);
	cr_expect_eq(connect_to(folder, "../t"), -EINVAL);
	/* FOLDER/NAME.tap with its NUL has as many bytes as an address, or one more */
	memset(name, 'n', sizeof name);
	name[108 - strlen(folder) - sizeof "/.tap"] = '\0';
	cr_expect_eq(connect_to(folder, name), -ENOENT);
	name[strlen(name)] = 'n';
	name[109 - strlen(folder) - sizeof "/.tap"] = '\0';
	cr_expect_eq(connect_to(folder, name), -ENAMETOOLONG);
	cr_expect_eq(descriptors(), before);
}

Test(connection, the_folders_of_the_environment_come_one_after_the_other)
{
	char path[200];

	listen_at("t.tap");
	cr_expect_eq(connect_to("", "t"), -ENOENT);
	setenv("XDG_RUNTIME_DIR", "", 1);
	setenv("RUNTIME_DIRECTORY", "", 1);
	cr_expect_eq(connect_to("", "t"), -ENOENT);
	setenv("XDG_RUNTIME_DIR", top, 1);
	cr_expect_eq(connect_to("", "t"), 0);
	setenv("RUNTIME_DIRECTORY", "/tmp/headrace-unit-none", 1);
	cr_expect_eq(connect_to("", "t"), 0);
	snprintf(path, sizeof path, "%s:/tmp/headrace-unit-none", folder);
	setenv("RUNTIME_DIRECTORY", path, 1);
	unsetenv("XDG_RUNTIME_DIR");
	cr_expect_eq(connect_to("", "t"), 0);
	/* the first folder that has the socket, also when it refuses */
	setenv("XDG_RUNTIME_DIR", top, 1);
	snprintf(path, sizeof path, "%s/t.tap", top);
	cr_assert_eq(mkdir(path, 0755), 0);
	setenv("RUNTIME_DIRECTORY", top, 1);
	cr_expect_eq(connect_to("", "t"), -ECONNREFUSED);
	rmdir(path);
	cr_expect_eq(connect_to("", "t"), 0);
	memset(path, 'x', sizeof path);
	path[100] = '\0'; /* with "/headrace" longer than a path can be */
	setenv("XDG_RUNTIME_DIR", path, 1);
	unsetenv("RUNTIME_DIRECTORY");
	cr_expect_eq(connect_to("", "t"), -ENOENT);
}
