/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/tap/feed.h"

#include "gpu/tap/poison.h"
#include "gpu/tap/role.h"
#include "gpu/worker/role.h"

/*
 * One warp does the work of the role: it moves words, not data. Words of the producer and of the host
 * lie in host memory, where a load takes a GPU about a microsecond: lanes load the words of 32 slots
 * together. Lane 0 alone writes the role's state, and all words for others. Between its writes and
 * reads of other lanes is hr_lanes_sync().
 */
HR_WORKER struct hr_feed_head *feed_head(const struct hr_feed_role *feed)
{
	uint8_t *at = feed->entries + feed->set * hr_tap_ring_bytes(feed->ring);

	return (struct hr_feed_head *)(void *)at;
}

HR_WORKER struct hr_tap_entry *feed_entry(const struct hr_feed_role *feed, uint64_t n)
{
	return (struct hr_tap_entry *)(void *)(feed_head(feed) + 1) + n % feed->ring;
}

HR_WORKER const struct hr_feed_commits *feed_page(const struct hr_pipe *pipe)
{
	const struct hr_feed_role *feed = pipe->feed;
	const uint8_t *at = feed->pages + feed->set * hr_feed_page_bytes(pipe->slots);

	return (const struct hr_feed_commits *)(const void *)at;
}

/* Bytes of a full tile, or of the last one of a feed that is not ended earlier. */
HR_WORKER uint32_t feed_room(const struct hr_pipe *pipe, uint64_t tile)
{
	return hr_tile_bytes(&pipe->source[0].extent, pipe->source[0].tile_bytes, tile);
}

/* The first tile that is not committed. Collective. */
HR_WORKER uint64_t feed_next(const struct hr_pipe *pipe)
{
	uint64_t next = pipe->next_tile;
	uint32_t base;

	for (base = 0; base < pipe->slots; base += HR_LANES) {
		const uint32_t s = base + hr_lane();
		const bool holds = s < pipe->slots && pipe->slot[s].has_tile;
		const uint64_t tile = holds ? pipe->slot[s].read_tile : 0;
		hr_mask lanes = hr_ballot(holds);

		for (; lanes; lanes &= lanes - 1) {
			const uint64_t its = hr_shfl_u64(tile, hr_lowest_bit(lanes));

			next = its < next ? its : next;
		}
	}
	return next;
}

/* Number of slots in one of these states: bits by enum hr_slot_state. An acquire. Collective. */
HR_WORKER uint32_t feed_count(const struct hr_pipe *pipe, uint32_t states)
{
	uint32_t base, count = 0;

	for (base = 0; base < pipe->slots; base += HR_LANES) {
		const uint32_t s = base + hr_lane();

		count += hr_count_bits(hr_ballot(
			s < pipe->slots && (states >> hr_acquire_u32(&pipe->slot[s].state) & 1)));
	}
	hr_lanes_sync();
	return count;
}

#define FEED_IN(state) ((uint32_t)1 << (state))

/* ---- tiles that are committed */

/* Functions without the word "collective" are for lane 0. */

HR_WORKER void feed_fail(const struct hr_pipe *pipe, enum hr_feed_fault fault, uint64_t tile)
{
	struct hr_feed_role *feed = pipe->feed;

	hr_relaxed_sys_u64(&feed->words->fault_tile, tile);
	hr_release_sys_u32(&feed->words->fault, (uint32_t)fault);
	feed->offers = 0;
}

HR_WORKER void feed_note_start(const struct hr_role_worker *w)
{
	if (!w->tiles)
		hr_release_sys_u64(&w->pipe->control->first_submit_ns, hr_clock_ns());
}

HR_WORKER void feed_fill(struct hr_role_worker *w, uint32_t s, uint32_t bytes)
{
	struct hr_slot *slot = &w->pipe->slot[s];

	feed_note_start(w);
	slot->tile = slot->read_tile;
	slot->has_tile = 0;
	w->pipe->feed->holding--;
	hr_role_count_tile(w, bytes);
	hr_release_u32(&slot->state, HR_SLOT_FILLED);
}

/* The producer has the slot no more. */
HR_WORKER void feed_take(struct hr_feed_role *feed, uint32_t s)
{
	feed->offer[s].open = 0;
	feed->held--;
	hr_relaxed_sys_u64(&feed->words->committed, ++feed->committed);
}

HR_WORKER void feed_end(struct hr_feed_role *feed, uint64_t total, uint64_t bytes,
			uint32_t short_slot)
{
	feed->ending = 1;
	feed->total = total;
	feed->total_bytes = bytes;
	feed->short_slot = short_slot;
}

