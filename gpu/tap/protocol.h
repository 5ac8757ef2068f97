/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu/tap/protocol.h - what a tap and its consumers share: messages of the socket, and three
 * memfds.
 *
 * A tap hands the output tiles of a pipeline to other processes (consumers) where they lie. A
 * consumer connects to DIRECTORY/NAME.tap, a SOCK_SEQPACKET Unix socket. Each message is one
 * struct hr_tap_message:
 *
 *   consumer -> tap   HELLO     version range, credits
 *   tap -> consumer   WAIT      why WELCOME does not come yet: no run, or all tiles are lent; again
 *                             when that changes
 *   tap -> consumer   WELCOME   with three descriptors: tiles, entries, page; or REFUSED
 *   consumer -> tap   READY     it has mapped them: tiles may be lent to it
 *   consumer -> tap   DETACH    tiles that it has not given back go to another consumer
 *   tap -> consumer   TILES     the entry that the consumer has named in its page is valid
 *   tap -> consumer   END       the run has ended, with its exit code; or REVOKED, with the reason
 *
 * Under a supervisor the socket outlives the engine, which accepts the connections: between two
 * engines a connection waits without an answer. A connection that ends without END is that of an
 * engine that has died.
 *
 * Tiles lie in host memory, or in the memory of a GPU: then their descriptor is one of
 * cuMemExportToShareableHandle(), and the consumer maps the object on the same GPU, which the
 * UUID names. Entries and page always lie in host memory.
 *
 * Tiles in host memory and entries are sealed: a consumer can map them for reading only, and
 * cannot change their size. For memory of a GPU the driver has no such seal: a consumer maps it
 * for reading only so as not to change it by accident. The page belongs to the consumer alone.
 * Its content is untrusted: a wrong value returns only tiles that are lent to this consumer.
 *
 * Entries: struct hr_tap_head, then a ring of struct hr_tap_entry. The n-th entry (n = 0, 1,
 * ...) has the index n % ring, and is valid when its sequence is n + 1 and its check is
 * hr_tap_entry_check(). The sequence is stored last, but a GPU waits for no fence before it, so
 * words of an entry may become visible in any order. Page: struct hr_tap_returns. The consumer
 * gives a tile back when it stores (release) the generation of the entry in the slot's word,
 * with HR_TAP_FAILED when another consumer is to get the tile. Then the slot is used again, so
 * it must not read the tile any more. The tap lends at most `credits` tiles at a time, and
 * credits <= ring, so a valid entry is not overwritten before its tile is given back.
 *
 * This header needs stdint.h only, and both sides are on one machine. All words are
 * little-endian and naturally aligned; bytes that have no meaning are 0.
 */
#ifndef GPU_TAP_PROTOCOL_H
#define GPU_TAP_PROTOCOL_H

#include <stdint.h>

#define HR_TAP_MAGIC 0x50415448u /* "HTAP" */
#define HR_TAP_VERSION 3u
#define HR_TAP_FDS 3u /* of WELCOME: tiles, entries, page */

enum hr_tap_memory {
	HR_TAP_MEMORY_HOST,
	HR_TAP_MEMORY_CUDA,
};

enum hr_tap_kind {
	HR_TAP_HELLO = 1,
	HR_TAP_WELCOME,
	HR_TAP_REFUSED,
	HR_TAP_READY,
	HR_TAP_DETACH,
	HR_TAP_END,
	HR_TAP_REVOKED,
	HR_TAP_WAIT,
	HR_TAP_TILES,
};

struct hr_tap_message {
	uint32_t magic;
	uint16_t kind; /* enum hr_tap_kind */
	/* HELLO: the range of versions that the consumer knows; else the version of the message */
	uint16_t version_least, version;
	uint16_t code;	  /* REFUSED: an errno; END: exit code of the run */
	uint32_t credits; /* HELLO: wanted, 0: as many as possible; WELCOME: granted */
	/* Of WELCOME. */
	uint32_t slots;	     /* number of tiles in the memory */
	uint32_t ring;	     /* number of entries; a power of two */
	uint64_t epoch;	     /* random, of this bring-up of the tap */
	uint64_t tiles;	     /* of the run; also of END: tiles that were given back or dropped */
	uint64_t first;	     /* number of the first tile */
	uint32_t stride;     /* bytes from one slot to the next; whole pages */
	uint32_t tile_bytes; /* bytes of a full tile, at most stride */
	uint32_t columns;    /* elements of a row; 0: not configured */
	uint8_t each;	     /* 1: each consumer gets all tiles; 0: each tile has one consumer */
	uint8_t again;	     /* END: the socket stays, and the pipeline may run again */
	uint8_t memory;	     /* of the tiles: enum hr_tap_memory */
	uint8_t pad;
	char dtype[8]; /* type of the elements, such as "bf16"; "": not configured */
	char name[64]; /* HELLO: name of the consumer; WELCOME: name of the pipeline */
	union {
		/* REFUSED, WAIT, REVOKED, END with code: the reason, one line */
		char text[120];
		/* WELCOME with HR_TAP_MEMORY_CUDA */
		struct {
			uint64_t bytes; /* of the memory object, at least slots * stride */
			uint8_t uuid[16];
		} gpu;
	};
};

enum hr_tap_state {
	HR_TAP_RUNS = 1,
	HR_TAP_ENDED,	/* all tiles were given back or dropped */
	HR_TAP_STOPPED, /* the run has failed or was interrupted, or the consumer is revoked */
};

