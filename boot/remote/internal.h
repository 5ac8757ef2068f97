/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boot/remote/internal.h - the state of a link. link.c has the public functions, state.c the states
 * of the connection, transfer.c its queue pair, tiles and offers, handshake.c its begin and the
 * connections of a receiver that have not proved the key, tcp.c the descriptors.
 */
#ifndef BOOT_REMOTE_INTERNAL_H
#define BOOT_REMOTE_INTERNAL_H

#include "boot/remote/tcp.h"
#include "boot/remote/link.h"
#include "boot/remote/rdma/qp.h"
#include "boot/remote/tileset.h"

/* Connections that have not proved the key; one more retires the oldest. */
#define HR_LINK_UNPROVED_MAX 8u
/* A completion gives one for each offer of a message, or at most two. */
#define HR_LINK_EVENTS (HR_LINK_OFFERS + 2)

enum hr_link_state {
	HR_LINK_STATE_DOWN,	  /* receiver: listens; sender: waits until it calls again */
	HR_LINK_STATE_HANDSHAKE,  /* sender: connecting, HELLO and PROOF */
	HR_LINK_STATE_CONNECTING, /* queue pair made, OPEN and READY */
	HR_LINK_STATE_UP,
	HR_LINK_STATE_DRAINING, /* collects completions */
	HR_LINK_STATE_ENDED,
	HR_LINK_STATE_FAILED,
};

/* Receiver: of its slot. Sender: of the receiver's slot. */
struct hr_link_slot {
	uint64_t tile;
	bool offered, posted; /* posted: the sender has been told, on this connection */
};

struct hr_link_write {
	uint64_t tile;
	uint64_t number;      /* of the completion */
	uint32_t slot, bytes; /* slot: the sender's */
};

struct hr_link {
	struct hr_link_setup setup;
	struct hr_handshake_self self;
	uint8_t key[HR_LINK_KEY_BYTES];
	char device_name[HR_NAME_MAX];
	struct sockaddr_in address; /* to call, or to listen at */
	struct in_addr local;
	struct in_addr allowed_address[HR_REMOTE_ALLOWED_MAX];
	struct hr_verbs verbs;
	uint32_t depth;
	uint64_t dead_ns;
	int epoll, listener;
	void *table; /* HR_LINK_TABLE_BYTES; the other side writes there */

	enum hr_link_state state;
	/* Of the link's own clock, which all limits use. It stands still between two distant calls of
	 * hr_link_step(), as when this process or its machine was stopped. */
	uint64_t now_ns, since_ns;		    /* since_ns: of the state */
	uint64_t next_call_ns, backoff_ns, lost_ns; /* lost_ns: when the last connection ended */
	struct hr_link_tcp tcp;			    /* of this connection */
	struct hr_link_tcp unproved[HR_LINK_UNPROVED_MAX];
	uint64_t accepted_ns, refusal_reported_ns;

	/* of this connection */
	struct hr_rdma_qp qp;
	uint64_t generation;
	uint32_t psn;
	struct hr_link_qp_info remote_qp;
	uint32_t sequence_out, sequence_in;
	uint64_t listened_ns;
	uint64_t sends_ns; /* when the last tile or offer was posted or completed */
	bool was_up, heard_open, said_end, said_done, said_bye, heard_bye;

	struct hr_tileset have; /* the receiver has: as far as this side knows */
	struct hr_link_slot slot[HR_LINK_SLOTS_MAX];
	uint32_t post[HR_LINK_SLOTS_MAX]; /* receiver: slots whose offer is not posted, in order */
	uint32_t post_head, post_count;
	uint32_t unused; /* receiver: offers that are posted, and whose tiles have not arrived */
	struct hr_link_write in_flight[HR_LINK_SLOTS_MAX];
	uint32_t flight_head, flight_count;
	uint64_t unsent[HR_LINK_SLOTS_MAX]; /* in flight when the connection broke */
	uint32_t unsent_count;

