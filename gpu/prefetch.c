/*
 * Prefetch: each worker keeps its slots full of reads, over queue pairs of its own.
 */
#include "gpu/role.h"
#include "nvme/queue.h"
#include "nvme/status.h"

/* Tokens count buffers: HR_SOURCES_MAX to a slot. */
HR_WORKER uint32_t prefetch_buffer_of(uint32_t slot, uint32_t source)
{
	return slot * HR_SOURCES_MAX + source;
}

HR_WORKER struct hr_qp *prefetch_queue_of(const struct hr_role_worker *w, uint32_t source)
{
	const struct hr_pipe *pipe = w->pipe;

	return &pipe->read_qp[w->index * pipe->read_queues + pipe->source[source].queue];
}

HR_WORKER void prefetch_fail(struct hr_role_worker *w, uint32_t s, uint32_t source, int error)
{
	const struct hr_pipe_source *from = &w->pipe->source[source];
	struct hr_role_command command;

	command.error = error;
	command.slot = s;
	command.source = source;
	command.chunk = 0;
	command.cid = 0;
	command.opcode = nvme_cmd_read;
	hr_role_fail(w, &from->extent, from->tile_bytes, prefetch_queue_of(w, source), &command);
}

/* A slot whose reads are all back goes to compute. One lane. */
HR_WORKER void prefetch_fill_if_whole(struct hr_pipe *pipe, struct hr_slot *slot)
{
	if (slot->posted < pipe->sources || slot->reading)
		return;
	slot->posted = 0;
	slot->next_read += pipe->slots;
	hr_store_release_u32(&slot->state, HR_SLOT_FILLED);
}

/*
 * Post what is still missing of the tile this slot reads next: source by source, as queues have
 * room. True when a source was posted.
 */
