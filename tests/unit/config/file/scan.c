/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The words of a configuration's text before its parser reads it: what is a number, which numbers
 * are refused with which text, what a scan writes for the parser, sizes, durations, and similar
 * words.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "config/file/mistakes.h"
#include "config/base/text.h"
#include "config/file/scan.h"
#include "tests/harness/error.h"

#define ROWS(table) (sizeof(table) / sizeof(*(table)))

TestSuite(words, .timeout = 60);

static struct hr_mistakes mistakes;

/* All mistakes so far, a line for each; then there are none. */
static const char *reported(void)
{
	static char lines[2 * HR_ERROR_BYTES];

	mistakes.file = "f";
	test_error();
	hr_mistakes_report(&mistakes, &test_error_last);
	test_error_lines(lines, sizeof lines);
	memset(&mistakes, 0, sizeof mistakes);
	return lines;
}

Test(words, a_number_is_as_long_as_the_parsers)
{
	static const struct {
		const char *text;
		size_t length;
		bool integer, suffix;
	} row[] = {
		{ "", 0, false, false },       { "x", 0, false, false },
		{ "-", 0, false, false },      { "+x", 0, false, false },
		{ "e5", 0, false, false },     { "-e5", 0, false, false },
		{ "7", 1, true, false },       { "12", 2, true, false },
		{ "12L", 3, true, true },      { "12LL", 4, true, true },
		{ "12LLL", 4, true, true },    { "12l", 2, true, false },
		{ "+5", 2, true, false },      { "-5L", 3, true, true },
		{ "12-3", 2, true, false },    { "0x", 1, true, false },
		{ "0xg", 1, true, false },     { "0x1fg", 4, true, false },
		{ "0XAL", 4, true, true },     { "0xFLL ", 5, true, true },
		{ "1x2", 1, true, false },     { "-0x10", 2, true, false },
		{ "0.5", 3, false, false },    { "1.5x", 3, false, false },
		{ "1.", 2, false, false },     { ".5", 2, false, false },
		{ "-.5", 3, false, false },    { ".", 1, false, false },
		{ "-.", 2, false, false },     { "1e5", 3, false, false },
		{ "1E-07x", 5, false, false }, { "1e+7", 4, false, false },
		{ "1e", 1, true, false },      { "1e+", 1, true, false },
		{ "1ex", 1, true, false },     { "1.5e3L", 5, false, false },
		{ "1.5e-", 3, false, false },  { ".e5", 3, false, false },
		{ "1.e5", 4, false, false },   { "1.5.5", 3, false, false },
		{ "12.L", 3, false, false },   { "-3e2", 4, false, false },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		const struct hr_number number = hr_number_find(row[i].text);

		cr_expect_eq(number.length, row[i].length, "%s: %zu", row[i].text, number.length);
		cr_expect_eq(number.integer && number.length, row[i].integer, "%s", row[i].text);
		cr_expect_eq(number.suffix, row[i].suffix, "%s", row[i].text);
	}
}

#define TEN(digit) digit digit digit digit digit digit digit digit digit digit
#define SIXTY(digit) TEN(digit) TEN(digit) TEN(digit) TEN(digit) TEN(digit) TEN(digit)
#define FITS "does not fit: expected -9223372036854775808 to 9223372036854775807\n"
#define LARGE " is too large: expected at most 1.8e308\n"
#define SMALL " is too small: expected 0, or at least 2.2e-308\n"

