/*
 * gpu/tap/look.h - the words of a tap that tell the host what consumers hold; for gpu/tap/role.c.
 * Worker code.
 */
#ifndef GPU_TAP_LOOK_H
#define GPU_TAP_LOOK_H

#include "gpu/tap/role.h"

#define TAP_LOOK_NS 1000000u

HR_WORKER void tap_look_at_seat(const struct hr_pipe *pipe, uint32_t seat, uint64_t now)
{
	struct hr_tap_seat *words = &pipe->tap->words->seat[seat];
	uint64_t oldest_ns = 0, tile = 0;
	uint32_t s;

	for (s = 0; hr_fresh_u32(&pipe->tap->own[seat].held) && s < pipe->slots; s++) {
		const struct hr_tap_lending *lending = &pipe->tap->lending[s];

		/* the worker may lend it now, at a later time */
		const uint64_t lent_ns = hr_fresh_u64(&lending->lent_ns);
		const uint64_t held_ns = now > lent_ns ? now - lent_ns : 0;

		if (!(hr_fresh_u32(&lending->seats) >> seat & 1) || held_ns <= oldest_ns)
			continue;
		oldest_ns = held_ns;
		tile = hr_fresh_u64(&lending->tile);
	}
	hr_relaxed_sys_u64(&words->oldest_tile, tile);
	hr_release_sys_u64(&words->oldest_ns, oldest_ns);
}

/* Not in each round: the look costs a pass over the slots for each consumer. Collective. */
HR_WORKER void tap_look(const struct hr_pipe *pipe)
{
	struct hr_tap_role *tap = pipe->tap;
	const uint64_t now = hr_shfl_u64(hr_clock_ns(), 0);
	uint64_t waiting = 0;
	uint32_t base, seat;

	if (now - tap->looked_ns < TAP_LOOK_NS)
		return;
	for (seat = hr_lane(); seat < HR_TAP_SEATS; seat += HR_LANES)
		if (hr_fresh_u64(&tap->own[seat].sent))
			tap_look_at_seat(pipe, seat, now);
	for (base = 0; base < pipe->slots; base += HR_LANES) {
		const uint32_t s = base + hr_lane();

		waiting += hr_count_bits(hr_ballot(s < pipe->slots &&
						   !hr_fresh_u32(&tap->lending[s].seats) &&
						   hr_fresh_u32(&tap->lending[s].has)));
	}
	hr_lanes_sync();
	if (hr_lane() == 0) {
		hr_relaxed_u64(&tap->looked_ns, now); /* which the worker copies at its end */
		hr_relaxed_sys_u64(&tap->words->waiting, waiting);
	}
	hr_lanes_sync();
}

#endif
