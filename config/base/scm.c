/* SPDX-License-Identifier: Apache-2.0 */
#include "config/base/scm.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define ROOM CMSG_SPACE(HR_SCM_FDS_MAX * sizeof(int))

union control {
	char bytes[ROOM];
	struct cmsghdr align;
};

int hr_scm_send(int socket, const void *data, size_t bytes, const int *fds, unsigned count)
{
	union control control = { { 0 } };
	struct iovec vec = { (void *)(uintptr_t)data, bytes };
	struct msghdr message = { .msg_iov = &vec, .msg_iovlen = 1 };
	struct cmsghdr *part;
	ssize_t n;

	if (count > HR_SCM_FDS_MAX)
		return -EMSGSIZE;
	if (count) {
		message.msg_control = control.bytes;
		message.msg_controllen = CMSG_SPACE(count * sizeof(int));
		part = CMSG_FIRSTHDR(&message);
		part->cmsg_level = SOL_SOCKET;
		part->cmsg_type = SCM_RIGHTS;
		part->cmsg_len = CMSG_LEN(count * sizeof(int));
		memcpy(CMSG_DATA(part), fds, count * sizeof(int));
	}
	n = sendmsg(socket, &message, MSG_NOSIGNAL);
	if (n == (ssize_t)bytes)
		return 0;
	if (n >= 0)
		return -EMSGSIZE;
	/* too many descriptors in flight */
	return errno == EINTR || errno == ENOBUFS || errno == ETOOMANYREFS ? -EAGAIN : -errno;
}

/* Keep the first `max` descriptors, close the others; returns the number of all. */
static unsigned collect_descriptors(struct msghdr *message, int *fds, unsigned max)
{
	unsigned count = 0;

	for (struct cmsghdr *part = CMSG_FIRSTHDR(message); part;
	     part = CMSG_NXTHDR(message, part)) {
		const size_t some = part->cmsg_level == SOL_SOCKET && part->cmsg_type == SCM_RIGHTS
					    ? (part->cmsg_len - CMSG_LEN(0)) / sizeof(int)
					    : 0;

		for (size_t i = 0; i < some; i++, count++) {
			int fd;

			memcpy(&fd, CMSG_DATA(part) + i * sizeof(int), sizeof fd);
			if (count < max)
				fds[count] = fd;
			else
				close(fd);
		}
	}
	return count;
}

ssize_t hr_scm_receive(int socket, void *data, size_t bytes, int *fds, unsigned max,
		       unsigned *count)
{
	union control control;
	struct iovec vec = { data, bytes };
	struct msghdr message = { .msg_iov = &vec,
				  .msg_iovlen = 1,
				  .msg_control = control.bytes,
				  .msg_controllen = sizeof control.bytes };
	const ssize_t n = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
	unsigned came;

	*count = 0;
	if (n < 0)
		return errno == EINTR ? -EAGAIN : -errno;
	came = collect_descriptors(&message, fds, max);
	if (came <= max && !(message.msg_flags & (MSG_CTRUNC | MSG_TRUNC))) {
		*count = came;
		return n;
	}
	for (unsigned i = 0; i < came && i < max; i++)
		close(fds[i]);
	return -EPROTO;
}
