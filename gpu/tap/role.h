/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu/tap/role.h - the tap role: in place of write-back, one worker lends computed tiles to
 * consumers (gpu/tap/protocol.h) and frees their slots when they are given back.
 *
 *   FILLED --compute--> COMPUTED --tap takes the tile over--> FREE
 *
 * The worker takes a computed tile over, lends it, and frees the memory of the output when it gets
 * the tile back. The slot is FREE as soon as the tile is taken over, so the next one is read while
 * consumers hold the last; compute waits for memory (`held` of the slot). Without credits no tile is
 * lent, outputs and slots fill, and prefetch stops reading: that is all of the flow control.
 *
 * Consumers have seats. The host orders what the worker does with a seat, and the worker
 * acknowledges it: before `done` equals `order`, the worker may access the seat's entries and page.
 * So the host unmaps them only after that, or when no worker runs. Entries and pages are sets: the host
 * names the set of a consumer before it orders HR_TAP_LEND, and the worker uses that one until the
 * next.
 *
 * With `park` all workers leave the launch, and the GPU, when each output is lent, or waits for a
 * credit, for HR_TAP_PARK_NS: compute can do nothing then before a consumer gives a tile back, or the
 * host has an order. The host finds that out from the pages and its own words
 * (boot/engine/runner/park.h), and launches again. All state lies in memory, so the next
 * launch goes on where this one ended. Reads that are in flight complete meanwhile: their
 * completions wait in memory, too, and there is room for all of them.
 *
 * The worker never waits for a consumer when the run stops: it frees all slots and ends. The memory
 * of tiles that it has taken over then stays as it is: compute discards what was read for these slots.
 */
#ifndef GPU_TAP_ROLE_H
#define GPU_TAP_ROLE_H

#include "gpu/worker/pipeline.h"
#include "gpu/tap/protocol.h"

#define HR_TAP_PARK_NS 20000u

#define HR_TAP_SEATS HR_TAP_CONSUMERS_MAX /* bits of a mask */

/* Low bits of an order; the bits above count the orders. */
enum hr_tap_order {
	HR_TAP_LEND,  /* a new consumer, whose entries and page are mapped and all zero */
	HR_TAP_HOLD,  /* lend it no further tile */
	HR_TAP_CLOSE, /* take back all its tiles; do not access its memory any more */
	HR_TAP_ORDERS = 4,
};

/* Words shared by host and worker, in HR_PLACE_CONTROL. */
struct hr_tap_seat {
	/* by the host */
	uint32_t order __attribute__((aligned(64))); /* 0: none yet */
	uint32_t credits; /* 1 .. ring; at any time: less takes nothing back */
	uint32_t set;	  /* before HR_TAP_LEND: the entries and the page of the consumer */
	/* by the worker */
	uint32_t obeyed __attribute__((aligned(64))); /* the last order that it has carried out */
	/* Of the consumer that has the seat: tiles lent, given back, given back as failed, and
	 * lent to it after another consumer. */
	uint64_t lent, returned, failed, redelivered;
	uint64_t hold_ns,
		hold_max_ns; /* from lending to return: sum and maximum of tiles that came back */
	/* Of the tile that it has held for the longest time: that time, at the last look; 0: it
	 * held none. */
	uint64_t oldest_ns, oldest_tile;
};

struct hr_tap_words {
	struct hr_tap_seat seat[HR_TAP_SEATS];
	/* by the worker: tiles that no consumer got (lag "drop"), that were lent a second time,
	 * and that were given back as failed by so many consumers that no further one gets them */
	uint64_t dropped, redelivered, failed;
	uint64_t failed_tile; /* the newest of these */
	uint64_t last;	      /* 1: each tile that is left is lent */
	/* computed tiles that wait for a credit, and the number of tiles up to the newest that
	 * was lent */
	uint64_t waiting, front;
	/* after all else: the number of the launch that the workers leave */
	uint32_t leave_launch;
};

/*
 * The tile in an output; used by the worker only. Output o is the memory that slot o has at first. When
 * a slot has its next tile, and consumers hold its output, the worker exchanges that with the output of
 * a slot that needs none yet, so a tile does not wait for a consumer that holds another one.
 */
struct hr_tap_lending {
	uint32_t slot;	     /* that has this output, exclusive or the number of the output */
	uint32_t out;	     /* output of the slot with this number, exclusive or that number */
	uint32_t seats;	     /* mask of the seats that have the tile */
	uint32_t gen;	     /* of the last lending; 31 bits, never 0 after the first */
	uint32_t flags;	     /* of the next entry: HR_TAP_REDELIVERED */
	uint32_t avoid;	     /* mask of the seats that have given the tile back as failed */
	uint32_t tries;	     /* how often that was */
	uint32_t tile_state; /* enum hr_tap_tile_state */
	uint32_t bytes;	     /* of the tile; as the next two of the slot, when it was taken over */
	uint64_t tile;	     /* its number */
	uint64_t ready_ns;   /* when it was computed */
	uint64_t lent_ns;    /* of the last lending */
	uint64_t freed_ns;   /* when the tile before it came back; 0: there was none */
};

enum hr_tap_tile_state {
	HR_TAP_NONE, /* no tile */
	HR_TAP_TILE, /* a tile that is lent, or waits for a credit */
	/* Within a round of the worker, with a slot that is still COMPUTED: */
	HR_TAP_TAKEN,	/* the same */
	HR_TAP_DROPPED, /* no tile any more */
};

/* The descriptor of the role, in HR_PLACE_WORKER. Its owner fills it before the launch. */
struct hr_tap_role {
	uint32_t each; /* each consumer gets each tile; 0: one of them */
	uint32_t park; /* workers leave the launch while they have nothing to do; 0: they wait */
	uint32_t drop; /* a tile for which no consumer has a credit is dropped; 0: it waits */
	uint32_t
		consumers; /* least number of consumers before the first tile is lent; at least 1 */
	uint32_t tries;	   /* a tile that has failed so often is dropped; 0: after the first time */
	uint32_t ring;	   /* entries of a seat; a power of two, at least the slots */
	uint8_t *entries;  /* of all sets, each of hr_tap_ring_bytes(ring) */
	uint8_t *pages;	   /* of all sets, each of hr_tap_page_bytes(slots) */
	struct hr_tap_words *words;
	struct hr_tap_lending *lending; /* [slots] */
	/* State of the worker; initially all zero. */
	uint32_t began;	    /* so many consumers have come */
	uint32_t next;	    /* the seat that is asked first for the next tile */
	uint32_t last;	    /* each tile that is left is lent */
	uint64_t looked_ns; /* time of the watcher's last look at what consumers hold */
	struct {
		uint32_t done, lends, held, credits;
		uint32_t set;		 /* of its consumer */
		uint64_t sent, returned; /* entries, tiles */
		uint64_t hold_ns, hold_max_ns;
	} own[HR_TAP_SEATS];
	uint64_t front;
};

/* Run the role until all slots are closed; the pipeline's descriptor has `tap`.
 * Block-collective. */
HR_DEVICE void hr_tap_block(struct hr_pipe *pipe, uint32_t block);

/* As hr_pipe_block(), with this role in place of write-back. */
HR_DEVICE void hr_tap_pipe_block(struct hr_pipe *pipe, uint32_t block);

#endif
