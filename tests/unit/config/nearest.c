#include "config/nearest.h"

#include <criterion/criterion.h>

TestSuite(nearest, .timeout = 5);

Test(nearest, finds_the_word_meant_or_none)
{
	static const char *const known[] = { "name", "device", "queue_entries", "slots", "tile" };
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
		{ "a_word_that_is_longer_than_any_known_one", NULL },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		const char *got = hr_nearest(row[i].word, known, 5);

		if (row[i].want)
			cr_assert_str_eq(got ? got : "(none)", row[i].want, "row %zu", i);
		else
			cr_assert_null(got, "row %zu: %s", i, got);
	}
}
