/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commands of an I/O worker: from pages to queue entries, and from completions to pages.
 */
#include "gpu/worker/io/io.h"
#include "gpu/worker/io/peers.h"
#include "gpu/worker/vector.h"
#include "nvme/queue/queue.h"
#include "nvme/queue/status.h"

HR_STATIC_ASSERT(HR_LANES == 1 || HR_PAGE % HR_STREAM_BYTES == 0, "pages are whole pieces");

/* Pages that are copied between two looks at the epoch: a page takes 4 us. */
#define IO_EPOCH_PAGES 6u

/* Pages of a command's present transfer: from command->at to this. */
HR_WORKER uint32_t io_end_of(const struct hr_io_command *c)
{
	return c->single ? c->at + 1u : c->pages;
}

/* A transfer that is sent: pages page + at to page + end of a command. A lane that begins a command
 * has these values, and does not load them again. */
struct io_transfer {
	uint32_t page, at, end;
	uint8_t opcode;
};

HR_WORKER struct io_transfer io_transfer_of(const struct hr_io_command *c)
{
	struct io_transfer t;

	t.page = c->page;
	t.at = c->at;
	t.end = io_end_of(c);
	t.opcode = c->opcode;
	return t;
}

HR_WORKER uint8_t *io_frame_of(const struct hr_page_cache *cache, const struct hr_io_command *c,
			       uint32_t k)
{
	return hr_cache_frame(cache, hr_page_position_of(&cache->shape, c->page + k).set,
			      c->way[k]);
}

HR_DEVICE_SLOW void hr_io_fail(struct hr_io_worker *w, uint32_t queue, uint8_t opcode,
			       uint32_t page, uint16_t cid, int32_t error)
{
	const struct hr_page_cache *cache = &w->access->cache;
	struct hr_failure *failure = &w->role.status->failure;
	const uint32_t object = hr_io_object(cache, page);

	if (hr_lane() == 0 && !w->role.failed) {
		failure->error = error;
		failure->role = HR_ROLE_IO;
		failure->source = object < cache->objects ? object : 0;
		failure->tile = HR_NO_TILE;
		failure->lba = 0;
		failure->object = 0;
		if (object < cache->objects) {
			const struct hr_extent *extent = &cache->extent[object];

			failure->tile = page - cache->object[object].first_page;
			failure->lba = extent->lba + (failure->tile << cache->shape.page_shift >>
						      extent->lba_shift);
			failure->object = extent->id;
		}
		failure->qid = w->qp[queue].id;
		failure->cid = cid;
		failure->opcode = opcode;
		failure->peer = w->peer;
		hr_release_sys_u32(&w->role.status->failed, 1);
		(void)hr_replace_u32(&cache->words->stop, HR_CACHE_RUNS,
				     error == -EDEADLK ? HR_CACHE_DEADLOCK : HR_CACHE_FAILED);
	}
	w->role.failed = w->stopped = true;
	hr_lanes_sync();
}

/* The bus address of piece `i`, HR_PAGE bytes, of the transfer. */
HR_WORKER uint64_t io_bus(const struct hr_io_worker *w, uint32_t number,
			  const struct io_transfer *t, uint32_t i)
{
	const struct hr_access *access = w->access;
	const struct hr_page_cache *cache = &access->cache;
	const struct hr_io_command *c = &w->command[number];
	const uint32_t pieces_shift = cache->shape.page_shift - HR_PAGE_SHIFT_MIN;
	const uint32_t k = t->at + (i >> pieces_shift);
	const uint64_t in_page = (uint64_t)(i & ((1u << pieces_shift) - 1)) * HR_PAGE;

	if (access->staging)
		return access->staging_bus + hr_io_staging_at(w, number, k) + in_page;
	return access->frame_bus + (uint64_t)(io_frame_of(cache, c, k) - cache->frame) + in_page;
}

