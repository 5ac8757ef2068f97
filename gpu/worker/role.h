/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu/worker/role.h - code shared by the three roles of a pipeline, and by the workers of an access
 * operator's run; only for {prefetch,compute,writeback,pipeline,access,io*}.c of this folder. Worker
 * code.
 */
#ifndef GPU_WORKER_ROLE_H
#define GPU_WORKER_ROLE_H

#include <errno.h>

#include "config/operator.h"
#include "gpu/worker/pipeline.h"
#include "nvme/queue/deadline.h"

/* Rounds between two accesses to host memory (flags, heartbeat), which is slow for a GPU. */
#define HR_HOST_POLL_ROUNDS (HR_LANES == 1 ? 1u : 64u)

/* A worker of a role (for compute: a block); each lane has a copy. */
struct hr_role_worker {
	struct hr_pipe *pipe; /* NULL in a run of an access operator */
	struct hr_worker_status *status;
	uint32_t role, index, count; /* worker `index` of `count` */
	struct hr_nvme_qp *qp;	     /* its queue pairs; unused by compute */
	uint32_t first_slot;	     /* prefetch, writeback: the first of its slots to check */
	uint32_t spins;		     /* for hr_idle() */
	uint32_t deferred;	     /* commands of its slots that wait to be sent again */
	bool failed;		     /* this worker starts no new work */
	bool abandons;		     /* and waits for no command: one of its queues broke */
	uint32_t launch;	     /* of a pipeline with a tap: its number; 0: there is no tap */
	uint64_t tiles, bytes;	     /* completed; of the counting thread */
	/* hr_cycles() at the start, and at the start of this round */
	uint64_t start, round_start;
	struct hr_worker_cost cost;
};

/* Worker `index` of `count`, without a pipeline. */
HR_WORKER void hr_role_init(struct hr_role_worker *w, struct hr_worker_status *status,
			    uint32_t role, uint32_t index, uint32_t count)
{
	w->pipe = NULL;
	w->status = status;
	w->role = role;
	w->index = index;
	w->count = count;
	w->first_slot = 0;
	w->spins = 0;
	w->deferred = 0;
	w->failed = false;
	w->abandons = false;
	w->launch = 0;
	w->tiles = w->bytes = 0;
	w->start = w->round_start = hr_cycles();
	w->cost.rounds = w->cost.busy_rounds = w->cost.busy_cycles = w->cost.cycles = 0;
}

/* Go on with what the worker has counted in earlier launches. */
HR_WORKER void hr_role_restore_counts(struct hr_role_worker *w)
{
	w->tiles = w->status->tiles;
	w->bytes = w->status->bytes;
	w->cost = w->status->cost;
}

/* The slots of this worker are index, index + count, ... */
HR_WORKER void hr_role_init_in_pipeline(struct hr_role_worker *w, struct hr_pipe *pipe,
					uint32_t role, uint32_t index, uint32_t count)
{
	hr_role_init(w, &pipe->status[hr_pipe_first_status(pipe, role) + index], role, index,
		     count);
	w->pipe = pipe;
	if (pipe->tap)
		w->launch = hr_poll_sys_u32(&pipe->control->launch_number);
	if (w->launch > 1)
		hr_role_restore_counts(w);
}

/* True when the worker leaves this launch: it has nothing to do, and another launch goes on with the
 * pipeline. The same in all lanes only after hr_shfl_u32(). */
HR_WORKER bool hr_role_leaves_launch(const struct hr_role_worker *w)
{
	return w->launch && hr_poll_u32(&w->pipe->leave_launch) == w->launch;
}

/* Keep what the worker has counted for the next launch. One thread, as hr_role_end(). */
HR_WORKER void hr_role_save_counts(struct hr_role_worker *w)
{
	w->cost.cycles += hr_cycles() - w->start;
	w->status->cost = w->cost;
}

/* Mark the worker as ended. One thread, after all other threads of the worker. */
HR_WORKER void hr_role_end(struct hr_role_worker *w)
{
	hr_role_save_counts(w);
	hr_release_sys_u32(&w->status->ended, 1);
}

/* Count one more tile. Always the same thread. */
HR_WORKER void hr_role_count_tile(struct hr_role_worker *w, uint64_t bytes)
{
	hr_relaxed_sys_u64(&w->status->bytes, w->bytes += bytes);
	hr_relaxed_sys_u64(&w->status->tiles, ++w->tiles);
}

