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

/* ---- the functions by which requests on the control socket act on the
 * pipelines of a running appliance. The owner of an appliance fills in the table; the socket
 * (boot/appliance/control/control.h) calls its functions.
 *
 * All functions are called from the periodic function of the owner's thread (hr_tick_set()). They
 * neither wait nor allocate. A function that is NULL belongs to a request that this owner does not
 * support, and the socket refuses the request.
 *
 * Errors: 0, or a negative errno with the text in *e. The kind of *e is the exit code of the
 * command that asked.
 */

/* What a reload changes. Lists have a line for each entry. */
struct hr_reload_reply {
	bool waits;	    /* `changes` are in force when the pipelines of `running` have ended */
	char restart[128];  /* settings that differ, and need a restart */
	char changes[4096]; /* settings that the next engine takes */
	char running[HR_PIPELINES_MAX * HR_NAME_MAX]; /* names of pipelines */
};

struct hr_actions {
	void *to; /* first argument of each function */

	/*
	 * Ask for a start of pipeline i. *start is the number of that start, which counts from 1
	 * for each pipeline. While an asked start has not begun, further requests get the same
	 * number; a request during a run gets the number of the next start. -EAGAIN: the pipeline
	 * is paused.
	 */
	int (*trigger)(void *to, uint32_t i, uint64_t *start, struct hr_error *e);

	/*
	 * True when that start has ended, or never begins (a stop, or a pause before the start).
	 * *result: 0, an NVMe status or a negative errno, with its text in *e.
	 */
	bool (*ended)(void *to, uint32_t i, uint64_t start, int *result, struct hr_error *e);

	/*
	 * Begin no further start of pipeline i, or permit starts again. A run that goes on ends
	 * normally. 0 also when nothing changes.
	 */
	int (*pause)(void *to, uint32_t i, struct hr_error *e);
	int (*resume)(void *to, uint32_t i, struct hr_error *e);

	/* Stop the appliance cleanly, as SIGTERM does. */
	int (*stop)(void *to, struct hr_error *e);

	/*
	 * Begin to read the configuration again, as SIGHUP does. -EBUSY: a reload is under way.
	 * reloaded() is true when it has been checked, or with `wait` when it is in force: *result
	 * as above. With result 0, *reply has what it changes. With -EINVAL, the lines of *e after
	 * the first one are the mistakes.
	 */
	int (*reload)(void *to, struct hr_error *e);
	bool (*reloaded)(void *to, bool wait, int *result, struct hr_error *e,
			 struct hr_reload_reply *reply);

	/*
	 * Pass a client whose request concerns an ssd on to the engine, which replies. When this
	 * returns 0, the engine has a copy of the descriptor.
	 */
	int (*pass)(void *to, const struct hr_request *request, int fd, struct hr_error *e);
};
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
	uint32_t pipeline; /* of a trigger, pause or resume */
	uint64_t start;	   /* of a trigger */
	uint32_t got, sent, length;
	uint8_t in[HR_MESSAGE_REQUEST_MAX];
	uint8_t out[HR_MESSAGE_REPLY_MAX];
};

struct hr_control {
	struct hr_status *status;	  /* the caller's: the document, and the configuration */
	const struct hr_actions *actions; /* the caller's */
	int fd;				  /* listening socket; -1: none */
	int wake;			  /* readable when hr_control_tick() has work; -1: none */
	bool deaf;			  /* no descriptor was left for a client */
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
int hr_control_open(struct hr_control *control, struct hr_status *status,
		    const struct hr_actions *actions);

/* Serve the clients. Has the signature that hr_tick_set() needs. */
void hr_control_tick(void *control, uint64_t now_ns);

/*
 * Write the open descriptors to fds, because another process must not keep them; returns their
 * number.
 */
unsigned hr_control_descriptors(const struct hr_control *control, int fds[HR_CONTROL_FDS]);

/* Send the clients that wait their replies, and remove the socket. */
void hr_control_close(struct hr_control *control);

/* ---- the replies of the control socket
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

enum hr_handled {
	HR_HANDLED_REPLY,  /* the reply is in client->out */
	HR_HANDLED_WAITS,  /* the client waits; only when may_wait is true */
	HR_HANDLED_PASSED, /* the engine has a copy of the descriptor, and replies */
};

/* Carry out client->request. */
enum hr_handled hr_control_handle(struct hr_control *control, struct hr_control_client *client,
				  bool may_wait, uint64_t now_ns);

/*
 * True: the request of a client that waits has ended, and the reply is written. With `last` the
 * appliance ends, and the result is true.
 */
bool hr_control_handle_waiting(struct hr_control *control, struct hr_control_client *client,
			       bool last);

/* Write the reply to bytes that are not a request; err is that of hr_request_parse(). */
void hr_control_reject(struct hr_control *control, struct hr_control_client *client, int err);

#endif