/* Build the entry of a command, and its PRP list. Returns its queue pair. One lane. */
HR_WORKER uint32_t io_sqe(const struct hr_io_worker *w, uint32_t number,
			  const struct io_transfer *t, struct hr_sqe *sqe)
{
	const struct hr_access *access = w->access;
	const struct hr_page_cache *cache = &access->cache;
	const uint32_t object = hr_io_object(cache, t->page), shift = cache->shape.page_shift;
	const struct hr_extent *extent = &cache->extent[object];
	const uint64_t from = (uint64_t)(t->page + t->at - cache->object[object].first_page)
			      << shift;
	const uint64_t left = extent->capacity - from;
	const uint64_t whole = (uint64_t)(t->end - t->at) << shift;
	const uint32_t bytes = (uint32_t)(left < whole ? left : whole);
	const uint32_t pieces = (bytes + HR_PAGE - 1) / HR_PAGE;
	const uint64_t list = (hr_io_first_command(w) + number) *
			      ((uint64_t)access->merge_pages << (shift - HR_PAGE_SHIFT_MIN));
	uint64_t second = 0;
	uint32_t i;

	if (pieces == 2)
		second = io_bus(w, number, t, 1);
	/* The last entry of the list is not used: some controllers take the last one of a page for
	 * the address of another list. */
	if (pieces > 2) {
		second = access->prp_list_bus + list * sizeof(uint64_t);
		for (i = 1; i < pieces; i++)
			access->prp_list[list + i - 1] = io_bus(w, number, t, i);
	}
	hr_sqe_io(sqe, t->opcode, extent->nsid, extent->lba + (from >> extent->lba_shift),
		  bytes >> extent->lba_shift, io_bus(w, number, t, 0), second);
	return access->queue_of[object];
}

/* Push one command for each lane with a command number. A command for which its queue has no room is
 * parked. Collective. */
HR_WORKER void io_send_transfer(struct hr_io_worker *w, uint32_t number,
				const struct io_transfer *t)
{
	const bool mine = number != HR_IO_NONE;
	struct hr_sqe sqe = { 0 };
	uint32_t queue = 0, q;
	bool refused = false;
	hr_mask parked;

	if (mine)
		queue = io_sqe(w, number, t, &sqe);
	for (q = 0; q < w->access->ssds; q++) {
		const bool want = mine && queue == q;

		if (hr_ballot(want))
			refused |= hr_qp_push(&w->qp[q], want, &sqe, number) < 0 && want;
	}
	if (mine) {
		w->command[number].state = refused ? HR_IO_PARKED : HR_IO_SENT;
		w->command[number].until = refused ? 0 : hr_cycles();
	}
	parked = hr_ballot(refused);
	w->unsent += hr_count_bits(parked);
	w->sent += hr_count_bits(hr_ballot(mine) & ~parked);
}

/* The same for commands of which the lanes know the number only. Collective. */
HR_WORKER_SLOW void io_send(struct hr_io_worker *w, uint32_t number)
{
	const struct io_transfer t = io_transfer_of(&w->command[number == HR_IO_NONE ? 0 : number]);

	io_send_transfer(w, number, &t);
}

/* Make the commands of the lanes with `done` available. Collective. */
HR_WORKER void io_end_commands(struct hr_io_worker *w, bool done, uint32_t number)
{
	const hr_mask mask = hr_ballot(done);
	const bool write = done && w->command[done ? number : 0].opcode == nvme_cmd_write;
	uint32_t sweep;

	for (sweep = 0; sweep < 2; sweep++)
		w->writing[sweep] -=
			hr_count_bits(hr_ballot(write && w->command[number].sweep == sweep));
	if (done) {
		w->command[number].state = HR_IO_UNUSED;
		w->block->unused[w->unused + hr_lanes_before(mask)] = (uint8_t)number;
	}
	w->unused += hr_count_bits(mask);
	hr_lanes_sync();
}

/*
 * For each page of the batch with a way: the first page of its command, and the number of pages that
 * it has. Neighbours of one group form runs; a run is cut into commands of merge_pages. want: the
 * pages with a way. Collective.
 */
