/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu/tap/mirror.h - the words that the tap's worker waits for, mirrored in memory of its block; for
 * gpu/tap/role.c. Worker code.
 *
 * Pages of consumers and words of the host lie in host memory, where each load takes a GPU more
 * than a microsecond. So the second warp of the block (the watcher) loads them all the time, and
 * the worker looks at the block's own memory only. In a block of one worker the worker does the
 * watcher's step in each of its rounds.
 *
 * Loads of GPU memory take some hundred cycles, too, and an acquire empties the cache of the SM. So
 * the worker has a copy of the descriptors in the block's memory, with its own state, which it
 * writes back when it leaves the launch.
 *
 * The watcher reads what is lent while the worker changes it, so a mirrored word names the
 * generation that was compared. The worker accepts it only for the lending of that generation, and
 * for seats that have the tile.
 */
#ifndef GPU_TAP_MIRROR_H
#define GPU_TAP_MIRROR_H

#include "gpu/tap/role.h"
#include "gpu/worker/role.h"

/* ---- the words of a tap that tell the host what consumers hold; for gpu/tap/role.c.
 * Worker code.
 */

#define TAP_PUBLISH_NS 1000000u

HR_WORKER void tap_publish_seat(const struct hr_pipe *pipe, uint32_t seat, uint64_t now)
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
HR_WORKER void tap_publish_held(const struct hr_pipe *pipe)
{
	struct hr_tap_role *tap = pipe->tap;
	const uint64_t now = hr_shfl_u64(hr_clock_ns(), 0);
	uint64_t waiting = 0;
	uint32_t base, seat;

	if (now - tap->looked_ns < TAP_PUBLISH_NS)
		return;
	for (seat = hr_lane(); seat < HR_TAP_SEATS; seat += HR_LANES)
		if (hr_fresh_u64(&tap->own[seat].sent))
			tap_publish_seat(pipe, seat, now);
	for (base = 0; base < pipe->slots; base += HR_LANES) {
		const uint32_t s = base + hr_lane();

		waiting += hr_count_bits(hr_ballot(s < pipe->slots &&
						   !hr_fresh_u32(&tap->lending[s].seats) &&
						   hr_fresh_u32(&tap->lending[s].tile_state)));
	}
	hr_lanes_sync();
	if (hr_lane() == 0) {
		hr_relaxed_u64(&tap->looked_ns, now); /* which the worker copies at its end */
		hr_relaxed_sys_u64(&tap->words->waiting, waiting);
	}
	hr_lanes_sync();
}
/* Looks of the watcher at the pages between two looks at the words of the host: orders may come later
 * than tiles. */
#define TAP_MIRROR_STEPS 32u

/* Lendings of a pipeline with more slots stay where they are. */
#define TAP_NEAR_SLOTS 256u

/* In hr_block_memory(). */
struct tap_mirror {
	struct hr_pipe *far;	 /* the pipeline's descriptor */
	struct hr_pipe pipe;	 /* a copy, with `tap` here */
	struct hr_tap_role role; /* the state of the worker */
	struct hr_tap_lending lending[TAP_NEAR_SLOTS];
	uint32_t over; /* by the worker: the watcher ends */
	/* by the watcher */
	uint32_t stop;	    /* of the pipeline */
	uint32_t host_stop; /* enum hr_pipe_stop */
	uint32_t news;	    /* counts changes of the orders and credits, after them */
	uint32_t rounds;    /* of its loop that have ended */
	uint32_t order[HR_TAP_SEATS], credits[HR_TAP_SEATS];
	uint32_t set[HR_TAP_SEATS]; /* whose page it reads for a seat */
	/* what consumers have given back: generation << 32 | mask of seats that have failed << 16 |
	 * mask of seats */
	uint64_t back[HR_SLOTS_MAX];
};

HR_STATIC_ASSERT(sizeof(struct hr_pipe) % 8 == 0 && sizeof(struct hr_tap_role) % 8 == 0 &&
			 sizeof(struct hr_tap_lending) % 8 == 0,
		 "they are copied by words");
HR_STATIC_ASSERT(sizeof(struct tap_mirror) <= HR_BLOCK_MEMORY, "it is in the block's memory");
HR_STATIC_ASSERT(HR_TAP_SEATS <= 16, "a mask of seats has 16 bits");

HR_WORKER struct tap_mirror *tap_mirror(void)
{
	return (struct tap_mirror *)hr_block_memory();
}

/* Both have whole 8-byte words. By `count` threads, of which this one has the number `i`. */
HR_WORKER void tap_mirror_copy(void *to, const void *from, uint64_t bytes, uint32_t i,
			       uint32_t count)
{
	uint64_t *t = (uint64_t *)to;
	const uint64_t *f = (const uint64_t *)from;

	for (; i < bytes / sizeof(*t); i += count)
		t[i] = hr_fresh_u64(&f[i]);
}

/* As tap_mirror_copy(). Other workers run already and change words of their own, such as next_tile: the
 * tap's worker uses none of these in its copy. By all threads of the block. */
