/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/remote/internal.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "config/base/clock.h"

#define BEAT_NS (100 * HR_NS_PER_MS)
#define BACKOFF_MIN_NS (50 * HR_NS_PER_MS)
#define BACKOFF_MAX_NS (2 * HR_NS_PER_S)
/* Registering much memory takes long. */
#define OPENING_NS (10 * HR_NS_PER_S)
/* A completion of a tile or an offer that has not come for so many times dead_ns is lost: a dead peer
 * gives an error. */
#define LOST_LIMITS 10u

static void enter(struct hr_link *link, enum hr_link_state state)
{
	link->state = state;
	link->since_ns = link->now_ns;
}

static bool both_sides_done(const struct hr_link *link)
{
	return link->done_set && link->done_heard;
}

/* No further try helps. */
static void fail_for_good(struct hr_link *link, enum hr_error_kind kind, int code)
{
	enter(link, HR_LINK_STATE_FAILED);
	hr_error_clear(&link->failure);
	hr_fail(&link->failure, kind, code, "link %s: %s", link->self.hello.name, link->text);
	hr_tcp_close(&link->tcp);
	hr_link_close_unproved(link);
	hr_rdma_qp_to_error(&link->qp);
	hr_rdma_qp_destroy(&link->qp);
	hr_link_queue_event(
		link, (struct hr_link_event){ .kind = HR_LINK_FAILED, .text = link->failure.text });
}

/* The connection ends; link->text says why. Completions are collected next. */
static void break_connection(struct hr_link *link)
{
	const bool was_up = link->state == HR_LINK_STATE_UP;

	hr_tcp_close(&link->tcp);
	if (was_up) {
		link->lost_ns = link->now_ns;
		link->broke_ns = link->counted_ns;
		link->count.broken++;
	}
	hr_rdma_qp_to_error(&link->qp);
	enter(link, HR_LINK_STATE_DRAINING);
}

/* After an attempt that did not come up, or a broken connection: call again after a while. */
static void down(struct hr_link *link)
{
	hr_tcp_close(&link->tcp);
	link->backoff_ns = link->backoff_ns ? link->backoff_ns * 2 : BACKOFF_MIN_NS;
	if (link->backoff_ns > BACKOFF_MAX_NS)
		link->backoff_ns = BACKOFF_MAX_NS;
	link->next_call_ns = link->now_ns + link->backoff_ns;
	enter(link, HR_LINK_STATE_DOWN);
}

/* The talk of a sender has not come to a proof. */
static void not_greeted(struct hr_link *link, const char *why)
{
	char peer[INET_ADDRSTRLEN];

	inet_ntop(AF_INET, &link->address.sin_addr, peer, sizeof(peer));
	snprintf(link->text, sizeof(link->text), "%s:%u: %s", peer, ntohs(link->address.sin_port),
		 why);
	down(link);
}

static void call(struct hr_link *link)
{
	int err = hr_tcp_connect(&link->tcp, &link->address, link->now_ns);

	if (!err)
		err = hr_handshake_begin(&link->tcp, &link->self, link->now_ns);
	if (err) {
		not_greeted(link, strerror(-err));
		return;
	}
	hr_link_epoll_add(link, link->tcp.fd, HR_LINK_READABLE_TCP);
	enter(link, HR_LINK_STATE_HANDSHAKE);
}

/* ---- the opening: a queue pair for this connection */

static void not_opened(struct hr_link *link, int err, const struct hr_error *e)
{
	snprintf(link->text, sizeof(link->text), "%.500s", e->text[0] ? e->text : strerror(-err));
	break_connection(link);
}

static void begin_opening(struct hr_link *link)
{
	enter(link, HR_LINK_STATE_CONNECTING);
	link->heard_open = false;
	link->said_end = link->said_done = link->said_bye = link->heard_bye = false;
	memset(link->table, 0, HR_LINK_TABLE_BYTES);
}

