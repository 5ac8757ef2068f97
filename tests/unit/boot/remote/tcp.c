/* SPDX-License-Identifier: Apache-2.0 */
/* The TCP connection of a link: addresses, sockets, messages in and out. */
#include "boot/remote/tcp.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/harness/error.h"

#define ROWS(table) (sizeof(table) / sizeof(*(table)))
#define S HR_LINK_SENDER
#define R HR_LINK_RECEIVER

static struct hr_link_tcp talk[2];
static int first_free; /* descriptor */

static void begin(void)
{
	memset(talk, 0, sizeof talk);
	talk[0].fd = talk[1].fd = -1;
	first_free = dup(0);
	close(first_free);
}

/* Nothing is left open. */
static void end(void)
{
	int next;

	hr_tcp_close(&talk[0]);
	hr_tcp_close(&talk[1]);
	next = dup(0);
	cr_expect_eq(next, first_free);
	close(next);
}

TestSuite(talk, .init = begin, .fini = end, .timeout = 60);

static int option(int fd, int level, int name)
{
	socklen_t bytes = sizeof(int);
	int value = -1;

	cr_assert_eq(getsockopt(fd, level, name, &value, &bytes), 0);
	return value;
}

static void expect_flags(int fd)
{
	cr_expect(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	cr_expect(fcntl(fd, F_GETFL) & O_NONBLOCK);
}

static struct sockaddr_in at(const char *text)
{
	struct sockaddr_in address;

	cr_assert_eq(hr_tcp_parse_address(text, &address, test_error()), 0, "%s",
		     test_error_text());
	return address;
}

Test(talk, an_address_has_four_numbers_and_a_port)
{
	static const struct {
		const char *text;
		uint32_t host;
		uint16_t port; /* both 0: refused */
	} row[] = {
		{ "10.0.1.2:4711", 0x0a000102, 4711 },
		{ "255.255.255.254:65535", 0xfffffffe, 65535 },
		{ "1.2.3.4:0", 0x01020304, 0 },
		{ "1.2.3.4:00007", 0x01020304, 7 },
		{ "1.2.3.4:65536", 0, 0 },
		{ "1.2.3.4:000007", 0, 0 },
		{ "1.2.3.4:", 0, 0 },
		{ "1.2.3.4", 0, 0 },
		{ ":7", 0, 0 },
		{ "1.2.3.4:7a", 0, 0 },
		{ "1.2.3.4:-7", 0, 0 },
		{ "1.2.3.4 :7", 0, 0 },
		{ "255.255.255.2541:7", 0, 0 },
		{ "1.2.3.4:5:6", 0, 0 },
		{ "0.0.0.0:7", 0, 0 },
		{ "host:7", 0, 0 },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		const bool good = row[i].host != 0;
		struct sockaddr_in address;
		char want[128];

		memset(&address, 0xff, sizeof address);
		cr_expect_eq(hr_tcp_parse_address(row[i].text, &address, test_error()),
			     good ? 0 : -EINVAL, "%s", row[i].text);
		if (good) {
			cr_expect_eq(address.sin_family, AF_INET);
			cr_expect_eq(ntohl(address.sin_addr.s_addr), row[i].host);
			cr_expect_eq(ntohs(address.sin_port), row[i].port);
			cr_expect_eq(address.sin_zero[7], 0);
			continue;
		}
		snprintf(want, sizeof want,
			 "address \"%s\", expected A.B.C.D:PORT with the IPv4 address of a port",
			 row[i].text);
		cr_expect_str_eq(test_error_text(), want, "%s", test_error_text());
	}
}

Test(talk, the_local_address_is_that_of_the_route)
{
	const struct sockaddr_in here = at("127.0.0.1:0"), there = at("127.0.0.1:7"),
				 everywhere = at("255.255.255.255:7");
	struct in_addr local = { 0 };

	cr_expect_eq(hr_tcp_local_address(&here, &local, test_error()), 0, "%s", test_error_text());
	cr_expect_eq(ntohl(local.s_addr), 0x7f000001);
	local.s_addr = 0;
	cr_expect_eq(hr_tcp_local_address(&there, &local, test_error()), 0, "%s",
		     test_error_text());
	cr_expect_eq(ntohl(local.s_addr), 0x7f000001);
	/* a datagram socket may not send to all */
	cr_expect_eq(hr_tcp_local_address(&everywhere, &local, test_error()), -EACCES);
	cr_expect_str_eq(test_error_text(), "no route to 255.255.255.255: Permission denied", "%s",
			 test_error_text());
	cr_expect_eq(ntohl(local.s_addr), 0x7f000001);
}

static int listen_here(struct sockaddr_in *address)
{
	int fd;

	*address = at("127.0.0.1:0");
	fd = hr_tcp_listen(address, test_error());
	cr_assert_geq(fd, 0, "%s", test_error_text());
	return fd;
}

static void wait_for(int fd, short events)
{
	struct pollfd wait = { .fd = fd, .events = events };

	cr_assert_eq(poll(&wait, 1, 60000), 1);
}

Test(talk, a_listener_has_a_port)
{
	struct sockaddr_in address, again;
	const int fd = listen_here(&address);
	char want[128];

	cr_expect_neq(address.sin_port, 0);
	expect_flags(fd);
	cr_expect_eq(option(fd, SOL_SOCKET, SO_REUSEADDR), 1);
	cr_expect_eq(option(fd, SOL_SOCKET, SO_ACCEPTCONN), 1);
	again = address;
	cr_expect_eq(hr_tcp_listen(&again, test_error()), -EADDRINUSE);
	snprintf(want, sizeof want, "cannot listen on 127.0.0.1:%u: Address already in use",
		 ntohs(address.sin_port));
	cr_expect_str_eq(test_error_text(), want, "%s", test_error_text());
	close(fd);
}

Test(talk, both_ends_of_a_connection)
{
	struct sockaddr_in address;
	const int fd = listen_here(&address);

	memset(talk, 0xff, sizeof talk);
	cr_expect_eq(hr_tcp_accept(&talk[R], fd, 8), -EAGAIN);
	cr_assert_eq(hr_tcp_connect(&talk[S], &address, 7), 0);
	cr_expect(talk[S].connecting && talk[S].side == S);
	cr_expect_eq(memcmp(&talk[S].remote_address, &address, sizeof address), 0);
	for (int i = 0; talk[S].connecting && i < 1000; i++)
		cr_expect_eq(hr_tcp_progress(&talk[S], 9), 0);
	cr_expect_not(talk[S].connecting);
	wait_for(fd, POLLIN);
	cr_assert_eq(hr_tcp_accept(&talk[R], fd, 8), 0);
	cr_expect(!talk[R].connecting && talk[R].side == R);
	cr_expect_eq(ntohl(talk[R].remote_address.sin_addr.s_addr), 0x7f000001);
	cr_expect_neq(talk[R].remote_address.sin_port, address.sin_port);
	for (int i = 0; i < 2; i++) {
		const uint64_t now = i == S ? 7 : 8;

		expect_flags(talk[i].fd);
		cr_expect_eq(option(talk[i].fd, IPPROTO_TCP, TCP_NODELAY), 1);
		cr_expect(talk[i].began_ns == now && talk[i].heard_ns == now &&
			  talk[i].said_ns == now);
		cr_expect(!talk[i].in_bytes && !talk[i].out_bytes && !talk[i].secured &&
			  !talk[i].count_in && !talk[i].count_out);
	}
	close(fd);
}

Test(talk, a_port_where_no_process_listens_refuses)
{
	struct sockaddr_in address;
	int err = 0;

	close(listen_here(&address));
	cr_assert_eq(hr_tcp_connect(&talk[S], &address, 7), 0);
	for (int i = 0; !err && i < 1000; i++)
		err = hr_tcp_progress(&talk[S], 9);
	cr_expect_eq(err, -ECONNREFUSED);
	cr_expect(talk[S].connecting);
}

static void pair(void)
{
	int fd[2];

	cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fd), 0);
	for (int i = 0; i < 2; i++) {
		talk[i].fd = fd[i];
		talk[i].side = i;
		talk[i].secured = true;
		memset(talk[i].session, 7, sizeof talk[i].session);
	}
}

