/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Write-back: each worker writes the results of its slots over its own queue pair, frees the slots,
 * and flushes when all of them are closed.
 */
#include "gpu/worker/block_qp.h"
#include "gpu/worker/role.h"
#include "nvme/queue/queue.h"
#include "nvme/queue/status.h"

HR_WORKER void writeback_fail(struct hr_role_worker *w, struct hr_nvme_qp *qp, uint32_t s,
			      uint8_t opcode, int error)
{
	const struct hr_role_command command = { error, s, 0, 0, 0, opcode };

	hr_role_fail(w, &w->pipe->sink, w->pipe->sink_tile_bytes, qp, &command);
}

/* Record that the tile is not on the disk; no later tile of the slot will be counted. One lane. */
HR_WORKER void writeback_note_unwritten(struct hr_slot *slot)
{
	if (!slot->write_failed)
		slot->first_unwritten = slot->tile;
	slot->write_failed = 1;
}

/* Record that the tile is on the disk (not yet flushed). One lane. */
HR_WORKER void writeback_note_written(struct hr_role_worker *w, struct hr_slot *slot)
{
	uint64_t *written = &w->pipe->written[slot - w->pipe->slot];

	slot->write_tries = 0;
	hr_release_sys_u64(written, slot->tile + 1);
	hr_role_count_tile(w, slot->out_bytes);
	hr_release_u32(&slot->state, HR_SLOT_FREE);
}

/* Post the writes of a computed tile. True when they were posted. */
HR_WORKER bool writeback_post(struct hr_role_worker *w, struct hr_nvme_qp *qp, uint32_t s)
{
	struct hr_pipe *pipe = w->pipe;
	struct hr_slot *slot = &pipe->slot[s];
	const int posted = hr_io_write_post(qp, &pipe->sink, slot->tile * pipe->sink_tile_bytes,
					    slot->out_bytes, &slot->out, s, 0);

	if (posted == -EAGAIN)
		return false;
	if (posted < 0) {
		writeback_fail(w, qp, s, nvme_cmd_write, posted);
		return false;
	}
	hr_lanes_sync();
	if (hr_lane() == 0) {
		slot->writes_in_flight = (uint32_t)posted;
		if (!posted) /* there was nothing to write */
			writeback_note_written(w, slot);
	}
	hr_lanes_sync();
	return true;
}

/* Send a command again. False: no room now. Collective. */
HR_WORKER bool writeback_resubmit(struct hr_role_worker *w, uint32_t s, uint32_t token)
{
	struct hr_pipe *pipe = w->pipe;
	struct hr_slot *slot = &pipe->slot[s];

	return hr_io_repost(w->qp, nvme_cmd_write, &pipe->sink, slot->tile * pipe->sink_tile_bytes,
			    slot->out_bytes, &slot->out, s, HR_TOKEN_CHUNK(token), 0) > 0;
}

/* Send the parked commands whose pause has ended; none after a failure. Collective. */
HR_WORKER void writeback_resubmit_deferred(struct hr_role_worker *w)
{
	const uint32_t n = hr_role_slots(w);
	const uint64_t now = hr_shfl_u64(hr_clock_ns(), 0);
	uint32_t j, token;

	for (j = 0; j < n && w->deferred; j++) {
		const uint32_t s = w->index + j * w->count;
		struct hr_slot *slot = &w->pipe->slot[s];
		uint32_t parked;

		/* in another state, the other role may write `parked` */
		if (hr_role_acquire_state(slot) != HR_SLOT_COMPUTED)
			continue;
		parked = slot->deferred;
		if (!parked)
			continue;
		if (w->failed) {
			hr_role_remove_deferred(w, slot, parked);
			if (hr_lane() == 0) {
				slot->writes_in_flight -= parked;
				writeback_note_unwritten(slot);
			}
			hr_lanes_sync();
			continue;
		}
		if (hr_role_parked_whole(slot, now, slot->writes_in_flight)) {
			hr_role_remove_deferred(w, slot, parked);
			if (hr_lane() == 0)
				slot->writes_in_flight = 0;
			hr_lanes_sync();
			continue;
		}
		while (hr_role_next_deferred(slot, now, &token) && writeback_resubmit(w, s, token))
			hr_role_remove_deferred(w, slot, 1);
	}
}