HR_WORKER void io_cut_runs(const struct hr_io_worker *w, const struct hr_io_batch *b, uint32_t want,
			   uint32_t first[HR_IO_SLICES], uint32_t pages[HR_IO_SLICES])
{
	const uint32_t shift = w->access->cache.shape.group_shift;
	const uint32_t in_group = (1u << shift) - 1, merge = w->access->merge_pages;
	uint32_t group[HR_IO_SLICES] = { 0 }, s, i;

	for (i = 0; i < b->count; i++) {
		const uint32_t page = hr_io_of(b->page, i);

		for (s = 0; s < HR_IO_SLICES && want >> i & 1; s++)
			if (page >> shift == b->page[s] >> shift)
				group[s] |= 1u << (page & in_group);
	}
	for (s = 0; s < HR_IO_SLICES; s++) {
		const uint32_t at = b->page[s] & in_group;
		const uint32_t gap = ~group[s] & ((1u << at) - 1);
		const uint64_t end = ~(uint64_t)group[s] >> at;
		const uint32_t above = hr_highest_bit_u64(end & (~end + 1));
		const uint32_t below = at - (gap ? hr_highest_bit_u64(gap) + 1 : 0);

		first[s] = b->page[s] - (below & (merge - 1));
		pages[s] = above < merge ? above : merge;
	}
}

/* Give each command of the batch one of the unused numbers: number[] of the pages of a command.
 * Returns the mask of the first pages. Collective. */
HR_WORKER uint32_t io_assign(struct hr_io_worker *w, const struct hr_io_batch *b, uint32_t want,
			     const uint32_t first[HR_IO_SLICES], uint32_t number[HR_IO_SLICES])
{
	uint32_t leaders = 0, s, i;

	for (s = 0; s < HR_IO_SLICES; s++)
		leaders |= hr_io_mask(hr_io_in(want, s) && first[s] == b->page[s], s);
	for (s = 0; s < HR_IO_SLICES; s++) {
		const uint32_t at = w->unused - 1 - hr_io_before(leaders, hr_io_index(s));

		number[s] = hr_io_in(leaders, s) ? w->block->unused[at] : 0;
	}
	w->unused -= hr_io_before(leaders, 31) + (leaders >> 31);
	for (i = 0; i < b->count && leaders != want; i++) {
		const uint32_t page = hr_io_of(b->page, i), its = hr_io_of(number, i);

		for (s = 0; s < HR_IO_SLICES && leaders >> i & 1; s++)
			number[s] = first[s] == page ? its : number[s];
	}
	return leaders;
}

HR_DEVICE void hr_io_begin(struct hr_io_worker *w, const struct hr_io_batch *b, uint8_t opcode)
{
	uint32_t first[HR_IO_SLICES], pages[HR_IO_SLICES], number[HR_IO_SLICES];
	uint32_t want = 0, leaders, commands, s;

	for (s = 0; s < HR_IO_SLICES; s++)
		want |= hr_io_mask(b->page[s] != HR_NO_PAGE && b->way[s] < HR_WAYS, s);
	if (!want)
		return;
	io_cut_runs(w, b, want, first, pages);
	leaders = io_assign(w, b, want, first, number);
	commands = hr_io_before(leaders, 31) + (leaders >> 31);
	for (s = 0; s < HR_IO_SLICES; s++) {
		if (hr_io_in(want, s))
			w->command[number[s]].way[b->page[s] - first[s]] = (uint8_t)b->way[s];
		if (hr_io_in(leaders, s))
			hr_io_fill(w, number[s], first[s], pages[s], opcode);
	}
	hr_lanes_sync();
	if (opcode == nvme_cmd_write) {
		hr_io_count(&w->block->count.write_commands, commands);
		w->writing[w->sweep] += commands;
		w->unsent += commands;
		return;
	}
	hr_io_count(&w->block->count.reads, hr_io_before(want, 31) + (want >> 31));
	hr_io_count(&w->block->count.read_commands, commands);
	for (s = 0; s < HR_IO_SLICES; s++) {
		struct io_transfer t;

		t.page = first[s];
		t.at = 0;
		t.end = pages[s];
		t.opcode = opcode;
		io_send_transfer(w, hr_io_in(leaders, s) ? number[s] : HR_IO_NONE, &t);
	}
}

