/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of the kernel about PCI functions: the messages that count, and their sender. */
#include "pci/machine.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <linux/netlink.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/harness/calls.h"

TestSuite(uevent, .timeout = 60);

#define PCI "add@/devices/pci0000:00\0ACTION=add\0SUBSYSTEM=pci\0SEQNUM=7"
#define NVME "add@/devices/nvme0\0SUBSYSTEM=nvme\0"
#define USB "add@/devices/usb1\0SUBSYSTEM=usb\0"

/* What the next calls of recvmsg() give; after them there is no message. */
static struct message {
	const char *text;
	size_t bytes;
	int error; /* > 0: in place of a message */
	bool is_of_process, is_of_socketpair, is_other_family, is_cut;
} list[3];
static unsigned given;
static bool endless; /* messages of another process without end */

__attribute__((visibility("hidden"))) ssize_t recvmsg(int fd, struct msghdr *header, int flags)
{
	const struct message *m = list;
	struct sockaddr_nl *from = header->msg_name;

	cr_expect_eq(flags, MSG_DONTWAIT);
	if (endless) {
		given++;
		*from = (struct sockaddr_nl){ .nl_family = AF_NETLINK, .nl_pid = 1 };
		return 1;
	}
	m += given;
	if (given == sizeof list / sizeof *list || (!m->text && !m->error)) {
		errno = EAGAIN;
		return -1;
	}
	given++;
	if (m->error) {
		errno = m->error;
		return -1;
	}
	cr_assert_leq(m->bytes, header->msg_iov->iov_len);
	memcpy(header->msg_iov->iov_base, m->text, m->bytes);
	*from = (struct sockaddr_nl){ .nl_family = AF_NETLINK, .nl_pid = m->is_of_process };
	if (m->is_other_family)
		from->nl_family = AF_INET;
	header->msg_namelen = m->is_of_socketpair ? 0 : sizeof *from;
	header->msg_flags = m->is_cut ? MSG_TRUNC : 0;
	return (ssize_t)m->bytes;
}

#define MESSAGE(words) .text = (words), .bytes = sizeof(words)

Test(uevent, messages_that_count_are_found)
{
	static const struct {
		struct message message[3];
		int want;
		unsigned given;
	} row[] = {
		{ { { .text = NULL } }, 0, 0 },
		{ { { MESSAGE(PCI) } }, 1, 1 },
		{ { { MESSAGE(NVME) } }, 1, 1 },
		{ { { MESSAGE(USB) } }, 0, 1 },
		{ { { MESSAGE(USB) }, { MESSAGE(PCI) }, { MESSAGE(USB) } }, 1, 3 },
		{ { { MESSAGE(PCI) }, { MESSAGE(USB) } }, 1, 2 },
		/* of another process, which may send any message */
		{ { { MESSAGE(PCI), .is_of_process = true } }, 0, 1 },
		{ { { MESSAGE(USB), .is_of_process = true, .is_cut = true } }, 0, 1 },
		{ { { MESSAGE(PCI), .is_of_process = true, .is_of_socketpair = true } }, 1, 1 },
		{ { { MESSAGE(PCI), .is_of_process = true, .is_other_family = true } }, 1, 1 },
		/* a lost or cut message may have been about a PCI function */
		{ { { MESSAGE(USB), .is_cut = true } }, 1, 1 },
		{ { { .error = ENOBUFS }, { MESSAGE(USB) } }, 1, 2 },
		{ { { MESSAGE(PCI) }, { .error = EINTR }, { MESSAGE(USB) } }, 1, 2 },
		{ { { MESSAGE(PCI) }, { .error = EBADF }, { MESSAGE(USB) } }, -EBADF, 2 },
		{ { { MESSAGE(PCI) }, { .text = "", .bytes = 0 }, { MESSAGE(USB) } }, 1, 2 },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		memcpy(list, row[i].message, sizeof list);
		given = 0;
		cr_expect_eq(hr_uevent_drain(-1), row[i].want, "row %zu", i);
		cr_expect_eq(given, row[i].given, "row %zu: %u messages", i, given);
	}
}

