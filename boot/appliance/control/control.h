/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boot/appliance/control/control.h - the control socket of a running appliance: it answers requests
 * (boot/appliance/protocol/message.h) of other processes on this machine.
 *
 * A Unix stream socket (boot/appliance/protocol/socket.h). The group `control` of the
 * configuration and the credentials of a client (boot/appliance/protocol/socket.h) decide
 * which requests it may send. A connection carries one request and one reply, then it is
 * closed; a client that closes its side ends its wait.
 *
 * The socket is served from the periodic function of the owner's thread. Nothing here waits or
 * allocates. Clients cannot exhaust it: memory is HR_CONTROL_CLIENTS fixed entries; a client that
 * has not sent its whole request, or not taken its whole reply, in time is dropped; and when all
 * entries are in use, a new client replaces the oldest such client. A client that sends its
 * request at once is therefore answered however many others are connected. At most
 * HR_CONTROL_WAITERS clients wait for the end of a start. A client whose request concerns an ssd
 * leaves its entry: the engine serves it (boot/appliance/store/service.h).
 */
#ifndef BOOT_APPLIANCE_CONTROL_CONTROL_H
#define BOOT_APPLIANCE_CONTROL_CONTROL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/un.h>

#include "boot/appliance/protocol/message.h"
#include "boot/appliance/protocol/socket.h"
#include "boot/appliance/control/status.h"
#include "config/base/clock.h"
#include "config/base/error.h"

struct hr_repeat;

/*
 * Pass a client whose request concerns an ssd on to the owner of the ssds, which replies. 0: it has a
 * copy of the descriptor; or a negative errno with the text in *e.
 */
typedef int hr_control_pass(void *to, const struct hr_request *request, int fd, struct hr_error *e);

#define HR_CONTROL_CLIENTS 32u
#define HR_CONTROL_WAITERS 16u
#define HR_CONTROL_FDS (HR_CONTROL_CLIENTS + 2u)
#define HR_CONTROL_REQUEST_NS (2 * HR_NS_PER_S) /* from the connection to a whole request */
#define HR_CONTROL_REPLY_NS (10 * HR_NS_PER_S)	/* from a reply to its last byte */

enum hr_control_state {
	HR_CONTROL_FREE,
	HR_CONTROL_LISTENS, /* the request is not complete */
	HR_CONTROL_WAITS,   /* for the end of a start, a reload or the appliance */
	HR_CONTROL_REPLIES, /* a part of the reply is not sent */
};

struct hr_control_client {
	enum hr_control_state state;
	int fd;
	uint64_t since_ns; /* time of the last change of the state */
	struct hr_credentials credentials;
	struct hr_request request;
	uint32_t pipeline; /* its index, when the request has one */
	uint64_t start;	   /* of a trigger: the number of the start, from 1 for each pipeline */
	uint32_t got, sent, length;
	uint8_t in[HR_MESSAGE_REQUEST_MAX];
	uint8_t out[HR_MESSAGE_REPLY_MAX];
};

struct hr_control {
	struct hr_status *status; /* the caller's: the document, and the configuration */
	struct hr_repeat *repeat; /* the caller's; NULL: the appliance has no schedule */
	hr_control_pass *pass;	  /* NULL: no request for an ssd is possible */
	void *pass_to;
	int fd;	   /* listening socket; -1: none */
	int wake;  /* readable when hr_control_tick() has work; -1: none */
	bool deaf; /* no descriptor was left for a client */
	struct sockaddr_un at;
	struct hr_error e; /* of the request that is being answered */
	struct hr_control_client client[HR_CONTROL_CLIENTS];
};

/*
 * Open the socket of the appliance status->engine. On an error the appliance runs on, and a warning
 * gives the reason why there is no socket. 0; -EADDRINUSE: an appliance of that name runs; or
 * another error of hr_socket_listen(). When no variable names a directory, the message has the level
 * debug.
 */
int hr_control_open(struct hr_control *control, struct hr_status *status, struct hr_repeat *repeat,
		    hr_control_pass *pass, void *pass_to);

/* Serve the clients. Has the signature that hr_tick_set() needs. */
void hr_control_tick(void *control, uint64_t now_ns);

/*
 * Write the open descriptors to fds, because another process must not keep them; returns their
 * number.
 */
unsigned hr_control_descriptors(const struct hr_control *control, int fds[HR_CONTROL_FDS]);

/* Send the clients that wait their replies, and remove the socket. */
void hr_control_close(struct hr_control *control);

/* Begin a reload when SIGHUP has come, of an appliance with a schedule. A refusal is logged. */
void hr_control_take_hangup(struct hr_control *control);

/* ---- requests (requests.c) and their replies (answer.c).
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
 *
 * What a request does:
 *
 *   trigger  a start of the pipeline, whatever its own rule is. Requests before a start are one; a
 *            pipeline that runs starts once more after its end. Refused while the pipeline is
 *            paused or suspended. With HR_MESSAGE_WAIT the reply comes when the start has ended, or
 *            will not begin. The results of the last HR_REPEAT_RESULTS starts are known.
 *   pause    no further start until resumed, also after a restart; a run goes on to its end
 *   resume   also lifts a suspension
 *   stop     as SIGTERM
 *   reload   as SIGHUP: reads the file again (boot/appliance/supervisor/repeat.h). The reply comes
 *            when it has been checked, with HR_MESSAGE_WAIT when it is in force
 *
 * trigger, pause and reload, and a resume that lifts nothing, are refused when no pipeline repeats,
 * and before an engine has read the starts from the ssds. The supervisor acts in the next round of
 * its loop, which begins at once when nothing runs.
 */

/*
 * Carry out client->request; with an error of hr_request_parse() it is zero, and the reply has the
 * error. Returns the next state of the client: REPLIES: the reply is in client->out; WAITS; FREE:
 * the owner of the ssds has a copy of the descriptor, and replies.
 */
enum hr_control_state hr_control_handle(struct hr_control *control,
					struct hr_control_client *client, int err, uint64_t now_ns);

/*
 * True: the request of a client that waits has ended, and the reply is written. With `last` the
 * appliance ends, and the result is true.
 */
bool hr_control_handle_waiting(struct hr_control *control, struct hr_control_client *client,
			       bool last);

/* Write the reply: the failure in control->e, else that result. */
void hr_control_answer(const struct hr_control *control, struct hr_control_client *client,
		       const char *result, uint64_t now_ns);

#endif
