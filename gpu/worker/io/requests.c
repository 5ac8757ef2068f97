/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests to an I/O worker: look-ups in its rows, frames for missing pages, and victims.
 */
#include "cache/page_policy.h"
#include "gpu/worker/io/io.h"
#include "gpu/worker/io/peers.h"

/* Frames of a set that are free, or become free, after a page got one: one for each other request for
 * the set, at most IO_ROOM_MAX, and no less than hr_io_worker.reserve. */
#define IO_ROOM_MAX 3u

/* Result of the service of a page of a batch. */
enum io_found { IO_NOTHING, IO_MERGED, IO_FRAME, IO_WAITS, IO_UPGRADE, IO_OFFERED };

/*
 * Take the requests that are in the ring, at most `room`, into a batch. Returns their number.
 * Collective.
 */
HR_WORKER uint32_t io_take(const struct hr_io_worker *w, struct hr_io_batch *b, uint32_t room)
{
	const struct hr_request_ring *ring = &w->access->cache.ring[w->role.index];
	uint32_t mask = 0, s;

	b->count = 0;
	for (s = 0; s < HR_IO_SLICES; s++)
		b->page[s] = HR_NO_PAGE;
	for (s = 0; s < HR_IO_SLICES && b->count == s * HR_LANES; s++) {
		const uint32_t i = hr_io_index(s);
		const uint64_t ticket = w->taken + i;
		const uint64_t *at = &ring->entry[ticket % HR_REQUESTS];
		const uint64_t entry = i < HR_IO_BATCH ? hr_poll_u64(at) : 0;
		const bool there =
			i < room && i < HR_IO_BATCH &&
			(entry & ~HR_REQUEST_FLAGS) >> 32 == hr_request_entry(ticket, 0) >> 32;
		uint64_t gap;

		b->ticket[s] = (uint32_t)ticket;
		b->flags[s] = (uint8_t)((entry & HR_REQUEST_WRITE ? HR_IO_WRITES : 0) |
					(entry & HR_REQUEST_WHOLE ? HR_IO_WHOLE : 0));
		if (there) {
			hr_polled(at);
			b->page[s] = (uint32_t)entry;
		}
		mask |= hr_io_mask(there, s);
		gap = ~(uint64_t)mask;
		b->count = hr_highest_bit_u64(gap & (~gap + 1));
	}
	for (s = 0; s < HR_IO_SLICES; s++)
		if (hr_io_index(s) >= b->count)
			b->page[s] = HR_NO_PAGE;
	return b->count;
}

/* Take the oldest waiting pages, at most `room`, into a batch. Collective. */
HR_WORKER void io_take_waiting(struct hr_io_worker *w, struct hr_io_batch *b, uint32_t room)
{
	const uint32_t n = w->waiting < room ? w->waiting : room;
	uint32_t rest[HR_IO_SLICES], ticket[HR_IO_SLICES], s;
	uint8_t flags[HR_IO_SLICES];

	for (s = 0; s < HR_IO_SLICES; s++) {
		const uint32_t i = hr_io_index(s);

		b->page[s] = i < n ? w->block->waiting[i] : HR_NO_PAGE;
		b->ticket[s] = i < n ? w->block->ticket[i] : 0;
		b->flags[s] = i < n ? w->block->flags[i] : 0;
		rest[s] = i + n < w->waiting ? w->block->waiting[i + n] : HR_NO_PAGE;
		ticket[s] = i + n < w->waiting ? w->block->ticket[i + n] : 0;
		flags[s] = i + n < w->waiting ? w->block->flags[i + n] : 0;
	}
	hr_lanes_sync();
	b->count = n;
	w->waiting -= n;
	for (s = 0; s < HR_IO_SLICES; s++)
		if (hr_io_index(s) < w->waiting) {
			w->block->waiting[hr_io_index(s)] = rest[s];
			w->block->ticket[hr_io_index(s)] = ticket[s];
			w->block->flags[hr_io_index(s)] = flags[s];
		}
	hr_lanes_sync();
}

