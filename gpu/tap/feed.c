#include "gpu/tap/feed.h"

#include "gpu/tap/role.h"
#include "gpu/worker/role.h"

/* One lane does the work of the role: it moves words, not data. */

HR_WORKER struct hr_feed_head *feed_head(const struct hr_feed_role *feed)
{
	return (struct hr_feed_head *)(void *)feed->entries;
}

HR_WORKER struct hr_tap_entry *feed_entry(const struct hr_feed_role *feed, uint64_t n)
{
	uint8_t *first = feed->entries + sizeof(struct hr_feed_head);

	return (struct hr_tap_entry *)(void *)first + n % feed->ring;
}

HR_WORKER const struct hr_feed_page *feed_page(const struct hr_feed_role *feed)
{
	return (const struct hr_feed_page *)(const void *)feed->page;
}

/* Bytes of a full tile, or of the last one of a feed that is not ended earlier. */
HR_WORKER uint32_t feed_room(const struct hr_pipe *pipe, uint64_t tile)
{
	return hr_tile_bytes(&pipe->source[0].extent, pipe->source[0].tile_bytes, tile);
}

/* The first tile that is not committed. *held: the tiles without a commit that slots hold. */
HR_WORKER uint64_t feed_next(const struct hr_pipe *pipe, uint64_t *held)
{
	uint64_t next = pipe->next_tile;
	uint32_t s;

	*held = 0;
	for (s = 0; s < pipe->slots; s++) {
		if (!pipe->slot[s].holds)
			continue;
		++*held;
		if (pipe->slot[s].next_read < next)
			next = pipe->slot[s].next_read;
	}
	return next;
}

/* ---- tiles that are committed */

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
	slot->tile = slot->next_read;
	slot->holds = 0;
	hr_role_count(w, bytes);
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
 * when all tiles before it are committed. */
HR_WORKER void feed_take_other(const struct hr_pipe *pipe, uint32_t s, uint32_t bytes)
{
	struct hr_feed_role *feed = pipe->feed;
	const uint64_t tile = pipe->slot[s].next_read;
	uint64_t held;

	if (!bytes || bytes > feed_room(pipe, tile) || bytes % feed->row_bytes) {
		feed_fail(pipe, HR_FEED_LENGTH, tile);
		return;
	}
	if (feed_next(pipe, &held) != tile)
		return;
	if (tile + held != pipe->next_tile) {
		feed_fail(pipe, HR_FEED_GAP, tile);
		return;
	}
	feed_take(feed, s);
	feed_end(feed, tile + 1, tile * pipe->source[0].tile_bytes + bytes, s + 1);
}

/* The producer has ended the feed before the first tile that is not committed. */
HR_WORKER void feed_end_early(const struct hr_pipe *pipe)
{
	uint64_t held;
	const uint64_t next = feed_next(pipe, &held);

	if (next + held != pipe->next_tile)
		feed_fail(pipe, HR_FEED_GAP, next);
	else
		feed_end(pipe->feed, next, next * pipe->source[0].tile_bytes, 0);
}

/* The word of the slot is a commit of its offer: true, with its bytes. Each word is read once. */
HR_WORKER bool feed_committed(const struct hr_feed_role *feed, uint32_t s, uint32_t *bytes)
{
	const uint64_t word = hr_acquire_sys_u64(&feed_page(feed)->commit[s]);

	*bytes = (uint32_t)word;
	return word >> 32 == feed->offer[s].gen;
}

#define FEED_NOTHING UINT32_MAX

/* Take the full tiles that are committed. Returns the slot of the first other one, with its bytes, or
 * FEED_NOTHING. */
HR_WORKER uint32_t feed_take_full(struct hr_role_worker *w, uint32_t *other_bytes, bool *any)
{
	const struct hr_pipe *pipe = w->pipe;
	struct hr_feed_role *feed = pipe->feed;
	uint32_t s, bytes, found = FEED_NOTHING;

	for (s = 0; s < pipe->slots; s++) {
		const uint64_t tile = pipe->slot[s].next_read;

		if (!feed->offer[s].open || !feed_committed(feed, s, &bytes))
			continue;
		if (bytes == feed_room(pipe, tile)) {
			feed_take(feed, s);
			feed_fill(w, s, bytes);
			*any = true;
		} else if (found == FEED_NOTHING || tile < pipe->slot[found].next_read) {
			found = s;
			*other_bytes = bytes;
		}
	}
	return found;
}

HR_WORKER bool feed_collect(struct hr_role_worker *w)
{
	const struct hr_pipe *pipe = w->pipe;
	struct hr_feed_role *feed = pipe->feed;
	/* before the words of slots: what was committed before the end is seen */
	const bool end = hr_acquire_sys_u64(&feed_page(feed)->end) == feed->epoch;
	uint32_t bytes = 0, s;
	uint64_t held;
	bool any = false;

	s = feed_take_full(w, &bytes, &any);
	if (any)
		hr_relaxed_sys_u64(&feed->words->next, feed_next(pipe, &held));
	if (s != FEED_NOTHING)
		feed_take_other(pipe, s, bytes);
	else if (end)
		feed_end_early(pipe);
	return any || feed->ending || !feed->offers;
}

