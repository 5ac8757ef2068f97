/* Connections of the control socket: which one makes room, what is closed, and each reply whole. */
#include "boot/appliance/control.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/fakes/log.h"
#include "tests/harness/control_rig.h"

#define S HR_NS_PER_S
#define STATUS HR_REQUEST_STATUS
#define ALL HR_CONTROL_CLIENTS

TestSuite(control_steps, .init = rig_begin, .fini = rig_end, .timeout = 60);

/* The next errors of accept4(), in place of a client. */
static const int *refusals;

int accept4(int fd, struct sockaddr *address, socklen_t *length, int flags)
{
	if (refusals && *refusals) {
		errno = *refusals++;
		return -1;
	}
	return (int)syscall(SYS_accept4, fd, address, length, flags);
}

static struct hr_control_client *entry(uint32_t i)
{
	return &rig_control->client[i];
}

static bool is_open(int fd)
{
	return fcntl(fd, F_GETFD) >= 0;
}

static bool wakes(void)
{
	struct pollfd wake = { .fd = rig_control->wake, .events = POLLIN };

	return poll(&wake, 1, 0) == 1;
}

/* No further byte goes through. */
static void fill(const struct hr_control_client *client)
{
	static const char junk[4096];

	while (send(client->fd, junk, sizeof junk, MSG_DONTWAIT) > 0)
		continue;
}

/* ---- the connection that makes room */

#define L HR_CONTROL_LISTENS
#define R HR_CONTROL_REPLIES
#define W HR_CONTROL_WAITS

/* The oldest one without a request; else the oldest one that has not taken its reply. */
Test(control_steps, the_connection_that_makes_room)
{
	static const struct {
		uint32_t
			at[4]; /* entries with the state and the time below; all others as `rest` */
		enum hr_control_state state[4], rest;
		uint64_t since_ns[4], rest_ns;
		uint32_t dropped;
	} row[] = {
		{ { 3, 5, 30, 31 }, { L, L, L, L }, L, { 4, 3, 3, 4 }, 9, 5 },
		{ { 0, 1, 2, 31 }, { L, L, L, L }, L, { 9, 9, 9, 1 }, 9, 31 },
		{ { 0, 1, 2, 31 }, { L, L, L, L }, L, { 9, 9, 9, 9 }, 9, 0 },
		{ { 0, 8, 9, 31 }, { R, L, L, R }, R, { 1, 7, 6, 1 }, 2, 9 },
		{ { 0, 8, 9, 31 }, { W, L, R, W }, R, { 1, 7, 1, 1 }, 2, 8 },
		{ { 0, 1, 2, 31 }, { W, W, R, W }, R, { 1, 1, 5, 1 }, 6, 2 },
		{ { 0, 1, 2, 31 }, { W, W, L, R }, R, { 1, 1, 8, 1 }, 6, 2 },
		{ { 0, 1, 2, 31 }, { R, R, W, W }, W, { 7, 6, 1, 1 }, 1, 1 },
	};
	int fd[ALL], late;

	rig_open(&rig_all);
	for (size_t n = 0; n < sizeof row / sizeof *row; n++) {
		rig_now_ns = S;
		for (uint32_t i = 0; i < ALL; i++) {
			fd[i] = rig_connect();
			rig_tick();
			fill(entry(i));
		}
		for (uint32_t i = 0; i < ALL; i++) {
			entry(i)->state = row[n].rest;
			entry(i)->since_ns = row[n].rest_ns;
			entry(i)->request.kind = HR_REQUEST_STOP; /* of those that wait */
			entry(i)->sent = 0;
			entry(i)->length = 100;
		}
		for (uint32_t k = 0; k < 4; k++) {
			entry(row[n].at[k])->state = row[n].state[k];
			entry(row[n].at[k])->since_ns = row[n].since_ns[k];
		}
		rig_now_ns = 10;
		late = rig_connect();
		rig_tick();
		cr_expect_eq(entry(row[n].dropped)->since_ns, 10u, "row %zu", n);
		cr_expect_eq(entry(row[n].dropped)->state, L);
		for (uint32_t i = 0; i < ALL; i++)
			cr_expect(i == row[n].dropped || entry(i)->since_ns < 10, "row %zu: %u", n,
				  i);
		for (uint32_t i = 0; i < ALL; i++)
			close(fd[i]);
		close(late);
		for (uint32_t i = 0; i < ALL; i++)
			entry(i)->state = L;
		rig_tick();
		for (uint32_t i = 0; i < ALL; i++)
			cr_assert_eq(entry(i)->state, HR_CONTROL_FREE);
	}
}