/* Find the positions of the pages of a batch; drop numbers that are no page of an object. */
HR_WORKER void io_find_places(const struct hr_io_worker *w, struct hr_io_batch *b)
{
	const struct hr_page_cache *cache = &w->access->cache;
	uint32_t s;

	for (s = 0; s < HR_IO_SLICES; s++) {
		struct hr_page_position position = { 0, 0 };

		if (b->page[s] != HR_NO_PAGE && hr_io_object(cache, b->page[s]) == cache->objects)
			b->page[s] = HR_NO_PAGE;
		if (b->page[s] != HR_NO_PAGE)
			position = hr_page_position_of(&cache->shape, b->page[s]);
		b->set[s] = position.set;
		b->tag[s] = position.tag;
		b->way[s] = HR_WAYS;
	}
}

/* Drop the pages that wait for a frame already. Returns their number. Collective. */
HR_WORKER uint32_t io_drop_waiting(const struct hr_io_worker *w, struct hr_io_batch *b)
{
	uint32_t dropped = 0, s, i;

	for (s = 0; s < HR_IO_SLICES && w->waiting; s++) {
		bool waits = false;

		for (i = 0; i < w->waiting; i++)
			waits |= b->page[s] == w->block->waiting[i];
		dropped += hr_count_bits(hr_ballot(waits));
		if (waits)
			b->page[s] = HR_NO_PAGE;
	}
	return dropped;
}

/* Drop repeated pages. Returns their number; same[]: the pages of the batch in the same set as the
 * lane's page. Collective. */
HR_WORKER uint32_t io_drop_repeats(struct hr_io_batch *b, uint32_t same[HR_IO_SLICES])
{
	uint32_t dropped = 0, s, i;

	for (s = 0; s < HR_IO_SLICES; s++)
		same[s] = 0;
	for (i = 0; i < b->count; i++) {
		const uint32_t page = hr_io_of(b->page, i), set = hr_io_of(b->set, i);

		for (s = 0; s < HR_IO_SLICES && page != HR_NO_PAGE; s++) {
			const bool repeats = b->page[s] == page && hr_io_index(s) > i;

			dropped += hr_count_bits(hr_ballot(repeats));
			if (repeats)
				b->page[s] = HR_NO_PAGE;
			else if (b->set[s] == set)
				same[s] |= 1u << i;
		}
	}
	return dropped;
}

/* The ways of a set in a state from `low` to `high`. */
HR_WORKER uint32_t io_ways(const uint32_t word[HR_WAYS], uint32_t low, uint32_t high)
{
	uint32_t ways = 0, way;

	for (way = 0; way < HR_WAYS; way++)
		if (HR_PAGE_STATE(word[way]) >= low && HR_PAGE_STATE(word[way]) <= high)
			ways |= 1u << way;
	return ways;
}

/* The ways of a set with OFFERED pages, which no worker uses. */
HR_WORKER uint32_t io_offered(const uint32_t word[HR_WAYS])
{
	uint32_t ways = 0, way;

	for (way = 0; way < HR_WAYS; way++)
		if (HR_PAGE_KIND(word[way]) == HR_PAGE_OFFERED)
			ways |= 1u << way;
	return ways;
}

/* A way of a set whose frame may be used now, or HR_WAYS. */
HR_WORKER uint32_t io_usable(const struct hr_io_worker *w, const uint32_t word[HR_WAYS])
{
	uint32_t found = HR_WAYS, way;

	for (way = 0; way < HR_WAYS; way++) {
		const uint32_t kind = HR_PAGE_KIND(word[way]);

		if (kind == HR_PAGE_FREE ||
		    (kind == HR_PAGE_LEFT && hr_io_passed(w, HR_PAGE_TAG(word[way]))))
			found = way;
	}
	return found;
}