/* Handle one failed completion, the same in all lanes. */
HR_WORKER void writeback_write_failed(struct hr_role_worker *w, struct hr_nvme_qp *qp,
				      const struct hr_completion *done)
{
	const uint32_t s = HR_TOKEN_BUFFER(done->token);
	const struct hr_role_command command = {
		hr_role_error(done), s, 0, HR_TOKEN_CHUNK(done->token), done->cid, nvme_cmd_write
	};

	if (hr_role_defer(w, &w->pipe->slot[s], &w->pipe->slot[s].write_tries, qp, done))
		return;
	if (hr_lane() == 0) {
		w->pipe->slot[s].writes_in_flight--;
		writeback_note_unwritten(&w->pipe->slot[s]);
	}
	hr_role_fail(w, &w->pipe->sink, w->pipe->sink_tile_bytes, qp, &command);
}

/* Handle the successful completions in the lanes of `good`, slot by slot. Collective. */
HR_WORKER void writeback_writes_completed(struct hr_role_worker *w, hr_mask good, uint32_t token)
{
	const uint32_t mine = HR_TOKEN_BUFFER(token);
	uint32_t s;

	while (good) {
		const hr_mask group = hr_role_lanes_of_slot(good, mine, &s);

		if (hr_lane() == 0) {
			struct hr_slot *slot = &w->pipe->slot[s];

			slot->writes_in_flight -= hr_count_bits(group);
			if (slot->writes_in_flight == 0 && !slot->write_failed)
				writeback_note_written(w, slot);
		}
		good &= ~group;
	}
	hr_lanes_sync();
}

HR_WORKER bool writeback_reap(struct hr_role_worker *w, struct hr_nvme_qp *qp)
{
	struct hr_completion mine = { 0 }, done;
	hr_mask mask = hr_io_reap(qp, &mine);
	const bool any = mask != 0;
	const hr_mask good = hr_ballot(hr_in_mask(mask) && !mine.status);

	writeback_writes_completed(w, good, mine.token);
	for (mask &= ~good; mask; mask &= mask - 1) {
		hr_completion_of_lane(&done, &mine, hr_lowest_bit(mask));
		writeback_write_failed(w, qp, &done);
	}
	if (qp->error && !w->abandons) {
		writeback_fail(w, qp, HR_NO_SLOT, nvme_cmd_write, qp->error);
		w->abandons = true;
	}
	return any;
}

/*
 * Handle a computed slot. True when its writes were posted. After a failure results are dropped, so
 * that the slot returns to prefetch, which closes it. Collective.
 */
HR_WORKER bool writeback_advance_slot(struct hr_role_worker *w, struct hr_nvme_qp *qp, uint32_t s)
{
	struct hr_slot *slot = &w->pipe->slot[s];

	if (hr_role_acquire_state(slot) != HR_SLOT_COMPUTED)
		return false;
	/* later tiles of the slot must not be counted: the watermark would pass this tile */
	w->failed |= slot->out_bytes == HR_OUT_BROKEN;
	if (!w->failed)
		return writeback_post(w, qp, s);
	/* parked commands of a broken queue: prefetch would treat them as its own reads */
	if (hr_unlikely(slot->deferred))
		hr_role_remove_deferred(w, slot, slot->deferred);
	if (hr_lane() == 0)
		writeback_note_unwritten(slot);
	hr_role_release_slot(slot, HR_SLOT_FREE);
	return false;
}

/* Handle the slots in mask, from the lowest lane on, until the queue is full. Collective. */
HR_WORKER bool writeback_advance_slots(struct hr_role_worker *w, struct hr_nvme_qp *qp,
				       hr_mask mask, uint32_t s, uint32_t j, bool *full)
{
	bool progress = false;

	for (; mask && !*full; mask &= mask - 1) {
		const uint32_t lane = hr_lowest_bit(mask);

		if (writeback_advance_slot(w, qp, hr_shfl_u32(s, lane))) {
			progress = true;
		} else if (!w->failed) {
			*full = true;
			w->first_slot = hr_shfl_u32(j, lane);
		}
	}
	return progress;
}

/* Check all slots once, one per lane; *open is the number of slots that are not closed.
 * Collective. */
