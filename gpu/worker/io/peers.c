/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several gpus: mailboxes of an I/O worker, late answers, and the end of the run.
 */
#include "gpu/worker/io/peers.h"

/* Rounds between two rows that are checked for late answers; on the CPU rounds without other work count
 * as that many. On a GPU a check takes longer than a round. */
#define PEER_CHECK_ROUNDS (HR_LANES == 1 ? 16u : 64u)

/* True when a message has a page or set of this worker, a way, and a kind of its ring. */
HR_WORKER bool peer_message_valid(const struct hr_io_worker *w, uint32_t gpu, uint32_t ring,
				  const struct hr_peer_message *m, uint32_t *set)
{
	const struct hr_page_cache *cache = &w->access->cache;
	const bool by_set = m->kind == HR_PEER_DROP || m->kind == HR_PEER_DROPPED;
	const bool to_home = m->kind >= HR_PEER_GET && m->kind <= HR_PEER_DROP;

	*set = 0;
	if (m->kind == HR_PEER_NOTHING || m->kind >= HR_ENDPOINT_KINDS || m->way >= HR_WAYS ||
	    m->from_gpu >= cache->peers->gpus || m->from_way >= HR_WAYS ||
	    to_home != (ring == HR_TO_HOME))
		return false;
	if (by_set ? m->page >= hr_page_sets(&cache->shape)
		   : hr_io_object(cache, m->page) == cache->objects)
		return false;
	*set = by_set ? m->page : hr_page_position_of(&cache->shape, m->page).set;
	return hr_cache_owner(cache, *set) == w->role.index &&
	       hr_peer_home(w, *set) == (to_home ? cache->peers->self : gpu);
}

HR_DEVICE uint32_t hr_peer_read(struct hr_io_worker *w, uint32_t gpu, uint32_t ring,
				struct hr_peer_batch *b)
{
	struct hr_mailbox *from = hr_peer_from(w, gpu);
	const uint64_t first = hr_shfl_u64(hr_fresh_u64(&hr_peer_counters(w)->taken[gpu][ring]), 0);
	bool bad = false;
	uint32_t s;

	b->count = 0;
	b->gpu = gpu;
	for (s = 0; s < HR_IO_SLICES; s++) {
		const uint64_t ticket = first + hr_io_index(s);
		const uint64_t *at = hr_peer_entry(from, ring, ticket);
		const bool may = b->count == s * HR_LANES && hr_io_index(s) < HR_IO_BATCH;
		const uint64_t got = may ? hr_poll_sys_u64(at) : 0;
		const bool there = may && got >> HR_PEER_LAP_SHIFT == HR_PEER_LAP(ring, ticket);
		const uint64_t gap = ~(uint64_t)hr_ballot(there);
		const uint32_t n = hr_highest_bit_u64(gap & (~gap + 1));

		b->m[s].kind = HR_PEER_NOTHING;
		b->set[s] = 0;
		b->count += n;
		if (hr_lane() >= n)
			continue;
		hr_polled_sys(at);
		b->m[s] = hr_peer_unpack(got);
		bad |= !peer_message_valid(w, gpu, ring, &b->m[s], &b->set[s]);
	}
	if (!hr_ballot(bad))
		return b->count;
	hr_peer_fail(w, gpu, HR_NO_PAGE, -EPROTO);
	return 0;
}

HR_DEVICE void hr_peer_take(const struct hr_io_worker *w, uint32_t ring, uint32_t count,
			    struct hr_peer_batch *b)
{
	uint64_t *taken = &hr_peer_counters(w)->taken[b->gpu][ring];
	uint64_t now;
	uint32_t s;

	for (s = 0; s < HR_IO_SLICES; s++)
		if (hr_io_index(s) >= count)
			b->m[s].kind = HR_PEER_NOTHING;
	b->count = count;
	if (!count)
		return;
	hr_lanes_sync();
	hr_release_sys();
	if (hr_lane() == 0) {
		now = hr_fresh_u64(taken) + count;
		hr_relaxed_u64(taken, now);
		hr_fenced_sys_u64(&hr_peer_to(w, b->gpu)->taken[ring], now);
	}
	hr_lanes_sync();
}

