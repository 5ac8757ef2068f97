/*
 * boot/remote/greet.h - the beginning of a connection, in which both sides prove the key to each other.
 * The sender proves it first, so the receiver says nothing that depends on the key to a stranger.
 */
#ifndef BOOT_REMOTE_GREET_H
#define BOOT_REMOTE_GREET_H

#include "boot/remote/tcp.h"

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
