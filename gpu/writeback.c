/*
 * Write-back: each worker writes the results of its slots over a queue pair of its own, frees the
 * slots, and flushes when all of them are closed.
 */
#include "gpu/role.h"
#include "nvme/queue.h"
#include "nvme/status.h"

HR_WORKER void writeback_fail(struct hr_role_worker *w, struct hr_qp *qp, uint32_t s,
			      uint8_t opcode, int error)
{
	struct hr_role_command command;

	command.error = error;
	command.slot = s;
	command.source = 0;
	command.chunk = 0;
	command.cid = 0;
	command.opcode = opcode;
	hr_role_fail(w, &w->pipe->sink, w->pipe->sink_tile_bytes, qp, &command);
}

/* The tile is on the disk (not yet flushed). One lane. */
HR_WORKER void writeback_written(struct hr_role_worker *w, struct hr_slot *slot)
{
	uint64_t *written = &w->pipe->written[slot - w->pipe->slot];

	hr_store_release_sys_u64(written, slot->tile + w->pipe->slots);
	hr_role_count(w, slot->out_bytes);
	hr_store_release_u32(&slot->state, HR_SLOT_FREE);
}

/* Post the writes of a computed tile. True when they were posted. */
HR_WORKER bool writeback_post(struct hr_role_worker *w, struct hr_qp *qp, uint32_t s)
{
	struct hr_pipe *pipe = w->pipe;
	struct hr_slot *slot = &pipe->slot[s];
	const int posted = hr_pwrite_post(qp, &pipe->sink, slot->tile * pipe->sink_tile_bytes,
					  slot->out_bytes, &slot->out, s, 0);

	if (posted == -EAGAIN)
		return false;
	if (posted < 0) {
		writeback_fail(w, qp, s, nvme_cmd_write, posted);
		return false;
	}
	hr_lanes_sync();
	if (hr_lane() == 0) {
		slot->writing = (uint32_t)posted;
		slot->write_tries = 0;
		if (!posted) /* nothing had to be written */
			writeback_written(w, slot);
	}
	hr_lanes_sync();
	return true;
}

/* Send a command again that may succeed then. False: it has had its tries. Collective. */
HR_WORKER bool writeback_again(struct hr_role_worker *w, struct hr_qp *qp, uint32_t s,
			       uint32_t chunk)
{
	struct hr_pipe *pipe = w->pipe;
	struct hr_slot *slot = &pipe->slot[s];

	if (w->failed || slot->write_tries >= HR_TILE_RETRIES ||
	    hr_repost(qp, nvme_cmd_write, &pipe->sink, slot->tile * pipe->sink_tile_bytes,
		      slot->out_bytes, &slot->out, s, chunk, 0) < 0)
		return false;
	hr_lanes_sync();
	if (hr_lane() == 0)
		slot->write_tries++;
	hr_lanes_sync();
	return true;
}

/* One completion, the same in all lanes. */
HR_WORKER void writeback_complete(struct hr_role_worker *w, struct hr_qp *qp,
				  const struct hr_done *done)
{
	const uint32_t s = HR_TOKEN_BUFFER(done->token), chunk = HR_TOKEN_CHUNK(done->token);
	struct hr_slot *slot = &w->pipe->slot[s];
	struct hr_role_command command;

	if (hr_status_is_transient(done->status) && !done->dnr && writeback_again(w, qp, s, chunk))
		return;
	if (hr_lane() == 0)
		slot->writing--;
	hr_lanes_sync();
	if (done->status) {
		command.error = hr_role_error(done);
		command.slot = s;
		command.source = 0;
		command.chunk = chunk;
		command.cid = done->cid;
		command.opcode = nvme_cmd_write;
		hr_role_fail(w, &w->pipe->sink, w->pipe->sink_tile_bytes, qp, &command);
	} else if (hr_lane() == 0 && slot->writing == 0 && !slot->spoiled) {
		writeback_written(w, slot);
	}
	if (done->status && hr_lane() == 0)
		slot->spoiled = 1;
	hr_lanes_sync();
}

HR_WORKER bool writeback_reap(struct hr_role_worker *w, struct hr_qp *qp)
{
	struct hr_done mine, done;
	uint32_t mask = hr_consume_prefetch_pread(qp, &mine);
	const bool any = mask != 0;

	for (; mask; mask &= mask - 1) {
		hr_done_of_lane(&done, &mine, hr_lowest_bit(mask));
		writeback_complete(w, qp, &done);
	}
	if (qp->broken && !w->dead) {
		writeback_fail(w, qp, w->index, nvme_cmd_write, qp->broken);
		w->dead = true;
	}
	return any;
}

/*
 * One look at a slot. True when its writes were posted; *open counts slots not yet closed. After a
 * failure results are dropped, so that the slot comes back to prefetch, which closes it.
 */
HR_WORKER bool writeback_visit(struct hr_role_worker *w, struct hr_qp *qp, uint32_t s,
			       uint32_t *open)
{
	struct hr_slot *slot = &w->pipe->slot[s];
	const uint32_t state = hr_role_state(slot);

	if (state == HR_SLOT_CLOSED)
		return false;
	++*open;
	if (state != HR_SLOT_COMPUTED || (slot->writing && !w->dead))
		return false;
	if (!w->failed)
		return writeback_post(w, qp, s);
	hr_role_hand_on(slot, HR_SLOT_FREE);
	return false;
}

/* What was written is durable when this returns without failing. After a failure it is the host that
 * decides what to save. */
HR_WORKER void writeback_flush(struct hr_role_worker *w, struct hr_qp *qp)
{
	int err;

	if (!w->pipe->flush_at_end || w->failed)
		return;
	err = hr_flush(qp, &w->pipe->sink);
	if (err)
		writeback_fail(w, qp, w->index, nvme_cmd_flush, err);
}

HR_DEVICE void hr_writeback_block(struct hr_pipe *pipe, uint32_t block)
{
	const uint32_t warps = pipe->workers[HR_ROLE_WRITEBACK];
	struct hr_role_worker w;
	struct hr_qp *qp;
	uint32_t open, s;
	bool progress;

	hr_role_worker_set(&w, pipe, HR_ROLE_WRITEBACK, block * warps + hr_warp(),
			   pipe->blocks[HR_ROLE_WRITEBACK] * warps);
	qp = &pipe->write_qp[w.index];
	do {
		progress = false;
		open = 0;
		for (s = w.index; s < pipe->slots; s += w.count)
			progress |= writeback_visit(&w, qp, s, &open);
		hr_qp_ring(qp);
		progress |= writeback_reap(&w, qp);
		hr_role_beat(&w, progress);
	} while (open);
	writeback_flush(&w, qp);
	hr_role_done(&w);
}