/* True in rounds that access host memory. */
HR_WORKER bool hr_role_polls_host(const struct hr_role_worker *w)
{
	return w->cost.rounds % HR_HOST_POLL_ROUNDS == 0;
}

/* End a round, with or without progress; updates the heartbeat. One worker. */
HR_WORKER void hr_role_end_round(struct hr_role_worker *w, bool progress)
{
	const uint64_t now = hr_cycles();

	if (hr_role_polls_host(w) && hr_lane() == 0)
		hr_relaxed_sys_u64(&w->status->heartbeat, w->cost.rounds + 1);
	w->cost.rounds++;
	if (progress) {
		w->cost.busy_rounds++;
		w->cost.busy_cycles += now - w->round_start;
		w->round_start = now;
		w->spins = 0;
	} else {
		hr_idle(&w->spins);
		w->round_start = hr_cycles();
	}
}

/* Other workers change these words at any time, so lane 0 reads them and all lanes get the same
 * value. Collective. */
HR_WORKER bool hr_role_stopped(const struct hr_role_worker *w)
{
	return w->failed || hr_shfl_u32(hr_poll_u32(&w->pipe->stop), 0) != 0;
}

/*
 * At the end of a round: stop waiting for commands, and start none, when the host has found that
 * commands will not complete. Checked only in rounds without progress, because then all rounds are
 * without progress. Collective.
 */
HR_WORKER void hr_role_poll_host_stop(struct hr_role_worker *w, bool progress)
{
	uint32_t stop = HR_STOP_NONE;

	if (progress || !hr_role_polls_host(w))
		return;
	if (hr_lane() == 0)
		stop = hr_poll_sys_u32(&w->pipe->control->stop);
	if (hr_shfl_u32(stop, 0) == HR_STOP_ABANDON)
		w->failed = w->abandons = true;
}

/* Number of slots of the worker. */
HR_WORKER uint32_t hr_role_slots(const struct hr_role_worker *w)
{
	return w->index < w->pipe->slots ? (w->pipe->slots - w->index - 1) / w->count + 1 : 0;
}

/*
 * Index of the k-th of its n slots to check; n for k >= n. The order starts with the slot that the
 * queue had no room for, so that earlier slots do not take all room again.
 */
HR_WORKER uint32_t hr_role_slot_at(const struct hr_role_worker *w, uint32_t k, uint32_t n)
{
	if (k >= n)
		return n;
	return w->first_slot + k < n ? w->first_slot + k : w->first_slot + k - n;
}

/*
 * The current state of the worker's j-th slot, for the calling lane: *s is its number;
 * HR_SLOT_CLOSED when there is no such slot. Data that others wrote to the slot may be read after
 * hr_polled() of its state, or after hr_role_acquire_state().
 */
HR_WORKER uint32_t hr_role_poll_slot(const struct hr_role_worker *w, uint32_t j, uint32_t *s)
{
	*s = w->index + j * w->count;
	return *s < w->pipe->slots ? hr_poll_u32(&w->pipe->slot[*s].state) : HR_SLOT_CLOSED;
}

/* The state of a slot, the same in all lanes; an acquire. Collective. */
HR_WORKER uint32_t hr_role_acquire_state(const struct hr_slot *slot)
{
	return hr_shfl_u32(hr_acquire_u32(&slot->state), 0);
}

/* Hand the slot on: all writes of this worker to it are visible to the next owner. Collective. */
HR_WORKER void hr_role_release_slot(struct hr_slot *slot, enum hr_slot_state state)
{
	hr_lanes_sync();
	if (hr_lane() == 0)
		hr_release_u32(&slot->state, (uint32_t)state);
	hr_lanes_sync();
}

/* Copy the completion of one lane to all lanes. Collective. */
HR_WORKER void hr_completion_of_lane(struct hr_completion *done, const struct hr_completion *mine,
				     uint32_t lane)
{
	done->token = hr_shfl_u32(mine->token, lane);
	done->cid = (uint16_t)hr_shfl_u32(mine->cid, lane);
	done->status = (uint16_t)hr_shfl_u32(mine->status, lane);
	done->dnr = hr_shfl_u32(mine->dnr, lane) != 0;
	done->crd = (uint8_t)hr_shfl_u32(mine->crd, lane);
	done->dw0 = 0;
}

/* The lanes in `mask` with the same slot as the lowest of them, *s. Collective. */
HR_WORKER hr_mask hr_role_lanes_of_slot(hr_mask mask, uint32_t mine, uint32_t *s)
{
	*s = hr_shfl_u32(mine, hr_lowest_bit(mask));
	return hr_ballot(hr_in_mask(mask) && mine == *s);
}