HR_WORKER void tap_mirror_copy_pipe(struct hr_pipe *to, const struct hr_pipe *from)
{
	uint64_t *t = (uint64_t *)(void *)to;
	const uint64_t *f = (const uint64_t *)(const void *)from;
	uint64_t i;

	for (i = hr_thread(); i < sizeof(*to) / sizeof(*t); i += hr_threads())
		t[i] = hr_acquire_u64(&f[i]);
}

HR_WORKER uint64_t tap_near_lendings(const struct hr_pipe *pipe)
{
	return pipe->slots <= TAP_NEAR_SLOTS ? pipe->slots * sizeof(struct hr_tap_lending) : 0;
}

/* Copy the descriptors; no mirrored word has changed yet. Returns the copy. Block-collective. */
HR_WORKER struct hr_pipe *tap_mirror_begin(struct hr_pipe *far)
{
	struct tap_mirror *watch = tap_mirror();
	uint32_t i;

	hr_block_sync();
	tap_mirror_copy_pipe(&watch->pipe, far);
	tap_mirror_copy(&watch->role, far->tap, sizeof(*far->tap), hr_thread(), hr_threads());
	tap_mirror_copy(watch->lending, far->tap->lending, tap_near_lendings(far), hr_thread(),
			hr_threads());
	for (i = hr_thread(); i < far->slots; i += hr_threads())
		watch->back[i] = 0;
	for (i = hr_thread(); i < HR_TAP_SEATS; i += hr_threads()) {
		watch->order[i] = far->tap->own[i].done;
		watch->credits[i] = far->tap->own[i].credits;
		watch->set[i] = hr_acquire_sys_u32(&far->tap->words->seat[i].set);
	}
	hr_block_sync();
	if (hr_thread() == 0) {
		watch->far = far;
		watch->pipe.tap = &watch->role;
		if (tap_near_lendings(far))
			watch->role.lending = watch->lending;
		watch->over = watch->stop = watch->host_stop = watch->news = watch->rounds = 0;
	}
	hr_block_sync();
	return &watch->pipe;
}

/* Write the state of the worker back. Collective. */
HR_WORKER void tap_mirror_write_back(void)
{
	struct tap_mirror *watch = tap_mirror();
	struct hr_tap_role *far = watch->far->tap;
	struct hr_tap_lending *lending = far->lending;

	hr_lanes_sync();
	tap_mirror_copy(lending, watch->lending, tap_near_lendings(&watch->pipe), hr_lane(),
			HR_LANES);
	tap_mirror_copy(far, &watch->role, sizeof(*far), hr_lane(), HR_LANES);
	hr_lanes_sync();
	if (hr_lane() == 0)
		far->lending = lending;
	hr_lanes_sync();
}

/* The mirrored word of a slot. `gens`: its generation in the page of set 0; the pages have so many
 * bytes. `set`: of each seat. A page is untrusted: a wrong word only gives back a tile of this seat, or
 * keeps it. */
HR_WORKER uint64_t tap_mirror_returned(const struct hr_tap_lending *lending, const uint8_t *gens,
				       uint64_t page_bytes, const uint32_t *set)
{
	const uint32_t gen = hr_fresh_u32(&lending->gen);
	uint32_t left = hr_fresh_u32(&lending->seats), back = 0, failed = 0;

	for (; left; left &= left - 1) {
		const uint32_t seat = hr_lowest_bit(left), bit = (uint32_t)1 << seat;
		const uint8_t *its = gens + set[seat] * page_bytes;
		const uint32_t *at = (const uint32_t *)(const void *)its;
		const uint32_t word = hr_poll_sys_u32(at);

		if ((word & ~HR_TAP_FAILED) != gen)
			continue;
		hr_polled_sys(at);
		back |= bit;
		failed |= word & HR_TAP_FAILED ? bit : 0;
	}
	return (uint64_t)gen << 32 | failed << 16 | back;
}

/*
 * As tap_mirror_slots(), with a slot in each lane whose tile has one consumer: from one load over
 * the link to the next there are no other loads but of the slot's lending and the seat's set, as all
 * else is in registers.
 */
HR_WORKER void tap_mirror_lanes(const struct hr_pipe *pipe, uint32_t times)
{
	const bool valid = hr_lane() < pipe->slots;
	const uint32_t s = valid ? hr_lane() : 0;
	const struct hr_tap_lending *lending = &pipe->tap->lending[s];
	const uint8_t *word =
		pipe->tap->pages + sizeof(struct hr_tap_returns) + s * sizeof(uint32_t);
	const uint64_t page_bytes = hr_tap_page_bytes(pipe->slots);
	const uint32_t *set = tap_mirror()->set;
	uint64_t *back = &tap_mirror()->back[s], was = *back;

	for (; times; times--) {
		const uint32_t seats = valid ? hr_fresh_u32(&lending->seats) : 0;
		const uint32_t gen = hr_fresh_u32(&lending->gen);
		const uint64_t at = seats ? set[hr_lowest_bit(seats)] * page_bytes : 0;
		const uint32_t *gens = (const uint32_t *)(const void *)(word + at);
		const uint32_t found = seats ? hr_poll_sys_u32(gens) : 0;
		const uint32_t failed = found & HR_TAP_FAILED ? seats : 0;
		const uint64_t now = (uint64_t)gen << 32 | failed << 16 | seats;

		if (!seats || (found & ~HR_TAP_FAILED) != gen || now == was)
			continue;
		hr_polled_sys(gens);
		hr_release_u64(back, now);
		was = now;
	}
}

