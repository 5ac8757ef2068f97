/*
 * gpu/tap/feed_protocol.h - what a feed and its producer share. A feed is the other direction of a
 * tap (gpu/tap/protocol.h): another process fills the tiles of a pipeline's source.
 *
 * A producer connects to DIRECTORY/NAME.feed, a SOCK_SEQPACKET Unix socket. Each message is one
 * struct hr_tap_message:
 *
 *   producer -> feed   HELLO     version range, credits
 *   feed -> producer   WELCOME   with three descriptors: tiles, entries, page; or REFUSED
 *   producer -> feed   READY     it has mapped them: tiles may be offered to it
 *   producer -> feed   DETACH    another producer may continue; tiles without commit are discarded
 *   feed -> producer   TILES     the entry that the producer has named in its page is valid
 *   feed -> producer   END       the run has ended, with its exit code; or REVOKED, with the reason
 *
 * One producer is attached at a time. Each one gets memory of its own, so an earlier one cannot write
 * to the tiles of a later one. On a GPU, where WELCOME is as that of a tap, all get the same memory,
 * one after the end of the other's process.
 *
 * Entries (read only for the producer): struct hr_feed_head, then a ring of struct hr_tap_entry, as
 * in a tap: the n-th entry is valid when its sequence is n + 1. An entry offers a slot for the tile of
 * that number: `bytes` is the length of a full tile. Tile t has the bytes from t * tile_bytes on of
 * the data, so a producer that knows where these bytes are can fill tiles in any order.
 * Page (written by the producer): struct hr_feed_page. The producer commits a tile when it stores
 * (release) the word HR_FEED_COMMIT(gen of the entry, bytes) in commit[slot]. Then it must not write to
 * the tile any more: a pipeline that reads a tile while it changes computes on any mixture of old
 * and new bytes (gpu/tap/README.md).
 *
 * A tile with fewer bytes than its entry offers is the last one. It is accepted when all tiles before
 * it are committed, and no later one is. The feed also ends when `end` is the epoch: then the first
 * tile that is not committed does not exist.
 *
 * Page and tiles are untrusted. A wrong word can only commit or end what was offered to this producer.
 */
#ifndef GPU_TAP_FEED_PROTOCOL_H
#define GPU_TAP_FEED_PROTOCOL_H

#include "gpu/tap/protocol.h"

#define HR_FEED_VERSION 1u

/* REFUSED, READY, DETACH, END and REVOKED are those of a tap. */
enum hr_feed_kind {
	HR_FEED_HELLO = 33,
	/* `first`: the first tile that this producer is to fill, all before it are committed;
	 * `tiles`: most tiles of the run */
	HR_FEED_WELCOME,
};

/* The start of the entries. */
struct hr_feed_head {
	uint32_t magic, version; /* HR_TAP_MAGIC, HR_FEED_VERSION */
	uint64_t epoch;
	uint32_t state; /* enum hr_tap_state */
	/* By the worker: 1 when no further tile will be offered. */
	uint32_t last;
	/* Tiles 0 .. durable - 1 of the sink stay after any failure; 0 without a sink. By the host. */
	uint64_t durable;
	uint64_t pad[4];
};

struct hr_feed_page {
	uint64_t end; /* the epoch: no further tile is committed */
	/* The feed sends TILES once when the entry with this sequence is valid, or when no further
	 * tile is offered; 0: never. */
	uint64_t wake;
	uint64_t pad[6];
	uint64_t commit[1]; /* [slots]; in the page of a producer, which has whole memory pages */
};

#define HR_FEED_COMMIT(gen, bytes) ((uint64_t)(gen) << 32 | (bytes))

HR_TAP_ASSERT(sizeof(struct hr_feed_head) == 64, "entries are aligned");
HR_TAP_ASSERT(sizeof(struct hr_feed_page) == 72, "the words of slots follow a cache line");

/* Bytes of the entries, as hr_tap_ring_bytes(), and of the page: whole memory pages of 4 KiB. */
HR_TAP_INLINE uint64_t hr_feed_page_bytes(uint32_t slots)
{
	return (sizeof(struct hr_feed_page) + (uint64_t)slots * sizeof(uint64_t) + 4095) &
	       ~(uint64_t)4095;
}

#endif