/* A slot was committed with another length than that of a full tile. A short tile is the last one
 * when all tiles before it, which is `next`, are committed. */
HR_WORKER void feed_take_other(const struct hr_pipe *pipe, uint32_t s, uint32_t bytes,
			       uint64_t next)
{
	struct hr_feed_role *feed = pipe->feed;
	const uint64_t tile = pipe->slot[s].read_tile;

	if (!bytes || bytes > feed_room(pipe, tile) || bytes % feed->row_bytes) {
		feed_fail(pipe, HR_FEED_LENGTH, tile);
		return;
	}
	if (next != tile)
		return;
	if (tile + feed->holding != pipe->next_tile) {
		feed_fail(pipe, HR_FEED_GAP, tile);
		return;
	}
	feed_take(feed, s);
	feed_end(feed, tile + 1, tile * pipe->source[0].tile_bytes + bytes, s + 1);
}

/* The producer has ended the feed before the first tile that is not committed, or behind the last. */
HR_WORKER void feed_end_early(const struct hr_pipe *pipe, uint64_t next)
{
	const uint64_t end = next * pipe->source[0].tile_bytes, all = pipe->source[0].extent.bytes;

	if (next + pipe->feed->holding != pipe->next_tile)
		feed_fail(pipe, HR_FEED_GAP, next);
	else
		feed_end(pipe->feed, next, end < all ? end : all, 0);
}

/* The word of the slot is a commit of its offer: true, with its bytes. The word is untrusted, so it is
 * read once. Any lane. */
HR_WORKER bool feed_committed(const struct hr_pipe *pipe, uint32_t s, uint32_t *bytes)
{
	const struct hr_feed_role *feed = pipe->feed;
	const uint64_t word =
		feed->offer[s].open ? hr_acquire_sys_u64(&feed_page(pipe)->commit[s]) : 0;

	*bytes = (uint32_t)word;
	return word && word >> 32 == feed->offer[s].gen;
}

#define FEED_NOTHING UINT32_MAX

/* Slots that are committed, at one look. */
struct feed_found {
	bool any;	/* a full tile was taken */
	uint32_t other; /* the lowest tile with another length: its slot, and its bytes */
	uint32_t bytes;
};

/* Slot s is committed with so many bytes. Collective. */
HR_WORKER void feed_sort(struct hr_role_worker *w, uint32_t s, uint32_t bytes,
			 struct feed_found *found)
{
	const struct hr_pipe *pipe = w->pipe;
	const uint64_t tile = pipe->slot[s].read_tile;

	if (bytes == feed_room(pipe, tile)) {
		found->any = true;
		if (hr_lane() == 0) {
			feed_take(pipe->feed, s);
			feed_fill(w, s, bytes);
		}
	} else if (found->other == FEED_NOTHING || tile < pipe->slot[found->other].read_tile) {
		found->other = s;
		found->bytes = bytes;
	}
}

/* Take the full tiles that are committed. Collective. */
HR_WORKER void feed_take_full(struct hr_role_worker *w, struct feed_found *found)
{
	const struct hr_pipe *pipe = w->pipe;
	uint32_t base, bytes = 0;

	found->any = false;
	found->other = FEED_NOTHING;
	found->bytes = 0;
	for (base = 0; base < pipe->slots; base += HR_LANES) {
		const uint32_t s = base + hr_lane();
		hr_mask lanes = hr_ballot(s < pipe->slots && feed_committed(pipe, s, &bytes));

		/* the producer has written the tile at another address */
		if (lanes)
			hr_release_alias();
		hr_lanes_sync();
		for (; lanes; lanes &= lanes - 1) {
			const uint32_t lane = hr_lowest_bit(lanes);

			feed_sort(w, base + lane, hr_shfl_u32(bytes, lane), found);
		}
		hr_lanes_sync();
	}
}

/* The producer has ended the feed. Not in each round: it is a load of host memory. Collective. */
HR_WORKER bool feed_end_wanted(const struct hr_role_worker *w)
{
	const struct hr_feed_role *feed = w->pipe->feed;
	uint64_t end = 0;

	if (!hr_role_polls_host(w))
		return false;
	if (hr_lane() == 0)
		end = hr_acquire_sys_u64(&feed_page(w->pipe)->end);
	return hr_shfl_u64(end, 0) == feed->epoch;
}

