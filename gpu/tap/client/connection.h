/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu/tap/client/connection.h - the socket of a tap or feed, from the side of another process.
 * For gpu/tap/client/.
 */
#ifndef GPU_TAP_CLIENT_CONNECTION_H
#define GPU_TAP_CLIENT_CONNECTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gpu/tap/protocol.h"

#define HR_TAP_DIRECTORY 108 /* bytes of the folder's path, with its NUL: those of an address */

/* CLOCK_MONOTONIC. */
uint64_t hr_tap_now_ns(void);

/* Wait until the descriptor can be read, or has hung up: true; at most `ns`. */
bool hr_tap_wait_ns(int fd, uint64_t ns);

/*
 * Connect to the socket NAME.ENDING; ending: "tap" or "feed". *directory: its folder; "":
 * $RUNTIME_DIRECTORY, $XDG_RUNTIME_DIR/headrace, /run/headrace, the first that has it, which is
 * then stored there. Returns a socket that does not block, which the caller owns; -ENOENT,
 * -ECONNREFUSED: none is open; -EAGAIN: its queue is full; -EACCES; -EINVAL: a name that cannot
 * be; -errno.
 */
int hr_tap_connect(char directory[HR_TAP_DIRECTORY], const char *name, const char *ending);

/* Set all bytes of a message of that kind and version of its protocol. */
void hr_tap_begin(struct hr_tap_message *m, unsigned kind, uint16_t version);

int hr_tap_send(int fd, const struct hr_tap_message *m);

/*
 * Receive a message, and the descriptors that came with it (-1: none), which the caller closes. 0;
 * -EAGAIN: there is none now; -EPIPE: the connection has ended; -EPROTO: it is no message of a tap.
 */
int hr_tap_receive(int fd, struct hr_tap_message *m, int fds[HR_TAP_FDS]);

/* Close the descriptors that a message brought. */
void hr_tap_close_all(int fds[HR_TAP_FDS]);

#endif
