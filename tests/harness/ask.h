/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/harness/ask.h - requests to an appliance without a socket: what each does, and the reply.
 */
#ifndef TESTS_HARNESS_ASK_H
#define TESTS_HARNESS_ASK_H

#include <stdio.h>
#include <string.h>

#include "boot/appliance/control/control.h"

#define ASK_EACH_RUNS_ONCE \
	"no pipeline of f repeats (every, at, after, on, forever): each runs once"
#define ASK_TOO_EARLY "busy: no engine has read the earlier starts from the ssds yet"
#define ASK_STOPS "the appliance stops"
#define ASK_PAUSED(name) "pipeline '" name "' is paused; 'headrace resume' permits its starts"
#define ASK_SUSPENDED(name)                                                       \
	"pipeline '" name "' is suspended, because the engine ended in its run; " \
	"'headrace resume' permits its starts"

static struct hr_status ask_status;
static struct hr_control ask_control;
static struct hr_control_client *ask_client = &ask_control.client[0];
static bool ask_over; /* the newest reply is written */

static inline void ask_open(const struct hr_engine *engine, struct hr_repeat *repeat)
{
	memset(&ask_control, 0, sizeof ask_control);
	hr_status_open(&ask_status, engine);
	ask_control.status = &ask_status;
	ask_control.repeat = repeat;
	ask_client->credentials.may_read = ask_client->credentials.may_change = true;
}

/* Returns the text of the refusal, or "". */
static inline const char *ask_request(enum hr_request_kind kind, const char *pipeline, bool wait)
{
	ask_client->request = (struct hr_request){ .kind = kind, .wait = wait };
	snprintf(ask_client->request.pipeline, sizeof ask_client->request.pipeline, "%s", pipeline);
	ask_over = hr_control_handle(&ask_control, ask_client, 0, 0) == HR_CONTROL_REPLIES;
	return ask_control.e.text;
}

/* A start; its number goes to *start, unless it is refused. */
static inline const char *ask_start(const char *pipeline, uint64_t *start)
{
	const char *refusal = ask_request(HR_REQUEST_TRIGGER, pipeline, false);

	if (!*refusal)
		*start = ask_client->start;
	return refusal;
}

/* The end of a request, which waits: NULL: it has not come; else the text of the failure, or "". */
static inline const char *ask_end(enum hr_request_kind kind, bool wait, const char *pipeline,
				  uint64_t start)
{
	ask_client->request = (struct hr_request){ .kind = kind, .wait = wait };
	snprintf(ask_client->request.pipeline, sizeof ask_client->request.pipeline, "%s", pipeline);
	ask_client->start = start;
	ask_over = hr_control_handle_waiting(&ask_control, ask_client, false);
	return ask_over ? ask_control.e.text : NULL;
}

/* The document of the newest reply. */
static inline const char *ask_reply(void)
{
	return (const char *)ask_client->out + HR_MESSAGE_HEADER;
}

#endif
