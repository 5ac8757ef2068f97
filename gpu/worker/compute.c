/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compute: a whole block runs the operator on one tile after another, and computes the checksums of
 * its input and output. When tiles lie in host memory and are copied to block copies, the pass that
 * copies also computes the checksum, so that the data crosses the link only once.
 */
#include "gpu/worker/checksum.h"
#include "gpu/worker/role.h"
#include "gpu/worker/vector.h"

/* State of this worker of the block. */
HR_WORKER void *compute_state_of(const struct hr_pipe *pipe, uint32_t index)
{
	const uint32_t worker = index * pipe->workers[HR_ROLE_COMPUTE] + hr_warp();

	return pipe->state_bytes ? pipe->op_states + (uint64_t)worker * pipe->state_bytes : NULL;
}

/* `lent`: other processes read the output, at another address. */
HR_WORKER void compute_release_slot(struct hr_slot *slot, enum hr_slot_state state, bool lent)
{
	hr_block_sync();
	if (hr_thread() != 0)
		return;
	if (!lent) {
		hr_release_u32(&slot->state, (uint32_t)state);
		return;
	}
	/* Here, because the tap's worker has the tiles of all blocks, and tells of them without a fence
	 * of its own, which takes a GPU more than a microsecond. */
	hr_release_alias();
	hr_release_sys();
	hr_fenced_sys_u64((uint64_t *)(void *)&slot->state, hr_clock_ns() << 32 | (uint32_t)state);
}

/* The block's copies of tiles, or NULL. */
HR_WORKER uint8_t *compute_copy_of(const struct hr_pipe *pipe, uint32_t index)
{
	return pipe->copy ? pipe->copy + index * pipe->copy_bytes : NULL;
}

HR_WORKER const struct hr_checksum_tables *compute_tables(void)
{
	return (const struct hr_checksum_tables *)hr_launch_memory();
}

HR_WORKER void compute_describe(const struct hr_role_worker *w, const struct hr_slot *slot,
				struct hr_op_tile *tile)
{
	const struct hr_pipe *pipe = w->pipe;
	uint32_t i;

	tile->index = slot->tile;
	for (i = 0; i < pipe->sources; i++) {
		const struct hr_pipe_source *from = &pipe->source[i];

		tile->in[i] = slot->in[i].data;
		tile->in_bytes[i] = hr_tile_bytes(&from->extent, from->tile_bytes, slot->tile);
	}
	tile->out = pipe->has_sink ? slot->out.data : NULL;
	if (pipe->out_copy_bytes)
		tile->out = compute_copy_of(pipe, w->index);
	tile->out_capacity = pipe->has_sink ? slot->out.bytes : 0;
	tile->record =
		pipe->record_bytes ? pipe->op_records + slot->tile * pipe->record_bytes : NULL;
}

HR_WORKER uint64_t compute_bytes(const struct hr_pipe *pipe, const struct hr_op_tile *tile)
{
	uint64_t bytes = 0;
	uint32_t i;

	for (i = 0; i < pipe->sources; i++)
		bytes += tile->in_bytes[i];
	return bytes;
}

/*
 * Process the tile of one source: compute its checksum, and copy it to the block's copy (NULL: no
 * copy). The copy is rounded up to 16 bytes; the buffer has whole pages, so these bytes exist.
 */
HR_WORKER void compute_take(const struct hr_pipe_source *from, const struct hr_op_tile *tile,
			    uint32_t i, uint8_t *copy)
{
	uint32_t crc;

	if (from->crc) {
		crc = hr_checksum_tile(compute_tables(), tile->in[i], tile->in_bytes[i], copy);
		if (hr_thread() == 0)
			from->crc[tile->index] = crc;
	} else if (copy) {
		hr_copy_vectors((struct hr_vector *)(void *)copy,
				(const struct hr_vector *)(const void *)tile->in[i],
				(tile->in_bytes[i] + 15) / 16);
	}
}

