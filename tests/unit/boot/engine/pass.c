/* Messages with descriptors between processes. */
#include "boot/engine/pass.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static int pair[2];

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
	int got[HR_PASS_MAX];
	unsigned count;

	cr_assert_eq(hr_pass_send(pair[0], "hello", 5, fds, 2), 0);
	cr_assert_eq(hr_pass_receive(pair[1], text, sizeof text, got, HR_PASS_MAX, &count), 5);
	cr_expect_str_eq(text, "hello");
	cr_assert_eq(count, 2u);
	cr_expect_eq(fcntl(got[0], F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
	cr_assert_eq(hr_pass_send(got[0], "again", 5, NULL, 0), 0);
	cr_expect_eq(hr_pass_receive(pair[1], text, sizeof text, got, 0, &count), 5);
	cr_expect_eq(count, 0u);
}

Test(pass, an_empty_socket_and_a_closed_one_are_told)
{
	char byte;
	unsigned count;

	cr_expect_eq(hr_pass_receive(pair[1], &byte, 1, NULL, 0, &count), -EAGAIN);
	close(pair[0]);
	cr_expect_eq(hr_pass_receive(pair[1], &byte, 1, NULL, 0, &count), 0);
	cr_expect_eq(hr_pass_send(pair[1], "x", 1, NULL, 0), -EPIPE);
}

Test(pass, a_full_socket_is_told)
{
	static const char data[4096];
	int err;

	while ((err = hr_pass_send(pair[0], data, sizeof data, NULL, 0)) == 0)
		;
	cr_expect_eq(err, -EAGAIN);
}

Test(pass, more_descriptors_or_data_than_wanted_are_an_error_and_stay_open_nowhere)
{
	const int fds[HR_PASS_MAX + 1] = { 0, 1, 2 };
	const int before = count_open();
	char byte;
	int got;
	unsigned count;

	cr_expect_eq(hr_pass_send(pair[0], "x", 1, fds, HR_PASS_MAX + 1), -EMSGSIZE);
	cr_assert_eq(hr_pass_send(pair[0], "x", 1, fds, 3), 0);
	cr_expect_eq(hr_pass_receive(pair[1], &byte, 1, &got, 1, &count), -EPROTO);
	cr_assert_eq(hr_pass_send(pair[0], "xy", 2, fds, 1), 0);
	cr_expect_eq(hr_pass_receive(pair[1], &byte, 1, &got, 1, &count), -EPROTO);
	cr_expect_eq(count, 0u);
	cr_expect_eq(count_open(), before);
}
