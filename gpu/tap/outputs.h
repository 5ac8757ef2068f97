/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu/tap/outputs.h - outputs of slots: how the tap takes computed tiles over, and which slot has which
 * output; for gpu/tap/role.c. Worker code.
 */
#ifndef GPU_TAP_OUTPUTS_H
#define GPU_TAP_OUTPUTS_H

#include "gpu/tap/role.h"

#define TAP_NOTHING UINT32_MAX

/* The slot that has output s. */
HR_WORKER uint32_t tap_slot_of(const struct hr_tap_role *tap, uint32_t s)
{
	return tap->lending[s].slot ^ s;
}

/* The output of slot s. */
HR_WORKER uint32_t tap_out_of(const struct hr_tap_role *tap, uint32_t s)
{
	return tap->lending[s].out ^ s;
}

/* True when slot s has a tile that can be taken over; an acquire. */
HR_WORKER bool tap_can_take(const struct hr_pipe *pipe, uint32_t s)
{
	const struct hr_slot *slot = &pipe->slot[s];

	if (pipe->tap->lending[tap_out_of(pipe->tap, s)].tile_state ||
	    hr_poll_u32(&slot->state) != HR_SLOT_COMPUTED)
		return false;
	hr_polled(&slot->state);
	return true;
}

/* After tap_can_take(): take the tile over; false: compute has stopped the pipeline. */
HR_WORKER bool tap_take_tile(const struct hr_pipe *pipe, uint32_t s)
{
	struct hr_tap_lending *lending = &pipe->tap->lending[tap_out_of(pipe->tap, s)];
	const struct hr_slot *slot = &pipe->slot[s];
	/* before any store, so that all loads are in flight together */
	const uint32_t bytes = slot->out_bytes, ready_ns = slot->computed_ns;
	const uint64_t tile = slot->tile, now = hr_clock_ns();

	if (bytes == HR_OUT_BROKEN)
		return false;
	lending->bytes = bytes;
	lending->ready_ns = now - ((uint32_t)now - ready_ns); /* less than 4 s ago */
	hr_relaxed_u64(&lending->tile, tile);
	hr_relaxed_u32(&lending->tile_state, HR_TAP_TAKEN);
	return true;
}

/* Take over all tiles that are computed; true: there were any. Their slots stay COMPUTED until
 * tap_hand_over(), because consumers wait for the tiles now. Collective. */
HR_WORKER bool tap_take_all(const struct hr_pipe *pipe)
{
	bool any = false;
	uint32_t base;

	for (base = 0; base < pipe->slots; base += HR_LANES) {
		const uint32_t s = base + hr_lane();

		any |= hr_ballot(s < pipe->slots && tap_can_take(pipe, s) &&
				 tap_take_tile(pipe, s)) != 0;
	}
	hr_lanes_sync();
	return any;
}

/* Prefetch reads the next tiles of the slots that were taken over. Collective. */
HR_WORKER void tap_hand_over(const struct hr_pipe *pipe)
{
	uint32_t s;

	for (s = hr_lane(); s < pipe->slots; s += HR_LANES) {
		struct hr_tap_lending *lending = &pipe->tap->lending[tap_out_of(pipe->tap, s)];
		const bool taken = lending->tile_state == HR_TAP_TAKEN;

		if (!taken && lending->tile_state != HR_TAP_DROPPED)
			continue;
		hr_relaxed_u32(&pipe->slot[s].out_state, taken ? HR_OUT_LENT : HR_OUT_FREE);
		hr_relaxed_u32(&lending->tile_state, taken ? HR_TAP_TILE : HR_TAP_NONE);
		hr_release_u32(&pipe->slot[s].state, HR_SLOT_FREE);
	}
	hr_lanes_sync();
}

/* Exchange the outputs of two slots, whose compute waits. One lane. */
HR_WORKER void tap_exchange(const struct hr_pipe *pipe, uint32_t a, uint32_t b)
{
	struct hr_tap_lending *lending = pipe->tap->lending;
	const uint32_t of_a = tap_out_of(pipe->tap, a), of_b = tap_out_of(pipe->tap, b);
	const struct hr_buffer out = pipe->slot[a].out;

	pipe->slot[a].out = pipe->slot[b].out;
	pipe->slot[b].out = out;
	lending[a].out = of_b ^ a;
	lending[b].out = of_a ^ b;
	lending[of_a].slot = b ^ of_a;
	lending[of_b].slot = a ^ of_b;
}

