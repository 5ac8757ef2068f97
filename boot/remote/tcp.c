/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/remote/tcp.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <sodium/crypto_auth_hmacsha256.h>
#include <sodium/crypto_verify_32.h>
#include <sodium/utils.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "boot/remote/internal.h"

int hr_tcp_parse_address(const char *text, struct sockaddr_in *address, struct hr_error *e)
{
	const char *colon = strrchr(text, ':');
	char host[INET_ADDRSTRLEN];
	unsigned long port = 0;
	size_t digits = colon ? strlen(colon + 1) : 0;

	memset(address, 0, sizeof(*address));
	address->sin_family = AF_INET;
	if (!colon || (size_t)(colon - text) >= sizeof(host) || digits < 1 || digits > 5 ||
	    strspn(colon + 1, "0123456789") != digits)
		goto wrong;
	memcpy(host, text, (size_t)(colon - text));
	host[colon - text] = 0;
	for (const char *at = colon + 1; *at; at++)
		port = port * 10 + (unsigned long)(*at - '0');
	if (port > UINT16_MAX || inet_pton(AF_INET, host, &address->sin_addr) != 1)
		goto wrong;
	address->sin_port = htons((uint16_t)port);
	if (address->sin_addr.s_addr != INADDR_ANY)
		return 0;
wrong:
	return hr_fail(e, HR_ERROR_USAGE, -EINVAL,
		       "address \"%s\", expected A.B.C.D:PORT with the IPv4 address of a port",
		       text);
}

int hr_tcp_local_address(const struct sockaddr_in *to, struct in_addr *local, struct hr_error *e)
{
	struct sockaddr_in mine, target = *to;
	socklen_t bytes = sizeof(mine);
	const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	int err = 0;

	/* Any port: connect() of UDP only finds the route. */
	if (!target.sin_port)
		target.sin_port = htons(9);
	if (fd < 0 || connect(fd, (struct sockaddr *)&target, sizeof(target)) != 0 ||
	    getsockname(fd, (struct sockaddr *)&mine, &bytes) != 0)
		err = -errno;
	if (fd >= 0)
		close(fd);
	if (err)
		return hr_fail(e, HR_ERROR_MISSING, err, "no route to %s: %s",
			       inet_ntoa(to->sin_addr), strerror(-err));
	*local = mine.sin_addr;
	return 0;
}

int hr_tcp_listen(struct sockaddr_in *at, struct hr_error *e)
{
	const int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	socklen_t bytes = sizeof(*at);
	int err = 0;

	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) != 0 ||
	    bind(fd, (struct sockaddr *)at, sizeof(*at)) != 0 || listen(fd, 16) != 0 ||
	    getsockname(fd, (struct sockaddr *)at, &bytes) != 0)
		err = -errno;
	if (!err)
		return fd;
	if (fd >= 0)
		close(fd);
	return hr_fail(e, HR_ERROR_MISSING, err, "cannot listen on %s:%u: %s",
		       inet_ntoa(at->sin_addr), ntohs(at->sin_port), strerror(-err));
}

static void begin_talk(struct hr_link_tcp *talk, int fd, enum hr_link_side side, uint64_t now_ns)
{
	const int one = 1;

	memset(talk, 0, sizeof(*talk));
	talk->fd = fd;
	talk->side = side;
	talk->began_ns = talk->heard_ns = talk->said_ns = now_ns;
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
}

int hr_tcp_connect(struct hr_link_tcp *talk, const struct sockaddr_in *to, uint64_t now_ns)
{
	const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	talk->fd = -1;
	if (fd < 0)
		return -errno;
	begin_talk(talk, fd, HR_LINK_SENDER, now_ns);
	talk->remote_address = *to;
	talk->connecting = true;
	return 0;
}