/* Copy tiles from host memory to the block's copies, and compute the checksums of the input. */
HR_WORKER void compute_fetch(const struct hr_role_worker *w, struct hr_op_tile *tile)
{
	const struct hr_pipe *pipe = w->pipe;
	uint8_t *to = compute_copy_of(pipe, w->index);
	uint32_t i;

	if (to)
		to += pipe->out_copy_bytes;
	for (i = 0; i < pipe->sources; i++) {
		const struct hr_pipe_source *from = &pipe->source[i];

		compute_take(from, tile, i, from->copied ? to : NULL);
		if (!from->copied)
			continue;
		tile->in[i] = to;
		to += (from->tile_bytes + HR_PAGE - 1) & ~(HR_PAGE - 1);
	}
	if (to)
		hr_block_sync();
}

HR_WORKER void compute_zero(uint8_t *data, uint32_t from, uint32_t end)
{
	uint32_t i;

	for (i = from + hr_thread(); i < end; i += hr_threads())
		data[i] = 0;
}

/*
 * Put the output into the slot, with its checksum, for write-back. The disk needs whole blocks, so
 * the rest of the last block is zeroed. All threads use the expected size: a faulty operator may
 * return different sizes in different threads.
 */
HR_WORKER void compute_deliver(const struct hr_pipe *pipe, const struct hr_slot *slot,
			       const struct hr_op_tile *tile)
{
	const uint32_t bytes = hr_tile_bytes(&pipe->sink, pipe->sink_tile_bytes, slot->tile);
	const uint32_t mask = ((uint32_t)1 << pipe->sink.lba_shift) - 1;
	const uint32_t vectors_end = (bytes + 15) & ~15u;
	uint32_t crc;

	compute_zero(tile->out, bytes, vectors_end);
	compute_zero(slot->out.data, vectors_end, (bytes + mask) & ~mask);
	if (!pipe->sink_crc)
		return;
	hr_block_sync();
	crc = hr_checksum_tile(compute_tables(), tile->out, bytes,
			       pipe->out_copy_bytes ? slot->out.data : NULL);
	if (hr_thread() == 0)
		pipe->sink_crc[slot->tile] = crc;
}

/*
 * The operator returned an unexpected size: the tile is not written, and no new tile is started.
 * One thread. It does not access the worker's struct, which would cost registers in every pipeline.
 */
HR_WORKER void compute_fail(struct hr_pipe *pipe, struct hr_worker_status *status,
			    struct hr_slot *slot, uint32_t out_bytes)
{
	struct hr_failure *failure = &status->failure;

	slot->out_bytes = HR_OUT_BROKEN;
	if (status->failed)
		return;
	failure->error = -ERANGE;
	failure->role = HR_ROLE_COMPUTE;
	failure->tile = slot->tile;
	failure->object = pipe->sink.id;
	failure->out_bytes = out_bytes;
	failure->out_promised = hr_tile_bytes(&pipe->sink, pipe->sink_tile_bytes, slot->tile);
	hr_release_sys_u32(&status->failed, 1);
	hr_release_u32(&pipe->stop, 1);
}

/* A faulty operator may return different values per thread; only the value of thread 0 is used,
 * so that the threads stay together. */
HR_WORKER void compute_run_tile(struct hr_role_worker *w, struct hr_slot *slot)
{
	struct hr_pipe *pipe = w->pipe;
	struct hr_op_tile tile = { 0 };
	uint32_t out_bytes;

	compute_describe(w, slot, &tile);
	if (hr_thread() == 0)
		hr_relaxed_sys_u64(&w->status->tile, slot->tile);
	compute_fetch(w, &tile);
	out_bytes = hr_op_tile(pipe->op, pipe->op_args, compute_state_of(pipe, w->index), &tile);
	if (pipe->has_sink)
		compute_deliver(pipe, slot, &tile);
	if (hr_thread() == 0) {
		if (pipe->has_sink &&
		    out_bytes != hr_tile_bytes(&pipe->sink, pipe->sink_tile_bytes, slot->tile)) {
			compute_fail(pipe, w->status, slot, out_bytes);
		} else {
			slot->out_bytes = out_bytes;
			hr_role_count_tile(w, compute_bytes(pipe, &tile));
		}
	}
	compute_release_slot(slot, pipe->has_sink ? HR_SLOT_COMPUTED : HR_SLOT_FREE,
			     w->launch != 0);
}

#define COMPUTE_NOTHING UINT32_MAX
#define COMPUTE_LEAVES (UINT32_MAX - 1)

