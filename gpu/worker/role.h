/*
 * gpu/worker/role.h - what the three roles of a pipeline have in common; for {prefetch,compute,
 * writeback,pipeline}.c of this folder only. Worker code.
 */
#ifndef GPU_WORKER_ROLE_H
#define GPU_WORKER_ROLE_H

#include <errno.h>

#include "config/operator.h"
#include "gpu/worker/pipeline.h"
#include "nvme/retry.h"

/* Host memory is far from a GPU: its workers look there, and write a heartbeat, only now and then. */
#define HR_BEAT_ROUNDS (HR_LANES == 1 ? 1u : 64u)

/* A worker of a role (compute: a block); each lane has a copy. */
struct hr_role_worker {
	struct hr_pipe *pipe;
	struct hr_worker_status *status;
	uint32_t role, index, count; /* the index-th of count */
	struct hr_nvme_qp *qp;	     /* its queue pairs; not of compute */
	uint32_t turn;	       /* prefetch, writeback: of its slots, the one to look at first */
	uint32_t spins;	       /* of hr_idle() */
	uint32_t parked;       /* commands of its slots that wait to be sent again */
	bool failed;	       /* this worker starts nothing any more */
	bool dead;	       /* and waits for nothing: a queue of its own broke */
	uint64_t tiles, bytes; /* through with; of the counting thread */
	uint64_t start, mark;  /* hr_cycles() at the start and of this round */
	struct hr_worker_cost cost;
};

/* Slots of this worker are index, index + count, ... */
HR_WORKER void hr_role_worker_set(struct hr_role_worker *w, struct hr_pipe *pipe, uint32_t role,
				  uint32_t index, uint32_t count)
{
	w->pipe = pipe;
	w->status = &pipe->status[hr_pipe_first_status(pipe, role) + index];
	w->role = role;
	w->index = index;
	w->count = count;
	w->turn = 0;
	w->spins = 0;
	w->parked = 0;
	w->failed = false;
	w->dead = false;
	w->tiles = w->bytes = 0;
	w->start = w->mark = hr_cycles();
	w->cost.rounds = w->cost.busy_rounds = w->cost.busy_cycles = 0;
}

/* The worker has ended; one thread, after all others of it have. */
HR_WORKER void hr_role_done(struct hr_role_worker *w)
{
	w->cost.cycles = hr_cycles() - w->start;
	w->status->cost = w->cost;
	hr_release_sys_u32(&w->status->done, 1);
}

/* One more tile. One thread, always the same. */
HR_WORKER void hr_role_count(struct hr_role_worker *w, uint64_t bytes)
{
	hr_relaxed_sys_u64(&w->status->bytes, w->bytes += bytes);
	hr_relaxed_sys_u64(&w->status->tiles, ++w->tiles);
}

/* True in rounds that look at host memory. */
HR_WORKER bool hr_role_turn(const struct hr_role_worker *w)
{
	return w->cost.rounds % HR_BEAT_ROUNDS == 0;
}

/* The end of a round with progress, or without; keeps the heartbeat going. One worker. */
HR_WORKER void hr_role_beat(struct hr_role_worker *w, bool progress)
{
	const uint64_t now = hr_cycles();

	if (hr_role_turn(w) && hr_lane() == 0)
		hr_relaxed_sys_u64(&w->status->heartbeat, w->cost.rounds + 1);
	w->cost.rounds++;
	if (progress) {
		w->cost.busy_rounds++;
		w->cost.busy_cycles += now - w->mark;
		w->mark = now;
		w->spins = 0;
	} else {
		hr_idle(&w->spins);
		w->mark = hr_cycles();
	}
}

/* Other workers change these words at any time, so lane 0 looks and all lanes see the same.
 * Collective. */
HR_WORKER bool hr_role_stopped(const struct hr_role_worker *w)
{
	return w->failed || hr_shfl_u32(hr_acquire_u32(&w->pipe->stop), 0) != 0;
}

/*
 * At the end of a round: the host has found that commands will not complete, so this worker waits
 * for none, and starts none. Looked at only in rounds without progress, as there are no others then.
 * Collective.
 */
HR_WORKER void hr_role_heed(struct hr_role_worker *w, bool progress)
{
	uint32_t stop = HR_STOP_NOT;

	if (progress || !hr_role_turn(w))
		return;
	if (hr_lane() == 0)
		stop = hr_acquire_sys_u32(&w->pipe->control->stop);
	if (hr_shfl_u32(stop, 0) == HR_STOP_WAITING)
		w->failed = w->dead = true;
}

/* Slots of the worker. */
HR_WORKER uint32_t hr_role_slots(const struct hr_role_worker *w)
{
	return w->index < w->pipe->slots ? (w->pipe->slots - w->index - 1) / w->count + 1 : 0;
}

/*
 * Which of its n slots it looks at as the k-th, or n for k >= n. It begins with the one that the
 * queue had no room for, so that those in front do not take all the room there is.
 */
HR_WORKER uint32_t hr_role_in_turn(const struct hr_role_worker *w, uint32_t k, uint32_t n)
{
	if (k >= n)
		return n;
	return w->turn + k < n ? w->turn + k : w->turn + k - n;
}

/*
 * The j-th slot of the worker for the calling lane, as it is just now: *s is its number, when there
 * is one, and the result its state; else HR_SLOT_CLOSED, which nobody wants.
 */