/* Numbers that a double or 64 bits do not hold, beside numbers that they just hold (""). */
Test(words, numbers_that_would_change_are_reported)
{
	static const struct {
		const char *text, *want;
	} row[] = {
		{ "9223372036854775807", "" },
		{ "-9223372036854775808", "" },
		{ "+9223372036854775808", "f:7: the number +9223372036854775808 " FITS },
		{ "-9223372036854775809L", "f:7: the number -9223372036854775809L " FITS },
		{ "0x7FFFFFFFFFFFFFFFL", "" },
		{ "0xabcdef0123456789", "f:7: the number 0xabcdef0123456789 " FITS },
		{ "0x0123456789abcdef", "" },
		{ SIXTY("9"), "f:7: the number " SIXTY("9") " " FITS },
		{ SIXTY("9") "8", "f:7: the number " SIXTY("9") "... " FITS },
		{ "1.7e308", "" },
		{ "1.8e308", "f:7: the number 1.8e308" LARGE },
		{ "-1.8E308", "f:7: the number -1.8E308" LARGE },
		{ "2.3e-308", "" },
		{ "-2.2e-308", "f:7: the number -2.2e-308" SMALL },
		{ "0.0001e-330", "f:7: the number 0.0001e-330" SMALL },
		{ "9E-400", "f:7: the number 9E-400" SMALL },
		{ "10.0e-999", "f:7: the number 10.0e-999" SMALL },
		{ "0.0e-999", "" },
		{ "0E-9", "" },
		{ "-0.000", "" },
		{ ".", "f:7: '.' is not a number: expected digits\n" },
		{ "+.e5", "f:7: '+.e5' is not a number: expected digits\n" },
		{ "9007199254740991.4", "" },
		{ "9007199254740992.0", "" },
		{ "9007199254740991.9", "f:7: the number 9007199254740991.9 is not exact: it would "
					"become 9007199254740992\n" },
		{ "9007199254740993.", "f:7: the number 9007199254740993. is not exact: it would "
				       "become 9007199254740992\n" },
		{ "+9007199254740993.0", "f:7: the number +9007199254740993.0 is not exact: it "
					 "would become 9007199254740992\n" },
		{ "-18014398509481985.0", "f:7: the number -18014398509481985.0 is not exact: it "
					  "would become -18014398509481984\n" },
		{ "18014398509481984.00", "" },
		{ "18014398509481984.01", "f:7: the number 18014398509481984.01 is not exact: it "
					  "would become 18014398509481984\n" },
		{ "018014398509481984.", "" },
		{ "9007199254740993e0", "" },
		{ "1" SIXTY("0") "00.0",
		  "f:7: the number 1" TEN("0") TEN("0") TEN("0") TEN("0") TEN(
			  "0") "000000000... is not exact: it would become "
			       "100000000000000003502199685943161173046080317798311825604870\n" },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		const struct hr_number number = hr_number_find(row[i].text);

		cr_assert_eq(number.length, strlen(row[i].text), "%s", row[i].text);
		hr_number_check(&mistakes, 7, row[i].text, &number);
		cr_expect_str_eq(reported(), row[i].want, "%s: %s", row[i].text, test_error_text());
	}
}

/* A scan of these bytes; returns what the parser gets. */
static const char *scan(const char *text, size_t bytes, int want)
{
	static char out[HR_SCAN_OUT_BYTES(2 * HR_SCAN_ELEMENTS_MAX)];

	memset(out, '#', bytes * 2 + 2);
	cr_expect_eq(hr_scan(&mistakes, text, bytes, out), want, "%.60s", text);
	return out;
}

#define INCLUDE "@include is not supported: an appliance has one file\n"

Test(words, a_scan_marks_integers_and_refuses_what_the_parser_must_not_see)
{
	static const struct {
		const char *text, *out, *want;
	} row[] = {
		{ "", "", "" },
		{ "a = 1;", "a = 1L;", "" },
		{ "a=1L;b=0x1F;c=1.5;d=1e5;e=-7LL,8", "a=1L;b=0x1FL;c=1.5;d=1e5;e=-7LL,8L", "" },
		{ "a1 = b2c3 4", "a1 = b2c3 4L", "" },
		{ "*x1-2_3*4 5", "*x1-2_3*4 5L", "" },
		{ "_1", "_1L", "" }, /* no name begins like that */
		{ "\"1\\\"2\" 3", "\"1\\\"2\" 3L", "" },
		{ "\"\\\\\" 1", "\"\\\\\" 1L", "" },
		{ "\"a\n1\" 2", "\"a\n1\" 2L", "" },
		{ "# 1 \" {\n2", "# 1 \" {\n2L", "" },
		{ "// 1 \"\n2 /", "// 1 \"\n2L /", "" },
		{ "/ 1 * 2 /", "/ 1L * 2L /", "" },
		{ "/* 1\n* / \" */ 2", "/* 1\n* / \" */ 2L", "" },
		{ "/*/ 1 */2", "/*/ 1 */2L", "" },
		{ "/**/1/**/", "/**/1L/**/", "" },
		{ "/* 1", "/* 1", "" },
		{ "\n\n99999999999999999999", NULL, "f:3: the number 99999999999999999999 " FITS },
		{ "\"\\\n\" 99999999999999999999", NULL,
		  "f:2: the number 99999999999999999999 " FITS },
		{ "@include \"x\"", NULL, "f:1: " INCLUDE },
		{ " \t\r\v\f@include", NULL, "f:1: " INCLUDE },
		{ "\"\n  @include\n\"@include", NULL, "f:2: " INCLUDE },
		{ "/*\n\n@include\n@include*/", NULL, "f:3: " INCLUDE "f:4: " INCLUDE },
		{ "x @include\n@includ", "x @include\n@includ", "" },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		const size_t bytes = strlen(row[i].text);
		const char *out = scan(row[i].text, bytes, *row[i].want ? -EINVAL : 0);

		if (row[i].out)
			cr_expect_str_eq(out, row[i].out, "row %zu: %s", i, out);
		cr_expect_str_eq(reported(), row[i].want, "row %zu: %s", i, test_error_text());
	}
}