int hr_tcp_accept(struct hr_link_tcp *talk, int listener, uint64_t now_ns)
{
	struct sockaddr_in peer;
	socklen_t bytes = sizeof(peer);
	const int fd =
		accept4(listener, (struct sockaddr *)&peer, &bytes, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (fd < 0)
		return -errno;
	begin_talk(talk, fd, HR_LINK_RECEIVER, now_ns);
	talk->remote_address = peer;
	return 0;
}

void hr_tcp_close(struct hr_link_tcp *talk)
{
	if (talk->fd >= 0)
		close(talk->fd);
	talk->fd = -1;
	talk->secured = false;
	talk->in_bytes = talk->out_bytes = 0;
	hr_auth_wipe(talk->session, sizeof(talk->session));
}

static int finish_connect(struct hr_link_tcp *talk)
{
	if (connect(talk->fd, (struct sockaddr *)&talk->remote_address,
		    sizeof(talk->remote_address)) == 0 ||
	    errno == EISCONN)
		talk->connecting = false;
	else if (errno != EINPROGRESS && errno != EALREADY && errno != EINTR)
		return -errno;
	return 0;
}

static int send_some(struct hr_link_tcp *talk)
{
	while (talk->out_bytes) {
		const ssize_t n = send(talk->fd, talk->out, talk->out_bytes, MSG_NOSIGNAL);

		if (n < 0)
			return errno == EAGAIN || errno == EINTR ? 0 : -errno;
		talk->out_bytes -= (size_t)n;
		memmove(talk->out, talk->out + n, talk->out_bytes);
	}
	return 0;
}

void hr_tcp_flush(struct hr_link_tcp *talk)
{
	if (talk->fd >= 0 && !talk->connecting)
		send_some(talk);
}

int hr_tcp_progress(struct hr_link_tcp *talk, uint64_t now_ns)
{
	ssize_t n;
	int err;

	if (talk->fd < 0)
		return -ENOTCONN;
	if (talk->connecting) {
		err = finish_connect(talk);
		if (err || talk->connecting)
			return err;
	}
	err = send_some(talk);
	/* What the other side has said before it closed is still there. */
	if (talk->in_bytes == sizeof(talk->in))
		return err;
	n = recv(talk->fd, talk->in + talk->in_bytes, sizeof(talk->in) - talk->in_bytes, 0);
	if (n > 0) {
		talk->in_bytes += (size_t)n;
		talk->heard_ns = now_ns;
		return 0;
	}
	if (n == 0)
		return -ECONNRESET;
	return errno == EAGAIN || errno == EINTR ? err : -errno;
}

static bool code_holds(struct hr_link_tcp *talk, const struct hr_link_message *message,
		       size_t bytes)
{
	const enum hr_link_side other =
		talk->side == HR_LINK_SENDER ? HR_LINK_RECEIVER : HR_LINK_SENDER;
	uint8_t code[HR_AUTH_MAC_BYTES];

	if (!talk->secured || message->head.count != talk->count_in)
		return false;
	talk->count_in++;
	hr_auth_mac(code, talk->session, other, talk->in, bytes - sizeof(code));
	return hr_auth_mac_equal(code, talk->in + bytes - sizeof(code));
}

int hr_tcp_receive(struct hr_link_tcp *talk, struct hr_link_message *message)
{
	const int bytes = hr_link_message_parse(message, talk->in, talk->in_bytes);

	if (bytes <= 0)
		return bytes;
	if (message->head.kind >= HR_LINK_OPEN ? !code_holds(talk, message, (size_t)bytes)
					       : talk->secured)
		return -EBADMSG;
	talk->in_bytes -= (size_t)bytes;
	memmove(talk->in, talk->in + bytes, talk->in_bytes);
	return 1;
}

int hr_tcp_send(struct hr_link_tcp *talk, enum hr_link_kind kind, const void *body, uint64_t now_ns)
{
	const size_t bytes = hr_link_message_bytes(kind), length = hr_link_body_bytes(kind);
	const bool coded = kind >= HR_LINK_OPEN;
	const struct hr_link_head head = { .magic = HR_LINK_MAGIC,
					   .kind = (uint16_t)kind,
					   .bytes = (uint16_t)bytes,
					   .count = coded ? talk->count_out : 0 };
	uint8_t *at = talk->out + talk->out_bytes;

	if (talk->fd < 0 || talk->out_bytes + bytes > sizeof(talk->out))
		return -ENOBUFS;
	memcpy(at, &head, sizeof(head));
	if (length)
		memcpy(at + sizeof(head), body, length);
	if (coded) {
		talk->count_out++;
		hr_auth_mac(at + sizeof(head) + length, talk->session, talk->side, at,
			    sizeof(head) + length);
	}
	talk->out_bytes += bytes;
	talk->said_ns = now_ns;
	return 0;
}

/* ---- proofs and codes: HMAC-SHA256. The functions of libsodium that are used here have one
 * implementation for all machines, and hold no state, so sodium_init(), which would link all of the
 * library, is not needed. */

HR_STATIC_ASSERT(HR_AUTH_MAC_BYTES == crypto_auth_hmacsha256_BYTES, "code");
HR_STATIC_ASSERT(HR_LINK_KEY_BYTES == crypto_auth_hmacsha256_KEYBYTES, "key");

/* All labels have the same size, and so have all parts that follow. */
#define LABEL_BYTES 16

/* proofs: so many of `said`, the sender's first. */
static void over(uint8_t out[HR_AUTH_MAC_BYTES], const uint8_t key[HR_LINK_KEY_BYTES],
		 const char label[LABEL_BYTES], const struct hr_auth_transcript *said,
		 unsigned proofs)
{
	crypto_auth_hmacsha256_state state;

	crypto_auth_hmacsha256_init(&state, key, HR_LINK_KEY_BYTES);
	crypto_auth_hmacsha256_update(&state, (const uint8_t *)label, LABEL_BYTES);
	crypto_auth_hmacsha256_update(&state, (const uint8_t *)said->hello, sizeof(said->hello));
	crypto_auth_hmacsha256_update(&state, said->proof[0], proofs * HR_AUTH_MAC_BYTES);
	crypto_auth_hmacsha256_final(&state, out);
	sodium_memzero(&state, sizeof(state));
}

void hr_auth_prove(uint8_t proof[HR_AUTH_MAC_BYTES], const uint8_t key[HR_LINK_KEY_BYTES],
		   const struct hr_auth_transcript *said, enum hr_link_side side)
{
	if (side == HR_LINK_SENDER)
		over(proof, key, "headrace sender", said, 0);
	else
		over(proof, key, "headrace receiv", said, 1);
}

void hr_auth_session_key(uint8_t session[HR_AUTH_MAC_BYTES], const uint8_t key[HR_LINK_KEY_BYTES],
			 const struct hr_auth_transcript *said)
{
	over(session, key, "headrace sessio", said, 2);
}

void hr_auth_mac(uint8_t code[HR_AUTH_MAC_BYTES], const uint8_t session[HR_AUTH_MAC_BYTES],
		 enum hr_link_side from, const void *message, size_t bytes)
{
	const uint8_t side = (uint8_t)from;
	crypto_auth_hmacsha256_state state;

	crypto_auth_hmacsha256_init(&state, session, HR_AUTH_MAC_BYTES);
	crypto_auth_hmacsha256_update(&state, &side, sizeof(side));
	crypto_auth_hmacsha256_update(&state, message, bytes);
	crypto_auth_hmacsha256_final(&state, code);
	sodium_memzero(&state, sizeof(state));
}

bool hr_auth_mac_equal(const uint8_t a[HR_AUTH_MAC_BYTES], const uint8_t b[HR_AUTH_MAC_BYTES])
{
	return crypto_verify_32(a, b) == 0;
}

void hr_auth_wipe(void *secret, size_t bytes)
{
	sodium_memzero(secret, bytes);
}

/* ---- readable descriptors: one system call tells which, when all completions are taken */

/* Listener, strangers, connection and channel. */
#define DESCRIPTORS (HR_LINK_UNPROVED_MAX + 3)

int hr_link_epoll_add(struct hr_link *link, int fd, enum hr_link_readable kind)
{
	struct epoll_event wake = { .events = EPOLLIN, .data.u32 = kind };

	if (epoll_ctl(link->epoll, EPOLL_CTL_ADD, fd, &wake) == 0 ||
	    (errno == EEXIST && epoll_ctl(link->epoll, EPOLL_CTL_MOD, fd, &wake) == 0))
		return 0;
	return -errno;
}

unsigned hr_link_epoll_poll(struct hr_link *link)
{
	struct epoll_event ready[DESCRIPTORS];
	const int count = epoll_wait(link->epoll, ready, DESCRIPTORS, 0);
	unsigned wake = 0;

	for (int i = 0; i < count; i++)
		wake |= ready[i].data.u32;
	return wake;
}
