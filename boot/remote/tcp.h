/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boot/remote/tcp.h - the TCP connection of a link: messages in and out, without waits.
 */
#ifndef BOOT_REMOTE_TCP_H
#define BOOT_REMOTE_TCP_H

#include <netinet/in.h>
#include <stdbool.h>

#include "config/base/error.h"
#include "boot/remote/wire.h"

/* ---- proofs that a side knows the key, and codes of messages (HMAC-SHA256).
 *
 * Both sides prove the key over both HELLOs, which have a nonce of each side, so no proof is of use
 * in another connection; the two proofs have different labels, so none can be reflected. The key of
 * the session follows from the key, the HELLOs and the proofs.
 */

struct hr_auth_transcript {
	struct hr_link_hello hello[2];	     /* by enum hr_link_side */
	uint8_t proof[2][HR_AUTH_MAC_BYTES]; /* the sender's is in that of the receiver */
};

/* The proof of one side; the receiver's needs proof[HR_LINK_SENDER]. */
void hr_auth_prove(uint8_t proof[HR_AUTH_MAC_BYTES], const uint8_t key[HR_LINK_KEY_BYTES],
		   const struct hr_auth_transcript *said, enum hr_link_side side);

/* The key of the session, from both proofs. */
void hr_auth_session_key(uint8_t session[HR_AUTH_MAC_BYTES], const uint8_t key[HR_LINK_KEY_BYTES],
			 const struct hr_auth_transcript *said);

/* The code of a message from that side: head, with its count, and body. */
void hr_auth_mac(uint8_t code[HR_AUTH_MAC_BYTES], const uint8_t session[HR_AUTH_MAC_BYTES],
		 enum hr_link_side from, const void *message, size_t bytes);

/* Takes the same time for all values. */
bool hr_auth_mac_equal(const uint8_t a[HR_AUTH_MAC_BYTES], const uint8_t b[HR_AUTH_MAC_BYTES]);

/* Overwrite a secret in memory. */
void hr_auth_wipe(void *secret, size_t bytes);
#define HR_LINK_BUFFER 4096u

enum hr_handshake_state {
	HR_HANDSHAKE_RUNS,    /* goes on */
	HR_HANDSHAKE_PROVED,  /* sender: both sides have proved the key; receiver: the sender has */
	HR_HANDSHAKE_REFUSED, /* this side has refused the other one: `refusal` */
	HR_HANDSHAKE_REFUSED_BY, /* the other side has refused this one: `refusal` */
};

struct hr_link_tcp {
	int fd; /* -1: none */
	enum hr_link_side side;
	bool connecting, secured;
	enum hr_handshake_state handshake;
	struct hr_link_refuse refusal;
	struct sockaddr_in remote_address;
	struct hr_auth_transcript said;
	uint8_t session[HR_AUTH_MAC_BYTES];
	uint64_t count_out, count_in;
	uint64_t began_ns, heard_ns, said_ns;
	size_t in_bytes, out_bytes;
	uint8_t in[HR_LINK_BUFFER], out[HR_LINK_BUFFER];
};

/* "A.B.C.D:PORT" to an address. -EINVAL: it is none; names are not resolved, because that may wait. */
int hr_tcp_parse_address(const char *text, struct sockaddr_in *address, struct hr_error *e);

/* The address of this machine from which packets to `to` are sent. */
int hr_tcp_local_address(const struct sockaddr_in *to, struct in_addr *local, struct hr_error *e);

/* A listening socket, and *at is its address with its port. -EADDRINUSE, -EADDRNOTAVAIL, -errno. */
int hr_tcp_listen(struct sockaddr_in *at, struct hr_error *e);

/* Begin to connect. 0: the caller closes the talk; -errno: at once refused. */
int hr_tcp_connect(struct hr_link_tcp *talk, const struct sockaddr_in *to, uint64_t now_ns);

/* Take a connection of a listening socket. -EAGAIN: there is none; -errno. */
int hr_tcp_accept(struct hr_link_tcp *talk, int listener, uint64_t now_ns);

/* Close, and forget the keys. A closed talk stays closed. */
void hr_tcp_close(struct hr_link_tcp *talk);

/* Send and receive what is possible now. 0; -ECONNRESET: the other side has closed; -errno. */
int hr_tcp_progress(struct hr_link_tcp *talk, uint64_t now_ns);

/* Send what is possible now; an error shows in the next hr_tcp_progress(). */
void hr_tcp_flush(struct hr_link_tcp *talk);

/* Take a received message. 1, or 0: none; -EPROTO: a wrong message; -EBADMSG: a wrong code or count. */
int hr_tcp_receive(struct hr_link_tcp *talk, struct hr_link_message *message);

/* Say a message with that body (hr_link_body_bytes()). -ENOBUFS: the other side reads nothing. */
int hr_tcp_send(struct hr_link_tcp *talk, enum hr_link_kind kind, const void *body,
		uint64_t now_ns);

/* ---- the beginning of a connection, in which both sides prove the key to each other.
 * The sender proves it first, so the receiver says nothing that depends on the key to a stranger.
 */

/* What a side says of itself in its HELLO, and its key. */
struct hr_handshake_self {
	struct hr_link_hello hello; /* the nonce is that of the talk */
	const uint8_t *key;
};

/* Say this side's HELLO, with a new nonce. -errno */
int hr_handshake_begin(struct hr_link_tcp *talk, const struct hr_handshake_self *self,
		       uint64_t now_ns);

/*
 * Take the next message of the greeting; talk->greeting says how it stands. 0; -EPROTO: a message
 * that does not belong there; -errno.
 */
int hr_handshake_receive(struct hr_link_tcp *talk, const struct hr_handshake_self *self,
			 const struct hr_link_message *message, uint64_t now_ns);

/* Receiver, after HR_HANDSHAKE_PROVED: say the proof of this side. */
int hr_handshake_answer(struct hr_link_tcp *talk, const struct hr_handshake_self *self,
			uint64_t now_ns);

/* Refuse the other side. Best effort: the connection is closed next. */
void hr_handshake_refuse(struct hr_link_tcp *talk, enum hr_link_refusal why, uint32_t value,
			 uint64_t now_ns);

#endif
