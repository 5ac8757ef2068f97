/* SPDX-License-Identifier: Apache-2.0 */
/* The control socket: each request and its reply, users, and the socket itself. */
#include "boot/appliance/control/control.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "config/base/process.h"
#include "tests/fakes/log.h"
#include "tests/harness/control_rig.h"

#define NOBODY 65534u
#define STATUS HR_REQUEST_STATUS

TestSuite(control, .init = rig_begin, .fini = rig_end, .timeout = 60);

/* ---- requests */

Test(control, a_status_is_the_document_of_the_appliance)
{
	rig_open();
	rig_expect_text(rig_ask(STATUS, "", 0), "\"appliance\": \"box\"");
}

Test(control, each_request_calls_its_function)
{
	const char *name = rig_app->config.pipeline[1].name;
	char want[256];

	rig_open();
	snprintf(want, sizeof want,
		 "{\"schema\": \"headrace.answer\", \"version\": 1, "
		 "\"appliance\": \"box\", \"request\": \"trigger\", "
		 "\"pipeline\": \"%s\", \"start\": 1, \"result\": \"accepted\", \"code\": 0}\n",
		 name);
	cr_expect_str_eq(rig_ask(HR_REQUEST_TRIGGER, name, 0), want);
	cr_expect(rig_start(1)->flags & HR_START_DUE);
	cr_expect_not(rig_start(0)->flags & HR_START_DUE);
	rig_expect_text(rig_ask(HR_REQUEST_PAUSE, rig_app->config.pipeline[0].name, 0), "\"done\"");
	rig_expect_text(rig_ask(HR_REQUEST_PAUSE, name, 0), "\"done\"");
	rig_expect_text(rig_ask(HR_REQUEST_RESUME, name, 0), "\"done\"");
	cr_expect(rig_start(0)->flags & HR_START_PAUSED);
	cr_expect_not(rig_start(1)->flags & HR_START_PAUSED);
	cr_expect_not(hr_signals_pending());
	rig_expect_text(rig_ask(HR_REQUEST_STOP, "", 0), "\"accepted\"");
	cr_expect_eq(hr_signals_which(), SIGTERM);
}

Test(control, an_unknown_pipeline_is_refused_with_the_nearest_name)
{
	strcpy(rig_app->config.pipeline[0].name, "checksums");
	rig_open();
	rig_expect_text(rig_ask(HR_REQUEST_TRIGGER, "checksum", HR_ERROR_USAGE),
			"there is no pipeline 'checksum'; did you mean 'checksums'?");
	cr_expect_not(rig_start(0)->flags & HR_START_DUE);
}

Test(control, the_error_of_the_appliance_is_the_reply)
{
	rig_open();
	rig_repeat.begun = false;
	rig_expect_text(
		rig_ask(HR_REQUEST_TRIGGER, rig_app->config.pipeline[0].name, HR_ERROR_FAILED),
		"\"message\": \"busy: no engine has read");
	rig_expect_text(rig_ask(HR_REQUEST_RELOAD, "", HR_ERROR_FAILED),
			"busy: no engine has read");
}

Test(control, a_request_that_the_appliance_does_not_support_is_refused)
{
	static const char *const part[] = { "schedule", "engine that serves it", "history" };

	cr_assert_eq(hr_control_open(rig_control, &rig_status, NULL, NULL, NULL), 0);
	for (int k = HR_REQUEST_TRIGGER; k < HR_REQUEST_KINDS; k++) {
		const enum hr_request_kind kind = (enum hr_request_kind)k;
		char want[96];

		if (kind == HR_REQUEST_STOP)
			continue;
		snprintf(want, sizeof want, "is not possible: this appliance has no %s",
			 part[kind == HR_REQUEST_HISTORY ? 2 : hr_request_form(kind)->disk]);
		rig_expect_text(rig_ask(kind,
					hr_request_form(kind)->pipeline
						? rig_app->config.pipeline[0].name
						: "",
					HR_ERROR_FAILED),
				want);
	}
	rig_expect_text(rig_ask(STATUS, "", 0), "\"phase\"");
	rig_expect_text(rig_ask(HR_REQUEST_STOP, "", 0), "\"accepted\"");
	cr_expect_eq(fake_log_count_of(HR_LOG_INFO), 0, "the appliance itself reports its end");
}