/* Each way in which a connection ends closes its descriptor, and frees its entry. */
Test(control_steps, an_ended_connection_is_closed)
{
	int fd, own;

	rig_open(&rig_all);
	for (uint32_t way = 0; way < 5; way++) {
		rig_now_ns = S;
		fd = rig_connect();
		rig_tick();
		own = entry(0)->fd;
		cr_assert(entry(0)->state == L && is_open(own));
		switch (way) {
		case 0: /* before its request */
			close(fd);
			rig_tick();
			cr_expect_eq(strcmp(strrchr(fake_log_last_of(HR_LOG_DEBUG), ':'),
					    ": it disconnected before its request was complete"),
				     0);
			break;
		case 1: /* in time, and too late */
			rig_now_ns += HR_CONTROL_REQUEST_NS - 1;
			rig_tick();
			cr_expect(is_open(own));
			rig_now_ns++;
			rig_tick();
			break;
		case 2: /* while it waits */
			rig_send(fd, HR_REQUEST_STOP, "", true);
			rig_tick();
			cr_assert_eq(entry(0)->state, W);
			cr_expect_eq(entry(0)->since_ns, rig_now_ns);
			shutdown(fd, SHUT_WR);
			rig_tick();
			cr_expect_eq(strcmp(strrchr(fake_log_last_of(HR_LOG_DEBUG), ':'),
					    ": it disconnected while it waited"),
				     0);
			break;
		case 3: /* before its reply */
			fill(entry(0));
			rig_send(fd, STATUS, "", false);
			rig_tick();
			cr_assert_eq(entry(0)->state, R);
			cr_expect_eq(entry(0)->since_ns, rig_now_ns);
			cr_expect_eq(entry(0)->sent, 0u);
			cr_expect_not(wakes(), "no room yet");
			close(fd);
			rig_tick();
			cr_expect_eq(strcmp(strrchr(fake_log_last_of(HR_LOG_DEBUG), ':'),
					    ": it disconnected before its reply"),
				     0);
			break;
		default: /* with its reply */
			rig_send(fd, STATUS, "", false);
			rig_tick();
			break;
		}
		cr_expect_eq(entry(0)->state, HR_CONTROL_FREE, "way %u", way);
		cr_expect_not(is_open(own), "way %u", way);
		cr_expect_not(wakes());
		close(fd);
	}
}

/* It goes on as soon as there is room. */
Test(control_steps, a_reply_that_waits_for_room)
{
	char junk[4096];
	int fd;

	rig_open(&rig_all);
	fd = rig_connect();
	rig_tick();
	fill(entry(0));
	rig_send(fd, STATUS, "", false);
	rig_tick();
	cr_expect_eq(entry(0)->state, R);
	cr_expect_not(wakes());
	while (rig_take(fd, junk, sizeof junk) > 0)
		continue;
	cr_expect(wakes());
	rig_tick();
	rig_reply(fd, STATUS, 0);
}

/* ---- the listening socket */

