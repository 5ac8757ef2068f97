/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/tap/role.h"

#include "gpu/tap/lend.h"
#include "gpu/tap/outputs.h"
#include "gpu/tap/poison.h"
#include "gpu/tap/fast_path.h"
#include "gpu/tap/mirror.h"
#include "gpu/worker/role.h"

/*
 * One warp does the work of the role, and reads no host memory: gpu/tap/mirror.h does that for it. The
 * pipeline that the functions get is the copy in the block's memory, but for hr_tap_block().
 * Lane 0 alone writes lending[], and all words for others, but what a lane takes over of a slot.
 *
 * What others wait for comes first: a slot is freed before its counters are, and in the usual case a
 * tile is lent where the worker waits (gpu/tap/fast_path.h), before the round does what
 * follows from it.
 */

/* The tile of an output is done: given back by all its consumers, or dropped. A slot whose tile was
 * taken over in this round gets free in tap_hand_over(). */
HR_WORKER void tap_free(struct hr_role_worker *w, uint32_t s)
{
	struct hr_tap_lending *lending = &w->pipe->tap->lending[s];
	struct hr_slot *slot = &w->pipe->slot[tap_slot_of(w->pipe->tap, s)];

	lending->flags = lending->avoid = lending->tries = 0;
	tap_poison(&slot->out);
	if (lending->tile_state == HR_TAP_TILE)
		hr_release_u32(&slot->out_state, HR_OUT_FREE);
	hr_relaxed_u32(&lending->tile_state,
		       lending->tile_state == HR_TAP_TILE ? HR_TAP_NONE : HR_TAP_DROPPED);
	hr_role_count_tile(w, lending->bytes);
}

/* ---- tiles that come back */

/* A seat has given a tile back after hold_ns. One lane. */
HR_WORKER void tap_count(struct hr_tap_role *tap, uint32_t seat, uint64_t hold_ns, bool failed)
{
	struct hr_tap_seat *words = &tap->words->seat[seat];

	hr_relaxed_u32(&tap->own[seat].held, tap->own[seat].held - 1);
	tap->own[seat].hold_ns += hold_ns;
	hr_relaxed_sys_u64(&words->hold_ns, tap->own[seat].hold_ns);
	if (hold_ns > tap->own[seat].hold_max_ns) {
		tap->own[seat].hold_max_ns = hold_ns;
		hr_relaxed_sys_u64(&words->hold_max_ns, hold_ns);
	}
	if (failed)
		tap_add(&words->failed, 1);
	hr_relaxed_sys_u64(&words->returned, ++tap->own[seat].returned);
}

/* The consumer that had the tile alone has failed: another one gets it, or it is given up. */
HR_WORKER void tap_retry(struct hr_role_worker *w, uint32_t s, uint32_t failed)
{
	struct hr_tap_role *tap = w->pipe->tap;
	struct hr_tap_lending *lending = &tap->lending[s];

	lending->avoid |= failed;
	lending->flags = HR_TAP_REDELIVERED;
	if (++lending->tries < tap->tries) {
		tap_add(&tap->words->redelivered, 1);
		return;
	}
	hr_relaxed_sys_u64(&tap->words->failed_tile, lending->tile);
	hr_release_sys_u64(&tap->words->failed, tap->words->failed + 1);
	tap_free(w, s);
}

/* The seats of `back` have given the slot back; failed: those whose work has failed. One lane. */
HR_WORKER void tap_slot_back(struct hr_role_worker *w, uint32_t s, uint32_t back, uint32_t failed)
{
	struct hr_tap_role *tap = w->pipe->tap;
	struct hr_tap_lending *lending = &tap->lending[s];
	const uint64_t now = hr_clock_ns(), hold_ns = now - lending->lent_ns;
	uint32_t left = back;

	tap_set_seats(lending, lending->seats & ~back);
	if (!lending->seats && failed && !tap->each) {
		tap_retry(w, s, failed);
	} else if (!lending->seats) {
		lending->freed_ns = now;
		tap_free(w, s);
	}
	for (; left; left &= left - 1) {
		const uint32_t seat = hr_lowest_bit(left);

		tap_count(tap, seat, hold_ns, failed >> seat & 1);
	}
}

