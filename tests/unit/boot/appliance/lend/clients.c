/* SPDX-License-Identifier: Apache-2.0 */
/* Clients of a tap without a seat: the entry that each gets, its greeting, and each refusal. */
#include "boot/appliance/lend/clients.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "boot/appliance/protocol/tap_message.h"
#include "tests/fakes/log.h"

#define AT (1000 * HR_NS_PER_S)
#define VERSION 5
#define SILENT HR_TAP_SILENT
#define ALL HR_TAP_CLIENTS
#define PEERPIDFD 77

static const struct hr_lend_kind kind = {
	.name = "tap", .client = "consumer", .hello = HR_TAP_HELLO, .version = VERSION
};
static struct hr_tap_clients c;
static uint64_t refused;
static struct sockaddr_un at = { .sun_family = AF_UNIX };
static socklen_t at_bytes;
static int fd[ALL + 8]; /* of clients, by their order */

/* In place of the kernel: the client of the next call; groups, and a process that it reports. */
static struct ucred fake_client;
static gid_t fake_groups[3]; /* the last one is behind those that it reports */
static int pidfd_errno, cred_errno, groups_errno;

int getsockopt(int socket, int level, int name, void *restrict value, socklen_t *restrict bytes)
{
	const int error = level != SOL_SOCKET	  ? 0
			  : name == PEERPIDFD	  ? pidfd_errno
			  : name == SO_PEERCRED	  ? cred_errno
			  : name == SO_PEERGROUPS ? groups_errno
						  : 0;

	if (error) {
		errno = error;
		return -1;
	}
	if (level == SOL_SOCKET && name == SO_PEERCRED && fake_client.uid) {
		memcpy(value, &fake_client, sizeof fake_client);
		return 0;
	}
	if (level == SOL_SOCKET && name == SO_PEERGROUPS && fake_client.uid) {
		memcpy(value, fake_groups, sizeof fake_groups);
		*bytes = sizeof fake_groups - sizeof *fake_groups;
		return 0;
	}
	return (int)syscall(SYS_getsockopt, socket, level, name, value, bytes);
}

static void begin(void)
{
	c = (struct hr_tap_clients){ .kind = &kind,
				     .name = "out",
				     .refused = &refused,
				     .users = { .mode = 0600, .group = HR_CONTROL_NO_GROUP } };
	memset(fd, 0xff, sizeof fd);
	c.fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0);
	c.wake = epoll_create1(0);
	at_bytes = (socklen_t)snprintf(at.sun_path + 1, sizeof at.sun_path - 1, "hr-tap-clients-%d",
				       (int)getpid());
	at_bytes += (socklen_t)offsetof(struct sockaddr_un, sun_path) + 1;
	cr_assert_eq(bind(c.fd, (struct sockaddr *)&at, at_bytes), 0);
	cr_assert_eq(listen(c.fd, 100), 0);
	for (uint32_t i = 0; i < ALL; i++)
		c.client_of[i].fd = 0; /* not free before the begin */
	hr_tap_clients_begin(&c);
}

static void end(void)
{
	hr_tap_clients_drop(&c);
	for (uint32_t i = 0; i < sizeof fd / sizeof *fd; i++)
		if (fd[i] >= 0)
			close(fd[i]);
	close(c.fd);
	close(c.wake);
}

TestSuite(tap_clients, .init = begin, .fini = end, .timeout = 60);

static void join(uint32_t i)
{
	fd[i] = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0);
	cr_assert_eq(connect(fd[i], (struct sockaddr *)&at, at_bytes), 0);
}

static struct hr_tap_message hello(void)
{
	struct hr_tap_message m;

	hr_tap_message_begin(&m, HR_TAP_HELLO, VERSION);
	strcpy(m.name, "me");
	return m;
}

static void greet(uint32_t i)
{
	const struct hr_tap_message m = hello();

	cr_assert_eq(send(fd[i], &m, sizeof m, 0), (ssize_t)sizeof m);
}

static bool wakes(void)
{
	struct pollfd wake = { .fd = c.wake, .events = POLLIN };

	return poll(&wake, 1, 0) == 1;
}

static bool is_over(uint32_t i)
{
	char byte;
	const ssize_t n = recv(fd[i], &byte, 1, MSG_PEEK);

	return n == 0 || (n < 0 && errno == ECONNRESET); /* its greeting was not read */
}

