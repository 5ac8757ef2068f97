/* SPDX-License-Identifier: Apache-2.0 */
#include "cache/page_table.h"

#include <errno.h>

/* Fewer pages per group in small caches, so that there are rows for several I/O workers. */
#define ROWS_MIN 16u
#define GROUP_SHIFT_MIN 2u /* of hr_page_shape_divide(): neighbours in one command */
#define SETS_MAX ((uint64_t)1 << 31)

static uint32_t bits_below(uint64_t count)
{
	return count > 1 ? hr_highest_bit_u64(count - 1) + 1 : 0;
}

static uint32_t group_bits(const struct hr_page_shape *shape, uint64_t pages)
{
	return bits_below((pages + ((uint64_t)1 << shape->group_shift) - 1) >> shape->group_shift);
}

/* Each set can tell so many groups apart. */
static bool tags_suffice(const struct hr_page_shape *shape)
{
	const uint64_t groups = (uint64_t)1 << shape->group_bits;

	return (groups + shape->rows - 1) / shape->rows <= (uint64_t)1 << HR_TAG_BITS_MAX;
}

int hr_page_shape(struct hr_page_shape *shape, uint64_t frames, uint32_t page_shift, uint64_t pages)
{
	uint64_t sets = frames / HR_WAYS;

	if (page_shift < HR_PAGE_SHIFT_MIN || page_shift > HR_PAGE_SHIFT_MAX || pages == 0)
		return -EINVAL;
	if (sets == 0)
		return -ENOSPC;
	if (pages > HR_PAGES_MAX)
		return -EFBIG;
	if (sets > SETS_MAX)
		sets = SETS_MAX;
	shape->page_shift = page_shift;
	shape->group_shift = HR_GROUP_SHIFT_MAX;
	while (shape->group_shift && sets >> shape->group_shift < ROWS_MIN)
		shape->group_shift--;
	shape->rows = (uint32_t)(sets >> shape->group_shift);
	shape->group_bits = group_bits(shape, pages);
	shape->tag_mask = hr_page_bit_mask(HR_TAG_BITS_MAX);
	return tags_suffice(shape) ? 0 : -EFBIG;
}

void hr_page_shape_divide(struct hr_page_shape *shape, uint64_t pages, uint64_t rows)
{
	struct hr_page_shape next = *shape;

	while (shape->group_shift > GROUP_SHIFT_MIN && shape->rows < rows) {
		next.group_shift--;
		next.rows *= 2;
		next.group_bits = group_bits(&next, pages);
		if (!tags_suffice(&next))
			return;
		*shape = next;
	}
}
