#include "config/nearest.h"

#include <criterion/criterion.h>

TestSuite(nearest, .timeout = 60);

Test(nearest, finds_the_nearest_word_or_none)
{
	static const char *const known[] = {
		"name",	 "device", "queue_entries",
		"slots", "tile",   "a_name_of_exactly_32_characters_"
	};
	static const struct {
		const char *word, *want;
	} row[] = {
		{ "nmae", "name" },
		{ "devise", "device" },
		{ "slot", "slots" },
		{ "tiles", "tile" },
		{ "queue", "queue_entries" },
		{ "qeue_entires", "queue_entries" },
		{ "bandwidth", NULL },
		{ "", NULL },
		{ "x", NULL },
		{ "ab", NULL },
		/* 32 characters, and one more */
		{ "a_name_of_exactly_32_characters1", "a_name_of_exactly_32_characters_" },
		{ "a_name_of_exactly_32_characters_1", NULL },
		{ "a_word_that_is_longer_than_any_known_one", NULL },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		const char *got = hr_nearest(row[i].word, known, sizeof known / sizeof *known);

		if (row[i].want)
			cr_assert_str_eq(got ? got : "(none)", row[i].want, "row %zu", i);
		else
			cr_assert_null(got, "row %zu: %s", i, got);
	}
}
