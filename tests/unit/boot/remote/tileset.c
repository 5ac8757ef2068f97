/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/remote/tileset.h"

#include <criterion/criterion.h>

static struct hr_tileset set, other;

Test(tileset, low_advances_over_all_that_is_there)
{
	cr_expect_eq(hr_tileset_add(&set, 1), 0);
	cr_expect_eq(hr_tileset_add(&set, 2), 0);
	cr_expect_eq(set.low, 0);
	cr_expect(hr_tileset_has(&set, 1) && !hr_tileset_has(&set, 0) && !hr_tileset_has(&set, 3));
	cr_expect_eq(hr_tileset_add(&set, 0), 0);
	cr_expect_eq(set.low, 3);
	cr_expect_eq(hr_tileset_add(&set, 0), -EALREADY);
}

Test(tileset, the_window_is_bounded)
{
	cr_expect_eq(hr_tileset_add(&set, HR_TILESET_WINDOW), -ERANGE);
	cr_expect_eq(hr_tileset_add(&set, HR_TILESET_WINDOW - 1), 0);
	cr_expect_eq(hr_tileset_add(&set, HR_TILESET_WINDOW - 1), -EALREADY);
	cr_expect_not(hr_tileset_has(&set, 2 * HR_TILESET_WINDOW - 1));
	cr_expect_eq(hr_tileset_add(&set, UINT64_MAX), -ERANGE);
}

Test(tileset, every_tile_of_several_windows_is_there_once)
{
	for (uint64_t t = 0; t < 3 * HR_TILESET_WINDOW; t += 2) {
		cr_assert_eq(hr_tileset_add(&set, t + 1), 0);
		cr_assert_eq(set.low, t);
		cr_assert_eq(hr_tileset_add(&set, t), 0);
		cr_assert_eq(set.low, t + 2);
	}
	for (unsigned i = 0; i < HR_TILESET_WINDOW / 64; i++)
		cr_assert_eq(set.bits[i], 0);
}

Test(tileset, raising_keeps_what_is_behind)
{
	hr_tileset_add(&set, 10);
	hr_tileset_add(&set, 12);
	hr_tileset_raise(&set, 5);
	cr_expect_eq(set.low, 5);
	cr_expect(hr_tileset_has(&set, 10));
	hr_tileset_raise(&set, 10);
	cr_expect_eq(set.low, 11);
	hr_tileset_raise(&set, 3);
	cr_expect_eq(set.low, 11);
	cr_expect(hr_tileset_has(&set, 12));
	hr_tileset_raise(&set, 1000000);
	cr_expect_eq(set.low, 1000000);
	cr_expect_not(hr_tileset_has(&set, 1000012));
}

Test(tileset, a_lost_tile_is_found)
{
	uint64_t tile;

	hr_tileset_raise(&set, 4);
	hr_tileset_add(&set, 6);
	cr_expect(hr_tileset_lost(&set, &other, &tile) && tile == 0);
	hr_tileset_raise(&other, 4);
	cr_expect(hr_tileset_lost(&set, &other, &tile) && tile == 6);
	hr_tileset_add(&other, 6);
	cr_expect_not(hr_tileset_lost(&set, &other, &tile));
	hr_tileset_raise(&other, 100000);
	cr_expect_not(hr_tileset_lost(&set, &other, &tile));
}
