#include "boot/appliance/control/control.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "boot/appliance/attempt/remember.h"
#include "config/base/error.h"
#include "config/base/json.h"
#include "config/base/text.h"

/* The members of a reply besides its request. */
struct verdict {
	const char *result;
	uint32_t code;
	const char *message;		      /* or NULL */
	const struct hr_reload_reply *reload; /* or NULL */
};

/* ---- the document */

static void put_lines(struct hr_json *j, const char *key, const char *lines)
{
	char line[HR_LOG_LINE_MAX];

	hr_json_array(j, key);
	while (*lines) {
		const size_t length = strcspn(lines, "\n");

		snprintf(line, sizeof line, "%.*s", (int)length, lines);
		hr_json_string(j, NULL, line);
		lines += length + (lines[length] == '\n');
	}
	hr_json_close(j);
}

/* Of a reload, the lines after the first one are mistakes. */
static void put_message(struct hr_json *j, const struct hr_control_client *client, const char *text)
{
	char line[HR_LOG_LINE_MAX];
	const size_t length = strcspn(text, "\n");

	if (client->request.kind != HR_REQUEST_RELOAD) {
		hr_json_string(j, "message", text);
		return;
	}
	snprintf(line, sizeof line, "%.*s", (int)length, text);
	hr_json_string(j, "message", line);
	if (text[length])
		put_lines(j, "mistakes", text + length + 1);
}

static void put_reload(struct hr_json *j, const struct hr_reload_reply *reload)
{
	put_lines(j, "changes", reload->changes);
	put_lines(j, "waits_for", reload->running);
	put_lines(j, "needs_restart", reload->restart);
}

/* The run of the start that the client has waited for. */
static void put_run(struct hr_json *j, const struct hr_control *c,
		    const struct hr_control_client *client)
{
	struct hr_past_run run;

	if (c->status->history && client->start &&
	    hr_history_find(c->status->history, client->request.pipeline, client->start, &run))
		hr_past_run_json(j, "run", &run);
}

/* The newest one first. */
static void put_runs(struct hr_json *j, const struct hr_control *c,
		     const struct hr_control_client *client)
{
	struct hr_past_run run = { .sequence = UINT64_MAX };

	hr_json_array(j, "runs");
	while (c->status->history &&
	       hr_history_newest(c->status->history, client->request.pipeline, run.sequence, &run))
		hr_past_run_json(j, NULL, &run);
	hr_json_close(j);
}

static uint32_t format(const struct hr_control *c, const struct hr_control_client *client,
		       const struct verdict *v, char *text, size_t bytes)
{
	struct hr_json j;

	hr_json_to_text(&j, HR_JSON_LINE, text, bytes);
	hr_json_schema(&j, "headrace.answer", HR_CONTROL_SCHEMA);
	hr_json_string(&j, "appliance", c->status->engine->config.name);
	hr_json_string(&j, "request", hr_request_form(client->request.kind)->name);
	if (hr_request_form(client->request.kind)->pipeline)
		hr_json_string(&j, "pipeline", client->request.pipeline);
	if (client->start)
		hr_json_u64(&j, "start", client->start);
	hr_json_string(&j, "result", v->result);
	hr_json_u64(&j, "code", v->code);
	if (v->message)
		put_message(&j, client, v->message);
	if (v->reload)
		put_reload(&j, v->reload);
	if (client->request.kind == HR_REQUEST_TRIGGER && client->request.wait)
		put_run(&j, c, client);
	if (client->request.kind == HR_REQUEST_HISTORY && v->code == HR_EXIT_DONE)
		put_runs(&j, c, client);
	return hr_json_done(&j) == 0 ? (uint32_t)j.length : 0;
}

static void write_head(struct hr_control_client *client, uint32_t code, uint32_t bytes)
{
	const struct hr_reply head = { client->request.kind, code, bytes };

	hr_reply_format(&head, client->out);
	client->sent = 0;
	client->length = HR_MESSAGE_HEADER + bytes;
}

