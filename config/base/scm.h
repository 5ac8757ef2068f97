/* SPDX-License-Identifier: Apache-2.0 */
/*
 * config/base/scm.h - messages with descriptors between processes of this machine, over a
 * connected Unix socket that keeps the limits of messages (SOCK_SEQPACKET) or does not
 * (SOCK_STREAM).
 */
#ifndef CONFIG_BASE_SCM_H
#define CONFIG_BASE_SCM_H

#include <stddef.h>
#include <sys/types.h>

#define HR_SCM_FDS_MAX 8u /* descriptors of a message */

/*
 * Send a message with copies of `count` descriptors, which the caller keeps. Does not wait on a
 * socket that does not block. 0; -EAGAIN: there is no room for it now; -EPIPE: there is no reader
 * any more;
 * -EMSGSIZE: it is longer than a message, or was sent in part; -errno.
 */
int hr_scm_send(int socket, const void *data, size_t bytes, const int *fds, unsigned count);

/*
 * Receive a message and up to `max` descriptors, which belong to the caller and are closed on exec.
 * Returns the bytes received, 0 at the end of the stream, or: -EAGAIN: none is there; -EPROTO: more
 * descriptors came than `max`, or data were cut off; none of its descriptors is left open; -errno.
 */
ssize_t hr_scm_receive(int socket, void *data, size_t bytes, int *fds, unsigned max,
		       unsigned *count);

#endif