/* The path of a configuration has no limit except that of a message. */
Test(control, a_status_that_does_not_fit_is_reported)
{
	static char path[HR_STATUS_MAX];

	memset(path, 'p', sizeof path - 1);
	rig_app->config.file = path;
	rig_open();
	rig_expect_text(rig_ask(STATUS, "", 0), "\"failure\": \"the status needs more than");
}

/* ---- waiting */

Test(control, a_trigger_with_wait_is_answered_at_the_end_of_the_start)
{
	char byte;
	int fd, failed;

	rig_open();
	fd = rig_client(HR_REQUEST_TRIGGER, rig_app->config.pipeline[0].name, true);
	rig_tick();
	cr_expect_eq(rig_take(fd, &byte, 1), -1);
	rig_now_ns += 3600 * HR_NS_PER_S;
	rig_tick();
	cr_expect_eq(rig_take(fd, &byte, 1), -1);
	rig_end_start(0, 0);
	rig_tick();
	rig_expect_text(rig_reply(fd, HR_REQUEST_TRIGGER, 0), "\"start\": 1, \"result\": \"done\"");
	failed = rig_client(HR_REQUEST_TRIGGER, rig_app->config.pipeline[0].name, true);
	rig_tick();
	rig_end_start(0, 0x281);
	rig_tick();
	rig_expect_text(rig_reply(failed, HR_REQUEST_TRIGGER, HR_ERROR_DEVICE),
			"tile 3: read failed");
}

Test(control, a_reload_lists_the_settings_that_need_a_restart)
{
	int fd;

	rig_open();
	fd = rig_client(HR_REQUEST_RELOAD, "", false);
	rig_tick();
	cr_expect_gt(rig_repeat.reader.pid, 0);
	hr_reload_close(&rig_repeat);
	strcpy(rig_repeat.differences.restart, "ssds[0]: device\nmemory");
	rig_tick();
	rig_expect_text(rig_reply(fd, HR_REQUEST_RELOAD, 0),
			"\"needs_restart\": [\"ssds[0]: device\", \"memory\"]");
}

Test(control, waiting_clients_are_answered_when_the_appliance_ends)
{
	int start, stopped;

	rig_open();
	start = rig_client(HR_REQUEST_TRIGGER, rig_app->config.pipeline[0].name, true);
	stopped = rig_client(HR_REQUEST_STOP, "", true);
	rig_tick();
	hr_control_close(rig_control);
	rig_expect_text(rig_reply(start, HR_REQUEST_TRIGGER, HR_ERROR_FAILED),
			"the appliance ends before that");
	rig_expect_text(rig_reply(stopped, HR_REQUEST_STOP, 0), "\"done\"");
}

Test(control, more_waiting_clients_than_the_limit_are_refused_as_busy)
{
	int fd[HR_CONTROL_WAITERS], late;

	rig_open();
	for (unsigned i = 0; i < HR_CONTROL_WAITERS; i++)
		fd[i] = rig_client(HR_REQUEST_TRIGGER, rig_app->config.pipeline[0].name, true);
	rig_tick();
	late = rig_client(HR_REQUEST_TRIGGER, rig_app->config.pipeline[0].name, true);
	rig_tick();
	rig_expect_text(rig_reply(late, HR_REQUEST_TRIGGER, HR_ERROR_FAILED),
			"busy: 16 clients wait already");
	rig_expect_text(rig_ask(STATUS, "", 0), "\"phase\"");
	/* a client that ends its wait makes room */
	close(fd[3]);
	rig_tick();
	fd[3] = rig_client(HR_REQUEST_TRIGGER, rig_app->config.pipeline[0].name, true);
	rig_tick();
	rig_end_start(0, 0);
	rig_tick();
	for (unsigned i = 0; i < HR_CONTROL_WAITERS; i++)
		rig_reply(fd[i], HR_REQUEST_TRIGGER, 0);
}

/* ---- users */

/*
 * Ask in a process of another user. Returns bit 0: `status` was answered; bit 1: `stop` was
 * answered.
 */