/*
 * Remove pages of set `number`, of the ways `candidates`, until `wanted` ways are free or leaving.
 * word: the set. Returns the number of removed pages. One lane.
 */
HR_WORKER uint32_t io_remove_victims(const struct hr_io_worker *w, uint32_t number,
				     const uint32_t word[8], uint32_t candidates, uint32_t wanted)
{
	const struct hr_page_cache *cache = &w->access->cache;
	const enum hr_page_policy policy = (enum hr_page_policy)cache->policy;
	struct hr_page_set *set = &cache->set[number];
	uint32_t removed = 0,
		 room = hr_count_bits((hr_mask)io_ways(word, HR_PAGE_FREE, HR_PAGE_LEFT));
	uint32_t recency = word[HR_WAYS];

	if (cache->peers)
		candidates &= hr_io_peers_idle(w, number);
	while (room < wanted &&
	       (room ? hr_policy_spare(policy, recency, candidates) : candidates)) {
		const uint32_t way = hr_policy_victim(policy, &recency, candidates);

		candidates &= ~(1u << way);
		/* fails when a worker has written to the page, or claimed it, meanwhile */
		if (hr_replace_u32(&set->tag[way], word[way], hr_io_left(w, word[way]))) {
			room++;
			removed++;
		}
	}
	if (cache->peers && removed)
		hr_io_peers_list(w, number);
	if (recency != word[HR_WAYS])
		hr_relaxed_u32(&set->recency, recency);
	return removed;
}

/* The page has a way. An OFFERED page is read now, unless the request is to write all of it, or a
 * worker has claimed it. One lane. */
HR_WORKER enum io_found io_serve_found(const struct hr_io_worker *w, struct hr_io_batch *b,
				       uint32_t s, uint32_t way, uint32_t word)
{
	const struct hr_page_cache *cache = &w->access->cache;

	if (cache->peers)
		return (b->flags[s] & HR_IO_WRITES) &&
				       hr_io_peers_upgrade(w, b->page[s], b->set[s], way, word)
			       ? IO_UPGRADE
			       : IO_MERGED;
	if (HR_PAGE_KIND(word) != HR_PAGE_OFFERED || (b->flags[s] & HR_IO_WHOLE) ||
	    !hr_replace_u32(&cache->set[b->set[s]].tag[way], word,
			    HR_PAGE_WORD(b->tag[s], HR_PAGE_READING)))
		return IO_MERGED;
	b->way[s] = way;
	return IO_FRAME;
}

/*
 * Look for a page, and give it a frame when it is missing. Pages that have to leave for it are removed
 * later, by hr_io_make_room(), because its read does not wait for them. One lane.
 */
HR_WORKER enum io_found io_serve_page(const struct hr_io_worker *w, struct hr_io_batch *b,
				      uint32_t s)
{
	const struct hr_page_cache *cache = &w->access->cache;
	const enum hr_page_policy policy = (enum hr_page_policy)cache->policy;
	struct hr_page_set *set = &cache->set[b->set[s]];
	uint32_t word[8], way;

	hr_poll_u32x8(set->tag, word);
	way = hr_page_find(word, b->tag[s]);
	if (way < HR_WAYS)
		return io_serve_found(w, b, s, way, word[way]);
	way = io_usable(w, word);
	if (way == HR_WAYS)
		return IO_WAITS;
	hr_relaxed_u32(&set->recency, hr_policy_enter(policy, word[HR_WAYS], way));
	if (b->flags[s] & HR_IO_WHOLE) {
		hr_relaxed_u32(&set->tag[way], HR_PAGE_WORD(b->tag[s], HR_PAGE_OFFERED));
		b->way[s] = way;
		return IO_OFFERED;
	}
	hr_relaxed_u32(&set->tag[way], HR_PAGE_WORD(b->tag[s], HR_PAGE_READING));
	b->way[s] = way;
	if (cache->peers)
		hr_io_peers_get(w, b, s);
	return IO_FRAME;
}

