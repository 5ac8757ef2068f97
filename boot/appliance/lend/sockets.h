/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boot/appliance/lend/sockets.h - the listening sockets of taps. One process opens them, and closes
 * them at its end: the supervisor, whose engines get the descriptors, or the engine of `headrace
 * run`.
 *
 * A supervisor never accepts a connection. While no engine does, connections and their greetings
 * wait in the queue of the socket, and the next engine answers them. So a consumer knows by the
 * socket alone whether the appliance is there (it can connect), and whether an engine serves it (it
 * gets an answer); and a socket never has two owners.
 */
#ifndef BOOT_APPLIANCE_LEND_SOCKETS_H
#define BOOT_APPLIANCE_LEND_SOCKETS_H

#include <sys/un.h>

#include "config/config.h"
#include "config/base/error.h"

struct hr_tap_sockets {
	int fd[HR_PIPELINES_MAX]; /* -1: the pipeline has no tap */
	struct sockaddr_un at[HR_PIPELINES_MAX];
	char name[HR_PIPELINES_MAX][HR_NAME_MAX]; /* of the tap */
	uint32_t group[HR_PIPELINES_MAX];	  /* of its users */
};

/* The users that may attach to a tap or a feed with that group. */
void hr_lend_users(uint32_t group, struct hr_config_control *users);

/*
 * Open a socket for each pipeline of the configuration with a tap; only: NULL, or those of which
 * the word is not 0. 0; or -EADDRINUSE, -ENOKEY (no variable names the directory of sockets),
 * -errno: nothing is open, and *e names the tap.
 */
int hr_tap_sockets_open(struct hr_tap_sockets *sockets, const struct hr_config *config,
			const bool *only, struct hr_error *e);

/*
 * For another configuration: a tap that is in it, too, keeps its socket, with the connections that wait
 * there; the others are closed, or opened. 0, or an error of hr_tap_sockets_open() for a tap, which
 * has no socket then.
 */
int hr_tap_sockets_change(struct hr_tap_sockets *sockets, const struct hr_config *config,
			  struct hr_error *e);

/* Close and remove one of them, so that no consumer waits for it; or all. Those that are closed are
 * left out. */
void hr_tap_socket_close(struct hr_tap_sockets *sockets, uint32_t pipeline);
void hr_tap_sockets_close(struct hr_tap_sockets *sockets);

#endif