/* The limits of all parts of a text sum up to a fraction of a reply, so each text fits. */
static bool answer(const struct hr_control *c, struct hr_control_client *client,
		   const struct verdict *v)
{
	char *text = (char *)client->out + HR_MESSAGE_HEADER;

	write_head(client, v->code, format(c, client, v, text, HR_STATUS_MAX));
	return true;
}

static bool fail(struct hr_control *c, struct hr_control_client *client)
{
	const struct verdict v = { "failed", (uint32_t)c->e.kind, c->e.text, NULL };

	return answer(c, client, &v);
}

static bool succeed(struct hr_control *c, struct hr_control_client *client, const char *result)
{
	const struct verdict v = { result, HR_EXIT_DONE, NULL, NULL };

	return answer(c, client, &v);
}

/* The result of a function of struct hr_actions that has a text for each failure. */
static bool settle(struct hr_control *c, struct hr_control_client *client, int result)
{
	if (result == 0)
		return succeed(c, client, "done");
	hr_fail(&c->e, HR_ERROR_FAILED, result, "failed: error %d", result);
	return fail(c, client);
}

static bool send_status(struct hr_control *c, struct hr_control_client *client, uint64_t now_ns)
{
	char *text = (char *)client->out + HR_MESSAGE_HEADER;

	write_head(client, HR_EXIT_DONE,
		   (uint32_t)hr_status_format(c->status, now_ns, text, HR_STATUS_MAX));
	return true;
}

/* ---- refusals */

static int check_permission(struct hr_control *c, const struct hr_control_client *client)
{
	const bool reads = hr_request_form(client->request.kind)->reads;

	if (reads ? client->credentials.may_read : client->credentials.may_change)
		return 0;
	return hr_fail(&c->e, HR_ERROR_MISSING, -EACCES,
		       "user %u may not send '%s': control.mode is \"%04o\"",
		       (unsigned)client->credentials.user,
		       hr_request_form(client->request.kind)->name,
		       c->status->engine->config.control.mode);
}

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

static bool is_supported(const struct hr_control *c, enum hr_request_kind kind)
{
	const struct hr_actions *actions = c->actions;

	switch (kind) {
	case HR_REQUEST_TRIGGER:
		return actions->trigger && actions->ended;
	case HR_REQUEST_PAUSE:
		return actions->pause;
	case HR_REQUEST_RESUME:
		return actions->resume;
	case HR_REQUEST_STOP:
		return actions->stop;
	case HR_REQUEST_RELOAD:
		return actions->reload && actions->reloaded;
	default:
		if (kind == HR_REQUEST_HISTORY)
			return c->status->history != NULL;
		return kind == HR_REQUEST_STATUS || (hr_request_form(kind)->disk && actions->pass);
	}
}

static int check(struct hr_control *c, struct hr_control_client *client, bool may_wait)
{
	const struct hr_request *request = &client->request;
	int err = check_permission(c, client);

	if (!err && hr_request_form(request->kind)->pipeline)
		err = find_pipeline(c, client);
	if (!err && !is_supported(c, request->kind))
		err = hr_fail(&c->e, HR_ERROR_FAILED, -ENOTSUP,
			      "'%s' is not possible: this appliance has no %s",
			      hr_request_form(request->kind)->name,
			      hr_request_form(request->kind)->disk  ? "engine that serves it"
			      : request->kind == HR_REQUEST_HISTORY ? "history"
								    : "schedule");
	if (!err && !may_wait && (request->wait || request->kind == HR_REQUEST_RELOAD))
		err = hr_fail(&c->e, HR_ERROR_FAILED, -EBUSY,
			      "busy: %u clients wait already, which is the limit",
			      HR_CONTROL_WAITERS);
	return err;
}

/* ---- actions */