Test(talk, a_closed_connection_forgets_its_key)
{
	pair();
	talk[S].in_bytes = talk[S].out_bytes = 5;
	hr_tcp_close(&talk[S]);
	cr_expect_eq(talk[S].fd, -1);
	cr_expect(!talk[S].secured && !talk[S].in_bytes && !talk[S].out_bytes);
	for (size_t i = 0; i < sizeof talk[S].session; i++)
		cr_expect_eq(talk[S].session[i], 0);
	hr_tcp_close(&talk[S]);
	cr_expect_eq(hr_tcp_progress(&talk[S], 1), -ENOTCONN);
	cr_expect_eq(hr_tcp_send(&talk[S], HR_LINK_MSG_SIZE, talk[R].in, 1), -ENOBUFS);
	hr_tcp_flush(&talk[S]);
}

/* ---- messages */

Test(talk, a_message_has_head_body_and_code)
{
	const struct hr_link_stream_size total = { 3, 4 };
	const struct hr_link_refuse refuse = { HR_LINK_REFUSE_KEY, 0 };
	const size_t coded = hr_link_message_bytes(HR_LINK_MSG_SIZE),
		     plain = hr_link_message_bytes(HR_LINK_REFUSE);
	struct hr_link_head head;
	uint8_t code[HR_AUTH_MAC_BYTES];

	pair();
	talk[R].count_out = 5;
	cr_expect_eq(hr_tcp_send(&talk[R], HR_LINK_REFUSE, &refuse, 11), 0);
	cr_expect(talk[R].out_bytes == plain && talk[R].said_ns == 11 && talk[R].count_out == 5);
	cr_expect_eq(hr_tcp_send(&talk[R], HR_LINK_MSG_SIZE, &total, 12), 0);
	cr_expect(talk[R].out_bytes == plain + coded && talk[R].said_ns == 12 &&
		  talk[R].count_out == 6);
	memcpy(&head, talk[R].out, sizeof head);
	cr_expect(head.magic == HR_LINK_MAGIC && head.kind == HR_LINK_REFUSE &&
		  head.bytes == plain && head.count == 0);
	cr_expect_eq(memcmp(talk[R].out + sizeof head, &refuse, sizeof refuse), 0);
	memcpy(&head, talk[R].out + plain, sizeof head);
	cr_expect(head.magic == HR_LINK_MAGIC && head.kind == HR_LINK_MSG_SIZE &&
		  head.bytes == coded && head.count == 5);
	cr_expect_eq(memcmp(talk[R].out + plain + sizeof head, &total, sizeof total), 0);
	hr_auth_mac(code, talk[R].session, R, talk[R].out + plain, coded - sizeof code);
	cr_expect_eq(memcmp(talk[R].out + plain + coded - sizeof code, code, sizeof code), 0);
	/* the room of one more message */
	talk[R].out_bytes = sizeof talk[R].out - coded + 1;
	cr_expect_eq(hr_tcp_send(&talk[R], HR_LINK_MSG_SIZE, &total, 13), -ENOBUFS);
	cr_expect(talk[R].said_ns == 12 && talk[R].count_out == 6);
	talk[R].out_bytes--;
	cr_expect_eq(hr_tcp_send(&talk[R], HR_LINK_MSG_SIZE, &total, 13), 0);
	cr_expect_eq(talk[R].out_bytes, sizeof talk[R].out);
}

