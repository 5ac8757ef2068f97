#include "config/scan.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "config/number.h"

struct scanner {
	struct hr_mistakes *mistakes;
	enum { CODE, STRING, LINE_COMMENT, BLOCK_COMMENT } in;
	unsigned line, depth, settings, elements;
	char *out;
};

static void emit(struct scanner *s, const char *text, size_t length)
{
	memcpy(s->out, text, length);
	s->out += length;
}

static void code(struct scanner *s, char c, char next)
{
	if (c == '"')
		s->in = STRING;
	else if (c == '#' || (c == '/' && next == '/'))
		s->in = LINE_COMMENT;
	else if (c == '/' && next == '*')
		s->in = BLOCK_COMMENT;
	else if ((c == '{' || c == '(' || c == '[') && ++s->depth == HR_SCAN_DEPTH_MAX + 1)
		hr_mistake(s->mistakes, s->line, "nested deeper than %u levels", HR_SCAN_DEPTH_MAX);
	else if ((c == '}' || c == ')' || c == ']') && s->depth > 0)
		s->depth--;
	else if ((c == '=' || c == ':') && ++s->settings == HR_SCAN_SETTINGS_MAX + 1)
		hr_mistake(s->mistakes, s->line, "more than %u settings", HR_SCAN_SETTINGS_MAX);
	else if (c == ',' && ++s->elements == HR_SCAN_ELEMENTS_MAX + 1)
		hr_mistake(s->mistakes, s->line, "more than %u list elements",
			   HR_SCAN_ELEMENTS_MAX);
}

/* Scan one character; returns how many were consumed (two of an escape or comment mark). */
static size_t step(struct scanner *s, char c, char next)
{
	switch (s->in) {
	case CODE:
		code(s, c, next);
		return s->in == BLOCK_COMMENT ? 2 : 1;
	case STRING:
		if (c == '\\' && next && next != '\n')
			return 2;
		if (c == '"')
			s->in = CODE;
		return 1;
	case LINE_COMMENT:
		if (c == '\n')
			s->in = CODE;
		return 1;
	case BLOCK_COMMENT:
		if (c == '*' && next == '/') {
			s->in = CODE;
			return 2;
		}
		return 1;
	}
	return 1;
}

/* Length of a name. Digits in a name are not a number. */
static size_t name_length(const char *text)
{
	size_t n = 0;

	if (!isalpha((unsigned char)*text) && *text != '*')
		return 0;
	while (isalnum((unsigned char)text[n]) || (text[n] && strchr("*_-", text[n])))
		n++;
	return n;
}

/* Scan a name or a number; returns its length, or 0. */
static size_t word(struct scanner *s, const char *text)
{
	const size_t name = name_length(text);
	const struct hr_number number = hr_number_find(text);
	const size_t length = name ? name : number.length;

	if (s->in != CODE || !length)
		return 0;
	emit(s, text, length);
	if (name)
		return length;
	hr_number_check(s->mistakes, s->line, text, &number);
	if (number.integer && !number.suffix)
		emit(s, "L", 1);
	return length;
}

/* libconfig obeys @include at the start of any line, also inside a string or comment. */
static bool is_include(const char *line)
{
	line += strspn(line, " \t\r\v\f");
	return strncmp(line, "@include", 8) == 0;
}

int hr_scan(struct hr_mistakes *m, const char *text, size_t bytes, char *out)
{
	struct scanner s = { .mistakes = m, .line = 1, .out = out };
	uint32_t before = m->count;
	const char *nul = memchr(text, '\0', bytes);

	if (nul) {
		for (const char *c = text; c < nul; c++)
			s.line += *c == '\n';
		hr_mistake(m, s.line, "NUL byte; expected a text file");
		return -EINVAL;
	}
	if (is_include(text))
		hr_mistake(m, 1, "@include is not supported: an appliance has one file");
	for (size_t i = 0, used; i < bytes; i += used) {
		if (text[i] == '\n') {
			s.line++;
			if (is_include(text + i + 1))
				hr_mistake(m, s.line,
					   "@include is not supported: an appliance has one file");
		}
		used = word(&s, text + i);
		if (used)
			continue;
		used = step(&s, text[i], text[i + 1]);
		emit(&s, text + i, used);
	}
	emit(&s, "", 1);
	return m->count == before ? 0 : -EINVAL;
}
