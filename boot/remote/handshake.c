#include "boot/remote/tcp.h"

#include <errno.h>
#include <string.h>

#include "config/base/seam.h"

int hr_handshake_begin(struct hr_link_tcp *talk, const struct hr_handshake_self *self,
		       uint64_t now_ns)
{
	struct hr_link_hello *mine = &talk->said.hello[talk->side];
	int err;

	*mine = self->hello;
	err = hr_random(mine->nonce, sizeof(mine->nonce));
	return err ? err : hr_tcp_send(talk, HR_LINK_HELLO, mine, now_ns);
}

void hr_handshake_refuse(struct hr_link_tcp *talk, enum hr_link_refusal why, uint32_t value,
			 uint64_t now_ns)
{
	talk->refusal = (struct hr_link_refuse){ .code = why, .value = value };
	talk->handshake = HR_HANDSHAKE_REFUSED;
	if (hr_tcp_send(talk, HR_LINK_REFUSE, &talk->refusal, now_ns) == 0)
		hr_tcp_progress(talk, now_ns);
}

static int check_hello(struct hr_link_tcp *talk, const struct hr_handshake_self *self,
		       const struct hr_link_hello *hello, uint64_t now_ns)
{
	const enum hr_link_side other =
		talk->side == HR_LINK_SENDER ? HR_LINK_RECEIVER : HR_LINK_SENDER;

	if (talk->said.hello[other].version)
		return -EPROTO; /* a second one */
	if (hello->version != HR_LINK_VERSION) {
		hr_handshake_refuse(talk, HR_LINK_REFUSE_VERSION, HR_LINK_VERSION, now_ns);
		return 0;
	}
	if (hello->side != (uint32_t)other) {
		hr_handshake_refuse(talk, HR_LINK_REFUSE_SIDE, 0, now_ns);
		return 0;
	}
	talk->said.hello[other] = *hello;
	if (talk->side == HR_LINK_RECEIVER)
		return hr_handshake_begin(talk, self, now_ns);
	hr_auth_prove(talk->said.proof[HR_LINK_SENDER], self->key, &talk->said, HR_LINK_SENDER);
	return hr_tcp_send(talk, HR_LINK_PROOF, talk->said.proof[HR_LINK_SENDER], now_ns);
}

/* Why two sides with the same key do not fit, or 0. */
static enum hr_link_refusal misfit(const struct hr_link_hello *sender,
				   const struct hr_link_hello *receiver)
{
	if (strncmp(sender->name, receiver->name, sizeof(sender->name)) != 0)
		return HR_LINK_REFUSE_NAME;
	if (sender->tile_bytes != receiver->tile_bytes)
		return HR_LINK_REFUSE_TILE_BYTES;
	return sender->tiles > receiver->tiles ? HR_LINK_REFUSE_TILES : 0;
}

static int check_proof(struct hr_link_tcp *talk, const struct hr_handshake_self *self,
		       const uint8_t proof[HR_AUTH_MAC_BYTES], uint64_t now_ns)
{
	const enum hr_link_side other =
		talk->side == HR_LINK_SENDER ? HR_LINK_RECEIVER : HR_LINK_SENDER;
	uint8_t expected[HR_AUTH_MAC_BYTES];
	enum hr_link_refusal why;

	if (!talk->said.hello[other].version)
		return -EPROTO;
	hr_auth_prove(expected, self->key, &talk->said, other);
	if (!hr_auth_mac_equal(expected, proof)) {
		hr_handshake_refuse(talk, HR_LINK_REFUSE_KEY, 0, now_ns);
		return 0;
	}
	memcpy(talk->said.proof[other], proof, HR_AUTH_MAC_BYTES);
	why = misfit(&talk->said.hello[HR_LINK_SENDER], &talk->said.hello[HR_LINK_RECEIVER]);
	if (why) {
		hr_handshake_refuse(talk, why, self->hello.tile_bytes, now_ns);
		return 0;
	}
	if (talk->side == HR_LINK_SENDER) {
		hr_auth_session_key(talk->session, self->key, &talk->said);
		talk->secured = true;
	}
	talk->handshake = HR_HANDSHAKE_PROVED;
	return 0;
}

int hr_handshake_receive(struct hr_link_tcp *talk, const struct hr_handshake_self *self,
			 const struct hr_link_message *message, uint64_t now_ns)
{
	if (talk->handshake != HR_HANDSHAKE_RUNS)
		return -EPROTO;
	switch (message->head.kind) {
	case HR_LINK_HELLO:
		return check_hello(talk, self, &message->hello, now_ns);
	case HR_LINK_PROOF:
		return check_proof(talk, self, message->proof, now_ns);
	case HR_LINK_REFUSE:
		talk->refusal = message->refuse;
		talk->handshake = HR_HANDSHAKE_REFUSED_BY;
		return 0;
	default:
		return -EPROTO;
	}
}

int hr_handshake_answer(struct hr_link_tcp *talk, const struct hr_handshake_self *self,
			uint64_t now_ns)
{
	uint8_t *proof = talk->said.proof[HR_LINK_RECEIVER];
	int err;

	hr_auth_prove(proof, self->key, &talk->said, HR_LINK_RECEIVER);
	err = hr_tcp_send(talk, HR_LINK_PROOF, proof, now_ns);
	if (err)
		return err;
	hr_auth_session_key(talk->session, self->key, &talk->said);
	talk->secured = true;
	return 0;
}