/* Collective. */
HR_WORKER bool feed_collect(struct hr_role_worker *w)
{
	const struct hr_pipe *pipe = w->pipe;
	struct hr_feed_role *feed = pipe->feed;
	/* before the words of slots: what was committed before the end is seen */
	const bool end = feed_end_wanted(w);
	struct feed_found found;
	uint64_t next;

	hr_lanes_sync();
	feed_take_full(w, &found);
	if (!found.any && found.other == FEED_NOTHING && !end)
		return false;
	next = feed_next(pipe);
	hr_lanes_sync();
	if (hr_lane() == 0) {
		hr_relaxed_sys_u64(&feed->words->next, next);
		if (found.other != FEED_NOTHING)
			feed_take_other(pipe, found.other, found.bytes, next);
		else if (end)
			feed_end_early(pipe, next);
	}
	hr_lanes_sync();
	return found.any || feed->ending || !feed->offers;
}

/* ---- orders of the host */

HR_WORKER void feed_begin(const struct hr_pipe *pipe, uint64_t next)
{
	struct hr_feed_role *feed = pipe->feed;
	struct hr_feed_words *words = feed->words;

	feed->held = feed->last = 0;
	feed->sent = feed->committed = 0;
	feed->credits = words->credits;
	feed->set = words->set;
	feed->epoch = feed_head(feed)->epoch;
	feed->offers = 1;
	hr_relaxed_sys_u64(&words->offered, 0);
	hr_relaxed_sys_u64(&words->committed, 0);
	hr_relaxed_sys_u64(&words->next, next);
	hr_release_sys_u32(&words->fault, HR_FEED_SOUND);
}

/* Take the offers back. Their tiles are offered to the next producer. Collective. */
HR_WORKER void feed_withdraw(const struct hr_pipe *pipe)
{
	struct hr_feed_role *feed = pipe->feed;
	uint32_t base, gone = 0;

	for (base = 0; base < pipe->slots; base += HR_LANES) {
		const uint32_t s = base + hr_lane();
		const bool open = s < pipe->slots && feed->offer[s].open;

		gone += hr_count_bits(hr_ballot(open));
		if (open)
			feed->offer[s].open = 0;
	}
	if (hr_lane() == 0) {
		feed->offers = 0;
		hr_relaxed_sys_u64(&feed->words->discarded, feed->words->discarded + gone);
	}
	hr_lanes_sync();
}

/* True when no worker reads tiles of the producer, and no later one will. Collective. */
HR_WORKER bool feed_is_drained(const struct hr_pipe *pipe)
{
	const struct hr_feed_role *feed = pipe->feed;

	return (!feed->ending || feed->ended) && !feed_count(pipe, FEED_IN(HR_SLOT_FILLED));
}

/* Collective. */
HR_WORKER bool feed_execute_order(struct hr_role_worker *w, uint32_t order)
{
	const struct hr_pipe *pipe = w->pipe;
	struct hr_feed_role *feed = pipe->feed;
	const uint64_t next = feed_next(pipe);

	hr_lanes_sync();
	if (order % HR_FEED_ORDERS == HR_FEED_OFFER) {
		if (hr_lane() == 0)
			feed_begin(pipe, next);
	} else {
		if (feed->offers && !feed->ending)
			feed_collect(w);
		hr_lanes_sync();
		feed_withdraw(pipe);
		if (!feed_is_drained(pipe))
			return false;
	}
	if (hr_lane() == 0) {
		feed->obeyed = order;
		hr_release_sys_u32(&feed->words->obeyed, order);
	}
	hr_lanes_sync();
	return true;
}

/* Collective. */
HR_WORKER bool feed_execute_orders(struct hr_role_worker *w)
{
	const struct hr_feed_role *feed = w->pipe->feed;
	uint32_t order = 0;

	if (!hr_role_polls_host(w))
		return false;
	if (hr_lane() == 0)
		order = hr_acquire_sys_u32(&feed->words->order);
	order = hr_shfl_u32(order, 0);
	return order != feed->obeyed && feed_execute_order(w, order);
}

/* ---- offers */

