/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Write-back of an I/O worker: dirty pages of sets with few clean frames, and flushes.
 */
#include "gpu/worker/io/io.h"
#include "nvme/queue/status.h"

/* A set with fewer clean frames than this gets its dirty pages written. */
#define IO_CLEAN_MIN 3u
/* Rows that a flush sweeps in a round. */
#define IO_FLUSH_ROWS 8u
/* Rounds with other work between two rows of the sweep. */
#define IO_SWEEP_ROUNDS 16u

/* A lane's sets of a row. */
struct io_row {
	uint32_t sets;
	uint32_t word[HR_IO_SLICES][8];
};

/* Write commands that can be begun: half of all, so that reads go on; all of them after compute. */
HR_WORKER uint32_t io_write_room(const struct hr_io_worker *w)
{
	const uint32_t commands = w->access->commands;
	const uint32_t limit = w->ended ? commands : (commands + 1) / 2;
	const uint32_t used = w->writing[0] + w->writing[1], unused = hr_io_unused(w);
	const uint32_t room = used < limit ? limit - used : 0;

	return room < unused ? room : unused;
}

/* The states of the ways of a set as masks. */
HR_WORKER uint32_t io_ways_in(const uint32_t word[8], uint32_t state)
{
	uint32_t ways = 0, way;

	for (way = 0; way < HR_WAYS; way++)
		if (HR_PAGE_STATE(word[way]) == state)
			ways |= 1u << way;
	return ways;
}

/* Frames that every worker has given up become free, so that no old epoch stays in a tag for long:
 * epochs of 28 bits repeat. One lane. */
HR_WORKER void io_free_left(const struct hr_io_worker *w, struct hr_page_set *set, uint32_t word[8])
{
	uint32_t way;

	for (way = 0; way < HR_WAYS; way++)
		if (HR_PAGE_KIND(word[way]) == HR_PAGE_LEFT &&
		    hr_io_passed(w, HR_PAGE_TAG(word[way]))) {
			word[way] = HR_PAGE_WORD(0, HR_PAGE_FREE);
			hr_relaxed_u32(&set->tag[way], word[way]);
		}
}

/* Read the sets of a row. Collective. */
HR_WORKER void io_read_row(struct hr_io_worker *w, uint32_t row, struct io_row *r)
{
	const struct hr_page_cache *cache = &w->access->cache;
	bool again = false;
	uint32_t s;

	r->sets = 1u << cache->shape.group_shift;
	for (s = 0; s < HR_IO_SLICES; s++) {
		const uint32_t i = hr_io_index(s);
		struct hr_page_set *set = &cache->set[(row << cache->shape.group_shift) + i];
		uint32_t way;

		for (way = 0; way < 8; way++)
			r->word[s][way] = 0;
		if (i >= r->sets)
			continue;
		hr_poll_u32x8(set->tag, r->word[s]);
		io_free_left(w, set, r->word[s]);
		again |= io_ways_in(r->word[s], HR_PAGE_REDIRTY) != 0;
	}
	if (hr_ballot(again) && w->flush_again == 0)
		w->flush_again = 1;
}

/* A tag of a page of the row that is to be written, in *tag. False: there is none. all: every dirty
 * page is to be written. Other gpus wait for a SHARED one. Collective. */
HR_WORKER bool io_choose(const struct io_row *r, bool all, uint32_t *tag)
{
	uint32_t mine[HR_IO_SLICES], s, seeds = 0;

	for (s = 0; s < HR_IO_SLICES; s++) {
		const uint32_t dirty = io_ways_in(r->word[s], HR_PAGE_DIRTY);
		const uint32_t busy = dirty | io_ways_in(r->word[s], HR_PAGE_READING) |
				      io_ways_in(r->word[s], HR_PAGE_WRITING) |
				      io_ways_in(r->word[s], HR_PAGE_REDIRTY);
		const uint32_t clean = HR_WAYS - hr_count_bits((hr_mask)busy);
		const bool any = all || clean < IO_CLEAN_MIN;
		bool found = false;
		uint32_t way;

		mine[s] = 0;
		for (way = 0; way < HR_WAYS; way++)
			if (dirty >> way & 1 && (any || (r->word[s][way] & HR_PAGE_SHARED))) {
				mine[s] = HR_PAGE_TAG(r->word[s][way]);
				found = true;
			}
		seeds |= hr_io_mask(found, s);
	}
	if (!seeds)
		return false;
	*tag = hr_io_of(mine, hr_highest_bit_u64(seeds));
	return true;
}