/* What the watcher has found to have come back of a slot: seats; *failed: those of them whose work
 * has failed. */
HR_WORKER uint32_t tap_returned(const struct hr_pipe *pipe, uint32_t s, uint32_t *failed)
{
	const struct hr_tap_lending *lending = &pipe->tap->lending[s];
	const uint64_t *word = &tap_mirror()->back[s];
	uint64_t back = hr_fresh_u64(word);

	if (!(back & 0xffff) || back >> 32 != lending->gen || !(back & lending->seats))
		return 0;
	back = hr_acquire_u64(word);
	*failed = (uint32_t)(back >> 16) & (uint32_t)back & lending->seats;
	return (uint32_t)back & lending->seats & 0xffff;
}

/* Collective. */
HR_WORKER bool tap_collect(struct hr_role_worker *w)
{
	const struct hr_pipe *pipe = w->pipe;
	bool any = false;
	uint32_t base;

	for (base = 0; base < pipe->slots; base += HR_LANES) {
		const uint32_t s = base + hr_lane();
		uint32_t failed = 0, back = s < pipe->slots ? tap_returned(pipe, s, &failed) : 0;
		hr_mask lanes = hr_ballot(back != 0);

		any |= lanes != 0;
		for (; lanes; lanes &= lanes - 1) {
			const uint32_t lane = hr_lowest_bit(lanes);
			const uint32_t its = hr_shfl_u32(back, lane);
			const uint32_t bad = hr_shfl_u32(failed, lane);

			if (hr_lane() == 0)
				tap_slot_back(w, base + lane, its, bad);
		}
		hr_lanes_sync();
	}
	return any;
}

/* ---- orders of the host */

/* Take the tiles of a seat back. With `each` the other consumers have them, too; otherwise another
 * consumer gets them. One lane. */
HR_WORKER void tap_take_back(struct hr_role_worker *w, uint32_t seat)
{
	struct hr_tap_role *tap = w->pipe->tap;
	const uint32_t bit = (uint32_t)1 << seat;
	uint64_t again = 0;
	uint32_t s;

	for (s = 0; s < w->pipe->slots; s++) {
		struct hr_tap_lending *lending = &tap->lending[s];

		lending->avoid &= ~bit;
		if (!(lending->seats & bit))
			continue;
		tap_set_seats(lending, lending->seats & ~bit);
		if (!tap->each) {
			lending->flags = HR_TAP_REDELIVERED;
			again++;
		} else if (!lending->seats) {
			tap_free(w, s);
		}
	}
	tap_add(&tap->words->redelivered, again);
}

/* Counters of a seat's new consumer. */
HR_WORKER void tap_clear(struct hr_tap_seat *words)
{
	hr_relaxed_sys_u64(&words->lent, 0);
	hr_relaxed_sys_u64(&words->returned, 0);
	hr_relaxed_sys_u64(&words->failed, 0);
	hr_relaxed_sys_u64(&words->redelivered, 0);
	hr_relaxed_sys_u64(&words->hold_ns, 0);
	hr_relaxed_sys_u64(&words->hold_max_ns, 0);
	hr_relaxed_sys_u64(&words->oldest_ns, 0);
}

/* One lane. */
HR_WORKER void tap_seat_order(struct hr_role_worker *w, uint32_t seat, uint32_t order)
{
	struct hr_tap_role *tap = w->pipe->tap;
	struct hr_tap_seat *words = &tap->words->seat[seat];

	tap->own[seat].lends = order % HR_TAP_ORDERS == HR_TAP_LEND;
	if (order % HR_TAP_ORDERS == HR_TAP_LEND) {
		tap->own[seat].set = hr_fresh_u32(&tap_mirror()->set[seat]);
		hr_relaxed_u32(&tap->own[seat].held, 0);
		hr_relaxed_u64(&tap->own[seat].sent, 0);
		tap->own[seat].returned = 0;
		tap->own[seat].hold_ns = tap->own[seat].hold_max_ns = 0;
		tap_clear(words);
		hr_release_sys_u32(&tap_head(tap, seat)->last, tap->last);
	} else if (order % HR_TAP_ORDERS == HR_TAP_CLOSE) {
		tap_take_back(w, seat);
		tap_mirror_await(); /* it does not read the page of the seat any more */
	}
	tap->own[seat].done = order;
	hr_release_sys_u32(&words->obeyed, order);
}

