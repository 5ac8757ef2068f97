/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several gpus: pages of this gpu. Requests to homes, orders of homes, and the list of pending
 * sets.
 */
#include "gpu/worker/io/peers.h"
#include "gpu/worker/vector.h"

/* Times timeout_ns: for the epoch that a page needs to leave, and for an answer of a home, which may
 * itself wait for another gpu. */
#define PAGES_PATIENCE_EPOCH 1u
#define PAGES_PATIENCE_HOME 3u

HR_WORKER uint16_t *pages_bits(const struct hr_io_worker *w, uint32_t set, uint32_t way)
{
	return &w->access->cache.peers->set[set].way[way];
}

HR_WORKER struct hr_peer_way pages_way(const struct hr_io_worker *w, uint32_t set, uint32_t way)
{
	return hr_peer_way(*pages_bits(w, set, way));
}

/* Store the state of a way, with the present time. */
HR_WORKER void pages_keep(const struct hr_io_worker *w, uint32_t set, uint32_t way,
			  struct hr_peer_way *its)
{
	its->time = w->peer_time & HR_PEER_CLOCK;
	*pages_bits(w, set, way) =
		its->request || its->answer || its->writes ? hr_peer_way_bits(its) : 0;
}

HR_WORKER uint32_t *pages_word(const struct hr_io_worker *w, uint32_t set, uint32_t way)
{
	return &w->access->cache.set[set].tag[way];
}

HR_WORKER void pages_send(const struct hr_io_worker *w, uint32_t set, uint32_t way,
			  enum hr_peer_kind kind, uint32_t page, bool flag)
{
	const struct hr_peer_message m = { page, way, kind, flag, 0, 0 };

	hr_peer_send(w, hr_peer_home(w, set), HR_TO_HOME, &m);
}

/* ---- requests of this gpu */

HR_DEVICE_SLOW uint32_t hr_io_peers_room(const struct hr_io_worker *w, uint32_t room)
{
	const uint32_t gpus = w->access->cache.peers->gpus;
	uint32_t g;

	for (g = 0; g < gpus; g++) {
		const uint32_t its = hr_peer_room(w, g, HR_TO_HOME);
		const uint32_t rest =
			its > HR_PEER_ANSWERS ? its - HR_PEER_ANSWERS : 0; /* for answers */

		room = rest < room ? rest : room;
	}
	return hr_shfl_u32(room, 0);
}

HR_DEVICE_SLOW void hr_io_peers_get(const struct hr_io_worker *w, const struct hr_io_batch *b,
				    uint32_t s)
{
	struct hr_peer_way its = hr_peer_way(0);

	its.request = HR_PEER_REQUEST_PAGE;
	its.writes = (b->flags[s] & HR_IO_WRITES) != 0;
	pages_keep(w, b->set[s], b->way[s], &its);
	pages_send(w, b->set[s], b->way[s], HR_PEER_GET, b->page[s], its.writes);
}

HR_DEVICE_SLOW bool hr_io_peers_upgrade(const struct hr_io_worker *w, uint32_t page, uint32_t set,
					uint32_t way, uint32_t word)
{
	struct hr_peer_way its = pages_way(w, set, way);

	if (!(word & HR_PAGE_SHARED))
		return false;
	if (its.request || its.answer || HR_PAGE_STATE(word) != HR_PAGE_READY)
		return true;
	its.request = HR_PEER_REQUEST_WRITE;
	pages_keep(w, set, way, &its);
	pages_send(w, set, way, HR_PEER_UPGRADE, page, false);
	return true;
}

HR_DEVICE_SLOW uint32_t hr_io_peers_idle(const struct hr_io_worker *w, uint32_t set)
{
	uint32_t idle = 0, way;

	for (way = 0; way < HR_WAYS; way++)
		if (!*pages_bits(w, set, way))
			idle |= 1u << way;
	return idle;
}

HR_DEVICE_SLOW void hr_io_peers_filled(const struct hr_io_worker *w, uint32_t set, uint32_t way,
				       enum hr_page_state state)
{
	uint32_t *word = pages_word(w, set, way);
	struct hr_peer_way its = pages_way(w, set, way);
	const bool ready = state == HR_PAGE_READY;

