/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boot/appliance/protocol/socket.h - where the control sockets of appliances are: DIRECTORY/NAME.sock.
 *
 * DIRECTORY is $RUNTIME_DIRECTORY (set by service managers), /run/headrace for root, or
 * $XDG_RUNTIME_DIR/headrace. The user of an appliance must own it, and no other user may write to
 * it, so that no other user can offer a socket under the name of an appliance.
 */
#ifndef BOOT_APPLIANCE_PROTOCOL_SOCKET_H
#define BOOT_APPLIANCE_PROTOCOL_SOCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/un.h>

#include "config/config.h"

#define HR_SOCKET_ROOT "/run/headrace" /* directory of root; only root can create it */

/*
 * Write the directory of this user to path; with `make` create it. 0; -ENOKEY: none of the three is
 * set; -EPERM: other users may write to it, or it belongs to another user (without `make`: than this
 * one and root; HR_SOCKET_ROOT may belong to any user); -ENOTDIR; -ENAMETOOLONG; -errno.
 */
int hr_socket_directory(char *path, size_t bytes, bool make);

/* The same for a given directory, which exists. */
int hr_socket_check(const char *path, bool own);

/*
 * Explain an error of hr_socket_directory() or hr_socket_address() for a message: "RUNTIME_DIRECTORY
 * /run/x: Permission denied". Returns text.
 */
const char *hr_socket_reason(int err, char *text, size_t bytes);

/* Write the address of an appliance in a directory. 0; -ENAMETOOLONG; -EINVAL: not a name. */
int hr_socket_address(struct sockaddr_un *at, const char *directory, const char *name);

/*
 * True when the file is a socket at which an appliance listens, or this user may not connect. The
 * file of an owner that is dead is removed, where this user may, when it is old enough that no owner
 * is about to listen.
 */
bool hr_socket_lives(const struct sockaddr_un *at);

/*
 * Open the socket of an appliance for users with a permission in control->mode, and write its
 * address. The socket file of a process that is dead is replaced. Returns a descriptor that does not
 * block; or the error of hr_socket_directory() (-ENOKEY: no variable is set); -EADDRINUSE: an
 * appliance of that name runs; -errno.
 */
int hr_socket_listen(struct sockaddr_un *at, const char *name,
		     const struct hr_config_control *control, struct hr_error *e);

/*
 * The same for a tap: DIRECTORY/NAME.tap, which keeps the limits of messages (SOCK_SEQPACKET). Its
 * name is one for all appliances of the directory.
 */
int hr_socket_listen_tap(struct sockaddr_un *at, const char *name,
			 const struct hr_config_control *control, struct hr_error *e);

/* The same for a feed: DIRECTORY/NAME.feed. */
int hr_socket_listen_feed(struct sockaddr_un *at, const char *name,
			  const struct hr_config_control *control, struct hr_error *e);

/* ---- the permissions of the process at the other end of a
 * connected Unix socket.
 *
 * The kernel reports the user, the group and the further groups that the process had when it
 * connected (unix(7): SO_PEERCRED, SO_PEERGROUPS). As with a file, the first class that fits decides:
 * the user of this process and root, then the members of the group, then all others.
 */

struct hr_credentials {
	uid_t user;
	pid_t process; /* 0: of a PID namespace that this process does not see */
	bool may_read, may_change;
};

/* 0, or -errno: the kernel does not report the credentials, and the client has no permission. */
int hr_credentials_get(struct hr_credentials *credentials, int fd,
		       const struct hr_config_control *control);

#endif
