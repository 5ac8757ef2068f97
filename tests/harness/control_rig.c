/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/harness/control_rig.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "boot/engine/devices/devices.h"
#include "config/default.h"
#include "config/file/file.h"
#include "tests/fakes/log.h"
#include "tests/harness/error.h"

#define STATUS HR_REQUEST_STATUS

char rig_folder[64];
struct hr_engine *rig_app;
struct hr_status rig_status;
struct hr_control *rig_control;
uint64_t rig_now_ns = HR_NS_PER_S;

struct hr_repeat rig_repeat;

/* ---- the appliance */

static int read_nothing(struct hr_config *config, void *to, struct hr_error *e)
{
	return 0;
}

const struct hr_start *rig_start(uint32_t i)
{
	return &rig_repeat.timetable.starts.start[i];
}

void rig_end_start(uint32_t i, int err)
{
	struct hr_start *start = &rig_repeat.timetable.starts.start[i];
	struct hr_record_error *error = &rig_status.record.run[i].error;

	start->flags &= ~(uint64_t)HR_START_DUE;
	start->starts++;
	rig_repeat.result[i][start->starts % HR_REPEAT_RESULTS] = err;
	error->kind = err ? HR_ERROR_DEVICE : HR_ERROR_NONE;
	error->code = err;
	strcpy(error->text, "tile 3: read failed");
}

/* ---- set-up */

void rig_begin(void)
{
	strcpy(rig_folder, "/tmp/hr-control-XXXXXX");
	cr_assert_not_null(mkdtemp(rig_folder));
	setenv("RUNTIME_DIRECTORY", rig_folder, 1);
	rig_app = calloc(1, sizeof *rig_app);
	rig_control = calloc(1, sizeof *rig_control);
	cr_assert(rig_app && rig_control);
	rig_control->fd = -1;
	cr_assert_eq(hr_config_parse(&rig_app->config, &hr_lookup, "test.conf", hr_config_default,
				     hr_config_default_bytes, test_error()),
		     0, "%s", test_error_text());
	cr_assert_eq(hr_engine_init(rig_app, NULL), 0);
	strcpy(rig_app->config.name, "box");
	hr_status_open(&rig_status, rig_app);
	rig_repeat = (struct hr_repeat){ .engine = rig_app, .on = true, .begun = true };
	rig_repeat.read = read_nothing;
	rig_repeat.timetable.config = &rig_app->config;
	for (uint32_t i = 0; i < rig_app->config.pipelines; i++)
		rig_app->config.pipeline[i].when.kind = HR_WHEN_REQUEST;
}

void rig_end(void)
{
	char command[128];

	hr_control_close(rig_control);
	hr_reload_close(&rig_repeat);
	snprintf(command, sizeof command, "rm -rf %s", rig_folder);
	cr_assert_eq(system(command), 0);
	free(rig_control);
	free(rig_app);
}

void rig_open(void)
{
	cr_assert_eq(hr_control_open(rig_control, &rig_status, &rig_repeat, NULL, NULL), 0, "%s",
		     fake_log_last());
}

void rig_tick(void)
{
	hr_control_tick(rig_control, rig_now_ns);
}

/* ---- a client */

int rig_connect(void)
{
	const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	cr_assert_geq(fd, 0);
	cr_assert_eq(connect(fd, (const struct sockaddr *)&rig_control->at, sizeof rig_control->at),
		     0);
	return fd;
}

void rig_send(int fd, enum hr_request_kind kind, const char *pipeline, bool wait)
{
	struct hr_request request = { .kind = kind, .wait = wait };
	uint8_t data[HR_MESSAGE_REQUEST_MAX];
	int length;

	if (hr_request_form(kind)->disk)
		strcpy(request.disk, "name:a");
	if (hr_request_form(kind)->object)
		strcpy(request.object, "x");
	if (hr_request_form(kind)->target)
		strcpy(request.target, "y");
	snprintf(request.pipeline, sizeof request.pipeline, "%s", pipeline);
	length = hr_request_format(&request, data);
	cr_assert_gt(length, 0);
	cr_assert_eq(send(fd, data, (size_t)length, MSG_NOSIGNAL), length);
}

int rig_client(enum hr_request_kind kind, const char *pipeline, bool wait)
{
	const int fd = rig_connect();

	rig_send(fd, kind, pipeline, wait);
	return fd;
}

/* All that has arrived. -1: nothing, and the connection is open. */
ssize_t rig_take(int fd, void *to, size_t bytes)
{
	size_t got = 0;
	ssize_t n = 0;

	while (got < bytes && (n = recv(fd, (char *)to + got, bytes - got, MSG_DONTWAIT)) > 0)
		got += (size_t)n;
	return got == 0 && n < 0 && errno == EAGAIN ? -1 : (ssize_t)got;
}

bool rig_is_closed(int fd)
{
	char byte;
	const ssize_t n = recv(fd, &byte, 1, MSG_DONTWAIT);

	return n == 0 || (n < 0 && errno != EAGAIN);
}

/* The document of a reply; the connection is closed behind it. */
const char *rig_reply(int fd, enum hr_request_kind kind, uint32_t code)
{
	static uint8_t data[HR_MESSAGE_REPLY_MAX + 1];
	const ssize_t got = rig_take(fd, data, sizeof data - 1);
	struct json_object *document;
	struct hr_reply reply;
	unsigned version;

	cr_assert_geq(got, (ssize_t)HR_MESSAGE_HEADER, "%zd bytes", got);
	data[got] = '\0';
	cr_assert_eq(hr_reply_parse(&reply, data, kind, &version), 0);
	cr_expect_eq(reply.code, code, "code %u: %s", reply.code, data + HR_MESSAGE_HEADER);
	cr_expect_eq(reply.bytes, (uint32_t)got - HR_MESSAGE_HEADER);
	document = json_tokener_parse((char *)data + HR_MESSAGE_HEADER);
	cr_expect(document, "%s", data + HR_MESSAGE_HEADER);
	json_object_put(document);
	cr_expect(rig_is_closed(fd));
	close(fd);
	return (char *)data + HR_MESSAGE_HEADER;
}

/* One request and its reply. */
const char *rig_ask(enum hr_request_kind kind, const char *pipeline, uint32_t code)
{
	const int fd = rig_client(kind, pipeline, false);

	rig_tick();
	return rig_reply(fd, kind, code);
}

void rig_expect_text(const char *text, const char *part)
{
	cr_expect(strstr(text, part), "'%s' is not in %s", part, text);
}
