/* SPDX-License-Identifier: Apache-2.0 */
/* Durations as reports print them. */
#include <criterion/criterion.h>

#include "config/base/clock.h"
#include "config/base/text.h"

Test(units, formats_spans)
{
	static const struct {
		uint64_t ns;
		const char *text;
	} row[] = {
		{ 0, "0 ms" },
		{ HR_NS_PER_S - 1, "999 ms" },
		{ HR_NS_PER_S, "1.0 s" },
		{ 60 * HR_NS_PER_S - 1, "59.9 s" },
		{ 250 * HR_NS_PER_S, "4 min 10 s" },
		{ 73799 * HR_NS_PER_S, "20 h 29 min" },
		{ 86400 * HR_NS_PER_S, "1 d 0 h" },
		{ UINT64_MAX, "213503 d 23 h" },
	};
	char text[32];

	for (size_t i = 0; i < sizeof row / sizeof *row; i++)
		cr_assert_str_eq(hr_span_format(text, sizeof text, row[i].ns), row[i].text);
}
