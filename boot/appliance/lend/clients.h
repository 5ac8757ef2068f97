/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boot/appliance/lend/clients.h - connections to the socket of a tap or a feed that have no seat:
 * each sends HELLO, and then waits until the owner gives it a seat, or refuses it.
 *
 * The kernel reports the user of each connection (boot/appliance/protocol/socket.h); a
 * user without permission is refused at once. Nothing here waits, or allocates memory.
 *
 * Hostile clients: a message that is not one of the protocol ends the connection, and so does no
 * HELLO within HR_TAP_HELLO_NS. Entries are fixed: a new client replaces the oldest one that has
 * not sent HELLO, and at most HR_TAP_WAITING clients wait.
 */
#ifndef BOOT_APPLIANCE_LEND_CLIENTS_H
#define BOOT_APPLIANCE_LEND_CLIENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "boot/appliance/protocol/socket.h"
#include "config/base/clock.h"
#include "config/config.h"
#include "config/base/limits.h"
#include "gpu/tap/protocol.h"

/*
 * How the sockets of taps and of feeds differ: the words of messages and logs, and the protocol
 * (gpu/tap/protocol.h). What a death means, and what a tile is, differs too: consumer.h, producer.h.
 */
struct hr_lend_kind {
	const char *name;   /* "tap" */
	const char *client; /* of its processes: "consumer" */
	uint16_t hello, welcome, version;
};

extern const struct hr_lend_kind hr_lend_tap, hr_lend_feed;

#define HR_TAP_SILENT 16u		    /* clients without HELLO */
#define HR_TAP_WAITING HR_TAP_CONSUMERS_MAX /* that have sent it */
#define HR_TAP_CLIENTS (HR_TAP_SILENT + HR_TAP_WAITING)
#define HR_TAP_HELLO_NS (10 * HR_NS_PER_S) /* from the connection to HELLO */
#define HR_TAP_STEP_NS (HR_NS_PER_MS / 2)  /* between two looks at the sockets */

struct hr_tap_client {
	int fd;	       /* -1: the entry is free */
	bool waits;    /* it has sent `hello` */
	unsigned told; /* the owner's: what it knows that it waits for; 0: nothing yet */
	uint64_t since_ns;
	struct hr_credentials credentials;
	struct hr_tap_message hello;
};

/* The owner sets the first members before hr_tap_clients_begin(). */
struct hr_tap_clients {
	const struct hr_lend_kind *kind;
	const char *name;  /* of the tap or feed */
	uint64_t *refused; /* counts refused clients */
	int fd;		   /* the socket, which listens */
	int wake;	   /* epoll of all descriptors */
	struct hr_config_control users;
	struct hr_tap_client client_of[HR_TAP_CLIENTS];
};

/* All entries are free; events of the socket end a wait for `wake`. */
void hr_tap_clients_begin(struct hr_tap_clients *c);

/* Accept clients, and take what they have sent; events: one of the descriptors may be readable. */
void hr_tap_clients_step(struct hr_tap_clients *c, bool events, uint64_t now_ns);

/* The next client from *i on that waits, or NULL; *i is the index behind it. Begin with 0. */
struct hr_tap_client *hr_tap_clients_waiting(struct hr_tap_clients *c, uint32_t *i);

/* A descriptor that is readable when the process of the client has ended; -1: the kernel has none
 * for it, as for a process of a PID namespace that is not visible here. */
int hr_tap_client_process(const struct hr_tap_client *client);

/* The owner has taken the client's fd; events of pidfd (-1: none) end a wait for `wake`. */
void hr_tap_clients_seated(struct hr_tap_clients *c, struct hr_tap_client *client, int pidfd);

/* Send REFUSED with a reason, log it, and end the connection: of one, or of all. */
void hr_tap_clients_refuse(struct hr_tap_clients *c, struct hr_tap_client *client, int err,
			   const char *why);
void hr_tap_clients_refuse_all(struct hr_tap_clients *c, int err, const char *why);

/* End all connections, without a word: the clients connect again. */
void hr_tap_clients_drop(struct hr_tap_clients *c);

#endif
