/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cache/page_table.h - the table of the page cache: which frame holds which page.
 *
 * All pages of the objects of a cache have numbers below HR_PAGES_MAX. The table has sets of HR_WAYS
 * ways. A set is 32 bytes, one sector of GPU memory: a tag for each way, and a word for the policy. So
 * one lane reads a set with one sector. The frame of a page follows from its set and way; there are
 * no pointers, and the size of the table depends on the number of frames only.
 *
 * Neighbouring pages form groups (of up to 32 pages). An invertible mix of the group's number gives
 * a row of sets and a tag; each page of a group lies in its own set of that row. Set and tag
 * together give the page number back. All pages of a row have one owner, an I/O worker, which is
 * the only worker that adds and removes pages there. So a page is fetched once, however many
 * workers request it, and its owner can read neighbours with one command.
 *
 * A tag word has the tag in bits 31:4, SHARED in bit 3 and the state in bits 2:0. SHARED is 0 unless
 * several gpus cache the same objects: cache/peers.h. OFFERED is READING with that bit. Transitions
 * of the state:
 *
 *   FREE, LEFT -> READING    owner: the way is chosen for a page, its read is posted
 *   FREE, LEFT -> OFFERED    owner: the way is chosen for a page that a worker wants to write as a
 *                            whole; nothing is read, and the frame has no data
 *   OFFERED -> READING       a worker that writes all of the page (compare and swap): it fills the
 *                            frame; owner (compare and swap): another worker wants the page's data, and
 *                            the read is posted
 *   READING -> DIRTY         the worker that has filled the frame
 *   OFFERED -> LEFT          owner: the page is removed (compare and swap)
 *   READING -> READY, ERROR  owner: the read has completed; ERROR: the frame starts with the error
 *   READY -> DIRTY           any writer, before it writes (compare and swap)
 *   DIRTY -> WRITING         owner: write-back begins (compare and swap)
 *   WRITING -> REDIRTY       any writer, before it writes (compare and swap)
 *   WRITING -> READY, DIRTY  owner: the write has completed, failed (compare and swap)
 *   REDIRTY -> DIRTY         owner: the write has completed
 *   READY, ERROR -> LEFT     owner: the page is removed (compare and swap)
 *   LEFT -> FREE             owner: no worker can use the frame any more
 *
 * The tag of a LEFT way is the epoch (low 28 bits) that every worker has to pass before the frame is
 * used again: cache/page_cache.h.
 *
 * Pure code for workers and the CPU; no memory is accessed but the words that are passed in.
 */
#ifndef CACHE_PAGE_TABLE_H
#define CACHE_PAGE_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "config/base/limits.h"
#include "nvme/queue/worker.h"

#define HR_WAYS 7u /* tags of a set; the eighth word is for the policy */
#define HR_GROUP_SHIFT_MAX \
	5u /* a group has at most 32 pages: one per lane, and per bit of a mask */
#define HR_PAGE_SHIFT_MIN 12u	/* pages of 4 KiB */
#define HR_PAGE_SHIFT_MAX 16u	/* to 64 KiB */
#define HR_PAGES_MAX UINT32_MAX /* page numbers are below it: it is HR_NO_PAGE */
#define HR_TAG_SHIFT 4u
#define HR_TAG_BITS_MAX 28u

enum hr_page_state {
	HR_PAGE_FREE,
	HR_PAGE_LEFT,
	HR_PAGE_READING,
	HR_PAGE_ERROR,
	/* Bit 2: the frame holds the page. */
	HR_PAGE_READY,
	HR_PAGE_DIRTY,
	HR_PAGE_WRITING,
	HR_PAGE_REDIRTY,
};

#define HR_PAGE_SHARED 8u /* other gpus may have copies: no writer begins */
/* The frame is for the page, and has no data yet. Only with one gpu. */
#define HR_PAGE_OFFERED (HR_PAGE_READING | HR_PAGE_SHARED)
#define HR_PAGE_STATE(word) ((word)&7u)
#define HR_PAGE_KIND(word) ((word)&15u) /* state and SHARED */
#define HR_PAGE_TAG(word) ((word) >> HR_TAG_SHIFT)
#define HR_PAGE_WORD(tag, state) ((uint32_t)(tag) << HR_TAG_SHIFT | (uint32_t)(state))

struct hr_page_set {
	uint32_t tag[HR_WAYS]; /* by the owner, and by writers as listed above */
	uint32_t recency;      /* cache/page_policy.h; any worker, a lost update does no harm */
} __attribute__((aligned(32)));

/* The mapping of page numbers to sets, computed by hr_page_shape(). */
struct hr_page_shape {
	uint32_t page_shift;  /* bytes of a page = 1 << page_shift */
	uint32_t group_shift; /* pages of a group, and sets of a row = 1 << group_shift */
	uint32_t rows;	      /* sets = rows << group_shift */
	uint32_t group_bits;  /* groups have numbers below 1 << group_bits */
	uint32_t tag_mask;
};

