#include "gpu/tap/role.h"

#include "gpu/tap/look.h"
#include "gpu/tap/poison.h"
#include "gpu/worker/role.h"

/*
 * One warp does the work of the role. Words of consumers and of the host lie in host memory,
 * where a load takes a GPU about a microsecond: lanes load the words of 32 slots, or all seats,
 * together. Lane 0 alone writes own[], lending[] of a slot that it lends, and all words for
 * others.
 */

HR_WORKER struct hr_tap_entry *tap_entries(const struct hr_tap_role *tap, uint32_t seat)
{
	uint8_t *at = tap->entries + seat * hr_tap_ring_bytes(tap->ring);

	return (struct hr_tap_entry *)(void *)(at + sizeof(struct hr_tap_head));
}

HR_WORKER struct hr_tap_head *tap_head(const struct hr_tap_role *tap, uint32_t seat)
{
	return (struct hr_tap_head *)(void *)(tap->entries + seat * hr_tap_ring_bytes(tap->ring));
}

/* The generations that the seat gives back. */
HR_WORKER const uint32_t *tap_gens(const struct hr_pipe *pipe, uint32_t seat)
{
	const uint8_t *at = pipe->tap->pages + seat * hr_tap_page_bytes(pipe->slots);

	return (const uint32_t *)(const void *)(at + sizeof(struct hr_tap_page));
}

HR_WORKER void tap_add(uint64_t *count, uint64_t by)
{
	hr_relaxed_sys_u64(count, *count + by);
}

/* The tile of a slot is done: given back by all its consumers, or dropped. */
HR_WORKER void tap_free(struct hr_role_worker *w, uint32_t s)
{
	struct hr_slot *slot = &w->pipe->slot[s];
	struct hr_tap_lending *lending = &w->pipe->tap->lending[s];

	lending->flags = lending->avoid = lending->tries = 0;
	tap_poison(&slot->out);
	hr_role_count(w, slot->out_bytes);
	hr_release_u32(&slot->state, HR_SLOT_FREE);
}

/* ---- tiles that come back */

/* Seats of the mask that have given the slot back; *failed: those of them whose work has failed.
 * The page is untrusted: a wrong word only gives back a tile of this seat, or keeps it. */
HR_WORKER uint32_t tap_returned(const struct hr_pipe *pipe, uint32_t s, uint32_t mask,
				uint32_t *failed)
{
	const uint32_t gen = pipe->tap->lending[s].gen;
	uint32_t left = mask, back = 0;

	for (; left; left &= left - 1) {
		const uint32_t seat = hr_lowest_bit(left), bit = (uint32_t)1 << seat;
		const uint32_t word = hr_poll_sys_u32(&tap_gens(pipe, seat)[s]);

		if ((word & ~HR_TAP_FAILED) != gen)
			continue;
		hr_polled_sys(&tap_gens(pipe, seat)[s]);
		back |= bit;
		*failed |= word & HR_TAP_FAILED ? bit : 0;
	}
	return back;
}

/* A seat has given a tile back after hold_ns. One lane. */
HR_WORKER void tap_count(struct hr_tap_role *tap, uint32_t seat, uint64_t hold_ns, bool failed)
{
	struct hr_tap_seat *words = &tap->words->seat[seat];

	tap->own[seat].held--;
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
	hr_relaxed_sys_u64(&tap->words->failed_tile, w->pipe->slot[s].tile);
	hr_release_sys_u64(&tap->words->failed, tap->words->failed + 1);
	tap_free(w, s);
}

/* The seats of `back` have given the slot back; failed: those whose work has failed. One lane. */
HR_WORKER void tap_slot_back(struct hr_role_worker *w, uint32_t s, uint32_t back, uint32_t failed)
{
	struct hr_tap_role *tap = w->pipe->tap;
	struct hr_tap_lending *lending = &tap->lending[s];
	const uint64_t now = hr_clock_ns();
	uint32_t left = back;

	for (; left; left &= left - 1) {
		const uint32_t seat = hr_lowest_bit(left);

		tap_count(tap, seat, now - lending->lent_ns, failed >> seat & 1);
	}
	lending->seats &= ~back;
	if (lending->seats)
		return;
	if (failed && !tap->each)
		tap_retry(w, s, failed);
	else
		tap_free(w, s);
}