Test(words, a_nul_in_a_text_is_its_only_mistake)
{
	scan("a = 1\0@include", 14, -EINVAL);
	cr_expect_str_eq(reported(), "f:1: NUL byte; expected a text file\n");
	scan("@include\na\n\0", 12, -EINVAL);
	cr_expect_str_eq(reported(), "f:3: NUL byte; expected a text file\n");
}

/* n times a piece, between two texts. */
static const char *repeated(const char *head, const char *piece, size_t n, const char *tail)
{
	static char text[2 * HR_SCAN_ELEMENTS_MAX];
	const size_t bytes = strlen(piece);
	char *at = stpcpy(text, head);

	while (n--)
		at = (char *)memcpy(at, piece, bytes) + bytes;
	stpcpy(at, tail);
	return text;
}

Test(words, a_text_has_limits_of_depth_settings_and_elements)
{
	static const struct {
		const char *head, *piece;
		size_t n;
		const char *tail, *want;
	} row[] = {
		{ "", "{", 16, "", "" },
		{ "", "(", 17, "\n[{", "f:1: nested deeper than 16 levels\n" },
		{ "\n", "[", 16, "\n(", "f:3: nested deeper than 16 levels\n" },
		{ "})]", "{", 16, "", "" },
		{ "})]", "{", 17, "", "f:1: nested deeper than 16 levels\n" },
		{ "", "{", 16, "}{)(][", "" },
		{ "", "{", 16, "}{)(][\n}}[(\n(", "f:3: nested deeper than 16 levels\n" },
		{ "\"", "{", 40, "\"", "" },
		{ "#", "(", 40, "", "" },
		{ "/*", "[", 40, "*/", "" },
		{ "", "=", 10000, "", "" },
		{ "", ":", 10000, "\n=", "f:2: more than 10000 settings\n" },
		{ "", "=", 10000, "\n:=", "f:2: more than 10000 settings\n" },
		{ "", ",", 65536, "", "" },
		{ "", ",", 65536, "\n,,", "f:2: more than 65536 list elements\n" },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		const char *text = repeated(row[i].head, row[i].piece, row[i].n, row[i].tail);
		const char *out = scan(text, strlen(text), *row[i].want ? -EINVAL : 0);

		cr_expect_eq(strcmp(out, text), 0, "row %zu", i);
		cr_expect_str_eq(reported(), row[i].want, "row %zu: %s", i, test_error_text());
	}
}

#define UNSET 77u