/* Collective. */
HR_WORKER void tap_execute_order(struct hr_role_worker *w, uint32_t seat, uint32_t order)
{
	if (order % HR_TAP_ORDERS == HR_TAP_CLOSE)
		tap_collect(w); /* what it gave back before is done */
	hr_lanes_sync();
	if (hr_lane() == 0)
		tap_seat_order(w, seat, order);
	hr_lanes_sync();
}

/* Each lane has a seat: take over its credits. Collective. */
HR_WORKER void tap_take_credits(struct hr_tap_role *tap)
{
	uint32_t base, lenders = 0;

	for (base = 0; base < HR_TAP_SEATS; base += HR_LANES) {
		const uint32_t seat = base + hr_lane();
		const bool lends = seat < HR_TAP_SEATS && tap->own[seat].lends;

		if (lends)
			tap->own[seat].credits = hr_fresh_u32(&tap_mirror()->credits[seat]);
		lenders += hr_count_bits(hr_ballot(lends));
	}
	hr_lanes_sync();
	if (hr_lane() == 0 && lenders >= tap->consumers)
		tap->began = 1;
	hr_lanes_sync();
}

/* Carry out the orders that the watcher has found; *news: how often it had found any at the last
 * call. Collective. */
HR_WORKER bool tap_execute_orders(struct hr_role_worker *w, uint32_t *news)
{
	struct hr_tap_role *tap = w->pipe->tap;
	const uint32_t now = hr_shfl_u32(hr_fresh_u32(&tap_mirror()->news), 0);
	bool any = false;
	uint32_t base;

	if (now == *news)
		return false;
	*news = now;
	hr_acquire_u32(&tap_mirror()->news);
	for (base = 0; base < HR_TAP_SEATS; base += HR_LANES) {
		const uint32_t seat = base + hr_lane();
		const bool valid = seat < HR_TAP_SEATS;
		const uint32_t order = valid ? hr_fresh_u32(&tap_mirror()->order[seat]) : 0;
		hr_mask changed = hr_ballot(valid && order != tap->own[seat].done);

		for (; changed; changed &= changed - 1) {
			const uint32_t lane = hr_lowest_bit(changed);

			tap_execute_order(w, base + lane, hr_shfl_u32(order, lane));
			any = true;
		}
	}
	tap_take_credits(tap);
	return any;
}

/* ---- lending */

enum tap_step { TAP_WAITS, TAP_LENT, TAP_NEXT };

/* Lend the tile of a slot, or drop it. TAP_WAITS: no consumer has a credit; TAP_NEXT: those that may
 * have this tile have none, but others may have the next one. One lane. */
HR_WORKER enum tap_step tap_hand_out(struct hr_role_worker *w, uint32_t s, uint32_t lenders,
				     uint32_t rich, uint64_t now)
{
	struct hr_tap_role *tap = w->pipe->tap;
	const uint32_t avoid = tap->lending[s].avoid;
	const uint32_t mask = tap_choose(tap, avoid, lenders, rich);

	if (mask) {
		tap_lend(w->pipe, s, mask, now);
		return TAP_LENT;
	}
	if (!tap->drop)
		return avoid ? TAP_NEXT : TAP_WAITS;
	tap_add(&tap->words->dropped, 1);
	tap_free(w, s);
	return TAP_LENT;
}

/* Lend up to TAP_BATCH tiles, the oldest first, until there are no more tiles, or no credits; their
 * number. Collective. */
