/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/appliance/protocol/socket.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define GROUPS_MAX 256 /* of a process with more groups, none is compared */

static bool is_member(int fd, gid_t own, uint32_t group)
{
	gid_t groups[GROUPS_MAX];
	socklen_t bytes = sizeof groups;

	if (group == HR_CONTROL_NO_GROUP)
		return false;
	if (own == group)
		return true;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, groups, &bytes) != 0)
		return false;
	for (size_t i = 0; i < bytes / sizeof *groups; i++)
		if (groups[i] == group)
			return true;
	return false;
}

int hr_credentials_get(struct hr_credentials *credentials, int fd,
		       const struct hr_config_control *control)
{
	struct ucred client;
	socklen_t bytes = sizeof client;
	uint32_t bits;

	memset(credentials, 0, sizeof *credentials);
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &client, &bytes) != 0)
		return -errno;
	credentials->user = client.uid;
	credentials->process = client.pid;
	if (client.uid == geteuid() || client.uid == 0)
		bits = 6;
	else if (is_member(fd, client.gid, control->group))
		bits = control->mode >> 3 & 7;
	else
		bits = control->mode & 7;
	credentials->may_read = bits & 4;
	credentials->may_change = bits & 2;
	return 0;
}