/* ---- orders of the host */

HR_WORKER void feed_begin(const struct hr_pipe *pipe)
{
	struct hr_feed_role *feed = pipe->feed;
	struct hr_feed_words *words = feed->words;
	uint64_t held;

	feed->held = feed->last = 0;
	feed->sent = feed->committed = 0;
	feed->credits = words->credits;
	feed->epoch = feed_head(feed)->epoch;
	feed->offers = 1;
	hr_relaxed_sys_u64(&words->offered, 0);
	hr_relaxed_sys_u64(&words->committed, 0);
	hr_relaxed_sys_u64(&words->next, feed_next(pipe, &held));
	hr_release_sys_u32(&words->fault, HR_FEED_SOUND);
}

/* Take the offers back. Their tiles are offered to the next producer. */
HR_WORKER void feed_withdraw(const struct hr_pipe *pipe)
{
	struct hr_feed_role *feed = pipe->feed;
	uint64_t gone = 0;
	uint32_t s;

	for (s = 0; s < pipe->slots; s++) {
		gone += feed->offer[s].open;
		feed->offer[s].open = 0;
	}
	feed->offers = 0;
	hr_relaxed_sys_u64(&feed->words->discarded, feed->words->discarded + gone);
}

/* True when no worker reads tiles of the producer, and no later one will. */
HR_WORKER bool feed_is_drained(const struct hr_pipe *pipe)
{
	const struct hr_feed_role *feed = pipe->feed;
	bool drained = !feed->ending || feed->ended;
	uint32_t s;

	for (s = 0; s < pipe->slots; s++)
		drained &= hr_acquire_u32(&pipe->slot[s].state) != HR_SLOT_FILLED;
	return drained;
}

HR_WORKER bool feed_obey(struct hr_role_worker *w)
{
	const struct hr_pipe *pipe = w->pipe;
	struct hr_feed_role *feed = pipe->feed;
	const uint32_t order = hr_acquire_sys_u32(&feed->words->order);

	if (order == feed->done)
		return false;
	if (order % HR_FEED_ORDERS == HR_FEED_OFFER) {
		feed_begin(pipe);
	} else {
		if (feed->offers && !feed->ending)
			feed_collect(w);
		feed_withdraw(pipe);
		if (!feed_is_drained(pipe))
			return false;
	}
	feed->done = order;
	hr_release_sys_u32(&feed->words->done, order);
	return true;
}

/* ---- offers */

