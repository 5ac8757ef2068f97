/* SPDX-License-Identifier: Apache-2.0 */
#include "pci/topo/lspci/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ESCAPE '\033'

/* Text that stands for one character; 0: for none. */
struct code {
	const char *text;
	char meant;
};

static const struct code entities[] = {
	{ "lt;", '<' },	   { "gt;", '>' },   { "amp;", '&' },  { "quot;", '"' },
	{ "apos;", '\'' }, { "nbsp;", ' ' }, { "emsp;", ' ' }, { "ensp;", ' ' },
};

/* UTF-8: blanks, marks without a width, quotation marks, dashes. */
static const struct code marks[] = {
	{ "\xc2\xa0", ' ' },	 { "\xe3\x80\x80", ' ' },  { "\xe2\x80\xaf", ' ' },
	{ "\xe2\x80\x82", ' ' }, { "\xe2\x80\x83", ' ' },  { "\xe2\x80\x89", ' ' },
	{ "\xc2\xad", 0 },	 { "\xe2\x80\x8b", 0 },	   { "\xe2\x80\x8c", 0 },
	{ "\xe2\x80\x8d", 0 },	 { "\xe2\x80\x8e", 0 },	   { "\xe2\x81\xa0", 0 },
	{ "\xef\xbb\xbf", 0 },	 { "\xe2\x80\x98", '\'' }, { "\xe2\x80\x99", '\'' },
	{ "\xe2\x80\x9c", '"' }, { "\xe2\x80\x9d", '"' },  { "\xe2\x80\x93", '-' },
	{ "\xe2\x80\x94", '-' }, { "\xe2\x88\x92", '-' },
};

/* The code that text begins with; NULL: none. */
static const struct code *find_escape(const struct code *codes, size_t count, const char *text)
{
	for (size_t i = 0; i < count; i++)
		if (strncmp(text, codes[i].text, strlen(codes[i].text)) == 0)
			return &codes[i];
	return NULL;
}

#define FIND(codes, text) find_escape(codes, sizeof(codes) / sizeof *(codes), text)

/* A character by its number; a blank for those that a line of lspci does not have. */
static char of_number(unsigned long number)
{
	return number == '\t' || (number > ' ' && number < 0x7f) || number == ESCAPE ? (char)number
										     : ' ';
}

/* Read "#39;" or "#x27;"; returns its length, 0: not a number. */
static size_t numbered(const char *text, char *meant)
{
	const bool hex = text[0] == '#' && (text[1] | 32) == 'x';
	const char *digits = text + (hex ? 2 : 1);
	const size_t n = strspn(digits, hex ? "0123456789abcdefABCDEF" : "0123456789");

	if (text[0] != '#' || n == 0 || n > 6 || digits[n] != ';')
		return 0;
	*meant = of_number(strtoul(digits, NULL, hex ? 16 : 10));
	return (size_t)(digits - text) + n + 1;
}

/* Read an entity after its '&'; returns its length, 0: not one. */
static size_t entity(const char *text, char *meant)
{
	size_t escaped = 0, n;
	const struct code *known;

	/* "&amp;gt;" was escaped twice. */
	for (; strncmp(text, "amp;", 4) == 0 && (FIND(entities, text + 4) || text[4] == '#');
	     text += 4)
		escaped += 4;
	n = numbered(text, meant);
	known = n ? NULL : FIND(entities, text);
	if (known) {
		*meant = known->meant;
		n = strlen(known->text);
	}
	return n ? escaped + n : 0;
}

/* Length of the control sequence of a terminal after the escape character. */
static size_t colour(const char *text)
{
	size_t n = 1;

	if (*text == '(' || *text == ')')
		return text[1] ? 2 : 1;
	if (*text != '[')
		return 0;
	n += strspn(text + 1, "0123456789;:?<=> ");
	return text[n] >= '@' && text[n] <= '~' ? n + 1 : n;
}

/*
 * Read what stands for another character at text. Returns its length, 0: the character is itself;
 * *meant 0: for none.
 */
static size_t special(const char *text, char *meant)
{
	const struct code *mark;
	size_t n;

	*meant = 0;
	if (*text == '&') {
		n = entity(text + 1, meant);
		return n ? n + 1 : 0;
	}
	if (*text == ESCAPE)
		return 1 + colour(text + 1);
	if (*text == '\\') {
		*meant = text[1];
		/* A tree has "\-", quoted fields have "\"". */
		return text[1] && strchr("[]_*<>#.(){}!~|", text[1]) ? 2 : 0;
	}
	mark = FIND(marks, text);
	if (mark)
		*meant = mark->meant;
	return mark ? strlen(mark->text) : 0;
}

