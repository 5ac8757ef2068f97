/* SPDX-License-Identifier: Apache-2.0 */
/* Shards of all ranks: which ones are one data set, and the message about the first that is not. */
#include "boot/ranks/agree.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "tests/harness/error.h"

#define ROW 16u
#define TILE 64u /* 4 rows */

/* Rows first .. first + rows - 1 of 30. */
#define SHARD(number, all, first, count)                                             \
	{                                                                            \
		1, (count)*ROW, TILE,                                                \
		{                                                                    \
			(first), 30, 7, ROW, (uint16_t)(number), (uint16_t)((all)-1) \
		}                                                                    \
	}

#define WHOLE                                                              \
	{                                                                  \
		SHARD(0, 3, 0, 8), SHARD(1, 3, 8, 12), SHARD(2, 3, 20, 10) \
	}

static int cover(const struct hr_shard_of *of, uint32_t ranks)
{
	return hr_shards_cover(of, sizeof *of, ranks, "object 'x'", test_error());
}

Test(cover, shards_that_follow_each_other_are_a_data_set)
{
	const struct hr_shard_of of[] = WHOLE;
	const struct hr_shard_of empty[] = { SHARD(0, 4, 0, 0), SHARD(1, 4, 0, 30),
					     SHARD(2, 4, 30, 0), SHARD(3, 4, 30, 0) };

	cr_expect_eq(cover(of, 3), 0, "%s", test_error_text());
	cr_expect_eq(cover(empty, 4), 0, "%s", test_error_text());
}

Test(cover, each_difference_names_rank_and_rows)
{
	static const struct {
		uint32_t rank;
		struct hr_shard_of now;
		const char *want;
	} row[] = {
		{ 1,
		  { 0 },
		  "object 'x' of rank 1 is no shard; expected one that 'store put --shard 1/3' or a "
		  "pipeline with shard has written" },
		{ 2, SHARD(2, 4, 20, 10),
		  "object 'x': rank 2 has shard 2 of 4, rows 20 to 29, but the job has 3 ranks" },
		{ 1,
		  { 1, 12 * 32, TILE, { 8, 30, 7, 32, 1, 2 } },
		  "object 'x': rank 1 has rows 8 to 19 of 32 bytes each, but a row of rank 0 has 16 "
		  "bytes" },
		{ 1,
		  { 1, 12 * ROW, TILE, { 8, 30, 8, ROW, 1, 2 } },
		  "object 'x': rank 1 has rows 8 to 19 of another data set (0000000000000008, 30 "
		  "rows) than rank 0 (0000000000000007, 30 rows)" },
		{ 2,
		  { 1, 10 * ROW, TILE, { 20, 31, 7, ROW, 2, 2 } },
		  "rank 2 has rows 20 to 29 of another data set (0000000000000007, 31 rows)" },
		{ 1, SHARD(0, 3, 0, 8),
		  "object 'x': rows 0 to 7 of rank 1 overlap with those of the ranks before, which "
		  "end with row 7" },
		{ 1, SHARD(1, 3, 12, 8),
		  "object 'x': rows 8 to 11 are missing: rank 1 has rows 12 to 19" },
		{ 1, SHARD(1, 3, 8, 0),
		  "object 'x': rows 8 to 19 are missing: rank 2 has rows 20 to 29" },
		{ 0, SHARD(2, 3, 20, 10),
		  "object 'x': rows 0 to 19 are missing: rank 0 has rows 20 to 29" },
		{ 2, SHARD(2, 3, 20, 9),
		  "object 'x': rows 29 to 29 are missing: rank 2 has the last shard" },
		{ 1, SHARD(2, 3, 8, 12),
		  "object 'x': rank 1 has shard 2, rows 8 to 19 from row 8; expected shard 1, from row "
		  "8" },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		struct hr_shard_of of[] = WHOLE;

		of[row[i].rank] = row[i].now;
		cr_expect_eq(cover(of, 3), -EINVAL, "row %zu", i);
		cr_expect(strstr(test_error_text(), row[i].want), "row %zu: %s", i,
			  test_error_text());
		cr_expect_null(strchr(test_error_text(), '\n'), "row %zu", i);
		cr_expect_eq(test_error_kind(), HR_ERROR_USAGE, "row %zu", i);
	}
}

Test(cover, a_shard_begins_at_a_tile)
{
	const struct hr_shard_of of[] = { SHARD(0, 2, 0, 9), SHARD(1, 2, 9, 21) };

	cr_expect_eq(cover(of, 2), -EINVAL);
	cr_expect(strstr(test_error_text(),
			 "object 'x': rows 9 to 29 of rank 1 begin within a tile of 64 bytes"),
		  "%s", test_error_text());
}

Test(cover, sources_of_a_rank_begin_with_the_same_tile)
{
	const struct hr_shard_of a = SHARD(1, 3, 8, 12), b = { 1, 96, 32, { 8, 30, 7, 8, 1, 2 } },
				 c = { 1, 96, 32, { 4, 30, 7, 8, 1, 2 } };
	const struct hr_shard_of *const same[] = { &a, &b }, *const other[] = { &a, &b, &c };
	const char *const names[] = { "x", "y", "z" };

	cr_expect_eq(hr_shards_agree(same, names, 2, 1, "pipeline 'p'", test_error()), 0);
	cr_expect_eq(hr_shards_agree(other, names, 3, 1, "pipeline 'p'", test_error()), -EINVAL);
	cr_expect(strstr(test_error_text(),
			 "pipeline 'p': rank 1 has object 'x' from row 8, tile 2, "
			 "but 'z' from row 4, tile 1"),
		  "%s", test_error_text());
}