/* The lane among `filled` whose slot holds the lowest tile; *best keeps that tile over several
 * calls. */
HR_WORKER uint32_t compute_oldest(hr_mask filled, uint32_t mine, uint64_t tile, uint64_t *best,
				  uint32_t found)
{
	for (; filled; filled &= filled - 1) {
		const uint32_t lane = hr_lowest_bit(filled);
		const uint64_t its = hr_shfl_u64(tile, lane);
		const uint32_t slot = hr_shfl_u32(mine, lane);

		if (its < *best) {
			*best = its;
			found = slot;
		}
	}
	return found;
}

/*
 * As hr_role_poll_slot(); a filled slot whose output has a tile that consumers hold counts as
 * free. When the run stops they keep it, so the slot's next tile is discarded.
 */
HR_WORKER uint32_t compute_poll_slots(const struct hr_role_worker *w, uint32_t j, uint32_t *s)
{
	const uint32_t state = hr_role_poll_slot(w, j, s);
	struct hr_slot *slot;
	uint32_t held;

	if (!w->launch || state != HR_SLOT_FILLED)
		return state;
	slot = &w->pipe->slot[*s];
	hr_polled(&slot->state);
	held = hr_poll_u32(&slot->out_state);
	if (held == HR_OUT_FREE)
		return state;
	if (held == HR_OUT_ABANDONED)
		hr_release_u32(&slot->state, HR_SLOT_FREE);
	return HR_SLOT_FREE;
}

/* True when the slot's output is the block's now: the tap may have given it to another slot.
 * Collective, by the first worker. */
HR_WORKER bool compute_claim(const struct hr_role_worker *w, uint32_t s)
{
	uint32_t claimed = 1;

	if (w->launch && hr_lane() == 0)
		claimed =
			hr_replace_u32(&w->pipe->slot[s].out_state, HR_OUT_FREE, HR_OUT_COMPUTING);
	return hr_shfl_u32(claimed, 0) != 0;
}

/*
 * Check all slots once, one per lane: returns the filled one with the lowest tile, or
 * COMPUTE_NOTHING. Slots in state CLOSING are closed; *open is the number of slots that are not
 * closed. Collective.
 */
HR_WORKER uint32_t compute_slots(const struct hr_role_worker *w, uint32_t *open)
{
	uint32_t found = COMPUTE_NOTHING, base, s;
	uint64_t best = UINT64_MAX;

	for (base = 0; w->index + base * w->count < w->pipe->slots; base += HR_LANES) {
		const uint32_t state = compute_poll_slots(w, base + hr_lane(), &s);
		const hr_mask filled = hr_ballot(state == HR_SLOT_FILLED);
		const bool closing = state == HR_SLOT_CLOSING;

		if (closing || state == HR_SLOT_FILLED)
			hr_polled(&w->pipe->slot[s].state);
		if (filled)
			found = compute_oldest(filled, s,
					       state == HR_SLOT_FILLED ? w->pipe->slot[s].tile : 0,
					       &best, found);
		if (closing)
			hr_release_u32(&w->pipe->slot[s].state, HR_SLOT_CLOSED);
		*open += hr_count_bits(hr_ballot(!closing && state != HR_SLOT_CLOSED));
	}
	return found;
}

/* Wait for the block's next slot; COMPUTE_NOTHING when all are closed; COMPUTE_LEAVES. Called by the
 * first worker. */
HR_WORKER uint32_t compute_next(struct hr_role_worker *w)
{
	uint32_t open, found;
	bool leaves;

	hr_lanes_sync(); /* all lanes see the state that lane 0 has just written */
	do {
		open = 0;
		found = compute_slots(w, &open);
		if (found != COMPUTE_NOTHING && !compute_claim(w, found))
			found = COMPUTE_NOTHING;
		hr_role_end_round(w, found != COMPUTE_NOTHING);
		leaves = w->launch && hr_shfl_u32(hr_role_leaves_launch(w), 0);
	} while (found == COMPUTE_NOTHING && open && !leaves);
	hr_lanes_sync();
	return found == COMPUTE_NOTHING && open ? COMPUTE_LEAVES : found;
}

enum compute_end { COMPUTE_PART, COMPUTE_WHOLE, COMPUTE_AGAIN };