/* The client gets one message, REFUSED, and the connection ends. */
static void expect_refusal(uint32_t i, int err, const char *why)
{
	static uint64_t before;
	struct hr_tap_message m, want;
	char log[256];

	hr_tap_message_begin(&want, HR_TAP_REFUSED, VERSION);
	want.code = (uint16_t)err;
	strcpy(want.text, why);
	cr_expect_eq(recv(fd[i], &m, sizeof m, 0), (ssize_t)sizeof m, "%s", why);
	cr_expect_str_eq(m.text, why);
	cr_expect_eq(memcmp(&m, &want, offsetof(struct hr_tap_message, text) + strlen(why)), 0);
	cr_expect(is_over(i));
	snprintf(log, sizeof log, "tap 'out': process %d of user %u is refused: %s",
		 fake_client.uid ? fake_client.pid : (int)getpid(),
		 fake_client.uid ? fake_client.uid : getuid(), why);
	cr_expect_str_eq(fake_log_last_of(HR_LOG_INFO), log);
	cr_expect_eq(refused, ++before);
}

static uint32_t taken(void)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < ALL; i++)
		count += c.client_of[i].fd >= 0;
	return count;
}

/* ---- greetings */

Test(tap_clients, from_the_connection_to_the_seat)
{
	struct hr_tap_client *client = &c.client_of[0];
	int pipes[2];
	uint32_t i;

	cr_expect_not(wakes());
	cr_expect_eq(taken(), 0u);
	join(0);
	cr_expect(wakes());
	hr_tap_clients_step(&c, false, AT);
	cr_expect_eq(taken(), 0u, "without events nothing is looked at");
	hr_tap_clients_step(&c, true, AT);
	cr_expect_eq(taken(), 1u);
	cr_expect(client->fd >= 0 && !client->waits && client->since_ns == AT);
	cr_expect(client->credentials.user == getuid() && client->credentials.process == getpid());
	cr_expect_not(wakes());
	i = 0;
	cr_expect_null(hr_tap_clients_waiting(&c, &i));
	greet(0);
	cr_expect(wakes());
	hr_tap_clients_step(&c, false, AT);
	cr_expect_not(client->waits);
	client->told = 1;
	hr_tap_clients_step(&c, true, AT + 1);
	cr_expect(client->waits && !client->told && client->since_ns == AT);
	cr_expect_str_eq(client->hello.name, "me");
	cr_expect_not(wakes());
	i = 0;
	cr_expect_eq(hr_tap_clients_waiting(&c, &i), client);
	cr_expect_eq(i, 1u);
	cr_expect_null(hr_tap_clients_waiting(&c, &i));
	hr_tap_clients_step(&c, true, AT + 100 * HR_TAP_HELLO_NS);
	cr_expect(client->waits, "for any time");
	cr_assert_eq(pipe(pipes), 0);
	i = (uint32_t)client->fd;
	hr_tap_clients_seated(&c, client, pipes[0]);
	cr_expect(client->fd == -1 && !client->waits);
	cr_expect_not(is_over(0));
	cr_assert_eq(write(pipes[1], "x", 1), 1);
	cr_expect(wakes(), "the process is watched");
	close(pipes[0]);
	close(pipes[1]);
	greet(0);
	cr_expect(wakes(), "and so is the connection");
	close((int)i);
	cr_expect_eq(refused, 0u);
}

Test(tap_clients, what_is_no_greeting)
{
	static const struct {
		uint32_t magic;
		uint16_t kind, least, version;
		int error;
		size_t bytes;
		const char *want; /* NULL: it waits */
	} row[] = {
		{ HR_TAP_MAGIC, HR_TAP_HELLO, VERSION, VERSION, 0, sizeof(struct hr_tap_message),
		  NULL },
		{ HR_TAP_MAGIC, HR_TAP_HELLO, 0, 9, 0, sizeof(struct hr_tap_message), NULL },
		{ HR_TAP_MAGIC, HR_TAP_HELLO, 3, 4, EPROTONOSUPPORT, sizeof(struct hr_tap_message),
		  "it speaks versions 3 to 4, and the tap has version 5" },
		{ HR_TAP_MAGIC, HR_TAP_HELLO, 6, 8, EPROTONOSUPPORT, sizeof(struct hr_tap_message),
		  "it speaks versions 6 to 8, and the tap has version 5" },
		{ HR_TAP_MAGIC, HR_TAP_READY, VERSION, VERSION, EPROTO,
		  sizeof(struct hr_tap_message), "the bytes are not a greeting of a consumer" },
		{ HR_TAP_MAGIC, HR_TAP_DETACH, VERSION, VERSION, EPROTO,
		  sizeof(struct hr_tap_message), "the bytes are not a greeting of a consumer" },
		{ HR_TAP_MAGIC + 1, HR_TAP_HELLO, VERSION, VERSION, EPROTO,
		  sizeof(struct hr_tap_message), "the bytes are not a greeting of a consumer" },
		{ HR_TAP_MAGIC, HR_TAP_HELLO, VERSION, VERSION, EPROTO,
		  sizeof(struct hr_tap_message) - 1, "the bytes are not a greeting of a consumer" },
	};

	for (uint32_t i = 0; i < sizeof row / sizeof *row; i++) {
		struct hr_tap_message m = hello();

		m.magic = row[i].magic;
		m.kind = row[i].kind;
		m.version_least = row[i].least;
		m.version = row[i].version;
		join(i);
		cr_assert_eq(send(fd[i], &m, row[i].bytes, 0), (ssize_t)row[i].bytes);
		hr_tap_clients_step(&c, true, AT);
		cr_expect_eq(taken(), row[i].want ? 0u : 1u, "row %u", i);
		if (row[i].want)
			expect_refusal(i, row[i].error, row[i].want);
		hr_tap_clients_drop(&c);
		cr_expect(is_over(i));
		cr_expect_not(c.client_of[0].waits);
	}
}