/* Receiver: a sender has proved the key, and the last connection is gone. */
static void promote(struct hr_link *link, struct hr_link_tcp *talk)
{
	struct hr_error e = { 0 };
	int err;

	link->tcp = *talk;
	talk->fd = -1;
	hr_tcp_close(talk);
	hr_link_epoll_add(link, link->tcp.fd, HR_LINK_READABLE_TCP);
	begin_opening(link);
	err = hr_link_make_qp(link, &e);
	if (!err)
		err = hr_handshake_answer(&link->tcp, &link->self, link->now_ns);
	if (!err)
		err = hr_link_send_open(link);
	if (err)
		not_opened(link, err, &e);
}

static void up(struct hr_link *link)
{
	enter(link, HR_LINK_STATE_UP);
	link->backoff_ns = 0;
	link->was_up = true;
	link->count.connections++;
	if (link->count.broken)
		link->count.last_recovery_ns = link->counted_ns - link->broke_ns;
	hr_link_begin_transfer(link);
	for (; link->unsent_count; link->unsent_count--)
		link->count.repeated +=
			!hr_tileset_has(&link->have, link->unsent[link->unsent_count - 1]);
	hr_link_queue_event(link,
			    (struct hr_link_event){ .kind = HR_LINK_UP, .tile = link->have.low });
	hr_link_send_news(link);
}

/* Sender: the receiver's queue pair is there. */
static int accept_open_as_sender(struct hr_link *link, struct hr_error *e)
{
	int err;

	if (link->remote_qp.stride < link->setup.tile_bytes)
		return hr_fail(e, HR_ERROR_FAILED, -EPROTO, "the receiver's slots are too small");
	if (!hr_link_receive_open(link, &link->remote_qp)) {
		fail_for_good(link, HR_ERROR_DEVICE, -ESTALE);
		return 0;
	}
	err = hr_link_make_qp(link, e);
	if (!err)
		err = hr_link_connect_qp(link, e);
	return err ? err : hr_link_send_open(link);
}

static int accept_open(struct hr_link *link, const struct hr_link_qp_info *opening,
		       struct hr_error *e)
{
	int err;

	if (link->heard_open)
		return hr_fail(e, HR_ERROR_FAILED, -EPROTO, "a second OPEN");
	link->heard_open = true;
	link->remote_qp = *opening;
	if (link->setup.side == HR_LINK_SENDER)
		return accept_open_as_sender(link, e);
	err = hr_link_connect_qp(link, e);
	return err ? err : hr_tcp_send(&link->tcp, HR_LINK_READY, NULL, link->now_ns);
}

static int accept_ready(struct hr_link *link)
{
	int err = 0;

	if (link->state != HR_LINK_STATE_CONNECTING || !link->heard_open)
		return -EPROTO;
	if (link->setup.side == HR_LINK_SENDER)
		err = hr_tcp_send(&link->tcp, HR_LINK_READY, NULL, link->now_ns);
	if (!err)
		up(link);
	return err;
}

/* ---- messages of a connection */

void hr_link_send_news(struct hr_link *link)
{
	if (link->state != HR_LINK_STATE_UP)
		return;
	/* The buffer is empty enough: a few messages, each said once. */
	if (link->end_known && !link->said_end)
		link->said_end =
			hr_tcp_send(&link->tcp, HR_LINK_MSG_SIZE, &link->end, link->now_ns) == 0;
	if (link->done_set && !link->said_done)
		link->said_done =
			hr_tcp_send(&link->tcp, HR_LINK_MSG_RESULT, &link->done, link->now_ns) == 0;
	if (link->said_done && link->done_heard && !link->said_bye)
		link->said_bye = hr_tcp_send(&link->tcp, HR_LINK_BYE, NULL, link->now_ns) == 0;
	if (link->said_bye && link->heard_bye)
		enter(link, HR_LINK_STATE_ENDED);
}