HR_WORKER uint32_t tap_lend_all(struct hr_role_worker *w)
{
	const struct hr_pipe *pipe = w->pipe;
	uint64_t from = 0, now = 0;
	uint32_t s, lenders, rich, count = 0, step = TAP_LENT;

	while (pipe->tap->began && step != TAP_WAITS && count < TAP_BATCH) {
		tap_masks(pipe->tap, &lenders, &rich);
		if (!rich && !pipe->tap->drop)
			break;
		s = tap_oldest(pipe, from);
		if (s == TAP_NOTHING)
			break;
		/* the clock is slow, so tiles of a batch share its value */
		now = now ? now : hr_clock_ns();
		hr_lanes_sync();
		if (hr_lane() == 0)
			step = tap_hand_out(w, s, lenders, rich, now);
		step = hr_shfl_u32(step, 0);
		hr_lanes_sync();
		count += step == TAP_LENT;
		if (step == TAP_NEXT)
			from = pipe->tap->lending[s].tile + 1;
	}
	return count;
}

/* ---- the role */

/* The run stops: give all slots to prefetch, which closes them. These tiles do not count as
 * done. */
HR_WORKER void tap_abandon(const struct hr_pipe *pipe)
{
	uint32_t s;

	for (s = hr_lane(); s < pipe->slots; s += HR_LANES) {
		struct hr_tap_lending *lending = &pipe->tap->lending[s];

		tap_set_seats(lending, 0);
		if (lending->tile_state)
			hr_release_u32(&pipe->slot[tap_slot_of(pipe->tap, s)].out_state,
				       HR_OUT_ABANDONED);
		hr_relaxed_u32(&lending->tile_state, HR_TAP_NONE);
		if (hr_acquire_u32(&pipe->slot[s].state) == HR_SLOT_COMPUTED)
			hr_release_u32(&pipe->slot[s].state, HR_SLOT_FREE);
	}
	hr_lanes_sync();
}

/* Number of slots that are not closed, or have a tile. Collective. */
HR_WORKER uint32_t tap_open_slots(const struct hr_pipe *pipe)
{
	uint32_t base, open = 0;

	for (base = 0; base < pipe->slots; base += HR_LANES) {
		const uint32_t s = base + hr_lane();

		open += hr_count_bits(
			hr_ballot(s < pipe->slots &&
				  (pipe->tap->lending[s].tile_state ||
				   hr_acquire_u32(&pipe->slot[s].state) != HR_SLOT_CLOSED)));
	}
	return open;
}

/* Number of slots that are lent. Collective. */
HR_WORKER uint32_t tap_lent_slots(const struct hr_pipe *pipe)
{
	uint32_t base, lent = 0;

	for (base = 0; base < pipe->slots; base += HR_LANES) {
		const uint32_t s = base + hr_lane();

		lent += hr_count_bits(hr_ballot(s < pipe->slots && pipe->tap->lending[s].seats));
	}
	return lent;
}

/* Tell the consumers whether a further tile may come. Collective. */
HR_WORKER void tap_tell_last(const struct hr_role_worker *w)
{
	const struct hr_pipe *pipe = w->pipe;
	struct hr_tap_role *tap = pipe->tap;
	uint64_t lent, all = 0;
	uint32_t seat, last;

	if (hr_lane() == 0)
		all = hr_pipe_total(pipe) - pipe->first_tile;
	/* far from the end there is nothing to count */
	if (!hr_shfl_u32(tap->last || w->tiles + pipe->slots >= all, 0))
		return;
	lent = tap_lent_slots(pipe);
	if (hr_lane() == 0) {
		last = w->tiles + lent == all;
		if (last != tap->last)
			hr_release_sys_u64(&tap->words->last, last);
		for (seat = 0; last != tap->last && seat < HR_TAP_SEATS; seat++)
			if (tap->own[seat].lends)
				hr_release_sys_u32(&tap_head(tap, seat)->last, last);
		tap->last = last;
	}
	hr_lanes_sync();
}

