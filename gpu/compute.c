/*
 * Compute: a whole block runs the operator on one tile after another.
 */
#include "gpu/role.h"

/* State of this worker of the block. */
HR_WORKER void *compute_state_of(const struct hr_pipe *pipe, uint32_t index)
{
	const uint32_t worker = index * pipe->workers[HR_ROLE_COMPUTE] + hr_warp();

	return pipe->state_bytes ? pipe->op_states + (uint64_t)worker * pipe->state_bytes : NULL;
}

/* Block-collective: the state of a slot as thread 0 sees it, the same in all threads. */
HR_WORKER uint32_t compute_look(const struct hr_slot *slot)
{
	const uint32_t state =
		hr_block_xor_u32(hr_thread() == 0 ? hr_load_acquire_u32(&slot->state) : 0);

	hr_block_sync();
	return state;
}

HR_WORKER void compute_hand_on(struct hr_slot *slot, enum hr_slot_state state)
{
	hr_block_sync();
	if (hr_thread() == 0)
		hr_store_release_u32(&slot->state, (uint32_t)state);
}

/* The disk takes whole blocks: what lies behind the data in the last one is zero. */
HR_WORKER void compute_zero_tail(const struct hr_pipe *pipe, const struct hr_slot *slot,
				 uint32_t bytes)
{
	const uint32_t mask = ((uint32_t)1 << pipe->sink.lba_shift) - 1;
	const uint32_t end = (bytes + mask) & ~mask;
	uint32_t i;

	for (i = bytes + hr_thread(); i < end; i += hr_threads())
		slot->out.data[i] = 0;
}

HR_WORKER void compute_describe(const struct hr_pipe *pipe, const struct hr_slot *slot,
				struct hr_op_tile *tile)
{
	uint32_t i;

	tile->index = slot->tile;
	for (i = 0; i < pipe->sources; i++) {
		const struct hr_pipe_source *from = &pipe->source[i];

		tile->in[i] = slot->in[i].data;
		tile->in_bytes[i] = hr_tile_bytes(&from->extent, from->tile_bytes, slot->tile);
	}
	tile->out = pipe->has_sink ? slot->out.data : NULL;
	tile->out_capacity = pipe->has_sink ? slot->out.bytes : 0;
	tile->record =
		pipe->record_bytes ? pipe->op_records + slot->tile * pipe->record_bytes : NULL;
}

HR_WORKER void compute_run_tile(struct hr_role_worker *w, struct hr_slot *slot)
{
	struct hr_pipe *pipe = w->pipe;
	struct hr_op_tile tile = { 0 };
	uint32_t out_bytes;

	compute_describe(pipe, slot, &tile);
	out_bytes = hr_op_tile(pipe->op, pipe->op_args, compute_state_of(pipe, w->index), &tile);
	if (pipe->has_sink)
		compute_zero_tail(pipe, slot, out_bytes);
	if (hr_thread() == 0) {
		slot->out_bytes = out_bytes;
		hr_role_count(w, tile.in_bytes[0]);
	}
	compute_hand_on(slot, pipe->has_sink ? HR_SLOT_COMPUTED : HR_SLOT_FREE);
}

/* One look at a slot. True when a tile was computed; *open counts slots not yet closed. */
HR_WORKER bool compute_visit(struct hr_role_worker *w, struct hr_slot *slot, uint32_t *open)
{
	const uint32_t state = compute_look(slot);

	if (state == HR_SLOT_CLOSED)
		return false;
	if (state == HR_SLOT_CLOSING) {
		compute_hand_on(slot, HR_SLOT_CLOSED);
		return false;
	}
	++*open;
	if (state != HR_SLOT_FILLED)
		return false;
	compute_run_tile(w, slot);
	return true;
}

/* All other compute blocks have ended; true when every tile was computed. Thread 0 of block 0. */
HR_WORKER bool compute_wait_for_all(const struct hr_role_worker *w)
{
	const struct hr_pipe *pipe = w->pipe;
	const struct hr_worker_status *first = w->status;
	uint64_t tiles = first->tiles;
	uint32_t i, spins = 0;

	for (i = 1; i < w->count; i++) {
		while (!hr_load_acquire_sys_u32(&first[i].done))
			hr_idle(&spins);
		tiles += first[i].tiles;
	}
	return tiles == pipe->tiles - pipe->first_tile;
}

HR_WORKER void compute_finish(const struct hr_role_worker *w)
{
	const struct hr_pipe *pipe = w->pipe;
	struct hr_op_all all;

	if (!hr_block_xor_u32(hr_thread() == 0 && compute_wait_for_all(w) ? 1 : 0))
		return;
	all.args = pipe->op_args;
	all.tiles = pipe->tiles;
	all.bytes = pipe->source[0].extent.bytes;
	all.tile_bytes = pipe->source[0].tile_bytes;
	all.workers = pipe->blocks[HR_ROLE_COMPUTE] * pipe->workers[HR_ROLE_COMPUTE];
	all.state_bytes = pipe->state_bytes;
	all.states = pipe->op_states;
	all.record_bytes = pipe->record_bytes;
	all.records = pipe->op_records;
	all.result = pipe->op_result;
	hr_op_finish(pipe->op, &all);
}

HR_DEVICE void hr_compute_block(struct hr_pipe *pipe, uint32_t block)
{
	struct hr_role_worker w;
	uint32_t open, s;
	bool progress;

	hr_role_worker_set(&w, pipe, HR_ROLE_COMPUTE, block, pipe->blocks[HR_ROLE_COMPUTE]);
	hr_op_init(pipe->op, pipe->op_args, compute_state_of(pipe, w.index));
	hr_block_sync();
	do {
		progress = false;
		open = 0;
		for (s = w.index; s < pipe->slots; s += w.count)
			progress |= compute_visit(&w, &pipe->slot[s], &open);
		hr_role_beat(&w, progress);
	} while (open);
	if (w.index == 0)
		compute_finish(&w);
	hr_block_sync();
	if (hr_thread() == 0)
		hr_store_release_sys_u32(&w.status->done, 1);
}
