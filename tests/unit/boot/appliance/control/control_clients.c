/* SPDX-License-Identifier: Apache-2.0 */
/* The control socket with clients that are slow, silent, wrong or many. */
#include "boot/appliance/control/control.h"

#include <criterion/criterion.h>
#include <poll.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/fakes/log.h"
#include "tests/harness/control_rig.h"

#define STATUS HR_REQUEST_STATUS

TestSuite(control_clients, .init = rig_begin, .fini = rig_end, .timeout = 60);

/* ---- clients that misbehave */

Test(control_clients, a_request_may_come_byte_by_byte)
{
	struct hr_request request = { .kind = HR_REQUEST_PAUSE };
	uint8_t data[HR_MESSAGE_REQUEST_MAX];
	int fd, length;

	rig_open();
	strcpy(request.pipeline, rig_app->config.pipeline[0].name);
	length = hr_request_format(&request, data);
	fd = rig_connect();
	for (int i = 0; i < length; i++) {
		cr_assert_eq(send(fd, data + i, 1, 0), 1);
		rig_tick();
		cr_expect_eq(rig_start(0)->flags & HR_START_PAUSED,
			     i == length - 1 ? HR_START_PAUSED : 0);
	}
	rig_reply(fd, HR_REQUEST_PAUSE, 0);
}

Test(control_clients, a_half_request_ends_at_its_deadline)
{
	int half, silent;

	rig_open();
	half = rig_connect();
	silent = rig_connect();
	cr_assert_eq(send(half, "HRCT", 4, 0), 4);
	rig_tick();
	rig_now_ns += HR_CONTROL_REQUEST_NS - 1;
	rig_tick();
	cr_expect_not(rig_is_closed(half));
	cr_expect_not(rig_is_closed(silent));
	rig_now_ns++;
	rig_tick();
	cr_expect(rig_is_closed(half));
	cr_expect(rig_is_closed(silent));
	close(half);
	close(silent);
}

Test(control_clients, bytes_that_are_no_request_are_refused_with_the_reason)
{
	static const struct {
		const char *data;
		size_t bytes;
		const char *reason;
	} row[] = {
		{ "GET / HTTP/1.1\r\n", 16, "not a request of headrace" },
		{ "H\0", 2, "not a request of headrace" },
		{ "HRCT\2\0\1\0\0\0\0\0\0\0\0\0", 16, "another version" },
		{ "HRCT\1\0\77\0\0\0\0\0\0\0\0\0", 16, "does not know this kind" },
		{ "HRCT\1\0\2\0\377\377\377\377\0\0\0\0", 16, "longer than a request" },
		{ "HRCT\1\0\2\0\1\0\0\0\0\0\0\0/", 17, "that no configuration can have" },
	};

	rig_open();
	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		const int fd = rig_connect();

		cr_assert_eq(send(fd, row[i].data, row[i].bytes, 0), (ssize_t)row[i].bytes);
		rig_tick();
		rig_expect_text(rig_reply(fd, HR_REQUEST_NONE, HR_ERROR_USAGE), row[i].reason);
	}
	rig_expect_text(rig_ask(STATUS, "", 0), "\"phase\"");
}

/* As many clients as this process has descriptors for, up to a thousand. */
Test(control_clients, a_thousand_silent_clients_do_not_keep_another_from_its_reply)
{
	static int fd[1000];
	const struct rlimit limit = { 2000, 2000 };
	unsigned count = 0;

	setrlimit(RLIMIT_NOFILE, &limit);
	rig_open();
	while (count < sizeof fd / sizeof *fd) {
		fd[count++] = rig_connect();
		if (count % 50 == 0)
			rig_tick();
		if (count % 100 == 0)
			rig_expect_text(rig_ask(STATUS, "", 0), "\"phase\"");
	}
	cr_expect_eq(count, 1000u);
	rig_tick();
	rig_expect_text(rig_ask(HR_REQUEST_STOP, "", 0), "\"accepted\"");
	for (unsigned i = 0; i < count; i++)
		close(fd[i]);
	rig_tick();
	for (unsigned i = 0; i < HR_CONTROL_CLIENTS; i++)
		cr_expect_eq(rig_control->client[i].state, HR_CONTROL_FREE);
}

/* The oldest silent client makes room; those that wait stay. */
Test(control_clients, the_oldest_silent_client_makes_room)
{
	int fd[HR_CONTROL_CLIENTS], waiting;

	rig_open();
	waiting = rig_client(HR_REQUEST_TRIGGER, rig_app->config.pipeline[0].name, true);
	rig_tick();
	for (unsigned i = 1; i < HR_CONTROL_CLIENTS; i++) {
		rig_now_ns++;
		fd[i] = rig_connect();
		rig_tick();
	}
	close(fd[1]); /* its place gets a newer one */
	rig_tick();
	rig_now_ns++;
	fd[1] = rig_connect();
	rig_tick();
	rig_now_ns++;
	fd[0] = rig_connect();
	rig_tick();
	for (unsigned i = 0; i < HR_CONTROL_CLIENTS; i++)
		cr_expect_eq(rig_is_closed(fd[i]), i == 2, "%u", i);
	rig_end_start(0, 0);
	rig_tick();
	rig_reply(waiting, HR_REQUEST_TRIGGER, 0);
	for (unsigned i = 0; i < HR_CONTROL_CLIENTS; i++)
		close(fd[i]);
}