/* Collective. */
HR_WORKER bool tap_collect(struct hr_role_worker *w)
{
	const struct hr_pipe *pipe = w->pipe;
	bool any = false;
	uint32_t base;

	for (base = 0; base < pipe->slots; base += HR_LANES) {
		const uint32_t s = base + hr_lane();
		const uint32_t seats = s < pipe->slots ? pipe->tap->lending[s].seats : 0;
		uint32_t failed = 0, back = seats ? tap_returned(pipe, s, seats, &failed) : 0;
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
		lending->seats &= ~bit;
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
		tap->own[seat].held = 0;
		tap->own[seat].sent = tap->own[seat].returned = 0;
		tap->own[seat].hold_ns = tap->own[seat].hold_max_ns = 0;
		tap_clear(words);
		hr_release_sys_u32(&tap_head(tap, seat)->last, tap->last);
	} else if (order % HR_TAP_ORDERS == HR_TAP_CLOSE) {
		tap_take_back(w, seat);
	}
	tap->own[seat].done = order;
	hr_release_sys_u32(&words->done, order);
}

/* Collective. */
HR_WORKER void tap_carry_out(struct hr_role_worker *w, uint32_t seat, uint32_t order)
{
	if (order % HR_TAP_ORDERS == HR_TAP_CLOSE)
		tap_collect(w); /* what it gave back before is done */
	hr_lanes_sync();
	if (hr_lane() == 0)
		tap_seat_order(w, seat, order);
	hr_lanes_sync();
}

/* Each lane has a seat: take over its credits, which the host changes at any time. Collective. */
HR_WORKER void tap_take_credits(struct hr_tap_role *tap)
{
	uint32_t base, lenders = 0;

	for (base = 0; base < HR_TAP_SEATS; base += HR_LANES) {
		const uint32_t seat = base + hr_lane();
		const bool lends = seat < HR_TAP_SEATS && tap->own[seat].lends;

		if (lends)
			tap->own[seat].credits =
				hr_acquire_sys_u32(&tap->words->seat[seat].credits);
		lenders += hr_count_bits(hr_ballot(lends));
	}
	hr_lanes_sync();
	if (hr_lane() == 0 && lenders >= tap->consumers)
		tap->began = 1;
	hr_lanes_sync();
}

/* Collective. */
HR_WORKER bool tap_obey(struct hr_role_worker *w)
{
	struct hr_tap_role *tap = w->pipe->tap;
	bool any = false;
	uint32_t base;

	for (base = 0; base < HR_TAP_SEATS; base += HR_LANES) {
		const uint32_t seat = base + hr_lane();
		const bool valid = seat < HR_TAP_SEATS;
		const uint32_t order = valid ? hr_poll_sys_u32(&tap->words->seat[seat].order) : 0;
		hr_mask changed = hr_ballot(valid && order != tap->own[seat].done);

		if (valid)
			hr_polled_sys(&tap->words->seat[seat].order);
		for (; changed; changed &= changed - 1) {
			const uint32_t lane = hr_lowest_bit(changed);

			tap_carry_out(w, base + lane, hr_shfl_u32(order, lane));
			any = true;
		}
	}
	tap_take_credits(tap);
	return any;
}

/* ---- lending */

#define TAP_NOTHING UINT32_MAX

/* The computed slot with the lowest tile, at least `from`, that is not lent. Collective. */
HR_WORKER uint32_t tap_oldest(const struct hr_pipe *pipe, uint64_t from)
{
	uint32_t base, found = TAP_NOTHING;
	uint64_t best = UINT64_MAX;

	for (base = 0; base < pipe->slots; base += HR_LANES) {
		const uint32_t s = base + hr_lane();
		const bool ready = s < pipe->slots && !pipe->tap->lending[s].seats &&
				   hr_poll_u32(&pipe->slot[s].state) == HR_SLOT_COMPUTED;
		hr_mask lanes = hr_ballot(ready);
		uint64_t tile = UINT64_MAX;

		if (ready) {
			hr_polled(&pipe->slot[s].state);
			tile = pipe->slot[s].tile;
		}
		for (; lanes; lanes &= lanes - 1) {
			const uint32_t lane = hr_lowest_bit(lanes);
			const uint64_t its = hr_shfl_u64(tile, lane);

			if (its < from || its >= best)
				continue;
			best = its;
			found = base + lane;
		}
	}
	return found;
}

HR_WORKER bool tap_has_credit(const struct hr_tap_role *tap, uint32_t seat)
{
	return tap->own[seat].lends && tap->own[seat].held < tap->own[seat].credits;
}

HR_WORKER uint32_t tap_lenders(const struct hr_tap_role *tap)
{
	uint32_t seat, mask = 0;

	for (seat = 0; seat < HR_TAP_SEATS; seat++)
		mask |= tap->own[seat].lends ? (uint32_t)1 << seat : 0;
	return mask;
}

/* Mask of the seats for the next tile; 0: none now. Seats to avoid get it when there are no
 * others. */
