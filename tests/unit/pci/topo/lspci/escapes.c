/* SPDX-License-Identifier: Apache-2.0 */
/* Escapes of web pages, terminals and strings: what a line is after them. */
#include "pci/topo/lspci/text.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

TestSuite(topo_escapes, .timeout = 60);

static bool begins(const char *line, size_t length)
{
	return length >= 8 && strncmp(line, "00:00.0 ", 8) == 0;
}

Test(topo_escapes, characters_that_stand_for_others)
{
	static const struct {
		const char *text, *want;
	} row[] = {
		{ "plain - text", "plain - text" },
		{ "&gt;TAbort &lt;MAbort", ">TAbort <MAbort" },
		{ "&amp;gt; &amp;amp;lt; A&amp;B", "> < A&B" },
		{ "&#39;a&#x27; &quot;b&apos;", "'a' \"b'" },
		{ "&#9;x&#160;y&nbsp;z", "\tx y z" },
		{ "& &; &unknown; &#; &#x; &#9999999;", "& &; &unknown; &#; &#x; &#9999999;" },
		{ "a\xc2\xa0"
		  "b\xe2\x80\x8b"
		  "c\xef\xbb\xbf",
		  "a bc" },
		{ "\xe2\x80\x9cX\xe2\x80\x9d \xe2\x80\x93", "\"X\" -" },
		{ "\xc3\xa9\xe2\x82\xac", "\xc3\xa9\xe2\x82\xac" },
		{ "\033[01;31m00:00.0\033[0m\033[K x", "00:00.0 x" },
		{ "\033(B\033]x\033", "]x" },
		{ "Host bridge \\[0600\\]: A\\_B \\<C", "Host bridge [0600]: A_B <C" },
		{ "\\-01.0-[01]-- \\\"", "\\-01.0-[01]-- \\\"" },
		{ "", "" },
		{ "\\", "\\" },
		{ "&", "&" },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		char line[120];
		size_t length;

		snprintf(line, sizeof line, "%s", row[i].text);
		length = hr_escapes_clean(line, strlen(line));
		cr_expect_str_eq(line, row[i].want, "row %zu: '%s'", i, line);
		cr_expect_eq(length, strlen(row[i].want), "row %zu", i);
	}
}

/* Expect the lines of a string, joined by '|'. */
static void expect_lines(const char *text, const char *want)
{
	struct hr_escapes_string s = { .at = NULL };
	char line[200], got[200] = "", *at;
	size_t length;

	snprintf(line, sizeof line, "%s", text);
	if (!hr_escapes_begin(&s, begins, line, strlen(line))) {
		cr_expect_null(want, "%s", text);
		cr_expect_str_eq(line, text);
		return;
	}
	while ((at = hr_escapes_next(&s, &length))) {
		cr_expect_eq(length, strlen(at), "%s", text);
		strcat(strcat(got, at), "|");
	}
	cr_expect(want && strcmp(got, want) == 0, "%s: %s", text, got);
}

Test(topo_escapes, a_string_with_several_lines)
{
	expect_lines("{\"out\": \"00:00.0 Host\\n\\tControl\\n\"}", "00:00.0 Host|\tControl|");
	expect_lines("{\"out\": \"x:\\n00:00.0 Host\"}", "x:|00:00.0 Host|");
	expect_lines("'00:00.0 \"Host\"\\n\\\\-01.0'", "00:00.0 \"Host\"|\\-01.0|");
	expect_lines("00:00.0 \"Host\"\\nx\\r\\n", "00:00.0 \"Host\"|x|");
	expect_lines("\"00:00.0 \\\"Host\\\"\\n\\u003ex\\u00a0y\"", "00:00.0 \"Host\"|>x y|");
	expect_lines("\"00:00.0 Host\\\\n\\\\tx\"", "00:00.0 Host|\tx|");
	expect_lines("00:00.0 Host \\new", "00:00.0 Host |ew|");
	expect_lines("a\\nb", NULL);
	expect_lines("00:00.0 Host", NULL);
	expect_lines("\"00:00.0 Host\"", NULL);
	expect_lines("\\", NULL);
	expect_lines("", NULL);
}

/* Docker writes an object for each line. */
Test(topo_escapes, each_line_of_a_log_is_a_string)
{
	static const struct {
		const char *text, *want;
	} row[] = {
		{ "{\"log\":\"\\tA\\n\",\"t\":1}", NULL },
		{ "{\"log\":\"00:00.0 Host\\n\",\"t\":\"x\"}", "00:00.0 Host" },
		{ "{\"log\":\"\\tControl\\n\",\"t\":\"x\"}", "\tControl" },
		{ "{\"log\":\"\\n\",\"t\":\"x\"}", "" },
		{ "{\"other\":\"a\\n\"}", NULL },
	};
	struct hr_escapes_string s = { .at = NULL };
	size_t length;

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		char line[200], *at;

		snprintf(line, sizeof line, "%s", row[i].text);
		if (!hr_escapes_begin(&s, begins, line, strlen(line))) {
			cr_expect_null(row[i].want, "row %zu", i);
			continue;
		}
		at = hr_escapes_next(&s, &length);
		cr_assert(at && row[i].want, "row %zu", i);
		cr_expect_str_eq(at, row[i].want, "row %zu", i);
		cr_expect_null(hr_escapes_next(&s, &length), "row %zu", i);
	}
}

Test(topo_escapes, a_string_of_one_line)
{
	char line[] = "\\tA \\\"b\\\" \\\\ \\x \\u0041\\/\\";
	const size_t length = hr_escapes_decode(line, strlen(line));

	cr_expect_str_eq(line, "\tA \"b\" \\ \\x A/\\");
	cr_expect_eq(length, strlen(line));
}
