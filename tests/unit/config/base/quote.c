/* SPDX-License-Identifier: Apache-2.0 */
/* Texts as words of a shell and as strings of a configuration: what a shell reads is the text. */
#include "config/base/text.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static char text[HR_QUOTE_BYTES];

TestSuite(quote, .timeout = 60);

Test(quote, only_what_has_a_meaning_is_quoted)
{
	static const struct {
		const char *text, *word, *value;
	} row[] = {
		{ "S4EVNX0R", "S4EVNX0R", "\"S4EVNX0R\"" },
		{ "soft:/a/b.img,size=64M", "soft:/a/b.img,size=64M",
		  "\"soft:/a/b.img,size=64M\"" },
		{ "", "''", "\"\"" },
		{ "a b", "'a b'", "\"a b\"" },
		{ "';reboot;'", "''\\'';reboot;'\\'''", "\"';reboot;'\"" },
		{ "$(x)`y`\"z\\", "'$(x)`y`\"z\\'", "\"$(x)`y`\\\"z\\\\\"" },
		{ "~x*", "'~x*'", "\"~x*\"" },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		cr_expect_str_eq(hr_quote(row[i].text, text), row[i].word, "row %zu: %s", i, text);
		cr_expect_str_eq(hr_quote_config(row[i].text, text), row[i].value, "row %zu: %s", i,
				 text);
	}
}

/* Another program's answer. */
Test(quote, a_shell_reads_the_text)
{
	static const char hard[] = "a'b\"c$d`e\\f;g|h&i>j<k(l)m#n!o*p?q[r]s{t}u~v w";
	char command[HR_QUOTE_BYTES + 32], said[128] = "";
	FILE *shell;

	snprintf(command, sizeof command, "printf '%%s' %s", hr_quote(hard, text));
	shell = popen(command, "re");
	cr_assert_not_null(shell);
	cr_expect_gt(fread(said, 1, sizeof said - 1, shell), 0u);
	cr_expect_eq(pclose(shell), 0);
	cr_expect_str_eq(said, hard);
}

Test(quote, a_text_that_is_too_long_stays_one_word)
{
	static char longer[2 * HR_QUOTE_BYTES];

	memset(longer, '\'', sizeof longer - 1);
	hr_quote(longer, text);
	cr_expect_lt(strlen(text), HR_QUOTE_BYTES);
	cr_expect_eq((strlen(text) - 2) % 4, 0u);
	cr_expect_eq(text[strlen(text) - 1], '\'');
	memset(longer, 'a', sizeof longer - 1);
	hr_quote(longer, text);
	cr_expect_lt(strlen(text), HR_QUOTE_BYTES);
	cr_expect_eq(text[0], '\'');
	cr_expect_eq(text[strlen(text) - 1], '\'');
}

Test(quote, one_line_of_text_ends_in_its_memory)
{
	cr_expect(hr_is_line("", 1));
	cr_expect(hr_is_line("a b\xc3\xa4", 6));
	cr_expect_not(hr_is_line("abc", 3), "no NUL");
	cr_expect_not(hr_is_line("a\nb", 4));
	cr_expect_not(hr_is_line("\x1b[2J", 5));
	cr_expect_not(hr_is_line("\x7f", 2));
}
