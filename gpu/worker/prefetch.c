/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prefetch: each worker keeps its slots full of reads, over queue pairs of its own.
 */
#include "gpu/worker/block_qp.h"
#include "gpu/worker/role.h"
#include "nvme/queue/queue.h"
#include "nvme/queue/status.h"

/* Tokens number the buffers: HR_SOURCES_MAX per slot. */
HR_WORKER uint32_t prefetch_buffer_of(uint32_t slot, uint32_t source)
{
	return slot * HR_SOURCES_MAX + source;
}

HR_WORKER struct hr_nvme_qp *prefetch_queue_of(const struct hr_role_worker *w, uint32_t source)
{
	return &w->qp[w->pipe->source[source].queue];
}

HR_WORKER void prefetch_fail(struct hr_role_worker *w, uint32_t s, uint32_t source, int error)
{
	const struct hr_pipe_source *from = &w->pipe->source[source];
	const struct hr_role_command command = { error, s, source, 0, 0, nvme_cmd_read };

	hr_role_fail(w, &from->extent, from->tile_bytes, prefetch_queue_of(w, source), &command);
}

/* Bytes of all sources in a tile. */
HR_WORKER uint64_t prefetch_tile_bytes(const struct hr_pipe *pipe, uint64_t tile)
{
	uint64_t bytes = 0;
	uint32_t i;

	for (i = 0; i < pipe->sources; i++)
		bytes += hr_tile_bytes(&pipe->source[i].extent, pipe->source[i].tile_bytes, tile);
	return bytes;
}

/* Hand a slot on to compute when all its reads have completed. One lane. */
HR_WORKER void prefetch_fill_if_whole(struct hr_role_worker *w, struct hr_slot *slot)
{
	const struct hr_pipe *pipe = w->pipe;

	if (slot->posted_sources < pipe->sources || slot->reads_in_flight)
		return;
	slot->posted_sources = 0;
	slot->has_tile = 0;
	hr_role_count_tile(w, prefetch_tile_bytes(pipe, slot->tile));
	hr_release_u32(&slot->state, HR_SLOT_FILLED);
}

/*
 * Post the remaining reads of the slot's tile, source by source, as long as the queues have room.
 * True when a source was posted.
 */
HR_WORKER bool prefetch_post(struct hr_role_worker *w, uint32_t s)
{
	struct hr_pipe *pipe = w->pipe;
	struct hr_slot *slot = &pipe->slot[s];
	const uint64_t tile = slot->read_tile;
	const uint32_t first = slot->posted_sources;
	uint32_t source, commands = 0;
	int posted = 0;

	for (source = first; source < pipe->sources; source++) {
		const struct hr_pipe_source *from = &pipe->source[source];

		posted = hr_io_read_post(prefetch_queue_of(w, source), &from->extent,
					 tile * from->tile_bytes,
					 hr_tile_bytes(&from->extent, from->tile_bytes, tile),
					 &slot->in[source], prefetch_buffer_of(s, source));
		if (posted < 0)
			break;
		commands += (uint32_t)posted;
	}
	hr_lanes_sync();
	if (hr_lane() == 0) {
		slot->tile = tile;
		slot->posted_sources = source;
		slot->reads_in_flight += commands;
		prefetch_fill_if_whole(w, slot); /* there was nothing to read */
	}
	hr_lanes_sync();
	if (posted < 0 && posted != -EAGAIN)
		prefetch_fail(w, s, source, posted);
	return source != first;
}

/* Send a command again. False: no room now. Collective. */
HR_WORKER bool prefetch_resubmit(struct hr_role_worker *w, uint32_t s, uint32_t token)
{
	struct hr_slot *slot = &w->pipe->slot[s];
	const uint32_t source = HR_TOKEN_BUFFER(token) % HR_SOURCES_MAX;
	const struct hr_pipe_source *from = &w->pipe->source[source];

	return hr_io_repost(prefetch_queue_of(w, source), nvme_cmd_read, &from->extent,
			    slot->tile * from->tile_bytes,
			    hr_tile_bytes(&from->extent, from->tile_bytes, slot->tile),
			    &slot->in[source], HR_TOKEN_BUFFER(token), HR_TOKEN_CHUNK(token),
			    0) > 0;
}

/* Send the parked commands whose pause has ended; none after a stop. Collective. */
HR_WORKER void prefetch_resubmit_deferred(struct hr_role_worker *w, bool stopped)
{
	const uint32_t n = hr_role_slots(w);
	const uint64_t now = hr_shfl_u64(hr_clock_ns(), 0);
	uint32_t j, token;

	for (j = 0; j < n && w->deferred; j++) {
		const uint32_t s = w->index + j * w->count;
		struct hr_slot *slot = &w->pipe->slot[s];
		uint32_t parked;

		/* in another state, the other role may write `parked` */
		if (hr_role_acquire_state(slot) != HR_SLOT_FREE)
			continue;
		parked = slot->deferred;
		if (!parked)
			continue;
		if (stopped || w->failed) {
			hr_role_remove_deferred(w, slot, parked);
			if (hr_lane() == 0)
				slot->reads_in_flight -= parked;
			hr_lanes_sync();
			continue;
		}
		if (hr_role_parked_whole(slot, now, slot->reads_in_flight)) {
			hr_role_remove_deferred(w, slot, parked);
			if (hr_lane() == 0)
				slot->reads_in_flight = slot->posted_sources = 0;
			hr_lanes_sync();
			continue;
		}
		while (hr_role_next_deferred(slot, now, &token) && prefetch_resubmit(w, s, token))
			hr_role_remove_deferred(w, slot, 1);
	}
}