/* Mirror what was given back, so many times. What was seen stays for that lending, whatever the
 * consumer stores later: the worker may have lent it another tile for it. */
HR_WORKER void tap_mirror_slots(const struct hr_pipe *pipe, uint32_t times)
{
	const uint8_t *gens = pipe->tap->pages + sizeof(struct hr_tap_returns);
	const struct hr_tap_lending *lending = pipe->tap->lending;
	const uint64_t page_bytes = hr_tap_page_bytes(pipe->slots);
	const uint32_t slots = pipe->slots;
	struct tap_mirror *watch = tap_mirror();
	const uint32_t *set = watch->set;
	uint64_t *back = watch->back;
	uint32_t s;

	for (; times; times--)
		for (s = hr_lane(); s < slots; s += HR_LANES) {
			const uint64_t was = back[s];
			uint64_t now = tap_mirror_returned(&lending[s], gens + s * sizeof(uint32_t),
							   page_bytes, set);

			now |= was >> 32 == now >> 32 ? was : 0;
			if (now != was)
				hr_release_u64(&back[s], now);
		}
}

/* Mirror the seats' orders, and the credits, which the host changes at any time. An order was given
 * after all that `back` has to tell of the time before it, so the pages are read between the order
 * and its mirror. The set of a seat changes only while no tile is lent to it. Collective. */
HR_WORKER void tap_mirror_orders(const struct hr_pipe *pipe)
{
	const uint32_t seat = hr_lane();
	struct tap_mirror *watch = tap_mirror();
	uint32_t base, orders[(HR_TAP_SEATS + HR_LANES - 1) / HR_LANES];
	bool news = false;

	for (base = 0; base < HR_TAP_SEATS; base += HR_LANES)
		orders[base / HR_LANES] =
			base + seat < HR_TAP_SEATS
				? hr_acquire_sys_u32(&pipe->tap->words->seat[base + seat].order)
				: 0;
	tap_mirror_slots(pipe, 1);
	hr_lanes_sync();
	for (base = 0; base < HR_TAP_SEATS; base += HR_LANES) {
		const bool valid = base + seat < HR_TAP_SEATS;
		const uint32_t i = valid ? base + seat : 0;
		const uint32_t order = orders[base / HR_LANES];
		const uint32_t credits =
			valid ? hr_acquire_sys_u32(&pipe->tap->words->seat[i].credits) : 0;
		const bool changed =
			valid && (order != watch->order[i] || credits != watch->credits[i]);

		if (changed) {
			hr_relaxed_u32(&watch->set[i],
				       hr_acquire_sys_u32(&pipe->tap->words->seat[i].set));
			hr_relaxed_u32(&watch->order[i], order);
			hr_relaxed_u32(&watch->credits[i], credits);
		}
		news |= hr_ballot(changed) != 0;
	}
	hr_lanes_sync();
	if (news && hr_lane() == 0)
		hr_release_u32(&watch->news, watch->news + 1);
}

/* Look once at all words. Collective. */
HR_WORKER void tap_mirror_step(const struct hr_pipe *pipe)
{
	struct tap_mirror *watch = tap_mirror();

	if (hr_lane() == 0) {
		hr_relaxed_u32(&watch->stop, hr_poll_u32(&watch->far->stop));
		hr_relaxed_u32(&watch->host_stop, hr_poll_sys_u32(&pipe->control->stop));
	}
	tap_mirror_orders(pipe);
	tap_publish_held(pipe);
}

/* Return after all lanes of the watcher have looked at the lendings again: what they read before, they
 * do not use any more. One lane of the worker. */
HR_WORKER void tap_mirror_await(void)
{
	const struct tap_mirror *watch = tap_mirror();
	const uint32_t now = hr_acquire_u32(&watch->rounds);
	uint32_t spins = 0;

	/* the round that runs may have begun before the lendings were changed, and so may the next one:
	 * a change need not be visible at once */
	while (hr_warps() > 1 && hr_acquire_u32(&watch->rounds) - now < 2)
		hr_idle(&spins);
}

/* The watcher, until the worker has ended. Collective. */
HR_WORKER void tap_mirror_run(const struct hr_pipe *pipe)
{
	while (!hr_shfl_u32(hr_fresh_u32(&tap_mirror()->over), 0)) {
		tap_mirror_step(pipe);
		if (!pipe->tap->each && pipe->slots <= HR_LANES)
			tap_mirror_lanes(pipe, TAP_MIRROR_STEPS);
		else
			tap_mirror_slots(pipe, TAP_MIRROR_STEPS);
		hr_lanes_sync();
		if (hr_lane() == 0)
			hr_release_u32(&tap_mirror()->rounds, tap_mirror()->rounds + 1);
	}
}

#endif
