/*
 * Extracts lspci output from a mail, an issue or a web page: quoted, indented, between tags,
 * escaped.
 */
#include "pci/topo/paste.h"

#include <string.h>

/* Number of leading characters that quote or indent a line. */
static size_t leading(const char *line, size_t length)
{
	size_t n = 0;

	while (n < length && n < HR_PASTE_PREFIX_MAX && line[n] && strchr(" \t>|", line[n]))
		n++;
	return n;
}

/*
 * In "<summary>lspci</summary><pre>00:00.0 ..": length of the text before the function; 0: no
 * function.
 */
static size_t tags(bool (*begins)(const char *line, size_t length), const char *line, size_t length)
{
	const char *at = line, *end = line + length;

	while (length && *line == '<' && (at = memchr(at, '>', (size_t)(end - at)))) {
		at++;
		if (begins(at, (size_t)(end - at)))
			return (size_t)(at - line);
	}
	return 0;
}

static size_t unescape(char *line, size_t length)
{
	static const struct {
		const char *name;
		char meant;
	} entities[] = { { "&lt;", '<' }, { "&gt;", '>' }, { "&amp;", '&' } };
	size_t from = 0, to = 0;

	while (from < length) {
		size_t used = 1;
		char c = line[from];

		for (unsigned i = 0; c == '&' && i < sizeof entities / sizeof *entities; i++)
			if (strncmp(line + from, entities[i].name, strlen(entities[i].name)) == 0) {
				used = strlen(entities[i].name);
				c = entities[i].meant;
				break;
			}
		line[to++] = c;
		from += used;
	}
	line[to] = '\0';
	return to;
}

/* A blank line of a quotation may have lost the blanks at its end. */
static bool is_blank(const struct hr_paste *p, const char *line, size_t length)
{
	size_t bare = p->length;

	while (bare && (p->prefix[bare - 1] == ' ' || p->prefix[bare - 1] == '\t'))
		bare--;
	while (length && (line[length - 1] == ' ' || line[length - 1] == '\t'))
		length--;
	return length <= p->length && length >= bare && memcmp(line, p->prefix, length) == 0;
}

char *hr_paste_line(struct hr_paste *p, bool (*begins)(const char *line, size_t length), char *line,
		    size_t *length)
{
	size_t n;

	if (memchr(line, '&', *length))
		*length = unescape(line, *length);
	if (!p->plain) {
		size_t lead = leading(line, *length);

		n = lead + tags(begins, line + lead, *length - lead);
		if (begins(line + n, *length - n)) {
			p->plain = lead == 0;
			p->length = lead;
			memcpy(p->prefix, line, lead);
			*length -= n;
			return line + n;
		}
	}
	if (p->length == 0)
		return line;
	if (is_blank(p, line, *length))
		n = *length;
	else if (*length >= p->length && memcmp(line, p->prefix, p->length) == 0)
		n = p->length;
	else
		return line;
	*length -= n;
	return line + n;
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
