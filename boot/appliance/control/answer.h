/*
 * boot/appliance/control/answer.h - the replies of the control socket
 * (boot/appliance/control/control.h): carries out a request, and writes the document of its reply.
 *
 * The reply to `status` is the status document. The others are
 *
 *   {"schema": "headrace.answer", "version": 1, "appliance": "box", "request": "trigger",
 *    "pipeline": "sum", "start": 3, "result": "done", "code": 0}
 *
 * `run` of a trigger with HR_MESSAGE_WAIT is the run of that start, `runs` of a history are those
 * that are kept of the pipeline, the newest one first (boot/appliance/attempt/remember.h).
 *
 * result: "done"; "accepted": the request is carried out later; "failed". code: the exit code of
 * the command. message: the reason of a failure. needs_restart: after a reload, an array of the
 * settings that differ and stay as they are.
 */
#ifndef BOOT_APPLIANCE_CONTROL_ANSWER_H
#define BOOT_APPLIANCE_CONTROL_ANSWER_H

#include <stdbool.h>
#include <stdint.h>

#include "boot/appliance/control/control.h"

enum hr_answer {
	HR_ANSWER_REPLY,  /* the reply is in client->out */
	HR_ANSWER_WAITS,  /* the client waits; only when may_wait is true */
	HR_ANSWER_PASSED, /* the engine has a copy of the descriptor, and replies */
};

/* Carry out client->request. */
enum hr_answer hr_answer_begin(struct hr_control *control, struct hr_control_client *client,
			       bool may_wait, uint64_t now_ns);

/*
 * True: the request of a client that waits has ended, and the reply is written. With `last` the
 * appliance ends, and the result is true.
 */
bool hr_answer_end(struct hr_control *control, struct hr_control_client *client, bool last);

/* Write the reply to bytes that are not a request; err is that of hr_request_parse(). */
void hr_answer_refuse(struct hr_control *control, struct hr_control_client *client, int err);

#endif
