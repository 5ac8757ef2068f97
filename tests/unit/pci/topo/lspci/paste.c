/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of a mail or a page: what is taken off a line, and what stays. */
#include "pci/topo/lspci/lspci.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static struct hr_lspci_paste paste;

static bool begins(const char *line, size_t length)
{
	return length >= 8 && strncmp(line, "00:00.0 ", 8) == 0;
}

/* Expect the rest of a line, whose end is the first newline of `text`: what follows is the text behind
 * it in memory. */
static void expect_line(const char *text, const char *rest)
{
	char line[160];
	size_t length = strcspn(text, "\n");
	char *at;

	snprintf(line, sizeof line, "%s", text);
	line[length] = '\0';
	at = hr_lspci_paste_line(&paste, begins, line, &length);
	cr_expect_eq(length, strlen(rest), "'%s': %zu characters", text, length);
	cr_expect(strncmp(at, rest, length + 1) == 0, "'%s': '%.*s'", text, (int)length, at);
}

static void begin(void)
{
	memset(&paste, 0, sizeof paste);
}

TestSuite(topo_paste, .init = begin, .timeout = 60);

Test(topo_paste, the_first_function_tells_the_quotation)
{
	expect_line("> > he wrote", "> > he wrote");
	expect_line("\t>| 00:00.0 Host bridge", "00:00.0 Host bridge");
	expect_line("\t>| 00:01.0 Port", "00:01.0 Port");
	expect_line("\t>|\tfacts", "\t>|\tfacts");
	expect_line("\t> other", "\t> other");
	expect_line("\t>| ", "");
	expect_line("\t>|", "");
	expect_line("\t>", "\t>");
	expect_line("", "");
	begin();
	expect_line(">\t00:00.0 Host bridge", "00:00.0 Host bridge");
	expect_line("> \t ", "");
	expect_line(">", "");
	expect_line("", "");
}

Test(topo_paste, plain_text_stays_as_it_is)
{
	expect_line("00:00.0 Host bridge", "00:00.0 Host bridge");
	expect_line("> 00:00.0 Host bridge", "> 00:00.0 Host bridge");
	expect_line("  text", "  text");
}

Test(topo_paste, tags_before_the_function_are_taken_off)
{
	expect_line("  <summary>lspci</summary><pre>00:00.0 Host", "00:00.0 Host");
	expect_line("  00:01.0 Port", "00:01.0 Port");
	expect_line("  </pre>", "");
	expect_line("  \tKernel driver in use: nvme<br />", "\tKernel driver in use: nvme");
	expect_line("  x <access denied></TD></tr>", "x <access denied>");
}

/* The next line is in memory behind this one. */
Test(topo_paste, a_tag_ends_within_its_line)
{
	expect_line("> > > > > > > > > > <pre\n>00:00.0 Host", "> > > > > > > > > > <pre");
	expect_line("<pre\n>00:00.0 Host", "<pre");
	expect_line("> > > > > > > > > > <pre>00:00.\n0 Host", "> > > > > > > > > > <pre>00:00.");
	expect_line("> 00:00.0 Host", "00:00.0 Host");
}

/* 31 characters are a quotation; of more, the first 31 are. */
Test(topo_paste, a_quotation_has_at_most_31_characters)
{
	char text[64];

	snprintf(text, sizeof text, "%31s00:00.0 Host", "");
	expect_line(text, "00:00.0 Host");
	snprintf(text, sizeof text, "%31s00:01.0 Port", "");
	expect_line(text, "00:01.0 Port");
	begin();
	snprintf(text, sizeof text, "%32s00:00.0 Host", "");
	expect_line(text, text);
}

Test(topo_paste, entities_are_characters)
{
	expect_line("a &lt;b&gt; &amp;lt; &quot; &", "a <b> < \" &");
	expect_line("&lt", "&lt");
	expect_line("&gt; 00:00.0 Host &amp; Co", "00:00.0 Host & Co");
	expect_line("> 00:01.0 A&amp;B", "00:01.0 A&B");
}

