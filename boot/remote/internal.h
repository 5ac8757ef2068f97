/*
 * boot/remote/internal.h - the state of a link. link.c has the public functions, state.c the states
 * of the connection, connect.c its begin, transfer.c tiles and offers, accept.c the strangers of a
 * receiver, poll.c the descriptors.
 */
#ifndef BOOT_REMOTE_INTERNAL_H
#define BOOT_REMOTE_INTERNAL_H

#include "boot/remote/greet.h"
#include "boot/remote/link.h"
#include "boot/remote/rdma/qp.h"
#include "boot/remote/tileset.h"

/* Connections that have not proved the key; one more retires the oldest. */
#define HR_LINK_STRANGERS 8u
/* A completion gives one for each offer of a message, or at most two. */
#define HR_LINK_EVENTS (HR_LINK_OFFERS + 2)

enum hr_link_state {
	HR_LINK_IS_DOWN,     /* receiver: listens; sender: waits until it calls again */
	HR_LINK_IS_GREETING, /* sender: connecting, HELLO and PROOF */
	HR_LINK_IS_OPENING,  /* queue pair made, OPEN and READY */
	HR_LINK_IS_FLOW,
	HR_LINK_IS_BROKEN, /* collects completions */
	HR_LINK_IS_ENDED,
	HR_LINK_IS_FAILED,
};

/* Receiver: of its slot. Sender: of the receiver's slot. */
struct hr_link_slot {
	uint64_t tile;
	bool offered, posted; /* posted: the sender has been told, on this connection */
};

struct hr_link_flight {
	uint64_t tile;
	uint64_t number;      /* of the completion */
	uint32_t slot, bytes; /* slot: the sender's */
};

struct hr_link {
	struct hr_link_setup setup;
	struct hr_link_self self;
	uint8_t key[HR_LINK_KEY_BYTES];
	char device_name[HR_NAME_MAX];
	struct sockaddr_in address; /* to call, or to listen at */
	struct in_addr local;
	struct in_addr peer_address[HR_REMOTE_PEERS_MAX];
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
	struct hr_link_talk talk;		    /* of this connection */
	struct hr_link_talk stranger[HR_LINK_STRANGERS];
	uint64_t door_ns, refused_told_ns;

	/* of this connection */
	struct hr_rdma_qp qp;
	uint64_t generation;
	uint32_t psn;
	struct hr_link_opening peer;
	uint32_t sequence_out, sequence_in;
	uint64_t listened_ns;
	uint64_t sends_ns; /* when the last tile or offer was posted or completed */
	bool was_up, heard_open, said_end, said_done, said_bye, heard_bye;

	struct hr_tileset have; /* the receiver has: as far as this side knows */
	struct hr_link_slot slot[HR_LINK_SLOTS_MAX];
	uint32_t post[HR_LINK_SLOTS_MAX]; /* receiver: slots whose offer is not posted, in order */
	uint32_t post_head, post_count;
	uint32_t unused; /* receiver: offers that are posted, and whose tiles have not arrived */
	struct hr_link_flight flight[HR_LINK_SLOTS_MAX];
	uint32_t flight_head, flight_count;
	uint64_t unsent[HR_LINK_SLOTS_MAX]; /* in flight when the connection broke */
	uint32_t unsent_count;

	bool end_known, end_told, end_heard, done_set, done_heard;
	struct hr_link_total end;
	struct hr_link_ending done;

	struct hr_link_event event[HR_LINK_EVENTS];
	uint32_t events;
	struct hr_error failure;
	char text[512], door_text[256], peer_text[HR_LINK_TEXT_BYTES], description[256];
	struct hr_link_counters count;
	uint64_t counted_ns, broke_ns; /* real times: of the last step, of the last break */
};

#define HR_LINK_TABLE_BYTES ((size_t)HR_LINK_SLOTS_MAX * HR_LINK_ENTRY_BYTES)

#endif
