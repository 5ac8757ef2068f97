#include "gpu/tap/role.h"

#include "gpu/worker/role.h"

/* One lane does the work of the role: it moves words, not data. */

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
	hr_role_count(w, slot->out_bytes);
	hr_release_u32(&slot->state, HR_SLOT_FREE);
}

/* ---- tiles that come back */

/* A seat has given the tile of the slot back after hold_ns. */
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

/* Seats of the mask that have given the slot back; *failed: those of them whose work has failed.
 * The page is untrusted: a wrong word only gives back a tile of this seat, or keeps it. */
HR_WORKER uint32_t tap_returned(struct hr_role_worker *w, uint32_t s, uint32_t mask,
				uint32_t *failed)
{
	struct hr_tap_role *tap = w->pipe->tap;
	const struct hr_tap_lending *lending = &tap->lending[s];
	uint32_t left = mask, back = 0;
	uint64_t now = 0;

	for (*failed = 0; left; left &= left - 1) {
		const uint32_t seat = hr_lowest_bit(left), bit = (uint32_t)1 << seat;
		const uint32_t word = hr_acquire_sys_u32(&tap_gens(w->pipe, seat)[s]);

		if ((word & ~HR_TAP_FAILED) != lending->gen)
			continue;
		back |= bit;
		*failed |= word & HR_TAP_FAILED ? bit : 0;
		now = now ? now : hr_clock_ns();
		tap_count(tap, seat, now - lending->lent_ns, (word & HR_TAP_FAILED) != 0);
	}
	return back;
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

HR_WORKER bool tap_collect(struct hr_role_worker *w)
{
	struct hr_tap_role *tap = w->pipe->tap;
	bool any = false;
	uint32_t s, back, failed;

	for (s = 0; s < w->pipe->slots; s++) {
		struct hr_tap_lending *lending = &tap->lending[s];

		if (!lending->seats)
			continue;
		back = tap_returned(w, s, lending->seats, &failed);
		lending->seats &= ~back;
		any |= back != 0;
		if (!back || lending->seats)
			continue;
		if (failed && !tap->each)
			tap_retry(w, s, failed);
		else
			tap_free(w, s);
	}
	return any;
}

/* ---- orders of the host */

/* Take the tiles of a seat back. With `each` the other consumers have them, too; otherwise another
 * consumer gets them. */
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

HR_WORKER void tap_carry_out(struct hr_role_worker *w, uint32_t seat, uint32_t order)
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
		/* what it gave back before is done */
		tap_collect(w);
		tap_take_back(w, seat);
	}
	tap->own[seat].done = order;
	hr_release_sys_u32(&words->done, order);
}

HR_WORKER bool tap_obey(struct hr_role_worker *w)
{
	struct hr_tap_role *tap = w->pipe->tap;
	uint32_t seat, order, lenders = 0;
	bool any = false;

	for (seat = 0; seat < HR_TAP_SEATS; seat++) {
		order = hr_acquire_sys_u32(&tap->words->seat[seat].order);
		if (order != tap->own[seat].done) {
			tap_carry_out(w, seat, order);
			any = true;
		}
		if (!tap->own[seat].lends)
			continue;
		tap->own[seat].credits = hr_acquire_sys_u32(&tap->words->seat[seat].credits);
		lenders++;
	}
	if (lenders >= tap->consumers)
		tap->began = 1;
	return any;
}

/* ---- lending */

#define TAP_NOTHING UINT32_MAX

