/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages to a service manager: addresses, the environment, order, and a manager that does not read.
 * The manager is a socket of the test.
 */
#include "boot/appliance/machine/machine.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/fakes/clock.h"
#include "tests/fakes/log.h"

#define ROWS(table) (sizeof(table) / sizeof(*(table)))

static struct hr_notify notify;
static int manager = -1;
static char name[64], got[2 * HR_LOG_LINE_MAX];

/* A manager with an abstract address, named in the environment. */
static void begin(void)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };

	snprintf(name, sizeof name, "@headrace-notify-%d", (int)getpid());
	strcpy(at.sun_path + 1, name + 1);
	manager = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	cr_assert_geq(manager, 0);
	cr_assert_eq(bind(manager, (const struct sockaddr *)&at,
			  (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(name))),
		     0);
	setenv("NOTIFY_SOCKET", name, 1);
	unsetenv("WATCHDOG_USEC");
	unsetenv("WATCHDOG_PID");
}

static void end(void)
{
	close(manager);
}

TestSuite(notify, .init = begin, .fini = end, .timeout = 60);

/* The next message; "": none. */
static const char *hear(void)
{
	const ssize_t bytes = recv(manager, got, sizeof got - 1, 0);

	got[bytes > 0 ? bytes : 0] = '\0';
	return got;
}

Test(notify, an_address_is_a_path_or_a_name)
{
	static const struct {
		char first;
		size_t length;
		bool ok;
	} row[] = { { '/', 2, true },	{ '@', 2, true },    { '/', 1, false },
		    { '@', 1, false },	{ 'x', 5, false },   { '\0', 0, false },
		    { '/', 107, true }, { '/', 108, false }, { '@', 107, true } };

	for (size_t i = 0; i < ROWS(row); i++) {
		const unsigned warnings = fake_log_count_of(HR_LOG_WARN);
		char path[128] = "", warned[256];

		memset(path, 'a', row[i].length);
		path[0] = row[i].first;
		setenv("NOTIFY_SOCKET", path, 1);
		setenv("WATCHDOG_USEC", "2000", 1);
		hr_notify_open(&notify);
		cr_expect_eq(notify.fd >= 0, row[i].ok, "row %zu", i);
		cr_expect_eq(fake_log_count_of(HR_LOG_WARN) - warnings, !row[i].ok);
		cr_expect_eq(notify.keepalive_ns, row[i].ok ? 1000000 : 0);
		cr_expect_eq(notify.next_alive_ns, 0);
		cr_expect_null(getenv("NOTIFY_SOCKET"));
		cr_expect_null(getenv("WATCHDOG_USEC"));
		cr_expect_null(getenv("WATCHDOG_PID"));
		if (!row[i].ok) {
			snprintf(warned, sizeof warned,
				 "NOTIFY_SOCKET '%.100s' is not a socket address; the service "
				 "manager gets no messages",
				 path);
			cr_expect_str_eq(fake_log_last_of(HR_LOG_WARN), warned);
			continue;
		}
		cr_expect_eq(notify.to.sun_family, AF_UNIX);
		cr_expect_eq(notify.to.sun_path[0], row[i].first == '@' ? '\0' : '/');
		cr_expect_eq(memcmp(notify.to.sun_path + 1, path + 1, row[i].length - 1), 0);
		cr_expect_eq(notify.length, offsetof(struct sockaddr_un, sun_path) + row[i].length);
		hr_notify_close(&notify);
		cr_expect_eq(notify.fd, -1);
	}
}

/* Nothing is sent, and nothing is logged. */
Test(notify, without_a_manager_all_calls_do_nothing)
{
	unsetenv("NOTIFY_SOCKET");
	setenv("WATCHDOG_USEC", "2000", 1);
	setenv("WATCHDOG_PID", "1", 1);
	memset(&notify, 0x55, sizeof notify);
	hr_notify_open(&notify);
	cr_expect_eq(notify.fd, -1);
	cr_expect_eq(notify.keepalive_ns, 0);
	cr_expect_null(getenv("WATCHDOG_USEC"));
	cr_expect_null(getenv("WATCHDOG_PID"));
	hr_notify_send(&notify, "READY=%d", 1);
	hr_notify_alive(&notify, 5);
	hr_notify_close(&notify);
	cr_expect_eq(fake_log_count(), 0);
	cr_expect_str_empty(hear());
}