/* A free slot for the next offer: that of the lowest tile without a commit, or any. Collective. */
HR_WORKER uint32_t feed_choose(const struct hr_pipe *pipe)
{
	uint32_t base, held = FEED_NOTHING, empty = FEED_NOTHING;
	uint64_t best = UINT64_MAX;

	for (base = 0; base < pipe->slots; base += HR_LANES) {
		const uint32_t s = base + hr_lane();
		const bool is_free = s < pipe->slots && !pipe->feed->offer[s].open &&
				     hr_acquire_u32(&pipe->slot[s].state) == HR_SLOT_FREE;
		const bool holds = is_free && pipe->slot[s].has_tile;
		const uint64_t tile = holds ? pipe->slot[s].read_tile : 0;
		const hr_mask empties = hr_ballot(is_free && !holds);
		hr_mask lanes = hr_ballot(holds);

		if (empties && empty == FEED_NOTHING)
			empty = base + hr_lowest_bit(empties);
		for (; lanes; lanes &= lanes - 1) {
			const uint32_t lane = hr_lowest_bit(lanes);
			const uint64_t its = hr_shfl_u64(tile, lane);

			if (its < best) {
				best = its;
				held = base + lane;
			}
		}
	}
	if (held != FEED_NOTHING)
		return held;
	return pipe->next_tile < pipe->tiles ? empty : FEED_NOTHING;
}

HR_WORKER void feed_offer(struct hr_pipe *pipe, uint32_t s)
{
	struct hr_feed_role *feed = pipe->feed;
	struct hr_slot *slot = &pipe->slot[s];
	struct hr_tap_entry *entry = feed_entry(feed, feed->sent);
	struct hr_feed_offer *offer = &feed->offer[s];

	if (!slot->has_tile) {
		slot->read_tile = pipe->next_tile++;
		slot->has_tile = 1;
		feed->holding++;
		hr_relaxed_sys_u64(&feed->words->front, pipe->next_tile);
	}
	tap_poison(&slot->in[0]);
	/* a page that is all zero commits nothing */
	offer->gen += offer->gen == UINT32_MAX ? 2 : 1;
	offer->open = 1;
	entry->tile = slot->read_tile;
	entry->slot = s;
	entry->gen = offer->gen;
	entry->bytes = feed_room(pipe, slot->read_tile);
	entry->flags = 0;
	entry->lent_ns = hr_clock_ns();
	hr_release_sys_u64(&entry->sequence, ++feed->sent);
	feed->held++;
	hr_relaxed_sys_u64(&feed->words->offered, feed->sent);
}

/* Collective. */
HR_WORKER bool feed_offer_all(struct hr_pipe *pipe)
{
	const struct hr_feed_role *feed = pipe->feed;
	bool any = false;
	uint32_t s;

	while (feed->held < feed->credits && (s = feed_choose(pipe)) != FEED_NOTHING) {
		hr_lanes_sync();
		if (hr_lane() == 0)
			feed_offer(pipe, s);
		hr_lanes_sync();
		any = true;
	}
	return any;
}

/* Tell the producer whether a further tile may be offered. */
HR_WORKER void feed_tell_last(const struct hr_pipe *pipe)
{
	struct hr_feed_role *feed = pipe->feed;
	const uint32_t last =
		feed->ending || (pipe->next_tile == pipe->tiles && feed->holding == feed->held);

	if (last == feed->last)
		return;
	feed->last = last;
	hr_release_sys_u32(&feed_head(feed)->last, last);
}

/* ---- the end */

/* No worker reads the lengths of source and sink: compute does for tiles that are filled, write-back
 * for tiles that are computed, a tap for none. Collective. */
HR_WORKER bool feed_is_quiet(const struct hr_pipe *pipe)
{
	return !feed_count(pipe,
			   FEED_IN(HR_SLOT_FILLED) | (pipe->tap ? 0 : FEED_IN(HR_SLOT_COMPUTED)));
}

/* Publish the end, and with it the last tile when it is short. */
HR_WORKER void feed_publish(struct hr_role_worker *w)
{
	struct hr_pipe *pipe = w->pipe;
	struct hr_feed_role *feed = pipe->feed;
	const uint32_t tile_bytes = pipe->source[0].tile_bytes;
	const uint32_t rest = (uint32_t)(feed->total_bytes % tile_bytes);

	pipe->source[0].extent.bytes = feed->total_bytes;
	pipe->sink.bytes = feed->total_bytes / tile_bytes * pipe->sink_tile_bytes +
			   (uint64_t)rest * feed->out_num / feed->out_den;
	hr_relaxed_sys_u64(&feed->words->total_bytes, feed->total_bytes);
	hr_relaxed_sys_u64(&feed->words->next, feed->total);
	hr_release_sys_u64(&feed->words->total, feed->total);
	feed->ended = 1;
	if (feed->short_slot)
		feed_fill(w, feed->short_slot - 1, rest);
}

/* All tiles are committed, or the producer has ended the feed: publish that when it can be. True: it
 * was. Collective. */