	its.request = HR_PEER_NO_REQUEST;
	its.answer = ready ? HR_PEER_ANSWER_FILLED : HR_PEER_ANSWER_FAILED;
	pages_keep(w, set, way, &its);
	hr_io_peers_list(w, set);
	/* workers of other gpus read the frame, too */
	hr_release_sys_u32(word, HR_PAGE_WORD(HR_PAGE_TAG(hr_fresh_u32(word)), state) |
					 (ready ? HR_PAGE_SHARED : 0));
}

/* ---- the list of pending sets */

/* Sets of a worker's part of the list. */
HR_WORKER uint32_t pages_list_size(const struct hr_io_worker *w)
{
	const struct hr_page_cache *cache = &w->access->cache;

	return (uint32_t)hr_peers_own_sets(&cache->shape, cache->io_workers);
}

HR_WORKER uint32_t *pages_list_at(const struct hr_io_worker *w, uint64_t i)
{
	const uint32_t size = pages_list_size(w);

	return &w->access->cache.peers->pending[(uint64_t)w->role.index * size + i % size];
}

HR_DEVICE_SLOW void hr_io_peers_list(const struct hr_io_worker *w, uint32_t set)
{
	if (hr_fetch_or_u32(&w->access->cache.peers->set[set].listed, 1))
		return;
	hr_relaxed_u32(pages_list_at(w, hr_fetch_add_u64(&hr_peer_counters(w)->pending, 1)), set);
}

/* True when the home's ring has room for an answer of each lane. */
HR_WORKER bool pages_may_send(const struct hr_io_worker *w, uint32_t set)
{
	return hr_peer_room(w, hr_peer_home(w, set), HR_TO_HOME) >= HR_PEER_ANSWERS;
}

/* A grace period begins. */
HR_WORKER void pages_answer_later(const struct hr_io_worker *w, uint32_t set, uint32_t way,
				  struct hr_peer_way *its, enum hr_peer_answer answer)
{
	its->answer = answer;
	its->epoch = hr_io_grace(w) & HR_PEER_CLOCK;
	pages_keep(w, set, way, its);
	hr_io_peers_list(w, set);
}

/* The grace period has ended. When 16 epochs pass between two looks at a long list, the result may
 * become true late, and never too early. */
HR_WORKER bool pages_grace(const struct hr_io_worker *w, const struct hr_peer_way *its)
{
	return w->ended || ((w->settled - its->epoch) & HR_PEER_CLOCK) <= HR_PEER_CLOCK / 2;
}

/* FILLED. True when it is sent. */
HR_WORKER bool pages_tell_filled(const struct hr_io_worker *w, uint32_t set, uint32_t way,
				 struct hr_peer_way *its, uint32_t word)
{
	const bool failed = its->answer == HR_PEER_ANSWER_FAILED;

	if (!pages_may_send(w, set))
		return false;
	its->request = its->writes && !failed ? HR_PEER_REQUEST_WRITE : HR_PEER_NO_REQUEST;
	its->answer = HR_PEER_NO_ANSWER;
	its->writes = false;
	pages_keep(w, set, way, its);
	pages_send(w, set, way, HR_PEER_FILLED,
		   hr_page_at(&w->access->cache.shape, set, HR_PAGE_TAG(word)), failed);
	return true;
}

/* CLEAN: no writer begins any more. True when the page is clean, and CLEANED is sent. */
HR_WORKER bool pages_clean(const struct hr_io_worker *w, uint32_t set, uint32_t way,
			   struct hr_peer_way *its, uint32_t *word)
{
	if (its->answer == HR_PEER_ANSWER_CLEAN) {
		if (!pages_grace(w, its))
			return false;
		while (!hr_replace_u32(pages_word(w, set, way), *word, *word | HR_PAGE_SHARED))
			*word = hr_acquire_u32(pages_word(w, set, way));
		*word |= HR_PAGE_SHARED;
		its->answer = HR_PEER_ANSWER_CLEANED;
		pages_keep(w, set, way, its);
	}
	if (HR_PAGE_STATE(*word) != HR_PAGE_READY || !pages_may_send(w, set))
		return false;
	its->answer = HR_PEER_NO_ANSWER;
	pages_keep(w, set, way, its);
	pages_send(w, set, way, HR_PEER_CLEANED,
		   hr_page_at(&w->access->cache.shape, set, HR_PAGE_TAG(*word)), false);
	return true;
}

