/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu/tap/lend.h - which consumers get a tile, and how they see it; for gpu/tap/role.c. Worker code.
 */
#ifndef GPU_TAP_LEND_H
#define GPU_TAP_LEND_H

#include "gpu/tap/role.h"

HR_WORKER struct hr_tap_head *tap_head(const struct hr_tap_role *tap, uint32_t seat)
{
	uint8_t *at = tap->entries + tap->own[seat].set * hr_tap_ring_bytes(tap->ring);

	return (struct hr_tap_head *)(void *)at;
}

HR_WORKER struct hr_tap_entry *tap_entries(const struct hr_tap_role *tap, uint32_t seat)
{
	return (struct hr_tap_entry *)(void *)(tap_head(tap, seat) + 1);
}

/* The watcher reads it. */
HR_WORKER void tap_set_seats(struct hr_tap_lending *lending, uint32_t seats)
{
	hr_relaxed_u32(&lending->seats, seats);
}

HR_WORKER void tap_add(uint64_t *count, uint64_t by)
{
	hr_relaxed_sys_u64(count, *count + by);
}

/* Masks of the seats that tiles are lent to, and of those that have a credit. Collective. */
HR_WORKER void tap_masks(const struct hr_tap_role *tap, uint32_t *lenders, uint32_t *rich)
{
	uint32_t base;

	*lenders = *rich = 0;
	for (base = 0; base < HR_TAP_SEATS; base += HR_LANES) {
		const uint32_t seat = base + hr_lane();
		const bool lends = seat < HR_TAP_SEATS && tap->own[seat].lends;
		const bool credit = lends && tap->own[seat].held < tap->own[seat].credits;

		*lenders |= (uint32_t)hr_ballot(lends) << base;
		*rich |= (uint32_t)hr_ballot(credit) << base;
	}
}

/* Mask of the seats for the next tile; 0: none now. Seats to avoid get it when there are no
 * others. */
HR_WORKER uint32_t tap_choose(struct hr_tap_role *tap, uint32_t avoid, uint32_t lenders,
			      uint32_t rich)
{
	uint32_t mask, after;

	if (avoid && !(lenders & ~avoid))
		avoid = 0;
	mask = rich & ~avoid;
	if (tap->each)
		return tap->drop || mask == (lenders & ~avoid) ? mask : 0;
	if (!mask)
		return 0;
	after = mask & ~(((uint32_t)1 << tap->next % HR_TAP_SEATS) - 1);
	tap->next = hr_lowest_bit(after ? after : mask) + 1;
	return (uint32_t)1 << (tap->next - 1);
}

/*
 * Show an entry to its consumer. Without a fence, which takes a GPU more than a microsecond: the check
 * tells the consumer when all words have come, and compute has made the tile visible to all
 * processes before it was COMPUTED.
 */
HR_WORKER void tap_show(struct hr_tap_entry *to, const struct hr_tap_entry *e)
{
	hr_relaxed_sys_u64(&to->tile, e->tile);
	hr_relaxed_sys_u32(&to->slot, e->slot);
	hr_relaxed_sys_u32(&to->gen, e->gen);
	hr_relaxed_sys_u32(&to->bytes, e->bytes);
	hr_relaxed_sys_u32(&to->flags, e->flags);
	hr_relaxed_sys_u64(&to->lent_ns, e->lent_ns);
	hr_relaxed_sys_u64(&to->ready_ns, e->ready_ns);
	hr_relaxed_sys_u64(&to->freed_ns, e->freed_ns);
	hr_relaxed_sys_u64(&to->check, e->check);
	hr_fenced_sys_u64(&to->sequence, e->sequence);
}

HR_WORKER void tap_lend_to(const struct hr_pipe *pipe, uint32_t seat, uint32_t s, uint64_t now)
{
	struct hr_tap_role *tap = pipe->tap;
	const struct hr_tap_lending *lending = &tap->lending[s];
	const uint64_t sent = tap->own[seat].sent;
	struct hr_tap_entry e = {
		.tile = lending->tile,
		.slot = s,
		.gen = lending->gen,
		.bytes = lending->bytes,
		.flags = lending->flags,
		.lent_ns = now,
		.ready_ns = lending->ready_ns,
		.freed_ns = lending->freed_ns,
		.sequence = sent + 1,
	};

	e.check = hr_tap_entry_check(&e, e.sequence);
	tap_show(&tap_entries(tap, seat)[sent & (tap->ring - 1)], &e);
	/* the watcher reads them */
	hr_relaxed_u64(&tap->own[seat].sent, sent + 1);
	hr_relaxed_u32(&tap->own[seat].held, tap->own[seat].held + 1);
	if (lending->flags & HR_TAP_REDELIVERED)
		tap_add(&tap->words->seat[seat].redelivered, 1);
	hr_relaxed_sys_u64(&tap->words->seat[seat].lent, sent + 1);
}

HR_WORKER void tap_lend(const struct hr_pipe *pipe, uint32_t s, uint32_t mask, uint64_t now)
{
	struct hr_tap_lending *lending = &pipe->tap->lending[s];

	/* a page that is all zero gives nothing back */
	hr_relaxed_u32(&lending->gen, lending->gen == HR_TAP_FAILED - 1 ? 1 : lending->gen + 1);
	tap_set_seats(lending, mask);
	hr_relaxed_u64(&lending->lent_ns, now);
	for (; mask; mask &= mask - 1)
		tap_lend_to(pipe, hr_lowest_bit(mask), s, now);
	if (lending->tile >= pipe->tap->front) {
		pipe->tap->front = lending->tile + 1;
		hr_relaxed_sys_u64(&pipe->tap->words->front, pipe->tap->front);
	}
}

#endif