Test(control_steps, errors_of_accept)
{
	static const int again[] = { EINTR, 0 }, none[] = { EAGAIN, 0 };
	static const int aborted[] = { ECONNABORTED, ECONNABORTED, 0 };
	static const int full[] = { ENFILE, ENOMEM, EMFILE, 0 };
	const int *const row[] = { again, none };
	int fd;

	rig_open(&rig_all);
	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		fd = rig_client(STATUS, "", false);
		refusals = row[i];
		rig_tick();
		cr_expect_eq(fake_log_count_of(HR_LOG_WARN), 0u);
		cr_expect_not(rig_control->deaf);
		cr_expect(wakes(), "the client waits");
		rig_tick();
		rig_reply(fd, STATUS, 0);
	}
	refusals = aborted; /* each was a client that has gone; the next one is behind it */
	fd = rig_client(STATUS, "", false);
	rig_tick();
	rig_reply(fd, STATUS, 0);
	fd = rig_client(STATUS, "", false);
	refusals = full;
	for (uint32_t i = 0; i < 3; i++) {
		char want[256];

		rig_tick();
		cr_expect(rig_control->deaf);
		cr_expect_not(wakes());
		cr_expect_eq(fake_log_count_of(HR_LOG_WARN), 1u, "once");
		snprintf(want, sizeof want, "%s/box.sock: clients wait: %s", rig_folder,
			 strerror(ENFILE));
		cr_expect_str_eq(fake_log_last_of(HR_LOG_WARN), want);
	}
	rig_tick();
	cr_expect_not(rig_control->deaf);
	rig_reply(fd, STATUS, 0);
	fd = rig_connect();
	cr_expect(wakes());
	close(fd);
}

/* 64 clients in one tick. */
Test(control_steps, clients_that_come_together)
{
	int fd[65];

	rig_open(&rig_all);
	for (uint32_t i = 0; i < 65; i++)
		fd[i] = rig_connect();
	rig_tick();
	cr_expect(wakes(), "one is left");
	for (uint32_t i = 0; i < 65; i++) /* of those of one tick, the entry that comes first */
		cr_expect_eq(rig_is_closed(fd[i]), i == 0 || (i >= 32 && i < 63), "%u", i);
	rig_tick();
	cr_expect_not(wakes());
	cr_expect(rig_is_closed(fd[63]) && !rig_is_closed(fd[64]));
	for (uint32_t i = 0; i < 65; i++)
		close(fd[i]);
}

Test(control_steps, the_open_descriptors)
{
	int fds[HR_CONTROL_FDS], fd[3], own;

	rig_open(&rig_all);
	cr_expect_eq(hr_control_descriptors(rig_control, fds), 2u);
	for (uint32_t i = 0; i < 3; i++) {
		fd[i] = rig_connect();
		rig_tick();
	}
	close(fd[1]);
	rig_tick();
	memset(fds, 0xff, sizeof fds);
	cr_expect_eq(hr_control_descriptors(rig_control, fds), 4u);
	cr_expect(fds[0] == rig_control->fd && fds[1] == rig_control->wake);
	cr_expect(fds[2] == entry(0)->fd && fds[3] == entry(2)->fd && fds[4] == -1);
	own = rig_control->wake;
	hr_control_close(rig_control);
	cr_expect_eq(hr_control_descriptors(rig_control, fds), 0u);
	for (uint32_t i = 0; i < 4; i++)
		cr_expect_not(is_open(fds[i]), "%u", i);
	cr_expect_not(is_open(own));
	cr_expect(rig_control->fd < 0 && rig_control->wake == -1);
	cr_expect_neq(access(rig_control->at.sun_path, F_OK), 0);
	hr_control_close(rig_control);
	rig_tick();
	close(fd[0]);
	close(fd[2]);
}

Test(control_steps, an_appliance_without_a_socket)
{
	const struct rlimit none = { 0, 4096 }, many = { 4096, 4096 };
	const int lowest = dup(0);

	close(lowest);
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
	cr_expect_eq(hr_control_open(rig_control, &rig_status, &rig_all), -EMFILE);
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &many), 0);
	cr_expect_str_eq(fake_log_last_of(HR_LOG_WARN),
			 "control socket: epoll: Too many open files; appliance 'box' cannot be "
			 "asked");
	cr_expect_eq(rig_control->e.kind, HR_ERROR_FAILED);
	cr_expect(rig_control->fd < 0 && rig_control->wake == -1);
	setenv("RUNTIME_DIRECTORY", "/proc/self", 1);
	cr_expect_lt(hr_control_open(rig_control, &rig_status, &rig_all), 0);
	cr_expect_eq(fake_log_count_of(HR_LOG_WARN), 2u);
	cr_expect(rig_control->fd < 0 && rig_control->wake == -1);
	cr_expect_eq(dup(0), lowest, "a descriptor is left");
	close(lowest);
}