HR_DEVICE void hr_peer_fail(struct hr_io_worker *w, uint32_t gpu, uint32_t page, int32_t error)
{
	w->peer = gpu == HR_IO_NONE ? 0 : gpu + 1;
	hr_io_fail(w, 0, nvme_cmd_read, page, 0, error);
}

/* The clock of messages, for all lanes. Collective. */
HR_WORKER uint32_t peer_time(const struct hr_io_worker *w)
{
	return (uint32_t)(hr_shfl_u64(hr_clock_ns(), 0) >> w->peer_shift);
}

HR_DEVICE_SLOW void hr_io_peers_start(struct hr_io_worker *w)
{
	const uint64_t quarter = w->access->cache.peers->timeout_ns / 4;

	w->peer_shift = quarter ? hr_highest_bit_u64(quarter) : 0;
	w->peer_row = w->role.index;
	w->peer_time = peer_time(w);
}

/*
 * Worker 0: end the run on this gpu when it has ended on another gpu, and tell the other gpus when
 * it has ended on this gpu. Collective.
 */
HR_WORKER void peer_stop(struct hr_io_worker *w)
{
	const struct hr_page_cache *cache = &w->access->cache;
	const struct hr_peers *peers = cache->peers;
	uint32_t stop = 0, g;

	if (w->role.index != 0 || w->stop_told)
		return;
	if (hr_lane() == 0)
		stop = hr_poll_sys_u32(&peers->words->stop);
	if (hr_shfl_u32(stop, 0) && !w->stopped) {
		if (hr_lane() == 0)
			(void)hr_replace_u32(&cache->words->stop, HR_CACHE_RUNS, HR_CACHE_ENDS);
		w->stopped = true;
	}
	if (!w->stopped)
		return;
	w->stop_told = true;
	for (g = 0; g < peers->gpus && hr_lane() == 0; g++)
		if (g != peers->self)
			hr_release_sys_u32(&peers->gpu[g].words->stop, 1);
	hr_lanes_sync();
}

/*
 * Check a row for answers that are late: of homes, of gpus to this home, and of the workers of this gpu
 * that keep a page. Collective.
 */
HR_WORKER void peer_check(struct hr_io_worker *w)
{
	const struct hr_page_cache *cache = &w->access->cache;
	const uint32_t sets = 1u << cache->shape.group_shift;
	uint32_t i, gpu = 0, page = 0, first;
	hr_mask late;

	if (w->peer_row >= cache->shape.rows)
		return;
	for (i = 0; i < sets && !w->stopped; i += HR_LANES) {
		const uint32_t set = (w->peer_row << cache->shape.group_shift) + i + hr_lane();
		const bool mine = i + hr_lane() < sets;
		const bool pages = mine && hr_peer_pages_late(w, set, &gpu, &page);
		const bool home = mine && !pages && hr_peer_home(w, set) == cache->peers->self &&
				  hr_peer_home_late(w, set, &gpu, &page);

		late = hr_ballot(pages || home);
		if (!late)
			continue;
		first = hr_lowest_bit(late);
		gpu = hr_shfl_u32(gpu, first);
		hr_peer_fail(w, gpu, hr_shfl_u32(page, first),
			     gpu == HR_IO_NONE ? -EDEADLK : -ETIMEDOUT);
	}
	w->peer_row += cache->io_workers;
	if (w->peer_row >= cache->shape.rows)
		w->peer_row = w->role.index;
}

HR_DEVICE_SLOW struct hr_peers_epoch hr_io_peers_epoch(struct hr_io_worker *w, bool ended)
{
	const struct hr_peers *peers = w->access->cache.peers;
	struct hr_peer_words *words = peers->words;
	const bool confirms = ended || w->confirmed != w->seen;
	struct hr_peers_epoch all = { w->seen, true, ended };
	uint32_t g;

	hr_lanes_sync();
	for (g = 0; g < peers->gpus && hr_lane() == 0; g++) {
		uint32_t passed;

		if (g == peers->self)
			continue;
		if (confirms)
			hr_release_sys_u32(&peers->gpu[g].words->passed[peers->self],
					   ended ? HR_EPOCH_ENDED : words->sampled[g]);
		words->sampled[g] = hr_acquire_sys_u32(&words->epoch[g]);
		passed = hr_acquire_sys_u32(&words->passed[g]);
		all.unread &= passed == HR_EPOCH_ENDED;
		if (passed != HR_EPOCH_ENDED && !hr_epoch_passed(passed, all.settled))
			all.settled = passed;
	}
	w->confirmed = w->seen;
	all.settled = hr_shfl_u32(all.settled, 0);
	all.unread = hr_shfl_u32(all.unread, 0) != 0;
	all.ends = w->seen - all.settled <= HR_PEER_EPOCHS;
	return all;
}