/* The position of a page: its set, and the tag that it has there. */
struct hr_page_position {
	uint32_t set, tag;
};

/*
 * The shape for at most `frames` frames and `pages` page numbers. Host side. The number of frames
 * is hr_page_frames(), whole rows of sets, less than `frames` by under 7 %. Below 512 sets groups
 * have fewer than 32 pages, so that there are at least 16 rows to divide among I/O workers; below 32
 * sets a group is one page.
 * 0; -EINVAL: page_shift outside HR_PAGE_SHIFT_MIN..MAX, no pages; -ENOSPC: fewer frames than a
 * set has ways; -EFBIG: more than HR_PAGES_MAX pages, or too many for tags of so few sets (each set
 * can tell 2^28 pages apart).
 */
int hr_page_shape(struct hr_page_shape *shape, uint64_t frames, uint32_t page_shift,
		  uint64_t pages);

/*
 * Divide the rows of a shape into smaller ones, of at least 4 sets, until there are `rows` or more, so
 * that I/O workers have equal shares: each row has one owner. Sets and frames stay. pages: as for
 * hr_page_shape(). Host side.
 */
void hr_page_shape_divide(struct hr_page_shape *shape, uint64_t pages, uint64_t rows);

HR_BOTH uint32_t hr_page_sets(const struct hr_page_shape *shape)
{
	return shape->rows << shape->group_shift;
}

HR_BOTH uint64_t hr_page_frames(const struct hr_page_shape *shape)
{
	return (uint64_t)hr_page_sets(shape) * HR_WAYS;
}

/* x ^ x >> half is its own inverse when half is at least half of the bits. */
HR_BOTH uint32_t hr_page_fold(uint32_t x, uint32_t bits)
{
	return x ^ x >> (bits + 1) / 2;
}

HR_BOTH uint32_t hr_page_bit_mask(uint32_t bits)
{
	return bits < 32 ? ((uint32_t)1 << bits) - 1 : UINT32_MAX;
}

/* A bijection of the numbers below 1 << bits, bits 0..32, and its inverse: odd factors have
 * inverses modulo a power of two. */
HR_BOTH uint32_t hr_page_mix(uint32_t x, uint32_t bits)
{
	const uint32_t mask = hr_page_bit_mask(bits);

	x = hr_page_fold(x * 0x9e3779b1u & mask, bits);
	return hr_page_fold(x * 0x85ebca6bu & mask, bits);
}

HR_BOTH uint32_t hr_page_unmix(uint32_t x, uint32_t bits)
{
	const uint32_t mask = hr_page_bit_mask(bits);

	x = hr_page_fold(x, bits) * 0xa5cb9243u & mask;
	return hr_page_fold(x, bits) * 0x0e8b2f51u & mask;
}

HR_BOTH struct hr_page_position hr_page_position_of(const struct hr_page_shape *shape,
						    uint32_t page)
{
	const uint32_t in_row = ((uint32_t)1 << shape->group_shift) - 1;
	const uint32_t mixed = hr_page_mix(page >> shape->group_shift, shape->group_bits);
	const uint32_t row = (uint32_t)((uint64_t)mixed * shape->rows >> shape->group_bits);
	struct hr_page_position position;

	/* Groups start at different sets of a row, so that a stride of one group uses all sets. */
	position.set = row << shape->group_shift | ((page + mixed) & in_row);
	position.tag = mixed & shape->tag_mask;
	return position;
}

/* The page with that tag in that set: the inverse of hr_page_position_of(). */
HR_BOTH uint32_t hr_page_at(const struct hr_page_shape *shape, uint32_t set, uint32_t tag)
{
	const uint32_t in_row = ((uint32_t)1 << shape->group_shift) - 1;
	const uint32_t row = set >> shape->group_shift;
	/* the mixed numbers of a row are consecutive, from this one on */
	const uint32_t first =
		(uint32_t)((((uint64_t)row << shape->group_bits) + shape->rows - 1) / shape->rows);
	const uint32_t mixed = first + ((tag - first) & shape->tag_mask);
	const uint32_t group = hr_page_unmix(mixed, shape->group_bits);

	return group << shape->group_shift | ((set - mixed) & in_row);
}

/* The frame of a way; its data start at frame << page_shift. */
HR_BOTH uint64_t hr_page_frame(uint32_t set, uint32_t way)
{
	return (uint64_t)set * HR_WAYS + way;
}

/* The way of a set whose word has this tag in any state with a page, also READING and ERROR;
 * HR_WAYS: none. word: the tags of the set. */
HR_BOTH uint32_t hr_page_find(const uint32_t word[HR_WAYS], uint32_t tag)
{
	uint32_t found = HR_WAYS, way;

	for (way = 0; way < HR_WAYS; way++)
		if (HR_PAGE_TAG(word[way]) == tag && HR_PAGE_STATE(word[way]) >= HR_PAGE_READING)
			found = way;
	return found;
}

HR_STATIC_ASSERT(sizeof(struct hr_page_set) == 32, "a set is one sector of GPU memory");

#endif
