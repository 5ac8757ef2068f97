/*
 * boot/appliance/protocol/credentials.h - the permissions of the process at the other end of a
 * connected Unix socket.
 *
 * The kernel reports the user, the group and the further groups that the process had when it
 * connected (unix(7): SO_PEERCRED, SO_PEERGROUPS). As with a file, the first class that fits decides:
 * the user of this process and root, then the members of the group, then all others.
 */
#ifndef BOOT_APPLIANCE_PROTOCOL_CREDENTIALS_H
#define BOOT_APPLIANCE_PROTOCOL_CREDENTIALS_H

#include <stdbool.h>
#include <sys/types.h>

#include "config/config.h"

struct hr_credentials {
	uid_t user;
	pid_t process; /* 0: of a PID namespace that this process does not see */
	bool may_read, may_change;
};

/* 0, or -errno: the kernel does not report the credentials, and the client has no permission. */
int hr_credentials_get(struct hr_credentials *credentials, int fd,
		       const struct hr_config_control *control);

#endif