/* Handle one failed completion, the same in all lanes. */
HR_WORKER void prefetch_read_failed(struct hr_role_worker *w, struct hr_nvme_qp *qp,
				    const struct hr_completion *done)
{
	const uint32_t buffer = HR_TOKEN_BUFFER(done->token);
	const uint32_t s = buffer / HR_SOURCES_MAX, source = buffer % HR_SOURCES_MAX;
	const struct hr_pipe_source *from = &w->pipe->source[source];
	const struct hr_role_command command = {
		hr_role_error(done),	     s,		source,
		HR_TOKEN_CHUNK(done->token), done->cid, nvme_cmd_read
	};

	if (hr_role_defer(w, &w->pipe->slot[s], &w->pipe->slot[s].read_tries, qp, done))
		return;
	if (hr_lane() == 0)
		w->pipe->slot[s].reads_in_flight--;
	hr_role_fail(w, &from->extent, from->tile_bytes, qp, &command);
}

/* Handle the successful completions in the lanes of `good`, slot by slot. Collective. */
HR_WORKER void prefetch_reads_completed(struct hr_role_worker *w, hr_mask good, uint32_t token)
{
	const uint32_t mine = HR_TOKEN_BUFFER(token) / HR_SOURCES_MAX;
	uint32_t s;

	while (good) {
		const hr_mask group = hr_role_lanes_of_slot(good, mine, &s);

		if (hr_lane() == 0) {
			struct hr_slot *slot = &w->pipe->slot[s];

			slot->reads_in_flight -= hr_count_bits(group);
			if (!w->failed)
				prefetch_fill_if_whole(w, slot);
		}
		good &= ~group;
	}
	hr_lanes_sync();
}

/* A source that is read over queue pair q; there is at least one. */
HR_WORKER uint32_t prefetch_source_of_queue(const struct hr_pipe *pipe, uint32_t q)
{
	uint32_t source = 0;

	while (source + 1 < pipe->sources && pipe->source[source].queue != q)
		source++;
	return source;
}

/* Reap the completions of one queue pair. True when there were any. */
HR_WORKER bool prefetch_reap(struct hr_role_worker *w, struct hr_nvme_qp *qp)
{
	struct hr_completion mine = { 0 }, done;
	hr_mask mask = hr_io_reap(qp, &mine);
	const bool any = mask != 0;
	const hr_mask good = hr_ballot(hr_in_mask(mask) && !mine.status);

	prefetch_reads_completed(w, good, mine.token);
	for (mask &= ~good; mask; mask &= mask - 1) {
		hr_completion_of_lane(&done, &mine, hr_lowest_bit(mask));
		prefetch_read_failed(w, qp, &done);
	}
	return any;
}

HR_WORKER bool prefetch_reap_all(struct hr_role_worker *w)
{
	struct hr_pipe *pipe = w->pipe;
	bool any = false;
	uint32_t q;

	for (q = 0; q < pipe->read_queues; q++) {
		struct hr_nvme_qp *qp = &w->qp[q];

		any |= prefetch_reap(w, qp);
		if (qp->error && !w->abandons) {
			prefetch_fail(w, HR_NO_SLOT, prefetch_source_of_queue(pipe, q), qp->error);
			w->abandons = true;
		}
	}
	return any;
}

HR_WORKER void prefetch_publish_all(const struct hr_role_worker *w)
{
	uint32_t q;

	for (q = 0; q < w->pipe->read_queues; q++)
		hr_qp_publish(&w->qp[q]);
}

/* True when a free slot needs more reads, or is to be closed. */
HR_WORKER bool prefetch_needs_step(const struct hr_role_worker *w, const struct hr_slot *slot,
				   bool stopped)
{
	if (stopped)
		return slot->reads_in_flight == 0 || w->abandons;
	return !slot->has_tile || slot->posted_sources < w->pipe->sources;
}

/*
 * Take a tile for each lane's slot (or NULL), while tiles are left. Takes none while one of these
 * slots holds a tile that waits for room in the queue. Collective.
 */
HR_WORKER void prefetch_take_tile(struct hr_pipe *pipe, struct hr_slot *slot)
{
	const hr_mask held = hr_ballot(slot && slot->has_tile);
	const hr_mask mask = hr_ballot(slot && !slot->has_tile);
	uint64_t tile = 0;

	if (!mask || held)
		return;
	if (hr_lane() == 0)
		tile = hr_fetch_add_u64(&pipe->next_tile, hr_count_bits(mask));
	tile = hr_shfl_u64(tile, 0) + hr_lanes_before(mask);
	if (hr_in_mask(mask) && tile < pipe->tiles) {
		slot->read_tile = tile;
		slot->read_tries = 0;
		slot->has_tile = 1;
	}
	hr_lanes_sync();
}