Test(uevent, the_subsystem_decides)
{
	static const struct {
		const char *message;
		size_t bytes;
		bool concerns;
	} row[] = {
		{ PCI, sizeof PCI, true },
		{ NVME, sizeof NVME, true },
		{ USB, sizeof USB, false },
		{ "SUBSYSTEM=pci", 13, true },
		{ "SUBSYSTEM=pc", 12, false },
		{ "SUBSYSTEM=pcie", 14, false },
		{ "SUBSYSTEM=pci_express", 21, false },
		{ "SUBSYSTEM=nvm", 13, false },
		{ "SUBSYSTEM=nvme-subsystem", 24, false },
		{ "SUBSYSTEM=", 10, false },
		{ "XSUBSYSTEM=pci", 14, false },
		{ "add@/SUBSYSTEM=pci", 18, false },
		/* the first one */
		{ "SUBSYSTEM=usb\0SUBSYSTEM=pci", 27, false },
		{ "\0\0SUBSYSTEM=pci", 15, true },
		{ "SUBSYSTEM=pci", 12, false },
		{ "", 0, false },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++)
		cr_expect_eq(hr_uevent_concerns(row[i].message, row[i].bytes), row[i].concerns,
			     "row %zu", i);
}

Test(uevent, a_socket_is_of_the_group_of_the_kernel)
{
	struct sockaddr_nl address;
	socklen_t bytes = sizeof address;
	const int fd = hr_uevent_open();

	if (fd == -EPROTONOSUPPORT || fd == -EPERM || fd == -EACCES)
		cr_skip_test("no socket for messages of the kernel: %s", strerror(-fd));
	cr_assert_geq(fd, 0, "%s", strerror(-fd));
	cr_assert_eq(getsockname(fd, (struct sockaddr *)&address, &bytes), 0);
	cr_expect_eq(address.nl_family, AF_NETLINK);
	cr_expect_eq(address.nl_groups, 1u);
	close(fd);
}

/* A process that sends all the time does not keep the reader for ever. */
Test(uevent, a_look_takes_a_limited_number_of_messages)
{
	endless = true;
	cr_expect_eq(hr_uevent_drain(-1), 0);
	cr_expect_eq(given, 4096u, "%u", given);
}

/* ---- the calls of an open, which this test answers */

static bool answered;
static unsigned failing; /* call 1 or 2 */

int socket(int family, int type, int protocol)
{
	if (!answered)
		return (int)syscall(SYS_socket, family, type, protocol);
	calls_note("socket(%d,%d,%d) ", family == AF_NETLINK,
		   type == (SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK),
		   protocol == NETLINK_KOBJECT_UEVENT);
	errno = EPROTONOSUPPORT;
	return failing == 1 ? -1 : 0;
}

int bind(int fd, const struct sockaddr *to, socklen_t bytes)
{
	struct sockaddr_nl address = { 0 };

	if (!answered)
		return (int)syscall(SYS_bind, fd, to, bytes);
	memcpy(&address, to, sizeof address);
	calls_note("bind(%d,%d,%u,%u) ", fd, address.nl_family == AF_NETLINK, address.nl_pid,
		   address.nl_groups);
	errno = EADDRINUSE;
	return failing == 2 ? -1 : 0;
}

int close(int fd)
{
	if (!answered)
		return (int)syscall(SYS_close, fd);
	calls_note("close(%d) ", fd);
	errno = EIO;
	return -1;
}

Test(uevent, an_open_that_fails_leaves_nothing_open)
{
	static const struct {
		int want;
		const char *calls;
	} row[] = {
		{ 0, "socket(1,1,1) bind(0,1,0,1) " },
		{ -EPROTONOSUPPORT, "socket(1,1,1) " },
		{ -EADDRINUSE, "socket(1,1,1) bind(0,1,0,1) close(0) " },
	};

	for (failing = 0; failing < 3; failing++) {
		int got;

		answered = true;
		got = hr_uevent_open();
		answered = false;
		cr_expect_eq(got, row[failing].want, "%u: %d", failing, got);
		cr_expect_str_eq(calls_take(), row[failing].calls, "%u", failing);
	}
}
