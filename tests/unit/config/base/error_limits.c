/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Texts of errors and mistakes at the limits of their memory, each compared with the text that an
 * unlimited memory would have; the order and the number of mistakes.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "config/base/error.h"
#include "config/file/mistakes.h"
#include "tests/fakes/log.h"

#define LAST (HR_ERROR_BYTES - 1) /* characters of the longest text */
#define GUARD 1			  /* a character that a text never keeps */

static struct {
	struct hr_error e;
	char guard[64];
} t;
static char full[4 * HR_ERROR_BYTES];

static void begin(void)
{
	memset(&t, GUARD, sizeof t);
	hr_error_clear(&t.e);
}

TestSuite(error_limits, .init = begin, .timeout = 60);

/* A text of that length, in which each place differs from its neighbours. */
static const char *text_of(size_t length)
{
	static char text[2][HR_ERROR_BYTES * 2];
	static unsigned turn;
	char *to = text[++turn % 2];

	for (size_t i = 0; i < length; i++)
		to[i] = (char)('a' + i % 23);
	to[length] = '\0';
	return to;
}

/* The error has the text in `full`, cut if that is necessary, and nothing behind it has changed. */
static void expect_full(const char *what, size_t n)
{
	if (strlen(full) > LAST)
		memcpy(full + LAST - 3, "...", 4);
	cr_assert_str_eq(t.e.text, full, "%s, %zu: %zu of %zu", what, n, strlen(t.e.text),
			 strlen(full));
	for (size_t i = 0; i < sizeof t.guard; i++)
		cr_assert_eq(t.guard[i], GUARD, "%s, %zu: guard %zu", what, n, i);
}

Test(error_limits, a_text_is_filled_appended_and_gets_a_context_up_to_its_limit)
{
	for (size_t n = LAST - 12; n <= LAST + 3; n++) {
		begin();
		hr_fail(&t.e, HR_ERROR_FAILED, -EIO, "%s", text_of(n));
		snprintf(full, sizeof full, "%s", text_of(n));
		expect_full("fail", n);
		hr_error_append(&t.e, "%s", "+12345");
		strcat(full, "+12345");
		expect_full("append", n);
		begin();
		hr_fail(&t.e, HR_ERROR_FAILED, -EIO, "%s", text_of(n));
		snprintf(full, sizeof full, "ctx: %s", t.e.text);
		hr_error_context(&t.e, "%s", "ctx");
		expect_full("context", n);
	}
	for (size_t n = 1018; n <= 1026; n++) {
		begin();
		hr_fail(&t.e, HR_ERROR_FAILED, -EIO, "x");
		hr_error_context(&t.e, "%s", text_of(n));
		snprintf(full, sizeof full, "%.1021s: x", text_of(n));
		expect_full("long context", n);
	}
}

Test(error_limits, a_line_is_added_whole_or_counted)
{
	for (size_t used = LAST - 6; used <= LAST; used++)
		for (size_t n = 1; n < 8; n++) {
			const bool fits = used + 1 + n <= LAST;

			begin();
			hr_fail(&t.e, HR_ERROR_FAILED, -EIO, "%s", text_of(used));
			cr_assert_eq(hr_error_add(&t.e, HR_ERROR_USAGE, -EINVAL, "%s", text_of(n)),
				     -EINVAL);
			snprintf(full, sizeof full, "%s%s%s", text_of(used), fits ? "\n" : "",
				 fits ? text_of(n) : "");
			expect_full("add", used * 10 + n);
			cr_assert_eq(t.e.left_out, !fits, "%zu + %zu", used, n);
			/* a shorter line does not pass one that was left out */
			hr_error_add(&t.e, HR_ERROR_USAGE, -EINVAL, "%s", "");
			cr_assert_leq(t.e.left_out, 2u);
			if (!fits) {
				cr_assert_eq(t.e.left_out, 2u);
				expect_full("after", used * 10 + n);
			}
		}
}