HR_DEVICE_SLOW void hr_io_peers_next_epoch(const struct hr_io_worker *w)
{
	const struct hr_peers *peers = w->access->cache.peers;
	uint32_t g;

	hr_lanes_sync();
	for (g = 0; g < peers->gpus && hr_lane() == 0; g++)
		if (g != peers->self)
			hr_release_sys_u32(&peers->gpu[g].words->epoch[peers->self],
					   hr_epoch_next(w->seen));
	hr_lanes_sync();
}

HR_DEVICE uint32_t hr_io_peers_behind(const struct hr_io_worker *w)
{
	const struct hr_peers *peers = w->access->cache.peers;
	uint32_t g;

	for (g = 0; g < peers->gpus; g++) {
		const uint32_t passed = hr_poll_sys_u32(&peers->words->passed[g]);

		if (g != peers->self && passed != HR_EPOCH_ENDED &&
		    w->seen - passed >= HR_PEER_EPOCHS)
			return g;
	}
	return HR_IO_NONE;
}

HR_DEVICE bool hr_io_peers_busy(const struct hr_io_worker *w)
{
	return w->asked != 0 ||
	       w->pending != hr_shfl_u64(hr_fresh_u64(&hr_peer_counters(w)->pending), 0);
}

/* True when no work of this worker needs another gpu any more. Collective. */
HR_WORKER bool peer_wants_nothing(const struct hr_io_worker *w)
{
	return w->flushed == HR_IO_DRAIN && w->sent == 0 && w->unsent == 0 && !hr_io_peers_busy(w);
}

/* Tell the workers with the same index on the other gpus that this worker has no more work, and
 * check whether they have none. Until then the worker only answers their messages. Collective. */
HR_WORKER void peer_done(struct hr_io_worker *w)
{
	const uint32_t gpus = w->access->cache.peers->gpus;
	uint32_t done = 0, g;

	/* the others wait for worker 0 until they know that no worker reads their frames */
	if (!w->done_told && (!peer_wants_nothing(w) || (w->role.index == 0 && !w->unread)))
		return;
	hr_lanes_sync();
	for (g = 0; g < gpus && hr_lane() == 0; g++) {
		if (!w->done_told)
			hr_release_sys_u32(&hr_peer_to(w, g)->done, 1);
		done += hr_acquire_sys_u32(&hr_peer_from(w, g)->done) != 0;
	}
	w->done_told = true;
	w->peers_done = hr_shfl_u32(done, 0) == gpus;
}

HR_DEVICE_SLOW bool hr_io_peers(struct hr_io_worker *w, bool idle)
{
	const uint32_t gpus = w->access->cache.peers->gpus;
	bool progress = false;
	uint32_t g;

	peer_stop(w);
	w->peer_time = peer_time(w);
	for (g = 0; g < gpus && !w->stopped; g++)
		progress |= hr_peer_home_take(w, g);
	for (g = 0; g < gpus && !w->stopped; g++)
		progress |= hr_peer_pages_take(w, g);
	if (!w->stopped)
		progress |= hr_peer_pages_pending(w);
	if (!w->stopped &&
	    ((idle && HR_LANES == 1) || w->role.cost.rounds % PEER_CHECK_ROUNDS == 0))
		peer_check(w);
	if (!w->stopped && w->ended)
		peer_done(w);
	return progress;
}

HR_DEVICE_SLOW void hr_io_peers_end(struct hr_io_worker *w)
{
	peer_stop(w);
}
