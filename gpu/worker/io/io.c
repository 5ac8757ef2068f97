/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rounds of an I/O worker: shared words, epochs, and its end.
 */
#include "gpu/worker/io/io.h"

#include "gpu/worker/block_qp.h"
#include "gpu/worker/io/peers.h"

HR_STATIC_ASSERT(sizeof(struct hr_access) % sizeof(uint64_t) == 0, "moved by words");

/* Epochs from the removal of a page until its frame is used again; the most frames of a set that are
 * kept for this time. */
#define IO_GRACE_EPOCHS 3u
#define IO_RESERVE_MAX 4u
/* A worker is calm when on average fewer than one of so many of its sets has a frame that waits. */
#define IO_CALM_SETS 8u
/* Steps through the words `seen`, in a round. */
#define IO_SCANS 4u
/* Steps of waiting before hr_idle() makes longer pauses. Waits for an epoch are short: the CPU yields,
 * and does not sleep. A GPU waits while it polls: hr_io_reap_all(). */
#define IO_SPINS_MAX (HR_LANES == 1 ? 64u : 3u)
#define IO_SPINS_IDLE 7u
/* Rounds between two rounds with all duties. On a GPU each duty is one or more accesses to memory that
 * follow one another, and a request or completion waits meanwhile; a round without work takes 4 us. */
#define IO_DUTY_ROUNDS (HR_LANES == 1 ? 1u : 4u)
/* The same when the round has begun commands: the next thing to do is to look for their completions. */
#define IO_DUTY_ROUNDS_BEGUN (HR_LANES == 1 ? 1u : 64u)

/* The worker's sets. */
HR_WORKER uint32_t io_sets(const struct hr_io_worker *w)
{
	const struct hr_page_cache *cache = &w->access->cache;
	const uint32_t workers = cache->io_workers;

	return (cache->shape.rows + workers - 1 - w->role.index) / workers
	       << cache->shape.group_shift;
}

/*
 * Choose the reserve of a set after `epochs` have passed. A frame that is given up cannot be used for
 * about IO_GRACE_EPOCHS; so many such frames a set has on average as pages enter in this time. Pages
 * come at random times. With this reserve about one of eight waits for a frame; with a larger one, a
 * small cache would hold fewer pages, and more would be read.
 */
HR_WORKER void io_choose_reserve(struct hr_io_worker *w, uint32_t epochs)
{
	const uint32_t sets = io_sets(w);
	const uint32_t now = w->entered / epochs * IO_GRACE_EPOCHS;

	w->entered = 0;
	w->leaving = (w->leaving + now + 1) / 2;
	w->reserve = sets ? 1 + (2 * w->leaving + sets / 4 * 3) / sets : 1;
	w->reserve = w->reserve < IO_RESERVE_MAX ? w->reserve : IO_RESERVE_MAX;
	w->calm = w->leaving < sets / IO_CALM_SETS;
}

/* Read the shared words. Collective. */
HR_WORKER void io_poll_words(struct hr_io_worker *w)
{
	struct hr_cache_words *words = w->access->cache.words;
	uint32_t word[8] = { 0 }, epoch, settled;

	if (hr_lane() == 0)
		hr_poll_u32x8((const uint32_t *)(const void *)words, word);
	epoch = hr_shfl_u32(word[0], 0);
	settled = hr_shfl_u32(word[1], 0);
	w->stopped |= hr_shfl_u32(word[2], 0) != 0;
	if (settled != w->settled) {
		io_choose_reserve(w, settled - w->settled);
		w->settled = hr_shfl_u32(hr_acquire_u32(&words->settled), 0);
	}
	if (hr_shfl_u32(word[3], 0) && !w->unread) {
		const uint32_t ended = hr_shfl_u32(hr_acquire_u32(&words->ended), 0);

		w->ended = ended != HR_CACHE_COMPUTES;
		w->unread = ended == HR_CACHE_UNREAD;
	}
	if (hr_shfl_u32(word[4], 0) != (uint32_t)w->flush_wanted)
		w->flush_wanted = hr_shfl_u64(hr_acquire_u64(&words->flush_wanted), 0);
	if (epoch != w->seen) {
		epoch = hr_shfl_u32(hr_acquire_u32(&words->epoch), 0);
		if (w->role.index == 0)
			hr_io_count(&w->block->count.epochs, epoch - w->seen);
		w->seen = epoch;
		w->scan = w->scan_ended = 0;
	}
}