Test(talk, messages_are_taken_one_by_one_in_their_count)
{
	struct hr_link_message message;

	pair();
	for (uint64_t i = 0; i < 3; i++)
		cr_expect_eq(hr_tcp_send(&talk[S], HR_LINK_MSG_SIZE,
					 &(struct hr_link_stream_size){ i, 9 }, 1),
			     0);
	cr_expect_eq(hr_tcp_progress(&talk[S], 21), 0);
	cr_expect(talk[S].out_bytes == 0 && talk[S].heard_ns == 0);
	cr_expect_eq(hr_tcp_receive(&talk[R], &message), 0);
	cr_expect_eq(hr_tcp_progress(&talk[R], 22), 0);
	cr_expect_eq(talk[R].heard_ns, 22);
	cr_expect_eq(hr_tcp_progress(&talk[R], 23), 0);
	cr_expect_eq(talk[R].heard_ns, 22);
	for (uint64_t i = 0; i < 3; i++) {
		cr_expect_eq(hr_tcp_receive(&talk[R], &message), 1);
		cr_expect(message.head.count == i && message.total.tiles == i &&
			  message.total.bytes == 9);
		cr_expect_eq(talk[R].count_in, i + 1);
	}
	cr_expect_eq(talk[R].in_bytes, 0);
	cr_expect_eq(hr_tcp_receive(&talk[R], &message), 0);
}

