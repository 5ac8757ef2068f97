/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boot/remote/link.h - the link of a stream of tiles from one appliance (the sender) to another one
 * (the receiver): RDMA between their tile memories, and a TCP connection for set-up.
 *
 *   the sender's pipeline  -> tap of one built-in consumer -> link ~~RDMA~~> link -> feed of one
 *   built-in producer -> the receiver's pipeline
 *
 * The link knows nothing of taps and feeds. It moves tiles between slots of registered memory, and
 * tells its owner what has happened in events. The owner calls it from one thread, which never waits
 * in it: hr_link_step() does what can be done now. The owner's workers touch no queue of the network
 * device: a CPU thread posts work requests and polls; the data goes from memory to memory.
 *
 *   down -> greeting (HELLO, PROOF) -> opening (queue pair) -> flow -> ended
 *     ^                                     |                   |
 *     +------------- back-off <---------- broken <--------------+    failed: no further try helps
 *
 * A receiver offers slots: "tile t may be written to slot s" is a credit, and there is no other flow
 * control. A sender writes tile t to the slot that was offered for t (RDMA WRITE WITH IMMEDIATE). Both
 * sides number tiles from 0 on in their runs; the lowest tile that the receiver does not have is always
 * offered while the connection is up, so two windows of different order cannot block each other.
 *
 * A connection has a protection domain, memory regions, queue pair, packet numbers and keys of its
 * own. After BROKEN all completions of the queue pair are collected and its regions are gone before
 * the next connection begins, so no late packet reaches a slot. Tiles whose WRITE had no successful
 * completion are the owner's to send again; the receiver says at the next hello which tiles it has.
 *
 * Both sides prove the knowledge of a pre-shared key over all that they have said (HMAC-SHA256,
 * libsodium), and later messages of the connection carry a code with a counter. Data is not
 * encrypted: the network belongs to the appliances.
 */
#ifndef BOOT_REMOTE_LINK_H
#define BOOT_REMOTE_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/base/error.h"
#include "config/base/limits.h"
#include "boot/remote/rdma/device.h"

#define HR_LINK_KEY_BYTES 32u
#define HR_LINK_SLOTS_MAX 1024u
#define HR_LINK_STEP_NS 20000000ull /* longest time between two calls of hr_link_step() */

enum hr_link_side {
	HR_LINK_SENDER,	  /* connects */
	HR_LINK_RECEIVER, /* listens */
};

struct hr_link_setup {
	enum hr_link_side side;
	const char *name; /* of the stream: both sides have the same, HR_NAME_MAX */
	/* "A.B.C.D:PORT" (IPv4; names are not resolved, because that may wait): the sender connects
	 * there, the receiver listens there */
	const char *address;
	const char *device; /* of the RDMA device, or NULL: the one that has the local address */
	uint8_t key[HR_LINK_KEY_BYTES];
	struct hr_rdma_memory memory;
	uint32_t tile_bytes; /* of a full tile, at most stride; equal on both sides */
	uint64_t tiles;	     /* sender: of its run; receiver: the most that it takes */
	uint32_t depth;	     /* sender: tiles in flight; 0: 8 */
	uint64_t call_ns;    /* longest time without a connection before FAILED; 0: for ever */
	/* Receiver: IPv4 addresses that may connect; peers 0: each one that has the key. */
	const char (*allowed)[HR_NAME_MAX];
	uint32_t allowed_count;
	/* A connection without messages is broken after; 0: 1 s. As for call_ns, at most an eighth of
	 * it counts between two calls of hr_link_step(). */
	uint64_t dead_ns;
};

enum hr_link_event_kind {
	HR_LINK_NOTHING,
	/* Sender and receiver: the connection is up. `tile`: the receiver has all tiles before it;
	 * hr_link_receiver_has() tells which of the others. */
	HR_LINK_UP,
	/* The connection is broken, and the link tries again. No slot is accessed by the network any
	 * more; offers that were not used are void. `text` says why. */
	HR_LINK_DOWN,
	/* Sender: the receiver has offered a slot for `tile`, so hr_link_send() takes it. */
	HR_LINK_OFFERED,
	HR_LINK_SENT, /* sender: the receiver's memory has `tile`; `slot` (the sender's) is free */
	HR_LINK_RECEIVED, /* receiver: `tile` with `bytes` is in `slot`, which was offered for it */
	HR_LINK_END, /* receiver: the stream has `tile` tiles and `total` bytes; all have arrived */
	/* The other side's run has ended with `code` (an exit code) and `text`: a sender that has
	 * failed, or a receiver that has finished. */
	HR_LINK_REMOTE_ENDED,
	/* Receiver: a connection was refused; `text` has its address and the reason, once a second at
	 * most. The link goes on. */
	HR_LINK_CLIENT_REFUSED,
	/* No further try helps: *e of hr_link_step() has kind and text (a wrong key, another
	 * version, another tile size, a receiver that has lost tiles that are given back, call_ns). */
	HR_LINK_FAILED,
};