static int accept_stream_end(struct hr_link *link, const struct hr_link_stream_size *end)
{
	if (link->setup.side != HR_LINK_RECEIVER)
		return -EPROTO;
	if (link->end_heard && (link->end.tiles != end->tiles || link->end.bytes != end->bytes)) {
		snprintf(link->text, sizeof(link->text),
			 "the sender says that its stream has %llu tiles, and said %llu before",
			 (unsigned long long)end->tiles, (unsigned long long)link->end.tiles);
		fail_for_good(link, HR_ERROR_FAILED, -EPROTO);
		return 0;
	}
	if (end->tiles > link->setup.tiles) {
		snprintf(link->text, sizeof(link->text),
			 "the sender's stream has %llu tiles, this pipeline takes %llu",
			 (unsigned long long)end->tiles, (unsigned long long)link->setup.tiles);
		fail_for_good(link, HR_ERROR_USAGE, -EFBIG);
		return 0;
	}
	link->end_heard = true;
	link->end = *end;
	hr_link_check_end(link);
	return 0;
}

static void accept_result(struct hr_link *link, const struct hr_link_run_result *done)
{
	if (link->done_heard)
		return;
	link->done_heard = true;
	memcpy(link->peer_text, done->text, sizeof(link->peer_text));
	hr_link_queue_event(link, (struct hr_link_event){ .kind = HR_LINK_REMOTE_ENDED,
							  .code = (int)done->code,
							  .text = link->peer_text });
}

static int handle_message(struct hr_link *link, const struct hr_link_message *message,
			  struct hr_error *e)
{
	const bool flow = link->state == HR_LINK_STATE_UP;
	int err = 0;

	switch (message->head.kind) {
	case HR_LINK_OPEN:
		return accept_open(link, &message->opening, e);
	case HR_LINK_READY:
		return accept_ready(link);
	case HR_LINK_MSG_KEEPALIVE:
		return 0;
	case HR_LINK_MSG_SIZE:
		err = flow ? accept_stream_end(link, &message->total) : -EPROTO;
		break;
	case HR_LINK_MSG_RESULT:
		if (!flow)
			return -EPROTO;
		accept_result(link, &message->ending);
		break;
	case HR_LINK_BYE:
		link->heard_bye = true;
		break;
	default:
		return -EPROTO;
	}
	if (!err)
		hr_link_send_news(link);
	return err;
}

/* Read the connection. 1: a message was taken; 0: none; -errno: link->text says why it is broken. */
static int listen_to(struct hr_link *link)
{
	struct hr_error e = { 0 };
	struct hr_link_message message;
	const int lost = hr_tcp_progress(&link->tcp, link->now_ns);
	int n = hr_tcp_receive(&link->tcp, &message);

	if (n > 0) {
		const int err = handle_message(link, &message, &e);

		if (!err)
			return 1;
		n = err;
	}
	if (n == 0 && !lost)
		return 0;
	if (n == 0)
		snprintf(link->text, sizeof(link->text),
			 "the connection to the other side is lost: %s", strerror(-lost));
	else if (n == -EBADMSG)
		snprintf(link->text, sizeof(link->text), "a message with a wrong code");
	else
		snprintf(link->text, sizeof(link->text), "%.500s",
			 e.text[0] ? e.text : "a message that does not belong there");
	return n ? n : lost;
}

/* ---- work of each state */

static bool log_refusal(struct hr_link *link)
{
	const struct hr_link_tcp *talk = &link->tcp;
	char why[256];

	link->count.refused++;
	if (talk->handshake == HR_HANDSHAKE_REFUSED_BY)
		snprintf(why, sizeof(why), "the receiver refuses: %s",
			 hr_link_refusal_text(talk->refusal.code));
	else
		snprintf(why, sizeof(why), "the receiver is refused: %s",
			 hr_link_refusal_text(talk->refusal.code));
	not_greeted(link, why);
	if (talk->refusal.code != HR_LINK_REFUSE_BUSY)
		fail_for_good(link, HR_ERROR_USAGE, -EACCES);
	return true;
}