HR_WORKER bool prefetch_post(struct hr_role_worker *w, uint32_t s)
{
	struct hr_pipe *pipe = w->pipe;
	struct hr_slot *slot = &pipe->slot[s];
	const uint64_t tile = slot->next_read;
	const uint32_t first = slot->posted;
	uint32_t source, commands = 0;
	int posted = 0;

	for (source = first; source < pipe->sources; source++) {
		const struct hr_pipe_source *from = &pipe->source[source];

		posted = hr_pread_prefetch(prefetch_queue_of(w, source), &from->extent,
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
		slot->read_tries = first ? slot->read_tries : 0;
		slot->posted = source;
		slot->reading += commands;
		prefetch_fill_if_whole(pipe, slot); /* nothing had to be read */
	}
	hr_lanes_sync();
	if (posted < 0 && posted != -EAGAIN)
		prefetch_fail(w, s, source, posted);
	return source != first;
}

/* Send a command again that may succeed then. False: it has had its tries. Collective. */
HR_WORKER bool prefetch_again(struct hr_role_worker *w, struct hr_qp *qp, uint32_t s,
			      uint32_t source, uint32_t chunk)
{
	struct hr_pipe *pipe = w->pipe;
	struct hr_slot *slot = &pipe->slot[s];
	const struct hr_pipe_source *from = &pipe->source[source];

	if (w->failed || slot->read_tries >= HR_TILE_RETRIES)
		return false;
	if (hr_repost(qp, nvme_cmd_read, &from->extent, slot->tile * from->tile_bytes,
		      hr_tile_bytes(&from->extent, from->tile_bytes, slot->tile), &slot->in[source],
		      prefetch_buffer_of(s, source), chunk, 0) < 0)
		return false;
	hr_lanes_sync();
	if (hr_lane() == 0)
		slot->read_tries++;
	hr_lanes_sync();
	return true;
}

/* One completion, the same in all lanes. */
HR_WORKER void prefetch_complete(struct hr_role_worker *w, struct hr_qp *qp,
				 const struct hr_done *done)
{
	const uint32_t buffer = HR_TOKEN_BUFFER(done->token);
	const uint32_t s = buffer / HR_SOURCES_MAX, source = buffer % HR_SOURCES_MAX;
	const struct hr_pipe_source *from = &w->pipe->source[source];
	struct hr_slot *slot = &w->pipe->slot[s];
	struct hr_role_command command;

	if (hr_status_is_transient(done->status) && !done->dnr &&
	    prefetch_again(w, qp, s, source, HR_TOKEN_CHUNK(done->token)))
		return;
	if (hr_lane() == 0)
		slot->reading--;
	hr_lanes_sync();
	if (done->status) {
		command.error = hr_role_error(done);
		command.slot = s;
		command.source = source;
		command.chunk = HR_TOKEN_CHUNK(done->token);
		command.cid = done->cid;
		command.opcode = nvme_cmd_read;
		hr_role_fail(w, &from->extent, from->tile_bytes, qp, &command);
	} else if (hr_lane() == 0 && !w->failed) {
		prefetch_fill_if_whole(w->pipe, slot);
	}
	hr_lanes_sync();
}

/* Any source that is read over queue pair q; there is one. */
HR_WORKER uint32_t prefetch_source_of_queue(const struct hr_pipe *pipe, uint32_t q)
{
	uint32_t source = 0;

	while (source + 1 < pipe->sources && pipe->source[source].queue != q)
		source++;
	return source;
}

/* Take what has come back on one queue pair. True when something has. */
HR_WORKER bool prefetch_reap(struct hr_role_worker *w, struct hr_qp *qp)
{
	struct hr_done mine, done;
	uint32_t mask = hr_consume_prefetch_pread(qp, &mine);
	const bool any = mask != 0;

	for (; mask; mask &= mask - 1) {
		hr_done_of_lane(&done, &mine, hr_lowest_bit(mask));
		prefetch_complete(w, qp, &done);
	}
	return any;
}

HR_WORKER bool prefetch_reap_all(struct hr_role_worker *w)
{
	struct hr_pipe *pipe = w->pipe;
	bool any = false;
	uint32_t q;

	for (q = 0; q < pipe->read_queues; q++) {
		struct hr_qp *qp = &pipe->read_qp[w->index * pipe->read_queues + q];

		any |= prefetch_reap(w, qp);
		if (qp->broken && !w->dead) {
			prefetch_fail(w, w->index, prefetch_source_of_queue(pipe, q), qp->broken);
			w->dead = true;
		}
	}
	return any;
}

HR_WORKER void prefetch_ring_all(const struct hr_role_worker *w)
{
	struct hr_pipe *pipe = w->pipe;
	uint32_t q;

	for (q = 0; q < pipe->read_queues; q++)
		hr_qp_ring(&pipe->read_qp[w->index * pipe->read_queues + q]);
}

/* One look at a slot. True when something was posted; *open counts slots not yet given up. */
HR_WORKER bool prefetch_visit(struct hr_role_worker *w, uint32_t s, bool stopped, uint32_t *open)
{
	struct hr_pipe *pipe = w->pipe;
	struct hr_slot *slot = &pipe->slot[s];
	const uint32_t state = hr_role_state(slot);

	if (state == HR_SLOT_CLOSING || state == HR_SLOT_CLOSED)
		return false;
	++*open;
	if (state != HR_SLOT_FREE)
		return false;
	if (!stopped && slot->next_read < pipe->tiles)
		return slot->posted < pipe->sources && prefetch_post(w, s);
	if (slot->reading == 0 || w->dead)
		hr_role_hand_on(slot, HR_SLOT_CLOSING);
	return false;
}

HR_WORKER void prefetch_note_start(const struct hr_pipe *pipe)
{
	uint64_t *first = &pipe->control->first_submit_ns;

	if (hr_lane() == 0 && !*first)
		hr_store_release_sys_u64(first, hr_clock_ns());
}

HR_DEVICE void hr_prefetch_block(struct hr_pipe *pipe, uint32_t block)
{
	const uint32_t warps = pipe->workers[HR_ROLE_PREFETCH];
	struct hr_role_worker w;
	bool progress;
	uint32_t open, s;

	hr_role_worker_set(&w, pipe, HR_ROLE_PREFETCH, block * warps + hr_warp(),
			   pipe->blocks[HR_ROLE_PREFETCH] * warps);
	do {
		const bool stopped = hr_role_stopped(&w);

		progress = false;
		open = 0;
		for (s = w.index; s < pipe->slots; s += w.count)
			progress |= prefetch_visit(&w, s, stopped, &open);
		prefetch_ring_all(&w);
		if (progress && w.index == 0)
			prefetch_note_start(pipe);
		progress |= prefetch_reap_all(&w);
		hr_role_beat(&w, progress);
	} while (open);
	hr_role_done(&w);
}
