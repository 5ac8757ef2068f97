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

struct hr_link_transcript {
	struct hr_link_hello hello[2];	      /* by enum hr_link_side */
	uint8_t proof[2][HR_LINK_CODE_BYTES]; /* the sender's is in that of the receiver */
};

/* The proof of one side; the receiver's needs proof[HR_LINK_SENDER]. */
void hr_link_prove(uint8_t proof[HR_LINK_CODE_BYTES], const uint8_t key[HR_LINK_KEY_BYTES],
		   const struct hr_link_transcript *said, enum hr_link_side side);

/* The key of the session, from both proofs. */
void hr_link_session_key(uint8_t session[HR_LINK_CODE_BYTES], const uint8_t key[HR_LINK_KEY_BYTES],
			 const struct hr_link_transcript *said);

/* The code of a message from that side: head, with its count, and body. */
void hr_link_code(uint8_t code[HR_LINK_CODE_BYTES], const uint8_t session[HR_LINK_CODE_BYTES],
		  enum hr_link_side from, const void *message, size_t bytes);

/* Takes the same time for all values. */
bool hr_link_code_equal(const uint8_t a[HR_LINK_CODE_BYTES], const uint8_t b[HR_LINK_CODE_BYTES]);

/* Overwrite a secret in memory. */
void hr_link_forget(void *secret, size_t bytes);
#define HR_LINK_BUFFER 4096u

enum hr_link_greeting {
	HR_LINK_GREETING,   /* goes on */
	HR_LINK_PROVEN,	    /* sender: both sides have proved the key; receiver: the sender has */
	HR_LINK_REFUSED,    /* this side has refused the other one: `refusal` */
	HR_LINK_REFUSED_BY, /* the other side has refused this one: `refusal` */
};

struct hr_link_talk {
	int fd; /* -1: none */
	enum hr_link_side side;
	bool connecting, secured;
	enum hr_link_greeting greeting;
	struct hr_link_refuse refusal;
	struct sockaddr_in remote_address;
	struct hr_link_transcript said;
	uint8_t session[HR_LINK_CODE_BYTES];
	uint64_t count_out, count_in;
	uint64_t began_ns, heard_ns, said_ns;
	size_t in_bytes, out_bytes;
	uint8_t in[HR_LINK_BUFFER], out[HR_LINK_BUFFER];
};

/* "A.B.C.D:PORT" to an address. -EINVAL: it is none; names are not resolved, because that may wait. */
int hr_talk_address(const char *text, struct sockaddr_in *address, struct hr_error *e);

/* The address of this machine from which packets to `to` are sent. */
int hr_talk_local(const struct sockaddr_in *to, struct in_addr *local, struct hr_error *e);

/* A listening socket, and *at is its address with its port. -EADDRINUSE, -EADDRNOTAVAIL, -errno. */
int hr_talk_listen(struct sockaddr_in *at, struct hr_error *e);

/* Begin to connect. 0: the caller closes the talk; -errno: at once refused. */
int hr_talk_call(struct hr_link_talk *talk, const struct sockaddr_in *to, uint64_t now_ns);

/* Take a connection of a listening socket. -EAGAIN: there is none; -errno. */
int hr_talk_accept(struct hr_link_talk *talk, int listener, uint64_t now_ns);

/* Close, and forget the keys. A closed talk stays closed. */
void hr_talk_close(struct hr_link_talk *talk);

/* Send and receive what is possible now. 0; -ECONNRESET: the other side has closed; -errno. */
int hr_talk_step(struct hr_link_talk *talk, uint64_t now_ns);

/* Send what is possible now; an error shows in the next hr_talk_step(). */
void hr_talk_flush(struct hr_link_talk *talk);

/* Take a received message. 1, or 0: none; -EPROTO: a wrong message; -EBADMSG: a wrong code or count. */
int hr_talk_take(struct hr_link_talk *talk, struct hr_link_message *message);

/* Say a message with that body (hr_link_body_bytes()). -ENOBUFS: the other side reads nothing. */
int hr_talk_say(struct hr_link_talk *talk, enum hr_link_kind kind, const void *body,
		uint64_t now_ns);

/* ---- the beginning of a connection, in which both sides prove the key to each other.
 * The sender proves it first, so the receiver says nothing that depends on the key to a stranger.
 */

/* What a side says of itself in its HELLO, and its key. */
struct hr_link_self {
	struct hr_link_hello hello; /* the nonce is that of the talk */
	const uint8_t *key;
};

/* Say this side's HELLO, with a new nonce. -errno */
int hr_greet_begin(struct hr_link_talk *talk, const struct hr_link_self *self, uint64_t now_ns);

/*
 * Take the next message of the greeting; talk->greeting says how it stands. 0; -EPROTO: a message
 * that does not belong there; -errno.
 */
int hr_greet_take(struct hr_link_talk *talk, const struct hr_link_self *self,
		  const struct hr_link_message *message, uint64_t now_ns);

/* Receiver, after HR_LINK_PROVEN: say the proof of this side. */
int hr_greet_answer(struct hr_link_talk *talk, const struct hr_link_self *self, uint64_t now_ns);

/* Refuse the other side. Best effort: the connection is closed next. */
void hr_greet_refuse(struct hr_link_talk *talk, enum hr_link_refusal why, uint32_t value,
		     uint64_t now_ns);

#endif
