/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boot/remote/tileset.h - the tiles that one side has: all before `low`, and some of the window
 * behind it. Pure: allocates nothing, calls nothing.
 */
#ifndef BOOT_REMOTE_TILESET_H
#define BOOT_REMOTE_TILESET_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* Twice what a receiver may have behind its lowest missing tile (HR_LINK_WINDOW): a sender learns
 * late that low has advanced. */
#define HR_TILESET_WINDOW 8192u

struct hr_tileset {
	uint64_t low; /* the lowest tile that is missing */
	uint64_t bits[HR_TILESET_WINDOW /
		      64]; /* of tile t: bit t % HR_TILESET_WINDOW; for t >= low */
};

static inline uint64_t *hr_tileset_word(struct hr_tileset *set, uint64_t tile, uint64_t *bit)
{
	*bit = 1ull << (tile % 64);
	return &set->bits[tile % HR_TILESET_WINDOW / 64];
}

static inline bool hr_tileset_has(const struct hr_tileset *set, uint64_t tile)
{
	if (tile < set->low)
		return true;
	return tile - set->low < HR_TILESET_WINDOW &&
	       (set->bits[tile % HR_TILESET_WINDOW / 64] >> (tile % 64) & 1);
}

/* Advance low over the tiles that are there. */
static inline void hr_tileset_settle(struct hr_tileset *set)
{
	uint64_t bit, *word;

	while (word = hr_tileset_word(set, set->low, &bit), *word & bit) {
		*word &= ~bit;
		set->low++;
	}
}

/* 0; -EALREADY: it is there; -ERANGE: behind the window. */
static inline int hr_tileset_add(struct hr_tileset *set, uint64_t tile)
{
	uint64_t bit, *word;

	if (hr_tileset_has(set, tile))
		return -EALREADY;
	if (tile - set->low >= HR_TILESET_WINDOW)
		return -ERANGE;
	word = hr_tileset_word(set, tile, &bit);
	*word |= bit;
	hr_tileset_settle(set);
	return 0;
}

/* All tiles before this one are there. */
static inline void hr_tileset_raise(struct hr_tileset *set, uint64_t low)
{
	uint64_t bit, *word;

	if (low <= set->low)
		return;
	if (low - set->low >= HR_TILESET_WINDOW) {
		memset(set->bits, 0, sizeof(set->bits));
		set->low = low;
		return;
	}
	for (; set->low < low; set->low++) {
		word = hr_tileset_word(set, set->low, &bit);
		*word &= ~bit;
	}
	hr_tileset_settle(set);
}

/* True when `other` lacks a tile of the set; *tile is the first one. */
static inline bool hr_tileset_lost(const struct hr_tileset *set, const struct hr_tileset *other,
				   uint64_t *tile)
{
	const uint64_t end = set->low + HR_TILESET_WINDOW;

	for (*tile = other->low; *tile < end; ++*tile)
		if (hr_tileset_has(set, *tile) && !hr_tileset_has(other, *tile))
			return true;
	return false;
}

#endif