/*
 * Go on through the words `seen` of workers [first, first + n), of which w->scan have seen the epoch:
 * a word that names the epoch stays as it is until the next epoch, so the check may take many rounds.
 * *ended: compute workers that have ended, or I/O workers all of whose compute workers have. True when
 * all n have seen the epoch. Collective.
 */
HR_WORKER bool io_scan(struct hr_io_worker *w, uint32_t first, uint32_t n)
{
	const struct hr_page_cache *cache = &w->access->cache;
	uint32_t step;

	for (step = 0; step < IO_SCANS && w->scan < n; step++) {
		const uint32_t i = w->scan + hr_lane();
		const struct hr_cache_worker *worker = &cache->worker[first + (i < n ? i : 0)];
		const uint32_t seen = i < n ? hr_acquire_u32(&worker->seen) : w->seen;
		bool ended = i < n && seen == HR_EPOCH_ENDED, late;
		hr_mask mask;

		if (first >= cache->computers)
			ended = i < n && hr_fresh_u32(&worker->share_ended) != 0;
		late = seen != w->seen && !(seen == HR_EPOCH_ENDED && ended);
		mask = hr_ballot(late);
		if (mask) {
			if (hr_lane() == 0)
				w->block->count.behind = first + w->scan + hr_lowest_bit(mask);
			return false;
		}
		w->scan_ended += hr_count_bits(hr_ballot(ended));
		w->scan += HR_LANES;
	}
	return w->scan >= n;
}

/* The first compute worker of the share of an I/O worker; the share ends where the next one begins. */
HR_WORKER uint32_t io_share(const struct hr_page_cache *cache, uint32_t index)
{
	return (uint32_t)((uint64_t)index * cache->computers / cache->io_workers);
}

/* When the compute workers of the worker's share have seen the epoch, publish it. At this point the
 * worker uses no page. Collective. */
HR_WORKER void io_publish_epoch(struct hr_io_worker *w)
{
	const struct hr_page_cache *cache = &w->access->cache;
	const uint32_t index = w->role.index, first = io_share(cache, index);
	const uint32_t n = io_share(cache, index + 1) - first;
	struct hr_cache_worker *own = &cache->worker[cache->computers + index];

	if (!io_scan(w, first, n))
		return;
	hr_lanes_sync();
	if (hr_lane() == 0) {
		w->block->count.behind = cache->computers + index;
		if (w->scan_ended == n)
			hr_relaxed_u32(&own->share_ended, 1);
		hr_release_u32(&own->seen, w->seen);
	}
	w->published = w->seen;
	w->scan = w->scan_ended = 0;
}

/* With several gpus, worker 0: when all I/O workers have published the epoch, the next one begins, or
 * it has to wait for the other gpus; then the next round comes here again. Collective. */
HR_WORKER void io_next_epoch_of_gpus(struct hr_io_worker *w)
{
	const struct hr_page_cache *cache = &w->access->cache;
	struct hr_cache_words *words = cache->words;
	const struct hr_peers_epoch all = hr_io_peers_epoch(w, w->scan_ended == cache->io_workers);

	if (hr_lane() == 0) {
		if (all.settled != w->settled)
			hr_release_u32(&words->settled, all.settled);
		if (all.ends)
			hr_release_u32(&words->epoch, hr_epoch_next(w->seen));
		if (w->scan_ended == cache->io_workers)
			hr_release_u32(&words->ended,
				       all.unread ? HR_CACHE_UNREAD : HR_CACHE_UNWRITTEN);
	}
	if (!all.ends)
		return;
	hr_io_peers_next_epoch(w);
	w->scan = w->scan_ended = 0;
}

/*
 * When all I/O workers have published the epoch, the next one begins. Any of them finds that, because a
 * round of worker 0 may take long. One worker changes the epoch, and then `settled`: no other changes
 * these words before that worker has published the new epoch. Collective.
 */
HR_WORKER void io_next_epoch(struct hr_io_worker *w)
{
	const struct hr_page_cache *cache = &w->access->cache;
	struct hr_cache_words *words = cache->words;

	if (cache->peers && w->role.index != 0)
		return;
	if (!io_scan(w, cache->computers, cache->io_workers))
		return;
	hr_lanes_sync();
	if (cache->peers) {
		io_next_epoch_of_gpus(w);
		return;
	}
	if (hr_lane() == 0 && hr_replace_u32(&words->epoch, w->seen, hr_epoch_next(w->seen))) {
		hr_release_u32(&words->settled, w->seen);
		if (w->scan_ended == cache->io_workers)
			hr_release_u32(&words->ended, HR_CACHE_UNREAD);
	}
	w->scan = w->scan_ended = 0;
}

