/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Extracts lspci output from a mail, an issue, a log or a web page: quoted, indented, between tags,
 * after a time or a name.
 */
#include "pci/topo/lspci/lspci.h"

#include <string.h>
#include <strings.h>

#include "pci/topo/lspci/text.h"

#define QUOTE_MAX 31u
#define DIGITS "0123456789"

/* Number of leading characters that quote or indent a line. */
static size_t leading(const char *line, size_t length)
{
	size_t n = 0;

	while (n < length && n < QUOTE_MAX && line[n] && strchr(" \t>|", line[n]))
		n++;
	return n;
}

/* Length of a tag at the start of the line, or of quotation marks; 0: neither. */
static size_t tag(const char *line, size_t length)
{
	static const char open[] = "<{[", close[] = ">}]";
	const char *kind = *line ? strchr(open, *line) : NULL, *end;

	if (!kind)
		return strspn(line, "\"'`");
	end = memchr(line, close[kind - open], length);
	return end ? (size_t)(end - line) + 1 : 0;
}

/*
 * In "<summary>lspci</summary><pre>00:00.0 ..": length of the text before the function; 0: no
 * function.
 */
static size_t tags(hr_paste_begins *begins, const char *line, size_t length)
{
	size_t n = 0, more;

	while (n < length && (more = tag(line + n, length - n))) {
		n += more;
		if (begins(line + n, length - n))
			return n;
		/* "<summary>lspci</summary>": words between two tags */
		if (n < length && line[0] == '<' && line[n] != '<') {
			const char *next = memchr(line + n, '<', length - n);

			n = next ? (size_t)(next - line) : length;
		}
	}
	return 0;
}

/* Length of other cells of a table (CSV) before the cell that begins with a function; 0: none. */
static size_t cell(hr_paste_begins *begins, const char *line, size_t length)
{
	for (size_t i = 1; i < length && i < HR_PASTE_PREFIX_MAX; i++)
		if (line[i - 1] == '"' && begins(line + i, length - i))
			return i;
	return 0;
}

/* True for the last word before a function: a time, or a word that ends in a mark. */
static bool is_stamp(const char *line, size_t from, size_t to)
{
	const char last = line[to - 1];
	size_t digits = 0, others = 0;

	if (strchr(":]|>)", last))
		return true;
	for (size_t i = from; i < to; i++) {
		digits += strchr(DIGITS, line[i]) != NULL;
		others += !strchr(DIGITS ":.-/+TZ,", line[i]);
	}
	/* "2026-03-02T10:15:42Z", the number of a line, or the mark of a list */
	return (digits && others == 0 && (digits >= 4 || strspn(line, " \t") == from)) ||
	       (to - from == 1 && strchr("-*#+", last));
}

/* A sentence may name a function, too, but not with its title. */
static bool has_title(hr_paste_begins *begins, const char *line, size_t length)
{
	return begins(line, length) && (strstr(line, ": ") || strchr(line, '"') || *line == '-' ||
					(unsigned char)*line >= 'A');
}

/* Length of a time, a host name or a mark before the function; 0: no function, or other words. */
static size_t stamp(hr_paste_begins *begins, const char *line, size_t length)
{
	size_t word = 0, end = 0;

	for (size_t i = 1; i < length && i < HR_PASTE_PREFIX_MAX; i++) {
		const bool blank = line[i - 1] == ' ' || line[i - 1] == '\t';

		if (!blank) {
			if (end != i - 1)
				word = i - 1;
			end = i;
		}
		/* "file.txt:00:00.0 .." without a blank, too */
		if ((blank || strchr(":]|", line[i - 1])) &&
		    has_title(begins, line + i, length - i))
			return end && is_stamp(line, word, end) ? i : 0;
	}
	return 0;
}

/* Skip the digits or blanks at *at. */
static void skip(const char **at, const char *set)
{
	*at += strspn(*at, set);
}

/*
 * Length of the prefix in this line, in which numbers of a time or counter may differ; 0: another
 * prefix. A word that begins with a letter is a name and must be equal.
 */
static size_t same_stamp(const struct hr_lspci_paste *p, const char *line, size_t length)
{
	const char *a = p->prefix, *end = a + p->length, *b = line;
	bool varies = true, word = false;
	size_t tail = p->length;

	while (tail && (p->prefix[tail - 1] == ' ' || p->prefix[tail - 1] == '\t'))
		tail--;
	while (a < p->prefix + tail) {
		if (*a == ' ' && *b == ' ') {
			skip(&a, " ");
			skip(&b, " ");
			word = false;
			continue;
		}
		if (!word)
			varies = strchr(DIGITS "[(", *a) != NULL;
		word = true;
		if (varies && strchr(DIGITS, *a) && *b && strchr(DIGITS, *b)) {
			skip(&a, DIGITS);
			skip(&b, DIGITS);
		} else if (*a++ != *b++) {
			return 0;
		}
	}
	for (; a < end && *b == *a; a++)
		b++;
	/* A blank line may have lost the blanks at its end. */
	return a == end || *b == '\0' ? (size_t)(b - line) : 0;
}