/* Change the state of a page whose transfer has completed: a read page to `state`, which with one gpu
 * no other worker changes meanwhile; a written one to `state` unless it was written again. One lane. */
HR_WORKER void io_settle_page(const struct hr_io_worker *w, const struct hr_io_command *c,
			      uint32_t k, enum hr_page_state state)
{
	const struct hr_page_cache *cache = &w->access->cache;
	const struct hr_page_position position = hr_page_position_of(&cache->shape, c->page + k);
	uint32_t *word = &cache->set[position.set].tag[c->way[k]], was, shared = 0;

	if (cache->peers && c->opcode == nvme_cmd_read) {
		hr_io_peers_filled(w, position.set, c->way[k], state);
		return;
	}
	if (c->opcode == nvme_cmd_write) {
		was = hr_acquire_u32(word);
		shared = was & HR_PAGE_SHARED;
		if (HR_PAGE_STATE(was) == HR_PAGE_WRITING &&
		    hr_replace_u32(word, was, HR_PAGE_WORD(position.tag, state) | shared))
			return;
		state = HR_PAGE_DIRTY;
	}
	hr_release_u32(word, HR_PAGE_WORD(position.tag, state) | shared);
}

/* The transfer of a lane's command has succeeded. Returns true when the command is complete. One
 * lane. */
HR_WORKER bool io_advance(struct hr_io_worker *w, uint32_t number)
{
	struct hr_io_command *c = &w->command[number];
	const uint32_t end = io_end_of(c);
	uint32_t k;

	for (k = c->at; k < end; k++)
		io_settle_page(w, c, k, HR_PAGE_READY);
	c->at = (uint8_t)end;
	return end == c->pages;
}

/* Copy the pages of the transfers of lanes with `mine` from staging memory to frames. Lanes compute
 * addresses side by side: those of all first pages, all second pages, and so on. Collective. */
HR_WORKER void io_copy_in(struct hr_io_worker *w, bool mine, uint32_t number)
{
	const struct hr_page_cache *cache = &w->access->cache;
	const struct hr_io_command *c = &w->command[mine ? number : 0];
	const uint32_t end = mine ? io_end_of(c) : 0;
	struct hr_stream stream;
	uint32_t k = mine ? c->at : 0, copied = 0;
	hr_mask mask;

	hr_stream_begin(&stream);
	for (mask = hr_ballot(k < end); mask; mask = hr_ballot(k < end)) {
		uint64_t to = 0, from = 0;

		if (k < end) {
			to = (uintptr_t)io_frame_of(cache, c, k);
			from = (uintptr_t)w->access->staging + hr_io_staging_at(w, number, k);
		}
		for (; mask; mask &= mask - 1) {
			const uint32_t lane = hr_lowest_bit(mask);

			if (++copied % IO_EPOCH_PAGES == 0 && !cache->peers)
				hr_io_epoch(w);
			hr_stream_copy(&stream, (uint8_t *)(uintptr_t)hr_shfl_u64(to, lane),
				       (const uint8_t *)(uintptr_t)hr_shfl_u64(from, lane),
				       1u << cache->shape.page_shift);
		}
		k++;
	}
	hr_stream_end(&stream);
	hr_lanes_sync();
}

/* Copy the pages of writes in the lanes of `mask` from frames, to which workers may write at the same
 * time, to staging memory. Such a page is REDIRTY then, and is written again. Collective. */
HR_WORKER void io_copy_out(const struct hr_io_worker *w, hr_mask mask, uint32_t mine)
{
	const struct hr_page_cache *cache = &w->access->cache;
	uint32_t k;

	for (; mask; mask &= mask - 1) {
		const uint32_t number = hr_shfl_u32(mine, hr_lowest_bit(mask));
		const struct hr_io_command *c = &w->command[number];

		for (k = 0; k < c->pages; k++)
			hr_read_shared(w->access->staging + hr_io_staging_at(w, number, k),
				       io_frame_of(cache, c, k), 1u << cache->shape.page_shift);
	}
	hr_lanes_sync();
}

