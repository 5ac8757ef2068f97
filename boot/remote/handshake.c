/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/remote/tcp.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "config/base/seam.h"
#include "boot/remote/internal.h"
#include "config/base/clock.h"

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

/* ---- connections of a receiver that have not proved the key */

static bool same_address(const struct hr_link_tcp *a, const struct hr_link_tcp *b)
{
	return a->remote_address.sin_addr.s_addr == b->remote_address.sin_addr.s_addr;
}

/* Strangers of the address of one of them, with the new one. */
static unsigned count_address(const struct hr_link *link, const struct hr_link_tcp *one,
			      const struct hr_link_tcp *fresh)
{
	unsigned count = same_address(one, fresh);

	for (unsigned i = 0; i < HR_LINK_UNPROVED_MAX; i++)
		count += same_address(one, &link->unproved[i]);
	return count;
}

/* The room of a closed client without a proof; else of the oldest one of the address that has
 * most of them, so that an address that fills the door loses its own connections only. */
static struct hr_link_tcp *room(struct hr_link *link, const struct hr_link_tcp *fresh)
{
	struct hr_link_tcp *victim = NULL;
	unsigned most = 0;

	for (unsigned i = 0; i < HR_LINK_UNPROVED_MAX; i++) {
		struct hr_link_tcp *talk = &link->unproved[i];
		const unsigned count = count_address(link, talk, fresh);

		if (talk->fd < 0)
			return talk;
		if (!victim || count > most ||
		    (count == most && talk->began_ns < victim->began_ns)) {
			victim = talk;
			most = count;
		}
	}
	link->count.refused++;
	hr_tcp_close(victim);
	return victim;
}

static bool may_connect(const struct hr_link *link, const struct hr_link_tcp *talk)
{
	for (uint32_t i = 0; i < link->setup.allowed_count; i++)
		if (link->allowed_address[i].s_addr == talk->remote_address.sin_addr.s_addr)
			return true;
	return !link->setup.allowed_count;
}

static void accept_one(struct hr_link *link)
{
	struct hr_link_tcp fresh, *talk;

	if (hr_tcp_accept(&fresh, link->listener, link->now_ns) != 0)
		return;
	if (!may_connect(link, &fresh)) {
		hr_link_report_refused(link, &fresh.remote_address,
				       "its address is not one of those that may connect");
		hr_tcp_close(&fresh);
		return;
	}
	talk = room(link, &fresh);
	*talk = fresh;
	hr_link_epoll_add(link, talk->fd, HR_LINK_READABLE_LISTENER);
}

void hr_link_report_refused(struct hr_link *link, const struct sockaddr_in *peer, const char *why)
{
	link->count.refused++;
	if (link->refusal_reported_ns && link->now_ns - link->refusal_reported_ns < HR_NS_PER_S)
		return;
	link->refusal_reported_ns = link->now_ns;
	snprintf(link->door_text, sizeof(link->door_text), "%s:%u: refused: %s",
		 inet_ntoa(peer->sin_addr), ntohs(peer->sin_port), why);
	hr_link_queue_event(link, (struct hr_link_event){ .kind = HR_LINK_CLIENT_REFUSED,
							  .text = link->door_text });
}

static const char *refusal(unsigned code)
{
	static const char *const text[HR_LINK_REFUSALS] = {
		[HR_LINK_REFUSE_VERSION] = "another version of the protocol",
		[HR_LINK_REFUSE_KEY] = "another key",
		[HR_LINK_REFUSE_NAME] = "another name of the stream",
		[HR_LINK_REFUSE_TILE_BYTES] = "another size of tiles",
		[HR_LINK_REFUSE_TILES] = "more tiles than this pipeline takes",
		[HR_LINK_REFUSE_SIDE] = "it is a receiver, too",
	};

	return code < HR_LINK_REFUSALS && text[code] ? text[code] : "no HELLO of a sender";
}

/* False: the client is to be closed; *why: what to tell, or NULL. */
static bool step_handshake(struct hr_link *link, struct hr_link_tcp *talk, const char **why)
{
	struct hr_link_message message;
	int err = hr_tcp_progress(talk, link->now_ns), n;

	while ((n = hr_tcp_receive(talk, &message)) > 0) {
		if (hr_handshake_receive(talk, &link->self, &message, link->now_ns) != 0)
			n = -EPROTO;
		if (n < 0 || talk->handshake == HR_HANDSHAKE_REFUSED)
			break;
	}
	hr_tcp_flush(talk);
	if (n < 0 || talk->handshake == HR_HANDSHAKE_REFUSED ||
	    talk->handshake == HR_HANDSHAKE_REFUSED_BY)
		*why = refusal(talk->refusal.code);
	else if (err && talk->handshake == HR_HANDSHAKE_RUNS)
		*why = "it has closed the connection";
	else if (talk->handshake == HR_HANDSHAKE_RUNS &&
		 link->now_ns - talk->began_ns > 2 * link->dead_ns)
		*why = "it has not proved the key in time";
	return !*why && !err;
}

struct hr_link_tcp *hr_link_accept(struct hr_link *link)
{
	struct hr_link_tcp *newest = NULL;

	accept_one(link);
	for (unsigned i = 0; i < HR_LINK_UNPROVED_MAX; i++) {
		struct hr_link_tcp *talk = &link->unproved[i];
		const char *why = NULL;

		if (talk->fd < 0)
			continue;
		if (!step_handshake(link, talk, &why)) {
			if (why)
				hr_link_report_refused(link, &talk->remote_address, why);
			hr_tcp_close(talk);
		} else if (talk->handshake == HR_HANDSHAKE_PROVED) {
			/* The one that has connected later replaces the earlier one. */
			if (newest)
				hr_tcp_close(newest->began_ns <= talk->began_ns ? newest : talk);
			if (!newest || newest->fd < 0)
				newest = talk;
		}
	}
	return newest;
}

void hr_link_close_unproved(struct hr_link *link)
{
	for (unsigned i = 0; i < HR_LINK_UNPROVED_MAX; i++)
		hr_tcp_close(&link->unproved[i]);
}