Test(notify, the_keepalive_is_half_of_the_watchdog)
{
	char own[16];
	const struct {
		const char *usec, *pid;
		uint64_t ns;
	} row[] = { { NULL, NULL, 0 },
		    { "0", NULL, 0 },
		    { "1", NULL, 500 },
		    { "3000000", NULL, 1500000000 },
		    { "3000000", own, 1500000000 },
		    { "3000000", "1", 0 },
		    { "3000000s", NULL, 0 },
		    { "18446744073709551", NULL, 9223372036854775500u },
		    { "18446744073709552", NULL, 0 } };

	snprintf(own, sizeof own, "%d", (int)getpid());
	for (size_t i = 0; i < ROWS(row); i++) {
		setenv("NOTIFY_SOCKET", name, 1);
		if (row[i].usec)
			setenv("WATCHDOG_USEC", row[i].usec, 1);
		if (row[i].pid)
			setenv("WATCHDOG_PID", row[i].pid, 1);
		hr_notify_open(&notify);
		cr_expect_eq(notify.keepalive_ns, row[i].ns, "row %zu", i);
		hr_notify_close(&notify);
	}
}

Test(notify, messages_come_as_they_are)
{
	int fd;

	hr_notify_open(&notify);
	cr_expect_eq(fake_log_count(), 0);
	hr_notify_send(&notify, "READY=1\nSTATUS=%s", "running");
	cr_expect_str_eq(hear(), "READY=1\nSTATUS=running");
	cr_expect_str_empty(hear());
	hr_notify_send(&notify, "x");
	cr_expect_str_eq(hear(), "x");
	hr_notify_send(&notify, "%s", "");
	cr_expect_eq(recv(manager, got, sizeof got, 0), -1, "an empty one is not sent");
	hr_notify_alive(&notify, 5);
	cr_expect_str_empty(hear(), "there is no watchdog");
	cr_expect_str_empty(notify.unsent);
	fd = notify.fd;
	hr_notify_close(&notify);
	cr_expect_eq(fcntl(fd, F_GETFD), -1);
}

/* The limit of descriptors is reached. */
Test(notify, a_socket_that_cannot_be_made_is_a_warning)
{
	struct rlimit before, none;

	cr_assert_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
	none = before;
	none.rlim_cur = 0;
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
	hr_notify_open(&notify);
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
	cr_expect_lt(notify.fd, 0);
	cr_expect_str_eq(
		fake_log_last_of(HR_LOG_WARN),
		"NOTIFY_SOCKET: Too many open files; the service manager gets no messages");
	hr_notify_send(&notify, "READY=1");
	cr_expect_str_empty(notify.unsent);
	hr_notify_close(&notify);
}

Test(notify, the_watchdog_is_fed_when_due)
{
	static const struct {
		uint64_t now;
		bool fed;
	} row[] = { { 0, true },    { 1, false },   { 499, false },  { 500, true },
		    { 999, false }, { 1600, true }, { 2099, false }, { 2100, true } };

	setenv("WATCHDOG_USEC", "1", 1);
	hr_notify_open(&notify);
	for (size_t i = 0; i < ROWS(row); i++) {
		hr_notify_alive(&notify, row[i].now);
		cr_expect_str_eq(hear(), row[i].fed ? "WATCHDOG=1" : "", "row %zu", i);
	}
	hr_notify_close(&notify);
}

/* Fill the queue of the manager; returns the number of messages in it. */
static unsigned fill(void)
{
	unsigned count = 0;

	while (!notify.unsent[0]) {
		hr_notify_send(&notify, "STATUS=%u", count++);
		cr_assert_lt(count, 100000);
	}
	return count - 1;
}

static void expect_filled(unsigned count)
{
	char want[32];

	for (unsigned i = 0; i < count; i++) {
		snprintf(want, sizeof want, "STATUS=%u", i);
		cr_assert_str_eq(hear(), want);
	}
}

Test(notify, what_had_no_room_is_sent_in_order)
{
	char want[64];
	unsigned count;

	setenv("WATCHDOG_USEC", "2", 1);
	hr_notify_open(&notify);
	count = fill();
	hr_notify_send(&notify, "READY=1");
	hr_notify_alive(&notify, 7);
	cr_expect_eq(notify.next_alive_ns, 0);
	expect_filled(count);
	cr_expect_str_empty(hear());
	hr_notify_alive(&notify, 7);
	snprintf(want, sizeof want, "STATUS=%u\nREADY=1", count);
	cr_expect_str_eq(hear(), want);
	cr_expect_str_eq(hear(), "WATCHDOG=1");
	cr_expect_eq(notify.next_alive_ns, 1007);
	cr_expect_str_empty(notify.unsent);
	/* a message that has room waits for those before it */
	count = fill();
	expect_filled(count);
	hr_notify_send(&notify, "STOPPING=1");
	snprintf(want, sizeof want, "STATUS=%u", count);
	cr_expect_str_eq(hear(), want);
	cr_expect_str_eq(hear(), "STOPPING=1");
	cr_expect_str_empty(hear());
	hr_notify_close(&notify);
}