Test(talk, a_message_without_its_code_or_count_is_refused)
{
	static const struct {
		enum hr_link_kind kind;
		bool secured;
		uint64_t count_in;
		unsigned flip; /* byte from the end, 0: none */
		int taken;
	} row[] = { { HR_LINK_MSG_SIZE, true, 4, 0, 1 },
		    { HR_LINK_MSG_SIZE, true, 3, 0, -EBADMSG },
		    { HR_LINK_MSG_SIZE, true, 5, 0, -EBADMSG },
		    { HR_LINK_MSG_SIZE, true, 4, 1, -EBADMSG },
		    { HR_LINK_MSG_SIZE, true, 4, HR_AUTH_MAC_BYTES, -EBADMSG },
		    { HR_LINK_MSG_SIZE, true, 4, HR_AUTH_MAC_BYTES + 1, -EBADMSG },
		    { HR_LINK_MSG_SIZE, false, 4, 0, -EBADMSG },
		    { HR_LINK_PROOF, true, 4, 0, -EBADMSG },
		    { HR_LINK_PROOF, false, 4, 0, 1 } };

	for (size_t i = 0; i < ROWS(row); i++) {
		struct hr_link_message message;
		uint8_t body[64] = { 1 };

		pair();
		talk[S].count_out = 4;
		cr_assert_eq(hr_tcp_send(&talk[S], row[i].kind, body, 1), 0);
		if (row[i].flip)
			talk[S].out[talk[S].out_bytes - row[i].flip] ^= 1;
		hr_tcp_flush(&talk[S]);
		cr_expect_eq(talk[S].out_bytes, 0);
		talk[R].secured = row[i].secured;
		talk[R].count_in = row[i].count_in;
		cr_expect_eq(hr_tcp_progress(&talk[R], 1), 0);
		cr_expect_eq(hr_tcp_receive(&talk[R], &message), row[i].taken, "row %zu", i);
		hr_tcp_close(&talk[0]);
		hr_tcp_close(&talk[1]);
		memset(talk, 0, sizeof talk);
		talk[0].fd = talk[1].fd = -1;
	}
	/* what a side has said itself */
	pair();
	cr_assert_eq(
		hr_tcp_send(&talk[S], HR_LINK_MSG_SIZE, &(struct hr_link_stream_size){ 1, 2 }, 1),
		0);
	memcpy(talk[S].in, talk[S].out, talk[S].out_bytes);
	talk[S].in_bytes = talk[S].out_bytes;
	cr_expect_eq(hr_tcp_receive(&talk[S], &(struct hr_link_message){ .head = { 0 } }),
		     -EBADMSG);
}

/* ---- bytes */