/* A blank line of a quotation may have lost the blanks at its end. */
static bool is_blank(const struct hr_lspci_paste *p, const char *line, size_t length)
{
	size_t bare = p->length;

	while (bare && (p->prefix[bare - 1] == ' ' || p->prefix[bare - 1] == '\t'))
		bare--;
	while (length && (line[length - 1] == ' ' || line[length - 1] == '\t'))
		length--;
	return length <= p->length && length >= bare && memcmp(line, p->prefix, length) == 0;
}

/* In a list of strings, remove the marks around this one. */
static char *unquote(char *line, size_t *length)
{
	size_t n = *length;

	if (line[0] != '"' && line[0] != '\'')
		return line;
	while (n > 1 && (line[n - 1] == ',' || line[n - 1] == ' ' || line[n - 1] == ']'))
		n--;
	if (n > 1 && line[n - 1] == line[0])
		n--;
	else
		n = *length;
	line[n] = '\0';
	*length = hr_escapes_decode(line + 1, n - 1);
	return line + 1;
}

/* Find the function in a line; n is the length of the text before it. */
static bool find_pasted_function(struct hr_lspci_paste *p, hr_paste_begins *begins,
				 const char *line, size_t length, size_t *n)
{
	const size_t lead = leading(line, length);
	size_t prefix = lead;

	*n = lead + tags(begins, line + lead, length - lead);
	if (!begins(line + *n, length - *n)) {
		if (p->stamped)
			return false;
		*n = cell(begins, line, length);
		prefix = *n ? 0 : stamp(begins, line, length);
		if (!*n && !prefix)
			return false;
		*n += prefix;
	}
	p->stamped = prefix > lead;
	p->quoted = *n > lead && !p->stamped && strchr("\"'", line[*n - 1]) != NULL;
	p->plain = prefix == 0 && !p->quoted;
	p->length = prefix;
	memcpy(p->prefix, line, prefix);
	p->prefix[prefix] = '\0';
	return true;
}

/* Lines of a dump ("00: ", "100: ") have no escapes, and there are many. */
static bool is_data(const char *line, size_t length)
{
	return length >= 5 &&
	       ((line[2] == ':' && line[3] == ' ') || (line[3] == ':' && line[4] == ' '));
}

/* Length of the line without tags at its end, as a page puts them: "..<br>", "..</td></tr>". */
static size_t before_tags(const char *line, size_t length)
{
	static const char *const ends[] = { "<br>",	    "<br/>",  "<br />",	 "</pre>",
					    "</code>",	    "</p>",   "</td>",	 "</tr>",
					    "</li>",	    "</div>", "</span>", "</samp>",
					    "</blockquote>" };

	while (length && line[length - 1] == '>') {
		const size_t before = length;

		for (unsigned i = 0; i < sizeof ends / sizeof *ends && length == before; i++) {
			const size_t n = strlen(ends[i]);

			if (length >= n && strncasecmp(line + length - n, ends[i], n) == 0)
				length -= n;
		}
		if (length == before)
			break;
	}
	return length;
}

char *hr_lspci_paste_line(struct hr_lspci_paste *p, hr_paste_begins *begins, char *line,
			  size_t *length)
{
	size_t n = 0;

	if (!is_data(line, *length))
		*length = hr_escapes_clean(line, *length);
	if (!p->plain && find_pasted_function(p, begins, line, *length, &n)) {
		if (p->quoted)
			n--;
	} else if (p->stamped) {
		n = same_stamp(p, line, *length);
	} else if (p->length && is_blank(p, line, *length)) {
		n = *length;
	} else if (*length >= p->length && memcmp(line, p->prefix, p->length) == 0) {
		n = p->length;
	}
	line += n;
	*length = before_tags(line, *length - n);
	line[*length] = '\0';
	return p->quoted ? unquote(line, length) : line;
}

size_t hr_paste_emphasis(hr_paste_begins *begins, char *line, size_t length)
{
	const size_t lead = strspn(line, " \t>|-*+");
	size_t from = lead, n;

	while (from && line[from - 1] == '*')
		from--;
	n = strspn(line + from, "*_`");
	if (n == 0 || from + n >= length || line[from + n] == ' ' ||
	    (!begins(line + from + n, length - from - n) &&
	     strncasecmp(line + from + n, "IOMMU group", 11) != 0))
		return length;
	memmove(line + from, line + from + n, length - from - n + 1);
	length -= n;
	while (length > from && strchr("*_`", line[length - 1]))
		length--;
	line[length] = '\0';
	return length;
}

bool hr_paste_is_html(const char *head, size_t size)
{
	static const char *const html[] = { "details", "summary", "pre", "code",       "html",
					    "body",    "div",	  "p",	 "blockquote", "br",
					    "table",   "span",	  "b",	 "samp",       "head" };
	const char *end = head + size, *at = head;

	while ((at = memchr(at, '<', (size_t)(end - at)))) {
		size_t n = 0;

		at++;
		while (at + n < end && n < 16 && ((at[n] | 32) >= 'a' && (at[n] | 32) <= 'z'))
			n++;
		for (unsigned i = 0; n && i < sizeof html / sizeof *html; i++)
			if (strlen(html[i]) == n && strncasecmp(html[i], at, n) == 0)
				return true;
		if (n)
			return false;
	}
	return false;
}