/* INVALIDATE, or a victim: DROP is sent after the epoch. True when it is. *left counts pages that
 * leave. */
HR_WORKER bool pages_leave(const struct hr_io_worker *w, uint32_t set, uint32_t way,
			   struct hr_peer_way *its, uint32_t *word, uint32_t *left)
{
	if (HR_PAGE_STATE(*word) != HR_PAGE_LEFT) {
		if (!pages_grace(w, its))
			return false;
		*word = hr_io_left(w, *word);
		hr_release_u32(pages_word(w, set, way), *word);
		++*left;
	}
	if (!hr_io_passed(w, HR_PAGE_TAG(*word)) || !pages_may_send(w, set))
		return false;
	its->request = HR_PEER_REQUEST_DROP;
	its->answer = HR_PEER_NO_ANSWER;
	pages_keep(w, set, way, its);
	pages_send(w, set, way, HR_PEER_DROP, set, false);
	return true;
}

/* The result of one look at a pending set. */
struct pages_did {
	uint32_t sent, left, dirty; /* answers; pages that leave; pages that have to be written */
	bool waits;
};

/* Go on with a way of a pending set. One lane. */
HR_WORKER void pages_go_on(const struct hr_io_worker *w, uint32_t set, uint32_t way,
			   struct pages_did *did)
{
	struct hr_peer_way its = pages_way(w, set, way);
	uint32_t word = hr_acquire_u32(pages_word(w, set, way));
	const bool leaves = HR_PAGE_KIND(word) == (HR_PAGE_LEFT | HR_PAGE_SHARED) &&
			    its.request != HR_PEER_REQUEST_DROP;
	bool done;

	if (its.answer == HR_PEER_ANSWER_FILLED || its.answer == HR_PEER_ANSWER_FAILED)
		done = pages_tell_filled(w, set, way, &its, word);
	else if (its.answer == HR_PEER_ANSWER_CLEAN || its.answer == HR_PEER_ANSWER_CLEANED)
		done = pages_clean(w, set, way, &its, &word);
	else if (its.answer == HR_PEER_ANSWER_INVALIDATE || leaves)
		done = pages_leave(w, set, way, &its, &word, &did->left);
	else
		return;
	did->sent += done;
	did->waits |= !done;
	did->dirty += its.answer == HR_PEER_ANSWER_CLEANED && HR_PAGE_STATE(word) == HR_PAGE_DIRTY;
}

/* The sets of up to HR_LANES entries of the list, one for each lane. Collective. */
HR_WORKER bool pages_pending_batch(struct hr_io_worker *w, uint32_t count)
{
	const struct hr_page_cache *cache = &w->access->cache;
	struct pages_did did = { 0, 0, 0, false };
	const bool mine = hr_lane() < count;
	const uint32_t set = mine ? hr_fresh_u32(pages_list_at(w, w->pending + hr_lane())) : 0;
	hr_mask dirty;
	uint32_t way;

	hr_lanes_sync();  /* an entry that is read may be used again */
	hr_release_sys(); /* pages that answers announce */
	if (mine) {
		hr_relaxed_u32(&cache->peers->set[set].listed, 0);
		for (way = 0; way < HR_WAYS; way++)
			pages_go_on(w, set, way, &did);
		if (did.waits)
			hr_io_peers_list(w, set);
	}
	w->pending += count;
	hr_lanes_sync();
	hr_io_count(&w->block->count.invalidations, (uint32_t)hr_lanes_sum_u64(did.left));
	dirty = hr_ballot(did.dirty != 0);
	if (dirty)
		w->urgent = hr_shfl_u32(set, hr_lowest_bit(dirty)) >> cache->shape.group_shift;
	return hr_ballot(did.sent || did.left) != 0;
}

HR_DEVICE bool hr_peer_pages_pending(struct hr_io_worker *w)
{
	const uint64_t pending = hr_shfl_u64(hr_fresh_u64(&hr_peer_counters(w)->pending), 0);
	const uint64_t all = pending - w->pending;
	uint64_t rest = all < HR_IO_BATCH ? all : HR_IO_BATCH;
	bool progress = false;

	while (rest) {
		const uint32_t count = rest < HR_LANES ? (uint32_t)rest : HR_LANES;

		progress |= pages_pending_batch(w, count);
		rest -= count;
	}
	return progress;
}