#define TAP_LOOKS 32u /* then a round does the rest: its heartbeat, parking */

/* What there is to do for the slots of a lane. */
HR_WORKER uint32_t tap_look_at_slots(const struct hr_pipe *pipe)
{
	const struct hr_tap_lending *lending = pipe->tap->lending;
	const uint64_t *back = tap_mirror()->back;
	uint32_t s, work = 0;

	for (s = hr_lane(); s < pipe->slots; s += HR_LANES) {
		const uint64_t word = lending[s].seats ? hr_fresh_u64(&back[s]) : 0;

		if ((word & lending[s].seats) && word >> 32 == lending[s].gen)
			work |= TAP_BACK;
		if (!lending[lending[s].out ^ s].tile_state &&
		    hr_fresh_u32(&pipe->slot[s].state) == HR_SLOT_COMPUTED)
			work |= TAP_COMPUTED;
	}
	return work;
}

/* The bits of all lanes. Collective. */
HR_WORKER uint32_t tap_all_lanes(uint32_t work)
{
	uint32_t bit, all = 0;

	for (bit = TAP_NEWS; bit <= TAP_STOP; bit *= 2)
		all |= hr_ballot((work & bit) != 0) ? bit : 0;
	return all;
}

/* Wait a while for something to do; `work`: there is that already. A GPU executes this short loop
 * much faster than a whole round. Collective. */
HR_WORKER uint32_t tap_await(const struct hr_role_worker *w, uint32_t work, uint32_t news)
{
	const struct tap_mirror *watch;
	uint32_t left;

	if (HR_LANES == 1 || hr_role_polls_host(w))
		return TAP_ALL;
	watch = tap_mirror();
	left = w->pipe->tap->park ? TAP_LOOKS / 4 : TAP_LOOKS;
	if (tap_is_fast(w->pipe))
		return work | tap_fast_await(w->pipe, news, work ? 1 : left);
	do {
		work |= tap_look_at_slots(w->pipe);
		if (hr_fresh_u32(&watch->news) != news)
			work |= TAP_NEWS;
		if (hr_fresh_u32(&watch->stop) || hr_fresh_u32(&watch->host_stop))
			work |= TAP_STOP;
		work = tap_all_lanes(work);
	} while (!work && --left);
	return work;
}

/* *left: what there is to do; then what this round has left. True: it has done something.
 * Collective. */
HR_WORKER bool tap_round(struct hr_role_worker *w, uint32_t *left, bool stopped, uint32_t *news)
{
	const uint32_t work = *left;
	uint32_t lent = 0;
	bool any = work & TAP_NEWS ? tap_execute_orders(w, news) : false, taken = work & TAP_TAKEN;

	*left = 0;
	if (work & TAP_BACK)
		any |= tap_collect(w);
	if (stopped) {
		tap_abandon(w->pipe);
		return any;
	}
	if (work & TAP_COMPUTED)
		taken |= tap_take_all(w->pipe);
	if (work)
		lent = tap_lend_all(w);
	if (taken)
		tap_hand_over(w->pipe);
	*left = lent == TAP_BATCH ? TAP_LEND : 0;
	any |= taken || lent;
	if (hr_role_polls_host(w))
		any |= tap_unblock(w->pipe);
	if (any || hr_role_polls_host(w))
		tap_tell_last(w);
	return any;
}

/* True when no slot can have an output: each has a tile that is lent, or waits for a credit; or all
 * slots are closed. So no worker has anything to do but to read ahead. Collective. */
HR_WORKER bool tap_rests(const struct hr_pipe *pipe)
{
	bool room = false, open = false;
	uint32_t base;

	for (base = 0; base < pipe->slots; base += HR_LANES) {
		const uint32_t s = base + hr_lane();
		const bool valid = s < pipe->slots;

		room |= hr_ballot(valid && !pipe->tap->lending[s].tile_state) != 0;
		open |= hr_ballot(valid && hr_poll_u32(&pipe->slot[s].state) != HR_SLOT_CLOSED) !=
			0;
	}
	return !room || !open;
}