Test(error_limits, empty_texts_and_small_codes)
{
	hr_fail(&t.e, HR_ERROR_FAILED, -EIO, "a");
	hr_error_add(&t.e, HR_ERROR_FAILED, -EIO, "%s", "");
	cr_expect_str_eq(t.e.text, "a\n");
	cr_expect_eq(t.e.left_out, 0u);
	hr_error_append(&t.e, "%s", "");
	cr_expect_str_eq(t.e.text, "a\n");
	cr_expect_eq(t.e.text[LAST - 1], GUARD, "nothing is cut");
	cr_expect_eq(hr_error_report(NULL, 1), HR_ERROR_FAILED);
	cr_expect_str_eq(fake_log_last(), "NVMe status 001");
	cr_expect_eq(hr_error_report(NULL, -EPERM), HR_ERROR_FAILED);
	cr_expect_str_eq(fake_log_last(), "Operation not permitted");
}

Test(error_limits, each_line_of_an_error_is_one_of_the_log)
{
	static const char *const line[] = { "one", "two", "three" };
	unsigned logged = 0;

	for (unsigned lines = 1; lines <= 3; lines++) {
		begin();
		for (unsigned i = 0; i < lines; i++)
			hr_error_add(&t.e, HR_ERROR_USAGE, -EINVAL, "%s", line[i]);
		hr_error_log(&t.e, HR_LOG_INFO);
		cr_expect_eq(fake_log_count(), logged += lines, "%u lines", lines);
		cr_expect_str_eq(fake_log_last_of(HR_LOG_INFO), line[lines - 1]);
	}
	begin();
	hr_error_add(&t.e, HR_ERROR_USAGE, -EINVAL, "one");
	t.e.left_out = 1;
	hr_error_log(&t.e, HR_LOG_INFO);
	cr_expect_eq(fake_log_count(), logged + 2);
	cr_expect_str_eq(fake_log_last(), "and 1 more");
}

static struct hr_mistakes mistakes;

static void report(void)
{
	begin();
	mistakes.file = "f";
	hr_mistakes_report(&mistakes, &t.e);
}

Test(error_limits, mistakes_are_in_the_order_of_their_lines)
{
	static const unsigned line[] = { 7, 3, 0, 7, 1, 3, 9, 0 };

	report();
	cr_expect_str_eq(t.e.text, "");
	cr_expect_eq(t.e.kind, HR_ERROR_NONE);
	for (unsigned i = 0; i < sizeof line / sizeof *line; i++)
		hr_mistake(&mistakes, line[i], "m%u", i);
	report();
	cr_expect_str_eq(t.e.text, "f: m2\nf: m7\nf:1: m4\nf:3: m1\nf:3: m5\nf:7: m0\nf:7: m3\n"
				   "f:9: m6");
	cr_expect_eq(t.e.kind, HR_ERROR_USAGE);
	cr_expect_eq(t.e.left_out, 0u);
	hr_mistakes_report(&mistakes, NULL);
}

Test(error_limits, a_long_mistake_is_cut_and_further_ones_are_counted)
{
	for (size_t n = HR_MISTAKE_BYTES - 3; n < HR_MISTAKE_BYTES + 3; n++) {
		memset(&mistakes, 0, sizeof mistakes);
		hr_mistake(&mistakes, 2, "%s", text_of(n));
		cr_expect_eq(mistakes.list[1].line, 0u);
		cr_expect_eq(mistakes.list[1].text[0], '\0', "%zu", n);
		snprintf(full, sizeof full, "f:2: %s", text_of(n));
		if (n >= HR_MISTAKE_BYTES)
			memcpy(full + 5 + HR_MISTAKE_BYTES - 4, "...", 4);
		report();
		expect_full("mistake", n);
	}
	memset(&mistakes, 0, sizeof mistakes);
	for (unsigned i = 0; i < HR_MISTAKES_MAX + 5; i++) {
		hr_mistake(&mistakes, i + 1, "x");
		cr_assert_eq(mistakes.count, i + 1);
	}
	report();
	cr_expect_eq(t.e.left_out, 5u);
	cr_expect_str_eq(t.e.text + strlen(t.e.text) - 9, "\nf:100: x");
	t.e.left_out = 3;
	hr_mistakes_report(&mistakes, &t.e);
	cr_expect_eq(t.e.left_out, 3u + HR_MISTAKES_MAX + 5);
	cr_expect_eq(t.guard[0], GUARD);
}