size_t hr_escapes_clean(char *line, size_t length)
{
	size_t from = 0, to;

	while (from < length && line[from] != '&' && line[from] != '\\' && line[from] != ESCAPE &&
	       (unsigned char)line[from] < 0x80)
		from++;
	for (to = from; from < length;) {
		char meant;
		size_t n = special(line + from, &meant);

		if (n == 0)
			line[to++] = line[from++];
		else if (meant)
			line[to++] = meant;
		from += n;
	}
	line[to] = '\0';
	return to;
}

/* Number of backslashes at text, which ends in NUL. */
static size_t backslashes(const char *text)
{
	return strspn(text, "\\");
}

/* The next "\\n", however often it was escaped; NULL: none. */
static char *next_newline(char *text)
{
	while ((text = strchr(text, '\\'))) {
		const size_t n = backslashes(text);

		if (text[n] == 'n')
			return text;
		text += n;
	}
	return NULL;
}

/* Where a function begins directly after the quotation mark of a string; NULL: nowhere. */
static char *after_quote(bool (*begins)(const char *line, size_t length), char *line, size_t length)
{
	for (size_t i = 0; i < length; i++)
		if ((line[i] == '"' || line[i] == '\'') && begins(line + i + 1, length - i - 1))
			return line + i + 1;
	return NULL;
}

static bool after_newline(bool (*begins)(const char *line, size_t length), char *at,
			  const char *end)
{
	for (; at; at = next_newline(at)) {
		at += backslashes(at) + 1;
		if (begins(at, (size_t)(end - at)))
			return true;
	}
	return false;
}

bool hr_escapes_begin(struct hr_escapes_string *s, bool (*begins)(const char *line, size_t length),
		      char *line, size_t length)
{
	char *newline = next_newline(line), *at;
	const size_t known = strlen(s->prefix);

	if (!newline)
		return false;
	s->end = line + length;
	s->at = line;
	s->inside = true;
	if (known && strncmp(line, s->prefix, known) == 0) {
		s->at += known;
		return true;
	}
	if (begins(line, length)) {
		s->prefix[0] = s->quote = '\0';
		return true;
	}
	at = after_quote(begins, line, length);
	if (at && next_newline(at)) {
		s->at = at;
		s->quote = at[-1];
		snprintf(s->prefix, sizeof s->prefix, "%.*s",
			 at - line < (int)sizeof s->prefix ? (int)(at - line) : 0, line);
		return true;
	}
	if (!after_newline(begins, newline, s->end))
		return false;
	s->inside = false;
	s->prefix[0] = s->quote = '\0';
	if (memchr(line, '"', (size_t)(newline - line)))
		s->quote = '"';
	else if (memchr(line, '\'', (size_t)(newline - line)))
		s->quote = '\'';
	return true;
}

/* Decode the character after backslashes; returns its length, 0: the backslashes are meant. */
static size_t decode(const char *text, char *meant)
{
	char digits[5] = "";

	*meant = text[0] == 't' ? '\t' : text[0] == 'r' ? 0 : text[0];
	if (text[0] && strchr("tr\"'/", text[0]))
		return 1;
	if (text[0] != 'u' || strspn(text + 1, "0123456789abcdefABCDEF") < 4)
		return 0;
	memcpy(digits, text + 1, 4);
	*meant = of_number(strtoul(digits, NULL, 16));
	return 5;
}

size_t hr_escapes_decode(char *line, size_t length)
{
	size_t from = 0, to = 0;

	while (from < length) {
		const size_t n = backslashes(line + from);
		char meant;
		size_t used = n ? decode(line + from + n, &meant) : 0;

		if (!n) {
			line[to++] = line[from++];
			continue;
		}
		if (!used)
			for (size_t i = 0; i < (n + 1) / 2; i++)
				line[to++] = '\\';
		else if (meant)
			line[to++] = meant;
		from += n + used;
	}
	line[to] = '\0';
	return to;
}

/* End of the line at `at`: a newline or the end of the string. */
static char *end_of_line(const struct hr_escapes_string *s, char *at)
{
	while (at < s->end && (*at != s->quote || !s->quote)) {
		const size_t n = backslashes(at);

		if (n && at[n] == 'n')
			return at;
		at += n + 1;
	}
	return at < s->end ? at : s->end;
}

char *hr_escapes_next(struct hr_escapes_string *s, size_t *length)
{
	while (s->at) {
		char *line = s->at, *at = end_of_line(s, line);
		const bool newline = at < s->end && *at == '\\',
			   taken = newline || (s->inside && at > line);

		s->inside = newline;
		s->at = at == s->end ? NULL : at + backslashes(at) + 1;
		*at = '\0';
		*length = hr_escapes_decode(line, (size_t)(at - line));
		if (taken)
			return line;
	}
	return NULL;
}