/* Handle the successful completions in the lanes of `good`. Collective. */
HR_WORKER void io_commands_completed(struct hr_io_worker *w, hr_mask good, uint32_t number)
{
	const bool mine = hr_in_mask(good);
	const struct hr_io_command *c = &w->command[mine ? number : 0];
	const bool read = mine && c->opcode == nvme_cmd_read;
	const uint64_t pages = mine && !read ? io_end_of(c) - c->at : 0;
	const uint64_t began = hr_cycles();
	const uint64_t waited = mine ? began - c->until : 0;
	uint64_t waits, settled;
	bool complete = false;

	w->sent -= hr_count_bits(good);
	if (w->access->staging)
		io_copy_in(w, read, number);
	if (mine)
		complete = io_advance(w, number);
	settled = hr_cycles();
	/* workers wait for the pages, and not for the counts */
	if (hr_ballot(pages != 0)) {
		const uint64_t written = hr_lanes_sum_u64(pages);

		hr_io_count(&w->block->count.write_backs, (uint32_t)written);
	}
	waits = hr_lanes_sum_u64(waited);
	hr_io_count(&w->block->count.ssd_cycles, waits);
	hr_io_count(&w->block->count.settle_cycles, settled - began);
	hr_io_count(&w->block->count.settles, 1);
	io_end_commands(w, complete, number);
	if (hr_ballot(mine && !complete) && !w->stopped)
		io_send(w, mine && !complete ? number : HR_IO_NONE);
}

/*
 * Park a failed command, to send it again after a pause, as hr_role_defer() does; after a stop it is
 * given up there. False when a repetition does not help. Collective.
 */
HR_WORKER bool io_defer(struct hr_io_worker *w, const struct hr_nvme_qp *qp, uint32_t number,
			const struct hr_completion *done)
{
	struct hr_io_command *c = &w->command[number];
	const uint32_t tried = c->tries;
	const uint64_t now = hr_shfl_u64(hr_clock_ns(), 0);
	const uint64_t first = tried ? c->first_ns : now;
	const uint64_t until = now + hr_qp_retry_pause(qp, done->crd, tried);

	if (tried >= hr_status_retries(done->status, done->dnr) || until - first > qp->timeout_ns)
		return false;
	hr_lanes_sync();
	if (hr_lane() == 0) {
		c->tries = (uint8_t)(tried < UINT8_MAX ? tried + 1 : tried);
		c->first_ns = first;
		c->until = until;
		c->state = HR_IO_PARKED;
	}
	w->unsent++;
	hr_lanes_sync();
	return true;
}

/* Send the pages of a failed command one by one, to find the one that fails. Collective. */
HR_WORKER void io_divide(struct hr_io_worker *w, uint32_t number)
{
	hr_lanes_sync();
	if (hr_lane() == 0)
		w->command[number].single = 1;
	hr_lanes_sync();
	io_send(w, hr_lane() == 0 ? number : HR_IO_NONE);
}

/* Give the pages of a failed transfer their last state: of a read, the frame tells the error. Pages
 * of the command that were not tried any more stay READING, because the run ends. One lane. */
HR_WORKER void io_give_up_pages(struct hr_io_worker *w, const struct hr_io_command *c,
				int32_t error)
{
	const struct hr_page_cache *cache = &w->access->cache;
	const uint32_t object = hr_io_object(cache, c->page);
	const struct hr_extent *extent = &cache->extent[object];
	const uint32_t end = c->opcode == nvme_cmd_read ? io_end_of(c) : c->pages;
	uint32_t k;

	for (k = c->at; k < end; k++) {
		struct hr_page_error *e = (struct hr_page_error *)(void *)io_frame_of(cache, c, k);
		const uint64_t page = c->page + k - cache->object[object].first_page;

		if (c->opcode == nvme_cmd_read) {
			e->error = error;
			e->page = c->page + k;
			e->lba = extent->lba +
				 (page << cache->shape.page_shift >> extent->lba_shift);
			w->block->count.errors++;
		}
		io_settle_page(w, c, k, c->opcode == nvme_cmd_read ? HR_PAGE_ERROR : HR_PAGE_DIRTY);
	}
}