	bool end_known, end_told, end_heard, done_set, done_heard;
	struct hr_link_stream_size end;
	struct hr_link_run_result done;

	struct hr_link_event event[HR_LINK_EVENTS];
	uint32_t events;
	struct hr_error failure;
	char text[512], door_text[256], peer_text[HR_LINK_TEXT_BYTES], description[256];
	struct hr_link_counters count;
	uint64_t counted_ns, broke_ns; /* real times: of the last step, of the last break */
};

#define HR_LINK_TABLE_BYTES ((size_t)HR_LINK_SLOTS_MAX * HR_LINK_ENTRY_BYTES)

/* ---- the states of a link's connection */

/* Do one piece of work at link->now_ns. True: there may be more to do now. */
bool hr_link_advance(struct hr_link *link);

/* END and DONE, when they are known and not said on this connection. */
void hr_link_send_news(struct hr_link *link);

/* ---- the queue pair of a connection, and OPEN, which tells the other side of it */

/* Make the queue pair, with receives for all that the other side may write. 0 or -errno with *e. */
int hr_link_make_qp(struct hr_link *link, struct hr_error *e);

/* Say OPEN. 0 or -errno. */
int hr_link_send_open(struct hr_link *link);

/* Connect the queue pair to that of link->peer. 0 or -errno with *e. */
int hr_link_connect_qp(struct hr_link *link, struct hr_error *e);

/* Sender: take what the receiver has. False: it lacks a tile that the pipeline has given back, and
 * link->text says so. */
bool hr_link_receive_open(struct hr_link *link, const struct hr_link_qp_info *opening);

/* ---- offers, tiles and their completions on a connection */

/* Queue an event; text: NULL, or one that lives until the next step. */
void hr_link_queue_event(struct hr_link *link, struct hr_link_event event);

/* A connection is up: nothing is in flight, all kept offers of a receiver are to be posted. */
void hr_link_begin_transfer(struct hr_link *link);

/*
 * Take one completion. 1: there was one; 0: none; -errno: the connection is of no use: link->text says
 * why. While the connection is broken, only what has arrived counts, and nothing is an error.
 */
int hr_link_poll_cq(struct hr_link *link);

/* Receiver: post offers while the queue has room. -errno as hr_link_poll_cq(). */
int hr_link_post_offers(struct hr_link *link);

/* The connection is gone: remember the tiles in flight. */
void hr_link_end_transfer(struct hr_link *link);

/* Receiver: HR_LINK_END when all tiles have arrived, once. */
void hr_link_check_end(struct hr_link *link);

/* ---- the strangers of a receiver: connections that have not proved the key yet. Their
 * number and their time are bounded, so a silent one blocks nothing. When there is no room, the
 * address with most strangers loses its oldest one.
 */

/* Accept and greet. Returns a connection that has proved the key, the newest one, or NULL. */
struct hr_link_tcp *hr_link_accept(struct hr_link *link);

/* Tell the owner of a connection that was refused, at most once a second. */
void hr_link_report_refused(struct hr_link *link, const struct sockaddr_in *peer, const char *why);

void hr_link_close_unproved(struct hr_link *link);

/* ---- which descriptors of a link are readable. One system call tells it for all of
 * them, so a link that moves tiles reads only what has something to read.
 */

enum hr_link_readable {
	HR_LINK_READABLE_LISTENER = 1, /* the listener, or a stranger */
	HR_LINK_READABLE_TCP = 2,      /* the TCP connection */
	HR_LINK_READABLE_CQ = 4,       /* the channel of the completion queue */
};

/* Watch a descriptor, or one that is watched already as another kind. 0 or -errno. */
int hr_link_epoll_add(struct hr_link *link, int fd, enum hr_link_readable kind);

/* What is readable now: a set of enum hr_link_readable. */
unsigned hr_link_epoll_poll(struct hr_link *link);

#endif