/* A free slot for the next offer: that of the lowest tile without a commit, or any. */
HR_WORKER uint32_t feed_choose(const struct hr_pipe *pipe)
{
	uint32_t s, held = FEED_NOTHING, empty = FEED_NOTHING;

	for (s = 0; s < pipe->slots; s++) {
		const struct hr_slot *slot = &pipe->slot[s];

		if (pipe->feed->offer[s].open || hr_acquire_u32(&slot->state) != HR_SLOT_FREE)
			continue;
		if (!slot->holds && empty == FEED_NOTHING)
			empty = s;
		if (slot->holds &&
		    (held == FEED_NOTHING || slot->next_read < pipe->slot[held].next_read))
			held = s;
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

	if (!slot->holds) {
		slot->next_read = pipe->next_tile++;
		slot->holds = 1;
	}
	/* a page that is all zero commits nothing */
	offer->gen += offer->gen == UINT32_MAX ? 2 : 1;
	offer->open = 1;
	entry->tile = slot->next_read;
	entry->slot = s;
	entry->gen = offer->gen;
	entry->bytes = feed_room(pipe, slot->next_read);
	entry->flags = 0;
	entry->lent_ns = hr_clock_ns();
	hr_release_sys_u64(&entry->sequence, ++feed->sent);
	feed->held++;
	hr_relaxed_sys_u64(&feed->words->offered, feed->sent);
}

HR_WORKER bool feed_offer_all(struct hr_pipe *pipe)
{
	struct hr_feed_role *feed = pipe->feed;
	bool any = false;
	uint32_t s;

	while (feed->held < feed->credits && (s = feed_choose(pipe)) != FEED_NOTHING) {
		feed_offer(pipe, s);
		any = true;
	}
	return any;
}

/* Tell the producer whether a further tile may be offered. */
HR_WORKER void feed_tell_last(const struct hr_pipe *pipe)
{
	struct hr_feed_role *feed = pipe->feed;
	uint64_t held;
	uint32_t last;

	feed_next(pipe, &held);
	last = feed->ending || (pipe->next_tile == pipe->tiles && held == feed->held);
	if (last == feed->last)
		return;
	feed->last = last;
	hr_release_sys_u32(&feed_head(feed)->last, last);
}

/* ---- the end */

/* No worker reads the lengths of source and sink: compute does for tiles that are filled, write-back
 * for tiles that are computed, a tap for none. */
HR_WORKER bool feed_is_quiet(const struct hr_pipe *pipe)
{
	bool quiet = true;
	uint32_t s;

	for (s = 0; s < pipe->slots; s++) {
		const uint32_t state = hr_acquire_u32(&pipe->slot[s].state);

		quiet &= state != HR_SLOT_FILLED && (state != HR_SLOT_COMPUTED || pipe->tap);
	}
	return quiet;
}

/* Publish the end, and with it the last tile when it is short. */
HR_WORKER bool feed_publish(struct hr_role_worker *w)
{
	struct hr_pipe *pipe = w->pipe;
	struct hr_feed_role *feed = pipe->feed;
	const uint32_t tile_bytes = pipe->source[0].tile_bytes;
	const uint32_t rest = (uint32_t)(feed->total_bytes % tile_bytes);

	if (!feed_is_quiet(pipe))
		return false;
	pipe->source[0].extent.bytes = feed->total_bytes;
	pipe->sink.bytes = feed->total_bytes / tile_bytes * pipe->sink_tile_bytes +
			   (uint64_t)rest * feed->out_num / feed->out_den;
	hr_relaxed_sys_u64(&feed->words->total_bytes, feed->total_bytes);
	hr_relaxed_sys_u64(&feed->words->next, feed->total);
	hr_release_sys_u64(&feed->words->total, feed->total);
	feed->ended = 1;
	if (feed->short_slot)
		feed_fill(w, feed->short_slot - 1, rest);
	return true;
}

/* Give the free slots to compute, which closes them. */
HR_WORKER bool feed_close_slots(const struct hr_pipe *pipe)
{
	bool any = false;
	uint32_t s;

	for (s = 0; s < pipe->slots; s++) {
		if (hr_acquire_u32(&pipe->slot[s].state) != HR_SLOT_FREE)
			continue;
		hr_release_u32(&pipe->slot[s].state, HR_SLOT_CLOSING);
		any = true;
	}
	return any;
}

/* ---- the role */

/* The tiles of a free slot before the one that it holds, or will get, are written. Write-back says so
 * only of tiles, and a slot may wait long for its next one. */
HR_WORKER void feed_mark(const struct hr_pipe *pipe)
{
	uint32_t s;

	for (s = 0; pipe->written && s < pipe->slots; s++) {
		const struct hr_slot *slot = &pipe->slot[s];
		uint64_t *mark = &pipe->feed->offer[s].mark, tile;

		if (hr_acquire_u32(&slot->state) != HR_SLOT_FREE || slot->spoiled)
			continue;
		tile = slot->holds ? slot->next_read : pipe->next_tile;
		if (tile == *mark)
			continue;
		*mark = tile;
		hr_release_sys_u64(&pipe->written[s], tile);
	}
}

HR_WORKER bool feed_round(struct hr_role_worker *w, bool stopped)
{
	struct hr_pipe *pipe = w->pipe;
	struct hr_feed_role *feed = pipe->feed;
	bool any = feed_obey(w);
	uint64_t held;

	if (feed->offers && !feed->ending)
		any |= feed_collect(w);
	if (!feed->ending && feed_next(pipe, &held) == pipe->tiles)
		feed_end(feed, pipe->tiles, pipe->source[0].extent.bytes, 0);
	if (feed->ending && !feed->ended && !stopped)
		any |= feed_publish(w);
	feed_mark(pipe);
	if (feed->offers && !feed->ending && !stopped)
		any |= feed_offer_all(pipe);
	if (feed->offers)
		feed_tell_last(pipe);
	return (stopped || feed->ended ? feed_close_slots(pipe) : false) || any;
}

HR_WORKER uint32_t feed_open_slots(const struct hr_pipe *pipe)
{
	uint32_t s, open = 0;

	for (s = 0; s < pipe->slots; s++) {
		const uint32_t state = hr_acquire_u32(&pipe->slot[s].state);

		open += state != HR_SLOT_CLOSING && state != HR_SLOT_CLOSED;
	}
	return open;
}

/* The worker passes the host's stop request on to the others, as the first one of prefetch does. */
HR_WORKER bool feed_stopped(const struct hr_role_worker *w)
{
	if (hr_lane() == 0 && hr_role_host_round(w) && hr_poll_sys_u32(&w->pipe->control->stop))
		hr_release_u32(&w->pipe->stop, 1);
	hr_lanes_sync();
	return hr_role_stopped(w);
}

HR_DEVICE void hr_feed_block(struct hr_pipe *pipe, uint32_t block)
{
	struct hr_role_worker w;
	uint32_t open = 0, any = 0;

	if (hr_warp() != 0)
		return;
	hr_role_worker_set(&w, pipe, HR_ROLE_PREFETCH, block, 1);
	do {
		const bool stopped = feed_stopped(&w);

		if (hr_lane() == 0) {
			any = feed_round(&w, stopped);
			open = feed_open_slots(pipe);
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
