/* SPDX-License-Identifier: Apache-2.0 */
/* Messages with descriptors between processes. */
#include "config/base/scm.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static int pair[2];
/* All control data of the next message; NULL: a real message comes. */
static const struct cmsghdr *arrives;

ssize_t recvmsg(int socket, struct msghdr *message, int flags)
{
	if (!arrives)
		return syscall(SYS_recvmsg, socket, message, flags);
	cr_assert_geq(message->msg_controllen, CMSG_ALIGN(arrives->cmsg_len));
	memcpy(message->msg_control, arrives, arrives->cmsg_len);
	message->msg_controllen = CMSG_ALIGN(arrives->cmsg_len);
	message->msg_flags = 0;
	return 1;
}

static void begin(void)
{
	cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, pair), 0);
}

TestSuite(pass, .init = begin, .timeout = 60);

static int count_open(void)
{
	int count = 0;

	for (int fd = 0; fd < 256; fd++)
		count += fcntl(fd, F_GETFD) >= 0;
	return count;
}

Test(pass, a_message_arrives_with_copies_of_its_descriptors)
{
	const int fds[2] = { pair[0], STDERR_FILENO };
	char text[8] = "";
	int got[HR_SCM_FDS_MAX];
	unsigned count;

	cr_assert_eq(hr_scm_send(pair[0], "hello", 5, fds, 2), 0);
	cr_assert_eq(hr_scm_receive(pair[1], text, sizeof text, got, HR_SCM_FDS_MAX, &count), 5);
	cr_expect_str_eq(text, "hello");
	cr_assert_eq(count, 2u);
	cr_expect_eq(fcntl(got[0], F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
	cr_assert_eq(hr_scm_send(got[0], "again", 5, NULL, 0), 0);
	cr_expect_eq(hr_scm_receive(pair[1], text, sizeof text, got, 0, &count), 5);
	cr_expect_eq(count, 0u);
}

Test(pass, an_empty_socket_and_a_closed_one_are_told)
{
	char byte;
	unsigned count;

	cr_expect_eq(hr_scm_receive(pair[1], &byte, 1, NULL, 0, &count), -EAGAIN);
	close(pair[0]);
	cr_expect_eq(hr_scm_receive(pair[1], &byte, 1, NULL, 0, &count), 0);
	cr_expect_eq(hr_scm_send(pair[1], "x", 1, NULL, 0), -EPIPE);
}

Test(pass, a_full_socket_is_told)
{
	static const char data[4096];
	int err;

	while ((err = hr_scm_send(pair[0], data, sizeof data, NULL, 0)) == 0)
		;
	cr_expect_eq(err, -EAGAIN);
}

Test(pass, more_descriptors_or_data_than_wanted_are_an_error_and_stay_open_nowhere)
{
	const int fds[HR_SCM_FDS_MAX + 1] = { 0, 1, 2 };
	const int before = count_open();
	char byte;
	int got;
	unsigned count;

	cr_expect_eq(hr_scm_send(pair[0], "x", 1, fds, HR_SCM_FDS_MAX + 1), -EMSGSIZE);
	cr_assert_eq(hr_scm_send(pair[0], "x", 1, fds, 3), 0);
	cr_expect_eq(hr_scm_receive(pair[1], &byte, 1, &got, 1, &count), -EPROTO);
	cr_assert_eq(hr_scm_send(pair[0], "xy", 2, fds, 1), 0);
	cr_expect_eq(hr_scm_receive(pair[1], &byte, 1, &got, 1, &count), -EPROTO);
	cr_expect_eq(count, 0u);
	cr_expect_eq(count_open(), before);
}

Test(pass, a_part_of_a_message_is_an_error)
{
	static const char data[8 << 20];
	int stream[2];

	cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, stream), 0);
	cr_expect_eq(hr_scm_send(stream[0], data, sizeof data, NULL, 0), -EMSGSIZE);
}

Test(pass, other_parts_of_a_message_have_no_descriptors)
{
	static const struct {
		int level, type;
		unsigned count;
	} row[] = {
		{ SOL_SOCKET, SCM_RIGHTS, 2 },
		{ SOL_SOCKET, SCM_RIGHTS + 1, 0 },
		{ IPPROTO_IP, SCM_RIGHTS, 0 },
		{ IPPROTO_IP, SCM_RIGHTS + 1, 0 },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		static union {
			struct cmsghdr head;
			char bytes[CMSG_SPACE(2 * sizeof(int))];
		} part;
		int got[2] = { -7, -7 };
		unsigned count;
		char byte;

		part.head =
			(struct cmsghdr){ CMSG_LEN(2 * sizeof(int)), row[i].level, row[i].type };
		memcpy(CMSG_DATA(&part.head), (int[]){ 50, 51 }, 2 * sizeof(int));
		arrives = &part.head;
		cr_expect_eq(hr_scm_receive(pair[1], &byte, 1, got, 2, &count), 1);
		arrives = NULL;
		cr_expect_eq(count, row[i].count, "row %zu: %u", i, count);
		cr_expect_eq(got[0], row[i].count ? 50 : -7, "row %zu: %d", i, got[0]);
		cr_expect_eq(got[1], row[i].count ? 51 : -7, "row %zu: %d", i, got[1]);
	}
}

/* An array of the caller may hold other descriptors behind those that came, and behind its end. */
Test(pass, only_descriptors_that_came_are_closed)
{
	static const struct {
		unsigned came, max;
	} row[] = { { 1, 2 }, { 3, 1 }, { 0, 2 } };

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		const int fds[] = { 0, 1, 2 };
		int got[3] = { dup(2), dup(2), dup(2) };
		const int last = got[2], behind = got[1], before = count_open();
		const unsigned kept = row[i].came < row[i].max ? row[i].came : row[i].max;
		unsigned count;
		char byte;

		cr_assert_eq(hr_scm_send(pair[0], "xy", 2, fds, row[i].came), 0);
		cr_expect_eq(hr_scm_receive(pair[1], &byte, 1, got, row[i].max, &count), -EPROTO);
		cr_expect_eq(count_open(), before, "row %zu", i);
		cr_expect(fcntl(behind, F_GETFD) >= 0 && fcntl(last, F_GETFD) >= 0, "row %zu", i);
		cr_expect(kept <= 1 && got[1] == behind && got[2] == last, "row %zu", i);
	}
}