/* Mark the dirty pages of a group as being written, at most `room`, and put them into a batch.
 * Collective. */
HR_WORKER void io_mark(const struct hr_io_worker *w, uint32_t row, struct io_row *r, uint32_t tag,
		       uint32_t room, struct hr_io_batch *b)
{
	const struct hr_page_cache *cache = &w->access->cache;
	const uint32_t dirty = HR_PAGE_WORD(tag, HR_PAGE_DIRTY);
	uint32_t s, way, taken = 0;

	b->count = r->sets;
	for (s = 0; s < HR_IO_SLICES; s++) {
		const uint32_t set = (row << cache->shape.group_shift) + hr_io_index(s);
		hr_mask found;

		b->page[s] = HR_NO_PAGE;
		b->set[s] = set;
		b->tag[s] = tag;
		b->way[s] = HR_WAYS;
		for (way = 0; way < HR_WAYS; way++)
			if ((r->word[s][way] & ~HR_PAGE_SHARED) == dirty)
				b->way[s] = way;
		found = hr_ballot(b->way[s] < HR_WAYS);
		if (taken + hr_lanes_before(found) >= room)
			b->way[s] = HR_WAYS;
		for (way = 0; way < HR_WAYS; way++)
			if (b->way[s] == way &&
			    hr_replace_u32(&cache->set[set].tag[way], r->word[s][way],
					   r->word[s][way] + 1)) { /* WRITING */
				r->word[s][way]++;
				b->page[s] = hr_page_at(&cache->shape, set, tag);
			}
		taken += hr_count_bits(found);
	}
}

/*
 * Begin to write dirty pages of a row: all, or those of sets with few clean frames. Their dirty
 * neighbours are written with them. False: commands were short. Collective.
 */
HR_WORKER bool io_write_row(struct hr_io_worker *w, uint32_t row, bool all, bool *begun)
{
	struct hr_io_batch b;
	struct io_row r;
	uint32_t tag;

	io_read_row(w, row, &r);
	while (io_choose(&r, all, &tag)) {
		const uint32_t room = io_write_room(w);

		if (!room)
			return false;
		io_mark(w, row, &r, tag, room, &b);
		hr_io_begin(w, &b, nvme_cmd_write);
		*begun = true;
	}
	return true;
}

/* The row after one of the worker's, or its first one again. */
HR_WORKER uint32_t io_next_row(const struct hr_io_worker *w, uint32_t row)
{
	const struct hr_page_cache *cache = &w->access->cache;

	row += cache->io_workers;
	return row < cache->shape.rows ? row : w->role.index;
}

/* An extent of queue pair q, for its namespace. */
HR_WORKER const struct hr_extent *io_extent_of(const struct hr_access *access, uint32_t q)
{
	uint32_t i = 0;

	while (i + 1 < access->cache.objects && access->queue_of[i] != q)
		i++;
	return &access->cache.extent[i];
}

/* Send the flushes that are due. Collective. */
HR_WORKER void io_flush_device(struct hr_io_worker *w)
{
	const uint64_t now = hr_shfl_u64(hr_clock_ns(), 0);
	uint32_t q;

	for (q = 0; q < w->access->ssds; q++) {
		const uint32_t bit = 1u << q;

		if (!(w->flush_left & ~w->flush_sent & bit) || now < w->flush_again_ns)
			continue;
		if (hr_io_flush_post(&w->qp[q], io_extent_of(w->access, q), 1) > 0) {
			w->flush_sent |= bit;
			w->sent++;
		}
	}
}

HR_DEVICE_SLOW void hr_io_flush_completed(struct hr_io_worker *w, uint32_t queue,
					  const struct hr_completion *done)
{
	const struct hr_nvme_qp *qp = &w->qp[queue];
	const uint64_t now = hr_shfl_u64(hr_clock_ns(), 0);
	const uint64_t first = w->flush_tries ? w->flush_first_ns : now;
	const uint64_t again = now + hr_qp_retry_pause(qp, done->crd, w->flush_tries);

	w->sent--;
	w->flush_sent &= ~(1u << queue);
	if (!done->status) {
		w->flush_left &= ~(1u << queue);
		return;
	}
	if (w->stopped)
		return;
	if (done->status == HR_STATUS_LOST || again - first > qp->timeout_ns ||
	    w->flush_tries >= hr_status_flush_retries(done->status, done->dnr)) {
		hr_io_fail(w, queue, nvme_cmd_flush, HR_NO_PAGE, done->cid, hr_role_error(done));
		return;
	}
	w->flush_tries++;
	w->flush_first_ns = first;
	w->flush_again_ns = again;
}