HR_WORKER bool writeback_check_slots(struct hr_role_worker *w, struct hr_nvme_qp *qp,
				     uint32_t *open)
{
	const uint32_t n = hr_role_slots(w);
	bool progress = false, full = false;
	uint32_t base, s;

	for (base = 0; base < n; base += HR_LANES) {
		const uint32_t j = hr_role_slot_at(w, base + hr_lane(), n);
		const uint32_t state = hr_role_poll_slot(w, j, &s);
		const hr_mask mask = hr_ballot(state == HR_SLOT_COMPUTED &&
					       (!w->pipe->slot[s].writes_in_flight || w->abandons));

		*open += hr_count_bits(hr_ballot(state != HR_SLOT_CLOSED));
		progress |= writeback_advance_slots(w, qp, mask, s, j, &full);
	}
	return progress;
}

/* Post a flush and wait for it. 0, an error, or a status with *done. Collective. */
HR_WORKER int writeback_flush_once(struct hr_role_worker *w, struct hr_nvme_qp *qp,
				   struct hr_completion *done)
{
	const int posted = hr_io_flush_post(qp, &w->pipe->sink, 0);
	struct hr_completion mine = { 0 };
	hr_mask mask = 0;

	if (posted < 0)
		return posted;
	hr_qp_publish(qp);
	while (!mask && !qp->error && !w->abandons) {
		mask = hr_io_reap(qp, &mine);
		hr_role_poll_host_stop(w, mask != 0);
		hr_role_end_round(w, mask != 0);
	}
	if (!mask)
		return qp->error;
	hr_completion_of_lane(done, &mine, hr_lowest_bit(mask));
	return hr_role_error(done);
}

/* Wait until a time. False: the host reports that no command completes any more. Collective. */
HR_WORKER bool writeback_pause(struct hr_role_worker *w, uint64_t until)
{
	while (!w->abandons && hr_shfl_u64(hr_clock_ns(), 0) < until) {
		hr_role_poll_host_stop(w, false);
		hr_role_end_round(w, false);
	}
	return !w->abandons;
}

/* Flush: all writes are durable when this returns without failure. After a failure the host
 * decides what to save. */
HR_WORKER void writeback_flush(struct hr_role_worker *w, struct hr_nvme_qp *qp)
{
	uint64_t first = 0, until;
	struct hr_completion done = { 0 };
	uint32_t tries;
	int err;

	if (!w->pipe->flush_at_end || w->failed)
		return;
	for (tries = 0;; tries++) {
		const uint64_t now = hr_shfl_u64(hr_clock_ns(), 0);

		err = writeback_flush_once(w, qp, &done);
		first = tries ? first : now;
		until = now + hr_qp_retry_pause(qp, done.crd, tries);
		if (err <= 0 || tries >= hr_status_flush_retries(done.status, done.dnr) ||
		    until - first > qp->timeout_ns || !writeback_pause(w, until))
			break;
	}
	if (err)
		writeback_fail(w, qp, w->index, nvme_cmd_flush, err);
}

HR_DEVICE void hr_writeback_block(struct hr_pipe *pipe, uint32_t block)
{
	const uint32_t warps = pipe->workers[HR_ROLE_WRITEBACK];
	struct hr_role_worker w;
	struct hr_nvme_qp *origin;
	uint32_t open;
	bool progress;

	if (hr_warp() >= warps)
		return;
	hr_role_init_in_pipeline(&w, pipe, HR_ROLE_WRITEBACK, block * warps + hr_warp(),
				 pipe->blocks[HR_ROLE_WRITEBACK] * warps);
	origin = &pipe->write_qp[w.index];
	w.qp = hr_block_qp_begin(origin, 1, warps, 0);
	do {
		open = 0;
		progress = writeback_check_slots(&w, w.qp, &open);
		if (hr_unlikely(w.deferred))
			writeback_resubmit_deferred(&w);
		hr_qp_publish(w.qp);
		progress |= writeback_reap(&w, w.qp);
		hr_role_poll_host_stop(&w, progress);
		hr_role_end_round(&w, progress);
	} while (open);
	writeback_flush(&w, w.qp);
	hr_block_qp_end(origin, w.qp, 1);
	if (hr_lane() == 0)
		hr_role_end(&w);
}