/* Ask write-back for the row of a page whose set has only dirty pages. Collective. */
HR_WORKER void io_want_clean(struct hr_io_worker *w, bool starved, uint32_t set)
{
	const hr_mask mask = hr_ballot(starved);

	if (mask)
		w->urgent =
			hr_shfl_u32(set, hr_lowest_bit(mask)) >> w->access->cache.shape.group_shift;
}

/* Look for the pages of slice s that no earlier page of `todo` shares the set with. Returns the
 * mask of those that were looked for. *missed: of those that got a frame, or wait for one.
 * Collective. */
HR_WORKER uint32_t io_serve_slice(struct hr_io_worker *w, struct hr_io_batch *b, uint32_t s,
				  uint32_t todo, uint32_t same, uint32_t *missed)
{
	const uint32_t earlier = (1u << (hr_io_index(s) & 31)) - 1;
	const bool now = hr_io_in(todo, s) && !(same & todo & earlier);
	enum io_found found = IO_NOTHING;

	if (now)
		found = io_serve_page(w, b, s);
	if (hr_ballot(found == IO_MERGED)) {
		const uint32_t merges = hr_count_bits(hr_ballot(found == IO_MERGED));

		hr_io_count(&w->block->count.merges, merges);
	}
	if (hr_ballot(found == IO_OFFERED)) {
		const uint32_t whole = hr_count_bits(hr_ballot(found == IO_OFFERED));

		hr_io_count(&w->block->count.whole, whole);
	}
	*missed |= hr_io_mask(found == IO_FRAME || found == IO_WAITS || found == IO_OFFERED, s);
	if (found == IO_MERGED || found == IO_OFFERED)
		b->page[s] = HR_NO_PAGE;
	return hr_io_mask(now, s);
}

/* The ways whose pages can leave. OFFERED pages leave when no other one can, and `takes`. */
HR_WORKER uint32_t io_victims(const uint32_t word[HR_WAYS], bool takes)
{
	const uint32_t ways = io_ways(word, HR_PAGE_ERROR, HR_PAGE_READY);

	return !ways && takes ? io_offered(word) : ways;
}

/* blocked: a page waits for a frame in a set where OFFERED pages have all that could be free. They
 * leave after a grace period, so that the workers that wait for them look for them once more
 * before, and no two workers take frames from each other for ever. Collective. */
HR_WORKER void io_wait_for_offers(struct hr_io_worker *w, bool blocked, bool takes)
{
	if (!hr_ballot(blocked) || (w->offers_wait && !takes))
		return;
	w->offers_end = hr_io_grace(w);
	w->offers_wait = true;
}

/* Note the sets that pages of the batch have entered or wait for, for hr_io_make_room(). missed: these
 * pages; same[]: as of io_drop_repeats(). Collective. */
HR_WORKER void io_note_room(struct hr_io_worker *w, const struct hr_io_batch *b, uint32_t missed,
			    const uint32_t same[HR_IO_SLICES])
{
	uint32_t waits = 0, s;

	for (s = 0; s < HR_IO_SLICES; s++)
		waits |= hr_io_mask(hr_io_in(missed, s) && b->way[s] == HR_WAYS, s);
	for (s = 0; s < HR_IO_SLICES; s++) {
		const uint32_t earlier = (1u << (hr_io_index(s) & 31)) - 1;
		uint32_t wanted = hr_count_bits((hr_mask)(same[s] & waits));

		wanted = wanted < IO_ROOM_MAX ? wanted : IO_ROOM_MAX;
		wanted = wanted > w->reserve ? wanted : w->reserve;
		/* the first page of a set removes for all */
		w->room_wanted[s] =
			hr_io_in(missed, s) && !(same[s] & missed & earlier) ? wanted : 0;
		w->room_set[s] = b->set[s];
		w->room_waits[s] = (same[s] & waits) != 0;
	}
	w->room = missed != 0;
}