Test(talk, bytes_that_do_not_fit_are_kept_in_their_order)
{
	const int small = 4096;
	uint8_t got[sizeof talk[S].out];
	size_t sent = 0, received = 0;

	pair();
	cr_assert_eq(setsockopt(talk[S].fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof small), 0);
	/* until the socket takes no more of a buffer */
	do {
		for (size_t i = 0; i < sizeof talk[S].out; i++)
			talk[S].out[i] = (uint8_t)((sent + i) % 251);
		talk[S].out_bytes = sizeof talk[S].out;
		cr_assert_eq(hr_tcp_progress(&talk[S], 1), 0);
		sent += sizeof talk[S].out - talk[S].out_bytes;
	} while (talk[S].out_bytes == 0);
	for (size_t i = 0; i < talk[S].out_bytes; i++)
		cr_assert_eq(talk[S].out[i], (sent + i) % 251);
	while (received < sent) {
		const ssize_t n = read(talk[R].fd, got, sizeof got);

		cr_assert_gt(n, 0);
		for (ssize_t i = 0; i < n; i++, received++)
			cr_assert_eq(got[i], received % 251);
	}
	cr_expect_eq(read(talk[R].fd, got, sizeof got), -1);
	hr_tcp_flush(&talk[S]);
	cr_expect_eq(talk[S].out_bytes, 0);
}

Test(talk, nothing_is_sent_before_the_connection_is_there)
{
	uint8_t byte;

	pair();
	talk[S].out_bytes = 1;
	talk[S].connecting = true;
	hr_tcp_flush(&talk[S]);
	cr_expect_eq(talk[S].out_bytes, 1);
	cr_expect_eq(read(talk[R].fd, &byte, 1), -1);
	talk[S].connecting = false;
	hr_tcp_flush(&talk[S]);
	cr_expect_eq(read(talk[R].fd, &byte, 1), 1);
}

Test(talk, what_was_said_before_the_end_is_still_read)
{
	pair();
	cr_assert_eq(write(talk[R].fd, "abc", 3), 3);
	close(talk[R].fd);
	talk[R].fd = -1;
	/* a full buffer reads nothing, and an error of sending shows */
	talk[S].in_bytes = sizeof talk[S].in;
	cr_expect_eq(hr_tcp_progress(&talk[S], 1), 0);
	talk[S].out_bytes = 1;
	cr_expect_eq(hr_tcp_progress(&talk[S], 1), -EPIPE);
	cr_expect_eq(talk[S].in_bytes, sizeof talk[S].in);
	talk[S].in_bytes = 2;
	cr_expect_eq(hr_tcp_progress(&talk[S], 9), 0);
	cr_expect(talk[S].in_bytes == 5 && memcmp(talk[S].in + 2, "abc", 3) == 0);
	cr_expect_eq(talk[S].heard_ns, 9);
	cr_expect_eq(hr_tcp_progress(&talk[S], 10), -ECONNRESET);
	cr_expect_eq(talk[S].heard_ns, 9);
	talk[S].in_bytes = sizeof talk[S].in - 1;
	cr_expect_eq(hr_tcp_progress(&talk[S], 10), -ECONNRESET);
}

Test(talk, a_broken_connection_is_an_error)
{
	struct sockaddr_in address;
	const struct linger reset = { .l_onoff = 1 };
	const int fd = listen_here(&address);

	cr_assert_eq(hr_tcp_connect(&talk[S], &address, 7), 0);
	for (int i = 0; talk[S].connecting && i < 1000; i++)
		cr_expect_eq(hr_tcp_progress(&talk[S], 9), 0);
	wait_for(fd, POLLIN);
	cr_assert_eq(hr_tcp_accept(&talk[R], fd, 8), 0);
	talk[S].out_bytes = 1;
	cr_expect_eq(hr_tcp_progress(&talk[S], 9), 0);
	cr_assert_eq(setsockopt(talk[R].fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset), 0);
	hr_tcp_close(&talk[R]);
	wait_for(talk[S].fd, POLLIN);
	cr_expect_eq(hr_tcp_progress(&talk[S], 9), -ECONNRESET);
	close(fd);
}