/* ---- the end of the appliance */

/* Those that wait get their replies, and the rest of a reply is sent as far as there is room. */
Test(control_steps, the_end_for_clients_in_each_state)
{
	char data[512];
	int fd[4], own;

	rig_open(&rig_all);
	for (uint32_t i = 0; i < 4; i++) {
		fd[i] = rig_connect();
		rig_tick();
	}
	rig_send(fd[1], HR_REQUEST_TRIGGER, rig_app->config.pipeline[0].name, true);
	rig_send(fd[2], HR_REQUEST_STOP, "", true);
	rig_tick();
	fill(entry(3));
	entry(3)->state = R;
	entry(3)->sent = 1;
	entry(3)->length = 4;
	memcpy(entry(3)->out, "abcd", 4);
	while (rig_take(fd[3], data, sizeof data) > 0)
		continue;
	own = entry(0)->fd;
	hr_control_close(rig_control);
	cr_expect_eq(strcmp(strrchr(fake_log_last_of(HR_LOG_DEBUG), ':'), ": the appliance ends"),
		     0);
	cr_expect_not(is_open(own));
	cr_expect(rig_is_closed(fd[0]));
	rig_expect_text(rig_reply(fd[1], HR_REQUEST_TRIGGER, 1),
			"\"message\": \"the appliance ends before that\"");
	rig_expect_text(rig_reply(fd[2], HR_REQUEST_STOP, 0), "\"result\": \"done\"");
	cr_expect_eq(rig_take(fd[3], data, sizeof data), 3);
	cr_expect_eq(memcmp(data, "bcd", 3), 0);
	cr_expect(rig_is_closed(fd[3]));
	for (uint32_t i = 0; i < 4; i++)
		cr_expect_eq(entry(i)->state, HR_CONTROL_FREE);
	close(fd[0]);
	close(fd[3]);
}

/* ---- requests that go to the engine */

static struct hr_request passed;
static int passed_fd, pass_error;

static int pass(void *to, const struct hr_request *request, int fd, struct hr_error *e)
{
	passed = *request;
	if (pass_error)
		return pass_error == -EBUSY ? hr_fail(e, HR_ERROR_FAILED, -EBUSY, "no engine")
					    : pass_error;
	passed_fd = dup(fd);
	return 0;
}

/* The engine has a copy, so the connection stays open when the entry is free. */
Test(control_steps, a_request_for_the_engine)
{
	struct hr_actions actions = rig_all;
	char byte;
	int fd, own;

	actions.pass = pass;
	rig_open(&actions);
	fd = rig_connect();
	rig_tick();
	own = entry(0)->fd;
	rig_send(fd, HR_REQUEST_STORE_GET, "", false);
	rig_tick();
	cr_expect(passed.kind == HR_REQUEST_STORE_GET && !strcmp(passed.object, "x"));
	cr_expect_eq(entry(0)->state, HR_CONTROL_FREE);
	cr_expect_not(is_open(own));
	cr_expect_not(rig_is_closed(fd));
	cr_expect_eq(send(passed_fd, "!", 1, 0), 1);
	cr_expect(recv(fd, &byte, 1, 0) == 1 && byte == '!');
	cr_assert_eq(send(fd, "?", 1, 0), 1);
	cr_expect_not(wakes(), "its bytes are the engine's");
	rig_tick();
	cr_expect(recv(passed_fd, &byte, 1, 0) == 1 && byte == '?');
	close(passed_fd);
	close(fd);
	pass_error = -EBUSY;
	rig_expect_text(rig_ask(HR_REQUEST_STORE_GET, "", 1), "\"message\": \"no engine\"}");
	pass_error = -EPIPE;
	rig_expect_text(rig_ask(HR_REQUEST_STORE_GET, "", 1), "\"message\": \"failed: error -32");
	/* bytes behind it cannot reach the engine */
	passed.kind = HR_REQUEST_NONE;
	fd = rig_client(HR_REQUEST_STORE_GET, "", false);
	cr_assert_eq(send(fd, "x", 1, 0), 1);
	rig_tick();
	cr_expect_eq(passed.kind, HR_REQUEST_NONE);
	rig_expect_text(
		rig_reply(fd, HR_REQUEST_NONE, 2),
		"\"message\": \"the request is longer than a request of its kind can be\"}");
	/* but do not matter behind one that is answered here */
	fd = rig_client(STATUS, "", false);
	cr_assert_eq(send(fd, "x", 1, 0), 1);
	rig_tick();
	rig_reply(fd, STATUS, 0);
}

