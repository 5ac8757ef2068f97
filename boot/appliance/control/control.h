/*
 * boot/appliance/control/control.h - the control socket of a running appliance: it answers requests
 * (boot/appliance/protocol/message.h) of other processes on this machine.
 *
 * A Unix stream socket (boot/appliance/protocol/socket.h). The group `control` of the
 * configuration and the credentials of a client (boot/appliance/protocol/credentials.h) decide
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
#include <stdint.h>
#include <sys/un.h>

#include "boot/appliance/control/actions.h"
#include "boot/appliance/protocol/message.h"
#include "boot/appliance/protocol/credentials.h"
#include "boot/appliance/control/status.h"
#include "config/base/clock.h"

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
 * Open the socket of the appliance status->app. On an error the appliance runs on, and a warning
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

#endif
