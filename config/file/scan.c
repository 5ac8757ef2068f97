/* SPDX-License-Identifier: Apache-2.0 */
#include "config/file/scan.h"

#include <ctype.h>
#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
static void store_key(struct scanner *s)
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
		store_key(s);
	else if (c == ',' && ++s->elements == HR_SCAN_ELEMENTS_MAX + 1)
		hr_mistake(s->mistakes, s->line, "more than %u list elements",
			   HR_SCAN_ELEMENTS_MAX);
}

/* Scan one character; returns how many were consumed (two of an escape or comment mark). */
static size_t scan_character(struct scanner *s, char c, char next)
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
		used = scan_character(&s, text[i], text[i + 1]);
		emit(&s, text + i, used);
	}
	emit(&s, "", 1);
	return m->count == before ? 0 : -EINVAL;
}

/* ---- numbers in the raw text */

#define DOUBLE_EXACT 9007199254740992.0 /* 2^53: a double holds every whole number up to it */
#define QUOTED 60			/* digits of a number that a message shows */

static size_t decimals(const char *text)
{
	size_t n = 0;

	while (isdigit((unsigned char)text[n]))
		n++;
	return n;
}

static size_t suffix(const char *text)
{
	return text[0] != 'L' ? 0 : text[1] == 'L' ? 2 : 1;
}

static size_t exponent(const char *text)
{
	const size_t sign = text[0] && (text[1] == '+' || text[1] == '-') ? 2 : 1;
	size_t n;

	if (text[0] != 'e' && text[0] != 'E')
		return 0;
	n = decimals(text + sign);
	return n ? sign + n : 0;
}

static size_t hexadecimals(const char *text)
{
	size_t n = 2;

	if (text[0] != '0' || (text[1] != 'x' && text[1] != 'X'))
		return 0;
	while (isxdigit((unsigned char)text[n]))
		n++;
	return n > 2 ? n : 0;
}

struct hr_number hr_number_find(const char *text)
{
	const size_t hex = hexadecimals(text), sign = *text == '+' || *text == '-';
	const size_t whole = sign + decimals(text + sign);
	struct hr_number number = { .integer = true };
	size_t end = whole;

	if (hex || (whole > sign && text[whole] != '.' && !exponent(text + whole))) {
		end = hex ? hex : whole;
		number.length = end + suffix(text + end);
		number.suffix = number.length > end;
		return number;
	}
	number.integer = false;
	if (text[end] == '.')
		end += 1 + decimals(text + end + 1);
	end += end > sign ? exponent(text + end) : 0;
	number.length = end > sign ? end : 0;
	return number;
}

static void check_integer(struct hr_mistakes *m, unsigned line, const char *text, size_t length)
{
	const bool minus = *text == '-', hex = hexadecimals(text) != 0;
	const uint64_t limit = (uint64_t)INT64_MAX + minus;
	size_t at = *text == '-' || *text == '+' ? 1 : hex ? 2 : 0;
	uint64_t sum = 0;

	for (; at < length && text[at] != 'L'; at++) {
		const char c = (char)tolower((unsigned char)text[at]);
		const uint64_t digit = (uint64_t)(c >= 'a' ? c - 'a' + 10 : c - '0');

		if (!__builtin_mul_overflow(sum, hex ? 16 : 10, &sum) &&
		    !__builtin_add_overflow(sum, digit, &sum) && sum <= limit)
			continue;
		hr_mistake(m, line, "the number %.*s%s does not fit: expected %lld to %lld",
			   (int)(length < QUOTED ? length : QUOTED), text,
			   length > QUOTED ? "..." : "", (long long)INT64_MIN,
			   (long long)INT64_MAX);
		return;
	}
}

/*
 * Compare two numbers without sign, leading zeros and zero fraction, which do not change the value.
 */
static bool same_digits(const char *text, size_t length, const char *exact)
{
	const size_t start = *text == '+' || *text == '-';
	const size_t zeros = start + strspn(text + start, "0");
	const size_t digits = decimals(text + zeros);

	for (size_t at = zeros + digits + 1; at < length; at++)
		if (text[at] != '0')
			return false;
	return strlen(exact) == digits && memcmp(text + zeros, exact, digits) == 0;
}

static const char *wrong_size(double value, bool zero)
{
	if (isinf(value))
		return "is too large: expected at most 1.8e308";
	if (!zero && fabs(value) < DBL_MIN)
		return "is too small: expected 0, or at least 2.2e-308";
	return NULL;
}

/* The part of a number before its exponent. */
struct mantissa {
	size_t length;
	bool digits, zero;
};

static struct mantissa scan_mantissa(const char *text, size_t length)
{
	struct mantissa m = { .zero = true };

	for (; m.length < length && text[m.length] != 'e' && text[m.length] != 'E'; m.length++) {
		const bool digit = isdigit((unsigned char)text[m.length]) != 0;

		m.digits |= digit;
		m.zero &= !digit || text[m.length] == '0';
	}
	return m;
}

static void check_real(struct hr_mistakes *m, unsigned line, const char *text, size_t length)
{
	const int shown = (int)(length < QUOTED ? length : QUOTED);
	const char *dots = length > QUOTED ? "..." : "";
	const struct mantissa mantissa = scan_mantissa(text, length);
	const double value = strtod(text, NULL);
	const char *wrong = wrong_size(value, mantissa.zero);
	char exact[DBL_MAX_10_EXP + 3];

	if (!mantissa.digits) {
		hr_mistake(m, line, "'%.*s%s' is not a number: expected digits", shown, text, dots);
		return;
	}
	if (wrong) {
		hr_mistake(m, line, "the number %.*s%s %s", shown, text, dots, wrong);
		return;
	}
	snprintf(exact, sizeof exact, "%.0f", fabs(value));
	if (fabs(value) < DOUBLE_EXACT || mantissa.length < length ||
	    same_digits(text, length, exact))
		return;
	hr_mistake(m, line, "the number %.*s%s is not exact: it would become %s%.60s", shown, text,
		   dots, value < 0 ? "-" : "", exact);
}

void hr_number_check(struct hr_mistakes *m, unsigned line, const char *text,
		     const struct hr_number *number)
{
	if (number->integer)
		check_integer(m, line, text, number->length);
	else
		check_real(m, line, text, number->length);
}
