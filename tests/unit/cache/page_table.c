/* SPDX-License-Identifier: Apache-2.0 */
/* cache/page_table.h: positions of pages, and the shape of a table. */
#include "cache/page_table.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>

#include "cache/page_cache.h"
#include "tests/harness/random.h"

TestSuite(page_table, .timeout = 60);

/* Every page has a position within the table, and its position gives the page back. */
static void check_pages(const struct hr_page_shape *shape, uint64_t first, uint64_t count)
{
	for (uint64_t page = first; page < first + count; page++) {
		const struct hr_page_position position = hr_page_position_of(shape, (uint32_t)page);

		cr_assert_lt(position.set, hr_page_sets(shape), "page %lu: set %u of %u", page,
			     position.set, hr_page_sets(shape));
		cr_assert_leq(position.tag, shape->tag_mask);
		cr_assert_eq(hr_page_at(shape, position.set, position.tag), page,
			     "page %lu of %u rows, groups of %u", page, shape->rows,
			     1u << shape->group_shift);
	}
}

Test(page_table, a_place_gives_its_page_back)
{
	static const uint64_t frames[] = { 7,	   13,	 14,	7 * 15, 7 * 16,	 7 * 31,
					   7 * 32, 1000, 10000, 100000, 7u << 20 };
	static const uint64_t pages[] = { 1, 2, 31, 32, 33, 1000, 4096, 4097 };
	struct hr_page_shape shape;

	for (size_t f = 0; f < sizeof frames / sizeof *frames; f++)
		for (size_t p = 0; p < sizeof pages / sizeof *pages; p++) {
			cr_assert_eq(hr_page_shape(&shape, frames[f], 12, pages[p]), 0);
			check_pages(&shape, 0, pages[p]);
		}
}

/* Rows are divided until there are enough, or they have 4 sets; pages keep places of their own. */
Test(page_table, rows_can_be_divided)
{
	static const struct {
		uint64_t frames, rows;
		uint32_t shift, divided;
	} row[] = {
		{ 7 * 32 * 100, 100, 5, 100 }, { 7 * 32 * 100, 101, 4, 200 },
		{ 7 * 32 * 100, 800, 2, 800 }, { 7 * 32 * 100, 801, 2, 800 },
		{ 7 * 16, 1000, 0, 16 },       { 7 * 64, 1000, 2, 16 },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		struct hr_page_shape shape;
		uint32_t sets;

		cr_assert_eq(hr_page_shape(&shape, row[i].frames, 12, 5000), 0);
		sets = hr_page_sets(&shape);
		hr_page_shape_divide(&shape, 5000, row[i].rows);
		cr_expect_eq(shape.group_shift, row[i].shift, "row %zu: %u", i, shape.group_shift);
		cr_expect_eq(shape.rows, row[i].divided, "row %zu: %u", i, shape.rows);
		cr_expect_eq(hr_page_sets(&shape), sets);
		check_pages(&shape, 0, 5000);
	}
}

Test(page_table, large_page_numbers_have_places_too)
{
	struct fake_random random = { fake_random_seed("page_table") };
	struct hr_page_shape shape;

	for (unsigned i = 0; i < 1000; i++) {
		const uint64_t pages = 1 + fake_random_u64(&random) % HR_PAGES_MAX;
		const uint64_t frames = HR_WAYS * (16 + (fake_random_u64(&random) >> 34));
		uint64_t count = pages < 32 ? pages : 32;

		cr_assert_eq(hr_page_shape(&shape, frames, 16, pages), 0);
		check_pages(&shape, pages - count, count);
		check_pages(&shape, fake_random_u64(&random) % (pages - count + 1), count);
	}
}

Test(page_table, rows_have_owners_in_turn)
{
	static struct hr_page_cache cache;

	for (uint32_t workers = 1; workers < 5000; workers += workers < 300 ? 1 : 97) {
		hr_cache_set_io_workers(&cache, workers);
		for (uint32_t i = 0; i < 300; i++) {
			const uint32_t rows[] = { i,
						  i * workers,
						  i * workers - 1,
						  UINT32_MAX - i,
						  UINT32_MAX / workers * workers - i,
						  (uint32_t)1 << 31 | i };

			for (uint32_t r = 0; r < sizeof rows / sizeof *rows; r++)
				cr_assert_eq(hr_cache_owner(&cache, rows[r]), rows[r] % workers,
					     "row %u, %u workers", rows[r], workers);
		}
	}
}

Test(page_table, no_two_pages_share_set_and_tag)
{
	struct hr_page_shape shape;
	uint8_t *used;

	cr_assert_eq(hr_page_shape(&shape, 7 * 48, 12, 3000), 0);
	used = calloc(hr_page_sets(&shape), 4096);
	for (uint32_t page = 0; page < 3000; page++) {
		const struct hr_page_position position = hr_page_position_of(&shape, page);

		cr_assert_lt(position.tag, 4096);
		cr_assert_eq(used[position.set * 4096 + position.tag]++, 0, "page %u", page);
	}
	free(used);
}