/* The error for a failure record. */
HR_WORKER int32_t hr_role_error(const struct hr_completion *done)
{
	return done->status == HR_STATUS_LOST ? -ETIMEDOUT : done->status;
}

#define HR_NO_SLOT UINT32_MAX

/* The command of a completion, for a failure record. A broken queue has no command and HR_NO_SLOT,
 * because another worker may own a slot without commands. */
struct hr_role_command {
	int32_t error;
	uint32_t slot, source, chunk;
	uint16_t cid;
	uint8_t opcode;
};

/*
 * Park a failed command of the slot, to send it again later. False when it will not be sent again:
 * a repetition does not help, too many tries, or the pause would end after the deadline of the
 * first failed command. *tries counts the repetitions of the tile. Collective.
 */
HR_WORKER bool hr_role_defer(struct hr_role_worker *w, struct hr_slot *slot, uint32_t *tries,
			     const struct hr_nvme_qp *qp, const struct hr_completion *done)
{
	const uint32_t tried = *tries;
	const uint64_t now = hr_shfl_u64(hr_clock_ns(), 0);
	const uint64_t first = tried ? slot->first_failure_ns : now;
	const uint64_t until = now + hr_qp_retry_pause(qp, done->crd, tried);

	if (w->failed || tried >= hr_status_retries(done->status, done->dnr) ||
	    until - first > qp->timeout_ns)
		return false;
	hr_lanes_sync();
	if (hr_lane() == 0) {
		*tries = tried + 1;
		slot->first_failure_ns = first;
		if (slot->deferred < HR_PARKED_MAX)
			slot->deferred_token[slot->deferred] = done->token;
		slot->deferred++;
		if (slot->deferred == 1 || until > slot->deferred_until_ns)
			slot->deferred_until_ns = until;
	}
	w->deferred++;
	hr_lanes_sync();
	return true;
}

/* *token: the last parked command of the slot, when its pause has ended, unless the whole tile is sent
 * again. Collective. */
HR_WORKER bool hr_role_next_deferred(const struct hr_slot *slot, uint64_t now, uint32_t *token)
{
	const uint32_t parked = slot->deferred;

	if (!parked || parked > HR_PARKED_MAX || slot->deferred_until_ns > now)
		return false;
	*token = slot->deferred_token[parked - 1];
	return true;
}

/* True when all commands of the tile are to be sent again, now: more are parked than their list can
 * hold, none of its `outstanding` commands is at the controller, and the pause has ended. */
HR_WORKER bool hr_role_parked_whole(const struct hr_slot *slot, uint64_t now, uint32_t outstanding)
{
	return slot->deferred > HR_PARKED_MAX && slot->deferred == outstanding &&
	       slot->deferred_until_ns <= now;
}

/* Remove `count` parked commands, which were sent or will not be. Collective. */
HR_WORKER void hr_role_remove_deferred(struct hr_role_worker *w, struct hr_slot *slot,
				       uint32_t count)
{
	hr_lanes_sync();
	if (hr_lane() == 0)
		slot->deferred -= count;
	w->deferred -= count;
	hr_lanes_sync();
}

/* Record the first failure of the worker; the whole pipeline starts no new work. Collective. */
HR_DEVICE void hr_role_fail(struct hr_role_worker *w, const struct hr_extent *extent,
			    uint32_t tile_bytes, const struct hr_nvme_qp *qp,
			    const struct hr_role_command *command);

/* Worker code of the operator with that id, block-collective. The program and each worker image
 * define their own. gpu/ops/operator.h has the contract. */
HR_DEVICE void hr_op_init(uint32_t op, const void *args, void *state);
HR_DEVICE uint32_t hr_op_tile(uint32_t op, const void *args, void *state,
			      const struct hr_op_tile *tile);
struct hr_objects;
HR_DEVICE void hr_op_run(uint32_t op, const void *args, void *state, struct hr_objects *objects);
HR_DEVICE void hr_op_finish(uint32_t op, const struct hr_op_all *all);

/* The three roles: run block `block` of a role until its slots are closed. Block-collective. */
HR_DEVICE void hr_prefetch_block(struct hr_pipe *pipe, uint32_t block);
HR_DEVICE void hr_compute_block(struct hr_pipe *pipe, uint32_t block);
HR_DEVICE void hr_writeback_block(struct hr_pipe *pipe, uint32_t block);

#endif