/* While it waits, it may leave; a second greeting is an error. */
Test(tap_clients, what_a_client_that_waits_may_send)
{
	struct hr_tap_message m;

	for (uint32_t i = 0; i < 4; i++) {
		join(i);
		greet(i);
	}
	hr_tap_clients_step(&c, true, AT);
	hr_tap_message_begin(&m, HR_TAP_DETACH, VERSION);
	cr_assert_eq(send(fd[0], &m, sizeof m, 0), (ssize_t)sizeof m);
	greet(1);
	close(fd[2]);
	fd[2] = -1;
	hr_tap_clients_step(&c, true, AT);
	cr_expect(is_over(0));
	expect_refusal(1, EPROTO, "the bytes are not a greeting of a consumer");
	cr_expect_eq(taken(), 1u);
	cr_expect(c.client_of[3].fd >= 0 && c.client_of[3].waits);
	join(0);
	hr_tap_clients_step(&c, true, AT);
	cr_expect(c.client_of[0].fd >= 0 && !c.client_of[0].waits);
}

/* A greeting comes within ten seconds. */
Test(tap_clients, silence)
{
	join(0);
	hr_tap_clients_step(&c, true, AT);
	join(1);
	hr_tap_clients_step(&c, true, AT + 1);
	hr_tap_clients_step(&c, false, AT + HR_TAP_HELLO_NS - 1);
	cr_expect_eq(taken(), 2u);
	hr_tap_clients_step(&c, false, AT + HR_TAP_HELLO_NS);
	expect_refusal(0, ETIMEDOUT, "it sent no greeting in time");
	cr_expect_eq(taken(), 1u);
	greet(1);
	hr_tap_clients_step(&c, true, AT + HR_TAP_HELLO_NS + 1);
	cr_expect(c.client_of[1].waits, "in the last moment");
}

/* ---- entries */

Test(tap_clients, a_new_client_replaces_the_oldest_one_that_is_silent)
{
	uint32_t n = 0;

	for (; n < SILENT; n++) {
		join(n);
		hr_tap_clients_step(&c, true, AT);
		c.client_of[n].since_ns = n == 6 || n == 9 ? AT - 200 : AT - 100 + n;
	}
	cr_expect_eq(taken(), SILENT);
	greet(3); /* now there is room for another one */
	hr_tap_clients_step(&c, true, AT + 50);
	join(n++);
	hr_tap_clients_step(&c, true, AT + 50);
	cr_expect_eq(taken(), SILENT + 1);
	for (uint32_t k = 0; k < 3; k++) {
		static const uint32_t oldest[] = { 6, 9, 0 };

		cr_expect_not(is_over(oldest[k]));
		join(n);
		hr_tap_clients_step(&c, true, AT + 100 + k);
		cr_expect_eq(taken(), SILENT + 1);
		cr_expect(is_over(oldest[k]), "%u", k);
		cr_expect_not(is_over(n));
		cr_expect_eq(c.client_of[oldest[k]].since_ns, AT + 100 + k);
		n++;
	}
	cr_expect_not(is_over(3));
	cr_expect_eq(refused, 0u);
}