HR_WORKER uint32_t tap_choose(struct hr_tap_role *tap, uint32_t avoid)
{
	uint32_t i, mask = 0;

	if (avoid && !(tap_lenders(tap) & ~avoid))
		avoid = 0;
	for (i = 0; i < HR_TAP_SEATS; i++) {
		const uint32_t seat = (tap->next + i) % HR_TAP_SEATS;

		if (avoid >> seat & 1)
			continue;
		if (tap_has_credit(tap, seat)) {
			mask |= (uint32_t)1 << seat;
			if (tap->each)
				continue;
			tap->next = seat + 1;
			return mask;
		}
		if (tap->each && !tap->drop && tap->own[seat].lends)
			return 0;
	}
	return mask;
}

HR_WORKER void tap_lend_to(const struct hr_pipe *pipe, uint32_t seat, uint32_t s, uint64_t now)
{
	struct hr_tap_role *tap = pipe->tap;
	const uint64_t n = tap->own[seat].sent++;
	struct hr_tap_entry *entry = &tap_entries(tap, seat)[n % tap->ring];

	entry->tile = pipe->slot[s].tile;
	entry->slot = s;
	entry->gen = tap->lending[s].gen;
	entry->bytes = pipe->slot[s].out_bytes;
	entry->flags = tap->lending[s].flags;
	entry->lent_ns = now;
	hr_release_sys_u64(&entry->sequence, n + 1);
	tap->own[seat].held++;
	if (entry->flags & HR_TAP_REDELIVERED)
		tap_add(&tap->words->seat[seat].redelivered, 1);
	hr_relaxed_sys_u64(&tap->words->seat[seat].lent, n + 1);
}

HR_WORKER void tap_lend(const struct hr_pipe *pipe, uint32_t s, uint32_t mask)
{
	struct hr_tap_lending *lending = &pipe->tap->lending[s];
	const uint64_t now = hr_clock_ns();

	/* a page that is all zero gives nothing back */
	lending->gen = lending->gen == HR_TAP_FAILED - 1 ? 1 : lending->gen + 1;
	lending->seats = mask;
	lending->lent_ns = now;
	hr_release_alias();
	if (pipe->slot[s].tile >= pipe->tap->front) {
		pipe->tap->front = pipe->slot[s].tile + 1;
		hr_relaxed_sys_u64(&pipe->tap->words->front, pipe->tap->front);
	}
	for (; mask; mask &= mask - 1)
		tap_lend_to(pipe, hr_lowest_bit(mask), s, now);
}

enum tap_step { TAP_WAITS, TAP_LENT, TAP_NEXT };

/* Lend the tile of a slot, or drop it. TAP_WAITS: no consumer has a credit; TAP_NEXT: those that may
 * have this tile have none, but others may have the next one. One lane. */
HR_WORKER enum tap_step tap_hand_out(struct hr_role_worker *w, uint32_t s)
{
	struct hr_tap_role *tap = w->pipe->tap;
	const uint32_t avoid = tap->lending[s].avoid;
	const uint32_t mask = tap_choose(tap, avoid);

	if (mask) {
		tap_lend(w->pipe, s, mask);
		return TAP_LENT;
	}
	if (!tap->drop)
		return avoid ? TAP_NEXT : TAP_WAITS;
	tap_add(&tap->words->dropped, 1);
	tap_free(w, s);
	return TAP_LENT;
}

/* Lend tiles, the oldest first, until there are no more tiles, or no credits. Collective. */
HR_WORKER bool tap_lend_all(struct hr_role_worker *w)
{
	const struct hr_pipe *pipe = w->pipe;
	uint64_t from = 0;
	uint32_t s, step = TAP_LENT;
	bool any = false;

	while (pipe->tap->began && step != TAP_WAITS &&
	       (s = tap_oldest(pipe, from)) != TAP_NOTHING) {
		/* compute has stopped the pipeline */
		if (pipe->slot[s].out_bytes == HR_OUT_BROKEN)
			break;
		hr_lanes_sync();
		if (hr_lane() == 0)
			step = tap_hand_out(w, s);
		step = hr_shfl_u32(step, 0);
		hr_lanes_sync();
		any |= step == TAP_LENT;
		if (step == TAP_NEXT)
			from = pipe->slot[s].tile + 1;
	}
	return any;
}

/* ---- the role */

/* The run stops: give all slots to prefetch, which closes them. These tiles do not count as
 * done. */