/* Collective: all lanes get the same answer, although other workers take tiles at any time. */
HR_WORKER bool prefetch_tiles_left(const struct hr_pipe *pipe)
{
	return hr_shfl_u32(hr_poll_u64(&pipe->next_tile) < pipe->tiles, 0) != 0;
}

/* Handle a free slot. True when reads were posted. Collective. */
HR_WORKER bool prefetch_advance_slot(struct hr_role_worker *w, uint32_t s, bool stopped)
{
	struct hr_slot *slot = &w->pipe->slot[s];

	if (hr_role_acquire_state(slot) != HR_SLOT_FREE)
		return false;
	if (!stopped && slot->has_tile)
		return prefetch_post(w, s);
	if (stopped || !prefetch_tiles_left(w->pipe))
		hr_role_release_slot(slot, HR_SLOT_CLOSING);
	return false;
}

/* Handle the slots in mask, from the lowest lane on, until the queue is full. Collective. */
HR_WORKER bool prefetch_advance_slots(struct hr_role_worker *w, hr_mask mask, uint32_t s,
				      uint32_t j, bool stopped, bool *full)
{
	bool progress = false;

	for (; mask && !*full; mask &= mask - 1) {
		const uint32_t lane = hr_lowest_bit(mask);
		const struct hr_slot *slot = &w->pipe->slot[hr_shfl_u32(s, lane)];

		progress |= prefetch_advance_slot(w, hr_shfl_u32(s, lane), stopped);
		*full = !stopped && slot->has_tile && slot->posted_sources < w->pipe->sources;
		if (*full)
			w->first_slot = hr_shfl_u32(j, lane);
	}
	return progress;
}

/* Check all slots once, one per lane; *open is the number of slots still in use. Collective. */
HR_WORKER bool prefetch_check_slots(struct hr_role_worker *w, bool stopped, uint32_t *open)
{
	const uint32_t n = hr_role_slots(w);
	bool progress = false, full = false;
	uint32_t base, s;

	for (base = 0; base < n; base += HR_LANES) {
		const uint32_t j = hr_role_slot_at(w, base + hr_lane(), n);
		const uint32_t state = hr_role_poll_slot(w, j, &s);
		const bool wants =
			state == HR_SLOT_FREE && prefetch_needs_step(w, &w->pipe->slot[s], stopped);

		*open += hr_count_bits(
			hr_ballot(state != HR_SLOT_CLOSING && state != HR_SLOT_CLOSED));
		if (!stopped && !full)
			prefetch_take_tile(w->pipe, wants ? &w->pipe->slot[s] : NULL);
		progress |= prefetch_advance_slots(w, hr_ballot(wants), s, j, stopped, &full);
	}
	return progress;
}

HR_WORKER void prefetch_note_start(const struct hr_pipe *pipe)
{
	if (hr_lane() == 0)
		hr_release_sys_u64(&pipe->control->first_submit_ns, hr_clock_ns());
}

/* The first worker passes the host's stop request on to the others. */
HR_WORKER bool prefetch_stopped(const struct hr_role_worker *w)
{
	struct hr_pipe *pipe = w->pipe;

	if (w->index == 0 && hr_lane() == 0 && hr_role_polls_host(w) &&
	    hr_poll_sys_u32(&pipe->control->stop))
		hr_release_u32(&pipe->stop, 1);
	hr_lanes_sync();
	return hr_role_stopped(w);
}

HR_DEVICE void hr_prefetch_block(struct hr_pipe *pipe, uint32_t block)
{
	const uint32_t warps = pipe->workers[HR_ROLE_PREFETCH];
	bool started = false, progress, leaves;
	struct hr_role_worker w;
	struct hr_nvme_qp *origin;
	uint32_t open;

	if (hr_warp() >= warps)
		return;
	hr_role_init_in_pipeline(&w, pipe, HR_ROLE_PREFETCH, block * warps + hr_warp(),
				 pipe->blocks[HR_ROLE_PREFETCH] * warps);
	origin = &pipe->read_qp[w.index * pipe->read_queues];
	w.qp = hr_block_qp_begin(origin, pipe->read_queues, warps, 0);
	started = w.launch > 1;
	do {
		const bool stopped = prefetch_stopped(&w);

		open = 0;
		progress = prefetch_check_slots(&w, stopped, &open);
		if (hr_unlikely(w.deferred))
			prefetch_resubmit_deferred(&w, stopped);
		prefetch_publish_all(&w);
		if (progress && !started && w.index == 0)
			prefetch_note_start(pipe);
		started |= progress;
		progress |= prefetch_reap_all(&w);
		hr_role_poll_host_stop(&w, progress);
		hr_role_end_round(&w, progress);
		leaves = w.launch && hr_shfl_u32(hr_role_leaves_launch(&w), 0);
	} while (open && !leaves);
	hr_block_qp_end(origin, w.qp, pipe->read_queues);
	if (hr_lane() != 0)
		return;
	if (leaves)
		hr_role_save_counts(&w);
	else
		hr_role_end(&w);
}