static int handle_request(struct hr_control *c, struct hr_control_client *client)
{
	const struct hr_actions *actions = c->actions;

	switch (client->request.kind) {
	case HR_REQUEST_TRIGGER:
		return actions->trigger(actions->to, client->pipeline, &client->start, &c->e);
	case HR_REQUEST_PAUSE:
		return actions->pause(actions->to, client->pipeline, &c->e);
	case HR_REQUEST_RESUME:
		return actions->resume(actions->to, client->pipeline, &c->e);
	case HR_REQUEST_STOP:
		return actions->stop(actions->to, &c->e);
	default:
		return actions->reload(actions->to, &c->e);
	}
}

static enum hr_handled reply_with(bool written)
{
	return written ? HR_HANDLED_REPLY : HR_HANDLED_WAITS;
}

static enum hr_handled pass(struct hr_control *c, struct hr_control_client *client)
{
	const int err = c->actions->pass(c->actions->to, &client->request, client->fd, &c->e);

	return err ? reply_with(settle(c, client, err)) : HR_HANDLED_PASSED;
}

enum hr_handled hr_control_handle(struct hr_control *c, struct hr_control_client *client,
				  bool may_wait, uint64_t now_ns)
{
	const enum hr_request_kind kind = client->request.kind;
	int err;

	client->start = 0;
	hr_error_clear(&c->e);
	err = check(c, client, may_wait);
	if (err)
		return reply_with(fail(c, client));
	if (kind == HR_REQUEST_STATUS)
		return reply_with(send_status(c, client, now_ns));
	if (kind == HR_REQUEST_HISTORY)
		return reply_with(succeed(c, client, "done"));
	if (hr_request_form(kind)->disk)
		return pass(c, client);
	err = handle_request(c, client);
	if (err)
		return reply_with(settle(c, client, err));
	if (client->request.wait || kind == HR_REQUEST_RELOAD)
		return HR_HANDLED_WAITS;
	return reply_with(succeed(c, client,
				  kind == HR_REQUEST_TRIGGER || kind == HR_REQUEST_STOP ? "accepted"
											: "done"));
}

static bool end_reload(struct hr_control *c, struct hr_control_client *client)
{
	struct hr_reload_reply reload = { 0 };
	int result = 0;

	if (!c->actions->reloaded(c->actions->to, client->request.wait, &result, &c->e, &reload))
		return false;
	if (result)
		return settle(c, client, result);
	return answer(c, client,
		      &(struct verdict){ reload.waits ? "accepted" : "done", HR_EXIT_DONE, NULL,
					 &reload });
}

/* The pipelines of the configuration may be other ones than those when the client asked. */
static bool end_trigger(struct hr_control *c, struct hr_control_client *client)
{
	const struct hr_actions *actions = c->actions;
	int result = 0;

	if (find_pipeline(c, client) != 0)
		return fail(c, client);
	return actions->ended(actions->to, client->pipeline, client->start, &result, &c->e) &&
	       settle(c, client, result);
}

bool hr_control_handle_waiting(struct hr_control *c, struct hr_control_client *client, bool last)
{
	hr_error_clear(&c->e);
	if (client->request.kind == HR_REQUEST_STOP)
		return last && succeed(c, client, "done");
	if (client->request.kind == HR_REQUEST_TRIGGER && end_trigger(c, client))
		return true;
	if (client->request.kind == HR_REQUEST_RELOAD && end_reload(c, client))
		return true;
	if (!last)
		return false;
	hr_fail(&c->e, HR_ERROR_FAILED, -ESHUTDOWN, "the appliance ends before that");
	return fail(c, client);
}

void hr_control_reject(struct hr_control *c, struct hr_control_client *client, int err)
{
	memset(&client->request, 0, sizeof client->request);
	client->start = 0;
	hr_error_clear(&c->e);
	hr_fail(&c->e, HR_ERROR_USAGE, err, "%s", hr_request_error(err));
	fail(c, client);
}
