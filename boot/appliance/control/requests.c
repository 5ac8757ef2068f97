/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/appliance/control/control.h"

#include <errno.h>
#include <string.h>

#include "boot/appliance/supervisor/repeat.h"
#include "config/base/error.h"
#include "config/base/log.h"
#include "config/base/process.h"
#include "config/base/text.h"
#include "nvme/queue/status.h"

/* ---- refusals */

static int find_pipeline(struct hr_control *c, struct hr_control_client *client)
{
	const struct hr_config *config = &c->status->engine->config;
	const char *known[HR_PIPELINES_MAX], *near;

	for (uint32_t i = 0; i < config->pipelines; i++) {
		known[i] = config->pipeline[i].name;
		client->pipeline = i;
		if (strcmp(known[i], client->request.pipeline) == 0)
			return 0;
	}
	near = hr_nearest(client->request.pipeline, known, config->pipelines);
	return hr_fail(&c->e, HR_ERROR_USAGE, -ENOENT, "there is no pipeline '%s'%s%s%s",
		       client->request.pipeline, near ? "; did you mean '" : "", near ? near : "",
		       near ? "'?" : "");
}

static int refuse_change(struct hr_control *c, int err)
{
	switch (err) {
	case -ENOTSUP:
		return hr_fail(&c->e, HR_ERROR_FAILED, err,
			       "no pipeline of %s repeats (every, at, after, on, forever): each "
			       "runs once",
			       c->status->engine->config.file);
	case -EBUSY:
		return hr_fail(&c->e, HR_ERROR_FAILED, err,
			       "busy: no engine has read the earlier starts from the ssds yet");
	case -EALREADY:
		return hr_fail(&c->e, HR_ERROR_FAILED, err,
			       "busy: the configuration is being read already");
	default:
		return hr_fail(&c->e, HR_ERROR_FAILED, err, "%s", strerror(-err));
	}
}

static int check_schedule(struct hr_control *c)
{
	if (c->repeat->on && c->repeat->begun)
		return 0;
	return refuse_change(c, c->repeat->on ? -EBUSY : -ENOTSUP);
}

/* ---- starts */

static int request_start(struct hr_control *c, struct hr_control_client *client)
{
	struct hr_timetable *timetable = &c->repeat->timetable;
	const char *name = client->request.pipeline;
	const struct hr_moment at = hr_moment_now();
	const int err = check_schedule(c);

	if (err)
		return err;
	if (hr_signals_pending())
		return hr_fail(&c->e, HR_ERROR_FAILED, -ESHUTDOWN, "the appliance stops");
	if (timetable->starts.start[client->pipeline].flags & HR_START_PAUSED)
		return hr_fail(&c->e, HR_ERROR_FAILED, -EAGAIN,
			       "pipeline '%s' is paused; 'headrace resume' permits its starts",
			       name);
	if (hr_timetable_suspended_ns(timetable, client->pipeline, &at))
		return hr_fail(&c->e, HR_ERROR_FAILED, -EOWNERDEAD,
			       "pipeline '%s' is suspended, because the engine ended in its run; "
			       "'headrace resume' permits its starts",
			       name);
	client->start = hr_timetable_request(timetable, client->pipeline, &at);
	return 0;
}

/* The record has the text of the newest run only. */
static void explain_failure(struct hr_control *c, const struct hr_control_client *client, int err)
{
	const struct hr_record_error *known = &c->status->record.run[client->pipeline].error;
	char text[96];

	if (known->code == err && known->kind)
		hr_record_get_error(known, &c->e);
	else
		hr_fail(&c->e, err > 0 ? HR_ERROR_DEVICE : HR_ERROR_FAILED, err, "%s",
			hr_error_name(err, text, sizeof text));
	hr_error_context(&c->e, "pipeline '%s', start %llu", client->request.pipeline,
			 (unsigned long long)client->start);
}