struct hr_link_event {
	enum hr_link_event_kind kind;
	uint32_t slot, bytes;
	uint64_t tile, total;
	int code;
	const char *text; /* until the next step */
};

/* Counters since hr_link_open(). */
struct hr_link_counters {
	uint64_t tiles, bytes;	   /* SENT, or TILE */
	uint64_t connections;	   /* that came up */
	uint64_t broken;	   /* that broke */
	uint64_t repeated;	   /* tiles that were sent a second time, or dropped as known */
	uint64_t not_ready;	   /* receiver-not-ready errors: 0, or a defect */
	uint64_t refused;	   /* connections that failed hello or proof */
	uint64_t flushes;	   /* of writes to GPU memory */
	uint64_t down_ns, up_ns;   /* time without and with a connection */
	uint64_t last_recovery_ns; /* from the last BROKEN to FLOW */
};

struct hr_link;

/*
 * Open the RDMA device, register the memory, prove with a loopback write that the device reaches it,
 * and listen or prepare to call. Allocates all memory that the link needs until it is closed,
 * except what the RDMA library itself allocates for a connection.
 * 0, and the caller owns *link; -ENOENT: no libibverbs; -ENODEV: no RDMA device, or none with the
 * address; -EADDRINUSE, -EADDRNOTAVAIL; -EINVAL: the address; -EIO: the loopback shows that the
 * device does not reach the memory; -ENOMEM; -errno. An error fills *e.
 */
int hr_link_open(struct hr_link **link, const struct hr_link_setup *setup, struct hr_error *e);

/* Do what can be done now, and take one event. Returns true when there is one: call again. */
bool hr_link_step(struct hr_link *link, uint64_t now_ns, struct hr_link_event *event,
		  struct hr_error *e);

/* A descriptor that is readable when a step has work, for poll(2); the caller sleeps only when
 * hr_link_step() has returned false since, and at most HR_LINK_STEP_NS: heartbeats, calls and limits
 * are due by time. */
int hr_link_fd(const struct hr_link *link);

/* Receiver: tile may be written to the slot. Offers are kept over connections until TILE. -EALREADY:
 * the slot or the tile is offered, or the tile has arrived; -ERANGE: 4096 tiles or more behind the
 * lowest one that is missing; -EINVAL: slot or tile out of range. */
int hr_link_offer(struct hr_link *link, uint32_t slot, uint64_t tile);

/* After UP: the receiver has this tile, so the sender need not send it. */
bool hr_link_receiver_has(const struct hr_link *link, uint64_t tile);

/*
 * Sender: send `bytes` of a slot as this tile; the slot stays as it is until SENT, or DOWN.
 * 0; -EALREADY: the receiver has the tile, so the slot is free; -EAGAIN: no offer
 * for the tile yet, or `depth` tiles are in flight: after the next OFFERED or SENT; -ENOTCONN: after
 * UP; -EINVAL: slot, tile or bytes out of range, or the slot is in flight.
 */
int hr_link_send(struct hr_link *link, uint32_t slot, uint64_t tile, uint32_t bytes);

/* Sender: the stream has so many tiles and bytes. Said again at each connection. */
void hr_link_end(struct hr_link *link, uint64_t tiles, uint64_t bytes);

/* Receiver: it has all tiles before this one, from an earlier run, so no sender sends them. */
void hr_link_set_durable(struct hr_link *link, uint64_t tile);

/* This side's run has ended: tell the other one. With code 0 the receiver's data is as durable as its
 * pipeline makes it. */
void hr_link_report_result(struct hr_link *link, int code, const char *text);

/* True when both sides have said that their runs have ended, so the link can be closed. Without a
 * connection it becomes true two limits (dead_ns) after the loss when both have been heard here. */
bool hr_link_both_ended(const struct hr_link *link);

/* The port at which a receiver listens: of its address, or, when that is 0, a free one. */
uint16_t hr_link_port(const struct hr_link *link);

struct hr_link_counters hr_link_read_counters(const struct hr_link *link);

/* For `check` and `status`: device, port, addresses, state. Valid until the next call of it. */
const char *hr_link_describe(struct hr_link *link);

/* Break the connection, collect all completions, deregister, free. NULL: nothing. */
void hr_link_close(struct hr_link *link);

/* ---- the RDMA device that a link would use: which one it is, and the proof that it
 * reaches memory. For `check` and `post`.
 */

/* What to probe; all strings are the caller's. */
struct hr_link_probe {
	enum hr_link_side side;
	const char *address;	    /* as hr_link_setup.address */
	const char *device;	    /* the same */
	uint32_t slots, slot_bytes; /* of memory that the probe takes for its time */
	/* NULL, or the memory that is proved in place of that */
	const struct hr_rdma_memory *memory;
};

/*
 * Find the device, and prove with a loopback that it reaches the memory. text: device,
 * port, GID, MTU and address. 0; -ENOENT, -ENODEV, -EIO, -ENOMEM, -EINVAL as hr_link_open(), in *e.
 */
int hr_link_probe(const struct hr_link_probe *probe, char *text, size_t bytes, struct hr_error *e);

#endif