Test(page_table, the_pages_of_a_group_lie_in_different_sets_of_one_row)
{
	struct hr_page_shape shape;

	cr_assert_eq(hr_page_shape(&shape, 7 * 512, 12, 1 << 20), 0);
	cr_assert_eq(shape.group_shift, HR_GROUP_SHIFT_MAX);
	for (uint32_t group = 0; group < 1000; group++) {
		const uint32_t row = hr_page_position_of(&shape, group * 32).set >> 5;
		uint32_t sets = 0;

		for (uint32_t i = 0; i < 32; i++) {
			const uint32_t set = hr_page_position_of(&shape, group * 32 + i).set;

			cr_assert_eq(set >> 5, row);
			sets |= 1u << (set & 31);
		}
		cr_assert_eq(sets, UINT32_MAX);
	}
}

/* Pages with a stride use all sets about equally: no set has four times its share. */
Test(page_table, strides_use_all_sets)
{
	enum { PAGES = 1 << 16, SETS = 1024 };
	struct hr_page_shape shape;

	for (uint32_t stride = 1; stride <= 4096; stride *= 2) {
		static uint32_t used[SETS];

		cr_assert_eq(hr_page_shape(&shape, HR_WAYS * SETS, 12, (uint64_t)PAGES * stride),
			     0);
		cr_assert_eq(hr_page_sets(&shape), SETS);
		for (uint32_t i = 0; i < SETS; i++)
			used[i] = 0;
		for (uint32_t i = 0; i < PAGES; i++)
			used[hr_page_position_of(&shape, i * stride).set]++;
		for (uint32_t i = 0; i < SETS; i++)
			cr_assert_lt(used[i], 4 * PAGES / SETS, "stride %u, set %u: %u", stride, i,
				     used[i]);
	}
}

Test(page_table, the_mix_is_a_bijection)
{
	struct fake_random random = { fake_random_seed("page_table") };

	for (uint32_t bits = 0; bits <= 32; bits++)
		for (unsigned i = 0; i < 1000; i++) {
			const uint32_t x =
				(uint32_t)fake_random_u64(&random) & hr_page_bit_mask(bits);
			const uint32_t mixed = hr_page_mix(x, bits);

			cr_assert_eq(mixed & ~hr_page_bit_mask(bits), 0);
			cr_assert_eq(hr_page_unmix(mixed, bits), x, "%u bits: %x", bits, x);
		}
}

Test(page_table, each_limit_of_a_shape_has_its_error)
{
	static const struct {
		uint64_t frames;
		uint32_t page_shift;
		uint64_t pages;
		int want;
	} row[] = {
		{ 7, 11, 1, -EINVAL },
		{ 7, 12, 1, 0 },
		{ 7, 16, 1, 0 },
		{ 7, 17, 1, -EINVAL },
		{ 7, 12, 0, -EINVAL },
		{ 6, 12, 1, -ENOSPC },
		{ 0, 12, 1, -ENOSPC },
		/* one set: each tag is a page */
		{ 7, 12, 1u << 28, 0 },
		{ 7, 12, (1u << 28) + 1, -EFBIG },
		{ 7 * 15, 12, 1ull << 31, 0 },
		{ 7 * 15, 12, (1ull << 31) + 1, -EFBIG },
		{ 7 * 16, 12, HR_PAGES_MAX, 0 },
		{ 7 * 16, 12, HR_PAGES_MAX + 1ull, -EFBIG },
		{ UINT64_MAX, 16, HR_PAGES_MAX, 0 },
		{ UINT64_MAX, 16, UINT64_MAX, -EFBIG },
	};
	struct hr_page_shape shape;

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		cr_assert_eq(hr_page_shape(&shape, row[i].frames, row[i].page_shift, row[i].pages),
			     row[i].want, "row %zu", i);
		if (row[i].want == 0)
			check_pages(&shape, row[i].pages - 1, 1);
	}
}

Test(page_table, a_shape_uses_nearly_all_frames)
{
	struct hr_page_shape shape;

	for (uint64_t sets = 1; sets < 5000; sets++) {
		cr_assert_eq(hr_page_shape(&shape, sets * HR_WAYS + 6, 12, 1000), 0);
		cr_assert_leq(hr_page_frames(&shape), sets * HR_WAYS);
		cr_assert_geq(hr_page_frames(&shape) * 100, sets * HR_WAYS * 93, "%lu sets", sets);
		cr_assert(shape.group_shift == 0 || shape.rows >= 16);
	}
}

Test(page_table, a_look_up_finds_only_the_tag_in_a_fitting_state)
{
	uint32_t word[HR_WAYS];

	for (uint32_t state = 0; state < 8; state++)
		for (uint32_t way = 0; way < HR_WAYS; way++) {
			for (uint32_t i = 0; i < HR_WAYS; i++)
				word[i] = HR_PAGE_WORD(100 + i, HR_PAGE_READY);
			word[way] = HR_PAGE_WORD(5, state);
			cr_assert_eq(hr_page_find(word, 5),
				     state >= HR_PAGE_READING ? way : HR_WAYS);
			cr_assert_eq(hr_page_find(word, 6), HR_WAYS);
		}
}