Test(words, sizes_and_durations_are_exact_or_refused)
{
	static const struct {
		const char *text;
		int size_err, duration_err;
		uint64_t size, duration;
	} row[] = {
		{ "", -EINVAL, -EINVAL, 0, 0 },
		{ "K", -EINVAL, -EINVAL, 0, 0 },
		{ "-1", -EINVAL, -EINVAL, 0, 0 },
		{ " 1", -EINVAL, -EINVAL, 0, 0 },
		{ "0", 0, -EINVAL, 0, 0 },
		{ "9", 0, -EINVAL, 9, 0 },
		{ "120", 0, -EINVAL, 120, 0 },
		{ "1 ", -EINVAL, -EINVAL, 0, 0 },
		{ "1:", -EINVAL, -EINVAL, 0, 0 },
		{ "1/", -EINVAL, -EINVAL, 0, 0 },
		{ "3k", 0, -EINVAL, 3072, 0 },
		{ "3K", 0, -EINVAL, 3072, 0 },
		{ "5M", 0, -EINVAL, 5ull << 20, 0 },
		{ "7g", 0, -EINVAL, 7ull << 30, 0 },
		{ "2T", 0, -EINVAL, 2ull << 40, 0 },
		{ "1P", -EINVAL, -EINVAL, 0, 0 },
		{ "1KB", -EINVAL, -EINVAL, 0, 0 },
		{ "3ms", -EINVAL, 0, 0, 3000000 },
		{ "3s", -EINVAL, 0, 0, 3000000000 },
		{ "3m", 0, 0, 3ull << 20, 180000000000 },
		{ "3h", -EINVAL, 0, 0, 10800000000000 },
		{ "3d", -EINVAL, 0, 0, 259200000000000 },
		{ "0d", -EINVAL, 0, 0, 0 },
		{ "3S", -EINVAL, -EINVAL, 0, 0 },
		{ "3mss", -EINVAL, -EINVAL, 0, 0 },
		{ "9223372036854775807", 0, -EINVAL, INT64_MAX, 0 },
		{ "9223372036854775808", -ERANGE, -ERANGE, 0, 0 },
		{ "18446744073709551615", -ERANGE, -ERANGE, 0, 0 },
		{ "18446744073709551616", -ERANGE, -ERANGE, 0, 0 },
		{ "184467440737095516150", -ERANGE, -ERANGE, 0, 0 },
		{ "8388607T", 0, -EINVAL, 8388607ull << 40, 0 },
		{ "8388608T", -ERANGE, -EINVAL, 0, 0 },
		{ "9007199254740991K", 0, -EINVAL, 9007199254740991ull << 10, 0 },
		{ "9007199254740992K", -ERANGE, -EINVAL, 0, 0 },
		{ "9223372036854ms", -EINVAL, 0, 0, 9223372036854000000 },
		{ "9223372036855ms", -EINVAL, -ERANGE, 0, 0 },
		{ "106751d", -EINVAL, 0, 0, 106751ull * 86400000000000 },
		{ "106752d", -EINVAL, -ERANGE, 0, 0 },
		{ "213504d", -EINVAL, -ERANGE, 0, 0 }, /* above 2^64 */
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		uint64_t size = UNSET, duration = UNSET;

		cr_expect_eq(hr_size_parse(row[i].text, &size), row[i].size_err, "%s", row[i].text);
		if (!row[i].size_err)
			cr_expect_eq(size, row[i].size, "%s", row[i].text);
		cr_expect_eq(hr_duration_parse(row[i].text, &duration), row[i].duration_err, "%s",
			     row[i].text);
		cr_expect_eq(duration, row[i].duration_err ? UNSET : row[i].duration, "%s",
			     row[i].text);
	}
}

/* Up to two letters are inserted, left out, replaced or swapped with their neighbour. */
Test(words, a_similar_word_is_the_first_of_the_nearest)
{
	static const char *const known[] = { "alpha", "beta", "abcdef", "ab", "beth" };
	static const char *const longer[] = { "alphabet", "beta",
					      "a_name_of_exactly_32_characters_3" };
	static const struct {
		const char *word, *want;
	} row[] = {
		{ "alpha", "alpha" },	{ "lapha", "alpha" },	{ "alpah", "alpha" },
		{ "xalpha", "alpha" },	{ "alphaxy", "alpha" }, { "alp", "alpha" },
		{ "al", "ab" },		{ "bet", "beta" },	{ "bets", "beta" },
		{ "beht", "beth" },	{ "bath", "beth" },	{ "badcef", "abcdef" },
		{ "bacdfe", "abcdef" }, { "badcfe", NULL },	{ "fbcdea", "abcdef" },
		{ "cbadef", "abcdef" }, { "xyzdef", NULL },	{ "abc", "ab" },
		{ "abcd", "abcdef" },	{ "ba", "ab" },		{ "b", NULL },
		{ "xa", NULL },		{ "a", NULL },		{ "be", "beta" },
		{ "eb", "ab" },		{ "xbexta", "beta" },	{ "xbextax", NULL },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		const char *got = hr_nearest(row[i].word, known, ROWS(known) - 1);
		const char *all = hr_nearest(row[i].word, known, ROWS(known));

		cr_expect_str_eq(all ? all : "-", row[i].want ? row[i].want : "-", "%s: %s",
				 row[i].word, all);
		cr_expect(!got || strcmp(got, "beth") != 0, "%s: a word too many", row[i].word);
	}
	cr_expect_null(hr_nearest("alpha", known, 0));
	cr_expect_str_eq(hr_nearest("al", longer, 2), "alphabet", "it begins the first");
	cr_expect_null(hr_nearest("x_name_of_exactly_32_characters_", longer, 3), "33 characters");
}
