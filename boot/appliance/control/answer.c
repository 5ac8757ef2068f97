/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/appliance/control/control.h"

#include <stdio.h>
#include <string.h>

#include "boot/appliance/attempt/remember.h"
#include "boot/appliance/supervisor/repeat.h"
#include "config/base/error.h"
#include "config/base/json.h"

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

static bool waits_for_engine(const struct hr_repeat *r)
{
	return r->next || r->former;
}

static void put_reload(struct hr_json *j, const struct hr_repeat *r)
{
	put_lines(j, "changes", r->differences.engine);
	hr_json_array(j, "waits_for");
	for (uint32_t i = 0; waits_for_engine(r) && i < r->engine->config.pipelines; i++)
		if (r->running >> i & 1)
			hr_json_string(j, NULL, r->engine->config.pipeline[i].name);
	hr_json_close(j);
	put_lines(j, "needs_restart", r->differences.restart);
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

static size_t format_answer(const struct hr_control *c, const struct hr_control_client *client,
			    const char *result, char *text, size_t bytes)
{
	const struct hr_request *request = &client->request;
	const bool reloaded = request->kind == HR_REQUEST_RELOAD && !c->e.kind;
	struct hr_json j;

	if (reloaded && waits_for_engine(c->repeat))
		result = "accepted";
	hr_json_to_text(&j, HR_JSON_LINE, text, bytes);
	hr_json_schema(&j, "headrace.answer", HR_CONTROL_SCHEMA);
	hr_json_string(&j, "appliance", c->status->engine->config.name);
	hr_json_string(&j, "request", hr_request_form(request->kind)->name);
	if (hr_request_form(request->kind)->pipeline)
		hr_json_string(&j, "pipeline", request->pipeline);
	if (client->start)
		hr_json_u64(&j, "start", client->start);
	hr_json_string(&j, "result", c->e.kind ? "failed" : result);
	hr_json_u64(&j, "code", c->e.kind);
	if (c->e.kind)
		put_message(&j, client, c->e.text);
	if (reloaded)
		put_reload(&j, c->repeat);
	if (request->kind == HR_REQUEST_TRIGGER && request->wait)
		put_run(&j, c, client);
	if (request->kind == HR_REQUEST_HISTORY && !c->e.kind)
		put_runs(&j, c, client);
	return hr_json_done(&j) == 0 ? j.length : 0;
}

/* The limits of all parts of a text sum up to a fraction of a reply, so each text fits. */
void hr_control_answer(const struct hr_control *c, struct hr_control_client *client,
		       const char *result, uint64_t now_ns)
{
	char *text = (char *)client->out + HR_MESSAGE_HEADER;
	const bool status = client->request.kind == HR_REQUEST_STATUS && !c->e.kind;
	const size_t bytes = status ? hr_status_format(c->status, now_ns, text, HR_STATUS_MAX)
				    : format_answer(c, client, result, text, HR_STATUS_MAX);
	const struct hr_reply head = { client->request.kind, c->e.kind, (uint32_t)bytes };

	hr_reply_format(&head, client->out);
	client->sent = 0;
	client->length = HR_MESSAGE_HEADER + head.bytes;
}