/* True when all other workers have written the pages that a flush covers. Collective. */
HR_WORKER bool io_others_flushed(const struct hr_io_worker *w)
{
	const struct hr_page_cache *cache = &w->access->cache;
	uint32_t base;

	for (base = 1; base < cache->io_workers; base += HR_LANES) {
		const uint32_t i = base + hr_lane();

		if (hr_ballot(i < cache->io_workers &&
			      hr_acquire_u64(&cache->flushed[i]) < w->flush))
			return false;
	}
	return true;
}

HR_WORKER void io_flush_begin(struct hr_io_worker *w)
{
	w->flush = w->ended ? HR_IO_DRAIN : w->flush_wanted;
	w->flush_again = 0;
	w->flush_row = w->role.index;
	w->flush_step =
		w->role.index < w->access->cache.shape.rows ? HR_IO_FLUSH_SWEEP : HR_IO_FLUSH_WRITE;
}

/* All rows are swept: wait for the writes so far. */
HR_WORKER void io_flush_sweep(struct hr_io_worker *w, bool *begun)
{
	uint32_t n;

	for (n = 0; n < IO_FLUSH_ROWS; n++) {
		if (!io_write_row(w, w->flush_row, true, begun))
			return;
		w->flush_row = io_next_row(w, w->flush_row);
		if (w->flush_row == w->role.index) {
			w->sweep ^= 1;
			w->flush_step = HR_IO_FLUSH_WRITE;
			return;
		}
	}
}

/*
 * The writes of the sweep have completed. A page that was written again during its write, before the
 * sweep reached it, is dirty now or on its way, so a second sweep covers it.
 */
HR_WORKER void io_flush_written(struct hr_io_worker *w)
{
	uint32_t q;

	if (w->flush_again == 1) {
		w->flush_again = 2;
		w->flush_step = HR_IO_FLUSH_SWEEP;
		return;
	}
	w->flush_step = HR_IO_FLUSH_OTHERS;
	w->flush_left = w->flush_tries = 0;
	w->flush_again_ns = 0;
	for (q = 0; q < w->access->ssds && w->role.index == 0; q++)
		w->flush_left |= (uint32_t)(w->access->flush[q] != 0) << q;
}

HR_WORKER void io_flush_end(struct hr_io_worker *w)
{
	w->flushed = w->flush;
	w->flush_step = HR_IO_FLUSH_NONE;
	hr_lanes_sync();
	if (hr_lane() == 0 && w->access->cache.peers) /* gpu 0 polls the word before finish() */
		hr_release_sys_u64(&w->access->cache.flushed[w->role.index], w->flush);
	else if (hr_lane() == 0)
		hr_release_u64(&w->access->cache.flushed[w->role.index], w->flush);
}

/* Go on with a flush. Collective. */
HR_WORKER void io_flush(struct hr_io_worker *w, bool *begun)
{
	const uint32_t step = w->flush_step;

	if (step == HR_IO_FLUSH_NONE && w->flushed < (w->ended ? HR_IO_DRAIN : w->flush_wanted))
		io_flush_begin(w);
	if (w->flush_step == HR_IO_FLUSH_SWEEP)
		io_flush_sweep(w, begun);
	if (w->flush_step == HR_IO_FLUSH_WRITE && !w->writing[w->sweep ^ 1])
		io_flush_written(w);
	if (w->flush_step == HR_IO_FLUSH_OTHERS && (w->role.index != 0 || io_others_flushed(w)))
		w->flush_step = HR_IO_FLUSH_DEVICE;
	if (w->flush_step == HR_IO_FLUSH_DEVICE) {
		io_flush_device(w);
		if (!w->flush_left)
			io_flush_end(w);
	}
	*begun |= step != w->flush_step;
}

HR_DEVICE_SLOW bool hr_io_writeback(struct hr_io_worker *w, bool idle)
{
	bool begun = false;

	io_flush(w, &begun);
	if (w->urgent != HR_IO_NONE) {
		(void)io_write_row(w, w->urgent, false, &begun);
		w->urgent = HR_IO_NONE;
	} else if ((idle || w->role.cost.rounds % IO_SWEEP_ROUNDS == 0) &&
		   w->row < w->access->cache.shape.rows) {
		(void)io_write_row(w, w->row, false, &begun);
		w->row = io_next_row(w, w->row);
	}
	return begun;
}