/* ---- messages of homes */

/* True when a message fits the state of the way. The word of a page that left has no tag. */
HR_WORKER bool pages_fits(const struct hr_io_worker *w, const struct hr_peer_message *m,
			  uint32_t set)
{
	const struct hr_peer_way its = pages_way(w, set, m->way);
	const uint32_t word = hr_fresh_u32(pages_word(w, set, m->way));
	const bool left = HR_PAGE_KIND(word) == (HR_PAGE_LEFT | HR_PAGE_SHARED);
	const bool same =
		HR_PAGE_TAG(word) == hr_page_position_of(&w->access->cache.shape, m->page).tag;

	if (m->kind == HR_PEER_FILL || m->kind == HR_PEER_COPY)
		return its.request == HR_PEER_REQUEST_PAGE &&
		       HR_PAGE_STATE(word) == HR_PAGE_READING && same;
	if (m->kind == HR_PEER_DROPPED)
		return its.request == HR_PEER_REQUEST_DROP && left;
	return left ||
	       (its.answer == HR_PEER_NO_ANSWER && HR_PAGE_STATE(word) >= HR_PAGE_READY && same);
}

/* GRANT, CLEAN, INVALIDATE, DROPPED. One lane. */
HR_WORKER void pages_obey(const struct hr_io_worker *w, const struct hr_peer_message *m,
			  uint32_t set)
{
	struct hr_peer_way its = pages_way(w, set, m->way);
	uint32_t *word = pages_word(w, set, m->way);
	const uint32_t was = hr_fresh_u32(word);
	const bool left = HR_PAGE_STATE(was) == HR_PAGE_LEFT;

	if (m->kind == HR_PEER_DROPPED) {
		*pages_bits(w, set, m->way) = 0;
		hr_relaxed_u32(word, HR_PAGE_WORD(0, HR_PAGE_FREE));
	} else if (m->kind == HR_PEER_GRANT && !left) {
		its.request = HR_PEER_NO_REQUEST;
		pages_keep(w, set, m->way, &its);
		hr_release_u32(word, was & ~HR_PAGE_SHARED);
	} else if (m->kind == HR_PEER_CLEAN && !left) {
		pages_answer_later(w, set, m->way, &its, HR_PEER_ANSWER_CLEAN);
	} else if (m->kind == HR_PEER_INVALIDATE && its.request != HR_PEER_REQUEST_DROP) {
		its.request = HR_PEER_NO_REQUEST;
		pages_answer_later(w, set, m->way, &its, HR_PEER_ANSWER_INVALIDATE);
	}
}

/* Start the reads that homes ordered. Collective. */
HR_WORKER void pages_fill(struct hr_io_worker *w, const struct hr_peer_batch *b)
{
	struct hr_io_batch reads;
	uint32_t s, count = 0;

	reads.count = b->count;
	for (s = 0; s < HR_IO_SLICES; s++) {
		const bool mine = b->m[s].kind == HR_PEER_FILL;
		struct hr_peer_way its;

		reads.page[s] = mine ? b->m[s].page : HR_NO_PAGE;
		reads.way[s] = mine ? b->m[s].way : HR_WAYS;
		reads.set[s] = b->set[s];
		count += hr_count_bits(hr_ballot(mine));
		if (!mine)
			continue;
		its = pages_way(w, b->set[s], b->m[s].way);
		its.request = HR_PEER_NO_REQUEST;
		pages_keep(w, b->set[s], b->m[s].way, &its);
	}
	w->asked -= count;
	if (count)
		hr_io_begin(w, &reads, nvme_cmd_read);
}

/* A page to copy: the frame of another gpu, and the own one. */
struct pages_copy {
	uint8_t *to;
	const uint8_t *from;
};

/* Of the message in slice s of lane `lane`. Collective. */
HR_WORKER struct pages_copy pages_copy_of(const struct hr_io_worker *w,
					  const struct hr_peer_batch *b, uint32_t s, uint32_t lane)
{
	const struct hr_page_cache *cache = &w->access->cache;
	const uint32_t set = hr_shfl_u32(b->set[s], lane);
	const uint32_t way = hr_shfl_u32(b->m[s].way, lane);
	const uint32_t gpu = hr_shfl_u32(b->m[s].from_gpu, lane);
	const uint64_t at = hr_page_frame(set, hr_shfl_u32(b->m[s].from_way, lane))
			    << cache->shape.page_shift;
	const struct pages_copy copy = { hr_cache_frame(cache, set, way),
					 cache->peers->gpu[gpu].frame + at };

	return copy;
}