static bool step_greeting(struct hr_link *link)
{
	struct hr_link_message message;
	const int lost = hr_tcp_progress(&link->tcp, link->now_ns);
	int n = hr_tcp_receive(&link->tcp, &message);

	if (n > 0)
		n = hr_handshake_receive(&link->tcp, &link->self, &message, link->now_ns) ? -EPROTO
											  : 1;
	if (link->tcp.handshake == HR_HANDSHAKE_REFUSED ||
	    link->tcp.handshake == HR_HANDSHAKE_REFUSED_BY)
		return log_refusal(link);
	if (link->tcp.handshake == HR_HANDSHAKE_PROVED) {
		begin_opening(link);
		return true;
	}
	if (n < 0) {
		link->count.refused++;
		not_greeted(link, "it does not speak the protocol of a link");
	} else if (n == 0 && lost) {
		not_greeted(link, strerror(-lost));
	} else if (link->now_ns - link->tcp.began_ns > 2 * link->dead_ns) {
		not_greeted(link, link->tcp.connecting ? "no answer" : "it does not greet");
	}
	return n > 0;
}

static bool step_opening(struct hr_link *link)
{
	const int n = listen_to(link);

	if (n < 0) {
		break_connection(link);
	} else if (n == 0 && link->now_ns - link->since_ns > OPENING_NS) {
		snprintf(link->text, sizeof(link->text),
			 "the other side does not open a queue pair");
		break_connection(link);
	}
	return n > 0;
}

/* Receiver: another connection has proved the key. */
static void newcomer(struct hr_link *link, struct hr_link_tcp *talk)
{
	const uint64_t instance = link->tcp.said.hello[HR_LINK_SENDER].instance;

	if (link->state == HR_LINK_STATE_DOWN) {
		promote(link, talk);
		return;
	}
	if (link->state != HR_LINK_STATE_UP && link->state != HR_LINK_STATE_CONNECTING)
		return; /* it waits until completions are collected */
	if (talk->said.hello[HR_LINK_SENDER].instance != instance) {
		hr_handshake_refuse(talk, HR_LINK_REFUSE_BUSY, 0, link->now_ns);
		hr_tcp_close(talk);
		return;
	}
	snprintf(link->text, sizeof(link->text), "the sender has connected again");
	break_connection(link);
}

static void answer_door(struct hr_link *link)
{
	struct hr_link_tcp *proven = hr_link_accept(link);

	link->accepted_ns = link->now_ns;
	if (proven)
		newcomer(link, proven);
}

/* The connection, if it may have something to read, with its heartbeat: as listen_to(). */
static int beat(struct hr_link *link, bool readable)
{
	int n = readable || link->tcp.in_bytes ? listen_to(link) : 0;

	if (n != 0)
		return n;
	link->listened_ns = link->now_ns;
	if (link->now_ns - link->tcp.heard_ns > link->dead_ns) {
		snprintf(link->text, sizeof(link->text), "no message of the other side for %llu ms",
			 (unsigned long long)(link->dead_ns / HR_NS_PER_MS));
		return -ETIMEDOUT;
	}
	if (link->qp.sends && link->now_ns - link->sends_ns > LOST_LIMITS * link->dead_ns) {
		snprintf(link->text, sizeof(link->text), "%s: no completion for %llu ms",
			 link->qp.device.name,
			 (unsigned long long)(LOST_LIMITS * link->dead_ns / HR_NS_PER_MS));
		return -ETIMEDOUT;
	}
	if (link->now_ns - link->tcp.said_ns >= BEAT_NS)
		n = hr_tcp_send(&link->tcp, HR_LINK_MSG_KEEPALIVE, NULL, link->now_ns);
	if (n < 0)
		snprintf(link->text, sizeof(link->text), "the other side does not read");
	return n;
}

/* After all completions: what else there is to do. As hr_link_poll_cq(). */
static int poll_epoll(struct hr_link *link)
{
	const unsigned wake = hr_link_epoll_poll(link);
	int n = 0;

	if (wake & HR_LINK_READABLE_CQ) {
		hr_rdma_qp_ack_events(&link->qp);
		n = hr_link_poll_cq(link);
	}
	if (n == 0)
		n = beat(link, wake & HR_LINK_READABLE_TCP);
	if (n == 0 && wake & HR_LINK_READABLE_LISTENER)
		answer_door(link);
	return n;
}