/* Handle one failed completion, the same in all lanes. The frames of a lost command stay out of use,
 * because the controller may still write there. */
HR_WORKER_SLOW void io_command_failed(struct hr_io_worker *w, uint32_t queue,
				      const struct hr_completion *done)
{
	const uint32_t number = done->token;
	const struct hr_io_command *c = &w->command[number];
	const bool lost = done->status == HR_STATUS_LOST;

	w->sent--;
	if (!lost && io_defer(w, &w->qp[queue], number, done))
		return;
	if (!lost && !w->stopped && c->pages > 1 && !c->single) {
		io_divide(w, number);
		return;
	}
	hr_io_fail(w, queue, c->opcode, c->page + c->at, done->cid, hr_role_error(done));
	if (lost)
		return;
	if (hr_lane() == 0)
		io_give_up_pages(w, c, done->status);
	hr_lanes_sync();
	io_end_commands(w, hr_lane() == 0, number);
}

/* Reap the completions of one queue pair. True when there were any. */
HR_WORKER bool io_reap(struct hr_io_worker *w, uint32_t queue)
{
	const struct hr_qp_wait wait = hr_io_waits(w);
	struct hr_completion mine = { 0 }, done;
	const hr_mask mask = hr_io_reap_or(&w->qp[queue], &wait, &mine);
	const bool flush = hr_in_mask(mask) && mine.token >= HR_IO_COMMANDS_MAX;
	const hr_mask good = hr_ballot(hr_in_mask(mask) && !flush && !mine.status);
	const hr_mask flushes = hr_ballot(flush);
	hr_mask bad = mask & ~good;

	if (good)
		io_commands_completed(w, good, mine.token);
	for (; bad; bad &= bad - 1) {
		const uint32_t lane = hr_lowest_bit(bad);

		hr_completion_of_lane(&done, &mine, lane);
		if (flushes >> lane & 1)
			hr_io_flush_completed(w, queue, &done);
		else
			io_command_failed(w, queue, &done);
	}
	return mask != 0;
}

HR_DEVICE bool hr_io_reap_all(struct hr_io_worker *w)
{
	bool any = false;
	uint32_t q, base;

	for (q = 0; q < w->access->ssds; q++) {
		for (base = 0; base < HR_IO_BATCH && io_reap(w, q); base += HR_LANES)
			any = true;
		if (w->qp[q].error && !w->role.abandons) {
			hr_io_fail(w, q, nvme_cmd_read, HR_NO_PAGE, 0, w->qp[q].error);
			w->role.abandons = true;
		}
	}
	if (any)
		w->moved_ns = hr_clock_ns();
	return any;
}

/* True when the lane's unsent command is to be sent now. */
HR_WORKER bool io_due(const struct hr_io_worker *w, const struct hr_io_command *c, uint64_t now)
{
	if (c->state == HR_IO_PARKED)
		return w->stopped || c->until <= now;
	/* workers of other gpus do not write to frames of this one */
	return c->state == HR_IO_SETTLING &&
	       (w->stopped || w->ended || hr_io_passed(w, (uint32_t)c->until));
}

HR_DEVICE_SLOW bool hr_io_send_due(struct hr_io_worker *w)
{
	const uint64_t now = hr_shfl_u64(hr_clock_ns(), 0);
	bool any = false;
	uint32_t base;

	for (base = 0; base < w->access->commands && w->unsent; base += HR_LANES) {
		const uint32_t number = base + hr_lane();
		const bool inside = number < w->access->commands;
		const struct hr_io_command *c = &w->command[inside ? number : 0];
		const bool due = inside && io_due(w, c, now);
		const hr_mask mask = hr_ballot(due);

		if (!mask)
			continue;
		any = true;
		w->unsent -= hr_count_bits(mask);
		if (w->stopped) {
			io_end_commands(w, due, number);
			continue;
		}
		if (w->access->staging)
			io_copy_out(w, hr_ballot(due && c->state == HR_IO_SETTLING), number);
		io_send(w, due ? number : HR_IO_NONE);
	}
	return any;
}