/* The computed slot with the lowest tile, at least `from`, that is not lent. */
HR_WORKER uint32_t tap_oldest(const struct hr_pipe *pipe, uint64_t from)
{
	uint32_t s, found = TAP_NOTHING;

	for (s = 0; s < pipe->slots; s++) {
		const struct hr_slot *slot = &pipe->slot[s];

		if (pipe->tap->lending[s].seats || hr_acquire_u32(&slot->state) != HR_SLOT_COMPUTED)
			continue;
		if (slot->tile >= from &&
		    (found == TAP_NOTHING || slot->tile < pipe->slot[found].tile))
			found = s;
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
	if (pipe->slot[s].tile >= pipe->tap->front) {
		pipe->tap->front = pipe->slot[s].tile + 1;
		hr_relaxed_sys_u64(&pipe->tap->words->front, pipe->tap->front);
	}
	for (; mask; mask &= mask - 1)
		tap_lend_to(pipe, hr_lowest_bit(mask), s, now);
}

/* Lend tiles, the oldest first, until there are no more tiles, or no credits. */
HR_WORKER bool tap_lend_all(struct hr_role_worker *w)
{
	struct hr_tap_role *tap = w->pipe->tap;
	uint64_t from = 0;
	bool any = false;
	uint32_t s, mask;

	while (tap->began && (s = tap_oldest(w->pipe, from)) != TAP_NOTHING) {
		const uint32_t avoid = tap->lending[s].avoid;

		/* compute has stopped the pipeline */
		if (w->pipe->slot[s].out_bytes == HR_OUT_BROKEN)
			break;
		mask = tap_choose(tap, avoid);
		if (mask) {
			tap_lend(w->pipe, s, mask);
		} else if (tap->drop) {
			tap_add(&tap->words->dropped, 1);
			tap_free(w, s);
		} else if (avoid) {
			/* those that may have this tile have no credit; others may have the next
			 * one */
			from = w->pipe->slot[s].tile + 1;
			continue;
		} else {
			break;
		}
		any = true;
	}
	return any;
}

/* ---- what consumers hold, for the host */

#define TAP_LOOK_NS 1000000u

HR_WORKER void tap_look_at_seat(const struct hr_pipe *pipe, uint32_t seat, uint64_t now)
{
	struct hr_tap_seat *words = &pipe->tap->words->seat[seat];
	uint64_t oldest_ns = 0, tile = 0;
	uint32_t s;

	for (s = 0; pipe->tap->own[seat].held && s < pipe->slots; s++) {
		const struct hr_tap_lending *lending = &pipe->tap->lending[s];

		if (!(lending->seats >> seat & 1) || now - lending->lent_ns <= oldest_ns)
			continue;
		oldest_ns = now - lending->lent_ns;
		tile = pipe->slot[s].tile;
	}
	hr_relaxed_sys_u64(&words->oldest_tile, tile);
	hr_release_sys_u64(&words->oldest_ns, oldest_ns);
}

/* Not in each round: the look costs a pass over the slots for each consumer. */
HR_WORKER void tap_look(const struct hr_pipe *pipe)
{
	struct hr_tap_role *tap = pipe->tap;
	const uint64_t now = hr_clock_ns();
	uint64_t waiting = 0;
	uint32_t s, seat;

	if (now - tap->looked_ns < TAP_LOOK_NS)
		return;
	tap->looked_ns = now;
	for (seat = 0; seat < HR_TAP_SEATS; seat++)
		if (tap->own[seat].sent)
			tap_look_at_seat(pipe, seat, now);
	for (s = 0; s < pipe->slots; s++)
		waiting += !tap->lending[s].seats &&
			   hr_acquire_u32(&pipe->slot[s].state) == HR_SLOT_COMPUTED;
	hr_relaxed_sys_u64(&tap->words->waiting, waiting);
}

/* ---- the role */

/* The run stops: give all slots to prefetch, which closes them. These tiles do not count as
 * done. */
HR_WORKER void tap_abandon(const struct hr_pipe *pipe)
{
	uint32_t s;

	for (s = 0; s < pipe->slots; s++) {
		pipe->tap->lending[s].seats = 0;
		if (hr_acquire_u32(&pipe->slot[s].state) == HR_SLOT_COMPUTED)
			hr_release_u32(&pipe->slot[s].state, HR_SLOT_FREE);
	}
}

HR_WORKER uint32_t tap_open_slots(const struct hr_pipe *pipe)
{
	uint32_t s, open = 0;

	for (s = 0; s < pipe->slots; s++)
		open += hr_acquire_u32(&pipe->slot[s].state) != HR_SLOT_CLOSED;
	return open;
}

/* Tell the consumers whether a further tile may come. */
HR_WORKER void tap_tell_last(const struct hr_role_worker *w)
{
	const struct hr_pipe *pipe = w->pipe;
	struct hr_tap_role *tap = pipe->tap;
	uint64_t lent = 0;
	uint32_t s, seat, last;

	for (s = 0; s < pipe->slots; s++)
		lent += tap->lending[s].seats != 0;
	last = w->tiles + lent == hr_pipe_total(pipe) - pipe->first_tile;
	if (last == tap->last)
		return;
	tap->last = last;
	hr_release_sys_u64(&tap->words->last, last);
	for (seat = 0; seat < HR_TAP_SEATS; seat++)
		if (tap->own[seat].lends)
			hr_release_sys_u32(&tap_head(tap, seat)->last, last);
}

HR_WORKER bool tap_round(struct hr_role_worker *w, bool stopped)
{
	bool any = tap_obey(w);

	any |= tap_collect(w);
	if (stopped) {
		tap_abandon(w->pipe);
		return any;
	}
	any |= tap_lend_all(w);
	tap_tell_last(w);
	tap_look(w->pipe);
	return any;
}

HR_DEVICE void hr_tap_block(struct hr_pipe *pipe, uint32_t block)
{
	struct hr_role_worker w;
	uint32_t open = 0, any = 0;

	if (hr_warp() != 0)
		return;
	hr_role_worker_set(&w, pipe, HR_ROLE_WRITEBACK, block, 1);
	do {
		const bool stopped = hr_role_stopped(&w);

		if (hr_lane() == 0) {
			any = tap_round(&w, stopped);
			open = tap_open_slots(pipe);
		}
		hr_lanes_sync();
		open = hr_shfl_u32(open, 0);
		any = hr_shfl_u32(any, 0);
		hr_role_check_stop(&w, any != 0);
		hr_role_beat(&w, any != 0);
	} while (open);
	if (hr_lane() == 0)
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