/* A keepalive without room is tried again. */
Test(notify, a_keepalive_without_room_is_still_due)
{
	uint64_t due;

	setenv("WATCHDOG_USEC", "2", 1);
	hr_notify_open(&notify);
	do {
		due = notify.next_alive_ns;
		hr_notify_alive(&notify, due);
		cr_assert_lt(due, 100000000);
	} while (notify.next_alive_ns != due);
	while (hear()[0])
		cr_expect_str_eq(got, "WATCHDOG=1");
	hr_notify_alive(&notify, notify.next_alive_ns);
	cr_expect_str_eq(hear(), "WATCHDOG=1");
	hr_notify_close(&notify);
}

/* The first line that does not fit drops the others but READY=1; one byte less fits. */
Test(notify, ready_and_the_newest_line_are_kept)
{
	static const struct {
		const char *before;
		size_t bytes; /* of the line that comes */
		bool fits;
	} row[] = { { "READY=1", sizeof notify.unsent - 9, true },
		    { "READY=1", sizeof notify.unsent - 8, false },
		    { "STATUS=", sizeof notify.unsent - 9, true },
		    { "STATUS=", sizeof notify.unsent - 8, false },
		    { "A=1\nREADY=1\nB=2", sizeof notify.unsent - 16, false } };

	hr_notify_open(&notify);
	fill();
	for (size_t i = 0; i < ROWS(row); i++) {
		const bool ready = strstr(row[i].before, "READY") != NULL;
		char line[sizeof notify.unsent] = "", want[2 * sizeof notify.unsent];

		memset(line, 'x',
		       row[i].bytes < HR_LOG_LINE_MAX ? row[i].bytes : HR_LOG_LINE_MAX - 1);
		snprintf(notify.unsent, sizeof notify.unsent, "%s", row[i].before);
		/* a line is shorter than the buffer, so fill it up from the front */
		memset(notify.unsent + strlen(notify.unsent), 'y', row[i].bytes - strlen(line));
		notify.unsent[strlen(row[i].before) + row[i].bytes - strlen(line)] = '\0';
		snprintf(want, sizeof want, "%s%s%s",
			 row[i].fits ? notify.unsent
			 : ready     ? "READY=1"
				     : "",
			 row[i].fits || ready ? "\n" : "", line);
		hr_notify_send(&notify, "%s", line);
		cr_expect_str_eq(notify.unsent, want, "row %zu", i);
	}
	while (hear()[0])
		;
	hr_notify_close(&notify);
}

/* The receiver of an address that is gone gets nothing later. */
Test(notify, a_manager_that_is_gone_is_not_waited_for)
{
	hr_notify_open(&notify);
	close(manager);
	hr_notify_send(&notify, "READY=1");
	cr_expect_str_empty(notify.unsent);
	cr_expect(strstr(fake_log_last_of(HR_LOG_DEBUG), "; not sent: READY=1"), "%s",
		  fake_log_last_of(HR_LOG_DEBUG));
	hr_notify_close(&notify);
	cr_expect_eq(notify.fd, -1);
	manager = -1;
}

static void take_one(void *context)
{
	const uint64_t *before = context;

	if (fake_clock_waits() == *before + 3)
		hear();
}

Test(notify, the_end_waits_for_room_for_a_limited_time)
{
	uint64_t before = fake_clock_waits();

	hr_notify_open(&notify);
	fill();
	fake_clock_start(1000, NULL, NULL);
	hr_notify_close(&notify);
	cr_expect_eq(fake_clock_waits() - before, 200);
	cr_expect_eq(notify.fd, -1);
	hr_notify_close(&notify);
	cr_expect_eq(fake_clock_waits() - before, 200, "it is closed");
	fake_clock_stop();
	while (hear()[0])
		;
	setenv("NOTIFY_SOCKET", name, 1);
	hr_notify_open(&notify);
	fill();
	before = fake_clock_waits();
	fake_clock_start(1000, take_one, &before);
	hr_notify_close(&notify);
	cr_expect_eq(fake_clock_waits() - before, 3);
	fake_clock_stop();
}