/* ---- replies */

#define REPLY(rest)                                          \
	"{\"schema\": \"headrace.answer\", \"version\": 1, " \
	"\"appliance\": \"box\", \"request\": " rest "}\n"

Test(control_steps, replies)
{
	static const struct {
		enum hr_request_kind kind;
		const char *pipeline;
		int error;
		uint32_t code;
		const char *want;
	} row[] = {
		{ HR_REQUEST_TRIGGER, "second", 0, 0,
		  REPLY("\"trigger\", \"pipeline\": \"second\", \"start\": 1, \"result\": "
			"\"accepted\", \"code\": 0") },
		{ HR_REQUEST_TRIGGER, "second", -EAGAIN, 1,
		  REPLY("\"trigger\", \"pipeline\": \"second\", \"start\": 2, \"result\": "
			"\"failed\", \"code\": 1, \"message\": \"refused by the test\"") },
		{ HR_REQUEST_PAUSE, "first", 0, 0,
		  REPLY("\"pause\", \"pipeline\": \"first\", \"result\": \"done\", \"code\": 0") },
		{ HR_REQUEST_PAUSE, "second", -EIO, 1,
		  REPLY("\"pause\", \"pipeline\": \"second\", \"result\": \"failed\", \"code\": 1, "
			"\"message\": \"refused by the test\"") },
		{ HR_REQUEST_RESUME, "second", 0, 0,
		  REPLY("\"resume\", \"pipeline\": \"second\", \"result\": \"done\", \"code\": "
			"0") },
		{ HR_REQUEST_STOP, "", 0, 0,
		  REPLY("\"stop\", \"result\": \"accepted\", \"code\": 0") },
		{ HR_REQUEST_RESUME, "secund", 0, 2,
		  REPLY("\"resume\", \"pipeline\": \"secund\", \"result\": \"failed\", \"code\": 2, "
			"\"message\": \"there is no pipeline 'secund'; did you mean 'second'?\"") },
		{ HR_REQUEST_RESUME, "zzzzzzzz", 0, 2,
		  REPLY("\"resume\", \"pipeline\": \"zzzzzzzz\", \"result\": \"failed\", \"code\": "
			"2, \"message\": \"there is no pipeline 'zzzzzzzz'\"") },
		{ HR_REQUEST_STORE_MAP, "", 0, 1,
		  REPLY("\"store-map\", \"result\": \"failed\", \"code\": 1, \"message\": "
			"\"'store-map' is not possible: this appliance has no engine that serves "
			"it\"") },
	};

	strcpy(rig_app->config.pipeline[0].name, "first");
	strcpy(rig_app->config.pipeline[1].name, "second");
	rig_open(&rig_all);
	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		rig_life.error = row[i].error;
		cr_expect_str_eq(rig_ask(row[i].kind, row[i].pipeline, row[i].code), row[i].want);
		if (row[i].kind != HR_REQUEST_STOP && row[i].code != 2 && *row[i].pipeline)
			cr_expect_eq(rig_life.pipeline, row[i].pipeline[0] == 's', "row %zu", i);
	}
}