HR_DEVICE void hr_io_make_room(struct hr_io_worker *w)
{
	const bool takes = w->offers_wait && hr_io_passed(w, w->offers_end);
	bool blocked = false;
	uint32_t s;

	if (!w->room)
		return;
	w->room = false;
	for (s = 0; s < HR_IO_SLICES; s++) {
		const bool waits = w->room_waits[s];
		struct hr_page_set *set = &w->access->cache.set[w->room_set[s]];
		uint32_t removed = 0, word[8], victims;
		bool starved = false;

		if (w->room_wanted[s]) {
			hr_poll_u32x8(set->tag, word);
			victims = io_victims(word, takes && waits);
			blocked |= waits && !victims && io_offered(word);
			removed = io_remove_victims(w, w->room_set[s], word, victims,
						    w->room_wanted[s]);
			starved = !removed && !io_ways(word, HR_PAGE_FREE, HR_PAGE_LEFT) &&
				  io_ways(word, HR_PAGE_DIRTY, HR_PAGE_DIRTY);
		}
		if (hr_ballot(removed != 0)) {
			const uint64_t all = hr_lanes_sum_u64(removed);

			hr_io_count(&w->block->count.evictions, (uint32_t)all);
		}
		io_want_clean(w, starved, w->room_set[s]);
	}
	io_wait_for_offers(w, blocked, takes);
}

/* Put the pages without a frame into the list of waiting ones. When it is full, they are forgotten:
 * their requesters ask again, after the ring says that the requests were taken. Collective. */
HR_WORKER void io_wait_for_frames(struct hr_io_worker *w, const struct hr_io_batch *b)
{
	uint32_t s;

	for (s = 0; s < HR_IO_SLICES; s++) {
		const bool waits = b->page[s] != HR_NO_PAGE && b->way[s] == HR_WAYS;
		const hr_mask mask = hr_ballot(waits);
		const uint32_t at = w->waiting + hr_lanes_before(mask);

		if (!mask)
			continue;
		hr_io_count(&w->block->count.waits, hr_count_bits(mask));
		if (waits && at < HR_IO_BATCH) {
			w->block->waiting[at] = b->page[s];
			w->block->ticket[at] = b->ticket[s];
			w->block->flags[at] = b->flags[s];
		}
		w->waiting += hr_count_bits(mask);
		w->waiting = w->waiting < HR_IO_BATCH ? w->waiting : HR_IO_BATCH;
	}
	hr_lanes_sync();
}

/* Serve the pages of a batch. Returns true when a page got a frame. Collective. */
HR_WORKER bool io_serve(struct hr_io_worker *w, struct hr_io_batch *b, bool waited)
{
	uint32_t same[HR_IO_SLICES], todo = 0, missed = 0, merges = 0, frames = 0, s;
	const uint64_t began = hr_cycles();

	io_find_places(w, b);
	if (!waited)
		merges = io_drop_waiting(w, b);
	merges += io_drop_repeats(b, same);
	hr_io_count(&w->block->count.merges, merges);
	for (s = 0; s < HR_IO_SLICES; s++)
		todo |= hr_io_mask(b->page[s] != HR_NO_PAGE, s);
	while (todo) {
		uint32_t served = 0;

		for (s = 0; s < HR_IO_SLICES; s++)
			if (hr_io_slice(todo, s))
				served |= io_serve_slice(w, b, s, todo, same[s], &missed);
		todo &= ~served;
		hr_lanes_sync();
	}
	for (s = 0; s < HR_IO_SLICES; s++)
		frames += hr_count_bits(hr_ballot(b->page[s] != HR_NO_PAGE && b->way[s] < HR_WAYS));
	w->entered += frames;
	if (w->access->cache.peers) {
		w->asked += frames;
	} else if (frames) {
		hr_io_begin(w, b, nvme_cmd_read);
		hr_io_publish_all(w);
		hr_io_count(&w->block->count.serve_cycles, hr_cycles() - began);
		hr_io_count(&w->block->count.serves, 1);
	}
	hr_io_make_room(w); /* of a batch before, in the same round */
	io_note_room(w, b, missed, same);
	io_wait_for_frames(w, b);
	return frames != 0;
}

