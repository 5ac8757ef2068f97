/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu/tap/feed.h - the feed role: in place of prefetch, one worker offers free slots to a producer
 * (gpu/tap/protocol.h) and hands the tiles that it commits on to compute.
 *
 *   FREE --feed offers it, and the producer commits it--> FILLED
 *   FREE --feed--> CLOSING                                             (no more tiles)
 *
 * A slot stays FREE while it is offered, so the worker is the only writer of its state. It holds the
 * number of its tile (hr_slot.read_tile) from the first offer to the commit. A tile that a producer
 * has not committed when it goes is offered to the next one, with the same number. Without a free slot
 * nothing is offered, and the producer waits: that is all of the flow control.
 *
 * The end of the feed is known when all tiles are committed, when a tile is short, or when the producer
 * says so. Then the worker waits until no other worker reads the lengths of source and sink, sets them,
 * publishes the number of tiles (hr_pipe.fed_tiles), and closes the slots.
 *
 * The host orders what the worker does, and the worker acknowledges it in `done`: after HR_FEED_CLOSE
 * no worker accesses entries, page or tiles, so the host unmaps them then, or when no worker runs. The
 * worker acknowledges it when the tiles that were committed have been computed.
 */
#ifndef GPU_TAP_FEED_H
#define GPU_TAP_FEED_H

#include "gpu/tap/protocol.h"
#include "gpu/worker/pipeline.h"

/* Low bits of an order; the bits above count the orders. */
enum hr_feed_order {
	HR_FEED_NONE,
	HR_FEED_OFFER, /* a new producer: tiles and page are mapped and all zero, entries have a head */
	HR_FEED_CLOSE, /* take what is committed, and access its memory no more */
	HR_FEED_ORDERS = 4,
};

/* How a producer has broken the protocol. The worker takes no further tile from it. */
enum hr_feed_fault {
	HR_FEED_SOUND,
	HR_FEED_LENGTH, /* of a tile: 0, more than offered, or not whole rows */
	HR_FEED_GAP,	/* the end comes before a tile that was committed */
};

/* Words shared by host and worker, in HR_PLACE_CONTROL. */
struct hr_feed_words {
	/* by the host */
	uint32_t order __attribute__((aligned(64))); /* 0: none yet */
	uint32_t credits;			     /* before HR_FEED_OFFER: 1 .. ring */
	uint32_t set; /* before HR_FEED_OFFER: the entries and the page of the producer */
	/* by the worker */
	uint32_t obeyed __attribute__((aligned(64))); /* the last order that it has carried out */
	uint32_t fault;				      /* enum hr_feed_fault, of this producer */
	uint64_t fault_tile;			      /* valid with `fault` */
	uint64_t offered, committed;		      /* tiles, of this producer */
	uint64_t discarded; /* tiles that producers had when they went, without a commit; of all */
	uint64_t next;	    /* all tiles before this one are committed */
	uint64_t front;	    /* number of tiles up to the newest that was offered */
	uint64_t total; /* number of tiles; HR_NO_TILE before the end is known: hr_pipe.fed_tiles */
	uint64_t total_bytes; /* of the source, valid with `total` */
};

/* The offer of a slot; used by the worker only. */
struct hr_feed_offer {
	uint32_t gen; /* of the last offer; never 0 after the first */
	uint32_t open;
	uint64_t mark; /* as stored in hr_pipe.written */
};

/* The descriptor of the role, in HR_PLACE_WORKER. Its owner fills it before the launch. */
struct hr_feed_role {
	uint32_t ring;		   /* entries; a power of two, at least the slots */
	uint32_t row_bytes;	   /* a tile has whole rows */
	uint32_t out_num, out_den; /* bytes of output for bytes of input */
	uint8_t *entries;	   /* of all sets, each of hr_tap_ring_bytes(ring) */
	uint8_t *pages;		   /* of all sets, each of hr_feed_page_bytes(slots) */
	struct hr_feed_words *words;
	struct hr_feed_offer *offer; /* [slots] */
	/* State of the worker; initially all zero. */
	uint32_t obeyed, offers, last;
	uint32_t set;		     /* of the producer */
	uint32_t held, credits;	     /* tiles that the producer has */
	uint32_t holding;	     /* slots that hold a tile which is not committed */
	uint32_t ending, ended;	     /* the end is known; it is published */
	uint32_t short_slot;	     /* with `ending`: slot of a last, short tile, + 1; 0: none */
	uint64_t total, total_bytes; /* with `ending` */
	uint64_t epoch;		     /* of the producer, from the head */
	uint64_t sent, committed;    /* entries; tiles, of this producer */
};

/* Run the role until all slots are closed; the pipeline's descriptor has `feed`. Block-collective. */
HR_DEVICE void hr_feed_block(struct hr_pipe *pipe, uint32_t block);

/* As hr_pipe_block() or hr_tap_pipe_block(), with this role in place of prefetch. */
HR_DEVICE void hr_feed_pipe_block(struct hr_pipe *pipe, uint32_t block);

#endif