/* Read the shared words, and do the worker's part in the change of epochs. Collective. */
HR_WORKER void io_epoch(struct hr_io_worker *w)
{
	io_poll_words(w);
	if (w->published != w->seen)
		io_publish_epoch(w);
	if (w->published == w->seen)
		io_next_epoch(w);
}

HR_DEVICE_SLOW void hr_io_epoch(struct hr_io_worker *w)
{
	io_epoch(w);
}

/* Worker 0 passes the host's stop request on. Any worker stops waiting when the host states that
 * commands will not complete. Collective. */
HR_WORKER void io_check_stop(struct hr_io_worker *w, bool progress)
{
	uint32_t stop = HR_STOP_NONE;

	if (!hr_role_polls_host(&w->role) || (progress && w->role.index != 0))
		return;
	if (hr_lane() == 0)
		stop = hr_poll_sys_u32(&w->access->control->stop);
	stop = hr_shfl_u32(stop, 0);
	if (stop != HR_STOP_NONE && w->role.index == 0) {
		if (hr_lane() == 0)
			(void)hr_replace_u32(&w->access->cache.words->stop, HR_CACHE_RUNS,
					     HR_CACHE_ENDS);
		w->stopped = true;
	}
	if (stop == HR_STOP_ABANDON)
		w->role.abandons = true;
}

/* Let the host see the counters. Collective. */
HR_WORKER void io_publish(const struct hr_io_worker *w)
{
	struct hr_io_counters *to = &w->access->counters[w->role.index];
	const struct hr_io_counters *count = &w->block->count;
	const uint32_t words = sizeof(*count) / sizeof(uint64_t);
	uint64_t pages;
	uint32_t i;

	hr_lanes_sync(); /* lanes have counted */
	pages = count->reads + count->write_backs;
	for (i = hr_lane(); i < words; i += HR_LANES)
		hr_relaxed_sys_u64((uint64_t *)(void *)to + i,
				   ((const uint64_t *)(const void *)count)[i]);
	if (hr_lane() == 0) {
		hr_relaxed_sys_u64(&w->role.status->bytes,
				   pages << w->access->cache.shape.page_shift);
		hr_relaxed_sys_u64(&w->role.status->tiles, pages);
	}
	hr_lanes_sync();
}

/* True when the worker has no work left. */
HR_WORKER bool io_has_no_work(const struct hr_io_worker *w)
{
	if (w->role.abandons)
		return true;
	if (w->stopped)
		return w->sent == 0 && w->unsent == 0;
	return w->flushed == HR_IO_DRAIN && (!w->access->cache.peers || w->peers_done);
}

HR_DEVICE void hr_io_publish_all(const struct hr_io_worker *w)
{
	uint32_t q;

	for (q = 0; q < w->access->ssds; q++)
		hr_qp_publish(&w->qp[q]);
}

/* True when this round has all duties, also without completions. begun: it has begun commands. The
 * rounds of a calm worker are rare: when few of them had duties, epochs would end late, and the pages
 * that wait for a frame would wait long. */
HR_WORKER bool io_on_duty(const struct hr_io_worker *w, bool begun, bool idle)
{
	const uint32_t rounds = begun ? IO_DUTY_ROUNDS_BEGUN : IO_DUTY_ROUNDS;

	return w->role.cost.rounds % rounds == 0 || (idle && w->calm) || hr_io_is_busy(w);
}

/* What a round does besides requests and completions. True when there was work. Collective. */
HR_WORKER bool io_duties(struct hr_io_worker *w, bool progress)
{
	bool any = false;

	io_epoch(w);
	if (w->access->cache.peers)
		any = hr_io_peers(w, !progress);
	if (!w->stopped)
		any |= hr_io_writeback(w, !progress && !any);
	if (w->unsent)
		any |= hr_io_send_due(w);
	hr_io_publish_all(w);
	return any;
}

