/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boot/remote/wire.h - what two links say to each other: messages of the TCP connection, and the
 * entries of the tables that they write to each other's memory by RDMA. Little-endian.
 *
 * TCP, in this order; a message has a head, a body of a size that follows from its kind, and, from
 * OPEN on, a code (tcp.h):
 *
 *   sender                    receiver
 *   HELLO      ->             version, name, size of a tile, a nonce
 *              <-  HELLO
 *   PROOF      ->             of the key, over both HELLOs
 *              <-  PROOF, OPEN   queue pair, memory, tiles that the receiver has
 *   OPEN       ->             queue pair; it is ready to receive
 *              <-  READY      the queue pair is ready to receive
 *   READY      ->
 *   BEAT, END, DONE, BYE in both directions at any time after that
 *
 * All versions have a HELLO of this size that begins with the version, so another one is named.
 *
 * REFUSE, in place of HELLO or PROOF: why the connection ends. It carries no code, because there is
 * no common key.
 *
 * RDMA: the receiver writes one to HR_LINK_OFFERS offers to the sender's table, with an immediate for
 * all of them. The sender writes a tile with an immediate; the size of the write is that of the
 * tile. An entry of the table is written again only after the sender has used it: a slot is offered
 * again only after its tile has arrived, and there are as many entries as slots at most.
 */
#ifndef BOOT_REMOTE_WIRE_H
#define BOOT_REMOTE_WIRE_H

#include <stddef.h>
#include <stdint.h>

#include "config/base/limits.h"
#include "boot/remote/link.h"

#define HR_LINK_MAGIC 0x4b4e4c48u /* "HLNK" */
#define HR_LINK_VERSION 2u
#define HR_AUTH_MAC_BYTES 32u /* HMAC-SHA256 */
#define HR_LINK_NONCE_BYTES 32u
#define HR_LINK_TEXT_BYTES 256u
#define HR_LINK_WINDOW 4096u /* a receiver has no tile behind its lowest missing one plus this */

enum hr_link_kind {
	HR_LINK_HELLO = 1,
	HR_LINK_PROOF,
	HR_LINK_REFUSE,
	HR_LINK_OPEN, /* this and the following carry a code */
	HR_LINK_READY,
	HR_LINK_MSG_KEEPALIVE,
	HR_LINK_MSG_SIZE,
	HR_LINK_MSG_RESULT,
	HR_LINK_BYE,
	HR_LINK_KINDS,
};

enum hr_link_refusal {
	HR_LINK_REFUSE_VERSION = 1,
	HR_LINK_REFUSE_KEY,
	HR_LINK_REFUSE_NAME,
	HR_LINK_REFUSE_TILE_BYTES,
	HR_LINK_REFUSE_TILES, /* more tiles than the receiver takes */
	HR_LINK_REFUSE_BUSY,  /* another sender is connected; try again */
	HR_LINK_REFUSE_SIDE,  /* both are senders */
	HR_LINK_REFUSALS,
};

struct hr_link_head {
	uint32_t magic;
	uint16_t kind, bytes; /* of the message: head, body and code */
	uint64_t count;	      /* of messages with a code in this direction; 0 without */
};

struct hr_link_hello {
	uint32_t version, side; /* enum hr_link_side */
	uint64_t instance;	/* random, of this hr_link_open() */
	uint64_t tiles;
	uint32_t tile_bytes, reserved;
	uint8_t nonce[HR_LINK_NONCE_BYTES]; /* random, of this connection */
	char name[HR_NAME_MAX];
};

struct hr_link_refuse {
	uint32_t code, value; /* the receiver's: version or tile_bytes */
};

struct hr_link_qp_info {
	uint64_t generation; /* of the connection on this side: 1 and up */
	uint64_t tile_address, table_address;
	uint64_t low; /* receiver: it has all tiles before this one */
	uint32_t qp, psn;
	uint32_t tile_key,
		table_key; /* rkeys; a sender's tile_key is 0: nothing may be written there */
	uint32_t slots, stride;
	uint32_t mtu, reserved; /* enum ibv_mtu */
	uint8_t gid[16];
	uint64_t has[HR_LINK_WINDOW / 64]; /* receiver: bit i % 64 of word i / 64: tile low + i */
};

struct hr_link_stream_size {
	uint64_t tiles, bytes;
};

struct hr_link_run_result {
	uint32_t code, reserved;
	char text[HR_LINK_TEXT_BYTES];
};

HR_STATIC_ASSERT(sizeof(struct hr_link_head) == 16, "wire");
HR_STATIC_ASSERT(sizeof(struct hr_link_hello) == 128, "wire");
HR_STATIC_ASSERT(sizeof(struct hr_link_qp_info) == 592, "wire");
HR_STATIC_ASSERT(sizeof(struct hr_link_run_result) == 264, "wire");

/* A message as it is received. */
struct hr_link_message {
	struct hr_link_head head;
	union {
		struct hr_link_hello hello;
		uint8_t proof[HR_AUTH_MAC_BYTES];
		struct hr_link_refuse refuse;
		struct hr_link_qp_info opening;
		struct hr_link_stream_size total;
		struct hr_link_run_result ending;
	};
};

#define HR_LINK_MESSAGE_MAX (sizeof(struct hr_link_message) + HR_AUTH_MAC_BYTES)

/* Bytes of a message with head, body and code. 0: no such kind. */
size_t hr_link_message_bytes(unsigned kind);

/* Bytes of its body alone. */
size_t hr_link_body_bytes(unsigned kind);

/*
 * Take the first message of `bytes` received bytes. Its length: *message is filled; 0: more bytes are
 * needed; -EPROTO: it is none, or a field is out of range. Codes and counts are checked by the
 * caller. Reads nothing behind the bytes.
 */
int hr_link_message_parse(struct hr_link_message *message, const void *data, size_t bytes);

/* ---- immediates and entries of the tables */

enum hr_link_immediate {
	HR_LINK_IMM_OFFER = 2, /* slot: how many; sequence: of the first one */
	HR_LINK_IMM_TILE = 3,  /* written with the immediate */
};

/* kind 2 | generation 4 | slot 10 | sequence 16, in network order */
uint32_t hr_link_immediate(enum hr_link_immediate kind, uint64_t generation, uint32_t slot,
			   uint32_t sequence);

/* 0, and *slot: the immediate is the expected one of this kind; -EPROTO. */
int hr_link_immediate_check(uint32_t immediate, enum hr_link_immediate kind, uint64_t generation,
			    uint32_t sequence, uint32_t *slot);

/* Entry `sequence` % HR_LINK_SLOTS_MAX of a sender's table. */
struct hr_link_offer_entry {
	uint64_t tile;
	uint32_t slot, sequence;
};

/* Most offers of one message; they lie one behind the other. */
#define HR_LINK_OFFERS 4u

/* Bytes of a table for each slot. */
#define HR_LINK_ENTRY_BYTES 64u

HR_STATIC_ASSERT(sizeof(struct hr_link_offer_entry) <= HR_LINK_ENTRY_BYTES, "wire");

/* Text for a refusal, on the side that is refused. */
const char *hr_link_refusal_text(unsigned code);

#endif