HR_WORKER uint32_t hr_role_look(const struct hr_role_worker *w, uint32_t j, uint32_t *s)
{
	*s = w->index + j * w->count;
	return *s < w->pipe->slots ? hr_acquire_u32(&w->pipe->slot[*s].state) : HR_SLOT_CLOSED;
}

HR_WORKER uint32_t hr_role_state(const struct hr_slot *slot)
{
	return hr_shfl_u32(hr_acquire_u32(&slot->state), 0);
}

/* Hand the slot on; everything this worker wrote for it is visible to the next. Collective. */
HR_WORKER void hr_role_hand_on(struct hr_slot *slot, enum hr_slot_state state)
{
	hr_lanes_sync();
	if (hr_lane() == 0)
		hr_release_u32(&slot->state, (uint32_t)state);
	hr_lanes_sync();
}

/* A lane's completion, in all lanes. Collective. */
HR_WORKER void hr_done_of_lane(struct hr_done *done, const struct hr_done *mine, uint32_t lane)
{
	done->token = hr_shfl_u32(mine->token, lane);
	done->cid = (uint16_t)hr_shfl_u32(mine->cid, lane);
	done->status = (uint16_t)hr_shfl_u32(mine->status, lane);
	done->dnr = hr_shfl_u32(mine->dnr, lane) != 0;
	done->crd = (uint8_t)hr_shfl_u32(mine->crd, lane);
	done->dw0 = 0;
}

/* Lanes among `mask` that name the same slot as the lowest of them, *s. Collective. */
HR_WORKER uint32_t hr_role_group(uint32_t mask, uint32_t mine, uint32_t *s)
{
	*s = hr_shfl_u32(mine, hr_lowest_bit(mask));
	return hr_ballot((mask >> hr_lane() & 1) && mine == *s);
}

/* What a failure record says about it. */
HR_WORKER int32_t hr_role_error(const struct hr_done *done)
{
	return done->status == HR_STATUS_LOST ? -ETIMEDOUT : done->status;
}

/* The command a completion belongs to, as a failure record tells it. */
struct hr_role_command {
	int32_t error;
	uint32_t slot, source, chunk;
	uint16_t cid;
	uint8_t opcode;
};

/*
 * A command of the slot that has failed: it waits to be sent again, where that may help, it has not
 * had its tries, and the pause ends before the deadline of the first one that failed. *tries counts
 * those of the tile. False: it is not sent again. Collective.
 */
HR_WORKER bool hr_role_park(struct hr_role_worker *w, struct hr_slot *slot, uint32_t *tries,
			    const struct hr_nvme_qp *qp, const struct hr_done *done)
{
	const uint32_t tried = *tries;
	const uint64_t now = hr_shfl_u64(hr_clock_ns(), 0);
	const uint64_t first = tried ? slot->failed_first_ns : now;
	const uint64_t until = now + hr_qp_retry_pause(qp, done->crd, tried);

	if (w->failed || tried >= hr_status_retries(done->status, done->dnr) ||
	    until - first > qp->timeout_ns)
		return false;
	hr_lanes_sync();
	if (hr_lane() == 0) {
		*tries = tried + 1;
		slot->failed_first_ns = first;
		slot->parked_token[slot->parked++] = done->token;
		if (slot->parked == 1 || until > slot->parked_until_ns)
			slot->parked_until_ns = until;
	}
	w->parked++;
	hr_lanes_sync();
	return true;
}

/* A parked command of the slot that may go now, the last of them, in *token. Collective. */
HR_WORKER bool hr_role_parked(const struct hr_slot *slot, uint64_t now, uint32_t *token)
{
	const uint32_t parked = slot->parked;

	if (!parked || slot->parked_until_ns > now)
		return false;
	*token = slot->parked_token[parked - 1];
	return true;
}

/* It has gone, or it never will. Collective. */
HR_WORKER void hr_role_unpark(struct hr_role_worker *w, struct hr_slot *slot, uint32_t count)
{
	hr_lanes_sync();
	if (hr_lane() == 0)
		slot->parked -= count;
	w->parked -= count;
	hr_lanes_sync();
}

/* The first failure of the worker is kept; the whole pipeline starts nothing new. Collective. */
HR_DEVICE void hr_role_fail(struct hr_role_worker *w, const struct hr_extent *extent,
			    uint32_t tile_bytes, const struct hr_nvme_qp *qp,
			    const struct hr_role_command *command);

/* Worker code of the operator of that id, block-collective; the program, and each worker image, has
 * its own. Its contract is in gpu/ops/operator.h. */
HR_DEVICE void hr_op_init(uint32_t op, const void *args, void *state);
HR_DEVICE uint32_t hr_op_tile(uint32_t op, const void *args, void *state,
			      const struct hr_op_tile *tile);
HR_DEVICE void hr_op_finish(uint32_t op, const struct hr_op_all *all);

/* The three roles: what the block-th one of a role does until its slots are closed.
 * Block-collective. */
HR_DEVICE void hr_prefetch_block(struct hr_pipe *pipe, uint32_t block);
HR_DEVICE void hr_compute_block(struct hr_pipe *pipe, uint32_t block);
HR_DEVICE void hr_writeback_block(struct hr_pipe *pipe, uint32_t block);

#endif