/* The start of the entries. */
struct hr_tap_head {
	uint32_t magic, version;
	uint64_t epoch;
	uint32_t state; /* enum hr_tap_state */
	/* By the worker: 1 while each tile that is left is lent. Then no further tile comes, unless
	 * another consumer ends without giving its tiles back. */
	uint32_t last;
	uint32_t pad[10];
};

#define HR_TAP_REDELIVERED 1u /* another consumer had the tile, and did not give it back */

struct hr_tap_entry {
	uint64_t tile; /* number in the pipeline */
	uint32_t slot, gen;
	uint32_t bytes; /* of the data; a last tile may be shorter */
	uint32_t flags;
	/* By the clock of the tap: CLOCK_MONOTONIC, or that of the GPU. When it was lent, when
	 * all processes could see what was computed (0: not known), and when the tap freed the
	 * slot from the tile before it (0: there was none). */
	uint64_t lent_ns, ready_ns, freed_ns;
	uint64_t check;	   /* of the other words; a feed's entries have none */
	uint64_t sequence; /* stored last */
};

#define HR_TAP_FAILED 0x80000000u /* with a generation, which has 31 bits */

/* By the consumer. The generations follow, a uint32_t for each slot, which are 0 at the start. */
struct hr_tap_returns {
	/* The tap sends TILES once when the entry with this sequence is valid, or when no
	 * further tile comes; 0: never. */
	uint64_t wake;
	uint32_t waits; /* 1 while the consumer waits for a tile */
	uint32_t pad[13];
};

#if defined(__cplusplus)
#define HR_TAP_ASSERT static_assert
#else
#define HR_TAP_ASSERT _Static_assert
#endif
HR_TAP_ASSERT(sizeof(struct hr_tap_message) == 256, "a message has one size in each version");
HR_TAP_ASSERT(sizeof(struct hr_tap_head) == 64, "entries are aligned");
HR_TAP_ASSERT(sizeof(struct hr_tap_entry) == 64, "an entry is a cache line");
HR_TAP_ASSERT(sizeof(struct hr_tap_returns) == 64, "generations have a cache line of their own");

/* Worker code for a GPU has a prefix of its own (nvme/queue/worker.h), when it is included first. */
#ifdef HR_BOTH
#define HR_TAP_INLINE HR_BOTH
#else
#define HR_TAP_INLINE static inline
#endif

/* Bytes of the entries and of a consumer's page: whole memory pages of 4 KiB. */
HR_TAP_INLINE uint64_t hr_tap_ring_bytes(uint32_t ring)
{
	return (sizeof(struct hr_tap_head) + (uint64_t)ring * sizeof(struct hr_tap_entry) + 4095) &
	       ~(uint64_t)4095;
}

HR_TAP_INLINE uint64_t hr_tap_page_bytes(uint32_t slots)
{
	return (sizeof(struct hr_tap_returns) + (uint64_t)slots * sizeof(uint32_t) + 4095) &
	       ~(uint64_t)4095;
}

HR_TAP_INLINE uint64_t hr_tap_mixed(uint64_t word, uint64_t by)
{
	const uint64_t v = (word ^ by >> 1) * by;

	return v ^ v >> 32;
}

/* The check of an entry with this sequence: an entry of which words are still those of an earlier one
 * has another check, but for one in 2^64. */
HR_TAP_INLINE uint64_t hr_tap_entry_check(const struct hr_tap_entry *e, uint64_t sequence)
{
	return hr_tap_mixed(sequence, 0x9e3779b97f4a7c15u) +
	       hr_tap_mixed(e->tile, 0xbf58476d1ce4e5b9u) +
	       hr_tap_mixed((uint64_t)e->gen << 32 | e->slot, 0x94d049bb133111ebu) +
	       hr_tap_mixed((uint64_t)e->flags << 32 | e->bytes, 0xff51afd7ed558ccdu) +
	       hr_tap_mixed(e->lent_ns, 0xc4ceb9fe1a85ec53u) +
	       hr_tap_mixed(e->ready_ns, 0xd6e8feb86659fd93u) +
	       hr_tap_mixed(e->freed_ns, 0xa0761d6478bd642fu);
}

/* ---- what a feed and its producer share. A feed is the other direction of a
 * tap: another process fills the tiles of a pipeline's source.
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
 * Page (written by the producer): struct hr_feed_commits. The producer commits a tile when it stores
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

struct hr_feed_commits {
	uint64_t end; /* the epoch: no further tile is committed */
	/* The feed sends TILES once when the entry with this sequence is valid, or when no further
	 * tile is offered; 0: never. */
	uint64_t wake;
	uint64_t pad[6];
	uint64_t commit[1]; /* [slots]; in the page of a producer, which has whole memory pages */
};

#define HR_FEED_COMMIT(gen, bytes) ((uint64_t)(gen) << 32 | (bytes))

HR_TAP_ASSERT(sizeof(struct hr_feed_head) == 64, "entries are aligned");
HR_TAP_ASSERT(sizeof(struct hr_feed_commits) == 72, "the words of slots follow a cache line");

/* Bytes of the entries, as hr_tap_ring_bytes(), and of the page: whole memory pages of 4 KiB. */
HR_TAP_INLINE uint64_t hr_feed_page_bytes(uint32_t slots)
{
	return (sizeof(struct hr_feed_commits) + (uint64_t)slots * sizeof(uint64_t) + 4095) &
	       ~(uint64_t)4095;
}

#endif