/* Commands that reads may begin: the last ones are for writes, which make frames clean. */
HR_WORKER uint32_t io_read_room(const struct hr_io_worker *w)
{
	const uint32_t commands = w->access->commands, kept = commands > 1 ? (commands + 7) / 8 : 0;
	const uint32_t unused = hr_io_unused(w);
	uint32_t room = unused > kept ? unused - kept : 0;

	if (w->access->cache.peers)
		room = hr_io_peers_room(w, room);
	return room < HR_IO_BATCH ? room : HR_IO_BATCH;
}

/* Workers hold all frames that a page may use for too long: end the run. Collective. */
HR_WORKER void io_check_deadlock(struct hr_io_worker *w)
{
	const struct hr_page_cache *cache = &w->access->cache;
	/* an answer that does not come is found before: peers.c */
	const uint64_t patience =
		cache->timeout_ns + (cache->peers ? 4 * cache->peers->timeout_ns : 0);
	uint64_t now;

	if (!w->waiting || w->stopped)
		return;
	now = hr_shfl_u64(hr_clock_ns(), 0);
	if (now >= w->moved_ns && now - w->moved_ns >= patience)
		hr_io_fail(w, 0, nvme_cmd_read, w->block->waiting[0], 0, -EDEADLK);
}

/* The oldest request that waits, as its distance from the next ticket; *at is its index. 0: none
 * waits. The same in all lanes. */
HR_WORKER uint32_t io_oldest(const struct hr_io_worker *w, uint32_t *at)
{
	uint32_t oldest = 0, i;

	for (i = 0; i < w->waiting; i++) {
		const uint32_t age = (uint32_t)w->taken - w->block->ticket[i];

		if (age > oldest) {
			oldest = age;
			*at = i;
		}
	}
	return oldest;
}

/*
 * Tell requesters how far requests were taken: to the oldest that waits. When it keeps the whole
 * ring from being used, it is forgotten, because the request that would end its wait may be one that
 * has no room. Its requester asks again. Collective.
 */
HR_WORKER void io_tell_taken(struct hr_io_worker *w)
{
	uint32_t at = 0, age = io_oldest(w, &at);

	if (age >= HR_REQUESTS) {
		hr_lanes_sync();
		w->waiting--;
		if (hr_lane() == 0) {
			w->block->waiting[at] = w->block->waiting[w->waiting];
			w->block->ticket[at] = w->block->ticket[w->waiting];
			w->block->flags[at] = w->block->flags[w->waiting];
		}
		hr_lanes_sync();
		age = io_oldest(w, &at);
	}
	if (w->told == w->taken - age)
		return;
	w->told = w->taken - age;
	hr_lanes_sync();
	if (hr_lane() == 0)
		hr_release_u64(&w->access->cache.ring[w->role.index].taken, w->told);
}

HR_DEVICE bool hr_io_requests(struct hr_io_worker *w)
{
	const bool waited = w->waiting != 0;
	struct hr_io_batch b;
	bool progress = false;
	uint32_t room = io_read_room(w), n;

	w->offers_wait &= waited;
	if (waited && room) {
		io_take_waiting(w, &b, room);
		progress = io_serve(w, &b, true);
		room = io_read_room(w);
	}
	n = room ? io_take(w, &b, room) : 0;
	w->taken += n;
	if (n) {
		hr_io_count(&w->block->count.requests, n);
		progress |= io_serve(w, &b, false);
	}
	io_tell_taken(w);
	if (progress || (!waited && w->waiting))
		w->moved_ns = hr_clock_ns();
	io_check_deadlock(w);
	return progress || n;
}