/* Wait until all other compute blocks have ended. COMPUTE_WHOLE: every tile was computed;
 * COMPUTE_AGAIN: this block leaves the launch, as they may have. Thread 0 of block 0. */
HR_WORKER enum compute_end compute_wait_for_all(struct hr_role_worker *w)
{
	const struct hr_pipe *pipe = w->pipe;
	const struct hr_worker_status *first = w->status;
	uint64_t tiles = first->tiles;
	uint32_t i;

	for (i = 1; i < w->count; i++) {
		while (!hr_poll_sys_u32(&first[i].ended)) {
			if (hr_role_leaves_launch(w))
				return COMPUTE_AGAIN;
			hr_role_end_round(w, false);
		}
		hr_polled_sys(&first[i].ended);
		tiles += first[i].tiles;
	}
	return tiles == hr_pipe_total(pipe) - pipe->first_tile ? COMPUTE_WHOLE : COMPUTE_PART;
}

/* False: the block leaves the launch before all others have ended. */
HR_WORKER bool compute_finish(struct hr_role_worker *w)
{
	const struct hr_pipe *pipe = w->pipe;
	const uint32_t end = hr_block_xor_u32(hr_thread() == 0 ? compute_wait_for_all(w) : 0);
	struct hr_op_all all;

	if (end != COMPUTE_WHOLE)
		return end == COMPUTE_PART;
	all.args = pipe->op_args;
	all.tiles = hr_pipe_total(pipe);
	all.bytes = pipe->source[0].extent.bytes;
	all.tile_bytes = pipe->source[0].tile_bytes;
	all.workers = pipe->blocks[HR_ROLE_COMPUTE] * pipe->workers[HR_ROLE_COMPUTE];
	all.state_bytes = pipe->state_bytes;
	all.states = pipe->op_states;
	all.record_bytes = pipe->record_bytes;
	all.records = pipe->op_records;
	all.result = pipe->op_result;
	hr_op_finish(pipe->op, &all);
	return true;
}

/* Block-collective: return v of thread 0 in all threads, which then see all its writes. */
HR_WORKER uint32_t compute_share(uint32_t v)
{
	const uint32_t shared = hr_block_xor_u32(hr_thread() == 0 ? v : 0);

	hr_block_sync();
	return shared;
}

/* Copy the operator's memory of the block to the memory that it has between two launches, or back.
 * Block-collective. */
HR_WORKER void compute_keep(const struct hr_role_worker *w, bool back)
{
	uint8_t *kept = w->pipe->op_blocks + (uint64_t)w->index * HR_BLOCK_MEMORY;
	uint64_t *to = (uint64_t *)(void *)(back ? hr_block_memory() : kept);
	const uint64_t *from = (const uint64_t *)(const void *)(back ? kept : hr_block_memory());
	uint32_t i;

	hr_block_sync();
	for (i = hr_thread(); i < HR_BLOCK_MEMORY / sizeof(*to); i += hr_threads())
		to[i] = from[i];
	hr_block_sync();
}

HR_DEVICE void hr_compute_block(struct hr_pipe *pipe, uint32_t block)
{
	struct hr_role_worker w;
	uint32_t s;

	hr_role_init_in_pipeline(&w, pipe, HR_ROLE_COMPUTE, block, pipe->blocks[HR_ROLE_COMPUTE]);
	if (pipe->checksums)
		hr_checksum_prepare((struct hr_checksum_tables *)hr_launch_memory());
	if (w.launch > 1)
		compute_keep(&w, true);
	else
		hr_op_init(pipe->op, pipe->op_args, compute_state_of(pipe, w.index));
	hr_block_sync();
	while ((s = compute_share(hr_warp() == 0 ? compute_next(&w) : 0)) < COMPUTE_LEAVES)
		compute_run_tile(&w, &pipe->slot[s]);
	if (s != COMPUTE_LEAVES && w.index == 0 && !pipe->part && !compute_finish(&w))
		s = COMPUTE_LEAVES;
	if (s == COMPUTE_LEAVES)
		compute_keep(&w, false);
	hr_block_sync();
	if (hr_thread() != 0)
		return;
	if (s == COMPUTE_LEAVES)
		hr_role_save_counts(&w);
	else
		hr_role_end(&w);
}
