/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu/tap/fast_path.h - how the tap's worker waits and lends in the usual case, which is the fastest
 * way of a tile to its consumer: a lane has one slot, and a tile one consumer; for
 * gpu/tap/role.c. Worker code.
 *
 * A tile is lent as soon as it is computed and a consumer has a credit, or as soon as a tile
 * comes back for which another one waits. What follows from that (memory gets free, counters,
 * orders) is left for the round of the worker after it. Of a tile that came back as failed, and
 * of consumers to avoid, the round takes care.
 */
#ifndef GPU_TAP_FAST_PATH_H
#define GPU_TAP_FAST_PATH_H

#include "gpu/tap/lend.h"
#include "gpu/tap/outputs.h"
#include "gpu/tap/mirror.h"

#define TAP_BATCH 8u /* tiles of a round: with more, what follows from the first one would wait */

/* What a round has to do. */
enum tap_work {
	TAP_NEWS = 1,	  /* orders or credits have changed */
	TAP_BACK = 2,	  /* tiles have come back */
	TAP_COMPUTED = 4, /* tiles can be taken over */
	TAP_LEND = 8,	  /* tiles can be lent */
	TAP_TAKEN = 16,	  /* tiles were taken over where the worker waits */
	TAP_STOP = 32,
	TAP_ALL = TAP_NEWS | TAP_BACK | TAP_COMPUTED | TAP_LEND | TAP_STOP,
};

/*
 * What the worker needs while it waits, in registers of each lane: memory is read again after
 * each access to a word that others change, and a pointer that leads to it costs as much as the
 * word.
 */
struct tap_fast {
	const struct hr_pipe *pipe;
	struct hr_tap_role *tap;
	struct hr_tap_lending *lending;	   /* of the output with the number of the lane */
	const struct hr_tap_lending *next; /* of the slot's output */
	const uint32_t *state;		   /* of the slot; NULL: the lane has none */
	const uint64_t *back;
	const uint32_t *flag; /* news, or a stop */
	uint32_t no_flag;     /* its value when there is none */
	uint32_t seats, gen;  /* of the output */
	bool waits;	      /* it has a tile that is not lent */
	bool takes;	      /* the slot's tile can be taken over when it is computed */
	uint32_t lenders, rich;
	/* Seats that have a tile for one that they gave back, which no round has counted yet. */
	uint32_t used;
};

/* After a change of the lendings. Collective. */
HR_WORKER void tap_fast_update(struct tap_fast *u)
{
	u->seats = u->state ? u->lending->seats : 0;
	u->gen = u->lending->gen;
	u->waits = u->state && u->lending->tile_state && !u->seats;
	u->takes = u->state && !u->next->tile_state;
	tap_masks(u->tap, &u->lenders, &u->rich);
}

/* Collective. */
HR_WORKER void tap_fast_begin(struct tap_fast *u, const struct hr_pipe *pipe, uint32_t news)
{
	const struct tap_mirror *watch = tap_mirror();
	const uint32_t s = hr_lane(), own = s < pipe->slots ? s : 0;

	u->pipe = pipe;
	u->tap = pipe->tap;
	u->lending = &pipe->tap->lending[own];
	u->next = &pipe->tap->lending[tap_out_of(pipe->tap, own)];
	u->state = s < pipe->slots ? &pipe->slot[s].state : NULL;
	u->back = &watch->back[own];
	u->flag = s == 0 ? &watch->news : s == 1 ? &watch->stop : &watch->host_stop;
	u->no_flag = s == 0 ? news : 0;
	u->used = 0;
	hr_lanes_sync();
	tap_fast_update(u);
}

/* Seats that have given the lane's output back, and not as failed. */
HR_WORKER uint32_t tap_fast_returned(const struct tap_fast *u, uint64_t word)
{
	return (uint32_t)word & ~(uint32_t)(word >> 16) & u->seats & u->lenders;
}

/* Lend the oldest tile to a seat that has a credit, or to `its`, which has just given a tile
 * back. False: there is no such tile, or consumer; a round looks closer. Collective. */
HR_WORKER bool tap_fast_lend(struct tap_fast *u, uint32_t its)
{
	const hr_mask waiting = hr_ballot(u->waits);
	const uint32_t rich = u->rich | (its & ~u->used);
	uint32_t s, mask = rich;

	if (!waiting || !rich)
		return false;
	s = waiting & (waiting - 1) ? tap_oldest(u->pipe, 0) : hr_lowest_bit(waiting);
	if (hr_shfl_u32(u->lending->avoid, s))
		return false;
	u->used |= its;
	if (hr_lane() == 0) {
		if (u->lenders & (u->lenders - 1))
			mask = tap_choose(u->tap, 0, u->lenders, rich);
		tap_lend(u->pipe, s, mask, hr_clock_ns());
	}
	hr_lanes_sync();
	tap_fast_update(u);
	return true;
}

/* Look once; the work that is left for a round. *lent: tiles lent. Collective. */
HR_WORKER uint32_t tap_fast_poll(struct tap_fast *u, uint32_t *lent)
{
	const bool computed = u->takes && hr_poll_u32(u->state) == HR_SLOT_COMPUTED;
	const uint64_t word = u->seats ? hr_fresh_u64(u->back) : 0;
	const bool is_back = (word & u->seats) && word >> 32 == u->gen;
	const hr_mask back = hr_ballot(is_back),
		      flags = hr_ballot(hr_fresh_u32(u->flag) != u->no_flag);
	bool taken = false;
	uint32_t work = back ? TAP_BACK : 0, its = 0;

	if (flags)
		work |= (flags & 1 ? TAP_NEWS : 0) | (flags & ~(hr_mask)1 ? TAP_STOP : 0);
	if (hr_ballot(computed)) {
		if (computed)
			hr_polled(u->state);
		taken = computed && tap_take_tile(u->pipe, hr_lane());
		work |= hr_ballot(taken) ? TAP_TAKEN : 0;
		hr_lanes_sync();
		u->waits = u->state && u->lending->tile_state && !u->seats;
		u->takes = u->takes && !taken;
	}
	if (!work || flags)
		return work;
	if (back)
		its = hr_shfl_u32(is_back ? tap_fast_returned(u, word) : 0, hr_lowest_bit(back));
	*lent += tap_fast_lend(u, its);
	return work;
}

HR_WORKER bool tap_is_fast(const struct hr_pipe *pipe)
{
	return pipe->tap->began && !pipe->tap->each && pipe->slots <= HR_LANES;
}

/* Wait a while for something to do, and lend tiles at once: other work is left for a round.
 * `left`: so many looks at most. Collective. */
HR_WORKER uint32_t tap_fast_await(const struct hr_pipe *pipe, uint32_t news, uint32_t left)
{
	uint32_t work = 0, lent = 0, before;
	struct tap_fast u;

	tap_fast_begin(&u, pipe, news);
	do {
		before = lent;
		work |= tap_fast_poll(&u, &lent);
	} while ((lent != before && lent < TAP_BATCH && !(work & (TAP_NEWS | TAP_STOP))) ||
		 (!work && --left));
	return work;
}

#endif