/* Clients that wait stay connected when silent ones come. */
Test(control_clients, silent_clients_do_not_displace_one_that_waits)
{
	int fd, silent[3 * HR_CONTROL_CLIENTS];

	rig_open();
	fd = rig_client(HR_REQUEST_TRIGGER, rig_app->config.pipeline[0].name, true);
	rig_tick();
	for (unsigned i = 0; i < 3 * HR_CONTROL_CLIENTS; i++) {
		silent[i] = rig_connect();
		rig_tick();
	}
	rig_end_start(0, 0);
	rig_tick();
	rig_reply(fd, HR_REQUEST_TRIGGER, 0);
	for (unsigned i = 0; i < 3 * HR_CONTROL_CLIENTS; i++)
		close(silent[i]);
}

Test(control_clients, without_descriptors_clients_wait_and_the_rest_goes_on)
{
	const struct rlimit few = { 0, 4096 }, many = { 4096, 4096 };
	struct pollfd wake = { .events = POLLIN };
	int fd;

	rig_open();
	wake.fd = rig_control->wake;
	fd = rig_client(STATUS, "", false);
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &few), 0);
	rig_tick();
	cr_expect(strstr(fake_log_last_of(HR_LOG_WARN), "clients wait: Too many open files"));
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &many), 0);
	cr_expect_eq(poll(&wake, 1, 0), 0, "the backlog keeps the appliance awake");
	rig_tick();
	rig_expect_text(rig_reply(fd, STATUS, 0), "\"phase\"");
}

/* ---- replies */

/* The buffer of the socket is smaller than a reply, so the rest is sent when the client reads. */
Test(control_clients, a_long_reply_is_sent_in_parts)
{
	static uint8_t data[HR_MESSAGE_REPLY_MAX];
	static char path[100 << 10];
	const int small = 4096;
	size_t got = 0;
	int fd;

	memset(path, 'p', sizeof path - 1);
	rig_app->config.file = path;
	rig_open();
	fd = rig_connect();
	rig_tick();
	for (unsigned i = 0; i < HR_CONTROL_CLIENTS; i++)
		if (rig_control->client[i].state != HR_CONTROL_FREE)
			setsockopt(rig_control->client[i].fd, SOL_SOCKET, SO_SNDBUF, &small,
				   sizeof small);
	rig_send(fd, STATUS, "", false);
	for (unsigned round = 0; round < 1000 && got < sizeof path; round++) {
		ssize_t n;

		rig_tick();
		n = rig_take(fd, data + got, sizeof data - got);
		got += n > 0 ? (size_t)n : 0;
		if (round == 0)
			cr_expect_lt(got, sizeof path);
	}
	cr_expect_gt(got, sizeof path);
	rig_tick();
	cr_expect(rig_is_closed(fd), "no byte follows the reply");
	close(fd);
}

Test(control_clients, a_client_that_does_not_take_its_reply_is_dropped)
{
	static char path[100 << 10];
	const int small = 4096;
	int fd;

	memset(path, 'p', sizeof path - 1);
	rig_app->config.file = path;
	rig_open();
	fd = rig_connect();
	rig_tick();
	setsockopt(rig_control->client[0].fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
	rig_send(fd, STATUS, "", false);
	rig_tick();
	cr_assert_eq(rig_control->client[0].state, HR_CONTROL_REPLIES);
	rig_now_ns += HR_CONTROL_REPLY_NS - 1;
	rig_tick();
	cr_expect_eq(rig_control->client[0].state, HR_CONTROL_REPLIES);
	rig_now_ns++;
	rig_tick();
	cr_expect_eq(rig_control->client[0].state, HR_CONTROL_FREE);
	close(fd);
}

/* ---- waking */

Test(control_clients, the_wake_descriptor_is_readable_only_while_there_is_work)
{
	struct pollfd wake = { .events = POLLIN };
	int fd;

	rig_open();
	wake.fd = rig_control->wake;
	cr_expect_eq(poll(&wake, 1, 0), 0);
	fd = rig_connect();
	cr_expect_eq(poll(&wake, 1, 0), 1);
	rig_tick();
	cr_expect_eq(poll(&wake, 1, 0), 0);
	rig_send(fd, HR_REQUEST_TRIGGER, rig_app->config.pipeline[0].name, true);
	cr_expect_eq(poll(&wake, 1, 0), 1);
	rig_tick();
	cr_expect_eq(poll(&wake, 1, 0), 0);
	/* the client ends its wait */
	cr_assert_eq(shutdown(fd, SHUT_WR), 0);
	cr_expect_eq(poll(&wake, 1, 0), 1);
	rig_tick();
	cr_expect_eq(poll(&wake, 1, 0), 0);
	cr_expect(rig_is_closed(fd));
	close(fd);
}

/* A process that was forked during the connection still holds a copy of the descriptor. */
Test(control_clients, a_client_sees_the_end_of_its_connection_when_another_process_holds_a_copy)
{
	int fds[HR_CONTROL_FDS], fd, copy;

	rig_open();
	fd = rig_connect();
	rig_tick();
	cr_assert_eq(hr_control_descriptors(rig_control, fds), 3u);
	copy = dup(fds[2]);
	rig_now_ns += HR_CONTROL_REQUEST_NS;
	rig_tick();
	cr_expect(rig_is_closed(fd));
	cr_expect_eq(hr_control_descriptors(rig_control, fds), 2u);
	close(copy);
	close(fd);
}