HR_WORKER bool feed_finish(struct hr_role_worker *w)
{
	const struct hr_pipe *pipe = w->pipe;
	struct hr_feed_role *feed = pipe->feed;
	const bool all = pipe->next_tile == pipe->tiles && !feed->holding;

	if (feed->ended || (!feed->ending && !all) || !feed_is_quiet(pipe))
		return false;
	if (hr_lane() == 0) {
		if (!feed->ending)
			feed_end(feed, pipe->tiles, pipe->source[0].extent.bytes, 0);
		feed_publish(w);
	}
	hr_lanes_sync();
	return true;
}

/* Give the free slots to compute, which closes them. Collective. */
HR_WORKER bool feed_close_slots(const struct hr_pipe *pipe)
{
	bool any = false;
	uint32_t base;

	for (base = 0; base < pipe->slots; base += HR_LANES) {
		const uint32_t s = base + hr_lane();
		const bool is_free =
			s < pipe->slots && hr_acquire_u32(&pipe->slot[s].state) == HR_SLOT_FREE;

		any |= hr_ballot(is_free) != 0;
		if (is_free)
			hr_release_u32(&pipe->slot[s].state, HR_SLOT_CLOSING);
	}
	return any;
}

/* ---- the role */

/* The tiles of a free slot before the one that it holds, or will get, are written. Write-back says so
 * only of tiles, and a slot may wait long for its next one. Each lane has slots. */
HR_WORKER void feed_mark(const struct hr_pipe *pipe)
{
	uint32_t s;

	for (s = hr_lane(); pipe->written && s < pipe->slots; s += HR_LANES) {
		const struct hr_slot *slot = &pipe->slot[s];
		uint64_t *mark = &pipe->feed->offer[s].mark, tile;

		if (hr_acquire_u32(&slot->state) != HR_SLOT_FREE || slot->write_failed)
			continue;
		tile = slot->has_tile ? slot->read_tile : pipe->next_tile;
		if (tile == *mark)
			continue;
		*mark = tile;
		hr_release_sys_u64(&pipe->written[s], tile);
	}
	hr_lanes_sync();
}

/* Collective. */
HR_WORKER bool feed_round(struct hr_role_worker *w, bool stopped)
{
	struct hr_pipe *pipe = w->pipe;
	const struct hr_feed_role *feed = pipe->feed;
	bool any = feed_execute_orders(w);

	if (feed->offers && !feed->ending)
		any |= feed_collect(w);
	if (!stopped)
		any |= feed_finish(w);
	feed_mark(pipe);
	if (feed->offers && !feed->ending && !feed->ended && !stopped)
		any |= feed_offer_all(pipe);
	if (feed->offers && hr_lane() == 0)
		feed_tell_last(pipe);
	hr_lanes_sync();
	return (stopped || feed->ended ? feed_close_slots(pipe) : false) || any;
}

/* The worker passes the host's stop request on to the others, as the first one of prefetch does. */
HR_WORKER bool feed_stopped(const struct hr_role_worker *w)
{
	if (hr_lane() == 0 && hr_role_polls_host(w) && hr_poll_sys_u32(&w->pipe->control->stop))
		hr_release_u32(&w->pipe->stop, 1);
	hr_lanes_sync();
	return hr_role_stopped(w);
}

HR_DEVICE void hr_feed_block(struct hr_pipe *pipe, uint32_t block)
{
	struct hr_role_worker w;
	uint32_t open;

	if (hr_warp() != 0)
		return;
	hr_role_init_in_pipeline(&w, pipe, HR_ROLE_PREFETCH, block, 1);
	do {
		const bool stopped = feed_stopped(&w), any = feed_round(&w, stopped);

		/* slots close after the last tile, or a stop */
		open = pipe->slots;
		if (stopped || pipe->feed->ended)
			open -= feed_count(pipe,
					   FEED_IN(HR_SLOT_CLOSING) | FEED_IN(HR_SLOT_CLOSED));
		hr_role_poll_host_stop(&w, any);
		hr_role_end_round(&w, any);
	} while (open);
	if (hr_lane() == 0)
		hr_role_end(&w);
}

HR_DEVICE void hr_feed_pipe_block(struct hr_pipe *pipe, uint32_t block)
{
	const uint32_t feeders = pipe->blocks[HR_ROLE_PREFETCH];
	const uint32_t computers = pipe->blocks[HR_ROLE_COMPUTE];

	if (block < feeders)
		hr_feed_block(pipe, block);
	else if (block < feeders + computers)
		hr_compute_block(pipe, block - feeders);
	else if (pipe->tap)
		hr_tap_block(pipe, block - feeders - computers);
	else
		hr_writeback_block(pipe, block - feeders - computers);
}