Test(tap_clients, at_most_sixteen_wait)
{
	uint32_t i = 0, waiting = 0;

	for (uint32_t n = 0; n <= HR_TAP_WAITING; n++) {
		join(n);
		greet(n);
		hr_tap_clients_step(&c, true, AT);
	}
	cr_expect_eq(taken(), HR_TAP_WAITING);
	expect_refusal(HR_TAP_WAITING, EBUSY, "16 consumers wait already");
	while (hr_tap_clients_waiting(&c, &i))
		waiting++;
	cr_expect_eq(waiting, HR_TAP_WAITING);
	cr_expect_eq(i, ALL);
	for (uint32_t n = 0; n < SILENT; n++)
		join(HR_TAP_WAITING + 1 + n - 1);
	hr_tap_clients_step(&c, true, AT);
	cr_expect_eq(taken(), ALL);
	/* all: the last entry, too */
	cr_expect(c.client_of[ALL - 1].fd >= 0);
	hr_tap_clients_refuse_all(&c, -EPIPE, "the run has ended");
	cr_expect_eq(taken(), 0u);
	cr_expect_eq(refused, 1u + ALL);
	for (uint32_t n = 0; n < HR_TAP_WAITING + SILENT; n++) {
		struct hr_tap_message m;

		cr_expect_eq(recv(fd[n], &m, sizeof m, 0), (ssize_t)sizeof m);
		cr_expect(m.kind == HR_TAP_REFUSED && m.code == EPIPE);
		cr_expect(is_over(n), "%u", n);
	}
}

/* 32 connections in one step. */
Test(tap_clients, clients_that_come_together)
{
	for (uint32_t n = 0; n < 33; n++) {
		join(n);
		greet(n);
	}
	hr_tap_clients_step(&c, true, AT);
	cr_expect(wakes(), "one is left");
	/* of those without a greeting, the oldest ones made room */
	for (uint32_t n = 0; n < 32; n++)
		cr_expect_eq(is_over(n), n == 0 || (n >= 16 && n < 31), "%u", n);
	hr_tap_clients_drop(&c);
	cr_expect_eq(taken(), 0u);
	for (uint32_t n = 0; n < 32; n++)
		cr_expect(is_over(n));
	cr_expect_not(is_over(32));
	cr_expect_eq(refused, 0u, "without a word");
}

/* ---- users */

Test(tap_clients, users)
{
	static const struct {
		uint32_t mode, group;
		uid_t user;
		gid_t own;
		int cred_errno, groups_errno;
		bool may;
	} row[] = {
		{ 0600, HR_CONTROL_NO_GROUP, 4001, 5, 0, 0, false },
		{ 0606, HR_CONTROL_NO_GROUP, 4001, 5, 0, 0, true },
		{ 0604, HR_CONTROL_NO_GROUP, 4001, 5, 0, 0, false }, /* it may only read */
		{ 0660, 5, 4001, 5, 0, 0, true },
		{ 0660, 6, 4001, 5, 0, 0, true },  /* the first of its groups */
		{ 0660, 7, 4001, 5, 0, 0, true },  /* the last */
		{ 0660, 8, 4001, 5, 0, 0, false }, /* behind the last */
		{ 0660, 7, 4001, 5, 0, EPERM, false },
		{ 0640, 5, 4001, 5, 0, 0, false },
		{ 0606, HR_CONTROL_NO_GROUP, 4001, 5, EPERM, 0, false },
	};

	for (uint32_t i = 0; i < sizeof row / sizeof *row; i++) {
		const uint64_t before = refused;

		c.users = (struct hr_config_control){ .mode = row[i].mode, .group = row[i].group };
		fake_client = (struct ucred){ .pid = 77, .uid = row[i].user, .gid = row[i].own };
		fake_groups[0] = 6;
		fake_groups[1] = 7;
		fake_groups[2] = 8;
		cred_errno = row[i].cred_errno;
		groups_errno = row[i].groups_errno;
		join(i);
		hr_tap_clients_step(&c, true, AT);
		cr_expect_eq(taken(), (uint32_t)row[i].may, "row %u", i);
		cr_expect_eq(refused, before + !row[i].may, "row %u", i);
		if (!row[i].may && !row[i].cred_errno) {
			struct hr_tap_message m;

			cr_expect_eq(recv(fd[i], &m, sizeof m, 0), (ssize_t)sizeof m);
			cr_expect(m.kind == HR_TAP_REFUSED && m.code == EACCES);
			cr_expect_str_eq(m.text, "user 4001 is neither the owner nor in the group "
						 "of the tap");
		}
		hr_tap_clients_drop(&c);
	}
}

/* As the kernel names the process of a connection; an older one by the number of the process. */
Test(tap_clients, the_process_of_a_client)
{
	struct hr_tap_client *client = &c.client_of[0];
	int process;

	join(0);
	hr_tap_clients_step(&c, true, AT);
	pidfd_errno = ENOPROTOOPT;
	process = hr_tap_client_process(client);
	cr_expect_geq(process, 0);
	cr_expect_eq(fcntl(process, F_GETFD), FD_CLOEXEC);
	close(process);
	client->credentials.process = 0;
	cr_expect_eq(hr_tap_client_process(client), -1);
}
