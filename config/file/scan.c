#include "config/file/scan.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "config/file/number.h"

/* A name in the text, in its line. */
struct name {
	const char *text;
	size_t length;
	unsigned line;
};

struct scanner {
	struct hr_mistakes *mistakes;
	enum { CODE, STRING, LINE_COMMENT, BLOCK_COMMENT } in;
	unsigned line, depth, settings, elements;
	char *out;
	struct name last; /* the name that was scanned last: the key before a '=' */
	/* The keys of the open groups, and where those of each group begin. */
	unsigned keys, begin[HR_SCAN_DEPTH_MAX + 1];
	struct name key[HR_SCAN_SETTINGS_MAX];
};

static void emit(struct scanner *s, const char *text, size_t length)
{
	memcpy(s->out, text, length);
	s->out += length;
}

/* A '=' or ':' follows the last name. */
static void take_key(struct scanner *s)
{
	const struct name *key = &s->last;
	const unsigned begin = s->depth <= HR_SCAN_DEPTH_MAX ? s->begin[s->depth] : s->keys;

	if (++s->settings == HR_SCAN_SETTINGS_MAX + 1)
		hr_mistake(s->mistakes, s->line, "more than %u settings", HR_SCAN_SETTINGS_MAX);
	if (s->settings > HR_SCAN_SETTINGS_MAX || !key->length)
		return;
	for (unsigned i = begin; i < s->keys; i++)
		if (s->key[i].length == key->length &&
		    memcmp(s->key[i].text, key->text, key->length) == 0) {
			hr_mistake(s->mistakes, key->line,
				   "key '%.*s' is here twice, the first time on line %u",
				   (int)key->length, key->text, s->key[i].line);
			return;
		}
	s->key[s->keys++] = *key;
}

static void open_bracket(struct scanner *s)
{
	if (++s->depth == HR_SCAN_DEPTH_MAX + 1)
		hr_mistake(s->mistakes, s->line, "nested deeper than %u levels", HR_SCAN_DEPTH_MAX);
	if (s->depth <= HR_SCAN_DEPTH_MAX)
		s->begin[s->depth] = s->keys;
}

static void close_bracket(struct scanner *s)
{
	if (s->depth && s->depth <= HR_SCAN_DEPTH_MAX)
		s->keys = s->begin[s->depth];
	s->depth -= s->depth > 0;
}

static void code(struct scanner *s, char c, char next)
{
	if (c == '"')
		s->in = STRING;
	else if (c == '#' || (c == '/' && next == '/'))
		s->in = LINE_COMMENT;
	else if (c == '/' && next == '*')
		s->in = BLOCK_COMMENT;
	else if (c == '{' || c == '(' || c == '[')
		open_bracket(s);
	else if (c == '}' || c == ')' || c == ']')
		close_bracket(s);
	else if (c == '=' || c == ':')
		take_key(s);
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
	if (name) {
		s->last = (struct name){ text, length, s->line };
		return length;
	}
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
	struct scanner s;
	uint32_t before = m->count;
	const char *nul = memchr(text, '\0', bytes);

	memset(&s, 0, offsetof(struct scanner, key));
	s.mistakes = m;
	s.line = 1;
	s.out = out;
	if (bytes >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) {
		hr_mistake(m, 1,
			   "begins with a byte order mark (U+FEFF); expected text without one");
		return -EINVAL;
	}
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
