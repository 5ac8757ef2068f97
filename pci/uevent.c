/* SPDX-License-Identifier: Apache-2.0 */
#include "pci/machine.h"

#include <errno.h>
#include <linux/netlink.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define KERNEL_GROUP 1u
#define MESSAGE_MAX 8192u
#define MESSAGES_MAX 4096u

int hr_uevent_open(void)
{
	const struct sockaddr_nl address = { .nl_family = AF_NETLINK, .nl_groups = KERNEL_GROUP };
	const int fd = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK,
			      NETLINK_KOBJECT_UEVENT);
	int err;

	if (fd < 0)
		return -errno;
	if (bind(fd, (const struct sockaddr *)&address, sizeof address) == 0)
		return fd;
	err = -errno;
	close(fd);
	return err;
}

bool hr_uevent_concerns(const char *message, size_t bytes)
{
	static const char key[] = "SUBSYSTEM=";
	const char *at = message, *const end = message + bytes;

	while (at < end) {
		const size_t n = strnlen(at, (size_t)(end - at));

		if (n > sizeof key - 1 && memcmp(at, key, sizeof key - 1) == 0) {
			const char *value = at + sizeof key - 1;
			const size_t rest = n - (sizeof key - 1);

			return (rest == 3 && memcmp(value, "pci", 3) == 0) ||
			       (rest == 4 && memcmp(value, "nvme", 4) == 0);
		}
		at += n + 1;
	}
	return false;
}

/* Other processes may send to the group, too; only the kernel has port 0. */
static bool is_kernels(const struct msghdr *header)
{
	const struct sockaddr_nl *from = header->msg_name;

	return header->msg_namelen != sizeof *from || from->nl_family != AF_NETLINK ||
	       from->nl_pid == 0;
}

int hr_uevent_drain(int fd)
{
	char message[MESSAGE_MAX];
	bool found = false;

	for (unsigned i = 0; i < MESSAGES_MAX; i++) {
		struct sockaddr_nl from = { 0 };
		struct iovec part = { message, sizeof message };
		struct msghdr header = { .msg_name = &from,
					 .msg_namelen = sizeof from,
					 .msg_iov = &part,
					 .msg_iovlen = 1 };
		const ssize_t n = recvmsg(fd, &header, MSG_DONTWAIT);

		if (n < 0 && errno == ENOBUFS)
			found = true;
		else if (n < 0)
			return errno == EAGAIN || errno == EINTR ? found : -errno;
		else if (n == 0)
			return found;
		else if (is_kernels(&header))
			found |= (header.msg_flags & MSG_TRUNC) != 0 ||
				 hr_uevent_concerns(message, (size_t)n);
	}
	return found;
}