/* Limit the pause after a round without progress. */
HR_WORKER void io_limit_pause(struct hr_io_worker *w)
{
	uint32_t most = HR_LANES == 1 ? UINT32_MAX : IO_SPINS_IDLE;

	if (w->waiting || w->unsent || w->flush_step ||
	    (w->access->cache.peers && hr_io_peers_busy(w)) || (HR_LANES > 1 && w->sent))
		most = IO_SPINS_MAX;
	w->role.spins = w->role.spins < most ? w->role.spins : most;
}

/* Requests as a batch. True when there was work. Collective. */
HR_WORKER bool io_requests(struct hr_io_worker *w)
{
	if (w->stopped || w->ended)
		return false;
	hr_io_make_room(w);
	return hr_io_requests(w);
}

HR_WORKER void io_round(struct hr_io_worker *w)
{
	const enum hr_io_one one = hr_io_one(w);
	const bool done = one == HR_IO_ONE_DONE, begun = one == HR_IO_ONE_BEGUN;
	const bool news = one == HR_IO_ONE_NEWS;
	/* an idle worker has no command, and a request that comes now is one for the next round */
	const bool batches = !done && !news && one != HR_IO_ONE_IDLE;
	const bool reaped = batches && hr_io_reap_all(w);
	const uint32_t sent = w->sent;
	bool progress = done || begun || reaped;

	/* copies and requests take long, and pages wait for epochs */
	if (reaped || done)
		io_epoch(w);
	if (batches)
		progress |= io_requests(w);
	/* not after requests alone, whose completions may be there already */
	if (done || reaped || news || io_on_duty(w, begun || w->sent > sent, one == HR_IO_ONE_IDLE))
		progress |= io_duties(w, progress);
	io_check_stop(w, progress);
	if (hr_role_polls_host(&w->role))
		io_publish(w);
	io_limit_pause(w);
	hr_role_end_round(&w->role, progress);
}

HR_WORKER void io_start(struct hr_io_worker *w, struct hr_access *access, uint32_t worker)
{
	struct hr_io_block *block = (struct hr_io_block *)hr_block_memory() + hr_warp();
	uint32_t i;

	hr_zero_bytes(w, sizeof(*w));
	hr_role_init(&w->role, &access->status[worker], HR_ROLE_IO, worker,
		     access->cache.io_workers);
	w->access = access;
	w->block = block;
	w->command = &access->command[(uint64_t)worker * access->commands];
	w->seen = w->settled = HR_EPOCH_FIRST;
	w->published = HR_EPOCH_FIRST - 1; /* its share may have no worker */
	w->urgent = HR_IO_NONE;
	w->reserve = 1;
	w->row = worker;
	w->unused = access->commands;
	if (access->cache.peers)
		hr_io_peers_start(w);
	if (hr_lane() == 0)
		hr_zero_bytes(&block->count, sizeof(block->count));
	for (i = hr_lane(); i < access->commands; i += HR_LANES)
		block->unused[i] = (uint8_t)i;
	hr_lanes_sync();
}

/* Bytes of block memory for the workers of a block, and with the descriptor. */
HR_WORKER uint32_t io_block_part_bytes(const struct hr_access *access)
{
	return access->warps * (uint32_t)sizeof(struct hr_io_block);
}

HR_WORKER uint32_t io_block_bytes(const struct hr_access *access)
{
	const uint32_t part = io_block_part_bytes(access);

	return part + hr_block_copy_bytes(sizeof(*access), part);
}

HR_DEVICE struct hr_access *hr_io_block_access(struct hr_access *access)
{
	return (struct hr_access *)hr_block_copy(access, sizeof(*access),
						 io_block_part_bytes(access));
}

HR_DEVICE void hr_io_run(struct hr_access *access, uint32_t worker)
{
	struct hr_cache_worker *shared = &access->cache.worker[access->cache.computers + worker];
	struct hr_nvme_qp *home = &access->qp[(uint64_t)worker * access->ssds];
	struct hr_io_worker w;

	io_start(&w, access, worker);
	w.qp = hr_block_qp_begin(home, access->ssds, access->warps, io_block_bytes(access));
	do
		io_round(&w);
	while (!io_has_no_work(&w));
	if (access->cache.peers)
		hr_io_peers_end(&w);
	io_publish(&w);
	hr_block_qp_end(home, w.qp, access->ssds);
	if (hr_lane() == 0) {
		hr_release_u32(&shared->seen, HR_EPOCH_ENDED);
		hr_role_end(&w.role);
	}
}