static int ask_as(uid_t user, gid_t group, gid_t further)
{
	static uint8_t data[HR_MESSAGE_REPLY_MAX];
	int got = 0;

	if (setgroups(further ? 1 : 0, &further) || setresgid(group, group, group) ||
	    setresuid(user, user, user))
		return 0x40;
	for (int i = 0; i < 2; i++) {
		const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
		struct hr_reply reply;
		unsigned version;

		if (connect(fd, (const struct sockaddr *)&rig_control->at,
			    sizeof rig_control->at) != 0)
			return errno == EACCES ? got : 0x20;
		rig_send(fd, i ? HR_REQUEST_STOP : STATUS, "", false);
		if (recv(fd, data, HR_MESSAGE_HEADER, MSG_WAITALL) == HR_MESSAGE_HEADER &&
		    hr_reply_parse(&reply, data, i ? HR_REQUEST_STOP : STATUS, &version) == 0)
			got |= (reply.code == 0) << i;
		close(fd);
	}
	return got;
}

static int rights_of(uid_t user, gid_t group, gid_t further)
{
	int result = 0;
	const pid_t pid = fork();

	cr_assert_geq(pid, 0);
	if (pid == 0)
		_exit(ask_as(user, group, further));
	while (waitpid(pid, &result, WNOHANG) == 0) {
		rig_tick();
		poll(NULL, 0, 1);
	}
	return WEXITSTATUS(result);
}

Test(control, the_mode_decides_which_user_may_send_which_request)
{
	static const struct {
		uint32_t mode, group;
		int member, other;
	} row[] = {
		{ 0600, HR_CONTROL_NO_GROUP, 0, 0 },
		{ 0644, 1, 1, 1 },
		{ 0640, 1, 1, 0 },
		{ 0660, 1, 3, 0 },
		{ 0664, 1, 3, 1 },
		{ 0666, 1, 3, 3 },
		{ 0604, 1, 0, 1 },
	};

	if (geteuid() != 0)
		cr_skip("not root: there is no other user");
	cr_assert_eq(chmod(rig_folder, 0755), 0);
	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		rig_app->config.control.mode = row[i].mode;
		rig_app->config.control.group = row[i].group;
		rig_open();
		cr_expect_eq(rights_of(0, 0, 0), 3, "row %zu: root", i);
		cr_expect_eq(rights_of(NOBODY, 1, 0), row[i].member, "row %zu: group", i);
		cr_expect_eq(rights_of(NOBODY, NOBODY, 1), row[i].member, "row %zu: further", i);
		cr_expect_eq(rights_of(NOBODY, NOBODY, 0), row[i].other, "row %zu: other", i);
		hr_control_close(rig_control);
	}
}

/* ---- the socket */

Test(control, a_second_server_of_the_same_name_is_refused)
{
	struct hr_control *second = calloc(1, sizeof *second);

	cr_assert(second);
	rig_open();
	cr_expect_eq(hr_control_open(second, &rig_status, &rig_repeat, NULL, NULL), -EADDRINUSE);
	cr_expect(strstr(fake_log_last(), "an appliance of this name runs already"), "%s",
		  fake_log_last());
	hr_control_tick(second, rig_now_ns);
	hr_control_close(second);
	hr_control_close(rig_control);
	cr_expect_eq(hr_control_open(second, &rig_status, &rig_repeat, NULL, NULL), 0);
	hr_control_close(second);
	free(second);
}

Test(control, the_socket_of_a_dead_process_is_taken_over)
{
	rig_open();
	close(rig_control->fd); /* as after SIGKILL: the file stays */
	close(rig_control->wake);
	rig_open();
	rig_expect_text(rig_ask(STATUS, "", 0), "schema");
}

Test(control, a_group_that_the_user_is_not_in_is_an_error)
{
	int result;
	pid_t pid;

	if (geteuid() != 0)
		cr_skip("not root: the user cannot change");
	cr_assert_eq(chown(rig_folder, NOBODY, NOBODY), 0);
	rig_app->config.control.group = 1;
	pid = fork();
	cr_assert_geq(pid, 0);
	if (pid == 0)
		_exit(setgroups(0, NULL) || setresuid(NOBODY, NOBODY, NOBODY) ? 2
		      : hr_control_open(rig_control, &rig_status, &rig_repeat, NULL, NULL) ==
					      -EPERM &&
				      strstr(fake_log_last(), "cannot be given to group 1")
			      ? 0
			      : 1);
	cr_assert_eq(waitpid(pid, &result, 0), pid);
	cr_expect_eq(result, 0);
}