Test(topo_paste, a_time_may_differ_between_lines)
{
	expect_line("[    1.234567] 00:00.0 Host bridge: X", "00:00.0 Host bridge: X");
	expect_line("[    1.9]\tControl", "[    1.9]\tControl");
	expect_line("[    1.234999] \tControl: I/O-", "\tControl: I/O-");
	expect_line("[   12.345678]", "");
	expect_line("[  123.4] text", "text");
	expect_line("[x] text", "[x] text");
	expect_line("00:00.0 Host bridge: X", "00:00.0 Host bridge: X");
	expect_line("[  123.4] text", "[  123.4] text");
}

/* A line of another machine stays as it is. */
Test(topo_paste, a_name_is_the_same_in_all_lines)
{
	expect_line("node7: 00:00.0 Host bridge: X", "00:00.0 Host bridge: X");
	expect_line("node7: \tControl: I/O-", "\tControl: I/O-");
	expect_line("node7:", "");
	expect_line("node8: 00:00.0 Host bridge: X", "node8: 00:00.0 Host bridge: X");
}

Test(topo_paste, other_words_before_a_function)
{
	static const struct {
		const char *text, *rest;
	} row[] = {
		{ "Mar 02 10:15:42 node7 lspci[123]: 00:00.0 Host bridge: X",
		  "00:00.0 Host bridge: X" },
		{ "2026-03-02T10:15:42.1Z 00:00.0 Host bridge: X", "00:00.0 Host bridge: X" },
		{ "box.txt:00:00.0 Host bridge: X", "00:00.0 Host bridge: X" },
		{ "node7  | 00:00.0 Host bridge: X", "00:00.0 Host bridge: X" },
		{ "     1\t00:00.0 Host bridge: X", "00:00.0 Host bridge: X" },
		{ "  - 00:00.0 Host bridge: X", "00:00.0 Host bridge: X" },
		{ "host> 00:00.0 \"Host bridge\" \"X\" \"Y\"",
		  "00:00.0 \"Host bridge\" \"X\" \"Y\"" },
		{ "{code}00:00.0 Host bridge: X", "00:00.0 Host bridge: X" },
		{ "[code]00:00.0 Host bridge: X", "00:00.0 Host bridge: X" },
		{ "`00:00.0 Host bridge: X", "00:00.0 Host bridge: X" },
		{ "my card is 00:00.0 Host bridge: X", "my card is 00:00.0 Host bridge: X" },
		{ "GPU at PCI:00:00.0 failed", "GPU at PCI:00:00.0 failed" },
		{ "7 cards, 00:00.0 Host bridge", "7 cards, 00:00.0 Host bridge" },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		begin();
		expect_line(row[i].text, row[i].rest);
	}
}

Test(topo_paste, each_line_of_a_list_is_a_string)
{
	expect_line("  \"00:00.0 Host bridge: X\",", "00:00.0 Host bridge: X");
	expect_line("  \"\\tControl: I/O-\",", "\tControl: I/O-");
	expect_line("  \"\",", "");
	expect_line("  \"00:01.0 \\\"a\\\"\"]", "00:01.0 \"a\"");
	expect_line("  ]", "]");
}

Test(topo_paste, a_page_begins_with_one_of_its_tags)
{
	static const struct {
		const char *text;
		bool html;
	} row[] = {
		{ "<pre>", true },
		{ "text <b>x", true },
		{ "<!-- x --><html>", true },
		{ "<a <body>", false },
		{ "<prefix>", false },
		{ "00:00.0 <none>", false },
		{ "", false },
		{ "<", false },
		{ "<pre", true },
		{ "<list><node>", false },
		{ "a < b > head", false },
		{ "<blockquote>", true },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++)
		cr_expect_eq(hr_paste_is_html(row[i].text, strlen(row[i].text)), row[i].html,
			     "row %zu", i);
}