HR_WORKER void tap_abandon(const struct hr_pipe *pipe)
{
	uint32_t s;

	for (s = hr_lane(); s < pipe->slots; s += HR_LANES) {
		pipe->tap->lending[s].seats = 0;
		if (hr_acquire_u32(&pipe->slot[s].state) == HR_SLOT_COMPUTED)
			hr_release_u32(&pipe->slot[s].state, HR_SLOT_FREE);
	}
	hr_lanes_sync();
}

/* Number of slots that are not closed. Collective. */
HR_WORKER uint32_t tap_open_slots(const struct hr_pipe *pipe)
{
	uint32_t base, open = 0;

	for (base = 0; base < pipe->slots; base += HR_LANES) {
		const uint32_t s = base + hr_lane();

		open += hr_count_bits(hr_ballot(
			s < pipe->slots && hr_acquire_u32(&pipe->slot[s].state) != HR_SLOT_CLOSED));
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
	const uint64_t lent = tap_lent_slots(pipe);
	uint32_t seat, last;

	if (hr_lane() == 0) {
		last = w->tiles + lent == hr_pipe_total(pipe) - pipe->first_tile;
		if (last != tap->last)
			hr_release_sys_u64(&tap->words->last, last);
		for (seat = 0; last != tap->last && seat < HR_TAP_SEATS; seat++)
			if (tap->own[seat].lends)
				hr_release_sys_u32(&tap_head(tap, seat)->last, last);
		tap->last = last;
	}
	hr_lanes_sync();
}

HR_WORKER bool tap_round(struct hr_role_worker *w, bool stopped)
{
	bool any = hr_role_host_round(w) && tap_obey(w);

	any |= tap_collect(w);
	if (stopped) {
		tap_abandon(w->pipe);
		return any;
	}
	any |= tap_lend_all(w);
	if (any || hr_role_host_round(w))
		tap_tell_last(w);
	tap_look(w->pipe);
	return any;
}

/* True when each slot is lent, waits for a credit, or is closed: no worker has anything to do.
 * Collective. */
HR_WORKER bool tap_rests(const struct hr_pipe *pipe)
{
	uint32_t base;

	for (base = 0; base < pipe->slots; base += HR_LANES) {
		const uint32_t s = base + hr_lane();
		const uint32_t state = s < pipe->slots ? hr_poll_u32(&pipe->slot[s].state)
						       : (uint32_t)HR_SLOT_CLOSED;

		if (hr_ballot(state != HR_SLOT_COMPUTED && state != HR_SLOT_CLOSED))
			return false;
	}
	return true;
}

/* True when all workers leave the launch. *since: 0, or since when nothing has happened.
 * Collective. */
HR_WORKER bool tap_parks(struct hr_role_worker *w, bool idle, uint64_t *since)
{
	const uint64_t now = hr_shfl_u64(hr_clock_ns(), 0);

	if (!idle || !tap_rests(w->pipe)) {
		*since = 0;
		return false;
	}
	if (!*since)
		*since = now;
	/* an order of the host that came before the last round is carried out */
	if (now - *since < HR_TAP_PARK_NS || tap_obey(w))
		return false;
	if (hr_lane() == 0)
		hr_release_u32(&w->pipe->parked, w->launch);
	hr_lanes_sync();
	return true;
}

HR_WORKER void tap_leave(struct hr_role_worker *w)
{
	hr_role_leave(w);
	hr_release_sys_u32(&w->pipe->tap->words->parked, w->launch);
}

HR_DEVICE void hr_tap_block(struct hr_pipe *pipe, uint32_t block)
{
	struct hr_role_worker w;
	uint64_t since = 0;
	uint32_t open;
	bool parks;

	if (hr_warp() != 0)
		return;
	hr_role_worker_set(&w, pipe, HR_ROLE_WRITEBACK, block, 1);
	do {
		const bool stopped = hr_role_stopped(&w);
		const bool any = tap_round(&w, stopped);

		/* slots close after the last tile, or a stop */
		open = stopped || pipe->tap->last ? tap_open_slots(pipe) : pipe->slots;
		hr_role_check_stop(&w, any);
		hr_role_beat(&w, any);
		parks = pipe->tap->park && open && tap_parks(&w, !any && !stopped, &since);
	} while (open && !parks);
	if (hr_lane() != 0)
		return;
	if (parks)
		tap_leave(&w);
	else
		hr_role_done(&w);
}

HR_DEVICE void hr_tap_pipe_block(struct hr_pipe *pipe, uint32_t block)
{
	const uint32_t before = pipe->blocks[HR_ROLE_PREFETCH] + pipe->blocks[HR_ROLE_COMPUTE];

	if (block < before)
		hr_pipe_block(pipe, block);
	else
		hr_tap_block(pipe, block - before);
}