static bool start_is_over(struct hr_control *c, struct hr_control_client *client)
{
	const struct hr_repeat *r = c->repeat;
	const struct hr_start *start;
	uint32_t i;
	int err;

	/* the pipelines of the configuration may be other ones than those when the client asked */
	if (find_pipeline(c, client) != 0)
		return true;
	i = client->pipeline;
	start = &r->timetable.starts.start[i];
	if (r->begun && start->starts < client->start && start->flags & HR_START_DUE)
		return false;
	if (r->begun && start->starts == client->start && r->timetable.timed[i].running)
		return false;
	if (!r->begun || start->starts < client->start ||
	    start->starts - client->start >= HR_REPEAT_RESULTS) {
		hr_fail(&c->e, HR_ERROR_FAILED, -ECANCELED,
			"pipeline '%s', start %llu: cancelled before it began, by a pause, a "
			"reload or a stop",
			client->request.pipeline, (unsigned long long)client->start);
		return true;
	}
	err = r->result[i][client->start % HR_REPEAT_RESULTS];
	if (err)
		explain_failure(c, client, err);
	return true;
}

static int pause_starts(struct hr_control *c, struct hr_control_client *client)
{
	const int err = check_schedule(c);

	if (!err)
		hr_timetable_pause(&c->repeat->timetable, client->pipeline);
	return err;
}

static int resume_starts(struct hr_control *c, struct hr_control_client *client)
{
	const struct hr_moment at = hr_moment_now();
	uint64_t *until_ns = &c->status->suspended_until_ns[client->pipeline];
	const bool lifts = *until_ns > at.now_ns;

	if (c->repeat->on && c->repeat->begun)
		hr_timetable_resume(&c->repeat->timetable, client->pipeline, &at);
	else if (lifts)
		c->status->deaths[client->pipeline] = *until_ns = 0;
	else
		return check_schedule(c);
	if (lifts)
		hr_info("pipeline '%s' is not suspended any more, on request",
			client->request.pipeline);
	return 0;
}

/* ---- the appliance */

static int stop_appliance(struct hr_control *c, struct hr_control_client *client)
{
	if (c->repeat)
		hr_info("a request stops the appliance");
	hr_signals_stop();
	return 0;
}

static int begin_reload(struct hr_control *c, struct hr_control_client *client)
{
	int err = check_schedule(c);

	if (err)
		return err;
	err = hr_reload_begin(c->repeat);
	return err ? refuse_change(c, err) : 0;
}

static bool reload_is_over(struct hr_control *c, struct hr_control_client *client)
{
	const int result = c->repeat->reload_result;
	const struct hr_error *why = &c->repeat->reload_error;
	const char *lines = why->kind ? why->text : strerror(-result);

	if (!hr_reload_is_over(c->repeat, client->request.wait))
		return false;
	if (result == -ECANCELED)
		c->e = *why;
	else if (result)
		hr_fail(&c->e, HR_ERROR_USAGE, result, "%s: nothing has changed: %s",
			c->status->engine->config.file,
			result == -EINVAL ? "it has mistakes" : "it cannot be read");
	while (result && result != -ECANCELED && *lines) {
		const size_t length = strcspn(lines, "\n");

		hr_error_add(&c->e, HR_ERROR_USAGE, result, "%.*s", (int)length, lines);
		lines += length + (lines[length] == '\n');
	}
	return true;
}

void hr_control_take_hangup(struct hr_control *c)
{
	if (!hr_signals_consume_reload())
		return;
	hr_error_clear(&c->e);
	if (begin_reload(c, NULL))
		hr_warn("SIGHUP: %s", c->e.text);
}

/* ---- the table of requests */

/* Failures are in c->e. */
static const struct {
	int (*begin)(struct hr_control *c, struct hr_control_client *client);
	/* Of a client that waits; NULL: its request is over when the appliance ends. */
	bool (*is_over)(struct hr_control *c, struct hr_control_client *client);
	const char *result; /* of a client that does not wait; NULL: all wait */
	bool schedule;	    /* it needs c->repeat */
} actions[HR_REQUEST_KINDS] = {
	[HR_REQUEST_STATUS] = { .result = "done" },
	[HR_REQUEST_HISTORY] = { .result = "done" },
	[HR_REQUEST_TRIGGER] = { request_start, start_is_over, "accepted", true },
	[HR_REQUEST_PAUSE] = { pause_starts, NULL, "done", true },
	[HR_REQUEST_RESUME] = { resume_starts, NULL, "done", true },
	[HR_REQUEST_STOP] = { stop_appliance, NULL, "accepted", false },
	[HR_REQUEST_RELOAD] = { begin_reload, reload_is_over, NULL, true },
};