static bool step_flow(struct hr_link *link)
{
	int n = 0;

	/* Completions come first, but they may come without end. */
	if (link->now_ns - link->listened_ns >= BEAT_NS / 4)
		n = beat(link, true);
	if (n == 0)
		n = hr_link_poll_cq(link);
	if (n == 0)
		n = poll_epoll(link);
	if (n == 0 && link->setup.side == HR_LINK_RECEIVER && link->state == HR_LINK_STATE_UP)
		n = hr_link_post_offers(link);
	if (n == 0)
		hr_tcp_flush(&link->tcp);
	if (n < 0 && link->state == HR_LINK_STATE_UP)
		break_connection(link);
	return n > 0;
}

/* The completions of requests that were posted before the connection broke. */
static bool step_broken(struct hr_link *link)
{
	const bool late = link->now_ns - link->since_ns > link->dead_ns;

	if (link->qp.qp && !hr_rdma_qp_drained(&link->qp)) {
		char why[sizeof(link->text)];
		int n;

		/* The first cause stays. */
		memcpy(why, link->text, sizeof(why));
		hr_rdma_qp_ack_events(&link->qp);
		n = hr_link_poll_cq(link);
		memcpy(link->text, why, sizeof(why));
		/* Tiles among them have arrived for the sender, so all that are there are taken,
		 * however late this thread comes. */
		if (n != 0 || !late)
			return n != 0;
	}
	hr_rdma_qp_destroy(&link->qp);
	hr_link_end_transfer(link);
	down(link);
	if (link->was_up)
		hr_link_queue_event(
			link, (struct hr_link_event){ .kind = HR_LINK_DOWN, .text = link->text });
	link->was_up = false;
	return true;
}

static void step_down(struct hr_link *link)
{
	const uint64_t without = link->now_ns - link->lost_ns;

	/* All is said, and the other side has known that; only its last word is missing. */
	if (both_sides_done(link) && without > 2 * link->dead_ns) {
		enter(link, HR_LINK_STATE_ENDED);
	} else if (link->setup.call_ns && without > link->setup.call_ns) {
		char why[400];

		snprintf(why, sizeof(why), "%.399s", link->text);
		snprintf(link->text, sizeof(link->text), "no connection for %llu ms%s%s",
			 (unsigned long long)(without / HR_NS_PER_MS), *why ? ": " : "", why);
		fail_for_good(link, link->count.connections ? HR_ERROR_DEVICE : HR_ERROR_MISSING,
			      -ETIMEDOUT);
	} else if (link->setup.side == HR_LINK_SENDER && link->now_ns >= link->next_call_ns) {
		call(link);
	}
}

/* While tiles move the door costs no system calls, unless there is something to read: poll_epoll(). */
static bool is_door_due(const struct hr_link *link)
{
	if (link->listener < 0 || link->state == HR_LINK_STATE_FAILED ||
	    link->state == HR_LINK_STATE_ENDED)
		return false;
	return link->state != HR_LINK_STATE_UP || link->now_ns - link->accepted_ns >= BEAT_NS / 4;
}

bool hr_link_advance(struct hr_link *link)
{
	if (is_door_due(link))
		answer_door(link);
	switch (link->state) {
	case HR_LINK_STATE_DOWN:
		step_down(link);
		return false;
	case HR_LINK_STATE_HANDSHAKE:
		return step_greeting(link);
	case HR_LINK_STATE_CONNECTING:
		return step_opening(link);
	case HR_LINK_STATE_UP:
		return step_flow(link);
	case HR_LINK_STATE_DRAINING:
		return step_broken(link);
	case HR_LINK_STATE_ENDED:
		hr_tcp_progress(&link->tcp, link->now_ns);
		return false;
	default:
		return false;
	}
}