/* True when all workers leave the launch. *since: 0, or since when nothing has happened.
 * Collective. */
HR_WORKER bool tap_parks(struct hr_role_worker *w, bool idle, uint64_t *since, uint32_t *news)
{
	const uint64_t now = hr_shfl_u64(hr_clock_ns(), 0);

	if (!idle || !tap_rests(w->pipe)) {
		*since = 0;
		return false;
	}
	if (!*since)
		*since = now;
	/* an order of the host that came before the last round is carried out */
	if (now - *since < HR_TAP_PARK_NS || tap_execute_orders(w, news) || tap_unblock(w->pipe))
		return false;
	if (hr_lane() == 0)
		hr_release_u32(&tap_mirror()->far->leave_launch, w->launch);
	hr_lanes_sync();
	return true;
}

HR_WORKER void tap_leave(struct hr_role_worker *w)
{
	hr_role_save_counts(w);
	hr_release_sys_u32(&w->pipe->tap->words->leave_launch, w->launch);
}

/* Prefetch passes the host's stop on to the pipeline, but it may have ended while the last tiles are
 * lent. Collective. */
HR_WORKER bool tap_stopped(const struct hr_role_worker *w)
{
	const struct tap_mirror *watch = tap_mirror();
	const uint32_t stop = hr_fresh_u32(&watch->stop) | hr_fresh_u32(&watch->host_stop);

	return w->failed || hr_shfl_u32(stop, 0) != 0;
}

/* As hr_role_poll_host_stop(). Collective. */
HR_WORKER void tap_check_stop(struct hr_role_worker *w, bool progress)
{
	if (!progress && hr_shfl_u32(hr_fresh_u32(&tap_mirror()->host_stop), 0) == HR_STOP_ABANDON)
		w->failed = w->abandons = true;
}

/* The worker, until all slots are closed; true: it parks. Collective. */
HR_WORKER bool tap_run(struct hr_role_worker *w)
{
	struct hr_pipe *pipe = w->pipe;
	uint32_t open, news = 0, work = TAP_ALL;
	uint64_t since = 0;
	bool parks;

	do {
		bool stopped, any;

		if (hr_warps() == 1)
			tap_mirror_step(pipe);
		work = tap_await(w, work, news);
		stopped = tap_stopped(w);
		any = tap_round(w, &work, stopped, &news);
		/* slots close after the last tile, or a stop */
		open = stopped || pipe->tap->last ? tap_open_slots(pipe) : pipe->slots;
		tap_check_stop(w, any);
		/* one warp that polls takes nothing from others, and a pause would delay tiles */
		w->spins = HR_LANES == 1 ? w->spins : 0;
		hr_role_end_round(w, any);
		parks = pipe->tap->park && open && tap_parks(w, !any && !stopped, &since, &news);
	} while (open && !parks);
	return parks;
}

HR_DEVICE void hr_tap_block(struct hr_pipe *pipe, uint32_t block)
{
	struct hr_pipe *near = tap_mirror_begin(pipe);
	struct hr_role_worker w;
	bool parks;

	if (hr_warp() == 1)
		tap_mirror_run(near);
	if (hr_warp() != 0)
		return;
	hr_role_init_in_pipeline(&w, near, HR_ROLE_WRITEBACK, block, 1);
	parks = tap_run(&w);
	tap_mirror_write_back();
	if (hr_lane() != 0)
		return;
	hr_release_u32(&tap_mirror()->over, 1);
	if (parks)
		tap_leave(&w);
	else
		hr_role_end(&w);
}

HR_DEVICE void hr_tap_pipe_block(struct hr_pipe *pipe, uint32_t block)
{
	const uint32_t before = pipe->blocks[HR_ROLE_PREFETCH] + pipe->blocks[HR_ROLE_COMPUTE];

	if (block < before)
		hr_pipe_block(pipe, block);
	else
		hr_tap_block(pipe, block - before);
}