static int check_permission(struct hr_control *c, const struct hr_control_client *client)
{
	const struct hr_request_form *form = hr_request_form(client->request.kind);

	if (form->reads ? client->credentials.may_read : client->credentials.may_change)
		return 0;
	return hr_fail(&c->e, HR_ERROR_MISSING, -EACCES,
		       "user %u may not send '%s': control.mode is \"%04o\"",
		       (unsigned)client->credentials.user, form->name,
		       c->status->engine->config.control.mode);
}

/* What the request needs and this appliance does not have; NULL: nothing. */
static const char *lacking(const struct hr_control *c, enum hr_request_kind kind)
{
	if (kind == HR_REQUEST_HISTORY)
		return c->status->history ? NULL : "history";
	if (hr_request_form(kind)->disk)
		return c->pass ? NULL : "engine that serves it";
	return actions[kind].schedule && !c->repeat ? "schedule" : NULL;
}

static bool may_wait(const struct hr_control *c)
{
	uint32_t waiters = 0;

	for (uint32_t i = 0; i < HR_CONTROL_CLIENTS; i++)
		waiters += c->client[i].state == HR_CONTROL_WAITS;
	return waiters < HR_CONTROL_WAITERS;
}

static int check_request(struct hr_control *c, struct hr_control_client *client, bool waits)
{
	const struct hr_request_form *form = hr_request_form(client->request.kind);
	const char *lacks = lacking(c, client->request.kind);
	int err = check_permission(c, client);

	if (!err && form->pipeline)
		err = find_pipeline(c, client);
	if (!err && lacks)
		err = hr_fail(&c->e, HR_ERROR_FAILED, -ENOTSUP,
			      "'%s' is not possible: this appliance has no %s", form->name, lacks);
	if (!err && waits && !may_wait(c))
		err = hr_fail(&c->e, HR_ERROR_FAILED, -EBUSY,
			      "busy: %u clients wait already, which is the limit",
			      HR_CONTROL_WAITERS);
	return err;
}

enum hr_control_state hr_control_handle(struct hr_control *c, struct hr_control_client *client,
					int err, uint64_t now_ns)
{
	const enum hr_request_kind kind = client->request.kind;
	const bool passes = hr_request_form(kind)->disk;
	const bool waits = client->request.wait || kind == HR_REQUEST_RELOAD;

	client->start = 0;
	hr_error_clear(&c->e);
	if (err)
		hr_fail(&c->e, HR_ERROR_USAGE, err, "%s", hr_request_error(err));
	else
		err = check_request(c, client, waits);
	if (!err && passes)
		err = c->pass(c->pass_to, &client->request, client->fd, &c->e);
	else if (!err && actions[kind].begin)
		err = actions[kind].begin(c, client);
	if (!err && (passes || waits))
		return passes ? HR_CONTROL_FREE : HR_CONTROL_WAITS;
	hr_control_answer(c, client, actions[kind].result, now_ns);
	return HR_CONTROL_REPLIES;
}

bool hr_control_handle_waiting(struct hr_control *c, struct hr_control_client *client, bool last)
{
	bool (*is_over)(struct hr_control *, struct hr_control_client *) =
		actions[client->request.kind].is_over;
	bool over;

	hr_error_clear(&c->e);
	over = is_over ? is_over(c, client) : last;
	if (!over && !last)
		return false;
	if (!over)
		hr_fail(&c->e, HR_ERROR_FAILED, -ESHUTDOWN, "the appliance ends before that");
	hr_control_answer(c, client, "done", 0);
	return true;
}