/* True when slot s has its next tile, and consumers hold its output. */
HR_WORKER bool tap_waits(const struct hr_pipe *pipe, uint32_t s)
{
	return pipe->tap->lending[tap_out_of(pipe->tap, s)].tile_state == HR_TAP_TILE &&
	       hr_poll_u32(&pipe->slot[s].state) == HR_SLOT_FILLED;
}

/* True when slot s has a free output, and no tile for it yet. */
HR_WORKER bool tap_has_spare(const struct hr_pipe *pipe, uint32_t s)
{
	const uint32_t state = hr_poll_u32(&pipe->slot[s].state);

	return !pipe->tap->lending[tap_out_of(pipe->tap, s)].tile_state &&
	       state != HR_SLOT_FILLED && state != HR_SLOT_COMPUTED &&
	       hr_poll_u32(&pipe->slot[s].out_state) == HR_OUT_FREE;
}

/* The first slot that waits, or has a spare output; TAP_NOTHING: none. Collective. */
HR_WORKER uint32_t tap_first(const struct hr_pipe *pipe, bool spare)
{
	uint32_t base;

	for (base = 0; base < pipe->slots; base += HR_LANES) {
		const uint32_t s = base + hr_lane();
		const hr_mask mask = hr_ballot(
			s < pipe->slots && (spare ? tap_has_spare(pipe, s) : tap_waits(pipe, s)));

		if (mask)
			return base + hr_lowest_bit(mask);
	}
	return TAP_NOTHING;
}

/* Give a slot whose tile waits for a consumer another output; true: it has one now. Not in each round:
 * consumers that give tiles back soon need none of this. Collective. */
HR_WORKER bool tap_unblock(const struct hr_pipe *pipe)
{
	const uint32_t s = tap_first(pipe, false);
	const uint32_t spare = s == TAP_NOTHING ? TAP_NOTHING : tap_first(pipe, true);
	bool done = false;

	if (spare == TAP_NOTHING)
		return false;
	hr_lanes_sync();
	/* compute may have begun there */
	if (hr_lane() == 0 &&
	    hr_replace_u32(&pipe->slot[spare].out_state, HR_OUT_FREE, HR_OUT_LENT)) {
		tap_exchange(pipe, s, spare);
		hr_release_u32(&pipe->slot[s].out_state, HR_OUT_FREE);
		done = true;
	}
	return hr_shfl_u32(done, 0) != 0;
}

/* The least value of all lanes. Collective. */
HR_WORKER uint64_t tap_least(uint64_t v)
{
	uint32_t distance;

	for (distance = HR_LANES / 2; distance; distance /= 2) {
		const uint64_t other = hr_shfl_u64(v, hr_lane() ^ distance);

		v = other < v ? other : v;
	}
	return v;
}

/* The output with the lowest tile, at least `from`, that is not lent. Collective. */
HR_WORKER uint32_t tap_oldest(const struct hr_pipe *pipe, uint64_t from)
{
	uint32_t s, mine = TAP_NOTHING;
	uint64_t least, tile = UINT64_MAX;
	hr_mask lanes;

	for (s = hr_lane(); s < pipe->slots; s += HR_LANES) {
		const struct hr_tap_lending *lending = &pipe->tap->lending[s];
		const bool has =
			lending->tile_state == HR_TAP_TILE || lending->tile_state == HR_TAP_TAKEN;

		if (!has || lending->seats || lending->tile < from || lending->tile >= tile)
			continue;
		tile = lending->tile;
		mine = s;
	}
	lanes = hr_ballot(mine != TAP_NOTHING);
	if (lanes & (lanes - 1)) {
		least = tap_least(tile);
		lanes = hr_ballot(mine != TAP_NOTHING && tile == least);
	}
	return lanes ? hr_shfl_u32(mine, hr_lowest_bit(lanes)) : TAP_NOTHING;
}

#endif