/* Replies to those that wait for an end. */
Test(control_steps, replies_at_the_end)
{
	static const struct {
		enum hr_request_kind kind;
		int result;
		const char *listed;
		uint32_t code;
		const char *want;
		bool waits;
	} row[] = {
		{ HR_REQUEST_TRIGGER, 0, NULL, 0,
		  REPLY("\"trigger\", \"pipeline\": \"second\", \"start\": 1, \"result\": \"done\", "
			"\"code\": 0"),
		  false },
		{ HR_REQUEST_TRIGGER, 0x281, NULL, 4,
		  REPLY("\"trigger\", \"pipeline\": \"second\", \"start\": 2, \"result\": "
			"\"failed\", \"code\": 4, \"message\": \"tile 3: read failed\""),
		  false },
		{ HR_REQUEST_RELOAD, 0, NULL, 0,
		  REPLY("\"reload\", \"result\": \"done\", \"code\": 0, \"changes\": [], "
			"\"waits_for\": [], \"needs_restart\": []"),
		  false },
		{ HR_REQUEST_RELOAD, 0, "ssds\nboot, gpus\n", 0,
		  REPLY("\"reload\", \"result\": \"done\", \"code\": 0, \"changes\": [], "
			"\"waits_for\": [], \"needs_restart\": [\"ssds\", \"boot, gpus\"]"),
		  false },
		{ HR_REQUEST_RELOAD, 0, NULL, 0,
		  REPLY("\"reload\", \"result\": \"accepted\", \"code\": 0, \"changes\": "
			"[\"ssds\", \"gpus\"], \"waits_for\": [\"sum\"], \"needs_restart\": "
			"[]"),
		  true },
		{ HR_REQUEST_RELOAD, -EINVAL, "ssds", 4,
		  REPLY("\"reload\", \"result\": \"failed\", \"code\": 4, \"message\": \"tile 3: "
			"read failed\""),
		  false },
	};

	strcpy(rig_app->config.pipeline[0].name, "first");
	strcpy(rig_app->config.pipeline[1].name, "second");
	rig_open(&rig_all);
	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		const bool trigger = row[i].kind == HR_REQUEST_TRIGGER;
		int fd;

		rig_life.ended = false;
		rig_life.result = row[i].result;
		rig_life.listed = row[i].listed;
		rig_life.waits = row[i].waits;
		fd = rig_client(row[i].kind, trigger ? "second" : "", trigger);
		rig_tick();
		rig_tick();
		cr_expect_not(rig_is_closed(fd), "row %zu", i);
		rig_life.ended = true;
		rig_tick();
		cr_expect_str_eq(rig_reply(fd, row[i].kind, row[i].code), row[i].want);
	}
}

/* Each function that the appliance does not have. */
Test(control_steps, an_appliance_without_a_schedule)
{
	static const struct {
		enum hr_request_kind kind;
		const char *name;
		size_t at;
	} row[] = {
		{ HR_REQUEST_TRIGGER, "trigger", offsetof(struct hr_actions, trigger) },
		{ HR_REQUEST_TRIGGER, "trigger", offsetof(struct hr_actions, ended) },
		{ HR_REQUEST_PAUSE, "pause", offsetof(struct hr_actions, pause) },
		{ HR_REQUEST_RESUME, "resume", offsetof(struct hr_actions, resume) },
		{ HR_REQUEST_STOP, "stop", offsetof(struct hr_actions, stop) },
		{ HR_REQUEST_RELOAD, "reload", offsetof(struct hr_actions, reload) },
		{ HR_REQUEST_RELOAD, "reload", offsetof(struct hr_actions, reloaded) },
	};
	struct hr_actions actions = rig_all;

	rig_open(&actions);
	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		const struct control_rig_life before = rig_life;
		const char *pipeline = hr_request_has_pipeline(row[i].kind)
					       ? rig_app->config.pipeline[0].name
					       : "";
		char want[256];

		actions = rig_all;
		memset((char *)&actions + row[i].at, 0, sizeof(void (*)(void)));
		snprintf(
			want, sizeof want,
			"\"result\": \"failed\", \"code\": 1, \"message\": \"'%s' is not possible: "
			"this appliance has no schedule\"}\n",
			row[i].name);
		rig_expect_text(rig_ask(row[i].kind, pipeline, 1), want);
		cr_expect_eq(memcmp(&before, &rig_life, sizeof before), 0);
		rig_ask(STATUS, "", 0);
	}
}