/* Copy the pages that homes ordered. Collective. */
HR_WORKER void pages_copy(struct hr_io_worker *w, const struct hr_peer_batch *b)
{
	const uint32_t bytes = 1u << w->access->cache.shape.page_shift;
	struct hr_stream stream;
	uint32_t s, all = 0;

	hr_stream_begin(&stream);
	for (s = 0; s < HR_IO_SLICES; s++) {
		hr_mask rest = hr_ballot(b->m[s].kind == HR_PEER_COPY);

		all += hr_count_bits(rest);
		for (; rest; rest &= rest - 1) {
			const struct pages_copy copy = pages_copy_of(w, b, s, hr_lowest_bit(rest));

			hr_stream_copy(&stream, copy.to, copy.from, bytes);
		}
	}
	if (!all)
		return;
	hr_stream_end(&stream);
	hr_lanes_sync();
	w->asked -= all;
	hr_io_count(&w->block->count.copies, all);
	for (s = 0; s < HR_IO_SLICES; s++)
		if (b->m[s].kind == HR_PEER_COPY)
			hr_io_peers_filled(w, b->set[s], b->m[s].way, HR_PAGE_READY);
}

HR_DEVICE bool hr_peer_pages_take(struct hr_io_worker *w, uint32_t gpu)
{
	struct hr_peer_batch b;
	bool bad = false;
	uint32_t s;

	if (!hr_peer_read(w, gpu, HR_FROM_HOME, &b))
		return false;
	hr_peer_take(w, HR_FROM_HOME, b.count, &b);
	for (s = 0; s < HR_IO_SLICES && s * HR_LANES < b.count; s++) {
		bool mine = b.m[s].kind != HR_PEER_NOTHING;
		hr_mask lanes;

		while ((lanes = hr_peer_first_of_sets(mine, b.set[s])) != 0) {
			if (hr_in_mask(lanes)) {
				if (!pages_fits(w, &b.m[s], b.set[s])) {
					bad = true;
					b.m[s].kind = HR_PEER_NOTHING;
				}
				if (b.m[s].kind != HR_PEER_FILL && b.m[s].kind != HR_PEER_COPY)
					pages_obey(w, &b.m[s], b.set[s]);
				mine = false;
			}
			hr_lanes_sync();
		}
	}
	if (hr_ballot(bad)) {
		hr_peer_fail(w, gpu, HR_NO_PAGE, -EPROTO);
		return true;
	}
	pages_fill(w, &b);
	pages_copy(w, &b);
	hr_lanes_sync();
	w->moved_ns = hr_clock_ns();
	return true;
}

HR_DEVICE bool hr_peer_pages_late(const struct hr_io_worker *w, uint32_t set, uint32_t *gpu,
				  uint32_t *page)
{
	const struct hr_page_cache *cache = &w->access->cache;
	const uint32_t timeout = (uint32_t)(cache->peers->timeout_ns >> w->peer_shift);
	uint32_t way;

	for (way = 0; way < HR_WAYS; way++) {
		const struct hr_peer_way its = pages_way(w, set, way);
		const uint32_t word = hr_fresh_u32(pages_word(w, set, way));
		const uint32_t age = (w->peer_time - its.time) & HR_PEER_CLOCK;
		const bool epoch = its.answer == HR_PEER_ANSWER_CLEAN ||
				   its.answer == HR_PEER_ANSWER_INVALIDATE;
		const uint32_t times = epoch ? PAGES_PATIENCE_EPOCH : PAGES_PATIENCE_HOME;

		if ((!epoch && !its.request) || age <= times * timeout + 1)
			continue;
		*gpu = epoch ? hr_io_peers_behind(w) : hr_peer_home(w, set);
		*page = HR_PAGE_STATE(word) == HR_PAGE_LEFT
				? HR_NO_PAGE
				: hr_page_at(&cache->shape, set, HR_PAGE_TAG(word));
		return true;
	}
	return false;
}
